/* Queues of pieces: shared parts exist once, the budget counts what exists, and dropped events can
 * be sent later. */
#include "base/pieces.h"
#include "tests/lib/unit.h"

#include <string.h>

enum {
    BUDGET_BYTES = 1 << 20,
    SHARED_BYTES = 10000,
    QUEUES = 600,
    CUTS_MAX = 16,
    VALUE_BYTES = TEXT_REF_MIN + 1000,
    BLOCK_BYTES = 4 << 10 /* A text is encoded in blocks of that size. */
};

static struct budget budget;

static void setup(void)
{
    budget_init(&budget, BUDGET_BYTES);
}

/* After each test nothing is left. */
static void teardown(void)
{
    assert_int_equal(budget_used(&budget), 0);
}

static struct blob *make_shared(void)
{
    struct blob *blob = blob_alloc(SHARED_BYTES);

    memset(blob->data, 's', SHARED_BYTES);
    return blob;
}

static void put_text(struct pieces *pieces, const char *text)
{
    struct slice slice = slice_str(text);

    pieces_put(pieces, &slice, 1);
}

static struct piece_tag event_tag(zxid_t zxid, bool starts)
{
    return (struct piece_tag){.kind = PIECE_EVENT, .starts = starts, .watch = 7, .from = zxid - 1};
}

static void put_event(struct pieces *pieces, zxid_t zxid, bool starts, const char *text)
{
    struct piece_tag tag = event_tag(zxid, starts);
    struct slice slice = slice_str(text);

    pieces_put_tagged(pieces, &tag, &slice, 1, NULL, 0);
}

static void put_beat(struct pieces *pieces, const char *text)
{
    const struct piece_tag tag = {.kind = PIECE_BEAT};
    struct slice slice = slice_str(text);

    pieces_put_tagged(pieces, &tag, &slice, 1, NULL, 0);
}

static void check_text(struct pieces *pieces, const char *text)
{
    char out[256] = "";
    size_t len = pieces_take(pieces, out, sizeof(out) - 1);

    assert_int_equal(len, strlen(text));
    assert_string_equal(out, text);
    assert_int_equal(pieces->bytes, 0);
    assert_int_equal(pieces->cost, 0);
}

/* ---- Texts ---- */

static struct blob *make_value(void)
{
    struct blob *blob = blob_alloc(VALUE_BYTES);

    for (uint32_t i = 0; i < VALUE_BYTES; i++) {
        blob->data[i] = i % 7 == 0 ? '"' : (uint8_t)('a' + i % 26); /* The first is escaped. */
    }
    return blob;
}

/* "before", a frame with the head "head" that contains one value in two forms, and "behind": as
 * bytes. */
static void write_expected(struct blob *value, struct buf *out)
{
    struct text text;
    struct text_place place = {.own = 0};

    text_init(&text, BUDGET_BYTES, &budget);
    text_append_blob(&text, value, TEXT_ESCAPED);
    buf_append_str(&text.own, "|");
    text_append_blob(&text, value, TEXT_BASE64);
    buf_append_str(out, "beforehead");
    out->len += text_read(&text, &place, buf_reserve(out, text_len(&text)), text_len(&text));
    buf_append_str(out, "behind");
    text_release(&text);
}

static void put_value(struct pieces *pieces, struct blob *value)
{
    struct text text;

    text_init(&text, BUDGET_BYTES, &budget);
    text_append_blob(&text, value, TEXT_ESCAPED);
    buf_append_str(&text.own, "|");
    text_append_blob(&text, value, TEXT_BASE64);
    assert_true(text_seal(&text));
    pieces_put_text(pieces, slice_str("head"), &text);
    assert_int_equal(text_len(&text), 0);
    text_release(&text);
}

