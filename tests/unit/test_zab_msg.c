/* The bytes of messages and of the configuration: there and back, cut short, and at random. */
#include "base/mem.h"
#include "base/wire.h"
#include "tests/lib/draw.h"
#include "tests/lib/unit.h"
#include "tests/lib/zab_notice.h"
#include "tests/lib/zab_sample.h"
#include "zab/config.h"
#include "zab/msg.h"
#include "zab/zab.h"

#include <stdio.h>

enum {
    TYPE_LAST = ZAB_JOIN,
    RANDOM_ROUNDS = 20000,
    PAYLOAD_MAX = 1 << 16
};

static void encoded(struct buf *out, const struct zab_msg *msg)
{
    buf_init(out, PAYLOAD_MAX);
    zab_msg_encode(msg, out);
    assert_false(out->overflow);
    assert_true(out->len <= zab_msg_size_max(msg->type));
}

TEST(every_type_has_a_name_and_a_bound)
{
    for (int type = 1; type <= TYPE_LAST; type++) {
        assert_string_not_equal(zab_msg_name((enum zab_msg_type)type), "?");
        assert_true(zab_msg_size_max((enum zab_msg_type)type) > 0);
    }
    assert_int_equal(zab_msg_size_max((enum zab_msg_type)0), 0);
    assert_int_equal(zab_msg_size_max((enum zab_msg_type)(TYPE_LAST + 1)), 0);
    assert_int_equal(zab_msg_size_max((enum zab_msg_type)60000), 0);
}

/* Decoding and encoding again gives the same bytes. */
TEST(every_type_survives_a_round_trip)
{
    struct logrec *rec =
        logrec_new(LOGREC_TXN, zxid_make(3, 2), zxid_make(3, 1), 5, slice_str("record"));

    for (int type = 1; type <= TYPE_LAST; type++) {
        struct epoch_range ranges[2];
        struct zab_msg msg = zab_sample((enum zab_msg_type)type, ranges, rec);
        struct zab_msg back;
        struct buf bytes;
        struct buf again;

        encoded(&bytes, &msg);
        assert_int_equal(zab_msg_decode(msg.type, buf_slice(&bytes), false, &back), ERR_OK);
        assert_int_equal(back.type, type);
        encoded(&again, &back);
        assert_true(slice_eq(buf_slice(&bytes), buf_slice(&again)));
        zab_msg_release(&back);
        buf_release(&again);
        buf_release(&bytes);
    }
    logrec_unref(rec);
}

TEST(fields_keep_their_values)
{
    struct logrec *rec =
        logrec_new(LOGREC_CONFIG, zxid_make(3, 2), zxid_make(3, 1), 5, slice_str("record"));
    struct epoch_range ranges[2];
    struct zab_msg msg = zab_sample(ZAB_ENTRY, ranges, rec);
    struct zab_msg back;
    struct buf bytes;

    encoded(&bytes, &msg);
    assert_int_equal(zab_msg_decode(ZAB_ENTRY, buf_slice(&bytes), false, &back), ERR_OK);
    assert_int_equal(back.dialogue, msg.dialogue);
    assert_int_equal(back.entry.commit, msg.entry.commit);
    assert_int_equal(back.entry.rec->type, LOGREC_CONFIG);
    assert_int_equal(back.entry.rec->zxid, rec->zxid);
    assert_int_equal(back.entry.rec->prev, rec->prev);
    assert_int_equal(back.entry.rec->chain, rec->chain);
    assert_true(slice_eq(logrec_payload(back.entry.rec), slice_str("record")));
    zab_msg_release(&back);
    buf_release(&bytes);
    logrec_unref(rec);
    msg = zab_sample(ZAB_ACKEPOCH, ranges, NULL);
    encoded(&bytes, &msg);
    assert_int_equal(zab_msg_decode(ZAB_ACKEPOCH, buf_slice(&bytes), false, &back), ERR_OK);
    assert_int_equal(back.ackepoch.range_count, 2);
    assert_int_equal(back.ackepoch.ranges[1].first, 2);
    assert_int_equal(back.ackepoch.base, msg.ackepoch.base);
    assert_int_equal(back.ackepoch.snap_id, msg.ackepoch.snap_id);
    assert_int_equal(back.ackepoch.snap_offset, msg.ackepoch.snap_offset);
    zab_msg_release(&back);
    buf_release(&bytes);
}

