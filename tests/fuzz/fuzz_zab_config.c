/* The replicated configuration: decoded values are valid and readable, and stay the same when they
 * are encoded again, with and without texts and transaction. */
#include "base/utf8.h"
#include "server/config/config.h"
#include "tests/fuzz/fuzz.h"
#include "zab/config.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    BYTES_MAX = 1 << 16,
    TEXT_MAX = 16 * 1024
};

static void check_members(const struct zab_config *config)
{
    uint32_t before = 0;

    ASSERT(config->count <= ZAB_MEMBERS_MAX);
    for (uint32_t i = 0; i < config->count; i++) {
        const struct zab_member *member = &config->members[i];

        ASSERT(member->id > before && member->id <= ZAB_ID_MAX);
        ASSERT(zab_config_find(config, member->id) == member);
        ASSERT(zab_config_is_voter(config, member->id, member->incarnation) == member->voter);
        before = member->id;
    }
    ASSERT(zab_config_voters(config) > 0);
}

static bool is_text(struct slice text, size_t len_max)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < 0x21 || text.data[i] > 0x7e) {
            return false;
        }
    }
    return text.len <= len_max;
}

static void check_extras(struct slice input, const struct zab_config *config)
{
    struct zab_texts texts[ZAB_MEMBERS_MAX];

    ASSERT(config->removed_count <= ZAB_REMOVED_MAX);
    ASSERT(config->hold == 0 || config->level <= config->hold);
    ASSERT(zab_config_txn(input).len <= ZAB_CONFIG_TXN_MAX);
    for (uint32_t i = 0; i < config->count; i++) {
        const struct zab_member *member = &config->members[i];
        bool found = zab_config_texts(input, member->id, &texts[i]);

        ASSERT(found == (config->level != 0));
        ASSERT(is_text(texts[i].host, ZAB_HOST_MAX) && is_text(texts[i].client, ZAB_CLIENT_MAX));
        ASSERT(is_text(texts[i].zone, ZAB_ZONE_MAX));
        ASSERT((texts[i].port == 0) == (texts[i].host.len == 0));
        ASSERT(!member->joining || (!member->voter && !member->empty_seat));
        for (uint32_t j = 0; j < i; j++) {
            ASSERT(texts[i].port == 0 || texts[i].port != texts[j].port ||
                   !slice_eq(texts[i].host, texts[j].host));
        }
    }
}

static bool same_texts(const struct zab_texts *a, const struct zab_texts *b)
{
    return a->port == b->port && slice_eq(a->host, b->host) && slice_eq(a->client, b->client) &&
           slice_eq(a->zone, b->zone);
}

/* Written again with its own texts and transaction. */
static void check_rewrite(struct slice input, const struct zab_config *config)
{
    struct zab_config_parts parts = {.texts_of = input, .txn = zab_config_txn(input)};
    struct zab_texts before;
    struct zab_texts after;
    struct buf out;

    if (config->level == 0) {
        return;
    }
    buf_init(&out, BYTES_MAX);

    enum err err = zab_config_write(config, &parts, &out);

    ASSERT(err == ERR_OK && out.len <= input.len);
    ASSERT(input.data[0] > 4 || config->count == 0 || out.len == input.len);
    ASSERT(slice_eq(zab_config_txn(buf_slice(&out)), parts.txn));
    for (uint32_t i = 0; i < config->count; i++) {
        (void)zab_config_texts(input, config->members[i].id, &before);
        (void)zab_config_texts(buf_slice(&out), config->members[i].id, &after);
        ASSERT(same_texts(&before, &after));
    }
    buf_release(&out);
}

/* What cannot be decoded has no texts that could be used by mistake. */
static void check_refused(struct slice input)
{
    struct zab_texts texts;

    ASSERT(zab_config_txn(input).len <= ZAB_CONFIG_TXN_MAX);
    if (zab_config_texts(input, 1, &texts)) {
        ASSERT(is_text(texts.host, ZAB_HOST_MAX) && is_text(texts.client, ZAB_CLIENT_MAX));
    }
}

/* Whether the line is a valid one of ZooKeeper's: server.ID=HOST:PORT:PORT:ROLE;HOST:PORT. No text
 * of a member can add a part to it. */
static bool is_zookeeper_line(struct slice line, uint32_t id)
{
    struct slice rest = line;
    struct slice name = slice_cut(&rest, '=');
    struct slice peer = slice_cut(&rest, ';');
    char start[32];

    (void)snprintf(start, sizeof start, "server.%" PRIu32, id);
    return slice_eq(name, slice_str(start)) && peer.len > 0 && rest.len > 2 &&
           slice_find(rest, ';') == rest.len && slice_find(rest, '=') == rest.len &&
           slice_find(rest, '|') == rest.len && slice_find(peer, '=') == peer.len &&
           slice_find(peer, '|') == peer.len;
}

