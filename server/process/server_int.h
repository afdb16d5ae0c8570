/*
 * server_int.h - the parts of the process, for files of this folder only. Each part says which
 * thread owns it.
 */
#ifndef SERVER_SERVER_INT_H
#define SERVER_SERVER_INT_H

#include "base/check.h"
#include "base/log.h"
#include "base/logfmt.h"
#include "base/loop.h"
#include "base/mailbox.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/minmax.h"
#include "base/os_clock.h"
#include "base/sd_notify.h"
#include "base/thread.h"
#include "server/audit/audit.h"
#include "server/config/config.h"
#include "server/process/addresses.h"
#include "server/process/backups.h"
#include "server/process/buckets.h"
#include "server/process/gate.h"
#include "server/process/guard.h"
#include "server/process/links.h"
#include "server/process/members.h"
#include "server/process/persist.h"
#include "server/process/reload.h"
#include "server/process/server.h"
#include "server/process/slow.h"
#include "server/process/snap_send.h"
#include "server/process/top.h"
#include "server/process/trend.h"
#include "server/replica/replica.h"
#include "server/sessions/heard.h"
#include "server/sessions/touch.h"
#include "server/watch/window.h"
#include "storage/store.h"
#include "zab/tcp/tcp.h"

#include <stdatomic.h>
#include <stdio.h>

enum {
    WORKER_JOBS_MAX = 1024,
    SPACE_RETRY_MS = 500,
    FILES_RETRY_MS = 50,
    LIVE_TURN_MS = 5000, /* A core thread without a turn for this long is not alive. */
};

/* ---- Log thread. ---- */

struct log_thread {
    struct thread thread;
    struct mailbox inbox;   /* Holds persist_batch. */
    struct mailbox *outbox; /* The core's mailbox, for log_done. */
    struct store *store;
    struct persist_batch pending; /* Not yet durable; used by this thread only. */
    struct metric_histogram sync_time;
    struct metric_counter operations;
    struct metric_counter no_files; /* Times a batch had to wait for a descriptor. */
    _Atomic bool stuck;             /* The thread waits for disk space now. */
    _Atomic bool lacks_files;       /* The thread waits for a descriptor now. */
};

/* Completions on their way to the core. */
struct log_done {
    struct list node;
    struct persist_dones dones;
};

void log_thread_start(struct log_thread *log, struct store *store, struct mailbox *outbox);
/* `take_batch` is on the heap; the log thread frees it. */
void log_thread_post(struct log_thread *log, struct persist_batch *take_batch);
void log_thread_stop(struct log_thread *log); /* Runs the posted batches first. */

/* Ends the process when the disk has failed: after a failed sync the page cache cannot be trusted.
 * Also used by the worker thread. */
void log_thread_end_if(bool failed, enum err err);

/* ---- Worker thread: long reads, snapshots, preallocation. ---- */

/* A request and its answer, which is an event for the replica. The core sets the token and the type
 * of the event; the type says what is requested. The worker sets the other members of the event.
 * Only PURGED comes without a request. */
struct worker_job {
    struct list node;
    struct zab_event event;
    zxid_t zxid;       /* FETCHED: records after this zxid are read. STORED_SNAP, RESTORED: start of
                          the snapshot; RESTORED with 0: an empty state. */
    uint64_t chain;    /* STORED_SNAP: chain value at `zxid`. */
    struct buf config; /* STORED_SNAP: the encoded configuration. */
    uint64_t history;  /* RESTORED: id of the history (Zk-History) that the new state gets. */
    struct snap_piece piece; /* SNAP_FETCHED: request and result. */
    struct buf bytes;        /* SNAP_FETCHED: bytes of the piece. */
    enum err err;            /* SNAP_FETCHED, STORED_SNAP, note: result. */
    const char *note; /* Constant: write `config` into this optional file; NULL: an event's job. */
};

struct worker {
    struct thread thread;
    struct mailbox inbox;
    struct mailbox *outbox; /* The core's mailbox, for worker_job. */
    struct store *store;
    const struct vfs *vfs; /* The data directory. */
    struct view *view;
    struct snap_send send; /* Snapshots on their way to learners. */
    uint64_t prepare_ms;   /* Time of the next attempt to preallocate a segment. */
    zxid_t log_base;       /* Base of the log, as last reported to the core. */
    bool stopping;
    struct metric_histogram snapshot_time;
    struct metric_counter snapshot_errors;
    _Atomic bool low;         /* The disk has no room for the next segment. */
    _Atomic bool lacks_files; /* The thread waits for a descriptor now. */
};

