/* The replicated configuration: decoded values are valid and readable, and stay the same when they
 * are encoded again. */
#include "base/utf8.h"
#include "server/config/config.h"
#include "tests/fuzz/fuzz.h"
#include "zab/config.h"

enum {
    BYTES_MAX = 4096,
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

static void check_text(const struct zab_config *config)
{
    struct buf text;

    buf_init(&text, TEXT_MAX);
    config_text(config, &text);
    ASSERT(!text.overflow && text.len > 0 && utf8_valid(buf_slice(&text)));
    buf_release(&text);
}

static bool fuzz_one(struct slice input)
{
    struct zab_config config;
    struct zab_config again;
    struct buf first;
    struct buf second;

    if (zab_config_decode(input, &config) != ERR_OK) {
        return false;
    }
    check_members(&config);
    check_text(&config);
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

static void fuzz_seeds(struct fuzz_sink *sink)
{
    seed_config(sink, "one", 1);
    seed_config(sink, "three", 3);
    seed_config(sink, "with-observers", 7);
    seed_config(sink, "full", ZAB_MEMBERS_MAX);
}

FUZZ_TARGET(zab_config)
