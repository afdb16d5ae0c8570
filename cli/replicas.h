/*
 * replicas.h - sends a request to every replica at the same time, to learn what each one knows and
 * which ones do not answer. (client.h needs only one answer, from the first replica that gives it.)
 * One thread.
 */
#ifndef CLI_REPLICAS_H
#define CLI_REPLICAS_H

#include "cli/cli.h"

enum {
    REPLICAS_ERROR_MAX = CLIENT_WHY_MAX,
    REPLICAS_ANSWER_MAX = 8 << 20, /* Bytes of one answer. */
    REPLICAS_WAIT_MS = 5000        /* Timeout of the answers, unless --timeout is shorter. */
};

struct replicas_answer {
    CURL *easy; /* The request in flight. */
    struct curl_slist *headers;
    char url[ENDPOINT_MAX];
    long status;  /* The HTTP status; 0: no replica has answered, `error` says why. */
    bool foreign; /* Another server has answered. */
    bool tls;     /* TLS, or its absence, is why there is no answer. */
    char error[REPLICAS_ERROR_MAX];
    struct buf body;
    json_t *json;        /* The body as JSON, or NULL. */
    int64_t clock_ms;    /* The replica's clock (Date header), cut to a second; 0: no header. */
    int64_t asked_ms;    /* When the request was sent, by the local wall clock. */
    int64_t answered_ms; /* When the answer had come, by the local wall clock. */
};

struct replicas {
    struct replicas_answer answers[ENDPOINTS_MAX];
    int count;
};

/* Sends a GET for `target` to all endpoints of the client. Returns CMD_OK, whatever the replicas
 * answer; or CMD_SHOWN (--curl) or the code of a reported error, and then there are no answers. The
 * caller frees `*ret_replicas` in any case; replicas_free() accepts NULL. */
int replicas_ask(struct cli *cli, const char *target, struct replicas **ret_replicas);
void replicas_free(struct replicas *replicas);

/* As replicas_ask(), but also asks the replicas that the endpoints advertise. */
int replicas_ask_all(struct cli *cli, const char *target, struct replicas **ret_replicas);

/* Reports that no replica has answered, or that another server has, or that TLS has failed. Returns
 * the exit code. */
int replicas_none(const struct cli *cli, const struct replicas *replicas);

/* Adds the replicas that are advertised (/ensemble/v1) to the client's endpoints. Gives one answer,
 * if possible from a replica that knows a leader; the caller drops it. NULL: no replica has
 * answered. */
int replicas_find(struct cli *cli, json_t **ret_ensemble);

#endif
