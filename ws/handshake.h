/* handshake.h - the answer to a sound request for a WebSocket (RFC 6455, section 4.2.2). Pure. */
#ifndef WS_HANDSHAKE_H
#define WS_HANDSHAKE_H

#include "base/buf.h"

/* Appends the answer 101; `key` is the client's Sec-WebSocket-Key. */
void ws_handshake_answer(struct buf *out, struct slice key);

#endif
