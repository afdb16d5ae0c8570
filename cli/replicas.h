/*
 * replicas.h - asks each replica for itself, all at the same time: what each of them knows, and
 * which do not answer. The client (client.h) asks the first one that answers instead. One thread.
 */
#ifndef CLI_REPLICAS_H
#define CLI_REPLICAS_H

#include "cli/cli.h"

enum {
    REPLICAS_ERROR_MAX = CURL_ERROR_SIZE,
    REPLICAS_ANSWER_MAX = 8 << 20, /* Bytes of one answer. */
    REPLICAS_WAIT_MS = 5000        /* For all of them, when --timeout is not shorter. */
};

struct replicas_answer {
    CURL *easy; /* While it is under way, */
    struct curl_slist *headers;
    char url[ENDPOINT_MAX];
    long status;  /* Of HTTP; 0: no replica has answered, `error` says why. */
    bool foreign; /* Because another server has. */
    char error[REPLICAS_ERROR_MAX];
    struct buf body;
    json_t *json;        /* The body, when it is JSON; or NULL. */
    int64_t clock_ms;    /* By its Date: the start of the second in which it answered; 0: none. */
    int64_t asked_ms;    /* By the clock here (wall), when the answer was asked for */
    int64_t answered_ms; /* and when it was there. */
};

struct replicas {
    struct replicas_answer answers[ENDPOINTS_MAX];
    int count;
};

/* Asks all endpoints of the client for the target, which is read only. CMD_OK, whatever they
 * answer; or CMD_SHOWN (--curl), or an exit code that has been reported: then there is no answer.
 * The caller frees them in any case; NULL is allowed. */
int replicas_ask(struct cli *cli, const char *target, struct replicas **ret_replicas);
void replicas_free(struct replicas *replicas);

/* The same, of the replicas that these advertise as well. */
int replicas_ask_all(struct cli *cli, const char *target, struct replicas **ret_replicas);

/* Reports that no replica has answered, or that another server has. Returns the exit code. */
int replicas_none(const struct cli *cli, const struct replicas *replicas);

/* Adds to the client's endpoints those that the replicas advertise (/ensemble/v1), and gives one of
 * their answers, of a replica that knows a leader if there is one; the caller drops it. NULL:
 * no replica has answered. */
int replicas_find(struct cli *cli, json_t **ret_ensemble);

#endif
