/*
 * Long polls. With `Prefer: wait=N`, a read whose entity tag the client already has is answered
 * when the tag changes, and a read of a missing znode when it is created. The watch starts at
 * exactly the state that was read, so no change is missed. Each change of the znode wakes the
 * request, which reads again and compares. The shape of the answer decides what is watched.
 *
 */
#include "base/check.h"
#include "base/mem.h"
#include "base/os_clock.h"
#include "http/watcher.h"

struct http_wait {
    struct watcher_client client;
    struct http *http;
    struct http_conn *conn;
    struct subscribe_request request;
    bool acl;        /* The tag also changes with ACLs. */
    uint64_t end_ms; /* The end of the wait. */
    bool over;       /* The time is up, or this replica cannot wait any longer. */
    bool gone;       /* The client has closed the connection. */
};

static struct http_wait *wait_of(struct watcher_client *client)
{
    return list_entry(client, struct http_wait, client);
}

/* ---- The watcher's thread. ---- */

/* Returns the connection, and with it the wait, to the library. */
static void finish(struct http_wait *wait)
{
    struct http *http = wait->http;

    watcher_remove(&wait->client);
    atomic_fetch_sub_explicit(&http->watcher->metrics.waits.value, 1, memory_order_relaxed);
    http_resume(http, wait->conn->mhd);
}

static void end_wait(struct http_wait *wait)
{
    wait->over = true;
    finish(wait);
}

/*
 * Whether the watch covers all changes since the state that was read. The changes in between have
 * been replayed to it, so the request need not read again because of other znodes: among many
 * writes it would never stop. Changes of ACLs are not replayed.
 *
 */
static bool is_watched(const struct http_wait *wait, const struct subscribe_result *result)
{
    if (result->resumed == SUBSCRIBE_FRESH) {
        return true;
    }
    return result->resumed == SUBSCRIBE_REPLAYED && !result->used_up && !wait->acl;
}

static void begin(struct http_wait *wait)
{
    struct http_watcher *watcher = wait->client.watcher;
    struct subscribe_result result = {.resumed = SUBSCRIBE_GAP};

    metric_add(&watcher->metrics.waits, 1);
    if (!watcher_add(&wait->client, wait->conn->fd) || watcher->ended) {
        end_wait(wait);
        return;
    }
    if (wait->acl) {
        watcher_listen(&wait->client);
    }
    watcher_ask_by(watcher, wait->end_ms);

    enum err err =
        subscribe_add_at(watcher->subscriber, &wait->client.owner, &wait->request, &result);

    if (err != ERR_OK || !is_watched(wait, &result)) {
        finish(wait);
    }
}

static void on_call(struct watcher_client *client, uint32_t calls)
{
    ASSERT(calls == WATCHER_BEGIN);

    begin(wait_of(client));
}

static void on_event(struct watcher_client *client, struct watch *hits,
                     const struct watch_event *event)
{
    (void)hits;
    (void)event;
    watcher_due(client);
}

static void on_change(struct watcher_client *client, zxid_t zxid, const struct change *change)
{
    const struct subscribe_request *request = &wait_of(client)->request;
    /* A prefix matches a few paths too many in a tree; the request reads again and compares the
     * tag. */
    bool covered = request->kind == WATCH_RECURSIVE ? slice_starts_with(change->path, request->path)
                                                    : slice_eq(change->path, request->path);

    (void)zxid;
    if (change->type == TXN_SET_ACL && covered) {
        watcher_due(client);
    }
}

static void on_lost(struct watcher_client *client, zxid_t from)
{
    (void)from;
    watcher_due(client);
}

static void on_due(struct watcher_client *client)
{
    finish(wait_of(client));
}

static void on_hangup(struct watcher_client *client)
{
    wait_of(client)->gone = true;
    finish(wait_of(client));
}

static void on_end(struct watcher_client *client, enum watcher_end end)
{
    (void)end;
    end_wait(wait_of(client));
}

static uint64_t on_time(struct watcher_client *client, uint64_t now_ms)
{
    struct http_wait *wait = wait_of(client);
    uint64_t end_ms = wait->end_ms;

    if (now_ms >= end_ms) {
        end_wait(wait);
        return UINT64_MAX;
    }
    return end_ms;
}

static const struct watcher_ops wait_ops = {
    .on_call = on_call,
    .on_event = on_event,
    .on_change = on_change,
    .on_lost = on_lost,
    .on_due = on_due,
    .on_hangup = on_hangup,
    .on_end = on_end,
    .on_time = on_time,
};

/* ---- The library's threads. ---- */

/* The kind of watch whose events cover what the tag covers, except the ACL. */
static enum watch_kind kind_for(enum op_shape shape, bool missing)
{
    if (missing) {
        return WATCH_EXISTS;
    }
    if (shape == OP_SHAPE_CHILDREN) {
        return WATCH_CHILDREN;
    }
    if (shape == OP_SHAPE_STAT) {
        return WATCH_PERSISTENT;
    }
    return shape == OP_SHAPE_TREE ? WATCH_RECURSIVE : WATCH_DATA;
}

static struct http_wait *wait_new(struct http_conn *conn, bool missing)
{
    const struct http_request *request = &conn->request;
    enum op_shape shape = request->def->shape;
    struct http_wait *wait = mem_zalloc(1, sizeof(*wait));

    watcher_client_init(&wait->client, &wait_ops, conn);
    wait->http = conn->http;
    wait->conn = conn;
    wait->acl = shape == OP_SHAPE_STAT || shape == OP_SHAPE_ACL || shape == OP_SHAPE_TREE;
    wait->end_ms = os_now_ms() + request->wants.wait_ms;
    wait->request =
        (struct subscribe_request){.kind = kind_for(shape, missing), .path = request->args.path};
    return wait;
}

bool http_wait_begin(struct http_conn *conn, const struct op_result *result)
{
    struct http_request *request = &conn->request;
    struct http_wait *wait = request->task.data;

    ASSERT(request->wants.wait_ms > 0 && (result->err == ERR_OK || result->err == ERR_NO_NODE));
    if ((wait && wait->over) || atomic_load(&conn->http->draining)) {
        return false;
    }
    if (!wait) {
        if (!watcher_take_slot(conn->http->watcher)) {
            http_refuse(
                conn, ERR_THROTTLED,
                "this replica has as many waiting requests and streams as it may (maxStreams)");
            return false;
        }
        wait = wait_new(conn, result->err == ERR_NO_NODE);
        request->task.data = wait;
        request->answer.has_waited = true;
        request->answer.is_untimed = true;
    }
    wait->request.since = result->zxid;
    if (result->zxid > request->wants.min_zxid) {
        request->wants.min_zxid = result->zxid; /* The next answer must not be older. */
    }
    http_suspend(conn);
    watcher_call(&wait->client, WATCHER_BEGIN);
    return true;
}

bool http_wait_has_hung_up(const struct http_conn *conn)
{
    const struct http_wait *wait = conn->request.task.data;

    return wait->gone;
}

void http_wait_free(struct http_conn *conn)
{
    struct http_wait *wait = conn->request.task.data;

    if (wait) {
        watcher_client_release(&wait->client);
        mem_free(wait);
    }
}
