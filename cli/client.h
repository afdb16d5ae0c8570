/*
 * client.h - sends one request after the other, to the first replica that answers, with libcurl.
 *
 * The client stays with the replica that answered last, and tries the next one when that replica
 * does not serve. Each request carries the newest zxid that the client has seen, so a read never
 * returns an older state. Each write has an Idempotency-Key (except `keyless` ones), which makes
 * a retry safe; the client retries until the timeout of the request. One thread.
 */
#ifndef CLI_CLIENT_H
#define CLI_CLIENT_H

#include "cli/jsonr.h"
#include "cli/settings.h"
#include "cli/url.h"

#include <curl/curl.h>

enum {
    CLIENT_BODY_MAX = 64 << 20, /* Bytes of an answer. */
    CLIENT_HEADERS_MAX = 8,     /* Headers of the caller. */
    CLIENT_PARAMS_MAX = 10,
    CLIENT_HEADER_MAX = 1024,
    CLIENT_MESSAGE_MAX = 1024,
    CLIENT_CODE_MAX = 64,
    CLIENT_URL_MAX = 256 << 10,
    CLIENT_SESSION_MAX = 64,
    CLIENT_CA_MAX = 4 << 20, /* Bytes of the file of --ca, which may have many authorities. */
    CLIENT_NAMES_MAX = 256,  /* Bytes of the names of a certificate in a message. */
    CLIENT_WHY_MAX = 768     /* Bytes of the reason why TLS has failed. */
};

/* Status codes of HTTP that commands look at. */
enum {
    HTTP_OK = 200,
    HTTP_NO_CONTENT = 204,
    HTTP_UNAUTHORIZED = 401,
    HTTP_NOT_FOUND = 404,
    HTTP_LATE = 412, /* If-Match or a version does not match: another client wrote first. */
    HTTP_TOO_MANY = 429,
    HTTP_BAD_GATEWAY = 502,
    HTTP_UNAVAILABLE = 503,
    HTTP_UNKNOWN = 504 /* The outcome of a write is unknown. */
};

/* A parameter of the query. */
struct client_param {
    const char *name;
    const char *value; /* The client escapes it; NULL: the parameter is left out. */
};

struct client_request {
    const char *method; /* NULL: GET. */
    const char *target; /* The route, or the path and query; NULL: "/znodes/v1". */
    const char *path;   /* The znode, which follows the route and is escaped; NULL: none. */
    struct client_param params[CLIENT_PARAMS_MAX]; /* Ends with a NULL name. */
    struct slice body;
    bool has_body;
    const char *body_from; /* What --curl shows in place of the body: "@FILE", "@-"; or NULL. */
    const char *type;      /* The Content-Type; NULL: application/octet-stream. */
    const char *accept;    /* NULL: application/json. */
    const char *about;     /* The path that error messages name; NULL: the path in the answer. */
    const char *headers[CLIENT_HEADERS_MAX]; /* Further headers, "Name: value"; ends with NULL. */
    bool reads;                              /* The request changes nothing, even as a POST. */
    bool keyless;                            /* A write that takes no Idempotency-Key. */
    bool last;          /* No later request needs the answer: --curl does not send this one. */
    int lines_max;      /* The answer is cut after this many lines; 0: not cut. */
    int64_t timeout_ms; /* 0: the timeout of the settings. */
};

struct client_reply {
    long status; /* 0: there was no answer. */
    struct buf body;
    char etag[CLIENT_HEADER_MAX];
    int64_t retry_after_ms;
    int endpoint; /* The index of the endpoint that has answered. */
};

/* What went wrong with the last request. */
struct client_error {
    int exit_code;              /* CMD_OK: no error. */
    long status;                /* The HTTP status; 0: there was no answer. */
    char code[CLIENT_CODE_MAX]; /* "NoNode"; from the client itself: "NoEnsemble", "TimedOut". */
    char message[CLIENT_MESSAGE_MAX];
    json_t *problem; /* The problem that the replica sent, or NULL. */
};

struct client {
    struct settings *settings;
    struct endpoints endpoints;
    CURLM *multi; /* These two are NULL until the first request. */
    CURL *easy;
    char detail[CURL_ERROR_SIZE]; /* Of the last transfer of `easy` that has failed. */
    struct client_reply reply;    /* The answer to the last request; valid until the next one. */
    struct client_error error;    /* The error of the last request; valid until the next one. */
    const char *about;            /* The member `about` of the current request. */
    int lines_left;               /* Lines of the answer that are still wanted; -1: all. */
    json_t *json;                 /* The body of the last answer, once client_json() parsed it. */
    uint64_t seen_zxid;           /* The newest zxid that was seen; 0: none. */
    char session[CLIENT_SESSION_MAX];
    char password[SETTINGS_PASSWORD_MAX];
    bool has_password;
    bool trusts_all;  /* https: the server's certificate is not checked. Send no secret then. */
    int interrupt_fd; /* When readable, it ends the request (CLIENT_INTERRUPTED); -1: none. */
    /* Called while a request or a transfer runs, at least once a second; it sends no request of
     * its own. NULL: none. */
    void (*meanwhile)(void *ctx);
    void *meanwhile_ctx;
    uint64_t note_ms; /* When to explain a delay (monotonic); 0: never. */
    bool noted;       /* The delay was explained. */
    int64_t uploaded; /* Bytes of the body sent in the current attempt. */
    uint64_t sent_ms; /* When the last byte of the body was sent (monotonic); 0: none yet. */
    uint64_t try_ms;  /* When the current attempt began (monotonic). */
};

