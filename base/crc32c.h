/* crc32c.h - the Castagnoli checksum (hardware instruction where there is one). */
#ifndef BASE_CRC32C_H
#define BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Checksum of `data` continuing from `seed`; start with 0 or with a salt. */
uint32_t crc32c(uint32_t seed, const void *data, size_t len);

#endif
