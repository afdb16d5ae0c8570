#include "zab/tcp/seal.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/minmax.h"
#include "zab/tcp/keys_int.h"

#include <inttypes.h>
#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    SHAKE_BYTES_MAX = 80 << 10, /* Bytes that a peer may send before the handshake is done. */
    READ_BYTES = 16 << 10,      /* Plain bytes of the longest record. */
    IDENTITY_MAX = 64,
    /* After the handshake TLS has few messages of its own: above all a KeyUpdate, which costs this
     * side much more than the peer. A peer may send one for so many bytes of data, and save up
     * some. A replica sends one in SEAL_KEY_RECORDS records. */
    MESSAGE_COST = 64 << 10,
    CREDIT_MAX = 16 * MESSAGE_COST,
};

/* The identity of the dialer's secret: the name of the secret in hex, then whether the dialer has a
 * certificate as well. The binder of the key covers it, so that it cannot be changed on the way. */
#define IDENTITY_FORMAT     "zabra-1 %02x%02x%02x%02x%02x%02x%02x%02x %s"
#define WITH_CERTIFICATE    "certificate"
#define WITHOUT_CERTIFICATE "psk"

/* The dialer names both replicas in the name of the server. Like a greeting it is not proven; it
 * tells the acceptor which peer to name in a report. */
#define NAME_FORMAT "%" PRIu32 ".dials.%" PRIu32 ".zabra"

static const uint8_t suite[2] = {0x13, 0x01}; /* TLS_AES_128_GCM_SHA256. */
static const char exporter_label[] = "EXPORTER-zabra";

struct seal {
    struct keys *keys;
    SSL *ssl;
    BIO *in;            /* From the socket; owned by `ssl`. */
    BIO *out;           /* For the socket; owned by `ssl`. */
    size_t sent;        /* Bytes at the front of `out` that the socket has taken. */
    size_t shake_bytes; /* Bytes received before the handshake was done. */
    uint64_t records;   /* Sealed with the present key. */
    uint64_t records_per_key;
    uint64_t credit; /* For messages of TLS, in bytes of data. */
    bool flooded;    /* The peer has sent more of them than its credit allows. */
    bool dials;
    bool done;
    bool unknown_secret; /* The dialer has named a secret that this replica does not have. */
    uint32_t secret;
    uint32_t caller;
    char identity[IDENTITY_MAX];
    char why[SEAL_WHY_MAX];
};

/* ---- The secret in the handshake. ---- */

static void write_identity(const struct keys *keys, const struct keys_secret *secret,
                           bool has_certificate, char out[IDENTITY_MAX])
{
    const uint8_t *n = secret->name;

    ASSERT(keys->secret_count > 0);
    (void)snprintf(out, IDENTITY_MAX, IDENTITY_FORMAT, n[0], n[1], n[2], n[3], n[4], n[5], n[6],
                   n[7], has_certificate ? WITH_CERTIFICATE : WITHOUT_CERTIFICATE);
}

/* Makes the session of a secret, which OpenSSL treats as one that is resumed. NULL: no memory. */
static SSL_SESSION *make_session(SSL *ssl, const struct keys_secret *secret)
{
    SSL_SESSION *session = SSL_SESSION_new();
    const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, suite);

    if (!session || !cipher ||
        SSL_SESSION_set1_master_key(session, secret->psk, sizeof(secret->psk)) != 1 ||
        SSL_SESSION_set_cipher(session, cipher) != 1 ||
        SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) != 1) {
        SSL_SESSION_free(session);
        return NULL;
    }
    return session;
}

/* The dialer names its first secret. `md`: the hash that the acceptor asks for, or NULL. */
static int on_use(SSL *ssl, const EVP_MD *md, const unsigned char **ret_id, size_t *ret_len,
                  SSL_SESSION **ret_session)
{
    struct seal *seal = SSL_get_app_data(ssl);

    *ret_session = NULL;
    if (seal->keys->secret_count == 0 || (md && !EVP_MD_is_a(md, "SHA256"))) {
        return 1;
    }
    write_identity(seal->keys, &seal->keys->secrets[0], seal->keys->has_certificate,
                   seal->identity);
    *ret_id = (const unsigned char *)seal->identity;
    *ret_len = strlen(seal->identity);
    *ret_session = make_session(ssl, &seal->keys->secrets[0]);
    return *ret_session != NULL;
}

