/*
 * tcp_int.h - what the files of the transport share.
 *
 * tcp.c: the object. peers.c: changes of the list of replicas. dial.c, join.c, listen.c: new
 * sockets. ready.c: what a ready socket does. claim.c: which of two processes with one id counts.
 * shake.c: from a new socket to a proven peer. flow.c: frames that come in. rival.c: other replicas
 * are connected with another process of an id. probe.c: questions whether a process lives.
 * outsiders.c: replicas that are not in the list. links.c: the other replicas, and the ends of
 * connections. met.c: which replica has answered at an address. report.c: events for the owner.
 * conn.c: frames out, and the bytes of one connection. seal.c: TLS between a connection and its
 * socket. keys.c, certificate.c: what TLS and the HELLO prove. callers.c: how many handshakes a
 * caller gets. A file calls only files that are named after it in this list.
 *
 * A connection is never freed where an error is found: it is marked `doomed` or closed, and is
 * reaped when no callback runs, so that a caller further up the stack may still use it. A link may
 * be removed by each callback: after one, its memory is that of an unused slot or of another
 * replica. So a callback is the last thing that a function does with a link, or the function looks
 * the link up again.
 */
#ifndef ZAB_TCP_TCP_INT_H
#define ZAB_TCP_TCP_INT_H

#include "base/buf.h"
#include "base/check.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/minmax.h"
#include "base/os_clock.h"
#include "base/rng.h"
#include "zab/tcp/callers.h"
#include "zab/tcp/frame.h"
#include "zab/tcp/hello.h"
#include "zab/tcp/resolve.h"
#include "zab/tcp/seal.h"
#include "zab/tcp/tcp.h"

enum {
    TCP_WHY_MAX = TCP_TEXT_MAX,
    TCP_ENSEMBLE_MAX = 128,
    TCP_ADDRESS_MAX = 88, /* Bytes of an address in a report that two processes claim an id. */
    TCP_LISTENERS_MAX = RESOLVE_LISTEN_MAX,
    TCP_SHAKING_MAX = 256, /* Maximum of handshakes at a time, unless the options say fewer. */
    TCP_PAUSE_MS = 100,    /* Pause of accept after the descriptors ran out. */
    TCP_PAUSE_SHARE = 8,   /* Questions for a claim are sent after `probe_ms` divided by this. */
    TCP_LOOKUPS_MAX = 256, /* Names that wait for the resolver; those of removed replicas too. */
    TCP_JOINS_MAX = 8,     /* Addresses of tcp_set_join that are dialed at a time. */
    TCP_MET_MAX = 128,     /* Addresses whose replica is remembered. */
    TCP_OUTSIDER_QUEUE_MAX = 256 << 10, /* Bytes that wait for a caller that is no member. */
    TCP_OUTSIDER_FRAME_MAX = 4096,      /* Maximum of a message of such a caller. */
};

/* Why a learned address is not dialed. The addresses of the configuration are checked at the start.
 */
#define TCP_BEYOND                                                                             \
    "the address is beyond loopback, and nothing proves the replicas to each other: give the " \
    "same peerSecretFile to all"

enum conn_state {
    CONN_CONNECTING, /* Dialed, not yet connected. */
    CONN_SEALING, /* TLS shakes hands; an acceptor waits for the first byte, which shows whether the
                     caller speaks TLS. */
    CONN_GREETING, /* Waiting for the peer's greeting. */
    CONN_HELLO,    /* Waiting for the peer's HELLO. */
    CONN_CLAIM,    /* Proven, but another process of the peer's id may live: see claim.c. */
    CONN_UP,
    CONN_LEAVING, /* Was up; its peer has been removed from the list. The next flush ends it. */
    CONN_CLOSED,  /* Waiting to be reaped. */
};

