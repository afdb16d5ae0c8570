/* Format 4 of the configuration: level, removed disks, texts and transaction. */
#include "base/mem.h"
#include "base/wire.h"
#include "tests/unit/texts_kit.h"

/* ---- The decoder of the releases that know format 3 only, as it was. ---- */

struct old_member {
    uint32_t id;
    uint8_t kind;
    uint64_t incarnation;
    uint64_t age_ms;
};

struct old_config {
    zxid_t version;
    uint8_t cluster[ZAB_CLUSTER_LEN];
    uint64_t history;
    uint32_t count;
    struct old_member members[ZAB_MEMBERS_MAX];
};

static bool old_is_sound(const struct old_config *config)
{
    uint32_t previous = 0;
    uint32_t voters = 0;

    for (uint32_t i = 0; i < config->count; i++) {
        if (config->members[i].id <= previous || config->members[i].id > ZAB_ID_MAX) {
            return false;
        }
        previous = config->members[i].id;
        voters += config->members[i].kind == 1 ? 1 : 0;
    }
    return voters > 0;
}

static enum err old_decode(struct slice bytes, struct old_config *ret_config)
{
    struct wire_reader reader;
    struct old_config config = {0};

    wire_reader_init(&reader, bytes);
    uint8_t format = wire_get_u8(&reader);

    config.version = wire_get_u64(&reader);
    struct slice cluster = wire_get_raw(&reader, ZAB_CLUSTER_LEN);

    config.history = wire_get_u64(&reader);
    config.count = wire_get_u32(&reader);
    if (!wire_reader_ok(&reader) || format < 3 || config.count > ZAB_MEMBERS_MAX) {
        return ERR_FORMAT;
    }
    memcpy(config.cluster, cluster.data, cluster.len);
    for (uint32_t i = 0; i < config.count; i++) {
        config.members[i].id = wire_get_u32(&reader);
        config.members[i].kind = wire_get_u8(&reader);
        if (config.members[i].kind > 2) {
            wire_reader_fail(&reader);
        }
        config.members[i].incarnation = wire_get_u64(&reader);
    }
    for (uint32_t i = 0; i < config.count; i++) {
        uint64_t age_ms = wire_get_u64(&reader);

        config.members[i].age_ms = age_ms <= ZAB_AGE_MAX_MS ? age_ms : 0;
    }
    bool whole = format > 3 ? wire_reader_ok(&reader) : wire_reader_done(&reader);

    if (!whole || !old_is_sound(&config)) {
        return ERR_FORMAT;
    }
    *ret_config = config;
    return ERR_OK;
}

static enum err written(const struct zab_config *config, const struct zab_config_parts *parts)
{
    struct buf out;

    buf_init(&out, OUT_MAX);
    enum err err = zab_config_write(config, parts, &out);

    assert_false(out.overflow);
    buf_release(&out);
    return err;
}

static enum err with_edit(struct zab_config_edit change)
{
    struct zab_config config = members(3);

    return written(&config, &(struct zab_config_parts){.edits = &change, .edit_count = 1});
}

static enum err encoded(const struct zab_config *config)
{
    struct zab_config back;
    struct buf out;

    buf_init(&out, OUT_MAX);
    zab_config_encode(config, &out);
    enum err err = zab_config_decode(buf_slice(&out), &back);

    buf_release(&out);
    return err;
}

/* ---- There and back. ---- */

TEST(all_fields_survive_a_round_trip)
{
    struct zab_config back;
    struct zab_texts texts;
    struct buf bytes;

    rich_bytes(&bytes);
    assert_int_equal(bytes.data[0], 4);
    assert_int_equal(zab_config_decode(buf_slice(&bytes), &back), ERR_OK);
    assert_int_equal(back.version, zxid_make(4, 5));
    assert_int_equal(back.level, 2);
    assert_int_equal(back.hold, 3);
    assert_int_equal(back.count, 5);
    assert_int_equal(zab_config_voters(&back), 3);
    assert_int_equal(back.members[1].admitted_age_ms, 77);
    assert_false(back.members[3].joining);
    assert_true(back.members[4].joining);
    assert_int_equal(back.removed_count, 2);
    assert_int_equal(back.removed[0].id, 9);
    assert_int_equal(back.removed[0].incarnation, 90);
    assert_int_equal(back.removed[1].id, 10);
    assert_int_equal(back.removed[1].zxid, zxid_make(1, 1));
    assert_true(zab_config_texts(buf_slice(&bytes), 10, &texts));
    assert_text(texts.host, "zk1.example");
    assert_int_equal(texts.port, 10998);
    assert_text(texts.client, "zk1.example:9998");
    assert_text(texts.zone, "north");
    assert_true(zab_config_texts(buf_slice(&bytes), 30, &texts));
    assert_text(texts.client, "");
    assert_true(zab_config_texts(buf_slice(&bytes), 50, &texts));
    assert_text(texts.zone, "south");
    assert_text(zab_config_txn(buf_slice(&bytes)), "a transaction");
    buf_release(&bytes);
}

