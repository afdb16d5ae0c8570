/* crc32c.h - the Castagnoli checksum (hardware instruction where there is one). */
#ifndef BASE_CRC32C_H
#define BASE_CRC32C_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the checksum of `data`, continued from `seed`; start with 0 or with a salt. */
uint32_t crc32c(uint32_t seed, const void *data, size_t len);

/* The two ways to compute the checksum: crc32c_table and crc32c_hardware. They are public so that a
 * test can compare them. Both take and return the raw register, without the inversions. */
uint32_t crc32c_table(uint32_t crc, const uint8_t *data, size_t len);

/* True when this machine has the instruction; only then may crc32c_hardware be called. */
bool crc32c_has_hardware(void);
uint32_t crc32c_hardware(uint32_t crc, const uint8_t *data, size_t len);

#endif
