/*
 * The beginning of a peer's connection and each frame's head. The first byte chooses: bytes as they
 * come, or fields that receive their right checksum or proof, so that inputs get past these.
 */
#include "base/crypto.h"
#include "tests/fuzz/fuzz.h"
#include "zab/tcp/frame.h"
#include "zab/tcp/hello.h"

enum mode {
    MODE_FRAME,
    MODE_FRAME_FIELDS,
    MODE_GREETING,
    MODE_HELLO,
    MODE_HELLO_PROVED,
    MODE_CONTROL,
    MODE_COUNT
};

static const char secret_text[] = "a secret that is shared";

static struct hello_transcript transcript_of(uint8_t fill)
{
    struct hello_transcript transcript = {.sealed = (fill & 2) != 0};

    memset(transcript.dialer, fill, GREETING_LEN);
    memset(transcript.acceptor, fill ^ 1, GREETING_LEN);
    memset(transcript.channel, fill ^ 3, sizeof(transcript.channel));
    return transcript;
}

static bool try_frame(struct wire_reader *reader)
{
    uint32_t number = wire_get_u32(reader);
    struct slice bytes = wire_get_raw(reader, FRAME_HEADER_LEN);
    struct frame_header header;
    uint8_t again[FRAME_HEADER_LEN];

    if (bytes.len != FRAME_HEADER_LEN || frame_decode(bytes.data, number, &header) != ERR_OK) {
        return false;
    }
    if (header.type != 0) {
        frame_encode(&header, number, again);
        ASSERT(memcmp(again, bytes.data, FRAME_HEADER_LEN) == 0);
    }
    ASSERT(frame_decode(bytes.data, number + 1, &header) == ERR_FORMAT);
    return true;
}

/* A frame of the input's fields; then each byte of it is wrong once. */
static bool try_frame_fields(struct wire_reader *reader)
{
    struct frame_header header = {.version = PROTOCOL_VERSION,
                                  .type = wire_get_u16(reader),
                                  .len = wire_get_u32(reader),
                                  .from = wire_get_u32(reader),
                                  .to = wire_get_u32(reader),
                                  .epoch = wire_get_u32(reader),
                                  .nonce = wire_get_u64(reader)};
    struct frame_header back = {0};
    uint32_t number = wire_get_u32(reader);
    uint8_t mask = wire_get_u8(reader);
    struct slice payload = fuzz_take(reader, 512);
    uint8_t bytes[FRAME_HEADER_LEN];

    header.type |= 1;
    header.payload_crc = frame_payload_crc(payload, number);
    frame_encode(&header, number, bytes);

    enum err err = frame_decode(bytes, number, &back);

    ASSERT(err == ERR_OK && back.type == header.type && back.len == header.len);
    ASSERT(back.from == header.from && back.to == header.to && back.epoch == header.epoch);
    ASSERT(back.nonce == header.nonce && back.payload_crc == header.payload_crc);
    for (size_t i = 0; i < FRAME_HEADER_LEN && mask != 0; i++) {
        bytes[i] ^= mask;
        ASSERT(frame_decode(bytes, number, &back) == ERR_FORMAT);
        bytes[i] ^= mask;
    }
    return true;
}

static bool try_greeting(struct wire_reader *reader)
{
    struct slice bytes = wire_get_raw(reader, GREETING_LEN);
    struct greeting greeting;
    uint8_t again[GREETING_LEN];

    if (bytes.len != GREETING_LEN || greeting_decode(bytes.data, &greeting) != ERR_OK) {
        return false;
    }
    ASSERT(greeting.version > 0);
    greeting_encode(&greeting, again);
    ASSERT(memcmp(again, bytes.data, GREETING_LEN) == 0);
    return true;
}

static bool try_hello(struct wire_reader *reader)
{
    struct hello_transcript transcript = transcript_of(wire_get_u8(reader));
    struct slice bytes = fuzz_rest(reader);
    struct hello hello;
    size_t len = 0;
    enum err err = hello_decode(bytes, &transcript, slice_str(secret_text), true, &hello, &len);

    ASSERT(len <= bytes.len && len <= HELLO_WIRE_MAX);
    ASSERT(err == ERR_OK || err == ERR_FORMAT || err == ERR_AUTH_FAILED);
    return err == ERR_OK && len > 0;
}

