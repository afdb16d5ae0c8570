/*
 * config.h - the configuration: one struct, one table of keys, four sources.
 *
 * Later sources win: default, file, environment, flag. An error is reported in one line that names
 * the key, the place and the remedy, before anything is written. The table drives the parser, the
 * help text and the listing of limits, so each key is in one place. After config_load only
 * files_apply (server/process/files.h) changes the configuration, before the replica runs.
 */
#ifndef SERVER_CONFIG_H
#define SERVER_CONFIG_H

#include "base/address.h"
#include "base/buf.h"
#include "base/err.h"
#include "zab/tcp/keys.h"
#include "zab/zab.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CONFIG_PATH_MAX = 1024,
    CONFIG_HOST_MAX = 256,
    CONFIG_LIST_MAX = 2048, /* allowedHosts, allowedOrigins. */
    CONFIG_LABEL_MAX = 64,
    CONFIG_SECRET_MIN = 16, /* Bytes of a secret that the peers share. */
    CONFIG_SECRET_MAX = 1024,
    CONFIG_SECRETS_MAX = KEYS_SECRETS_MAX,
    CONFIG_ERROR_MAX = 768,
    CONFIG_TEXT_MAX = 36 << 10, /* Text of a configuration with the longest addresses. */
    CONFIG_WARNINGS_MAX = 8,
    CONFIG_PROXIES_MAX = 64, /* Addresses and blocks in trustedProxies. */
    CONFIG_JOINS_MAX = 16,   /* Addresses in join. */
};

/* One `server.N` line. */
struct config_server {
    uint32_t id;
    char host[CONFIG_HOST_MAX]; /* Name or address, without brackets. */
    uint16_t port;              /* Peer port; 0: a single replica that listens for no peers. */
    bool voter;                 /* False: an observer. */
    uint8_t source;             /* enum config_source; for the parser. */
};

/* An address for other replicas. */
struct config_address {
    char host[CONFIG_HOST_MAX]; /* Name or address, without brackets; "": there is none. */
    uint16_t port;
};

struct config_secret {
    uint8_t bytes[CONFIG_SECRET_MAX];
    uint32_t len;
};

/* The lines of peerSecretFile. */
struct config_secrets {
    struct config_secret items[CONFIG_SECRETS_MAX];
    uint32_t count;
};

enum config_auto_join { /* In the order of the choices of autoJoin. */
    CONFIG_AUTO_JOIN_OFF,
    CONFIG_AUTO_JOIN_OBSERVER, /* A leader adds replicas that ask for it, as observers. */
    CONFIG_AUTO_JOIN_VOTER     /* And promotes them, up to `voters_max`. */
};

/* The ensemble, and how its replicas reach each other. */
struct config_peers {
    /* Ascending by id; this replica is among them unless it joins without a line of its own. */
    struct config_server servers[ZAB_MEMBERS_MAX];
    uint32_t server_count;
    bool is_alone; /* Nothing names another replica: `servers` has this one, by default. */
    char join[CONFIG_LIST_MAX];                    /* Comma separated. */
    struct config_address joins[CONFIG_JOINS_MAX]; /* `join`, parsed. */
    uint32_t join_count;
    uint32_t bootstrap;              /* Replicas 1 to `bootstrap` found; 0: those of server.N. */
    char advertise[CONFIG_HOST_MAX]; /* host:port; "": as server.N or `listen` says. */
    struct config_address own;       /* Where other replicas reach this one; "": nowhere. */
    char zone[ZAB_ZONE_MAX + 1];     /* "": none. */
    uint32_t auto_join;              /* enum config_auto_join */
    uint32_t observers_max;
    uint32_t voters_max;
    char listen[CONFIG_HOST_MAX]; /* host:port to listen for peers on; "": as server.N says. */
    char host[CONFIG_HOST_MAX];   /* Host of `listen`, else of server.N, else of `own`. */
    uint16_t port;                /* 0: a single replica that listens for no peers. */
    char secret_file[CONFIG_PATH_MAX];
    struct config_secrets secrets;   /* As they were at the start; a reload does not change them. */
    uint32_t tls;                    /* enum keys_mode. */
    char cert_file[CONFIG_PATH_MAX]; /* "": none. */
    char key_file[CONFIG_PATH_MAX];
    char ca_file[CONFIG_PATH_MAX];
    uint64_t queue_bytes_max;
    uint64_t forward_bytes_max;      /* Bytes of all learners' writes that wait in the leader. */
    uint64_t forward_peer_bytes_max; /* Bytes of one learner's writes that wait in the leader. */
    uint32_t handshakes_max;         /* Peer connections in their handshake; set by files_apply,
                                        not by a configuration key. 0: 256. */
    uint32_t files_for; /* Peers for which descriptors are reserved; set by files_apply. 0: not
                           known. */
};

