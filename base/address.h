/*
 * address.h - numeric addresses and blocks of addresses ("10.0.0.0/8"). Pure.
 *
 * All addresses are kept as IPv6, IPv4 ones mapped, so that ::ffff:10.0.0.1 and 10.0.0.1 are the
 * same address. Zones ("fe80::1%eth0") are not accepted: their names mean something on one machine
 * only.
 */
#ifndef BASE_ADDRESS_H
#define BASE_ADDRESS_H

#include "base/slice.h"

enum {
    ADDRESS_BYTES = 16,
    ADDRESS_TEXT_MAX = 64 /* Bytes of an address as text, with its NUL. */
};

struct address {
    uint8_t bytes[ADDRESS_BYTES];
};

/* The addresses that have the first `bits` bits of `address`. */
struct address_block {
    struct address address;
    uint32_t bits; /* Counted in the IPv6 form: 96 more than a client writes for IPv4. */
};

/* Parses a numeric IPv4 or IPv6 address, without brackets, port or zone. */
bool address_parse(struct slice text, struct address *ret_address);

/* Whether it is an IPv4 address: its last four bytes are that address. */
bool address_is_v4(const struct address *address);

/* Writes the address as inet_ntop does, an IPv4 one as IPv4. */
void address_text(const struct address *address, char out[ADDRESS_TEXT_MAX]);

/* Parses "address" or "address/bits"; without bits the block is that one address. */
bool address_block_parse(struct slice text, struct address_block *ret_block);

bool address_block_has(const struct address_block *block, const struct address *address);

#endif
