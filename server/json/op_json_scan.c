/* Scans a text before it is parsed, for its depth and the data in it. JSON data is kept as it was
 * written. Long strings are left out of the parsed text, because the parser would read them byte by
 * byte. */
#include "base/utf8.h"
#include "server/json/op_json_int.h"

#include <jansson.h>

enum {
    ROOT_DEPTH = 1,    /* Depth of the members of {...}. */
    ELEMENT_DEPTH = 3, /* Depth of the members of {"ops":[{...}]}. */
    DATA_KEYS = 3,     /* Data members that one object can have. */
    PLAIN_MIN = 64,    /* Shorter strings are parsed. */
    ESCAPE_LEN = 6     /* Length of \u0041. */
};

struct cursor {
    struct slice text;
    size_t pos;
    uint32_t depth;
    uint32_t depth_max; /* Highest depth seen. */
    bool in_ops;        /* Inside the value of the outermost member "ops". */
    size_t lean_pos;    /* The text up to this position is in scan->memory. */
    struct op_json_scan *scan;
};

static bool is_blank(uint8_t byte)
{
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

static void skip_blanks(struct cursor *cursor)
{
    while (cursor->pos < cursor->text.len && is_blank(cursor->text.data[cursor->pos])) {
        cursor->pos++;
    }
}

/* Returns the position of the first `byte` between `pos` and `end`; `end` when there is none. */
static size_t find(struct slice text, size_t pos, size_t end, char byte)
{
    const uint8_t *at = pos < end ? memchr(text.data + pos, byte, end - pos) : NULL;

    return at ? (size_t)(at - text.data) : end;
}

/* Moves from an opening quote to after the closing one; returns the text between, as written. */
static struct slice skip_string(struct cursor *cursor)
{
    struct slice text = cursor->text;
    size_t start = cursor->pos + 1;
    size_t quote = find(text, start, text.len, '"');
    size_t escape = find(text, start, quote, '\\');

    while (escape < quote) {
        size_t pos = escape + 2;

        if (pos > quote) {
            quote = find(text, pos, text.len, '"');
        }
        escape = find(text, pos, quote, '\\');
    }
    cursor->pos = quote + 1;
    return slice_make(text.data + start, quote - start);
}

static void count_bracket(struct cursor *cursor, uint8_t byte)
{
    if (byte == '{' || byte == '[') {
        cursor->depth++;
        cursor->depth_max = cursor->depth > cursor->depth_max ? cursor->depth : cursor->depth_max;
    } else if ((byte == '}' || byte == ']') && cursor->depth > 0) {
        cursor->depth--;
    }
}

/* Moves after one value. */
static void skip_value(struct cursor *cursor)
{
    uint32_t depth = cursor->depth;

    while (cursor->pos < cursor->text.len) {
        uint8_t byte = cursor->text.data[cursor->pos];

        if (byte == '"') {
            skip_string(cursor);
        } else if (cursor->depth == depth && (byte == ',' || byte == '}' || byte == ']')) {
            return;
        } else {
            count_bracket(cursor, byte);
            cursor->pos++;
        }
    }
}

/* Moves after the value, which is returned without the blanks around it. */
static struct slice take_value(struct cursor *cursor)
{
    skip_blanks(cursor);

    size_t start = cursor->pos;

    skip_value(cursor);

    size_t end = cursor->pos < cursor->text.len ? cursor->pos : cursor->text.len;

    while (end > start && is_blank(cursor->text.data[end - 1])) {
        end--;
    }
    return slice_make(cursor->text.data + start, end - start);
}

/* Returns the length of a letter at the front of a key, plain or as an escape; 0 for another
 * letter. */
static size_t letter_len(struct slice key, char letter)
{
    if (key.len > 0 && key.data[0] == (uint8_t)letter) {
        return 1;
    }
    if (!slice_starts_with(key, slice_str("\\u00")) || key.len < ESCAPE_LEN) {
        return 0;
    }

    int high = hex_digit(key.data[4]);
    int low = hex_digit(key.data[5]);

    return high >= 0 && low >= 0 && high * 16 + low == letter ? ESCAPE_LEN : 0;
}

static bool key_is(struct slice key, const char *name)
{
    for (; *name != '\0'; name++) {
        size_t len = letter_len(key, *name);

        if (len == 0) {
            return false;
        }
        key = slice_make(key.data + len, key.len - len);
    }
    return key.len == 0;
}

/* Whether the string is valid UTF-8 without escapes and control characters. */
static bool is_plain(struct slice text)
{
    bool plain = true;

    for (size_t i = 0; i < text.len; i++) {
        plain &= text.data[i] >= ' ' && text.data[i] != '\\';
    }
    return plain && utf8_valid(text);
}

/* Writes "" in place of the string into the text to be parsed. */
static void leave_out(struct cursor *cursor, struct slice string)
{
    size_t start = (size_t)(string.data - cursor->text.data);

    (void)buf_append(&cursor->scan->memory, cursor->text.data + cursor->lean_pos,
                     start - cursor->lean_pos);
    cursor->lean_pos = start + string.len;
}

/* Takes the value of dataUtf8 or data64 at the cursor. */
static struct op_json_value take_string(struct cursor *cursor)
{
    struct op_json_value value = {.form = OP_JSON_PARSED};

    skip_blanks(cursor);
    if (cursor->pos >= cursor->text.len || cursor->text.data[cursor->pos] != '"') {
        return value;
    }

    struct slice string = skip_string(cursor);

    if (string.len >= PLAIN_MIN && is_plain(string)) {
        leave_out(cursor, string);
        value = (struct op_json_value){.form = OP_JSON_PLAIN, .text = string};
    }
    return value;
}

/* Scans the value after the key of a member; notes the value when it is data of an operation. */
static void scan_member(struct cursor *cursor, struct slice key)
{
    bool element = cursor->depth == ELEMENT_DEPTH && cursor->in_ops;
    struct buf *found = element ? &cursor->scan->elements : &cursor->scan->root;
    struct op_json_value value;

    skip_blanks(cursor);
    if (cursor->pos >= cursor->text.len || cursor->text.data[cursor->pos] != ':') {
        return;
    }
    cursor->pos++;
    if (cursor->depth == ROOT_DEPTH) {
        cursor->in_ops = key_is(key, "ops");
    } else if (!element) {
        return;
    }
    if (key_is(key, "dataJson")) {
        value = (struct op_json_value){.form = OP_JSON_WRITTEN, .text = take_value(cursor)};
    } else if (key_is(key, "dataUtf8") || key_is(key, "data64")) {
        value = take_string(cursor);
    } else {
        return;
    }
    (void)buf_append(found, &value, sizeof(value));
}

/* Finds depth and data of the text. The scan does not validate, which is the job of jansson. */
static void scan_text(struct cursor *cursor)
{
    while (cursor->pos < cursor->text.len) {
        uint8_t byte = cursor->text.data[cursor->pos];

        if (byte == '"') {
            scan_member(cursor, skip_string(cursor));
            continue;
        }
        count_bracket(cursor, byte);
        cursor->pos++;
    }
}

void op_json_scan(struct slice text, struct op_json_scan *ret_scan)
{
    const size_t object_max = DATA_KEYS * sizeof(struct op_json_value);
    struct cursor cursor = {.text = text, .scan = ret_scan};

    *ret_scan = (struct op_json_scan){.lean = text};
    buf_init(&ret_scan->memory, text.len);
    buf_init(&ret_scan->root, object_max);
    buf_init(&ret_scan->elements, OPS_MULTI_MAX * object_max);
    scan_text(&cursor);
    ret_scan->too_deep = cursor.depth_max > OP_JSON_DEPTH_MAX;
    if (cursor.lean_pos > 0) {
        (void)buf_append(&ret_scan->memory, text.data + cursor.lean_pos,
                         text.len - cursor.lean_pos);
        ret_scan->lean = buf_slice(&ret_scan->memory);
    }
}

void op_json_scan_release(struct op_json_scan *scan)
{
    buf_release(&scan->memory);
    buf_release(&scan->root);
    buf_release(&scan->elements);
}

bool op_json_valid(struct slice text)
{
    struct op_json_scan scan;

    op_json_scan(text, &scan);
    op_json_scan_release(&scan);
    if (scan.too_deep) {
        return false;
    }

    json_t *value = json_loadb((const char *)text.data, text.len,
                               JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, NULL);

    json_decref(value);
    return value != NULL;
}

/* ---- Shared by the parsers. ---- */

enum err op_json_fail(struct op_json_parse *parse, enum err err, const char *key, const char *why)
{
    parse->fault->err = err;
    (void)snprintf(parse->fault->detail, sizeof(parse->fault->detail), "%.100s %s", key, why);
    return err;
}

/* Copies `text`. The memory has room for all strings of the parsed text together, so it does not
 * move and slices stay valid. */
struct slice op_json_keep(struct op_json_parse *parse, struct slice text)
{
    struct buf *memory = parse->memory;
    uint8_t *to = memory->data + memory->len;

    ASSERT(text.len <= memory->cap - memory->len);
    if (text.len > 0) {
        memcpy(to, text.data, text.len);
    }
    memory->len += text.len;
    return slice_make(to, text.len);
}

struct slice op_json_string(const json_t *value)
{
    return slice_make(json_string_value(value), json_string_length(value));
}
