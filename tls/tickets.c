#include "tls/tickets.h"

#include "base/check.h"
#include "base/os_clock.h"
#include "base/os_rng.h"
#include "base/thread.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <string.h>

static void make_key(struct tls_ticket_key *key)
{
    os_random(key, sizeof(*key));
}

void tls_tickets_init(struct tls_tickets *tickets, uint64_t now_ms)
{
    *tickets = (struct tls_tickets){.since_ms = now_ms};
    mutex_init(&tickets->mutex);
    make_key(&tickets->current);
}

void tls_tickets_release(struct tls_tickets *tickets)
{
    mutex_destroy(&tickets->mutex);
    explicit_bzero(&tickets->current, sizeof(tickets->current));
    explicit_bzero(&tickets->previous, sizeof(tickets->previous));
}

void tls_tickets_turn(struct tls_tickets *tickets, uint64_t now_ms)
{
    MUTEX_HOLD(&tickets->mutex);

    if (now_ms < tickets->since_ms + TLS_TICKET_PERIOD_MS) {
        return;
    }
    /* After two periods without a handshake the current key is too old as well. */
    tickets->has_previous = now_ms < tickets->since_ms + 2 * (uint64_t)TLS_TICKET_PERIOD_MS;
    tickets->previous = tickets->current;
    if (!tickets->has_previous) {
        explicit_bzero(&tickets->previous, sizeof(tickets->previous));
    }
    make_key(&tickets->current);
    tickets->since_ms = now_ms;
}

/* ---- What OpenSSL calls ---- */

/* The results of a callback that opens a ticket. */
enum {
    OPEN_FAILED = -1,
    OPEN_UNKNOWN = 0, /* Also: sealing failed, no ticket is sent. */
    OPEN_DONE = 1,
    OPEN_RENEW = 2 /* Opened, and the client gets a new ticket. */
};

static bool set_mac(EVP_MAC_CTX *mac, struct tls_ticket_key *key)
{
    char digest[] = "SHA256";
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, key->mac, sizeof(key->mac)),
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_end(),
    };

    return EVP_MAC_CTX_set_params(mac, params) == 1;
}

static int seal(struct tls_ticket_key *key, uint8_t *name, uint8_t *iv, EVP_CIPHER_CTX *cipher,
                EVP_MAC_CTX *mac)
{
    const EVP_CIPHER *aes = EVP_aes_256_cbc();

    if (RAND_bytes(iv, EVP_CIPHER_get_iv_length(aes)) != 1 ||
        EVP_EncryptInit_ex(cipher, aes, NULL, key->cipher, iv) != 1 || !set_mac(mac, key)) {
        return OPEN_FAILED;
    }
    memcpy(name, key->name, sizeof(key->name));
    return OPEN_DONE;
}

static int unseal(struct tls_ticket_key *key, const uint8_t *iv, EVP_CIPHER_CTX *cipher,
                  EVP_MAC_CTX *mac)
{
    return set_mac(mac, key) &&
                   EVP_DecryptInit_ex(cipher, EVP_aes_256_cbc(), NULL, key->cipher, iv) == 1
               ? OPEN_DONE
               : OPEN_FAILED;
}

static int on_ticket(SSL *ssl, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher,
                     EVP_MAC_CTX *mac, int sealing)
{
    struct tls_tickets *tickets = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    struct tls_ticket_key current;
    struct tls_ticket_key previous;
    bool has_previous = false;
    int result = OPEN_UNKNOWN;

    tls_tickets_turn(tickets, os_now_ms());
    mutex_lock(&tickets->mutex);
    current = tickets->current;
    previous = tickets->previous;
    has_previous = tickets->has_previous;
    mutex_unlock(&tickets->mutex);
    if (sealing) {
        result = seal(&current, name, iv, cipher, mac);
    } else if (memcmp(name, current.name, sizeof(current.name)) == 0) {
        result = unseal(&current, iv, cipher, mac);
        /* A client of TLS 1.3 uses a ticket once, and needs another for the next time. */
        result = result == OPEN_DONE && SSL_version(ssl) == TLS1_3_VERSION ? OPEN_RENEW : result;
    } else if (has_previous && memcmp(name, previous.name, sizeof(previous.name)) == 0) {
        result = unseal(&previous, iv, cipher, mac) == OPEN_DONE ? OPEN_RENEW : OPEN_FAILED;
    }
    explicit_bzero(&current, sizeof(current));
    explicit_bzero(&previous, sizeof(previous));
    return result;
}

/* Ignores a ticket whose client certificate has expired meanwhile: the full handshake that follows
 * refuses the certificate. */
static SSL_TICKET_RETURN on_opened(SSL *ssl UNUSED, SSL_SESSION *session,
                                   const unsigned char *name UNUSED, size_t name_len UNUSED,
                                   SSL_TICKET_STATUS status, void *arg UNUSED)
{
    X509 *peer = NULL;

    if (status != SSL_TICKET_SUCCESS && status != SSL_TICKET_SUCCESS_RENEW) {
        return SSL_TICKET_RETURN_IGNORE_RENEW;
    }
    peer = SSL_SESSION_get0_peer(session);
    if (peer && X509_cmp_current_time(X509_get0_notAfter(peer)) <= 0) {
        return SSL_TICKET_RETURN_IGNORE_RENEW;
    }
    return status == SSL_TICKET_SUCCESS_RENEW ? SSL_TICKET_RETURN_USE_RENEW : SSL_TICKET_RETURN_USE;
}

void tls_tickets_use(struct tls_tickets *tickets, struct ssl_ctx_st *ctx)
{
    ASSERT(SSL_CTX_set_app_data(ctx, tickets) == 1);
    ASSERT(SSL_CTX_set_tlsext_ticket_key_evp_cb(ctx, on_ticket) == 1);
    ASSERT(SSL_CTX_set_session_ticket_cb(ctx, NULL, on_opened, NULL) == 1);
    SSL_CTX_set_timeout(ctx, TLS_TICKET_PERIOD_MS / 1000);
}
