#include "cli/prom.h"

#include "cli/words.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    VALUE_MAX = 64
};

/* False: a comment, or nothing that can be read. */
static bool take_apart(struct slice text, struct prom_line *line)
{
    const char *at = (const char *)text.data;
    const char *end = at + text.len;
    const char *name_end = at;
    const char *close = NULL;

    if (text.len == 0 || *at == '#') {
        return false;
    }
    while (name_end < end && *name_end != '{' && *name_end != ' ') {
        name_end++;
    }
    *line = (struct prom_line){.text = text, .name = slice_make(at, (size_t)(name_end - at))};
    if (name_end < end && *name_end == '{') {
        close = memrchr(name_end, '}', (size_t)(end - name_end));
        if (!close) {
            return false;
        }
        line->labels = slice_make(name_end + 1, (size_t)(close - name_end - 1));
        name_end = close + 1;
    }
    while (name_end < end && *name_end == ' ') {
        name_end++;
    }
    line->value = slice_make(name_end, (size_t)(end - name_end));
    return line->value.len > 0;
}

/* Labels into an object. Our own values hold no quotes, so none is escaped. */
json_t *prom_labels(const struct prom_line *line)
{
    json_t *labels = json_object();
    const char *at = (const char *)line->labels.data;
    const char *end = at + line->labels.len;

    while (at < end) {
        const char *equals = memchr(at, '=', (size_t)(end - at));
        const char *open = equals && equals + 1 < end && equals[1] == '"' ? equals + 2 : NULL;
        const char *close = open ? memchr(open, '"', (size_t)(end - open)) : NULL;
        char name[VALUE_MAX];

        if (!close) {
            break;
        }
        (void)snprintf(name, sizeof(name), "%.*s", (int)(equals - at), at);
        (void)json_object_set_new(labels, name, json_stringn(open, (size_t)(close - open)));
        at = close + 1 < end && close[1] == ',' ? close + 2 : end;
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
        if (take_apart(words_line(rest), ret_line)) {
            return true;
        }
    }
    return false;
}