/* Like a socket that takes at most `most` bytes of each write, however many are offered. */
static void send_all(struct pieces *pieces, size_t most, struct buf *out)
{
    uint8_t block[BLOCK_BYTES];
    struct slice parts[8];

    while (pieces->bytes > 0) {
        size_t left = pieces->bytes;
        size_t count = pieces_look(pieces, parts, 8, 3 * BLOCK_BYTES, block, sizeof(block));
        size_t sent = 0;

        assert_true(count > 0);
        for (size_t i = 0; i < count && sent < most; i++) {
            size_t len = parts[i].len < most - sent ? parts[i].len : most - sent;

            buf_append(out, parts[i].data, len);
            sent += len;
        }
        pieces_pass(pieces, sent);
        assert_int_equal(pieces->bytes, left - sent);
    }
}

TEST(a_text_is_encoded_while_it_is_sent, setup, teardown)
{
    static const size_t steps[] = {1, 7, 63, BLOCK_BYTES - 1, BLOCK_BYTES, 2 * BLOCK_BYTES};
    struct blob *value = make_value();
    struct buf expected;

    buf_init(&expected, BUDGET_BYTES);
    write_expected(value, &expected);
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        struct pieces pieces;
        struct buf sent;

        buf_init(&sent, BUDGET_BYTES);
        pieces_init(&pieces, &budget);
        put_text(&pieces, "before");
        put_value(&pieces, value);
        put_text(&pieces, "behind");
        assert_int_equal(pieces.bytes, expected.len);
        send_all(&pieces, steps[i], &sent);
        assert_true(slice_eq(buf_slice(&sent), buf_slice(&expected)));
        assert_int_equal(budget_used(&budget), 0);
        buf_release(&sent);
    }
    buf_release(&expected);
    blob_unref(value);
}

TEST(a_text_may_be_removed_from_the_queue, setup, teardown)
{
    struct blob *value = make_value();
    struct pieces pieces;
    struct buf expected;
    struct buf out;

    buf_init(&expected, BUDGET_BYTES);
    buf_init(&out, BUDGET_BYTES);
    write_expected(value, &expected);
    pieces_init(&pieces, &budget);
    put_text(&pieces, "before");
    put_value(&pieces, value);
    put_text(&pieces, "behind");
    while (pieces.bytes > 0) {
        out.len += pieces_take(&pieces, buf_reserve(&out, BLOCK_BYTES), BLOCK_BYTES - 1);
    }
    assert_true(slice_eq(buf_slice(&out), buf_slice(&expected)));
    buf_release(&expected);
    buf_release(&out);
    blob_unref(value);
}

/* A value counts once, in however many queues, as long as one of them keeps it. */
TEST(the_values_of_a_text_count_once, setup, teardown)
{
    struct blob *value = make_value();
    uint8_t block[BLOCK_BYTES];
    struct slice parts[8];
    struct pieces queues[2];

    for (size_t i = 0; i < 2; i++) {
        pieces_init(&queues[i], &budget);
        put_value(&queues[i], value);
    }
    assert_in_range(budget_used(&budget), VALUE_BYTES, VALUE_BYTES + 2048);
    blob_unref(value); /* The tree has replaced it. */
    assert_false(pieces_at_text(&queues[0]));
    (void)pieces_look(&queues[0], parts, 8, BLOCK_BYTES, block, sizeof(block));
    pieces_pass(&queues[0], 10);
    assert_true(pieces_at_text(&queues[0]));
    pieces_drop(&queues[0]); /* The first piece has begun: it stays. */
    assert_true(queues[0].bytes > 0);
    pieces_drop(&queues[1]);
    assert_int_equal(queues[1].bytes, 0);
    assert_in_range(budget_used(&budget), VALUE_BYTES, VALUE_BYTES + 1024);
    pieces_release(&queues[0]);
    assert_int_equal(budget_used(&budget), 0);
}

/* ---- Sharing ---- */

