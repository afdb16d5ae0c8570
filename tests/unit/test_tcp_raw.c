/* The transport against a peer that the test drives by hand: garbage, silence and wrong frames. */
#include "base/wire.h"
#include "tests/lib/tcp_raw.h"
#include "zab/tcp/frame.h"

TEST(garbage)
{
    struct kit_setup setup = kit_make_setup();
    uint8_t garbage[GREETING_LEN * 2];

    memset(garbage, 'G', sizeof(garbage));
    kit_start(&setup, 1);

    struct raw raw = raw_dial_1(&setup);

    raw_write(&raw, garbage, sizeof(garbage));
    KIT_RUN_UNTIL(&setup, raw_ended(&raw));
    raw_end(&raw);
    assert_int_equal(kit_nodes[1].refusals, 1);

    struct raw silent = raw_dial_1(&setup); /* Sends nothing and is dropped in time. */

    KIT_RUN_UNTIL(&setup, raw_ended(&silent));
    raw_end(&silent);
    kit_start(&setup, 2);
    KIT_RUN_UNTIL(&setup, kit_nodes[1].ups == 1);
    kit_stop_both();
}

enum {
    REASON_LEN = 1 /* Of the reason of a refusal, which ends a HELLO. */
};

/* Makes the HELLO that of a dialer whose release ends it before the last `missing` bytes. */
static void shorten_hello(struct buf *hello, size_t missing,
                          const struct hello_transcript *transcript, struct slice secret)
{
    size_t len = wire_load_u32(hello->data) - missing;
    struct buf text;

    buf_init(&text, 1024);
    buf_append_str(&text, "dialer:");
    buf_append(&text, transcript->dialer, GREETING_LEN);
    buf_append(&text, transcript->acceptor, GREETING_LEN);
    if (transcript->sealed) {
        buf_append_str(&text, "sealed:");
        buf_append(&text, transcript->channel, sizeof(transcript->channel));
    }
    buf_append(&text, hello->data + HELLO_LEN_LEN, len);
    wire_store_u32(hello->data, (uint32_t)len);
    crypto_hmac_sha256(secret, buf_slice(&text), hello->data + HELLO_LEN_LEN + len);
    hello->len -= missing;
    buf_release(&text);
}

/* Becomes replica 2 by hand; a release before the outsiders gives no reason. Returns the
 * connection's nonce. */
static uint64_t shake_raw(const struct kit_setup *setup, struct raw *raw, uint16_t version)
{
    struct greeting greeting = {.version = version, .from = 2, .to = 1};
    struct hello hello = {
        .incarnation = 5, .cluster = {7}, .start = 5, .level = 3, .ensemble_level = 0};
    struct hello_transcript transcript = {.sealed = raw->seal != NULL};
    struct slice secret = slice_str(setup->secret[1] ? setup->secret[1] : "");
    uint8_t answer[HELLO_WIRE_MAX];
    struct buf out;

    if (raw->seal) {
        seal_channel(raw->seal, transcript.channel);
    }
    greeting_encode(&greeting, transcript.dialer);
    raw_write(raw, transcript.dialer, GREETING_LEN);
    raw_read(setup, raw, transcript.acceptor, GREETING_LEN);
    buf_init(&out, HELLO_WIRE_MAX);
    hello_encode(&hello, &transcript, secret, true, &out);
    if (version < PROTOCOL_VERSION_OUTSIDERS) {
        shorten_hello(&out, REASON_LEN, &transcript, secret);
    }
    raw_write(raw, out.data, out.len);
    buf_release(&out);

    size_t len = HELLO_LEN_LEN;

    raw_read(setup, raw, answer, len);
    len += wire_load_u32(answer) + CRYPTO_SHA256_LEN;
    raw_read(setup, raw, answer + HELLO_LEN_LEN, len - HELLO_LEN_LEN);
    assert_int_equal(
        hello_decode(slice_make(answer, len), &transcript, secret, false, &hello, &len), ERR_OK);
    assert_int_equal(hello.incarnation, 101);
    assert_int_equal(hello.level, setup->level[1]);
    assert_int_equal(hello.ensemble_level, setup->ensemble_level[1]);
    return hello_connection_nonce(&transcript, secret);
}