void worker_start(struct worker *worker, struct store *store, const struct vfs *vfs,
                  struct view *view, struct mailbox *outbox);
void worker_post(struct worker *worker, struct worker_job *take_job);
void worker_stop(struct worker *worker);
void worker_job_free(struct worker_job *job);

/* ---- Keys for the peers (peer_keys.c). ---- */

struct peer_keys_done {
    struct list node;
    struct keys *keys;
};

struct peer_keys {
    struct mailbox dones;      /* For the core: new keys. */
    struct os_changes changes; /* Thread of the part. */
    bool was_read;             /* Thread of the part: the files have been read again. */
    struct metric_counter reloads;
    struct metric_counter errors;
    _Atomic bool failed;      /* The last attempt has failed. */
    _Atomic int64_t expire_s; /* When the certificate expires, s since 1970; 0: none. */
};

/* Makes the keys of these secrets and of the files that the configuration names. */
enum err peer_keys_load(const struct config *config, const struct config_secrets *secrets,
                        struct keys **ret_keys, char error[SERVER_ERROR_MAX]);

/* peer_keys_open and peer_keys_close surround the life of the core. From peer_keys_start on the
 * keys are a part of each reload, if there is a file. */
void peer_keys_open(struct server *server);
void peer_keys_start(struct server *server);
void peer_keys_close(struct server *server);

/* Core thread: gives keys that have arrived to the transport. */
void peer_keys_take(struct server *server);

/* ---- Core thread. ---- */

/* Returns the text about another process that claims the id now; NULL: there is none. */
const char *core_peer_duplicate(const struct config *config, const struct core_peer *peer,
                                uint64_t now_ms);

/* Why the core does not listen for peers yet. */
struct core_listen {
    char why[PEER_REFUSED_MAX]; /* "": it does. */
    uint64_t logged_ms;         /* Time of the last log line; 0: none. */
    uint64_t pause_ms;          /* Pause before the next log line. */
};

enum {
    JOIN_TEXT_MAX = GATE_CHECK_TEXT_MAX
};

/* How the core finds replicas beyond its members. */
struct core_join {
    bool is_on;      /* The transport was given addresses to dial. */
    bool is_reached; /* As last told to the protocol. */

    struct core_join_why {           /* One for each address of `join`. */
        char text[PEER_REFUSED_MAX]; /* Why it is not reached; "": it is, or is not dialed. */
        bool waits;                  /* `text` is still to be logged, */
        uint64_t since_ms;           /* since then. */
        uint64_t logged_ms;          /* Time of the last log line; 0: none. */
    } whys[CONFIG_JOINS_MAX];

    char text[JOIN_TEXT_MAX]; /* Why this replica is no member; "": it is, or it does not join. */
    char missing[JOIN_TEXT_MAX];         /* Which addresses of join it does not reach; "": none. */
    uint32_t waiting[ZAB_OUTSIDERS_MAX]; /* Replicas that wait to be added, as logged. */
    size_t waiting_count;
    uint64_t
        founds_ms; /* When the log says again what a founder waits for; 0: it founds nothing. */
};

/* How the server list of the file differs from the members. */
struct core_list {
    bool is_compared;            /* It was compared with the configuration of */
    zxid_t version;              /* this version. */
    char differs[LIST_TEXT_MAX]; /* "": it does not. */
};

/* The optional files of the data directory (notes.h). */
struct core_notes {
    bool is_kept;        /* There is a file `members`, with the configuration of */
    zxid_t version;      /* this version; that of the first one is 0. */
    bool is_busy;        /* The worker writes one. */
    uint64_t retry_ms;   /* No earlier write after one that has failed. */
    uint64_t removed_ms; /* When this replica learned that it was removed. */
    bool is_marked;      /* The worker has written that mark, or failed. */
    bool is_ending;      /* The main thread has got its signal. */
};

