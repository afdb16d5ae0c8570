/* Clients of ZooKeeper's protocol: sessions, requests in order, watches. */
#include "zk/wire.h"

#include "tests/proc/ensemble.h"
#include "tests/proc/native.h"

#include <stdio.h>

enum {
    TIMEOUT_MS = 20000,
    PIPELINE = 3000,
    CLIENTS = 20,
    VALUE_MAX = 64
};

static struct ensemble ensemble;

static uint16_t port(uint32_t index)
{
    return ensemble.replicas[index].client_port;
}

static void open_one(void)
{
    ensemble_launch(&ensemble, 1, "headTimeout=2000\nzkWords=ruok,srvr,mntr\n");
}

static void open_three(void)
{
    ensemble_launch(&ensemble, 3, NULL);
}

static void shut(void)
{
    ensemble_close(&ensemble);
}

#define TEST_ONE(name)   TEST(name, open_one, shut)
#define TEST_THREE(name) TEST(name, open_three, shut)

static int32_t do_path(struct native *native, int32_t type, const char *path, int flag)
{
    native_send_path(native, type, path, flag);
    return native_reply(native, NULL);
}

static int32_t do_create(struct native *native, const char *path, int flags)
{
    native_send_create(native, path, "x", flags);
    return native_reply(native, NULL);
}

/* ---- Sessions ---- */

TEST_ONE(a_session_is_opened_pinged_and_closed)
{
    struct native *native = native_open(port(0), TIMEOUT_MS);
    struct native_frame frame;

    assert_int_equal(native->timeout_ms, TIMEOUT_MS);
    assert_true(native->session != 0);
    native_send_plain(native, ZK_PING);
    assert_true(native_next(native, &frame));
    assert_int_equal(frame.xid, ZK_XID_PING);
    assert_int_equal(frame.err, 0);
    assert_int_equal(do_create(native, "/e", 1), 0);
    native_send_plain(native, ZK_CLOSE_SESSION);
    assert_int_equal(native_reply(native, NULL), 0);
    assert_true(native_ends(native));
    assert_int_equal(ensemble_call(&ensemble, 0, "GET", "/znodes/v1/e", NULL), 404);
    struct native *again = native_take_over(port(0), native, 0);

    assert_null(again);
    native_close(native);
}

TEST_ONE(a_wrong_password_disturbs_nobody)
{
    struct native *owner = native_open(port(0), TIMEOUT_MS);
    struct native *thief = native_dial(port(0));

    thief->session = owner->session;
    memset(thief->passwd, 7, sizeof(thief->passwd));
    assert_false(native_connect(thief, 0, TIMEOUT_MS));
    assert_int_equal(thief->timeout_ms, 0);
    assert_int_equal(thief->session, 0);
    assert_true(native_ends(thief));
    assert_int_equal(do_create(owner, "/mine", 1), 0);
    native_close(thief);
    native_close(owner);
}

/* The right password of one session does not open another, and moves none. */
TEST_ONE(a_password_belongs_to_its_session)
{
    struct native *one = native_open(port(0), TIMEOUT_MS);
    struct native *two = native_open(port(0), TIMEOUT_MS);
    struct native *thief = native_dial(port(0));

    thief->session = one->session;
    memcpy(thief->passwd, two->passwd, sizeof(thief->passwd));
    assert_false(native_connect(thief, 0, TIMEOUT_MS));
    assert_int_equal(do_create(one, "/one", 1), 0);
    assert_int_equal(do_create(two, "/two", 1), 0);
    native_close(thief);
    native_close(one);
    native_close(two);
}

