/* Numeric addresses and blocks of them. */
#include "base/address.h"
#include "tests/lib/unit.h"

TEST(addresses_are_numeric_and_have_one_form)
{
    static const struct {
        const char *text;
        const char *form; /* NULL: no address. */
    } rows[] = {
        {"127.0.0.1", "127.0.0.1"},
        {"0.0.0.0", "0.0.0.0"},
        {"255.255.255.255", "255.255.255.255"},
        {"::ffff:10.0.0.1", "10.0.0.1"},
        {"::FFFF:a00:1", "10.0.0.1"},
        {"::1", "::1"},
        {"2001:DB8:0:0::1", "2001:db8::1"},
        {"", NULL},
        {"10.0.0", NULL},
        {"10.0.0.01", NULL},
        {"10.0.0.256", NULL},
        {" 10.0.0.1", NULL},
        {"10.0.0.1 ", NULL},
        {"10.0.0.1:80", NULL},
        {"[::1]", NULL},
        {"fe80::1%eth0", NULL},
        {"::1::", NULL},
        {"localhost", NULL},
        {"0x7f.0.0.1", NULL},
        {"1:2:3:4:5:6:7:8:9", NULL},
        {"0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000", NULL},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct address address;
        char out[ADDRESS_TEXT_MAX];
        bool good = address_parse(slice_str(rows[i].text), &address);

        if (good != (rows[i].form != NULL)) {
            fail_msg("%s", rows[i].text);
        }
        if (good) {
            address_text(&address, out);
            assert_string_equal(out, rows[i].form);
        }
    }
    assert_false(address_parse(slice_make("1.2.3.4\0", 8), &(struct address){{0}}));
}

static bool has(const char *block_text, const char *address_text)
{
    struct address_block block;
    struct address address;

    assert_true(address_block_parse(slice_str(block_text), &block));
    assert_true(address_parse(slice_str(address_text), &address));
    return address_block_has(&block, &address);
}

TEST(blocks_have_the_addresses_with_their_first_bits)
{
    assert_true(has("10.0.0.0/8", "10.255.0.1"));
    assert_false(has("10.0.0.0/8", "11.0.0.0"));
    assert_true(has("10.0.0.1", "10.0.0.1"));
    assert_false(has("10.0.0.1", "10.0.0.2"));
    assert_true(has("10.0.0.1", "::ffff:10.0.0.1"));
    assert_true(has("10.0.0.128/25", "10.0.0.129"));
    assert_false(has("10.0.0.128/25", "10.0.0.127"));
    assert_true(has("10.0.0.1/32", "10.0.0.1"));
    assert_true(has("0.0.0.0/0", "203.0.113.9"));
    assert_false(has("0.0.0.0/0", "2001:db8::1"));
    assert_true(has("::/0", "203.0.113.9"));
    assert_true(has("::/0", "2001:db8::1"));
    assert_true(has("2001:db8::/32", "2001:db8:ffff::1"));
    assert_false(has("2001:db8::/32", "2001:db9::1"));
    assert_true(has("2001:db8::1/128", "2001:db8::1"));
    assert_false(has("2001:db8::1/127", "2001:db8::2"));
}

TEST(malformed_blocks_are_refused)
{
    static const char *const bad[] = {"",           "/8",           "10.0.0.0/",    "10.0.0.0/33",
                                      "10.0.0.0/x", "10.0.0.0/-1",  "::/129",       "10.0.0.0/0008",
                                      "10.0.0/8",   "10.0.0.0/8/8", "10.0.0.0 /8",  "[::1]/128",
                                      "host/8",     "10.0.0.0/ 8",  "10.0.0.0/999", "::1%lo/64"};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct address_block block;

        if (address_block_parse(slice_str(bad[i]), &block)) {
            fail_msg("%s", bad[i]);
        }
    }
}
