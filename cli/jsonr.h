/*
 * jsonr.h - reads JSON into jansson's values, and writes them.
 *
 * JSON has integers that jansson cannot hold. An integer of more than 18 digits is read as a string
 * of its digits plus a NUL, and is written as the same integer. Where such numbers matter, an
 * answer also has the number in hex, in another member.
 */
#ifndef CLI_JSONR_H
#define CLI_JSONR_H

#include "base/buf.h"

#include <jansson.h>

/* Declares an empty buffer that is released where its block ends, as json_auto_t of jansson does
 * for a value. */
#define BUF_AUTO(name, bytes_max) \
    __attribute__((cleanup(buf_release))) struct buf name = {.size_max = (bytes_max)}

enum {
    JSONR_ERROR_MAX = 256
};

/* Parses JSON. Returns the value, which the caller drops with json_decref; NULL: `error` (or NULL)
 * says what is wrong and where. */
json_t *jsonr_parse(struct slice text, char *error);

/* Appends the value as one line. */
void jsonr_put(struct buf *out, const json_t *value);

/* Loops over the items of an array; over none when the list is NULL or not an array. */
#define JSONR_EACH(item, list)                                                           \
    for (size_t item##_at = 0; item##_at != SIZE_MAX; item##_at = SIZE_MAX)              \
        for (json_t *item = NULL; /* NOLINT(bugprone-macro-parentheses): declares it. */ \
             ((item) = json_array_get((list), item##_at++));)

/* Copies the members in `names` ("a, b, c") that exist. */
void jsonr_copy(json_t *to, const json_t *from, const char *names);

/* Returns a member by its path, "stat.version"; NULL when there is none. */
json_t *jsonr_at(const json_t *value, const char *path);

/* Returns the member at `path` as text; "" when there is none, or when it is not a string. */
const char *jsonr_text(const json_t *value, const char *path);

/* Returns the member at `path` as a number; 0 when there is none, or when it is not a number. */
int64_t jsonr_number(const json_t *value, const char *path);

#endif
