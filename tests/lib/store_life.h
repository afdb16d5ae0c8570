/*
 * store_life.h - the scripted life of one replica's directory, and a check of what a crash leaves.
 *
 * The life runs once undisturbed; the state after each step is kept. Then it runs again and is
 * disturbed at some call to the disk: every resulting image must open without damage and hold the
 * state after the last finished step, or a possible result of the interrupted step.
 */
#ifndef TESTS_LIB_STORE_LIFE_H
#define TESTS_LIB_STORE_LIFE_H

#include "tests/lib/store_kit.h"

enum {
    LIFE_STEPS_MAX = 40,
    LIFE_TEXT_MAX = 400,
};

/* What must be on the disk after a step. */
struct life_state {
    struct skit_log log;
    uint32_t promised_epoch;
    bool is_formatted;
    bool is_quarantined;
    zxid_t committed; /* Watermark of the newest batch. */
    uint64_t calls;   /* To the disk, when the step was done. */
};

struct life {
    size_t step_count;
    struct life_state states[LIFE_STEPS_MAX + 1]; /* [i]: after i steps. */
};

/* Runs the undisturbed life. */
void life_init(struct life *life);
void life_release(struct life *life);

const char *life_step_name(size_t step);

/* Runs steps from the first; returns how many were finished before an error or a wrong result. */
size_t life_run(struct skit *kit, const struct life *life, enum err *ret_err);

/* Opens the disk of `kit` (store closed) after `done` finished steps, while the next one may have
 * begun, and checks it; then appends, reopens and checks again. False, with a reason in `text`,
 * when it is wrong. */
bool life_judge(struct skit *kit, const struct life *life, size_t done, char text[LIFE_TEXT_MAX]);

/* The first half of that: opens and checks; then the store is open and `kit->log` is its content.
 */
bool life_judge_open(struct skit *kit, const struct life *life, size_t done,
                     char text[LIFE_TEXT_MAX]);

/* A kit whose segments have the size of the life's. */
void life_kit_init(struct skit *kit);

/* Crashes at each call to the disk of the steps [first, last), in many images each. Returns the
 * number of wrong ones; prints the first few. */
size_t life_crash_everywhere(const struct life *life, size_t first, size_t last,
                             enum vfs_mem_crash_mode mode, uint64_t seed);

/* Kills the process at each call, opens, and then the machine loses everything volatile: what the
 * opening reported must still exist. */
size_t life_kill_everywhere(const struct life *life, uint64_t seed);

/* Fails each call once with `err`. */
size_t life_fail_everywhere(const struct life *life, enum err err, uint64_t seed);

/* Makes each open, and some after it, fail for lack of a descriptor: every step must finish
 * nevertheless, and the disk must hold the same as without. */
size_t life_lack_files_everywhere(const struct life *life);

/* Index of the first step with that name. */
size_t life_find(const char *name);

#endif
