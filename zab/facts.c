/*
 * What the leader's host knows of the members' texts: addresses that its file has, and addresses
 * for clients that the members themselves have told. The leader completes the configuration with
 * them, since no request writes the first texts of an ensemble, and an address for clients may
 * change with any restart.
 *
 * An address for other replicas is only added where there is none: files may differ, and each
 * leader would replace what the last one has written.
 */
#include "zab/change_int.h"
#include "zab/level.h"

enum {
    FACTS_EVERY_MS = 60000 /* A record that does not complete the texts comes after this time. */
};

struct zab_facts {
    struct zab_fact *items;
    uint32_t count;
    uint64_t due_ms; /* No such record before this time, */
    uint32_t epoch;  /* in this epoch. */
};

void zab_set_facts(struct zab *zab, const struct zab_fact *facts, uint32_t count)
{
    struct zab_facts *kept = zab->facts;

    ASSERT(count <= ZAB_MEMBERS_MAX);
    if (!kept) {
        kept = zab->facts = mem_zalloc(1, sizeof *kept);
    }
    if (kept->count == count &&
        (count == 0 || memcmp(kept->items, facts, count * sizeof *facts) == 0)) {
        return;
    }
    mem_free(kept->items);
    kept->items = count > 0 ? mem_dup(facts, count * sizeof *facts) : NULL;
    kept->count = count;
    zab->change_ms = 0;
}

void facts_free(struct zab *zab)
{
    if (zab->facts) {
        mem_free(zab->facts->items);
        mem_free(zab->facts);
    }
}

static bool is_taken(const struct zab *zab, const struct change_draft *draft, uint32_t id,
                     const struct zab_texts *texts)
{
    for_each_member (member, &draft->config) {
        struct zab_texts other;

        change_texts_of(zab, draft, member->id, &other);
        if (member->id != id && change_have_same_address(&other, texts)) {
            return true;
        }
    }
    return false;
}

/* Adds what is missing in the member's texts, and a newer address for clients. */
static void take(const struct zab *zab, const struct zab_fact *fact, struct change_draft *draft)
{
    struct zab_texts was;
    struct zab_texts texts;

    change_texts_of(zab, draft, fact->id, &was);
    texts = was;
    if (was.port == 0 && fact->port != 0) {
        texts.host = slice_str(fact->host);
        texts.port = fact->port;
        texts = is_taken(zab, draft, fact->id, &texts) ? was : texts;
    }
    if (fact->client[0] != '\0') {
        texts.client = slice_str(fact->client);
    }
    if ((texts.port != was.port || !slice_eq(texts.client, was.client)) && texts.port != 0 &&
        zab_texts_are_sound(&texts)) {
        draft->edits[draft->edit_count++] =
            (struct zab_config_edit){.id = fact->id, .texts = texts};
    }
}

/* Which addresses all members have. */
struct complete {
    bool peers;
    bool clients;
};

static struct complete complete(const struct zab *zab, const struct change_draft *draft)
{
    struct complete all = {.peers = true, .clients = true};

    for_each_member (member, &draft->config) {
        struct zab_texts texts;

        change_texts_of(zab, draft, member->id, &texts);
        all.peers &= texts.port != 0;
        all.clients &= texts.client.len > 0;
    }
    return all;
}

bool facts_draft(struct zab *zab, struct change_draft *draft)
{
    struct zab_facts *facts = zab->facts;

    ASSERT(draft->edit_count == 0);
    if (!facts || draft->config.level < ZAB_LEVEL_TEXTS) {
        return false;
    }
    if (facts->epoch != zxid_epoch(zab->trail.last)) {
        facts->epoch = zxid_epoch(zab->trail.last);
        facts->due_ms = zab->now_ms + zab->limits.level_ms;
    }
    struct complete was = complete(zab, draft);

    for (uint32_t i = 0; i < facts->count; i++) {
        if (zab_config_find(&draft->config, facts->items[i].id)) {
            take(zab, &facts->items[i], draft);
        }
    }
    if (draft->edit_count == 0) {
        return false;
    }
    struct complete is = complete(zab, draft);

    return zab->now_ms >= facts->due_ms || (is.peers && !was.peers) || (is.clients && !was.clients);
}

void facts_written(struct zab *zab)
{
    zab->facts->due_ms = zab->now_ms + FACTS_EVERY_MS;
}
