/*
 * words.h - a line taken apart into words, as a shell does it: blanks between, 'as it is',
 * "with \" and \\", and a backslash before one character. Nothing is expanded; a word that begins
 * with # begins a comment. Also short lists of words in one text. Pure.
 */
#ifndef CLI_WORDS_H
#define CLI_WORDS_H

#include "base/buf.h"

#include <stdbool.h>

enum {
    WORDS_MAX = 256,
    WORDS_LINE_MAX = 1 << 20
};

struct words {
    char *items[WORDS_MAX + 1]; /* Ends with NULL. */
    int count;
    bool open;         /* The line ends within a word, or within quotes. */
    const char *fault; /* Why it is no line, or NULL. */
    struct buf text;   /* What the items point into. */
};

/* Release in any case. False: `fault` says why. For completion a line may end within quotes
 * (`unfinished`). */
bool words_split(struct words *words, const char *line, bool unfinished);
void words_release(struct words *words);

/* Without the blanks before and after it. */
struct slice words_trim(struct slice text);

/* Which word of "a, b, c" it is, from 0; -1: none of them. */
int words_find(const char *list, const char *word);

#endif
