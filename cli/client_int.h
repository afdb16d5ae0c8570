/* client_int.h - what client.c and its parts share. */
#ifndef CLI_CLIENT_INT_H
#define CLI_CLIENT_INT_H

#include "cli/client.h"

#include <curl/curl.h>

enum {
    CLIENT_URL_MAX = 256 << 10,
    CLIENT_SESSION_MAX = 64
};

struct client {
    struct settings *settings;
    struct endpoints endpoints;
    CURLM *multi;
    CURL *easy;
    struct client_reply reply;
    struct client_error error;
    const char *about;  /* Of the request under way. */
    int lines_left;     /* Of the answer that may still come; -1: all. */
    json_t *json;       /* Of the reply's body, once it was asked for. */
    uint64_t seen_zxid; /* Newest that was seen. */
    char session[CLIENT_SESSION_MAX];
    char password[SETTINGS_PASSWORD_MAX];
    bool has_password;
    int interrupt_fd;
    uint64_t note_ms; /* When to explain the delay (monotonic); 0: never, */
    bool noted;       /* or was said. */
    int64_t uploaded; /* Bytes of the body that are sent, in the try under way; */
    uint64_t sent_ms; /* when the last of them was (monotonic); 0: there was none, */
    uint64_t try_ms;  /* and when the try began. */
};

/* Appends a header; returns the list. */
struct curl_slist *client_put_header(struct curl_slist *list, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Appends the line for a shell that asks the same of the endpoint, with its line feed. */
void client_put_curl(const struct client *client, const struct client_request *request,
                     struct buf *out);

/* The URL of the request at that endpoint; makes the buffer. */
void client_url(const struct client *client, const char *endpoint,
                const struct client_request *request, struct buf *url);

/* A try begins: notes when its body was sent. */
void client_time_upload(struct client *client);

/* How long ago the request was completely sent. */
uint64_t client_waited_ms(const struct client *client);

/* A request begins: from when on client_note() says something. */
void client_note_later(struct client *client);

/* Prints once, on a terminal, why the replicas do not serve the request, if they report it. */
void client_note(struct client *client);

/* True when a replica of zabra has answered what the handle has asked: each names its zxid. */
bool client_is_replica(void *easy);

/* Sets client->error: something else has answered at that URL. Returns the exit code. */
int client_foreign(struct client *client, const char *url, long status);

/* Sets client->error: no replica answers. Returns the exit code. */
int client_unanswered(struct client *client);

/* Sets client->error. Returns the exit code. */
int client_fail(struct client *client, int exit_code, const char *code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
