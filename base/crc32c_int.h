/*
 * crc32c_int.h - the two ways to compute the checksum, so that a test can hold them against each
 * other on one machine. Both take and give the raw register, without the inversions.
 */
#ifndef BASE_CRC32C_INT_H
#define BASE_CRC32C_INT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

uint32_t crc32c_table(uint32_t crc, const uint8_t *data, size_t len);

/* True when this machine has the instruction; only then may crc32c_hardware be called. */
bool crc32c_has_hardware(void);
uint32_t crc32c_hardware(uint32_t crc, const uint8_t *data, size_t len);

#endif
