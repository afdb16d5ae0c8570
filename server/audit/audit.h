/*
 * audit.h - the audit log: which client changed what, and what this replica has refused.
 *
 * A thread reads the replica's own log of transactions, behind the commit, and appends one line for
 * each applied change. So a restart is the normal case: the thread continues after the last
 * recorded zxid, on every replica, whichever replica took the request. The file is not part of the
 * path of a write.
 */
#ifndef SERVER_AUDIT_H
#define SERVER_AUDIT_H

#include "server/audit/audit_file.h"
#include "storage/store.h"

struct audit;

/* What happens while the file cannot be written. */
enum audit_full {
    AUDIT_FULL_REFUSE, /* The replica takes no writes (audit_why). */
    AUDIT_FULL_DROP    /* Lines are dropped and counted. */
};

struct audit_options {
    const char *path;     /* NULL: standard error. */
    const char *data_dir; /* Directory of the note of the last recorded zxid. */
    enum audit_full full;
    uint32_t member;     /* Id of this replica. */
    const char *version; /* Of the program. */
    zxid_t start;        /* Without a file and a note, recording begins after this zxid. */
    const struct audit_system *system;
};

/* Opens and repairs the file. `path` and `data_dir` are copied; `version` and `system` live as long
 * as the process. ERR_CONFIG, with a sentence in `error`. */
enum err audit_open(const struct audit_options *options, struct audit **ret_audit,
                    char error[AUDIT_ERROR_MAX]);

/* Starts the thread, which reads records from `store` until audit_stop returns. */
void audit_start(struct audit *audit, struct store *store);

/* Records what has been applied and is not recorded yet, for at most 2 s; ends the thread if it
 * was started, closes the file, frees the audit log. If a call of the file system does not return,
 * waits a second more; then the thread closes and frees all that when the call returns, if ever.
 * Accepts NULL. */
void audit_stop(struct audit *audit);

/* Reports that the state has applied all up to `applied`, and the id of the cluster. Core thread.
 */
void audit_applied(struct audit *audit, zxid_t applied, const uint8_t cluster[AUDIT_CLUSTER_LEN]);

/* Returns the zxid after which the log must be kept, because it is not recorded durably. Any
 * thread. */
zxid_t audit_keep(struct audit *audit);

/* Returns why this replica must take no writes, a constant text; NULL: it may. The core asks in
 * each turn, so this also notices, and logs, that the file system hangs. Any thread. */
const char *audit_why(struct audit *audit);

/* Lets the file be opened again, after it was renamed, and waits for the result. False, with a
 * sentence: the file could not be opened again, or not within `wait_ms`; until it can, the old one
 * is used. Any thread; after audit_start and before audit_stop. */
bool audit_reopen(struct audit *audit, uint32_t wait_ms, char error[AUDIT_ERROR_MAX]);

/* Records a refusal. At most AUDIT_REFUSALS_PER_S, and AUDIT_REFUSAL_BYTES_PER_S, in a second get
 * a line; the others are counted. Any thread. */
void audit_refused(struct audit *audit, const struct audit_refusal *refusal);

enum {
    AUDIT_HANG_MS = 5000, /* A call of the file system that takes longer hangs. */
    AUDIT_REFUSALS_PER_S = 100,
    AUDIT_REFUSAL_BYTES_PER_S = 128 << 10 /* About: a line that begins below it is written. */
};

/* Numbers since the start, and the state now. */
struct audit_figures {
    uint64_t lines;    /* Lines written. */
    uint64_t dropped;  /* Lines dropped because the file could not be written. */
    uint64_t refusals; /* Refusals, with or without a line. */
    uint64_t omitted;  /* Refusals without a line. */
    uint64_t gaps;
    uint64_t errors; /* Times that writing began to fail. */
    bool failing;    /* The file cannot be written now. */
    zxid_t recorded; /* All up to here is in the file. */
    uint64_t behind; /* Records that are applied and not recorded. */
};

/* Any thread. `ret_why` (AUDIT_ERROR_MAX bytes, or NULL) gets the reason of a failure, "" without
 * one.
 */
void audit_figures(struct audit *audit, struct audit_figures *ret_figures, char *ret_why);

#endif