/* The error code of a request that `interrupt_fd` ended; the exit code is CMD_FAILED. */
#define CLIENT_INTERRUPTED "Interrupted"

/* Opens a client. The caller keeps `settings` until client_close. NULL: `settings->error` has the
 * reason. */
struct client *client_open(struct settings *settings);
void client_close(struct client *client);

/* Sends a request. Returns CMD_OK for a status of 2xx or 3xx, else an exit code, with the reason in
 * `error`. With --curl each request is printed; a write, or a request that is marked as the last
 * one, is not sent, and CMD_SHOWN is returned. */
int client_ask(struct client *client, const struct client_request *request);

static inline void client_meanwhile(const struct client *client)
{
    if (client->meanwhile) {
        client->meanwhile(client->meanwhile_ctx);
    }
}

/* Whether a request with this exit code has failed because no replica has answered it. */
static inline bool client_unserved(int exit_code)
{
    return exit_code == CMD_NO_ENSEMBLE || exit_code == CMD_TIMED_OUT;
}

/* If the last request failed because no replica serves: adds to its error message the reason that
 * the replicas report, and what to do. The call may take a second. */
void client_explain(struct client *client);

/* Returns the last answer as JSON, which belongs to the client; NULL: it is not JSON. */
json_t *client_json(struct client *client);

/* Sets the secret of the session for all later requests; NULL: no session. The text is copied. */
void client_enter(struct client *client, const char *session);

/* Prepares a handle for a request that another file sends (stream.h, live.h): the URL at
 * `endpoint`, credentials, session, the newest zxid and the contents of `request`. The handle drops
 * the body of the answer. The caller frees the list of headers with curl_slist_free_all once the
 * handle is done. Returns CMD_OK, or an exit code with the reason in `error`. */
int client_prepare(struct client *client, CURL *easy, const char *endpoint,
                   const struct client_request *request, struct curl_slist **ret_headers);

/* Sets `error` according to the status and the body of an answer. Returns its exit code. */
int client_judge(struct client *client, long status, struct slice body);

/* Records a zxid from an answer ("0x1f"); the client keeps the newest one. */
void client_seen(struct client *client, const char *zxid);
void client_seen_number(struct client *client, uint64_t zxid);

/* Returns a header of the answer to the handle's request, "" when there is none; valid until the
 * next use of the handle. */
const char *client_header(CURL *easy, const char *name);

/* Whether a replica of zabra has answered the handle's request: each replica sends its zxid. */
bool client_is_replica(CURL *easy);

/* These functions set `error` and return its exit code. client_foreign: a server that is no replica
 * answers at `url`. client_unanswered: no replica answers. client_fail: any other error. */
int client_foreign(struct client *client, const char *url, long status);
int client_unanswered(struct client *client);
int client_fail(struct client *client, int exit_code, const char *code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* ---- TLS (client_tls.c) ---- */

/* The error code of a request that has failed because of TLS; the exit code is CMD_NO_ENSEMBLE. */
#define CLIENT_TLS "Tls"

/* Returns whether TLS, or its absence, is the reason that a transfer has failed, or was answered by
 * a redirection to https; then `why` is a sentence that says what to do. `detail` is the text of
 * CURLOPT_ERRORBUFFER. */
bool client_tls_fault(const struct client *client, CURL *easy, CURLcode result, const char *detail,
                      char why[CLIENT_WHY_MAX]);

/* Checks the files of --ca, --cert and --key if there is an https endpoint. Returns false with the
 * reason in `settings->error`. Blocks. */
bool client_tls_check(struct settings *settings, const struct endpoints *endpoints);

/* Sets the options of a handle that sends a request to `endpoint`, if that is https. */
void client_tls_prepare(const struct client *client, CURL *easy, const char *endpoint);

/* ---- What the parts of the client share ---- */

/* Appends the header "Name: value"; with a NULL `value`, `name` is the whole header. Returns the
 * list. */
struct curl_slist *client_put_header(struct curl_slist *list, const char *name, const char *value);

/* Appends the shell line that sends `request` to the current endpoint; ends with a line feed. */
void client_put_curl(const struct client *client, const struct client_request *request,
                     struct buf *out);

/* Initialises the buffer `url` and writes the URL of the request at `endpoint` into it. */
void client_url(const struct client *client, const char *endpoint,
                const struct client_request *request, struct buf *url);

/* client_time_upload(), called when an attempt begins, makes libcurl report when the body is sent.
 * client_waited_ms() returns how long ago the request was completely sent. */
void client_time_upload(struct client *client);
uint64_t client_waited_ms(const struct client *client);

/* client_note() prints once, on a terminal, why the replicas do not serve the request, if they
 * report a reason. client_note_later(), called when a request begins, sets a delay before which
 * client_note() prints nothing. */
void client_note_later(struct client *client);
void client_note(struct client *client);

#endif
