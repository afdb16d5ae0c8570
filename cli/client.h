/*
 * client.h - one request after the other, to the first replica that answers, with libcurl.
 *
 * The client stays with the replica that answered last, tries the next one when that does not
 * serve, and sends the newest zxid that it has seen, so that it never reads an older state. Each
 * write has an Idempotency-Key: a retry is always safe, and is repeated until the time of the
 * request is over. One thread.
 */
#ifndef CLI_CLIENT_H
#define CLI_CLIENT_H

#include "cli/jsonr.h"
#include "cli/settings.h"
#include "cli/url.h"

enum {
    CLIENT_BODY_MAX = 64 << 20, /* Of an answer. */
    CLIENT_HEADERS_MAX = 8,     /* Of the caller's own. */
    CLIENT_PARAMS_MAX = 10,
    CLIENT_HEADER_MAX = 1024,
    CLIENT_MESSAGE_MAX = 1024,
    CLIENT_CODE_MAX = 64
};

/* Status codes of HTTP that commands look at. */
enum {
    HTTP_OK = 200,
    HTTP_NO_CONTENT = 204,
    HTTP_UNAUTHORIZED = 401,
    HTTP_LATE = 412, /* If-Match, or a version, names another state than there is. */
    HTTP_TOO_MANY = 429,
    HTTP_BAD_GATEWAY = 502,
    HTTP_UNAVAILABLE = 503,
    HTTP_UNKNOWN = 504 /* The outcome of a write is. */
};

/* A parameter of the query. */
struct client_param {
    const char *name;
    const char *value; /* It is escaped; NULL: the parameter is left out. */
};

struct client_request {
    const char *method; /* NULL: GET. */
    const char *target; /* The route, "/znodes/v1", or all of path and query. */
    const char *path;   /* Of the znode, which follows the route escaped; NULL: none. */
    struct client_param params[CLIENT_PARAMS_MAX]; /* Ends with a NULL name. */
    struct slice body;
    bool has_body;
    const char *body_from; /* What --curl shows in place of the body: "@FILE", "@-"; or NULL. */
    const char *type;      /* Of the body; NULL: application/octet-stream. */
    const char *accept;    /* NULL: application/json. */
    const char *about;     /* The path that its errors name; NULL: the one they come with. */
    const char *headers[CLIENT_HEADERS_MAX]; /* More of them, "Name: value"; ends with NULL. */
    bool reads;                              /* Changes nothing, though its method may. */
    bool keyless;                            /* A write that takes no Idempotency-Key. */
    bool last;     /* Nothing is asked that depends on the answer: with --curl it is only shown. */
    int lines_max; /* The answer is cut behind so many lines; 0: it is taken whole. */
    int only;      /* Number of the one replica to ask, from 1; 0: any. */
    int64_t timeout_ms; /* 0: as the settings say. */
};

struct client_reply {
    long status; /* 0: there was no answer. */
    struct buf body;
    char etag[CLIENT_HEADER_MAX];
    char zxid[CLIENT_HEADER_MAX];
    int64_t retry_after_ms;
    int endpoint; /* The endpoint that has answered. */
};

/* What went wrong with the last request. */
struct client_error {
    int exit_code;              /* CMD_OK: nothing. */
    long status;                /* Of HTTP, 0 without an answer. */
    char code[CLIENT_CODE_MAX]; /* "NoNode"; of the client's own: "NoEnsemble", "TimedOut". */
    char message[CLIENT_MESSAGE_MAX];
    json_t *problem; /* As reported by the replica, or NULL. */
};

struct client;

/* Takes nothing over; `settings` must stay. NULL: the reason is in `settings->error`. */
struct client *client_open(struct settings *settings);
void client_close(struct client *client);

/* Asks. CMD_OK for an answer of 2xx or 3xx, else an exit code, and client_error() says why. With
 * --curl, what changes something or is the last one is printed and CMD_SHOWN comes back. */
int client_ask(struct client *client, const struct client_request *request);

/* Of the last request; good until the next one. */
const struct client_reply *client_reply(const struct client *client);
const struct client_error *client_error(const struct client *client);

/* When the last request has failed because no replica serves: adds to its message the reason that
 * the replicas report, and what to do. That may take a second. */
void client_explain(struct client *client);

/* True when the last request was refused because what it names is not, or not any more, what it has
 * asked for (If-Match, a version): another client was quicker. */
bool client_was_late(const struct client *client);

/* Its body as JSON, which belongs to the client; NULL when it is none. */
json_t *client_json(struct client *client);

/* The secret of the session that requests are in from now on; NULL: none. It is copied. */
void client_enter(struct client *client, const char *session);

/* When this descriptor becomes readable a request ends with CMD_FAILED and this code; -1: none. */
#define CLIENT_INTERRUPTED "Interrupted"
void client_interrupt_by(struct client *client, int fd);

struct endpoints *client_endpoints(struct client *client);

/* For requests that are made elsewhere (stream.h, live.h): the URL at that endpoint, credentials,
 * session, the newest zxid and what the request says, put into a handle, which drops the body of
 * the answer. The list of headers is to be freed by the caller with curl_slist_free_all once the
 * handle is done. CMD_OK, or the reason in client_error(). */
struct curl_slist;
int client_prepare(struct client *client, void *easy, const char *endpoint,
                   const struct client_request *request, struct curl_slist **ret_headers);

/* What an answer's status and body mean, into client_error(). Returns its exit code. */
int client_judge(struct client *client, long status, struct slice body);

/* A zxid that an answer has shown ("0x1f"). */
void client_seen(struct client *client, const char *zxid);
void client_seen_number(struct client *client, uint64_t zxid);

/* The newest that was seen; 0: none. */
uint64_t client_zxid(const struct client *client);

#endif
