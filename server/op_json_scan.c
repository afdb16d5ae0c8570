/* Before a text is parsed: how deep it is, and where the values of dataJson stand in it. */
#include "base/check.h"
#include "server/op_json_int.h"

#include <jansson.h>

enum {
    ROOT_DEPTH = 1,   /* Of the members of {...}. */
    ELEMENT_DEPTH = 3 /* Of the members of {"ops":[{...}]}. */
};

struct cursor {
    struct slice text;
    size_t pos;
    uint32_t depth;
    uint32_t depth_max; /* Seen. */
    bool in_ops;        /* Inside the value of the outermost member "ops". */
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

/* At an opening quote; moves behind the closing one and returns what is between, as written. */
static struct slice skip_string(struct cursor *cursor)
{
    size_t start = ++cursor->pos;

    while (cursor->pos < cursor->text.len && cursor->text.data[cursor->pos] != '"') {
        cursor->pos += cursor->text.data[cursor->pos] == '\\' ? 2 : 1;
    }

    size_t end = cursor->pos < cursor->text.len ? cursor->pos : cursor->text.len;

    cursor->pos = end + 1;
    return slice_make(cursor->text.data + start, end - start);
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

/* Moves behind one value. */
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

/* Moves behind the value, which is returned without the blanks around it. */
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

/* Behind the key of a member: notes the value when it is a dataJson in one of its places. */
static void scan_member(struct cursor *cursor, struct slice key)
{
    bool element = cursor->depth == ELEMENT_DEPTH && cursor->in_ops;

    skip_blanks(cursor);
    if (cursor->pos >= cursor->text.len || cursor->text.data[cursor->pos] != ':') {
        return;
    }
    cursor->pos++;
    if (cursor->depth == ROOT_DEPTH) {
        cursor->in_ops = slice_eq(key, slice_str("ops"));
    }
    if ((cursor->depth != ROOT_DEPTH && !element) || !slice_eq(key, slice_str("dataJson"))) {
        return;
    }

    struct slice value = take_value(cursor);

    if (element) {
        (void)buf_append(&cursor->scan->elements, &value, sizeof(value));
    } else {
        cursor->scan->single = value;
        cursor->scan->has_single = true;
    }
}

/* Not a validation, jansson does that; it only must not be fooled about depth and places. */
void op_json_scan(struct slice text, struct op_json_scan *ret_scan)
{
    struct cursor cursor = {.text = text, .scan = ret_scan};

    *ret_scan = (struct op_json_scan){.too_deep = false};
    buf_init(&ret_scan->elements, OPS_MULTI_MAX * sizeof(struct slice));
    while (cursor.pos < text.len) {
        uint8_t byte = text.data[cursor.pos];

        if (byte == '"') {
            scan_member(&cursor, skip_string(&cursor));
            continue;
        }
        count_bracket(&cursor, byte);
        cursor.pos++;
    }
    ret_scan->too_deep = cursor.depth_max > OP_JSON_DEPTH_MAX;
}

void op_json_scan_release(struct op_json_scan *scan)
{
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
