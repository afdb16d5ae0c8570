/*
 * texts_kit.h - configurations of format 4, for the tests of their bytes.
 */
#ifndef TESTS_UNIT_TEXTS_KIT_H
#define TESTS_UNIT_TEXTS_KIT_H

#include "tests/lib/unit.h"
#include "zab/config.h"

enum {
    OUT_MAX = 1 << 17,
    TAIL_OFFSET = 1 + 8 + ZAB_CLUSTER_LEN + 8 + 4, /* Of a configuration without members. */
    MEMBER_BYTES = 4 + 1 + 8 + 8,
    REMOVED_BYTES = 4 + 8 + 8
};

static inline struct zab_config members(uint32_t count)
{
    struct zab_config config = {
        .version = zxid_make(4, 5), .history = 6, .count = count, .level = 1};

    memcpy(config.cluster, "sixteen letters.", ZAB_CLUSTER_LEN);
    for (uint32_t i = 0; i < count; i++) {
        config.members[i] = (struct zab_member){.id = 10 * (i + 1),
                                                .voter = i < 3,
                                                .incarnation = i < 3 ? 100 + i : 0,
                                                .admitted_age_ms = i == 1 ? 77 : 0};
    }
    return config;
}

static inline struct zab_config_edit edit(uint32_t id, const char *host, uint16_t port,
                                          const char *client, const char *zone)
{
    return (struct zab_config_edit){.id = id,
                                    .texts = {.host = slice_str(host),
                                              .port = port,
                                              .client = slice_str(client),
                                              .zone = slice_str(zone)}};
}

/* Three voters and two observers, of which one is joining; two removed disks. */
static inline struct zab_config rich(void)
{
    struct zab_config config = members(5);

    config.level = 2;
    config.hold = 3;
    config.members[4].joining = true;
    config.removed_count = 2;
    config.removed[0] = (struct zab_removed){.id = 9, .incarnation = 90, .zxid = zxid_make(1, 1)};
    config.removed[1] = (struct zab_removed){.id = 10, .incarnation = 0, .zxid = zxid_make(1, 1)};
    return config;
}

static inline void rich_bytes(struct buf *out)
{
    struct zab_config config = rich();
    const struct zab_config_edit edits[] = {
        edit(10, "zk1.example", 10998, "zk1.example:9998", "north"),
        edit(30, "zk3.example", 10998, "", ""),
        edit(50, "zk5.example", 10998, "zk5.example:9998", "south"),
    };
    struct zab_config_parts parts = {
        .edits = edits, .edit_count = 3, .txn = slice_str("a transaction")};

    buf_init(out, OUT_MAX);
    assert_int_equal(zab_config_write(&config, &parts, out), ERR_OK);
}

static inline void assert_text(struct slice text, const char *expected)
{
    assert_true(slice_eq(text, slice_str(expected)));
}

#endif
