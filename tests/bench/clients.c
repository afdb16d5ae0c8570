#include "tests/bench/clients.h"

#include "zk/wire.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/minmax.h"
#include "base/os_clock.h"
#include "tests/bench/line.h"
#include "tests/lib/zk_ask.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    SCRATCH_BYTES = 1 << 20,
    READ_BYTES = 256 << 10,
    PART_MAX = SCRATCH_BYTES - READ_BYTES, /* Of a frame. */
    OUT_MAX = 64 << 20,
    EVENTS = 256,
    SWEEP_MS = 10,
    RETRY_MS = 100, /* A client without a server waits a random part of this. */
    OPENING_AT_ONCE = 1000,
    HELLO_ANSWER_MIN = 36,
    ZXID_AT = 8 /* In a reply, from its length on. */
};

void clients_init(struct clients *clients, const uint16_t *ports, uint32_t servers, uint32_t count)
{
    *clients = (struct clients){.servers = servers, .count = count};
    memcpy(clients->ports, ports, servers * sizeof(ports[0]));
    clients->all = mem_zalloc(count, sizeof(clients->all[0]));
    clients->ask_timeout_ms = 30000;
    clients->opening_at_once = OPENING_AT_ONCE;
    clients->scratch = mem_alloc(SCRATCH_BYTES);
    rng_init(&clients->rng, os_now_ns());
    clients->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (clients->epoll < 0) {
        line_fail("epoll_create1");
    }
    for (uint32_t i = 0; i < count; i++) {
        struct client *client = &clients->all[i];

        client->fd = -1;
        client->server = i % servers;
        buf_init(&client->in, PART_MAX);
        buf_init(&client->out, OUT_MAX);
    }
}

void clients_release(struct clients *clients)
{
    for (uint32_t i = 0; i < clients->count; i++) {
        struct client *client = &clients->all[i];

        if (client->fd >= 0) {
            close(client->fd);
        }
        buf_release(&client->in);
        buf_release(&client->out);
    }
    close(clients->epoll);
    mem_free(clients->scratch);
    mem_free(clients->all);
}

/* ---- Connections ---- */

static void listen_to(struct clients *clients, struct client *client, uint32_t events, int op)
{
    struct epoll_event event = {.events = events, .data.ptr = client};

    if (epoll_ctl(clients->epoll, op, client->fd, &event) != 0) {
        line_fail("epoll_ctl");
    }
}

/* The connection is gone, or could not be made. */
static void lose(struct clients *clients, struct client *client)
{
    bool was_open = client->state == CLIENT_OPEN;

    close(client->fd);
    client->fd = -1;
    client->state = CLIENT_DOWN;
    client->full = false;
    buf_clear(&client->in);
    buf_clear(&client->out);
    clients->open -= was_open ? 1 : 0;
    clients->opening -= was_open ? 0 : 1;
    clients->refusals += was_open ? 0 : 1;
    if (client->ending) {
        return;
    }
    if (!clients->stays) {
        line_fail("the server at port %u ended a connection", clients->ports[client->server]);
    }
    client->server = (client->server + 1) % clients->servers;
    client->retry_ms = os_now_ms() + (was_open ? 0 : rng_below(&clients->rng, RETRY_MS));
    if (was_open && clients->on_lost) {
        clients->on_lost(clients, client);
    }
}

static void flush(struct clients *clients, struct client *client)
{
    while (client->out.len > 0) {
        ssize_t sent =
            send(client->fd, client->out.data, client->out.len, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (sent < 0 && errno == EAGAIN) {
            if (!client->full) {
                listen_to(clients, client, EPOLLIN | EPOLLOUT, EPOLL_CTL_MOD);
            }
            client->full = true;
            return;
        }
        if (sent < 0) {
            buf_clear(&client->out); /* The reader learns that the connection is gone. */
            return;
        }
        buf_consume(&client->out, (size_t)sent);
    }
    if (client->full) {
        listen_to(clients, client, EPOLLIN, EPOLL_CTL_MOD);
        client->full = false;
    }
}

void clients_send(struct clients *clients, struct client *client, const void *bytes, size_t len)
{
    const uint8_t *at = bytes;

    client->sent_ms = os_now_ms();
    if (client->out.len == 0) {
        ssize_t sent = send(client->fd, at, len, MSG_NOSIGNAL | MSG_DONTWAIT);

        sent = sent < 0 ? 0 : sent;
        at += sent;
        len -= (size_t)sent;
    }
    if (len > 0) {
        if (!buf_append(&client->out, at, len)) {
            line_fail("a server takes no requests");
        }
        flush(clients, client);
    }
}

static void send_hello(struct clients *clients, struct client *client)
{
    struct buf out;

    buf_init(&out, READ_BYTES);
    zk_ask_hello(&out, (zxid_t)client->zxid, clients->ask_timeout_ms, client->session,
                 client->passwd);
    clients_send(clients, client, out.data, out.len);
    buf_release(&out);
}

static void dial(struct clients *clients, struct client *client)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(clients->ports[client->server])};
    const int on = 1;

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    client->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (client->fd < 0) {
        line_fail("a socket; with too many open files raise ulimit -n");
    }
    (void)setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    client->state = CLIENT_CONNECTING;
    clients->opening++;
    if (connect(client->fd, (struct sockaddr *)&to, sizeof(to)) != 0 && errno != EINPROGRESS) {
        lose(clients, client);
        return;
    }
    client->full = true; /* It is writable once it is connected. */
    listen_to(clients, client, EPOLLIN | EPOLLOUT, EPOLL_CTL_ADD);
}