TEST_THREE(a_session_moves_between_replicas)
{
    struct native *first = native_open(port(0), TIMEOUT_MS);
    struct native_frame frame;

    native_send_create(first, "/e", "x", 1);
    assert_int_equal(native_reply(first, &frame), 0);

    struct native *second = native_take_over(port(1), first, frame.zxid);

    assert_non_null(second);
    assert_int_equal(second->session, first->session);
    assert_true(native_ends(first));
    /* The state that the client has seen is there: the wait is at most half a second. */
    assert_int_equal(do_path(second, ZK_EXISTS, "/e", 0), 0);

    struct native *third = native_take_over(port(2), second, 0);

    assert_non_null(third);
    assert_true(native_ends(second));
    assert_int_equal(do_create(third, "/f", 1), 0);
    native_close(first);
    native_close(second);
    native_close(third);
}

TEST_THREE(a_session_survives_the_leader)
{
    uint32_t leader = ensemble_wait_leader(&ensemble);
    struct native *native = native_open(port(leader), TIMEOUT_MS);
    struct native *again = NULL;

    assert_int_equal(do_create(native, "/e", 1), 0);
    ensemble_kill(&ensemble, leader);
    assert_true(native_ends(native));
    ENSEMBLE_WAIT(&ensemble, (again = native_take_over(port((leader + 1) % 3), native, 0)) != NULL);
    assert_int_equal(do_create(again, "/f", 1), 0);
    assert_int_equal(do_path(again, ZK_EXISTS, "/e", 0), 0);
    native_close(native);
    native_close(again);
}

TEST_ONE(a_silent_client_loses_its_session)
{
    struct native *native = native_open(port(0), 1);

    assert_int_equal(do_create(native, "/e", 1), 0);
    assert_true(native->timeout_ms > 1);
    assert_true(native_ends(native));
    ENSEMBLE_WAIT(&ensemble, ensemble_call(&ensemble, 0, "GET", "/znodes/v1/e", NULL) == 404);
    assert_null(native_take_over(port(0), native, 0));
    native_close(native);
}

TEST_ONE(a_client_that_has_seen_more_is_closed)
{
    struct native *native = native_dial(port(0));

    assert_false(native_connect(native, UINT64_C(0x7fff00000000), TIMEOUT_MS));
    assert_true(native_ends(native));
    native_close(native);
}

/* ---- Requests ---- */

TEST_ONE(thousands_of_requests_are_answered_in_order)
{
    struct native *native = native_open(port(0), TIMEOUT_MS);
    struct native_frame frame;
    char value[VALUE_MAX];

    assert_int_equal(do_create(native, "/p", 0), 0);
    int32_t first = native->xid + 1;

    for (int i = 0; i < PIPELINE; i++) {
        (void)snprintf(value, sizeof(value), "%d", i);
        native_send_set(native, "/p", value, i);
        native_send_path(native, ZK_GET_DATA, "/p", 0);
    }
    for (int i = 0; i < PIPELINE; i++) {
        assert_true(native_next(native, &frame));
        assert_int_equal(frame.xid, first + 2 * i);
        assert_int_equal(frame.err, 0);
        assert_true(native_next(native, &frame));
        assert_int_equal(frame.xid, first + 2 * i + 1);
        assert_int_equal(frame.err, 0);
        (void)snprintf(value, sizeof(value), "%d", i);
        assert_true(slice_eq(zk_get_bytes(&frame.body), slice_str(value)));
    }
    native_close(native);
}

