/* decode_int.h - what the files of decode.h share. */
#ifndef ZK_DECODE_INT_H
#define ZK_DECODE_INT_H

#include "zk/decode.h"

struct zk_decoder {
    struct wire_reader reader;
    const struct zk_limits *limits;
    struct buf *memory;
    bool reserved; /* `memory` has room for all ACLs of the request, so it does not move. */
};

/* Whether the type is a write with one record, or a read of the tree. */
bool zk_is_write(int32_t type);
bool zk_is_read(int32_t type);

/*
 * Decode the record of a write or a read into `args`, and its path as the client has sent it.
 * Return ZK_OK, and `args` pass op_args_check (but for check, which stands only in a multi); or the
 * code with which ZooKeeper refuses the record. ZK_MARSHALLING_ERROR: the record is malformed, or
 * its path is null.
 */
enum zk_code zk_take_write(struct zk_decoder *decoder, int32_t type, struct op_args *args,
                           struct slice *ret_path);
enum zk_code zk_take_read(struct zk_decoder *decoder, int32_t type, struct op_args *args,
                          struct slice *ret_path);

/* Whether the path is legal for a read. */
bool zk_path_is_legal(struct slice path);

/* Decodes the records of a multi or multiRead. */
void zk_take_multi(struct zk_decoder *decoder, struct zk_request *request);

/* Makes the request one that is decided. */
static inline void zk_decide(struct zk_request *request, enum zk_code code)
{
    request->kind = ZK_DECIDED;
    request->code = code;
}

#endif
