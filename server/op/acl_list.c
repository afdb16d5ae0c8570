#include "server/op/acl_list.h"

#include "base/minmax.h"

#include <string.h>

/* Letters in the order of the bits, from ACL_READ on. */
static const char letters[] = "rwcda";

static struct slice trim(struct slice text)
{
    while (text.len > 0 && (text.data[0] == ' ' || text.data[0] == '\t')) {
        text = slice_from(text, 1);
    }
    while (text.len > 0 && (text.data[text.len - 1] == ' ' || text.data[text.len - 1] == '\t')) {
        text.len--;
    }
    return text;
}

/* Returns the permissions of letters; 0: there are none, or another letter. */
static uint32_t perms_of(struct slice text)
{
    uint32_t perms = 0;

    for (size_t i = 0; i < text.len; i++) {
        size_t bit = slice_find(slice_str(letters), text.data[i]);

        if (bit == strlen(letters)) {
            return 0;
        }
        perms |= 1U << bit;
    }
    return perms;
}

/* Splits "scheme:id:perms" at its first and its last colon. */
static bool split(struct slice text, struct acl_entry *ret_entry)
{
    const uint8_t *first = text.data + slice_find(text, ':');
    const uint8_t *last = text.len > 0 ? memrchr(text.data, ':', text.len) : NULL;

    if (!last || first == last) {
        return false;
    }
    *ret_entry = (struct acl_entry){
        .scheme = slice_make(text.data, (size_t)(first - text.data)),
        .id = slice_make(first + 1, (size_t)(last - first - 1)),
        .perms = perms_of(slice_make(last + 1, (size_t)(text.data + text.len - last - 1)))};
    return ret_entry->perms != 0;
}

/* Returns the length of a quoted id with its quotes; 0: the text does not begin with one that ends.
 */
static size_t quoted_len(struct slice text)
{
    size_t at = 1;

    if (text.len == 0 || text.data[0] != '"') {
        return 0;
    }
    while (at < text.len && text.data[at] != '"') {
        at += text.data[at] == '\\' ? 2 : 1;
    }
    return at < text.len ? at + 1 : 0;
}

/* Whether an entry begins here, with a scheme and its colon. */
static bool begins_entry(struct slice text)
{
    static const char *const schemes[] = {"world:", "auth:", "digest:", "ip:", "x509:"};

    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        if (slice_starts_with(text, slice_str(schemes[i]))) {
            return true;
        }
    }
    return false;
}

/* Returns the length of an entry of the scheme x509, whose id may have commas. */
static size_t x509_len(struct slice list)
{
    size_t comma = slice_find(list, ',');
    struct acl_entry entry;

    for (size_t at = comma; at < list.len;) {
        struct slice rest = slice_from(list, at + 1);

        /* The entry is whole, or it lacks its permissions: then it must not swallow the next. */
        if (split(trim(slice_make(list.data, at)), &entry) || begins_entry(trim(rest))) {
            return at;
        }
        at += 1 + slice_find(rest, ',');
    }
    /* The last entry, or a malformed one, which ends at its first comma. */
    return split(trim(list), &entry) ? list.len : comma;
}

/* Returns the length of the first entry of the list. */
static size_t entry_len(struct slice list)
{
    size_t comma = slice_find(list, ',');
    size_t colon = slice_find(list, ':');
    size_t quoted = colon < comma ? quoted_len(slice_from(list, colon + 1)) : 0;

    if (colon > comma || comma == list.len) {
        return comma; /* A scheme has no comma. */
    }
    if (quoted > 0) {
        size_t end = colon + 1 + quoted;

        return end + slice_find(slice_from(list, end), ',');
    }
    return slice_starts_with(trim(list), slice_str("x509:")) ? x509_len(list) : comma;
}

bool acl_list_cut(struct slice *list, struct slice *ret_entry)
{
    size_t len = 0;

    if (list->len == 0) {
        return false;
    }
    len = entry_len(*list);
    *ret_entry = trim(slice_make(list->data, len));
    *list = slice_from(*list, len < list->len ? len + 1 : len);
    return true;
}

static void unquote(struct slice quoted, struct buf *out)
{
    for (size_t i = 1; i + 1 < quoted.len; i++) {
        i += quoted.data[i] == '\\' ? 1 : 0;
        buf_append_byte(out, quoted.data[i]);
    }
}

bool acl_list_parse(struct slice text, struct buf *memory, struct acl_entry *ret_entry)
{
    size_t colon = slice_find(text, ':');
    struct slice rest = slice_from(text, min_size(colon + 1, text.len));
    size_t quoted = quoted_len(rest);

    buf_clear(memory);
    if (quoted == 0) {
        return split(text, ret_entry);
    }
    unquote(slice_make(rest.data, quoted), memory);
    rest = slice_from(rest, quoted);
    if (rest.len < 2 || rest.data[0] != ':' || memory->overflow) {
        return false;
    }
    *ret_entry = (struct acl_entry){.scheme = slice_make(text.data, colon),
                                    .id = buf_slice(memory),
                                    .perms = perms_of(slice_from(rest, 1))};
    return ret_entry->perms != 0;
}

void acl_list_put_id(struct buf *out, struct slice id)
{
    bool quotes = slice_find(id, '"') < id.len ||
                  (slice_find(id, ',') < id.len && slice_find(id, ':') < id.len);

    if (!quotes) {
        (void)buf_append_slice(out, id);
        return;
    }
    (void)buf_append_byte(out, '"');
    for (size_t i = 0; i < id.len; i++) {
        if (id.data[i] == '"' || id.data[i] == '\\') {
            (void)buf_append_byte(out, '\\');
        }
        (void)buf_append_byte(out, id.data[i]);
    }
    (void)buf_append_byte(out, '"');
}
