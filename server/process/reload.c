#include "server/process/reload.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/minmax.h"
#include "base/os_clock.h"

#include <stdio.h>
#include <string.h>

enum {
    SECOND_MS = 1000
};

static const char closed_text[] = "this replica ends, and reads nothing again";

/* A part with its thread. What changes is under reloads->mutex. */
struct reload_worker {
    struct reload_part part;
    struct reloads *reloads;
    struct thread thread;
    uint64_t number;  /* No other part has had it. */
    uint64_t asked;   /* Number of the last run that was asked for, */
    uint64_t done;    /* and of the last one that has ended. */
    uint64_t busy_ms; /* When the look or the run in progress has begun; 0: none is. */
    bool ending;
    bool ended;
    bool good;                /* The result of the last run. */
    char why[RELOAD_WHY_MAX]; /* Its failure; only the thread of the part writes it. */
};

/* ---- The thread of a part. ---- */

/* Runs the part, without the mutex. */
static bool run_part(struct reload_worker *worker, char why[RELOAD_WHY_MAX])
{
    why[0] = '\0';
    return worker->part.run(worker->part.ctx, why);
}

static void begin(struct reload_worker *worker, uint64_t now_ms)
{
    worker->busy_ms = max_u64(now_ms, 1);
    mutex_unlock(&worker->reloads->mutex);
}

static void end(struct reload_worker *worker)
{
    mutex_lock(&worker->reloads->mutex);
    worker->busy_ms = 0;
}

static void run_asked(struct reload_worker *worker, uint64_t now_ms)
{
    char why[RELOAD_WHY_MAX];
    uint64_t asked = worker->asked;

    begin(worker, now_ms);
    bool good = run_part(worker, why);
    end(worker);
    worker->good = good;
    memcpy(worker->why, why, sizeof(why));
    worker->done = asked;
    (void)pthread_cond_broadcast(&worker->reloads->changed);
}

/* Reads files that have changed. An attempt that is repeated logs only what is new: `last` is the
 * failure that was logged last. */
static void look(struct reload_worker *worker, uint64_t now_ms, char last[RELOAD_WHY_MAX])
{
    const struct reload_part *part = &worker->part;
    char why[RELOAD_WHY_MAX];

    begin(worker, now_ms);
    enum os_due due = part->look(part->ctx, now_ms);

    if (due != OS_NOT_DUE && run_part(worker, why)) {
        last[0] = '\0';
    } else if (due == OS_CHANGED || (due == OS_RETRY && strcmp(why, last) != 0)) {
        log_error("server",
                  "changed files of {files}%s: not reloaded: {reason}%s; the old files stay in use",
                  part->name, why);
        memcpy(last, why, sizeof(why));
    }
    end(worker);
}

static void work(void *arg)
{
    struct reload_worker *worker = arg;
    struct reloads *reloads = worker->reloads;
    char last[RELOAD_WHY_MAX] = "";
    uint64_t look_ms = os_now_ms();

    MUTEX_HOLD(&reloads->mutex);
    while (!worker->ending) {
        uint64_t now_ms = os_now_ms();

        if (worker->part.look && now_ms >= look_ms) {
            look_ms = now_ms + RELOAD_LOOK_MS;
            look(worker, now_ms, last);
        } else if (worker->asked > worker->done) {
            run_asked(worker, now_ms);
        } else {
            thread_wait(&reloads->changed, &reloads->mutex,
                        worker->part.look ? look_ms - now_ms : RELOAD_LOOK_MS);
        }
    }
    worker->ended = true;
    (void)pthread_cond_broadcast(&reloads->changed);
}

/* ---- Parts. ---- */

void reloads_add(struct reloads *reloads, struct reload_part part)
{
    struct reload_worker *worker = mem_zalloc(1, sizeof(*worker));
    uint32_t place = 0;

    MUTEX_HOLD(&reloads->mutex);
    while (place < RELOAD_PARTS_MAX && reloads->workers[place]) {
        place++;
    }
    ASSERT(place < RELOAD_PARTS_MAX);
    worker->part = part;
    worker->reloads = reloads;
    worker->number = reloads->next_number++;
    reloads->workers[place] = worker;
    thread_start(&worker->thread, "zabra-files", work, worker);
}