/* Proves any identity, as a peer that knows the secret can. */
static void put_proved(struct slice identity, const struct hello_transcript *transcript,
                       bool by_dialer, struct buf *out)
{
    uint8_t proof[CRYPTO_SHA256_LEN];
    struct buf text;

    buf_init(&text, 1024);
    buf_append_str(&text, by_dialer ? "dialer:" : "accept:");
    buf_append(&text, transcript->dialer, GREETING_LEN);
    buf_append(&text, transcript->acceptor, GREETING_LEN);
    if (transcript->sealed) {
        buf_append_str(&text, "sealed:");
        buf_append(&text, transcript->channel, sizeof(transcript->channel));
    }
    buf_append_slice(&text, identity);
    crypto_hmac_sha256(slice_str(secret_text), buf_slice(&text), proof);
    buf_release(&text);
    wire_put_bytes(out, identity);
    wire_put_raw(out, slice_make(proof, sizeof(proof)));
}

static bool try_hello_proved(struct wire_reader *reader)
{
    struct hello_transcript transcript = transcript_of(wire_get_u8(reader));
    bool by_dialer = (wire_get_u8(reader) & 1U) != 0;
    struct slice identity = fuzz_take(reader, HELLO_PAYLOAD_MAX);
    struct slice secret = slice_str(secret_text);
    struct hello hello;
    struct buf bytes;
    struct buf again;
    size_t len = 0;

    buf_init(&bytes, HELLO_WIRE_MAX);
    buf_init(&again, HELLO_WIRE_MAX);
    put_proved(identity, &transcript, by_dialer, &bytes);

    enum err err = hello_decode(buf_slice(&bytes), &transcript, secret, by_dialer, &hello, &len);

    ASSERT(len == bytes.len && (err == ERR_OK || err == ERR_FORMAT));
    if (err == ERR_OK) {
        ASSERT(memchr(hello.advertise, 0, sizeof(hello.advertise)));
        hello_encode(&hello, &transcript, secret, by_dialer, &again);
        /* A later version may have added fields after the known ones; an earlier one lacks some. */
        ASSERT(again.len <= bytes.len + sizeof(hello.tls) + sizeof(hello.level) +
                                sizeof(hello.ensemble_level) + sizeof(hello.reason));
    }
    /* Reflected to its sender, it proves nothing. */
    ASSERT(hello_decode(buf_slice(&bytes), &transcript, secret, !by_dialer, &hello, &len) ==
           ERR_AUTH_FAILED);
    ASSERT(hello_decode(slice_make(bytes.data, bytes.len - 1), &transcript, secret, by_dialer,
                        &hello, &len) == ERR_OK &&
           len == 0);
    buf_release(&bytes);
    buf_release(&again);
    return err == ERR_OK;
}

/* A decoded message encodes to the same bytes, except for the additions of a later version. */
static bool try_control(struct wire_reader *reader)
{
    uint16_t type = (uint16_t)(CONTROL_SEEN + wire_get_u8(reader) % 4);
    struct slice payload = fuzz_take(reader, CONTROL_BYTES_MAX);
    struct control control;
    struct buf again;

    if (control_decode((enum control_type)type, payload, &control) != ERR_OK) {
        return false;
    }
    ASSERT(control_is(type) && control.type == (enum control_type)type);
    ASSERT(memchr(control.text, 0, sizeof(control.text)));
    ASSERT(control.seen_count <= ZAB_MEMBERS_MAX);
    buf_init(&again, CONTROL_BYTES_MAX);
    control_encode(&control, &again);
    ASSERT(!again.overflow && again.len <= payload.len);
    buf_release(&again);
    return true;
}

static bool fuzz_one(struct slice input)
{
    struct wire_reader reader;

    wire_reader_init(&reader, input);
    switch ((enum mode)(wire_get_u8(&reader) % MODE_COUNT)) {
    case MODE_FRAME:
        return try_frame(&reader);
    case MODE_FRAME_FIELDS:
        return try_frame_fields(&reader);
    case MODE_GREETING:
        return try_greeting(&reader);
    case MODE_HELLO:
        return try_hello(&reader);
    case MODE_HELLO_PROVED:
        return try_hello_proved(&reader);
    case MODE_CONTROL:
        return try_control(&reader);
    case MODE_COUNT:
        break;
    }
    UNREACHABLE();
}