TEST_ONE(each_operation_is_answered)
{
    struct native *native = native_open(port(0), TIMEOUT_MS);
    struct native_frame frame;

    assert_int_equal(do_create(native, "/a", 0), 0);
    assert_int_equal(do_create(native, "/a", 0), -110);
    assert_int_equal(do_create(native, "/a/s-", 2), 0);
    assert_int_equal(do_create(native, "/a/e", 1), 0);
    assert_int_equal(do_create(native, "/none/x", 0), -101);
    native_send_set(native, "/a", "y", 7);
    assert_int_equal(native_reply(native, NULL), -103);
    native_send_delete(native, "/a", -1);
    assert_int_equal(native_reply(native, NULL), -111);
    assert_int_equal(do_path(native, ZK_EXISTS, "/none", 0), -101);
    assert_int_equal(do_path(native, ZK_GET_DATA, "bad", 0), -101);
    assert_int_equal(do_path(native, ZK_GET_ACL, "/a", -1), 0);
    native_send_path(native, ZK_GET_CHILDREN2, "/a", 0);
    assert_int_equal(native_reply(native, &frame), 0);
    assert_int_equal(zk_get_int(&frame.body), 2);
    assert_int_equal(do_path(native, ZK_SYNC, "/a", -1), 0);
    native_send_path(native, ZK_GET_EPHEMERALS, "/a", -1);
    assert_int_equal(native_reply(native, &frame), 0);
    assert_int_equal(zk_get_int(&frame.body), 1);
    assert_true(slice_eq(zk_get_bytes(&frame.body), slice_str("/a/e")));
    native_send_path(native, ZK_GET_ALL_CHILDREN_NUMBER, "/a", -1);
    assert_int_equal(native_reply(native, &frame), 0);
    assert_int_equal(zk_get_int(&frame.body), 2);
    native_send_plain(native, ZK_WHO_AM_I);
    assert_int_equal(native_reply(native, &frame), 0);
    native_close(native);
}

/* The empty multi, and one whose second element fails. */
TEST_ONE(a_multi_is_all_or_nothing)
{
    struct native *native = native_open(port(0), TIMEOUT_MS);
    struct native_frame frame;
    struct buf *out = &native->out;

    (void)native_begin(native, ZK_MULTI);
    for (int i = 0; i < 2; i++) {
        zk_put_int(out, ZK_DELETE);
        zk_put_bool(out, false);
        zk_put_int(out, -1);
        zk_put_bytes(out, slice_str(i == 0 ? "/d" : "/none"));
        zk_put_int(out, -1);
    }
    zk_put_int(out, -1);
    zk_put_bool(out, true);
    zk_put_int(out, -1);
    native_end(native);
    assert_int_equal(native_reply(native, &frame), 0);
    const int32_t codes[] = {-101, -2};

    for (int i = 0; i < 2; i++) {
        assert_int_equal(zk_get_int(&frame.body), -1);
        assert_false(zk_get_bool(&frame.body));
        assert_int_equal(zk_get_int(&frame.body), codes[i]);
        assert_int_equal(zk_get_int(&frame.body), codes[i]);
    }
    native_close(native);
}

/* The frame of a connect request for a new session. */
static const uint8_t hello[] = {0, 0,  0,  45, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  0, 0,
                                0, 78, 32, 0,  0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0,
                                0, 0,  0,  0,  0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};

/* A session's id is the zxid of its opening, and each write of the client costs one more. So the
 * ids of clients that come together leave no gap. */
TEST_ONE(a_session_is_opened_by_one_transaction)
{
    struct native *natives[CLIENTS];
    struct native_frame frame;
    uint64_t first = UINT64_MAX;
    uint64_t last = 0;

    for (size_t i = 0; i < CLIENTS; i++) {
        natives[i] = native_dial(port(0));
        native_send_bytes(natives[i], hello, sizeof(hello));
    }
    for (size_t i = 0; i < CLIENTS; i++) {
        assert_true(native_next(natives[i], &frame));
        /* The id has the bytes of a reply's zxid from the fifth on, and those of its error. */
        uint64_t id = frame.zxid << 32 | (uint32_t)frame.err;

        first = id < first ? id : first;
        last = id > last ? id : last;
    }
    assert_int_equal(last - first, CLIENTS - 1);
    native_send_create(natives[0], "/mine", "x", 1);
    assert_int_equal(native_reply(natives[0], &frame), 0);
    assert_int_equal(frame.zxid, last + 1);
    for (size_t i = 0; i < CLIENTS; i++) {
        native_close(natives[i]);
    }
}

