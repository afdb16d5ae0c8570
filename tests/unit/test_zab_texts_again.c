/* Format 4 of the configuration: how long it may be, and what stays when it is written again. */
#include "base/mem.h"
#include "base/wire.h"
#include "tests/unit/texts_kit.h"

#include <stdio.h>

/* ---- The size of 64 members. ---- */

struct crowd {
    char texts[ZAB_MEMBERS_MAX][3][ZAB_CLIENT_MAX + 1];
    struct zab_config_edit edits[ZAB_MEMBERS_MAX];
    struct zab_config config;
};

static struct crowd *crowd_new(void)
{
    struct crowd *crowd = mem_zalloc(1, sizeof *crowd);

    crowd->config = members(ZAB_MEMBERS_MAX);
    crowd->config.removed_count = ZAB_REMOVED_MAX;
    for (uint32_t i = 0; i < ZAB_REMOVED_MAX; i++) {
        crowd->config.removed[i] = (struct zab_removed){.id = i + 1, .zxid = i};
    }
    return crowd;
}

static void crowd_edit(struct crowd *crowd, uint32_t i)
{
    crowd->edits[i] = edit(crowd->config.members[i].id, crowd->texts[i][0], 10998,
                           crowd->texts[i][1], crowd->texts[i][2]);
}

static size_t crowd_write(const struct crowd *crowd, enum err expected)
{
    struct zab_config_parts parts = {.edits = crowd->edits, .edit_count = ZAB_MEMBERS_MAX};
    struct buf out;

    buf_init(&out, OUT_MAX);
    assert_int_equal(zab_config_write(&crowd->config, &parts, &out), expected);
    size_t len = out.len;

    buf_release(&out);
    return len;
}

TEST(members_with_usual_texts_fit_and_with_the_longest_are_refused)
{
    struct crowd *crowd = crowd_new();

    for (uint32_t i = 0; i < ZAB_MEMBERS_MAX; i++) {
        (void)snprintf(crowd->texts[i][0], ZAB_CLIENT_MAX,
                       "zabra-%u.zabra-headless.coordination.svc.cluster.local", i);
        (void)snprintf(crowd->texts[i][1], ZAB_CLIENT_MAX,
                       "zabra-%u.zabra-headless.coordination.svc.cluster.local:9998", i);
        (void)snprintf(crowd->texts[i][2], ZAB_CLIENT_MAX, "eu-central-1%c", 'a' + (char)(i % 3));
        crowd_edit(crowd, i);
    }
    assert_true(crowd_write(crowd, ERR_OK) <= ZAB_CONFIG_BYTES_MAX);
    for (uint32_t i = 0; i < ZAB_MEMBERS_MAX; i++) {
        memset(crowd->texts[i][0], 'h', ZAB_HOST_MAX);
        memset(crowd->texts[i][1], 'c', ZAB_CLIENT_MAX);
        memset(crowd->texts[i][2], 'z', ZAB_ZONE_MAX);
        crowd->texts[i][0][ZAB_HOST_MAX] = '\0';
        crowd->texts[i][2][ZAB_ZONE_MAX] = '\0';
        crowd->texts[i][0][0] = (char)('0' + i);
        crowd_edit(crowd, i);
    }
    /* The caller can say how long it would be. */
    assert_int_equal(
        crowd_write(crowd, ERR_TOO_LARGE),
        TAIL_OFFSET + ZAB_MEMBERS_MAX * MEMBER_BYTES + 4 + 1 + ZAB_REMOVED_MAX * REMOVED_BYTES +
            ZAB_MEMBERS_MAX * (2 + 6 + ZAB_HOST_MAX + ZAB_CLIENT_MAX + ZAB_ZONE_MAX) + 4);
    mem_free(crowd);
}

/* To the byte; the transaction does not count. */
TEST(the_bound_of_all_bytes_is_exact)
{
    struct zab_config config = members(ZAB_MEMBERS_MAX);
    struct crowd *crowd = crowd_new();
    struct zab_config_parts parts = {.edits = crowd->edits, .txn = slice_str("not counted")};
    struct zab_config back;
    struct buf out;
    size_t left =
        ZAB_CONFIG_BYTES_MAX - (TAIL_OFFSET + ZAB_MEMBERS_MAX * (MEMBER_BYTES + 2 + 6) + 4 + 1 + 4);

    buf_init(&out, OUT_MAX);
    while (left > 0) {
        uint32_t i = parts.edit_count++;
        size_t len = left < ZAB_CLIENT_MAX ? left : ZAB_CLIENT_MAX;

        memset(crowd->texts[i][1], 'c', len);
        crowd->edits[i] = edit(config.members[i].id, "", 0, crowd->texts[i][1], "");
        left -= len;
    }
    assert_int_equal(zab_config_write(&config, &parts, &out), ERR_OK);
    assert_int_equal(out.len, ZAB_CONFIG_BYTES_MAX + parts.txn.len);
    assert_int_equal(zab_config_decode(buf_slice(&out), &back), ERR_OK);
    crowd->edits[parts.edit_count++] = edit(config.members[ZAB_MEMBERS_MAX - 1].id, "", 0, "c", "");
    buf_clear(&out);
    assert_int_equal(zab_config_write(&config, &parts, &out), ERR_TOO_LARGE);
    assert_int_equal(zab_config_decode(buf_slice(&out), &back), ERR_FORMAT);
    buf_release(&out);
    mem_free(crowd);
}

