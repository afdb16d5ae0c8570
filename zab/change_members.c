/*
 * Changes of the members that a client asks for. A new member observes at first, so that neither a
 * wrong address nor an empty disk raises the number of votes that a quorum needs.
 */
#include "zab/change_int.h"
#include "zab/level.h"

#include <strings.h>

void change_texts_of(const struct zab *zab, const struct change_draft *draft, uint32_t id,
                     struct zab_texts *ret_texts)
{
    for (uint32_t i = 0; i < draft->edit_count; i++) {
        if (draft->edits[i].id == id) {
            *ret_texts = draft->edits[i].texts;
            return;
        }
    }
    (void)zab_config_texts(blob_slice(zab->config.committed_bytes), id, ret_texts);
}

static void edit(struct change_draft *draft, uint32_t id, const struct zab_texts *texts)
{
    ASSERT(draft->edit_count < ZAB_MEMBERS_MAX);
    draft->edits[draft->edit_count++] = (struct zab_config_edit){.id = id, .texts = *texts};
}

static enum zab_fault judge_texts(const struct zab_texts *texts)
{
    if (texts->host.len == 0 || texts->port == 0) {
        return ZAB_FAULT_NO_ADDRESS;
    }
    return zab_texts_are_sound(texts) ? ZAB_FAULT_NONE : ZAB_FAULT_TEXT;
}

static enum zab_fault add(const struct zab *zab, const struct zab_change_item *item,
                          struct change_draft *draft)
{
    const struct peer *peer = peer_find(zab, item->id);
    enum zab_fault fault = judge_texts(&item->texts);

    if (zab_config_find(&zab->config.committed, item->id)) {
        return ZAB_FAULT_ID_IN_USE;
    }
    if (fault != ZAB_FAULT_NONE) {
        return fault;
    }
    if (peer && peer->up &&
        zab_config_find_removed(&zab->config.committed, item->id, peer->incarnation)) {
        return ZAB_FAULT_DISK_REMOVED;
    }
    config_insert(&draft->config, (struct zab_member){.id = item->id, .joining = item->joining});
    edit(draft, item->id, &item->texts);
    return ZAB_FAULT_NONE;
}

/* Notes a removed disk: it is refused if it comes back. When the list is full, the oldest entry
 * goes: no quorum depends on the list. */
static void note_removed(struct zab_config *config, uint32_t id, uint64_t incarnation)
{
    if (incarnation == 0 || zab_config_find_removed(config, id, incarnation)) {
        return;
    }
    if (config->removed_count == ZAB_REMOVED_MAX) {
        config->removed_count--;
        memmove(config->removed, config->removed + 1,
                config->removed_count * sizeof config->removed[0]);
    }
    config->removed[config->removed_count++] =
        (struct zab_removed){.id = id, .incarnation = incarnation, .zxid = config->version};
}

/* Removes a member. The disk that has its vote is noted, and the one that was connected last under
 * its id: any disk may observe, so the configuration does not name that of an observer. */
static enum zab_fault remove_member(const struct zab *zab, const struct zab_change_item *item,
                                    struct change_draft *draft)
{
    const struct zab_member *member = zab_config_find(&draft->config, item->id);
    const struct peer *peer = peer_find(zab, item->id);

    if (!member) {
        return ZAB_FAULT_ID_UNKNOWN;
    }
    uint64_t seated = member->incarnation;

    config_erase(&draft->config, item->id);
    note_removed(&draft->config, item->id, seated);
    note_removed(&draft->config, item->id, peer ? peer->incarnation : 0);
    return ZAB_FAULT_NONE;
}

/* The vote goes to the very disk that was found to be in step. */
static enum zab_fault promote(const struct zab *zab, const struct zab_change_item *item,
                              struct change_draft *draft, struct zab_change_report *report)
{
    const struct zab_member *member = zab_config_find(&draft->config, item->id);
    const struct peer *peer = peer_find(zab, item->id);

    if (!member) {
        return ZAB_FAULT_ID_UNKNOWN;
    }
    if (has_seat(member)) {
        return ZAB_FAULT_NOT_OBSERVER;
    }
    enum zab_fault fault = change_judge_step(zab, peer, report);

    if (fault == ZAB_FAULT_NONE) {
        config_seat(&draft->config, item->id, peer->incarnation, zab->age_ms);
    }
    return fault;
}

static enum zab_fault demote(const struct zab_change_item *item, struct change_draft *draft)
{
    const struct zab_member *member = zab_config_find(&draft->config, item->id);

