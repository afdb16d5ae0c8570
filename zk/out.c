/*
 * Bytes to a client. Frames of the connection that is served now are collected in one buffer, which
 * one system call sends: no frame is copied while the client keeps up. What the kernel does not
 * take waits in the queue of the connection (pieces.h).
 *
 * Over TLS each frame is sent by a call, and so a record, of its own. A client that waits for its
 * socket before each frame, as kazoo does, would not see a second frame in the same record: the
 * library of the client has taken it from the socket already.
 */
#include "zk/wire.h"
#include "zk/zk_int.h"

#include <errno.h>

enum {
    WRITES_PER_LOOK = 16 /* Writes of one turn between two looks at the clock. */
};

/* Moves the collected frames, but for the bytes that are sent, into the queue of their connection.
 */
static void settle(struct zk *zk, size_t sent)
{
    struct zk_conn *writer = zk->writer;

    if (!writer) {
        return;
    }
    const struct slice part = slice_from(buf_slice(&zk->out), sent);

    if (part.len > 0) {
        pieces_put(&writer->out, &part, 1);
        zk_turn_soon(writer);
    }
    buf_trim(&zk->out, ZK_KEEP_BYTES);
    zk->writer = NULL;
}

struct buf *zk_out_begin(struct zk_conn *conn)
{
    struct zk *zk = conn->zk;

    if (zk->writer != conn) {
        settle(zk, 0);
        zk->writer = conn;
    }
    return &zk->out;
}

bool zk_out_end(struct zk_conn *conn, size_t at)
{
    struct buf *out = &conn->zk->out;

    ASSERT(conn->zk->writer == conn);
    if (out->overflow || out->len - at > ZK_REPLY_MAX) {
        out->overflow = false;
        out->len = at;
        return false;
    }
    return true;
}

/* Notes that the kernel takes `sent` of `unsent` bytes. All events that were queued before the last
 * one of `old` have left when `old_ends` bytes have. */
static void count_sent(struct zk_conn *conn, size_t sent, size_t unsent)
{
    struct zk_unsent *events = &conn->events;
    size_t left = unsent - sent;

    events->old_ends -= min_size(sent, events->old_ends);
    if (events->old_ends == 0) {
        events->old = left > 0 ? events->fresh : 0;
        events->fresh = 0;
        events->old_ends = left;
    }
}

size_t zk_out_events(const struct zk_conn *conn)
{
    return conn->events.old + conn->events.fresh;
}

void zk_out_event(struct zk_conn *conn)
{
    struct zk *zk = conn->zk;
    const struct slice part = buf_slice(&zk->event);
    const struct piece_tag tag = {.kind = PIECE_FIXED};

    if (zk->writer == conn) {
        bool kept = buf_append_slice(&zk->out, part);

        ASSERT(kept); /* The connection is cut before its events exceed the room for them. */
    } else if (zk->shared) {
        pieces_put_tagged(&conn->out, &tag, NULL, 0, zk->shared, 0);
    } else {
        pieces_put(&conn->out, &part, 1);
    }
    conn->events.fresh += part.len;
    zk_turn_soon(conn);
}

size_t zk_out_unsent(const struct zk_conn *conn)
{
    return conn->out.bytes + (conn->zk->writer == conn ? conn->zk->out.len : 0);
}

bool zk_out_is_full(const struct zk_conn *conn)
{
    return zk_out_unsent(conn) >= ZK_UNREAD_BYTES;
}

void zk_out_release(struct zk_conn *conn)
{
    if (conn->zk->writer == conn) {
        buf_trim(&conn->zk->out, ZK_KEEP_BYTES);
        conn->zk->writer = NULL;
    }
    pieces_release(&conn->out);
    list_remove(&conn->stalled);
}

/* The most bytes of the next write, whose first bytes are `head`: at least those of the length of
 * a frame, if a frame begins there. */
static size_t write_max(struct zk_conn *conn, struct slice head)
{
    if (!conn->secure) {
        return SIZE_MAX;
    }
    if (conn->frame_left == 0) {
        ASSERT(head.len >= ZK_INT_BYTES);
        conn->frame_left = ZK_INT_BYTES + (uint32_t)zk_load_int(head.data);
    }
    return conn->frame_left;
}

/* The same for the bytes in the queue. */
static size_t queue_write_max(struct zk_conn *conn)
{
    struct slice parts[ZK_INT_BYTES];
    uint8_t head[ZK_INT_BYTES];
    uint8_t block[1];
    size_t len = 0;

    if (conn->secure && conn->frame_left == 0) {
        size_t count =
            pieces_look(&conn->out, parts, ZK_INT_BYTES, sizeof(head), block, sizeof(block));

        for (size_t i = 0; i < count; i++) {
            memcpy(head + len, parts[i].data, parts[i].len);
            len += parts[i].len;
        }
    }
    return write_max(conn, slice_make(head, len));
}

/* Counts what the kernel took of `len` bytes, of `unsent` in all. False: the connection is broken.
 */
static bool took(struct zk_conn *conn, ssize_t sent, size_t len, size_t unsent)
{
    if (sent < 0 && sent != -EAGAIN && sent != -EINTR) {
        return false;
    }
    conn->full = sent != (ssize_t)len;
    if (sent > 0) {
        conn->stall_ms = 0;
        count_sent(conn, (size_t)sent, unsent);
        conn->frame_left -= conn->secure ? (uint32_t)sent : 0;
        metric_add(&conn->zk->metrics.sent_bytes, (uint64_t)sent);
    }
    return true;
}

