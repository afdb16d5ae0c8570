/*
 * etag.h - entity tags: a letter names the part of a znode that the tag covers; the numbers after
 * it change with that part.
 *
 * d (data): czxid.version. s (stat): czxid.mzxid.pzxid.aversion. c (names of children):
 * czxid.cversion. a (ACL): czxid.aversion. t (tree): the czxid of its top znode, the newest zxid in
 * the tree, and a hash of the znodes that the reader may see. m (members): the version of the
 * configuration. zxids are in hex. Because of the
 * czxid, a recreated znode never has the tag of a deleted one, although ZooKeeper's version starts
 * again at 0.
 */
#ifndef HTTP_ETAG_H
#define HTTP_ETAG_H

#include "server/op/ops.h"

enum {
    HTTP_ETAG_MAX = 80
};

/* Writes hexadecimal digits without leading zeros; returns their end. */
char *http_put_hex(char *at, uint64_t value);

/* Writes the tag of a result; "" when the answer has no tag. The shape of the answer decides what
 * the tag covers. */
void http_etag(const struct op_args *args, const struct op_result *result, char out[HTTP_ETAG_MAX]);

/* Writes the tag of the part that the write `op` changes, the data or the ACL, from a stat. */
void http_etag_changed(enum op_id op, const struct stat_view *stat, char out[HTTP_ETAG_MAX]);

/* Writes the tag of a version of the configuration. */
void http_etag_config(zxid_t version, char out[HTTP_ETAG_MAX]);

/* Writes the tag of bytes that have no version: a part of the hash of these bytes. */
void http_etag_bytes(struct slice bytes, char out[HTTP_ETAG_MAX]);

/* Whether the value of If-None-Match matches the tag: it is "*", or a list with the tag, weak or
 * not. */
bool http_etag_matches(struct slice list, const char *etag);

enum {
    HTTP_STAT_MAX = 320
};

/* Writes the stat in the form of one header: "czxid=0x500000012, mzxid=..., version=3, ...". */
void http_stat_text(const struct stat_view *stat, char out[HTTP_STAT_MAX]);

#endif