struct conn {
    struct tcp *tcp;
    struct list node; /* In tcp->shaking, leaving or graveyard; in no list while up. */
    struct loop_watch watch;
    enum conn_state state;
    bool dialed;          /* This replica dialed. */
    struct caller caller; /* The address that has called; zeros if this replica dialed. */
    uint32_t peer;        /* Id of the peer; 0 until its greeting has named it. */
    /* The address of tcp_set_join that was dialed, until the connection is up; NULL: none. */
    struct join_target *target;
    struct resolve_address dialed_at; /* Only with `target`. */
    bool is_own;                      /* With `target`: this very process has answered. */
    bool is_outsider;      /* Up: a caller that is not in the list; it has tighter bounds. */
    uint64_t heard_ms;     /* When the last whole frame came. */
    uint64_t deadline_ms;  /* Deadline of the handshake; once `asked`, of the claim. */
    uint64_t up_since_ms;  /* When the connection came up. */
    uint64_t read_ms;      /* When bytes came last. */
    uint64_t claimed_ms;   /* When the claim began; before that, when the dialer sent its HELLO. */
    bool asked;            /* CONN_CLAIM: the older process has been asked. */
    bool overdue;          /* The claim's deadline has passed. */
    const char *doomed;    /* Why the next flush closes the connection, or NULL. */
    struct list out;       /* List of struct chunk. */
    uint64_t queued;       /* Bytes in `out` not yet written. */
    bool blocked;          /* The socket took less than offered. */
    struct buf in;         /* Bytes read and not yet used. */
    size_t in_used;        /* Bytes of `in` that were used. */
    size_t want;           /* Bytes that the frame at the front still lacks. */
    uint32_t number_in;    /* Frames received. */
    uint32_t number_out;   /* Frames sent. */
    uint64_t nonce;        /* Nonce that each frame carries. */
    uint16_t version;      /* Protocol version that both sides speak. */
    bool is_newer;         /* The peer's newest version is later than this replica's. */
    struct keys *keys;     /* As they were when the connection began. */
    uint32_t secret;       /* Index of the secret that both sides have proven. */
    bool removed;          /* The present keys would not accept what the peer has proven. */
    struct seal *seal;     /* NULL: a plain connection. */
    struct hello identity; /* Identity of the peer. */
    struct hello_transcript transcript;
};

/* The last question to a peer about a process: its own process, or a process of another id. */
struct question {
    uint64_t asked_ms; /* When it was asked; 0: never. */
    uint64_t start;    /* Start number of the process. */
    bool is_open;      /* No answer yet. */
};

/* An address from which a peer calls. */
struct link_caller {
    bool is_known;
    struct caller caller;
};

/* An address of tcp_set_join. In a round all addresses of its name are dialed, one after the other,
 * but for those of replicas that are connected. */
struct join_target {
    struct list node; /* In tcp->targets. */
    struct tcp_address address;
    const char
        *host; /* For the certificate: that of `address`. NULL: a replica of the list has it. */
    struct conn *dialing;
    uint32_t job; /* Its job with the resolver; 0: none. */
    bool is_listed;
    uint64_t retry_at_ms; /* The next step of the round, or the next round, is not before this. */
    uint32_t backoff_ms;  /* Pause after the next round, before jitter. */
    struct resolve_answer answer;
    uint32_t answer_used;  /* Index of the first address not yet tried in this round. */
    uint64_t reached_ms;   /* When all addresses were last those of connected replicas; 0: never. */
    char why[TCP_WHY_MAX]; /* The first failure of this round; "": none. */
    char told[TCP_WHY_MAX]; /* Last reported by on_join. */
    bool has_told;
};

/* Which replica has answered at an address. */
struct join_met {
    struct resolve_address address;
    uint32_t id; /* 0: an unused place. */
    uint64_t at_ms;
};

/* One of the other replicas, connected or not. */
struct link {
    struct tcp_peer peer;
    bool is_outsider; /* It is not in the list, and was connected; it has no address. */
    /* Hosts of the peer, for its certificate. NULL: another replica has the same one. "": none. */
    const char *hosts[2];
    /* From where the peer calls: its last connection, else its host, then its next host. */
    struct link_caller callers[2];
    struct conn *up;
    struct conn *dialing;         /* Connecting or shaking hands. */
    bool resolving;               /* A job is with the resolver. */
    bool second;                  /* `answer` is, or will be, that of the peer's next host. */
    uint64_t retry_at_ms;         /* No attempt to dial before this. */
    uint32_t backoff_ms;          /* Next delay, before jitter. */
    struct resolve_answer answer; /* Addresses of the peer. */
    uint32_t answer_used;         /* Index of the first address not yet tried. */
    uint32_t hang_ups;            /* Handshakes that the peer has broken off since it was up. */
    char refusal[TCP_WHY_MAX];    /* Last reported refusal; not repeated until the link is up. */

