/*
 * audit_line.h - the lines of the audit log: one JSON object each, at most AUDIT_LINE_MAX bytes.
 *
 * A line that says how far the log was recorded begins with its event and its zxid, so that the
 * end of a file tells where to continue (audit_tail_read). A transaction with many changes becomes
 * several lines; all but the last end with `"more":true`. No line has a password, a hash of one, or
 * the secret of a session.
 */
#ifndef SERVER_AUDIT_LINE_H
#define SERVER_AUDIT_LINE_H

#include "base/buf.h"
#include "base/jsonw.h"
#include "base/logrec.h"
#include "server/op/op.h"
#include "server/state/txn.h"

enum {
    AUDIT_CLUSTER_LEN = 16,
    AUDIT_SPLIT = 32 << 10,    /* A line with so many bytes takes no further change. */
    AUDIT_LINE_MAX = 256 << 10 /* A path of 16 KiB, and all identities, each byte escaped. */
};

/* A record of the log while it becomes lines. */
struct audit_record {
    const struct logrec *rec;
    struct wire_reader reader;
    struct txn_header header;
    struct txn_actor actor;
    bool has_actor;
    struct txn_effect next; /* The next effect that a line shows. */
    bool has_next;
};

/* Begins a committed record, which must outlive `ret_record`. */
void audit_record_begin(struct audit_record *ret_record, const struct logrec *rec);

/* Appends the next line. `wall_ms` is the time of lines about records that have none. Returns false
 * when there is no further line: many records have none at all. */
bool audit_record_line(struct audit_record *record, int64_t wall_ms, struct buf *out);

/* The file begins here, or continues after a start: all up to `zxid` was recorded before. */
struct audit_open {
    zxid_t zxid;
    uint32_t member;
    uint8_t cluster[AUDIT_CLUSTER_LEN];
    const char *version;
    int64_t wall_ms;
};

void audit_put_open(struct buf *out, const struct audit_open *open);

/* The changes above `after` up to `zxid` are in the state, but not in this file. */
void audit_put_gap(struct buf *out, zxid_t after, zxid_t zxid, const char *why, int64_t wall_ms);

/* `lines` lines were dropped, of zxids above `after` up to `zxid`, because the file could not be
 * written. */
void audit_put_dropped(struct buf *out, zxid_t after, zxid_t zxid, uint64_t lines, int64_t wall_ms);

/* `refusals` refusals have no line, because there were too many at a time. */
void audit_put_omitted(struct buf *out, uint64_t refusals, int64_t wall_ms);

/* A request that this replica has refused. */
struct audit_refusal {
    const char *op;                    /* Name of the operation; NULL: unknown. */
    const char *part;                  /* The operation of a multi that was refused; or NULL. */
    struct slice path;                 /* Empty: none. Of any length: the line has its beginning. */
    const struct op_principal *client; /* NULL: unknown. */
    uint64_t session;                  /* Public id; 0: none. */
    enum err err;
    uint32_t status; /* Of the answer; 0: that of `err`. */
    const char *why; /* NULL: the text of `err`. Of any length, as the path. */
};

void audit_put_refusal(struct buf *out, const struct audit_refusal *refusal, int64_t wall_ms);

/* What the beginning and the end of a line say. */
struct audit_mark {
    bool has_zxid;
    zxid_t zxid;
    bool is_change;
    bool more; /* Further lines of the same transaction follow. */
};

/* Parses a line without its line feed; `line` may lack its middle. */
struct audit_mark audit_line_mark(struct slice line);

/* Finds the cluster in a line of audit_put_open. */
bool audit_line_cluster(struct slice line, uint8_t ret_cluster[AUDIT_CLUSTER_LEN]);

#endif
