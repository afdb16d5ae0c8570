/*
 * Addresses of clients; the host names that this replica accepts, and the web pages that may use
 * it. The name in Host is checked because of DNS rebinding attacks. The port is ignored: these
 * attacks do not depend on it, and a check would refuse clients behind a port mapping.
 */
#include "base/hash.h"
#include "http/http_int.h"

#include <arpa/inet.h>
#include <errno.h>

enum {
    V4_BYTES = 4,
    V6_NETWORK_BYTES = 8
};

/* ---- Addresses ---- */

/* Returns the bytes of an address: four for IPv4, even if mapped into IPv6, else sixteen. */
static struct slice address_bytes(const struct sockaddr *address)
{
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)address;

    if (address->sa_family != AF_INET6) {
        return slice_make(&((const struct sockaddr_in *)(const void *)address)->sin_addr, V4_BYTES);
    }
    return IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)
               ? slice_make(&v6->sin6_addr.s6_addr[12], V4_BYTES)
               : slice_make(v6->sin6_addr.s6_addr, sizeof(v6->sin6_addr.s6_addr));
}

void http_address_text(const struct sockaddr *address, char *out, size_t out_len)
{
    struct slice bytes = address_bytes(address);
    int family = bytes.len == V4_BYTES ? AF_INET : AF_INET6;

    if (!inet_ntop(family, bytes.data, out, (socklen_t)out_len)) {
        (void)snprintf(out, out_len, "?");
    }
}

uint64_t http_address_key(const struct sockaddr *address)
{
    struct slice bytes = address_bytes(address);

    bytes.len = min_size(bytes.len, V6_NETWORK_BYTES);
    return hash64(bytes.len, bytes) | 1;
}

uint64_t http_client_key(const char *client)
{
    struct slice text = slice_str(client);
    struct address address;

    if (!address_parse(text, &address)) {
        return hash64(text.len, text) | 1;
    }

    struct slice bytes = address_is_v4(&address)
                             ? slice_make(address.bytes + ADDRESS_BYTES - V4_BYTES, V4_BYTES)
                             : slice_make(address.bytes, V6_NETWORK_BYTES);

    return hash64(bytes.len, bytes) | 1;
}

struct auth *http_certificate(const struct config_clients *limits, int fd)
{
    const struct tls_socket *socket = tls_socket_of(fd);
    const char *id = socket ? tls_socket_identity(socket) : "";

    return id[0] != '\0' ? auth_certificate(id, limits->tls.super_x509) : NULL;
}

bool http_is_proxy(const struct config_clients *limits, const char *peer)
{
    const struct http_proxies proxies = {limits->proxies, limits->proxy_count};
    struct address address;

    return limits->proxy_count > 0 && address_parse(slice_str(peer), &address) &&
           http_proxies_have(&proxies, &address);
}

struct http_refusal http_forwarded_take(const struct config_clients *limits, bool is_proxy,
                                        const struct http_head *head, struct http_forwarded *ret_by)
{
    const struct http_proxies proxies = {limits->proxies, limits->proxy_count};
    const char *fault = NULL;

    *ret_by = (struct http_forwarded){.has_scheme = false};
    if (head->forwarded && is_proxy) {
        fault = http_forwarded_read(head->forwarded, &proxies, ret_by);
    }
    return http_refusal_make(fault ? ERR_BAD_ARGUMENTS : ERR_OK, fault);
}

enum err http_listen(const char *address, uint16_t port, int backlog, int *ret_fd)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    int fd = -EINVAL;

    if (inet_pton(AF_INET, address, &v4.sin_addr) == 1) {
        fd = loop_listen((const struct sockaddr *)&v4, sizeof(v4), backlog);
    } else if (inet_pton(AF_INET6, address, &v6.sin6_addr) == 1) {
        fd = loop_listen((const struct sockaddr *)&v6, sizeof(v6), backlog);
    }
    *ret_fd = fd;
    if (fd >= 0) {
        return ERR_OK;
    }
    if (fd == -EADDRINUSE) {
        return ERR_BUSY;
    }
    return fd == -EINVAL || fd == -EADDRNOTAVAIL || fd == -EACCES ? ERR_CONFIG : ERR_IO;
}

/* ---- Hosts and origins ---- */

static bool is_address(const char *host)
{
    uint8_t bytes[sizeof(struct in6_addr)];

    return inet_pton(AF_INET, host, bytes) == 1 || inet_pton(AF_INET6, host, bytes) == 1;
}