/* The core's state, published under gate->mutex; readers copy the struct. */
struct publication {
    struct replica_status replica;
    struct zab_peer_status peers[ZAB_MEMBERS_MAX];
    size_t peer_count;
    struct links links;
    char list_differs[LIST_TEXT_MAX];             /* core_list.differs. */
    char join_text[JOIN_TEXT_MAX];                /* core_join.text. */
    char join_missing[JOIN_TEXT_MAX];             /* core_join.missing. */
    char not_listening[PEER_REFUSED_MAX];         /* Why peers cannot connect yet; "": they can. */
    struct heartbeat heartbeats[ZAB_MEMBERS_MAX]; /* The last status report of each replica. */
    size_t heartbeat_count;
    struct zab_config config;
    bool has_pending; /* A change of the configuration is under way: */
    struct zab_config pending;
    uint64_t pending_ms; /* When this replica has seen it first. */

    struct waiting_row { /* Connected replicas that wait to be added. */
        uint32_t id;
        char address[LINK_ADDRESS_MAX]; /* host:port for other replicas; "": it has not said it. */
        char client[ZAB_CLIENT_MAX + 1];
        char zone[ZAB_ZONE_MAX + 1];
        uint64_t since_ms;
        enum zab_fault fault; /* Why autoJoin has not added it. */
    } waiting[ZAB_OUTSIDERS_MAX];

    size_t waiting_count;
    struct tcp_figures tcp;
    struct store_figures store;
    uint64_t at_ms;
};

struct core {
    struct thread thread;
    struct loop loop;
    struct loop_watch requests_watch;
    struct loop_watch dones_watch;
    struct loop_watch worker_watch;
    struct loop_watch keys_watch;
    struct mailbox requests; /* Holds op_request. */
    struct mailbox dones;    /* Holds log_done. */
    struct mailbox worker_dones;
    struct replica *replica;
    struct replica_effects effects;
    struct tcp *tcp;             /* NULL for a single replica. */
    struct persist_batch *batch; /* Operations of this turn; NULL: none. */
    bool halting;                /* The process ends once the last messages are sent. */
    struct store_identity identity;
    uint64_t now_ms;
    bool low;          /* Low disk space, as last reported to the replica. */
    const char *aside; /* Why the replica takes no writes, as last reported to it. */
    zxid_t audited;    /* Applied zxid as last reported to the audit log. */
    uint64_t published_ms;
    bool publish_now;
    struct zab_status logged; /* Status at the last log line about the role. */
    bool clock_wrong;         /* The clock was wrong at the last log line. */
    struct links links;
    uint32_t files_peers; /* The greatest number of peers so far (check_files). */
    struct core_list list;
    struct core_notes notes;
    struct core_join join;
    struct blob *hint; /* The configuration of the file `members`; NULL: none. */
    struct core_listen listen;
    uint64_t retire_ms; /* No connection of a removed secret or CA is closed before this. */
    uint32_t retire_id; /* Peer whose connection is to be closed; 0: none. */
    bool retire_late;   /* It is closed although requests are in flight. */
    _Atomic bool stop;
    _Atomic bool drain;
    bool drained;
    uint32_t told_level; /* Feature level as last told to the transport. */
    uint64_t alive_ms;   /* When the service manager was last told that the core works. */
    char told_status[SD_NOTIFY_TEXT_MAX]; /* What it was last told about the role. */
    _Atomic uint64_t turn_ms;             /* Start of the last turn, for the liveness probe. */
};

/* ---- Gate: what front ends may touch from their own threads. ---- */

extern const char gate_disk_is_low[]; /* Text of /readyz and /status/v1. */

struct gate {
    struct server *server;
    struct budget unsent;  /* Bytes that wait for clients; bound: maxUnsentBytes. */
    pthread_mutex_t mutex; /* Guards `published` and `fronts`. */
    struct publication published;
    struct gate_front_hooks fronts[GATE_FRONTS];
    _Atomic uint32_t role;         /* enum replica_role. */
    _Atomic bool ending;           /* SIGTERM has come: not ready any more. */
    _Atomic uint64_t removed;      /* zxid of the change that has removed this replica; 0: none. */
    const char *_Atomic aside;     /* Why this replica takes no writes; NULL: it takes them. */
    const char *_Atomic log_waits; /* The same, if its log waits; else NULL. */
    _Atomic bool readable;         /* The tree may be read: it is whole, though perhaps stale. */
    _Atomic uint64_t applied;
    _Atomic uint64_t heard_ms;
    _Atomic uint64_t history;
    struct metric_histogram op_time[OP_IDS];
    struct metric_counter op_failed[OP_IDS];
    struct metric_counter throttled;
    struct metric_counter touches_lost;
    struct metric_counter share_refused;
    uint32_t share_members;            /* Replicas that share what is remembered; core thread. */
    struct buckets remembered_client;  /* Tokens for remembered results, by client. */
    struct buckets remembered_address; /* Tokens for remembered results, by address. */
    struct guard guard;
    struct slow_log slow;
    struct top *top;
};

