/*
 * zab_play.h - one protocol core that lines of a script drive: what goes in by play_line, what came
 * out as text. README.md in this folder has the lines.
 */
#ifndef TESTS_UNIT_ZAB_ZAB_PLAY_H
#define TESTS_UNIT_ZAB_ZAB_PLAY_H

#include "tests/unit/zab/zab_text.h"

struct play {
    struct drive drive;
    bool is_open;                   /* There has been a "replica". */
    struct zab_config config;       /* Of all members, as changes start from. */
    struct drive_log before;        /* The disk of the replica before this one. */
    struct zab_status shown;        /* As of the last report. */
    uint32_t dialogue;              /* Of its last CEPOCH. */
    bool is_hidden[ZAB_CONFIG + 1]; /* Messages that are not reported. */
    char error[128];                /* Why the last line could not be carried out. */
    struct buf said;                /* What "show" has found. */
};

void play_init(struct play *play);
void play_release(struct play *play);

/* Carries out one line; false with `error` when it is none. */
bool play_line(struct play *play, struct words *words);

/* What came of the last line: appends a line for each effect, and one for the state if that has
 * changed. */
void play_report(struct play *play, struct buf *out);

#endif
