#include "zab/tcp/hello.h"

#include "base/check.h"
#include "base/wire.h"
#include "zab/tcp/keys.h"

enum {
    MAGIC = 0x4852425a, /* "ZBRH" */
    TRANSCRIPT_MAX = 16 + 2 * GREETING_LEN + CRYPTO_SHA256_LEN + HELLO_PAYLOAD_MAX,
    AT_FROM = 8,
    AT_TO = 12,
    AT_NONCE = 16,
};

#define IDENTITY(form, member) WIRE_FIELD(WIRE_##form, struct hello, member)

static const struct wire_field identity_fields[] = {
    IDENTITY(INT, incarnation), IDENTITY(RAW, cluster), IDENTITY(BOOL, bootstrapping),
    IDENTITY(TEXT, advertise),  IDENTITY(INT, history), IDENTITY(INT, start),
    IDENTITY(TEXT, refusal),    {.form = WIRE_END},
};

/* Members that a release without them leaves out, with all members that follow: they count as 0. */
static const struct wire_field later_fields[] = {IDENTITY(INT, tls),
                                                 IDENTITY(INT, level),
                                                 IDENTITY(INT, ensemble_level),
                                                 IDENTITY(INT, reason),
                                                 {.form = WIRE_END}};

_Static_assert(AT_NONCE + GREETING_NONCE_LEN == GREETING_LEN, "the nonce ends the greeting");

void greeting_encode(const struct greeting *greeting, uint8_t out[GREETING_LEN])
{
    ASSERT(greeting->version > 0);

    wire_store_u32(out, MAGIC);
    wire_store_u32(out + 4, greeting->version);
    wire_store_u32(out + AT_FROM, greeting->from);
    wire_store_u32(out + AT_TO, greeting->to);
    memcpy(out + AT_NONCE, greeting->nonce, GREETING_NONCE_LEN);
}

enum err greeting_decode(const uint8_t in[GREETING_LEN], struct greeting *ret_greeting)
{
    uint32_t version = wire_load_u32(in + 4);

    if (wire_load_u32(in) != MAGIC || version == 0 || version > UINT16_MAX) {
        return ERR_FORMAT;
    }
    ret_greeting->version = (uint16_t)version;
    ret_greeting->from = wire_load_u32(in + AT_FROM);
    ret_greeting->to = wire_load_u32(in + AT_TO);
    memcpy(ret_greeting->nonce, in + AT_NONCE, GREETING_NONCE_LEN);
    return ERR_OK;
}

static void prove(const char *role, const struct hello_transcript *transcript,
                  struct slice identity, struct slice secret, uint8_t out[CRYPTO_SHA256_LEN])
{
    ASSERT(identity.len <= HELLO_PAYLOAD_MAX);

    struct buf text;

    buf_init(&text, TRANSCRIPT_MAX);
    buf_append_str(&text, role);
    buf_append(&text, transcript->dialer, GREETING_LEN);
    buf_append(&text, transcript->acceptor, GREETING_LEN);
    if (transcript->sealed) {
        buf_append_str(&text, "sealed:");
        buf_append(&text, transcript->channel, sizeof(transcript->channel));
    }
    buf_append_slice(&text, identity);
    ASSERT(!text.overflow);
    crypto_hmac_sha256(secret, buf_slice(&text), out);
    buf_release(&text);
}

static const char *role_of(bool by_dialer)
{
    return by_dialer ? "dialer:" : "accept:";
}

void hello_encode(const struct hello *hello, const struct hello_transcript *transcript,
                  struct slice secret, bool by_dialer, struct buf *out)
{
    ASSERT(strlen(hello->advertise) <= HELLO_ADVERTISE_MAX);
    ASSERT(strlen(hello->refusal) <= HELLO_REFUSAL_MAX && hello->start != 0);

    struct buf identity;
    uint8_t proof[CRYPTO_SHA256_LEN];

    buf_init(&identity, HELLO_PAYLOAD_MAX);
    wire_put_fields(&identity, identity_fields, hello);
    wire_put_fields(&identity, later_fields, hello);
    ASSERT(!identity.overflow);

    prove(role_of(by_dialer), transcript, buf_slice(&identity), secret, proof);
    wire_put_bytes(out, buf_slice(&identity));
    wire_put_raw(out, slice_make(proof, sizeof(proof)));
    buf_release(&identity);
}

static void get_later(struct wire_reader *reader, struct hello *hello)
{
    const struct wire_field *field = later_fields;

    hello->tls = 0;
    hello->level = 0;
    hello->ensemble_level = 0;
    hello->reason = HELLO_DUPLICATE;
    while (field->form != WIRE_END && !wire_reader_done(reader)) {
        wire_get_field(reader, field++, hello);
    }
    hello->tls = hello->tls <= KEYS_REQUIRED + 1 ? hello->tls : 0;
}

enum err hello_decode(struct slice in, const struct hello_transcript *transcript,
                      struct slice secret, bool by_dialer, struct hello *ret_hello, size_t *ret_len)
{
    uint8_t proof[CRYPTO_SHA256_LEN];
    struct wire_reader reader;

    *ret_len = 0;
    if (in.len < HELLO_LEN_LEN) {
        return ERR_OK;
    }

    size_t len = wire_load_u32(in.data);

    if (len > HELLO_PAYLOAD_MAX) {
        return ERR_FORMAT;
    }
    if (in.len < HELLO_LEN_LEN + len + CRYPTO_SHA256_LEN) {
        return ERR_OK;
    }

    struct slice identity = slice_make(in.data + HELLO_LEN_LEN, len);
    struct slice given = slice_make(identity.data + len, CRYPTO_SHA256_LEN);

    prove(role_of(by_dialer), transcript, identity, secret, proof);
    if (!crypto_equal(slice_make(proof, sizeof(proof)), given)) {
        return ERR_AUTH_FAILED;
    }
    *ret_len = HELLO_LEN_LEN + len + CRYPTO_SHA256_LEN;
    /* A later version may have added members at the end. */
    wire_reader_init(&reader, identity);
    wire_get_fields(&reader, identity_fields, ret_hello);
    get_later(&reader, ret_hello);
    return wire_reader_ok(&reader) && ret_hello->start != 0 ? ERR_OK : ERR_FORMAT;
}

uint64_t hello_connection_nonce(const struct hello_transcript *transcript, struct slice secret)
{
    uint8_t proof[CRYPTO_SHA256_LEN];

    prove("nonce:", transcript, slice_make(NULL, 0), secret, proof);
    return wire_load_u64(proof);
}
