/* The keys by which a replica joins an ensemble that its file does not list, or founds one. */
#include "server/config/config.h"
#include "tests/lib/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEAD "id=4\ndataDir=/d\n"
#define OWN  "advertisePeer=127.0.0.1:2004\n"

static struct config config; /* Too large for the stack. */
static struct config_report report;
static char dir[32];
static char path[64];
static char secret_path[64];

static void write_file(const char *name, const char *text)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static void make_dir(void)
{
    (void)snprintf(dir, sizeof dir, "/tmp/zabra-join-XXXXXX");
    assert_non_null(mkdtemp(dir));
    (void)snprintf(path, sizeof path, "%s/zabra.cfg", dir);
    (void)snprintf(secret_path, sizeof secret_path, "%s/secret", dir);
    write_file(secret_path, "a secret that is long enough\n");
}

static void remove_dir(void)
{
    (void)unlink(path);
    (void)unlink(secret_path);
    assert_int_equal(rmdir(dir), 0);
}

static void load(const char *text)
{
    struct config_sources sources = {.file = path};

    write_file(path, text);
    if (config_load(&sources, &config, &report)) {
        fail_msg("%s", report.error);
    }
}

static void refused(const char *text, const char *part, const char *other)
{
    struct config_sources sources = {.file = path};

    write_file(path, text);
    assert_int_equal(config_load(&sources, &config, &report), ERR_CONFIG);
    if (!strstr(report.error, part) || !strstr(report.error, other)) {
        fail_msg("\"%s\" names not \"%s\" and \"%s\"", report.error, part, other);
    }
}

TEST(a_replica_that_joins_needs_no_list, make_dir, remove_dir)
{
    load(HEAD OWN "join=127.0.0.1:1001, localhost:1002,[::1]:1003\nzone=rack-4\n");
    assert_int_equal(config.peers.join_count, 3);
    assert_string_equal(config.peers.joins[0].host, "127.0.0.1");
    assert_int_equal(config.peers.joins[0].port, 1001);
    assert_string_equal(config.peers.joins[1].host, "localhost");
    assert_string_equal(config.peers.joins[2].host, "::1");
    assert_int_equal(config.peers.joins[2].port, 1003);
    assert_int_equal(config.peers.server_count, 0);
    assert_null(config_self(&config));
    assert_string_equal(config.peers.zone, "rack-4");
    assert_string_equal(config.peers.own.host, "127.0.0.1");
    assert_int_equal(config.peers.own.port, 2004);
    assert_string_equal(config.peers.host, "127.0.0.1"); /* It listens there. */
    assert_int_equal(config.peers.port, 2004);
}

TEST(the_own_address_is_that_of_the_first_key_that_has_it, make_dir, remove_dir)
{
    load(HEAD "join=127.0.0.1:1001\npeerListen=127.0.0.1:3004\n");
    assert_int_equal(config.peers.own.port, 3004);
    load(HEAD OWN "join=127.0.0.1:1001\npeerListen=127.0.0.1:3004\n");
    assert_int_equal(config.peers.own.port, 2004);
    assert_int_equal(config.peers.port, 3004);
    load(HEAD "join=127.0.0.1:1001\nserver.4=127.0.0.1:5004\n");
    assert_int_equal(config.peers.own.port, 5004);
    load(HEAD OWN "join=127.0.0.1:1001\nserver.4=127.0.0.1:5004\n");
    assert_int_equal(config.peers.own.port, 2004);
    assert_int_equal(config.peers.port, 5004);
    refused(HEAD "join=127.0.0.1:1001\n", "advertisePeer: missing", "zk4:10998");
    refused(HEAD "join=127.0.0.1:1001\npeerListen=0.0.0.0:3004\n", "advertisePeer: missing",
            "host:port");
}

/* Lines of servers and join are both places where others may be. */
TEST(join_and_a_list_go_together, make_dir, remove_dir)
{
    load(HEAD "join=127.0.0.1:1001\nserver.4=127.0.0.1:5004\nserver.1=127.0.0.1:5001\n");
    assert_int_equal(config.peers.server_count, 2);
    load(HEAD OWN "join=127.0.0.1:1001\nserver.1=127.0.0.1:5001\n");
    assert_null(config_self(&config));
    refused(HEAD OWN "server.1=127.0.0.1:5001\n", "id: 4 is not in the list", "server.4");
}

