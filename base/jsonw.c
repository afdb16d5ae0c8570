#include "base/jsonw.h"

#include "base/base64.h"
#include "base/check.h"
#include "base/jsonesc.h"
#include "base/utf8.h"

enum {
    DIGITS_MAX = 24
};

void jsonw_init(struct jsonw *json, struct buf *out)
{
    *json = (struct jsonw){.out = out};
}

void jsonw_init_text(struct jsonw *json, struct text *text)
{
    *json = (struct jsonw){.out = &text->own, .text = text};
}

/* Writes the comma that is due before an item. At depth 0 the caller separates the items. */
static void begin_item(struct jsonw *json)
{
    if (json->after_key) {
        json->after_key = false;
        return;
    }
    if (json->depth == 0) {
        return;
    }

    uint32_t bit = UINT32_C(1) << (json->depth - 1);

    if (json->has_items & bit) {
        buf_append_byte(json->out, ',');
    }
    json->has_items |= bit;
}

static void open_scope(struct jsonw *json, uint8_t bracket)
{
    ASSERT(json->depth < JSONW_DEPTH_MAX);

    begin_item(json);
    buf_append_byte(json->out, bracket);
    json->has_items &= ~(UINT32_C(1) << json->depth);
    json->depth++;
}

static void close_scope(struct jsonw *json, uint8_t bracket)
{
    ASSERT(json->depth > 0 && !json->after_key);

    json->depth--;
    buf_append_byte(json->out, bracket);
}

void jsonw_object(struct jsonw *json)
{
    open_scope(json, '{');
}

void jsonw_object_end(struct jsonw *json)
{
    close_scope(json, '}');
}

void jsonw_array(struct jsonw *json)
{
    open_scope(json, '[');
}

void jsonw_array_end(struct jsonw *json)
{
    close_scope(json, ']');
}

void jsonw_key(struct jsonw *json, const char *key)
{
    struct slice name = slice_str(key);

    ASSERT(json->depth > 0 && !json->after_key);

    begin_item(json);

    uint8_t *to = buf_reserve(json->out, name.len + 3);

    if (to) {
        to[0] = '"';
        memcpy(to + 1, name.data, name.len);
        to[name.len + 1] = '"';
        to[name.len + 2] = ':';
        json->out->len += name.len + 3;
    }
    json->after_key = true;
}

/* True for a byte that is copied as it stands. */
static bool is_plain(uint8_t byte)
{
    return byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\';
}

/* Returns the end of the longest run from `pos` that needs no change. */
static size_t run_end(struct slice text, size_t pos)
{
    for (;;) {
        while (text.len - pos >= sizeof(uint64_t) && !jsonesc_may_change(text.data + pos, true)) {
            pos += sizeof(uint64_t);
        }
        while (pos < text.len && is_plain(text.data[pos])) {
            pos++;
        }
        if (pos == text.len || text.data[pos] < 0x80 || utf8_next(text, &pos) < 0) {
            return pos;
        }
    }
}

void jsonw_string(struct jsonw *json, struct slice text)
{
    struct buf *out = json->out;
    size_t pos = 0;

    begin_item(json);
    buf_append_byte(out, '"');
    while (pos < text.len) {
        size_t end = run_end(text, pos);
        uint8_t escape[JSONESC_MAX];

        buf_append(out, text.data + pos, end - pos);
        pos = end;
        if (pos < text.len) {
            if (text.data[pos] < 0x80) {
                buf_append(out, escape, jsonesc_put(escape, text.data[pos]));
            } else {
                buf_append(out, "\xef\xbf\xbd", 3); /* U+FFFD */
            }
            pos++;
        }
    }
    buf_append_byte(out, '"');
}

void jsonw_cstr(struct jsonw *json, const char *text)
{
    jsonw_string(json, slice_str(text));
}

void jsonw_base64(struct jsonw *json, struct slice bytes)
{
    begin_item(json);
    buf_append_byte(json->out, '"');
    base64_encode(json->out, bytes);
    buf_append_byte(json->out, '"');
}

static bool by_reference(const struct jsonw *json, const struct blob *blob)
{
    return json->text && blob->len >= TEXT_REF_MIN;
}

static void put_quoted(struct jsonw *json, struct blob *blob, enum text_form form)
{
    begin_item(json);
    buf_append_byte(json->out, '"');
    text_append_blob(json->text, blob, form);
    buf_append_byte(json->out, '"');
}

void jsonw_blob_string(struct jsonw *json, struct blob *blob)
{
    if (by_reference(json, blob)) {
        put_quoted(json, blob, TEXT_ESCAPED);
    } else {
        jsonw_string(json, blob_slice(blob));
    }
}

void jsonw_blob_base64(struct jsonw *json, struct blob *blob)
{
    if (by_reference(json, blob)) {
        put_quoted(json, blob, TEXT_BASE64);
    } else {
        jsonw_base64(json, blob_slice(blob));
    }
}

void jsonw_blob_raw(struct jsonw *json, struct blob *blob)
{
    if (by_reference(json, blob)) {
        begin_item(json);
        text_append_blob(json->text, blob, TEXT_RAW);
    } else {
        jsonw_raw(json, blob_slice(blob));
    }
}

void jsonw_u64(struct jsonw *json, uint64_t value)
{
    char digits[DIGITS_MAX];
    char *pos = digits + sizeof(digits);

    do {
        *--pos = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    begin_item(json);
    buf_append(json->out, pos, (size_t)(digits + sizeof(digits) - pos));
}

void jsonw_i64(struct jsonw *json, int64_t value)
{
    if (value >= 0) {
        jsonw_u64(json, (uint64_t)value);
        return;
    }
    begin_item(json);
    buf_append_byte(json->out, '-');
    json->after_key = true; /* The digits follow the sign without a comma. */
    jsonw_u64(json, 0 - (uint64_t)value);
}

void jsonw_bool(struct jsonw *json, bool value)
{
    begin_item(json);
    buf_append_str(json->out, value ? "true" : "false");
}

void jsonw_null(struct jsonw *json)
{
    begin_item(json);
    buf_append_str(json->out, "null");
}

void jsonw_hex(struct jsonw *json, uint64_t value)
{
    static const char hex[] = "0123456789abcdef";
    char text[DIGITS_MAX];
    char *pos = text + sizeof(text);

    *--pos = '"';
    do {
        *--pos = hex[value & 15];
        value >>= 4;
    } while (value);
    *--pos = 'x';
    *--pos = '0';
    *--pos = '"';
    begin_item(json);
    buf_append(json->out, pos, (size_t)(text + sizeof(text) - pos));
}

void jsonw_raw(struct jsonw *json, struct slice json_text)
{
    begin_item(json);
    buf_append_slice(json->out, json_text);
}
