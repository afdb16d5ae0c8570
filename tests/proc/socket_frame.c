/* Frames of RFC 6455, as a client writes and reads them. */
#include "base/check.h"
#include "base/loop.h"
#include "base/mem.h"
#include "tests/proc/socket_int.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    CONTROL_MAX = 125, /* Bytes of a control frame. */

    FIN = 0x80,
    MORE = 0x00, /* Opcodes. */
    TEXT = 0x01,
    CLOSE = 0x08,
    PING = 0x09,
    PONG = 0x0a,

    NORMAL = 1000, /* Codes. */
    PROTOCOL_ERROR = 1002
};

void socket_end(struct socket *socket, uint32_t code)
{
    if (socket->fd >= 0) {
        close(socket->fd);
        socket->fd = -1;
        socket->code = code;
    }
}

void socket_flush(struct socket *socket)
{
    size_t sent = 0;

    while (socket->fd >= 0 && !socket->held && sent < socket->out.len) {
        ssize_t got = loop_send(socket->fd, socket->out.data + sent, socket->out.len - sent);

        if (got <= 0) {
            /* Frames that the server sent before it closed are still unread. */
            break;
        }
        sent += (size_t)got;
    }
    buf_consume(&socket->out, sent);
}

void socket_hold(struct socket *socket, bool hold)
{
    socket->held = hold;
    socket_flush(socket);
}

static void put_length(struct buf *out, size_t len, uint8_t mask_bit)
{
    if (len <= CONTROL_MAX) {
        buf_append_byte(out, (uint8_t)(mask_bit | len));
        return;
    }

    unsigned bytes = len <= UINT16_MAX ? 2 : 8;

    buf_append_byte(out, (uint8_t)(mask_bit | (bytes == 2 ? 126 : 127)));
    for (unsigned i = bytes; i > 0; i--) {
        buf_append_byte(out, (uint8_t)((uint64_t)len >> (8 * (i - 1))));
    }
}

static void put_masked(struct socket *socket, const uint8_t *data, size_t len)
{
    uint8_t mask[4];
    uint64_t random = rng_u64(&socket->rng);

    memcpy(mask, &random, sizeof(mask));
    buf_append(&socket->out, mask, sizeof(mask));

    uint8_t *to = buf_reserve(&socket->out, len);

    ASSERT(to);
    for (size_t i = 0; i < len; i++) {
        to[i] = data[i] ^ mask[i % sizeof(mask)];
    }
    socket->out.len += len;
}

void socket_send_frame(struct socket *socket, uint8_t first, const void *data, size_t len,
                       bool masked)
{
    if (!socket_is_open(socket)) {
        return;
    }
    buf_append_byte(&socket->out, first);
    put_length(&socket->out, len, masked ? 0x80 : 0);
    if (masked) {
        put_masked(socket, data, len);
    } else {
        buf_append(&socket->out, data, len);
    }
    ASSERT(!socket->out.overflow);
    socket_flush(socket);
}

void socket_send_text(struct socket *socket, const char *text, size_t len)
{
    exchange_sent(&socket->noted, slice_make(text, len));
    socket_send_frame(socket, FIN | TEXT, text, len, true);
}

void socket_say_close(struct socket *socket, uint32_t code)
{
    uint8_t bytes[2] = {(uint8_t)(code >> 8), (uint8_t)code};

    socket_send_frame(socket, FIN | CLOSE, bytes, sizeof(bytes), true);
}

struct frame {
    uint8_t first;
    bool masked;
    struct slice data;
    size_t size; /* Including its head. */
};

/* False while the frame is incomplete. */
static bool cut_frame(struct slice bytes, struct frame *ret_frame)
{
    size_t head = 2;
    uint64_t len = 0;

    if (bytes.len < head) {
        return false;
    }
    ret_frame->first = bytes.data[0];
    ret_frame->masked = (bytes.data[1] & 0x80) != 0;
    len = bytes.data[1] & 0x7f;
    if (len >= 126) {
        size_t more = len == 126 ? 2 : 8;

        if (bytes.len < head + more) {
            return false;
        }
        len = 0;
        for (size_t i = 0; i < more; i++) {
            len = len << 8 | bytes.data[head + i];
        }
        head += more;
    }
    if (len > bytes.len - head) {
        return false;
    }
    ret_frame->data = slice_make(bytes.data + head, (size_t)len);
    ret_frame->size = head + (size_t)len;
    return true;
}

/* Takes a whole text; one that is not JSON is a fault of the server. */
static bool take_text(struct socket *socket, struct slice text)
{
    json_t *json = json_loadb((const char *)text.data, text.len, JSON_REJECT_DUPLICATES, NULL);

    if (!json) {
        return false;
    }

    struct message *message = mem_zalloc(1, sizeof(*message));

    message->json = json;
    list_push_back(&socket->messages, &message->node);
    exchange_received(&socket->noted, text);
    socket->waiting++;
    socket->received++;
    return true;
}

static bool take_data(struct socket *socket, const struct frame *frame, uint8_t opcode)
{
    bool last = (frame->first & FIN) != 0;

    if ((opcode == MORE) != socket->in_message) {
        return false;
    }
    if (opcode == TEXT && last) {
        return take_text(socket, frame->data);
    }
    socket->in_message = !last;
    buf_append_slice(&socket->text, frame->data);
    if (!last) {
        return !socket->text.overflow;
    }

    bool sound = take_text(socket, buf_slice(&socket->text));

    buf_clear(&socket->text);
    return sound;
}

static void take_close(struct socket *socket, struct slice data)
{
    uint32_t code = SOCKET_NO_CODE;

    if (data.len >= 2) {
        code = (uint32_t)data.data[0] << 8 | data.data[1];
        (void)snprintf(socket->reason, sizeof(socket->reason), "%.*s", (int)(data.len - 2),
                       (const char *)data.data + 2);
    }
    exchange_closed(code);
    socket_say_close(socket, code == SOCKET_NO_CODE ? NORMAL : code);
    socket_end(socket, code);
}

/* False when the server breaks the protocol. */
static bool take_frame(struct socket *socket, const struct frame *frame)
{
    uint8_t opcode = frame->first & 0x0f;

    if (frame->masked || (frame->first & 0x70) != 0) {
        return false;
    }
    if (opcode == MORE || opcode == TEXT) {
        return take_data(socket, frame, opcode);
    }
    if ((frame->first & FIN) == 0 || frame->data.len > CONTROL_MAX) {
        return false;
    }
    if (opcode == PING) {
        socket_send_frame(socket, FIN | PONG, frame->data.data, frame->data.len, true);
    } else if (opcode == CLOSE) {
        take_close(socket, frame->data);
    }
    return opcode == PING || opcode == PONG || opcode == CLOSE;
}

void socket_take_frames(struct socket *socket)
{
    struct frame frame;

    while (socket->fd >= 0 &&
           cut_frame(slice_make(socket->in.data + socket->in_pos, socket->in.len - socket->in_pos),
                     &frame)) {
        socket->in_pos += frame.size;
        if (!take_frame(socket, &frame)) {
            (void)snprintf(socket->reason, sizeof(socket->reason),
                           "the server sent a malformed frame");
            socket_end(socket, PROTOCOL_ERROR);
        }
    }
    buf_consume(&socket->in, socket->in_pos);
    socket->in_pos = 0;
}
