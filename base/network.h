/*
 * network.h - which network a client's address belongs to, as text.
 *
 * An IPv6 host can use every address of its /64. So limits per address count networks: an IPv4
 * address is a network of its own, an IPv6 address belongs to the network of its /64.
 */
#ifndef BASE_NETWORK_H
#define BASE_NETWORK_H

#include "base/slice.h"

enum {
    NETWORK_TEXT_MAX = 64
};

/* `address` is numeric, as inet_ntop writes it. The result is the address itself, or points into
 * `out` ("2001:db8:0:1::/64"). Text that is no IPv6 address is returned as it is. */
struct slice network_of(struct slice address, char out[NETWORK_TEXT_MAX]);

#endif
