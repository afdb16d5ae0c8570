/*
 * words.h - splits a line into words, as a shell does. Blanks separate words. 'Single quotes' keep
 * text as it is, "double quotes" allow \" and \\, and a backslash quotes one character. Nothing is
 * expanded; a word that begins with # begins a comment. Also reads short lists of words in one
 * text, and quotes words. Pure.
 */
#ifndef CLI_WORDS_H
#define CLI_WORDS_H

#include "base/buf.h"

enum {
    WORDS_MAX = 256,
    WORDS_LINE_MAX = 1 << 20
};

struct words {
    char *items[WORDS_MAX + 1]; /* Ends with NULL. */
    int count;
    bool open;         /* The line ends within a word, or within quotes. */
    const char *fault; /* Why the line cannot be split, or NULL. */
    struct buf text;   /* The text that the items point into. */
};

/* Splits a line. Returns false when that fails: `fault` says why. With `unfinished` a line may end
 * within quotes, for completion. The caller calls words_release() in any case. */
bool words_split(struct words *words, const char *line, bool unfinished);
void words_release(struct words *words);

/* Appends a word in single quotes, as a shell reads it. */
void words_quote(struct buf *out, struct slice word);

/* Appends a path as a shell reads it, in quotes only if it needs them. */
void words_quote_path(struct buf *out, const char *path);

/* Returns the text without the blanks before and after it. */
struct slice words_trim(struct slice text);

/* Returns the index of the word in the list "a, b, c", from 0; -1: the word is not in the list. */
int words_find(const char *list, const char *word);

#endif
