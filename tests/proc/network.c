#include "tests/proc/network.h"

#include "base/check.h"
#include "base/loop.h"
#include "base/mem.h"
#include "tests/lib/ports.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

enum {
    BACKLOG = 16,
    LOOK_MS = 10, /* A changed quality takes effect by then. */
    PIECE_BYTES = 16 << 10,
    POLLS_MAX = NETWORK_PAIRS_MAX * (1 + 2 * NETWORK_TUNNELS_MAX)
};

static struct sockaddr_in loopback(uint16_t port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(port)};

    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return addr;
}

/* ---- Tunnels. ---- */

static void tunnel_close(struct network_tunnel *tunnel)
{
    for (uint32_t side = 0; side < 2; side++) {
        if (tunnel->fds[side] >= 0) {
            loop_cut(tunnel->fds[side]);
            close(tunnel->fds[side]);
        }
        mem_free(tunnel->queues[side]);
    }
    *tunnel = (struct network_tunnel){.fds = {-1, -1}};
}

/* Returns an unused tunnel; if there is none, closes the oldest. */
static struct network_tunnel *tunnel_unused(struct network_pair *pair)
{
    struct network_tunnel *oldest = &pair->tunnels[0];

    for (uint32_t i = 0; i < NETWORK_TUNNELS_MAX; i++) {
        if (pair->tunnels[i].number < oldest->number) {
            oldest = &pair->tunnels[i];
        }
    }
    if (oldest->number != 0) {
        tunnel_close(oldest);
    }
    return oldest;
}

static void take_caller(struct network *network, struct network_pair *pair)
{
    struct sockaddr_storage from;
    int fd = loop_accept(pair->listen_fd, &from);

    if (fd < 0) {
        return;
    }

    struct network_tunnel *tunnel = tunnel_unused(pair);

    *tunnel = (struct network_tunnel){.fds = {fd, -1}, .number = ++network->tunnels};
    for (uint32_t side = 0; side < 2; side++) {
        tunnel->queues[side] = mem_zalloc(1, sizeof(*tunnel->queues[side]));
    }
}

static bool is_blocked(struct network *network, const struct network_pair *pair, uint32_t side)
{
    return atomic_load(&network->blocked[pair->members[side]][pair->members[!side]]);
}

static bool is_open(struct network *network, const struct network_pair *pair)
{
    return !is_blocked(network, pair, 0) && !is_blocked(network, pair, 1);
}

static void dial(const struct network_pair *pair, struct network_tunnel *tunnel)
{
    struct sockaddr_in addr = loopback(pair->target);

    tunnel->fds[1] = loop_connect((const struct sockaddr *)&addr, sizeof(addr));
    tunnel->connecting = true;
    if (tunnel->fds[1] < 0) {
        tunnel_close(tunnel);
    }
}

/* ---- Bytes. ---- */

static bool has_room(const struct network_queue *queue)
{
    return !queue->ended && queue->len < NETWORK_QUEUE_BYTES &&
           queue->piece_count < NETWORK_PIECES_MAX;
}

/* The piece arrives when all earlier ones have crossed at the link's rate and its delay is over. */
static void add_piece(struct network *network, const struct network_pair *pair, uint32_t side,
                      struct network_queue *queue, size_t len)
{
    uint32_t from = pair->members[side];
    uint32_t to = pair->members[!side];
    uint64_t rate = atomic_load(&network->bytes_per_s[from][to]);
    uint64_t due_us = os_now_us() + (uint64_t)atomic_load(&network->delay_ms[from][to]) * 1000;
    uint32_t at = (queue->piece_head + queue->piece_count++) % NETWORK_PIECES_MAX;

    due_us = due_us > queue->last_due_us ? due_us : queue->last_due_us;
    due_us += rate ? len * 1000000 / rate : 0;
    queue->last_due_us = due_us;
    queue->len += len;
    queue->pieces[at].len = len;
    queue->pieces[at].due_us = due_us;
}

/* Does what an attacker in the middle would do. */
static void meddle(struct network *network, const struct network_pair *pair, uint32_t side,
                   uint8_t *bytes, size_t len)
{
    const char *wanted = atomic_load(&network->wanted);
    uint32_t from = pair->members[side];
    uint32_t to = pair->members[!side];

    if (wanted && memmem(bytes, len, wanted, strlen(wanted))) {
        atomic_fetch_add(&network->seen, 1);
    }
    if (atomic_exchange(&network->flip[from][to], false)) {
        bytes[len / 2] ^= 0x10;
    }
}

static void read_side(struct network *network, const struct network_pair *pair,
                      struct network_tunnel *tunnel, uint32_t side)
{
    struct network_queue *queue = tunnel->queues[side];
    size_t tail = (queue->head + queue->len) % NETWORK_QUEUE_BYTES;
    size_t room = NETWORK_QUEUE_BYTES - queue->len;
    size_t straight = NETWORK_QUEUE_BYTES - tail;

