/*
 * Redacts secrets in request targets, for the access log and problem objects. The secret of a
 * session may be the last segment at /sessions/v1, or the value of session=, or stand anywhere else
 * by a client's mistake.
 *
 */
#include "base/check.h"
#include "http/http_int.h"

static const char mask[] = "*";

/* Returns the byte at `*pos`, which may be escaped, and moves past it. */
static uint8_t next_byte(struct slice raw, size_t *pos)
{
    int escaped = raw.data[*pos] == '%' ? http_escape_at(raw, *pos) : -1;
    uint8_t byte = raw.data[*pos];

    *pos += escaped < 0 ? 1 : 3;
    return escaped < 0 ? byte : (uint8_t)escaped;
}

/* The end of the UUID that starts at `pos`, or 0 if there is none. */
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

static void put_redacted(struct slice raw, struct buf *out)
{
    size_t pos = 0;

    while (pos < raw.len) {
        size_t end = uuid_end(raw, pos);

        if (end > 0) {
            buf_append_str(out, mask);
            pos = end;
        } else {
            buf_append_byte(out, raw.data[pos++]);
        }
    }
}

/* "name=value"; the value of session= is redacted even if it is no UUID. */
static void put_param(struct slice raw, struct buf *out)
{
    static const char session[] = "session=";
    size_t len = sizeof(session) - 1;

    if (raw.len > len && strncasecmp((const char *)raw.data, session, len) == 0) {
        buf_append_str(out, session);
        buf_append_str(out, mask);
    } else {
        put_redacted(raw, out);
    }
}

static void put_query(struct slice raw, struct buf *out)
{
    size_t pos = 0;

    while (pos < raw.len) {
        const uint8_t *end = memchr(raw.data + pos, '&', raw.len - pos);
        size_t len = end ? (size_t)(end - raw.data) - pos : raw.len - pos;

        put_param(slice_make(raw.data + pos, len), out);
        pos += len;
        if (end) {
            buf_append_byte(out, '&');
            pos++;
        }
    }
}

void http_redact_path(const struct http_route *route, struct slice path, struct buf *out)
{
    if (!route) {
        put_redacted(path, out); /* The meaning of the path is unknown. */
    } else if (route->has_id && path.len > route->fixed_len + 1) {
        buf_append_str(out, route->name);
    } else {
        buf_append_slice(out, path);
    }
}

void http_redact_target(const struct http_route *route, struct slice raw, struct buf *out)
{
    const uint8_t *mark = raw.len > 0 ? memchr(raw.data, '?', raw.len) : NULL;
    size_t path_len = mark ? (size_t)(mark - raw.data) : raw.len;

    http_redact_path(route, slice_make(raw.data, path_len), out);
    if (mark) {
        buf_append_byte(out, '?');
        put_query(slice_make(mark + 1, raw.len - path_len - 1), out);
    }
}
