/* The configuration: sources and their order, and each kind of mistake with its one-line error. */
#include "base/buf.h"
#include "base/minmax.h"
#include "base/os_process.h"
#include "server/config/config.h"
#include "tests/lib/config_kit.h"
#include "tests/lib/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static struct config config; /* Too large for the stack. */
static struct config_report report;
static char dir[32];
static char path[64];
static char secret_path[64];

static const char *write_file(const char *name, const char *text, mode_t mode)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);

    assert_true(fd >= 0);
    assert_int_equal(fchmod(fd, mode), 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    return name;
}

static void make_dir(void)
{
    (void)snprintf(dir, sizeof(dir), "/tmp/zabra-config-XXXXXX");
    assert_non_null(mkdtemp(dir));
    (void)snprintf(path, sizeof(path), "%s/zabra.cfg", dir);
    (void)snprintf(secret_path, sizeof(secret_path), "%s/secret", dir);
}

static void remove_dir(void)
{
    (void)unlink(path);
    (void)unlink(secret_path);
    assert_int_equal(rmdir(dir), 0);
}

static enum err load_text(const char *text)
{
    struct config_sources sources = {.file = write_file(path, text, 0600)};

    return config_load(&sources, &config, &report);
}

/* The text is refused with one line that contains both parts. */
static void assert_refused(const char *text, const char *part, const char *other)
{
    assert_int_equal(load_text(text), ERR_CONFIG);
    if (!strstr(report.error, part) || !strstr(report.error, other)) {
        fail_msg("\"%s\" names not \"%s\" and \"%s\"", report.error, part, other);
    }
    assert_null(strchr(report.error, '\n'));
}

TEST(defaults, make_dir, remove_dir)
{
    assert_int_equal(load_text("id=3\ndataDir=/d\n"), ERR_OK);
    assert_int_equal(config.id, 3);
    assert_string_equal(config.storage.data_dir, "/d");
    assert_string_equal(config.clients.client_address, "127.0.0.1");
    assert_int_equal(config.clients.client_port, 9998);
    assert_int_equal(config.zab.tick_ms, 1000);
    assert_int_equal(config.zab.sync_limit, 3);
    assert_int_equal(config.clients.data_bytes_max, 1 << 20);
    assert_int_equal(config.storage.snap_count, 100000);
    assert_int_equal(config.storage.wal_segment_bytes, 32 << 20);
    assert_int_equal(config.process.log_level, 1);
    assert_false(config.clients.insecure);
    assert_int_equal(report.warning_count, 0);
}

TEST(serving_may_outlast_readiness, make_dir, remove_dir)
{
    assert_int_equal(load_text("id=3\ndataDir=/d\n"), ERR_OK);
    assert_int_equal(config.process.drain_delay_ms, 0);
    assert_int_equal(load_text("id=3\ndataDir=/d\ndrainDelay=5000\n"), ERR_OK);
    assert_int_equal(config.process.drain_delay_ms, 5000);
    assert_refused("id=3\ndataDir=/d\ndrainDelay=3600001\n", "drainDelay", "3600000");
    assert_refused("id=3\ndataDir=/d\ndrainDelay=5s\n", "drainDelay", "5s");
}

TEST(one_address_may_have_a_quarter_of_the_connections, make_dir, remove_dir)
{
    assert_int_equal(load_text("id=3\ndataDir=/d\n"), ERR_OK);
    assert_int_equal(config.clients.connections_per_address_max, 2500);
    assert_int_equal(load_text("id=3\ndataDir=/d\nmaxConnections=3\n"), ERR_OK);
    assert_int_equal(config.clients.connections_per_address_max, 1);
    assert_int_equal(load_text("id=3\ndataDir=/d\nmaxConnectionsPerAddress=9000\n"), ERR_OK);
    assert_int_equal(config.clients.connections_per_address_max, 9000);
}