TEST(a_truncated_or_overlong_message_is_refused)
{
    struct logrec *rec =
        logrec_new(LOGREC_TXN, zxid_make(3, 2), zxid_make(3, 1), 5, slice_str("record"));

    for (int type = 1; type <= TYPE_LAST; type++) {
        struct epoch_range ranges[2];
        struct zab_msg msg = zab_sample((enum zab_msg_type)type, ranges, rec);
        struct zab_msg back;
        struct buf bytes;

        encoded(&bytes, &msg);
        for (size_t len = 0; len < bytes.len; len++) {
            uint8_t *piece = mem_dup(bytes.data, len);

            assert_int_equal(zab_msg_decode(msg.type, slice_make(piece, len), false, &back),
                             ERR_FORMAT);
            mem_free(piece);
        }
        buf_append_byte(&bytes, 0);
        assert_int_equal(zab_msg_decode(msg.type, buf_slice(&bytes), false, &back), ERR_FORMAT);
        buf_release(&bytes);
    }
    logrec_unref(rec);
}

/* A later version may have added fields after the known ones; it never removes any. */
TEST(the_unknown_rest_of_a_newer_message_is_skipped)
{
    struct logrec *rec =
        logrec_new(LOGREC_TXN, zxid_make(3, 2), zxid_make(3, 1), 5, slice_str("record"));

    for (int type = 1; type <= TYPE_LAST; type++) {
        struct epoch_range ranges[2];
        struct zab_msg msg = zab_sample((enum zab_msg_type)type, ranges, rec);
        struct zab_msg back;
        struct buf bytes;

        encoded(&bytes, &msg);
        size_t len = bytes.len;

        buf_append_str(&bytes, "more");
        assert_int_equal(zab_msg_decode(msg.type, buf_slice(&bytes), true, &back), ERR_OK);
        zab_msg_release(&back);
        assert_int_equal(zab_msg_decode(msg.type, slice_make(bytes.data, len - 1), true, &back),
                         ERR_FORMAT);
        buf_release(&bytes);
    }
    logrec_unref(rec);
}

TEST(impossible_ranges_are_refused)
{
    static const struct epoch_range wrong[][2] = {
        {{1, 5, 4}, {2, 0, 0}},
        {{2, 0, 1}, {2, 2, 3}},
        {{3, 0, 1}, {2, 0, 1}},
    };

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct epoch_range ranges[2];
        struct zab_msg msg = zab_sample(ZAB_ACKEPOCH, ranges, NULL);
        struct zab_msg back;
        struct buf bytes;

        memcpy(ranges, wrong[i], sizeof ranges);
        encoded(&bytes, &msg);
        assert_int_equal(zab_msg_decode(ZAB_ACKEPOCH, buf_slice(&bytes), false, &back), ERR_FORMAT);
        buf_release(&bytes);
    }
}

TEST(a_count_of_ranges_is_checked_before_the_allocation)
{
    struct epoch_range ranges[2];
    struct zab_msg msg = zab_sample(ZAB_ACKEPOCH, ranges, NULL);
    struct zab_msg back;
    struct buf bytes;

    encoded(&bytes, &msg);
    wire_store_u32(bytes.data + bytes.len - 16 - 2 * sizeof ranges[0] - 4, UINT32_MAX);
    assert_int_equal(zab_msg_decode(ZAB_ACKEPOCH, buf_slice(&bytes), false, &back), ERR_FORMAT);
    buf_release(&bytes);
}

