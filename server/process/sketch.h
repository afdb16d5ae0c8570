/*
 * sketch.h - counts the most frequent keys of a stream in bounded memory: the space-saving
 * algorithm of Metwally, Agrawal and El Abbadi (2005).
 *
 * With n additions, `observed` of an entry is at most the true count of its key, and observed +
 * error is at least that. Each error is at most n / SKETCH_ENTRIES. Each key that was added more
 * often than n / SKETCH_ENTRIES times has an entry. One addition compares SKETCH_ENTRIES words and,
 * for a new key, looks for the least of as many counts; it allocates nothing. The owner guards a
 * sketch.
 */
#ifndef SERVER_SKETCH_H
#define SERVER_SKETCH_H

#include "base/slice.h"

#include <stdbool.h>

enum {
    SKETCH_ENTRIES = 64,
    SKETCH_KEY_MAX = 128 /* Bytes of a key. */
};

/* The count of a key, as an answer shows it. */
struct sketch_row {
    struct slice key;
    uint64_t reads; /* Observed. */
    uint64_t writes;
    uint64_t error; /* At most this many more reads and writes were not observed. */
};

struct sketch_entry {
    uint64_t reads; /* Since the key has this entry. */
    uint64_t writes;
    uint32_t len;
    uint8_t key[SKETCH_KEY_MAX];
};

struct sketch {
    uint32_t count;                  /* Entries in use. */
    uint32_t hashes[SKETCH_ENTRIES]; /* Side by side, because each addition compares all. */
    uint64_t totals[SKETCH_ENTRIES]; /* reads + writes + error of the entry. */
    struct sketch_entry entries[SKETCH_ENTRIES];
};

void sketch_clear(struct sketch *sketch);

/* Counts one read or write; `key` has at most SKETCH_KEY_MAX bytes. */
void sketch_add(struct sketch *sketch, struct slice key, bool is_write);

/* Adds up several sketches. Fills at most SKETCH_ENTRIES rows, those with the most observed reads
 * and writes first; their keys point into the sketches. The errors of the sketches add up, too. */
uint32_t sketch_sum(const struct sketch *const *sketches, uint32_t count,
                    struct sketch_row rows[SKETCH_ENTRIES]);

#endif