TEST(bounds_of_memory_follow_the_machine, make_dir, remove_dir)
{
    uint64_t machine = os_memory_max();
    uint64_t pool = min_u64(256 << 20, machine / 32);

    assert_int_equal(load_text("id=3\ndataDir=/d\nmaxMultiBytes=65536\nmaxDataBytes=1024\n"
                               "maxMessageBytes=65536\n"),
                     ERR_OK);
    assert_int_equal(config.tree.bytes_max, machine / 2);
    assert_int_equal(config.clients.pool_bytes_max, pool);
    assert_int_equal(config.clients.unsent_bytes_max, pool);
    assert_int_equal(config.clients.address_pool_max, pool / 4);
    assert_int_equal(load_text("id=3\ndataDir=/d\nmaxConnectionsPerAddress=1\n"), ERR_OK);
    assert_int_equal(config.clients.address_pool_max, 3 * config.clients.multi_bytes_max);
    assert_int_equal(load_text("id=3\ndataDir=/d\nmaxUnsentBytes=16777216\n"), ERR_OK);
    assert_int_equal(config.clients.unsent_bytes_max, 16 << 20);
    assert_refused("id=3\ndataDir=/d\nmaxUnsentBytes=1000\n", "maxUnsentBytes", "16777216");
}

TEST(probes_may_have_a_port_of_their_own, make_dir, remove_dir)
{
    assert_int_equal(load_text("id=3\ndataDir=/d\n"), ERR_OK);
    assert_string_equal(config.clients.probe_address, "");
    assert_int_equal(load_text("id=3\ndataDir=/d\nprobeListen=127.0.0.1:9990\n"), ERR_OK);
    assert_string_equal(config.clients.probe_address, "127.0.0.1");
    assert_int_equal(config.clients.probe_port, 9990);
    assert_int_equal(load_text("id=3\ndataDir=/d\nprobeListen=[::1]:9990\n"), ERR_OK);
    assert_string_equal(config.clients.probe_address, "::1");
    assert_refused("id=3\ndataDir=/d\nprobeListen=127.0.0.1:0\n", "probeListen", "port");
    assert_refused("id=3\ndataDir=/d\nprobeListen=9990\n", "probeListen", "127.0.0.1:9990");
    assert_refused("id=3\ndataDir=/d\nprobeListen=localhost:9990\n", "probeListen", "numeric");
    assert_refused("id=3\ndataDir=/d\nprobeListen=127.0.0.1:9998\n", "probeListen", "clientPort");
    assert_true(config.clients.probe_metrics);
    assert_int_equal(load_text("id=3\ndataDir=/d\nprobeListen=0.0.0.0:9990\n"), ERR_OK);
    assert_false(config.clients.probe_metrics);
    assert_int_equal(load_text("id=3\ndataDir=/d\nprobeListen=0.0.0.0:9990\ninsecure=true\n"),
                     ERR_OK);
    assert_true(config.clients.probe_metrics);
}

static enum err load_named(const char *text, const char *host_name)
{
    struct config_sources sources = {.file = write_file(path, text, 0600), .host_name = host_name};

    return config_load(&sources, &config, &report);
}

TEST(the_name_of_the_machine_may_give_the_id, make_dir, remove_dir)
{
    static const struct {
        const char *name;
        uint32_t id; /* 0: refused. */
        const char *why;
    } names[] = {
        {"zabra-0", 1, ""},
        {"zabra-2.zabra-peers.default.svc.cluster.local", 3, ""},
        {"a-1-b-10", 11, ""},
        {"zabra-65534", 65535, ""},
        {"zabra-65535", 0, "\"zabra-65535\", ends with a number above 65534"},
        {"zabra-18446744073709551616", 0, "does not end with '-' and a number"},
        {"zabra", 0, "\"zabra\", does not end with '-' and a number"},
        {"zabra-", 0, "does not end with '-' and a number"},
        {"zabra-00", 0, "does not end with '-' and a number"},
        {"zabra-1a", 0, "does not end with '-' and a number"},
        {"3f2a9c0d5b78", 0, "does not end with '-' and a number"},
        {"zabra.rack-1", 0, "\"zabra\", does not end with '-' and a number"},
        {NULL, 0, "\"\", does not end with '-' and a number"},
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        enum err err = load_named("id=auto:hostname\ndataDir=/d\n", names[i].name);

        assert_int_equal(err, names[i].id ? ERR_OK : ERR_CONFIG);
        if (names[i].id) {
            assert_int_equal(config.id, names[i].id);
        } else if (!strstr(report.error, names[i].why) || !strstr(report.error, "line 1")) {
            fail_msg("\"%s\" does not say \"%s\"", report.error, names[i].why);
        }
    }
    assert_int_equal(load_named("id=7\ndataDir=/d\n", "zabra-0"), ERR_OK);
    assert_int_equal(config.id, 7);
    assert_refused("id=auto\ndataDir=/d\n", "\"auto\" is not allowed", "or auto:hostname");
}

