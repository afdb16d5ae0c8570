/*
 * complete.h - completions of a command line, by the table of commands; replicas know the znodes.
 *
 * A line of the result is a candidate, a tab and a few words; or one of ":file" (names of files),
 * ":command" (names of programs), ":nospace" (the one candidate is not the end of the word). Errors
 * are silent: they would disturb the typing.
 */
#ifndef CLI_COMPLETE_H
#define CLI_COMPLETE_H

#include "base/buf.h"

enum {
    COMPLETE_MS = 300,     /* For asking about znodes. */
    COMPLETE_NAMES = 1000, /* Children that are looked at. */
    COMPLETE_OUT_MAX = 4 << 20
};

/* `words` are those behind "zabra"; the last one, which may be empty, is being typed. Paths may be
 * relative to `cwd`; NULL: there is none. */
void complete(char *const *words, int count, const char *cwd, struct buf *out);

#endif
