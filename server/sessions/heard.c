#include "server/sessions/heard.h"

#include "base/check.h"
#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/thread.h"

enum {
    DROPS_MAX = 2 /* Each new entry drops up to 2 stale ones, so that the table can shrink. */
};

struct contact {
    struct heard_entry shown;
    struct list order; /* Entry in heard.order. */
};

struct heard {
    pthread_mutex_t mutex; /* Guards all other members. */
    size_t sessions_max;
    struct map contacts; /* Contacts by session. */
    struct list order;   /* All contacts, the oldest first. */
    bool all;
};

struct heard *heard_new(size_t sessions_max)
{
    struct heard *heard = mem_zalloc(1, sizeof(*heard));

    ASSERT(sessions_max > 0);
    mutex_init(&heard->mutex);
    heard->sessions_max = sessions_max;
    map_init(&heard->contacts);
    list_init(&heard->order);
    return heard;
}

void heard_free(struct heard *heard)
{
    if (heard == NULL) {
        return;
    }
    mutex_destroy(&heard->mutex);
    map_free_values(&heard->contacts);
    mem_free(heard);
}

static void drop_stale(struct heard *heard, uint64_t now_ms)
{
    for (int i = 0; i < DROPS_MAX && !list_empty(&heard->order); i++) {
        struct contact *oldest = list_first(&heard->order, struct contact, order);

        if (oldest->shown.at_ms + HEARD_KEEP_MS >= now_ms) {
            break;
        }
        (void)map_remove_u64(&heard->contacts, oldest->shown.session);
        list_remove(&oldest->order);
        mem_free(oldest);
    }
}

static void note(struct heard *heard, const struct heard_entry *entry)
{
    struct contact *contact = map_get_u64(&heard->contacts, entry->session);

    if (contact == NULL) {
        drop_stale(heard, entry->at_ms);
        if (map_count(&heard->contacts) == heard->sessions_max) {
            return;
        }
        contact = mem_alloc(sizeof(*contact));
        list_init(&contact->order);
        (void)map_put_u64(&heard->contacts, entry->session, contact);
    }
    contact->shown = *entry;
    list_remove(&contact->order);
    list_push_back(&heard->order, &contact->order);
}

void heard_note(struct heard *heard, const uint64_t *sessions, size_t count, uint32_t member,
                uint64_t now_ms)
{
    MUTEX_HOLD(&heard->mutex);
    for (size_t i = 0; i < count; i++) {
        note(heard,
             &(struct heard_entry){.session = sessions[i], .at_ms = now_ms, .member = member});
    }
}

void heard_set_all(struct heard *heard, bool all)
{
    MUTEX_HOLD(&heard->mutex);
    heard->all = all;
}

bool heard_find(struct heard *heard, uint64_t session, struct heard_entry *ret_entry)
{
    MUTEX_HOLD(&heard->mutex);
    const struct contact *contact = map_get_u64(&heard->contacts, session);

    *ret_entry = contact != NULL ? contact->shown : (struct heard_entry){0};
    return ret_entry->session != 0;
}

bool heard_all(struct heard *heard)
{
    MUTEX_HOLD(&heard->mutex);
    return heard->all;
}
