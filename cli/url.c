#include "cli/url.h"

#include "base/check.h"
#include "base/utf8.h"
#include "cli/words.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define PLAIN      "http://"
#define SECURE     "https://"
#define PORT       "9998"
#define PATH_PLAIN "/!$'()*,;:@"

enum {
    PORT_DIGITS = 5
};

/* ---- Endpoints ---- */

/* Returns the place of the colon before a port, which is behind the bracket of an IPv6 address; the
 * length when there is no port. */
static size_t find_port(struct slice host)
{
    const uint8_t *bracket = host.len > 0 ? memrchr(host.data, ']', host.len) : NULL;
    size_t from = bracket ? (size_t)(bracket - host.data) : 0;

    return from + slice_find(slice_from(host, from), ':');
}

static bool is_digits(struct slice text)
{
    return text.len > 0 && strspn((const char *)text.data, "0123456789") >= text.len;
}

/* Whether an endpoint is valid. A number alone is refused: it is a port without its host. */
static bool is_sound(struct slice text)
{
    struct slice host = slice_make(text.data, find_port(text));
    struct slice port = slice_from(text, host.len);
    unsigned long number = 1; /* Without a port the default one is used. */

    if (port.len > 0) {
        port = slice_from(port, 1);
        number = is_digits(port) && port.len <= PORT_DIGITS
                     ? strtoul((const char *)port.data, NULL, 10)
                     : 0;
    }
    return host.len > 0 && !is_digits(host) && number > 0 && number <= UINT16_MAX;
}

/* Takes the scheme off an endpoint. Returns it; without one, "http://". */
static const char *cut_scheme(struct slice *text)
{
    static const char *const schemes[] = {PLAIN, SECURE};

    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        if (slice_starts_with(*text, slice_str(schemes[i]))) {
            *text = slice_from(*text, strlen(schemes[i]));
            return schemes[i];
        }
    }
    return PLAIN;
}

bool url_is_secure(const char *url)
{
    return strncmp(url, SECURE, strlen(SECURE)) == 0;
}

bool url_same_place(const char *url, const char *other)
{
    struct slice one = slice_str(url);
    struct slice two = slice_str(other);

    (void)cut_scheme(&one);
    (void)cut_scheme(&two);
    return slice_eq(one, two);
}

static bool add(struct endpoints *endpoints, struct slice text)
{
    char *url = endpoints->urls[endpoints->count];
    const char *scheme = cut_scheme(&text);
    int put = 0;

    while (text.len > 0 && text.data[text.len - 1] == '/') {
        text.len--;
    }
    if (endpoints->count == ENDPOINTS_MAX || slice_find(text, '/') < text.len ||
        slice_find(text, '@') < text.len || slice_find(text, ' ') < text.len || !is_sound(text)) {
        return false;
    }
    put = snprintf(url, ENDPOINT_MAX, "%s%.*s%s", scheme, (int)text.len, (const char *)text.data,
                   find_port(text) < text.len ? "" : ":" PORT);
    endpoints->count += put < ENDPOINT_MAX ? 1 : 0;
    return put < ENDPOINT_MAX;
}

bool endpoints_parse(struct endpoints *endpoints, const char *list, const char **ret_fault)
{
    struct slice rest = slice_str(list);
    bool more = true;
    bool sound = true;

    *endpoints = (struct endpoints){.count = 0};
    while (more && sound) {
        more = slice_find(rest, ',') < rest.len;

        struct slice text = words_trim(slice_cut(&rest, ','));

        *ret_fault = (const char *)text.data;
        sound = add(endpoints, text);
    }
    return sound;
}

void endpoints_turn(struct endpoints *endpoints)
{
    ASSERT(endpoints->count > 0);
    endpoints->current = (endpoints->current + 1) % endpoints->count;
}

/* ---- Targets and paths ---- */

/* Appends text, escaped except for letters, digits, "-._~" and the characters in `plain`. */
static void escape(struct buf *url, struct slice text, const char *plain)
{
    for (size_t i = 0; i < text.len; i++) {
        uint8_t byte = text.data[i];
        bool alnum = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
                     (byte >= '0' && byte <= '9');

        if (alnum || (byte != 0 && (strchr("-._~", byte) || strchr(plain, byte)))) {
            buf_append_byte(url, byte);
        } else {
            buf_printf(url, "%%%02X", byte);
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

    buf_printf(url, "%c%s=", first ? '?' : '&', name);
    escape(url, slice_str(value), "/:");
}

const char *url_number(char text[URL_NUMBER_MAX], int64_t value)
{
    (void)snprintf(text, URL_NUMBER_MAX, "%" PRId64, value);
    return text;
}

/* Appends one name to a path; ".." removes the last name. */
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
