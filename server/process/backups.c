#include "server/process/backups.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/os_clock.h"

enum {
    NICE = 10,           /* Clients go first where processors are short. */
    PAUSE_MS = 100,      /* Longest wait before the end of the process is noticed. */
    PACE_SLICE_MS = 20,  /* Shorter waits for the pace are saved up. */
    PACE_LAG_MS = 100,   /* A backup that was held up catches up with so much at most. */
    PACE_WAIT_MS = 5000, /* Longest wait for the pace, after a large record. */
    PIECE_MAX = 64 << 20 /* A piece is a part RECORDS with one record, at most. */
};

struct backups_run {
    struct backups *backups;
    struct backup_source *source; /* The thread's. */
    void (*wake)(void *ctx);
    void *ctx;
    struct buf queue; /* Guarded, as all that follows, by backups->mutex. */
    size_t taken;     /* Bytes of `queue` that were taken. */
    bool parked;      /* The front end waits for `wake`. */
    bool has_head;
    bool done;
    bool left; /* The front end has left. */
    enum err err;
    const char *why;
    struct backup_head head;
};

void backups_init(struct backups *backups)
{
    *backups = (struct backups){.closed = true};
    mutex_init(&backups->mutex);
    ASSERT(pthread_cond_init(&backups->changed, NULL) == 0);
}

void backups_release(struct backups *backups)
{
    ASSERT(!backups->run && !backups->next);
    ASSERT(pthread_cond_destroy(&backups->changed) == 0);
    mutex_destroy(&backups->mutex);
}

static size_t queued(const struct backups_run *run)
{
    return run->queue.len - run->taken;
}

static void run_free(struct backups_run *run)
{
    backup_source_free(run->source);
    buf_release(&run->queue);
    mem_free(run);
}

/* ---- The thread. ---- */

/* Waits until there is room, and the pace allows more. False: the run is to end. */
static bool wait_for_room(struct backups *backups, const struct backups_run *run, uint64_t due_ms)
{
    MUTEX_HOLD(&backups->mutex);
    while (!backups->closed && !run->left) {
        uint64_t now_ms = os_now_ms();
        uint64_t early_ms = due_ms > now_ms ? due_ms - now_ms : 0;

        if (queued(run) < BACKUPS_QUEUE && early_ms < PACE_SLICE_MS) {
            return true;
        }
        thread_wait(&backups->changed, &backups->mutex,
                    early_ms > 0 ? min_u64(early_ms, PAUSE_MS) : PAUSE_MS);
    }
    return false;
}

/* Gives a piece, an error or the end to the front end. The wake comes with the mutex held, so that
 * none comes after backups_leave. */
static void give(struct backups *backups, struct backups_run *run, const struct buf *piece,
                 enum err err, const char *why)
{
    MUTEX_HOLD(&backups->mutex);
    buf_consume(&run->queue, run->taken);
    run->taken = 0;
    (void)buf_append_slice(&run->queue, buf_slice(piece));
    if (piece->len > 0 && !run->has_head) {
        run->has_head = true;
        run->head = *backup_source_head(run->source);
    }
    run->err = err;
    run->why = why;
    run->done = err == ERR_OK && backup_source_is_done(run->source);
    bool is_news = queued(run) > 0 || run->done || err != ERR_OK;

    if (run->parked && !run->left && is_news) {
        run->parked = false;
        run->wake(run->ctx);
    }
}

static void fail_closed(struct backups *backups, struct backups_run *run)
{
    static const struct buf none;

    give(backups, run, &none, ERR_NOT_READY,
         "this replica is shutting down: take the backup from another replica");
}

void backups_pace_begin(struct backups_pace *pace, uint64_t bytes_per_s, uint64_t now_ms)
{
    *pace = (struct backups_pace){.bytes_per_s = bytes_per_s, .start_ms = now_ms};
}

uint64_t backups_pace_due(struct backups_pace *pace, uint64_t now_ms)
{
    uint64_t due_ms = pace->start_ms + pace->bytes * 1000 / pace->bytes_per_s;

    if (now_ms > due_ms + PACE_LAG_MS) {
        uint64_t late_ms = now_ms - due_ms - PACE_LAG_MS;

        pace->start_ms += late_ms;
        due_ms += late_ms;
    }
    return min_u64(due_ms, now_ms + PACE_WAIT_MS);
}

static void make(struct backups *backups, struct backups_run *run)
{
    struct backups_pace pace;
    enum err err = ERR_OK;
    struct buf piece;

    buf_init(&piece, PIECE_MAX);
    backups_pace_begin(&pace, backups->bytes_per_s, os_now_ms());
    while (err == ERR_OK && !backup_source_is_done(run->source)) {
        uint64_t due_ms = backups_pace_due(&pace, os_now_ms());
        const char *why = NULL;
        size_t read = 0;

        if (!wait_for_room(backups, run, due_ms)) {
            fail_closed(backups, run);
            break;
        }
        err = backup_source_next(run->source, &piece, &read, &why);
        pace.bytes += read;
        give(backups, run, &piece, err, why);
    }
    buf_release(&piece);
}

