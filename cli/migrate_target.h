/*
 * migrate_target.h - the zabra side of a migration: what it has, and the changes that make it equal
 * to the source, sent as imports of many lines. One thread.
 *
 * Functions that return false have reported an error that ends the command: `code` is its exit
 * code. A znode that the ensemble refuses does not end it: it is counted, and the first ones are
 * named.
 */
#ifndef CLI_MIGRATE_TARGET_H
#define CLI_MIGRATE_TARGET_H

#include "cli/migrate_index.h"
#include "cli/transfer.h"

enum {
    MIGRATE_LINES_MAX = 1000,      /* Lines of one import. */
    MIGRATE_LINES_BYTES = 1 << 20, /* Bytes of one, unless a single line has more. */
    MIGRATE_NAMED_MAX = 20         /* Refused znodes, and znodes that differ, that are named. */
};

/* What a line of an import does. */
enum migrate_kind {
    MIGRATE_CREATE,
    MIGRATE_CHANGE,
    MIGRATE_RAISE, /* The count of creates. */
    MIGRATE_KINDS
};

struct migrate_target {
    struct cli *cli;
    const char *top;
    struct migrate_index index;
    bool exists;         /* The top exists. */
    uint64_t unreadable; /* Znodes that the export has left out with all below them. */
    struct buf lines;
    size_t starts[MIGRATE_LINES_MAX]; /* Where each line begins. */
    enum migrate_kind kinds[MIGRATE_LINES_MAX];
    size_t line_count;
    uint64_t done[MIGRATE_KINDS]; /* Lines that the ensemble has accepted. */
    uint64_t undone;              /* Changes of a pass that it has refused, but for deletions. */
    FILE *counters;               /* Lines for the counts of creates; NULL: none yet. */
    json_t *refused;              /* The first refused znodes: {"path", "reason"}. */
    uint64_t refused_count;
    struct progress progress;
    bool shows;
    int code;
};

void migrate_target_init(struct migrate_target *target, struct cli *cli, const char *top);
void migrate_target_release(struct migrate_target *target);

/* Forgets all that waits to be sent: the pass that has read it was cut off, and the next one, which
 * reads the target again, would not know of it. */
void migrate_target_forget(struct migrate_target *target);

/* Reads what the target has into the index. */
bool migrate_target_load(struct migrate_target *target);

/* Which of the znodes that the source does not have (index: not `seen`) are listed. */
enum migrate_list {
    MIGRATE_FIRST,       /* The first ones. */
    MIGRATE_FIRST_KNOWN, /* The first ones of those that the source had. */
    MIGRATE_LAST,        /* The last ones: with a znode in the list are all that are below it. */
    MIGRATE_LAST_KNOWN
};

/* Adds their paths, relative to the top and parents first, to the empty list `names`; at most
 * `max`. */
bool migrate_target_extra(struct migrate_target *target, enum migrate_list list, json_t *names,
                          size_t max);

/* Creates the znode or overwrites its data and ACL. `line` is one of an import. */
bool migrate_target_put(struct migrate_target *target, enum migrate_kind kind, struct slice line);

/* Sends the lines that wait. */
bool migrate_target_flush(struct migrate_target *target);

/* Raises the count of creates once migrate_target_raise_all() is called, after all puts. */
bool migrate_target_raise(struct migrate_target *target, struct slice path, uint32_t creates);
bool migrate_target_raise_all(struct migrate_target *target);

enum migrate_deletion {
    MIGRATE_DELETED,   /* Or it did not exist. */
    MIGRATE_NOT_EMPTY, /* It has children, and stays. */
    MIGRATE_KEPT,      /* It was refused: it is counted and named. */
    MIGRATE_FAILED     /* An error that ends the command: `code`. */
};

/* Deletes a znode; `recursive`: with all below it. */
enum migrate_deletion migrate_target_delete(struct migrate_target *target, struct slice path,
                                            bool recursive);

/* Appends the full path of a znode to `out`. */
void migrate_target_path(const struct migrate_target *target, struct slice path, struct buf *out);

/* Sets the ACL of the root, which an import leaves alone. `acl`: as JSON. */
bool migrate_target_root_acl(struct migrate_target *target, struct slice acl);

/* Whether a signal has ended the last request, whose exit code this is. */
bool migrate_ended_request(const struct cli *cli, int code);

/* Takes the signal from client->interrupt_fd, so that it does not end the process before its output
 * is written, and reports the interruption; returns the exit code. */
int migrate_interrupted(const struct cli *cli);

/* Counts a znode that was not copied, and names it. */
void migrate_target_refuse(struct migrate_target *target, struct slice path, const char *why);

#endif
