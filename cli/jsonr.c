#include "cli/jsonr.h"

#include "base/check.h"

#include <stdio.h>

enum {
    DIGITS_MAX = 18, /* Any integer of so many digits fits 63 bits. */
    NAME_MAX_LEN = 64,
    DUMP_MAX = 512 << 20
};

/* jansson cannot hold every integer of more than DIGITS_MAX digits. So such an integer is parsed as
 * a string: its digits and this mark. When that string is written, it becomes an integer again. A
 * string of the JSON text that ends with the mark itself gets a second one. */
#define MARK     "\\u0000"
#define MARK_LEN (sizeof(MARK) - 1)

static bool is_digit(uint8_t byte)
{
    return byte >= '0' && byte <= '9';
}

/* Returns the end of the string that begins at `pos`. */
static size_t skip_string(struct slice text, size_t pos)
{
    for (pos++; pos < text.len && text.data[pos] != '"'; pos++) {
        if (text.data[pos] == '\\') {
            pos++;
        }
    }
    return pos < text.len ? pos + 1 : text.len;
}

static size_t skip_number(struct slice text, size_t pos)
{
    while (pos < text.len && (is_digit(text.data[pos]) || strchr("+-.eE", text.data[pos]))) {
        pos++;
    }
    return pos;
}

static bool is_long_integer(struct slice number)
{
    size_t digits = 0;

    for (size_t i = 0; i < number.len; i++) {
        if (strchr(".eE", number.data[i])) {
            return false;
        }
        digits += is_digit(number.data[i]) ? 1 : 0;
    }
    return digits > DIGITS_MAX;
}

/* Whether a string, given with its quotes, ends with the mark, and not with an escaped backslash
 * before "u0000". */
static bool is_marked(struct slice string)
{
    size_t pos = 1;
    size_t escape = 0;

    while (pos < string.len) {
        escape = string.data[pos] == '\\' ? pos : escape;
        pos += string.data[pos] == '\\' ? 2 : 1;
    }
    return escape > 0 && escape + MARK_LEN + 1 == string.len &&
           memcmp(string.data + escape, MARK, MARK_LEN) == 0;
}

/* Puts long integers between quotes, with the mark at the end. */
static void quote_integers(struct slice text, struct buf *out)
{
    size_t pos = 0;

    while (pos < text.len) {
        size_t start = pos;
        uint8_t byte = text.data[pos];
        bool number = is_digit(byte) || byte == '-';

        pos = byte == '"' ? skip_string(text, pos) : number ? skip_number(text, pos) : pos + 1;

        struct slice piece = slice_make(text.data + start, pos - start);

        if (number && is_long_integer(piece)) {
            buf_append_byte(out, '"');
            buf_append_slice(out, piece);
            buf_append_str(out, MARK "\"");
        } else if (byte == '"' && is_marked(piece)) {
            buf_append(out, piece.data, piece.len - 1);
            buf_append_str(out, MARK "\"");
        } else {
            buf_append_slice(out, piece);
        }
    }
}

/* Reverses quote_integers(): a marked string loses one mark, and an integer also its quotes. */
static void unquote_integers(struct slice text, struct buf *out)
{
    size_t pos = 0;

    while (pos < text.len) {
        size_t start = pos;
        bool string = text.data[pos] == '"';

        pos = string ? skip_string(text, pos) : pos + 1;

        struct slice piece = slice_make(text.data + start, pos - start);

        if (!string || !is_marked(piece)) {
            buf_append_slice(out, piece);
            continue;
        }

        struct slice inner = slice_make(piece.data + 1, piece.len - 2 - MARK_LEN);
        bool integer = inner.len > 0 && skip_number(inner, 0) == inner.len;

        buf_append_str(out, integer ? "" : "\"");
        buf_append_slice(out, inner);
        buf_append_str(out, integer ? "" : "\"");
    }
}

json_t *jsonr_parse(struct slice text, char *error)
{
    json_error_t fault;
    BUF_AUTO(quoted, (2 + MARK_LEN) * text.len + 2);

    quote_integers(text, &quoted);

    json_t *value = json_loadb((const char *)quoted.data, quoted.len,
                               JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, &fault);

    if (!value && error) {
        (void)snprintf(error, JSONR_ERROR_MAX, "%.160s (line %d, column %d)", fault.text,
                       fault.line, fault.column);
    }
    return value;
}

static int put(const char *bytes, size_t len, void *ctx)
{
    return buf_append(ctx, bytes, len) ? 0 : -1;
}

void jsonr_put(struct buf *out, const json_t *value)
{
    BUF_AUTO(dumped, DUMP_MAX);

    int failed = json_dump_callback(value, put, &dumped, JSON_COMPACT | JSON_ENCODE_ANY);

    ASSERT(failed == 0);
    if (memmem(dumped.data, dumped.len, MARK, MARK_LEN)) {
        unquote_integers(buf_slice(&dumped), out);
    } else {
        buf_append_slice(out, buf_slice(&dumped));
    }
}

void jsonr_copy(json_t *to, const json_t *from, const char *names)
{
    for (const char *at = names; *at; at += strspn(at, ", ")) {
        size_t len = strcspn(at, ",");
        json_t *value = json_object_getn(from, at, len);

        if (value) {
            (void)json_object_setn(to, at, len, value);
        }
        at += len;
    }
}

json_t *jsonr_at(const json_t *value, const char *path)
{
    json_t *found = NULL;

    do {
        char name[NAME_MAX_LEN];
        size_t len = strcspn(path, ".");

        ASSERT(len > 0 && len < sizeof(name));
        memcpy(name, path, len);
        name[len] = '\0';
        found = json_object_get(value, name);
        value = found;
        path += len + (path[len] == '.' ? 1 : 0);
    } while (found && *path);
    return found;
}

const char *jsonr_text(const json_t *value, const char *path)
{
    const char *text = json_string_value(jsonr_at(value, path));

    return text ? text : "";
}

int64_t jsonr_number(const json_t *value, const char *path)
{
    return json_integer_value(jsonr_at(value, path));
}