/* The server does not know the session: the client opens another one. */
static void forget(struct clients *clients, struct client *client)
{
    if (!clients->stays || !client->known) {
        line_fail("the server at port %u opens no session", clients->ports[client->server]);
    }
    clients->expired++;
    client->known = false;
    client->session = 0;
    client->zxid = 0;
    memset(client->passwd, 0, ZK_PASSWD_BYTES);
    lose(clients, client);
}

/* Takes the answer to the first frame. */
static void take_hello(struct clients *clients, struct client *client, struct slice body)
{
    struct wire_reader reader;

    wire_reader_init(&reader, body);
    (void)zk_get_int(&reader);
    client->timeout_ms = zk_get_int(&reader);
    client->session = (uint64_t)zk_get_long(&reader);
    struct slice passwd = zk_get_bytes(&reader);

    if (!wire_reader_ok(&reader) || body.len < HELLO_ANSWER_MIN || passwd.len != ZK_PASSWD_BYTES) {
        line_fail("the answer to the first frame has %zu bytes", body.len);
    }
    if (client->timeout_ms <= 0) {
        forget(clients, client);
        return;
    }
    memcpy(client->passwd, passwd.data, ZK_PASSWD_BYTES);
    client->known = true;
    client->state = CLIENT_OPEN;
    clients->opening--;
    clients->open++;
    if (clients->on_open) {
        clients->on_open(clients, client);
    }
}

static void take_frame(struct clients *clients, struct client *client, const uint8_t *frame,
                       size_t len)
{
    if (client->state == CLIENT_CONNECTING) {
        take_hello(clients, client, slice_make(frame + ZK_INT_BYTES, len - ZK_INT_BYTES));
        return;
    }
    if (len < CLIENTS_HEAD_BYTES) {
        line_fail("a reply of %zu bytes", len);
    }
    if (clients_xid(frame) == ZK_XID_PING) {
        return;
    }
    uint64_t be = 0;

    memcpy(&be, frame + ZXID_AT, sizeof(be));
    client->zxid = max_i64(client->zxid, (int64_t)be64toh(be));
    if (clients->on_frame) {
        clients->on_frame(clients, client, frame, len);
    }
}

/* Takes all whole frames; the rest is kept. */
static void take_all(struct clients *clients, struct client *client, const uint8_t *at, size_t have)
{
    int fd = client->fd;

    while (have >= ZK_INT_BYTES) {
        size_t len = ZK_INT_BYTES + (size_t)(uint32_t)zk_load_int(at);

        if (len > PART_MAX) {
            line_fail("a frame of %zu bytes", len);
        }
        if (have < len) {
            break;
        }
        take_frame(clients, client, at, len);
        if (client->fd != fd) {
            return; /* The connection was given up. */
        }
        at += len;
        have -= len;
    }
    buf_clear(&client->in);
    if (have > 0) {
        (void)buf_append(&client->in, at, have);
    } else if (client->in.data) {
        buf_release(&client->in);
    }
}

static void read_client(struct clients *clients, struct client *client)
{
    size_t have = client->in.len;

    if (have > 0) {
        memcpy(clients->scratch, client->in.data, have);
    }
    ssize_t got = recv(client->fd, clients->scratch + have, READ_BYTES, MSG_DONTWAIT);

    if (got < 0 && errno == EAGAIN) {
        return;
    }
    if (got <= 0) {
        lose(clients, client);
        return;
    }
    take_all(clients, client, clients->scratch, have + (size_t)got);
    if (clients->on_batch && client->state == CLIENT_OPEN) {
        clients->on_batch(clients, client);
    }
}

