/* zk_client_kit.h - clients of the front end in zk_bench.h, for the tests of its bounds. */
#ifndef TESTS_UNIT_ZK_CLIENT_KIT_H
#define TESTS_UNIT_ZK_CLIENT_KIT_H

#include "zk/wire.h"

#include "tests/lib/unit.h"
#include "tests/lib/zk_ask.h"
#include "tests/unit/zk_bench.h"

#include <sys/socket.h>
#include <unistd.h>

enum {
    TIMEOUT_MS = 10000,
    ROUNDS_MAX = 2000,
    READ_BYTES = 64 << 10,
    ROOM = 64 << 10
};

static struct zk_bench bench;

struct client {
    int fd;
    int32_t xid;
    struct zk_conn *conn;
    struct buf out;
    struct buf in;
    uint32_t replies; /* Frames that have arrived, but for events and the first frame. */
    uint32_t pings;   /* Of these, the replies to pings. */
    uint32_t events;
    int32_t err; /* Of the last reply. */
    zxid_t zxid; /* The same. */
    zxid_t most; /* Of all frames but the first one: what libraries keep. */
    bool ended;
    struct buf last; /* The body of the last reply. */
};

static inline void open_bench(void)
{
    zk_bench_open(&bench);
}

static inline void close_bench(void)
{
    zk_bench_close(&bench);
}

#define TEST_BENCH(name) TEST(name, open_bench, close_bench)

static inline void count(struct client *client, struct slice body, bool first)
{
    struct wire_reader reader;

    if (first) {
        return;
    }
    wire_reader_init(&reader, body);
    int32_t xid = zk_get_int(&reader);
    client->zxid = (zxid_t)zk_get_long(&reader);
    client->most = (int64_t)client->zxid > 0 ? max_u64(client->zxid, client->most) : client->most;
    client->err = zk_get_int(&reader);

    if (xid == ZK_XID_EVENT) {
        client->events++;
        return;
    }
    client->replies++;
    client->pings += xid == ZK_XID_PING ? 1 : 0;
    buf_clear(&client->last);
    (void)buf_append_slice(&client->last, slice_from(body, 16));
}

static inline void take(struct client *client)
{
    ssize_t got = 1;

    while (got > 0) {
        uint8_t *room = buf_reserve(&client->in, READ_BYTES);

        got = recv(client->fd, room, READ_BYTES, MSG_DONTWAIT);
        client->in.len += got > 0 ? (size_t)got : 0;
    }
    client->ended = client->ended || got == 0;
    size_t at = 0;

    while (client->in.len - at >= ZK_INT_BYTES) {
        size_t len = (uint32_t)zk_load_int(client->in.data + at);

        if (client->in.len - at < ZK_INT_BYTES + len) {
            break;
        }
        count(client, slice_make(client->in.data + at + ZK_INT_BYTES, len), client->xid < 0);
        client->xid = client->xid < 0 ? 0 : client->xid;
        at += ZK_INT_BYTES + len;
    }
    buf_consume(&client->in, at);
}

static inline void deliver(struct client *client)
{
    ssize_t sent = send(client->fd, client->out.data, client->out.len, MSG_DONTWAIT | MSG_NOSIGNAL);

    buf_consume(&client->out, sent > 0 ? (size_t)sent : 0);
}

static inline void round_all(void)
{
    zk_bench_round(&bench);
    while (zk_bench_run(&bench, 0) || zk_bench_answer(&bench, 0)) {
    }
}

/* A turn of the client, which reads nothing. */
static inline void turn(struct client *client, uint64_t us)
{
    list_remove(&client->conn->turn);
    client->conn->arrived = true;
    bench.zk->now_us = os_now_us();
    bench.zk->end_us = bench.zk->now_us + us;
    zk_conn_turn(client->conn);
}

/* One turn of the client, which has no time for more than one request or page. */
static inline void step(struct client *client)
{
    turn(client, 1);
    take(client);
}

static inline void dial(struct client *client, int room)
{
    *client = (struct client){.fd = zk_bench_dial(&bench, room), .xid = -1};
    static const uint8_t none[ZK_PASSWD_BYTES];

    buf_init(&client->out, SIZE_MAX / 2);
    buf_init(&client->in, SIZE_MAX / 2);
    buf_init(&client->last, SIZE_MAX / 2);
    zk_ask_hello(&client->out, 0, TIMEOUT_MS, 0, none);
    for (int i = 0; i < ROUNDS_MAX && client->xid < 0; i++) {
        deliver(client);
        round_all();
        take(client);
    }
    assert_int_equal(client->xid, 0);
    client->conn = list_entry(bench.zk->conns.prev, struct zk_conn, node);
}

static inline void hang_up(struct client *client)
{
    close(client->fd);
    buf_release(&client->out);
    buf_release(&client->in);
    buf_release(&client->last);
}

static inline void ask(struct client *client, int32_t type, const char *path, int flag)
{
    zk_ask_path(&client->out, ++client->xid, type, path, flag);
}

static inline void await(struct client *client, uint32_t replies)
{
    for (int i = 0; i < ROUNDS_MAX && client->replies < replies && !client->ended; i++) {
        deliver(client);
        round_all();
        take(client);
    }
    assert_int_equal(client->replies, replies);
}

static inline void create(struct client *client, const char *path, struct slice data)
{
    zk_ask_create(&client->out, ++client->xid, ZK_CREATE, path, data, 0);
    await(client, client->replies + 1);
    assert_int_equal(client->err, 0);
}

/* Writes as another front end does. */
static inline void write_one(enum op_id op, const char *path, const char *data)
{
    struct op_args args;

    op_args_init(&args, op);
    args.path = slice_str(path);
    args.data = slice_str(data);
    assert_int_equal(zk_bench_write(&bench, &args), ERR_OK);
}

#endif
