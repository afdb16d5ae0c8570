/*
 * watch_listing.h - the watches of this replica's clients: a listing that each front end adds to.
 *
 * Each front-end thread owns its watches. So the listing travels from mailbox to mailbox, each
 * front end adds its own watches, and the last one answers. No thread waits for another, and the
 * core is not involved. A front end looks at WATCH_LISTING_LOOKED_MAX clients and watches at most;
 * when there are more, the answer is marked as truncated.
 */
#ifndef SERVER_WATCH_LISTING_H
#define SERVER_WATCH_LISTING_H

#include "base/jsonw.h"
#include "server/process/gate.h"
#include "server/watch/watch.h"

enum {
    WATCH_LISTING_LIMIT_MAX = 1000,  /* Rows of an answer. */
    WATCH_LISTING_LOOKED_MAX = 20000 /* Clients and watches a front end looks at (about 2 ms). */
};

struct watch_listing {
    struct list node; /* Links the listing in the mailbox of a front end. */
    struct gate *gate;
    /* Called on the thread of the last front end; from then on the listing is the caller's again.
     */
    void (*on_done)(struct watch_listing *listing);
    void *ctx;

    /* The request; borrowed until on_done. */
    const struct op_principal *who;
    struct slice path; /* Only watches at exactly this path; empty: at any path. */
    uint64_t session;  /* Only watches of clients in this session; 0: of all clients. */
    bool clients; /* Each row is a client with its number of watches, not one watch. The rows are
                     those with the most watches, these first. */
    uint32_t limit;

    /* The answer. */
    struct buf rows; /* JSON objects, with commas between them; not those of `best`. */
    struct watch_listing_best *best; /* If `clients`: a heap of `count` clients. */
    uint32_t count;
    bool truncated;  /* There may be more rows. */
    uint32_t looked; /* Clients and watches that the present front end has looked at. */
    uint32_t next;   /* enum gate_front: the next front end. */
};

/* A client of a front end, with or without watches. */
struct watch_listing_client {
    const struct watch_owner *owner;
    uint64_t session; /* Public id; 0: none. */
    const char *over; /* "websocket", "stream", "wait", "native". */
};

/* Initializes a listing from the `args` of OP_WATCHES; the caller sets on_done and ctx. */
void watch_listing_init(struct watch_listing *listing, struct gate *gate,
                        const struct op_args *args, const struct op_principal *who);
void watch_listing_release(struct watch_listing *listing);

/* Any thread: passes the listing to the next front end, or calls on_done. Called by the caller of
 * watch_listing_init, and by each front end after its part. */
void watch_listing_pass(struct watch_listing *listing);

/* Begins the part of a front end. This function and the next two run on the front end's thread. */
void watch_listing_begin(struct watch_listing *listing);

/* Adds the rows of a client. False: the limit is reached. */
bool watch_listing_add_client(struct watch_listing *listing,
                              const struct watch_listing_client *client);

/* Adds the row of one watch at the requested path. False: the limit is reached. */
bool watch_listing_add_watch(struct watch_listing *listing,
                             const struct watch_listing_client *client, const struct watch *watch);

/* Writes one JSON value, once: {"watches":[...],"truncated"}, or {"clients":[...],"truncated"}. */
void watch_listing_write(struct watch_listing *listing, struct jsonw *json);

#endif
