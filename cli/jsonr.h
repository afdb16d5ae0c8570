/*
 * jsonr.h - reads JSON into jansson's values, and writes them.
 *
 * JSON has integers that jansson cannot hold, so one of more than 18 digits is read as a string of
 * them with a NUL behind it, and written as the integer that it was. Where it matters answers have
 * the same number in hex, in a member of its own.
 */
#ifndef CLI_JSONR_H
#define CLI_JSONR_H

#include "base/buf.h"

#include <jansson.h>

/* What json_auto_t of jansson is for a value: a buffer that is declared, made, and released where
 * its block ends. */
#define BUF_AUTO(name, bytes_max) \
    __attribute__((cleanup(buf_release))) struct buf name = {.size_max = (bytes_max)}

enum {
    JSONR_ERROR_MAX = 256
};

/* The value, which the caller drops with json_decref; NULL: `error` (or NULL) says what is wrong
 * and where. */
json_t *jsonr_parse(struct slice text, char *error);

/* Appends the value in one line. */
void jsonr_put(struct buf *out, const json_t *value);

/* Walks over the items of an array; none when it is NULL or no array. */
#define JSONR_EACH(item, list)                                                           \
    for (size_t item##_at = 0; item##_at != SIZE_MAX; item##_at = SIZE_MAX)              \
        for (json_t *item = NULL; /* NOLINT(bugprone-macro-parentheses): declares it. */ \
             ((item) = json_array_get((list), item##_at++));)

/* Copies those members, of "a, b, c", that are there. */
void jsonr_copy(json_t *to, const json_t *from, const char *names);

/* A member by its path, "stat.version"; NULL when it is not there. */
json_t *jsonr_at(const json_t *value, const char *path);

/* The same as text: "" when it is not there or no string. */
const char *jsonr_text(const json_t *value, const char *path);

/* The same as a number: 0 when it is not there or none. */
int64_t jsonr_number(const json_t *value, const char *path);

#endif
