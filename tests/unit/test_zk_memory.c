/* The memory of requests of native clients: what counts, until when, and which request waits for
 * room. */
#include "zk/wire.h"

#include "tests/lib/unit.h"
#include "tests/lib/zk_ask.h"
#include "tests/unit/zk_bench.h"

#include <sys/socket.h>
#include <unistd.h>

enum {
    ELEMENTS = 90,
    TIMEOUT_MS = 20000,
    ROUNDS = 10,
    LARGE = 4 * ZK_ALWAYS_BYTES,
    BYTES_MAX = 1 << 20,
    CODE_AT = 16 /* Behind the length, the xid and the zxid. */
};

static struct zk_bench bench;
static struct buf bytes; /* To be sent. */

static void set_up(void)
{
    zk_bench_open(&bench);
    buf_init(&bytes, BYTES_MAX);
}

static void tear_down(void)
{
    zk_bench_close(&bench);
    buf_release(&bytes);
}

static void rounds(void)
{
    for (int i = 0; i < ROUNDS; i++) {
        zk_bench_round(&bench);
    }
    zk_bench_check(&bench);
}

static void serve(void)
{
    rounds();
    while (zk_bench_run(&bench, 0) || zk_bench_answer(&bench, 0)) {
        rounds();
    }
}

static void put(int fd)
{
    assert_int_equal(send(fd, bytes.data, bytes.len, 0), bytes.len);
    buf_clear(&bytes);
}

/* Whether the client has received anything since the last call. */
static bool got(int fd)
{
    char text[4096];

    return recv(fd, text, sizeof(text), 0) > 0;
}

/* Returns the code of the reply that the client has received. */
static int32_t code(int fd)
{
    uint8_t frame[4096];

    assert_true(recv(fd, frame, sizeof(frame), 0) >= CODE_AT + ZK_INT_BYTES);
    return zk_load_int(frame + CODE_AT);
}

static int dial(void)
{
    static const uint8_t passwd[ZK_PASSWD_BYTES];
    int fd = zk_bench_dial(&bench, 0);

    zk_ask_hello(&bytes, 0, TIMEOUT_MS, 0, passwd);
    put(fd);
    serve();
    assert_true(got(fd));
    return fd;
}

static void ask_multi(int32_t xid)
{
    size_t at = zk_ask_begin(&bytes, xid, ZK_MULTI);

    for (int i = 0; i < ELEMENTS; i++) {
        zk_put_int(&bytes, ZK_CHECK);
        buf_append_byte(&bytes, 0);
        zk_put_int(&bytes, -1);
        zk_put_bytes(&bytes, slice_str("/"));
        zk_put_int(&bytes, -1);
    }
    zk_put_int(&bytes, -1);
    buf_append_byte(&bytes, 1);
    zk_put_int(&bytes, -1);
    zk_frame_end(&bytes, at);
}

static uint64_t used(void)
{
    return budget_used(&bench.zk->calls.budget);
}

TEST(operations_count_and_not_only_their_bytes, set_up, tear_down)
{
    int fd = dial();

    assert_int_equal(used(), 0);
    ask_multi(1);
    put(fd);
    rounds();
    assert_true(used() > ELEMENTS * sizeof(struct op_args));
    serve();
    assert_true(got(fd));
    assert_int_equal(used(), 0);
    close(fd);
    rounds();
}

TEST(a_request_counts_until_the_gate_has_returned_it, set_up, tear_down)
{
    int fd = dial();

    ask_multi(1);
    put(fd);
    rounds();
    close(fd);
    rounds();
    assert_int_equal(bench.seats, 0);
    assert_true(used() > ELEMENTS * sizeof(struct op_args));
    serve();
    assert_int_equal(used(), 0);
}

TEST(a_request_waits_for_room_and_a_small_one_does_not, set_up, tear_down)
{
    static const char data[LARGE];
    int greedy = dial();
    int large = dial();
    int small = dial();

    bench.zk->calls.address_max = ELEMENTS; /* The first request needs more. */
    ask_multi(1);
    put(greedy);
    rounds();
    zk_ask_create(&bytes, 1, ZK_CREATE, "/large", slice_make(data, sizeof(data)), 0);
    put(large);
    zk_ask_create(&bytes, 1, ZK_CREATE, "/small", slice_str("x"), 0);
    put(small);
    rounds();
    assert_int_equal(bench.inside_count, 2); /* The large one is not there. */
    serve();
    assert_true(got(greedy) && got(small) && got(large));
    assert_int_equal(used(), 0);
    close(greedy);
    close(large);
    close(small);
    rounds();
}

/* The second of two small requests waits only for the first one. */
TEST(small_requests_are_taken_one_after_the_other, set_up, tear_down)
{
    int greedy = dial();
    int small = dial();

    bench.zk->calls.address_max = ELEMENTS; /* The first request needs more. */
    ask_multi(1);
    put(greedy);
    rounds();
    for (int32_t xid = 1; xid <= 3; xid++) {
        zk_ask_set(&bytes, xid, "/", slice_str("x"), -1);
    }
    put(small);
    for (int i = 0; i < 3; i++) {
        rounds();
        assert_int_equal(bench.inside_count, 2);
        assert_non_null(zk_bench_run(&bench, 1));
        assert_non_null(zk_bench_answer(&bench, 0));
        rounds();
        assert_true(got(small));
    }
    assert_int_equal(bench.inside_count, 1);
    serve();
    assert_true(got(greedy));
    close(greedy);
    close(small);
    rounds();
}

