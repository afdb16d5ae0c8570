#include "tests/proc/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROWS_MAX = 32 /* A bit for each. */
};

static void print_usage(const char *program, const struct option_row *rows, size_t count)
{
    (void)fprintf(stderr, "usage: %s", program);
    for (size_t i = 0; i < count; i++) {
        (void)fprintf(stderr, rows[i].is_needed ? " %s %s" : " [%s %s]", rows[i].name,
                      rows[i].value);
    }
    (void)fprintf(stderr, "\n");
}

static bool take_value(const struct option_row *row, const char *value)
{
    char *end = NULL;

    if (row->text) {
        *row->text = value;
        return true;
    }
    errno = 0;
    *row->number = strtoull(value, &end, 10);
    return errno == 0 && value[0] >= '0' && value[0] <= '9' && *end == '\0';
}

/* Returns the index of the option; `count`: there is none of this name. */
static size_t find(const char *name, const struct option_row *rows, size_t count)
{
    size_t at = 0;

    while (at < count && strcmp(rows[at].name, name) != 0) {
        at++;
    }
    return at;
}

bool options_take(int argc, char **argv, const struct option_row *rows, size_t count)
{
    uint32_t given = 0;
    bool is_sound = argc % 2 == 1 && count <= ROWS_MAX;

    for (int i = 1; is_sound && i + 1 < argc; i += 2) {
        size_t at = find(argv[i], rows, count);

        is_sound = at < count && take_value(&rows[at], argv[i + 1]);
        given |= is_sound ? 1U << at : 0;
    }
    for (size_t i = 0; i < count; i++) {
        is_sound = is_sound && (!rows[i].is_needed || (given >> i & 1U) != 0);
    }
    if (!is_sound) {
        print_usage(argv[0], rows, count);
    }
    return is_sound;
}