TEST(texts_of_no_member_are_empty)
{
    struct zab_texts texts = {.port = 1};
    struct buf bytes;

    rich_bytes(&bytes);
    assert_true(zab_config_texts(buf_slice(&bytes), 20, &texts)); /* A member without texts. */
    assert_int_equal(texts.port + texts.host.len + texts.client.len + texts.zone.len, 0);
    texts.port = 1;
    assert_false(zab_config_texts(buf_slice(&bytes), 11, &texts));
    assert_int_equal(texts.port, 0);
    texts.port = 1;
    assert_false(zab_config_texts(slice_make(NULL, 0), 10, &texts));
    assert_int_equal(texts.port, 0);
    buf_release(&bytes);
}

/* The exact bytes: a change of them is a change of the format. */
TEST(format_4_has_these_bytes)
{
    static const uint8_t expected[] = {
        4,                                                /* Format. */
        5,   0,   0,   0,   4,   0,   0,   0,             /* Version. */
        's', 'i', 'x', 't', 'e', 'e', 'n', ' ',           /* Cluster. */
        'l', 'e', 't', 't', 'e', 'r', 's', '.',           /* */
        6,   0,   0,   0,   0,   0,   0,   0,             /* History. */
        1,   0,   0,   0,                                 /* Count. */
        10,  0,   0,   0,   1,                            /* Id, kind. */
        100, 0,   0,   0,   0,   0,   0,   0,             /* Incarnation. */
        0,   0,   0,   0,   0,   0,   0,   0,             /* Age. */
        1,   0,   2,   0,                                 /* Level, hold. */
        1,                                                /* Removed. */
        7,   0,   0,   0,   8,   0,   0,   0,             /* */
        0,   0,   0,   0,   9,   0,   0,   0,             /* */
        3,   0,   0,   0,                                 /* */
        11,  0,   0,   12,  1,   1,   'h', 2,   'c', ':', /* Length, flags, port, host, client. */
        2,   'z', 'y',                                    /* Zone. */
        1,   0,   0,   0,   't',                          /* Transaction. */
    };
    struct zab_config config = members(1);
    struct zab_config_edit change = edit(10, "h", 268, "c:", "zy");
    struct zab_config_parts parts = {.edits = &change, .edit_count = 1, .txn = slice_str("t")};
    struct buf out;

    config.hold = 2;
    config.removed_count = 1;
    config.removed[0] = (struct zab_removed){.id = 7, .incarnation = 8, .zxid = zxid_make(3, 9)};
    buf_init(&out, OUT_MAX);
    assert_int_equal(zab_config_write(&config, &parts, &out), ERR_OK);
    assert_int_equal(out.len, sizeof expected);
    assert_memory_equal(out.data, expected, sizeof expected);
    buf_release(&out);
}

/* Before the level is raised, replicas of releases that know format 3 only are in the ensemble. */
TEST(level_0_is_written_as_format_3)
{
    struct zab_config config = members(3);
    struct zab_config back;
    struct zab_texts texts;
    struct buf texts_of;
    struct buf out;

    config.level = 0;
    rich_bytes(&texts_of);
    buf_init(&out, OUT_MAX);
    assert_int_equal(zab_config_write(&config,
                                      &(struct zab_config_parts){.texts_of = buf_slice(&texts_of)},
                                      &out),
                     ERR_OK);
    assert_int_equal(out.len, TAIL_OFFSET + 3 * MEMBER_BYTES);
    assert_int_equal(out.data[0], 3);
    assert_int_equal(zab_config_decode(buf_slice(&out), &back), ERR_OK);
    assert_int_equal(back.level, 0);
    assert_false(zab_config_texts(buf_slice(&out), 10, &texts));
    assert_int_equal(zab_config_txn(buf_slice(&out)).len, 0);
    buf_release(&texts_of);
    buf_release(&out);
}