/* Whether the host is an address of loopback. A name does not count: it may start like such an
 * address, belong to an attacker and resolve to this host. */
static bool is_loopback(const char *host)
{
    return is_address(host) && (strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0);
}

/* Strips port and brackets from "[::1]:80" or "name:80"; false when the text is no authority. */
static bool host_only(struct slice authority, char host[HTTP_HOST_MAX])
{
    bool bracket = authority.len > 0 && authority.data[0] == '[';
    struct slice text = bracket ? slice_from(authority, 1) : authority;
    size_t len = slice_find(text, bracket ? ']' : ':');

    if (len == 0 || len >= HTTP_HOST_MAX || (bracket && len == text.len)) {
        return false;
    }
    memcpy(host, text.data, len);
    host[len] = '\0';
    return strlen(host) == len;
}

void http_names_init(struct http_names *names, const struct config_clients *limits)
{
    names->limits = limits;
    names->loopback = is_loopback(limits->client_address);
    if (!host_only(slice_str(limits->advertise_client), names->advertised)) {
        names->advertised[0] = '\0';
    }
}

bool http_host_allowed(const struct http_names *names, struct slice authority)
{
    char host[HTTP_HOST_MAX];

    if (!host_only(authority, host)) {
        return false;
    }
    return strcasecmp(host, "localhost") == 0 || is_loopback(host) ||
           strcasecmp(host, names->limits->client_address) == 0 ||
           strcasecmp(host, names->advertised) == 0 || (!names->loopback && is_address(host)) ||
           http_list_has(slice_str(names->limits->allowed_hosts), host) ||
           http_list_has(slice_str(names->limits->allowed_hosts), "*");
}

bool http_origin_listed(const struct http_names *names, struct slice origin)
{
    struct slice list = slice_str(names->limits->allowed_origins);
    struct slice element;

    while (http_list_next(&list, &element)) {
        if (slice_eq(element, origin) || slice_eq(element, slice_str("*"))) {
            return true;
        }
    }
    return false;
}

/* Returns host and port of an origin; false when the origin has none. */
static bool origin_authority(struct slice origin, struct slice *ret_authority)
{
    size_t scheme_len = slice_starts_with(origin, slice_str("http://"))    ? strlen("http://")
                        : slice_starts_with(origin, slice_str("https://")) ? strlen("https://")
                                                                           : origin.len;

    *ret_authority = slice_from(origin, scheme_len);
    return ret_authority->len > 0;
}

/* Returns the part from the last colon on, such as ":9998", or empty. */
static struct slice port_part(struct slice authority)
{
    const uint8_t *colon = authority.len > 0 ? memrchr(authority.data, ':', authority.len) : NULL;

    return colon ? slice_make(colon, (size_t)(authority.data + authority.len - colon))
                 : slice_make(NULL, 0);
}

static bool is_same_place(struct slice a, struct slice b)
{
    char host_a[HTTP_HOST_MAX];
    char host_b[HTTP_HOST_MAX];

    if (!host_only(a, host_a) || !host_only(b, host_b) || !slice_eq(port_part(a), port_part(b))) {
        return false;
    }
    return strcasecmp(host_a, host_b) == 0 ||
           ((is_loopback(host_a) || strcasecmp(host_a, "localhost") == 0) &&
            (is_loopback(host_b) || strcasecmp(host_b, "localhost") == 0));
}

bool http_origin_is_replica(struct slice clients, struct slice origin)
{
    struct slice authority;

    if (!origin_authority(origin, &authority)) {
        return false;
    }
    while (clients.len > 0) {
        if (is_same_place(slice_cut(&clients, ' '), authority)) {
            return true;
        }
    }
    return false;
}

bool http_origin_allowed(const struct http *http, struct slice origin)
{
    struct buf clients;

    if (http_origin_listed(&http->names, origin)) {
        return true;
    }
    buf_init(&clients, HTTP_CLIENTS_MAX);
    gate_append_clients(http->gate, &clients);

    bool is_replica = http_origin_is_replica(buf_slice(&clients), origin);

    buf_release(&clients);
    return is_replica;
}

bool http_origin_is_host(struct slice origin, struct slice host)
{
    struct slice authority;

    return host.len > 0 && origin_authority(origin, &authority) &&
           http_equals_nocase(authority, host);
}
