/* Clients of ZooKeeper's protocol behind thin links, and wall clocks that jump beneath their
 * sessions. */
#include "tests/proc/ensemble.h"
#include "tests/proc/faulty.h"
#include "tests/proc/native.h"
#include "tests/proc/slow_link.h"

#include <stdio.h>

#define YEARS_MS INT64_C(315360000000) /* Ten. */

enum {
    REPLICAS = 3,
    SESSION_MS = 2000,
    EARLY_MS = 100,  /* The timeout counts from the last sign of life that the leader has heard. */
    LATE_MS = 10000, /* A busy machine may take so long beyond it. */
    ALIVE_MS = 5000,
    SLOW_MS = 2000,
    TIMEOUT_MS = 20000,
    DATA_BYTES = 20000,
    READS = 70,
    RATE = 400000,    /* Bytes a second of a thin link. */
    QUICK_MS = 1500,  /* Of a request of another client, on a busy machine. */
    PATH_BYTES = 400, /* Long events. */
    CHANGES = 10000,
    PIPELINED = 100,
    QUEUE_BYTES = 65536,
    UNSENT_BYTES = 1 << 20 /* That a slow client may have besides its events. */
};

static struct ensemble ensemble;
static struct faulty *faulty[REPLICAS];
static struct slow_link thin;

static uint16_t port(uint32_t index)
{
    return ensemble.replicas[index].client_port;
}

static int32_t do_create(struct native *native, const char *path, const char *data, int flags)
{
    native_send_create(native, path, data, flags);
    return native_reply(native, NULL);
}

static int32_t do_exists(struct native *native, const char *path)
{
    native_send_path(native, ZK_EXISTS, path, 0);
    return native_reply(native, NULL);
}

/* ---- Wrong clocks ---- */

static void open_with_clocks(void)
{
    ensemble_open(&ensemble, REPLICAS, "tickTime=300\n");
    ensemble.faulty = true;
    for (uint32_t i = 0; i < REPLICAS; i++) {
        faulty[i] = faulty_open(ensemble.replicas[i].faulty);
        ensemble_start(&ensemble, i);
    }
    ensemble_wait_all_ready(&ensemble);
}

static void close_all(void)
{
    ensemble_close(&ensemble);
}

/* Each replica has another time, and all of them jump at each call. */
static void jump_clocks(uint32_t turn)
{
    static const int64_t offsets[] = {YEARS_MS, -YEARS_MS, 0, 3600000, -3600000};

    for (uint32_t i = 0; i < REPLICAS; i++) {
        atomic_store(&faulty[i]->wall_offset_ms,
                     offsets[(turn + i) % (sizeof(offsets) / sizeof(offsets[0]))]);
    }
}

static bool is_there(const char *path)
{
    return ensemble_call(&ensemble, 0, "GET", path, NULL) == 200;
}

/* The silent session ends by its timeout, and the session with requests stays. */
TEST(clocks_that_jump_neither_end_nor_keep_a_session, open_with_clocks, close_all)
{
    uint32_t leader = ensemble_wait_leader(&ensemble);
    struct native *alive = native_open(port(leader), SESSION_MS);
    struct native *silent = native_open(port((leader + 1) % REPLICAS), SESSION_MS);
    uint64_t begin_ms = 0;
    uint64_t end_ms = 0;
    uint64_t now_ms = 0;

    assert_int_equal(alive->timeout_ms, SESSION_MS);
    assert_int_equal(do_create(alive, "/alive", "x", 1), 0);
    begin_ms = os_now_ms();
    assert_int_equal(do_create(silent, "/silent", "x", 1), 0);
    for (uint32_t turn = 0; now_ms < begin_ms + ALIVE_MS || end_ms == 0; turn++) {
        if (turn % 8 == 0) {
            jump_clocks(turn / 8);
        }
        native_send_plain(alive, ZK_PING);
        struct native_frame frame;

        assert_true(native_next(alive, &frame)); /* Its session has not ended. */
        now_ms = os_now_ms();
        if (end_ms == 0 && !is_there("/znodes/v1/silent?consistency=linearizable")) {
            end_ms = now_ms;
        }
        assert_true(end_ms != 0 || now_ms < begin_ms + SESSION_MS + LATE_MS);
        ensemble_breathe();
    }
    print_message("the silent session ended after %u ms\n", (uint32_t)(end_ms - begin_ms));
    assert_true(end_ms - begin_ms + EARLY_MS >= SESSION_MS);
    assert_int_equal(do_exists(alive, "/alive"), 0);
    assert_null(native_take_over(port(leader), silent, 0));
    native_close(silent);
    native_close(alive);
}

