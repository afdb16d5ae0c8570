/*
 * endpoints.h - the replicas that a client knows, and the one that it asks now. It stays with one
 * as long as that answers. Pure.
 */
#ifndef CLI_ENDPOINTS_H
#define CLI_ENDPOINTS_H

#include <stdbool.h>
#include <stddef.h>

enum {
    ENDPOINTS_MAX = 32,
    ENDPOINT_MAX = 300 /* Bytes of one, with its "http://". */
};

struct endpoints {
    char urls[ENDPOINTS_MAX][ENDPOINT_MAX]; /* "http://host:port", no slash behind it. */
    int count;
    int current;
};

/* A list "host:port,host:port": blanks around are dropped, a port that is missing is 9998,
 * "http://" may be there. False: `ret_fault` is the place in the list that is wrong. */
bool endpoints_parse(struct endpoints *endpoints, const char *list, const char **ret_fault);

/* The next one, in a ring. */
void endpoints_turn(struct endpoints *endpoints);

static inline const char *endpoints_url(const struct endpoints *endpoints)
{
    return endpoints->urls[endpoints->current];
}

#endif
