#include "cli/url.h"

#include "base/check.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <string.h>

#define PATH_PLAIN "/!$'()*,;:@"

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

void url_init(struct buf *url, const char *resource, const char *path)
{
    buf_init(url, URL_MAX);
    buf_append_str(url, resource);
    if (path) {
        escape(url, slice_str(path), PATH_PLAIN);
    }
}

void url_param(struct buf *url, const char *name, const char *value)
{
    bool first = url->len == 0 || !memchr(url->data, '?', url->len);

    buf_append_byte(url, first ? '?' : '&');
    buf_append_str(url, name);
    buf_append_byte(url, '=');
    escape(url, slice_str(value ? value : "true"), "/:");
}

void url_param_number(struct buf *url, const char *name, int64_t value)
{
    struct buf text;

    buf_init(&text, 32);
    buf_printf(&text, "%" PRId64, value);
    url_param(url, name, buf_cstr(&text));
    buf_release(&text);
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
