/*
 * tcp_claim_kit.h - up to four processes with transports, two of which claim id 3, and a forwarder
 * between ports that a test can open and cut.
 */
#ifndef TESTS_UNIT_TCP_CLAIM_KIT_H
#define TESTS_UNIT_TCP_CLAIM_KIT_H

#include "base/os_clock.h"
#include "tests/lib/ports.h"
#include "tests/lib/tcp_kit.h"
#include "zab/tcp/frame.h"
#include "zab/tcp/hello.h"

#include <poll.h>
#include <stdio.h>
#include <unistd.h>

enum {
    PROCESSES = 4,
    IDS = 5,
    PROBE_MS = 400,
    RETRY_MAX_MS = 20,
    SLACK_MS = 20000 /* A loaded machine may run the test ten times slower. */
};

/* The two that claim id 3 are slots 2 and 3. */
enum slot {
    ONE,
    TWO,
    OLD,
    NEW
};

struct process {
    struct loop loop;
    struct tcp *tcp; /* NULL: not running. */
    uint32_t id;
    bool frozen; /* Its loop does not turn. */
    uint32_t ups[IDS];
    uint32_t downs[IDS];
    uint64_t heard; /* Messages received. */
    uint32_t refusals;
    uint32_t reports[IDS]; /* Reports of two processes with that id. */
    char why[256];
    char duplicate[256];
    void (*on_report)(struct process *process); /* Called for each of these reports, if set. */
};

static struct process processes[PROCESSES];
static uint16_t ports[IDS];
static uint32_t ids[PROCESSES];
static bool listens[PROCESSES];
static uint16_t via[PROCESSES]
                   [IDS]; /* The port that a process dials for an id, if not the id's own. */
static uint32_t probe_ms = PROBE_MS;

static inline void on_up(void *ctx, uint32_t peer, const struct tcp_identity *identity)
{
    struct process *process = ctx;

    (void)identity;
    process->ups[peer]++;
}

static inline void on_down(void *ctx, uint32_t peer, const char *why)
{
    struct process *process = ctx;

    process->downs[peer]++;
    (void)snprintf(process->why, sizeof(process->why), "%s", why);
}

static inline void on_refused(void *ctx, uint32_t peer, const char *why)
{
    struct process *process = ctx;

    (void)peer;
    process->refusals++;
    (void)snprintf(process->why, sizeof(process->why), "%s", why);
}

static inline void on_duplicate(void *ctx, uint32_t id, const char *text)
{
    struct process *process = ctx;

    process->reports[id]++;
    (void)snprintf(process->duplicate, sizeof(process->duplicate), "%s", text);
    if (process->on_report) {
        process->on_report(process);
    }
}

static inline void on_message(void *ctx, uint32_t peer, const struct zab_msg *msg)
{
    struct process *process = ctx;

    (void)peer;
    (void)msg;
    process->heard++;
}

static inline void start_with(enum slot slot, uint64_t start, const char *secret)
{
    struct process *process = &processes[slot];
    struct tcp_peer peers[IDS] = {{.id = 0}};
    char advertise[32];
    uint32_t count = 0;

    *process = (struct process){.id = ids[slot]};
    for (uint32_t id = 1; id < IDS; id++) {
        if (id != process->id) {
            peers[count].id = id;
            peers[count].port = via[slot][id] ? via[slot][id] : ports[id];
            (void)snprintf(peers[count].host, sizeof(peers[count].host), "127.0.0.1");
            count++;
        }
    }
    (void)snprintf(advertise, sizeof(advertise), "process-%d:9998", (int)slot);

    struct keys *keys = kit_keys(secret, NULL);

    struct tcp_options options = {.id = process->id,
                                  .listen_host = "127.0.0.1",
                                  .listen_port = listens[slot] ? ports[process->id] : 0,
                                  .peers = peers,
                                  .peer_count = count,
                                  .keys = keys,
                                  .tls = kit_sealed() ? KEYS_REQUIRED : KEYS_OFF,
                                  .queue_bytes_max = 1 << 20,
                                  .connect_timeout_ms = 2000,
                                  .retry_min_ms = 5,
                                  .retry_max_ms = RETRY_MAX_MS,
                                  .start = start,
                                  .probe_ms = probe_ms,
                                  .incarnation =
                                      100, /* A copied directory has the same incarnation. */
                                  .cluster = {7},
                                  .advertise = advertise};
    struct tcp_handler handler = {.on_up = on_up,
                                  .on_down = on_down,
                                  .on_refused = on_refused,
                                  .on_duplicate = on_duplicate,
                                  .on_message = on_message,
                                  .ctx = process};

    loop_init(&process->loop);
    assert_int_equal(tcp_open(&process->loop, &options, &handler, &process->tcp), ERR_OK);
    keys_release(keys);
}