/* ---- Sampler: counters of the recent past, for plots. ---- */

/* The counters at one time; a sample is the difference of two such structs. */
struct sampler_counts {
    uint64_t at_us;
    uint64_t cpu_us;
    uint64_t reads[METRIC_BUCKETS]; /* Reads by latency; writes and syncs likewise. */
    uint64_t writes[METRIC_BUCKETS];
    uint64_t syncs[METRIC_BUCKETS];
    uint64_t errors;
    uint64_t throttled;
    uint64_t txns;
    uint64_t events;
    uint64_t native_requests;
    uint64_t expired;
    uint64_t peer_in;
    uint64_t peer_out;
};

struct sampler {
    struct thread thread;
    struct trend *trend;
    struct mailbox ended;         /* Closed to end the thread. */
    struct sampler_counts fine;   /* Counters at the last 1-s step; only the thread uses them. */
    struct sampler_counts coarse; /* Counters at the last 10-s step; only the thread uses them. */
    uint64_t coarse_slot;
    uint64_t unsent_peak; /* Peak of gate.unsent since memory was last given back to the system. */
    uint64_t trim_ms;     /* The earliest time of the next return of memory. */
    bool trim_rest;       /* Much memory was still in use at the last return. */
    /* Quantiles of the log's syncs in the latest 10-s step that has syncs; 0: none yet. */
    _Atomic uint32_t sync_p50_us;
    _Atomic uint32_t sync_p99_us;
    _Atomic uint64_t disk_free; /* Free bytes of the disk with dataDir at the latest 10-s step. */
    _Atomic bool disk_known;
};

void sampler_start(struct server *server);
void sampler_stop(struct server *server);

struct server {
    const struct config *config;
    struct vfs vfs;
    struct store *store;
    struct view *view;
    struct window *window;
    struct touch_set *touched;
    struct heard *heard;
    struct gate gate;
    struct core core;
    struct log_thread log;
    struct worker worker;
    struct sampler sampler;
    struct audit *audit; /* NULL: there is no audit log. */
    struct peer_keys peer_keys;
    struct reloads reloads;
    struct backups backups;
    struct replica_options options;
    struct zab_seed seeds[ZAB_MEMBERS_MAX];
    struct mailbox drained;   /* Closed by the core once no request is in flight. */
    struct sd_notify manager; /* The service manager. */
    int64_t start_wall_ms;
    uint64_t start_ms;
};

/* Checks ports, names and directory; leaves nothing open and writes nothing. On a problem returns
 * ERR_CONFIG, with one line in `error`. */
enum err server_check(const struct config *config, char error[SERVER_ERROR_MAX]);
void core_open(struct server *server);
void core_start(struct server *server);
void core_stop(struct server *server);
void core_step(struct server *server, struct zab_event *event); /* Steps at the present time. */

/* Opens the transport to the peers; does nothing for a single replica. Called between core_open and
 * core_start. */
enum err core_open_peers(struct server *server, char error[SERVER_ERROR_MAX]);

/* Core thread: fills the list of other replicas for the transport, and the addresses of this one.
 * Notes why a peer is not dialed in the table of connections. Returns the number of entries. */
uint32_t core_list_peers(struct server *server, struct tcp_peer peers[LINKS_MAX]);

/* Core thread: tells the service manager that this thread works, and the role when it changes. */
void core_tell_manager(struct server *server, const struct zab_status *status);

/* Core thread: after ZAB_FX_MEMBERS, makes the table of connections and the transport follow. */
void core_follow_members(struct server *server);

/* Core thread: passes what this process knows of the members' addresses to the protocol. */
void core_tell_facts(struct server *server);

/* core_join.c, core thread. core_look_at_join, called now and then, gives the transport the
 * addresses to dial besides the members, and finds out what /readyz and the log say about them.
 * core_note_reached, called in each turn, says whether all addresses of join are reached,
 * and returns whether that has changed. core_on_join is a callback of the transport. */