static void check_text(struct slice input, const struct zab_config *config)
{
    struct buf old;
    struct buf text;

    buf_init(&old, TEXT_MAX);
    buf_init(&text, CONFIG_TEXT_MAX);
    config_text(config, slice_make(NULL, 0), &old); /* No addresses. */
    config_text(config, input, &text);
    ASSERT(!old.overflow && old.len > 0 && utf8_valid(buf_slice(&old)));
    ASSERT(!text.overflow && text.len > 0 && utf8_valid(buf_slice(&text)));
    bool is_old = slice_eq(buf_slice(&old), buf_slice(&text));

    ASSERT(is_old || config->level >= 2);
    if (!is_old) {
        struct slice rest = buf_slice(&text);

        for_each_member (member, config) {
            ASSERT(is_zookeeper_line(slice_cut(&rest, '\n'), member->id));
        }
        ASSERT(slice_starts_with(rest, slice_str("version=")));
    }
    buf_release(&old);
    buf_release(&text);
}

static bool fuzz_one(struct slice input)
{
    struct zab_config config;
    struct zab_config again;
    struct buf first;
    struct buf second;

    if (zab_config_decode(input, &config) != ERR_OK) {
        check_refused(input);
        return false;
    }
    check_members(&config);
    check_extras(input, &config);
    check_rewrite(input, &config);
    check_text(input, &config);
    buf_init(&first, BYTES_MAX);
    buf_init(&second, BYTES_MAX);
    zab_config_encode(&config, &first);

    enum err err = zab_config_decode(buf_slice(&first), &again);

    ASSERT(err == ERR_OK);
    zab_config_encode(&again, &second);
    ASSERT(!first.overflow && first.len == second.len);
    ASSERT(slice_eq(buf_slice(&first), buf_slice(&second)));
    buf_release(&first);
    buf_release(&second);
    return true;
}

static void seed_config(struct fuzz_sink *sink, const char *name, uint32_t count)
{
    struct zab_config config = {.version = zxid_make(1, 3), .history = 99, .count = count};
    struct buf bytes;

    memcpy(config.cluster, "sixteen letters.", ZAB_CLUSTER_LEN);
    for (uint32_t i = 0; i < count; i++) {
        bool voter = i < 5;

        config.members[i] =
            (struct zab_member){.id = i + 1, .voter = voter, .incarnation = voter ? 1000 + i : 0};
    }
    buf_init(&bytes, BYTES_MAX);
    zab_config_encode(&config, &bytes);
    fuzz_seed(sink, name, buf_slice(&bytes));
    buf_release(&bytes);
}

/* Format 4, with all that it can have. */
static void seed_texts(struct fuzz_sink *sink, const char *name, uint32_t count)
{
    struct zab_config config = {
        .version = zxid_make(1, 3), .history = 99, .count = count, .level = 2, .hold = 3};
    struct zab_config_edit edits[2] = {
        {.id = 1,
         .texts = {.host = slice_str("zk1.example"),
                   .port = 10998,
                   .client = slice_str("zk1.example:9998"),
                   .zone = slice_str("north")}},
        {.id = count, .texts = {.host = slice_str("zk9.example"), .port = 10998}}};
    struct zab_config_parts parts = {
        .edits = edits, .edit_count = 2, .txn = slice_str("a transaction")};
    struct buf bytes;

    for (uint32_t i = 0; i < count; i++) {
        config.members[i] =
            (struct zab_member){.id = i + 1, .voter = i < 3, .joining = i >= 3, .incarnation = i};
    }
    config.removed_count = 2;
    config.removed[0] = (struct zab_removed){.id = 70, .incarnation = 700, .zxid = 1};
    config.removed[1] = (struct zab_removed){.id = 71, .incarnation = 710, .zxid = 2};
    buf_init(&bytes, BYTES_MAX);

    enum err err = zab_config_write(&config, &parts, &bytes);

    ASSERT(err == ERR_OK);
    fuzz_seed(sink, name, buf_slice(&bytes));
    buf_release(&bytes);
}

/* Each member has addresses. */
static void seed_addresses(struct fuzz_sink *sink, const char *name, uint32_t count)
{
    struct zab_config config = {.version = zxid_make(1, 3), .count = count, .level = 2};
    struct zab_config_edit edits[ZAB_MEMBERS_MAX];
    struct zab_config_parts parts = {.edits = edits, .edit_count = count};
    struct buf bytes;

    for (uint32_t i = 0; i < count; i++) {
        config.members[i] = (struct zab_member){.id = i + 1, .voter = i == 0, .incarnation = i};
        edits[i] = (struct zab_config_edit){
            .id = i + 1,
            .texts = {.host = slice_str(i == 1 ? "2001:db8::1" : "zk1.example"),
                      .port = (uint16_t)(1 + i),
                      .client = slice_str(i == 1 ? "[2001:db8::1]:9998" : "zk1.example:9998")}};
    }
    buf_init(&bytes, BYTES_MAX);

    enum err err = zab_config_write(&config, &parts, &bytes);

    ASSERT(err == ERR_OK);
    fuzz_seed(sink, name, buf_slice(&bytes));
    buf_release(&bytes);
}

static void fuzz_seeds(struct fuzz_sink *sink)
{
    seed_addresses(sink, "addresses", 3);
    seed_addresses(sink, "addresses-full", ZAB_MEMBERS_MAX);
    seed_texts(sink, "texts", 3);
    seed_texts(sink, "texts-joining", 5);
    seed_texts(sink, "texts-full", ZAB_MEMBERS_MAX);
    seed_config(sink, "one", 1);
    seed_config(sink, "three", 3);
    seed_config(sink, "with-observers", 7);
    seed_config(sink, "full", ZAB_MEMBERS_MAX);
}

FUZZ_TARGET(zab_config)
