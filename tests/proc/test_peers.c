/* Replicas that cannot work together must report it: another secret, another cluster, no replica at
 * all. Each reason is logged once, counted each time, and shown until the peer is connected. */
#include "base/loop.h"
#include "base/os_clock.h"
#include "tests/lib/unit.h"
#include "tests/proc/ensemble.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    LOG_MAX = 1 << 20,
    STRANGERS = 20,
    ATTEMPTS = 4 /* Attempts of a peer before the log is checked. */
};

static struct ensemble ensemble;
static char log_text[LOG_MAX];

static const char *read_log(uint32_t index)
{
    int fd = open(ensemble.replicas[index].log, O_RDONLY | O_CLOEXEC);
    ssize_t got = 0;

    log_text[0] = '\0';
    if (fd < 0) {
        assert_int_equal(errno, ENOENT); /* The process has no log yet. */
        return log_text;
    }
    got = read(fd, log_text, sizeof(log_text) - 1);
    close(fd);
    log_text[got > 0 ? got : 0] = '\0';
    return log_text;
}

static bool log_has(uint32_t index, const char *text)
{
    return strstr(read_log(index), text) != NULL;
}

static uint32_t log_count(uint32_t index, const char *text)
{
    uint32_t count = 0;

    for (const char *at = strstr(read_log(index), text); at; at = strstr(at + 1, text)) {
        count++;
    }
    return count;
}

static bool shows(uint32_t index, const char *path, const char *text)
{
    (void)ensemble_call(&ensemble, index, "GET", path, NULL);
    return strstr(web_text(&ensemble.reply), text) != NULL;
}

static void write_file(const char *path, int flags, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC | flags, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

/* Sets the secret of one replica. */
static void give_secret(uint32_t index, const char *secret, bool again)
{
    char path[ENSEMBLE_PATH_MAX + 16];
    char line[ENSEMBLE_PATH_MAX + 64];

    (void)snprintf(path, sizeof(path), "%s/secret%u", ensemble.dir, index);
    (void)snprintf(line, sizeof(line), "peerSecretFile=%s\n", path);
    write_file(path, O_CREAT | O_TRUNC, secret);
    if (!again) {
        write_file(ensemble.replicas[index].config, O_APPEND, line);
    }
}

TEST(another_secret_is_reported)
{
    ensemble_open(&ensemble, 3, NULL);
    give_secret(0, "the secret of the ensemble", false);
    give_secret(1, "the secret of the ensemble", false);
    give_secret(2, "the secret of another ensemble", false);
    for (uint32_t i = 0; i < 3; i++) {
        ensemble_start(&ensemble, i);
    }
    /* Replica 3 dials both: they refuse it and close the connection. */
    ENSEMBLE_WAIT(&ensemble, log_has(0, "peer 3 is refused: the secret of the peer differs"));
    ENSEMBLE_WAIT(&ensemble, log_has(1, "peer 3 is refused: the secret of the peer differs"));
    ENSEMBLE_WAIT(&ensemble, log_has(2, "peer 1 is refused: the peer closes the connection"));
    ENSEMBLE_WAIT(&ensemble, ensemble_metric(&ensemble, 0, "zabra_peer_refused_total") >= ATTEMPTS);
    assert_int_equal(log_count(0, "peer 3 is refused"), 1);
    ENSEMBLE_WAIT(&ensemble,
                  shows(0, "/ensemble/v1", "\"refused\":\"the secret of the peer differs"));
    ENSEMBLE_WAIT(&ensemble,
                  shows(2, "/readyz", "peer 1 is refused: the peer closes the connection"));
    assert_int_equal(ensemble.reply.status, 503);

    /* With the right secret it is admitted, and the reason is no longer shown. */
    assert_int_equal(ensemble_stop(&ensemble, 2), 0);
    give_secret(2, "the secret of the ensemble", true);
    ensemble_start(&ensemble, 2);
    ensemble_wait_all_ready(&ensemble);
    ENSEMBLE_WAIT(&ensemble, !shows(0, "/ensemble/v1", "\"refused\""));
    ensemble_close(&ensemble);
}

TEST(another_cluster_is_reported)
{
    char kept[ENSEMBLE_PATH_MAX + 16];

    ensemble_launch(&ensemble, 3, NULL);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(ensemble_stop(&ensemble, i), 0);
    }
    (void)snprintf(kept, sizeof(kept), "%s/kept", ensemble.dir);
    assert_int_equal(rename(ensemble.replicas[2].data, kept), 0);
    ensemble_empty(&ensemble, 0);
    ensemble_empty(&ensemble, 1);
    for (uint32_t i = 0; i < 3; i++) {
        ensemble_start(&ensemble, i);
    }
    ensemble_wait_all_ready(&ensemble);
    ensemble_kill(&ensemble, 2);
    ensemble_empty(&ensemble, 2);
    assert_int_equal(rmdir(ensemble.replicas[2].data), 0);
    assert_int_equal(rename(kept, ensemble.replicas[2].data), 0);
    ensemble_start(&ensemble, 2);
    ENSEMBLE_WAIT(&ensemble, log_has(0, "peer 3 is refused: the peer belongs to another cluster"));
    ENSEMBLE_WAIT(&ensemble, ensemble_metric(&ensemble, 0, "zabra_peer_refused_total") >= ATTEMPTS);
    assert_int_equal(log_count(0, "peer 3 is refused"), 1);
    ENSEMBLE_WAIT(&ensemble, shows(0, "/ensemble/v1", "the peer belongs to another cluster"));
    ensemble_close(&ensemble);
}

/* True when the replica has closed the connection. */
static bool hung_up(int fd)
{
    char byte = 0;

    return read(fd, &byte, 1) == 0;
}

/* Sends a text that is no greeting of a replica. */
static void greet_wrongly(uint16_t port, const char *text)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(port)};

    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);

    int fd = loop_connect((const struct sockaddr *)&addr, sizeof(addr));

    assert_true(fd >= 0);
    ENSEMBLE_WAIT(&ensemble, loop_connect_result(fd) == 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    ENSEMBLE_WAIT(&ensemble, hung_up(fd));
    close(fd);
}

TEST(a_program_that_is_no_replica_is_reported)
{
    static const char request[] =
        "GET /znodes/v1/ HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json\r\n\r\n";

    ensemble_launch(&ensemble, 3, NULL);
    for (uint32_t i = 0; i < STRANGERS; i++) {
        greet_wrongly(ensemble.replicas[0].peer_port, request);
    }
    ENSEMBLE_WAIT(&ensemble,
                  ensemble_metric(&ensemble, 0, "zabra_peer_refused_total") >= STRANGERS);
    assert_int_equal(log_count(0, "a connection to the peer port is refused: the process that has "
                                  "connected is no zabra replica"),
                     1);
    ensemble_close(&ensemble);
}
