/*
 * resolve.h - turns host names into addresses without holding up the core.
 *
 * Numeric addresses are answered at once; names go to a thread of their own, because getaddrinfo
 * may take many seconds. resolver_close does not wait for that thread: the thread frees what is
 * left.
 */
#ifndef ZAB_TCP_RESOLVE_H
#define ZAB_TCP_RESOLVE_H

#include "base/err.h"
#include "base/list.h"

#include <netinet/in.h>
#include <stdint.h>
#include <sys/socket.h>

enum {
    RESOLVE_ADDRESSES_MAX = 16,
    RESOLVE_LISTEN_MAX = 4, /* Of these a replica listens on so many. */
    RESOLVE_HOST_MAX = 256
};

struct resolve_address {
    struct sockaddr_storage addr;
    socklen_t len;
};

struct resolve_answer {
    struct resolve_address addresses[RESOLVE_ADDRESSES_MAX];
    uint32_t count; /* 0: no such name, or no answer. */
};

/* Returns true and one address when `host` is numeric. */
bool resolve_numeric(const char *host, uint16_t port, struct resolve_answer *ret_answer);

struct resolver;

/* One question and its answer. */
struct resolve_job {
    struct list node;
    uint32_t id; /* Of the replica that has the name, or a number above all ids. */
    uint16_t port;
    char host[RESOLVE_HOST_MAX];
    struct resolve_answer answer;
};

struct resolver *resolver_open(void);
void resolver_close(struct resolver *resolver);

/* Asks for the addresses of a name; a job with the answer and this id comes back through
 * resolver_answers. */
void resolver_ask(struct resolver *resolver, uint32_t id, const char *host, uint16_t port);

/* Returns a descriptor that is readable when there may be answers. */
int resolver_event_fd(const struct resolver *resolver);

/* Moves the answered jobs to `ret_jobs`; the caller frees each job. */
void resolver_answers(struct resolver *resolver, struct list *ret_jobs);

#endif
