#include "base/loop.h"

#include "base/check.h"
#include "base/lack.h"
#include "base/mem.h"
#include "base/os_clock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    BATCH_MAX = 64,
    SWALLOWS_MAX = 16, /* Most reads of one loop_swallow. */
    SHORT_US = 250,    /* A wait is short when it takes less than busy_us + SHORT_US. */
    IN_VAIN_MAX = 8,   /* After so many polls in a row without an event, polls get rarer. */
    AFTER_MAX = 1024,  /* Upper limit of loop_busy.after. */
};

void loop_init(struct loop *loop)
{
    int fd = epoll_create1(EPOLL_CLOEXEC);

    if (fd < 0) {
        lack_failed("no file descriptor is left for an event loop");
    }
    *loop = (struct loop){.epoll_fd = fd, .busy.after = LOOP_BUSY_AFTER};
    loop->batch = mem_zalloc(BATCH_MAX, sizeof(struct epoll_event));
}

int loop_wake_open(void)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

    if (fd < 0) {
        lack_failed("no file descriptor is left to wake an event loop");
    }
    return fd;
}

void loop_wake(int fd)
{
    uint64_t one = 1;

    (void)!write(fd, &one, sizeof(one));
}

void loop_wake_clear(int fd)
{
    uint64_t count = 0;

    (void)!read(fd, &count, sizeof(count));
}

void loop_release(struct loop *loop)
{
    close(loop->epoll_fd);
    mem_free(loop->batch);
    *loop = (struct loop){.epoll_fd = -1};
}

/* Translates an interest. With LOOP_READ, a peer that has ended its sending direction makes the
 * socket readable: a read returns no bytes. A watch without any interest receives only
 * LOOP_HANGUP. */
static uint32_t to_epoll(uint32_t interest)
{
    return (interest & LOOP_READ ? (uint32_t)EPOLLIN : 0) |
           (interest & LOOP_WRITE ? (uint32_t)EPOLLOUT : 0) |
           (interest & LOOP_PEER_END ? (uint32_t)EPOLLRDHUP : 0);
}

static uint32_t from_epoll(uint32_t events)
{
    return (events & EPOLLIN ? LOOP_READ : 0U) | (events & EPOLLOUT ? LOOP_WRITE : 0U) |
           (events & (EPOLLERR | EPOLLHUP | EPOLLRDHUP) ? LOOP_HANGUP : 0U);
}

static void control(struct loop *loop, int action, struct loop_watch *watch)
{
    struct epoll_event event = {.events = to_epoll(watch->interest), .data.ptr = watch};
    int failed = epoll_ctl(loop->epoll_fd, action, watch->fd, &event);

    ASSERT(!failed);
}

void loop_add(struct loop *loop, struct loop_watch *watch)
{
    control(loop, EPOLL_CTL_ADD, watch);
}

void loop_add_reader(struct loop *loop, struct loop_watch *watch, int fd,
                     void (*on_ready)(struct loop_watch *watch, uint32_t ready), void *ctx)
{
    *watch = (struct loop_watch){.fd = fd, .interest = LOOP_READ, .on_ready = on_ready, .ctx = ctx};
    loop_add(loop, watch);
}

void loop_modify(struct loop *loop, struct loop_watch *watch, uint32_t interest)
{
    if (watch->interest != interest) {
        watch->interest = interest;
        control(loop, EPOLL_CTL_MOD, watch);
    }
}

void loop_remove(struct loop *loop, struct loop_watch *watch)
{
    struct epoll_event *events = loop->batch;

    control(loop, EPOLL_CTL_DEL, watch);

    /* Events of this batch that are not dispatched yet must not reach a watch that may be freed
     * now. */
    for (int i = loop->batch_pos; i < loop->batch_len; i++) {
        if (events[i].data.ptr == watch) {
            events[i].data.ptr = NULL;
        }
    }
}

/* Polls for events without sleeping; yields the processor in between. After IN_VAIN_MAX polls in a
 * row without an event, twice as many short waits must precede the next poll. */