/* Requests that arrive before the session stands are answered after it. */
TEST_ONE(a_client_may_send_before_its_session_stands)
{
    struct native *native = native_dial(port(0));
    struct buf all;

    /* The frames of a connect request and of two requests, in one write. */
    buf_init(&all, (size_t)VALUE_MAX * 16);
    static const uint8_t ping[] = {0, 0, 0, 8, 255, 255, 255, 254, 0, 0, 0, 11};
    static const uint8_t who[] = {0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 107};
    struct native_frame frame;

    (void)buf_append(&all, hello, sizeof(hello));
    (void)buf_append(&all, who, sizeof(who));
    (void)buf_append(&all, ping, sizeof(ping));
    native_send_bytes(native, all.data, all.len);
    assert_true(native_next(native, &frame)); /* The answer to the first frame. */
    assert_true(native_next(native, &frame));
    bool who_first = frame.xid == 1;

    assert_true(who_first || frame.xid == ZK_XID_PING);
    assert_true(native_next(native, &frame));
    assert_int_equal(frame.xid, who_first ? ZK_XID_PING : 1);
    buf_release(&all);
    native_close(native);
}

/* ---- Watches ---- */

TEST_ONE(an_event_precedes_the_reply_that_shows_its_change)
{
    struct native *watcher = native_open(port(0), TIMEOUT_MS);
    struct native *writer = native_open(port(0), TIMEOUT_MS);
    struct native_frame frame;

    assert_int_equal(do_create(writer, "/w", 0), 0);
    for (int i = 0; i < 200; i++) {
        assert_int_equal(do_path(watcher, ZK_GET_DATA, "/w", 1), 0);
        native_send_set(writer, "/w", "y", -1);
        native_send_path(watcher, ZK_EXISTS, "/w", 0);
        assert_true(native_next(watcher, &frame));
        if (frame.xid == ZK_XID_EVENT) { /* The reply behind it shows the change. */
            assert_true(native_next(watcher, &frame));
            assert_int_equal(frame.xid, watcher->xid);
            assert_int_equal(native_reply(writer, NULL), 0);
        } else {
            zxid_t shown = frame.zxid;

            assert_int_equal(native_reply(writer, &frame), 0);
            assert_true(shown < frame.zxid);
            assert_int_equal(native_event(watcher, "/w"), 3);
        }
    }
    native_close(watcher);
    native_close(writer);
}

TEST_ONE(a_write_has_its_own_event_first)
{
    struct native *native = native_open(port(0), TIMEOUT_MS);

    assert_int_equal(do_path(native, ZK_EXISTS, "/n", 1), -101);
    assert_int_equal(do_path(native, ZK_GET_CHILDREN, "/", 1), 0);
    native_send_create(native, "/n", "x", 0);
    assert_int_equal(native_event(native, "/n"), 1);
    assert_int_equal(native_event(native, "/"), 4);
    assert_int_equal(native_reply(native, NULL), 0);
    native_close(native);
}

TEST_ONE(watches_are_added_found_and_removed)
{
    struct native *native = native_open(port(0), TIMEOUT_MS);

    assert_int_equal(do_path(native, ZK_ADD_WATCH, "/r", ZK_ADD_RECURSIVE), 0);
    assert_int_equal(do_path(native, ZK_ADD_WATCH, "/p", ZK_ADD_PERSISTENT), 0);
    native_send_create(native, "/r", "x", 0);
    assert_int_equal(native_event(native, "/r"), 1);
    assert_int_equal(native_reply(native, NULL), 0);
    native_send_create(native, "/r/c", "x", 0);
    assert_int_equal(native_event(native, "/r/c"), 1);
    assert_int_equal(native_reply(native, NULL), 0);
    native_send_create(native, "/p", "x", 0);
    assert_int_equal(native_event(native, "/p"), 1);
    assert_int_equal(native_reply(native, NULL), 0);
    native_send_create(native, "/p/c", "x", 0);
    assert_int_equal(native_event(native, "/p"), 4);
    assert_int_equal(native_reply(native, NULL), 0);
    assert_int_equal(do_path(native, ZK_CHECK_WATCHES, "/r", ZK_WATCHES_ANY), 0);
    assert_int_equal(do_path(native, ZK_CHECK_WATCHES, "/r", ZK_WATCHES_DATA), -121);
    assert_int_equal(do_path(native, ZK_REMOVE_WATCHES, "/r", ZK_WATCHES_ANY), 0);
    assert_int_equal(do_path(native, ZK_REMOVE_WATCHES, "/r", ZK_WATCHES_ANY), -121);
    assert_int_equal(do_create(native, "/r/d", 0), 0);
    native_close(native);
}

