#include "tests/proc/slow_link.h"

#include "base/loop.h"
#include "base/os_clock.h"
#include "tests/proc/relay.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

enum {
    POLL_MS = 20,
    BUFFER_BYTES = 16 << 10,
    BACKLOG = 8,
    BURST_US = 20000 /* Unused rate expires after that. */
};

static void pair_close(struct slow_link_pair *pair)
{
    close(pair->dialer);
    close(pair->target);
    *pair = (struct slow_link_pair){.dialer = -1, .target = -1};
}

static struct slow_link_pair *pair_unused(struct slow_link *link)
{
    for (size_t i = 0; i < SLOW_LINK_CONNECTIONS; i++) {
        if (link->pairs[i].dialer < 0) {
            return &link->pairs[i];
        }
    }
    return NULL;
}

static void take_dialer(struct slow_link *link)
{
    struct sockaddr_storage from;
    struct slow_link_pair *pair = pair_unused(link);
    int dialer = loop_accept(link->listen_fd, &from);
    int target = dialer >= 0 && pair ? relay_dial(link->target, BUFFER_BYTES) : -1;

    if (dialer < 0) {
        return;
    }
    if (target < 0) {
        close(dialer);
        return;
    }
    relay_limit_buffers(dialer, BUFFER_BYTES);
    *pair = (struct slow_link_pair){.dialer = dialer, .target = target};
}

/* Forwards a piece; returns the number of bytes, -1 at the end. */
static ssize_t pass(int from, int to)
{
    uint8_t bytes[SLOW_LINK_PIECE];
    ssize_t got = read(from, bytes, sizeof(bytes));

    if (got < 0) {
        return errno == EAGAIN ? 0 : -1;
    }
    return got > 0 && relay_send_all(to, bytes, (size_t)got) ? got : -1;
}

static void slow_pass(struct slow_link *link, struct slow_link_pair *pair)
{
    ssize_t got = pass(pair->target, pair->dialer);
    uint32_t rate = atomic_load(&link->rate);
    uint64_t now_us = os_now_us();

    if (got < 0) {
        pair_close(pair);
        return;
    }
    atomic_fetch_add(&link->passed, (uint64_t)got);
    link->due_us = link->due_us + BURST_US > now_us ? link->due_us : now_us - BURST_US;
    link->due_us += rate > 0 ? (uint64_t)got * 1000000 / rate : 0;
}

static void fill_polls(const struct slow_link *link, struct pollfd *polls, bool due)
{
    polls[0] = (struct pollfd){.fd = link->listen_fd, .events = POLLIN};
    for (size_t i = 0; i < SLOW_LINK_CONNECTIONS; i++) {
        const struct slow_link_pair *pair = &link->pairs[i];

        polls[1 + 2 * i] = (struct pollfd){.fd = pair->dialer, .events = POLLIN};
        polls[2 + 2 * i] = (struct pollfd){.fd = due ? pair->target : -1, .events = POLLIN};
    }
}

static void break_all(struct slow_link *link)
{
    for (size_t i = 0; i < SLOW_LINK_CONNECTIONS; i++) {
        if (link->pairs[i].dialer >= 0) {
            pair_close(&link->pairs[i]);
        }
    }
    atomic_fetch_add(&link->breaks, 1);
}

static void turn(struct slow_link *link)
{
    struct pollfd polls[1 + 2 * SLOW_LINK_CONNECTIONS];
    uint64_t now_us = os_now_us();
    bool due = now_us >= link->due_us;
    int wait_ms = due ? POLL_MS : (int)((link->due_us - now_us) / 1000 + 1);

    fill_polls(link, polls, due);
    if (poll(polls, sizeof(polls) / sizeof(polls[0]), wait_ms < POLL_MS ? wait_ms : POLL_MS) <= 0) {
        return;
    }
    for (size_t i = 0; i < SLOW_LINK_CONNECTIONS; i++) {
        struct slow_link_pair *pair = &link->pairs[i];

        if (pair->dialer >= 0 && polls[1 + 2 * i].revents && pass(pair->dialer, pair->target) < 0) {
            pair_close(pair);
        }
        if (pair->dialer >= 0 && polls[2 + 2 * i].revents) {
            slow_pass(link, pair);
        }
    }
    if (polls[0].revents) {
        take_dialer(link);
    }
}

static void run(void *arg)
{
    struct slow_link *link = arg;

    while (!atomic_load(&link->stopping)) {
        if (atomic_exchange(&link->break_now, false)) {
            break_all(link);
        }
        turn(link);
    }
}

void slow_link_start(struct slow_link *link, uint16_t target, uint32_t rate)
{
    memset(link, 0, sizeof(*link));
    link->target = target;
    atomic_store(&link->rate, rate);
    for (size_t i = 0; i < SLOW_LINK_CONNECTIONS; i++) {
        link->pairs[i] = (struct slow_link_pair){.dialer = -1, .target = -1};
    }
    link->listen_fd = relay_listen(BACKLOG, &link->port);
    thread_start(&link->thread, "slow_link", run, link);
}

void slow_link_break(struct slow_link *link)
{
    uint32_t before = atomic_load(&link->breaks);

    atomic_store(&link->break_now, true);
    while (atomic_load(&link->breaks) == before) {
        (void)poll(NULL, 0, 1);
    }
}

void slow_link_stop(struct slow_link *link)
{
    atomic_store(&link->stopping, true);
    thread_join(&link->thread);
    break_all(link);
    close(link->listen_fd);
}