static void expect_probe(const char *text, const char *host, uint16_t port, bool is_secure)
{
    struct config_sources sources = {.file = write_file(path, text, 0600)};
    struct config_probe probe;
    char error[CONFIG_ERROR_MAX];

    assert_int_equal(config_find_probe(&sources, &probe, error), ERR_OK);
    assert_string_equal(probe.host, host);
    assert_int_equal(probe.port, port);
    assert_int_equal(probe.is_secure, is_secure);
}

static void expect_no_probe(const char *text, const char *why)
{
    struct config_sources sources = {.file = write_file(path, text, 0600)};
    struct config_probe probe;
    char error[CONFIG_ERROR_MAX];

    assert_int_equal(config_find_probe(&sources, &probe, error), ERR_CONFIG);
    assert_non_null(strstr(error, why));
}

/* What a supervisor asks follows from the configuration, also without its required keys, and
 * without the secrets that it names. */
TEST(a_probe_finds_the_replica_of_this_machine, make_dir, remove_dir)
{
    expect_probe("", "127.0.0.1", 9998, false);
    expect_probe("clientAddress=0.0.0.0\nclientPort=8000\n", "127.0.0.1", 8000, false);
    expect_probe("clientAddress=::\n", "::1", 9998, false);
    expect_probe("clientAddress=10.1.2.3\npeerSecretFile=/nope\n", "10.1.2.3", 9998, false);
    expect_probe("clientTls=optional\n", "127.0.0.1", 9998, false);
    expect_probe("clientTls=required\nclientCertificates=ask\n", "127.0.0.1", 9998, true);
    expect_probe("clientTls=optional\nclientCertificates=required\n", "127.0.0.1", 9998, false);
    expect_probe("clientTls=required\nclientCertificates=required\nprobeListen=0.0.0.0:7000\n",
                 "127.0.0.1", 7000, false);
    expect_probe("probeListen=[::]:7000\n", "::1", 7000, false);
    expect_no_probe("clientTls=required\nclientCertificates=required\n", "give probeListen");
    expect_no_probe("probeListen=localhost:7000\n", "probeListen");
    expect_no_probe("nonsense=1\n", "unknown key");
}

/* The rules for addresses apply to the listening address, not to the addresses in the list. */
TEST(peers_may_be_listened_for_elsewhere, make_dir, remove_dir)
{
#define LIST "id=3\ndataDir=/d\nserver.3=127.0.0.1:1003\nserver.4=127.0.0.1:1004:observer\n"
    assert_int_equal(load_text(LIST), ERR_OK);
    assert_string_equal(config.peers.host, "127.0.0.1");
    assert_int_equal(config.peers.port, 1003);
    assert_int_equal(load_text(LIST "peerListen=127.0.0.2:2003\n"), ERR_OK);
    assert_string_equal(config.peers.host, "127.0.0.2");
    assert_int_equal(config.peers.port, 2003);
    assert_int_equal(load_text(LIST "peerListen=[::1]:2003\n"), ERR_OK);
    assert_string_equal(config.peers.host, "::1");
    assert_refused(LIST "peerListen=0.0.0.0:2003\n", "peerSecretFile", "peerListen (0.0.0.0:2003)");
    assert_refused(LIST "peerListen=[::]:2003\n", "peerSecretFile", "peerListen ([::]:2003)");
    assert_refused(LIST "peerListen=zk3.example:2003\n", "peerListen", "numeric");
    assert_refused(LIST "peerListen=127.0.0.1\n", "peerListen", "0.0.0.0:10998");
    assert_refused(LIST "peerListen=[::1]:0\n", "peerListen", "port");
    assert_refused(LIST "peerListen=127.0.0.1:9998\n", "peerListen", "is also that of clientPort");
    assert_refused(LIST "probeListen=127.0.0.1:9990\npeerListen=127.0.0.1:9990\n", "peerListen",
                   "is also that of probeListen");
    assert_refused("id=3\ndataDir=/d\npeerListen=127.0.0.1:2003\n", "peerListen",
                   "no server.N is given");
#undef LIST
}

