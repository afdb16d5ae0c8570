#include "tests/proc/shown.h"

#include "base/slice.h"

#include <ctype.h>
#include <string.h>

enum {
    ZXID_DIGITS_MIN = 9,
    HISTORY_DIGITS = 16,
    TIME_DIGITS = 13
};

/* ---- Parts that change with each run ---- */

static bool is_moving(struct slice key)
{
    static const char *const keys[] = {"czxid", "mzxid", "pzxid",   "zxid",
                                       "ctime", "mtime", "instance"};

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        if (slice_eq(key, slice_str(keys[i]))) {
            return true;
        }
    }
    return false;
}

/* The length of `"key":` if a changing value follows it, else 0. */
static size_t moving_key_len(const char *text)
{
    const char *end = *text == '"' ? strchr(text + 1, '"') : NULL;
    bool moving = end && end[1] == ':' && is_moving(slice_make(text + 1, (size_t)(end - text - 1)));

    return moving ? (size_t)(end + 2 - text) : 0;
}

/* The length of a changing start of a line, else 0. */
static size_t moving_line_len(const char *line)
{
    static const char *const starts[] = {"Date: ", "Zk-Zxid: ", "Zk-History: ", "retry: "};

    for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
        if (strncmp(line, starts[i], strlen(starts[i])) == 0) {
            return strlen(starts[i]);
        }
    }
    return 0;
}

static size_t hex_len(const char *text)
{
    return strspn(text, "0123456789abcdef");
}

/* The length of a UUID, else 0. */
static size_t uuid_len(const char *text)
{
    static const size_t parts[] = {8, 4, 4, 4, 12};
    const char *at = text;

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        if ((i > 0 && *at++ != '-') || hex_len(at) != parts[i]) {
            return 0;
        }
        at += parts[i];
    }
    return (size_t)(at - text);
}

/* The length of a changing word: a zxid, also in an entity tag, a secret, a history id, a time. */
static size_t moving_word_len(const char *text, bool in_tag)
{
    size_t digits = hex_len(text);

    if (uuid_len(text) > 0) {
        return uuid_len(text);
    }
    if (isalnum((uint8_t)text[digits])) {
        return 0;
    }
    if (digits == HISTORY_DIGITS || (in_tag && digits >= ZXID_DIGITS_MIN)) {
        return digits;
    }
    return digits == TIME_DIGITS && strspn(text, "0123456789") == digits ? digits : 0;
}

/* True after the start of an entity tag, and after its dot. */
static bool is_in_tag(const char *start, const char *at)
{
    if (at - start >= 2 && strchr("dscta", at[-1]) && at[-2] == '"') {
        return true;
    }
    return at > start && at[-1] == '.';
}

/* The length of the masked text at `at`; appends its unmasked start to `out`. */
static size_t mask_one(const char *start, const char *at, struct buf *out)
{
    bool line_starts = at == start || at[-1] == '\n';
    bool word_starts = at == start || !isalnum((uint8_t)at[-1]) || is_in_tag(start, at);
    size_t len = moving_key_len(at);

    if (len > 0) {
        buf_append(out, at, len);
        return len + strcspn(at + len, ",}]\n");
    }
    len = line_starts ? moving_line_len(at) : 0;
    if (len > 0) {
        buf_append(out, at, len);
        return len + strcspn(at + len, "\n");
    }
    if (word_starts && at[0] == '0' && at[1] == 'x' && hex_len(at + 2) >= ZXID_DIGITS_MIN) {
        return 2 + hex_len(at + 2);
    }
    return word_starts ? moving_word_len(at, is_in_tag(start, at)) : 0;
}

void shown_mask(const char *text, struct buf *out)
{
    buf_clear(out);
    for (const char *at = text; *at;) {
        size_t len = mask_one(text, at, out);

        if (len > 0) {
            buf_append_byte(out, '#');
            at += len;
        } else if (*at == '\r') {
            at++;
        } else {
            buf_append_byte(out, (uint8_t)*at++);
        }
    }
    while (out->len > 0 && isspace(out->data[out->len - 1])) {
        out->len--;
    }
}

/* ---- The comparison ---- */

/* Cuts the text before the next "..." off `shown`, without surrounding blanks; the rest is NULL
 * after the last one. */
static struct slice next_piece(const char **shown)
{
    const char *gap = strstr(*shown, "...");
    struct slice piece = slice_make(*shown, gap ? (size_t)(gap - *shown) : strlen(*shown));

    while (gap && piece.len > 0 && piece.data[piece.len - 1] == ' ') {
        piece.len--;
    }
    *shown = gap ? gap + 3 + strspn(gap + 3, " ") : NULL;
    return piece;
}

bool shown_matches(const char *shown, const char *printed)
{
    bool first = true;

    while (shown) {
        struct slice piece = next_piece(&shown);
        size_t left = strlen(printed);
        const char *found = printed;

        if (piece.len > left) {
            return false;
        }
        if (!first) {
            found =
                shown ? memmem(printed, left, piece.data, piece.len) : printed + left - piece.len;
        }
        if (!found || memcmp(found, piece.data, piece.len) != 0) {
            return false;
        }
        printed = found + piece.len;
        first = false;
    }
    return *printed == '\0';
}
