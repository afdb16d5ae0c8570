/*
 * backups.h - backups of this replica for its front ends: a thread reads the disk, one backup at a
 * time, and a front end takes the bytes.
 *
 * At most BACKUPS_QUEUE bytes wait for the front end: the thread goes no faster than the client
 * reads, nor than maxBackupBytesPerSecond. A client that reads nothing is the front end's concern.
 */
#ifndef SERVER_BACKUPS_H
#define SERVER_BACKUPS_H

#include "base/thread.h"
#include "server/backup/backup_source.h"

enum {
    BACKUPS_QUEUE = 1 << 20
};

enum backups_state {
    BACKUPS_WAIT,  /* Nothing yet. */
    BACKUPS_BYTES, /* Some bytes. */
    BACKUPS_END,   /* All bytes were taken. */
    BACKUPS_FAILED /* The bytes so far are of no use. */
};

struct backups_run;

/* The pace at which a backup reads the disk. */
struct backups_pace {
    uint64_t bytes_per_s;
    uint64_t start_ms; /* Later than the true start by the time for which it was held up. */
    uint64_t bytes;    /* Read so far; the owner adds to it. */
};

/* The last backup of which a client has taken all bytes. */
struct backups_last {
    int64_t ended_ms; /* ms since 1970; 0: none since the start of the process. */
    zxid_t zxid;
};

struct backups {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct thread thread;
    struct backup_host host;
    uint64_t bytes_per_s;
    bool has_thread;
    bool closed;
    struct backups_run *run;  /* The thread's; NULL: none. */
    struct backups_run *next; /* Not begun by the thread; NULL: none. */
    struct backups_last last;
};

void backups_init(struct backups *backups);
void backups_release(struct backups *backups);

/* Starts the thread. `host` is copied; what it points to must live until backups_stop. */
void backups_start(struct backups *backups, const struct backup_host *host, uint64_t bytes_per_s);

/* Lets the backup fail and takes no more. Any thread. */
void backups_close(struct backups *backups);
void backups_stop(struct backups *backups);

void backups_pace_begin(struct backups_pace *pace, uint64_t bytes_per_s, uint64_t now_ms);

/* When the next piece may be read. Time for which a slow client or disk held the backup up is not
 * made good: at most a tenth of a second of it. */
uint64_t backups_pace_due(struct backups_pace *pace, uint64_t now_ms);

/* Any thread. */
void backups_last(struct backups *backups, struct backups_last *ret_last);

/* Begins a backup. `wake` is called on the thread of the backups.
 * ERR_THROTTLED: another one is under way. ERR_CLOSED. Any thread. */
enum err backups_begin(struct backups *backups, const struct backup_ask *ask,
                       void (*wake)(void *ctx), void *ctx, struct backups_run **ret_run);

/* Takes at most `max` bytes. */
enum backups_state backups_take(struct backups_run *run, void *to, size_t max, size_t *ret_len);

/* Whether there are bytes to take, or the backup has ended. If neither (BACKUPS_WAIT), `wake` will
 * be called once, perhaps before the return. */
enum backups_state backups_look(struct backups_run *run);

/* Why it has failed. */
enum err backups_error(const struct backups_run *run, const char **ret_why);

/* HEAD; valid once there were bytes. */
const struct backup_head *backups_head(const struct backups_run *run);

/* The front end needs the backup no longer. No `wake` comes after the return. Does not wait for the
 * disk. */
void backups_leave(struct backups_run *take_run);

#endif