TEST(single_replica, make_dir, remove_dir)
{
    assert_int_equal(load_text("id=7\ndataDir=/d\n"), ERR_OK);
    assert_int_equal(config.peers.server_count, 1);
    assert_int_equal(config_self(&config)->id, 7);
    assert_int_equal(config_self(&config)->port, 0);
    assert_true(config_self(&config)->voter);
}

TEST(sources_have_an_order, make_dir, remove_dir)
{
    static const char *const env[] = {
        "ZABRA_CLIENT_PORT=2",         "ZABRA_TICK_TIME=22",    "HOME=/",
        "ZABRA_SERVER_2=localhost:22", "ZABRA_SERVER_PORT=tcp", NULL};
    static const char *const args[] = {"--tickTime=33", "--logLevel", "warn", "--server.3",
                                       "localhost:33:observer"};
    struct config_sources sources = {
        .file = write_file(path,
                           "# comment\n\n  id = 1  \ndataDir=/d\nclientPort=1\ntickTime=11\n"
                           "logLevel=error\nserver.1=localhost:1\nserver.2=localhost:2\n"
                           "server.3=localhost:3\nsnapCount=77",
                           0600),
        .env = env,
        .args = args,
        .arg_count = 5};

    assert_int_equal(config_load(&sources, &config, &report), ERR_OK);
    assert_int_equal(config.storage.snap_count, 77);
    assert_int_equal(config.clients.client_port, 2);
    assert_int_equal(config.zab.tick_ms, 33);
    assert_int_equal(config.process.log_level, 2);
    assert_int_equal(config.peers.server_count, 3);
    assert_int_equal(config.peers.servers[0].port, 1);
    assert_int_equal(config.peers.servers[1].port, 22);
    assert_int_equal(config.peers.servers[2].port, 33);
    assert_false(config.peers.servers[2].voter);
    assert_int_equal(report.warning_count, 1); /* Two voters. */
    assert_non_null(strstr(report.warnings[0], "server.N"));
}

TEST(a_flag_needs_no_value, make_dir, remove_dir)
{
    static const char *const args[] = {"--id"};
    static const char *const stray[] = {"id=1"};
    static const char *const unknown[] = {"--nope"};
    struct config_sources sources = {.args = args, .arg_count = 1};

    assert_int_equal(config_load(&sources, &config, &report), ERR_CONFIG);
    assert_non_null(strstr(report.error, "--id: the value is missing"));
    sources.args = unknown;
    assert_int_equal(config_load(&sources, &config, &report), ERR_CONFIG);
    assert_non_null(strstr(report.error, "nope: unknown key (flag --nope)"));
    sources.args = stray;
    assert_int_equal(config_load(&sources, &config, &report), ERR_CONFIG);
    assert_non_null(strstr(report.error, "write --key value"));
}

TEST(unknown_key, make_dir, remove_dir)
{
    assert_refused("id=1\ndataDir=/d\nclientport=1\n", "clientport: unknown key (zabra.cfg line 3)",
                   "did you mean clientPort?");
    assert_refused("snapcont=1\n", "snapcont", "did you mean snapCount?");
    assert_refused("quxquxquxqux=1\n", "unknown key", "zabra help serve");
    assert_refused("no equals\n", "no '=' (zabra.cfg line 1)", "key=value");
    assert_null(strstr(report.error, "equals"));
}

