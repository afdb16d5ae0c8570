/*
 * One client attacks the pools that all clients share: sessions, answers kept for retries, and
 * permitted password failures. It uses all replicas, invents identities, and has one address;
 * clients at other addresses must not be affected.
 */
#include "tests/hostile/attack.h"
#include "tests/lib/unit.h"
#include "tests/lib/ws_head.h"
#include "tests/proc/socket.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    REPLICAS = 3,
    ATTACKER = 7, /* 127.0.0.7; */
    NEIGHBOUR = 8,
    OPERATOR = 9,
    WRITER = 10,
    SESSIONS = 200,    /* maxSessions: 50 for a client, 100 for an address. */
    REMEMBERED = 1200, /* maxRemembered: 600 are free. */
    TRIES_MAX = 2000,
    REFUSALS = 5, /* In a row: then the replica grants no more. */
    OTHERS = 10,  /* Writes of other clients meanwhile. */
    GUESS_MS = 3000,
    GUESSES_FREE = 10,
    GUESS_AGAIN_MS = 6000
};

/* root:secret, alice:right */
#define KEYS  "maxSessions=200\nmaxRemembered=1200\nsuperDigest=root:J1scEM42CKaLPP5+ElgpgGsuONg=\n"
#define ALICE "Authorization: Basic YWxpY2U6cmlnaHQ=\r\n"
#define ROOT  "Authorization: Basic cm9vdDpzZWNyZXQ=\r\n"

static struct ensemble ensemble;

static void open_all(void)
{
    ensemble_launch(&ensemble, REPLICAS, KEYS);
}

/* ---- A client on one kept connection from a chosen address. ---- */

struct talker {
    int fd;
    long status; /* Status of the last answer. */
    struct buf answer;
};

static void talker_open(struct talker *talker, uint32_t replica, uint8_t from)
{
    *talker =
        (struct talker){.fd = attack_connect(ensemble.replicas[replica].client_port, 0, from)};
    assert_true(talker->fd >= 0);
    buf_init(&talker->answer, ATTACK_ANSWER_MAX);
}

static void talker_close(struct talker *talker)
{
    close(talker->fd);
    buf_release(&talker->answer);
}

static bool is_whole(struct talker *talker)
{
    const char *text = buf_cstr(&talker->answer);
    const char *end = strstr(text, "\r\n\r\n");
    const char *len = strstr(text, "Content-Length: ");

    if (!end) {
        return false;
    }
    size_t body = len && len < end ? strtoul(len + strlen("Content-Length: "), NULL, 10) : 0;

    return talker->answer.len >= (size_t)(end + 4 - text) + body;
}

/* Each of `headers` ends with CR LF. */
static long talk(struct talker *talker, const char *method, const char *target, const char *headers)
{
    char piece[4096];
    struct buf request;

    buf_init(&request, 8192);
    buf_printf(&request, "%s %s HTTP/1.1\r\nHost: localhost\r\n%s%s\r\n", method, target, headers,
               method[0] == 'P' ? "Content-Length: 0\r\n" : "");
    assert_true(attack_send(talker->fd, request.data, request.len));
    buf_release(&request);
    buf_clear(&talker->answer);
    while (!is_whole(talker)) {
        ssize_t got = recv(talker->fd, piece, sizeof(piece), 0);

        assert_true(got > 0);
        buf_append(&talker->answer, piece, (size_t)got);
    }
    talker->status = attack_status(&talker->answer);
    return talker->status;
}

static bool says(struct talker *talker, const char *words)
{
    return strstr(buf_cstr(&talker->answer), words) != NULL;
}

/* Basic credentials of "<user>:<number>". */
static void put_basic(char out[128], const char *user, uint32_t number)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char plain[64];
    int len = snprintf(plain, sizeof(plain), "%s:%08u", user, number);
    int at = snprintf(out, 128, "Authorization: Basic ");

    for (; len % 3 != 0; len++) { /* Avoids padding. */
        plain[len] = 'x';
    }
    for (int i = 0; i < len; i += 3) {
        uint32_t bits = (uint32_t)(uint8_t)plain[i] << 16 | (uint32_t)(uint8_t)plain[i + 1] << 8 |
                        (uint8_t)plain[i + 2];

        for (int shift = 18; shift >= 0; shift -= 6) {
            out[at++] = digits[bits >> shift & 63];
        }
    }
    (void)snprintf(out + at, 128 - (size_t)at, "\r\n");
}

