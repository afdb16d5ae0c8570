/*
 * frame.h - RFC 6455: the answer to the handshake, and a reader of a client's frames: bytes in,
 * messages and control frames out.
 *
 * The reader is pure and incremental: it takes bytes in pieces of any size, keeps at most one head
 * and one control frame, and passes on the payload of messages as it arrives. The reader checks
 * every rule of the RFC for what a client may send, as soon as the byte that breaks the rule has
 * arrived. The first fault is final. The caller checks that messages are UTF-8, because only the
 * caller has whole messages.
 */
#ifndef WS_FRAME_H
#define WS_FRAME_H

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Appends to `out` the answer 101; `key` is the Sec-WebSocket-Key of a valid request. */
void ws_handshake_answer(struct buf *out, struct slice key);

enum {
    WS_FRAME_HEAD_MAX = 14,    /* Two bytes, a length of eight bytes, a mask of four bytes. */
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
    WS_FRAME_NONE,  /* More bytes are needed. */
    WS_FRAME_PIECE, /* Payload of a message. */
    WS_FRAME_PING,
    WS_FRAME_PONG,
    WS_FRAME_CLOSE, /* The client closes: later bytes are skipped. */
    WS_FRAME_FAULT  /* The client breaks the protocol. No frame follows. */
};

struct ws_frame {
    struct slice bytes; /* Unmasked; in the caller's bytes, or in the reader until the next call. */
    bool text;          /* PIECE: the message is text, not binary. */
    bool last;          /* PIECE: the piece ends its message. */
    uint16_t code;      /* CLOSE: the client's code, 0: none. FAULT: the code to close with. */
    const char *reason; /* FAULT: a constant sentence that fits a close frame. */
};

struct ws_frame_reader {
    uint64_t message_max; /* Payload bytes of a message in all its frames. */
    uint64_t message;     /* Payload bytes of the message's frames so far, the whole current frame
                             included. */
    uint64_t left;        /* Payload bytes of the current frame that have not arrived. */
    uint8_t head[WS_FRAME_HEAD_MAX];
    uint8_t head_len;    /* Bytes of `head` that have arrived. */
    uint8_t mask_at;     /* Which byte of the mask is next. */
    bool in_payload;     /* The head is complete. */
    bool in_message;     /* A message has begun, and its last frame has not. */
    bool text;           /* The current message is text. */
    bool closed;         /* A close frame has arrived. */
    uint16_t code;       /* The close code of the fault; 0: there is no fault. */
    uint8_t control_len; /* Bytes of `control` that have arrived. */
    uint8_t control[WS_FRAME_CONTROL_MAX];
    const char *reason;
};

void ws_frame_init(struct ws_frame_reader *reader, uint64_t message_max);

/* Takes bytes from the front of the `*len` bytes at `*at`, and unmasks them in place, until there
 * is something to return. WS_FRAME_NONE: all bytes were taken. The split of a message into pieces
 * depends on how its bytes arrive. The joined payload and the end of the message do not depend on
 * it. */
enum ws_frame_kind ws_frame_next(struct ws_frame_reader *reader, uint8_t **at, size_t *len,
                                 struct ws_frame *ret_frame);

#endif