TEST(bad_values, make_dir, remove_dir)
{
    assert_refused("clientPort=abc\n", "clientPort: \"abc\"", "from 1 to 65535");
    assert_refused("clientPort=0\n", "clientPort", "from 1 to 65535");
    assert_refused("clientPort=65536\n", "clientPort", "from 1 to 65535");
    assert_refused("tickTime=-5\n", "tickTime", "number");
    assert_refused("tickTime=99999999999999999999999\n", "tickTime", "number");
    assert_refused("tickTime=\n", "tickTime", "number");
    assert_refused("httpThreads=65\n", "httpThreads", "from 1 to 64");
    assert_refused("maxPeerQueueBytes=1048576\n", "maxPeerQueueBytes", "from 20971520 to");
    assert_refused("logFormat=xml\n", "logFormat", "plain, json");
    assert_refused("insecure=yes\n", "insecure", "true or false");
    assert_refused("dataDir=\n", "dataDir", "empty");
    assert_refused("id=1\nid=2\n", "id: given twice (zabra.cfg line 2)", "remove");
    assert_refused("id=1\ndataDir=/d\nwalSegmentBytes=65537\n", "walSegmentBytes", "4096");
    assert_refused("id=1\ndataDir=/d\nmaxDataBytes=8388608\n", "maxMultiBytes", "at least");
}

TEST(sessions, make_dir, remove_dir)
{
    assert_int_equal(load_text("id=1\ndataDir=/d\ntickTime=1000\nminSessionTimeout=2000\n"),
                     ERR_OK);
    assert_refused("id=1\ndataDir=/d\nminSessionTimeout=70000\n", "minSessionTimeout: 70000",
                   "maxSessionTimeout=60000");
    assert_refused("id=1\ndataDir=/d\nmaxSessionTimeout=10000\n", "sessionTimeout: 15000",
                   "maxSessionTimeout=10000");
    assert_refused("id=1\ndataDir=/d\nsessionTimeout=1000\n", "sessionTimeout: 1000",
                   "minSessionTimeout=2000");
    assert_refused("id=1\ndataDir=/d\nminSessionTimeout=1999\n", "minSessionTimeout: 1999",
                   "at least 2000");
    assert_refused("id=1\ndataDir=/d\ntickTime=2000\nminSessionTimeout=2000\n",
                   "minSessionTimeout: 2000", "at least 4000");
}

/* Setting the tick alone, in any source, also moves the defaults that depend on it. */
TEST(the_least_session_timeout_follows_the_tick, make_dir, remove_dir)
{
    static const char *const args[] = {"--id=1", "--dataDir=/d", "--tickTime=3000"};
    const struct config_sources sources = {.args = args, .arg_count = 3};

    assert_int_equal(load_text("id=1\ndataDir=/d\ntickTime=2000\n"), ERR_OK);
    assert_int_equal(config.tree.session_min_ms, 4000);
    assert_int_equal(load_text("id=1\ndataDir=/d\ntickTime=200\n"), ERR_OK);
    assert_int_equal(config.tree.session_min_ms, 400);
    assert_int_equal(load_text("id=1\ndataDir=/d\ntickTime=10\n"), ERR_OK);
    assert_int_equal(config.tree.session_min_ms, 100); /* The least that a client may request. */
    assert_int_equal(load_text("id=1\ndataDir=/d\ntickTime=200\nminSessionTimeout=900\n"), ERR_OK);
    assert_int_equal(config.tree.session_min_ms, 900);
    assert_int_equal(config_load(&sources, &config, &report), ERR_OK);
    assert_int_equal(config.tree.session_min_ms, 6000);
}

TEST(web_dir, make_dir, remove_dir)
{
    assert_int_equal(load_text("id=1\ndataDir=/d\nwebDir=/tmp\n"), ERR_OK);
    assert_refused("id=1\ndataDir=/d\nwebDir=/tmp/zabra-no-such\n", "webDir", "web/build.mjs");
    assert_refused("id=1\ndataDir=/d\nwebDir=/dev/null\n", "webDir", "not a directory");
}

TEST(super_digest, make_dir, remove_dir)
{
    assert_int_equal(load_text("id=1\ndataDir=/d\nsuperDigest=root:AAAAAAAAAAAAAAAAAAAAAAAAAAA=\n"),
                     ERR_OK);
    assert_int_equal(load_text("id=1\ndataDir=/d\nsuperDigest=\n"), ERR_OK);
    assert_refused("id=1\ndataDir=/d\nsuperDigest=root\n", "superDigest", "openssl sha1");
    assert_refused("id=1\ndataDir=/d\nsuperDigest=:AAAAAAAAAAAAAAAAAAAAAAAAAAA=\n", "superDigest",
                   "openssl sha1");
    assert_refused("id=1\ndataDir=/d\nsuperDigest=root:password\n", "superDigest", "openssl sha1");
    assert_refused("id=1\ndataDir=/d\nsuperDigest=root:AAAA\n", "superDigest", "openssl sha1");
    assert_null(strstr(report.error, "root"));
    assert_null(strstr(report.error, "AAAA"));
}

