/* What takes effect when, on one socket: requests in order, events before what shows their effect,
 * thousands in flight. */
#include "base/mem.h"
#include "base/rng.h"
#include "tests/proc/talk.h"

#include <stdio.h>
#include <string.h>

enum {
    PIPELINED = 5000,
    IN_FLIGHT_MAX = 100,
    MIXED = 3000,
    FLIPS = 300,
    READY_PARTS = 5,
    DATA_LEN = 1024
};

static struct ensemble ensemble;

static int open_three(void **state)
{
    (void)state;
    ensemble_launch(&ensemble, 3, "maxInFlight=100\n");
    return 0;
}

static int close_three(void **state)
{
    (void)state;
    ensemble_close(&ensemble);
    return 0;
}

/* The replica that does not lead, and the one that does. */
static uint32_t follower(void)
{
    return (ensemble_wait_leader(&ensemble) + 1) % 3;
}

static int64_t number_of(const json_t *message, const char *name)
{
    return json_integer_value(json_object_get(message, name));
}

/* The next reply, events passed by. */
static json_t *next_reply(struct socket *socket)
{
    for (;;) {
        json_t *message = socket_next(socket, SOCKET_TIMEOUT_MS);

        if (!message || json_object_get(message, "id")) {
            return message;
        }
        json_decref(message);
    }
}

/* ---- Pipelines ---- */

static void check_pipeline(uint32_t index, const char *path)
{
    struct socket *socket = talk_open(&ensemble, index, NULL);
    char *data = mem_zalloc(1, DATA_LEN + 1);
    uint64_t first = 0;
    uint64_t before = 0;

    memset(data, 'd', DATA_LEN);
    talk_ok(&ensemble, socket, "\"op\":\"create\",\"path\":\"%s\"", path);
    for (int i = 0; i < PIPELINED; i++) {
        uint64_t id = socket_request(
            socket, "\"op\":\"set\",\"path\":\"%s\",\"dataUtf8\":\"%s\",\"version\":%d", path, data,
            i);

        first = i == 0 ? id : first;
    }
    for (int i = 0; i < PIPELINED; i++) {
        json_t *reply = next_reply(socket);

        assert_non_null(reply);
        assert_int_equal(number_of(reply, "id"), first + (uint64_t)i);
        ENSEMBLE_CHECK(&ensemble, json_is_true(json_object_get(reply, "ok")));
        assert_true(talk_hex(talk_text(reply, "zxid")) > before);
        before = talk_hex(talk_text(reply, "zxid"));
        json_decref(reply);
    }
    mem_free(data);
    socket_close(socket);
}

/* Each set names the version that the one before it makes: one out of order, or left out, would
 * fail all that follow. Far more than may be in flight are sent. */
static void test_a_pipeline_of_writes_takes_effect_in_order(void **state)
{
    (void)state;
    check_pipeline(ensemble_wait_leader(&ensemble), "/pipe-leader");
    check_pipeline(follower(), "/pipe-follower");
}

static void ask_mixed(struct socket *socket, struct rng *rng, const char *path, int *kinds)
{
    for (int i = 0; i < MIXED; i++) {
        kinds[i] = (int)rng_below(rng, 3);
        if (kinds[i] == 0) {
            socket_request(socket, "\"op\":\"set\",\"path\":\"%s\",\"dataUtf8\":\"%d\"", path, i);
        } else {
            socket_request(socket, "\"op\":\"get\",\"path\":\"%s\"%s", path,
                           kinds[i] == 1 ? "" : ",\"consistency\":\"linearizable\"");
        }
    }
}

/* A read sees the writes before it and none behind it. */
static void check_mixed(uint32_t index, const char *path)
{
    struct socket *socket = talk_open(&ensemble, index, NULL);
    int *kinds = mem_zalloc(MIXED, sizeof(*kinds));
    int last = -1;
    struct rng rng;

    rng_init(&rng, 7);
    talk_ok(&ensemble, socket, "\"op\":\"create\",\"path\":\"%s\",\"dataUtf8\":\"-1\"", path);
    ask_mixed(socket, &rng, path, kinds);
    for (int i = 0; i < MIXED; i++) {
        json_t *reply = next_reply(socket);

        assert_non_null(reply);
        ENSEMBLE_CHECK(&ensemble, json_is_true(json_object_get(reply, "ok")));
        if (kinds[i] == 0) {
            last = i;
        } else {
            assert_int_equal(talk_number(talk_text(reply, "dataUtf8")), last);
        }
        json_decref(reply);
    }
    mem_free(kinds);
    socket_close(socket);
}

