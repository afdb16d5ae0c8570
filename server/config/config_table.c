#include "server/config/config_int.h"

#define ROW(key, type, member, fallback, min, max, choices, is_limit, help)               \
    {                                                                                     \
        key, CONFIG_##type, offsetof(struct config, member), fallback, min, max, choices, \
            is_limit, help                                                                \
    }
#define NUMBER(key, type, member, fallback, min, max, help) \
    ROW(key, type, member, fallback, min, max, NULL, false, help)
/* A number that GET /limits/v1 lists. */
#define LIMIT(key, type, member, fallback, min, max, help) \
    ROW(key, type, member, fallback, min, max, NULL, true, help)
#define FLAG(key, member, help) ROW(key, BOOL, member, "false", 0, 1, NULL, false, help)
#define TEXT(key, member, fallback, len_min, help)                                            \
    ROW(key, TEXT, member, fallback, len_min, sizeof(((struct config *)0)->member) - 1, NULL, \
        false, help)
#define CHOICE(key, member, fallback, choices, help) \
    ROW(key, CHOICE, member, fallback, 0, 0, choices, false, help)

#define KIB     UINT64_C(1024)
#define MIB     UINT64_C(1048576)
#define HOUR_MS UINT64_C(3600000)

static const char *const level_names[] = {"debug", "info", "warn", "error", NULL};
static const char *const full_names[] = {"refuse", "drop", NULL};
static const char *const tls_names[] = {"off", "accept", "dial", "required", NULL};
static const char *const auto_join_names[] = {"off", "observer", "voter", NULL};
static const char *const format_names[] = {"plain", "json", NULL};

static const char *const client_tls_names[] = {"off", "optional", "required", NULL};
static const char *const certificate_names[] = {"off", "ask", "required", NULL};
static const char *const identity_names[] = {"subject", "san-dns", "san-uri", "san-email", NULL};

