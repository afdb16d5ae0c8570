/*
 * TLS between replicas: an attacker in the network learns and changes nothing; an ensemble changes
 * to TLS, and replaces its secret, under load.
 */
#include "base/loop.h"
#include "tests/proc/load.h"
#include "tests/proc/network.h"
#include "tests/proc/shell.h"
#include "zab/tcp/frame.h"
#include "zab/tcp/hello.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    REPLICAS = 3,
    WRITERS = 3,
    BETWEEN = 60, /* Acknowledged writes between two steps. */
    PAUSE_MS = 10,
    FLIPS = 12
};

#define OLD_SECRET "the secret of the ensemble"
#define NEW_SECRET "the next secret of the ensemble"

static struct ensemble ensemble;
static struct network network;
static struct load load;
static char secret_path[ENSEMBLE_PATH_MAX + 16];
static char keys[ENSEMBLE_PATH_MAX + 256];

/* Writes the secrets into the file that all replicas have, by a rename. */
static void write_secrets(const char *first, const char *second)
{
    char path[ENSEMBLE_PATH_MAX + 24];
    char text[256];
    int fd = -1;

    (void)snprintf(path, sizeof(path), "%s.new", secret_path);
    (void)snprintf(text, sizeof(text), "%s\n%s\n", first, second);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    assert_int_equal(rename(path, secret_path), 0);
}

/* Makes the ensemble; `tls` is peerTls of all replicas. */
static void open_all(const char *tls)
{
    ensemble_open(&ensemble, REPLICAS, NULL);
    (void)snprintf(secret_path, sizeof(secret_path), "%s/secret", ensemble.dir);
    write_secrets(OLD_SECRET, "");
    (void)snprintf(keys, sizeof(keys), "peerSecretFile=%s\npeerTls=%s\n", secret_path, tls);
    ensemble.keys = keys;
    ensemble_write_configs(&ensemble);
    shell_open(&ensemble);
}

static void start_all(void)
{
    for (uint32_t i = 0; i < REPLICAS; i++) {
        ensemble_start(&ensemble, i);
    }
    ensemble_wait_all_ready(&ensemble);
}

static uint64_t sealed(uint32_t index, const char *kind)
{
    char name[64];

    (void)snprintf(name, sizeof(name), "zabra_peer_connections{sealed=\"%s\"}", kind);
    return ensemble_metric(&ensemble, index, name);
}

static void wait_sealed(const char *kind)
{
    for (uint32_t i = 0; i < REPLICAS; i++) {
        ENSEMBLE_WAIT(&ensemble, sealed(i, kind) == REPLICAS - 1);
    }
}

static uint64_t sum(const char *metric)
{
    uint64_t total = 0;

    for (uint32_t i = 0; i < REPLICAS; i++) {
        total += ensemble_metric(&ensemble, i, metric);
    }
    return total;
}

/* ---- An attacker in the network. ---- */

/* Writes the value through each replica, and waits until each replica has it. */
static void pay(const char *value)
{
    char path[64];

    for (uint32_t i = 0; i < REPLICAS; i++) {
        (void)snprintf(path, sizeof(path), "/znodes/v1/pay-%u?upsert=true", i);
        ensemble_call_until(&ensemble, i, "PUT", path, value, 201);
    }
    for (uint32_t i = 0; i < REPLICAS; i++) {
        for (uint32_t k = 0; k < REPLICAS; k++) {
            (void)snprintf(path, sizeof(path), "/znodes/v1/pay-%u?dataformat=utf8", k);
            ENSEMBLE_WAIT(&ensemble, ensemble_call(&ensemble, i, "GET", path, NULL) == 200 &&
                                         strstr(web_text(&ensemble.reply), value));
        }
    }
}

TEST(a_relay_learns_no_data)
{
    static const char *const modes[] = {"off", "required"};

    for (size_t i = 0; i < 2; i++) {
        open_all(modes[i]);
        network_start(&network, &ensemble);
        start_all();
        wait_sealed(i == 0 ? "no" : "psk");
        network_search(&network, "PAY-ALICE-100");
        pay("PAY-ALICE-100");
        if (i == 0) { /* Without TLS the data is there: the search looks in the right place. */
            assert_true(network_seen(&network) > 0);
        } else {
            assert_int_equal(network_seen(&network), 0);
        }
        network_stop(&network);
        ensemble_close(&ensemble);
    }
}