void core_look_at_join(struct server *server, const struct zab_status *status);
bool core_note_reached(struct server *server, bool *ret_is_reached);
void core_on_join(void *ctx, const struct tcp_address *address, const char *why);

/* core_notes.c, core thread. core_keep_members, called now and then, lets the worker write the
 * newest committed configuration. core_take_removal handles ZAB_FX_REMOVED; core_end_removed,
 * called in each turn, then ends the process. core_note_written takes the worker's answer. */
void core_keep_members(struct server *server);
void core_take_removal(struct server *server, zxid_t zxid);
void core_end_removed(struct server *server);
void core_note_written(struct core *core, const struct worker_job *job);

/* Core thread: tells the transport the feature level of the committed configuration. */
void core_tell_level(struct core *core);

/* Core thread. core_look_at_seals, called now and then, notes how each connection is sealed and
 * chooses one to close, because its secret or CA has been removed. core_retire_peer
 * closes it at the end of a turn in which no request is in flight. */
void core_look_at_seals(struct server *server);

/* Core thread, now and then: logs the last refusal of each peer, at intervals. */
void core_log_refusals(struct server *server);

void core_retire_peer(struct server *server);

/* Core thread: gives each peer of the protocol, and each replica that waits to be added, an entry
 * in the table of connections, and drops the others. Called at the start and before each
 * publication. */
void core_refresh_links(struct server *server);

void gate_init(struct gate *gate, struct server *server);
void gate_release(struct gate *gate);

/* gate_members.c: writes id and role of a member into the open object. */
void gate_write_role(struct jsonw *json, const struct zab_config *config,
                     const struct member_row *row);

/* Writes what the configuration tolerates and which change of it is under way. `in_step`: voters
 * that serve, as this replica sees them. */
void gate_write_changes(struct gate *gate, struct jsonw *json, const struct publication *copy,
                        uint32_t in_step, bool https);

/* Core thread: copies the core's state for the other threads. */
void gate_publish(struct gate *gate, const struct replica_status *status);

/* Logs failed credentials; called each second on the sampler's thread. */
void gate_guard_log(struct gate *gate, uint64_t now_ms);

/* Appends the metrics of the audit log, also when there is none. Any thread. */
void gate_audit_metrics(struct gate *gate, struct buf *out);

/* gate_share.c: the tokens that a write with a key takes from its client's share of the remembered
 * results. Any thread. */
struct share_ticket {
    uint64_t client; /* Key of the client's bucket. */
    uint64_t address;
    uint64_t cost; /* In tokens; 0 for the super user. */
    uint64_t now_ns;
    bool pays_client; /* False: the address has no token. Then only the address pays, so that
                         made-up identities do not fill the table of clients. */
};

void gate_shares_init(struct gate *gate);
void gate_shares_release(struct gate *gate);

/* Core thread: divides the shares among `members` replicas, from now on. */
void gate_shares_divide(struct gate *gate, uint32_t members);

/* True when the result of this write with a key may be remembered; else sets an error as the
 * request's result. */
bool gate_shares_ask(struct gate *gate, struct op_request *request,
                     struct share_ticket *ret_ticket);
/* Takes the tokens of a request that was submitted. */
void gate_shares_pay(struct gate *gate, const struct share_ticket *ticket);

/* Sizes of the state; zero while there is none. Any thread. */
struct gate_figures {
    uint64_t nodes;
    uint64_t data_bytes;
    uint64_t memory_bytes; /* Memory that maxTreeBytes limits. */
    uint64_t ephemerals;
    uint64_t sessions;
    uint64_t remembered;
    uint64_t remembered_bytes;
    uint64_t quotas_exceeded; /* How many of the first VIEW_NODES_MAX (soft) quotas are exceeded. */
};

void gate_figures(struct gate *gate, struct gate_figures *ret_figures);

/* Returns a copy of what the core has published; the caller frees it with mem_free. Any thread. */
struct publication *gate_published(struct gate *gate);

/* Returns the time of the clocks of a majority of the voters, ms since 1970: that of the own clock
 * until enough of them are known. `gate`: a struct gate. Any thread. */
int64_t gate_wall_ms(void *gate);

#endif
