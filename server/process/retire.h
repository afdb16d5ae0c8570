/*
 * retire.h - when a connection is closed whose secret or CA has been removed.
 *
 * The close of a connection with the leader costs this replica a moment in which it serves nothing,
 * and makes the outcome of requests in flight unknown. So a follower closes it when it has no
 * request in flight and the others are a quorum without it. That no two followers do so at once is
 * left to the clock: each member of the committed configuration has its own part of the time. If
 * clocks are wrong, two do, and a leader is elected again: nothing is lost. A connection that has
 * found no such moment is closed after a minute.
 *
 * Pure. Any thread.
 */
#ifndef SERVER_PROCESS_RETIRE_H
#define SERVER_PROCESS_RETIRE_H

#include "server/config/config.h"
#include "server/replica/heartbeat.h"
#include "zab/zab.h"

enum {
    RETIRE_ALWAYS_MS = 60000, /* A connection is closed then in any case. */
    RETIRE_SLOT_MS = 4000,    /* Part of the time of one replica. */
    RETIRE_MARGIN_MS = 1000   /* Time at both ends of that part in which nothing is closed. */
};

/* What this replica knows. */
struct retire_view {
    const struct config *config;
    const struct zab_config *members; /* The committed configuration. */
    uint64_t now_ms;                  /* Monotonic. */
    uint64_t wall_ms;                 /* Since 1970. */
    struct zab_status status;
    const struct heartbeat *heartbeats; /* The last of each replica. */
    size_t heartbeat_count;
};

enum retire {
    RETIRE_NOT,
    RETIRE_IDLE, /* As soon as no request is in flight. */
    RETIRE_NOW
};

/* Returns whether to close the connection with this peer, which has been removed since
 * `removed_ms`. */
enum retire retire_judge(const struct retire_view *view, uint32_t peer, uint64_t removed_ms);

#endif