    if (!member) {
        return ZAB_FAULT_ID_UNKNOWN;
    }
    if (!has_seat(member) && !member->joining) {
        return ZAB_FAULT_NOT_VOTER;
    }
    config_unseat(&draft->config, item->id);
    return ZAB_FAULT_NONE;
}

static enum zab_fault edit_member(const struct zab *zab, const struct zab_change_item *item,
                                  struct change_draft *draft)
{
    struct zab_texts texts;

    if (!zab_config_find(&draft->config, item->id)) {
        return ZAB_FAULT_ID_UNKNOWN;
    }
    change_texts_of(zab, draft, item->id, &texts);
    if (item->sets_address) {
        texts.host = item->texts.host;
        texts.port = item->texts.port;
    }
    texts.client = item->sets_client ? item->texts.client : texts.client;
    texts.zone = item->sets_zone ? item->texts.zone : texts.zone;
    edit(draft, item->id, &texts);
    if (!item->sets_address && texts.port == 0) { /* It has had none. */
        return zab_texts_are_sound(&texts) ? ZAB_FAULT_NONE : ZAB_FAULT_TEXT;
    }
    return judge_texts(&texts);
}

static bool is_named_before(const struct zab_change *change, uint32_t at)
{
    for (uint32_t i = 0; i < at; i++) {
        if (change->items[i].id == change->items[at].id) {
            return true;
        }
    }
    return false;
}

static enum zab_fault change_one(const struct zab *zab, const struct zab_change *change,
                                 uint32_t at, struct change_draft *draft,
                                 struct zab_change_report *report)
{
    const struct zab_change_item *item = &change->items[at];

    if (item->id == 0 || item->id > ZAB_ID_MAX) {
        return ZAB_FAULT_ID_RANGE;
    }
    if (is_named_before(change, at)) {
        return ZAB_FAULT_ID_TWICE;
    }
    switch (item->what) {
    case ZAB_CHANGE_ADD:
        return add(zab, item, draft);
    case ZAB_CHANGE_REMOVE:
        return remove_member(zab, item, draft);
    case ZAB_CHANGE_EDIT:
        return edit_member(zab, item, draft);
    case ZAB_CHANGE_PROMOTE:
        return promote(zab, item, draft, report);
    case ZAB_CHANGE_DEMOTE:
        return demote(item, draft);
    }
    return ZAB_FAULT_NONE;
}

/* Names of hosts have no case. */
bool change_have_same_address(const struct zab_texts *a, const struct zab_texts *b)
{
    return a->port != 0 && a->port == b->port && a->host.len == b->host.len &&
           strncasecmp((const char *)a->host.data, (const char *)b->host.data, a->host.len) == 0;
}

/* Judges the result, so that two members may swap their addresses in one change. */
static enum zab_fault judge_addresses(const struct zab *zab, const struct change_draft *draft,
                                      struct zab_change_report *report)
{
    for (uint32_t i = 0; i < draft->edit_count; i++) {
        const struct zab_config_edit *edit = &draft->edits[i];

        for_each_member (member, &draft->config) {
            struct zab_texts texts;

            change_texts_of(zab, draft, member->id, &texts);
            if (member->id != edit->id && change_have_same_address(&texts, &edit->texts)) {
                report->member = edit->id;
                report->other = member->id;
                return ZAB_FAULT_ADDRESS_IN_USE;
            }
        }
    }
    return ZAB_FAULT_NONE;
}

/* While the change is not committed, this leader has connections to the members that leave, too. */
static bool are_too_many(const struct zab *zab, const struct zab_change *change)
{
    uint32_t count = zab->config.committed.count;

    for (uint32_t i = 0; i < change->item_count && count <= ZAB_MEMBERS_MAX; i++) {
        count += change->items[i].what == ZAB_CHANGE_ADD ? 1 : 0;
    }
    return count > ZAB_MEMBERS_MAX;
}

enum zab_fault change_members(const struct zab *zab, const struct zab_change *change,
                              struct change_draft *draft, struct zab_change_report *report)
{
    if (change->item_count == 0) {
        return ZAB_FAULT_NONE;
    }
    if (zab->config.committed.level < ZAB_LEVEL_TEXTS) {
        report->level = zab->config.committed.level;
        return ZAB_FAULT_MEMBERS_LEVEL;
    }
    if (are_too_many(zab, change)) {
        return ZAB_FAULT_TOO_MANY;
    }
    for (uint32_t i = 0; i < change->item_count; i++) {
        report->member = change->items[i].id;
        enum zab_fault fault = change_one(zab, change, i, draft, report);

        if (fault != ZAB_FAULT_NONE) {
            return fault;
        }
    }
    return judge_addresses(zab, draft, report);
}
