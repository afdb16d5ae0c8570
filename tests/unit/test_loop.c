#include "base/loop.h"
#include "base/os_clock.h"
#include "tests/lib/ports.h"
#include "tests/lib/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum {
    WAIT_MS = 60000
};

struct end {
    struct loop_watch watch;
    struct loop *loop;
    uint32_t ready; /* As of the last call. */
    int calls;
    struct loop_watch *remove; /* The call removes this watch from the loop. */
};

static void on_ready(struct loop_watch *watch, uint32_t ready)
{
    struct end *end = watch->ctx;

    end->ready = ready;
    end->calls++;
    if (end->remove) {
        loop_remove(end->loop, end->remove);
        end->remove = NULL;
    }
}

static void end_init(struct end *end, struct loop *loop, int fd, uint32_t interest)
{
    *end = (struct end){.loop = loop};
    end->watch =
        (struct loop_watch){.fd = fd, .interest = interest, .on_ready = on_ready, .ctx = end};
}

static void make_pair(int fds[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
}

TEST(level_triggered_reading)
{
    struct loop loop;
    struct end end;
    int fds[2];
    char byte;

    make_pair(fds);
    loop_init(&loop);
    end_init(&end, &loop, fds[0], LOOP_READ);
    loop_add(&loop, &end.watch);
    assert_int_equal(loop_run_once(&loop, 0), 0);
    assert_int_equal(write(fds[1], "x", 1), 1);
    assert_int_equal(loop_run_once(&loop, WAIT_MS), 1);
    assert_int_equal(loop_run_once(&loop, WAIT_MS), 1); /* Not read, so it is reported again. */
    assert_int_equal(end.ready, LOOP_READ);
    assert_int_equal(read(fds[0], &byte, 1), 1);
    assert_int_equal(loop_run_once(&loop, 0), 0);
    loop_remove(&loop, &end.watch);
    loop_release(&loop);
    close(fds[0]);
    close(fds[1]);
}

TEST(interest_can_change)
{
    struct loop loop;
    struct end end;
    int fds[2];

    make_pair(fds);
    loop_init(&loop);
    end_init(&end, &loop, fds[0], 0);
    loop_add(&loop, &end.watch);
    assert_int_equal(write(fds[1], "x", 1), 1);
    assert_int_equal(loop_run_once(&loop, 0), 0);
    loop_modify(&loop, &end.watch, LOOP_WRITE);
    assert_int_equal(loop_run_once(&loop, WAIT_MS), 1);
    assert_int_equal(end.ready, LOOP_WRITE);
    loop_modify(&loop, &end.watch, LOOP_READ | LOOP_WRITE);
    assert_int_equal(loop_run_once(&loop, WAIT_MS), 1);
    assert_int_equal(end.ready, LOOP_READ | LOOP_WRITE);
    loop_modify(&loop, &end.watch, 0);
    close(fds[1]);
    assert_int_equal(loop_run_once(&loop, WAIT_MS), 1);
    assert_int_equal(end.ready, LOOP_HANGUP);
    loop_remove(&loop, &end.watch);
    loop_release(&loop);
    close(fds[0]);
}

/* Both are ready in one batch; the first to be called removes the other, or itself. */
TEST(a_watch_removed_in_the_batch_is_not_called)
{
    struct loop loop;
    struct end a;
    struct end b;
    int fds_a[2];
    int fds_b[2];

    make_pair(fds_a);
    make_pair(fds_b);
    loop_init(&loop);
    end_init(&a, &loop, fds_a[0], LOOP_WRITE);
    end_init(&b, &loop, fds_b[0], LOOP_WRITE);
    a.remove = &b.watch;
    b.remove = &a.watch;
    loop_add(&loop, &a.watch);
    loop_add(&loop, &b.watch);
    assert_int_equal(loop_run_once(&loop, WAIT_MS), 1);
    assert_int_equal(a.calls + b.calls, 1);

    struct end *left = a.calls ? &a : &b;

    left->remove = &left->watch;
    assert_int_equal(loop_run_once(&loop, WAIT_MS), 1);
    assert_int_equal(loop_run_once(&loop, 0), 0);
    assert_int_equal(left->calls, 2);
    loop_release(&loop);
    for (int i = 0; i < 2; i++) {
        close(fds_a[i]);
        close(fds_b[i]);
    }
}

static void check_socket(int fd)
{
    int value = 0;
    socklen_t len = sizeof(value);

    assert_true(fd >= 0);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
    assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, &len), 0);
    assert_int_equal(value, 1);
}

