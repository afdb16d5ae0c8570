/* Keys that are renewed on a long connection between replicas, and peers that renew theirs without
 * end: this side is the acceptor's seal, the other one the TLS of OpenSSL, or another seal. */
#include "tests/lib/tcp_raw.h"
#include "tests/lib/tls_forge.h"

#include <stdio.h>
#include <unistd.h>

enum {
    RECORD = 16 << 10,
    LIMIT = 4,         /* Records with one key, in most tests. */
    ANSWER_BYTES = 27, /* Of a KeyUpdate in its record. */
    PER_STEP = 64 << 10
};

struct duel {
    struct cert_kit certs;
    struct keys *keys;
    struct seal *seal;
    struct tls_peer peer;
    int fds[2]; /* Of the seal and of the peer. */
    struct buf in;
    uint32_t updates; /* KeyUpdates that the peer has received. */
};

/* NOLINTNEXTLINE(readability-function-size): OpenSSL's type. */
static void on_message(int writes, int version, int type, const void *bytes, size_t len, SSL *ssl,
                       void *ctx)
{
    struct duel *duel = ctx;

    (void)version;
    (void)ssl;
    if (!writes && type == SSL3_RT_HANDSHAKE && len > 0 &&
        *(const uint8_t *)bytes == SSL3_MT_KEY_UPDATE) {
        duel->updates++;
    }
}

static void push(struct duel *duel)
{
    while (seal_pending(duel->seal).len > 0) {
        struct slice bytes = seal_pending(duel->seal);
        ssize_t sent = send(duel->fds[0], bytes.data, bytes.len, MSG_NOSIGNAL | MSG_DONTWAIT);

        assert_true(sent > 0);
        seal_sent(duel->seal, (size_t)sent);
    }
}

/* Gives the seal what the peer has sent, as much as a connection reads at a time. */
static bool pull(struct duel *duel)
{
    static uint8_t bytes[PER_STEP]; /* Too large for the stack. */
    ssize_t got = recv(duel->fds[0], bytes, sizeof(bytes), MSG_DONTWAIT);

    if (got > 0) {
        assert_int_equal(seal_put(duel->seal, slice_make(bytes, (size_t)got)), ERR_OK);
    }
    return got > 0;
}

static void load_keys(struct duel *duel)
{
    char cert[CERT_KIT_PATH_MAX];
    char key[CERT_KIT_PATH_MAX];
    char ca[CERT_KIT_PATH_MAX];
    char error[KEYS_ERROR_MAX] = "";
    struct cert_kit_spec spec = {.kind = ISSUE_PEER, .common = "replica", .names = "localhost"};
    struct keys_options options = {.cert_file = cert_kit_path(&duel->certs, "peer.pem", cert),
                                   .key_file = cert_kit_path(&duel->certs, "peer.key", key),
                                   .ca_file = cert_kit_path(&duel->certs, "ca.pem", ca)};

    cert_kit_add(&duel->certs, "peer", &spec);
    if (keys_load(&options, &duel->keys, error)) {
        fail_msg("%s", error);
    }
}

static void open_duel(struct duel *duel)
{
    static const struct tls_peer_setup setup = {.cert = "peer"};
    enum err err = ERR_BUSY;

    *duel = (struct duel){.updates = 0};
    cert_kit_open(&duel->certs);
    load_keys(duel);
    duel->seal = seal_open(&(struct seal_options){.keys = duel->keys, .records_per_key = LIMIT});
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, duel->fds),
                     0);
    tls_peer_open(&duel->peer, &duel->certs, &setup, duel->fds[1]);
    SSL_set_msg_callback(duel->peer.ssl, on_message);
    SSL_set_msg_callback_arg(duel->peer.ssl, duel);
    buf_init(&duel->in, 1 << 20);
    while (err == ERR_BUSY) {
        (void)tls_peer_shake(&duel->peer);
        (void)tls_peer_push(&duel->peer, SIZE_MAX);
        (void)pull(duel);
        err = seal_shake(duel->seal);
        push(duel);
        (void)tls_peer_pull(&duel->peer, SIZE_MAX);
    }
    assert_int_equal(err, ERR_OK);
}

static void close_duel(struct duel *duel)
{
    tls_peer_close(&duel->peer);
    seal_close(duel->seal);
    keys_release(duel->keys);
    buf_release(&duel->in);
    close(duel->fds[0]);
    close(duel->fds[1]);
    cert_kit_close(&duel->certs);
}

/* ---- This side renews. ---- */

TEST(each_key_seals_a_bounded_number_of_records, duel, open_duel, close_duel)
{
    static uint8_t bytes[RECORD]; /* Too large for the stack. */
    struct buf got;

    buf_init(&got, 1 << 20);
    for (uint32_t i = 0; i < 5 * LIMIT; i++) {
        buf_clear(&got);
        memset(bytes, (int)i, sizeof(bytes));
        assert_int_equal(seal_write(duel->seal, slice_make(bytes, sizeof(bytes))), sizeof(bytes));
        push(duel);
        while (tls_peer_pull(&duel->peer, SIZE_MAX) > 0) {
        }
        assert_int_equal(tls_peer_receive(&duel->peer, &got), SSL_ERROR_WANT_READ);
        assert_true(slice_eq(buf_slice(&got), slice_make(bytes, sizeof(bytes))));
        assert_int_equal(duel->updates, i / LIMIT);
    }
    buf_release(&got);
}

/* RFC 8446, 5.5: 2^24.5 records with a key of AES-GCM. */
TEST(the_limit_of_a_key_is_that_of_its_cipher)
{
    assert_in_range(SEAL_KEY_RECORDS, 1 << 16, 1 << 24);
}