static void seed_frames(struct fuzz_sink *sink, struct buf *bytes)
{
    struct frame_header header = {.type = 13, .len = 16, .from = 1, .to = 2, .epoch = 3};
    uint8_t frame[FRAME_HEADER_LEN];

    frame_encode(&header, 7, frame);
    wire_put_u8(bytes, MODE_FRAME);
    wire_put_u32(bytes, 7);
    wire_put_raw(bytes, slice_make(frame, sizeof(frame)));
    fuzz_seed(sink, "frame", buf_slice(bytes));

    buf_clear(bytes);
    wire_put_u8(bytes, MODE_FRAME_FIELDS);
    wire_put_raw(bytes, slice_str("fields of a frame, any will do, and a payload"));
    fuzz_seed(sink, "frame-fields", buf_slice(bytes));
}

static void seed_control(struct fuzz_sink *sink, struct buf *bytes)
{
    struct control control = {.type = CONTROL_SEEN,
                              .seen_count = 2,
                              .seen = {{.id = 1, .start = 7}, {.id = 3, .start = 9}}};
    struct buf payload;

    buf_init(&payload, CONTROL_BYTES_MAX);
    control_encode(&control, &payload);
    buf_clear(bytes);
    wire_put_u8(bytes, MODE_CONTROL);
    wire_put_u8(bytes, 0);
    fuzz_put(bytes, buf_slice(&payload));
    fuzz_seed(sink, "control-seen", buf_slice(bytes));

    control = (struct control){
        .type = CONTROL_PROBE, .id = 3, .start = 9, .text = "10.0.0.3 (clients: zk3:9998)"};
    buf_clear(&payload);
    control_encode(&control, &payload);
    buf_clear(bytes);
    wire_put_u8(bytes, MODE_CONTROL);
    wire_put_u8(bytes, 1);
    fuzz_put(bytes, buf_slice(&payload));
    fuzz_seed(sink, "control-probe", buf_slice(bytes));
    buf_release(&payload);
}

static void fuzz_seeds(struct fuzz_sink *sink)
{
    struct hello hello = {
        .incarnation = 5, .bootstrapping = true, .start = 6, .advertise = "127.0.0.1:9998"};
    struct hello_transcript transcript = transcript_of(9);
    struct greeting greeting = {.version = 1, .from = 1, .to = 2};
    uint8_t bytes_of_greeting[GREETING_LEN];
    struct buf bytes;
    struct buf proved;

    buf_init(&bytes, HELLO_WIRE_MAX + 8);
    buf_init(&proved, HELLO_WIRE_MAX);
    seed_frames(sink, &bytes);
    seed_control(sink, &bytes);

    greeting_encode(&greeting, bytes_of_greeting);
    buf_clear(&bytes);
    wire_put_u8(&bytes, MODE_GREETING);
    wire_put_raw(&bytes, slice_make(bytes_of_greeting, GREETING_LEN));
    fuzz_seed(sink, "greeting", buf_slice(&bytes));

    hello_encode(&hello, &transcript, slice_str(secret_text), true, &proved);
    buf_clear(&bytes);
    wire_put_u8(&bytes, MODE_HELLO);
    wire_put_u8(&bytes, 9);
    wire_put_raw(&bytes, buf_slice(&proved));
    fuzz_seed(sink, "hello", buf_slice(&bytes));

    buf_clear(&bytes);
    wire_put_u8(&bytes, MODE_HELLO_PROVED);
    wire_put_u8(&bytes, 9);
    wire_put_u8(&bytes, 1);
    fuzz_put(&bytes, slice_make(proved.data + HELLO_LEN_LEN,
                                proved.len - HELLO_LEN_LEN - CRYPTO_SHA256_LEN));
    fuzz_seed(sink, "hello-proved", buf_slice(&bytes));
    buf_release(&bytes);
    buf_release(&proved);
}

FUZZ_TARGET(tcp_frame)
