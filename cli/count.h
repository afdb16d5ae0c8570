/* count.h - a znode whose data is a number in decimal: read, added to, and never lost. */
#ifndef CLI_COUNT_H
#define CLI_COUNT_H

#include "cli/revise.h"

/* The number that was read; blanks around it are no part of it. CMD_OK, or reported. */
int count_number(const struct revise *revise, int64_t *ret_number);

/* Adds, again and again until no other client was quicker; with `create` a missing number is 0.
 * CMD_OK, CMD_SHOWN, or reported. */
int count_add(struct revise *revise, int64_t by, bool create, int64_t *ret_sum);

void count_print(const struct cli *cli, const char *path, int64_t number);

#endif