/* A release that knows format 3 only reads what it needs to count votes. */
TEST(the_old_decoder_reads_the_beginning)
{
    struct zab_config config = rich();
    struct old_config *old = mem_zalloc(1, sizeof *old);
    struct buf bytes;

    config.members[3].empty_seat = true;
    buf_init(&bytes, OUT_MAX);
    zab_config_encode(&config, &bytes);
    assert_int_equal(old_decode(buf_slice(&bytes), old), ERR_OK);
    assert_int_equal(old->version, config.version);
    assert_int_equal(old->history, config.history);
    assert_memory_equal(old->cluster, config.cluster, ZAB_CLUSTER_LEN);
    assert_int_equal(old->count, 5);
    for (uint32_t i = 0; i < 5; i++) {
        const struct zab_member *member = &config.members[i];

        assert_int_equal(old->members[i].id, member->id);
        assert_int_equal(old->members[i].kind, i < 3 ? 1 : (i == 3 ? 2 : 0));
        assert_int_equal(old->members[i].incarnation, member->incarnation);
        assert_int_equal(old->members[i].age_ms, member->admitted_age_ms);
    }
    buf_release(&bytes);
    mem_free(old);
}

/* ---- What is refused. ---- */

TEST(each_truncation_is_refused)
{
    struct zab_config back;
    struct zab_texts texts;
    struct buf bytes;

    rich_bytes(&bytes);
    for (size_t len = 0; len < bytes.len; len++) {
        struct slice cut = slice_make(bytes.data, len);

        assert_int_equal(zab_config_decode(cut, &back), ERR_FORMAT);
        (void)zab_config_texts(cut, 50, &texts); /* Reads nothing beyond the end. */
        assert_true(zab_config_txn(cut).len == 0);
    }
    (void)buf_append_byte(&bytes, 0);
    assert_int_equal(zab_config_decode(buf_slice(&bytes), &back), ERR_FORMAT);
    buf_release(&bytes);
}

/* In each length that a field has. */
TEST(a_length_beyond_its_field_is_refused)
{
    size_t extras = TAIL_OFFSET + 5 * MEMBER_BYTES + 4 + 1 + 2 * REMOVED_BYTES;
    struct zab_config back;
    struct zab_texts texts;
    struct buf bytes;

    rich_bytes(&bytes);
    assert_int_equal(bytes.data[extras + 5], strlen("zk1.example"));
    static const size_t lengths[] = {0, 5, 17, 34};

    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        uint8_t *byte = &bytes.data[extras + lengths[i]];
        uint8_t before = *byte;

        *byte = UINT8_MAX;
        assert_int_equal(zab_config_decode(buf_slice(&bytes), &back), ERR_FORMAT);
        assert_false(zab_config_texts(buf_slice(&bytes), 10, &texts));
        *byte = before;
    }
    bytes.data[extras + 1] = UINT8_MAX; /* 65,000 bytes of one member. */
    assert_int_equal(zab_config_decode(buf_slice(&bytes), &back), ERR_FORMAT);
    assert_false(zab_config_texts(buf_slice(&bytes), 50, &texts));
    buf_release(&bytes);
}

TEST(texts_have_bounds)
{
    char longest[ZAB_CLIENT_MAX + 2];

    memset(longest, 'x', sizeof longest);
    longest[ZAB_CLIENT_MAX + 1] = '\0';
    const char *client = longest;
    const char *host = longest + ZAB_CLIENT_MAX - ZAB_HOST_MAX;
    const char *zone = longest + ZAB_CLIENT_MAX - ZAB_ZONE_MAX;

    assert_int_equal(with_edit(edit(10, host + 1, UINT16_MAX, client + 1, zone + 1)), ERR_OK);
    assert_int_equal(with_edit(edit(10, host, 1, "", "")), ERR_FORMAT);
    assert_int_equal(with_edit(edit(10, "", 0, client, "")), ERR_FORMAT);
    assert_int_equal(with_edit(edit(10, "", 0, "", zone)), ERR_FORMAT);
}

/* They stand in lines of text, also in /zookeeper/config: no byte of them ends a line. */
TEST(texts_are_printable_and_have_no_blanks)
{
    static const char *const bad[] = {"a b", "a\n", "\t", "a\x7f", "\xc3\xa9"};

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(with_edit(edit(10, bad[i], 1, "", "")), ERR_FORMAT);
        assert_int_equal(with_edit(edit(10, "", 0, bad[i], "")), ERR_FORMAT);
        assert_int_equal(with_edit(edit(10, "", 0, "", bad[i])), ERR_FORMAT);
    }
    assert_int_equal(with_edit(edit(10, "!~", 1, "!~", "!~")), ERR_OK);
}

