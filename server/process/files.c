#include "server/process/files.h"

#include "base/check.h"
#include "storage/store.h"
#include "zab/tcp/resolve.h"
#include "zab/tcp/tcp.h"

#include <stdio.h>

enum {
    /* Core: epoll, mailboxes (requests, completions, log, worker, keys, end), a file with keys,
     * listeners, and descriptors of a name look-up. */
    CORE_FILES = 15 + RESOLVE_LISTEN_MAX + 8,
    /* Each peer: its connection, one being dialed, one being replaced, and a snapshot file. */
    PEER_FILES = 4,
    /* Connected replicas that are no members, and dialed addresses of join. */
    OUTSIDER_FILES = 2 * TCP_OUTSIDERS_MAX,
    PEERS_MIN = 8,   /* The reserve is for at least this number of peers, */
    PEERS_SPARE = 4, /* and for so many that join while the process runs. */
    STORAGE_FILES = STORE_FILES_MAX + VFS_POSIX_FILES,
    AUDIT_FILES = 4, /* The file, its successor, the note, the wake-up. */
    /* Front ends: acceptor, watcher, WebSockets, libwebsockets, reading the memory size of this
     * process, counting open descriptors, one accepted connection that is about to be refused. */
    FRONT_FILES = 28,
    /* The probe thread: epoll, wake-up, listener, and one accepted connection without a seat yet.
     */
    PROBE_FILES = 4,
    /* Each HTTP thread: epoll, wake-up, a directory and a file of webDir. */
    THREAD_FILES = 5,
    /* Handshakes of peers, refused connections that linger, and seats of http/seats.h get a 32nd of
     * the limit each, within the bounds below. */
    SHARE = 32,
    HANDSHAKES_MIN = 8,
    HANDSHAKES_MAX = 256,
    LINGERS_MIN = 4,
    LINGERS_MAX = 256,
    SEATS_MIN = 4,
    SEATS_MAX = 512,
};

static uint32_t share_of(uint64_t limit, uint32_t min, uint32_t max)
{
    return (uint32_t)max_u64(min, min_u64(limit / SHARE, max));
}

/* Plans the reserve for a process that may have `limit` descriptors. */
static struct files_plan plan_reserve(const struct config *config, uint64_t limit,
                                      uint32_t open_now)
{
    uint32_t members = config->peers.server_count + config->peers.bootstrap;
    uint32_t known = members > 0 ? members - 1 : 0;
    /* One more thread serves waiting clients. */
    uint32_t threads = config->clients.http_threads + 1;
    struct files_plan plan = {.limit = limit,
                              .peers = max_u32(known, PEERS_MIN) + PEERS_SPARE,
                              .handshakes = share_of(limit, HANDSHAKES_MIN, HANDSHAKES_MAX),
                              .lingers = share_of(limit, LINGERS_MIN, LINGERS_MAX),
                              .seats = share_of(limit, SEATS_MIN, SEATS_MAX)};
    /* Connections beyond the limits: the acceptor may hold one for each seat. Three other places
     * may hold half as many each: the probe thread, its mailbox, and the probe port. */
    uint32_t seats = plan.seats + 3 * (plan.seats / 2);

    plan.reserve = open_now + CORE_FILES + OUTSIDER_FILES + STORAGE_FILES + AUDIT_FILES +
                   FRONT_FILES + plan.peers * PEER_FILES + threads * THREAD_FILES + PROBE_FILES +
                   plan.handshakes + plan.lingers + seats;
    return plan;
}

/* Returns the lowest limit with which a replica starts. Some parts of the reserve grow with the
 * limit, but more slowly, so the search ends. */
static uint32_t lowest_limit(const struct config *config, uint32_t open_now)
{
    uint32_t limit = 0;
    uint32_t needed = FILES_CLIENTS_MIN;

    while (needed > limit) {
        limit = needed;
        needed = plan_reserve(config, limit, open_now).reserve + FILES_CLIENTS_MIN;
    }
    return limit;
}

void files_plan(const struct config *config, uint64_t limit, uint32_t open_now,
                struct files_plan *ret_plan)
{
    struct files_plan plan = plan_reserve(config, limit, open_now);
    uint64_t left = limit > plan.reserve ? min_u64(limit - plan.reserve, UINT32_MAX) : 0;

    plan.clients = left >= FILES_CLIENTS_MIN ? (uint32_t)left : 0;
    plan.lowest = lowest_limit(config, open_now);
    *ret_plan = plan;
}

void files_apply(const struct files_plan *plan, struct config *config)
{
    uint32_t asked = config->clients.connections_max;

    ASSERT(plan->clients >= FILES_CLIENTS_MIN && asked > 0);
    config->clients.client_files_max = plan->clients;
    config->peers.handshakes_max = plan->handshakes;
    config->peers.files_for = plan->peers;
    config->clients.lingers_max = plan->lingers;
    config->clients.seats_max = plan->seats;
    if (asked > plan->clients) {
        uint64_t of_address =
            (uint64_t)config->clients.connections_per_address_max * plan->clients / asked;

        config->clients.connections_max = plan->clients;
        config->clients.connections_per_address_max = (uint32_t)max_u64(of_address, 1);
    }
}

bool files_warn_connections(const struct files_plan *plan, const struct config *config,
                            char text[FILES_TEXT_MAX])
{
    if (config->clients.connections_max <= plan->clients) {
        return false;
    }
    (void)snprintf(text, FILES_TEXT_MAX,
                   "maxConnections is %u, but only %u connections fit into the limit of %llu open "
                   "files: %u are served; raise the limit (ulimit -Hn, LimitNOFILE= of systemd) or "
                   "lower maxConnections",
                   config->clients.connections_max, plan->clients, (unsigned long long)plan->limit,
                   plan->clients);
    return true;
}

bool files_warn_streams(const struct files_plan *plan, const struct config *config,
                        char text[FILES_TEXT_MAX])
{
    uint32_t streams = min_u32(config->clients.streams_max, config->clients.connections_max);
    uint32_t fit = plan->clients / 2;

    if (streams <= fit) {
        return false;
    }
    (void)snprintf(
        text, FILES_TEXT_MAX,
        "maxStreams is %u, but only %u streams and waiting requests fit into the limit of %llu "
        "open files, as each takes two files: the others are answered 503; raise the limit "
        "(ulimit -Hn, LimitNOFILE= of systemd) or lower maxStreams",
        config->clients.streams_max, fit, (unsigned long long)plan->limit);
    return true;
}

void files_explain(const struct files_plan *plan, char text[FILES_TEXT_MAX])
{
    ASSERT(plan->clients == 0);
    (void)snprintf(
        text, FILES_TEXT_MAX,
        "the limit of %llu open files is too low, at least %u are needed: raise the limit (ulimit "
        "-Hn, LimitNOFILE= of systemd)",
        (unsigned long long)plan->limit, plan->lowest);
}