    /* Used by claim.c, probe.c and rival.c. */
    /* Waiting connection of a process that differs from the process of `up`, or from the process
     * that other replicas are connected with. */
    struct conn *claim;
    uint64_t alive_ms;   /* When the process of `up` answered last; 0: never. */
    uint64_t elsewhere;  /* Start number of the process that another replica last reported alive. */
    uint64_t vouched_ms; /* When a replica last reported `elsewhere` alive; 0: never. */
    char elsewhere_address[TCP_ADDRESS_MAX];
    bool yields;         /* `up` is to be closed: an older process lives. */
    uint64_t doubted_ms; /* When a younger process was first seen elsewhere; 0: none. */
    /* When an older process was first seen elsewhere, if it is still to be asked about; 0: none. */
    uint64_t rivals_ms;
    bool overdue;       /* The process of `up` has had `probe_ms` to answer. */
    uint64_t looked_ms; /* When other processes of the id were last looked for; 0: none found. */
    /* This peer waits for answers about the processes of these ids: bits by index of tcp->links. */
    uint64_t asks;
    /* Start number of the process of each id with which this peer is connected, by index of
     * tcp->links; 0: none. */
    uint64_t seen[ZAB_MEMBERS_MAX];
    /* The last SEEN of this peer, for replicas that are added after it. */
    struct control_seen told[ZAB_MEMBERS_MAX];
    uint32_t told_count;
    /* Last question to this peer about each id, by index of tcp->links. */
    struct question questions[ZAB_MEMBERS_MAX];
};

struct tcp {
    struct loop *loop;
    struct tcp_options options;
    char advertise[HELLO_ADVERTISE_MAX + 1];
    char ensemble[TCP_ENSEMBLE_MAX];
    uint8_t *sealed; /* Room for bytes that were read from a sealed connection. */
    struct tcp_handler handler;
    /* ZAB_MEMBERS_MAX slots. While a replica is in the list it keeps its slot. */
    struct link *links;
    uint64_t used;                       /* Which slots are links: bits by index. */
    char own_hosts[2][RESOLVE_HOST_MAX]; /* Of this replica in the server list; "": none. */
    struct loop_watch listeners[TCP_LISTENERS_MAX];
    uint32_t listener_count;
    char listen_host[RESOLVE_HOST_MAX];
    bool listen_wanted;       /* The name to listen on has no bindable address yet. */
    bool listen_resolving;    /* A job is with the resolver. */
    uint64_t listen_at_ms;    /* No attempt to listen before this. */
    uint32_t listen_pause_ms; /* Pause before the next attempt to listen. */
    /* No peer is dialed before this. UINT64_MAX: this replica's name resolves to another machine,
     * and no peer is dialed until an address of the name has been bound. */
    uint64_t dial_from_ms;
    struct resolver *resolver; /* NULL until a name is to be looked up. */
    struct loop_watch resolver_watch;
    uint32_t lookups;    /* Names that are with the resolver. */
    struct list targets; /* List of struct join_target. */
    uint32_t joins;      /* Of these, how many are being dialed. */
    uint32_t join_job;   /* Number of the last job for one of them. */
    struct join_met met[TCP_MET_MAX];
    struct callers callers; /* Which of the unproven callers get a handshake of TLS. */
    struct list shaking;    /* Connections that are not up, oldest first. */
    uint32_t shaking_count;
    struct list leaving;   /* Connections of removed replicas. */
    struct list graveyard; /* Closed, to be freed. */
    uint32_t depth;        /* Callbacks of this transport on the stack. */
    struct rng rng;        /* Jitter. */
    uint64_t bytes_in;
    uint64_t bytes_out;
    uint64_t refused;
    uint64_t unsealed;
    uint64_t skipped;
    uint64_t duplicates;
    bool seen_changed;      /* SEEN is to be sent to the peers. */
    uint8_t ensemble_level; /* Feature level that the ensemble uses. */
    /* No caller is accepted before this, because no descriptor was left; 0: all are accepted. */
    uint64_t accept_from_ms;
    uint64_t unknown_at_ms; /* When a refusal of an unknown caller was reported; 0: never. */
};

/* Returns the first link whose index is `from` or above; NULL: there is none. */
static inline struct link *link_from(const struct tcp *tcp, uint32_t from)
{
    uint64_t rest = from < ZAB_MEMBERS_MAX ? tcp->used >> from : 0;

    return rest != 0 ? &tcp->links[from + (uint32_t)__builtin_ctzll(rest)] : NULL;
}

static inline uint32_t link_index(const struct tcp *tcp, const struct link *link)
{
    ASSERT(link >= tcp->links && link < tcp->links + ZAB_MEMBERS_MAX);

    return (uint32_t)(link - tcp->links);
}

