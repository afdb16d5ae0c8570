#include "cli/prom.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    VALUE_MAX = 64
};

/* Parses one line. Returns false for a comment, or a line that cannot be read. */
static bool take_apart(struct slice text, struct prom_line *line)
{
    size_t name_len = min_size(slice_find(text, '{'), slice_find(text, ' '));
    struct slice rest = slice_from(text, name_len);

    if (text.len == 0 || text.data[0] == '#') {
        return false;
    }
    *line = (struct prom_line){.text = text, .name = slice_make(text.data, name_len)};
    if (slice_starts_with(rest, slice_str("{"))) {
        const uint8_t *close = memrchr(rest.data, '}', rest.len);

        if (!close) {
            return false;
        }
        line->labels = slice_make(rest.data + 1, (size_t)(close - rest.data) - 1);
        rest = slice_from(rest, (size_t)(close - rest.data) + 1);
    }
    while (slice_starts_with(rest, slice_str(" "))) {
        rest = slice_from(rest, 1);
    }
    line->value = rest;
    return rest.len > 0;
}

/* Puts the labels into an object. Label values of zabra hold no quotes, so a quote ends a value. */
json_t *prom_labels(const struct prom_line *line)
{
    json_t *labels = json_object();
    struct slice rest = line->labels;

    while (rest.len > 0) {
        struct slice name = slice_cut(&rest, '=');
        bool quoted = slice_cut(&rest, '"').len == 0 && slice_find(rest, '"') < rest.len;
        struct slice value = slice_cut(&rest, '"');

        if (!quoted) {
            break;
        }
        (void)json_object_setn_new(labels, (const char *)name.data, name.len,
                                   json_stringn((const char *)value.data, value.len));
        (void)slice_cut(&rest, ',');
    }
    return labels;
}

json_t *prom_value(const struct prom_line *line)
{
    char copy[VALUE_MAX];
    char *end = NULL;

    (void)snprintf(copy, sizeof(copy), "%.*s", (int)line->value.len,
                   (const char *)line->value.data);

    long long whole = strtoll(copy, &end, 10);

    if (*copy && !*end) {
        return json_integer(whole);
    }

    double value = strtod(copy, &end);

    return isfinite(value) ? json_real(value) : json_string(copy);
}

bool prom_next(struct slice *rest, struct prom_line *ret_line)
{
    while (rest->len > 0) {
        if (take_apart(slice_cut(rest, '\n'), ret_line)) {
            return true;
        }
    }
    return false;
}
