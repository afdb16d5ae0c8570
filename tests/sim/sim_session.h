/*
 * sim_session.h - the sessions of simulated clients: what a client knows of each, and the truth.
 *
 * A client opens a session, keeps it alive by touching it wherever it finds a replica that answers,
 * attaches it now and then, closes it, or falls silent. The truth is when a front end heard of it
 * and when a leader proposed its end, so that nothing ends too early.
 */
#ifndef TESTS_SIM_SIM_SESSION_H
#define TESTS_SIM_SIM_SESSION_H

#include "tests/sim/sim.h"

enum sim_session_state {
    SIM_SESSION_OPENING, /* Its client has not been told yet that it is there. */
    SIM_SESSION_OPEN,
    SIM_SESSION_SILENT, /* Its client does nothing for it any more. */
    SIM_SESSION_GONE,   /* Its client was told so, or has given it up. */
};

struct sim_opening {
    zxid_t zxid;
    uint64_t at_us;
};

struct sim_session {
    uint32_t number;
    uint32_t client;
    char secret[40];
    uint8_t hash[TXN_SECRET_HASH_LEN];
    uint32_t timeout_ms;
    enum sim_session_state state;
    uint64_t id;      /* Public, as the client was told; 0: not yet. */
    uint64_t attach;  /* Of the socket that its client has attached it to; 0: none. */
    uint64_t before;  /* The attachment before that one. */
    uint32_t at_node; /* Where that socket is. */
    /* Truth. */
    struct sim_opening made[SIM_MADE_MAX]; /* Newest proposals of its opening: leaders that are
                                              none any more may make others. */
    uint32_t made_count;
    uint32_t touches[SIM_TOUCHES_MAX]; /* Newest operations that show it, by their numbers. */
    uint32_t touch_count;
    uint32_t kept_in;       /* Newest epoch whose leader must respect what was heard of it. */
    bool late;              /* In that epoch nobody had heard of it for a time-out. */
    uint64_t kept_until_us; /* Until then no longer than a time-out. */
    uint32_t kept_by;       /* The operation. */
};

void sim_session_release(struct sim *sim);

/* Of a client at its turn: open, attach, close. */
void sim_session_turn(struct sim *sim, const struct sim_client *client);

/* Lets a write be made in one of its client's sessions, or not. */
void sim_session_join(struct sim *sim, struct sim_op *op);
bool sim_session_is_open(const struct sim_session *session);

/* The secret, for the operations that are about the session itself. */
void sim_session_args(struct sim_session *session, struct op_args *args);

/* As the front end tells the core in whose session a request is. */
void sim_session_show(const struct sim_op *op, struct op_session *ret_session);

/* An operation was sent, has come to a front end, has ended for its client. */
void sim_session_sent(struct sim *sim, const struct sim_op *op);
void sim_session_heard(struct sim *sim, struct sim_node *node, struct sim_op *op);
void sim_session_answered(struct sim *sim, struct sim_op *op);

/* A leader has made this transaction: no session may be expired by it that was heard of in time. */
void sim_session_proposed(struct sim *sim, const struct sim_node *leader, const struct logrec *rec);

/* At the end no client touches its session any more: all must expire. */
void sim_session_wait_gone(struct sim *sim);

#endif