static uint64_t metric_sum(const char *name)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < REPLICAS; i++) {
        sum += ensemble_metric(&ensemble, i, name);
    }
    return sum;
}

/* ---- Sessions. ---- */

static uint32_t open_sessions(struct talker *talkers, const char *user, const char *limit)
{
    char credentials[128] = "";
    uint32_t opened = 0;
    uint32_t refused = 0;

    for (uint32_t i = 0; i < TRIES_MAX && refused < REFUSALS * REPLICAS; i++) {
        struct talker *talker = &talkers[i % REPLICAS];

        if (user) {
            put_basic(credentials, user, i); /* Another identity each time. */
        }
        if (talk(talker, "POST", "/sessions/v1?expire=60", credentials) == 201) {
            opened++;
            continue;
        }
        assert_int_equal(talker->status, 429);
        assert_true(says(talker, limit) && says(talker, "Retry-After: "));
        refused++;
    }
    return opened;
}

/* The super user's sessions do not count against a share. */
static void open_as_super(void)
{
    struct talker talker;

    talker_open(&talker, 0, OPERATOR);
    for (uint32_t i = 0; i < SESSIONS / 4 + 1; i++) {
        assert_int_equal(talk(&talker, "POST", "/sessions/v1?expire=60", ROOT), 201);
    }
    talker_close(&talker);
}

static void close_all(void)
{
    ensemble_close(&ensemble);
}

TEST_GROUP(open_all, close_all)

TEST(one_address_cannot_take_all_sessions)
{
    struct talker talkers[REPLICAS];
    struct talker other;

    for (uint32_t i = 0; i < REPLICAS; i++) {
        talker_open(&talkers[i], i, ATTACKER);
    }
    assert_int_equal(open_sessions(talkers, NULL, "maxSessionsPerClient"), SESSIONS / 4);
    assert_int_equal(open_sessions(talkers, "mallory", "maxSessionsPerAddress"), SESSIONS / 4);
    open_as_super();
    for (uint32_t i = 0; i < REPLICAS; i++) {
        talker_open(&other, i, NEIGHBOUR);
        for (uint32_t j = 0; j < OTHERS; j++) {
            assert_int_equal(talk(&other, "POST", "/sessions/v1?expire=60", ""), 201);
        }
        talker_close(&other);
    }
    for (uint32_t i = 0; i < REPLICAS; i++) {
        talker_close(&talkers[i]);
    }
    /* Replica 1 may apply the last sessions after their clients have the answer. */
    ENSEMBLE_WAIT(&ensemble, ensemble_metric(&ensemble, 0, "zabra_sessions") ==
                                 SESSIONS / 2 + SESSIONS / 4 + 1 + REPLICAS * OTHERS);
}

/* ---- Answers kept for retries. ---- */

static void put_key(char out[128])
{
    char key[WEB_KEY_LEN + 1];

    web_make_key(key);
    (void)snprintf(out, 128, "Idempotency-Key: %s\r\n", key);
}

static void write_with_keys(uint32_t replica, const char *user, char ret_first[128])
{
    struct talker talker;
    uint32_t refused = 0;

    talker_open(&talker, replica, ATTACKER);
    for (uint32_t i = 0; i < TRIES_MAX && refused < REFUSALS; i++) {
        char headers[384];
        char key[128];
        char credentials[128] = "";

        put_key(key);
        if (user) {
            put_basic(credentials, user, i);
        }
        (void)snprintf(headers, sizeof(headers), "%s%s", key, credentials);
        if (talk(&talker, "PUT", "/znodes/v1/pool", headers) == 429) {
            assert_true(says(&talker, "maxRememberedPer") && says(&talker, "Retry-After: "));
            assert_true(says(&talker, "\"retry_after_ms\":"));
            refused++;
            continue;
        }
        assert_in_range(talker.status, 200, 204);
        if (ret_first[0] == '\0') {
            (void)snprintf(ret_first, 128, "%s", key);
        }
    }
    assert_int_equal(refused, REFUSALS);
    talker_close(&talker);
}

/* Other addresses can still use keys. The attacker's address gets the answer of a retry and can
 * write without a key. */
