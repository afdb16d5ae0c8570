#include "base/check.h"
#include "base/mem.h"
#include "base/rng.h"
#include "storage/walfmt.h"
#include "tests/lib/unit.h"

#include <string.h>

static const struct walfmt_place place = {.salt = 99, .offset = 8192, .number = 4};

static const struct walfmt_header sample = {
    .cluster = {1, 2},
    .member_id = 3,
    .incarnation = 4,
    .history = 5,
    .number = 6,
    .prev_number = 2,
    .prev_offset = 12288,
    .prev_zxid = 7,
    .prev_chain = 8,
    .committed = 9,
    .salt = 10,
    .bytes = 65536,
    .batch_first = 11,
};

TEST(a_header_is_read_as_written)
{
    uint8_t block[VFS_BLOCK];
    struct walfmt_header back = {0};

    walfmt_header_encode(&sample, block);
    assert_int_equal(walfmt_header_decode(block, &back), ERR_OK);
    assert_memory_equal(back.cluster, sample.cluster, STORE_CLUSTER_LEN);
    assert_int_equal(back.member_id, 3);
    assert_int_equal(back.incarnation, 4);
    assert_int_equal(back.history, 5);
    assert_int_equal(back.number, 6);
    assert_int_equal(back.prev_number, 2);
    assert_int_equal(back.prev_offset, 12288);
    assert_int_equal(back.prev_zxid, 7);
    assert_int_equal(back.prev_chain, 8);
    assert_int_equal(back.committed, 9);
    assert_int_equal(back.salt, 10);
    assert_int_equal(back.bytes, 65536);
    assert_int_equal(back.batch_first, 11);
}

TEST(a_header_with_any_flipped_bit_is_refused)
{
    uint8_t block[VFS_BLOCK];
    struct walfmt_header back;

    walfmt_header_encode(&sample, block);
    for (size_t bit = 0; bit < (size_t)VFS_BLOCK * 8; bit++) {
        block[bit / 8] ^= (uint8_t)(1U << bit % 8);
        assert_int_equal(walfmt_header_decode(block, &back), ERR_CORRUPT);
        block[bit / 8] ^= (uint8_t)(1U << bit % 8);
    }
}

/* A batch of `count` records of `len` bytes, framed. */
static void build(struct buf *framed, uint32_t count, size_t len)
{
    struct buf raw;
    uint8_t *bytes = mem_zalloc(len + 1, 1);
    struct walfmt_batch batch = {.count = count, .durable_upto = 40, .chain = 41, .committed = 39};

    memset(bytes, 'p', len);
    buf_init(&raw, WALFMT_BATCH_RAW_MAX);
    walfmt_batch_begin(&raw);
    for (uint32_t i = 0; i < count; i++) {
        struct walfmt_record record = {.type = LOGREC_TXN,
                                       .zxid = 41 + i,
                                       .prev = 40 + i,
                                       .chain = 50 + i,
                                       .payload = slice_make(bytes, len)};

        walfmt_batch_put(&raw, &place, &record);
    }
    batch.len = (uint32_t)(raw.len - WALFMT_BATCH_HEAD);
    walfmt_batch_end(&raw, &place, &batch);
    buf_init(framed, WALFMT_BATCH_RAW_MAX);
    walfmt_frame(buf_slice(&raw), &place, framed);
    assert_int_equal(framed->len, walfmt_framed_len(raw.len));
    buf_release(&raw);
    mem_free(bytes);
}

TEST(a_batch_is_read_as_written)
{
    static const size_t lens[] = {0, 1, 424, 425, 508, 4096, 20000};

    for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
        struct buf framed = {0};
        struct walfmt_batch head = {0};
        struct walfmt_record record = {0};
        uint32_t count = 0;

        build(&framed, 5, lens[i]);
        assert_int_equal(framed.len % VFS_BLOCK, 0);
        assert_true(walfmt_unframe(&place, 0, framed.data, framed.len / VFS_SECTOR));
        assert_int_equal(walfmt_batch_decode(framed.data, &place, &head), ERR_OK);
        assert_int_equal(head.count, 5);
        assert_int_equal(head.durable_upto, 40);
        assert_int_equal(head.committed, 39);

        struct walfmt_cursor cursor = {
            .place = place,
            .raw = slice_make(framed.data, (size_t)WALFMT_BATCH_HEAD + head.len),
            .pos = WALFMT_BATCH_HEAD,
            .payload_max = 20000};

        while (walfmt_next(&cursor, &record) == ERR_OK) {
            assert_int_equal(record.zxid, 41 + count);
            assert_int_equal(record.payload.len, lens[i]);
            count++;
        }
        assert_int_equal(walfmt_next(&cursor, &record), ERR_MISSING);
        assert_int_equal(count, 5);
        cursor.pos = WALFMT_BATCH_HEAD;
        cursor.payload_max = lens[i] ? (uint32_t)lens[i] - 1 : 0;
        assert_int_equal(walfmt_next(&cursor, &record), lens[i] ? ERR_CORRUPT : ERR_OK);
        buf_release(&framed);
    }
}

TEST(a_sector_verifies_only_in_its_place)
{
    struct buf framed = {0};
    struct walfmt_place other = place;

    build(&framed, 3, 900);
    for (size_t i = 0; i < framed.len / VFS_SECTOR; i++) {
        const uint8_t *sector = framed.data + i * VFS_SECTOR;

        assert_false(slice_is_zero(slice_make(sector, VFS_SECTOR)));
        assert_int_equal(walfmt_sector_state(&place, i, sector), WALFMT_SECTOR_GOOD);
        assert_int_equal(walfmt_sector_state(&place, i + 1, sector), WALFMT_SECTOR_BAD);
        other = place;
        other.salt++;
        assert_int_equal(walfmt_sector_state(&other, i, sector), WALFMT_SECTOR_BAD);
        other = place;
        other.number++;
        assert_int_equal(walfmt_sector_state(&other, i, sector), WALFMT_SECTOR_BAD);
        other = place;
        other.offset += VFS_BLOCK;
        assert_int_equal(walfmt_sector_state(&other, i, sector), WALFMT_SECTOR_BAD);
    }
    buf_release(&framed);
}

TEST(a_zero_sector_was_never_written)
{
    static const uint8_t zeros[VFS_SECTOR];

    assert_int_equal(walfmt_sector_state(&place, 0, zeros), WALFMT_SECTOR_ZERO);
}

/* Whatever bytes come, decoding ends with a result. */
TEST(noise_is_refused)
{
    struct rng rng;
    uint8_t bytes[VFS_BLOCK];
    struct walfmt_header header;
    struct walfmt_batch batch;
    struct walfmt_record record;

    rng_init(&rng, 8);
    for (int round = 0; round < 2000; round++) {
        for (size_t i = 0; i < sizeof(bytes); i++) {
            bytes[i] = (uint8_t)rng_below(&rng, round % 2 ? 256 : 3);
        }

        struct walfmt_cursor cursor = {.place = place,
                                       .raw = slice_make(bytes, sizeof(bytes)),
                                       .pos = WALFMT_BATCH_HEAD,
                                       .payload_max = 1000};

        assert_int_equal(walfmt_header_decode(bytes, &header), ERR_CORRUPT);
        assert_int_equal(walfmt_batch_decode(bytes, &place, &batch), ERR_CORRUPT);
        assert_int_equal(walfmt_next(&cursor, &record), ERR_CORRUPT);
    }
}
