/*
 * The host names that this replica accepts, and the web pages that may use it. The port in Host is
 * ignored: DNS rebinding attacks use names, and port mappings would otherwise be refused.
 *
 */
#include "base/mem.h"
#include "http/http_int.h"

#include <arpa/inet.h>
#include <stdio.h>

enum {
    HOST_TEXT_MAX = 256
};

struct http_names {
    char *hosts; /* Copies of the configured lists. */
    char *origins;
    char client_address[HOST_TEXT_MAX];
    char advertised[HOST_TEXT_MAX]; /* Without its port; "": none. */
    bool loopback;                  /* Bound to loopback only. */
};

static bool is_address(const char *host)
{
    uint8_t bytes[sizeof(struct in6_addr)];

    return inet_pton(AF_INET, host, bytes) == 1 || inet_pton(AF_INET6, host, bytes) == 1;
}

/* Only an address counts: a name that starts like one may belong to an attacker and resolve to this
 * host. */
static bool is_loopback(const char *host)
{
    return is_address(host) && (strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0);
}

/* Strips port and brackets from "[::1]:80" or "name:80"; false when it is no authority. */
static bool host_only(struct slice authority, char host[HOST_TEXT_MAX])
{
    const uint8_t *start = authority.data;
    size_t len = authority.len;
    bool bracket = len > 0 && start[0] == '[';
    const uint8_t *end = len > 0 ? memchr(start, bracket ? ']' : ':', len) : NULL;

    if (bracket && !end) {
        return false;
    }
    start += bracket;
    len = end ? (size_t)(end - start) : len;
    if (len == 0 || len >= HOST_TEXT_MAX) {
        return false;
    }
    memcpy(host, start, len);
    host[len] = '\0';
    return strlen(host) == len;
}

struct http_names *http_names_new(const struct config_clients *limits)
{
    struct http_names *names = mem_zalloc(1, sizeof(*names));

    names->hosts = mem_strdup(limits->allowed_hosts);
    names->origins = mem_strdup(limits->allowed_origins);
    (void)snprintf(names->client_address, sizeof(names->client_address), "%s",
                   limits->client_address);
    names->loopback = is_loopback(names->client_address);
    if (!host_only(slice_str(limits->advertise_client), names->advertised)) {
        names->advertised[0] = '\0';
    }
    return names;
}

void http_names_free(struct http_names *names)
{
    mem_free(names->hosts);
    mem_free(names->origins);
    mem_free(names);
}

bool http_host_allowed(const struct http_names *names, struct slice authority)
{
    char host[HOST_TEXT_MAX];

    if (!host_only(authority, host)) {
        return false;
    }
    if (strcasecmp(host, "localhost") == 0 || is_loopback(host) ||
        strcasecmp(host, names->client_address) == 0 || strcasecmp(host, names->advertised) == 0) {
        return true;
    }
    if (!names->loopback && is_address(host)) {
        return true;
    }
    return http_list_has(slice_str(names->hosts), host) ||
           http_list_has(slice_str(names->hosts), "*");
}

bool http_origin_listed(const struct http_names *names, struct slice origin)
{
    struct slice list = slice_str(names->origins);
    struct slice element;

    while (http_list_next(&list, &element)) {
        if (slice_eq(element, origin) || slice_eq(element, slice_str("*"))) {
            return true;
        }
    }
    return false;
}

/* Host and port of an origin; false when it has none. */
static bool origin_authority(struct slice origin, struct slice *ret_authority)
{
    static const char *const schemes[] = {"http://", "https://"};

    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        size_t len = strlen(schemes[i]);

        if (slice_starts_with(origin, slice_str(schemes[i]))) {
            *ret_authority = slice_make(origin.data + len, origin.len - len);
            return origin.len > len;
        }
    }
    return false;
}

/* From the last colon on: ":9998". */
static struct slice port_part(struct slice authority)
{
    const uint8_t *colon = authority.len > 0 ? memrchr(authority.data, ':', authority.len) : NULL;

    return colon ? slice_make(colon, (size_t)(authority.data + authority.len - colon))
                 : slice_make(NULL, 0);
}

static bool is_same_place(struct slice a, struct slice b)
{
    char host_a[HOST_TEXT_MAX];
    char host_b[HOST_TEXT_MAX];

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
        const uint8_t *blank = memchr(clients.data, ' ', clients.len);
        size_t len = blank ? (size_t)(blank - clients.data) : clients.len;

        if (is_same_place(slice_make(clients.data, len), authority)) {
            return true;
        }
        len += blank ? 1 : 0;
        clients = slice_make(clients.data + len, clients.len - len);
    }
    return false;
}

bool http_origin_allowed(const struct http *http, struct slice origin)
{
    struct buf clients;
    bool allowed = http_origin_listed(http->names, origin);

    if (!allowed) {
        buf_init(&clients, HTTP_CLIENTS_MAX);
        gate_append_clients(http->gate, &clients);
        allowed = http_origin_is_replica(buf_slice(&clients), origin);
        buf_release(&clients);
    }
    return allowed;
}

bool http_origin_is_host(struct slice origin, struct slice host)
{
    struct slice authority;

    return host.len > 0 && origin_authority(origin, &authority) &&
           http_equals_nocase(authority, host);
}
