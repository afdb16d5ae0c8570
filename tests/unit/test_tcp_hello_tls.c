/* The messages of TLS between replicas as bytes: first messages that are made by hand, with modes
 * and versions that are refused, and handshakes that are split at each position. */
#include "tests/lib/cert_kit.h"
#include "tests/lib/tcp_raw.h"
#include "zab/tcp/keys_int.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#define SECRET "the secret of the ensemble"

enum {
    HELLO_MAX = 1024,
    HASH_LEN = CRYPTO_SHA256_LEN,
    MODE_PSK = 0,     /* Of psk_key_exchange_modes: without Diffie-Hellman, */
    MODE_PSK_DHE = 1, /* with it. */
    TLS_1_2 = 0x0303,
    TLS_1_3 = 0x0304,
    RECORD_ALERT = 0x15,
    RECORD_HANDSHAKE = 0x16,
    PROTOCOL_VERSION_ALERT = 70
};

/* ---- A first message made by hand, with a correct proof of the secret. ---- */

static void put_16(struct buf *out, size_t value)
{
    buf_append_byte(out, (uint8_t)(value >> 8));
    buf_append_byte(out, (uint8_t)value);
}

static void put(struct buf *out, struct slice bytes)
{
    assert_true(buf_append(out, bytes.data, bytes.len));
}

static void put_extension(struct buf *out, size_t type, const char *bytes, size_t len)
{
    put_16(out, type);
    put_16(out, len);
    put(out, slice_make(bytes, len));
}

/* HKDF-Expand-Label of RFC 8446 for one block. */
static void expand(const uint8_t secret[HASH_LEN], const char *label, struct slice context,
                   uint8_t out[HASH_LEN])
{
    struct buf info;

    buf_init(&info, HELLO_MAX);
    put_16(&info, HASH_LEN);
    buf_append_byte(&info, (uint8_t)(6 + strlen(label)));
    buf_append_str(&info, "tls13 ");
    buf_append_str(&info, label);
    buf_append_byte(&info, (uint8_t)context.len);
    put(&info, context);
    buf_append_byte(&info, 1);
    crypto_hmac_sha256(slice_make(secret, HASH_LEN), buf_slice(&info), out);
    buf_release(&info);
}

/* The proof that the sender of a message knows the secret. */
static void make_binder(const struct keys_secret *secret, struct slice message,
                        uint8_t out[HASH_LEN])
{
    static const uint8_t zeros[HASH_LEN] = {0};
    uint8_t early[HASH_LEN];
    uint8_t key[HASH_LEN];
    uint8_t hash[HASH_LEN];

    crypto_hmac_sha256(slice_make(zeros, HASH_LEN), slice_make(secret->psk, HASH_LEN), early);
    crypto_sha256(slice_make(zeros, 0), hash);
    expand(early, "ext binder", slice_make(hash, HASH_LEN), key);
    expand(key, "finished", slice_make(hash, 0), early);
    crypto_sha256(message, hash);
    crypto_hmac_sha256(slice_make(early, HASH_LEN), slice_make(hash, HASH_LEN), out);
}

struct first {
    uint8_t mode;
    bool has_share; /* Of a Diffie-Hellman exchange. */
    uint16_t version;
};

static void put_extensions(const struct first *first, const char *identity, struct buf *out)
{
    char share[38] = {0, 36, 0, 29, 0, 32, 9}; /* X25519: any 32 bytes are a public key. */
    char versions[3] = {2, (char)(first->version >> 8), (char)first->version};
    char modes[2] = {1, (char)first->mode};
    size_t len = strlen(identity);

    put_extension(out, 43, versions, sizeof(versions));
    put_extension(out, 10, "\x00\x02\x00\x1d", 4); /* supported_groups */
    put_extension(out, 13, "\x00\x02\x04\x03", 4); /* signature_algorithms */
    if (first->has_share) {
        put_extension(out, 51, share, sizeof(share));
    }
    put_extension(out, 45, modes, sizeof(modes));
    put_16(out, 41); /* pre_shared_key, which is the last one. */
    put_16(out, 2 + 2 + len + 4 + 2 + 1 + HASH_LEN);
    put_16(out, 2 + len + 4);
    put_16(out, len);
    buf_append_str(out, identity);
    put_16(out, 0);
    put_16(out, 0);
}

/* Sets a length that was not known before: of what follows it, and of `more` bytes that will. */
static void set_16(struct buf *out, size_t at, size_t more)
{
    size_t len = out->len - at - 2 + more;

    out->data[at] = (uint8_t)(len >> 8);
    out->data[at + 1] = (uint8_t)len;
}