/* The acceptor looks up the secret that the dialer names. If both have certificates, the secret is
 * passed over. */
static int on_find(SSL *ssl, const unsigned char *id, size_t len, SSL_SESSION **ret_session)
{
    struct seal *seal = SSL_get_app_data(ssl);
    char identity[IDENTITY_MAX];

    *ret_session = NULL;
    seal->unknown_secret = true;
    for (uint32_t i = 0; i < seal->keys->secret_count; i++) {
        const struct keys_secret *secret = &seal->keys->secrets[i];

        write_identity(seal->keys, secret, true, identity);
        if (slice_eq(slice_make(id, len), slice_str(identity)) && seal->keys->has_certificate) {
            seal->unknown_secret = false;
            return 1;
        }

        bool named = slice_eq(slice_make(id, len), slice_str(identity));

        write_identity(seal->keys, secret, false, identity);
        if (named || slice_eq(slice_make(id, len), slice_str(identity))) {
            seal->unknown_secret = false;
            seal->secret = i;
            *ret_session = make_session(ssl, secret);
            return *ret_session != NULL;
        }
    }
    return 1;
}

/* ---- Messages of TLS after the handshake. ---- */

/* One call of SSL_read_ex works on all messages that have arrived, until data comes. So what has
 * arrived is dropped when there are too many: the connection has failed. */
/* NOLINTNEXTLINE(readability-function-size): OpenSSL's type. */
static void on_message(int writes, int version, int type, const void *bytes, size_t len, SSL *ssl,
                       void *ctx)
{
    struct seal *seal = ctx;

    (void)version;
    (void)bytes;
    (void)len;
    (void)ssl;
    if (writes || !seal->done || type != SSL3_RT_HANDSHAKE) {
        return;
    }
    if (seal->credit >= MESSAGE_COST) {
        seal->credit -= MESSAGE_COST;
    } else {
        seal->flooded = true;
        (void)BIO_reset(seal->in);
    }
}

/* ---- Life. ---- */

struct seal *seal_open(const struct seal_options *options)
{
    struct seal *seal = mem_zalloc(1, sizeof(*seal));
    bool dials = options->dials;
    char name[IDENTITY_MAX];

    seal->keys = keys_share(options->keys);
    seal->dials = dials;
    seal->credit = CREDIT_MAX;
    seal->records_per_key =
        options->records_per_key > 0 ? options->records_per_key : SEAL_KEY_RECORDS;
    seal->ssl = SSL_new(dials ? seal->keys->dialer : seal->keys->acceptor);
    seal->in = BIO_new(BIO_s_mem());
    seal->out = BIO_new(BIO_s_mem());
    ASSERT(seal->ssl && seal->in && seal->out);
    SSL_set_bio(seal->ssl, seal->in, seal->out);
    (void)SSL_set_app_data(seal->ssl, seal);
    SSL_set_msg_callback(seal->ssl, on_message);
    SSL_set_msg_callback_arg(seal->ssl, seal);
    if (dials) {
        (void)snprintf(name, sizeof(name), NAME_FORMAT, options->from, options->to);
        ASSERT(SSL_set_tlsext_host_name(seal->ssl, name) == 1);
        SSL_set_psk_use_session_callback(seal->ssl, on_use);
        SSL_set_connect_state(seal->ssl);
    } else {
        SSL_set_psk_find_session_callback(seal->ssl, on_find);
        SSL_set_accept_state(seal->ssl);
    }
    return seal;
}

void seal_close(struct seal *seal)
{
    if (!seal) {
        return;
    }
    SSL_free(seal->ssl);
    ERR_clear_error();
    keys_release(seal->keys);
    mem_free(seal);
}