/* Loops over the other replicas; the body may remove any of them. NOLINTBEGIN(*-parentheses):
 * `link` is declared here. */
#define for_each_link(link, tcp)                                              \
    for (__typeof__((tcp)->links + 0) link = link_from(tcp, 0); link != NULL; \
         link = link_from(tcp, link_index(tcp, link) + 1))
/* NOLINTEND(*-parentheses) */

/* ---- peers.c ---- */

/* Takes the list of tcp_open; frees it and the addresses of tcp_set_join. */
void peers_open(struct tcp *tcp, const struct tcp_options *options);
void peers_close(struct tcp *tcp);

/* ---- links.c ---- */

struct link *tcp_link(struct tcp *tcp, uint32_t peer); /* NULL: not in the list. */

/* Whether a peer has proven itself from this address, or has it in the server list. */
bool tcp_knows_caller(const struct tcp *tcp, const struct caller *caller);

static inline bool link_is_up(const struct link *link)
{
    return link->up && !link->up->doomed;
}

/* Whether the peer is a caller that is not in the list: what it says about others does not count.
 */
static inline bool link_is_caller(const struct link *link)
{
    return link->up && link->up->is_outsider;
}

/* Whether bytes wait for the socket. */
static inline bool conn_has_output(const struct conn *conn)
{
    return conn->queued > 0 || (conn->seal && seal_pending(conn->seal).len > 0);
}

/* Returns how many bytes may wait for the peer before it is disconnected. */
static inline uint64_t conn_queue_max(const struct conn *conn)
{
    uint64_t max = conn->tcp->options.queue_bytes_max;

    return conn->is_outsider ? min_u64(max, TCP_OUTSIDER_QUEUE_MAX) : max;
}

/* Whether the event at `at_ms` (0: never) was less than `probe_ms` old at `of_ms`, or came later
 * than `of_ms`. */
static inline bool tcp_within(const struct tcp *tcp, uint64_t at_ms, uint64_t of_ms)
{
    return at_ms != 0 && at_ms + tcp->options.probe_ms > of_ms;
}

/* Returns a random delay between half of `delay_ms` and all of it, so that replicas that failed
 * together do not come back together. */
uint64_t tcp_jitter(struct tcp *tcp, uint32_t delay_ms);

/* Gives a replica an unused slot. What the others have told about its id before counts now. NULL:
 * all are used. */
struct link *link_take(struct tcp *tcp, uint32_t id);

/* Frees the slot of a link without connections. */
void link_release(struct tcp *tcp, struct link *link);

/* Takes over what the peer has told about the processes with which it is connected. */
void link_believe(struct tcp *tcp, struct link *link);

/* Sets when to dial again after a connection has ended or failed. */
void link_again(struct link *link, struct tcp *tcp, bool at_once);

/* Marks all connections to be closed at the next flush. */
void tcp_doom_all(struct tcp *tcp, const char *why);

/* Closes the connection; calls on_down if it was up, and dials again later if this side dialed. */
void tcp_drop(struct conn *conn, const char *why);

/* Closes the connection without a callback. */
void tcp_bury(struct conn *conn);

/* Ends a handshake that is not needed, for no fault of the peer. Returns false. */
bool tcp_part(struct conn *conn);

/* Returns another handshake with the peer of `conn`, begun by this replica, or NULL. */
struct conn *tcp_other_dialed(const struct conn *conn);

/* Makes room for another replica: gives up its handshakes, and makes its connection one that
 * leaves. Runs no callback. */
void link_remove(struct tcp *tcp, struct link *link);

/* Ends the connections of removed replicas, those of `peer` only (0: of all). Calls on_down for
 * each; returns false if there were none. */
bool tcp_end_leaving(struct tcp *tcp, uint32_t peer);

/* Closes the connection of a handshake that is refused; reports the refusal once through
 * on_refused. Returns false. */
