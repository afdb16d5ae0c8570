/*
 * sim_op.h - what clients ask and what they are told: operations, clients and their sessions.
 *
 * An operation keeps its request as it was meant and its answer as it came, so that the history can
 * be checked after the run. Times are in virtual microseconds unless the name says otherwise.
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
    SIM_SESSIONS_MAX = 256, /* Of a seed, open or not. */
    SIM_TOUCHES_MAX = 8,    /* That are kept of a session. */
    SIM_MADE_MAX = 4,       /* Proposals of its opening. */
    SIM_PERMS_OPEN = 31,
};

enum sim_outcome {
    SIM_PENDING,
    SIM_OK,
    SIM_ERROR,   /* A verdict on the operation, at a zxid. */
    SIM_REFUSED, /* Certainly not applied; says nothing about the tree. */
    SIM_UNKNOWN,
};

struct sim_sub { /* An operation, or an element of a multi. */
    enum op_id id;
    char path[48];
    char data[48];
    bool sequence;
    bool ephemeral;
    uint32_t ttl_ms; /* CREATE: goes when it is not set for so long; 0: stays. */
    bool plain;      /* The data are not padded. */
    uint32_t perms;  /* CREATE, SETACL: of everybody; SIM_PERMS_OPEN or 0: open. */
    bool has_version;
    int32_t version; /* Of SETACL the aversion. */
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
    struct sim_session *session; /* In which it is asked, or which it is about; NULL: none. */
    uint64_t attach;             /* Of the socket that asks; 0: plain HTTP. */
    uint32_t key;                /* Of the first operation with that key, plus one; 0: none. */
    char key_text[24];
    enum watch_kind watch; /* A read: registers such a watch as well; 0: none. */
    uint64_t begin_us;
    uint64_t end_us;
    zxid_t floor; /* Newest zxid anybody had been told of when it began. */
    enum sim_outcome outcome;
    bool lost;           /* The answer must not reach the client. */
    bool sent;           /* The replica has it. */
    bool came;           /* The front end has it. */
    bool touched;        /* ... and has noted that the session is alive. */
    uint64_t arrival_us; /* When it came, or will come, there. */
    zxid_t need;         /* A read must reflect at least this. */
    uint32_t replied;
    uint64_t patience_us;
    enum err err;
    zxid_t zxid;
    uint64_t boot; /* Who it is in the log. */
    uint64_t request;
    bool replayed; /* By an idempotency key. */
    bool has_stat;
    struct stat_view stat;
    char path[64]; /* As answered. */
    bool has_data;
    char data[48];
    uint32_t failed_index;
    struct op_session_info told;
    struct stat_view due; /* By the model, when it was done. */
    char due_path[64];
    zxid_t logged;          /* Where it is in the log; 0: nowhere. */
    struct op_request *req; /* While it is inside. */
    struct op_args args[SIM_SUBS_MAX];
    uint8_t *pads[SIM_SUBS_MAX]; /* Data with its padding; heap. */
    struct buf acls[SIM_SUBS_MAX];
    struct sim_op *next_at; /* sim_history.c: others to be checked at the same zxid. */
};

struct sim_client {
    uint32_t id;
    uint32_t inside; /* Operations without an answer. */
    uint32_t node;   /* Replica it talks to. */
    zxid_t seen;     /* Token for read-your-writes. */
    bool tokens;     /* Sends it. */
    uint32_t keyed;  /* Newest keyed operation whose outcome it does not know, plus one; 0: none. */
};

/* ---- sim_client.c: the front end between clients and a replica. ---- */

void sim_client_init(struct sim *sim);
void sim_client_release(struct sim *sim);
struct sim_op *sim_op_new(struct sim *sim, uint32_t client, uint32_t node);
/* Sends it off; from here on it ends by an answer, by its client's patience or by a crash. */
void sim_op_launch(struct sim *sim, struct sim_op *op);
/* What everybody may do with the znode, as it is sent; 0: nothing is said. */
uint32_t sim_sub_perms(const struct sim_sub *sub);
bool sim_op_is_write(const struct sim_op *op); /* Makes a transaction when it succeeds. */
/* One operation of a scenario, sent now; the answer is awaited with sim_run. */
struct sim_op *sim_client_send(struct sim *sim, uint32_t node, const struct sim_sub *sub,
                               bool linearizable);
void sim_client_lost(struct sim *sim, struct sim_node *node); /* The process died. */
/* A local read is refused while this replica is out of step or has been cut off for too long. */
bool sim_client_may_read(struct sim *sim, struct sim_node *node);

/* ---- sim_draw.c: what clients do. ---- */

void sim_client_begin(struct sim *sim);

#endif
