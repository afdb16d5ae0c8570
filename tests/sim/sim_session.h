/*
 * sim_session.h - the sessions of simulated clients: the client's view of each, and the truth.
 *
 * A client opens a session, keeps it alive by touching it at any replica that answers, attaches it
 * at intervals, closes it, or falls silent. The truth is the time of each contact with a front end
 * and the time at which a leader proposed the end, so that no session may end too early.
 */
#ifndef TESTS_SIM_SIM_SESSION_H
#define TESTS_SIM_SIM_SESSION_H

#include "tests/sim/sim.h"

enum sim_session_state {
    SIM_SESSION_OPENING, /* The client has no answer yet. */
    SIM_SESSION_OPEN,
    SIM_SESSION_SILENT, /* The client does nothing for the session any more. */
    SIM_SESSION_GONE,   /* The client was informed of the end, or has abandoned the session. */
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
    uint64_t id;      /* Public id, as the client received it; 0: not yet. */
    uint64_t attach;  /* Attachment of the client's socket; 0: none. */
    uint64_t before;  /* Previous attachment. */
    uint32_t at_node; /* Node of that socket. */
    /* Truth. */
    struct sim_opening made[SIM_MADE_MAX]; /* Newest proposals to open it: deposed leaders may make
                                              further ones. */
    uint32_t made_count;
    uint32_t touches[SIM_TOUCHES_MAX]; /* Numbers of the newest operations that touch it. */
    uint32_t touch_count;
    uint32_t kept_in;       /* Newest epoch whose leader must respect the contacts. */
    bool late;              /* In that epoch no replica had contact for a whole timeout. */
    uint64_t kept_until_us; /* End of the timeout after the last contact. */
    uint32_t kept_by;       /* Operation of the last contact. */
};

void sim_session_release(struct sim *sim);

/* A client's turn: opens, attaches or closes a session. */
void sim_session_turn(struct sim *sim, const struct sim_client *client);

/* The operation may join one of its client's sessions. */
void sim_session_join(struct sim *sim, struct sim_op *op);
bool sim_session_is_open(const struct sim_session *session);

/* Writes the secret into the arguments of operations about the session itself. */
void sim_session_args(struct sim_session *session, struct op_args *args);

/* The session of a request, as the front end passes it to the core. */
void sim_session_show(const struct sim_op *op, struct op_session *ret_session);

/* An operation was sent, has reached a front end, or has ended for its client. */
void sim_session_sent(struct sim *sim, const struct sim_op *op);
void sim_session_heard(struct sim *sim, struct sim_node *node, struct sim_op *op);
void sim_session_answered(struct sim *sim, struct sim_op *op);

/* A leader has made this transaction: it must not expire a session whose client had contact in
 * time. */
void sim_session_proposed(struct sim *sim, const struct sim_node *leader, const struct logrec *rec);

/* At the end no client touches its sessions any more: all must expire. */
void sim_session_wait_gone(struct sim *sim);

#endif
