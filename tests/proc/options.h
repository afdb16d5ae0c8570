/* options.h - options with a value on the command line of a test program. */
#ifndef TESTS_PROC_OPTIONS_H
#define TESTS_PROC_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct option_row {
    const char *name;  /* With its dashes. */
    const char *value; /* What the usage calls the value. */
    /* Where the value goes: one of the two. A text belongs to the command line. */
    uint64_t *number;
    const char **text;
    bool is_needed;
};

/* Takes the options; the last one counts if one is given twice. False if the command line is wrong:
 * then the usage is printed on stderr. */
bool options_take(int argc, char **argv, const struct option_row *rows, size_t count);

#endif
