#include "cli/endpoints.h"

#include "base/check.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCHEME "http://"

enum {
    PORT_DEFAULT = 9998,
    PORT_DIGITS = 5
};

/* The colon before a port: behind the bracket of an address of IPv6. NULL: there is none. */
static const char *find_port(const char *host, size_t len)
{
    const char *bracket = memrchr(host, ']', len);
    size_t from = bracket ? (size_t)(bracket - host) : 0;

    return memchr(host + from, ':', len - from);
}

static bool is_digits(const char *text, size_t len)
{
    return len > 0 && strspn(text, "0123456789") >= len;
}

/* A host that is a number is a port whose host was forgotten. */
static bool is_sound(const char *text, size_t len)
{
    const char *colon = find_port(text, len);
    size_t host_len = colon ? (size_t)(colon - text) : len;
    size_t port_len = colon ? len - host_len - 1 : 0;
    unsigned long port = PORT_DEFAULT;

    if (colon) {
        port = is_digits(colon + 1, port_len) && port_len <= PORT_DIGITS
                   ? strtoul(colon + 1, NULL, 10)
                   : 0;
    }
    return host_len > 0 && !is_digits(text, host_len) && port > 0 && port <= UINT16_MAX;
}

static bool add(struct endpoints *endpoints, const char *text, size_t len)
{
    char *url = endpoints->urls[endpoints->count];
    int put = 0;

    if (len > strlen(SCHEME) && strncmp(text, SCHEME, strlen(SCHEME)) == 0) {
        text += strlen(SCHEME);
        len -= strlen(SCHEME);
    }
    while (len > 0 && text[len - 1] == '/') {
        len--;
    }
    if (len == 0 || endpoints->count == ENDPOINTS_MAX || memchr(text, '/', len) ||
        memchr(text, '@', len) || memchr(text, ' ', len) || !is_sound(text, len)) {
        return false;
    }
    put = find_port(text, len)
              ? snprintf(url, ENDPOINT_MAX, SCHEME "%.*s", (int)len, text)
              : snprintf(url, ENDPOINT_MAX, SCHEME "%.*s:%d", (int)len, text, (int)PORT_DEFAULT);
    endpoints->count += put < ENDPOINT_MAX ? 1 : 0;
    return put < ENDPOINT_MAX;
}

bool endpoints_parse(struct endpoints *endpoints, const char *list, const char **ret_fault)
{
    *endpoints = (struct endpoints){.count = 0};
    for (const char *at = list;;) {
        size_t len = 0;

        at += strspn(at, " ");
        len = strcspn(at, ",");
        *ret_fault = at;

        size_t used = len;

        while (used > 0 && at[used - 1] == ' ') {
            used--;
        }
        if (!add(endpoints, at, used)) {
            return false;
        }
        if (at[len] == '\0') {
            return true;
        }
        at += len + 1;
    }
}

void endpoints_turn(struct endpoints *endpoints)
{
    ASSERT(endpoints->count > 0);
    endpoints->current = (endpoints->current + 1) % endpoints->count;
}