/* What the identity keeps: texts and removed disks are left out. */
TEST(64_members_without_texts_are_short)
{
    struct zab_config config = members(ZAB_MEMBERS_MAX);
    struct buf out;

    buf_init(&out, OUT_MAX);
    zab_config_encode(&config, &out);
    assert_true(out.len <= 1920);
    buf_release(&out);
}

/* ---- Writing again. ---- */

TEST(members_keep_their_texts)
{
    struct zab_config config = rich();
    struct zab_config_edit change = edit(30, "new.example", 1, "new.example:2", "west");
    struct zab_config_parts parts = {.edits = &change, .edit_count = 1};
    struct zab_texts texts;
    struct buf first;
    struct buf out;

    rich_bytes(&first);
    parts.texts_of = buf_slice(&first);
    config.members[1] = config.members[2]; /* 10, 30, 40, 60: two have gone, one is new. */
    config.members[2] = config.members[3];
    config.members[3] = (struct zab_member){.id = 60};
    config.count = 4;
    buf_init(&out, OUT_MAX);
    assert_int_equal(zab_config_write(&config, &parts, &out), ERR_OK);
    assert_true(zab_config_texts(buf_slice(&out), 10, &texts));
    assert_text(texts.client, "zk1.example:9998");
    assert_true(zab_config_texts(buf_slice(&out), 30, &texts));
    assert_text(texts.host, "new.example");
    assert_text(texts.zone, "west");
    assert_true(zab_config_texts(buf_slice(&out), 60, &texts));
    assert_int_equal(texts.host.len, 0);
    assert_false(zab_config_texts(buf_slice(&out), 50, &texts));
    assert_int_equal(zab_config_txn(buf_slice(&out)).len, 0); /* Of the older record only. */
    buf_release(&first);
    buf_release(&out);
}

/* One member, whose fields have four more bytes and a flag that this release does not know. */
static void with_later_fields(struct buf *out)
{
    struct zab_config config = members(1);

    buf_init(out, OUT_MAX);
    zab_config_encode(&config, out);
    out->len = TAIL_OFFSET + MEMBER_BYTES + 5;
    wire_put_u16(out, 11);
    wire_put_u8(out, 0x80);
    wire_put_u16(out, 268);
    wire_put_raw(out, slice_str("\1h"));
    wire_put_raw(out, slice_make("\0\0", 2));
    wire_put_raw(out, slice_str("newx"));
    wire_put_u32(out, 0);
}

TEST(fields_of_a_later_release_are_kept)
{
    struct zab_config config;
    struct zab_config_edit change = edit(10, "i", 268, "", "");
    struct zab_config_parts parts = {.edits = &change, .edit_count = 1};
    struct buf first;
    struct buf out;

    with_later_fields(&first);
    assert_int_equal(zab_config_decode(buf_slice(&first), &config), ERR_OK);
    parts.texts_of = buf_slice(&first);
    buf_init(&out, OUT_MAX);
    assert_int_equal(zab_config_write(&config, &parts, &out), ERR_OK);
    uint8_t *host = &first.data[TAIL_OFFSET + MEMBER_BYTES + 5 + 2 + 1 + 2 + 1];

    assert_int_equal(*host, 'h');
    *host = 'i';
    assert_true(slice_eq(buf_slice(&out), buf_slice(&first)));
    buf_release(&first);
    buf_release(&out);
}

/* A replica one release ahead has written it. Its level says whether this one may join it. */
TEST(the_beginning_of_a_later_format_is_read)
{
    struct zab_config back;
    struct zab_texts texts;
    struct buf bytes;

    rich_bytes(&bytes);
    bytes.data[0] = 5;
    (void)buf_append_str(&bytes, "fields of format 5");
    assert_int_equal(zab_config_decode(buf_slice(&bytes), &back), ERR_OK);
    assert_int_equal(back.level, 2);
    assert_true(zab_config_texts(buf_slice(&bytes), 50, &texts));
    assert_text(texts.zone, "south");
    assert_text(zab_config_txn(buf_slice(&bytes)), "a transaction");
    buf_release(&bytes);
}