struct config_storage {
    char data_dir[CONFIG_PATH_MAX];
    uint32_t snap_count;
    uint64_t snap_bytes;
    uint32_t snapshots_keep;
    uint64_t wal_segment_bytes;
    uint64_t refill_log_bytes_max;
};

/* Limits of the replicated state. A leader enforces its own values. For `bytes_max` it enforces the
 * smallest value among its own and those of the voters that are synchronized with it. The limits
 * of the window, which keeps recent changes, apply to this replica alone. */
struct config_tree {
    uint64_t bytes_max; /* maxTreeBytes; if not given, config_load sets half of the machine's
                           memory; 0: no bound, because that memory is not known. */
    uint32_t recursive_max;
    uint32_t session_min_ms;
    uint32_t session_max_ms;
    uint32_t session_default_ms;
    uint32_t sessions_max;
    uint32_t sessions_client_max;  /* Sessions of one identity; without identity: of one address. */
    uint32_t sessions_network_max; /* Sessions from one address, with any identity. */
    uint32_t session_ephemerals_max;
    uint32_t session_ephemeral_bytes_max; /* Bytes of the paths of one session's ephemerals. */
    uint32_t remembered_max;              /* Results of writes with an idempotency key. */
    uint64_t remembered_bytes_max;
    uint32_t remembered_client_max;  /* Results of one identity; applies once remembered_max is half
                                        used. */
    uint32_t remembered_network_max; /* Results of one address; applies once remembered_max is half
                                        used. */
    uint32_t result_bytes_max;       /* Bytes of one remembered result. */
    uint32_t remember_ms;
    uint32_t window_max; /* Transactions that watchers can resume from. */
    uint64_t window_bytes_max;
};

enum config_certificates { /* In the order of the choices of clientCertificates. */
    CONFIG_CERTIFICATES_OFF,
    CONFIG_CERTIFICATES_ASK,
    CONFIG_CERTIFICATES_REQUIRED
};

enum config_client_tls { /* In the order of the choices of clientTls. */
    CONFIG_TLS_OFF,
    CONFIG_TLS_OPTIONAL, /* The client port takes plain connections and TLS. */
    CONFIG_TLS_REQUIRED  /* Plain requests are redirected or refused. */
};

/* TLS on the client port. The numbers of the choices are those of tls/context.h. */
struct config_tls {
    uint32_t mode;                    /* enum config_client_tls */
    char cert_files[CONFIG_LIST_MAX]; /* Comma separated. */
    char key_files[CONFIG_LIST_MAX];
    char ca_file[CONFIG_PATH_MAX];  /* "": none. */
    char crl_file[CONFIG_PATH_MAX]; /* "": none. */
    uint32_t clients;               /* enum config_certificates */
    uint32_t identity; /* x509Identity: 0 subject, 1 san-dns, 2 san-uri, 3 san-email. */
    char super_x509[CONFIG_PATH_MAX]; /* Identity of the super user; "": none. */
    uint64_t hsts_ms;                 /* 0: the header is not sent. */
    uint32_t handshakes_max;
};

