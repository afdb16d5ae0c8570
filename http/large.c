/*
 * Large reads: at most httpThreads - 1 of them, and at least one, run at a time, so that a thread
 * is left for small requests. The others are suspended and run in FIFO order. A tree or a search is
 * always large; any other read is large when its result is, and is then read again in its turn.
 *
 */
#include "base/check.h"
#include "base/os_clock.h"
#include "http/http_int.h"

enum {
    LARGE_BYTES = 64 << 10,    /* Encoding an answer of this size takes about a millisecond. */
    LARGE_ENTRY_BYTES = 200,   /* Size of an entry, or of a part of a multi, without its data. */
    LARGE_WAITING_MAX = 10000, /* Further ones are refused. */
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

bool http_large_before(const struct http_request *request)
{
    enum op_id op = request->def->id;

    return op == OP_TREE || op == OP_SEARCH;
}

static uint64_t bytes_of(const struct op_result *result)
{
    uint64_t bytes = (uint64_t)result->entry_count * LARGE_ENTRY_BYTES;

    for (uint32_t i = 0; i < result->entry_count; i++) {
        bytes += result->entries[i].data ? result->entries[i].data->len : 0;
    }
    return bytes + (result->data ? result->data->len : 0);
}

bool http_large_behind(const struct http_request *request, const struct op_result *result)
{
    uint64_t bytes = (uint64_t)result->result_count * LARGE_ENTRY_BYTES;

    if (request->wants.media == HTTP_MEDIA_RAW && result->result_count == 0) {
        return false; /* It is sent without encoding. */
    }
    for (uint32_t i = 0; i < result->result_count; i++) {
        bytes += bytes_of(&result->results[i]);
    }
    return bytes + bytes_of(result) > LARGE_BYTES;
}

uint32_t http_large_waiting(struct http_large *large)
{
    pthread_mutex_lock(&large->mutex);

    uint32_t waiting = large->waiting_count;

    pthread_mutex_unlock(&large->mutex);
    return waiting;
}

/* A read waits as long as a request at the gate may. */
static void wait_in_queue(struct http_conn *conn)
{
    struct http *http = conn->http;
    struct http_large *large = &http->large;
    struct http_large_turn *turn = &conn->request.large;

    turn->state = HTTP_LARGE_WAITS;
    turn->end_ms = os_now_ms() + http->limits->request_timeout_ms;
    list_push_back(&large->waiting, &turn->node);
    large->waiting_count++;
    http_suspend(conn); /* With the mutex held, so before any thread can resume it. */
}

static void refuse_entry(struct http_conn *conn)
{
    if (atomic_load(&conn->http->draining)) {
        http_refuse(conn, ERR_NOT_READY, closing_text);
    } else {
        http_refuse(conn, ERR_THROTTLED,
                    "too many large reads are waiting: ask for less or try again later");
    }
}

enum http_large_entry http_large_enter(struct http_conn *conn)
{
    struct http_large *large = &conn->http->large;
    enum http_large_entry entry = HTTP_LARGE_WAITING;

    if (conn->request.large.state == HTTP_LARGE_RUNS) {
        return HTTP_LARGE_ENTERED;
    }
    pthread_mutex_lock(&large->mutex);
    if (large->running < large->running_max) {
        large->running++;
        conn->request.large.state = HTTP_LARGE_RUNS;
        entry = HTTP_LARGE_ENTERED;
    } else if (large->waiting_count >= LARGE_WAITING_MAX ||
               atomic_load(&conn->http->draining)) { /* No thread would end its wait. */
        entry = HTTP_LARGE_REFUSED;
    } else {
        wait_in_queue(conn);
    }
    pthread_mutex_unlock(&large->mutex);
    if (entry == HTTP_LARGE_REFUSED) {
        refuse_entry(conn);
    }
    return entry;
}

/* With the mutex held. */
static struct http_conn *take_first(struct http_large *large, enum http_large_state state)
{
    struct http_conn *conn = list_first(&large->waiting, struct http_conn, request.large.node);

    list_remove(&conn->request.large.node);
    large->waiting_count--;
    conn->request.large.state = state;
    return conn;
}

static void resume(struct http_conn *conn)
{
    http_resume(conn->http, conn->mhd);
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
        resume(next);
    }
}

static struct http_conn *take_late(struct http_large *large, uint64_t now_ms)
{
    struct http_conn *late = NULL;

    pthread_mutex_lock(&large->mutex);
    if (!list_empty(&large->waiting) &&
        list_first(&large->waiting, struct http_large_turn, node)->end_ms <= now_ms) {
        late = take_first(large, HTTP_LARGE_LATE);
    }
    pthread_mutex_unlock(&large->mutex);
    return late;
}

void http_large_scan(struct http *http, uint64_t now_ms)
{
    struct http_conn *late = NULL;

    while ((late = take_late(&http->large, now_ms)) != NULL) {
        resume(late);
    }
}

/* In FIFO order; each is resumed before the next one is taken. */
void http_large_end(struct http *http)
{
    struct http_large *large = &http->large;
    struct http_conn *last = NULL;

    ASSERT(atomic_load(&http->draining)); /* No read can enter the queue any more. */
    do {
        pthread_mutex_lock(&large->mutex);
        last = list_empty(&large->waiting) ? NULL : take_first(large, HTTP_LARGE_LATE);
        pthread_mutex_unlock(&large->mutex);
        if (last) {
            last->request.large.ends = true;
            atomic_fetch_add(&http->ending, 1);
            resume(last);
        }
    } while (last);
}

bool http_large_has_turn(struct http_conn *conn)
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
