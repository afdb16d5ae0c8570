/* Order on one socket: requests take effect in order, an event precedes each reply that shows its
 * effect, with thousands of requests in flight. */
#include "base/mem.h"
#include "base/rng.h"
#include "tests/lib/unit.h"
#include "tests/proc/talk.h"

#include <stdio.h>
#include <string.h>

enum {
    PIPELINED = 5000 / ENSEMBLE_FACTOR,
    IN_FLIGHT_MAX = 100,
    FENCES = 600 / ENSEMBLE_FACTOR,
    MIXED = 3000 / ENSEMBLE_FACTOR,
    FLIPS = 300 / ENSEMBLE_FACTOR,
    READY_PARTS = 6, /* The first is `ready` itself. */
    SHOWN = 20000 / ENSEMBLE_FACTOR,
    WRITERS = 8,
    OWN_SETS = 1000 / ENSEMBLE_FACTOR,
    LIST_MIN = 2000,
    LIST_MAX = 5000,
    DATA_LEN = 1024
};

static struct ensemble ensemble;

static void open_three(void)
{
    ensemble_launch(&ensemble, 3, "maxInFlight=100\n");
}

static void close_three(void)
{
    ensemble_close(&ensemble);
}

/* Returns the index of a follower. */
static uint32_t follower(void)
{
    return (ensemble_wait_leader(&ensemble) + 1) % 3;
}

static int64_t number_of(const json_t *message, const char *name)
{
    return json_integer_value(json_object_get(message, name));
}

/* The next reply; events are skipped. */
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

TEST_GROUP(open_three, close_three)

/* Each set requires the version of the previous one, so a reordered or missing set would fail all
 * later ones. Far more are sent than may be in flight. */