TEST(a_shared_part_counts_once_until_the_last_queue_drops_it, setup, teardown)
{
    struct pieces queues[QUEUES];
    struct blob *blob = make_shared();
    struct piece_tag tag = event_tag(5, true);
    struct slice own = slice_str("watches");

    for (size_t i = 0; i < QUEUES; i++) {
        pieces_init(&queues[i], &budget);
        pieces_put_tagged(&queues[i], &tag, &own, 1, blob, 0);
        assert_int_equal(queues[i].bytes, own.len + SHARED_BYTES);
    }
    assert_int_equal(budget_used(&budget), SHARED_BYTES + QUEUES * queues[0].cost);
    assert_true(queues[0].cost < 128);
    for (size_t i = 1; i < QUEUES; i++) {
        pieces_release(&queues[i]);
    }
    assert_int_equal(atomic_load(&blob->refs), 2);
    assert_int_equal(budget_used(&budget), SHARED_BYTES + queues[0].cost);
    pieces_release(&queues[0]);
    assert_int_equal(atomic_load(&blob->refs), 1);
    blob_unref(blob);
}

TEST(shared_bytes_are_written_in_order, setup, teardown)
{
    static char out[SHARED_BYTES + 64];
    struct pieces pieces;
    struct blob *blob = make_shared();
    struct piece_tag tag = event_tag(5, true);
    struct slice own = slice_str("own");
    size_t taken = 0;

    pieces_init(&pieces, &budget);
    put_text(&pieces, "before");
    pieces_put_tagged(&pieces, &tag, &own, 1, blob, 10);
    put_text(&pieces, "behind");
    while (pieces.first) {
        taken += pieces_take(&pieces, out + taken, 7);
    }
    assert_int_equal(taken, 6 + 3 + SHARED_BYTES - 10 + 6);
    assert_memory_equal(out, "beforeownsss", 12);
    assert_memory_equal(out + taken - 9, "sssbehind", 9);
    assert_int_equal(atomic_load(&blob->refs), 1);
    blob_unref(blob);
}

/* As one write would send them. */
static void check_parts(struct pieces *pieces, size_t parts_max, size_t bytes_max, const char *text)
{
    struct slice parts[8];
    char out[256];
    size_t len = 0;
    size_t count = pieces_look(pieces, parts, parts_max, bytes_max, NULL, 0);

    assert_true(count <= parts_max);
    for (size_t i = 0; i < count; i++) {
        assert_true(parts[i].len > 0);
        memcpy(out + len, parts[i].data, parts[i].len);
        len += parts[i].len;
    }
    assert_true(slice_eq(slice_make(out, len), slice_str(text)));
}

TEST(many_pieces_leave_in_one_write, setup, teardown)
{
    struct pieces pieces;
    struct blob *blob = make_shared();
    struct piece_tag tag = event_tag(5, true);
    struct slice own = slice_str("two");

    pieces_init(&pieces, &budget);
    put_text(&pieces, "one");
    pieces_put_tagged(&pieces, &tag, &own, 1, blob, SHARED_BYTES - 4);
    put_event(&pieces, 6, true, "three");
    check_parts(&pieces, 8, 100, "onetwossssthree");
    check_parts(&pieces, 8, 8, "onetwoss");
    check_parts(&pieces, 3, 100, "onetwossss");
    pieces_pass(&pieces, 7);
    check_parts(&pieces, 8, 100, "sssthree");
    pieces_pass(&pieces, 3);
    assert_int_equal(atomic_load(&blob->refs), 1);
    check_parts(&pieces, 8, 2, "th");
    pieces_pass(&pieces, 5);
    assert_int_equal(pieces.bytes, 0);
    blob_unref(blob);
}

TEST(a_piece_in_progress_is_kept_when_the_rest_is_dropped, setup, teardown)
{
    struct pieces pieces;

    pieces_init(&pieces, &budget);
    put_event(&pieces, 5, true, "five.");
    put_event(&pieces, 6, true, "six.");
    pieces_pass(&pieces, 2);
    pieces_drop(&pieces);
    put_text(&pieces, "end");
    check_text(&pieces, "ve.end");
    put_text(&pieces, "more");
    pieces_drop(&pieces);
    assert_int_equal(budget_used(&budget), 0);
}