/* Removes the part in this place; true: its thread has ended. Under the mutex. */
static bool remove_at(struct reloads *reloads, uint32_t place, uint64_t end_ms)
{
    struct reload_worker *worker = reloads->workers[place];
    uint64_t now_ms = os_now_ms();

    worker->ending = true;
    (void)pthread_cond_broadcast(&reloads->changed);
    while (!worker->ended && now_ms < end_ms) {
        thread_wait(&reloads->changed, &reloads->mutex, end_ms - now_ms);
        now_ms = os_now_ms();
    }
    reloads->workers[place] = NULL;
    (void)pthread_cond_broadcast(&reloads->changed);
    if (!worker->ended) {
        log_warn("server", "{files}%s: a file system does not answer; the end does not wait for it",
                 worker->part.name);
        ASSERT(reloads->lost_count < RELOAD_PARTS_MAX);
        reloads->lost[reloads->lost_count++] = worker;
        return false;
    }
    /* The thread has nothing left to do but to release the mutex. */
    mutex_unlock(&reloads->mutex);
    thread_join(&worker->thread);
    mutex_lock(&reloads->mutex);
    mem_free(worker);
    return true;
}

bool reloads_remove(struct reloads *reloads, const char *name, uint32_t wait_ms)
{
    MUTEX_HOLD(&reloads->mutex);
    for (uint32_t i = 0; i < RELOAD_PARTS_MAX; i++) {
        if (reloads->workers[i] && strcmp(reloads->workers[i]->part.name, name) == 0) {
            return remove_at(reloads, i, os_now_ms() + wait_ms);
        }
    }
    return true;
}

bool reloads_has_lost(struct reloads *reloads)
{
    MUTEX_HOLD(&reloads->mutex);
    return reloads->lost_count > 0;
}

static bool is_stuck(const struct reloads *reloads, const struct reload_worker *worker,
                     uint64_t now_ms)
{
    return worker->busy_ms > 0 && now_ms >= worker->busy_ms + reloads->wait_ms;
}

uint32_t reloads_stuck(struct reloads *reloads)
{
    uint64_t now_ms = os_now_ms();
    uint32_t count = 0;

    MUTEX_HOLD(&reloads->mutex);
    for (uint32_t i = 0; i < RELOAD_PARTS_MAX; i++) {
        const struct reload_worker *worker = reloads->workers[i];

        count += worker && is_stuck(reloads, worker, now_ms) ? 1 : 0;
    }
    return count;
}

/* ---- One request. ---- */

/* What a request waits for. */
struct ticket {
    uint64_t number; /* Of the part. */
    uint64_t asked;  /* Of its run; 0: there is none. */
    uint64_t end_ms;
};

static void ask_parts(struct reloads *reloads, struct ticket tickets[RELOAD_PARTS_MAX])
{
    uint64_t now_ms = os_now_ms();

    for (uint32_t i = 0; i < RELOAD_PARTS_MAX; i++) {
        struct reload_worker *worker = reloads->workers[i];

        tickets[i] = (struct ticket){.asked = 0};
        if (worker && !worker->ending) {
            tickets[i] = (struct ticket){
                .number = worker->number,
                .asked = ++worker->asked,
                .end_ms = now_ms + (is_stuck(reloads, worker, now_ms) ? 0 : reloads->wait_ms)};
        }
    }
    (void)pthread_cond_broadcast(&reloads->changed);
}

static void note_failure(struct reload *reload, const char *name, const char *why)
{
    size_t len = strlen(reload->failure);

    (void)snprintf(reload->failure + len, sizeof(reload->failure) - len,
                   "%s%s: %s; the old files stay in use", len > 0 ? "; " : "", name, why);
}

/* Waits for the part in this place, and takes its result. False: the replica ends. */
static bool take_result(struct reloads *reloads, uint32_t place, const struct ticket *ticket,
                        struct reload *reload)
{
    const struct reload_worker *worker = reloads->workers[place];
    uint64_t now_ms = os_now_ms();

    while (worker && worker->number == ticket->number && worker->done < ticket->asked &&
           now_ms < ticket->end_ms && !mailbox_is_closed(&reloads->inbox)) {
        thread_wait(&reloads->changed, &reloads->mutex, ticket->end_ms - now_ms);
        worker = reloads->workers[place];
        now_ms = os_now_ms();
    }
    if (!worker || worker->number != ticket->number) {
        return true; /* It was removed. */
    }
    if (worker->done >= ticket->asked && worker->good) {
        reload->names[reload->count++] = worker->part.name;
        return true;
    }
    if (worker->done < ticket->asked && mailbox_is_closed(&reloads->inbox)) {
        return false;
    }
    reload->err = ERR_CONFIG;
    if (worker->done >= ticket->asked) {
        note_failure(reload, worker->part.name, worker->why);
    } else {
        char why[RELOAD_WHY_MAX];

        (void)snprintf(why, sizeof(why),
                       "not read within %u s: check that the file system of its files answers; "
                       "they are read as soon as it does",
                       (unsigned)(reloads->wait_ms / SECOND_MS));
        note_failure(reload, worker->part.name, why);
    }
    return true;
}

