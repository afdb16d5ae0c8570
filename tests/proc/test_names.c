/* The address on which a replica listens for peers: its own name, which may get its address late,
 * or peerListen. The names are in a mount namespace of this program. */
#include "base/loop.h"
#include "base/os_clock.h"
#include "tests/lib/ports.h"
#include "tests/lib/unit.h"
#include "tests/proc/ensemble.h"
#include "tests/proc/shell.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    LOG_MAX = 1 << 20,
    ATTEMPTS_MS = 2000, /* Several attempts fit in. */
    AGAIN_MS = 10000,   /* The log repeats its first line after that, then after twice as long. */
    END_MS = 3000
};

static const char PEER_3[] = "peer 3 is connected";

static struct ensemble ensemble;
static char log_text[LOG_MAX];
static bool named; /* The mounts exist. */
static char names_path[ENSEMBLE_PATH_MAX + 16];
static char secret_path[ENSEMBLE_PATH_MAX + 16]; /* Written before the first replica starts. */

static void write_file(const char *path, int flags, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0600);

    assert_true(fd >= 0);
    assert_int_equal(fchmod(fd, 0644), 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static uint32_t log_count(uint32_t index, const char *text)
{
    uint32_t count = 0;
    int fd = open(ensemble.replicas[index].log, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, log_text, sizeof(log_text) - 1) : 0;

    if (fd >= 0) {
        close(fd);
    }
    log_text[got > 0 ? got : 0] = '\0';
    for (const char *at = strstr(log_text, text); at; at = strstr(at + 1, text)) {
        count++;
    }
    return count;
}

/* The log names the reason once, and again only after the interval. */
static void expect_said_rarely(uint32_t index, const char *text, uint64_t start_ms)
{
    uint32_t count = log_count(index, text);
    uint64_t passed_ms = os_now_ms() - start_ms;
    uint64_t pause_ms = AGAIN_MS;
    uint32_t most = 1;

    for (uint64_t at_ms = pause_ms; at_ms <= passed_ms; at_ms += pause_ms) {
        pause_ms *= 2;
        most++;
    }
    assert_in_range(count, 1, most);
}

static void skip_without_names(void)
{
    if (!named) {
        print_message("skipped: mounting needs root\n");
        skip();
    }
}

static bool shows(uint32_t index, const char *path, const char *text)
{
    (void)ensemble_call(&ensemble, index, "GET", path, NULL);
    return strstr(web_text(&ensemble.reply), text) != NULL;
}

/* Only names in the file have an address: the replica uses no name service. */
static bool mount_names(void)
{
    static int may = -1;
    char switch_path[ENSEMBLE_PATH_MAX + 16];

    (void)snprintf(names_path, sizeof(names_path), "%s/hosts", ensemble.dir);
    (void)snprintf(switch_path, sizeof(switch_path), "%s/nsswitch", ensemble.dir);
    write_file(names_path, O_TRUNC, "127.0.0.1 localhost\n");
    write_file(switch_path, O_TRUNC, "hosts: files\n");
    if (may < 0) {
        may = unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
    }
    return may && mount(names_path, "/etc/hosts", NULL, MS_BIND, NULL) == 0 &&
           mount(switch_path, "/etc/nsswitch.conf", NULL, MS_BIND, NULL) == 0;
}

/* Replaces a server's entry in one replica's configuration. */
static void set_server(uint32_t index, uint32_t id, const char *server)
{
    assert_int_equal(shell("sed -i 's/^server.%u=.*/server.%u=%s/' %s", id, id, server,
                           ensemble.replicas[index].config),
                     0);
}

/* Sets the entry of the first replica to `server`, unless NULL; all replicas have a secret. */
static void configure(uint32_t index, const char *server, const char *more)
{
    char lines[512];

    if (server) {
        set_server(index, 1, server);
    }
    (void)snprintf(lines, sizeof(lines), "peerSecretFile=%s\npeerTls=required\n%s", secret_path,
                   more);
    write_file(ensemble.replicas[index].config, O_APPEND, lines);
}

static void open_three(void)
{
    ensemble_open(&ensemble, 3, NULL);
    (void)snprintf(secret_path, sizeof(secret_path), "%s/secret", ensemble.dir);
    write_file(secret_path, O_TRUNC, "the secret of the ensemble");
    assert_int_equal(chmod(secret_path, 0600), 0);
    named = mount_names();
}

static void close_three(void)
{
    ensemble_close(&ensemble);
    if (named) {
        (void)umount("/etc/hosts");
        (void)umount("/etc/nsswitch.conf");
    }
}

TEST(a_replica_waits_for_the_address_of_its_name, open_three, close_three)
{
    char server[64];
    uint64_t start_ms = os_now_ms();

    skip_without_names();
    (void)snprintf(server, sizeof(server), "zk1.test:%u", ensemble.replicas[0].peer_port);
    for (uint32_t i = 0; i < 3; i++) {
        configure(i, i == 0 ? server : NULL, "");
        ensemble_start(&ensemble, i);
    }
    ENSEMBLE_WAIT(&ensemble, shows(0, "/readyz?verbose",
                                   "other replicas cannot connect yet: the name zk1.test has no "
                                   "address"));
    assert_int_equal(ensemble.reply.status, 503);
    (void)poll(NULL, 0, ATTEMPTS_MS);
    expect_said_rarely(0, "the name zk1.test has no address", start_ms);

    write_file(names_path, O_APPEND, "127.0.0.1 zk1.test\n");
    ensemble_wait_all_ready(&ensemble);
    /* It is ready when it has dialled the others; it tries to listen at intervals. */
    ENSEMBLE_WAIT(&ensemble, log_count(0, "listens for other replicas on zk1.test") == 1);
}

/* The name resolves to another machine at first, like that of a container after its predecessor. */
TEST(a_replica_waits_while_its_name_resolves_to_another_machine, open_three, close_three)
{
    char server[64];

    skip_without_names();
    (void)snprintf(server, sizeof(server), "zk1.test:%u", ensemble.replicas[0].peer_port);
    for (uint32_t i = 0; i < 3; i++) {
        configure(i, i == 0 ? server : NULL, "");
        ensemble_start(&ensemble, i);
    }
    ENSEMBLE_WAIT(&ensemble, log_count(0, "the name zk1.test has no address") > 0);
    write_file(names_path, O_APPEND, "192.0.2.1 zk1.test\n");
    ENSEMBLE_WAIT(&ensemble, shows(0, "/readyz?verbose", "cannot listen on zk1.test port"));
    write_file(names_path, O_TRUNC, "127.0.0.1 zk1.test\n");
    ensemble_wait_all_ready(&ensemble);
}

/* The name already resolves to another machine when the replica starts, because the predecessor
 * still has it. */
TEST(a_replica_that_starts_with_an_address_of_another_machine_waits, open_three, close_three)
{
    char server[64];

    skip_without_names();
    write_file(names_path, O_TRUNC, "192.0.2.1 zk1.test\n");
    (void)snprintf(server, sizeof(server), "zk1.test:%u", ensemble.replicas[0].peer_port);
    for (uint32_t i = 0; i < 3; i++) {
        configure(i, i == 0 ? server : NULL, "");
        ensemble_start(&ensemble, i);
    }
    ENSEMBLE_WAIT(&ensemble,
                  ensemble_has_ended(&ensemble, 0) ||
                      shows(0, "/readyz?verbose", "the name resolves to another machine"));
    ENSEMBLE_CHECK(&ensemble, !ensemble_has_ended(&ensemble, 0));
    assert_int_equal(ensemble.reply.status, 503);
    ENSEMBLE_WAIT(&ensemble, log_count(0, "correct id or the server list") > 0);
    write_file(names_path, O_TRUNC, "127.0.0.1 zk1.test\n");
    ensemble_wait_all_ready(&ensemble);
    ENSEMBLE_WAIT(&ensemble, log_count(0, "listens for other replicas on zk1.test") == 1);
}

/* Replica 3 dials the others; they do not know its name. */
static void start_three(bool named_last)
{
    char server[64];

    (void)snprintf(server, sizeof(server), "zk3.test:%u", ensemble.replicas[2].peer_port);
    for (uint32_t i = 0; i < 3; i++) {
        configure(i, NULL, "");
        if (named_last && i == 2) {
            set_server(i, 3, server);
        }
        ensemble_start(&ensemble, i);
    }
}

/* A replica is started with a wrong id and an empty directory while the real one is down. If it
 * connected, it would be refilled and take that one's seat. */
TEST(a_replica_whose_name_resolves_elsewhere_makes_no_connection, open_three, close_three)
{
    char server[64];
    uint32_t connected = 0;

    skip_without_names();
    start_three(false);
    ensemble_wait_all_ready(&ensemble);
    assert_int_equal(ensemble_stop(&ensemble, 2), 0);
    connected = log_count(0, PEER_3) + log_count(1, PEER_3);
    ensemble_empty(&ensemble, 2);
    (void)snprintf(server, sizeof(server), "zk3.test:%u", ensemble.replicas[2].peer_port);
    set_server(2, 3, server);
    write_file(names_path, O_TRUNC, "192.0.2.1 zk3.test\n");
    ensemble_start(&ensemble, 2);
    ENSEMBLE_WAIT(&ensemble, shows(2, "/readyz?verbose", "the name resolves to another machine"));
    (void)poll(NULL, 0, ATTEMPTS_MS);
    assert_int_equal(log_count(0, PEER_3) + log_count(1, PEER_3), connected);

    /* The name may lose its address for a while: that does not prove that this machine has the
     * name. */
    write_file(names_path, O_TRUNC, "127.0.0.1 localhost\n");
    ENSEMBLE_WAIT(&ensemble, shows(2, "/readyz?verbose", "the name zk3.test has no address"));
    (void)poll(NULL, 0, ATTEMPTS_MS);
    assert_int_equal(log_count(0, PEER_3) + log_count(1, PEER_3), connected);

    write_file(names_path, O_TRUNC, "127.0.0.1 zk3.test\n");
    ensemble_wait_all_ready(&ensemble);
}

/* While the name has no address, the replica may be the right one and connects. It disconnects when
 * the name resolves to another machine. */
TEST(a_replica_without_an_address_connects_until_its_name_resolves_elsewhere, open_three,
     close_three)
{
    uint32_t connected = 0;

    skip_without_names();
    start_three(true);
    ensemble_wait_ready(&ensemble, 0); /* The ensemble is bootstrapped, and the replicas have
                                        * connected again. */
    ensemble_wait_ready(&ensemble, 1);
    ENSEMBLE_WAIT(&ensemble, ensemble_metric(&ensemble, 2, "zabra_peers_connected") == 2);
    assert_true(log_count(2, "the name zk3.test has no address") > 0);

    write_file(names_path, O_TRUNC, "192.0.2.1 zk3.test\n");
    ENSEMBLE_WAIT(
        &ensemble,
        log_count(2, "is disconnected: the name of this replica resolves to another machine") >= 2);
    connected = log_count(0, PEER_3);
    (void)poll(NULL, 0, ATTEMPTS_MS);
    assert_int_equal(log_count(0, PEER_3), connected);

    write_file(names_path, O_TRUNC, "127.0.0.1 zk3.test\n");
    ensemble_wait_all_ready(&ensemble);
}

TEST(a_replica_that_waits_ends_at_once, open_three, close_three)
{
    char server[64];
    uint64_t begin_ms = 0;

    skip_without_names();
    (void)snprintf(server, sizeof(server), "zk1.test:%u", ensemble.replicas[0].peer_port);
    configure(0, server, "");
    ensemble_start(&ensemble, 0);
    ENSEMBLE_WAIT(&ensemble, log_count(0, "the name zk1.test has no address") > 0);
    begin_ms = os_now_ms();
    assert_int_equal(ensemble_stop(&ensemble, 0), 0);
    assert_true(os_now_ms() - begin_ms < (uint64_t)END_MS * ENSEMBLE_FACTOR);
}

/* The name has no address here, but the other replicas can resolve it. */
TEST(a_replica_listens_on_peer_listen_instead_of_its_entry, open_three, close_three)
{
    char more[64];

    skip_without_names();
    (void)snprintf(more, sizeof(more), "peerListen=127.0.0.1:%u\n", ensemble.replicas[0].peer_port);
    for (uint32_t i = 0; i < 3; i++) {
        configure(i, i == 0 ? "zk1.test:1" : NULL, i == 0 ? more : "");
        ensemble_start(&ensemble, i);
    }
    ensemble_wait_all_ready(&ensemble);
    assert_true(shows(0, "/ensemble/v1", "\"peer\":\"zk1.test:1\""));
    assert_int_equal(log_count(0, "no address"), 0);
}

static bool has_ipv6(void)
{
    struct sockaddr_in6 addr = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = loop_listen((const struct sockaddr *)&addr, sizeof(addr), 1);

    if (fd >= 0) {
        close(fd);
    }
    return fd >= 0;
}

TEST(a_replica_listens_on_ipv6, open_three, close_three)
{
    char server[64];
    char more[64];

    skip_without_names();
    if (!has_ipv6()) {
        print_message("skipped: no IPv6 here\n");
        return;
    }
    (void)snprintf(server, sizeof(server), "[::1]:%u", ensemble.replicas[0].peer_port);
    (void)snprintf(more, sizeof(more), "peerListen=[::]:%u\n", ensemble.replicas[0].peer_port);
    for (uint32_t i = 0; i < 3; i++) {
        configure(i, i == 0 ? "zk1.test:1" : server, i == 0 ? more : "");
        ensemble_start(&ensemble, i);
    }
    ensemble_wait_all_ready(&ensemble);
}