/* How often a connection of this replica has ended, by the logs of all. */
static uint32_t count_ends(uint32_t index)
{
    (void)shell("(cat $D/%u.log | grep 'is disconnected'; cat $D/*.log | grep 'peer %u is "
                "disconnected') | wc -l",
                index + 1, index + 1);
    return (uint32_t)strtoul(shell_output, NULL, 10);
}

/* Each changed bit ends one connection, which comes back, and no other one; no acknowledged write
 * is lost. */
TEST(changed_bits_end_their_connection_only)
{
    uint64_t refused = 0;

    open_all("required");
    network_start(&network, &ensemble);
    start_all();
    wait_sealed("psk");
    refused = sum("zabra_peer_refused_total"); /* Founding ends handshakes that are under way. */
    load_start_kind(&load, &ensemble, WRITERS, LOAD_IMPATIENT);
    load_pace(&load, PAUSE_MS);
    for (uint32_t i = 0; i < FLIPS; i++) { /* To and from the leader, where bytes always flow. */
        uint32_t leader = ensemble_wait_leader(&ensemble);
        uint32_t other = (leader + 1 + i / 2 % 2) % REPLICAS;
        uint32_t from = i % 2 ? leader : other;
        uint32_t to = i % 2 ? other : leader;
        uint32_t third = REPLICAS - from - to;
        uint64_t before = sum("zabra_peer_tls_failures_total");
        uint32_t ends = count_ends(third);
        uint32_t flipped = count_ends(to);

        load_wait(&load, &ensemble, BETWEEN);
        network_flip(&network, from, to);
        ENSEMBLE_WAIT(&ensemble, sum("zabra_peer_tls_failures_total") > before);
        ENSEMBLE_WAIT(&ensemble, count_ends(to) >= flipped + 2); /* Both replicas log it. */
        wait_sealed("psk");
        ensemble_wait_all_ready(&ensemble);
        assert_int_equal(count_ends(third), ends);
    }
    load_wait(&load, &ensemble, BETWEEN);
    load_stop(&load, &ensemble);
    for (uint32_t i = 0; i < REPLICAS; i++) {
        load_verify(&load, &ensemble, i);
    }
    assert_int_equal(sum("zabra_peer_refused_total"), refused);
    load_release(&load);
    network_stop(&network);
    ensemble_close(&ensemble);
}

/* A caller without TLS that presents itself as replica 3, as the one that would forward requests
 * with the identity of the super user, does not get as far as a HELLO. */
TEST(a_stranger_can_forward_nothing)
{
    struct sockaddr_in addr = {.sin_family = AF_INET};
    struct greeting greeting = {.version = PROTOCOL_VERSION, .from = 3, .to = 1};
    uint8_t bytes[GREETING_LEN];
    char byte = 0;
    ssize_t got = -1;

    open_all("required");
    start_all();
    addr.sin_port = htons(ensemble.replicas[0].peer_port);
    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    greeting_encode(&greeting, bytes);

    int fd = loop_connect((const struct sockaddr *)&addr, sizeof(addr));

    assert_true(fd >= 0);
    ENSEMBLE_WAIT(&ensemble, loop_connect_result(fd) == 0);
    assert_int_equal(write(fd, bytes, sizeof(bytes)), sizeof(bytes));
    ENSEMBLE_WAIT(&ensemble, (got = read(fd, &byte, 1)) >= 0 || errno == ECONNRESET);
    assert_true(got <= 0); /* Not even a greeting. */
    close(fd);
    ENSEMBLE_WAIT(&ensemble, shell("grep -q 'peer 3 is refused: the peer connects without TLS, and "
                                   "this replica has peerTls=required' $D/1.log") == 0);
    wait_sealed("psk"); /* The real replica 3 stays. */
    ensemble_close(&ensemble);
}

/* ---- Rolling changes. ---- */

static void restart(uint32_t index)
{
    assert_int_equal(ensemble_stop(&ensemble, index), 0);
    load_wait(&load, &ensemble, BETWEEN);
    ensemble_start(&ensemble, index);
    ensemble_wait_ready(&ensemble, index);
    load_wait(&load, &ensemble, BETWEEN);
}

static void end_load(void)
{
    load_stop(&load, &ensemble);
    for (uint32_t i = 0; i < REPLICAS; i++) {
        load_verify(&load, &ensemble, i);
    }
    load_release(&load);
}