static const struct config_row rows[] = {
    NUMBER(
        "id", ID, id, NULL, 1, ZAB_ID_MAX,
        "number of this replica, unique in the ensemble; auto:hostname: the number after the last "
        "'-' in the name of the machine, plus 1"),
    TEXT("dataDir", storage.data_dir, NULL, 1,
         "directory of log and snapshots; created if missing"),
    TEXT("clientAddress", clients.client_address, "127.0.0.1", 1,
         "numeric address to serve clients on"),
    NUMBER("clientPort", U16, clients.client_port, "9998", 1, 65535, "port for HTTP and WebSocket"),
    TEXT("probeListen", clients.probe_listen, "", 0,
         "separate address:port for /livez and /readyz, and on loopback, or with insecure=true, "
         "/metrics; with its own thread"),
    ROW("zkClients", BOOL, clients.zk_clients, "true", 0, 1, NULL, false,
        "false: native clients of ZooKeeper and its command words are not served"),
    NUMBER("zkPort", U16, clients.zk_port, "0", 0, 65535,
           "port for native clients alone, besides clientPort; 0: none"),
    TEXT("zkWords", clients.zk_words, "ruok,srvr,stat,isro,mntr,envi", 0,
         "command words that are answered, comma separated, or *"),
    TEXT("advertiseClient", clients.advertise_client, "", 0,
         "host:port under which clients reach this replica; reported by /ensemble/v1"),
    TEXT("allowedHosts", clients.allowed_hosts, "", 0,
         "further host names that a request may have in Host, comma separated"),
    TEXT("allowedOrigins", clients.allowed_origins, "", 0,
         "web origins that may call this replica, comma separated"),
    TEXT("trustedProxies", clients.trusted_proxies, "", 0,
         "addresses and blocks (10.0.0.0/8) of proxies whose Forwarded and X-Forwarded headers "
         "count, comma separated"),
    TEXT("webDir", clients.web_dir, "", 0,
         "directory with another dashboard than the built-in one, for its development"),
    FLAG("insecure", clients.insecure,
         "true: beyond loopback, serve clients and connect replicas without TLS"),
    CHOICE("clientTls", clients.tls.mode, "off", client_tls_names,
           "TLS on clientPort; optional: plain connections as well"),
    TEXT("tlsCertFile", clients.tls.cert_files, "", 0,
         "certificate of this replica in PEM form, with its intermediate certificates; or several "
         "files, comma separated"),
    TEXT("tlsKeyFile", clients.tls.key_files, "", 0,
         "private key of the certificate; as many files as tlsCertFile, in the same order"),
    TEXT("clientCaFile", clients.tls.ca_file, "", 0,
         "certificates of the CAs that sign the certificates of clients; an intermediate CA may be "
         "trusted without its root"),
    TEXT("clientCrlFile", clients.tls.crl_file, "", 0,
         "revocation lists for the certificates of clients"),
    CHOICE("clientCertificates", clients.tls.clients, "off", certificate_names,
           "certificates of clients; required: a client without one is refused"),
    CHOICE("x509Identity", clients.tls.identity, "subject", identity_names,
           "the name in a client's certificate that is its identity"),
    TEXT("superX509", clients.tls.super_x509, "", 0,
         "identity by certificate of the super user, which no ACL restricts"),
    NUMBER("tlsHsts", U64, clients.tls.hsts_ms, "0", 0, 3660ULL * 24 * HOUR_MS,
           "ms for which browsers shall use TLS only (Strict-Transport-Security); 0: not sent"),
    LIMIT("maxHandshakes", U32, clients.tls.handshakes_max, "1024", 1, 1000000,
          "TLS handshakes with clients at a time; further connections wait"),
    FLAG("readOnly", clients.read_only,
         "true: this replica refuses writes of its clients; it still votes and may lead"),
    FLAG("requireIdentity", clients.require_identity,
         "true: clients without an identity get 401 for everything except probes"),
    FLAG("inheritAcl", clients.inherit_acl,
         "true: a znode created without an ACL gets that of its parent; give all replicas the same "
         "value"),
    FLAG("showClients", process.show_clients,
         "true: every client may list all sessions, watches and busy clients; false: only its own "
         "(the super user all)"),
    TEXT("environment", process.environment, "", 0,
         "name of this ensemble, for example production; reported by /status/v1"),
    NUMBER("httpThreads", U32, clients.http_threads, "2", 1, 64, "threads that serve HTTP"),
    NUMBER(
        "busyPoll", U32, process.busy_poll_us, "50", 0, 1000,
        "microseconds that the core polls for work before it sleeps, if requests come often; 0: no "
        "polling"),
    TEXT("peerListen", peers.listen, "", 0,
         "numeric address:port to listen for other replicas on, if not that of server.N or "
         "advertisePeer"),
    TEXT("advertisePeer", peers.advertise, "", 0,
         "host:port under which other replicas reach this one, if not that of server.N or "
         "peerListen"),
    TEXT("join", peers.join, "", 0,
         "host:port of replicas of an ensemble that this one is to join, comma separated; a name "
         "counts with all its addresses"),
    NUMBER("bootstrap", U32, peers.bootstrap, "0", 0, ZAB_MEMBERS_MAX,
           "replicas 1 to this number found a new ensemble, all others only join; 0: the lines "
           "server.N name the founders"),
    TEXT("zone", peers.zone, "", 0,
         "where this replica runs, for example the name of a data centre; shown with the member"),
    CHOICE("autoJoin", peers.auto_join, "off", auto_join_names,
           "observer: as leader, add replicas that wait to be added, as observers; voter: and "
           "promote them once they are in step"),
    LIMIT("maxObservers", U32, peers.observers_max, "16", 0, ZAB_MEMBERS_MAX,
          "observers beyond which autoJoin adds no replica"),
    LIMIT("maxVoters", U32, peers.voters_max, "5", 1, ZAB_MEMBERS_MAX,
          "voters beyond which autoJoin=voter adds observers"),
    TEXT("peerSecretFile", peers.secret_file, "", 0,
         "file with the secret that all replicas share, and in a second line another secret that "
         "is accepted as well"),
    CHOICE("peerTls", peers.tls, "off", tls_names,
           "TLS between replicas: off, then accept, dial and required, for a rolling change"),
    TEXT("peerCertFile", peers.cert_file, "", 0,
         "PEM file with the certificate of this replica, then its chain"),
    TEXT("peerKeyFile", peers.key_file, "", 0,
         "PEM file with the private key of peerCertFile, without a password"),
    TEXT("peerCaFile", peers.ca_file, "", 0,
         "PEM file with the CAs that sign the certificates of replicas"),
    NUMBER("tickTime", U32, zab.tick_ms, "1000", 10, 60000, "unit of initLimit and syncLimit, ms"),
    NUMBER("initLimit", U32, zab.init_limit, "10", 1, 10000,
           "ticks that a replica may take to synchronize with a new leader"),
    NUMBER("syncLimit", U32, zab.sync_limit, "3", 2, 1000,
           "ticks of silence after which a peer counts as dead"),
    LIMIT("maxPending", U32, zab.pending_max, "10000", 1, 1000000, "proposals in flight"),
    LIMIT("maxPendingBytes", U64, zab.pending_bytes_max, "67108864", 16 * MIB, 4096 * MIB,
          "bytes of proposals in flight"),
    LIMIT("maxPeerQueueBytes", U64, peers.queue_bytes_max, "67108864", 20 * MIB, 4096 * MIB,
          "bytes queued for a peer; beyond it the peer is disconnected and synchronizes again"),
    LIMIT("maxForwardedBytes", U64, peers.forward_bytes_max, "67108864", 17 * MIB, 4096 * MIB,
          "bytes of other replicas' writes that wait in the leader; more are answered 429"),
    LIMIT("maxForwardedBytesPerPeer", U64, peers.forward_peer_bytes_max, "33554432", 17 * MIB,
          4096 * MIB, "bytes of one other replica's writes that wait in the leader"),
    LIMIT("maxDataBytes", U32, clients.data_bytes_max, "1048576", KIB, 8 * MIB,
          "bytes of a znode's data"),
    LIMIT("maxMultiOps", U32, clients.multi_ops_max, "1000", 1, 100000, "operations in a multi"),
    LIMIT("maxMultiBytes", U32, clients.multi_bytes_max, "4194304", 4 * KIB, 12 * MIB,
          "bytes of a transaction, and of a multi's body"),
    LIMIT("maxRecursive", U32, tree.recursive_max, "10000", 1, 1000000,
          "znodes that a recursive delete may remove"),
    NUMBER("snapCount", U32, storage.snap_count, "100000", 10, 1000000000,
           "transactions between two snapshots"),
    NUMBER("snapBytes", U64, storage.snap_bytes, "268435456", 64 * KIB, UINT64_C(1) << 40,
           "bytes of log between two snapshots"),
    NUMBER("snapRetainCount", U32, storage.snapshots_keep, "3", 1, 1000,
           "snapshots to keep; log older than the oldest of them is purged"),
    NUMBER("walSegmentBytes", U64, storage.wal_segment_bytes, "33554432", 64 * KIB, 1024 * MIB,
           "size of a log file, multiple of 4096"),
    NUMBER("maxRefillLogBytes", U64, storage.refill_log_bytes_max, "4294967296", 0,
           UINT64_C(1) << 44,
           "bytes of log kept for learners that are being refilled, or for an audit log that is "
           "behind, beyond the normal retention"),
    NUMBER("maxRefillBytesPerSecond", U64, zab.refill_rate, "33554432", 0, UINT64_C(1) << 40,
           "bytes of snapshots that a leader sends to learners in a second; 0: no limit"),
    LIMIT("maxConnections", U32, clients.connections_max, "10000", 1, 1000000,
          "client connections"),
    LIMIT("maxConnectionsPerAddress", U32, clients.connections_per_address_max, "0", 0, 1000000,
          "client connections from one address; 0: a quarter of maxConnections"),
    LIMIT("maxRequests", U32, clients.requests_max, "10000", 1, 1000000,
          "writes and quorum reads in flight; more are answered 429"),
    LIMIT("maxChildrenPage", U32, clients.children_page_max, "10000", 1, 1000000,
          "children in one answer"),
    LIMIT("maxHeadBytes", U32, clients.head_bytes_max, "8192", KIB, 64 * KIB,
          "bytes of a request head"),
    LIMIT("headTimeout", U32, clients.head_timeout_ms, "10000", 100, HOUR_MS,
          "ms for a request head to arrive"),
    LIMIT("bodyTimeout", U32, clients.body_timeout_ms, "30000", 100, HOUR_MS,
          "ms for a request body to arrive"),
    LIMIT("idleTimeout", U32, clients.idle_timeout_ms, "60000", 100, 24 * HOUR_MS,
          "ms after which an idle connection is closed"),
    LIMIT("requestTimeout", U32, clients.request_timeout_ms, "10000", 100, HOUR_MS,
          "ms after which a write is answered with an unknown outcome"),
    LIMIT("staleLimit", U32, process.stale_limit_ms, "10000", 100, 24 * HOUR_MS,
          "ms that a replica without contact to the leader still answers local reads"),
    LIMIT("drainDelay", U32, process.drain_delay_ms, "0", 0, HOUR_MS,
          "ms after SIGTERM in which everything is still served, while /readyz answers 503"),
    LIMIT("drainTimeout", U32, process.drain_timeout_ms, "10000", 0, HOUR_MS,
          "ms to answer requests in flight after drainDelay"),
    LIMIT("minSessionTimeout", U32, tree.session_min_ms, "2000", 100, HOUR_MS,
          "ms; shorter session timeouts are raised to it; if it is not set: two ticks"),
    LIMIT("maxSessionTimeout", U32, tree.session_max_ms, "60000", 100, 24 * HOUR_MS,
          "ms; longer session timeouts are lowered to it"),
    LIMIT("sessionTimeout", U32, tree.session_default_ms, "15000", 100, 24 * HOUR_MS,
          "ms; timeout of a session that requests none"),
    LIMIT("maxSessions", U32, tree.sessions_max, "100000", 1, 10000000,
          "sessions of the ensemble; more are answered 429"),
    LIMIT("maxSessionsPerClient", U32, tree.sessions_client_max, "0", 0, 10000000,
          "sessions of one identity, or of all clients without an identity at one address; 0: a "
          "quarter of maxSessions"),
    LIMIT("maxSessionsPerAddress", U32, tree.sessions_network_max, "0", 0, 10000000,
          "sessions opened from one address, with any identity; 0: half of maxSessions"),
    LIMIT("maxSessionEphemerals", U32, tree.session_ephemerals_max, "10000", 1, 100000,
          "ephemeral znodes of a session"),
    LIMIT("maxSessionEphemeralBytes", U32, tree.session_ephemeral_bytes_max, "2097152", KIB,
          8 * MIB, "bytes of the paths of a session's ephemeral znodes"),
    LIMIT("maxRemembered", U32, tree.remembered_max, "100000", 1, 10000000,
          "results of writes with an Idempotency-Key that are kept; more are answered 429"),
    LIMIT("maxRememberedBytes", U64, tree.remembered_bytes_max, "67108864", MIB, 4096 * MIB,
          "bytes of all kept results"),
    LIMIT("maxRememberedPerClient", U32, tree.remembered_client_max, "0", 0, 10000000,
          "kept results of one identity, once half of maxRemembered is in use; 0: an eighth of "
          "maxRemembered"),
    LIMIT("maxRememberedPerAddress", U32, tree.remembered_network_max, "0", 0, 10000000,
          "kept results of one address, once half of maxRemembered is in use; 0: a quarter of "
          "maxRemembered"),
    LIMIT("maxResultBytes", U32, tree.result_bytes_max, "262144", KIB, 4 * MIB,
          "bytes of one kept result"),
    LIMIT("rememberFor", U32, tree.remember_ms, "600000", 1000, 24 * HOUR_MS,
          "minimum time in ms for which a result is kept"),
    LIMIT(
        "maxTreeBytes", U64, tree.bytes_max, "0", 0, 1048576 * MIB,
        "bytes of memory for the tree; the smallest value of the voters in step applies; beyond it "
        "writes are answered 507; 0: half of the smaller of RAM and cgroup limit"),
    LIMIT("maxWindow", U32, tree.window_max, "100000", 1, 10000000,
          "recent transactions that a watcher can resume from"),
    LIMIT("maxWindowBytes", U64, tree.window_bytes_max, "67108864", 64 * KIB, 4096 * MIB,
          "bytes of the transactions kept for watchers"),
    LIMIT("maxWebSockets", U32, clients.web_sockets_max, "10000", 1, 1000000, "WebSockets"),
    LIMIT("maxInFlight", U32, clients.socket_in_flight_max, "10000", 1, 1000000,
          "requests of a WebSocket in flight; beyond it the socket is not read"),
    LIMIT("maxMessagesPerSecond", U32, clients.socket_messages_per_s, "0", 0, 10000000,
          "messages per second of a WebSocket; beyond it the socket is read more slowly; 0: no "
          "limit"),
    LIMIT("maxMessageBytes", U32, clients.message_bytes_max, "4194304", 4 * KIB, 16 * MIB,
          "bytes of a message on a WebSocket"),
    LIMIT("maxUnsentBytes", U64, clients.unsent_bytes_max, "0", 0, 1048576 * MIB,
          "bytes that wait to be sent to all clients together; beyond it the slowest are "
          "disconnected; "
          "0: 256 MiB, or 1/32 of the memory if that is less"),
    LIMIT("maxSocketQueueBytes", U32, clients.socket_queue_bytes_max, "4194304", 4 * KIB,
          1024 * MIB,
          "bytes of events that wait for a slow client; beyond it the client receives overrun"),
    LIMIT(
        "slowTimeout", U32, clients.slow_timeout_ms, "30000", 100, HOUR_MS,
        "ms after which a client is disconnected that reads nothing, or so little that the kernel "
        "takes no more bytes for it"),
    LIMIT("heartbeatInterval", U32, clients.heartbeat_ms, "10000", 100, HOUR_MS,
          "ms between heartbeats on WebSockets and streams"),
    LIMIT("maxWatches", U32, clients.watches_max, "10000", 1, 1000000,
          "watches of a WebSocket or native client"),
    LIMIT("maxWatchBytes", U32, clients.watch_bytes_max, "4194304", 4 * KIB, 1024 * MIB,
          "bytes of the paths of these watches"),
    LIMIT("maxStreams", U32, clients.streams_max, "10000", 1, 1000000,
          "streams of events and requests that wait for a change"),
    LIMIT("maxTransfers", U32, clients.transfers_max, "4", 1, 1000,
          "exports, imports and backups at a time (for one address: one less); more are answered "
          "429"),
    NUMBER("maxBackupBytesPerSecond", U64, clients.backup_rate, "33554432", MIB, UINT64_C(1) << 40,
           "bytes that a backup reads from the disk in a second"),
    LIMIT("maxExportBytes", U64, clients.export_bytes_max, "67108864", 64 * KIB, 4096 * MIB,
          "bytes of old states of znodes kept for an export that has not read them yet; beyond it "
          "the export ends with an error"),
    LIMIT("maxWait", U32, clients.wait_max_ms, "60000", 100, HOUR_MS,
          "ms that a request may wait for a change"),
    TEXT("superDigest", clients.super_digest, "", 0,
         "user:base64(SHA1(user:password)) of the super user, which no ACL restricts"),
    FLAG("coreDumps", process.core_dumps,
         "true: a crash may leave a core dump, which holds secrets, and debuggers may attach"),
    TEXT(
        "auditFile", process.audit_file, "", 0,
        "file of the audit log: one JSON line for each change and each refusal; -: standard error"),
    CHOICE("auditFull", process.audit_full, "refuse", full_names,
           "what happens while auditFile cannot be written: refuse writes, or drop lines"),
    CHOICE("logLevel", process.log_level, "info", level_names, "least serious level to log"),
    CHOICE("logFormat", process.log_format, "plain", format_names, "format of log lines"),
    FLAG("accessLog", clients.access_log, "true: one log line per request"),
    NUMBER("slowRequest", U32, clients.slow_request_ms, "200", 0, HOUR_MS,
           "ms; a request that takes longer is logged with its phases; 0: none"),
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
    case CONFIG_ID:
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
