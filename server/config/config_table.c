#include "base/check.h"
#include "server/config/config_int.h"

#define AT(field)     offsetof(struct config, field)
#define TEXT_AT(name) AT(name), .max = sizeof(((struct config *)0)->name) - 1

#define KIB     UINT64_C(1024)
#define MIB     UINT64_C(1048576)
#define HOUR_MS UINT64_C(3600000)

static const char *const level_names[] = {"debug", "info", "warn", "error", NULL};
static const char *const format_names[] = {"plain", "json", NULL};

static const struct config_row rows[] = {
    {"id", CONFIG_U32, AT(id), NULL, 1, ZAB_ID_MAX, NULL, false,
     "number of this replica, unique in the ensemble"},
    {"dataDir", CONFIG_TEXT, TEXT_AT(storage.data_dir), .fallback = NULL, .min = 1,
     .help = "directory of log and snapshots; created if missing"},
    {"clientAddress", CONFIG_TEXT, TEXT_AT(clients.client_address), .fallback = "127.0.0.1",
     .min = 1, .help = "numeric address to serve clients on"},
    {"clientPort", CONFIG_U16, AT(clients.client_port), "9998", 1, 65535, NULL, false,
     "port for HTTP and WebSocket"},
    {"probeListen", CONFIG_TEXT, TEXT_AT(clients.probe_listen), .fallback = "",
     .help = "separate address:port for /livez, /readyz and /metrics, with its own thread"},
    {"advertiseClient", CONFIG_TEXT, TEXT_AT(clients.advertise_client), .fallback = "",
     .help = "host:port under which clients reach this replica; reported by /ensemble/v1"},
    {"allowedHosts", CONFIG_TEXT, TEXT_AT(clients.allowed_hosts), .fallback = "",
     .help = "further host names that a request may have in Host, comma separated"},
    {"allowedOrigins", CONFIG_TEXT, TEXT_AT(clients.allowed_origins), .fallback = "",
     .help = "web origins that may call this replica, comma separated"},
    {"webDir", CONFIG_TEXT, TEXT_AT(clients.web_dir), .fallback = "",
     .help = "directory with another dashboard than the built-in one, for its development"},
    {"insecure", CONFIG_BOOL, AT(clients.insecure), "false", 0, 1, NULL, false,
     "true: serve clients beyond loopback without TLS"},
    {"readOnly", CONFIG_BOOL, AT(clients.read_only), "false", 0, 1, NULL, false,
     "true: this replica refuses writes of its clients; it still votes and may lead"},
    {"showClients", CONFIG_BOOL, AT(process.show_clients), "false", 0, 1, NULL, false,
     "true: every client may list all sessions and watches; false: only its own (the super user "
     "all)"},
    {"environment", CONFIG_TEXT, TEXT_AT(process.environment), .fallback = "",
     .help = "name of this ensemble, for example production; reported by /status/v1"},
    {"httpThreads", CONFIG_U32, AT(clients.http_threads), "2", 1, 64, NULL, false,
     "threads that serve HTTP"},
    {"busyPoll", CONFIG_U32, AT(process.busy_poll_us), "50", 0, 1000, NULL, false,
     "us that the core polls for work before it sleeps, if requests come often; 0: no polling"},
    {"peerListen", CONFIG_TEXT, TEXT_AT(peers.listen), .fallback = "",
     .help = "numeric address:port to listen for other replicas on, if not that of server.N"},
    {"peerSecretFile", CONFIG_TEXT, TEXT_AT(peers.secret_file), .fallback = "",
     .help = "file with the secret that all replicas share; needed beyond loopback"},
    {"tickTime", CONFIG_U32, AT(zab.tick_ms), "1000", 10, 60000, NULL, false,
     "unit of initLimit and syncLimit, ms"},
    {"initLimit", CONFIG_U32, AT(zab.init_limit), "10", 1, 10000, NULL, false,
     "ticks that a replica may take to synchronize with a new leader"},
    {"syncLimit", CONFIG_U32, AT(zab.sync_limit), "3", 2, 1000, NULL, false,
     "ticks of silence after which a peer counts as dead"},
    {"maxPending", CONFIG_U32, AT(zab.pending_max), "10000", 1, 1000000, NULL, true,
     "proposals in flight"},
    {"maxPendingBytes", CONFIG_U64, AT(zab.pending_bytes_max), "67108864", 16 * MIB, 4096 * MIB,
     NULL, true, "bytes of proposals in flight"},
    {"maxPeerQueueBytes", CONFIG_U64, AT(peers.queue_bytes_max), "67108864", 20 * MIB, 4096 * MIB,
     NULL, true,
     "bytes queued for a peer; beyond it the peer is disconnected and synchronizes again"},
    {"maxForwardedBytes", CONFIG_U64, AT(zab.forward_bytes_max), "67108864", 17 * MIB, 4096 * MIB,
     NULL, true, "bytes of other replicas' writes that wait in the leader; more are answered 429"},
    {"maxForwardedBytesPerPeer", CONFIG_U64, AT(zab.forward_peer_bytes_max), "33554432", 17 * MIB,
     4096 * MIB, NULL, true, "bytes of one other replica's writes that wait in the leader"},
    {"maxDataBytes", CONFIG_U32, AT(clients.data_bytes_max), "1048576", KIB, 8 * MIB, NULL, true,
     "bytes of a znode's data"},
    {"maxMultiOps", CONFIG_U32, AT(clients.multi_ops_max), "1000", 1, 100000, NULL, true,
     "operations in a multi"},
    {"maxMultiBytes", CONFIG_U32, AT(clients.multi_bytes_max), "4194304", 4 * KIB, 12 * MIB, NULL,
     true, "bytes of a transaction, and of a multi's body"},
    {"maxRecursive", CONFIG_U32, AT(tree.recursive_max), "10000", 1, 1000000, NULL, true,
     "znodes that a recursive delete may remove"},
    {"snapCount", CONFIG_U32, AT(storage.snap_count), "100000", 10, 1000000000, NULL, false,
     "transactions between two snapshots"},
    {"snapBytes", CONFIG_U64, AT(storage.snap_bytes), "268435456", 64 * KIB, UINT64_C(1) << 40,
     NULL, false, "bytes of log between two snapshots"},
    {"snapRetainCount", CONFIG_U32, AT(storage.snapshots_keep), "3", 1, 1000, NULL, false,
     "snapshots to keep; log before the oldest one is purged"},
    {"walSegmentBytes", CONFIG_U64, AT(storage.wal_segment_bytes), "33554432", 64 * KIB, 1024 * MIB,
     NULL, false, "size of a log file, multiple of 4096"},
    {"maxRefillLogBytes", CONFIG_U64, AT(storage.refill_log_bytes_max), "4294967296", 0,
     UINT64_C(1) << 44, NULL, false,
     "bytes of log kept for learners that are being refilled, beyond the normal retention"},
    {"maxRefillBytesPerSecond", CONFIG_U64, AT(zab.refill_rate_max), "33554432", 0,
     UINT64_C(1) << 40, NULL, false,
     "bytes of snapshots that a leader sends to learners in a second; 0: no limit"},
    {"maxConnections", CONFIG_U32, AT(clients.connections_max), "10000", 1, 1000000, NULL, true,
     "client connections"},
    {"maxConnectionsPerAddress", CONFIG_U32, AT(clients.connections_per_address_max), "0", 0,
     1000000, NULL, true, "client connections from one address; 0: a quarter of maxConnections"},
    {"maxRequests", CONFIG_U32, AT(clients.requests_max), "10000", 1, 1000000, NULL, true,
     "writes and quorum reads in flight; more are answered 429"},
    {"maxChildrenPage", CONFIG_U32, AT(clients.children_page_max), "10000", 1, 1000000, NULL, true,
     "children in one answer"},
    {"maxHeadBytes", CONFIG_U32, AT(clients.head_bytes_max), "8192", KIB, 64 * KIB, NULL, true,
     "bytes of a request head"},
    {"headTimeout", CONFIG_U32, AT(clients.head_timeout_ms), "10000", 100, HOUR_MS, NULL, true,
     "ms for a request head to arrive"},
    {"bodyTimeout", CONFIG_U32, AT(clients.body_timeout_ms), "30000", 100, HOUR_MS, NULL, true,
     "ms for a request body to arrive"},
    {"idleTimeout", CONFIG_U32, AT(clients.idle_timeout_ms), "60000", 100, 24 * HOUR_MS, NULL, true,
     "ms after which an idle connection is closed"},
    {"requestTimeout", CONFIG_U32, AT(clients.request_timeout_ms), "10000", 100, HOUR_MS, NULL,
     true, "ms after which a write is answered with an unknown outcome"},
    {"staleLimit", CONFIG_U32, AT(process.stale_limit_ms), "10000", 100, 24 * HOUR_MS, NULL, true,
     "ms that a replica without contact to the leader still answers local reads"},
    {"drainDelay", CONFIG_U32, AT(process.drain_delay_ms), "0", 0, HOUR_MS, NULL, true,
     "ms after SIGTERM in which everything is still served, while /readyz answers 503"},
    {"drainTimeout", CONFIG_U32, AT(process.drain_timeout_ms), "10000", 0, HOUR_MS, NULL, true,
     "ms to answer requests in flight after drainDelay"},
    {"minSessionTimeout", CONFIG_U32, AT(tree.session_min_ms), "2000", 100, HOUR_MS, NULL, true,
     "ms; shorter session timeouts are raised to it; if it is not set: two ticks"},
    {"maxSessionTimeout", CONFIG_U32, AT(tree.session_max_ms), "60000", 100, 24 * HOUR_MS, NULL,
     true, "ms; longer session timeouts are lowered to it"},
    {"sessionTimeout", CONFIG_U32, AT(tree.session_default_ms), "15000", 100, 24 * HOUR_MS, NULL,
     true, "ms; timeout of a session that requests none"},
    {"maxSessions", CONFIG_U32, AT(tree.sessions_max), "100000", 1, 10000000, NULL, true,
     "sessions of the ensemble; more are answered 429"},
    {"maxSessionsPerClient", CONFIG_U32, AT(tree.sessions_client_max), "0", 0, 10000000, NULL, true,
     "sessions of one identity, or of one address without identity; 0: a quarter of maxSessions"},
    {"maxSessionsPerAddress", CONFIG_U32, AT(tree.sessions_network_max), "0", 0, 10000000, NULL,
     true, "sessions opened from one address, with any identity; 0: half of maxSessions"},
    {"maxSessionEphemerals", CONFIG_U32, AT(tree.session_ephemerals_max), "10000", 1, 100000, NULL,
     true, "ephemeral znodes of a session"},
    {"maxSessionEphemeralBytes", CONFIG_U32, AT(tree.session_ephemeral_bytes_max), "2097152", KIB,
     8 * MIB, NULL, true, "bytes of the paths of a session's ephemeral znodes"},
    {"maxRemembered", CONFIG_U32, AT(tree.remembered_max), "100000", 1, 10000000, NULL, true,
     "results of writes with an Idempotency-Key that are kept; more are answered 429"},
    {"maxRememberedBytes", CONFIG_U64, AT(tree.remembered_bytes_max), "67108864", MIB, 4096 * MIB,
     NULL, true, "bytes of all kept results"},
    {"maxRememberedPerClient", CONFIG_U32, AT(tree.remembered_client_max), "0", 0, 10000000, NULL,
     true,
     "kept results of one identity, once half of maxRemembered is in use; 0: an eighth of "
     "maxRemembered"},
    {"maxRememberedPerAddress", CONFIG_U32, AT(tree.remembered_network_max), "0", 0, 10000000, NULL,
     true,
     "kept results of one address, once half of maxRemembered is in use; 0: a quarter of "
     "maxRemembered"},
    {"maxResultBytes", CONFIG_U32, AT(tree.result_bytes_max), "262144", KIB, 4 * MIB, NULL, true,
     "bytes of one kept result"},
    {"rememberFor", CONFIG_U32, AT(tree.remember_ms), "600000", 1000, 24 * HOUR_MS, NULL, true,
     "ms for which a result is kept at least"},
    {"maxTreeBytes", CONFIG_U64, AT(tree.bytes_max), "0", 0, 1048576 * MIB, NULL, true,
     "bytes of memory for the tree; the smallest value of the voters in step applies; beyond it "
     "writes are answered 507; 0: half of the smaller of RAM and cgroup limit"},
    {"maxWindow", CONFIG_U32, AT(tree.window_max), "100000", 1, 10000000, NULL, true,
     "recent transactions that a watcher can resume from"},
    {"maxWindowBytes", CONFIG_U64, AT(tree.window_bytes_max), "67108864", 64 * KIB, 4096 * MIB,
     NULL, true, "bytes of the transactions kept for watchers"},
    {"maxWebSockets", CONFIG_U32, AT(clients.web_sockets_max), "10000", 1, 1000000, NULL, true,
     "WebSockets"},
    {"maxInFlight", CONFIG_U32, AT(clients.socket_in_flight_max), "10000", 1, 1000000, NULL, true,
     "requests of a WebSocket in flight; beyond it the socket is not read"},
    {"maxMessagesPerSecond", CONFIG_U32, AT(clients.socket_messages_per_s), "0", 0, 10000000, NULL,
     true,
     "messages per second of a WebSocket; beyond it the socket is read more slowly; 0: no limit"},
    {"maxMessageBytes", CONFIG_U32, AT(clients.message_bytes_max), "4194304", 4 * KIB, 16 * MIB,
     NULL, true, "bytes of a message on a WebSocket"},
    {"maxUnsentBytes", CONFIG_U64, AT(clients.unsent_bytes_max), "0", 0, 1048576 * MIB, NULL, true,
     "bytes that wait to be sent to all clients together; beyond it the slowest are disconnected; "
     "0: 256 MiB, or a sixteenth of the memory if that is less"},
    {"maxSocketQueueBytes", CONFIG_U32, AT(clients.socket_queue_bytes_max), "4194304", 4 * KIB,
     1024 * MIB, NULL, true,
     "bytes of events that wait for a slow client; beyond it the client receives overrun"},
    {"slowTimeout", CONFIG_U32, AT(clients.slow_timeout_ms), "30000", 100, HOUR_MS, NULL, true,
     "ms after which a client that reads nothing is disconnected"},
    {"heartbeatInterval", CONFIG_U32, AT(clients.heartbeat_ms), "10000", 100, HOUR_MS, NULL, true,
     "ms between heartbeats on WebSockets and streams"},
    {"maxWatches", CONFIG_U32, AT(clients.watches_max), "10000", 1, 1000000, NULL, true,
     "watches of a WebSocket"},
    {"maxWatchBytes", CONFIG_U32, AT(clients.watch_bytes_max), "4194304", 4 * KIB, 1024 * MIB, NULL,
     true, "bytes of the paths of a WebSocket's watches"},
    {"maxStreams", CONFIG_U32, AT(clients.streams_max), "10000", 1, 1000000, NULL, true,
     "streams of events and requests that wait for a change"},
    {"maxTransfers", CONFIG_U32, AT(clients.transfers_max), "4", 1, 1000, NULL, true,
     "exports and imports at a time (for one address: one less); more are answered 429"},
    {"maxExportBytes", CONFIG_U64, AT(clients.export_bytes_max), "67108864", 64 * KIB, 4096 * MIB,
     NULL, true,
     "bytes of changed znodes kept for an export; beyond it the export ends with an error"},
    {"maxWait", CONFIG_U32, AT(clients.wait_max_ms), "60000", 100, HOUR_MS, NULL, true,
     "ms that a request may wait for a change"},
    {"superDigest", CONFIG_TEXT, TEXT_AT(clients.super_digest), .fallback = "",
     .help = "user:base64(SHA1(user:password)) of the super user, which no ACL restricts"},
    {"coreDumps", CONFIG_BOOL, AT(process.core_dumps), "false", 0, 1, NULL, false,
     "true: a crash may leave a core dump, which holds secrets, and debuggers may attach"},
    {"logLevel", CONFIG_CHOICE, AT(process.log_level), "info", 0, 0, level_names, false,
     "least serious level to log"},
    {"logFormat", CONFIG_CHOICE, AT(process.log_format), "plain", 0, 0, format_names, false,
     "format of log lines"},
    {"accessLog", CONFIG_BOOL, AT(clients.access_log), "false", 0, 1, NULL, false,
     "true: one log line per request"},
};