    room = room < straight ? room : straight;
    room = room < PIECE_BYTES ? room : (size_t)PIECE_BYTES;

    ssize_t got = read(tunnel->fds[side], queue->bytes + tail, room);

    if (got > 0) {
        meddle(network, pair, side, queue->bytes + tail, (size_t)got);
        add_piece(network, pair, side, queue, (size_t)got);
    } else if (got == 0 || errno != EAGAIN) {
        queue->ended = true;
    }
}

static bool is_due(const struct network_queue *queue, uint64_t now_us)
{
    return queue->piece_count > 0 && queue->pieces[queue->piece_head].due_us <= now_us;
}

/* False when the receiver has closed. */
static bool write_side(struct network *network, struct network_tunnel *tunnel, uint32_t side)
{
    struct network_queue *queue = tunnel->queues[side];
    uint64_t now_us = os_now_us();

    while (is_due(queue, now_us)) {
        size_t straight = NETWORK_QUEUE_BYTES - queue->head;
        size_t len = queue->pieces[queue->piece_head].len;
        ssize_t sent = loop_send(tunnel->fds[!side], queue->bytes + queue->head,
                                 len < straight ? len : straight);

        if (sent < 0) {
            return sent == -EAGAIN;
        }
        atomic_fetch_add(&network->carried, (uint64_t)sent);
        queue->head = (queue->head + (size_t)sent) % NETWORK_QUEUE_BYTES;
        queue->len -= (size_t)sent;
        queue->pieces[queue->piece_head].len -= (size_t)sent;
        if (queue->pieces[queue->piece_head].len == 0) {
            queue->piece_head = (queue->piece_head + 1) % NETWORK_PIECES_MAX;
            queue->piece_count--;
        }
    }
    return true;
}

/* ---- Turns of the thread. ---- */

struct polls {
    struct pollfd fds[POLLS_MAX];
    nfds_t count;
    uint64_t now_us;
    uint64_t due_us; /* Of the next piece. */
};

static void add_poll(struct polls *polls, int fd, short events)
{
    /* Polling without events would report a closed peer again and again. */
    polls->fds[polls->count++] = (struct pollfd){.fd = events ? fd : -1, .events = events};
}

static short events_of(struct network *network, const struct network_pair *pair,
                       const struct network_tunnel *tunnel, uint32_t side, struct polls *polls)
{
    const struct network_queue *in = tunnel->queues[side];
    const struct network_queue *out = tunnel->queues[!side];
    short events = 0;

    if (!is_blocked(network, pair, side) && has_room(in)) {
        events |= POLLIN;
    }
    if (is_blocked(network, pair, !side) || out->piece_count == 0) {
        return events;
    }
    if (is_due(out, polls->now_us)) {
        return events | POLLOUT;
    }

    uint64_t due_us = out->pieces[out->piece_head].due_us;

    polls->due_us = due_us < polls->due_us ? due_us : polls->due_us;
    return events;
}

/* Adds two entries for each tunnel, used or not. */
static void add_tunnel(struct network *network, const struct network_pair *pair,
                       const struct network_tunnel *tunnel, struct polls *polls)
{
    if (tunnel->number == 0 || tunnel->fds[1] < 0) {
        add_poll(polls, -1, 0);
        add_poll(polls, -1, 0);
    } else if (tunnel->connecting) {
        add_poll(polls, -1, 0);
        add_poll(polls, tunnel->fds[1], POLLOUT);
    } else {
        add_poll(polls, tunnel->fds[0], events_of(network, pair, tunnel, 0, polls));
        add_poll(polls, tunnel->fds[1], events_of(network, pair, tunnel, 1, polls));
    }
}

static bool has_arrived(struct network *network, const struct network_pair *pair,
                        const struct network_tunnel *tunnel, uint32_t side)
{
    const struct network_queue *queue = tunnel->queues[side];

    return queue->ended && queue->len == 0 && !is_blocked(network, pair, side);
}

static void serve_tunnel(struct network *network, const struct network_pair *pair,
                         struct network_tunnel *tunnel, const struct pollfd *polled)
{
    if (tunnel->connecting && polled[1].revents) {
        tunnel->connecting = false;
        if (loop_connect_result(tunnel->fds[1]) != 0) {
            tunnel_close(tunnel);
        }
        return;
    }
    for (uint32_t side = 0; side < 2; side++) {
        if (polled[side].revents & (POLLIN | POLLHUP | POLLERR) && polled[side].events & POLLIN) {
            read_side(network, pair, tunnel, side);
        }
        if (polled[side].revents & (POLLOUT | POLLHUP | POLLERR) && polled[side].events & POLLOUT &&
            !write_side(network, tunnel, !side)) {
            tunnel_close(tunnel);
            return;
        }
    }
    if (has_arrived(network, pair, tunnel, 0) || has_arrived(network, pair, tunnel, 1)) {
        tunnel_close(tunnel);
    }
}

