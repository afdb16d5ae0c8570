#include "server/read/glob.h"

static bool is_text(struct slice pattern)
{
    for (size_t i = 0; i < pattern.len; i++) {
        if (pattern.data[i] == '*' || pattern.data[i] == '?' || pattern.data[i] == '\\') {
            return false;
        }
    }
    return true;
}

/* Behind one character of UTF-8. */
static size_t step(struct slice text, size_t pos)
{
    pos++;
    while (pos < text.len && (text.data[pos] & 0xc0) == 0x80) {
        pos++;
    }
    return pos;
}

/* One element of the pattern that is no star against one character. */
static bool match_one(struct slice pattern, size_t *at, struct slice text, size_t *pos)
{
    if (*at >= pattern.len) {
        return false;
    }
    if (pattern.data[*at] == '?') {
        *pos = step(text, *pos);
        (*at)++;
        return true;
    }

    size_t literal = *at + (pattern.data[*at] == '\\' && *at + 1 < pattern.len);

    if (pattern.data[literal] != text.data[*pos]) {
        return false;
    }
    *at = literal + 1;
    (*pos)++;
    return true;
}

/* The last star takes one character more each time; stars before it never need to. */
static bool match_whole(struct slice pattern, struct slice text)
{
    bool has_star = false;
    size_t star = 0; /* Behind it. */
    size_t mark = 0; /* What it has taken ends here. */
    size_t at = 0;
    size_t pos = 0;

    while (pos < text.len) {
        if (at < pattern.len && pattern.data[at] == '*') {
            has_star = true;
            star = ++at;
            mark = pos;
        } else if (!match_one(pattern, &at, text, &pos)) {
            if (!has_star) {
                return false;
            }
            mark = step(text, mark);
            at = star;
            pos = mark;
        }
    }
    while (at < pattern.len && pattern.data[at] == '*') {
        at++;
    }
    return at == pattern.len;
}

bool glob_holds(struct slice text, struct slice part)
{
    return part.len == 0 ||
           (text.len >= part.len && memmem(text.data, text.len, part.data, part.len) != NULL);
}

bool glob_match(struct slice pattern, struct slice text)
{
    return is_text(pattern) ? glob_holds(text, pattern) : match_whole(pattern, text);
}
