/* The memory that clients share. */
#include "server/config/config_int.h"
#include "tests/lib/unit.h"

/* One for bodies, three each for WebSockets and native clients, and the unsent bytes. The tree has
 * half of the memory. */
TEST(pools_together_use_a_quarter_of_the_memory_at_most)
{
    enum {
        POOLS = 8
    };

    const uint64_t request = 12 << 20;
    static const uint64_t machines_mib[] = {768, 1024, 2048, 4096, 8192, 65536};

    for (size_t i = 0; i < sizeof(machines_mib) / sizeof(machines_mib[0]); i++) {
        uint64_t machine = machines_mib[i] << 20;

        assert_true(POOLS * config_pool_bytes(machine, request) <= machine / 4);
    }
    assert_int_equal(config_pool_bytes(8ULL << 30, request), 256 << 20);
    assert_int_equal(config_pool_bytes(0, request), 256 << 20);
    assert_int_equal(config_pool_bytes(256 << 20, request), 2 * request);
}