static void serve_pair(struct network *network, struct network_pair *pair,
                       const struct pollfd *polled)
{
    bool cut = atomic_exchange(&pair->cut, false);

    for (uint32_t i = 0; i < NETWORK_TUNNELS_MAX; i++) {
        struct network_tunnel *tunnel = &pair->tunnels[i];

        if (tunnel->number != 0 && cut) {
            tunnel_close(tunnel);
        } else if (tunnel->number != 0 && tunnel->fds[1] >= 0) {
            serve_tunnel(network, pair, tunnel, polled + 1 + 2 * i);
        } else if (tunnel->number != 0 && is_open(network, pair)) {
            dial(pair, tunnel);
        }
    }
    if (polled[0].revents) {
        take_caller(network, pair);
    }
}

static int wait_ms(const struct polls *polls)
{
    uint64_t left_ms = (polls->due_us - polls->now_us + 999) / 1000;

    return left_ms < LOOK_MS ? (int)left_ms : LOOK_MS;
}

static void turn(struct network *network, struct polls *polls)
{
    polls->count = 0;
    polls->now_us = os_now_us();
    polls->due_us = polls->now_us + (uint64_t)LOOK_MS * 1000;
    for (uint32_t i = 0; i < network->pair_count; i++) {
        struct network_pair *pair = &network->pairs[i];

        add_poll(polls, pair->listen_fd, POLLIN);
        for (uint32_t k = 0; k < NETWORK_TUNNELS_MAX; k++) {
            add_tunnel(network, pair, &pair->tunnels[k], polls);
        }
    }
    (void)poll(polls->fds, polls->count, wait_ms(polls));
    for (uint32_t i = 0; i < network->pair_count; i++) {
        serve_pair(network, &network->pairs[i],
                   polls->fds + (size_t)i * (1 + 2 * NETWORK_TUNNELS_MAX));
    }
}

static void run(void *arg)
{
    struct network *network = arg;
    struct polls polls;

    while (!atomic_load(&network->stopping)) {
        turn(network, &polls);
    }
}

/* ---- Interface. ---- */

static void open_pair(struct network_pair *pair, struct ensemble *ensemble, uint32_t from,
                      uint32_t to)
{
    struct sockaddr_in addr;

    pair->members[0] = from;
    pair->members[1] = to;
    pair->port = port_free();
    pair->target = ensemble->replicas[to].peer_port;
    for (uint32_t i = 0; i < NETWORK_TUNNELS_MAX; i++) {
        pair->tunnels[i].fds[0] = -1;
        pair->tunnels[i].fds[1] = -1;
    }
    addr = loopback(pair->port);
    pair->listen_fd = loop_listen((const struct sockaddr *)&addr, sizeof(addr), BACKLOG);
    assert_true(pair->listen_fd >= 0);
    ensemble->peer_ports[from][to] = pair->port;
}

void network_start(struct network *network, struct ensemble *ensemble)
{
    memset(network, 0, sizeof(*network));
    for (uint32_t from = 0; from < ensemble->count; from++) {
        for (uint32_t to = 0; to < ensemble->count; to++) {
            if (from != to) {
                open_pair(&network->pairs[network->pair_count++], ensemble, from, to);
            }
        }
    }
    ensemble_write_configs(ensemble);
    thread_start(&network->thread, "network", run, network);
}

void network_stop(struct network *network)
{
    atomic_store(&network->stopping, true);
    thread_join(&network->thread);
    for (uint32_t i = 0; i < network->pair_count; i++) {
        for (uint32_t k = 0; k < NETWORK_TUNNELS_MAX; k++) {
            if (network->pairs[i].tunnels[k].number != 0) {
                tunnel_close(&network->pairs[i].tunnels[k]);
            }
        }
        close(network->pairs[i].listen_fd);
    }
}

void network_set(struct network *network, uint32_t from, uint32_t to,
                 const struct network_quality *quality)
{
    ASSERT(from < ENSEMBLE_MAX && to < ENSEMBLE_MAX && from != to);
    atomic_store(&network->delay_ms[from][to], quality->delay_ms);
    atomic_store(&network->bytes_per_s[from][to], quality->bytes_per_s);
    atomic_store(&network->blocked[from][to], quality->blocked);
}

void network_flip(struct network *network, uint32_t from, uint32_t to)
{
    atomic_store(&network->flip[from][to], true);
}

void network_search(struct network *network, const char *text)
{
    atomic_store(&network->seen, 0);
    atomic_store(&network->wanted, text);
}

uint32_t network_seen(const struct network *network)
{
    return atomic_load(&network->seen);
}

void network_cut(struct network *network, uint32_t one, uint32_t other)
{
    for (uint32_t i = 0; i < network->pair_count; i++) {
        struct network_pair *pair = &network->pairs[i];

        if ((pair->members[0] == one && pair->members[1] == other) ||
            (pair->members[0] == other && pair->members[1] == one)) {
            atomic_store(&pair->cut, true);
        }
    }
}
