/* Base64 is strict: what decodes encodes to the same text; and what is encoded decodes. */
#include "base/base64.h"
#include "tests/fuzz/fuzz.h"

enum {
    TEXT_MAX = 2 * FUZZ_INPUT_MAX
};

/* The previous content stays in any case. */
static bool try_decode(struct slice text)
{
    struct buf bytes;
    struct buf again;

    buf_init(&bytes, TEXT_MAX);
    buf_init(&again, TEXT_MAX);
    buf_append_str(&bytes, "before");

    enum err err = base64_decode(&bytes, text);

    ASSERT(bytes.len >= 6 && memcmp(bytes.data, "before", 6) == 0);
    if (err == ERR_OK) {
        base64_encode(&again, slice_make(bytes.data + 6, bytes.len - 6));
        ASSERT(slice_eq(buf_slice(&again), text));
    } else {
        ASSERT(err == ERR_FORMAT && bytes.len == 6 && !bytes.overflow);
    }
    buf_release(&bytes);
    buf_release(&again);
    return err == ERR_OK;
}

static void try_encode(struct slice bytes)
{
    struct buf text;
    struct buf back;

    buf_init(&text, TEXT_MAX);
    buf_init(&back, bytes.len);
    base64_encode(&text, bytes);
    ASSERT(!text.overflow && text.len == (bytes.len + 2) / 3 * 4);

    enum err err = base64_decode(&back, buf_slice(&text));

    ASSERT(err == ERR_OK && slice_eq(buf_slice(&back), bytes));
    buf_release(&text);
    buf_release(&back);
}

static bool fuzz_one(struct slice input)
{
    try_encode(input);
    return try_decode(input);
}

static void fuzz_seeds(struct fuzz_sink *sink)
{
    fuzz_seed_text(sink, "empty", "");
    fuzz_seed_text(sink, "one", "Zg==");
    fuzz_seed_text(sink, "two", "Zm8=");
    fuzz_seed_text(sink, "three", "Zm9v");
    fuzz_seed_text(sink, "all", "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/");
    fuzz_seed_text(sink, "all-padded", "+/+/AAAA////Zm9vYmE=");
}

FUZZ_TARGET(base64)
