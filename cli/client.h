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

#include <curl/curl.h>

enum {
    CLIENT_BODY_MAX = 64 << 20, /* Of an answer. */
    CLIENT_HEADERS_MAX = 8,     /* Of the caller's own. */
    CLIENT_PARAMS_MAX = 10,
    CLIENT_HEADER_MAX = 1024,
    CLIENT_MESSAGE_MAX = 1024,
    CLIENT_CODE_MAX = 64,
    CLIENT_URL_MAX = 256 << 10,
    CLIENT_SESSION_MAX = 64
};

/* Status codes of HTTP that commands look at. */
enum {
    HTTP_OK = 200,
    HTTP_NO_CONTENT = 204,
    HTTP_UNAUTHORIZED = 401,
    HTTP_LATE = 412, /* If-Match, or a version, names another state: another client was quicker. */
    HTTP_TOO_MANY = 429,
    HTTP_BAD_GATEWAY = 502,
    HTTP_UNAVAILABLE = 503,
    HTTP_UNKNOWN = 504 /* The outcome of a write is unknown. */
};

/* A parameter of the query. */
struct client_param {
    const char *name;
    const char *value; /* It is escaped; NULL: the parameter is left out. */
};

struct client_request {
    const char *method; /* NULL: GET. */
    const char *target; /* The route, or all of path and query; NULL: "/znodes/v1". */
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
    int lines_max; /* The answer is cut after this many lines; 0: it is taken whole. */
    int64_t timeout_ms; /* 0: as the settings say. */
};

struct client_reply {
    long status; /* 0: there was no answer. */
    struct buf body;
    char etag[CLIENT_HEADER_MAX];
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

struct client {
    struct settings *settings;
    struct endpoints endpoints;
    CURLM *multi;
    CURL *easy;
    struct client_reply reply; /* Of the last request; good until the next one. */
    struct client_error error; /* The same. */
    const char *about;         /* Of the request under way. */
    int lines_left;            /* Of the answer that may still come; -1: all. */
    json_t *json;              /* Of the reply's body, once it was asked for. */
    uint64_t seen_zxid;        /* The newest that was seen; 0: none. */
    char session[CLIENT_SESSION_MAX];
    char password[SETTINGS_PASSWORD_MAX];
    bool has_password;
    int interrupt_fd; /* Readable: the request ends with CLIENT_INTERRUPTED; -1: none. */
    uint64_t note_ms; /* When to explain the delay (monotonic); 0: never, */
    bool noted;       /* or was said. */
    int64_t uploaded; /* Bytes of the body that are sent, in the try under way; */
    uint64_t sent_ms; /* when the last of them was (monotonic); 0: there was none, */
    uint64_t try_ms;  /* and when the try began. */
};

/* The code of the error (CMD_FAILED) of a request that `interrupt_fd` ended. */
#define CLIENT_INTERRUPTED "Interrupted"

/* Takes nothing over; `settings` must stay. NULL: the reason is in `settings->error`. */
struct client *client_open(struct settings *settings);
void client_close(struct client *client);

/* Asks. CMD_OK for an answer of 2xx or 3xx, else an exit code, and `error` says why. With
 * --curl, what changes something or is the last one is printed and CMD_SHOWN comes back. */
int client_ask(struct client *client, const struct client_request *request);

/* When the last request has failed because no replica serves: adds to its message the reason that
 * the replicas report, and what to do. That may take a second. */
void client_explain(struct client *client);

/* Its body as JSON, which belongs to the client; NULL when it is none. */
json_t *client_json(struct client *client);

/* The secret of the session that requests are in from now on; NULL: none. It is copied. */
void client_enter(struct client *client, const char *session);

/* For requests that are made elsewhere (stream.h, live.h): the URL at that endpoint, credentials,
 * session, the newest zxid and what the request says, put into a handle, which drops the body of
 * the answer. The list of headers is to be freed by the caller with curl_slist_free_all once the
 * handle is done. CMD_OK, or the reason in `error`. */
int client_prepare(struct client *client, CURL *easy, const char *endpoint,
                   const struct client_request *request, struct curl_slist **ret_headers);

/* What an answer's status and body mean, into `error`. Returns its exit code. */
int client_judge(struct client *client, long status, struct slice body);

/* A zxid that an answer has shown ("0x1f"). */
void client_seen(struct client *client, const char *zxid);
void client_seen_number(struct client *client, uint64_t zxid);

/* A header of the answer that the handle has got, "" when it has none; good until its next use. */
const char *client_header(CURL *easy, const char *name);

/* True when a replica of zabra has answered what the handle has asked: each names its zxid. */
bool client_is_replica(CURL *easy);

/* These set `error`, and return its exit code: something else has answered at that URL; no replica
 * answers; anything. */
int client_foreign(struct client *client, const char *url, long status);
int client_unanswered(struct client *client);
int client_fail(struct client *client, int exit_code, const char *code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* ---- What the parts of the client share ---- */

/* Appends a header, "Name: value", or with a NULL value one that is written out; returns the list.
 */
struct curl_slist *client_put_header(struct curl_slist *list, const char *name, const char *value);

/* Appends the line for a shell that asks the same of the endpoint, with its line feed. */
void client_put_curl(const struct client *client, const struct client_request *request,
                     struct buf *out);

/* The URL of the request at that endpoint; makes the buffer. */
void client_url(const struct client *client, const char *endpoint,
                const struct client_request *request, struct buf *url);

/* A try begins: notes when its body was sent; how long ago the request was completely sent. */
void client_time_upload(struct client *client);
uint64_t client_waited_ms(const struct client *client);

/* A request begins: from when on client_note() says something. It prints once, on a terminal, why
 * the replicas do not serve the request, if they report it. */
void client_note_later(struct client *client);
void client_note(struct client *client);

#endif
