#include "base/hash.h"
#include "tests/lib/unit.h"

enum {
    LEN_MAX = 70
};

/* Stored chains and digests depend on the values: a change would break existing ensembles. */
TEST(the_values_never_change)
{
    assert_true(hash64(0, slice_make(NULL, 0)) == UINT64_C(0x1e49b0adc58359b6));
    assert_true(hash64(0, slice_str("abc")) == UINT64_C(0x4ce9bfb6d872fa00));
    assert_true(hash64(7, slice_str("abcdef")) == UINT64_C(0xc304200324195340));
    assert_true(hash64(7, slice_str("abcdefghijklmnop")) == UINT64_C(0x873ec4e70c257344));
    assert_true(hash64(7, slice_str("abcdefghijklmnopqrstuvwxyz0123456789")) ==
                UINT64_C(0x925a4d62517a34bb));
    assert_true(hash64_mix(1, 2) == UINT64_C(0xd3cc65608aa870da));
}

TEST(zeros_of_each_length_differ)
{
    static const uint8_t zeros[LEN_MAX];

    for (size_t a = 0; a < LEN_MAX; a++) {
        for (size_t b = a + 1; b < LEN_MAX; b++) {
            assert_true(hash64(0, slice_make(zeros, a)) != hash64(0, slice_make(zeros, b)));
        }
    }
}

/* Each flipped bit must change about half of the result, wherever it is. */
TEST(every_bit_matters)
{
    uint8_t bytes[LEN_MAX] = {0};

    for (size_t len = 1; len <= LEN_MAX; len++) {
        uint64_t before = hash64(3, slice_make(bytes, len));

        for (size_t bit = 0; bit < len * 8; bit++) {
            bytes[bit / 8] ^= (uint8_t)(1U << (bit % 8));

            uint64_t changed = before ^ hash64(3, slice_make(bytes, len));

            assert_in_range(__builtin_popcountll(changed), 8, 56);
            bytes[bit / 8] ^= (uint8_t)(1U << (bit % 8));
        }
    }
}

TEST(seed_and_order_matter)
{
    assert_true(hash64(1, slice_str("a")) != hash64(2, slice_str("a")));
    assert_true(hash64_mix(1, 2) != hash64_mix(2, 1));
    assert_true(hash64_mix(0, 0) != 0);
}
