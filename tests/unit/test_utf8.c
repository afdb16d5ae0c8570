#include "base/utf8.h"
#include "tests/lib/unit.h"

struct row {
    const char *text;
    int32_t code; /* -1: malformed. */
};

TEST(first_and_last_of_each_length)
{
    static const struct row rows[] = {
        {"\x01", 0x01},
        {"\x7f", 0x7f},
        {"\xc2\x80", 0x80},
        {"\xdf\xbf", 0x7ff},
        {"\xe0\xa0\x80", 0x800},
        {"\xed\x9f\xbf", 0xd7ff},
        {"\xee\x80\x80", 0xe000},
        {"\xef\xbf\xbf", 0xffff},
        {"\xf0\x90\x80\x80", 0x10000},
        {"\xf4\x8f\xbf\xbf", 0x10ffff},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct slice text = slice_str(rows[i].text);
        size_t pos = 0;

        assert_true(utf8_valid(text));
        assert_int_equal(utf8_next(text, &pos), rows[i].code);
        assert_int_equal(pos, text.len);
        assert_int_equal(utf8_next(text, &pos), -1);
        assert_int_equal(pos, text.len);
        for (size_t len = 1; len < text.len; len++) {
            assert_false(utf8_valid(slice_make(text.data, len))); /* Cut short. */
        }
    }
}

TEST(malformed)
{
    static const char *const texts[] = {
        "\x80",             /* A continuation alone. */
        "\xbf",             /* Likewise. */
        "\xc0\x80",         /* NUL in two bytes. */
        "\xc1\xbf",         /* Over-long. */
        "\xe0\x9f\xbf",     /* Over-long. */
        "\xf0\x8f\xbf\xbf", /* Over-long. */
        "\xed\xa0\x80",     /* First surrogate. */
        "\xed\xbf\xbf",     /* Last surrogate. */
        "\xf4\x90\x80\x80", /* Beyond U+10FFFF. */
        "\xf5\x80\x80\x80", /* No such first byte. */
        "\xff",             /* Likewise. */
        "\xc3(",            /* Wrong continuation. */
        "\xe2\x82(",        /* Likewise. */
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        size_t pos = 0;

        assert_false(utf8_valid(slice_str(texts[i])));
        assert_int_equal(utf8_next(slice_str(texts[i]), &pos), -1);
        assert_int_equal(pos, 0);
    }
}

TEST(a_bad_byte_is_found_at_every_place)
{
    uint8_t text[40];

    memset(text, 'a', sizeof(text));
    assert_true(utf8_valid(slice_make(text, sizeof(text))));
    for (size_t i = 0; i < sizeof(text); i++) {
        text[i] = 0x80;
        assert_false(utf8_valid(slice_make(text, sizeof(text))));
        text[i] = 'a';
    }
    assert_true(utf8_valid(slice_make(NULL, 0)));
    assert_true(utf8_valid(slice_make("a\0b", 3)));
}