TEST_ONE(watches_are_set_again_after_a_reconnect)
{
    struct native *native = native_open(port(0), TIMEOUT_MS);
    struct native_frame frame;

    assert_int_equal(do_create(native, "/old", 0), 0);
    native_send_create(native, "/same", "x", 0);
    assert_int_equal(native_reply(native, &frame), 0);
    zxid_t since = frame.zxid;

    native_send_set(native, "/old", "y", -1);
    assert_int_equal(native_reply(native, &frame), 0);
    native_send_set_watches(native, since, "/old", "/same", "/none");
    assert_int_equal(native_event(native, "/old"), 3);
    assert_int_equal(native_event(native, "/same"), 1);
    assert_int_equal(native_event(native, "/none"), 2);
    assert_int_equal(native_reply(native, &frame), 0);
    native_send_set_watches(native, frame.zxid, "/same", "/none", "/");
    assert_int_equal(native_reply(native, NULL), 0);
    native_send_create(native, "/none", "x", 0);
    assert_int_equal(native_event(native, "/none"), 1);
    assert_int_equal(native_event(native, "/"), 4);
    assert_int_equal(native_reply(native, NULL), 0);
    native_close(native);
}

/* ---- One tree for all protocols ---- */

TEST_ONE(http_and_native_clients_share_tree_and_watches)
{
    struct native *native = native_open(port(0), TIMEOUT_MS);

    assert_int_equal(do_path(native, ZK_EXISTS, "/h", 1), -101);
    assert_int_equal(ensemble_call(&ensemble, 0, "POST", "/znodes/v1/?op=create&name=h", ""), 201);
    assert_int_equal(native_event(native, "/h"), 1);
    assert_int_equal(do_create(native, "/e", 1), 0);
    assert_int_equal(ensemble_call(&ensemble, 0, "GET", "/znodes/v1/e", NULL), 200);

    /* Its session is used over HTTP by the text of the password. */
    const uint8_t *p = native->passwd;
    char target[VALUE_MAX * 2];

    (void)snprintf(target, sizeof(target),
                   "/sessions/v1/%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x"
                   "%02x",
                   p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8], p[9], p[10], p[11], p[12],
                   p[13], p[14], p[15]);
    assert_int_equal(ensemble_call(&ensemble, 0, "PUT", target, NULL), 200);
    assert_int_equal(ensemble_call(&ensemble, 0, "DELETE", target, NULL), 204);
    assert_true(native_ends(native));
    native_close(native);
}

/* Whether a recorded series of the replica has had another value than 0. */
static bool has_recorded(const char *series)
{
    char target[VALUE_MAX];

    (void)snprintf(target, sizeof(target), "/metrics/history/v1?series=%s", series);
    assert_int_equal(ensemble_call(&ensemble, 0, "GET", target, NULL), 200);
    const char *at = strstr(web_text(&ensemble.reply), series);

    return at && strpbrk(at, "123456789");
}

TEST_ONE(the_history_has_the_figures_of_native_clients)
{
    struct native *native = native_open(port(0), TIMEOUT_MS);

    ENSEMBLE_WAIT(&ensemble, has_recorded("native"));
    ENSEMBLE_WAIT(&ensemble,
                  do_path(native, ZK_EXISTS, "/", 0) == 0 && has_recorded("native_requests"));
    native_close(native);
}
