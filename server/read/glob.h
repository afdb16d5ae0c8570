/*
 * glob.h - patterns for names in a search.
 *
 * With a star, a question mark or a backslash the pattern describes the whole name: any text, any
 * one character, the next character literally. Without them the name must contain the pattern
 * somewhere.
 */
#ifndef SERVER_GLOB_H
#define SERVER_GLOB_H

#include "base/slice.h"

/* An empty pattern matches everything. Takes at most about pattern.len * text.len steps. With
 * `any_case` the letters A to Z match a to z; other letters are compared as they are. */
bool glob_match(struct slice pattern, struct slice text, bool any_case);

/* Whether `text` contains the bytes of `part`. */
bool glob_holds(struct slice text, struct slice part);

#endif