static void test_reads_see_what_was_asked_before_them_and_nothing_else(void **state)
{
    (void)state;
    check_mixed(ensemble_wait_leader(&ensemble), "/mixed-leader");
    check_mixed(follower(), "/mixed-follower");
}

/* Errors and operations of all kinds keep their place, too. */
static void test_replies_come_in_order_whatever_they_are(void **state)
{
    static const char *const asked[] = {
        "\"op\":\"set\",\"path\":\"/none\",\"dataUtf8\":\"x\"",
        "\"op\":\"ping\"",
        "\"op\":\"create\",\"path\":\"bad\"",
        "\"op\":\"sync\"",
        "\"op\":\"session\",\"timeout_ms\":10000",
        "\"op\":\"create\",\"path\":\"/eph\",\"ephemeral\":true",
        "\"op\":\"unknown\"",
        "\"op\":\"watch\",\"path\":\"/eph\",\"kind\":\"persistent\"",
        "\"op\":\"whoami\"",
        "\"op\":\"close\"",
        "\"op\":\"exists\",\"path\":\"/eph\"",
        "\"op\":\"unwatch\",\"watch\":1",
        "\"op\":\"children\",\"path\":\"/\"",
    };

    enum {
        COUNT = sizeof(asked) / sizeof(asked[0]),
        ROUNDS = 20
    };
    struct socket *socket = talk_open(&ensemble, follower(), NULL);
    uint64_t first = 0;

    (void)state;
    for (int i = 0; i < ROUNDS * COUNT; i++) {
        uint64_t id = socket_request(socket, "%s", asked[i % COUNT]);

        first = i == 0 ? id : first;
    }
    for (int i = 0; i < ROUNDS * COUNT; i++) {
        json_t *reply = next_reply(socket);
        bool fails = i % COUNT == 0 || i % COUNT == 2 || i % COUNT == 6 ||
                     (i % COUNT == 11 && i / COUNT > 0);

        assert_non_null(reply);
        assert_int_equal(number_of(reply, "id"), first + (uint64_t)i);
        assert_int_equal(json_is_true(json_object_get(reply, "ok")), !fails);
        if (i % COUNT == 10) {
            assert_true(json_is_false(json_object_get(reply, "exists")));
        }
        json_decref(reply);
    }
    socket_close(socket);
}

/* ---- Events and replies ---- */

/* Whatever a reply shows, its event came before. */
static void test_an_event_precedes_every_reply_that_shows_it(void **state)
{
    uint32_t at = follower();
    struct socket *writer = talk_open(&ensemble, (at + 1) % 3, NULL);
    struct socket *reader = talk_open(&ensemble, at, NULL);
    uint64_t seen = 0;
    int replies = 0;

    (void)state;
    talk_ok(&ensemble, writer, "\"op\":\"create\",\"path\":\"/shown\"");
    talk_ok(&ensemble, reader, "\"op\":\"sync\"");
    talk_ok(&ensemble, reader, "\"op\":\"watch\",\"path\":\"/shown\",\"kind\":\"persistent\"");
    for (int i = 0; i < FLIPS; i++) {
        socket_request(writer, "\"op\":\"set\",\"path\":\"/shown\",\"dataUtf8\":\"%d\"", i);
        socket_request(reader, "\"op\":\"get\",\"path\":\"/shown\"");
        (void)socket_pump(writer);
        (void)socket_pump(reader);
    }
    while (replies < FLIPS) {
        json_t *message = socket_next(reader, SOCKET_TIMEOUT_MS);

        assert_non_null(message);
        if (json_object_get(message, "id")) {
            const json_t *stat = json_object_get(message, "stat");
            uint64_t shown = talk_hex(talk_text(stat, "mzxid"));

            replies++;
            assert_true(number_of(stat, "version") == 0 || shown <= seen);
        } else if (strcmp(talk_text(message, "event"), "NodeDataChanged") == 0) {
            seen = talk_hex(talk_text(message, "zxid"));
        }
        json_decref(message);
    }
    socket_close(writer);
    socket_close(reader);
}

/* Also a reply to one's own write. */
static void test_the_reply_to_a_write_follows_its_own_events(void **state)
{
    struct socket *socket = talk_open(&ensemble, follower(), NULL);
    int told = 0;

    (void)state;
    talk_ok(&ensemble, socket, "\"op\":\"create\",\"path\":\"/own\"");
    talk_ok(&ensemble, socket, "\"op\":\"watch\",\"path\":\"/own\",\"kind\":\"recursive\"");
    for (int i = 0; i < FLIPS; i++) {
        socket_request(socket, "\"op\":\"set\",\"path\":\"/own\",\"dataUtf8\":\"%d\"", i);
    }
    for (int replies = 0; replies < FLIPS;) {
        json_t *message = socket_next(socket, SOCKET_TIMEOUT_MS);

        assert_non_null(message);
        if (json_object_get(message, "id")) {
            replies++;
            assert_true(told >= replies);
        } else {
            told += strcmp(talk_text(message, "event"), "NodeDataChanged") == 0;
        }
        json_decref(message);
    }
    assert_int_equal(told, FLIPS);
    socket_close(socket);
}