/* Both sides renew all the time, while messages of any length cross each other. */
TEST(two_replicas_renew_their_keys)
{
    struct kit_setup setup = kit_make_setup();

    for (uint32_t id = 1; id <= 2; id++) {
        setup.secret[id] = "the secret of the ensemble";
        setup.tls[id] = KEYS_REQUIRED;
    }
    setup.records_per_key = LIMIT;
    kit_connect_both(&setup);
    for (uint64_t round = 0; round < 40; round++) {
        kit_send_forward(1, round, round % 3 ? 100 : 150000);
        kit_send_forward(2, round, round % 5 ? 150000 : 100);
        KIT_RUN_UNTIL(&setup,
                      kit_nodes[1].messages == round + 1 && kit_nodes[2].messages == round + 1);
    }
    assert_int_equal(kit_nodes[1].downs + kit_nodes[2].downs, 0);
    kit_stop_both();
}

/* ---- The peer renews. ---- */

/* The peer renews its keys once; `asks`: this side must as well. */
static void renew(struct duel *duel, bool asks)
{
    assert_int_equal(SSL_key_update(duel->peer.ssl,
                                    asks ? SSL_KEY_UPDATE_REQUESTED : SSL_KEY_UPDATE_NOT_REQUESTED),
                     1);
    assert_int_equal(SSL_do_handshake(duel->peer.ssl), 1);
}

static enum err take(struct duel *duel)
{
    enum err err = ERR_OK;

    while (!err && pull(duel)) {
        err = seal_read(duel->seal, &duel->in);
    }
    return err;
}

/* All updates arrive at once; only the first few are worked on. */
TEST(a_flood_of_new_keys_is_cut_off_within_one_read, duel, open_duel, close_duel)
{
    for (int i = 0; i < 2000; i++) {
        renew(duel, true);
    }
    (void)tls_peer_push(&duel->peer, SIZE_MAX);
    assert_true(pull(duel));
    assert_int_equal(seal_read(duel->seal, &duel->in), ERR_FORMAT);
    assert_string_equal(seal_why(duel->seal), "the peer renews its keys without end");
    assert_in_range(seal_pending(duel->seal).len, ANSWER_BYTES, 20 * ANSWER_BYTES);
}

/* A byte between two of them changes nothing. */
TEST(new_keys_for_each_byte_are_cut_off, duel, open_duel, close_duel)
{
    enum err err = ERR_OK;
    int count = 0;

    for (; !err; count++) {
        assert_in_range(count, 0, 20);
        renew(duel, false);
        tls_peer_send(&duel->peer, "x", 1);
        err = take(duel);
    }
    assert_int_equal(err, ERR_FORMAT);
    assert_string_equal(seal_why(duel->seal), "the peer renews its keys without end");
}

/* A peer that renews its keys for every 64 KiB, much more often than any replica. */
TEST(new_keys_at_a_pace_are_accepted, duel, open_duel, close_duel)
{
    static uint8_t bytes[PER_STEP]; /* Too large for the stack. */

    for (int i = 0; i < 200; i++) {
        renew(duel, true);
        tls_peer_send(&duel->peer, bytes, sizeof(bytes));
        assert_int_equal(take(duel), ERR_OK);
        assert_int_equal(duel->in.len, sizeof(bytes));
        buf_clear(&duel->in);
        push(duel);
        while (tls_peer_pull(&duel->peer, SIZE_MAX) > 0) {
        }
        assert_int_equal(tls_peer_receive(&duel->peer, &duel->in), SSL_ERROR_WANT_READ);
    }
    /* What was saved up lets no flood through. */
    for (int i = 0; i < 2000; i++) {
        renew(duel, false);
    }
    (void)tls_peer_push(&duel->peer, SIZE_MAX);
    assert_int_equal(take(duel), ERR_FORMAT);
}

/* ---- Messages of TLS in parts. ---- */

/* OpenSSL writes nothing before it has the rest. This side does not wait for it. */
TEST(half_a_message_of_tls_ends_the_connection, duel, open_duel, close_duel)
{
    static const uint8_t half[] = {SSL3_MT_KEY_UPDATE, 0, 0, 1};
    struct tls_forge forge;

    tls_forge_open(&forge, &duel->peer);
    tls_forge_put(&forge, TLS_FORGE_HANDSHAKE, half, sizeof(half));
    assert_true(tls_forge_send(&forge, duel->fds[1]));
    assert_int_equal(take(duel), ERR_OK);
    assert_int_equal(seal_write(duel->seal, slice_str("message")), 0);
    assert_string_equal(seal_why(duel->seal),
                        "the peer has stopped in the middle of a message of TLS");
    tls_forge_close(&forge);
}

/* Each byte in a record of its own. */
TEST(new_keys_in_parts_are_cut_off, duel, open_duel, close_duel)
{
    static const uint8_t update[] = {SSL3_MT_KEY_UPDATE, 0, 0, 1, 0};
    struct tls_forge forge;
    enum err err = ERR_OK;
    int count = 0;

    tls_forge_open(&forge, &duel->peer);
    for (; !err; count++) {
        assert_in_range(count, 0, 20);
        for (size_t i = 0; i < sizeof(update); i++) {
            tls_forge_put(&forge, TLS_FORGE_HANDSHAKE, update + i, 1);
        }
        tls_forge_renew(&forge);
        assert_true(tls_forge_send(&forge, duel->fds[1]));
        err = take(duel);
    }
    assert_int_equal(err, ERR_FORMAT);
    assert_string_equal(seal_why(duel->seal), "the peer renews its keys without end");
    tls_forge_close(&forge);
}