static struct sockaddr_in loopback(uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

TEST(sockets)
{
    struct sockaddr_in addr = loopback(0);
    struct sockaddr_storage peer;
    socklen_t len = sizeof(addr);
    struct loop loop;
    struct end end;

    int listen_fd = loop_listen((struct sockaddr *)&addr, len, 8);

    check_socket(listen_fd);
    assert_int_equal(loop_accept(listen_fd, &peer), -EAGAIN);
    assert_int_equal(getsockname(listen_fd, (struct sockaddr *)&addr, &len), 0);
    loop_init(&loop);
    end_init(&end, &loop, listen_fd, LOOP_READ);
    loop_add(&loop, &end.watch);

    int client_fd = loop_connect((struct sockaddr *)&addr, len);

    check_socket(client_fd);
    assert_int_equal(loop_run_once(&loop, WAIT_MS), 1);

    int server_fd = loop_accept(listen_fd, &peer);

    check_socket(server_fd);
    assert_int_equal(peer.ss_family, AF_INET);
    assert_int_equal(loop_connect_result(client_fd), 0);
    assert_int_equal(loop_listen((struct sockaddr *)&addr, len, 8), -EADDRINUSE);
    loop_remove(&loop, &end.watch);
    loop_release(&loop);
    close(listen_fd);
    close(client_fd);
    close(server_fd);
}

TEST(a_refused_connection_is_reported)
{
    struct sockaddr_in addr = loopback(0);
    socklen_t len = sizeof(addr);
    struct loop loop;
    struct end end;
    int port_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(port_fd, (struct sockaddr *)&addr, len), 0); /* Bound, not listening. */
    assert_int_equal(getsockname(port_fd, (struct sockaddr *)&addr, &len), 0);

    int fd = loop_connect((struct sockaddr *)&addr, len);

    if (fd >= 0) {
        loop_init(&loop);
        end_init(&end, &loop, fd, LOOP_WRITE);
        loop_add(&loop, &end.watch);
        assert_int_equal(loop_run_once(&loop, WAIT_MS), 1);
        assert_true(end.ready & LOOP_HANGUP);
        assert_int_equal(loop_connect_result(fd), -ECONNREFUSED);
        loop_release(&loop);
        close(fd);
    } else {
        assert_int_equal(fd, -ECONNREFUSED);
    }
    close(port_fd);
}

/* The two ends of one TCP connection; AF_UNIX has no queue of bytes to be acknowledged. */
static void make_connection(int fds[2])
{
    struct sockaddr_in addr = loopback(0);
    struct sockaddr_storage peer;
    socklen_t len = sizeof(addr);
    struct loop loop;
    struct end end;
    int listen_fd = loop_listen((struct sockaddr *)&addr, len, 8);

    assert_int_equal(getsockname(listen_fd, (struct sockaddr *)&addr, &len), 0);
    fds[0] = loop_connect((struct sockaddr *)&addr, len);
    loop_init(&loop);
    end_init(&end, &loop, listen_fd, LOOP_READ);
    loop_add(&loop, &end.watch);
    assert_int_equal(loop_run_once(&loop, WAIT_MS), 1);
    fds[1] = loop_accept(listen_fd, &peer);
    assert_true(fds[1] >= 0);
    loop_release(&loop);
    close(listen_fd);
}

/* A waiting side learns that the other side is done, also behind bytes that it has not read. */
TEST(a_duplicate_descriptor_sees_the_end_of_a_peer)
{
    struct loop loop;
    struct end end;
    int fds[2];

    make_connection(fds);
    loop_init(&loop);

    int copy = loop_dup(fds[1]);

    assert_true(copy >= 0 && copy != fds[1]);
    assert_true(fcntl(copy, F_GETFD) & FD_CLOEXEC);
    end_init(&end, &loop, copy, LOOP_PEER_END);
    loop_add(&loop, &end.watch);
    assert_int_equal(write(fds[0], "x", 1), 1);
    assert_int_equal(loop_run_once(&loop, 0), 0);
    loop_shutdown_write(fds[0]);
    assert_int_equal(loop_run_once(&loop, WAIT_MS), 1);
    assert_int_equal(end.ready, LOOP_HANGUP);
    loop_remove(&loop, &end.watch);
    loop_release(&loop);
    close(copy);
    close(fds[0]);
    close(fds[1]);
}

