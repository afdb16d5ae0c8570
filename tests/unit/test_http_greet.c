/* Bursts of new streams: the thread that sends events opens a few of them at a time. */
#include "http/greet.h"
#include "tests/lib/stream_kit.h"
#include "tests/unit/http_front.h"

enum {
    STREAMS = 40
};

static const char request[] = "GET /watch/v1/ HTTP/1.1\r\nHost: localhost\r\n\r\n";

/* As if the thread had as many new connections as it may have. */
static void fill(void)
{
    atomic_fetch_add(&http->greet.given, HTTP_GREETS_MAX);
}

static void await_handed(uint32_t count)
{
    uint64_t end_ms = os_now_ms() + KIT_DEADLINE_MS;

    while (atomic_load(&http->greet.handed) < count) {
        assert_true(os_now_ms() < end_ms);
        poll(NULL, 0, 1);
    }
}

static void assert_begins(int fd)
{
    char first[12];

    assert_int_equal(recv(fd, first, sizeof(first), MSG_WAITALL), sizeof(first));
    assert_memory_equal(first, "HTTP/1.1 200", sizeof(first));
}

TEST(all_streams_of_a_burst_are_opened, front_setup, front_teardown)
{
    int fds[STREAMS];

    for (int i = 0; i < STREAMS; i++) {
        fds[i] = kit_connect(port);
    }
    for (int i = 0; i < STREAMS; i++) {
        kit_send(fds[i], request);
    }
    for (int i = 0; i < STREAMS; i++) {
        assert_begins(fds[i]);
        close(fds[i]);
    }
    assert_int_equal(atomic_load(&http->greet.handed), 0);
    assert_int_equal(atomic_load(&http->greet.given), 0);
}

/* Other requests are not held. A thread that reports nothing holds no stream for ever: what it was
 * given until then no longer counts. */
TEST(a_stream_waits_for_others_for_a_while, front_setup, front_teardown)
{
    uint64_t start_ms = os_now_ms();
    int fd = kit_connect(port);

    fill();
    kit_send(fd, request);
    assert_int_equal(front_ask("GET", "/znodes/v1/", "", NULL), 200);
    assert_begins(fd);
    assert_true(os_now_ms() >= start_ms + HTTP_GREETS_MS);
    assert_int_equal(atomic_load(&http->greet.given), 0);
    close(fd);
}

TEST(a_stream_that_others_have_made_room_for_begins, front_setup, front_teardown)
{
    int fds[STREAMS];

    fill();
    for (int i = 0; i < STREAMS; i++) {
        fds[i] = kit_connect(port);
        kit_send(fds[i], request);
    }
    await_handed(1);
    atomic_store(&http->greet.given, 0);
    loop_wake(http->greet.wake_fd);
    for (int i = 0; i < STREAMS; i++) {
        assert_begins(fds[i]);
        close(fds[i]);
    }
}

TEST(the_stop_closes_streams_that_wait)
{
    uint8_t bytes[4096];
    int fd = -1;

    front_setup();
    fd = kit_connect(port);
    fill();
    kit_send(fd, request);
    await_handed(1);
    http_stop(http);
    while (recv(fd, bytes, sizeof(bytes), 0) > 0) {
    }
    close(fd);
    kit_gate_free(gate);
}