/* Settings and limits of the front ends: see gate_limits(). */
struct config_clients {
    char client_address[CONFIG_HOST_MAX]; /* Numeric address. */
    uint16_t client_port;
    char probe_listen[CONFIG_HOST_MAX];  /* host:port of probes' own socket; "": none. */
    char probe_address[CONFIG_HOST_MAX]; /* Address of `probe_listen`, numeric; "": none. */
    uint16_t probe_port;
    bool probe_metrics; /* The probes' own socket serves /metrics, too: it is on loopback, or
                           `insecure` is set. */
    char advertise_client[CONFIG_HOST_MAX]; /* host:port for clients to use; "": none is advertised.
                                             */
    char allowed_hosts[CONFIG_LIST_MAX];    /* Comma separated; "": the default list. */
    char allowed_origins[CONFIG_LIST_MAX];
    char trusted_proxies[CONFIG_LIST_MAX];            /* Comma separated; "": none. */
    struct address_block proxies[CONFIG_PROXIES_MAX]; /* `trusted_proxies`, parsed. */
    uint32_t proxy_count;
    bool zk_clients;                     /* Native clients of ZooKeeper are served. */
    uint16_t zk_port;                    /* A port for them alone, besides client_port; 0: none. */
    char zk_words[CONFIG_LABEL_MAX * 2]; /* Command words that are answered, comma separated. */
    char web_dir[CONFIG_PATH_MAX];       /* Directory of the dashboard; "": the built-in one. */
    char super_digest[CONFIG_HOST_MAX];  /* user:base64(SHA1(user:password)); "": no super user. */
    struct config_tls tls;
    bool insecure;
    bool read_only;        /* gate_submit refuses the writes of clients. */
    bool require_identity; /* Anonymous clients are refused, except for probes. */
    bool inherit_acl;      /* A znode created without an ACL gets that of its parent. The leader's
                              value applies. */
    bool access_log;
    uint32_t slow_request_ms; /* Requests that take longer are logged; 0: none. */
    uint32_t http_threads;

    /* Shares of the descriptors that this process may have: see server/process/files.h. These
     * members have no keys, and are 0 when they were not computed. */
    uint32_t client_files_max; /* All clients together; 0: no bound. */
    uint32_t lingers_max;      /* Refused connections that are still open; 0: 256. */
    uint32_t seats_max;        /* Connections above a limit, accepted because they may be health
                                  probes; 0: 512. */

    uint32_t data_bytes_max;
    uint32_t multi_ops_max;
    uint32_t multi_bytes_max; /* Bytes of a transaction, and of a body. */
    uint32_t children_page_max;
    uint32_t requests_max; /* Requests in flight, of all front ends together. */
    uint32_t connections_max;
    uint32_t connections_per_address_max;
    uint32_t head_bytes_max;
    uint32_t head_timeout_ms;
    uint32_t body_timeout_ms;
    uint32_t idle_timeout_ms;
    uint32_t request_timeout_ms;
    uint32_t web_sockets_max;
    uint32_t socket_in_flight_max;   /* Requests of one WebSocket in flight. */
    uint32_t socket_messages_per_s;  /* Messages of one WebSocket; 0: no bound. */
    uint32_t message_bytes_max;      /* Bytes of a client's message. */
    uint32_t socket_queue_bytes_max; /* Bytes of events that may wait for a slow client. */
    uint64_t unsent_bytes_max;
    uint64_t pool_bytes_max;   /* No key. Bytes of each of seven pools: bodies of HTTP requests;
                                  unanswered messages, incomplete messages and watches of
                                  WebSockets; unanswered requests, requests that are not taken
                                  and watches of native clients. */
    uint64_t address_pool_max; /* No key. Bytes that one address may use of each pool. */
    uint32_t slow_timeout_ms;  /* A client that takes nothing for this time is disconnected. */
    uint32_t heartbeat_ms;     /* Interval on WebSockets and streams. */
    uint32_t watches_max;      /* Watches of one WebSocket or native client. */
    uint32_t watch_bytes_max;  /* Bytes of the paths of these watches. */
    uint32_t streams_max;      /* Streams of SSE and NDJSON. */
    uint32_t wait_max_ms;      /* Longest wait of a long poll. */
    uint32_t transfers_max;    /* Exports, imports and backups. */
    uint64_t backup_rate;      /* Bytes in a second that a backup reads from the disk. */
    uint64_t export_bytes_max; /* Bytes of old states of znodes that one export keeps. */
};

/* The process. */
struct config_process {
    char environment[CONFIG_LABEL_MAX]; /* Name of the ensemble, such as "production"; "": none. */
    bool show_clients;                  /* Every client may list all sessions and watches. */
    bool core_dumps;
    uint32_t busy_poll_us;
    uint32_t stale_limit_ms;
    uint32_t drain_delay_ms;
    uint32_t drain_timeout_ms;
    char audit_file[CONFIG_PATH_MAX]; /* "": no audit log; "-": standard error. */
    uint32_t audit_full;              /* enum audit_full. */
    uint32_t log_level;               /* enum log_level. */
    uint32_t log_format;              /* 0 plain, 1 json. */
};

