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
    STREAM_LINE_MAX = 16 << 20, /* One event. */
    STREAM_PENDING_MAX = 100000 /* Events that are not handed out yet. */
};

struct stream_request {
    const char *path;
    const char *kind;  /* "data", "exists", "children": one event; "persistent", "recursive". */
    bool values;       /* With stat and data. */
    const char *since; /* A zxid, or "<history>:<zxid>"; NULL: from now on. */
};

struct stream;

/* Copies the request; the first connection is made by stream_turn. `multi` is a CURLM of the
 * caller's, which outlives the stream. */
struct stream *stream_open(struct client *client, void *multi,
                           const struct stream_request *request);
void stream_close(struct stream *stream);

/* Connects when it is time to. Returns when to call again at the latest (monotonic ms). */
uint64_t stream_turn(struct stream *stream, uint64_t now_ms);

/* The transfer with this handle has ended: true when it was the stream's. */
bool stream_take_end(struct stream *stream, void *easy, int curl_code, uint64_t now_ms);

/* The next event as JSON, which the caller drops; NULL: none yet. Besides changes: "watch" at each
 * connection (its "resumed" shows what was missed), "heartbeat", "overrun", "gap", "session". */
json_t *stream_next(struct stream *stream);

/* True when there will be no more: an event that comes once has come, or a replica has refused, and
 * client_error() says why (its exit code is CMD_OK in the first case). */
bool stream_is_over(const struct stream *stream);

/* Since when no replica has served it (monotonic ms); 0: one does. */
uint64_t stream_down_since(const struct stream *stream);

/* Where to resume: "<history>:<zxid>", "" before the first event. */
const char *stream_bookmark(const struct stream *stream);

#endif
