/* Networks of client addresses. */
#include "base/network.h"
#include "tests/lib/unit.h"

TEST(networks_of_addresses)
{
    static const struct {
        const char *address;
        const char *network;
    } rows[] = {
        {"127.0.0.1", "127.0.0.1"},
        {"::1", "0:0:0:0::/64"},
        {"::", "0:0:0:0::/64"},
        {"2001:db8::1", "2001:db8:0:0::/64"},
        {"2001:db8:0:1:aaaa:bbbb:cccc:dddd", "2001:db8:0:1::/64"},
        {"2001:DB8:0:1::", "2001:db8:0:1::/64"},
        {"1::2:3:4:5:6:7", "1:0:2:3::/64"},
        {"fe80::1:2", "fe80:0:0:0::/64"},
        {"::2:3:4:5:6:7:8", "0:2:3:4::/64"},
        /* Not addresses: they stay as they are. */
        {"", ""},
        {":", ":"},
        {"?", "?"},
        {"10.0.0.7", "10.0.0.7"},
        {"1:2:3", "1:2:3"},
        {"1::2::3", "1::2::3"},
        {"1:2:3:4:5:6:7:8:9", "1:2:3:4:5:6:7:8:9"},
        {"12345::1", "12345::1"},
        {"::ffff:10.0.0.1", "::ffff:10.0.0.1"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char out[NETWORK_TEXT_MAX];
        struct slice network = network_of(slice_str(rows[i].address), out);

        assert_true(slice_eq(network, slice_str(rows[i].network)));
    }
}

TEST(any_text_is_safe)
{
    static const char letters[] = ":1f.g";
    char text[12];
    char out[NETWORK_TEXT_MAX];

    for (uint32_t seed = 0; seed < 300000; seed++) {
        uint32_t rest = seed * 2654435761U;
        size_t len = rest % sizeof(text);

        for (size_t i = 0; i < len; i++) {
            rest = rest * 1664525U + 1013904223U;
            text[i] = letters[(rest >> 16) % (sizeof(letters) - 1)];
        }
        struct slice network = network_of(slice_make(text, len), out);

        assert_true(network.len < NETWORK_TEXT_MAX);
    }
}
