/*
 * zab_sample.h - a message of each type with all its fields set, for tests of the codec.
 */
#ifndef TESTS_LIB_ZAB_SAMPLE_H
#define TESTS_LIB_ZAB_SAMPLE_H

#include "zab/msg.h"

enum {
    SAMPLE_RANGES = 2
};

/* `ranges` has room for SAMPLE_RANGES; `rec` may be NULL for types that need none. The caller keeps
 * both. */
struct zab_msg zab_sample(enum zab_msg_type type, struct epoch_range *ranges, struct logrec *rec);

#endif