_Static_assert(sizeof(rows) / sizeof(rows[0]) <= CONFIG_ROWS_MAX,
               "set_by has a place for each row");

size_t config_rows(const struct config_row **ret_rows)
{
    *ret_rows = rows;
    return sizeof(rows) / sizeof(rows[0]);
}

uint64_t config_number(const struct config *config, const struct config_row *row)
{
    const void *from = (const uint8_t *)config + row->offset;

    switch (row->type) {
    case CONFIG_BOOL:
        return *(const bool *)from;
    case CONFIG_U16:
        return *(const uint16_t *)from;
    case CONFIG_U32:
    case CONFIG_CHOICE:
        return *(const uint32_t *)from;
    case CONFIG_U64:
        return *(const uint64_t *)from;
    case CONFIG_TEXT:
        break;
    }
    UNREACHABLE();
}

static void append_row(const struct config_row *row, struct buf *out)
{
    buf_printf(out, "  %-25s %s", row->key, row->help);
    if (row->choices) {
        buf_append_str(out, ":");
        for (const char *const *choice = row->choices; *choice; choice++) {
            buf_printf(out, " %s", *choice);
        }
    }
    if (!row->fallback) {
        buf_append_str(out, " (required)");
    } else if (row->fallback[0]) {
        buf_printf(out, " (default %s)", row->fallback);
    }
    buf_append_str(out, "\n");
}

void config_append_help(struct buf *out)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        append_row(&rows[i], out);
    }
    buf_printf(out, "  %-25s %s\n", "server.N",
               "host:peerPort of replica N, with :observer for one that does not vote");
}
