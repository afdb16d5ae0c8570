/*
 * sim_watch.h - front ends with watches, and the clients that are told by them.
 *
 * Each process has one subscriber over the window of its replica, as a front-end thread has. Each
 * client has one socket, which breaks and is made again elsewhere; a stream is one watch as its
 * client knows it, over all its sockets, with all that it was told. After the run each stream is
 * held against the history.
 */
#ifndef TESTS_SIM_SIM_WATCH_H
#define TESTS_SIM_SIM_WATCH_H

#include "server/watch/subscribe.h"
#include "tests/sim/sim.h"

enum {
    SIM_STREAMS_MAX = 6, /* Of a socket. */
    SIM_SAFE_MAX = 4,    /* Places that a client may resume from. */
    SIM_QUEUE_MAX = 3,   /* Events that a slow client is sent before its watches are held. */
};

enum sim_told_what {
    SIM_TOLD_EVENT,
    SIM_TOLD_FROM, /* What follows begins behind `zxid`, on another socket. */
    SIM_TOLD_DIFF, /* What follows is the difference between `since` and `zxid`. */
    SIM_TOLD_GAP,  /* Nothing is told up to `zxid`: read anew. */
};

struct sim_told {
    enum sim_told_what what;
    enum watch_event_type type;
    bool diff; /* An event of a difference. */
    zxid_t zxid;
    zxid_t since;
    zxid_t known; /* What its replica had applied when it told an event. */
    char path[48];
};

/* Up to where a client has it all: so much of what it was told, complete up to `have`. */
struct sim_safe {
    size_t count;
    zxid_t have;
};

struct sim_stream {
    uint32_t number;
    uint32_t client;
    enum watch_kind kind;
    char path[48];
    uint64_t history; /* Of the cluster when it began. */
    zxid_t begin;
    zxid_t have; /* Everything up to here has been told. */
    uint32_t id; /* Of the watch; 0: not registered now. */
    bool held;
    zxid_t held_from; /* First zxid that was thrown away. */
    bool marked;      /* The difference under way is in `told`. */
    bool used_up;
    struct sim_told *told;
    size_t told_count;
    size_t told_cap;
    struct sim_safe safe[SIM_SAFE_MAX]; /* A ring, newest last. */
    uint32_t safe_count;
};

struct sim_socket {
    struct sim *sim;
    uint32_t client;
    struct sim_node *node; /* NULL: it is broken. */
    struct watch_owner owner;
    bool stalled;
    uint32_t queued;
    struct sim_stream *streams[SIM_STREAMS_MAX]; /* That are live. */
    struct sim_stream *only;                     /* Is being told what it has missed. */
};

struct sim_sockets {
    struct sim_socket of[SIM_CLIENTS_MAX];
    struct sim_stream **streams; /* All that ever were. */
    size_t count;
    size_t cap;
};

/* ---- sim_watch.c: front ends. ---- */

/* With the process: before it is recovered, and before its view is freed. */
void sim_front_open(struct sim *sim, struct sim_node *node);
void sim_front_start(struct sim *sim, struct sim_node *node); /* There is a view. */
void sim_front_stop(struct sim *sim, struct sim_node *node);
void sim_front_check_loading(struct sim *sim, struct sim_node *node); /* Nothing is readable. */
void sim_front_close(struct sim_node *node);                          /* The replica is gone. */
struct window *sim_front_window(struct sim_node *node);

/* An answer of state `zxid` is about to leave. */
void sim_front_answers(struct sim *sim, struct sim_node *node, zxid_t zxid);
/* A read was done; perhaps a watch begins with it. */
void sim_front_read(struct sim *sim, struct sim_node *node, const struct sim_op *op,
                    const struct op_result *result);
struct subscriber *sim_front_subscriber(struct sim_node *node); /* NULL: none. */

/* ---- sim_socket.c: clients. ---- */

void sim_sockets_init(struct sim *sim); /* Not when nobody watches. */
void sim_sockets_release(struct sim *sim);
void sim_socket_turn(struct sim *sim, const struct sim_client *client);
void sim_socket_event(struct sim_socket *socket, struct watch *hits,
                      const struct watch_event *event);
void sim_socket_beat(struct sim_socket *socket, zxid_t zxid);
void sim_socket_lost(struct sim_socket *socket, zxid_t from);
void sim_socket_break(struct sim_socket *socket);
void sim_socket_watch(struct sim_socket *socket, enum watch_kind kind, const char *path,
                      const zxid_t *at);
void sim_sockets_finish(struct sim *sim);

/* ---- sim_watch_check.c: after the run. ---- */

#define SIM_NEW_ACL ((enum watch_event_type)0)

/* What fires watches, in the order of the log; and each new ACL, which fires nothing. */
struct sim_trigger {
    zxid_t zxid;
    enum watch_event_type type; /* Or SIM_NEW_ACL. */
    bool readable;              /* By everybody, at that moment. */
    char path[64];
};

struct model;

/* The differences that were told up to before `before`, at that state of the model. */
struct sim_diffs;
struct sim_diffs *sim_diffs_new(struct sim *sim);
void sim_diffs_check(struct sim_diffs *diffs, const struct model *model, zxid_t before);
void sim_diffs_free(struct sim_diffs *diffs);

/* All streams against all triggers. */
void sim_streams_check(struct sim *sim, const struct sim_trigger *triggers, size_t count);

#endif
