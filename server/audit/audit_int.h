/* audit_int.h - the inside of the audit log, shared by audit*.c. */
#ifndef SERVER_AUDIT_INT_H
#define SERVER_AUDIT_INT_H

#include "base/mailbox.h"
#include "base/metric.h"
#include "base/thread.h"
#include "server/audit/audit.h"
#include "server/audit/audit_note.h"

/* What other threads ask; guarded by audit->mutex. */
struct audit_asked {
    uint64_t reopen_asks;               /* Times that opening the file again was asked. */
    uint64_t reopen_dones;              /* How many of them are done. */
    char reopen_error[AUDIT_ERROR_MAX]; /* Why the last one failed; "": it did not. */
    uint8_t cluster[AUDIT_CLUSTER_LEN]; /* Known once `is_told` is set. */
    struct buf refusals;                /* Lines of refusals. */
    uint64_t lines;                     /* Their number. */
    uint64_t omitted; /* Refusals without a line since the last line about them. */
    uint64_t second;  /* The present second, and how many lines it has. */
    uint32_t in_second;
    size_t bytes_in_second;
    char why[AUDIT_ERROR_MAX]; /* Why the file cannot be written; "": it can. */
};

/* Refusals that lines are about: those with a line of their own, and others. */
struct audit_refusals {
    uint64_t lines;
    uint64_t omitted;
};

struct audit {
    struct audit_options options;
    char *path; /* That of the options; NULL: standard error. */
    struct thread thread;
    bool has_thread;
    struct mailbox wake; /* Closed to end the thread. */
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* asked.reopen_dones has grown, or has_ended is set. */
    struct audit_asked asked;
    bool has_ended; /* By the mutex, as the next two: the thread touches nothing any more. */
    bool in_store;  /* The thread uses the store. */
    bool is_left;   /* The thread must not use the store any more, and frees the audit log. */

    /* The thread's own. */
    struct store *store;
    struct audit_file file;
    struct audit_note note; /* As found at the opening; then as written. */
    struct audit_tail tail;
    bool begun; /* The cluster is known, and `at` is set. */
    uint8_t cluster[AUDIT_CLUSTER_LEN];
    zxid_t applied;               /* As told at the start of this turn. */
    zxid_t at;                    /* All up to here is in the file, in `out`, or dropped. */
    struct logrec *rec;           /* Record of which not all lines are in `out`; NULL: none. */
    struct audit_record record;   /* Its lines. */
    bool has_lines;               /* The last lines of `out`, or of the file, are lines of it. */
    struct buf out;               /* Lines on their way to the file. */
    size_t written;               /* Bytes of `out` that are in the file. */
    uint64_t full_ms;             /* Since then the reader has taken nothing; 0: it reads. */
    struct audit_refusals in_out; /* Refusals of the lines in `out`. */
    struct audit_refusals
        unsynced;   /* Refusals of the lines that were written after the last sync. */
    bool dirty;     /* Lines were written after the last sync. */
    bool is_unsafe; /* A sync has failed: these lines must be cut off, and are not yet. */
    uint64_t synced_ms;
    bool failing; /* A failure was reported, and no success since. */
    bool write_failing;
    bool sync_failing;
    char reopen_error[AUDIT_ERROR_MAX]; /* Why it could not be opened again in this turn. */
    bool is_gone; /* The file has no name any more, and no other could be opened. */
    bool read_failing;
    uint64_t retry_ms;      /* While failing: time of the next attempt. */
    uint64_t dropped_lines; /* Since the last line about them. */
    zxid_t dropped_after;

    /* For other threads. The core sets the first two, without the mutex, because it must not wait
     * while the line of a refusal is written. */
    _Atomic bool is_told;
    _Atomic zxid_t told_applied;
    _Atomic zxid_t recorded;
    _Atomic zxid_t keep;
    _Atomic bool stuck;        /* The replica must take no writes. */
    _Atomic uint64_t alive_ms; /* The thread was last active at this time; 0: it does not run. */
    _Atomic bool hangs;        /* It was reported that the thread is in a call that hangs. */
    struct metric_counter lines;
    struct metric_counter dropped;
    struct metric_counter refusals;
    struct metric_counter omitted;
    struct metric_counter gaps;
    struct metric_counter errors;
};

enum {
    AUDIT_FLUSH_AT = 64 << 10,      /* Bytes of lines that are written at a time. */
    AUDIT_REFUSALS_MAX = 512 << 10, /* Bytes of lines of refusals that wait. */
    AUDIT_OUT_MAX = 4 << 20,
    AUDIT_RETRY_MS = 500, /* Also how long a reader may take nothing without being a failure. */
};

/* What messages call the file. */
static inline const char *audit_name(const struct audit *audit)
{
    return audit->path ? audit->path : "standard error";
}

/* audit_hang.c: calls of the file system that do not return. */

/* Notes that the thread is active. Only the thread calls it. */
void audit_is_alive(struct audit *audit);

/* Whether records wait for a call that has not returned for AUDIT_HANG_MS. Any thread. */
bool audit_hangs(struct audit *audit);

/* The thread may use the store from here to audit_leave_store. False: never again. */
bool audit_enter_store(struct audit *audit);
void audit_leave_store(struct audit *audit);

/* The thread ends. True: it must free the audit log. */
bool audit_ends(struct audit *audit);

/* Waits until the thread has ended, at most for `wait_ms`, and while it uses the store. False: the
 * thread is left to itself. */
bool audit_wait_end(struct audit *audit, uint32_t wait_ms);

/* audit_out.c: lines on their way to the file. Only the thread calls these functions. */

/* Writes what is in `out`. False: not all could be written. */
bool audit_flush(struct audit *audit);

/* Makes room in `out`, by writing or, if the options say so, by dropping lines. False: lines wait
 * there that cannot be written now, and nothing may be appended. */
bool audit_make_room(struct audit *audit);

/* Whether lines wait for a reader that does read. */
bool audit_is_slow(const struct audit *audit);

/* Puts the line that names the cluster and the last recorded zxid before all lines of `out` that
 * are not in the file. */
void audit_put_open_first(struct audit *audit);

/* Makes durable what is written, if it is time or `now` is set. */
void audit_sync(struct audit *audit, bool now);

/* Looks what has happened to the file: removed, or cut. Opens it again if `asked`. */
void audit_look(struct audit *audit, bool asked);

#endif
