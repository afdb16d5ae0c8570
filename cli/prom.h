/* prom.h - lines of metrics, as Prometheus writes them, taken apart. Pure. */
#ifndef CLI_PROM_H
#define CLI_PROM_H

#include "cli/jsonr.h"

struct prom_line {
    struct slice text; /* All of it, without the line feed. */
    struct slice name;
    struct slice labels; /* Between the braces. */
    struct slice value;
};

/* Takes lines off `rest` up to the next one with a figure. False: none is left. */
bool prom_next(struct slice *rest, struct prom_line *ret_line);

/* The labels as an object, and the value as a number (text when JSON has no such number); the
 * caller drops them. */
json_t *prom_labels(const struct prom_line *line);
json_t *prom_value(const struct prom_line *line);

#endif
