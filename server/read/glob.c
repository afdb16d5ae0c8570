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

static uint8_t lower(uint8_t byte)
{
    return byte >= 'A' && byte <= 'Z' ? (uint8_t)(byte - 'A' + 'a') : byte;
}

static bool is_like(uint8_t a, uint8_t b, bool any_case)
{
    return a == b || (any_case && lower(a) == lower(b));
}

/* Skips one character of UTF-8. */
static size_t step(struct slice text, size_t pos)
{
    pos++;
    while (pos < text.len && (text.data[pos] & 0xc0) == 0x80) {
        pos++;
    }
    return pos;
}

/* Whether one element of the pattern, which is no star, matches one character. */
static bool match_one(struct slice pattern, size_t *at, struct slice text, size_t *pos,
                      bool any_case)
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

    if (!is_like(pattern.data[literal], text.data[*pos], any_case)) {
        return false;
    }
    *at = literal + 1;
    (*pos)++;
    return true;
}

/* Whether the pattern matches the whole text. The last star takes one more character at each retry;
 * earlier stars never need to. */
static bool match_whole(struct slice pattern, struct slice text, bool any_case)
{
    bool has_star = false;
    size_t star = 0; /* Position after the last star. */
    size_t mark = 0; /* End of the characters that the last star has taken. */
    size_t at = 0;
    size_t pos = 0;

    while (pos < text.len) {
        if (at < pattern.len && pattern.data[at] == '*') {
            has_star = true;
            star = ++at;
            mark = pos;
        } else if (!match_one(pattern, &at, text, &pos, any_case)) {
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

static bool is_at(struct slice text, size_t pos, struct slice part)
{
    for (size_t i = 0; i < part.len; i++) {
        if (!is_like(text.data[pos + i], part.data[i], true)) {
            return false;
        }
    }
    return true;
}

static bool holds_any_case(struct slice text, struct slice part)
{
    for (size_t pos = 0; part.len <= text.len && pos <= text.len - part.len; pos++) {
        if (is_at(text, pos, part)) {
            return true;
        }
    }
    return false;
}

bool glob_match(struct slice pattern, struct slice text, bool any_case)
{
    if (!is_text(pattern)) {
        return match_whole(pattern, text, any_case);
    }
    return any_case ? holds_any_case(text, pattern) : glob_holds(text, pattern);
}
