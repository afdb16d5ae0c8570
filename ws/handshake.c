#include "ws/handshake.h"

#include "base/base64.h"
#include "base/crypto.h"
#include "server/json/op_json.h"

enum {
    HASHED_MAX = 128
};

static const char fixed_id[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

void ws_handshake_answer(struct buf *out, struct slice key)
{
    uint8_t hash[CRYPTO_SHA1_LEN];
    struct buf hashed;

    buf_init(&hashed, HASHED_MAX);
    (void)buf_append_slice(&hashed, key);
    (void)buf_append_str(&hashed, fixed_id);
    crypto_sha1(buf_slice(&hashed), hash);
    buf_release(&hashed);
    (void)buf_append_str(out, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                              "Connection: Upgrade\r\n"
                              "Sec-WebSocket-Protocol: " OP_PROTOCOL "\r\n"
                              "Sec-WebSocket-Accept: ");
    base64_encode(out, slice_make(hash, sizeof(hash)));
    (void)buf_append_str(out, "\r\n\r\n");
}
