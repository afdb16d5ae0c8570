/* zab_play_int.h - functions that the lines of a script share. Each reads a word, and reports a
 * mistake. */
#ifndef TESTS_UNIT_ZAB_ZAB_PLAY_INT_H
#define TESTS_UNIT_ZAB_ZAB_PLAY_INT_H

#include "tests/unit/zab/zab_play.h"

struct command {
    const char *name; /* The first word of its line; NULL: the end of the list. */
    void (*run)(struct play *play, const struct words *words);
};

extern const struct command play_commands[]; /* zab_command.c */
extern const struct command play_changes[];  /* zab_change.c */
extern const struct command play_joins[];    /* zab_join.c */
extern const struct command play_messages[]; /* zab_message.c: messages and logs. */

__attribute__((format(printf, 2, 3))) void fail(struct play *play, const char *format, ...);
const char *word_at(struct play *play, const struct words *words, size_t at);
uint64_t number_of(struct play *play, const char *text);
uint64_t number_at(struct play *play, const struct words *words, size_t at);
uint32_t peer_at(struct play *play, const struct words *words, size_t at);
zxid_t zxid_of(struct play *play, const char *text);

/* Of "key=value". */
uint64_t value_or(struct play *play, const struct words *words, const char *key,
                  uint64_t otherwise);
zxid_t zxid_or(struct play *play, const struct words *words, const char *key, zxid_t otherwise);

/* "own": that of this replica at its start; "{...}": that of all members, with changes. */
struct zab_config config_of(struct play *play, const char *text);

/* Ends the replica and keeps its disk in `before`. */
void close_drive(struct play *play);

#endif
