/* Watches that survive their socket: changes missed while a client moves to another replica are
 * sent once and in order. An isolated replica reports it. */
#include "base/mem.h"
#include "base/rng.h"
#include "tests/lib/unit.h"
#include "tests/proc/talk.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

enum {
    CHANGES = 1000,
    PATHS = 7,
    CUTS = 6,
    UNFIT = 4503
};

static struct ensemble ensemble;

static void open_three(void)
{
    ensemble_launch(&ensemble, 3, "staleLimit=3000\n");
}

static void close_three(void)
{
    ensemble_close(&ensemble);
}

/* Executes one random change: a set, a pair of create and delete, or a multi. All succeed. */
static void change(struct socket *writer, struct rng *rng, int number)
{
    int path = (int)rng_below(rng, PATHS);

    switch (rng_below(rng, 3)) {
    case 0:
        socket_request(writer, "\"op\":\"set\",\"path\":\"/r/%d\",\"dataUtf8\":\"%d\"", path,
                       number);
        break;
    case 1:
        socket_request(writer, "\"op\":\"create\",\"path\":\"/r/%d/x\"", path);
        socket_request(writer, "\"op\":\"delete\",\"path\":\"/r/%d/x\"", path);
        break;
    default:
        socket_request(writer,
                       "\"op\":\"multi\",\"ops\":[{\"op\":\"create\",\"path\":\"/r/%d/m\"},"
                       "{\"op\":\"set\",\"path\":\"/r/%d\",\"dataUtf8\":\"%d\"},"
                       "{\"op\":\"delete\",\"path\":\"/r/%d/m\"}]",
                       path, path, number, path);
        break;
    }
}

static void watch_from(struct socket *socket, const char *since)
{
    talk_ok(&ensemble, socket,
            "\"op\":\"watch\",\"path\":\"/r\",\"kind\":\"recursive\",\"values\":true,"
            "\"since\":\"%s\"",
            since);
}

/* Takes events until that of `last`, or for `groups` groups. `since` advances with each complete
 * group; events of an incomplete one are dropped, because they are sent again. */
static bool take_groups(struct socket *socket, struct buf *out, char *since, int groups,
                        const char *last)
{
    size_t whole = out->len;

    while (groups > 0 && strcmp(since, last) != 0) {
        json_t *event = socket_next(socket, SOCKET_TIMEOUT_MS);

        ENSEMBLE_CHECK(&ensemble, event != NULL);
        if (json_object_get(event, "path")) {
            talk_put_event(out, event);
        }
        if (json_is_true(json_object_get(event, "end"))) {
            (void)snprintf(since, TALK_FIELD_MAX, "%s", talk_text(event, "zxid"));
            whole = out->len;
            groups--;
        }
        json_decref(event);
    }
    out->len = whole;
    return strcmp(since, last) == 0;
}

TEST_GROUP(open_three, close_three)

TEST(a_client_that_changes_replicas_misses_nothing)
{
    struct socket *writer = talk_open(&ensemble, 0, NULL);
    struct socket *steady = talk_open(&ensemble, 1, NULL);
    char start[TALK_FIELD_MAX];
    char since[TALK_FIELD_MAX];
    char last[TALK_FIELD_MAX];
    struct buf all;
    struct buf told;
    struct rng rng;

    rng_init(&rng, 11);
    buf_init(&all, TALK_TEXT_MAX * 4);
    buf_init(&told, TALK_TEXT_MAX * 4);
    talk_ok(&ensemble, writer, "\"op\":\"create\",\"path\":\"/r\"");
    for (int i = 0; i < PATHS; i++) {
        talk_ok(&ensemble, writer, "\"op\":\"create\",\"path\":\"/r/%d\",\"dataUtf8\":\"0\"", i);
    }
    (void)snprintf(start, sizeof(start), "%s", talk_ok(&ensemble, writer, "\"op\":\"sync\""));
    (void)snprintf(since, sizeof(since), "%s", start);
    watch_from(steady, start);
    for (int i = 1; i <= CHANGES; i++) {
        change(writer, &rng, i);
    }
    (void)snprintf(
        last, sizeof(last), "%s",
        talk_ok(&ensemble, writer, "\"op\":\"set\",\"path\":\"/r\",\"dataUtf8\":\"end\""));
    /* Sockets in sequence, each on the next replica, each closed in the middle. */
    for (int i = 0; i < CUTS; i++) {
        struct socket *socket = talk_open(&ensemble, (uint32_t)i % 3, NULL);
        int groups = i + 1 < CUTS ? (int)rng_below(&rng, CHANGES / 4) : CHANGES * 3;

        watch_from(socket, since);
        (void)take_groups(socket, &told, since, groups, last);
        socket_close(socket);
    }
    assert_true(take_groups(steady, &all, start, CHANGES * 3, last));
    assert_string_equal(buf_cstr(&told), buf_cstr(&all));
    assert_true(all.len > CHANGES * strlen("NodeDataChanged /r/0."));
    buf_release(&all);
    buf_release(&told);
    socket_close(writer);
    socket_close(steady);
}

TEST(a_future_zxid_is_waited_for_or_refused)
{
    struct socket *socket = talk_open(&ensemble, 2, NULL);

    assert_string_equal(talk_error(socket, "\"op\":\"watch\",\"path\":\"/r\",\"kind\":\"data\","
                                           "\"since\":\"0x7fff00000000\""),
                        "ReplicaBehind");
    assert_string_equal(talk_error(socket, "\"op\":\"watch\",\"path\":\"/r\",\"kind\":\"data\","
                                           "\"since\":\"0000000000000001:0x1\""),
                        "HistoryChanged");
    socket_close(socket);
}

/* The last test: it kills all replicas but one. */
TEST(an_isolated_replica_closes_its_sockets)
{
    struct socket *socket = talk_open(&ensemble, 2, NULL);
    json_t *event = NULL;

    ensemble_kill(&ensemble, 0);
    ensemble_kill(&ensemble, 1);
    event = socket_event(socket, "closing", ENSEMBLE_DEADLINE_MS);
    ENSEMBLE_CHECK(&ensemble, event != NULL);
    assert_string_equal(talk_text(event, "reason"), "stale");
    json_decref(event);
    assert_true(socket_wait_end(socket, ENSEMBLE_DEADLINE_MS));
    assert_int_equal(socket_close_code(socket), UNFIT);
    socket_close(socket);
}