TEST(a_rolling_change_to_tls_loses_no_write)
{
    static const char *const modes[] = {"accept", "dial", "required"};

    open_all("off");
    start_all();
    load_start_kind(&load, &ensemble, WRITERS, LOAD_PATIENT);
    load_pace(&load, PAUSE_MS);
    load_wait(&load, &ensemble, BETWEEN);
    for (size_t step = 0; step < 3; step++) {
        for (uint32_t i = 0; i < REPLICAS; i++) {
            if (i > 0) { /* The doctor names the step that is being taken. */
                ENSEMBLE_WAIT(&ensemble,
                              shell("zabra doctor | grep -q 'the next step of the rolling "
                                    "change: set peerTls=%s on'",
                                    modes[step]) == 0);
            }
            assert_int_equal(shell("sed -i 's/^peerTls=.*/peerTls=%s/' %s", modes[step],
                                   ensemble.replicas[i].config),
                             0);
            restart(i);
        }
    }
    end_load();
    wait_sealed("psk");
    for (uint32_t i = 0; i < REPLICAS; i++) {
        assert_int_equal(sealed(i, "no"), 0);
        assert_int_equal(ensemble_metric(&ensemble, i, "zabra_peer_refused_total"), 0);
    }
    assert_int_equal(ensemble_call(&ensemble, 0, "GET", "/ensemble/v1", NULL), 200);
    assert_non_null(
        strstr(web_text(&ensemble.reply), "\"sealed\":\"psk\",\"peer_tls\":\"required\""));
    shell_expect("zabra doctor | grep -c peer-tls", 1, "0");
    ensemble_close(&ensemble);
}

/* Waits until all replicas have read the files once more; one gets SIGHUP, the others look. */
static void wait_reload(uint64_t count)
{
    ensemble_signal(&ensemble, 1, SIGHUP);
    for (uint32_t i = 0; i < REPLICAS; i++) {
        ENSEMBLE_WAIT(&ensemble,
                      ensemble_metric(&ensemble, i, "zabra_peer_key_reloads_total") >= count);
    }
    load_wait(&load, &ensemble, BETWEEN);
}

TEST(a_secret_is_replaced_under_load)
{
    open_all("required");
    start_all();
    load_start_kind(&load, &ensemble, WRITERS, LOAD_PATIENT);
    load_pace(&load, PAUSE_MS);
    load_wait(&load, &ensemble, BETWEEN);
    write_secrets(OLD_SECRET, NEW_SECRET);
    wait_reload(1);
    write_secrets(NEW_SECRET, OLD_SECRET);
    wait_reload(2);
    write_secrets("too short", "");
    for (uint32_t i = 0; i < REPLICAS; i++) { /* The bad file changes nothing. */
        ENSEMBLE_WAIT(&ensemble,
                      ensemble_metric(&ensemble, i, "zabra_peer_key_reload_failed") == 1);
    }
    shell_expect("zabra doctor | grep peer-keys-bad", 0, "peer-keys-bad");
    write_secrets(NEW_SECRET, "");
    wait_reload(3);
    /* All connections began with the old secret: they are closed one by one, and come back. */
    ENSEMBLE_WAIT(&ensemble,
                  shell("test $(cat $D/*.log | grep -c 'closes the connection with peer') -ge 3") ==
                      0);
    wait_sealed("psk");
    load_wait(&load, &ensemble, BETWEEN);
    end_load();
    for (uint32_t i = 0; i < REPLICAS; i++) {
        assert_int_equal(ensemble_metric(&ensemble, i, "zabra_peer_refused_total"), 0);
        assert_int_equal(ensemble_metric(&ensemble, i, "zabra_peer_key_reload_failed"), 0);
    }
    /* The old secret is worth nothing. Replica 3 reads it from a file of its own. */
    assert_int_equal(ensemble_stop(&ensemble, 2), 0);
    assert_int_equal(shell("sed -i 's|/secret$|/secret-3|' %s", ensemble.replicas[2].config), 0);
    (void)snprintf(secret_path, sizeof(secret_path), "%s/secret-3", ensemble.dir);
    write_secrets(OLD_SECRET, "");
    ensemble_start(&ensemble, 2);
    ENSEMBLE_WAIT(&ensemble,
                  shell("grep -q 'peer [12] is refused: .*peerSecretFile' $D/3.log") == 0);
    ensemble_close(&ensemble);
}