static int busy_poll(struct loop *loop)
{
    struct loop_busy *busy = &loop->busy;
    uint64_t end_us = os_now_us() + loop->busy_us;
    int got = epoll_wait(loop->epoll_fd, loop->batch, BATCH_MAX, 0);

    while (got == 0 && os_now_us() < end_us) {
        (void)sched_yield();
        got = epoll_wait(loop->epoll_fd, loop->batch, BATCH_MAX, 0);
    }
    if (got > 0) {
        *busy = (struct loop_busy){.after = LOOP_BUSY_AFTER, .short_waits = LOOP_BUSY_AFTER};
    } else if (got == 0 && ++busy->in_vain >= IN_VAIN_MAX) {
        busy->in_vain = 0;
        busy->short_waits = 0;
        busy->after = busy->after < AFTER_MAX ? busy->after * 2 : AFTER_MAX;
    }
    return got;
}

static int wait_events(struct loop *loop, int timeout_ms)
{
    struct loop_busy *busy = &loop->busy;
    int got = 0;

    if (loop->busy_us == 0 || timeout_ms == 0) {
        return epoll_wait(loop->epoll_fd, loop->batch, BATCH_MAX, timeout_ms);
    }
    uint64_t start_us = os_now_us();

    if (busy->short_waits >= busy->after) {
        got = busy_poll(loop);
    }
    if (got == 0) {
        got = epoll_wait(loop->epoll_fd, loop->batch, BATCH_MAX, timeout_ms);
    }
    if (got <= 0 || os_now_us() - start_us >= loop->busy_us + SHORT_US) {
        busy->short_waits = 0;
    } else if (busy->short_waits < busy->after) {
        busy->short_waits++;
    }
    return got;
}

int loop_run_once(struct loop *loop, int timeout_ms)
{
    struct epoll_event *events = loop->batch;
    int dispatched = 0;

    ASSERT(loop->batch_len == 0); /* A callback must not call loop_run_once. */

    int got = wait_events(loop, timeout_ms);

    ASSERT(got >= 0 || errno == EINTR);
    loop->batch_len = got > 0 ? got : 0;
    loop->batch_pos = 0;
    while (loop->batch_pos < loop->batch_len) {
        struct epoll_event *event = &events[loop->batch_pos++];
        struct loop_watch *watch = event->data.ptr;

        if (watch) {
            watch->on_ready(watch, from_epoll(event->events));
            dispatched++;
        }
    }
    loop->batch_len = 0;
    return dispatched;
}

static int set_option(int fd, int level, int option)
{
    int one = 1;

    return setsockopt(fd, level, option, &one, sizeof(one));
}

/* Returns the negative errno of the call that failed, and closes `fd` if it is open. */
static int fail(int fd)
{
    int error = -errno;

    if (fd >= 0) {
        close(fd);
    }
    return error;
}

static int open_socket(int family)
{
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0 || (family != AF_UNIX && set_option(fd, IPPROTO_TCP, TCP_NODELAY))) {
        return fail(fd);
    }
    return fd;
}

void loop_keep_out(int fd)
{
    enum {
        FLAGS_AT = 13, /* Offset in a TCP header. */
        FLAG_SYN = 0x02,
        FLAG_ACK = 0x10
    };

    struct sock_filter drop_first_segments[] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, FLAGS_AT),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, FLAG_SYN | FLAG_ACK),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FLAG_SYN, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, 0),
        BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
    };
    struct sock_fprog program = {.len = sizeof(drop_first_segments) / sizeof(*drop_first_segments),
                                 .filter = drop_first_segments};

    /* If the kernel has no socket filters, a few clients that connect just before the close are
     * reset instead of refused. */
    (void)setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
}

static int bind_socket(const struct sockaddr *addr, socklen_t len)
{
    int fd = open_socket(addr->sa_family);

    if (fd >= 0 && (set_option(fd, SOL_SOCKET, SO_REUSEADDR) || bind(fd, addr, len))) {
        return fail(fd);
    }
    return fd;
}

int loop_listen(const struct sockaddr *addr, socklen_t len, int backlog)
{
    int fd = bind_socket(addr, len);

    return fd >= 0 && listen(fd, backlog) ? fail(fd) : fd;
}

int loop_try_listen(const struct sockaddr *addr, socklen_t len)
{
    int fd = bind_socket(addr, len);

    if (fd < 0) {
        return fd;
    }
    loop_keep_out(fd);
    return listen(fd, 1) ? fail(fd) : fd;
}

void loop_limit_unsent(int fd, int bytes)
{
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof(bytes));
}

