/*
 * sim_watch.h - front ends with watches, and their clients.
 *
 * Each process has one subscriber over the window of its replica, as a front-end thread has. Each
 * client has one socket, which breaks and is reopened at another replica. A stream is one watch as
 * its client knows it, over all its sockets, with all its events. After the run each stream is
 * checked against the history.
 */
#ifndef TESTS_SIM_SIM_WATCH_H
#define TESTS_SIM_SIM_WATCH_H

#include "server/watch/subscribe.h"
#include "tests/sim/sim.h"

enum {
    SIM_STREAMS_MAX = 6, /* Limit for each socket. */
    SIM_SAFE_MAX = 4,    /* Points from which a client may resume. */
    SIM_QUEUE_MAX = 3,   /* Events that a slow client receives before its watches are held. */
};

enum sim_item_kind {
    SIM_ITEM_EVENT,
    SIM_ITEM_FROM, /* The next events follow `zxid`, on another socket. */
    SIM_ITEM_DIFF, /* The next events are the difference between `since` and `zxid`. */
    SIM_ITEM_GAP,  /* No events up to `zxid`: the client must read again. */
};

struct sim_item {
    enum sim_item_kind what;
    enum watch_event_type type;
    bool diff;    /* The event belongs to a difference. */
    bool used_up; /* A change that its client may not read has used up the watch in a difference. */
    zxid_t zxid;
    zxid_t since;
    zxid_t known; /* Last zxid that its replica had applied when it sent the event. */
    char path[48];
};

/* A point at which a client's knowledge is complete: its first `count` events, and all changes up
 * to `have`. */
struct sim_safe {
    size_t count;
    zxid_t have;
};

struct sim_stream {
    uint32_t number;
    uint32_t client;
    enum watch_kind kind;
    char path[48];
    uint64_t history; /* History of the cluster when the stream began. */
    zxid_t begin;
    zxid_t have; /* The client has every change up to here. */
    uint32_t id; /* Id of the watch; 0: not registered now. */
    bool held;
    zxid_t held_from; /* First zxid whose events were discarded. */
    bool marked;      /* The mark of the current difference is in the list. */
    bool used_up;
    struct sim_item *items;
    size_t item_count;
    size_t item_cap;
    struct sim_safe safe[SIM_SAFE_MAX]; /* A ring, newest last. */
    uint32_t safe_count;
};

struct sim_socket {
    struct sim *sim;
    uint32_t client;
    struct sim_node *node; /* NULL: the socket is broken. */
    struct watch_owner owner;
    bool stalled;
    uint32_t queued;
    struct sim_stream *streams[SIM_STREAMS_MAX]; /* Streams with a watch. */
    struct sim_stream *only; /* The stream that is receiving its missed events. */
};

struct sim_sockets {
    struct sim_socket of[SIM_CLIENTS_MAX];
    struct sim_stream **streams; /* All streams of the run. */
    size_t count;
    size_t cap;
};

/* ---- sim_watch.c: front ends. ---- */

/* A front end opens before its process recovers, and closes before the view is freed. */
void sim_front_open(struct sim *sim, struct sim_node *node);
void sim_front_start(struct sim *sim, struct sim_node *node); /* The view exists. */
void sim_front_stop(struct sim *sim, struct sim_node *node);
void sim_front_check_loading(struct sim *sim, struct sim_node *node); /* No znode is readable. */
void sim_front_close(struct sim_node *node); /* The replica no longer exists. */
struct window *sim_front_window(struct sim_node *node);

/* Whether the front end holds an answer from state `zxid`, because its replica must not be read any
 * more, and events up to there have not come: the answer never arrives. */
bool sim_front_holds(struct sim_node *node, zxid_t zxid);

/* An answer from state `zxid` is about to be sent. */
void sim_front_answers(struct sim *sim, struct sim_node *node, zxid_t zxid);
/* A read was answered; a watch may begin with it. */
void sim_front_read(struct sim *sim, struct sim_node *node, const struct sim_op *op,
                    const struct op_result *result);
struct subscriber *sim_front_subscriber(struct sim_node *node); /* NULL: none. */

/* ---- sim_socket.c: clients. ---- */

void sim_sockets_init(struct sim *sim); /* Not called in seeds without watches. */
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

/* Changes that fire watches, in the order of the log; and each new ACL, which fires none. */
struct sim_trigger {
    zxid_t zxid;
    enum watch_event_type type; /* Or SIM_NEW_ACL. */
    bool readable;              /* By every client, at that moment. */
    char path[64];
};

struct model;

/* The delivered differences; those that end before `before` are checked with that state of the
 * model. */
struct sim_diffs;
struct sim_diffs *sim_diffs_new(struct sim *sim);
void sim_diffs_check(struct sim_diffs *diffs, const struct model *model, zxid_t before);
void sim_diffs_free(struct sim_diffs *diffs);

/* Checks all streams against all triggers. */
void sim_streams_check(struct sim *sim, const struct sim_trigger *triggers, size_t count);

#endif