/* Whether the turn has time for one more write. Over TLS each frame is one. */
static bool has_time(struct zk *zk, uint32_t *writes)
{
    if (++*writes % WRITES_PER_LOOK != 0) {
        return true;
    }
    zk->now_us = os_now_us();
    return zk->now_us < zk->end_us;
}

/* Sends the collected frames, if no bytes are before them, while the turn lasts. Counts the bytes
 * in `*sent`. */
static bool send_collected(struct zk_conn *conn, size_t *sent)
{
    struct zk *zk = conn->zk;
    uint32_t writes = 0;
    bool time = true;

    if (zk->writer != conn || conn->out.bytes > 0) {
        return true;
    }
    while (*sent < zk->out.len && !conn->full && time) {
        struct slice rest = slice_from(buf_slice(&zk->out), *sent);
        size_t len = min_size(rest.len, write_max(conn, rest));
        ssize_t got = loop_send(conn->fd, rest.data, len);

        if (!took(conn, got, len, zk_out_unsent(conn) - *sent)) {
            return false;
        }
        *sent += got > 0 ? (size_t)got : 0;
        time = has_time(zk, &writes);
    }
    return true;
}

static bool send_queued(struct zk_conn *conn)
{
    size_t most = ZK_UNREAD_BYTES;
    uint32_t writes = 0;
    bool time = true;

    while (conn->out.bytes > 0 && !conn->full && most > 0 && time) {
        struct slice parts[LOOP_PARTS_MAX];
        uint8_t block[1]; /* For texts, which this queue never has. */
        size_t bytes_max = min_size(most, queue_write_max(conn));
        size_t count =
            pieces_look(&conn->out, parts, LOOP_PARTS_MAX, bytes_max, block, sizeof(block));
        size_t len = 0;

        for (size_t i = 0; i < count; i++) {
            len += parts[i].len;
        }
        ssize_t sent = loop_send_parts(conn->fd, parts, count);

        if (!took(conn, sent, len, zk_out_unsent(conn))) {
            return false;
        }
        if (sent > 0) {
            pieces_pass(&conn->out, (size_t)sent);
            most -= min_size(most, (size_t)sent);
        }
        time = has_time(conn->zk, &writes);
    }
    if (conn->out.bytes > 0 && !conn->full) {
        zk_turn_later(conn);
    }
    return true;
}

/* Notes since when the client takes no bytes, and asks the loop for room. */
static void look_at_pace(struct zk_conn *conn)
{
    if (conn->out.bytes == 0) {
        conn->stall_ms = 0;
        list_remove(&conn->stalled);
        zk_turn_await(conn, EV_WRITE, false);
        return;
    }
    if (conn->full) {
        zk_turn_await(conn, EV_WRITE, true);
    }
    if (conn->stall_ms == 0) {
        conn->stall_ms = os_now_ms();
        list_remove(&conn->stalled);
        list_push_back(&conn->zk->stalled, &conn->stalled);
    }
}

void zk_out_flush(struct zk_conn *conn)
{
    size_t sent = 0;
    bool sound = send_collected(conn, &sent);

    if (conn->zk->writer == conn) {
        settle(conn->zk, sent);
    }
    sound = sound && send_queued(conn);
    if (!sound) {
        zk_close_cut(conn, "client");
        return;
    }
    look_at_pace(conn);
    if ((conn->stops & ZK_STOP_UNREAD) && !zk_out_is_full(conn)) {
        zk_turn_stop(conn, ZK_STOP_UNREAD, false);
        zk_turn_soon(conn);
    }
}

/* Whether closing this client is due: it has stalled for a while, or (`now`) the memory is used up.
 */
static bool is_due(const struct zk_conn *conn, bool now, uint64_t now_ms)
{
    return now || now_ms >= conn->stall_ms + ZK_RELIEF_MS;
}

/* Closes clients that hold more than `least` bytes, the longest stalled first. True when there is
 * memory again. */
static bool relieve(struct zk *zk, size_t least, enum budget_level level)
{
    uint64_t now_ms = os_now_ms();

    list_for_each_entry_safe (struct zk_conn, conn, next, stalled, &zk->stalled) {
        if (!is_due(conn, level == BUDGET_FULL, now_ms)) {
            return false;
        }
        if (conn->out.cost > least) {
            zk_close_cut(conn, "slow");
            zk_out_release(conn);
            if (budget_is_relieved(gate_unsent(zk->gate))) {
                return true;
            }
            level = BUDGET_SHORT;
        }
    }
    return false;
}

/* While memory for unsent bytes is short, closes clients that have taken nothing for a while; while
 * it is used up, the one that has stalled longest. Those with more than their share go first. */
void zk_out_relieve(struct zk *zk)
{
    enum budget_level level = budget_level(gate_unsent(zk->gate));

    if (level != BUDGET_ROOMY && !relieve(zk, ZK_UNREAD_BYTES, level)) {
        (void)relieve(zk, 0, budget_level(gate_unsent(zk->gate)));
    }
}
