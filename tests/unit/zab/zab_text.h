/*
 * zab_text.h - messages, effects and logs of the protocol core as lines of a script, and back.
 *
 * Fields that are zero are left out. A zxid is "3.5": epoch and counter. zab/README.md in this
 * folder has the whole form.
 */
#ifndef TESTS_UNIT_ZAB_ZAB_TEXT_H
#define TESTS_UNIT_ZAB_ZAB_TEXT_H

#include "tests/lib/zab_drive.h"

enum {
    WORDS_MAX = 40
};

/* A line, split at its blanks. */
struct words {
    char *items[WORDS_MAX];
    size_t count;
};

/* Changes `line`. False when it has too many words. */
bool line_split(struct words *words, char *line);

/* The value of "key=value", or NULL. */
const char *line_value(const struct words *words, const char *key);
bool line_has(const struct words *words, const char *word);

/* Each returns false when the text is not such a value. */
bool text_to_number(const char *text, uint64_t *ret);
bool text_to_zxid(const char *text, zxid_t *ret);
bool text_to_state(const char *text, enum zab_state *ret);
bool text_to_msg_type(const char *text, enum zab_msg_type *ret);

/* "{version=1.4 3.disk=999}" with commas for blanks: changes to a configuration. */
bool text_to_config(const char *text, struct zab_config *inout);

/* Fills the fields that are numbers, zxids, states or flags from "key=value" and bare words; the
 * caller fills the pointers. False with the word in `ret_wrong` when one is unknown. */
bool text_to_msg(const struct words *words, size_t first, struct zab_msg *inout,
                 const char **ret_wrong);

const char *text_state(enum zab_state state);
void text_zxid(struct buf *out, zxid_t zxid);
void text_record(struct buf *out, const struct logrec *rec);

/* " name=value", and nothing when it is zero. */
void text_number(struct buf *out, const char *name, uint64_t number);
void text_named_zxid(struct buf *out, const char *name, zxid_t zxid);
void text_config(struct buf *out, const struct zab_config *config);

/* `own`: the sender's configuration; a message that carries exactly that one says "own". */
void text_msg(struct buf *out, const struct zab_msg *msg, const struct zab_config *own);

/* One line; for a SEND without the peer. */
void text_effect(struct buf *out, const struct zab_effect *effect, const struct zab_config *own);

/* The difference between two states, as words that begin with a blank; nothing when they are equal.
 */
void text_status(struct buf *out, const struct zab_status *was, const struct zab_status *is);

#endif
