/*
 * watch_kit.h - what tests of watches share: changes in few words, and owners that write down what
 * they are told, one line for each event: "<owner> <type> <path> [<ids>]", with " end" for the last
 * one of its zxid, " diff" for one of a difference and " ='<data>'" when it carries data.
 */
#ifndef TESTS_UNIT_WATCH_KIT_H
#define TESTS_UNIT_WATCH_KIT_H

#include "base/buf.h"
#include "base/check.h"
#include "base/mem.h"
#include "server/watch.h"

enum {
    KIT_CHANGES_MAX = 8,
    KIT_LOG_MAX = 1 << 20,
    KIT_WATCHES_MAX = 100000,
    KIT_PATHS_MAX = 1 << 24
};

struct kit_owner {
    struct watch_owner owner;
    struct op_principal who;
    char name;
    bool holds; /* Takes no more: holds each watch that it is told of. */
};

static const struct op_principal kit_nobody = {.address = "127.0.0.1"};

static inline void kit_owner_init(struct kit_owner *owner, char name)
{
    *owner = (struct kit_owner){.name = name, .who = kit_nobody};
    watch_owner_init(&owner->owner, &owner->who, KIT_WATCHES_MAX, KIT_PATHS_MAX);
}

/* The function for a table or a subscriber; `ctx` is the log. */
static inline void kit_on_event(void *ctx, struct watch_owner *owner, struct watch *hits,
                                const struct watch_event *event)
{
    struct kit_owner *mine = list_entry(owner, struct kit_owner, owner);
    struct buf *log = ctx;

    if (mine->holds) {
        for (struct watch *hit = hits; hit != NULL; hit = hit->hit_next) {
            watch_hold(hit);
        }
        return;
    }
    buf_printf(log, "%c %s ", mine->name, watch_event_name(event->type));
    buf_append_slice(log, event->path);
    buf_append_str(log, " [");
    for (const struct watch *hit = hits; hit != NULL; hit = hit->hit_next) {
        buf_printf(log, hit == hits ? "%u" : ",%u", hit->id);
    }
    buf_append_byte(log, ']');
    if (event->change != NULL && event->change->data != NULL) {
        buf_append_str(log, " ='");
        buf_append_slice(log, blob_slice(event->change->data));
        buf_append_byte(log, '\'');
    }
    buf_append_str(log, event->diff ? " diff" : "");
    buf_append_str(log, event->last ? " end\n" : "\n");
    ASSERT(!log->overflow);
}

/* What was logged since the last call. */
static inline const char *kit_take(struct buf *log)
{
    static char text[1 << 16];
    const char *now = buf_cstr(log);

    ASSERT(log->len < sizeof(text));
    memcpy(text, now, log->len + 1);
    buf_clear(log);
    return text;
}

static inline struct state_change kit_change(const char *word)
{
    enum txn_effect_type type = word[0] == '+'   ? TXN_CREATE
                                : word[0] == '-' ? TXN_DELETE
                                : word[0] == '=' ? TXN_SET
                                                 : TXN_SET_ACL;

    return (struct state_change){.type = type, .path = slice_str(word + 1)};
}

/* "+/a": created; "-/a": deleted; "=/a": set; "!/a": its ACL was set. Up to NULL. The words must
 * outlive the set. */
static inline struct change_set *kit_set_of(zxid_t zxid, const char *const *words)
{
    struct state_change items[KIT_CHANGES_MAX];
    struct state_changes changes = {.items = items};

    for (; words[changes.count] != NULL; changes.count++) {
        ASSERT(changes.count < KIT_CHANGES_MAX);
        items[changes.count] = kit_change(words[changes.count]);
    }
    return change_set_new(zxid, NULL, &changes);
}

#define KIT_SET(zxid, ...) kit_set_of((zxid), (const char *const[]){__VA_ARGS__, NULL})

#endif
