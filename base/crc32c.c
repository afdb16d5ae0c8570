#include "base/crc32c.h"

#include "base/check.h"
#include "base/wire.h"

#ifdef __aarch64__
#include <arm_acle.h>
#include <sys/auxv.h>
#endif

enum {
    WORD = 8
};

/* tables[k][b]: what byte b does to the register when k more bytes follow it. */
static uint32_t tables[WORD][256];

__attribute__((constructor)) static void fill_tables(void)
{
    const uint32_t polynomial = 0x82f63b78;

    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;

        for (int bit = 0; bit < 8; bit++) {
            crc = crc & 1 ? crc >> 1 ^ polynomial : crc >> 1;
        }
        tables[0][byte] = crc;
    }
    for (uint32_t byte = 0; byte < 256; byte++) {
        for (int k = 1; k < WORD; k++) {
            uint32_t crc = tables[k - 1][byte];

            tables[k][byte] = crc >> 8 ^ tables[0][crc & 0xff];
        }
    }
}

uint32_t crc32c_table(uint32_t crc, const uint8_t *data, size_t len)
{
    for (; len >= WORD; data += WORD, len -= WORD) {
        uint32_t low = crc ^ wire_load_u32(data);
        uint32_t high = wire_load_u32(data + 4);

        crc = tables[7][low & 0xff] ^ tables[6][low >> 8 & 0xff] ^ tables[5][low >> 16 & 0xff] ^
              tables[4][low >> 24] ^ tables[3][high & 0xff] ^ tables[2][high >> 8 & 0xff] ^
              tables[1][high >> 16 & 0xff] ^ tables[0][high >> 24];
    }
    for (; len > 0; data++, len--) {
        crc = crc >> 8 ^ tables[0][(crc ^ *data) & 0xff];
    }
    return crc;
}

#ifdef __x86_64__

bool crc32c_has_hardware(void)
{
    return __builtin_cpu_supports("sse4.2") != 0;
}

__attribute__((target("sse4.2"))) uint32_t crc32c_hardware(uint32_t crc, const uint8_t *data,
                                                           size_t len)
{
    uint64_t wide = crc;

    for (; len >= WORD; data += WORD, len -= WORD) {
        wide = __builtin_ia32_crc32di(wide, wire_load_u64(data));
    }
    crc = (uint32_t)wide;
    for (; len > 0; data++, len--) {
        crc = __builtin_ia32_crc32qi(crc, *data);
    }
    return crc;
}

#elif defined(__aarch64__)

bool crc32c_has_hardware(void)
{
    const unsigned long hwcap_crc32 = 1UL << 7; /* HWCAP_CRC32 of the kernel's interface. */

    return (getauxval(AT_HWCAP) & hwcap_crc32) != 0;
}

__attribute__((target("+crc"))) uint32_t crc32c_hardware(uint32_t crc, const uint8_t *data,
                                                         size_t len)
{
    for (; len >= WORD; data += WORD, len -= WORD) {
        crc = __crc32cd(crc, wire_load_u64(data));
    }
    for (; len > 0; data++, len--) {
        crc = __crc32cb(crc, *data);
    }
    return crc;
}

#else

bool crc32c_has_hardware(void)
{
    return false;
}

uint32_t crc32c_hardware(uint32_t crc, const uint8_t *data, size_t len)
{
    (void)crc;
    (void)data;
    (void)len;
    UNREACHABLE();
}

#endif

uint32_t crc32c(uint32_t seed, const void *data, size_t len)
{
    if (crc32c_has_hardware()) {
        return ~crc32c_hardware(~seed, data, len);
    }
    return ~crc32c_table(~seed, data, len);
}