static void check_others(uint32_t replica, const char *known)
{
    struct talker talker;
    char key[128];

    talker_open(&talker, replica, NEIGHBOUR);
    for (uint32_t i = 0; i < OTHERS; i++) {
        put_key(key);
        assert_in_range(talk(&talker, "PUT", "/znodes/v1/pool", key), 200, 204);
    }
    talker_close(&talker);
    talker_open(&talker, replica, ATTACKER);
    assert_in_range(talk(&talker, "PUT", "/znodes/v1/pool", known), 200, 204);
    assert_in_range(talk(&talker, "PUT", "/znodes/v1/pool", ""), 200, 204);
    talker_close(&talker);
}

TEST(one_address_cannot_fill_the_store_of_remembered_answers)
{
    char known[128] = "";

    assert_int_equal(ensemble_call(&ensemble, 0, "POST", "/znodes/v1/?op=create&name=pool", ""),
                     201);
    for (uint32_t i = 0; i < REPLICAS; i++) {
        write_with_keys(i, NULL, known);
        write_with_keys(i, "mallory", known);
    }
    uint64_t remembered = 0;

    ENSEMBLE_WAIT(&ensemble, (remembered = ensemble_metric(
                                  &ensemble, 0, "zabra_remembered_results")) >= REMEMBERED / 2);
    assert_in_range(remembered, REMEMBERED / 2, REMEMBERED * 3 / 4);
    assert_true(metric_sum("zabra_share_refused_total") >= (uint64_t)REPLICAS * REFUSALS);
    for (uint32_t i = 0; i < REPLICAS; i++) {
        check_others(i, known);
    }
}

/* ---- Passwords. ---- */

/* Returns how many guesses are evaluated within GUESS_MS; all others are answered 429. */
static uint32_t guess_passwords(const char *user, const char *target, long evaluated_status,
                                uint32_t *ret_tried)
{
    struct talker talker;
    uint64_t end_ms = os_now_ms() + GUESS_MS;
    uint32_t evaluated = 0;
    char credentials[128];

    talker_open(&talker, 0, ATTACKER);
    for (*ret_tried = 0; os_now_ms() < end_ms; (*ret_tried)++) {
        put_basic(credentials, user, *ret_tried);
        if (talk(&talker, "GET", target, credentials) == evaluated_status) {
            evaluated++;
            continue;
        }
        assert_int_equal(talker.status, 429);
        assert_true(says(&talker, "Retry-After: ") && says(&talker, "ThrottledOp"));
    }
    talker_close(&talker);
    return evaluated;
}

static long get_from(uint8_t from, const char *target, const char *headers)
{
    struct talker talker;

    talker_open(&talker, 0, from);
    long status = talk(&talker, "GET", target, headers);

    talker_close(&talker);
    return status;
}

/* The number of log lines with these words. */
static uint32_t log_lines(const char *words)
{
    char line[4096];
    uint32_t count = 0;
    FILE *file = fopen(ensemble.replicas[0].log, "re");

    assert_non_null(file);
    while (fgets(line, sizeof(line), file)) {
        count += strstr(line, words) ? 1 : 0;
    }
    (void)fclose(file);
    return count;
}

static void make_vault(void)
{
    struct talker talker;

    talker_open(&talker, 0, NEIGHBOUR);
    assert_int_equal(
        talk(&talker, "POST", "/znodes/v1/?op=create&name=vault", ALICE "Zk-Acl: creator\r\n"),
        201);
    talker_close(&talker);
}

static void shake_hands(uint8_t from, const char *credentials, long want)
{
    struct talker talker;
    char headers[512];

    (void)snprintf(headers, sizeof(headers), WS_HEAD "%s", credentials);
    talker_open(&talker, 0, from);
    assert_int_equal(talk(&talker, "GET", "/ws/v1", headers), want);
    talker_close(&talker);
}

/* Guesses the super user's password by messages of one socket, from 127.0.0.1, until the replica
 * refuses. */
static void guess_by_messages(void)
{
    struct socket *socket = socket_open(ensemble.replicas[0].client_port, NULL);
    uint32_t taken = 0;

    assert_int_equal(socket_status(socket), 101);
    for (uint32_t i = 0; i < GUESSES_FREE + 5; i++) {
        json_t *reply = socket_call(
            socket, "\"op\":\"auth\",\"scheme\":\"digest\",\"credential\":\"root:guess%u\"", i);

        assert_non_null(reply);
        taken += json_object_get(reply, "error") ? 0 : 1;
        json_decref(reply);
    }
    assert_int_equal(taken, GUESSES_FREE);
    socket_close(socket);
}

