/*
 * stream_kit.h - a client of streams for tests: sends the request as bytes, decodes the chunks and
 * gives one frame after another. Each wait has a deadline that fails the test.
 */
#ifndef TESTS_LIB_STREAM_KIT_H
#define TESTS_LIB_STREAM_KIT_H

#include "base/buf.h"

#include <stdint.h>

enum {
    STREAM_KIT_HEAD_MAX = 16 << 10,
    STREAM_KIT_TEXT_MAX = 256 << 20
};

struct kit_stream {
    int fd;
    int status;
    char head[STREAM_KIT_HEAD_MAX]; /* With its blank line. */
    struct buf raw;                 /* Bytes not decoded yet. */
    struct buf text;                /* Body without chunks, from the next frame on. */
    struct buf frame;               /* The last one. */
    size_t chunk_left;
    bool in_chunk;
    bool chunked;
    bool complete; /* The last chunk was seen. */
    bool closed;   /* The server has closed the connection. */
    bool lines;    /* Frames are lines: NDJSON, or the body of an answer. */
};

/* A connection whose kernel buffers few bytes for the reader; 0: the default. */
int kit_stream_connect(uint16_t port, int receive_bytes);

/* Connects, asks for `target` with these header lines and reads the head. */
void kit_stream_open(struct kit_stream *stream, uint16_t port, const char *target,
                     const char *headers);

/* The same on a connection that was used before. */
void kit_stream_ask(struct kit_stream *stream, int fd, uint16_t port, const char *target,
                    const char *headers);

/* The two halves of that, for an answer that takes its time. */
void kit_stream_send(struct kit_stream *stream, int fd, uint16_t port, const char *target,
                     const char *headers);
void kit_stream_read_head(struct kit_stream *stream);

/* Like kit_stream_send, but posts JSON; the answer ends with the connection. */
void kit_stream_post(struct kit_stream *stream, int fd, uint16_t port, const char *target,
                     const char *json);

/* True when the server has sent something that was not read yet. */
bool kit_stream_has_more(const struct kit_stream *stream);
void kit_stream_close(struct kit_stream *stream);

/* The next frame: an event of SSE without its blank line, or a line; NULL at the end. Valid until
 * the next call. */
const char *kit_stream_next(struct kit_stream *stream);

/* The same without heartbeats, in few words: "NodeCreated /a", with " ='x'" for data in UTF-8, "
 * diff" for an event of a difference and " end" for the last one of its zxid; for other frames the
 * name and the content: "watch replayed", "closing drain", "overrun", "gap", "session expired". */
const char *kit_stream_event(struct kit_stream *stream);

/* A member of the last frame's object, as text without quotes; "" when it has none. */
const char *kit_stream_member(struct kit_stream *stream, const char *name);

/* The id of the last frame of SSE, or "". */
const char *kit_stream_id(struct kit_stream *stream);

#endif
