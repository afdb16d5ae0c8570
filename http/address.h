/* address.h - addresses of clients, as text and as the key under which they are counted. */
#ifndef HTTP_ADDRESS_H
#define HTTP_ADDRESS_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

struct sockaddr;

/* Numeric, without the port; an IPv4 address in IPv6 is written as IPv4. */
void http_address_text(const struct sockaddr *address, char *out, size_t out_len);

/* One key per client: an IPv4 address, or an IPv6 network of 64 bits. Never 0. */
uint64_t http_address_key(const struct sockaddr *address);

/* Listens on a numeric address; returns a descriptor, or a negative errno for http_listen_error. */
int http_listen(const char *address, uint16_t port, int backlog);
enum err http_listen_error(int error);

#endif
