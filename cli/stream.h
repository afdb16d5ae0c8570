/*
 * stream.h - the events of a watch, from whichever replica serves: when a stream ends it resumes at
 * the next one, exactly behind the last whole transaction that was delivered.
 *
 * The events of a transaction are handed out together once its last one is here, so that nothing
 * comes twice when the connection breaks in the middle. Driven by live.h, or by a loop that runs
 * the same multi handle. One thread.
 */
#ifndef CLI_STREAM_H
#define CLI_STREAM_H

#include "cli/client.h"

enum {
    STREAM_BOOKMARK_MAX = 128,
    STREAM_HISTORY_MAX = 32,
    STREAM_LINE_MAX = 16 << 20, /* One event. */
    STREAM_PENDING_MAX = 100000 /* Events that are not handed out yet. */
};

struct stream_request {
    const char *path;
    const char *kind;  /* "data", "exists", "children": one event; "persistent", "recursive". */
    bool values;       /* With stat and data. */
    const char *since; /* A zxid, or "<history>:<zxid>"; NULL: from now on. */
};

struct stream {
    struct client *client;
    CURLM *multi;
    CURL *easy;
    struct curl_slist *headers;
    int endpoint;

    char *path;
    char *kind;
    bool values;
    bool once; /* The kind of watch ends after one event. */

    char history[STREAM_HISTORY_MAX];
    char bookmark[STREAM_BOOKMARK_MAX]; /* "<history>:<zxid>": where to resume; or "". */

    struct buf line; /* Begun and not ended; of a refusal, all of its body. */
    json_t *pending; /* Array: events of a transaction that is not whole. */
    json_t *ready;   /* Array: to hand out. */
    size_t ready_at; /* The next one of it. */
    bool running;    /* A transfer is under way, */
    bool greeted;    /* and has delivered its first line. */
    bool broken;     /* What came was no event: the connection is given up. */
    bool over;       /* There will be no more. */
    uint32_t pause_ms;
    uint64_t connect_ms; /* When to connect next. */
    uint64_t heard_ms;   /* When the last byte came. */
    uint64_t beat_ms;    /* How often a heartbeat comes. */
    uint64_t down_ms;    /* Since when no replica has served it (monotonic); 0: one does. */
};

/* Copies the request; the first connection is made by stream_turn. `multi` outlives the stream. */
struct stream *stream_open(struct client *client, CURLM *multi,
                           const struct stream_request *request);
void stream_close(struct stream *stream);

/* Connects when it is time to. Returns when to call again at the latest (monotonic ms). */
uint64_t stream_turn(struct stream *stream, uint64_t now_ms);

/* Its transfer has ended: for any reason the stream resumes at another replica. */
void stream_take_end(struct stream *stream, uint64_t now_ms);

/* The next event as JSON, which the caller drops; NULL: none yet. Besides changes: "watch" at each
 * connection (its "resumed" shows what was missed), "heartbeat", "overrun", "gap", "session". */
json_t *stream_next(struct stream *stream);

/* True when there will be no more: an event that comes once has come, or a replica has refused, and
 * client->error says why (its exit code is CMD_OK in the first case). */
bool stream_is_over(const struct stream *stream);

#endif
