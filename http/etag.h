/*
 * etag.h - entity tags: a letter for what they cover, then the numbers that change with it.
 *
 * d data: czxid.version · s stat: czxid.mzxid.pzxid.aversion · c names of children: czxid.cversion
 * · a ACL: czxid.aversion · t tree: czxid of its top, then the newest zxid in it, then a hash of
 * what the reader is shown. zxids in hex. The czxid makes a tag safe across delete and recreate,
 * where ZooKeeper's version starts again at 0.
 */
#ifndef HTTP_ETAG_H
#define HTTP_ETAG_H

#include "server/op/ops.h"

enum {
    HTTP_ETAG_MAX = 80
};

/* Writes hexadecimal digits without leading zeros; returns their end. */
char *http_put_hex(char *at, uint64_t value);

/* The tag of a result by the shape of the answer; "" when the answer has none. */
void http_etag(const struct op_args *args, const struct op_result *result, char out[HTTP_ETAG_MAX]);

/* The tag of what a write changes, the data or the ACL, from a stat. */
void http_etag_changed(enum op_id op, const struct stat_view *stat, char out[HTTP_ETAG_MAX]);

/* The tag of bytes without a version: from their hash. */
void http_etag_bytes(struct slice bytes, char out[HTTP_ETAG_MAX]);

/* If-None-Match: a list of tags, weak ones too, or "*". */
bool http_etag_matches(struct slice list, const char *etag);

/* The stat in one header: "czxid=0x500000012, mzxid=..., version=3, ...". */
enum {
    HTTP_STAT_MAX = 320
};

void http_stat_text(const struct stat_view *stat, char out[HTTP_STAT_MAX]);

#endif
