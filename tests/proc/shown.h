/*
 * shown.h - compares the output of a program with that on a page. Parts that change with each run
 * are masked on both sides, and "..." on the page matches anything.
 */
#ifndef TESTS_PROC_SHOWN_H
#define TESTS_PROC_SHOWN_H

#include "base/buf.h"

/* Replaces zxids, times, secrets and the like by "#", and removes white space at the end. */
void shown_mask(const char *text, struct buf *out);

/* True if the pieces between "..." occur in order, the first at the start, the last at the end. */
bool shown_matches(const char *shown, const char *printed);

#endif