TEST(unacknowledged_bytes_are_known)
{
    static uint8_t block[64 << 10];
    uint64_t acked = 0;
    ssize_t sent = 0;
    int fds[2];

    make_connection(fds);
    assert_true(loop_is_read(fds[1], &acked));
    for (int i = 0; i < 10000 && sent >= 0; i++) {
        sent = loop_send(fds[1], block, sizeof(block));
    }
    assert_int_equal(sent, -EAGAIN); /* Both kernels' buffers are full. */
    (void)loop_is_read(fds[1], &acked);
    assert_false(loop_is_read(fds[1], &acked));
    assert_true(loop_peek(fds[0], block, 1) == 1);
    for (int i = 0; i < 100; i++) {
        (void)loop_swallow(fds[0]);
    }
    assert_true(loop_is_read(fds[1], &acked)); /* Not all of it, but more than before. */
    close(fds[0]);
    close(fds[1]);
}

/* A sender that fills the buffer as fast as it is read would otherwise occupy the thread
 * permanently. */
TEST(swallowing_is_bounded)
{
    static uint8_t block[64 << 10];
    ssize_t sent = 0;
    size_t there = 0;
    int fds[2];

    make_connection(fds);
    for (int i = 0; i < 10000 && sent >= 0; i++) {
        sent = loop_send(fds[1], block, sizeof(block));
        there += sent > 0 ? (size_t)sent : 0;
    }
    assert_true(there > 2 * sizeof(block));
    assert_true(loop_swallow(fds[0]));
    assert_true(loop_peek(fds[0], block, sizeof(block)) > 0);
    close(fds[0]);
    close(fds[1]);
}

/* A client that connects during the trial is neither accepted nor closed: it tries again. */
TEST(a_port_is_tried_without_accepting_a_client)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(port_free())};
    const struct sockaddr *to = (const struct sockaddr *)&addr;

    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);

    int tried = loop_try_listen(to, sizeof(addr));

    assert_true(tried >= 0);
    assert_int_equal(loop_try_listen(to, sizeof(addr)), -EADDRINUSE);
    assert_int_equal(loop_listen(to, sizeof(addr), 1), -EADDRINUSE);

    int client = loop_connect(to, sizeof(addr));
    struct pollfd come = {.fd = client, .events = POLLOUT};

    assert_true(client >= 0);
    assert_int_equal(poll(&come, 1, 50), 0);
    close(tried);

    int fd = loop_listen(to, sizeof(addr), 1);

    assert_true(fd >= 0);
    assert_int_equal(loop_try_listen(to, sizeof(addr)), -EADDRINUSE);
    assert_int_equal(poll(&come, 1, WAIT_MS), 1);
    assert_int_equal(loop_connect_result(client), 0);
    close(client);
    close(fd);
}

/* Events that already wait, often enough; more often when another process runs in between. */
static void come_closely(struct loop *loop)
{
    for (int i = 0; i < 10000 && loop->busy.short_waits < loop->busy.after; i++) {
        assert_int_equal(loop_run_once(loop, WAIT_MS), 1);
    }
    assert_int_equal(loop->busy.short_waits, loop->busy.after);
}

struct busy_fixture {
    struct loop loop;
    struct end end;
    int fds[2];
};

static void busy_init(struct busy_fixture *fixture, uint32_t busy_us)
{
    make_pair(fixture->fds);
    loop_init(&fixture->loop);
    end_init(&fixture->end, &fixture->loop, fixture->fds[0], LOOP_READ);
    loop_add(&fixture->loop, &fixture->end.watch);
    fixture->loop.busy_us = busy_us;
}

static void busy_release(struct busy_fixture *fixture)
{
    loop_remove(&fixture->loop, &fixture->end.watch);
    loop_release(&fixture->loop);
    close(fixture->fds[0]);
    close(fixture->fds[1]);
}