static void make_first(const struct first *first, struct buf *out)
{
    static const uint8_t before[] = {RECORD_HANDSHAKE, 3, 1, 0, 0, 1, 0, 0, 0, 3, 3};
    static const uint8_t after[] = {0, 0, 2, 0x13, 1, 1, 0, 0, 0};
    static const uint8_t random[32] = {7};

    enum {
        RECORD_AT = 3,
        MESSAGE_AT = 7,
        EXTENSIONS_AT = sizeof(before) + sizeof(random) + sizeof(after) - 2,
        BINDERS = 2 + 1 + HASH_LEN
    };
    struct keys *keys = kit_keys(SECRET, NULL);
    const uint8_t *n = keys->secrets[0].name;
    char identity[64];
    uint8_t binder[HASH_LEN];

    (void)snprintf(identity, sizeof(identity), "zabra-1 %02x%02x%02x%02x%02x%02x%02x%02x psk", n[0],
                   n[1], n[2], n[3], n[4], n[5], n[6], n[7]);
    buf_init(out, HELLO_MAX);
    put(out, slice_make(before, sizeof(before)));
    put(out, slice_make(random, sizeof(random)));
    put(out, slice_make(after, sizeof(after)));
    put_extensions(first, identity, out);
    set_16(out, RECORD_AT, BINDERS);
    set_16(out, MESSAGE_AT, BINDERS);
    set_16(out, EXTENSIONS_AT, BINDERS);
    make_binder(&keys->secrets[0], slice_make(out->data + 5, out->len - 5), binder);
    put_16(out, 1 + HASH_LEN);
    buf_append_byte(out, HASH_LEN);
    put(out, slice_make(binder, HASH_LEN));
    keys_release(keys);
}

/* Sends it to replica 1; fills in the beginning of the answer. */
static void ask(const struct first *first, uint8_t answer[7])
{
    struct kit_setup setup = kit_make_setup();
    ssize_t got = -1;
    struct buf hello;

    setup.secret[1] = SECRET;
    setup.tls[1] = KEYS_REQUIRED;
    kit_start(&setup, 1);

    struct raw raw = raw_dial_plain(&setup);

    make_first(first, &hello);
    raw_write(&raw, hello.data, hello.len);
    KIT_RUN_UNTIL(&setup, (got = recv(raw.fd, answer, 7, MSG_DONTWAIT)) >= 0 || errno != EAGAIN);
    assert_int_equal(got, 7);
    buf_release(&hello);
    raw_end(&raw);
    kit_stop(1);
}

/* A recorded connection would be readable with the secret: so the secret alone makes no key. */
TEST(a_key_exchange_without_diffie_hellman_is_refused)
{
    struct first first = {.mode = MODE_PSK_DHE, .has_share = true, .version = TLS_1_3};
    uint8_t answer[7];

    ask(&first, answer); /* The message is right but for what is changed below. */
    assert_int_equal(answer[0], RECORD_HANDSHAKE);
    first.mode = MODE_PSK;
    ask(&first, answer);
    assert_int_equal(answer[0], RECORD_ALERT);
    first.has_share = false;
    ask(&first, answer);
    assert_int_equal(answer[0], RECORD_ALERT);
}

TEST(an_older_version_of_tls_is_refused)
{
    struct first first = {.mode = MODE_PSK_DHE, .has_share = true, .version = TLS_1_2};
    uint8_t answer[7];

    ask(&first, answer);
    assert_int_equal(answer[0], RECORD_ALERT);
    assert_int_equal(answer[6], PROTOCOL_VERSION_ALERT);
}

/* ---- Split at each position. ---- */

struct pair {
    struct keys *keys[2];
    struct seal *seals[2]; /* The dialer's is the first. */
    bool done[2];
};

static void open_pair(struct pair *pair, struct keys *const keys[2])
{
    for (int i = 0; i < 2; i++) {
        pair->done[i] = false;
        pair->seals[i] = seal_open(&(struct seal_options){
            .keys = keys[i], .dials = i == 0, .from = i ? 0 : 2, .to = i ? 0 : 1});
    }
}

static void close_pair(struct pair *pair)
{
    seal_close(pair->seals[0]);
    seal_close(pair->seals[1]);
}