static void run_parts(struct reloads *reloads, struct reload *reload)
{
    struct ticket tickets[RELOAD_PARTS_MAX];
    bool open = !mailbox_is_closed(&reloads->inbox);

    MUTEX_HOLD(&reloads->mutex);
    if (open) {
        ask_parts(reloads, tickets);
    }
    for (uint32_t i = 0; i < RELOAD_PARTS_MAX && open; i++) {
        open = tickets[i].asked == 0 || take_result(reloads, i, &tickets[i], reload);
    }
    if (!open) {
        reload->err = ERR_CLOSED;
        (void)snprintf(reload->failure, sizeof(reload->failure), "%s", closed_text);
    }
}

static void join_names(const struct reload *reload, char text[RELOAD_NAMES_MAX])
{
    size_t len = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < reload->count; i++) {
        len += (size_t)snprintf(text + len, RELOAD_NAMES_MAX - len, "%s%s", i > 0 ? ", " : "",
                                reload->names[i]);
        ASSERT(len < RELOAD_NAMES_MAX);
    }
}

static void tell(const struct reload *reload)
{
    char names[RELOAD_NAMES_MAX];

    join_names(reload, names);
    if (reload->count > 0) {
        log_info("server", "{origin}%s: reloaded: {files}%s", reload->by, names);
    }
    if (reload->err) {
        log_error("server", "{origin}%s: not reloaded: {reason}%s", reload->by, reload->failure);
    } else if (reload->count == 0) {
        log_warn("server",
                 "{origin}%s: nothing is reloaded; the replica continues unchanged. Restart it to "
                 "change its configuration; send SIGTERM to end it",
                 reload->by);
    }
}

static void finish(struct reload *reload)
{
    if (reload->on_done) {
        reload->on_done(reload);
    } else {
        mem_free(reload);
    }
}

/* ---- The thread of the requests. ---- */

static void take_requests(struct reloads *reloads)
{
    struct list asked;

    (void)mailbox_drain(&reloads->inbox, &asked);
    list_take_each (struct reload, reload, node, &asked) {
        run_parts(reloads, reload);
        tell(reload);
        finish(reload);
    }
}

static void run(void *arg)
{
    struct reloads *reloads = arg;

    while (!mailbox_is_closed(&reloads->inbox)) {
        (void)mailbox_wait(&reloads->inbox, -1);
        take_requests(reloads);
    }
    take_requests(reloads); /* Those that came before the end. */
}

void reloads_init(struct reloads *reloads)
{
    *reloads = (struct reloads){.wait_ms = RELOAD_WAIT_MS};
    mutex_init(&reloads->mutex);
    ASSERT(pthread_cond_init(&reloads->changed, NULL) == 0);
    mailbox_init(&reloads->inbox, RELOAD_WAITING_MAX);
}

void reloads_start(struct reloads *reloads)
{
    reloads->has_thread = true;
    thread_start(&reloads->thread, "zabra-reload", run, reloads);
}

void reloads_close(struct reloads *reloads)
{
    MUTEX_HOLD(&reloads->mutex);
    mailbox_close(&reloads->inbox);
    (void)pthread_cond_broadcast(&reloads->changed);
}

void reloads_stop(struct reloads *reloads, uint32_t wait_ms)
{
    uint64_t end_ms = os_now_ms() + wait_ms;

    reloads_close(reloads);
    if (reloads->has_thread) {
        thread_join(&reloads->thread);
        reloads->has_thread = false;
    }
    take_requests(reloads);
    MUTEX_HOLD(&reloads->mutex);
    for (uint32_t i = 0; i < RELOAD_PARTS_MAX; i++) {
        if (reloads->workers[i]) {
            reloads->workers[i]->ending = true;
        }
    }
    for (uint32_t i = 0; i < RELOAD_PARTS_MAX; i++) {
        if (reloads->workers[i]) {
            (void)remove_at(reloads, i, end_ms);
        }
    }
}

void reloads_release(struct reloads *reloads)
{
    for (uint32_t i = 0; i < reloads->lost_count; i++) {
        thread_join(&reloads->lost[i]->thread);
        mem_free(reloads->lost[i]);
    }
    mailbox_release(&reloads->inbox);
    ASSERT(pthread_cond_destroy(&reloads->changed) == 0);
    mutex_destroy(&reloads->mutex);
}

enum err reloads_ask(struct reloads *reloads, struct reload *take_reload)
{
    enum err err = mailbox_post(&reloads->inbox, &take_reload->node);

    return err == ERR_FULL ? ERR_THROTTLED : err;
}

void reload_write(const struct reload *reload, struct jsonw *json)
{
    jsonw_object(json);
    jsonw_kv_array(json, "reloaded");
    for (uint32_t i = 0; i < reload->count; i++) {
        jsonw_cstr(json, reload->names[i]);
    }
    jsonw_array_end(json);
    jsonw_object_end(json);
}
