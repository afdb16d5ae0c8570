/*
 * shown.h - whether a program prints what a page shows. What differs from day to day is masked on
 * both sides, and "..." on the page stands for anything.
 */
#ifndef TESTS_PROC_SHOWN_H
#define TESTS_PROC_SHOWN_H

#include "base/buf.h"

/* Puts "#" in the place of zxids, times, secrets and the like; without white space at the end. */
void shown_mask(const char *text, struct buf *out);

/* Each piece between "..." in its order, the first at the start, the last at the end. */
bool shown_matches(const char *shown, const char *printed);

#endif
