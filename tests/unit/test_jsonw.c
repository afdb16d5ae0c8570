#include "base/jsonw.h"
#include "tests/lib/unit.h"

static struct buf out;
static struct jsonw json;

static void setup(void)
{
    buf_init(&out, 1 << 16);
    jsonw_init(&json, &out);
}

static void teardown(void)
{
    buf_release(&out);
}

TEST(commas_and_nesting, setup, teardown)
{
    jsonw_object(&json);
    jsonw_kv_cstr(&json, "a", "b");
    jsonw_key(&json, "list");
    jsonw_array(&json);
    jsonw_u64(&json, 1);
    jsonw_array(&json);
    jsonw_array_end(&json);
    jsonw_object(&json);
    jsonw_object_end(&json);
    jsonw_null(&json);
    jsonw_array_end(&json);
    jsonw_kv_bool(&json, "t", true);
    jsonw_kv_bool(&json, "f", false);
    jsonw_key(&json, "raw");
    jsonw_raw(&json, slice_str("[0]"));
    jsonw_object_end(&json);
    assert_string_equal(buf_cstr(&out), "{\"a\":\"b\",\"list\":[1,[],{},null],"
                                        "\"t\":true,\"f\":false,\"raw\":[0]}");
}

TEST(numbers, setup, teardown)
{
    jsonw_array(&json);
    jsonw_u64(&json, 0);
    jsonw_u64(&json, UINT64_MAX);
    jsonw_i64(&json, INT64_MIN);
    jsonw_i64(&json, -1);
    jsonw_i64(&json, INT64_MAX);
    jsonw_hex(&json, 0);
    jsonw_hex(&json, 0x12ab);
    jsonw_hex(&json, UINT64_MAX);
    jsonw_array_end(&json);
    assert_string_equal(buf_cstr(&out),
                        "[0,18446744073709551615,-9223372036854775808,-1,9223372036854775807,"
                        "\"0x0\",\"0x12ab\",\"0xffffffffffffffff\"]");
}

TEST(members, setup, teardown)
{
    jsonw_object(&json);
    jsonw_kv_i64(&json, "i", -5);
    jsonw_kv_u64(&json, "u", 5);
    jsonw_kv_hex(&json, "h", 255);
    jsonw_kv_string(&json, "s", slice_make("xyz", 2));
    jsonw_key(&json, "b");
    jsonw_base64(&json, slice_str("foob"));
    jsonw_object_end(&json);
    assert_string_equal(buf_cstr(&out),
                        "{\"i\":-5,\"u\":5,\"h\":\"0xff\",\"s\":\"xy\",\"b\":\"Zm9vYg==\"}");
}

TEST(escapes, setup, teardown)
{
    jsonw_string(&json, slice_make("a\"b\\c\n\r\t\b\f\x01\x1f\0/z\x7f", 16));
    assert_string_equal(buf_cstr(&out),
                        "\"a\\\"b\\\\c\\n\\r\\t\\b\\f\\u0001\\u001f\\u0000/z\x7f\"");
}

TEST(valid_utf8_passes_and_the_rest_is_replaced, setup, teardown)
{
    jsonw_cstr(&json, "\xc3\xa9 \xf0\x9f\x98\x80 \xff\xc3 \xed\xa0\x80 \xe2\x82");
    assert_string_equal(buf_cstr(&out), "\"\xc3\xa9 \xf0\x9f\x98\x80 "
                                        "\xef\xbf\xbd\xef\xbf\xbd \xef\xbf\xbd\xef\xbf\xbd"
                                        "\xef\xbf\xbd \xef\xbf\xbd\xef\xbf\xbd\"");
}

/* The writer copies eight bytes at a time; it must treat a byte alike at every place. */
TEST(every_ascii_byte_at_every_place, setup, teardown)
{
    for (int byte = 0; byte < 0x80; byte++) {
        char one = (char)byte;

        buf_clear(&out);
        jsonw_string(&json, slice_make(&one, 1));

        size_t escaped_len = out.len - 2;
        char escaped[8];

        memcpy(escaped, out.data + 1, escaped_len);
        assert_int_equal(escaped_len > 1, byte < 0x20 || one == '"' || one == '\\');
        for (size_t at = 0; at < 20; at++) {
            char text[20];

            memset(text, 'x', sizeof(text));
            text[at] = one;
            buf_clear(&out);
            jsonw_string(&json, slice_make(text, sizeof(text)));
            assert_int_equal(out.len, sizeof(text) + escaped_len + 1);
            assert_memory_equal(out.data + 1 + at, escaped, escaped_len);
        }
    }
}

TEST(the_top_level_has_no_commas, setup, teardown)
{
    jsonw_cstr(&json, "");
    jsonw_u64(&json, 1);
    assert_string_equal(buf_cstr(&out), "\"\"1");
}

TEST(deepest_nesting, setup, teardown)
{
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < JSONW_DEPTH_MAX; i++) {
            jsonw_array(&json);
        }
        jsonw_u64(&json, 1);
        jsonw_u64(&json, 2);
        for (int i = 0; i < JSONW_DEPTH_MAX; i++) {
            jsonw_array_end(&json);
        }
    }
    assert_int_equal(out.len, 2 * (2 * JSONW_DEPTH_MAX + 3));
    assert_non_null(strstr(buf_cstr(&out), "[[1,2]]"));
    assert_non_null(strstr(buf_cstr(&out), "]][["));
}

TEST(an_overflow_is_visible_in_the_buffer, setup, teardown)
{
    struct buf small;

    buf_init(&small, 10);
    jsonw_init(&json, &small);
    jsonw_object(&json);
    jsonw_kv_cstr(&json, "key", "a long value");
    jsonw_object_end(&json);
    assert_true(small.overflow);
    buf_release(&small);
}
