/*
 * UTF-8: utf8_valid accepts exactly the texts whose code points all decode and encode to the same
 * bytes, by rules written down again here; and a JSON string of any bytes is valid UTF-8.
 */
#include "base/jsonw.h"
#include "base/utf8.h"
#include "tests/fuzz/fuzz.h"

enum {
    TEXT_MAX = 8 * FUZZ_INPUT_MAX
};

static void put_point(struct buf *out, uint32_t point)
{
    if (point < 0x80) {
        wire_put_u8(out, (uint8_t)point);
        return;
    }
    if (point < 0x800) {
        wire_put_u8(out, (uint8_t)(0xc0 | point >> 6));
    } else if (point < 0x10000) {
        wire_put_u8(out, (uint8_t)(0xe0 | point >> 12));
        wire_put_u8(out, (uint8_t)(0x80 | (point >> 6 & 0x3f)));
    } else {
        wire_put_u8(out, (uint8_t)(0xf0 | point >> 18));
        wire_put_u8(out, (uint8_t)(0x80 | (point >> 12 & 0x3f)));
        wire_put_u8(out, (uint8_t)(0x80 | (point >> 6 & 0x3f)));
    }
    wire_put_u8(out, (uint8_t)(0x80 | (point & 0x3f)));
}

/* Decodes and encodes; false where it does not decode. */
static bool walk(struct slice text)
{
    struct buf again;
    size_t pos = 0;
    int32_t point = 0;

    buf_init(&again, TEXT_MAX);
    while (pos < text.len && point >= 0) {
        size_t before = pos;

        point = utf8_next(text, &pos);
        ASSERT(point >= 0 ? pos > before && pos <= before + 4 : pos == before);
        ASSERT(point < 0xd800 || point >= 0xe000);
        ASSERT(point <= 0x10ffff);
        if (point >= 0) {
            put_point(&again, (uint32_t)point);
        }
    }
    ASSERT(pos <= text.len && utf8_next(text, &text.len) < 0);
    ASSERT(slice_eq(buf_slice(&again), slice_make(text.data, pos)));
    buf_release(&again);
    return pos == text.len;
}

static void check_json(struct slice text)
{
    struct jsonw json;
    struct buf out;

    buf_init(&out, TEXT_MAX);
    jsonw_init(&json, &out);
    jsonw_string(&json, text);
    ASSERT(!out.overflow && out.len >= 2 && utf8_valid(buf_slice(&out)));
    for (size_t i = 0; i < out.len; i++) {
        ASSERT(out.data[i] >= 0x20);
    }
    buf_release(&out);
}

static bool fuzz_one(struct slice input)
{
    bool is_valid = walk(input);

    ASSERT(is_valid == utf8_valid(input));
    check_json(input);
    return is_valid;
}

static void fuzz_seeds(struct fuzz_sink *sink)
{
    fuzz_seed_text(sink, "ascii", "plain text, longer than one word of the machine");
    fuzz_seed_text(sink, "edges", "\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf\xf0\x90\x80\x80");
    fuzz_seed_text(sink, "last", "\xf4\x8f\xbf\xbf");
    fuzz_seed_text(sink, "around-surrogates", "\xed\x9f\xbf\xee\x80\x80");
    fuzz_seed_text(sink, "mixed", "12345678 z\xc3\xbcrich 12345678\xe2\x82\xac\xf0\x9f\x8d\x80");
}

FUZZ_TARGET(utf8)
