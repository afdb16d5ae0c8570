#include "cli/endpoints.h"

#include "base/check.h"

#include <stdio.h>
#include <string.h>

#define SCHEME "http://"

enum {
    PORT_DEFAULT = 9998
};

/* The colon before a port: behind the bracket of an address of IPv6. */
static bool has_port(const char *host, size_t len)
{
    const char *bracket = memrchr(host, ']', len);
    size_t from = bracket ? (size_t)(bracket - host) : 0;

    return memchr(host + from, ':', len - from) != NULL;
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
        memchr(text, '@', len) || memchr(text, ' ', len)) {
        return false;
    }
    put = has_port(text, len)
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
