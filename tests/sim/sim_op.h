/*
 * sim_op.h - requests of clients and their answers: operations, clients and sessions.
 *
 * An operation keeps its request as the client meant it and its answer as it arrived, so that the
 * history can be checked after the run. Times are in virtual microseconds unless the name says
 * otherwise.
 */
#ifndef TESTS_SIM_SIM_OP_H
#define TESTS_SIM_SIM_OP_H

#include "server/op/op.h"
#include "server/op/ops.h"
#include "server/state/txn.h"

struct sim;
struct sim_node;
struct sim_event;

enum {
    SIM_CLIENTS_MAX = 12,
    SIM_SUBS_MAX = 4,
    SIM_SESSIONS_MAX = 256, /* Limit for a seed, open and closed sessions. */
    SIM_TOUCHES_MAX = 8,    /* Remembered touches of a session. */
    SIM_MADE_MAX = 4,       /* Remembered proposals to open a session. */
    SIM_PERMS_OPEN = 31,
};

enum sim_outcome {
    SIM_PENDING,
    SIM_OK,
    SIM_ERROR,   /* The operation failed at a zxid. */
    SIM_REFUSED, /* Certainly not applied; the answer says nothing about the tree. */
    SIM_UNKNOWN,
};

struct sim_sub { /* An operation, or an element of a multi. */
    enum op_id id;
    char path[48];
    char data[48];
    bool sequence;
    bool ephemeral;
    uint32_t ttl_ms; /* CREATE: the znode's TTL; 0: none. */
    bool plain;      /* The data are not padded. */
    uint32_t perms;  /* CREATE, SETACL: permissions of every client; SIM_PERMS_OPEN or 0: open. */
    bool has_version;
    int32_t version; /* With SETACL the aversion. */
};

struct sim_session;

struct sim_op {
    struct sim *sim;
    uint32_t number;
    uint32_t client;
    uint32_t node;
    uint32_t life;
    enum op_id id; /* OP_MULTI: see subs. */
    struct sim_sub subs[SIM_SUBS_MAX];
    uint32_t sub_count;
    bool linearizable;
    zxid_t min_zxid;
    struct sim_session *session; /* Of its client, or the one it concerns; NULL: none. */
    uint64_t attach;             /* Attachment of the socket that carries it; 0: plain HTTP. */
    uint32_t key; /* Number of the first operation with that key, plus one; 0: none. */
    char key_text[24];
    enum watch_kind watch; /* A read also registers a watch of this kind; 0: none. */
    uint64_t begin_us;
    uint64_t end_us;
    zxid_t floor; /* Newest zxid that any client had received when the operation began. */
    enum sim_outcome outcome;
    bool lost;           /* The answer must not reach the client. */
    bool sent;           /* The replica has received it. */
    bool came;           /* The front end has received it. */
    bool touched;        /* ... and has noted that the session is alive. */
    uint64_t arrival_us; /* When it arrives there. */
    zxid_t need;         /* A read must reflect at least this zxid. */
    uint32_t replied;
    uint64_t patience_us;
    enum err err;
    zxid_t zxid;
    uint64_t boot; /* Identifies the operation in the log, with `request`. */
    uint64_t request;
    bool replayed; /* The answer was repeated for an idempotency key. */
    bool has_stat;
    struct stat_view stat;
    char path[64]; /* Path in the answer. */
    bool has_data;
    char data[48];
    uint32_t failed_index;
    struct op_session_info info;
    struct stat_view due; /* Stat in the model when the operation was executed. */
    char due_path[64];
    zxid_t logged;          /* Its zxid in the log; 0: it is not in the log. */
    struct op_request *req; /* While the replica works on it. */
    struct op_args args[SIM_SUBS_MAX];
    uint8_t *pads[SIM_SUBS_MAX]; /* Padded data; heap. */
    struct buf acls[SIM_SUBS_MAX];
    struct sim_op *next_at; /* sim_history.c: next operation that is checked at the same zxid. */
};

struct sim_client {
    uint32_t id;
    uint32_t inside; /* Operations without an answer. */
    uint32_t node;   /* Replica to which the client talks. */
    zxid_t seen;     /* Token for read-your-writes. */
    bool tokens;     /* The client sends its token. */
    uint32_t keyed;  /* Newest keyed operation of unknown outcome, plus one; 0: none. */
};

/* ---- sim_client.c: the front end between clients and a replica. ---- */

void sim_client_init(struct sim *sim);
void sim_client_release(struct sim *sim);
struct sim_op *sim_op_new(struct sim *sim, uint32_t client, uint32_t node);
/* Sends the operation; it ends with an answer, with its client's timeout or with a crash. */
void sim_op_launch(struct sim *sim, struct sim_op *op);
/* Permissions of every client in the request; 0: the request has no ACL. */
uint32_t sim_sub_perms(const struct sim_sub *sub);
bool sim_op_is_write(const struct sim_op *op); /* A successful operation makes a transaction. */
/* Sends one operation of a scenario; the caller waits for the answer with sim_run. */
struct sim_op *sim_client_send(struct sim *sim, uint32_t node, const struct sim_sub *sub,
                               bool linearizable);
void sim_client_lost(struct sim *sim, struct sim_node *node); /* The process died. */
/* This replica may answer local reads: it is in step, and has not been cut off for too long. */
bool sim_client_may_read(struct sim *sim, struct sim_node *node);

/* ---- sim_draw.c: the clients' operations. ---- */

void sim_client_begin(struct sim *sim);

#endif
