/*
 * stream.h - the events of a watch, from any replica that serves. When a stream ends, it resumes at
 * the next replica, exactly behind the last whole transaction that was delivered.
 *
 * The events of a transaction are delivered together once its last event has arrived, so no event
 * comes twice when the connection breaks in between. live.h, or another loop that runs the same
 * multi handle, drives the stream. One thread.
 */
#ifndef CLI_STREAM_H
#define CLI_STREAM_H

#include "cli/client.h"

enum {
    STREAM_BOOKMARK_MAX = 128,
    STREAM_HISTORY_MAX = 32,
    STREAM_LINE_MAX = 16 << 20, /* Bytes of one event. */
    STREAM_PENDING_MAX = 100000 /* Events that are not delivered yet. */
};

struct stream_request {
    const char *path;
    const char *kind;  /* "data", "exists", "children": 1 event; "persistent", "recursive": all. */
    bool values;       /* Events have stat and data. */
    const char *since; /* A zxid, or "<history>:<zxid>"; NULL: from now on. */
};

struct stream {
    struct client *client;
    CURLM *multi;
    CURL *easy;
    char detail[CURL_ERROR_SIZE]; /* Of the last transfer that has failed. */
    struct curl_slist *headers;
    int endpoint;

    char *path;
    char *kind;
    bool values;
    bool once; /* This kind of watch ends after one event. */

    char history[STREAM_HISTORY_MAX];
    char bookmark[STREAM_BOOKMARK_MAX]; /* "<history>:<zxid>": where to resume; or "". */

    struct buf line; /* The incomplete last line; after a refusal, its whole body. */
    json_t *pending; /* Array: events of an incomplete transaction. */
    json_t *ready;   /* Array: events to deliver. */
    size_t ready_at; /* The index in `ready` of the next event. */
    bool running;    /* A transfer is under way. */
    bool greeted;    /* The transfer has delivered its first line. */
    bool over;       /* There will be no more events. */
    int tls;         /* Connections in a row that TLS has ended: a retry mends no certificate. */
    uint32_t pause_ms;
    uint64_t connect_ms; /* When to connect next. */
    uint64_t heard_ms;   /* When the last byte came. */
    uint64_t beat_ms;    /* The interval of heartbeats. */
    uint64_t down_ms;    /* Since when no replica serves the watch (monotonic); 0: one does. */
};

/* Opens a stream and copies the request; stream_turn makes the first connection. `multi` outlives
 * the stream. */
struct stream *stream_open(struct client *client, CURLM *multi,
                           const struct stream_request *request);
void stream_close(struct stream *stream);

/* Connects when a connection is due. Returns when to call again at the latest (monotonic ms). */
uint64_t stream_turn(struct stream *stream, uint64_t now_ms);

/* Handles the end of the stream's transfer, for any reason: the stream resumes at another
 * replica. */
void stream_take_end(struct stream *stream, CURLcode result, uint64_t now_ms);

/* Returns the next event as JSON, which the caller drops; NULL: none yet. Other events than changes
 * are "watch" at each connection (its "resumed" shows whether events were missed), "heartbeat",
 * "overrun", "gap" and "session". */
json_t *stream_next(struct stream *stream);

/* Whether there will be no more events. Either the only event of a watch for one event has come,
 * and the exit code in client->error is CMD_OK; or the watch has failed, and client->error says
 * why. */
bool stream_is_over(const struct stream *stream);

#endif
