/*
 * Clients that do not read their answers. The acceptor checks each connection whose answer is being
 * sent or is still in the kernel. When the client's kernel acknowledges nothing for slowTimeout,
 * the connection is closed. While the budget of unsent bytes is short, the slowest clients are
 * closed earlier, as many as necessary. All of this runs on the acceptor's thread with conns_mutex
 * held.
 *
 * How slow a client is: each answer starts with a credit of bytes. What the client reads adds to
 * it, and time reduces it by HTTP_BYTES_PER_MS. A client that reads a byte now and then is as slow
 * as one that reads nothing.
 *
 */
#include "base/check.h"
#include "base/loop.h"
#include "base/minmax.h"
#include "http/slow_int.h"

enum {
    LOOK_MS = 1000,       /* Between two checks; progress this recent protects a client. */
    LATE_MS = 2 * LOOK_MS /* A longer interval is a stall of this process, not of the client. */
};

/* Whether this is another answer than at the last check. */
static bool is_another(struct http_pace *pace, uint64_t deadline_ms)
{
    return pace->of_ms != deadline_ms;
}

static void begin(struct http_pace *pace, uint64_t deadline_ms, uint64_t now_ms)
{
    pace->of_ms = deadline_ms;
    pace->moved_ms = now_ms;
    pace->seen_ms = now_ms;
    pace->look_ms = now_ms + LOOK_MS;
    pace->credit = HTTP_PACE_CREDIT;
}

int64_t http_pace_credit(int64_t credit, uint64_t taken, uint64_t elapsed_ms)
{
    uint64_t paid_ms = min_u64(elapsed_ms, LATE_MS);
    uint64_t added = min_u64(taken, INT64_MAX / 2);
    int64_t left = credit + (int64_t)added - (int64_t)(paid_ms * HTTP_BYTES_PER_MS);

    ASSERT(credit <= HTTP_PACE_CREDIT);
    return left < HTTP_PACE_CREDIT ? left : HTTP_PACE_CREDIT;
}

/* A client that has read everything is not slow. */
static void rate(struct http_conn *conn, uint64_t taken, uint64_t now_ms)
{
    struct http_pace *pace = &conn->pace;
    int64_t before = pace->credit;

    pace->credit = http_pace_credit(before, taken, now_ms - pace->seen_ms);
    pace->seen_ms = now_ms;
    if (pace->credit < before && loop_is_all_read(conn->fd)) {
        pace->credit = HTTP_PACE_CREDIT;
    }
}

/* An idle connection whose client has read everything need not be checked again. */
static void look(struct http_conn *conn, uint32_t phase, uint64_t now_ms)
{
    struct http_pace *pace = &conn->pace;
    uint64_t acked = pace->acked;
    bool moved = loop_is_read(conn->fd, &pace->acked);

    rate(conn, pace->acked - acked, now_ms);
    pace->look_ms = now_ms + LOOK_MS;
    if (moved) {
        pace->moved_ms = now_ms;
        if (phase == HTTP_IDLE && loop_is_all_read(conn->fd)) {
            pace->look_ms = UINT64_MAX;
        }
    }
}

/* The smaller credit first, then the longer time without progress. */
static bool is_slower(const struct http_pace *a, const struct http_pace *b)
{
    return a->credit != b->credit ? a->credit < b->credit : a->moved_ms < b->moved_ms;
}

/* Sorted with the slowest first; a full list drops the fastest. */
static void note(struct http_slowest *slowest, struct http_conn *conn)
{
    uint32_t at = slowest->count;

    while (at > 0 && is_slower(&conn->pace, &slowest->conns[at - 1]->pace)) {
        at--;
    }
    if (at == HTTP_SLOWEST_MAX) {
        return;
    }
    if (slowest->count < HTTP_SLOWEST_MAX) {
        slowest->count++;
    }
    for (uint32_t i = slowest->count - 1; i > at; i--) {
        slowest->conns[i] = slowest->conns[i - 1];
    }
    slowest->conns[at] = conn;
}

