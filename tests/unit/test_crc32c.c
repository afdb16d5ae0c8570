#include "base/crc32c.h"
#include "base/rng.h"
#include "tests/lib/unit.h"

#include <string.h>

/* RFC 3720, appendix B.4, and the published check value. */
TEST(known_vectors)
{
    uint8_t bytes[32];

    assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283);
    assert_int_equal(crc32c(0, NULL, 0), 0);
    memset(bytes, 0, sizeof(bytes));
    assert_int_equal(crc32c(0, bytes, sizeof(bytes)), 0x8a9136aa);
    memset(bytes, 0xff, sizeof(bytes));
    assert_int_equal(crc32c(0, bytes, sizeof(bytes)), 0x62a8ab43);
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (uint8_t)i;
    }
    assert_int_equal(crc32c(0, bytes, sizeof(bytes)), 0x46dd794e);
}

TEST(parts_give_the_whole)
{
    const char text[] = "a record, and the next one";
    const size_t len = sizeof(text) - 1;

    for (size_t cut = 0; cut <= len; cut++) {
        uint32_t first = crc32c(0, text, cut);

        assert_int_equal(crc32c(first, text + cut, len - cut), crc32c(0, text, len));
    }
    assert_int_not_equal(crc32c(1, text, len), crc32c(0, text, len));
}

TEST(hardware_and_table_agree)
{
    uint8_t bytes[300];
    struct rng rng;

    if (!crc32c_has_hardware()) {
        print_message("no instruction on this machine: only the table was tested\n");
        assert_int_equal(~crc32c_table(~0U, (const uint8_t *)"123456789", 9), 0xe3069283);
        return;
    }
    rng_init(&rng, 1);
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (uint8_t)rng_u64(&rng);
    }
    for (size_t from = 0; from < 9; from++) {
        for (size_t len = 0; len <= sizeof(bytes) - from; len++) {
            uint32_t seed = (uint32_t)rng_u64(&rng);

            assert_int_equal(crc32c_table(seed, bytes + from, len),
                             crc32c_hardware(seed, bytes + from, len));
        }
    }
}
