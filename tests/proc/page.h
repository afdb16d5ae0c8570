/*
 * page.h - the lines of the "sh" blocks of docs/operating.md, for tests that run its procedures.
 */
#ifndef TESTS_PROC_PAGE_H
#define TESTS_PROC_PAGE_H

#include <stdint.h>

/* Calls `run` for each line of a block below the heading, the first one with `block` 1; 0: of all
 * blocks. A line that ends with a backslash comes together with the next one. Returns the number of
 * lines. */
uint32_t page_run(const char *heading, uint32_t block, void (*run)(void *ctx, const char *line),
                  void *ctx);

#endif
