/*
 * page.h - the blocks of the documentation as they stand there, for tests that run them.
 */
#ifndef TESTS_PROC_PAGE_H
#define TESTS_PROC_PAGE_H

#include "tests/proc/ensemble.h"

#include <stdint.h>

/* The lines of the "sh" blocks of docs/operating.md. Calls `run` for each line of a block below the
 * heading, the first one with `block` 1; 0: of all blocks. A line that ends with a backslash comes
 * together with the next one. Returns the number of lines. */
uint32_t page_run(const char *heading, uint32_t block, void (*run)(void *ctx, const char *line),
                  void *ctx);

/* Writes a block of a page ("docs/security.md") below a heading to the file $D/NAME: the first one
 * has number 1. `kind`: only blocks that are marked so count; NULL: all. */
struct page_block {
    const char *page;
    const char *heading;
    const char *kind;
    uint32_t number;
};

void page_cut(const struct page_block *block, const char *name);

/* Replaces in $D/NAME the client addresses "zkN.example.org:9998" by those of the replicas. */
void page_localize(const struct ensemble *ensemble, const char *name);

/* Opens an ensemble of `count` replicas in whose directory the test then works, without
 * ZABRA_ENDPOINTS; starts them when `configure` has written their files, and waits until each is
 * ready by its probe port. */
void page_ensemble_open(struct ensemble *ensemble, uint32_t count, void (*configure)(void),
                        const uint16_t *probes);
void page_ensemble_close(struct ensemble *ensemble);

#endif