TEST(guesses_are_slowed_counted_and_logged)
{
    uint32_t tried = 0;
    uint64_t allowed = GUESSES_FREE + GUESS_MS / GUESS_AGAIN_MS + 2;

    make_vault();
    assert_in_range(guess_passwords("alice", "/znodes/v1/vault", 403, &tried), GUESSES_FREE,
                    allowed);
    assert_true(tried > 100);
    print_message("%u guesses of alice's password in %d ms\n", tried, (int)GUESS_MS);
    /* While guesses are slowed, the right password is answered 429 as well. Other addresses and
     * requests without credentials are not affected. */
    assert_int_equal(get_from(ATTACKER, "/znodes/v1/vault", ALICE), 429);
    assert_int_equal(get_from(NEIGHBOUR, "/znodes/v1/vault", ALICE), 200);
    assert_int_equal(get_from(ATTACKER, "/znodes/v1/", ""), 200);
    shake_hands(ATTACKER, ALICE, 429);
    shake_hands(NEIGHBOUR, ALICE, 101);
    assert_in_range(guess_passwords("root", "/znodes/v1/", 200, &tried), GUESSES_FREE, allowed);
    assert_int_equal(get_from(ATTACKER, "/znodes/v1/vault", ROOT), 429);
    assert_int_equal(get_from(NEIGHBOUR, "/znodes/v1/vault", ROOT), 200);
    guess_by_messages();
    assert_int_equal(get_from(ATTACKER, "/znodes/v1/", "Authorization: Basic !\r\n"), 401);
    assert_int_equal(get_from(ATTACKER, "/sessions/v1/6f1f5a3c-1111-4222-8333-444455556666", ""),
                     401);
}

/* The guesses of the previous test log one line; those of the next minute log one more. */
TEST(guesses_log_one_line_a_minute)
{
    static const char line[] = "failed credentials: address=127.0.0.7 user=";

    for (uint64_t end_ms = os_now_ms() + 20000; log_lines(line) == 0 && os_now_ms() < end_ms;) {
        (void)poll(NULL, 0, 100);
    }
    assert_int_equal(log_lines(line), 1);
    for (uint32_t second = 0; second < 3; second++) {
        char credentials[128];

        put_basic(credentials, "alice", second);
        assert_true(get_from(ATTACKER, "/znodes/v1/vault", credentials) >= 403);
        (void)poll(NULL, 0, 1000);
    }
    assert_int_equal(log_lines(line), 1);
    assert_int_equal(log_lines("right"), 0);
    assert_int_equal(log_lines("guess"), 0);
    assert_in_range(
        ensemble_metric(&ensemble, 0, "zabra_failed_credentials_total{kind=\"password\"}"),
        GUESSES_FREE, GUESSES_FREE + 5);
    assert_in_range(ensemble_metric(&ensemble, 0, "zabra_failed_credentials_total{kind=\"super\"}"),
                    2 * GUESSES_FREE, 2 * GUESSES_FREE + 5);
    assert_int_equal(
        ensemble_metric(&ensemble, 0, "zabra_failed_credentials_total{kind=\"malformed\"}"), 1);
    assert_int_equal(
        ensemble_metric(&ensemble, 0, "zabra_failed_credentials_total{kind=\"session\"}"), 1);
    assert_true(ensemble_metric(&ensemble, 0, "zabra_slowed_credentials_total") > 100);
}

/* The leader refuses a write; the replica that has received it counts. */
TEST(guesses_by_writes_are_slowed_at_each_replica)
{
    for (uint32_t i = 0; i < REPLICAS; i++) {
        struct talker talker;
        uint32_t evaluated = 0;

        talker_open(&talker, i, WRITER);
        for (uint32_t j = 0; j < 3 * GUESSES_FREE; j++) {
            char credentials[128];

            put_basic(credentials, "alice", j);
            evaluated += talk(&talker, "PUT", "/znodes/v1/vault", credentials) == 403 ? 1 : 0;
        }
        talker_close(&talker);
        assert_in_range(evaluated, GUESSES_FREE, GUESSES_FREE + 2);
    }
}
