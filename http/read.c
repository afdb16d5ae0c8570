/*
 * Reads of the tree. Most are answered at once.
 *
 * Large reads: httpThreads - 1 of them may run at a time (1 if httpThreads is 1), so that a thread
 * is left for small requests. Further large reads are suspended and run in FIFO order. A tree or a
 * search is always large. Any other read is large when its result is large; if the read must wait,
 * it reads again in its turn.
 *
 * Long polls: with `Prefer: wait=N`, a read whose entity tag the client already has is answered
 * when the tag changes, and a read of a missing znode when the znode is created. The watch starts
 * at exactly the state that was read, so no change is missed. Each change of the znode wakes the
 * request, which reads again and compares. The shape of the answer decides what is watched.
 */
#include "http/watcher.h"
#include "server/read/view.h"

/* ---- Long polls ---- */

struct http_wait {
    struct watcher_client client;
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
    struct http *http = wait->conn->http;

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
 * Whether the watch covers all changes since the state that was read: the watch starts at that
 * state, or the changes since then were replayed to it. If not, the request reads again. That the
 * tree is newer than the state that was read is no reason to read again: while clients write to
 * other znodes that is always true, and the request would read again and again. A replay has no
 * changes of ACLs, so it does not cover a tag that changes with ACLs (wait->acl).
 */
static bool is_watched(const struct http_wait *wait, const struct subscribe_result *result)
{
    if (result->resumed == SUBSCRIBE_FRESH) {
        return true;
    }
    return result->resumed == SUBSCRIBE_REPLAYED && !result->used_up && !wait->acl;
}

/* Handles WATCHER_BEGIN, the only call. */
static void on_call(struct watcher_client *client, uint32_t calls UNUSED)
{
    struct http_wait *wait = wait_of(client);
    struct http_watcher *watcher = client->watcher;
    struct subscribe_result result = {.resumed = SUBSCRIBE_GAP};

    metric_add(&watcher->metrics.waits, 1);
    if (!watcher_add(&wait->client) || watcher->ended) {
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

static void on_change(struct watcher_client *client, zxid_t zxid UNUSED,
                      const struct state_change *change)
{
    const struct subscribe_request *request = &wait_of(client)->request;
    /* In a tree, the prefix matches a few paths too many. They do no harm: the request reads again
     * and compares the tag. */
    bool covered = request->kind == WATCH_RECURSIVE ? slice_starts_with(change->path, request->path)
                                                    : slice_eq(change->path, request->path);

    if (change->type == TXN_SET_ACL && covered) {
        watcher_due(client);
    }
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

static void on_end(struct watcher_client *client, enum watcher_end end UNUSED)
{
    end_wait(wait_of(client));
}

static uint64_t on_time(struct watcher_client *client, uint64_t now_ms)
{
    uint64_t end_ms = wait_of(client)->end_ms;

    if (now_ms < end_ms) {
        return end_ms;
    }
    end_wait(wait_of(client));
    return UINT64_MAX;
}

static const struct watcher_ops wait_ops = {
    .on_call = on_call,
    .on_change = on_change,
    .on_due = on_due,
    .on_hangup = on_hangup,
    .on_end = on_end,
    .on_time = on_time,
};

/* ---- The library's threads. ---- */

/* Returns the kind of watch whose events cover what the tag covers, except the ACL. */
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
    wait->conn = conn;
    wait->acl = shape == OP_SHAPE_STAT || shape == OP_SHAPE_ACL || shape == OP_SHAPE_TREE;
    wait->end_ms = os_now_ms() + request->wants.wait_ms;
    wait->request =
        (struct subscribe_request){.kind = kind_for(shape, missing), .path = request->args.path};
    return wait;
}

/* Begins to wait for a change, because the answer `result` is unchanged and the client prefers to
 * wait (request.wants.wait_ms). True: the connection is suspended until the znode changes. False:
 * answer at once, or the request is refused. */
static bool wait_begin(struct http_conn *conn, const struct op_result *result)
{
    struct http_request *request = &conn->request;
    struct http_wait *wait = request->task.data;

    if ((wait && wait->over) || atomic_load(&conn->http->draining)) {
        return false;
    }
    if (!wait) {
        if (!watcher_take_slot(conn)) {
            return false;
        }
        wait = wait_new(conn, result->err == ERR_NO_NODE);
        request->task.data = wait;
        request->answer.has_waited = true;
        request->answer.is_untimed = true;
    }
    wait->request.since = result->zxid;
    /* The next answer must not be older than this result. */
    request->wants.min_zxid = max_u64(result->zxid, request->wants.min_zxid);
    http_suspend(conn);
    watcher_call(&wait->client, WATCHER_BEGIN);
    return true;
}

/* ---- Large reads ---- */

enum {
    LARGE_BYTES = 64 << 10,  /* Encoding an answer of this size takes about a millisecond. */
    LARGE_ENTRY_BYTES = 200, /* Size of an entry, or of a part of a multi, without its data. */
    LARGE_QUEUE_MAX = 10000, /* Large reads that wait; further ones are refused. */
};

static const char closing_text[] = "this replica is shutting down";
static const char late_text[] =
    "this read waited for other large reads longer than requestTimeout: "
    "ask for less or try again later";

void http_large_init(struct http_large *large, uint32_t http_threads)
{
    pthread_mutex_init(&large->mutex, NULL);
    list_init(&large->waiting);
    large->running_max = http_threads > 1 ? http_threads - 1 : 1;
}

void http_large_release(struct http_large *large)
{
    ASSERT(large->running == 0 && list_empty(&large->waiting));

    pthread_mutex_destroy(&large->mutex);
}

static uint64_t bytes_of(const struct op_result *result)
{
    uint64_t bytes = (uint64_t)result->entry_count * LARGE_ENTRY_BYTES;

    for (uint32_t i = 0; i < result->entry_count; i++) {
        bytes += result->entries[i].data ? result->entries[i].data->len : 0;
    }
    return bytes + (result->data ? result->data->len : 0);
}

/* Whether the read is large by its result. */
static bool is_large(const struct http_request *request, const struct op_result *result)
{
    uint64_t bytes = (uint64_t)result->result_count * LARGE_ENTRY_BYTES;

    if (request->wants.media == HTTP_MEDIA_RAW && result->result_count == 0) {
        return false; /* Raw data is sent without encoding. */
    }
    for (uint32_t i = 0; i < result->result_count; i++) {
        bytes += bytes_of(&result->results[i]);
    }
    return bytes + bytes_of(result) > LARGE_BYTES;
}

/* Puts a read into the queue. A read waits there for requestTimeout at most, as a request does at
 * the gate. */
static void wait_in_queue(struct http_conn *conn)
{
    struct http *http = conn->http;
    struct http_large *large = &http->large;
    struct http_large_turn *turn = &conn->request.large;

    turn->state = HTTP_LARGE_WAITS;
    turn->end_ms = os_now_ms() + http->limits->request_timeout_ms;
    list_push_back(&large->waiting, &turn->node);
    large->waiting_count++;
    http_suspend(conn); /* Until the mutex is released, no thread can resume `conn`. */
}

enum http_large_entry http_large_enter(struct http_conn *conn)
{
    struct http_large *large = &conn->http->large;

    if (conn->request.large.state == HTTP_LARGE_RUNS) {
        return HTTP_LARGE_ENTERED;
    }
    MUTEX_HOLD(&large->mutex);
    if (large->running < large->running_max) {
        large->running++;
        conn->request.large.state = HTTP_LARGE_RUNS;
        return HTTP_LARGE_ENTERED;
    }
    /* While this replica shuts down, no read may enter the queue: http_large_end empties the
     * queue only once, and the acceptor, which ends waits that time out, is stopped before that. */
    if (atomic_load(&conn->http->draining)) {
        http_refuse(conn, ERR_NOT_READY, closing_text);
        return HTTP_LARGE_REFUSED;
    }
    if (large->waiting_count >= LARGE_QUEUE_MAX) {
        http_refuse(conn, ERR_THROTTLED,
                    "too many large reads are waiting: ask for less or try again later");
        return HTTP_LARGE_REFUSED;
    }
    wait_in_queue(conn);
    return HTTP_LARGE_WAITING;
}

/* Takes the first read out of the queue. Called with the mutex held. */
static struct http_conn *take_first(struct http_large *large, enum http_large_state state)
{
    struct http_conn *conn = list_take(&large->waiting, struct http_conn, request.large.node);

    large->waiting_count--;
    conn->request.large.state = state;
    return conn;
}

void http_large_leave(struct http_conn *conn)
{
    struct http_large *large = &conn->http->large;
    struct http_large_turn *turn = &conn->request.large;
    struct http_conn *next = NULL;

    ASSERT(turn->state != HTTP_LARGE_WAITS);
    if (turn->ends) {
        turn->ends = false;
        atomic_fetch_sub(&conn->http->ending, 1);
    }
    if (turn->state != HTTP_LARGE_RUNS) {
        return;
    }
    turn->state = HTTP_LARGE_NONE;
    pthread_mutex_lock(&large->mutex);
    if (list_empty(&large->waiting)) {
        large->running--;
    } else {
        next = take_first(large, HTTP_LARGE_RUNS);
    }
    pthread_mutex_unlock(&large->mutex);
    if (next) {
        http_resume(next->http, next->mhd);
    }
}

static struct http_conn *take_late(struct http_large *large, uint64_t now_ms)
{
    MUTEX_HOLD(&large->mutex);
    bool late = !list_empty(&large->waiting) &&
                list_first(&large->waiting, struct http_large_turn, node)->end_ms <= now_ms;

    return late ? take_first(large, HTTP_LARGE_LATE) : NULL;
}

void http_large_scan(struct http *http, uint64_t now_ms)
{
    struct http_conn *late = NULL;

    while ((late = take_late(&http->large, now_ms)) != NULL) {
        http_resume(http, late->mhd);
    }
}

/* Takes the waiting reads out of the queue, in order, and resumes each: has_turn() refuses it. */
void http_large_end(struct http *http)
{
    struct http_conn *last = NULL;

    ASSERT(atomic_load(&http->draining)); /* No read can enter the queue any more. */
    while ((last = take_late(&http->large, UINT64_MAX)) != NULL) {
        last->request.large.ends = true;
        atomic_fetch_add(&http->ending, 1);
        http_resume(http, last->mhd);
    }
}

/* Whether a resumed read has its turn. False, with the request refused: the wait has timed out, or
 * this replica is shutting down. */
static bool has_turn(struct http_conn *conn)
{
    struct http_large_turn *turn = &conn->request.large;

    if (turn->state == HTTP_LARGE_RUNS) {
        return true;
    }
    ASSERT(turn->state == HTTP_LARGE_LATE);
    turn->state = HTTP_LARGE_NONE;
    http_refuse(conn, ERR_NOT_READY, atomic_load(&conn->http->draining) ? closing_text : late_text);
    return false;
}

/* ---- A read ---- */

static void read_view(struct http_conn *conn, struct op_result *result)
{
    struct http_request *request = &conn->request;

    op_result_init(result);
    view_run(gate_view(conn->http->gate), &conn->principal, &request->args, result);
    if (result->zxid != 0 && result->zxid < http_least_zxid(request)) {
        op_result_release(result);
        op_result_init(result);
        result->err = ERR_REPLICA_BEHIND;
        result->detail = HTTP_TAKING_OVER;
    }
}

static enum MHD_Result answer(struct http_conn *conn, struct op_result *result)
{
    struct http_request *request = &conn->request;
    bool may_wait = request->wants.wait_ms > 0 && http_answer_is_unchanged(request, result);

    if (may_wait && wait_begin(conn, result)) {
        return MHD_YES;
    }
    return request->refused ? http_answer_fault(conn) : http_answer_result(conn, result);
}

static enum MHD_Result resume(struct http_conn *conn)
{
    if (conn->request.large.state != HTTP_LARGE_NONE) {
        http_slow_turn(conn);
        return has_turn(conn) ? http_read(conn) : http_answer_fault(conn);
    }
    if (((struct http_wait *)conn->request.task.data)->gone) {
        return MHD_NO; /* The client closed the connection while it waited. */
    }
    http_status_renew(conn);
    http_slow_begin(conn); /* The wait itself is not slow. */
    return http_check_local(conn) ? http_read(conn) : http_answer_fault(conn);
}

static void release(struct http_conn *conn)
{
    struct http_wait *wait = conn->request.task.data;

    /* Gives back a turn that was not used, because the connection was closed before the read. */
    http_large_leave(conn);
    if (wait) {
        watcher_client_release(&wait->client);
        mem_free(wait);
    }
}

static const struct http_task_ops read_task = {.resume = resume, .release = release};

enum MHD_Result http_read(struct http_conn *conn)
{
    struct http_request *request = &conn->request;
    enum http_large_entry entry = HTTP_LARGE_ENTERED;
    struct op_result result;
    enum MHD_Result done = MHD_YES;

    request->task.ops = &read_task;
    op_result_init(&result);
    if (request->def->id == OP_TREE || request->def->id == OP_SEARCH) { /* Always large. */
        entry = http_large_enter(conn);
    }
    if (entry == HTTP_LARGE_ENTERED) {
        read_view(conn, &result);
        entry = is_large(request, &result) ? http_large_enter(conn) : entry;
    }
    if (entry == HTTP_LARGE_ENTERED) {
        done = answer(conn, &result);
        http_large_leave(conn);
    } else if (entry == HTTP_LARGE_REFUSED) {
        done = http_answer_fault(conn);
    }
    op_result_release(&result);
    return done; /* When the read waits, another thread may already have resumed the connection. */
}