/* ---- Why it failed. ---- */

enum {
    ALERT_HANDSHAKE_FAILURE = 40,
    ALERT_BAD_CERTIFICATE = 42,
    ALERT_UNSUPPORTED_CERTIFICATE = 43,
    ALERT_CERTIFICATE_EXPIRED = 45,
    ALERT_CERTIFICATE_UNKNOWN = 46,
    ALERT_ILLEGAL_PARAMETER = 47,
    ALERT_UNKNOWN_CA = 48,
    ALERT_DECRYPT_ERROR = 51,
    ALERT_PROTOCOL_VERSION = 70,
    ALERT_UNKNOWN_PSK = 115,
    ALERT_CERTIFICATE_REQUIRED = 116,
};

static const struct {
    int alert;
    const char *text;
} alerts[] = {
    {ALERT_HANDSHAKE_FAILURE, "the peer accepts neither the secret nor a certificate of this "
                              "replica: check peerSecretFile and peerCertFile on both replicas"},
    {ALERT_UNKNOWN_PSK, "the secret of the peer differs: check peerSecretFile on both replicas"},
    {ALERT_DECRYPT_ERROR, "the secret of the peer differs: check peerSecretFile on both replicas"},
    {ALERT_ILLEGAL_PARAMETER,
     "the secret of the peer differs: check peerSecretFile on both replicas"},
    {ALERT_BAD_CERTIFICATE,
     "the peer refuses the certificate of this replica, which may not be valid yet by the clock of "
     "the peer: check peerCertFile here, and the log of the peer"},
    {ALERT_UNSUPPORTED_CERTIFICATE, "the peer refuses the certificate of this replica: it is not "
                                    "for TLS clients and servers both"},
    {ALERT_CERTIFICATE_UNKNOWN, "the peer refuses the certificate of this replica: check "
                                "peerCertFile here, and the log of the peer"},
    {ALERT_CERTIFICATE_EXPIRED,
     "the peer says that the certificate of this replica has expired: renew peerCertFile, or check "
     "the clocks"},
    {ALERT_UNKNOWN_CA, "the peer does not trust the CA of this replica's certificate: check "
                       "peerCaFile on both replicas"},
    {ALERT_CERTIFICATE_REQUIRED, "the peer wants a certificate, and this replica has none: set "
                                 "peerCertFile, peerKeyFile and peerCaFile"},
    {ALERT_PROTOCOL_VERSION, "the peer does not speak TLS 1.3"},
};

static const char *text_of_alert(int alert)
{
    for (size_t i = 0; i < sizeof(alerts) / sizeof(alerts[0]); i++) {
        if (alerts[i].alert == alert) {
            return alerts[i].text;
        }
    }
    return NULL;
}

static const char *text_of_reason(const struct seal *seal, int reason)
{
    switch (reason) {
    case SSL_R_BINDER_DOES_NOT_VERIFY:
        return "the secret of the peer differs: check peerSecretFile on both replicas";
    case SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC:
    case SSL_R_BAD_RECORD_TYPE:
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_BAD_PACKET_LENGTH:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
    case SSL_R_ENCRYPTED_LENGTH_TOO_LONG:
    case SSL_R_DATA_LENGTH_TOO_LONG:
        return seal->done ? "bytes of the sealed connection were changed on the way"
                          : "the bytes of the peer are no TLS handshake";
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
        return "the peer gives no certificate: set peerCertFile, peerKeyFile and peerCaFile there";
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_NO_PROTOCOLS_AVAILABLE:
        return "the peer does not speak TLS 1.3";
    case SSL_R_NO_SHARED_CIPHER:
    case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
    case SSL_R_NO_CERTIFICATE_SET:
        return "the peer offers neither the secret of this replica nor a certificate: check "
               "peerSecretFile and peerCertFile on both replicas";
    default:
        return NULL;
    }
}