/* Waits until the front end has left; the log is not kept for it meanwhile. */
static void end_run(struct backups *backups, struct backups_run *run)
{
    backup_source_free(run->source);
    run->source = NULL;
    MUTEX_HOLD(&backups->mutex);
    while (!run->left) {
        thread_wait(&backups->changed, &backups->mutex, PAUSE_MS);
    }
    if (run->done && queued(run) == 0) {
        backups->last = (struct backups_last){.ended_ms = os_wall_ms(), .zxid = run->head.end};
    }
    backups->run = NULL;
}

static struct backups_run *wait_for_run(struct backups *backups)
{
    MUTEX_HOLD(&backups->mutex);
    while (!backups->closed && !backups->next) {
        thread_wait(&backups->changed, &backups->mutex, 1000);
    }
    backups->run = backups->next;
    backups->next = NULL;
    return backups->run;
}

static void body(void *arg)
{
    struct backups *backups = arg;
    struct backups_run *run;

    thread_step_back(NICE);
    while ((run = wait_for_run(backups)) != NULL) {
        make(backups, run);
        end_run(backups, run);
        run_free(run);
    }
}

void backups_start(struct backups *backups, const struct backup_host *host, uint64_t bytes_per_s)
{
    backups->host = *host;
    backups->bytes_per_s = bytes_per_s;
    backups->closed = false;
    backups->has_thread = true;
    thread_start(&backups->thread, "zabra-backup", body, backups);
}

void backups_close(struct backups *backups)
{
    MUTEX_HOLD(&backups->mutex);
    backups->closed = true;
    (void)pthread_cond_broadcast(&backups->changed);
}

void backups_stop(struct backups *backups)
{
    backups_close(backups);
    if (backups->has_thread) {
        thread_join(&backups->thread);
        backups->has_thread = false;
    }
}

void backups_last(struct backups *backups, struct backups_last *ret_last)
{
    MUTEX_HOLD(&backups->mutex);
    *ret_last = backups->last;
}

/* ---- Front ends. ---- */

/* Whether the client may know already that the run is over: it may ask for the next one. */
static bool is_over(const struct backups_run *run)
{
    return run->left || run->err != ERR_OK || (run->done && queued(run) == 0);
}

enum err backups_begin(struct backups *backups, const struct backup_ask *ask,
                       void (*wake)(void *ctx), void *ctx, struct backups_run **ret_run)
{
    MUTEX_HOLD(&backups->mutex);
    if (backups->closed) {
        return ERR_CLOSED;
    }
    if (backups->next || (backups->run && !is_over(backups->run))) {
        return ERR_THROTTLED;
    }
    struct backups_run *run = mem_zalloc(1, sizeof *run);

    run->backups = backups;
    run->source = backup_source_new(&backups->host, ask);
    run->wake = wake;
    run->ctx = ctx;
    buf_init(&run->queue, (size_t)BACKUPS_QUEUE + PIECE_MAX);
    backups->next = run;
    *ret_run = run;
    (void)pthread_cond_broadcast(&backups->changed);
    return ERR_OK;
}

static enum backups_state state_of(const struct backups_run *run)
{
    if (run->err != ERR_OK) {
        return BACKUPS_FAILED;
    }
    if (queued(run) > 0) {
        return BACKUPS_BYTES;
    }
    return run->done ? BACKUPS_END : BACKUPS_WAIT;
}

enum backups_state backups_look(struct backups_run *run)
{
    MUTEX_HOLD(&run->backups->mutex);
    enum backups_state state = state_of(run);

    run->parked = state == BACKUPS_WAIT;
    return state;
}

enum backups_state backups_take(struct backups_run *run, void *to, size_t max, size_t *ret_len)
{
    MUTEX_HOLD(&run->backups->mutex);
    enum backups_state state = state_of(run);
    size_t len = state == BACKUPS_BYTES ? min_size(queued(run), max) : 0;

    if (len > 0) {
        memcpy(to, run->queue.data + run->taken, len);
        run->taken += len;
        (void)pthread_cond_broadcast(&run->backups->changed);
    }
    *ret_len = len;
    return state;
}

enum err backups_error(const struct backups_run *run, const char **ret_why)
{
    MUTEX_HOLD(&run->backups->mutex);
    *ret_why = run->why;
    return run->err;
}

const struct backup_head *backups_head(const struct backups_run *run)
{
    return &run->head;
}

void backups_leave(struct backups_run *take_run)
{
    MUTEX_HOLD(&take_run->backups->mutex);
    take_run->left = true;
    take_run->parked = false;
    (void)pthread_cond_broadcast(&take_run->backups->changed);
}