TEST(impossible_records_are_refused)
{
    static const struct {
        int type;
        zxid_t zxid;
        zxid_t prev;
    } wrong[] = {{0, 2, 1}, {5, 2, 1}, {1, 2, 2}, {1, 2, 3}};

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct logrec *rec = logrec_new(LOGREC_TXN, 2, 1, 5, slice_str("record"));
        struct epoch_range ranges[2];
        struct zab_msg msg = zab_sample(ZAB_ENTRY, ranges, rec);
        struct zab_msg back;
        struct buf bytes;

        rec->zxid = wrong[i].zxid;
        rec->prev = wrong[i].prev;
        encoded(&bytes, &msg);
        bytes.data[4 + 4 + 8] = (uint8_t)wrong[i].type;
        assert_int_equal(zab_msg_decode(ZAB_ENTRY, buf_slice(&bytes), false, &back), ERR_FORMAT);
        buf_release(&bytes);
        logrec_unref(rec);
    }
}

TEST(unknown_types_are_refused)
{
    struct zab_msg back;

    assert_int_equal(zab_msg_decode((enum zab_msg_type)0, slice_str("x"), false, &back),
                     ERR_FORMAT);
    assert_int_equal(zab_msg_decode((enum zab_msg_type)999, slice_str("x"), false, &back),
                     ERR_FORMAT);
}

/* A message that it decodes can be encoded again. */
TEST(random_bytes_never_crash)
{
    struct rng rng;

    rng_init(&rng, 4);
    for (int round = 0; round < RANDOM_ROUNDS; round++) {
        enum zab_msg_type type = (enum zab_msg_type)(1 + rng_below(&rng, TYPE_LAST));
        size_t len = (size_t)rng_below(&rng, 120);
        uint8_t *bytes = mem_alloc(len);
        struct zab_msg msg;

        for (size_t i = 0; i < len; i++) {
            bytes[i] = rng_chance(&rng, 500000) ? 0 : (uint8_t)rng_u64(&rng);
        }
        if (zab_msg_decode(type, slice_make(bytes, len), false, &msg) == ERR_OK) {
            struct buf again;

            encoded(&again, &msg);
            buf_release(&again);
            zab_msg_release(&msg);
        }
        mem_free(bytes);
    }
}

/* ---- Notices. ---- */

TEST(every_notice_has_a_text_with_its_numbers)
{
    for (int type = 0; type <= ZAB_NOTICE_UNREADABLE_SNAPSHOT; type++) {
        struct zab_notice notice = {.type = (enum zab_notice_type)type,
                                    .peer = ZAB_ID_MAX,
                                    .zxid = UINT64_MAX,
                                    .committed = UINT64_MAX,
                                    .epoch = UINT32_MAX,
                                    .highest = UINT32_MAX,
                                    .seconds = UINT32_MAX,
                                    .reason = "a reason"};
        char text[ZAB_TEXT_MAX];

        zab_notice_text(&notice, text);
        assert_true(strlen(text) > 10 && strlen(text) < ZAB_TEXT_MAX - 1);
        assert_null(strpbrk(text, "{}"));
    }
    struct zab_notice lost = {
        .type = ZAB_NOTICE_COMMITTED_LOST, .peer = 7, .zxid = 0x10, .committed = 0x20};
    char text[ZAB_TEXT_MAX];

    zab_notice_text(&lost, text);
    assert_non_null(strstr(text, "leader 7 asks to drop committed records after zxid 0x10 "
                                 "(committed: 0x20): a quorum has lost data"));
}

/* ---- The configuration. ---- */

static struct zab_config three(void)
{
    struct zab_config config = {.version = 5, .history = 6, .count = 3};

    for (uint32_t i = 0; i < 3; i++) {
        config.members[i] = (struct zab_member){.id = 2 * i + 1,
                                                .voter = i < 2,
                                                .incarnation = i < 2 ? 10 + i : 0,
                                                .admitted_age_ms = i == 1 ? 77 : 0};
    }
    return config;
}

