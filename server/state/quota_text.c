/* ZooKeeper's text of limits: "count=N,bytes=N=;byteHardLimit=N;countHardLimit=N". */
#include "base/check.h"
#include "server/state/state.h"

enum {
    DIGITS_MAX = 18 /* So many digits always fit. */
};

/* A whole number; empty text means none. */
static enum err get_number(struct slice text, int64_t *ret_value)
{
    bool negative = text.len > 0 && text.data[0] == '-';
    size_t start = negative ? 1 : 0;
    int64_t value = 0;

    *ret_value = -1;
    if (text.len == 0) {
        return ERR_OK;
    }
    if (text.len == start || text.len - start > DIGITS_MAX) {
        return ERR_FORMAT;
    }
    for (size_t i = start; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') {
            return ERR_FORMAT;
        }
        value = value * 10 + (text.data[i] - '0');
    }
    *ret_value = negative ? -1 : value;
    return ERR_OK;
}

static bool is_comma(uint8_t byte)
{
    return byte == ',' || byte == ';';
}

/* The bytes up to the next commas; `rest` begins after them. */
static struct slice cut(struct slice *rest)
{
    size_t len = 0;

    while (len < rest->len && !is_comma(rest->data[len])) {
        len++;
    }
    struct slice part = slice_make(rest->data, len);

    while (len < rest->len && is_comma(rest->data[len])) {
        len++;
    }
    *rest = slice_make(rest->data + len, rest->len - len);
    return part;
}

/* "key=value"; text after a second '=' and keys of later versions are ignored. */
static enum err get_pair(struct slice pair, struct state_quota *limits)
{
    const uint8_t *equals = pair.len > 0 ? memchr(pair.data, '=', pair.len) : NULL;

    if (equals == NULL) {
        return ERR_FORMAT;
    }
    struct slice key = slice_make(pair.data, (size_t)(equals - pair.data));
    struct slice rest = slice_make(equals + 1, pair.len - key.len - 1);
    struct slice value = rest;
    const uint8_t *end = rest.len > 0 ? memchr(rest.data, '=', rest.len) : NULL;
    int64_t number = -1;

    value.len = end != NULL ? (size_t)(end - rest.data) : rest.len;
    if (get_number(value, &number) != ERR_OK) {
        return ERR_FORMAT;
    }
    if (slice_eq(key, slice_str("count"))) {
        limits->count_limit = number;
    } else if (slice_eq(key, slice_str("bytes"))) {
        limits->bytes_limit = number;
    } else if (slice_eq(key, slice_str("countHardLimit"))) {
        limits->count_hard = number;
    } else if (slice_eq(key, slice_str("byteHardLimit"))) {
        limits->bytes_hard = number;
    }
    return ERR_OK;
}

enum err state_quota_parse(struct slice text, struct state_quota *ret_limits)
{
    const struct state_quota none = {
        .count_limit = -1, .bytes_limit = -1, .count_hard = -1, .bytes_hard = -1};
    enum err err = text.len > 0 ? ERR_OK : ERR_FORMAT;

    *ret_limits = none;
    while (err == ERR_OK && text.len > 0) {
        err = get_pair(cut(&text), ret_limits);
    }
    if (err != ERR_OK) {
        *ret_limits = none;
    }
    ASSERT(ret_limits->count_hard >= -1 && ret_limits->bytes_hard >= -1);
    return err;
}