/* Its turn frees the memory: nothing else need happen for the next turn of the one that waits. */
TEST(room_that_a_turn_has_given_is_used_at_once, set_up, tear_down)
{
    int fd = dial();

    bench.zk->calls.address_max = ELEMENTS;
    zk_ask_set(&bytes, 1, "/", slice_str("x"), -1);
    zk_ask_set(&bytes, 2, "/", slice_str("x"), -1);
    put(fd);
    rounds();
    assert_int_equal(bench.inside_count, 1);
    assert_non_null(zk_bench_run(&bench, 0));
    assert_non_null(zk_bench_answer(&bench, 0));
    for (int i = 0; i < ROUNDS && budget_used(&bench.zk->calls.budget) > 0; i++) {
        zk_bench_round(&bench);
    }
    assert_true(got(fd));
    assert_false(list_empty(&bench.zk->turn));
    serve();
    assert_true(got(fd));
    close(fd);
    rounds();
}

TEST(a_connection_that_waits_for_room_may_end, set_up, tear_down)
{
    static const char data[LARGE];
    int greedy = dial();
    int large = dial();

    bench.zk->calls.address_max = ELEMENTS;
    ask_multi(1);
    put(greedy);
    rounds();
    zk_ask_create(&bytes, 1, ZK_CREATE, "/large", slice_make(data, sizeof(data)), 0);
    put(large);
    rounds();
    close(large);
    serve();
    assert_true(got(greedy));
    assert_int_equal(bench.seats, 1);
    close(greedy);
    rounds();
}

TEST(watches_of_one_address_have_a_part_of_memory, set_up, tear_down)
{
    int fd = dial();

    bench.zk->watches.address_max = 1;
    zk_ask_path(&bytes, 1, ZK_EXISTS, "/one", 1);
    put(fd);
    serve();
    assert_true(got(fd));
    assert_true(budget_used(&bench.zk->watches.budget) > 1);
    zk_ask_path(&bytes, 2, ZK_EXISTS, "/one", 1); /* The same watch. */
    put(fd);
    serve();
    assert_int_equal(code(fd), ZK_NO_NODE);
    zk_ask_path(&bytes, 3, ZK_EXISTS, "/two", 1);
    put(fd);
    serve();
    assert_int_equal(code(fd), ZK_THROTTLED);
    close(fd);
    rounds();
    assert_int_equal(budget_used(&bench.zk->watches.budget), 0);
}

TEST(without_a_leader_no_session_is_opened, set_up, tear_down)
{
    static const uint8_t passwd[ZK_PASSWD_BYTES];
    int fd = zk_bench_dial(&bench, 0);

    bench.gate->leaderless = true;
    zk_ask_hello(&bytes, 0, TIMEOUT_MS, 0, passwd);
    put(fd);
    rounds();
    assert_int_equal(bench.inside_count, 0);
    assert_false(got(fd));
    close(fd);
    rounds();
    assert_int_equal(bench.seats, 0);
}

TEST(a_session_whose_client_has_gone_is_not_opened, set_up, tear_down)
{
    static const uint8_t passwd[ZK_PASSWD_BYTES];
    int fd = zk_bench_dial(&bench, 0);

    zk_ask_hello(&bytes, 0, TIMEOUT_MS, 0, passwd);
    put(fd);
    rounds();
    const struct op_request *request = list_first(&bench.inside, struct op_request, node);

    zk_bench_pass(&bench, ZK_TICK_MS);
    rounds();
    assert_int_equal(bench.seats, 1);
    assert_false(request->abandoned);
    close(fd);
    bench.zk->tick_ms = os_now_ms() - ZK_LATE_MS; /* Also a late tick notices it. */
    zk_tick(bench.zk);
    rounds();
    assert_int_equal(bench.seats, 0);
    assert_true(request->abandoned);
}

/* A session that could not be opened in a third of its timeout is not wanted any more. */
TEST(a_request_for_a_session_does_not_wait_long, set_up, tear_down)
{
    static const uint8_t passwd[ZK_PASSWD_BYTES];
    int fd = zk_bench_dial(&bench, 0);
    uint64_t now_ms = os_now_ms();

    bench.gate->limits.request_timeout_ms = 10 * TIMEOUT_MS;
    zk_ask_hello(&bytes, 0, TIMEOUT_MS, 0, passwd);
    put(fd);
    rounds();
    const struct op_request *request = list_first(&bench.inside, struct op_request, node);

    assert_true(request->deadline_ms >= now_ms + TIMEOUT_MS / 3);
    assert_true(request->deadline_ms <= os_now_ms() + TIMEOUT_MS / 3);
    serve();
    assert_true(got(fd));
    close(fd);
    rounds();
}
