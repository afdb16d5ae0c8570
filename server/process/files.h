/*
 * files.h - how the file descriptors of this process are shared out.
 *
 * Storage, the other replicas and this process itself have a fixed reserve. All other descriptors
 * are for the clients together: connections, and the second descriptors of clients that wait for
 * changes over HTTP. So clients never take a descriptor that the log or a peer needs.
 */
#ifndef SERVER_FILES_H
#define SERVER_FILES_H

#include "server/config/config.h"

enum {
    FILES_CLIENTS_MIN = 16, /* With fewer client descriptors a replica does not start. */
    FILES_TEXT_MAX = 320
};

struct files_plan {
    uint64_t limit;      /* Descriptors that the process may have. */
    uint32_t reserve;    /* Descriptors that clients do not get. */
    uint32_t peers;      /* Other replicas that the reserve is for. */
    uint32_t handshakes; /* Part of the reserve: peer connections in their handshake. */
    uint32_t seats;   /* Part of the reserve: connections that exceed a connection limit. They are
                         accepted because a health probe may be among them. */
    uint32_t lingers; /* Part of the reserve: refused clients until they hang up. */
    uint32_t lowest;  /* The lowest limit with which a replica starts. */
    uint32_t clients; /* Connections and second descriptors together; 0: the limit is too low. */
};

/* `open_now`: descriptors that are open at the start. */
void files_plan(const struct config *config, uint64_t limit, uint32_t open_now,
                struct files_plan *ret_plan);

/* Lowers the client limits to the planned descriptors, so that reports show the limits in force. */
void files_apply(const struct files_plan *plan, struct config *config);

/* True when a limit of `config` exceeds the plan; `text` is then a warning for the log, with the
 * remedy. Called before files_apply, which lowers the limits. */
bool files_warn_connections(const struct files_plan *plan, const struct config *config,
                            char text[FILES_TEXT_MAX]);
bool files_warn_streams(const struct files_plan *plan, const struct config *config,
                        char text[FILES_TEXT_MAX]);

/* Writes the error for a limit that is too low to start. */
void files_explain(const struct files_plan *plan, char text[FILES_TEXT_MAX]);

#endif
