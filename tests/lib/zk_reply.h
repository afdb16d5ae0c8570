/*
 * zk_reply.h - replies of ZooKeeper's protocol, read by a second implementation of its encoding.
 */
#ifndef TESTS_LIB_ZK_REPLY_H
#define TESTS_LIB_ZK_REPLY_H

#include "zk/decode.h"

struct zk_reply {
    int32_t xid;
    zxid_t zxid;
    int32_t code;
    struct op_result result; /* Slices point into the frame. */
    int32_t number;          /* addWatch, getAllChildrenNumber. */
    bool has_number;
    bool has_end;  /* A multi: it has results. */
    int8_t *types; /* Of a multi: the type of each result. */
};

/* Reads one whole frame, the answer to the request. False: it is not whole, or something is left.
 * zk_reply_release in any case. getEphemerals and whoAmI: the texts are the entries of the result.
 */
bool zk_reply_read(const struct zk_request *request, struct slice frame,
                   struct zk_reply *ret_reply);
void zk_reply_release(struct zk_reply *reply);

/* Returns an error that has this code; ERR_SYSTEM_ERROR when none has. */
enum err zk_reply_err(int32_t code);

#endif
