/*
 * glob.h - what a name is like: the pattern of a search.
 *
 * With a star, a question mark or a backslash the pattern stands for the whole name: any text, any
 * one character, the next character as it is. Without them it is text that the name holds
 * somewhere.
 */
#ifndef SERVER_GLOB_H
#define SERVER_GLOB_H

#include "base/slice.h"

/*
 * An empty pattern matches everything. Takes at most about pattern.len * text.len steps. With
 * `any_case` letters from A to Z are like those from a to z; no other letters are compared so.
 */
bool glob_match(struct slice pattern, struct slice text, bool any_case);

/* True when `text` holds the bytes of `part`. */
bool glob_holds(struct slice text, struct slice part);

#endif
