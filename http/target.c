#include "http/target.h"

#include "base/check.h"
#include "base/utf8.h"

#include <ctype.h>

static enum err refuse(const char **ret_why, const char *why)
{
    *ret_why = why;
    return ERR_BAD_ARGUMENTS;
}

/* Returns the value of the escape %XX at `text[pos]`, or -1. */
static int escape_at(struct slice text, size_t pos)
{
    if (pos + 2 >= text.len) {
        return -1;
    }

    int high = hex_digit(text.data[pos + 1]);
    int low = hex_digit(text.data[pos + 2]);

    return high < 0 || low < 0 ? -1 : high << 4 | low;
}

/* Appends the decoded `text` to `decoded`. The decoded text is never longer than `text`. */
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
            byte = escape_at(text, pos);
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

static enum err parse_param(struct slice text, struct buf *decoded, struct http_target *target,
                            const char **ret_why)
{
    struct slice name = slice_cut(&text, '=');
    struct http_param param;

    if (target->param_count == HTTP_PARAMS_MAX) {
        return refuse(ret_why, "the URL has more than 16 query parameters");
    }

    enum err err = decode(name, true, decoded, &param.name, ret_why);

    if (err == ERR_OK) {
        err = decode(text, true, decoded, &param.value, ret_why);
    }
    if (err == ERR_OK) {
        target->params[target->param_count++] = param;
    }
    return err;
}

static enum err parse_query(struct slice query, struct buf *decoded, struct http_target *target,
                            const char **ret_why)
{
    enum err err = ERR_OK;

    while (query.len > 0 && err == ERR_OK) {
        struct slice param = slice_cut(&query, '&');

        err = param.len > 0 ? parse_param(param, decoded, target, ret_why) : ERR_OK;
    }
    return err;
}

/* Splits "http://host:port/path", as sent to a proxy; false when the text has another form. */
static bool split_absolute(struct slice *text, struct slice *ret_authority)
{
    struct slice http = slice_str("http://");

    if (text->len < http.len || strncasecmp((const char *)text->data, "http://", http.len) != 0) {
        return false;
    }

    struct slice rest = slice_from(*text, http.len);
    size_t slash = slice_find(rest, '/');

    *ret_authority = slice_make(rest.data, slash);
    *text = slice_from(rest, slash);
    return ret_authority->len > 0 && text->len > 0;
}

/* Reserves room for the parameters, the decoded target and one result of http_target_join, so that
 * the buffer does not move and the slices of the target stay valid. False: too much. */
static bool reserve(struct buf *decoded, struct slice raw, struct http_target *target)
{
    size_t query = slice_find(raw, '?');
    size_t count = query < raw.len ? 1 : 0;

    for (size_t i = query; i < raw.len && count < HTTP_PARAMS_MAX; i++) {
        count += raw.data[i] == '&';
    }

    size_t params_len = count * sizeof(*target->params);
    uint8_t *params = buf_reserve(decoded, params_len + 2 * raw.len + 2);

    if (!params) {
        return false;
    }
    target->params = (struct http_param *)(void *)params; /* The start of an allocation. */
    decoded->len = params_len;
    return true;
}

enum err http_target_parse(struct slice raw, struct buf *decoded, struct http_target *ret_target,
                           const char **ret_why)
{
    struct slice text = raw;

    *ret_target = (struct http_target){.path = slice_make(NULL, 0)};
    buf_clear(decoded);
    if (!reserve(decoded, raw, ret_target)) {
        return refuse(ret_why, "the URL is too long for maxHeadBytes");
    }
    if (slice_eq(raw, slice_str("*"))) {
        ret_target->is_asterisk = true;
        return ERR_OK;
    }
    if (raw.len == 0 || (raw.data[0] != '/' && !split_absolute(&text, &ret_target->authority))) {
        return refuse(ret_why, "the request target must start with a slash");
    }
    if (memchr(text.data, '#', text.len)) {
        return refuse(ret_why, "the request target must not have a fragment (# and what follows)");
    }

    struct slice path = slice_cut(&text, '?');
    enum err err = decode(path, false, decoded, &ret_target->path, ret_why);

    return err == ERR_OK ? parse_query(text, decoded, ret_target, ret_why) : err;
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
    return isalnum(byte) || (byte != '\0' && strchr("-._~/!$&'()*+,;=:@", byte) != NULL);
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

/* ---- Redaction ---- */

#define MASK    "*"
#define SESSION "session="

/* Returns the byte at `*pos`, which may be escaped, and moves past it. */
static uint8_t next_byte(struct slice raw, size_t *pos)
{
    int escaped = raw.data[*pos] == '%' ? escape_at(raw, *pos) : -1;
    uint8_t byte = raw.data[*pos];

    *pos += escaped < 0 ? 1 : 3;
    return escaped < 0 ? byte : (uint8_t)escaped;
}

/* Returns the end of the UUID that starts at `pos`, or 0 if there is none. */
static size_t uuid_end(struct slice raw, size_t pos)
{
    uint8_t text[OP_SECRET_LEN];

    for (size_t i = 0; i < sizeof(text); i++) {
        if (pos >= raw.len) {
            return 0;
        }
        text[i] = next_byte(raw, &pos);
    }
    return op_is_uuid(slice_make(text, sizeof(text))) ? pos : 0;
}

/* Returns the end of "session=value" if this parameter, with a value, begins at `pos` of a query;
 * else 0. */
static size_t session_end(struct slice raw, size_t pos)
{
    struct slice rest = slice_from(raw, pos);
    size_t len = slice_find(rest, '&');
    bool begins = pos == 0 || raw.data[pos - 1] == '&';

    return begins && len > strlen(SESSION) &&
                   strncasecmp((const char *)rest.data, SESSION, strlen(SESSION)) == 0
               ? pos + len
               : 0;
}

/* Appends `raw` with each UUID redacted; in a query also the value of session=, even if the value
 * is no UUID. */
static void put_redacted(struct slice raw, bool query, struct buf *out)
{
    size_t pos = 0;

    while (pos < raw.len) {
        size_t session = query ? session_end(raw, pos) : 0;
        size_t end = session > 0 ? session : uuid_end(raw, pos);

        if (end > 0) {
            buf_append_str(out, session > 0 ? SESSION MASK : MASK);
            pos = end;
        } else {
            buf_append_byte(out, raw.data[pos++]);
        }
    }
}

void http_redact_path(const struct http_route *route, struct slice path, struct buf *out)
{
    if (!route) {
        put_redacted(path, false, out); /* Any UUID in the path may be a secret. */
    } else if (route->has_id && !route->has_member && path.len > route->fixed_len + 1) {
        buf_append_str(out, route->name);
    } else {
        buf_append_slice(out, path);
    }
}

void http_redact_target(const struct http_route *route, struct slice raw, struct buf *out)
{
    size_t path_len = slice_find(raw, '?');

    http_redact_path(route, slice_make(raw.data, path_len), out);
    if (path_len < raw.len) {
        buf_append_byte(out, '?');
        put_redacted(slice_from(raw, path_len + 1), true, out);
    }
}
