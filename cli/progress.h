/*
 * progress.h - one line on a terminal about how far a long task is.
 */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    const char *verb; /* "exported". */
    uint64_t bytes;
    uint64_t lines;    /* Shown if the total is not known; 0: there are none. */
    uint64_t total;    /* Bytes, perhaps a guess; 0: unknown. */
    uint64_t start_ms; /* When the first bytes moved; 0: none have. */
    uint64_t shown_ms; /* 0: nothing is shown. */
};

/* The text: bytes, and of a known total the share; the rate, and the time that is left. */
enum {
    PROGRESS_MAX = 160
};

void progress_text(const struct progress *progress, uint64_t now_ms, char out[PROGRESS_MAX]);

/* Draws the line on stderr, unless that was done a moment ago. */
void progress_show(struct progress *progress, uint64_t now_ms);

/* Removes the line. */
void progress_clear(struct progress *progress);

#endif