static void shake(struct pair *pair, int side, enum err expected)
{
    enum err err = seal_shake(pair->seals[side]);

    if (err != expected) {
        fail_msg("%s: %s", err_text(err), seal_why(pair->seals[side]));
    }
    pair->done[side] = err == ERR_OK;
}

/* Moves all that one side has to send, in two parts if `*split` lies within. */
static void move(struct pair *pair, int from, size_t *split)
{
    struct slice bytes = seal_pending(pair->seals[from]);
    size_t first = *split > 0 && *split < bytes.len ? *split : 0;
    bool open = !pair->done[1 - from];

    if (first > 0) {
        assert_int_equal(seal_put(pair->seals[1 - from], slice_make(bytes.data, first)), ERR_OK);
        if (open) {
            shake(pair, 1 - from, ERR_BUSY);
        }
    }
    *split = *split > bytes.len ? *split - bytes.len : 0;
    assert_int_equal(seal_put(pair->seals[1 - from], slice_from(bytes, first)), ERR_OK);
    seal_sent(pair->seals[from], bytes.len);
}

/* Shakes hands, with one split after `split` bytes of the conversation, then sends a message.
 * Returns false when the conversation is shorter. */
static bool converse(struct keys *const keys[2], size_t split)
{
    struct pair pair;
    struct buf got;

    open_pair(&pair, keys);
    shake(&pair, 0, ERR_BUSY);
    move(&pair, 0, &split);
    shake(&pair, 1, ERR_BUSY);
    move(&pair, 1, &split);
    shake(&pair, 0, ERR_OK);
    move(&pair, 0, &split);
    shake(&pair, 1, ERR_OK);

    buf_init(&got, 1 << 20);
    assert_int_equal(seal_write(pair.seals[0], slice_str("message")), 7);
    move(&pair, 0, &split);
    assert_int_equal(seal_read(pair.seals[1], &got), ERR_OK);
    assert_true(slice_eq(buf_slice(&got), slice_str("message")));
    buf_release(&got);
    close_pair(&pair);
    return split == 0;
}

static void split_everywhere(struct keys *const keys[2], size_t step, size_t least)
{
    size_t split = 1;

    while (converse(keys, split)) {
        split += step;
    }
    assert_true(split > least); /* It did get through the conversation. */
}

TEST(a_handshake_with_a_secret_may_be_split_anywhere)
{
    struct keys *keys[2] = {kit_keys(SECRET, NULL), kit_keys(SECRET, NULL)};

    split_everywhere(keys, 1, 400);
    keys_release(keys[0]);
    keys_release(keys[1]);
}

TEST(a_handshake_with_certificates_may_be_split_anywhere)
{
    static const struct cert_kit_spec spec = {
        .kind = ISSUE_PEER, .common = "replica", .names = "127.0.0.1"};
    struct cert_kit certs;
    struct keys *keys[2] = {NULL, NULL};
    char cert[CERT_KIT_PATH_MAX];
    char key[CERT_KIT_PATH_MAX];
    char ca[CERT_KIT_PATH_MAX];
    char error[KEYS_ERROR_MAX];

    cert_kit_open(&certs);
    cert_kit_add(&certs, "peer", &spec);
    for (int i = 0; i < 2; i++) {
        struct keys_options options = {.cert_file = cert_kit_path(&certs, "peer.pem", cert),
                                       .key_file = cert_kit_path(&certs, "peer.key", key),
                                       .ca_file = cert_kit_path(&certs, "ca.pem", ca)};

        assert_int_equal(keys_load(&options, &keys[i], error), ERR_OK);
    }
    split_everywhere(keys, 5, 1000); /* Each one takes milliseconds. */
    keys_release(keys[0]);
    keys_release(keys[1]);
    cert_kit_close(&certs);
}

/* Two transports, whose bytes arrive one by one: TLS, greetings, HELLOs and a frame. */
TEST(two_replicas_connect_byte_by_byte)
{
    struct kit_setup setup = kit_make_setup();

    setup.secret[1] = setup.secret[2] = SECRET;
    for (enum keys_mode mode = KEYS_OFF; mode <= KEYS_REQUIRED; mode += KEYS_REQUIRED) {
        setup.tls[1] = setup.tls[2] = mode;
        kit_relay_open(&setup, 1, UINT64_MAX);
        kit_connect_both(&setup);
        kit_send_round(2, 0);
        KIT_RUN_UNTIL(&setup, kit_nodes[1].messages == 1);
        assert_int_equal(kit_nodes[1].refusals + kit_nodes[2].refusals, 0);
        kit_relay_close();
        kit_stop_both();
    }
}
