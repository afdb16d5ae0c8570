/*
 * census.h - who watches what on this replica: a question that goes from front end to front end.
 *
 * Each front-end thread owns its watches, so each is asked in turn by its mailbox and adds what it
 * has; the last one answers. Nobody waits for anybody, the core is not asked at all. One part is
 * bounded by CENSUS_LOOKED_MAX watches: what lies behind is left out, and said to be.
 */
#ifndef SERVER_CENSUS_H
#define SERVER_CENSUS_H

#include "base/jsonw.h"
#include "server/process/gate.h"
#include "server/watch/watch.h"

enum {
    CENSUS_LIMIT_MAX = 1000,  /* Rows of an answer. */
    CENSUS_LOOKED_MAX = 20000 /* Watches that one front end looks at; about 2 ms of its time. */
};

struct census {
    struct list node; /* In the mailbox of the front end that is asked. */
    struct gate *gate;
    /* The last front end's thread; the census is the caller's again. */
    void (*on_done)(struct census *census);
    void *ctx;

    /* What is asked; borrowed until on_done. */
    const struct op_principal *who;
    struct slice path; /* Watches registered at just this path; empty: at any. */
    uint64_t session;  /* Of clients in this session; 0: of all. */
    bool clients;      /* Clients with the number of their watches, in place of watches. */
    uint32_t limit;

    /* What is answered. */
    struct buf rows; /* JSON objects, with commas between them. */
    uint32_t count;
    bool truncated; /* There may be more. */
    uint32_t looked;
    uint32_t next; /* Front end that comes next. */
};

/* A client that may have watches, as its front end knows it. */
struct census_client {
    const struct watch_owner *owner;
    uint64_t session; /* Public id; 0: none. */
    const char *over; /* "websocket", "stream", "wait". */
};

/* `args` of OP_WATCHES; on_done and ctx are the caller's to set. */
void census_init(struct census *census, struct gate *gate, const struct op_args *args,
                 const struct op_principal *who);
void census_release(struct census *census);

/* Any thread: asks the next front end, or calls on_done. By who has added its part, or begins. */
void census_pass(struct census *census);

/* The thread of the front end that is asked: its part begins. */
void census_begin(struct census *census);

/* All that it asks of this client. False: enough was looked at. */
bool census_add_client(struct census *census, const struct census_client *client);

/* One watch at the path that is asked for. The same. */
bool census_add_watch(struct census *census, const struct census_client *client,
                      const struct watch *watch);

/* One value: {"watches":[...],"truncated"}, or with "clients". */
void census_write(const struct census *census, struct jsonw *json);

#endif