static void come_and_go(struct busy_fixture *fixture)
{
    char byte;

    assert_int_equal(write(fixture->fds[1], "x", 1), 1);
    come_closely(&fixture->loop);
    assert_int_equal(read(fixture->fds[0], &byte, 1), 1);
}

TEST(the_loop_polls_before_it_sleeps_while_events_are_frequent)
{
    struct busy_fixture fixture;
    struct loop *loop = &fixture.loop;

    busy_init(&fixture, 20000);
    assert_int_equal(loop_run_once(loop, 1), 0);
    assert_int_equal(loop->busy.in_vain, 0); /* No look was in vain before. */
    come_and_go(&fixture);
    loop->busy.short_waits--;
    assert_int_equal(loop_run_once(loop, 1), 0);
    assert_int_equal(loop->busy.in_vain, 0); /* One too few. */
    come_and_go(&fixture);
    assert_int_equal(loop_run_once(loop, 0), 0);
    assert_int_equal(loop->busy.in_vain, 0); /* A thread that does not wait does not look. */

    uint64_t start_us = os_now_us();

    assert_int_equal(loop_run_once(loop, 1), 0);
    assert_true(os_now_us() - start_us >= 20000);
    assert_int_equal(loop->busy.in_vain, 1);
    assert_int_equal(loop->busy.short_waits, 0);
    busy_release(&fixture);
}

static void come_in_ms(struct end *end, struct loop *loop, long ms)
{
    struct itimerspec in_ms = {.it_value.tv_nsec = ms * 1000000};

    end_init(end, loop, timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC), LOOP_READ);
    loop_add(loop, &end->watch);
    assert_int_equal(timerfd_settime(end->watch.fd, 0, &in_ms, NULL), 0);
}

static void end_timer(struct end *end)
{
    assert_int_equal(end->ready, LOOP_READ);
    loop_remove(end->loop, &end->watch);
    close(end->watch.fd);
}

/* The timeout is long over: only a loop that looks is still there. */
TEST(events_that_arrive_during_polling_are_dispatched)
{
    struct busy_fixture fixture;
    struct end timer;

    busy_init(&fixture, WAIT_MS * 1000U);
    fixture.loop.busy.short_waits = LOOP_BUSY_AFTER;
    come_in_ms(&timer, &fixture.loop, 20);
    assert_int_equal(loop_run_once(&fixture.loop, 1), 1);
    end_timer(&timer);
    busy_release(&fixture);
}

TEST(a_late_event_ends_the_polling)
{
    struct busy_fixture fixture;
    struct end timer;

    busy_init(&fixture, 1);
    fixture.loop.busy.short_waits = LOOP_BUSY_AFTER - 1;
    come_in_ms(&timer, &fixture.loop, 500);
    assert_int_equal(loop_run_once(&fixture.loop, WAIT_MS), 1);
    assert_int_equal(fixture.loop.busy.short_waits, 0);
    end_timer(&timer);
    busy_release(&fixture);
}

/* Events that come soon, but never soon enough to be seen: the loop looks ever more rarely. */
TEST(polling_in_vain_is_abandoned)
{
    struct busy_fixture fixture;
    struct loop_busy *busy = &fixture.loop.busy;
    uint32_t after = LOOP_BUSY_AFTER;

    busy_init(&fixture, 1);
    for (int i = 0; i < 20; i++) {
        for (uint32_t looks = 0; looks < 8; looks++) {
            assert_int_equal(busy->in_vain, looks);
            busy->short_waits = busy->after;
            assert_int_equal(loop_run_once(&fixture.loop, 1), 0);
        }
        after = after < 1024 ? after * 2 : 1024;
        assert_int_equal(busy->in_vain, 0);
        assert_int_equal(busy->after, after);
    }
    busy->short_waits = busy->after;
    assert_int_equal(write(fixture.fds[1], "x", 1), 1);
    assert_int_equal(loop_run_once(&fixture.loop, WAIT_MS), 1);
    assert_int_equal(busy->after, LOOP_BUSY_AFTER); /* Once, a look was not in vain. */
    busy_release(&fixture);
}
