/*
 * zab_play.h - one protocol core that the lines of a script drive: play_line takes the input, and
 * the output is text. README.md in this folder describes the lines.
 */
#ifndef TESTS_UNIT_ZAB_ZAB_PLAY_H
#define TESTS_UNIT_ZAB_ZAB_PLAY_H

#include "tests/unit/zab/zab_text.h"

struct play {
    struct drive drive;
    bool is_open;                 /* A "replica" line has started one. */
    struct zab_config config;     /* Of all members; changes start from it. */
    struct drive_log before;      /* The disk of the previous replica. */
    struct zab_status shown;      /* As of the last report. */
    uint32_t dialogue;            /* Of its last CEPOCH. */
    bool is_hidden[ZAB_JOIN + 1]; /* Messages that are not reported. */
    bool shows_search;            /* ZAB_FX_SEARCH is reported. */
    char host[64];                /* Of this replica, as it says to others. */
    char zone[16];
    char error[128]; /* Why the last line failed. */
    struct buf said; /* The output of "show". */
};

void play_init(struct play *play);
void play_release(struct play *play);

/* Carries out one line; false with `error` when it is invalid. */
bool play_line(struct play *play, struct words *words);

/* The result of the last line: appends a line for each effect, and one for the state if that has
 * changed. */
void play_report(struct play *play, struct buf *out);

#endif
