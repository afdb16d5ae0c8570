#include "http/target.h"

#include "base/check.h"
#include "base/utf8.h"

int http_hex_digit(uint8_t byte)
{
    if (byte >= '0' && byte <= '9') {
        return byte - '0';
    }
    if (byte >= 'a' && byte <= 'f') {
        return byte - 'a' + 10;
    }
    return byte >= 'A' && byte <= 'F' ? byte - 'A' + 10 : -1;
}

static enum err refuse(const char **ret_why, const char *why)
{
    *ret_why = why;
    return ERR_BAD_ARGUMENTS;
}

int http_escape_at(struct slice text, size_t pos)
{
    if (pos + 2 >= text.len) {
        return -1;
    }

    int high = http_hex_digit(text.data[pos + 1]);
    int low = http_hex_digit(text.data[pos + 2]);

    return high < 0 || low < 0 ? -1 : high << 4 | low;
}

/* Appends the decoded `text` to `decoded`; it is never longer than the text. */
static enum err decode(struct slice text, bool plus_is_blank, struct buf *decoded,
                       struct slice *ret_text, const char **ret_why)
{
    uint8_t *to = buf_reserve(decoded, text.len);
    size_t len = 0;
    bool ascii = true;

    ASSERT(to);
    for (size_t pos = 0; pos < text.len; pos++) {
        int byte = text.data[pos];

        if (byte == '%') {
            byte = http_escape_at(text, pos);
            pos += 2;
        } else if (byte == '+' && plus_is_blank) {
            byte = ' ';
        }
        if (byte < 0) {
            return refuse(ret_why, "the URL has a malformed percent escape");
        }
        if (byte < 0x20 || byte == 0x7f) {
            return refuse(ret_why, "the URL has a control character");
        }
        ascii = ascii && byte < 0x80;
        to[len++] = (uint8_t)byte;
    }
    *ret_text = slice_make(to, len);
    decoded->len += len;
    if (!ascii && !utf8_valid(*ret_text)) {
        return refuse(ret_why, "the URL is not valid UTF-8");
    }
    return ERR_OK;
}

static struct slice cut(struct slice text, size_t start, size_t end)
{
    return slice_make(text.data + start, end - start);
}

static size_t find_byte(struct slice text, size_t from, uint8_t byte)
{
    const uint8_t *at = from < text.len ? memchr(text.data + from, byte, text.len - from) : NULL;

    return at ? (size_t)(at - text.data) : text.len;
}

static enum err parse_param(struct slice text, struct buf *decoded, struct http_target *target,
                            const char **ret_why)
{
    size_t equals = find_byte(text, 0, '=');
    size_t value_at = equals < text.len ? equals + 1 : text.len;
    struct http_param param;

    if (target->param_count == HTTP_PARAMS_MAX) {
        return refuse(ret_why, "the URL has too many query parameters");
    }

    enum err err = decode(cut(text, 0, equals), true, decoded, &param.name, ret_why);

    if (err == ERR_OK) {
        err = decode(cut(text, value_at, text.len), true, decoded, &param.value, ret_why);
    }
    if (err == ERR_OK) {
        target->params[target->param_count++] = param;
    }
    return err;
}

static enum err parse_query(struct slice query, struct buf *decoded, struct http_target *target,
                            const char **ret_why)
{
    size_t pos = 0;

    while (pos < query.len) {
        size_t end = find_byte(query, pos, '&');

        if (end > pos) {
            enum err err = parse_param(cut(query, pos, end), decoded, target, ret_why);

            if (err != ERR_OK) {
                return err;
            }
        }
        pos = end + 1;
    }
    return ERR_OK;
}

/* "http://host:port/path", as sent to a proxy. */
static bool split_absolute(struct slice *text, struct slice *ret_authority)
{
    struct slice http = slice_str("http://");

    if (text->len < http.len || strncasecmp((const char *)text->data, "http://", http.len) != 0) {
        return false;
    }

    size_t slash = find_byte(*text, http.len, '/');

    *ret_authority = cut(*text, http.len, slash);
    *text = cut(*text, slash, text->len);
    return ret_authority->len > 0 && text->len > 0;
}

enum err http_target_parse(struct slice raw, struct buf *decoded, struct http_target *ret_target,
                           const char **ret_why)
{
    struct slice text = raw;

    *ret_target = (struct http_target){.path = slice_make(NULL, 0)};
    buf_clear(decoded);
    /* Room for all of it and for one joined name, so that slices stay valid. */
    if (!buf_reserve(decoded, 2 * raw.len + 2)) {
        return refuse(ret_why, "the URL is too long");
    }
    if (slice_eq(raw, slice_str("*"))) {
        ret_target->is_asterisk = true;
        return ERR_OK;
    }
    if (raw.len == 0 || (raw.data[0] != '/' && !split_absolute(&text, &ret_target->authority))) {
        return refuse(ret_why, "the request target must start with a slash");
    }
    if (memchr(text.data, '#', text.len)) {
        return refuse(ret_why, "the request target has a fragment");
    }

    size_t mark = find_byte(text, 0, '?');
    enum err err = decode(cut(text, 0, mark), false, decoded, &ret_target->path, ret_why);

    if (err != ERR_OK || mark == text.len) {
        return err;
    }
    return parse_query(cut(text, mark + 1, text.len), decoded, ret_target, ret_why);
}

struct slice http_target_join(struct buf *decoded, struct slice parent, struct slice name)
{
    bool root = parent.len == 1;
    size_t len = parent.len + name.len + (root ? 0 : 1);

    ASSERT(decoded->len + len <= decoded->cap); /* Growing would move the other slices. */

    uint8_t *to = buf_reserve(decoded, len);

    buf_append_slice(decoded, parent);
    if (!root) {
        buf_append_byte(decoded, '/');
    }
    buf_append_slice(decoded, name);
    return slice_make(to, len);
}

static bool stays_plain(uint8_t byte)
{
    bool alnum = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
                 (byte >= '0' && byte <= '9');

    return alnum || (byte != '\0' && strchr("-._~/!$&'()*+,;=:@", byte) != NULL);
}

void http_target_encode(struct buf *out, struct slice path)
{
    static const char digits[] = "0123456789ABCDEF";

    for (size_t i = 0; i < path.len; i++) {
        uint8_t byte = path.data[i];

        if (stays_plain(byte)) {
            buf_append_byte(out, byte);
        } else {
            buf_append_byte(out, '%');
            buf_append_byte(out, (uint8_t)digits[byte >> 4]);
            buf_append_byte(out, (uint8_t)digits[byte & 15]);
        }
    }
}
