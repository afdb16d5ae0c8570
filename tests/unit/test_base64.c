#include "base/base64.h"
#include "base/rng.h"
#include "tests/lib/unit.h"

/* RFC 4648, section 10, and one text that uses both special characters. */
TEST(known_vectors)
{
    static const char *const rows[][2] = {
        {"", ""},
        {"f", "Zg=="},
        {"fo", "Zm8="},
        {"foo", "Zm9v"},
        {"foob", "Zm9vYg=="},
        {"fooba", "Zm9vYmE="},
        {"foobar", "Zm9vYmFy"},
        {"\xfb\xef\xff", "++//"},
    };
    struct buf out;

    buf_init(&out, 100);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        buf_clear(&out);
        base64_encode(&out, slice_str(rows[i][0]));
        assert_string_equal(buf_cstr(&out), rows[i][1]);
        buf_clear(&out);
        assert_int_equal(base64_decode(&out, slice_str(rows[i][1])), ERR_OK);
        assert_string_equal(buf_cstr(&out), rows[i][0]);
    }
    buf_release(&out);
}

TEST(round_trip_of_each_length)
{
    uint8_t bytes[100];
    struct buf text;
    struct buf back;
    struct rng rng;

    rng_init(&rng, 1);
    buf_init(&text, 1000);
    buf_init(&back, 1000);
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (uint8_t)rng_u64(&rng);
    }
    for (size_t len = 0; len <= sizeof(bytes); len++) {
        buf_clear(&text);
        buf_clear(&back);
        base64_encode(&text, slice_make(bytes, len));
        assert_int_equal(text.len, (len + 2) / 3 * 4);
        assert_int_equal(base64_decode(&back, buf_slice(&text)), ERR_OK);
        assert_true(slice_eq(buf_slice(&back), slice_make(bytes, len)));
    }
    buf_release(&text);
    buf_release(&back);
}

TEST(strict)
{
    static const char *const texts[] = {
        "Z",    "Zg",    "Zg=",  "Zh==", /* Bits beyond the data. */
        "Zm9=", "Zm9v=", "====", "Z===",     "=Zg=",    "Zg==Zg==",
        "Zm 9", "Zm9\n", "Zm-_", "Zm9vYg=A", "Zm\200v",
    };
    struct buf out;

    buf_init(&out, 100);
    buf_append_str(&out, "kept");
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        assert_int_equal(base64_decode(&out, slice_str(texts[i])), ERR_FORMAT);
        assert_string_equal(buf_cstr(&out), "kept");
    }
    buf_release(&out);
}

TEST(bounds)
{
    struct buf out;

    buf_init(&out, 4);
    base64_encode(&out, slice_str("abcd"));
    assert_true(out.overflow);
    assert_int_equal(out.len, 0);
    buf_clear(&out);
    base64_encode(&out, slice_str("abc"));
    assert_string_equal(buf_cstr(&out), "YWJj");
    assert_int_equal(base64_decode(&out, slice_str("YWJj")), ERR_TOO_LARGE);
    buf_clear(&out);
    base64_encode(&out, slice_make("a", SIZE_MAX / 2));
    assert_true(out.overflow);
    buf_release(&out);
}
