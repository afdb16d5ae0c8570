/*
 * sim_gist.h - the fields of a message that a trace shows.
 */
#ifndef TESTS_SIM_SIM_GIST_H
#define TESTS_SIM_SIM_GIST_H

#include "zab/msg.h"

/* 0: the type has no such field. */
struct sim_gist {
    uint32_t epoch; /* Or the sender's promise. */
    zxid_t zxid;    /* Of the record, or of the log that is spoken of. */
    zxid_t commit;  /* Commit watermark, or the end of a log. */
    uint32_t flags;
};

struct sim_gist sim_gist(const struct zab_msg *msg);

#endif
