/*
 * Watches, and the events that they get: the subscriber hands out each change with the watches that
 * match it, for all connections, in the order of the changes. An event is encoded once, however
 * many connections get it.
 *
 * The protocol has no word for lost or late events. So a connection that does not keep up, or whose
 * events were lost, is closed: its client connects again and registers its watches by what it has
 * seen.
 */
#include "zk/zk_int.h"

static const char reason_lost[] = "watches_lost";

static void encode(struct zk *zk, zxid_t zxid, enum watch_event_type type, struct slice path)
{
    buf_clear(&zk->event);
    blob_unref(zk->shared);
    zk->shared = NULL;
    zk_encode_event(&zk->event, zxid, type, path);
    if (zk->event.len >= PIECES_SHARE_BYTES) {
        zk->shared = blob_new(buf_slice(&zk->event));
    }
}

/* Whether zk->event is this event: it has just been written for another connection. */
static bool is_written(const struct zk *zk, const struct watch_event *event)
{
    const struct zk_written *last = &zk->written;

    return last->zxid == event->zxid && last->type == event->type &&
           last->path.data == event->path.data && last->path.len == event->path.len;
}

static void queue_event(struct zk_conn *conn)
{
    zk_out_event(conn);
    metric_add(&conn->zk->metrics.events, 1);
    if (zk_out_events(conn) > conn->zk->limits->socket_queue_bytes_max) {
        zk_close_cut(conn, "slow");
    }
}

static void tell_change(struct zk_conn *conn, const struct watch_event *event)
{
    struct zk *zk = conn->zk;

    if (!is_written(zk, event)) {
        encode(zk, event->zxid, event->type, event->path);
        zk->written =
            (struct zk_written){.zxid = event->zxid, .type = event->type, .path = event->path};
    }
    queue_event(conn);
}

void zk_watch_tell(struct zk_conn *conn, enum watch_event_type type, struct slice path)
{
    conn->zk->written.zxid = 0;
    encode(conn->zk, (zxid_t)-1, type, path);
    queue_event(conn);
}

static void on_event(void *ctx UNUSED, struct watch_owner *owner, struct watch *hits UNUSED,
                     const struct watch_event *event)
{
    struct zk_conn *conn = list_entry(owner, struct zk_conn, owner);

    if (conn->state == ZK_CUT || conn->lost || conn->shut) {
        return;
    }
    if (zk_order_lacks(conn, 0)) {
        zk_watch_tell(conn, event->type, event->path);
    } else {
        tell_change(conn, event);
    }
    zk_order_saw(conn, event->zxid);
}

enum err zk_watch_add(struct zk_conn *conn, enum watch_kind kind, struct slice path, zxid_t since)
{
    const struct subscribe_request request = {.kind = kind, .path = path, .since = since};
    struct subscribe_result result;
    enum err err = subscribe_add_at(conn->zk->subscriber, &conn->owner, &request, &result);

    if (err == ERR_OK && result.resumed == SUBSCRIBE_GAP) {
        zk_close_lost(conn, reason_lost); /* Changes since the read are not known any more. */
    }
    return err;
}

/* ---- The subscriber ---- */

static void on_change(void *ctx, zxid_t zxid, const struct state_change *change)
{
    struct zk *zk = ctx;

    zk->written.zxid = 0; /* Another set may have its paths at the same place. */
    if (change->type == TXN_SESSION_CLOSE || change->type == TXN_SESSION_MOVE) {
        zk_session_changed(zk, change);
    } else if (change->session != 0) {
        zk_session_owns(zk, change->session, zxid);
    }
}

static void on_lost(void *ctx, zxid_t from UNUSED)
{
    struct zk *zk = ctx;

    zk_session_look_all(zk);
    list_for_each_entry (struct zk_conn, conn, node, &zk->conns) {
        conn->session.owned = subscribe_at(zk->subscriber);
        if (conn->owner.count > 0) {
            zk_close_lost(conn, reason_lost);
        }
    }
}

/* Wakes the thread after a change; called on the core thread. Without connections one wake-up per
 * ZK_SKIPPED_WAKEUPS_MAX changes keeps the subscriber close to the end of the window. */
static void wake(void *ctx)
{
    struct zk *zk = ctx;

    if (atomic_load(&zk->taken) > 0 || ++zk->skipped_wakeups % ZK_SKIPPED_WAKEUPS_MAX == 0) {
        ev_async_send(zk->loop, &zk->changed);
    }
}

void zk_watch_open(struct zk *zk)
{
    const struct subscribe_sink sink = {
        .ctx = zk, .on_event = on_event, .on_change = on_change, .on_lost = on_lost};
    struct window *window = gate_window(zk->gate);

    buf_init(&zk->event, SIZE_MAX / 2); /* Bounded by the length of a path. */
    zk->subscriber = subscriber_new(gate_view(zk->gate), window, &sink);
    zk->listener = (struct window_listener){.wake = wake, .ctx = zk};
    window_listen(window, &zk->listener);
}

void zk_watch_close(struct zk *zk)
{
    window_unlisten(gate_window(zk->gate), &zk->listener);
    subscriber_free(zk->subscriber);
    buf_release(&zk->event);
    blob_unref(zk->shared);
}