/* Sends one header and expects the connection to end for that reason. */
static void expect_drop(const struct frame_header *change, const char *why)
{
    struct kit_setup setup = kit_make_setup();
    uint8_t bytes[FRAME_HEADER_LEN];

    kit_start(&setup, 1);

    struct raw raw = raw_dial_1(&setup);
    struct frame_header header = *change;

    header.nonce += shake_raw(&setup, &raw, PROTOCOL_VERSION);
    KIT_RUN_UNTIL(&setup, kit_nodes[1].ups == 1);
    frame_encode(&header, 0, bytes);
    raw_write(&raw, bytes, sizeof(bytes));
    KIT_RUN_UNTIL(&setup, kit_nodes[1].downs == 1);
    if (!strstr(kit_nodes[1].why, why)) {
        fail_msg("\"%s\" is not about \"%s\"", kit_nodes[1].why, why);
    }
    KIT_RUN_UNTIL(&setup, raw_ended(&raw));
    raw_end(&raw);
    kit_stop(1);
}

TEST(bad_frames)
{
    struct frame_header good = {
        .version = PROTOCOL_VERSION, .type = ZAB_PING, .from = 2, .to = 1, .cluster = {7}};
    struct frame_header bad = good;

    expect_drop(&good, "malformed"); /* An empty PING lacks its fields. */
    bad.len = (uint32_t)zab_msg_size_max(ZAB_PING) + 1;
    expect_drop(&bad, "too long");
    bad = good;
    bad.len = UINT32_MAX;
    expect_drop(&bad, "too long");
    bad = good;
    bad.type = 999;
    expect_drop(&bad, "unknown type");
    bad = good;
    bad.version++;
    expect_drop(&bad, "another version");
    bad = good;
    bad.from = 3;
    expect_drop(&bad, "another connection");
    bad = good;
    bad.nonce = 1;
    expect_drop(&bad, "another connection");
    bad = good;
    bad.cluster[3] = 1;
    expect_drop(&bad, "another cluster");
    bad = good;
    bad.payload_crc = 1;
    expect_drop(&bad, "damaged frame");
}

TEST(hello_too_long)
{
    struct kit_setup setup = kit_make_setup();
    struct greeting greeting = {.version = PROTOCOL_VERSION, .from = 2, .to = 1};
    uint8_t bytes[GREETING_LEN + HELLO_LEN_LEN];

    kit_start(&setup, 1);

    struct raw raw = raw_dial_1(&setup);

    greeting_encode(&greeting, bytes);
    wire_store_u32(bytes + GREETING_LEN, UINT32_MAX);
    raw_write(&raw, bytes, sizeof(bytes));
    KIT_RUN_UNTIL(&setup, kit_nodes[1].refusals == 1);
    assert_non_null(strstr(kit_nodes[1].why, "malformed"));
    raw_end(&raw);
    kit_stop(1);
}

/* ---- Versions. ---- */

static void expect_refusal(uint16_t version, const char *why)
{
    struct kit_setup setup = kit_make_setup();
    struct greeting greeting = {.version = version, .from = 2, .to = 1};
    struct greeting answer;
    uint8_t bytes[GREETING_LEN];

    kit_start(&setup, 1);

    struct raw raw = raw_dial_1(&setup);

    greeting_encode(&greeting, bytes);
    raw_write(&raw, bytes, sizeof(bytes));
    KIT_RUN_UNTIL(&setup, kit_nodes[1].refusals == 1);
    if (!strstr(kit_nodes[1].why, why)) {
        fail_msg("\"%s\" is not about \"%s\"", kit_nodes[1].why, why);
    }
    /* The other side learns the version of this one, so that it can report the mismatch as well. */
    raw_read(&setup, &raw, bytes, sizeof(bytes));
    assert_int_equal(greeting_decode(bytes, &answer), ERR_OK);
    assert_int_equal(answer.version, PROTOCOL_VERSION);
    KIT_RUN_UNTIL(&setup, raw_ended(&raw));
    raw_end(&raw);
    kit_stop(1);
}