TEST(small_fixed_bytes_share_memory, setup, teardown)
{
    struct pieces pieces;

    pieces_init(&pieces, &budget);
    for (int i = 0; i < 1000; i++) {
        put_text(&pieces, "ten bytes.");
    }
    assert_int_equal(pieces.bytes, 10000);
    assert_true(pieces.cost < 30000);
    assert_int_equal(budget_used(&budget), pieces.cost);
    pieces_release(&pieces);
}

TEST(gathered_pieces_move_behind_the_rest, setup, teardown)
{
    struct pieces pieces;
    struct pieces gathered;

    pieces_init(&pieces, &budget);
    pieces_init(&gathered, &budget);
    pieces_move(&pieces, &gathered);
    put_event(&gathered, 1, true, "b");
    put_event(&gathered, 2, true, "c");
    put_text(&pieces, "a");
    pieces_move(&pieces, &gathered);
    assert_int_equal(gathered.cost, 0);
    assert_null(gathered.first);
    put_text(&pieces, "d");
    check_text(&pieces, "abcd");
}

/* ---- Dropped pieces ---- */

struct cuts {
    size_t count;
    struct piece_tag tags[CUTS_MAX];
};

static void on_cut(void *ctx, const struct piece_tag *tag)
{
    struct cuts *cuts = ctx;

    assert_true(cuts->count < CUTS_MAX);
    cuts->tags[cuts->count++] = *tag;
}

TEST(events_after_the_last_reply_are_dropped, setup, teardown)
{
    struct pieces pieces;
    struct cuts cuts = {0};

    pieces_init(&pieces, &budget);
    put_event(&pieces, 5, true, "five.");
    put_text(&pieces, "reply.");
    put_beat(&pieces, "beat.");
    put_event(&pieces, 6, true, "six.");
    put_beat(&pieces, "beat.");
    put_event(&pieces, 7, true, "seven.");
    assert_true(pieces_cut(&pieces, on_cut, &cuts) > 0);
    assert_int_equal(cuts.count, 3);
    assert_int_equal(cuts.tags[0].from, 5);
    assert_int_equal(cuts.tags[0].watch, 7);
    assert_int_equal(cuts.tags[1].kind, PIECE_BEAT);
    assert_int_equal(cuts.tags[2].from, 6);
    assert_int_equal(pieces_cut(&pieces, on_cut, &cuts), 0);
    put_text(&pieces, "more.");
    check_text(&pieces, "five.reply.beat.more.");
}

TEST(a_group_is_never_split, setup, teardown)
{
    struct pieces pieces;
    struct cuts cuts = {0};
    char out[8];

    pieces_init(&pieces, &budget);
    put_event(&pieces, 5, true, "five.");
    put_event(&pieces, 5, false, "5.");
    put_event(&pieces, 6, true, "six.");
    assert_int_equal(pieces_take(&pieces, out, 2), 2); /* The client has received its beginning. */
    assert_true(pieces_cut(&pieces, on_cut, &cuts) > 0);
    assert_int_equal(cuts.count, 1);
    assert_int_equal(cuts.tags[0].from, 5);
    check_text(&pieces, "ve.5.");
}

TEST(the_whole_queue_may_be_dropped, setup, teardown)
{
    struct pieces pieces;
    struct blob *blob = make_shared();
    struct piece_tag tag = event_tag(9, true);
    struct cuts cuts = {0};

    pieces_init(&pieces, &budget);
    assert_int_equal(pieces_cut(&pieces, on_cut, &cuts), 0);
    pieces_put_tagged(&pieces, &tag, NULL, 0, blob, 0);
    assert_true(pieces_cut(&pieces, on_cut, &cuts) > 0);
    assert_int_equal(atomic_load(&blob->refs), 1);
    assert_null(pieces.first);
    assert_int_equal(pieces.bytes, 0);
    put_text(&pieces, "again");
    check_text(&pieces, "again");
    blob_unref(blob);
}
