/*
 * glob.h - patterns for names in a search.
 *
 * A pattern with a star (any text), a question mark (any one character) or a backslash (the next
 * character literally) describes the whole name. Any other pattern matches the names that contain
 * it.
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