TEST(other_versions)
{
    expect_refusal(PROTOCOL_VERSION_OLDEST - 1, "version 6 of the protocol");
    expect_refusal(PROTOCOL_VERSION + 2, "version 10 of the protocol");
}

static void send_raw(struct raw *raw, struct frame_header *header, uint32_t number,
                     struct slice payload)
{
    uint8_t bytes[FRAME_HEADER_LEN];

    header->len = (uint32_t)payload.len;
    header->payload_crc = frame_payload_crc(payload, number);
    frame_encode(header, number, bytes);
    raw_write(raw, bytes, sizeof(bytes));
    raw_write(raw, payload.data, payload.len);
}

/* A peer that is one version ahead: unknown types are skipped and counted, and so is what follows
 * the known fields of a message. */
TEST(a_peer_one_version_ahead_works)
{
    struct kit_setup setup = kit_make_setup();
    struct frame_header header = {
        .version = PROTOCOL_VERSION, .type = 999, .from = 2, .to = 1, .cluster = {7}};
    struct zab_msg ping = {.type = ZAB_PING, .dialogue = 3, .epoch = 4, .ping.commit = 5};
    struct tcp_figures figures;
    struct buf payload;

    kit_start(&setup, 1);

    struct raw raw = raw_dial_1(&setup);

    header.nonce = shake_raw(&setup, &raw, PROTOCOL_VERSION + 1);
    KIT_RUN_UNTIL(&setup, kit_nodes[1].ups == 1);
    send_raw(&raw, &header, 0, slice_str("unknown type"));
    buf_init(&payload, 1024);
    zab_msg_encode(&ping, &payload);
    buf_append_str(&payload, "a new field");
    header.type = ZAB_PING;
    send_raw(&raw, &header, 1, buf_slice(&payload));
    KIT_RUN_UNTIL(&setup, kit_nodes[1].messages == 1);
    tcp_figures(kit_nodes[1].tcp, &figures);
    assert_int_equal(figures.skipped, 1);
    assert_int_equal(kit_nodes[1].downs, 0);
    buf_release(&payload);
    raw_end(&raw);
    KIT_RUN_UNTIL(&setup, kit_nodes[1].downs == 1);
    kit_stop(1);
}

/* ---- One version behind. ---- */

TEST(a_peer_one_version_behind_works)
{
    struct kit_setup setup = kit_make_setup();
    struct frame_header header = {
        .version = PROTOCOL_VERSION - 1, .type = ZAB_PING, .from = 2, .to = 1, .cluster = {7}};
    struct zab_msg ping = {.type = ZAB_PING, .dialogue = 3, .epoch = 4, .ping.commit = 5};
    struct buf payload;

    setup.level[1] = 2;
    kit_start(&setup, 1);
    kit_nodes[1].hello.level = 9;

    struct raw raw = raw_dial_1(&setup);

    header.nonce = shake_raw(&setup, &raw, PROTOCOL_VERSION - 1);
    KIT_RUN_UNTIL(&setup, kit_nodes[1].ups == 1);
    assert_int_equal(kit_nodes[1].hello.level, 3);
    buf_init(&payload, 1024);
    zab_msg_encode(&ping, &payload);
    send_raw(&raw, &header, 0, buf_slice(&payload));
    KIT_RUN_UNTIL(&setup, kit_nodes[1].messages == 1);
    header.version = PROTOCOL_VERSION;
    send_raw(&raw, &header, 1, buf_slice(&payload));
    KIT_RUN_UNTIL(&setup, kit_nodes[1].downs == 1);
    assert_non_null(strstr(kit_nodes[1].why, "another version"));
    buf_release(&payload);
    raw_end(&raw);
    kit_stop(1);
}

TEST(a_hello_tells_the_level)
{
    struct kit_setup setup = kit_make_setup();

    setup.level[1] = 3;
    setup.ensemble_level[1] = 2;
    kit_start(&setup, 1);

    struct raw raw = raw_dial_1(&setup);

    (void)shake_raw(&setup, &raw, PROTOCOL_VERSION);
    KIT_RUN_UNTIL(&setup, kit_nodes[1].ups == 1);
    assert_int_equal(kit_nodes[1].hello.level, 3);
    raw_end(&raw);
    kit_stop(1);
}
