#include "http/address.h"

#include "base/hash.h"
#include "base/loop.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>

void http_address_text(const struct sockaddr *address, char *out, size_t out_len)
{
    const void *bytes = NULL;
    int family = address->sa_family;

    if (family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)address;
        bool mapped = IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr);

        bytes = mapped ? &v6->sin6_addr.s6_addr[12] : v6->sin6_addr.s6_addr;
        family = mapped ? AF_INET : AF_INET6;
    } else {
        bytes = &((const struct sockaddr_in *)(const void *)address)->sin_addr;
    }
    if (!inet_ntop(family, bytes, out, (socklen_t)out_len)) {
        (void)snprintf(out, out_len, "?");
    }
}

uint64_t http_address_key(const struct sockaddr *address)
{
    enum {
        V6_NETWORK_BYTES = 8
    };

    struct slice bytes;

    if (address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)address;
        bool mapped = IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr);

        bytes = mapped ? slice_make(&v6->sin6_addr.s6_addr[12], 4)
                       : slice_make(v6->sin6_addr.s6_addr, V6_NETWORK_BYTES);
    } else {
        bytes = slice_make(&((const struct sockaddr_in *)(const void *)address)->sin_addr, 4);
    }
    return hash64(bytes.len, bytes) | 1;
}

int http_listen(const char *address, uint16_t port, int backlog)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};

    if (inet_pton(AF_INET, address, &v4.sin_addr) == 1) {
        return loop_listen((const struct sockaddr *)&v4, sizeof(v4), backlog);
    }
    if (inet_pton(AF_INET6, address, &v6.sin6_addr) == 1) {
        return loop_listen((const struct sockaddr *)&v6, sizeof(v6), backlog);
    }
    return -EINVAL;
}

enum err http_listen_error(int error)
{
    if (error == -EADDRINUSE) {
        return ERR_BUSY;
    }
    return error == -EINVAL || error == -EADDRNOTAVAIL || error == -EACCES ? ERR_CONFIG : ERR_IO;
}
