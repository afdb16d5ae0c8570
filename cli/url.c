#include "cli/url.h"

#include "base/check.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCHEME     "http://"
#define PATH_PLAIN "/!$'()*,;:@"

enum {
    PORT_DEFAULT = 9998,
    PORT_DIGITS = 5
};

/* ---- Endpoints ---- */

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

/* ---- Targets and paths ---- */

/* Appends text, escaped but for what `plain` has besides letters, digits and "-._~". */
static void escape(struct buf *url, struct slice text, const char *plain)
{
    static const char digits[] = "0123456789ABCDEF";

    for (size_t i = 0; i < text.len; i++) {
        uint8_t byte = text.data[i];
        bool alnum = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
                     (byte >= '0' && byte <= '9');

        if (alnum || (byte != 0 && (strchr("-._~", byte) || strchr(plain, byte)))) {
            buf_append_byte(url, byte);
        } else {
            buf_append_byte(url, '%');
            buf_append_byte(url, (uint8_t)digits[byte >> 4]);
            buf_append_byte(url, (uint8_t)digits[byte & 15]);
        }
    }
}

void url_path(struct buf *url, const char *path)
{
    escape(url, slice_str(path), PATH_PLAIN);
}

void url_param(struct buf *url, const char *name, const char *value)
{
    bool first = url->len == 0 || !memchr(url->data, '?', url->len);

    buf_append_byte(url, first ? '?' : '&');
    buf_append_str(url, name);
    buf_append_byte(url, '=');
    escape(url, slice_str(value), "/:");
}

const char *url_number(char text[URL_NUMBER_MAX], int64_t value)
{
    (void)snprintf(text, URL_NUMBER_MAX, "%" PRId64, value);
    return text;
}

/* One name of a path; ".." leads up. */
static void step(struct buf *path, const char *name, size_t len)
{
    bool stays = len == 0 || (len == 1 && *name == '.');

    if (len == 2 && strncmp(name, "..", 2) == 0) {
        const uint8_t *slash = path->len > 0 ? memrchr(path->data, '/', path->len) : NULL;

        path->len = slash ? (size_t)(slash - path->data) : 0;
    } else if (!stays) {
        buf_append_byte(path, '/');
        buf_append(path, name, len);
    }
}

void url_resolve(const char *cwd, const char *text, struct buf *path)
{
    const char *parts[] = {*text == '/' ? "" : cwd, text};

    buf_clear(path);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        for (const char *at = parts[i]; *at;) {
            size_t len = strcspn(at, "/");

            step(path, at, len);
            at += len + (at[len] ? 1 : 0);
        }
    }
    if (path->len == 0 || (*text && text[strlen(text) - 1] == '/')) {
        buf_append_byte(path, '/');
    }
}

const char *url_split(const char *path, struct buf *parent)
{
    const char *slash = strrchr(path, '/');

    ASSERT(slash);
    buf_clear(parent);
    buf_append(parent, path, slash == path ? 1 : (size_t)(slash - path));
    return slash + 1;
}

static const char *name_fault(struct slice name)
{
    if (name.len == 0) {
        return "has an empty name between two slashes, or ends in one";
    }
    if (slice_eq(name, slice_str(".")) || slice_eq(name, slice_str(".."))) {
        return "has a name \".\" or \"..\"; write paths in full";
    }
    return NULL;
}

const char *url_path_fault(const char *path, bool open)
{
    if (path[0] != '/') {
        return "does not begin with a slash";
    }
    if (!utf8_valid(slice_str(path))) {
        return "is not valid UTF-8";
    }
    if (path[1] == '\0') {
        return NULL;
    }
    for (const char *at = path; *at == '/';) {
        size_t len = strcspn(at + 1, "/");
        bool last = at[1 + len] == '\0';
        const char *fault = open && last ? NULL : name_fault(slice_make(at + 1, len));

        if (fault) {
            return fault;
        }
        at += 1 + len;
    }
    return NULL;
}