TEST(a_pipeline_of_writes_takes_effect_in_order)
{
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

/* A read sees the writes before it and none after it. */
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

/* The zxid of a sync must cover the writes before it on the socket. Returns how many did not. */
static int count_short_fences(uint32_t index, const char *path, const char *fence_members)
{
    struct socket *socket = talk_open(&ensemble, index, NULL);
    int missed = 0;

    talk_ok(&ensemble, socket, "\"op\":\"create\",\"path\":\"%s\"", path);
    for (int i = 0; i < FENCES; i++) {
        uint64_t write =
            socket_request(socket, "\"op\":\"set\",\"path\":\"%s\",\"dataUtf8\":\"x\"", path);
        uint64_t fence = socket_request(socket, "%s", fence_members);
        json_t *written = socket_reply(socket, write, SOCKET_TIMEOUT_MS);
        json_t *reply = socket_reply(socket, fence, SOCKET_TIMEOUT_MS);

        ENSEMBLE_CHECK(&ensemble, json_is_true(json_object_get(written, "ok")));
        ENSEMBLE_CHECK(&ensemble, json_is_true(json_object_get(reply, "ok")));
        missed += talk_hex(talk_text(reply, "zxid")) < talk_hex(talk_text(written, "zxid"));
        json_decref(written);
        json_decref(reply);
    }
    socket_close(socket);
    return missed;
}

TEST(a_sync_is_no_older_than_the_write_before_it)
{
    assert_int_equal(
        count_short_fences(ensemble_wait_leader(&ensemble), "/fence-leader", "\"op\":\"sync\""), 0);
    assert_int_equal(count_short_fences(follower(), "/fence-follower", "\"op\":\"sync\""), 0);
}

TEST(a_linearizable_read_is_no_older_than_the_write_before_it)
{
    static const char read[] = "\"op\":\"get\",\"path\":\"/\",\"consistency\":\"linearizable\"";

    assert_int_equal(count_short_fences(ensemble_wait_leader(&ensemble), "/read-leader", read), 0);
    assert_int_equal(count_short_fences(follower(), "/read-follower", read), 0);
}

TEST(reads_see_exactly_the_writes_before_them)
{
    check_mixed(ensemble_wait_leader(&ensemble), "/mixed-leader");
    check_mixed(follower(), "/mixed-follower");
}

/* Errors and operations of all kinds keep the order, too. */
TEST(replies_of_all_kinds_come_in_order)
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

/* Keeps the maximal number of requests in flight, so that the tree changes while replies are
 * written. */
struct pipe {
    struct socket *socket;
    int asked;
    int answered;
};

static bool has_room(const struct pipe *pipe)
{
    return pipe->asked - pipe->answered < IN_FLIGHT_MAX;
}

/* Drops the answers, which the test does not check. */
static void take_answers(struct pipe *pipe)
{
    json_t *message = socket_next(pipe->socket, 0);

    while (message) {
        pipe->answered += json_object_get(message, "id") != NULL;
        json_decref(message);
        message = socket_next(pipe->socket, 0);
    }
}

/* The events that precede a reply are exactly those of the changes that it includes. */
TEST(an_event_precedes_every_reply_that_shows_it)
{
    uint32_t at = follower();
    struct pipe writer = {.socket = talk_open(&ensemble, (at + 1) % 3, NULL)};
    struct pipe reader = {.socket = talk_open(&ensemble, at, NULL)};
    uint64_t seen = 0;

    talk_ok(&ensemble, writer.socket, "\"op\":\"create\",\"path\":\"/shown\"");
    talk_ok(&ensemble, reader.socket, "\"op\":\"sync\"");
    talk_ok(&ensemble, reader.socket,
            "\"op\":\"watch\",\"path\":\"/shown\",\"kind\":\"persistent\"");
    while (reader.answered < SHOWN) {
        json_t *message = NULL;

        for (; has_room(&writer); writer.asked++) {
            socket_request(writer.socket, "\"op\":\"set\",\"path\":\"/shown\",\"dataUtf8\":\"%d\"",
                           writer.asked);
        }
        for (; has_room(&reader); reader.asked++) {
            socket_request(reader.socket, "\"op\":\"get\",\"path\":\"/shown\"");
        }
        take_answers(&writer);
        message = socket_next(reader.socket, SOCKET_TIMEOUT_MS);
        ENSEMBLE_CHECK(&ensemble, message != NULL);
        if (json_object_get(message, "id")) {
            const json_t *stat = json_object_get(message, "stat");

            reader.answered++;
            assert_true(number_of(stat, "version") == 0 ||
                        talk_hex(talk_text(stat, "mzxid")) == seen);
        } else if (strcmp(talk_text(message, "event"), "NodeDataChanged") == 0) {
            seen = talk_hex(talk_text(message, "zxid"));
        }
        json_decref(message);
    }
    socket_close(writer.socket);
    socket_close(reader.socket);
}

/* The number in the name of the last listed child. */
static int last_child(const json_t *reply)
{
    const json_t *children = json_object_get(reply, "children");
    const char *name = json_string_value(json_array_get(children, json_array_size(children) - 1));

    assert_non_null(name);
    return (int)talk_number(name + 1);
}

/* A long list is built from several states; its zxid is that of the first. */
TEST(a_long_list_shows_no_change_before_its_event)
{
    uint32_t at = follower();
    struct pipe writer = {.socket = talk_open(&ensemble, (at + 1) % 3, NULL)};
    struct socket *reader = talk_open(&ensemble, at, NULL);
    int told = 0;
    int lists = 0;

    talk_ok(&ensemble, writer.socket, "\"op\":\"create\",\"path\":\"/long\"");
    talk_ok(&ensemble, reader, "\"op\":\"sync\"");
    talk_ok(&ensemble, reader, "\"op\":\"watch\",\"path\":\"/long\",\"kind\":\"recursive\"");
    while (told < LIST_MAX) {
        json_t *message = NULL;

        for (; writer.asked <= LIST_MAX && has_room(&writer); writer.asked++) {
            socket_request(writer.socket, "\"op\":\"create\",\"path\":\"/long/n%08d\"",
                           writer.asked);
        }
        take_answers(&writer);
        if (told > LIST_MIN && lists == 0) {
            socket_request(reader, "\"op\":\"children\",\"path\":\"/long\",\"limit\":%d",
                           LIST_MAX + 1);
            lists++;
        }
        if (told + 1 == writer.asked && lists == 0) {
            ensemble_breathe(); /* All requests are answered, so there may be room. */
            continue;
        }
        message = socket_next(reader, SOCKET_TIMEOUT_MS);
        ENSEMBLE_CHECK(&ensemble, message != NULL);
        if (json_object_get(message, "id")) {
            lists--;
            assert_true(last_child(message) <= told);
        } else if (strcmp(talk_text(message, "event"), "NodeCreated") == 0) {
            told = (int)talk_number(talk_text(message, "path") + sizeof("/long/n") - 1);
        }
        json_decref(message);
    }
    socket_close(writer.socket);
    socket_close(reader);
}

struct own {
    struct socket *socket;
    int told;
    int answered;
};

/* Takes the received messages; each reply to a write must follow its event. */
static void take_own(struct own *own)
{
    json_t *message = socket_next(own->socket, 0);

    while (message) {
        if (json_object_get(message, "id")) {
            ENSEMBLE_CHECK(&ensemble, json_is_true(json_object_get(message, "ok")));
            own->answered++;
            assert_true(own->told >= own->answered);
        } else {
            own->told += strcmp(talk_text(message, "event"), "NodeDataChanged") == 0;
        }
        json_decref(message);
        message = socket_next(own->socket, 0);
    }
}

static bool take_all_own(struct own owns[WRITERS])
{
    bool all = true;

    for (int i = 0; i < WRITERS; i++) {
        take_own(&owns[i]);
        all = all && owns[i].answered == OWN_SETS;
    }
    return all;
}

/* The reply to a client's own write, when more writes arrive than one batch of events holds. */
TEST(the_reply_to_a_write_follows_its_own_events)
{
    struct own owns[WRITERS] = {{.told = 0}};
    uint32_t at = follower();

    for (int i = 0; i < WRITERS; i++) {
        owns[i].socket = talk_open(&ensemble, at, NULL);
        talk_ok(&ensemble, owns[i].socket, "\"op\":\"create\",\"path\":\"/own%d\"", i);
        talk_ok(&ensemble, owns[i].socket,
                "\"op\":\"watch\",\"path\":\"/own%d\",\"kind\":\"recursive\"", i);
    }
    for (int set = 0; set < OWN_SETS; set++) {
        for (int i = 0; i < WRITERS; i++) {
            socket_request(owns[i].socket, "\"op\":\"set\",\"path\":\"/own%d\",\"dataUtf8\":\"%d\"",
                           i, set);
        }
    }
    ENSEMBLE_WAIT(&ensemble, take_all_own(owns));
    for (int i = 0; i < WRITERS; i++) {
        assert_int_equal(owns[i].told, OWN_SETS);
        socket_close(owns[i].socket);
    }
}

/* ---- The `ready` znode of the ZooKeeper paper, section 2.3 ---- */

static const char *const ready_parts[READY_PARTS] = {"ready", "a", "b", "c", "d", "e"};

/* The new leader of a system changes its configuration in one pipeline: it deletes `ready`, changes
 * all parts and creates `ready` again, with the number of the change in each. */
static void reconfigure(struct socket *leader, int generation)
{
    socket_request(leader, "\"op\":\"delete\",\"path\":\"/conf/ready\"");
    for (int part = 1; part < READY_PARTS; part++) {
        socket_request(leader, "\"op\":\"set\",\"path\":\"/conf/%s\",\"dataUtf8\":\"%d\"",
                       ready_parts[part], generation);
    }
    socket_request(leader, "\"op\":\"create\",\"path\":\"/conf/ready\",\"dataUtf8\":\"%d\"",
                   generation);
}

/* The state of a client while it reads. */
struct reader {
    struct socket *socket;
    uint64_t ready_id; /* The read of `ready` that precedes those of the parts. */
    bool warned;       /* `ready` was deleted after the read. */
    int parts[READY_PARTS];
    int count;
    int whole; /* Configurations that were read while `ready` existed. */
};

/* Sends one pipeline: an exists of `ready` with a watch, then reads of `ready` itself and all
 * parts. */
static void read_all(struct reader *reader)
{
    reader->ready_id =
        socket_request(reader->socket, "\"op\":\"exists\",\"path\":\"/conf/ready\",\"watch\":true");
    for (int part = 0; part < READY_PARTS; part++) {
        socket_request(reader->socket, "\"op\":\"get\",\"path\":\"/conf/%s\"", ready_parts[part]);
    }
    reader->count = -1;
    reader->warned = false;
}

/* A client that saw `ready` and got no event of its deletion reads the configuration of that
 * `ready`. No reply with a part of the next configuration may precede that event. */
static void take_reply(struct reader *reader, const json_t *reply)
{
    if ((uint64_t)number_of(reply, "id") == reader->ready_id) {
        reader->warned = !json_is_true(json_object_get(reply, "exists"));
        reader->count = 0;
        return;
    }
    reader->parts[reader->count++] = (int)talk_number(talk_text(reply, "dataUtf8"));
    if (!reader->warned) {
        assert_true(json_is_true(json_object_get(reply, "ok")));
        assert_int_equal(reader->parts[reader->count - 1], reader->parts[0]);
    }
    if (reader->count == READY_PARTS) {
        reader->whole += reader->warned ? 0 : 1;
        read_all(reader);
    }
}

TEST(a_client_that_saw_ready_reads_no_half_changed_configuration)
{
    uint32_t at = follower();
    struct socket *leader = talk_open(&ensemble, (at + 1) % 3, NULL);
    struct reader reader = {.socket = talk_open(&ensemble, at, NULL)};
    int generation = 0;

    talk_ok(&ensemble, leader, "\"op\":\"create\",\"path\":\"/conf\"");
    for (int part = 0; part < READY_PARTS; part++) {
        talk_ok(&ensemble, leader, "\"op\":\"create\",\"path\":\"/conf/%s\",\"dataUtf8\":\"0\"",
                ready_parts[part]);
    }
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