static void serve(struct clients *clients, struct client *client, uint32_t events)
{
    errno = 0; /* What is reported from here on has no older cause. */
    if (client->state == CLIENT_CONNECTING && client->full && (events & EPOLLOUT) &&
        !(events & (EPOLLERR | EPOLLHUP))) {
        client->full = false;
        listen_to(clients, client, EPOLLIN, EPOLL_CTL_MOD);
        send_hello(clients, client);
        return;
    }
    if (events & EPOLLOUT) {
        flush(clients, client);
    }
    if (events & (EPOLLIN | EPOLLERR | EPOLLHUP)) {
        read_client(clients, client);
    }
}

/* ---- The loop ---- */

/* Connects what is due, and pings for clients that were silent for a third of their timeout. */
static void sweep(struct clients *clients)
{
    uint64_t now_ms = os_now_ms();
    struct buf ping;

    buf_init(&ping, READ_BYTES);
    zk_ask_plain(&ping, ZK_XID_PING, ZK_PING);
    clients->sweep_ms = now_ms + SWEEP_MS;
    for (uint32_t i = 0; i < clients->count; i++) {
        struct client *client = &clients->all[i];

        if (client->state == CLIENT_DOWN && now_ms >= client->retry_ms && !client->ending &&
            clients->opening < clients->opening_at_once) {
            dial(clients, client);
        } else if (client->state == CLIENT_OPEN &&
                   now_ms >= client->sent_ms + (uint64_t)client->timeout_ms / 3) {
            clients_send(clients, client, ping.data, ping.len);
        }
    }
    buf_release(&ping);
}

bool clients_run(struct clients *clients, uint64_t until_ms)
{
    struct epoll_event events[EVENTS];
    uint64_t now_ms = os_now_ms();

    while (!clients->stop && now_ms < until_ms) {
        if (now_ms >= clients->sweep_ms) {
            sweep(clients);
        }
        uint64_t wake_ms = min_u64(until_ms, clients->sweep_ms);
        int count = epoll_wait(clients->epoll, events, EVENTS,
                               wake_ms > now_ms ? (int)(wake_ms - now_ms) : 0);

        for (int i = 0; i < count; i++) {
            serve(clients, events[i].data.ptr, events[i].events);
        }
        now_ms = os_now_ms();
    }
    bool stopped = clients->stop;

    clients->stop = false;
    return stopped;
}

void clients_open(struct clients *clients, uint64_t limit_ms)
{
    uint64_t end_ms = os_now_ms() + limit_ms;

    while (clients->open < clients->count) {
        (void)clients_run(clients, os_now_ms() + 1);
        if (os_now_ms() > end_ms) {
            line_fail("%u of %u sessions are open after %llu ms", clients->open, clients->count,
                      (unsigned long long)limit_ms);
        }
    }
}

void clients_close(struct clients *clients, uint64_t limit_ms)
{
    uint64_t end_ms = os_now_ms() + limit_ms;
    struct buf out;

    buf_init(&out, READ_BYTES);
    clients->on_frame = NULL;
    clients->on_batch = NULL;
    for (uint32_t i = 0; i < clients->count; i++) {
        struct client *client = &clients->all[i];

        client->ending = true;
        if (client->state == CLIENT_OPEN) {
            buf_clear(&out);
            zk_ask_plain(&out, ++client->xid, ZK_CLOSE_SESSION);
            clients_send(clients, client, out.data, out.len);
        }
    }
    while (clients->open > 0 && os_now_ms() < end_ms) {
        (void)clients_run(clients, os_now_ms() + 1);
    }
    buf_release(&out);
}

/* ---- Requests ---- */

void clients_read(struct clients *clients, struct client *client, int32_t type, const char *path,
                  bool watch)
{
    struct buf out;

    buf_init(&out, READ_BYTES);
    zk_ask_path(&out, ++client->xid, type, path, watch ? 1 : 0);
    clients_send(clients, client, out.data, out.len);
    buf_release(&out);
}

void clients_write(struct clients *clients, struct client *client, int32_t type, const char *path,
                   size_t len)
{
    uint8_t *data = mem_alloc(len);
    struct buf out;

    memset(data, 'x', len);
    buf_init(&out, READ_BYTES + len);
    if (type == ZK_CREATE) {
        zk_ask_create(&out, ++client->xid, type, path, slice_make(data, len), 0);
    } else {
        zk_ask_set(&out, ++client->xid, path, slice_make(data, len), -1);
    }
    clients_send(clients, client, out.data, out.len);
    buf_release(&out);
    mem_free(data);
}
