/* A text that is read in pieces equals the output of the buffered writer, and all memory is
 * released. */
#include "base/jsonw.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/text.h"
#include "tests/lib/unit.h"

enum {
    SIZE_MAX_TEST = 16 << 20,
    BUDGET = 8 << 20,
    BIG = TEXT_REF_MIN + 100,
    EVERY = 200,
    STRIDE = 211
};

static struct budget budget;
static struct text text;

static void setup(void)
{
    budget_init(&budget, BUDGET);
    text_init(&text, SIZE_MAX_TEST, &budget);
}

static void teardown(void)
{
    text_release(&text);
    assert_int_equal(budget_used(&budget), 0);
}

/* Mostly plain, with every escaped character and some of several bytes. */
static struct blob *make_utf8(uint32_t len, struct rng *rng)
{
    static const char *const odd[] = {"\"",   "\\",       "\n",           "\x01",
                                      "\x1f", "\xc3\xbc", "\xe2\x82\xac", "\xf0\x9f\x98\x80",
                                      "\b",   "\x7f"};
    struct blob *blob = blob_alloc(len);
    uint32_t at = 0;

    while (at < len) {
        const char *piece = odd[rng_below(rng, sizeof(odd) / sizeof(odd[0]))];
        uint32_t size = (uint32_t)strlen(piece);

        if (rng_below(rng, 4) > 0 || size > len - at) {
            piece = "a";
            size = 1;
        }
        memcpy(blob->data + at, piece, size);
        at += size;
    }
    return blob;
}

static struct blob *make_bytes(uint32_t len, struct rng *rng)
{
    struct blob *blob = blob_alloc(len);

    for (uint32_t i = 0; i < len; i++) {
        blob->data[i] = (uint8_t)rng_below(rng, 256);
    }
    return blob;
}

/* Reads all of it, `max` bytes at a time. */
static void read_all(const struct text *from, size_t max, struct buf *out)
{
    struct text_place place = {.own = 0};
    size_t got = 0;

    buf_clear(out);
    do {
        uint8_t *to = buf_reserve(out, max);

        assert_non_null(to);
        got = text_read(from, &place, to, max);
        out->len += got;
    } while (got == max);
    assert_int_equal(text_read(from, &place, buf_reserve(out, 1), 1), 0);
    assert_int_equal(place.total, text_len(from));
}

static void write_one(struct jsonw *json, struct blob *blob, enum text_form form)
{
    jsonw_object(json);
    jsonw_key(json, "value");
    if (form == TEXT_RAW) {
        jsonw_blob_raw(json, blob);
    } else if (form == TEXT_BASE64) {
        jsonw_blob_base64(json, blob);
    } else {
        jsonw_blob_string(json, blob);
    }
    jsonw_kv_u64(json, "after", 1);
    jsonw_object_end(json);
}

/* The same by reference and copied. */
static void compare(struct blob *blob, enum text_form form, size_t step)
{
    struct buf copied;
    struct buf read;
    struct jsonw json;

    buf_init(&copied, SIZE_MAX_TEST);
    buf_init(&read, SIZE_MAX_TEST + (1 << 20));
    jsonw_init(&json, &copied);
    write_one(&json, blob, form);
    text_clear(&text, 0);
    jsonw_init_text(&json, &text);
    write_one(&json, blob, form);
    assert_int_equal(text_is_plain(&text), blob->len < TEXT_REF_MIN);
    assert_true(text_seal(&text));
    assert_int_equal(text_len(&text), copied.len);
    read_all(&text, step, &read);
    assert_true(slice_eq(buf_slice(&copied), buf_slice(&read)));
    buf_release(&copied);
    buf_release(&read);
}

TEST(each_form_is_what_the_buffered_writer_writes, setup, teardown)
{
    struct rng rng;

    rng_init(&rng, 1);
    for (uint32_t len = TEXT_REF_MIN - 2; len < TEXT_REF_MIN + 8; len++) {
        struct blob *utf8 = make_utf8(len, &rng);
        struct blob *bytes = make_bytes(len, &rng);

        compare(utf8, TEXT_ESCAPED, 4096);
        compare(bytes, TEXT_BASE64, 4096);
        compare(bytes, TEXT_RAW, 4096);
        blob_unref(utf8);
        blob_unref(bytes);
    }
}

TEST(a_read_may_end_anywhere, setup, teardown)
{
    struct rng rng;

    rng_init(&rng, 2);
    for (size_t step = 1; step < 40; step++) {
        struct blob *utf8 = make_utf8(BIG + (uint32_t)step, &rng);

        compare(utf8, TEXT_ESCAPED, step);
        compare(utf8, TEXT_BASE64, step);
        compare(utf8, TEXT_RAW, step);
        blob_unref(utf8);
    }
}

/* Every length near the ends, and in the middle each phase of a quad and of an escape. */
static size_t next_cut(size_t len, size_t whole)
{
    bool near = len < EVERY || len + EVERY > whole;

    return len + (near ? 1 : STRIDE);
}

