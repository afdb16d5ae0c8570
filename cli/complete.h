/*
 * complete.h - completes a command line from the table of commands, and paths from the replicas.
 *
 * Each line of the result is a candidate, a tab and a short description, or a marker: ":file"
 * (offer names of files), ":command" (offer names of programs), ":nospace" (the only candidate does
 * not end the word, so no space follows). Errors are not reported: they would disturb the typing.
 */
#ifndef CLI_COMPLETE_H
#define CLI_COMPLETE_H

#include "base/buf.h"

enum {
    COMPLETE_MS = 300,     /* Timeout of a request for znodes. */
    COMPLETE_NAMES = 1000, /* Most children that are fetched. */
    COMPLETE_OUT_MAX = 4 << 20
};

/* Appends the candidates for the last of the words, which may be empty. `words` are the words after
 * "zabra". Paths may be relative to `cwd`; NULL: there is no current znode. */
void complete(char *const *words, int count, const char *cwd, struct buf *out);

#endif
