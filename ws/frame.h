/*
 * frame.h - RFC 6455: the answer to the handshake, and the frames of a client: bytes in, messages
 * and control frames out.
 *
 * Pure and incremental: it takes bytes in pieces of any size, keeps at most one head and one
 * control frame, and hands on the payload of messages as it comes. Every rule of the RFC for what a
 * client may send is checked here, as soon as the byte that breaks it is there. The first fault is
 * final. UTF-8 of messages is the caller's to check, as only the caller has a whole one.
 */
#ifndef WS_FRAME_H
#define WS_FRAME_H

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Appends the answer 101 to a sound request; `key` is the client's Sec-WebSocket-Key. */
void ws_handshake_answer(struct buf *out, struct slice key);

enum {
    WS_FRAME_HEAD_MAX = 14,    /* Two bytes, a length of eight, a mask of four. */
    WS_FRAME_CONTROL_MAX = 125 /* Payload of a control frame. */
};

/* Close codes; docs/websocket.md says what they mean. */
enum ws_code {
    WS_CODE_NONE = 0,
    WS_CODE_GOING_AWAY = 1001,
    WS_CODE_PROTOCOL = 1002,
    WS_CODE_NOT_TEXT = 1003,
    WS_CODE_NOT_UTF8 = 1007,
    WS_CODE_POLICY = 1008,
    WS_CODE_TOO_LARGE = 1009,
    WS_CODE_NO_ROOM = 1013,
    WS_CODE_SESSION_ENDED = 4408,
    WS_CODE_SESSION_MOVED = 4409,
    WS_CODE_UNFIT = 4503,
    WS_CODE_SLOW = 4508,
};

/* What comes next in a client's bytes. */
enum ws_frame_kind {
    WS_FRAME_NONE,  /* Nothing until there are more bytes. */
    WS_FRAME_PIECE, /* Payload of a message. */
    WS_FRAME_PING,
    WS_FRAME_PONG,
    WS_FRAME_CLOSE, /* The last: later bytes are skipped. */
    WS_FRAME_FAULT  /* The last: the client breaks the protocol. */
};

struct ws_frame {
    struct slice bytes; /* Unmasked: in the caller's bytes, or until the next call in the reader. */
    bool text;          /* PIECE: of a text message, not of a binary one. */
    bool last;          /* PIECE: ends its message. */
    uint16_t code;      /* CLOSE: the client's code, 0: none. FAULT: the code to close with. */
    const char *reason; /* FAULT: a constant sentence that fits a close frame. */
};

struct ws_frame_reader {
    uint64_t message_max; /* Payload bytes of a message in all its frames. */
    uint64_t message;     /* Of the message so far, the frame at hand included. */
    uint64_t left;        /* Payload of the frame at hand that has not arrived. */
    uint8_t head[WS_FRAME_HEAD_MAX];
    uint8_t head_len;    /* Bytes of it that are here. */
    uint8_t mask_at;     /* Which byte of the mask is next. */
    bool in_payload;     /* The head is complete. */
    bool in_message;     /* A message has begun and its last frame has not. */
    bool text;           /* The message at hand. */
    bool closed;         /* A close frame has arrived. */
    uint16_t code;       /* Of the fault; 0: none. */
    uint8_t control_len; /* Bytes of a control frame that are here. */
    uint8_t control[WS_FRAME_CONTROL_MAX];
    const char *reason;
};

void ws_frame_init(struct ws_frame_reader *reader, uint64_t message_max);

/* Takes bytes off the front of the `*len` at `*at`, which it unmasks in place, until there is
 * something to return. WS_FRAME_NONE: all are taken. How a message is cut into pieces depends on
 * how its bytes arrive; their sum, and `last`, do not. */
enum ws_frame_kind ws_frame_next(struct ws_frame_reader *reader, uint8_t **at, size_t *len,
                                 struct ws_frame *ret_frame);

#endif
