/*
 * files.h - what the file descriptors of this process are for, and how many are left for clients.
 *
 * Storage, the other replicas and this process itself have a fixed reserve. What remains is the
 * share of all clients together: connections, and the second descriptors of those that wait for
 * changes over HTTP. So no number of clients takes a file from the log or a socket from a peer.
 */
#ifndef SERVER_FILES_H
#define SERVER_FILES_H

#include "server/config/config.h"

enum {
    FILES_CLIENTS_MIN = 16, /* With fewer for clients a replica does not start. */
    FILES_TEXT_MAX = 320
};

struct files_plan {
    uint64_t limit;     /* Descriptors that the process may have. */
    uint32_t reserve;   /* Not for clients. */
    uint32_t strangers; /* Of the reserve: callers at the peer port that have proven nothing. */
    uint32_t seats;     /* Of the reserve: connections over a cap until they ask for a probe. */
    uint32_t lingers;   /* Of the reserve: refused clients until they hang up. */
    uint32_t clients;   /* Connections and second descriptors together; 0: the limit is too low. */
};

/* `open_now`: descriptors that are open before anything is started. */
void files_plan(const struct config *config, uint64_t limit, uint32_t open_now,
                struct files_plan *ret_plan);

/* Lowers the limits of clients to what fits, so that all of them tell what holds. */
void files_apply(const struct files_plan *plan, struct config *config);

/* What a plan that does not fit takes from the configuration `config`, before files_apply: a
 * sentence for the log that ends with what to do. False: it fits. */
bool files_warn_connections(const struct files_plan *plan, const struct config *config,
                            char text[FILES_TEXT_MAX]);
bool files_warn_streams(const struct files_plan *plan, const struct config *config,
                        char text[FILES_TEXT_MAX]);

/* The sentence for a limit that is too low to start. */
void files_explain(const struct files_plan *plan, char text[FILES_TEXT_MAX]);

#endif