static inline void start(enum slot slot, uint64_t start)
{
    start_with(slot, start, "a secret of some length");
}

static inline void end(enum slot slot)
{
    if (processes[slot].tcp) {
        tcp_close(processes[slot].tcp);
        processes[slot].tcp = NULL;
        loop_release(&processes[slot].loop);
    }
}

static inline void turn(struct process *process)
{
    if (process->tcp && !process->frozen) {
        tcp_tick(process->tcp, os_now_ms());
        loop_run_once(&process->loop, 0);
        tcp_flush(process->tcp);
    }
}

/* ---- A forwarder from one port to another, which can be opened later. ---- */

static int way_listen_fd = -1;
static int way_fds[2] = {-1, -1};

static inline void way_open(uint16_t from)
{
    struct sockaddr_in addr = kit_loopback(from);

    way_listen_fd = loop_listen((struct sockaddr *)&addr, sizeof(addr), 8);
    assert_true(way_listen_fd >= 0);
}

static inline void way_hang_up(void)
{
    for (int i = 0; i < 2; i++) {
        if (way_fds[i] >= 0) {
            close(way_fds[i]);
        }
        way_fds[i] = -1;
    }
}

static inline void way_close(void)
{
    way_hang_up();
    if (way_listen_fd >= 0) {
        close(way_listen_fd);
    }
    way_listen_fd = -1;
}

static inline void way_turn(uint16_t to)
{
    struct sockaddr_in addr = kit_loopback(to);
    struct sockaddr_storage from;
    uint8_t bytes[4096];

    if (way_listen_fd < 0) {
        return;
    }
    if (way_fds[0] < 0) {
        way_fds[0] = loop_accept(way_listen_fd, &from);
        way_fds[1] = way_fds[0] >= 0 ? loop_connect((struct sockaddr *)&addr, sizeof(addr)) : -1;
    }
    for (int i = 0; i < 2 && way_fds[0] >= 0; i++) {
        ssize_t got = read(way_fds[i], bytes, sizeof(bytes));

        if (got == 0) {
            way_hang_up();
        } else if (got > 0) {
            assert_int_equal(write(way_fds[1 - i], bytes, (size_t)got), got);
        }
    }
}

static inline void turn_all(void)
{
    for (int i = 0; i < PROCESSES; i++) {
        turn(&processes[i]);
    }
    way_turn(ports[1]);
    (void)poll(NULL, 0, 1);
}

static inline void look_again(uint64_t end_ms, const char *condition)
{
    if (os_now_ms() > end_ms) {
        fail_msg("not reached: %s", condition);
    }
    turn_all();
}

#define UNTIL(condition)                                                      \
    for (uint64_t until_end_ms = os_now_ms() + KIT_DEADLINE_MS; !(condition); \
         look_again(until_end_ms, #condition)) {                              \
    }

static inline void run_for(uint64_t ms)
{
    uint64_t end_ms = os_now_ms() + ms;

    while (os_now_ms() < end_ms) {
        turn_all();
    }
}

static inline uint64_t duplicates(enum slot slot)
{
    struct tcp_figures figures;

    tcp_figures(processes[slot].tcp, &figures);
    return figures.duplicates;
}

static inline void setup(void)
{
    static const uint32_t usual[PROCESSES] = {1, 2, 3, 3};

    memset(via, 0, sizeof(via));
    memcpy(ids, usual, sizeof(ids));
    listens[ONE] = listens[TWO] = true;
    listens[OLD] = listens[NEW] = false;
    for (uint32_t id = 1; id < IDS; id++) {
        ports[id] = port_free();
    }
}

static inline void teardown(void)
{
    for (int i = 0; i < PROCESSES; i++) {
        processes[i].frozen = false;
        end((enum slot)i);
    }
    way_close();
}

#endif