void http_slow_begin(struct http *http, uint64_t now_ms, struct http_slowest *ret_slowest)
{
    const struct budget *budget = gate_unsent(http->gate);
    uint64_t roomy = budget->max - budget->max / 4;
    uint64_t refusals = budget_refusals(budget);

    ret_slowest->level = budget_level(budget);
    ret_slowest->now_ms = now_ms;
    ret_slowest->used = budget_used(budget);
    ret_slowest->excess = ret_slowest->used >= roomy ? ret_slowest->used - roomy + 1 : 0;
    ret_slowest->refused = refusals != http->relief.refusals;
    ret_slowest->going = 0;
    ret_slowest->count = 0;
    http->relief.refusals = refusals;
}

/* The phases in which bytes may be unsent. */
static bool may_have_unsent(uint32_t phase)
{
    return phase == HTTP_SENDING || phase == HTTP_IDLE;
}

static bool has_stalled(const struct http_pace *pace, uint64_t now_ms)
{
    return now_ms - pace->moved_ms >= LOOK_MS;
}

/* While there is room, a client that makes progress is left alone, however slow it is. */
static bool gives_way(const struct http_pace *pace, const struct http_slowest *slowest)
{
    return slowest->level == BUDGET_FULL || has_stalled(pace, slowest->now_ms) ||
           (slowest->refused && pace->credit < 0);
}

bool http_slow_look(struct http_conn *conn, uint32_t phase, uint64_t deadline_ms,
                    struct http_slowest *slowest)
{
    struct http_pace *pace = &conn->pace;
    uint64_t now_ms = slowest->now_ms;
    bool is_short = slowest->level != BUDGET_ROOMY &&
                    atomic_load_explicit(&conn->kept, memory_order_relaxed) > 0;

    slowest->going += is_short && phase == HTTP_EXPIRED ? 1 : 0;
    if (!may_have_unsent(phase) || deadline_ms == 0) {
        return false;
    }
    if (is_another(pace, deadline_ms)) {
        begin(pace, deadline_ms, now_ms);
        return false;
    }
    if (now_ms >= pace->look_ms || (is_short && phase == HTTP_SENDING)) {
        look(conn, phase, now_ms);
    }
    if (now_ms - pace->moved_ms >= conn->http->limits->slow_timeout_ms &&
        pace->look_ms != UINT64_MAX) {
        return true;
    }
    if (is_short && phase == HTTP_SENDING && gives_way(pace, slowest)) {
        note(slowest, conn);
    }
    return false;
}

static uint64_t kept_by(const struct http_conn *conn)
{
    return atomic_load_explicit(&conn->kept, memory_order_relaxed);
}

/* Slow by itself, not only in comparison with others. */
static bool is_slow(const struct http_conn *conn, uint64_t now_ms)
{
    return has_stalled(&conn->pace, now_ms) || conn->pace.credit < 0;
}

/* From what the last closing freed. */
static void set_least(struct http_relief *relief, uint64_t used)
{
    bool enough = used + relief->expected / 2 <= relief->used;

    if (relief->expected == 0 || enough) {
        relief->least = 1;
    } else if (relief->least < HTTP_SLOWEST_MAX) {
        relief->least *= 2;
    }
}

uint32_t http_slow_choose(struct http_relief *relief, const struct http_slowest *slowest)
{
    uint64_t freed = 0;
    uint32_t count = 0;

    if (slowest->excess == 0) {
        relief->expected = 0;
    }
    if (slowest->excess == 0 || slowest->count == 0 || slowest->going > 0) {
        return 0;
    }
    set_least(relief, slowest->used);
    while (count < slowest->count && freed < slowest->excess) {
        freed += kept_by(slowest->conns[count]);
        count++;
    }
    while (count < slowest->count && count < relief->least &&
           is_slow(slowest->conns[count], slowest->now_ms)) {
        freed += kept_by(slowest->conns[count]);
        count++;
    }
    relief->used = slowest->used;
    relief->expected = freed;
    return count;
}
