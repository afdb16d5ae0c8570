#include "cli/jsonr.h"

#include "base/check.h"

#include <stdio.h>

enum {
    DIGITS_MAX = 18, /* Any integer of so many digits fits 63 bits. */
    NAME_MAX_LEN = 64
};

static bool is_digit(uint8_t byte)
{
    return byte >= '0' && byte <= '9';
}

/* The end of the string that begins at `pos`. */
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

/* Puts long integers between quotes. */
static void quote_integers(struct slice text, struct buf *out)
{
    size_t pos = 0;

    while (pos < text.len) {
        size_t start = pos;
        uint8_t byte = text.data[pos];
        bool number = is_digit(byte) || byte == '-';

        pos = byte == '"' ? skip_string(text, pos) : number ? skip_number(text, pos) : pos + 1;

        struct slice piece = slice_make(text.data + start, pos - start);
        bool quoted = number && is_long_integer(piece);

        if (quoted) {
            buf_append_byte(out, '"');
        }
        buf_append_slice(out, piece);
        if (quoted) {
            buf_append_byte(out, '"');
        }
    }
}

json_t *jsonr_parse(struct slice text, char error[JSONR_ERROR_MAX])
{
    struct buf quoted;
    json_error_t fault;

    buf_init(&quoted, 2 * text.len + 2);
    quote_integers(text, &quoted);

    json_t *value = json_loadb((const char *)quoted.data, quoted.len,
                               JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, &fault);

    if (!value) {
        (void)snprintf(error, JSONR_ERROR_MAX, "%.160s (line %d, column %d)", fault.text,
                       fault.line, fault.column);
    }
    buf_release(&quoted);
    return value;
}

static int put(const char *bytes, size_t len, void *ctx)
{
    return buf_append(ctx, bytes, len) ? 0 : -1;
}

void jsonr_put(struct buf *out, const json_t *value)
{
    int failed = json_dump_callback(value, put, out, JSON_COMPACT | JSON_ENCODE_ANY);

    ASSERT(failed == 0 || out->overflow);
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
