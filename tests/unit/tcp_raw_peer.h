/*
 * tcp_raw_peer.h - peers of replica 1 that a test drives frame by frame: it decides what they send
 * and what they leave out.
 */
#ifndef TESTS_UNIT_TCP_RAW_PEER_H
#define TESTS_UNIT_TCP_RAW_PEER_H

#include "base/wire.h"
#include "tests/unit/tcp_claim_kit.h"
#include "zab/tcp/frame.h"

#include <errno.h>

struct raw_peer {
    int fd; /* -1: not connected. */
    uint32_t id;
    struct hello_transcript transcript;
    uint64_t nonce; /* Of the connection. */
    uint32_t number_in;
    uint32_t number_out;
    uint8_t in[4096]; /* Received, and not yet taken. */
    size_t in_len;
};

static inline struct slice raw_secret(void)
{
    return slice_str("a secret of some length");
}

/* Reads the bytes that have arrived. False: the connection has ended. */
static inline bool raw_fill(struct raw_peer *peer)
{
    ssize_t got = read(peer->fd, peer->in + peer->in_len, sizeof(peer->in) - peer->in_len);

    peer->in_len += got > 0 ? (size_t)got : 0;
    return got > 0 || (got < 0 && errno == EAGAIN);
}

static inline void raw_take(struct raw_peer *peer, size_t len)
{
    memmove(peer->in, peer->in + len, peer->in_len - len);
    peer->in_len -= len;
}

static inline void raw_want(struct raw_peer *peer, size_t len)
{
    UNTIL(peer->in_len >= len || !raw_fill(peer));
    assert_true(peer->in_len >= len);
}

/* Connects and proves itself as a process of that id; does not wait for the answer of replica 1. */
static inline void raw_dial(struct raw_peer *peer, uint32_t id, uint64_t start)
{
    struct sockaddr_in addr = kit_loopback(ports[1]);
    struct greeting greeting = {.version = PROTOCOL_VERSION, .from = id, .to = 1};
    struct hello hello = {.incarnation = 100 + id, .cluster = {7}, .start = start};
    struct buf out;

    *peer = (struct raw_peer){.fd = loop_connect((struct sockaddr *)&addr, sizeof(addr)), .id = id};
    assert_true(peer->fd >= 0);
    UNTIL(loop_connect_result(peer->fd) == 0);
    greeting_encode(&greeting, peer->transcript.dialer);
    assert_int_equal(write(peer->fd, peer->transcript.dialer, GREETING_LEN), GREETING_LEN);
    raw_want(peer, GREETING_LEN);
    memcpy(peer->transcript.acceptor, peer->in, GREETING_LEN);
    raw_take(peer, GREETING_LEN);
    buf_init(&out, HELLO_WIRE_MAX);
    hello_encode(&hello, &peer->transcript, raw_secret(), true, &out);
    assert_int_equal(write(peer->fd, out.data, out.len), (ssize_t)out.len);
    buf_release(&out);
    peer->nonce = hello_connection_nonce(&peer->transcript, raw_secret());
}

/* Waits for the answer of replica 1. True: replica 1 accepts this process. */
static inline bool raw_is_let_in(struct raw_peer *peer)
{
    struct hello hello;
    size_t len = 0;

    raw_want(peer, HELLO_LEN_LEN);
    raw_want(peer, HELLO_LEN_LEN + wire_load_u32(peer->in) + CRYPTO_SHA256_LEN);
    assert_int_equal(hello_decode(slice_make(peer->in, peer->in_len), &peer->transcript,
                                  raw_secret(), false, &hello, &len),
                     ERR_OK);
    raw_take(peer, len);
    return !hello.refusal[0];
}

static inline void raw_connect(struct raw_peer *peer, uint32_t id, uint64_t start)
{
    raw_dial(peer, id, start);
    assert_true(raw_is_let_in(peer));
}

static inline void raw_close(struct raw_peer *peer)
{
    if (peer->fd >= 0) {
        close(peer->fd);
    }
    peer->fd = -1;
}

static inline void raw_send(struct raw_peer *peer, const struct control *control)
{
    struct frame_header header = {.version = PROTOCOL_VERSION,
                                  .type = (uint16_t)control->type,
                                  .from = peer->id,
                                  .to = 1,
                                  .nonce = peer->nonce,
                                  .cluster = {7}};
    uint8_t head[FRAME_HEADER_LEN];
    struct buf payload;

    buf_init(&payload, CONTROL_BYTES_MAX);
    control_encode(control, &payload);
    header.len = (uint32_t)payload.len;
    header.payload_crc = frame_payload_crc(buf_slice(&payload), peer->number_out);
    frame_encode(&header, peer->number_out++, head);
    assert_int_equal(write(peer->fd, head, sizeof(head)), sizeof(head));
    assert_int_equal(write(peer->fd, payload.data, payload.len), (ssize_t)payload.len);
    buf_release(&payload);
}

/* Takes the next frame, if one has arrived. */
static inline bool raw_next(struct raw_peer *peer, struct control *ret_control)
{
    struct frame_header header;

    (void)raw_fill(peer);
    if (peer->in_len < FRAME_HEADER_LEN) {
        return false;
    }
    assert_int_equal(frame_decode(peer->in, peer->number_in, &header), ERR_OK);
    if (peer->in_len < FRAME_HEADER_LEN + header.len) {
        return false;
    }
    assert_true(control_is(header.type));
    assert_int_equal(control_decode((enum control_type)header.type,
                                    slice_make(peer->in + FRAME_HEADER_LEN, header.len),
                                    ret_control),
                     ERR_OK);
    peer->number_in++;
    raw_take(peer, FRAME_HEADER_LEN + header.len);
    return true;
}

/* Waits for the next frame of that type and skips frames of other types. */
static inline struct control raw_wait(struct raw_peer *peer, enum control_type type)
{
    struct control control = {.type = type};

    UNTIL(raw_next(peer, &control) && control.type == type);
    return control;
}

/* Reports the process of `id` that this peer is connected with; start 0: none. */
static inline void raw_send_seen(struct raw_peer *peer, uint32_t id, uint64_t start)
{
    struct control control = {.type = CONTROL_SEEN, .seen_count = start != 0 ? 1 : 0};

    control.seen[0] = (struct control_seen){.id = id, .start = start};
    raw_send(peer, &control);
}

static inline void raw_send_probe(struct raw_peer *peer, uint32_t id, uint64_t start)
{
    raw_send(peer, &(struct control){.type = CONTROL_PROBE, .id = id, .start = start});
}

static inline void raw_send_alive(struct raw_peer *peer, uint32_t id, uint64_t start)
{
    raw_send(peer, &(struct control){.type = CONTROL_ALIVE, .id = id, .start = start, .yes = true});
}

/* Waits until replica 1 has read everything that this peer has sent: it answers in order. Returns
 * how many ALIVE frames that vouch for a process came before that. */
static inline uint32_t raw_fence(struct raw_peer *peer)
{
    struct control control;
    uint32_t count = 0;

    raw_send_probe(peer, 1, 999); /* No process of replica 1 has this start. */
    for (;;) {
        control = raw_wait(peer, CONTROL_ALIVE);
        if (control.id == 1) {
            assert_false(control.yes);
            return count;
        }
        count += control.yes ? 1 : 0;
    }
}

#endif