struct config {
    uint32_t id; /* Id of this replica. */
    struct config_peers peers;
    struct zab_limits zab; /* Limits without a key are as in zab_limits_default. */
    struct config_storage storage;
    struct config_tree tree;
    struct config_clients clients;
    struct config_process process;
};

/* Messages for the operator. */
struct config_report {
    char error[CONFIG_ERROR_MAX]; /* One line, when config_load failed. */
    char warnings[CONFIG_WARNINGS_MAX][CONFIG_ERROR_MAX];
    uint32_t warning_count;
};

struct config_sources {
    const char *file;        /* Path, or NULL. */
    const char *const *env;  /* NULL-terminated `NAME=value`, or NULL. */
    const char *const *args; /* `--key value` or `--key=value`. */
    uint32_t arg_count;
    const char *host_name; /* The name of this machine, for id=auto:hostname; NULL: not known. */
};

/* Reads all sources, checks all values and reads the secret; writes nothing. On an error returns
 * ERR_CONFIG and fills `ret_report->error`. */
enum err config_load(const struct config_sources *sources, struct config *ret_config,
                     struct config_report *ret_report);

/* Where a process of the same machine asks a replica for its health. */
struct config_probe {
    char host[CONFIG_HOST_MAX]; /* Numeric, without brackets. */
    uint16_t port;
    bool is_secure; /* The port speaks TLS only. */
};

/* Finds where the replica with these sources answers probes: at probeListen, else at the port for
 * clients. Required keys may be missing, and no other file is read. On an error returns ERR_CONFIG,
 * with one line in `error`. */
enum err config_find_probe(const struct config_sources *sources, struct config_probe *ret_probe,
                           char error[CONFIG_ERROR_MAX]);

/* Reads the secrets of peerSecretFile again. On an error returns ERR_CONFIG, with one line in
 * `error`. Any thread. The caller wipes the secrets. */
enum err config_read_secrets(const char *path, struct config_secrets *ret_secrets,
                             char error[CONFIG_ERROR_MAX]);

/* Returns the entry of a replica; NULL: there is none. */
const struct config_server *config_find_server(const struct config *config, uint32_t id);

/* Returns the entry of this replica; NULL: it joins, and has none. */
const struct config_server *config_self(const struct config *config);

/* True for 127.0.0.0/8, ::1 and "localhost". */
bool config_is_loopback(const char *host);

/* Whether another replica may be dialed at an address that is not in the file: beyond loopback only
 * what config_load would accept in the file, that is with a secret or certificates, and with TLS
 * unless insecure=true. */
bool config_may_dial(const struct config *config, const char *host);

enum config_type {
    CONFIG_BOOL,
    CONFIG_U16,
    CONFIG_U32,
    CONFIG_U64,
    CONFIG_TEXT,
    CONFIG_CHOICE, /* Index into `choices`, as uint32_t. */
    CONFIG_ID,     /* A number, or "auto:hostname", as uint32_t. */
};

/* One row of the table of keys (`server.N` is not in it). */
struct config_row {
    const char *key;
    enum config_type type;
    size_t offset;        /* Offset in struct config. */
    const char *fallback; /* Default as text; NULL: required. */
    uint64_t min;
    uint64_t max;               /* TEXT: longest length. */
    const char *const *choices; /* NULL-terminated. */
    bool is_limit;              /* Listed by GET /limits/v1. */
    const char *help;
};

/* Makes `*ret_rows` point to the table of keys; returns the number of its rows. */
size_t config_rows(const struct config_row **ret_rows);

/* Returns the value of a number or choice; 0 or 1 for a bool. Not for texts. */
uint64_t config_number(const struct config *config, const struct config_row *row);

/* Appends the help text of all keys, one line each. */
void config_append_help(struct buf *out);

/* Appends the replicated configuration as text, the data of /zookeeper/config. `bytes` is the
 * encoded configuration, and `config` the decoded one with its version. There is one line per
 * member, and the version last:
 *
 *   server.1=participant:00000000000000ab
 *   version=100000003
 *
 * From level 2 on, if the configuration has both addresses of each member, the lines are those of
 * ZooKeeper:
 *
 *   server.1=zk1.example:10998:10998:participant;zk1.example:9998
 *
 * At most CONFIG_TEXT_MAX bytes. The text is part of the replicated state: the same configuration
 * must give the same bytes in every release. */
void config_text(const struct zab_config *config, struct slice bytes, struct buf *out);

#endif