/* ---- Thin links ---- */

static void open_thin(void)
{
    ensemble_launch(&ensemble, 1, "slowTimeout=2000\nmaxSocketQueueBytes=65536\n");
    slow_link_start(&thin, port(0), RATE);
}

static void close_thin(void)
{
    slow_link_stop(&thin);
    ensemble_close(&ensemble);
}

static uint64_t closed_as_slow(void)
{
    return ensemble_metric(&ensemble, 0, "zabra_native_closed_total{reason=\"slow\"}");
}

/* A client whose link stands is closed in time. */
static void expect_closed(uint64_t begin_ms)
{
    ENSEMBLE_WAIT(&ensemble, closed_as_slow() == 1 || os_now_ms() > begin_ms + SLOW_MS + LATE_MS);
    assert_int_equal(closed_as_slow(), 1);
}

static void quick_request(struct native *native)
{
    uint64_t begin_ms = os_now_ms();

    assert_int_equal(do_exists(native, "/d"), 0);
    assert_true(os_now_ms() - begin_ms < QUICK_MS);
}

/* A client whose link is thin, but moves, has all its replies in order; others have theirs at
 * once. When the link stands, the client is closed after slowTimeout. */
TEST(a_thin_link_is_served_and_delays_no_other_client, open_thin, close_thin)
{
    static char data[DATA_BYTES + 1];
    struct native *other = native_open(port(0), TIMEOUT_MS);
    struct native *slow = native_open(thin.port, TIMEOUT_MS);
    uint64_t begin_ms = os_now_ms();
    int32_t first = slow->xid + 1;

    memset(data, 'x', DATA_BYTES);
    assert_int_equal(do_create(other, "/d", data, 0), 0);
    for (int i = 0; i < READS; i++) {
        native_send_path(slow, ZK_GET_DATA, "/d", 0);
    }
    for (int i = 0; i < READS; i++) {
        struct native_frame frame;

        quick_request(other);
        assert_true(native_next(slow, &frame));
        assert_int_equal(frame.xid, first + i);
        assert_int_equal(zk_get_bytes(&frame.body).len, DATA_BYTES);
    }
    assert_true(os_now_ms() - begin_ms > 1000 * (uint64_t)(READS * DATA_BYTES) / RATE / 2);
    assert_int_equal(closed_as_slow(), 0);
    atomic_store(&thin.rate, 1);
    for (int i = 0; i < READS; i++) {
        native_send_path(slow, ZK_GET_DATA, "/d", 0);
    }
    expect_closed(os_now_ms());
    quick_request(other);
    native_close(slow);
    native_close(other);
}

static void change_often(struct native *other, const char *path)
{
    for (int i = 0; i < CHANGES / PIPELINED; i++) {
        for (int k = 0; k < PIPELINED; k++) {
            native_send_set(other, path, "y", -1);
        }
        for (int k = 0; k < PIPELINED; k++) {
            struct native_frame frame;

            assert_true(native_next(other, &frame));
            assert_int_equal(frame.err, 0);
        }
        assert_true(ensemble_metric(&ensemble, 0, "zabra_unsent_bytes") <
                    2 * (uint64_t)(QUEUE_BYTES + UNSENT_BYTES));
    }
}

/* A watcher whose link stands is closed before its events fill the memory. Its session lives, and
 * continues over another link. */
TEST(a_link_that_stands_is_closed_and_delays_no_other_client, open_thin, close_thin)
{
    char path[PATH_BYTES + 1] = "/";
    struct native *other = native_open(port(0), TIMEOUT_MS);
    struct native *slow = native_open(thin.port, TIMEOUT_MS);
    struct native *again = NULL;
    uint64_t begin_ms = 0;

    memset(path + 1, 'p', PATH_BYTES - 1);
    assert_int_equal(do_create(other, "/d", "x", 0), 0);
    assert_int_equal(do_create(other, path, "x", 0), 0);
    assert_int_equal(do_create(slow, "/mine", "x", 1), 0);
    native_send_path(slow, ZK_ADD_WATCH, "/", ZK_ADD_RECURSIVE);
    assert_int_equal(native_reply(slow, NULL), 0);
    atomic_store(&thin.rate, 1);
    begin_ms = os_now_ms();
    change_often(other, path);
    expect_closed(begin_ms);
    quick_request(other);
    again = native_take_over(port(0), slow, 0);
    assert_non_null(again);
    assert_int_equal(do_exists(again, "/mine"), 0);
    native_close(again);
    native_close(slow);
    native_close(other);
}
