/* Slow clients and full servers: slower, never wrong. */
#include "base/mem.h"
#include "tests/lib/unit.h"
#include "tests/proc/talk.h"

#include <stdio.h>
#include <string.h>

enum {
    CHANGES = 2500,
    DATA_LEN = 1000,
    RECEIVE_BYTES = 32 << 10,
    PIPELINED = 3000,
    REPLY_LEN = 8 << 10,
    RATED = 150
};

static struct ensemble ensemble;

static void close_one(void)
{
    ensemble_close(&ensemble);
}

static const struct socket_options narrow = {.receive_bytes = RECEIVE_BYTES};

/* CHANGES sets; each value has its number and a long tail. */
static void change(struct socket *writer, const char *path)
{
    char *tail = mem_zalloc(1, DATA_LEN + 1);

    memset(tail, '.', DATA_LEN);
    for (int i = 1; i <= CHANGES; i++) {
        socket_request(writer, "\"op\":\"set\",\"path\":\"%s\",\"dataUtf8\":\"%d %s\"", path, i,
                       tail);
    }
    mem_free(tail);
    talk_ok(&ensemble, writer, "\"op\":\"sync\"");
}

/* ---- A client that does not read ---- */

static void open_lagging(void)
{
    ensemble_launch(&ensemble, 1, "maxSocketQueueBytes=65536\nheartbeatInterval=60000\n");
}

static void open_impatient(void)
{
    ensemble_launch(&ensemble, 1, "maxSocketQueueBytes=65536\nslowTimeout=1000\n");
}

static void open_forgetful(void)
{
    ensemble_launch(&ensemble, 1, "maxSocketQueueBytes=65536\nmaxWindow=100\n");
}

static void open_small(void)
{
    ensemble_launch(&ensemble, 1, "maxRequests=2\nmaxInFlight=1000\n");
}

static void open_rated(void)
{
    ensemble_launch(&ensemble, 1, "maxMessagesPerSecond=50\n");
}

/* The client misses no event: dropped ones are sent again from the window. */
TEST(a_slow_client_gets_an_overrun_and_catches_up, open_lagging, close_one)
{
    struct socket *writer = talk_open(&ensemble, 0, NULL);
    struct socket *slow = talk_open(&ensemble, 0, &narrow);
    int overruns = 0;

    talk_ok(&ensemble, writer, "\"op\":\"create\",\"path\":\"/slow\",\"dataUtf8\":\"0\"");
    talk_ok(&ensemble, slow,
            "\"op\":\"watch\",\"path\":\"/slow\",\"kind\":\"persistent\",\"values\":true");
    change(writer, "/slow");
    for (int seen = 0; seen < CHANGES;) {
        json_t *event = socket_next(slow, ENSEMBLE_DEADLINE_MS);
        const char *name = talk_text(event, "event");

        ENSEMBLE_CHECK(&ensemble, event != NULL);
        if (strcmp(name, "overrun") == 0) {
            overruns++;
            assert_int_equal(json_array_size(json_object_get(event, "watches")), 1);
        } else if (strcmp(name, "heartbeat") != 0) {
            assert_string_equal(name, "NodeDataChanged");
            assert_int_equal(talk_number(talk_text(event, "dataUtf8")), ++seen);
        }
        json_decref(event);
    }
    assert_true(overruns > 0);
    assert_true(ensemble_metric(&ensemble, 0, "zabra_ws_overruns_total") > 0);
    /* Then events are sent as before. */
    const char *zxid = talk_ok(&ensemble, writer, "\"op\":\"delete\",\"path\":\"/slow\"");

    assert_string_equal(talk_events(&ensemble, slow, zxid), "NodeDeleted /slow.");
    socket_close(writer);
    socket_close(slow);
}

/* A one-shot watch has only one event, which must not be lost. */
TEST(one_shot_watches_fire_despite_an_overrun, open_lagging, close_one)
{
    struct socket *writer = talk_open(&ensemble, 0, NULL);
    struct socket *slow = talk_open(&ensemble, 0, &narrow);
    json_t *event = NULL;

    talk_ok(&ensemble, writer, "\"op\":\"create\",\"path\":\"/loud\"");
    talk_ok(&ensemble, writer, "\"op\":\"create\",\"path\":\"/once\"");
    talk_ok(&ensemble, slow,
            "\"op\":\"watch\",\"path\":\"/loud\",\"kind\":\"persistent\",\"values\":true");
    talk_ok(&ensemble, slow, "\"op\":\"watch\",\"path\":\"/once\",\"kind\":\"data\"");
    change(writer, "/loud");
    talk_ok(&ensemble, writer, "\"op\":\"delete\",\"path\":\"/once\"");
    event = socket_event(slow, "NodeDeleted", ENSEMBLE_DEADLINE_MS);
    ENSEMBLE_CHECK(&ensemble, event != NULL);
    assert_string_equal(talk_text(event, "path"), "/once");
    json_decref(event);
    socket_close(writer);
    socket_close(slow);
}

/* Replies for a client that does not read are not built: a few wait, and the other requests wait
 * until the client reads. */
