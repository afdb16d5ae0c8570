/*
 * encode.h - replies of ZooKeeper's protocol. Pure; any thread.
 *
 * Each function appends one whole frame to `out`, its length included, unless it says otherwise. A
 * buf that overflows keeps what it had before, and the caller finds it in out->overflow: then the
 * connection cannot have this reply and ends.
 *
 * `zxid` is that of the header: the state that the reply shows.
 */
#ifndef ZK_ENCODE_H
#define ZK_ENCODE_H

#include "zk/decode.h"

#include "server/watch/watch.h"

enum {
    ZK_STAT_BYTES = 68
};

/* What a request without a result gets: the header alone. `code` may be ZK_OK. */
void zk_encode_code(struct buf *out, int32_t xid, zxid_t zxid, enum zk_code code);

/* Answers a request of kind ZK_DECIDED; writes nothing when its code is ZK_CLOSE. */
void zk_encode_decided(struct buf *out, const struct zk_request *request, zxid_t zxid);

/* Names of children that are encoded already, each as zk_put_bytes does. */
struct zk_names {
    struct buf bytes;
    uint32_t count;
    bool known; /* Else the names are in the result. */
};

/* Answers a request of kind ZK_GATE or ZK_READ with its result. The code of result->err must not be
 * ZK_CLOSE, and neither must those of its elements. `names`: for each element of a multi, or for
 * the request itself; NULL: all names are in the result. */
void zk_encode_result(struct buf *out, const struct zk_request *request,
                      const struct op_result *result, const struct zk_names *names, zxid_t zxid);

/* Returns the bytes of an answer of data or lists, or somewhat more. */
size_t zk_encode_size(const struct op_result *result, const struct zk_names *names);

/* Answers the first frame. timeout_ms 0: the session does not exist (any more), or the passwd is
 * wrong; then `session` and `passwd` are not looked at. */
void zk_encode_connect(struct buf *out, const struct zk_connect *connect, uint32_t timeout_ms,
                       uint64_t session, const uint8_t passwd[ZK_PASSWD_BYTES]);

/* An event of a watch. */
void zk_encode_event(struct buf *out, zxid_t zxid, enum watch_event_type type, struct slice path);

/* Answers getEphemerals. `paths`: each as zk_put_bytes writes it. */
void zk_encode_paths(struct buf *out, int32_t xid, zxid_t zxid, uint32_t count, struct slice paths);

/* Answer getAllChildrenNumber (addWatch: with 0) and whoAmI. */
void zk_encode_number(struct buf *out, int32_t xid, zxid_t zxid, int32_t number);
void zk_encode_who(struct buf *out, int32_t xid, zxid_t zxid, const struct op_principal *who);

#endif