/* A first read of that length; the second takes the rest. */
TEST(cut_at_every_length, setup, teardown)
{
    struct rng rng;
    struct blob *utf8 = NULL;
    struct jsonw json;
    struct buf whole;
    uint8_t *cut = mem_alloc(SIZE_MAX_TEST);

    rng_init(&rng, 3);
    utf8 = make_utf8(BIG, &rng);
    buf_init(&whole, SIZE_MAX_TEST);
    jsonw_init_text(&json, &text);
    jsonw_array(&json);
    jsonw_blob_string(&json, utf8);
    jsonw_blob_base64(&json, utf8);
    jsonw_array_end(&json);
    assert_true(text_seal(&text));
    read_all(&text, 1 << 16, &whole);
    for (size_t len = 0; len <= whole.len; len = next_cut(len, whole.len)) {
        struct text_place place = {.own = 0};
        size_t first = text_read(&text, &place, cut, len);

        assert_int_equal(first, len);
        assert_int_equal(text_read(&text, &place, cut + len, whole.len), whole.len - len);
        assert_memory_equal(cut, whole.data, whole.len);
    }
    mem_free(cut);
    buf_release(&whole);
    blob_unref(utf8);
}

TEST(random_texts, setup, teardown)
{
    struct rng rng;

    rng_init(&rng, 4);
    for (int round = 0; round < 200; round++) {
        struct blob *blob = make_utf8((uint32_t)rng_below(&rng, 3 * TEXT_REF_MIN), &rng);
        enum text_form form = (enum text_form)rng_below(&rng, 3);

        compare(blob, form, 1 + rng_below(&rng, 1 << 14));
        blob_unref(blob);
    }
}

TEST(a_large_value_counts_once_and_is_released, setup, teardown)
{
    struct blob *blob = blob_alloc(1 << 20);

    memset(blob->data, 'x', blob->len);
    for (int i = 0; i < 8; i++) {
        text_append_blob(&text, blob, TEXT_BASE64);
    }
    assert_true(text_seal(&text));
    assert_int_equal(text.pinned, 1 << 20);
    assert_true(budget_used(&budget) < (1 << 20) + 4096);
    text_clear(&text, TEXT_FREE_BYTES);
    assert_int_equal(budget_used(&budget), 0);
    assert_int_equal(atomic_load(&blob->refs), 1);
    blob_unref(blob);
}

TEST(without_room_everything_is_released, setup, teardown)
{
    struct blob *fits = blob_alloc(BUDGET / 2);
    struct blob *not = blob_alloc(BUDGET / 2 + 1);

    text_append_blob(&text, fits, TEXT_RAW);
    text_append_blob(&text, not, TEXT_RAW);
    text_append_blob(&text, fits, TEXT_RAW);
    assert_false(text_seal(&text));
    assert_true(text.no_room);
    assert_false(text.own.overflow);
    assert_int_equal(budget_used(&budget), 0);
    assert_int_equal(budget_refusals(&budget), 1);
    text_clear(&text, 0);
    assert_false(text.no_room);
    blob_unref(fits);
    blob_unref(not );
}

TEST(small_texts_always_have_room, setup, teardown)
{
    uint8_t *bytes = mem_zalloc(1, TEXT_SMALL_BYTES + 1);

    budget_take(&budget, BUDGET);
    (void)buf_append(&text.own, bytes, TEXT_SMALL_BYTES);
    assert_true(text_seal(&text));
    assert_true(budget_used(&budget) >= BUDGET + TEXT_SMALL_BYTES);
    text_clear(&text, 0);
    assert_int_equal(budget_used(&budget), BUDGET);
    (void)buf_append(&text.own, bytes, TEXT_SMALL_BYTES + 1);
    assert_false(text_seal(&text));
    assert_true(text.no_room);
    assert_int_equal(budget_used(&budget), BUDGET);
    budget_give(&budget, BUDGET);
    mem_free(bytes);
}

TEST(too_long_a_text_is_dropped, setup, teardown)
{
    struct text small;
    struct blob *blob = blob_alloc(BIG);

    text_init(&small, BIG + 10, &budget);
    (void)buf_append_str(&small.own, "01234567890");
    text_append_blob(&small, blob, TEXT_RAW);
    assert_false(text_seal(&small));
    assert_true(small.own.overflow);
    text_release(&small);
    text_init(&small, BIG + 10, &budget);
    text_append_blob(&small, blob, TEXT_RAW);
    (void)buf_append_str(&small.own, "01234567890");
    assert_false(text_seal(&small));
    assert_true(small.own.overflow);
    text_release(&small);
    blob_unref(blob);
}

TEST(a_moved_text_keeps_its_charge, setup, teardown)
{
    struct blob *blob = blob_alloc(BIG);
    struct text moved;
    struct buf out;

    memset(blob->data, 'x', blob->len);
    (void)buf_append_str(&text.own, "a");
    text_append_blob(&text, blob, TEXT_RAW);
    assert_true(text_seal(&text));
    text_move(&moved, &text);
    assert_int_equal(text_len(&text), 0);
    assert_int_equal(text_len(&moved), 1 + BIG);
    buf_init(&out, SIZE_MAX_TEST);
    read_all(&moved, 777, &out);
    assert_int_equal(out.data[0], 'a');
    assert_int_equal(out.data[BIG], 'x');
    text_release(&moved);
    assert_int_equal(budget_used(&budget), 0);
    buf_release(&out);
    blob_unref(blob);
}

TEST(own_bytes_count_above_a_minimum, setup, teardown)
{
    (void)buf_append_str(&text.own, "short");
    text_count(&text);
    assert_int_equal(budget_used(&budget), 0);
    assert_non_null(buf_reserve(&text.own, 2 * TEXT_FREE_BYTES));
    text_count(&text);
    assert_int_equal(budget_used(&budget), text.own.cap);
    text_count(&text);
    assert_int_equal(budget_used(&budget), text.own.cap);
}
