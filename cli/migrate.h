/*
 * migrate.h - copying a tree from a ZooKeeper: passes over the whole tree, and following changes.
 *
 * A pass reads what the target has, walks the source, and copies what differs. It is repeated until
 * a pass finds nothing to do, and this pass is also the verification. So an interrupted migration
 * is continued by another one. One thread.
 */
#ifndef CLI_MIGRATE_H
#define CLI_MIGRATE_H

#include "base/map.h"
#include "cli/migrate_target.h"
#include "cli/migrate_walk.h"

enum {
    MIGRATE_GLOBS_MAX = 64
};

struct migrate_glob {
    struct slice glob;
    int64_t ttl_ms; /* 0: of containers. */
};

/* What a pass has found. */
struct migrate_figures {
    uint64_t znodes; /* Of the source, without ephemerals. */
    uint64_t bytes;  /* Of their data. */
    uint64_t ephemerals;
    uint64_t created;
    uint64_t changed;
    uint64_t behind;   /* Counts of creates that were raised. */
    uint64_t ahead;    /* Counts that are greater than those of the source. */
    uint64_t extra;    /* Znodes that only the target has. */
    uint64_t surplus;  /* Of them, those that were deleted, or that a pass that writes deletes. */
    uint64_t unread;   /* Znodes that the source refused to show. */
    uint64_t vanished; /* Znodes that were deleted from the source meanwhile. */
};

struct migrate {
    struct cli *cli;
    struct zk_client source;
    struct migrate_target target;
    struct migrate_walk walk;
    struct migrate_visitor visitor;
    struct buf top; /* Of the source; empty: the root. */
    struct migrate_glob globs[MIGRATE_GLOBS_MAX];
    int glob_count;
    bool writes;   /* False: a dry run. */
    bool counters; /* Counts of creates are copied. */
    bool replaces; /* What only the target has is deleted, even if the source never had it. */
    bool follows;  /* Changes are being followed; no pass. */
    struct migrate_figures pass;
    uint64_t deleted; /* Sums over all passes, and of the changes that were followed. */
    uint64_t containers;
    uint64_t ttls;
    uint64_t events;
    json_t *differing; /* The first paths that the last pass has found different. */
    struct map dirty;  /* Paths to read again; a value is its own key. */
    json_t *missing;   /* Of these, those that the source does not have any more. */
    bool lost_events;  /* Changes may have been missed: a pass is needed. */
    int signal_fd;     /* -1: none. */
    bool top_unread;   /* The source refused to show the top in this pass. */
    bool recursive;    /* One recursive watch is set. */
    bool one_shot;     /* The source has no recursive watches: each znode has two. */
    uint64_t keep_ms;  /* When migrate_keep() acts next (monotonic). */
};

/* Makes one pass. Returns CMD_OK, or the exit code of a reported error. */
int migrate_pass(struct migrate *migrate);

/* Whether the last pass has found nothing to change. */
bool migrate_is_equal(const struct migrate *migrate);

/* Whether it has found nothing but what the target has refused, so that another would as well. */
bool migrate_is_settled(const struct migrate *migrate);

/* Counts what only the target has after a walk over the source. Deletes all of it if the target is
 * to be a replica (`replaces`), else only what the source had during this run. False: an error
 * that ends the command. */
bool migrate_take_extra(struct migrate *migrate);

/* Deletes what the source had, and does not have any more. `paths` has parents first. A znode that
 * has children in the target stays, until a pass deletes it or finds that the source never had
 * them. False: an error that ends the command. */
bool migrate_delete_known(struct migrate *migrate, const json_t *paths);

/* Names the first znodes that only the target has, and that stay. False: an error that ends the
 * command. */
bool migrate_name_kept(struct migrate *migrate, json_t *names);

/* Adds the full path of a znode to the names, unless there are MIGRATE_NAMED_MAX. */
void migrate_name(const struct migrate *migrate, struct slice path, json_t *names);

/* Sets the watches, or (one-shot watches) lets the next pass set them. */
int migrate_watch(struct migrate *migrate);

/* Follows the changes until a signal, or for `idle_ms` (0: no limit) none has come. Then all
 * changes that the source has made are copied. */
int migrate_follow(struct migrate *migrate, int64_t idle_ms);

/* Takes the signals that have come, so that they do nothing else. */
void migrate_drain_signals(const struct migrate *migrate);

/* Connects to the source. After an earlier connection several attempts are made. */
int migrate_connect(struct migrate *migrate);

/* Connects again and sets the watches again, after a loss. */
int migrate_reconnect(struct migrate *migrate);

/* Keeps the session of the source while the command waits for the target, and takes the events that
 * come. `ctx`: the migration. A loss shows in the next request to the source. */
void migrate_keep(void *ctx);

/* Waits until the connected server has all that the source had acknowledged before the call, and
 * takes the events about it. Not MIGRATE_DONE: MIGRATE_LOST or MIGRATE_STOPPED. */
enum migrate_step migrate_sync(struct migrate *migrate);

/* Whether a signal has come, at most `wait_ms` from now. */
bool migrate_is_stopped(const struct migrate *migrate, int64_t wait_ms);

/* Functions of the visitor. */
void migrate_visit(struct migrate *migrate);
void migrate_forget_dirty(struct migrate *migrate);

#endif