TEST(host_and_port_come_together)
{
    assert_int_equal(with_edit(edit(10, "zk1", 0, "", "")), ERR_FORMAT);
    assert_int_equal(with_edit(edit(10, "", 1, "", "")), ERR_FORMAT);
}

TEST(two_members_with_one_address_are_refused)
{
    struct zab_config config = members(3);
    struct zab_config_edit edits[] = {edit(10, "zk", 1, "c:1", "z"), edit(30, "zk", 1, "c:1", "z")};
    struct zab_config_parts parts = {.edits = edits, .edit_count = 2};

    assert_int_equal(written(&config, &parts), ERR_FORMAT);
    edits[1].texts.port = 2;
    assert_int_equal(written(&config, &parts), ERR_OK);
    edits[1] = edit(30, "zl", 1, "c:1", "z");
    assert_int_equal(written(&config, &parts), ERR_OK);
}

TEST(the_level_is_at_least_1_and_not_above_the_hold)
{
    struct zab_config config = members(3);
    struct zab_config back;
    struct buf bytes;

    config.level = 2;
    config.hold = 1;
    assert_int_equal(encoded(&config), ERR_FORMAT);
    config.hold = 2;
    assert_int_equal(encoded(&config), ERR_OK);
    config.level = UINT16_MAX;
    config.hold = UINT16_MAX;
    assert_int_equal(encoded(&config), ERR_OK);
    config = members(3);
    buf_init(&bytes, OUT_MAX);
    zab_config_encode(&config, &bytes);
    bytes.data[TAIL_OFFSET + 3 * MEMBER_BYTES] = 0;
    assert_int_equal(zab_config_decode(buf_slice(&bytes), &back), ERR_FORMAT);
    buf_release(&bytes);
}

TEST(only_an_observer_is_joining)
{
    struct zab_config config = members(4);

    config.members[3].joining = true;
    assert_int_equal(encoded(&config), ERR_OK);
    config.members[3].empty_seat = true;
    assert_int_equal(encoded(&config), ERR_FORMAT);
    config = members(4);
    config.members[0].joining = true;
    assert_int_equal(encoded(&config), ERR_FORMAT);
}

TEST(removed_disks_have_bounds)
{
    struct zab_config config = members(3);
    struct zab_config back;
    struct buf bytes;

    config.removed_count = ZAB_REMOVED_MAX;
    for (uint32_t i = 0; i < ZAB_REMOVED_MAX; i++) {
        config.removed[i] = (struct zab_removed){.id = ZAB_ID_MAX - i, .zxid = i};
    }
    assert_int_equal(encoded(&config), ERR_OK);
    buf_init(&bytes, OUT_MAX);
    zab_config_encode(&config, &bytes);
    bytes.data[TAIL_OFFSET + 3 * MEMBER_BYTES + 4] = ZAB_REMOVED_MAX + 1;
    assert_int_equal(zab_config_decode(buf_slice(&bytes), &back), ERR_FORMAT);
    buf_release(&bytes);
    config.removed[5].zxid = 3; /* Younger than the next one. */
    assert_int_equal(encoded(&config), ERR_FORMAT);
    config.removed[5].zxid = 5;
    config.removed[5].id = 0;
    assert_int_equal(encoded(&config), ERR_FORMAT);
    config.removed[5].id = ZAB_ID_MAX + 1;
    assert_int_equal(encoded(&config), ERR_FORMAT);
}

TEST(a_transaction_has_a_bound)
{
    struct zab_config config = members(3);
    struct zab_config back;
    uint8_t *txn = mem_zalloc(1, ZAB_CONFIG_TXN_MAX + 1);
    struct zab_config_parts parts = {.txn = slice_make(txn, ZAB_CONFIG_TXN_MAX)};
    struct buf bytes;

    assert_int_equal(written(&config, &parts), ERR_OK);
    parts.txn.len++;
    assert_int_equal(written(&config, &parts), ERR_TOO_LARGE);
    buf_init(&bytes, OUT_MAX);
    zab_config_encode(&config, &bytes);
    bytes.len -= 4;
    wire_put_bytes(&bytes, parts.txn);
    assert_int_equal(zab_config_decode(buf_slice(&bytes), &back), ERR_FORMAT);
    buf_release(&bytes);
    mem_free(txn);
}
