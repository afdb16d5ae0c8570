#include "server/sessions/heard.h"

#include "base/check.h"
#include "base/mem.h"

#include <pthread.h>

enum {
    CAP_MIN = 64,
    SLOTS_PER_ENTRY = 2, /* Half of the slots stay free. */
    SWEEP_MS = 10000     /* A full table is swept no more often. */
};

struct heard {
    pthread_mutex_t mutex; /* Guards all else. */
    size_t sessions_max;
    struct heard_entry *slots; /* A hash table by session, 0: free; a power of two. */
    size_t slot_count;
    size_t count;
    uint64_t swept_ms; /* Last sweep. */
    bool all;
};

struct heard *heard_new(size_t sessions_max)
{
    struct heard *heard = mem_zalloc(1, sizeof(*heard));
    int failed = pthread_mutex_init(&heard->mutex, NULL);

    ASSERT(failed == 0 && sessions_max > 0);
    heard->sessions_max = sessions_max;
    return heard;
}

void heard_free(struct heard *heard)
{
    if (heard == NULL) {
        return;
    }
    (void)pthread_mutex_destroy(&heard->mutex);
    mem_free(heard->slots);
    mem_free(heard);
}

/* The slot of the session, or the free one where it belongs. */
static struct heard_entry *find(const struct heard *heard, uint64_t session)
{
    size_t mask = heard->slot_count - 1;
    /* Ids are zxids: they count up, so a multiplication spreads them. */
    size_t at = (size_t)((session * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & mask;

    while (heard->slots[at].session != 0 && heard->slots[at].session != session) {
        at = (at + 1) & mask;
    }
    return &heard->slots[at];
}

static bool is_stale(const struct heard_entry *entry, uint64_t now_ms)
{
    return entry->at_ms + HEARD_KEEP_MS < now_ms;
}

/* Drops stale entries, and sizes the table for the rest. */
static void make_room(struct heard *heard, uint64_t now_ms)
{
    struct heard old = *heard;
    size_t kept = 0;

    heard->swept_ms = now_ms;

    for (size_t i = 0; i < old.slot_count; i++) {
        kept += old.slots[i].session != 0 && !is_stale(&old.slots[i], now_ms);
    }
    heard->slot_count = (size_t)CAP_MIN * SLOTS_PER_ENTRY;
    while (heard->slot_count < (kept + 1) * SLOTS_PER_ENTRY * 2) {
        heard->slot_count *= 2;
    }
    heard->slots = mem_zalloc(heard->slot_count, sizeof(*heard->slots));
    heard->count = kept;
    for (size_t i = 0; i < old.slot_count; i++) {
        if (old.slots[i].session != 0 && !is_stale(&old.slots[i], now_ms)) {
            *find(heard, old.slots[i].session) = old.slots[i];
        }
    }
    mem_free(old.slots);
}

static bool is_full(const struct heard *heard)
{
    return heard->count == heard->sessions_max;
}

static void note(struct heard *heard, const struct heard_entry *entry)
{
    bool sweep = is_full(heard) && entry->at_ms - heard->swept_ms >= SWEEP_MS;
    struct heard_entry *slot = NULL;

    if (sweep || (heard->count + 1) * SLOTS_PER_ENTRY > heard->slot_count) {
        make_room(heard, entry->at_ms);
    }
    slot = find(heard, entry->session);
    if (slot->session == 0) {
        if (is_full(heard)) {
            return;
        }
        heard->count++;
    }
    *slot = *entry;
}

void heard_note(struct heard *heard, const uint64_t *sessions, size_t count, uint32_t member,
                uint64_t now_ms)
{
    (void)pthread_mutex_lock(&heard->mutex);
    for (size_t i = 0; i < count; i++) {
        note(heard,
             &(struct heard_entry){.session = sessions[i], .at_ms = now_ms, .member = member});
    }
    (void)pthread_mutex_unlock(&heard->mutex);
}

void heard_set_all(struct heard *heard, bool all)
{
    (void)pthread_mutex_lock(&heard->mutex);
    heard->all = all;
    (void)pthread_mutex_unlock(&heard->mutex);
}

bool heard_find(struct heard *heard, uint64_t session, struct heard_entry *ret_entry)
{
    (void)pthread_mutex_lock(&heard->mutex);
    if (heard->slot_count > 0) {
        *ret_entry = *find(heard, session);
    } else {
        *ret_entry = (struct heard_entry){0};
    }
    (void)pthread_mutex_unlock(&heard->mutex);
    return ret_entry->session != 0;
}

bool heard_all(struct heard *heard)
{
    (void)pthread_mutex_lock(&heard->mutex);
    bool all = heard->all;

    (void)pthread_mutex_unlock(&heard->mutex);
    return all;
}