static enum err there_and_back(const struct zab_config *config, struct zab_config *ret_back)
{
    struct buf bytes;

    buf_init(&bytes, PAYLOAD_MAX);
    zab_config_encode(config, &bytes);
    enum err err = zab_config_decode(buf_slice(&bytes), ret_back);

    buf_release(&bytes);
    return err;
}

TEST(a_configuration_survives_a_round_trip)
{
    struct zab_config config = three();
    struct zab_config back;

    assert_int_equal(there_and_back(&config, &back), ERR_OK);
    assert_int_equal(back.version, 5);
    assert_int_equal(back.history, 6);
    assert_int_equal(back.count, 3);
    assert_int_equal(zab_config_voters(&back), 2);
    assert_true(zab_config_is_voter(&back, 3, 11));
    assert_false(zab_config_is_voter(&back, 3, 12));
    assert_false(zab_config_is_voter(&back, 5, 0));
    assert_null(zab_config_find(&back, 4));
    assert_int_equal(zab_config_find(&back, 3)->admitted_age_ms, 77);
}

TEST(impossible_configurations_are_refused)
{
    struct zab_config back;
    struct zab_config config = three();

    config.members[2].id = 3;
    assert_int_equal(there_and_back(&config, &back), ERR_FORMAT);
    config = three();
    config.members[0].id = 0;
    assert_int_equal(there_and_back(&config, &back), ERR_FORMAT);
    config = three();
    config.members[2].id = ZAB_ID_MAX + 1;
    assert_int_equal(there_and_back(&config, &back), ERR_FORMAT);
    config = three();
    config.members[0].voter = false;
    config.members[1].voter = false;
    assert_int_equal(there_and_back(&config, &back), ERR_FORMAT);
    config.count = 0;
    assert_int_equal(there_and_back(&config, &back), ERR_FORMAT);
}

TEST(a_truncated_configuration_is_refused)
{
    struct zab_config config = three();
    struct zab_config back;
    struct buf bytes;

    buf_init(&bytes, PAYLOAD_MAX);
    zab_config_encode(&config, &bytes);
    for (size_t len = 0; len < bytes.len; len++) {
        assert_int_equal(zab_config_decode(slice_make(bytes.data, len), &back), ERR_FORMAT);
    }
    buf_append_byte(&bytes, 0);
    assert_int_equal(zab_config_decode(buf_slice(&bytes), &back), ERR_FORMAT);
    buf_release(&bytes);
}

/* A replica that is one version apart has written it into the log. An older one counts by a wall
 * clock. */
TEST(newer_configurations_are_read_and_older_ones_refused)
{
    struct zab_config config = three();
    struct zab_config back;
    struct buf bytes;

    buf_init(&bytes, PAYLOAD_MAX);
    zab_config_encode(&config, &bytes);
    for (uint8_t format = 1; format < 3; format++) {
        bytes.data[0] = format;
        assert_true(zab_config_is_older(buf_slice(&bytes)));
        assert_int_equal(zab_config_decode(buf_slice(&bytes), &back), ERR_FORMAT);
    }
    bytes.data[0] = 3;
    assert_false(zab_config_is_older(buf_slice(&bytes)));
    config.level = 1;
    buf_clear(&bytes);
    zab_config_encode(&config, &bytes);
    assert_int_equal(bytes.data[0], 4);
    assert_false(zab_config_is_older(buf_slice(&bytes)));
    bytes.data[0] = 5;
    assert_false(zab_config_is_older(buf_slice(&bytes)));
    buf_append_byte(&bytes, 9);
    assert_int_equal(zab_config_decode(buf_slice(&bytes), &back), ERR_OK);
    assert_int_equal(back.members[1].admitted_age_ms, 77);
    bytes.data[0] = 0;
    assert_int_equal(zab_config_decode(buf_slice(&bytes), &back), ERR_FORMAT);
    buf_release(&bytes);
}