TEST(trusted_proxies, make_dir, remove_dir)
{
    assert_int_equal(load_text("id=1\ndataDir=/d\ntrustedProxies=10.0.0.5, 2001:db8::/64\n"),
                     ERR_OK);
    assert_int_equal(config.clients.proxy_count, 2);
    assert_int_equal(config.clients.proxies[0].bits, 128);
    assert_int_equal(config.clients.proxies[1].bits, 64);
    assert_int_equal(load_text("id=1\ndataDir=/d\n"), ERR_OK);
    assert_int_equal(config.clients.proxy_count, 0);
    assert_refused("id=1\ndataDir=/d\ntrustedProxies=proxy.example\n", "\"proxy.example\"",
                   "10.0.0.0/24");
    assert_refused("id=1\ndataDir=/d\ntrustedProxies=10.0.0.1,,10.0.0.2\n", "trustedProxies: \"\"",
                   "10.0.0.0/24");
    assert_refused("id=1\ndataDir=/d\ntrustedProxies=10.0.0.0/33\n", "10.0.0.0/33", "block");
    assert_refused("id=1\ndataDir=/d\ntrustedProxies=0.0.0.0/0\n", "trusts every client",
                   "addresses of the proxies");
    assert_refused("id=1\ndataDir=/d\ntrustedProxies=::/0\n", "trusts every client",
                   "addresses of the proxies");
}

TEST(required, make_dir, remove_dir)
{
    assert_refused("dataDir=/d\n", "id: missing", "--id VALUE");
    assert_refused("id=1\n", "dataDir: missing", "--dataDir VALUE");
}

TEST(servers, make_dir, remove_dir)
{
    assert_refused("id=4\ndataDir=/d\nserver.1=localhost:1\n", "id: 4 is not in the list",
                   "server.4=");
    assert_refused("server.1=localhost:1\nserver.01=localhost:2\n", "server.1: given twice",
                   "line 2");
    assert_refused("id=1\ndataDir=/d\nserver.1=localhost:1\nserver.2=localhost:1\n", "server.2",
                   "same address");
    assert_refused("server.1=localhost:2888:3888\n", "server.1", "one peer port");
    assert_refused("server.1=localhost\n", "server.1", "no port");
    assert_refused("server.1=:1\n", "server.1", "no host");
    assert_refused("server.1=localhost:70000\n", "server.1", "port");
    assert_refused("server.0=localhost:1\n", "server.0", "from 1");
    assert_refused("server.x=localhost:1\n", "server.x", "from 1");
    assert_refused("id=1\ndataDir=/d\nserver.1=localhost:1:observer\n", "server.1", "must vote");
    assert_int_equal(load_text("id=1\ndataDir=/d\nserver.1=[::1]:9:participant\n"), ERR_OK);
    assert_string_equal(config.peers.servers[0].host, "::1");
    assert_int_equal(config.peers.servers[0].port, 9);
}

TEST(addresses_beyond_loopback_need_protection, make_dir, remove_dir)
{
    assert_refused("id=1\ndataDir=/d\nserver.1=localhost:1\nserver.2=10.0.0.2:1\n",
                   "peerSecretFile: missing", "server.2");
    assert_refused("id=1\ndataDir=/d\nclientAddress=0.0.0.0\n", "clientAddress", "insecure=true");
    assert_refused("id=1\ndataDir=/d\nclientAddress=localhost\n", "clientAddress", "numeric");
    assert_int_equal(load_text("id=1\ndataDir=/d\nclientAddress=0.0.0.0\ninsecure=true\n"), ERR_OK);
    assert_true(config_is_loopback("127.8.9.1"));
    assert_true(config_is_loopback("::1"));
    assert_false(config_is_loopback("127.example.org"));
}