TEST(malformed_addresses_are_refused, make_dir, remove_dir)
{
    static const char *const bad[] = {"127.0.0.1", "zk1:",     "zk1:0",       "zk1:65536",
                                      ":10998",    "zk 1:9",   "0.0.0.0:9",   "[::]:9",
                                      "[::1:9",    "a:1,,b:2", "http://zk1:9"};
    char text[256];

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        (void)snprintf(text, sizeof text, HEAD OWN "join=%s\n", bad[i]);
        refused(text, "join: \"", "host:port");
    }
    refused(HEAD "join=127.0.0.1:1\nadvertisePeer=0.0.0.0:9\n", "advertisePeer: \"0.0.0.0:9\"",
            "zk4:10998");
    refused(HEAD "join=127.0.0.1:1\nadvertisePeer=127.0.0.1\n", "advertisePeer: \"", "host:port");
    refused(HEAD OWN "join=127.0.0.1:1\nzone=rack 4\n", "zone: \"rack 4\"", "word");
    refused(HEAD OWN "join=a:1,a:2,a:3,a:4,a:5,a:6,a:7,a:8,a:9,a:10,a:11,a:12,a:13,a:14,a:15,a:16,"
                     "a:17\n",
            "join: more than 16", "one name");
}

TEST(replicas_up_to_bootstrap_found, make_dir, remove_dir)
{
    load(HEAD OWN "join=127.0.0.1:1001\nbootstrap=4\n");
    assert_int_equal(config.peers.bootstrap, 4);
    load(HEAD OWN "join=127.0.0.1:1001\nbootstrap=3\n"); /* It joins only. */
    assert_int_equal(config.peers.bootstrap, 3);
    refused(HEAD OWN "bootstrap=3\n", "bootstrap: join is missing", "replicas 1 to 3");
    refused(HEAD "join=127.0.0.1:1001\nserver.4=127.0.0.1:5004\nbootstrap=3\n",
            "bootstrap: ", "server.N");
    refused(HEAD OWN "join=127.0.0.1:1001\nbootstrap=65\n", "bootstrap: \"65\"", "0 to 64");
}

/* Alone, but others may join it later. */
TEST(an_ensemble_of_one_may_have_an_address, make_dir, remove_dir)
{
    load(HEAD OWN);
    assert_true(config.peers.is_alone);
    assert_int_equal(config_self(&config)->port, 2004);
    assert_int_equal(config.peers.port, 2004);
    load(HEAD);
    assert_true(config.peers.is_alone);
    assert_int_equal(config.peers.port, 0);
    refused(HEAD "peerListen=127.0.0.1:3004\n", "peerListen", "no server.N is given");
}

TEST(addresses_beyond_loopback_need_proof, make_dir, remove_dir)
{
    char text[512];

    refused(HEAD OWN "join=zk1:1001\n", "peerSecretFile: missing", "join (zk1) is beyond");
    refused(HEAD "advertisePeer=zk4:1001\njoin=127.0.0.1:1001\n", "peerSecretFile: missing",
            "advertisePeer (zk4:1001) is beyond");
    (void)snprintf(text, sizeof text, HEAD OWN "join=zk1:1001\npeerSecretFile=%s\n", secret_path);
    refused(text, "peerTls: off", "join (zk1)");
    (void)snprintf(text, sizeof text, HEAD OWN "join=zk1:1\npeerSecretFile=%s\npeerTls=required\n",
                   secret_path);
    load(text);
}

TEST(auto_join_is_off_unless_asked_for, make_dir, remove_dir)
{
    load(HEAD);
    assert_int_equal(config.peers.auto_join, CONFIG_AUTO_JOIN_OFF);
    assert_int_equal(config.peers.observers_max, 16);
    load(HEAD "autoJoin=observer\nmaxObservers=2\n");
    assert_int_equal(config.peers.auto_join, CONFIG_AUTO_JOIN_OBSERVER);
    assert_int_equal(config.peers.voters_max, 5);
    assert_int_equal(config.peers.observers_max, 2);
    load(HEAD "autoJoin=voter\nmaxVoters=7\n");
    assert_int_equal(config.peers.auto_join, CONFIG_AUTO_JOIN_VOTER);
    assert_int_equal(config.peers.voters_max, 7);
    refused(HEAD "autoJoin=leader\n", "autoJoin", "off, observer, voter");
}
