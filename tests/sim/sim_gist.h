/*
 * sim_gist.h - the fields of a message that appear in a trace.
 */
#ifndef TESTS_SIM_SIM_GIST_H
#define TESTS_SIM_SIM_GIST_H

#include "zab/msg.h"

/* 0: the type has no such field. */
struct sim_gist {
    uint32_t epoch; /* Epoch, or the promise of the sender. */
    zxid_t zxid;    /* Zxid of the record, or end of the log that the message describes. */
    zxid_t commit;  /* Commit watermark, or the end of a log. */
    uint32_t flags;
};

struct sim_gist sim_gist(const struct zab_msg *msg);

#endif
