/*
 * mutate.h - small changes to an input, the same ones for the same generator.
 *
 * They resemble libFuzzer's own, so a replay around each seed notices at once when a parser has
 * lost a check.
 */
#ifndef TESTS_FUZZ_MUTATE_H
#define TESTS_FUZZ_MUTATE_H

#include "base/buf.h"
#include "tests/lib/draw.h"

/* Changes `bytes` in one to four places; `other` provides pieces to insert. The length stays within
 * the buffer's maximum. */
void mutate(struct buf *bytes, struct slice other, struct rng *rng);

#endif