#define TLS "id=1\ndataDir=/d\ntlsCertFile=/c\ntlsKeyFile=/k\n"

TEST(tls_needs_its_files_and_makes_an_address_safe, make_dir, remove_dir)
{
    assert_refused("id=1\ndataDir=/d\nclientTls=optional\n", "tlsCertFile: missing", "clientTls");
    assert_refused("id=1\ndataDir=/d\nclientTls=required\ntlsCertFile=/c\n", "tlsKeyFile: missing",
                   "tlsCertFile");
    assert_refused(TLS, "clientTls: off", "tlsCertFile");
    assert_refused(TLS "clientTls=on\n", "clientTls", "off, optional, required");
    assert_refused(TLS "clientTls=optional\nclientCertificates=ask\n", "clientCaFile: missing",
                   "clientCertificates");
    assert_refused(TLS "clientTls=optional\nclientCaFile=/a\n", "clientCertificates: off",
                   "clientCaFile");
    assert_refused(TLS "clientTls=optional\nclientCrlFile=/r\n", "clientCrlFile", "clientCaFile");
    assert_refused("id=1\ndataDir=/d\nclientCertificates=ask\n", "clientCertificates",
                   "clientTls=optional");
    assert_refused(TLS "clientTls=optional\nsuperX509=CN=a\n", "superX509", "clientCertificates");
    assert_refused(TLS "clientTls=optional\ntlsHsts=1000\n", "tlsHsts", "clientTls=required");
    assert_refused(TLS "clientTls=required\ntlsHsts=999\n", "tlsHsts", "at least 1000 ms");
    assert_refused(TLS "clientTls=required\ntlsHsts=1\n", "tlsHsts", "at least 1000 ms");
    /* Plain connections are still possible with `optional`. */
    assert_refused(TLS "clientTls=optional\nclientAddress=0.0.0.0\n", "clientAddress",
                   "clientTls=required");
    assert_int_equal(load_text(TLS "clientTls=required\nclientAddress=0.0.0.0\ntlsHsts=1000\n"),
                     ERR_OK);
    assert_int_equal(config.clients.tls.mode, CONFIG_TLS_REQUIRED);
    assert_int_equal(config.clients.tls.hsts_ms, 1000);
    assert_int_equal(config.clients.tls.handshakes_max, 1024);
    /* The probes' own socket stays plain. */
    assert_int_equal(load_text(TLS "clientTls=required\nprobeListen=0.0.0.0:9\n"), ERR_OK);
    assert_false(config.clients.probe_metrics);
    assert_int_equal(load_text(TLS "clientTls=required\nclientCertificates=required\n"
                                   "clientCaFile=/a\nclientCrlFile=/r\nx509Identity=san-uri\n"
                                   "superX509=CN=root,O=b\n"),
                     ERR_OK);
    assert_int_equal(config.clients.tls.clients, 2);
    assert_int_equal(config.clients.tls.identity, 2);
    assert_string_equal(config.clients.tls.super_x509, "CN=root,O=b");
}

static enum err load_with_secret(const char *secret, mode_t mode)
{
    char text[256];

    write_file(secret_path, secret, mode);
    (void)snprintf(text, sizeof(text),
                   "id=1\ndataDir=/d\npeerSecretFile=%s\nserver.1=a.example:1\npeerTls=required\n",
                   secret_path);
    return load_text(text);
}

TEST(secret, make_dir, remove_dir)
{
    assert_int_equal(load_with_secret("0123456789abcdef\r\n", 0600), ERR_OK);
    assert_int_equal(config.peers.secrets.count, 1);
    assert_int_equal(config.peers.secrets.items[0].len, 16);
    assert_memory_equal(config.peers.secrets.items[0].bytes, "0123456789abcdef", 16);
    assert_int_equal(load_with_secret("0123456789abcdef", 0644), ERR_CONFIG);
    assert_non_null(strstr(report.error, "chmod 600"));
    assert_int_equal(load_with_secret("0123456789abcde\n", 0600), ERR_CONFIG);
    assert_non_null(strstr(report.error, "16 to 1024"));
    assert_null(strstr(report.error, "0123456789"));
    assert_refused("id=1\ndataDir=/d\npeerSecretFile=/nonexistent\n", "peerSecretFile",
                   "cannot be read");
    assert_refused("id=1\ndataDir=/d\npeerSecretFile=/tmp\n", "peerSecretFile", "regular");
}