/* Notes why the last call of OpenSSL failed: in a sentence that names what to check. */
static void explain(struct seal *seal)
{
    unsigned long code = ERR_peek_error();
    int reason = ERR_GET_REASON(code);
    long verified = SSL_get_verify_result(seal->ssl);
    const char *text = reason > SSL_AD_REASON_OFFSET ? text_of_alert(reason - SSL_AD_REASON_OFFSET)
                                                     : text_of_reason(seal, reason);
    const char *detail = ERR_reason_error_string(code);

    if (seal->unknown_secret && !seal->done) {
        text = "the secret of the peer differs: check peerSecretFile on both replicas";
    }
    if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED) {
        (void)snprintf(seal->why, sizeof(seal->why), "the certificate of the peer %s",
                       certificate_fault(verified));
    } else if (text) {
        (void)snprintf(seal->why, sizeof(seal->why), "%s", text);
    } else {
        (void)snprintf(seal->why, sizeof(seal->why), "TLS with the peer failed: %s",
                       detail ? detail : "unexpected end");
    }
    ERR_clear_error();
}

const char *seal_why(const struct seal *seal)
{
    return seal->why;
}

/* ---- Bytes. ---- */

struct slice seal_pending(const struct seal *seal)
{
    char *data = NULL;
    long len = BIO_get_mem_data(seal->out, &data);

    ASSERT(len >= 0 && (size_t)len >= seal->sent);
    if (len == 0) {
        return slice_make(NULL, 0); /* `data` may be NULL. */
    }
    return slice_make((const uint8_t *)data + seal->sent, (size_t)len - seal->sent);
}

void seal_sent(struct seal *seal, size_t len)
{
    ASSERT(len <= seal_pending(seal).len);

    seal->sent += len;
    if (seal_pending(seal).len == 0) {
        (void)BIO_reset(seal->out);
        seal->sent = 0;
    }
}

static enum err fail_limit(struct seal *seal, const char *why)
{
    (void)snprintf(seal->why, sizeof(seal->why), "%s", why);
    return ERR_FORMAT;
}

enum err seal_put(struct seal *seal, struct slice bytes)
{
    ASSERT(bytes.len <= INT32_MAX);

    if (!seal->done) {
        seal->shake_bytes += bytes.len;
        if (seal->shake_bytes > SHAKE_BYTES_MAX) {
            return fail_limit(seal, "the TLS handshake of the peer is too long");
        }
    }
    ASSERT(BIO_write(seal->in, bytes.data, (int)bytes.len) == (int)bytes.len);
    return ERR_OK;
}

/* Parses what NAME_FORMAT has written. */
static void take_caller(struct seal *seal)
{
    const char *name = SSL_get_servername(seal->ssl, TLSEXT_NAMETYPE_host_name);
    char *end = NULL;
    unsigned long id = name ? strtoul(name, &end, 10) : 0;

    if (!seal->dials && name && end != name && !strncmp(end, ".dials.", 7) && id <= UINT32_MAX) {
        seal->caller = (uint32_t)id;
    }
}

enum err seal_shake(struct seal *seal)
{
    ASSERT(!seal->done);

    ERR_clear_error();

    int result = SSL_do_handshake(seal->ssl);

    take_caller(seal);
    if (result == 1) {
        seal->done = true;
        return ERR_OK;
    }
    if (SSL_get_error(seal->ssl, result) == SSL_ERROR_WANT_READ) {
        return ERR_BUSY;
    }
    explain(seal);
    return ERR_FORMAT;
}

enum err seal_read(struct seal *seal, struct buf *to)
{
    ASSERT(seal->done);