TEST(replies_wait_for_a_client_that_does_not_read, open_lagging, close_one)
{
    struct socket *writer = talk_open(&ensemble, 0, NULL);
    struct socket *slow = talk_open(&ensemble, 0, &narrow);
    char *data = mem_zalloc(1, REPLY_LEN + 1);
    uint64_t id = 0;

    memset(data, 'r', REPLY_LEN);
    for (int i = 0; i < 4; i++) {
        socket_request(writer, "\"op\":\"create\",\"path\":\"/r%d\",\"dataUtf8\":\"%s\"", i, data);
    }
    talk_ok(&ensemble, writer, "\"op\":\"sync\"");
    for (int i = 0; i < PIPELINED / 10; i++) {
        id = socket_request(slow, "\"op\":\"get\",\"path\":\"/r%d\"", i % 4);
    }
    json_t *reply = socket_reply(slow, id, ENSEMBLE_DEADLINE_MS);

    ENSEMBLE_CHECK(&ensemble, json_is_true(json_object_get(reply, "ok")));
    json_decref(reply);
    mem_free(data);
    socket_close(writer);
    socket_close(slow);
}

TEST(only_the_client_that_reads_nothing_is_closed, open_impatient, close_one)
{
    struct socket *writer = talk_open(&ensemble, 0, NULL);
    struct socket *reader = talk_open(&ensemble, 0, NULL);
    struct socket *slow = talk_open(&ensemble, 0, &narrow);

    talk_ok(&ensemble, writer, "\"op\":\"create\",\"path\":\"/slow\"");
    talk_ok(&ensemble, slow,
            "\"op\":\"watch\",\"path\":\"/slow\",\"kind\":\"persistent\",\"values\":true");
    change(writer, "/slow");
    ENSEMBLE_WAIT(&ensemble,
                  ensemble_metric(&ensemble, 0, "zabra_ws_closed_total{code=\"4508\"}") > 0 &&
                      socket_pump(reader) && socket_pump(writer));
    talk_ok(&ensemble, reader, "\"op\":\"get\",\"path\":\"/slow\"");
    talk_ok(&ensemble, writer, "\"op\":\"ping\"");
    socket_close(writer);
    socket_close(reader);
    socket_close(slow);
}

/* Changes that have left the window are sent as a difference: the last state, marked. */
TEST(beyond_the_window_there_is_a_difference, open_forgetful, close_one)
{
    struct socket *writer = talk_open(&ensemble, 0, NULL);
    struct socket *slow = talk_open(&ensemble, 0, &narrow);
    bool diff = false;
    int last = 0;

    talk_ok(&ensemble, writer, "\"op\":\"create\",\"path\":\"/slow\",\"dataUtf8\":\"0\"");
    talk_ok(&ensemble, slow,
            "\"op\":\"watch\",\"path\":\"/slow\",\"kind\":\"persistent\",\"values\":true");
    change(writer, "/slow");
    while (last < CHANGES) {
        json_t *event = socket_event(slow, "NodeDataChanged", ENSEMBLE_DEADLINE_MS);
        int number = 0;

        ENSEMBLE_CHECK(&ensemble, event != NULL);
        number = (int)talk_number(talk_text(event, "dataUtf8"));
        assert_true(number > last);
        assert_true(number == last + 1 || json_is_true(json_object_get(event, "diff")));
        diff = diff || number > last + 1;
        last = number;
        json_decref(event);
    }
    assert_true(diff);
    socket_close(writer);
    socket_close(slow);
}

/* ---- A full server ---- */

/* The gate accepts two requests at a time: the socket waits, no message fails, none is
 * reordered. */
TEST(a_full_gate_delays_and_loses_nothing, open_small, close_one)
{
    struct socket *socket = talk_open(&ensemble, 0, NULL);

    talk_ok(&ensemble, socket, "\"op\":\"create\",\"path\":\"/v\"");
    uint64_t id = 0;

    for (int i = 0; i < PIPELINED; i++) {
        id = socket_request(socket,
                            "\"op\":\"set\",\"path\":\"/v\",\"dataUtf8\":\"x\",\"version\":%d", i);
    }
    json_t *reply = socket_reply(socket, id, ENSEMBLE_DEADLINE_MS);

    ENSEMBLE_CHECK(&ensemble, json_is_true(json_object_get(reply, "ok")));
    json_decref(reply);
    socket_close(socket);
}

/* Messages of one second pass at once, the others at the rate; each socket has its own rate. */
TEST(a_rate_slows_down, open_rated, close_one)
{
    struct socket *socket = talk_open(&ensemble, 0, NULL);
    struct socket *other = talk_open(&ensemble, 0, NULL);
    uint64_t start_ms = os_now_ms();
    uint64_t id = 0;

    for (int i = 0; i < RATED; i++) {
        id = socket_request(socket, "\"op\":\"ping\"");
    }
    talk_ok(&ensemble, other, "\"op\":\"ping\"");
    assert_null(socket_reply(socket, id, 0));

    json_t *reply = socket_reply(socket, id, ENSEMBLE_DEADLINE_MS);

    ENSEMBLE_CHECK(&ensemble, json_is_true(json_object_get(reply, "ok")));
    assert_true(os_now_ms() - start_ms >= 1900);
    json_decref(reply);
    socket_close(socket);
    socket_close(other);
}