/* ---- The `ready` znode of the ZooKeeper paper, section 2.3 ---- */

/* The new leader of a system changes its configuration: deletes `ready`, changes all parts, creates
 * `ready` anew. All of it in one pipeline. */
static void reconfigure(struct socket *leader, int generation)
{
    socket_request(leader, "\"op\":\"delete\",\"path\":\"/conf/ready\"");
    for (int part = 0; part < READY_PARTS; part++) {
        socket_request(leader, "\"op\":\"set\",\"path\":\"/conf/%d\",\"dataUtf8\":\"%d\"", part,
                       generation);
    }
    socket_request(leader, "\"op\":\"create\",\"path\":\"/conf/ready\"");
}

/* What a client knows while it reads. */
struct reader {
    struct socket *socket;
    uint64_t ready_id; /* The read of `ready` that the parts were asked behind. */
    bool warned;       /* `ready` has gone since it was seen. */
    int parts[READY_PARTS];
    int count;
    int whole; /* Configurations that were read while `ready` was there all along. */
};

/* One pipeline: is it ready, with a watch, and all parts. */
static void read_all(struct reader *reader)
{
    reader->ready_id =
        socket_request(reader->socket, "\"op\":\"exists\",\"path\":\"/conf/ready\",\"watch\":true");
    for (int part = 0; part < READY_PARTS; part++) {
        socket_request(reader->socket, "\"op\":\"get\",\"path\":\"/conf/%d\"", part);
    }
    reader->count = -1;
    reader->warned = false;
}

/* A client that saw `ready`, and was not told that it went, has read one configuration: no reply
 * with something of the next may come before that event. */
static void take_reply(struct reader *reader, const json_t *reply)
{
    if ((uint64_t)number_of(reply, "id") == reader->ready_id) {
        reader->warned = !json_is_true(json_object_get(reply, "exists"));
        reader->count = 0;
        return;
    }
    reader->parts[reader->count++] = (int)talk_number(talk_text(reply, "dataUtf8"));
    if (!reader->warned) {
        assert_int_equal(reader->parts[reader->count - 1], reader->parts[0]);
    }
    if (reader->count == READY_PARTS) {
        reader->whole += reader->warned ? 0 : 1;
        read_all(reader);
    }
}

static void test_whoever_saw_ready_reads_no_half_changed_configuration(void **state)
{
    uint32_t at = follower();
    struct socket *leader = talk_open(&ensemble, (at + 1) % 3, NULL);
    struct reader reader = {.socket = talk_open(&ensemble, at, NULL)};
    int generation = 0;

    (void)state;
    talk_ok(&ensemble, leader, "\"op\":\"create\",\"path\":\"/conf\"");
    for (int part = 0; part < READY_PARTS; part++) {
        talk_ok(&ensemble, leader, "\"op\":\"create\",\"path\":\"/conf/%d\",\"dataUtf8\":\"0\"",
                part);
    }
    talk_ok(&ensemble, leader, "\"op\":\"create\",\"path\":\"/conf/ready\"");
    talk_ok(&ensemble, reader.socket, "\"op\":\"sync\"");
    read_all(&reader);
    while (generation < FLIPS || reader.whole < FLIPS) {
        json_t *message = socket_next(reader.socket, SOCKET_TIMEOUT_MS);

        assert_non_null(message);
        if (json_object_get(message, "id")) {
            take_reply(&reader, message);
        } else if (strcmp(talk_text(message, "event"), "NodeDeleted") == 0) {
            reader.warned = true;
        }
        json_decref(message);
        if (socket_all_sent(leader) && generation < 10 * FLIPS) {
            reconfigure(leader, ++generation);
        }
        (void)socket_pump(leader);
    }
    socket_close(leader);
    socket_close(reader.socket);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_pipeline_of_writes_takes_effect_in_order),
        cmocka_unit_test(test_reads_see_what_was_asked_before_them_and_nothing_else),
        cmocka_unit_test(test_replies_come_in_order_whatever_they_are),
        cmocka_unit_test(test_an_event_precedes_every_reply_that_shows_it),
        cmocka_unit_test(test_the_reply_to_a_write_follows_its_own_events),
        cmocka_unit_test(test_whoever_saw_ready_reads_no_half_changed_configuration),
    };

    web_setup();
    return cmocka_run_group_tests(tests, open_three, close_three);
}