    for (;;) {
        uint8_t *room = buf_reserve(to, READ_BYTES);
        size_t got = 0;

        ASSERT(room);
        ERR_clear_error();
        if (SSL_read_ex(seal->ssl, room, READ_BYTES, &got) == 1) {
            to->len += got;
            seal->credit = min_u64(seal->credit + got, CREDIT_MAX);
            continue;
        }
        if (seal->flooded) {
            return fail_limit(seal, "the peer renews its keys without end");
        }
        switch (SSL_get_error(seal->ssl, 0)) {
        case SSL_ERROR_WANT_READ:
            return seal_pending(seal).len > (size_t)2 * SEAL_AHEAD_MAX
                       ? fail_limit(seal, "the peer asks for new keys, and reads no answer")
                       : ERR_OK;
        case SSL_ERROR_ZERO_RETURN:
            return ERR_CLOSED;
        default:
            explain(seal);
            return ERR_FORMAT;
        }
    }
}

/* Seals one record, with a new key if the last one has sealed enough. Returns how many bytes it
 * took; 0: TLS has failed. */
static size_t write_record(struct seal *seal, struct slice bytes)
{
    size_t written = 0;

    if (seal->records >= seal->records_per_key) {
        seal->records = 0;
        if (SSL_key_update(seal->ssl, SSL_KEY_UPDATE_NOT_REQUESTED) != 1) {
            explain(seal);
            return 0;
        }
    }
    if (SSL_write_ex(seal->ssl, bytes.data, bytes.len, &written) != 1) {
        if (SSL_get_error(seal->ssl, 0) == SSL_ERROR_WANT_READ) {
            (void)fail_limit(seal, "the peer has stopped in the middle of a message of TLS");
        } else {
            explain(seal);
        }
        return 0;
    }
    ASSERT(written <= READ_BYTES); /* SSL_MODE_ENABLE_PARTIAL_WRITE: one record. */
    seal->records++;
    return written;
}

size_t seal_write(struct seal *seal, struct slice bytes)
{
    size_t taken = 0;
    size_t written = 1;

    ASSERT(seal->done && bytes.len > 0 && seal_pending(seal).len == 0);
    ERR_clear_error();
    while (taken < bytes.len && taken < SEAL_AHEAD_MAX && written > 0) {
        size_t len = min_size(bytes.len - taken, SEAL_AHEAD_MAX - taken);

        written = write_record(seal, slice_make(bytes.data + taken, len));
        taken += written;
    }
    return taken;
}

/* ---- What the handshake has shown. ---- */

enum keys_seal seal_kind(const struct seal *seal)
{
    if (!seal || !seal->done) {
        return KEYS_SEAL_NO;
    }
    return SSL_session_reused(seal->ssl) ? KEYS_SEAL_PSK : KEYS_SEAL_CERTIFICATE;
}

uint32_t seal_secret(const struct seal *seal)
{
    ASSERT(seal_kind(seal) == KEYS_SEAL_PSK);

    return seal->secret;
}

uint32_t seal_caller(const struct seal *seal)
{
    return seal->caller;
}

void seal_channel(struct seal *seal, uint8_t out[CRYPTO_SHA256_LEN])
{
    ASSERT(seal->done);

    ASSERT(SSL_export_keying_material(seal->ssl, out, CRYPTO_SHA256_LEN, exporter_label,
                                      strlen(exporter_label), NULL, 0, 0) == 1);
}

bool seal_is_of(struct seal *seal, uint32_t id, const char *const hosts[2],
                const char *const ensembles[2], char why[SEAL_WHY_MAX])
{
    if (seal_kind(seal) != KEYS_SEAL_CERTIFICATE) {
        return true;
    }

    struct certificate_claim claim = {
        .id = id, .hosts = {hosts[0], hosts[1]}, .ensembles = {ensembles[0], ensembles[1]}};
    X509 *certificate = SSL_get1_peer_certificate(seal->ssl);

    if (!certificate) {
        (void)snprintf(why, SEAL_WHY_MAX, "the peer gives no certificate");
        return false;
    }

    bool fits = certificate_fits(certificate, &claim, why, SEAL_WHY_MAX);

    X509_free(certificate);
    return fits;
}

bool seal_is_trusted(struct seal *seal, const struct keys *keys)
{
    return seal_kind(seal) != KEYS_SEAL_CERTIFICATE || certificate_is_trusted(keys, seal->ssl);
}
