/* prom.h - parses lines of metrics in the format of Prometheus. Pure. */
#ifndef CLI_PROM_H
#define CLI_PROM_H

#include "cli/jsonr.h"

struct prom_line {
    struct slice text; /* The whole line, without the line feed. */
    struct slice name;
    struct slice labels; /* The text between the braces. */
    struct slice value;
};

/* Takes lines off `rest`, up to and including the next one with a value. False: none is left. */
bool prom_next(struct slice *rest, struct prom_line *ret_line);

/* Return the labels as an object, and the value as a number (as text when JSON has no such number).
 * The caller drops them. */
json_t *prom_labels(const struct prom_line *line);
json_t *prom_value(const struct prom_line *line);

#endif