/* During a rotation the file has two lines. */
TEST(two_secrets, make_dir, remove_dir)
{
    assert_int_equal(load_with_secret("0123456789abcdef\n\nfedcba9876543210xyz\n", 0600), ERR_OK);
    assert_int_equal(config.peers.secrets.count, 2);
    assert_int_equal(config.peers.secrets.items[1].len, 19);
    assert_memory_equal(config.peers.secrets.items[1].bytes, "fedcba9876543210xyz", 19);
    assert_int_equal(load_with_secret("0123456789abcdef\nshort\n", 0600), ERR_CONFIG);
    assert_non_null(strstr(report.error, "in each line"));
    assert_int_equal(
        load_with_secret("0123456789abcdef\n1123456789abcdef\n2123456789abcdef\n", 0600),
        ERR_CONFIG);
    assert_non_null(strstr(report.error, "more than two lines"));
    assert_int_equal(load_with_secret("\r\n\n", 0600), ERR_CONFIG);
    assert_non_null(strstr(report.error, "is empty"));
}

TEST(tls_between_replicas, make_dir, remove_dir)
{
    char text[512];
    static const char base[] = "id=1\ndataDir=/d\nserver.1=localhost:1\n";

    assert_refused("id=1\ndataDir=/d\npeerTls=accept\n", "peerTls: accept", "peerSecretFile");
    assert_refused("id=1\ndataDir=/d\npeerTls=on\n", "peerTls", "required");
    assert_refused("id=1\ndataDir=/d\npeerCertFile=/c\n", "peerKeyFile: missing", "peerCertFile");
    assert_refused("id=1\ndataDir=/d\npeerCaFile=/c\n", "peerCertFile: missing", "peerCaFile");
    (void)snprintf(text, sizeof(text),
                   "%speerTls=required\npeerCertFile=/c\npeerKeyFile=/k\npeerCaFile=/a\n", base);
    assert_int_equal(load_text(text), ERR_OK);
    assert_int_equal(config.peers.tls, KEYS_REQUIRED);
    write_file(secret_path, "0123456789abcdef", 0600);
    for (enum keys_mode mode = KEYS_OFF; mode < KEYS_REQUIRED; mode++) {
        (void)snprintf(text, sizeof(text),
                       "id=1\ndataDir=/d\nserver.1=a.example:1\npeerSecretFile=%s\npeerTls=%s\n",
                       secret_path, keys_mode_name(mode));
        assert_refused(text, "beyond loopback", "insecure=true");
        (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "insecure=true\n");
        assert_int_equal(load_text(text), ERR_OK);
    }
    assert_refused("id=1\ndataDir=/d\nserver.1=a.example:1\npeerTls=dial\ninsecure=true\n"
                   "peerCertFile=/c\npeerKeyFile=/k\npeerCaFile=/a\n",
                   "peerSecretFile: missing", "server.1");
}

TEST(missing_file, make_dir, remove_dir)
{
    struct config_sources sources = {.file = "/nonexistent/zabra.cfg"};

    assert_int_equal(config_load(&sources, &config, &report), ERR_CONFIG);
    assert_non_null(strstr(report.error, "--config: /nonexistent/zabra.cfg"));
}

TEST(listing, make_dir, remove_dir)
{
    const struct config_row *rows;
    size_t count = config_rows(&rows);
    struct buf text;

    assert_int_equal(load_text("id=3\ndataDir=/d\nlogFormat=json\n"), ERR_OK);
    buf_init(&text, 1 << 16);
    config_kit_write(&config, &text);
    assert_int_equal(load_text(buf_cstr(&text)), ERR_OK);
    assert_int_equal(config.process.log_format, 1);
    buf_clear(&text);
    config_append_help(&text);
    for (size_t i = 0; i < count; i++) {
        assert_non_null(strstr(buf_cstr(&text), rows[i].key));
    }
    buf_release(&text);
}