bool tcp_refuse(struct conn *conn, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Makes the connection of a proven peer the `up` connection of its link, unless a callback about an
 * earlier connection has ended it. */
void tcp_established(struct conn *conn);

/* Notes whether the present keys would still accept the peer. */
void tcp_compare_keys(struct conn *conn);

/* Frees what is closed, unless a callback runs. */
void tcp_reap(struct tcp *tcp);

/* ---- outsiders.c ---- */

/* Returns a link for a replica that has proven itself and is not in the list. NULL: there are
 * enough of them. */
struct link *outsiders_add(struct tcp *tcp, uint32_t id);

/* Makes the link one of the list. */
void outsiders_admit(struct tcp *tcp, struct link *link);

/* Frees a slot for a member if all are used: that of the outsider whose connection came up last. */
void outsiders_yield(struct tcp *tcp);

/* Frees the slots of those that are not connected. No caller may hold a link. */
void outsiders_sweep(struct tcp *tcp);

/* Ends the connections of callers that say nothing. Returns the next deadline. */
uint64_t outsiders_tick(struct tcp *tcp, uint64_t now_ms);

uint32_t outsiders_count(const struct tcp *tcp);

/* ---- met.c ---- */

/* Notes which replica has answered at the address. */
void met_note(struct tcp *tcp, const struct resolve_address *address, uint32_t id);

/* Returns the replica that has answered there last; 0: it is not known. That this replica itself
 * has answered is forgotten after a while: the address may become that of another one. */
uint32_t met_at(const struct tcp *tcp, const struct resolve_address *address);

/* ---- report.c ---- */

/* Describes a connection for people: "10.0.0.3 (clients: zk3:9998)". */
void claim_describe(const struct conn *conn, char text[TCP_ADDRESS_MAX]);

/* Writes that two processes have one id: `one` and `other` are their addresses. */
void claim_text(uint32_t id, const char *one, const char *other, char text[TCP_WHY_MAX]);

/* Reports that text through on_duplicate. */
void report_duplicate(const struct tcp *tcp, uint32_t id, const char *text);

/* Reports a refusal unless it repeats the last one. `link`: NULL if the caller is not in the server
 * list. */
void report_refusal(struct tcp *tcp, struct link *link, const char *why);

/* ---- ready.c ---- */

/* Takes a socket that is connecting to the peer of `link`, or to any replica at an address of
 * `target`, or a socket of a caller (both NULL). */
struct conn *tcp_start(struct tcp *tcp, const struct link *link, struct join_target *target,
                       int take_fd);

/* Connects to an address. Returns a descriptor or a negative errno; -EPERM: the address is beyond
 * loopback, and nothing would prove this replica and its peer to each other. */
int tcp_connect(const struct tcp *tcp, const struct resolve_address *address);

/* ---- listen.c ---- */

/* listen_open listens on an address. Listening on a name begins with listen_tick instead, which
 * returns when to call it next; listen_answer takes the addresses that the resolver has found. */
enum err listen_open(struct tcp *tcp);
uint64_t listen_tick(struct tcp *tcp, uint64_t now_ms);
void listen_answer(struct tcp *tcp, const struct resolve_answer *answer);
void listen_close(struct tcp *tcp);

/* Starts or pauses the acceptance of callers. The transport pauses it when no descriptor is left.
 */
void listen_accept(struct tcp *tcp, bool all);

/* ---- dial.c ---- */

/* Dials when it is time. Returns the next wake time, monotonic ms. */
uint64_t dial_tick(struct link *link, struct tcp *tcp, uint64_t now_ms);

/* Dials the addresses of tcp_set_join when it is time. Returns the next wake time. */
uint64_t dial_join_tick(struct tcp *tcp, uint64_t now_ms);

/* Opens the resolver unless it is open. */
void dial_open_resolver(struct tcp *tcp);
void dial_close_resolver(struct tcp *tcp);

/* ---- join.c ---- */

void join_set(struct tcp *tcp, const struct tcp_address *addresses, uint32_t count);

/* Whether an address has a name, for which the resolver must be open. */
bool join_has_names(const struct tcp *tcp);
uint64_t join_tick(struct tcp *tcp, uint64_t now_ms);

/* Takes the addresses of a name. Those of a name that has left the list since are dropped. */
void join_answer(struct tcp *tcp, const struct resolve_job *job);

/* ---- conn.c ---- */

/* Takes the descriptor; the caller sets state and watch. */
struct conn *conn_new(struct tcp *tcp, int take_fd, bool dialed);

/* Closes the descriptor, drops all bytes; the memory lives until conn_free. */
void conn_close(struct conn *conn);
void conn_free(struct conn *conn);

/* Returns the buffer for the next bytes to send; the caller adds their number to `queued`. */
struct buf *conn_out(struct conn *conn);

/* Appends one frame. */
void flow_output(struct conn *conn, const struct zab_msg *msg);
void flow_control(struct conn *conn, const struct control *control);

/* Writes until done or the socket is full. ERR_IO, ERR_FORMAT: conn_error says why. */
enum err conn_write(struct conn *conn);

/* Reads once, at most `want` bytes, or 64 KiB if that is more. ERR_CLOSED: the peer has closed the
 * connection. ERR_IO, ERR_FORMAT: conn_error says why. ERR_BUSY: there is nothing to read. */
enum err conn_read(struct conn *conn, size_t want);

/* Returns a text for the error of the read or write that has just failed: for ERR_IO `errno`. */
const char *conn_error(const struct conn *conn, enum err err);

/* Starts TLS on the connection. Bytes that were read already become bytes of TLS. */
enum err conn_seal(struct conn *conn);

/* Continues the handshake of TLS, and sends what it has to send. The results are those of
 * seal_shake. */
enum err conn_shake(struct conn *conn);

static inline struct slice conn_input(const struct conn *conn)
{
    return slice_make(conn->in.data ? conn->in.data + conn->in_used : NULL,
                      conn->in.len - conn->in_used);
}

/* ---- shake.c ---- */

/* Begins the handshake, once connected: TLS, or the dialer's greeting. An error ends the
 * connection, and conn_error says why. */
enum err shake_begin(struct conn *conn);

/* Continues the handshake of TLS, or finds that the caller does not speak TLS. ERR_OK: the greeting
 * comes next; bytes of it may have been read. ERR_BUSY: more bytes are needed. Other errors end the
 * connection, and conn_error says why. */
enum err shake_seal(struct conn *conn);

/* Continues the handshake as far as the bytes read so far allow. Returns true when the peer has
 * proven itself. */
bool shake_input(struct conn *conn);

/* Whether the certificate of the peer, if it has proven one, names it: by one of these hosts (NULL:
 * another replica has it) or by a URI. Else `why` says it. */
bool shake_names(const struct conn *conn, const char *const hosts[2], char why[SEAL_WHY_MAX]);

/* Sends this replica's HELLO. `refusal`: why this replica, as the acceptor, hangs up next; "": it
 * does not. */
void shake_hello(struct conn *conn, const char *refusal, enum hello_reason reason);

/* ---- claim.c ---- */

/* Decides about a peer that has proven itself: its connection is up at once, waits as a claim, or
 * is refused. */
void claim_arrives(struct conn *conn);

/* Decides the claims that can be decided. Returns true when a callback may have queued messages. */
bool claim_settle(struct tcp *tcp);

/* Marks the claims whose deadline has passed; the next claim_settle decides them. Between the two
 * calls the sockets are read, so that a pause of this process does not look like silence of the
 * peer. Returns the next deadline. */
uint64_t claim_tick(struct tcp *tcp, uint64_t now_ms);

/* ---- probe.c ---- */

/* Sends a control frame, except on a connection whose queue is full: that peer is about to be
 * dropped. */
void probe_send(struct link *link, const struct control *control);

/* Asks the process that is up whether it lives. Like probe_others, asks only once per `probe_ms`,
 * unless the open question would end before the deadline of a claim that needs it (probe.c). */
void probe_peer(struct tcp *tcp, struct link *link, const char *claimant);

/* Asks each replica that is connected under `link`'s id with another process than `start` whether
 * that other process lives. */
void probe_others(struct tcp *tcp, struct link *link, uint64_t start, const char *claimant);

void probe_on_probe(struct tcp *tcp, struct link *from, const struct control *control);

/* probe_on_alive handles an ALIVE of a process about itself, probe_on_vouched an ALIVE of replica
 * `from` about the process of `link`. Both ignore an ALIVE that answers no open question of its
 * connection. */
void probe_on_alive(struct tcp *tcp, struct link *link, const struct control *control);
void probe_on_vouched(struct tcp *tcp, struct link *from, struct link *link,
                      const struct control *control);

/* ---- rival.c ---- */

/* Sends SEEN to all peers: the processes with which this replica is connected. */
void rival_tell_seen(struct tcp *tcp);
void rival_on_seen(struct tcp *tcp, struct link *from, const struct control *control);

/* Like claim_settle and claim_tick, for processes of one peer's id that are connected elsewhere. */
bool rival_settle(struct tcp *tcp, struct link *link);
uint64_t rival_tick(struct tcp *tcp, struct link *link, uint64_t now_ms);

/* ---- flow.c ---- */

/* Delivers all whole frames that have been read. Returns how many bytes the frame at the front
 * still lacks, at least 1. */
size_t flow_input(struct conn *conn);

#endif