int loop_accept(int listen_fd, struct sockaddr_storage *ret_addr)
{
    socklen_t len = sizeof(*ret_addr);
    int fd = accept4(listen_fd, (struct sockaddr *)ret_addr, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

    if (fd < 0) {
        return -errno;
    }
    if (ret_addr->ss_family != AF_UNIX && set_option(fd, IPPROTO_TCP, TCP_NODELAY)) {
        return fail(fd);
    }
    return fd;
}

int loop_connect(const struct sockaddr *addr, socklen_t len)
{
    int fd = open_socket(addr->sa_family);

    if (fd < 0) {
        return fd;
    }
    if (connect(fd, addr, len) && errno != EINPROGRESS) {
        return fail(fd);
    }
    return fd;
}

int loop_connect_result(int fd)
{
    struct sockaddr_storage peer;
    socklen_t peer_len = sizeof(peer);
    int error = 0;
    socklen_t len = sizeof(error);

    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len)) {
        return -errno;
    }
    if (error == 0 && getpeername(fd, (struct sockaddr *)&peer, &peer_len)) {
        return errno == ENOTCONN ? -EINPROGRESS : -errno;
    }
    return -error;
}

ssize_t loop_peek(int fd, void *to, size_t len)
{
    ssize_t got = recv(fd, to, len, MSG_PEEK | MSG_DONTWAIT);

    return got < 0 ? -errno : got;
}

void loop_low_water(int fd, int bytes)
{
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof(bytes));
}

void loop_pace(int fd, uint32_t bytes_per_s, int unsent)
{
    (void)setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &bytes_per_s, sizeof(bytes_per_s));
    loop_limit_unsent(fd, unsent);
}

uint16_t loop_local_port(int fd)
{
    struct sockaddr_storage addr;
    socklen_t len = sizeof(addr);

    memset(&addr, 0, sizeof(addr));
    if (getsockname(fd, (struct sockaddr *)&addr, &len)) {
        return 0;
    }
    if (addr.ss_family == AF_INET6) {
        return ntohs(((const struct sockaddr_in6 *)(const void *)&addr)->sin6_port);
    }
    return ntohs(((const struct sockaddr_in *)(const void *)&addr)->sin_port);
}

int loop_dup(int fd)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);

    return copy < 0 ? -errno : copy;
}

bool loop_is_read(int fd, uint64_t *acked)
{
    struct tcp_info info = {.tcpi_bytes_acked = 0};
    socklen_t len = sizeof(info);
    int left = 0;

    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) || ioctl(fd, SIOCOUTQ, &left)) {
        return false;
    }

    bool more = info.tcpi_bytes_acked > *acked;

    *acked = info.tcpi_bytes_acked;
    return more || left == 0;
}

bool loop_is_all_read(int fd)
{
    int left = 0;

    return ioctl(fd, SIOCOUTQ, &left) != 0 || left == 0;
}

ssize_t loop_send(int fd, const void *data, size_t len)
{
    ssize_t sent = send(fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);

    return sent < 0 ? -errno : sent;
}

bool loop_skip(int fd, size_t len)
{
    uint8_t bytes[4096];
    ssize_t got = 1;

    while (len > 0 && got > 0) {
        got = recv(fd, bytes, len < sizeof(bytes) ? len : sizeof(bytes), MSG_DONTWAIT);
        len -= got > 0 ? (size_t)got : 0;
    }
    return len == 0;
}

ssize_t loop_send_parts(int fd, const struct slice *parts, size_t count)
{
    struct iovec iov[LOOP_PARTS_MAX];
    const struct msghdr message = {.msg_iov = iov, .msg_iovlen = count};
    ssize_t sent = 0;

    ASSERT(count <= LOOP_PARTS_MAX);
    for (size_t i = 0; i < count; i++) {
        iov[i].iov_len = parts[i].len;
        memcpy(&iov[i].iov_base, &parts[i].data, sizeof(void *)); /* The bytes are only read. */
    }
    sent = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    return sent < 0 ? -errno : sent;
}

bool loop_swallow(int fd)
{
    uint8_t bytes[4096];
    ssize_t got = (ssize_t)sizeof(bytes);

    for (int i = 0; i < SWALLOWS_MAX && got == (ssize_t)sizeof(bytes); i++) {
        got = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    }
    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

void loop_shutdown(int fd)
{
    (void)shutdown(fd, SHUT_RDWR);
}

void loop_shutdown_write(int fd)
{
    (void)shutdown(fd, SHUT_WR);
}

void loop_cut(int fd)
{
    const struct linger reset = {.l_onoff = 1, .l_linger = 0};

    if (!loop_is_all_read(fd)) {
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    }
    loop_shutdown(fd);
}
