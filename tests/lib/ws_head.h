/* ws_head.h - the headers of a correct request for a WebSocket. */
#ifndef TESTS_LIB_WS_HEAD_H
#define TESTS_LIB_WS_HEAD_H

#define WS_HEAD_KEY      "dGhlIHNhbXBsZSBub25jZQ==" /* Of RFC 6455. */
#define WS_HEAD_SENT_KEY "Sec-WebSocket-Key: " WS_HEAD_KEY "\r\n"
#define WS_HEAD_VERSION  "Sec-WebSocket-Version: 13\r\n"
#define WS_HEAD_UPGRADE  "Upgrade: websocket\r\nConnection: Upgrade\r\n"
#define WS_HEAD_OFFER    "Sec-WebSocket-Protocol: zabra.v1.json\r\n"

/* All of them but Host. */
#define WS_HEAD WS_HEAD_UPGRADE WS_HEAD_VERSION WS_HEAD_SENT_KEY WS_HEAD_OFFER

#endif
