#include "tls/chain.h"

#include "tls/pem.h"

#include "base/buf.h"
#include "base/check.h"
#include "base/crypto.h"
#include "base/os_read.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    FILE_BYTES_MAX = 4 << 20,
    ISSUERS_MAX = 8,
    DATE_MAX = 32,
    SECOND_MS = 1000
};

static bool fail(struct tls_fault *fault, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool fail(struct tls_fault *fault, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(fault->text, sizeof(fault->text), format, args);
    va_end(args);
    ERR_clear_error();
    return false;
}

/* ---- Files ---- */

/* Reads the file. The caller calls os_read_release. */
static bool read_file(const struct os_source *source, struct buf *ret_bytes,
                      struct tls_fault *fault)
{
    return os_read(source, ret_bytes, fault->text, sizeof(fault->text));
}

/* ---- A chain ---- */

/* Whether all of a PEM file was read: the last error says that no further block begins. */
static bool at_end(void)
{
    unsigned long code = ERR_peek_last_error();
    bool end = ERR_GET_LIB(code) == ERR_LIB_PEM && ERR_GET_REASON(code) == PEM_R_NO_START_LINE;

    ERR_clear_error();
    return end;
}

static bool parse_chain(struct tls_chain *chain, const struct os_source *source,
                        const struct buf *bytes, struct tls_fault *fault)
{
    BIO *bio = tls_pem_open(buf_slice(bytes));
    X509 *next = NULL;
    bool end = false;

    chain->issuers = sk_X509_new_null();
    ASSERT(chain->issuers);
    ERR_clear_error();
    chain->leaf = PEM_read_bio_X509_AUX(bio, NULL, tls_pem_no_password, NULL);
    while (chain->leaf && sk_X509_num(chain->issuers) <= ISSUERS_MAX &&
           (next = PEM_read_bio_X509(bio, NULL, tls_pem_no_password, NULL)) != NULL) {
        ASSERT(sk_X509_push(chain->issuers, next) > 0);
    }
    end = at_end();
    BIO_free(bio);
    if (!chain->leaf) {
        return fail(fault,
                    "%s: %s holds no certificate in PEM form; give a file that begins with "
                    "the certificate of this replica",
                    source->key, source->path);
    }
    if (sk_X509_num(chain->issuers) > ISSUERS_MAX) {
        return fail(fault, "%s: %s has more than %d intermediate certificates; remove the others",
                    source->key, source->path, ISSUERS_MAX);
    }
    return end || fail(fault, "%s: a certificate in %s is damaged; write the file again",
                       source->key, source->path);
}

static const char *date_text(const ASN1_TIME *date, char text[DATE_MAX])
{
    struct tm tm;

    text[0] = '\0';
    if (ASN1_TIME_to_tm(date, &tm) == 1) {
        (void)snprintf(text, DATE_MAX, "%04d-%02d-%02d %02d:%02d:%02d", (tm.tm_year + 1900) % 10000,
                       (tm.tm_mon + 1) % 100, tm.tm_mday % 100, tm.tm_hour % 100, tm.tm_min % 100,
                       tm.tm_sec % 100);
    }
    return text;
}

static bool check_dates(const X509 *certificate, const struct os_source *source, const char *what,
                        struct tls_fault *fault)
{
    const ASN1_TIME *from = X509_get0_notBefore(certificate);
    const ASN1_TIME *until = X509_get0_notAfter(certificate);
    char date[DATE_MAX];

    if (X509_cmp_current_time(until) <= 0) {
        return fail(fault, "%s: %s in %s expired on %s UTC; replace it", source->key, what,
                    source->path, date_text(until, date));
    }
    if (X509_cmp_current_time(from) >= 0) {
        return fail(fault, "%s: %s in %s is not valid before %s UTC; check it and the clock",
                    source->key, what, source->path, date_text(from, date));
    }
    return true;
}

/* Lowers `*expires_ms` to this date. */
static void note_end(const ASN1_TIME *date, int64_t *expires_ms)
{
    int64_t end_ms = tls_pem_seconds(date) * SECOND_MS;

    *expires_ms = end_ms < *expires_ms ? end_ms : *expires_ms;
}

static bool check_issuers(struct tls_chain *chain, const struct os_source *source,
                          struct tls_fault *fault)
{
    X509 *before = chain->leaf;

    for (int i = 0; i < sk_X509_num(chain->issuers); i++) {
        X509 *issuer = sk_X509_value(chain->issuers, i);

        if (X509_check_issued(issuer, before) != X509_V_OK) {
            return fail(fault,
                        "%s: certificate %d in %s is not the issuer of certificate %d; put "
                        "the certificate of this replica first, then each issuer",
                        source->key, i + 2, source->path, i + 1);
        }
        if (!check_dates(issuer, source, "an intermediate certificate", fault)) {
            return false;
        }
        note_end(X509_get0_notAfter(issuer), &chain->expires_ms);
        before = issuer;
    }
    return true;
}

static bool load_leaf(struct tls_chain *chain, const char *path, struct tls_fault *fault)
{
    const struct os_source source = {
        .key = "tlsCertFile", .path = path, .bytes_max = FILE_BYTES_MAX};
    struct buf bytes;
    bool done = false;

    done = read_file(&source, &bytes, fault) && parse_chain(chain, &source, &bytes, fault);
    os_read_release(&bytes);
    if (!done || !check_dates(chain->leaf, &source, "the certificate", fault)) {
        return false;
    }
    if (X509_check_purpose(chain->leaf, X509_PURPOSE_SSL_SERVER, 0) != 1) {
        return fail(fault,
                    "tlsCertFile: the certificate in %s is not for servers; its extended key "
                    "usage must have serverAuth",
                    path);
    }
    chain->expires_ms = INT64_MAX;
    note_end(X509_get0_notAfter(chain->leaf), &chain->expires_ms);
    return check_issuers(chain, &source, fault);
}

static bool load_key(struct tls_chain *chain, const char *cert_path, const char *path,
                     struct tls_fault *fault)
{
    const struct os_source source = {
        .key = "tlsKeyFile", .path = path, .bytes_max = FILE_BYTES_MAX, .secret = true};
    struct buf bytes;
    bool done = false;

    done = read_file(&source, &bytes, fault);
    if (done) {
        BIO *bio = tls_pem_open(buf_slice(&bytes));

        chain->key = PEM_read_bio_PrivateKey(bio, NULL, tls_pem_no_password, NULL);
        BIO_free(bio);
    }
    os_read_release(&bytes);
    if (!done) {
        return false;
    }
    if (!chain->key) {
        return fail(fault,
                    "tlsKeyFile: %s holds no private key in PEM form without a password; "
                    "check the file",
                    path);
    }
    if (X509_check_private_key(chain->leaf, chain->key) != 1) {
        return fail(fault,
                    "tlsKeyFile: the key in %s does not belong to the certificate in %s; "
                    "give the key that the certificate was made with",
                    path, cert_path);
    }
    return true;
}

bool tls_chain_load(struct tls_chain *chain, const char *cert_path, const char *key_path,
                    struct tls_fault *ret_fault)
{
    bool done = false;

    *chain = (struct tls_chain){.leaf = NULL};
    done =
        load_leaf(chain, cert_path, ret_fault) && load_key(chain, cert_path, key_path, ret_fault);
    if (!done) {
        tls_chain_release(chain);
    }
    return done;
}

void tls_chain_release(struct tls_chain *chain)
{
    X509_free(chain->leaf);
    EVP_PKEY_free(chain->key);
    sk_X509_pop_free(chain->issuers, X509_free);
    *chain = (struct tls_chain){.leaf = NULL};
}

/* ---- Authorities ---- */

static bool add_ca(struct tls_trust *trust, X509 *ca, const struct os_source *source,
                   struct tls_fault *fault)
{
    X509_NAME *name = X509_NAME_dup(X509_get_subject_name(ca));

    ASSERT(name && sk_X509_NAME_push(trust->names, name) > 0);
    ASSERT(X509_STORE_add_cert(trust->store, ca) == 1);
    note_end(X509_get0_notAfter(ca), &trust->ca_expires_ms);
    trust->only_roots = trust->only_roots && X509_check_issued(ca, ca) == X509_V_OK;
    if (X509_check_ca(ca) == 0) {
        return fail(fault,
                    "%s: a certificate in %s is not that of a CA; give the certificates of "
                    "the CAs that sign clients' certificates",
                    source->key, source->path);
    }
    return check_dates(ca, source, "a CA certificate", fault);
}

static bool parse_cas(struct tls_trust *trust, const struct os_source *source,
                      const struct buf *bytes, struct tls_fault *fault)
{
    BIO *bio = tls_pem_open(buf_slice(bytes));
    X509 *ca = NULL;
    bool good = true;
    int count = 0;

    ERR_clear_error();
    while (good && (ca = PEM_read_bio_X509(bio, NULL, tls_pem_no_password, NULL)) != NULL) {
        good = add_ca(trust, ca, source, fault);
        X509_free(ca);
        count++;
    }
    BIO_free(bio);
    if (!good) {
        return false;
    }
    return (at_end() && count > 0) ||
           fail(fault, "%s: %s %s; give the CA certificates in PEM form", source->key, source->path,
                count > 0 ? "has a damaged certificate" : "holds no certificate");
}

/* A list that has expired would make all clients' certificates fail. */
static bool add_crl(struct tls_trust *trust, X509_CRL *crl, const struct os_source *source,
                    struct tls_fault *fault)
{
    const ASN1_TIME *until = X509_CRL_get0_nextUpdate(crl);
    char date[DATE_MAX];

    if (until && X509_cmp_current_time(until) <= 0) {
        return fail(fault, "%s: a revocation list in %s expired on %s UTC; replace it", source->key,
                    source->path, date_text(until, date));
    }
    ASSERT(X509_STORE_add_crl(trust->store, crl) == 1);
    if (until) {
        note_end(until, &trust->crl_expires_ms);
    }
    return true;
}

/* Whether each CA of clientCaFile is a root and has a list. Then intermediate certificates are
 * checked as well. Else that would refuse every certificate of a CA without a list, and each of an
 * intermediate CA that is trusted alone: the list that could revoke it is that of its root. */
static bool is_complete(const struct tls_trust *trust, STACK_OF(X509_CRL) * lists)
{
    for (int i = 0; trust->only_roots && i < sk_X509_NAME_num(trust->names); i++) {
        const X509_NAME *name = sk_X509_NAME_value(trust->names, i);
        bool has_list = false;

        for (int j = 0; j < sk_X509_CRL_num(lists) && !has_list; j++) {
            has_list = X509_NAME_cmp(X509_CRL_get_issuer(sk_X509_CRL_value(lists, j)), name) == 0;
        }
        if (!has_list) {
            return false;
        }
    }
    return trust->only_roots;
}

/* Reads all lists into the store and `lists`. */
static bool read_crls(struct tls_trust *trust, STACK_OF(X509_CRL) * lists,
                      const struct os_source *source, const struct buf *bytes,
                      struct tls_fault *fault)
{
    BIO *bio = tls_pem_open(buf_slice(bytes));
    X509_CRL *crl = NULL;
    bool good = true;

    ERR_clear_error();
    while (good && (crl = PEM_read_bio_X509_CRL(bio, NULL, tls_pem_no_password, NULL)) != NULL) {
        ASSERT(sk_X509_CRL_push(lists, crl) > 0);
        good = add_crl(trust, crl, source, fault);
    }
    BIO_free(bio);
    return good;
}

static bool parse_crls(struct tls_trust *trust, const struct os_source *source,
                       const struct buf *bytes, struct tls_fault *fault)
{
    STACK_OF(X509_CRL) *lists = sk_X509_CRL_new_null();
    unsigned long flags = X509_V_FLAG_CRL_CHECK;
    bool good = lists && read_crls(trust, lists, source, bytes, fault);
    int count = sk_X509_CRL_num(lists);

    flags |= is_complete(trust, lists) ? X509_V_FLAG_CRL_CHECK_ALL : 0;
    sk_X509_CRL_pop_free(lists, X509_CRL_free);
    if (!good) {
        return false;
    }
    if (!at_end() || count == 0) {
        return fail(fault, "%s: %s %s; give the revocation lists in PEM form", source->key,
                    source->path, count > 0 ? "has a damaged list" : "holds no revocation list");
    }
    ASSERT(X509_STORE_set_flags(trust->store, flags) == 1);
    return true;
}

static void digest_files(struct tls_trust *trust, const struct buf *cas, const struct buf *crls)
{
    uint8_t both[2 * CRYPTO_SHA256_LEN];

    crypto_sha256(buf_slice(cas), both);
    crypto_sha256(buf_slice(crls), both + CRYPTO_SHA256_LEN);
    crypto_sha256(slice_make(both, sizeof(both)), trust->digest);
}

bool tls_trust_load(struct tls_trust *trust, const char *ca_path, const char *crl_path,
                    struct tls_fault *ret_fault)
{
    const struct os_source ca = {
        .key = "clientCaFile", .path = ca_path, .bytes_max = FILE_BYTES_MAX};
    const struct os_source crl = {
        .key = "clientCrlFile", .path = crl_path, .bytes_max = FILE_BYTES_MAX};
    struct buf cas;
    struct buf crls;
    bool done = false;

    *trust = (struct tls_trust){.store = X509_STORE_new(),
                                .names = sk_X509_NAME_new_null(),
                                .ca_expires_ms = INT64_MAX,
                                .crl_expires_ms = INT64_MAX,
                                .only_roots = true};
    ASSERT(trust->store && trust->names);
    /* An intermediate CA may be trusted alone, without its root. */
    ASSERT(X509_STORE_set_flags(trust->store, X509_V_FLAG_PARTIAL_CHAIN) == 1);
    buf_init(&crls, 0); /* There may be none. */
    done = read_file(&ca, &cas, ret_fault) && parse_cas(trust, &ca, &cas, ret_fault);
    if (done && crl_path[0]) {
        done = read_file(&crl, &crls, ret_fault) && parse_crls(trust, &crl, &crls, ret_fault);
    }
    digest_files(trust, &cas, &crls);
    os_read_release(&cas);
    os_read_release(&crls);
    if (!done) {
        tls_trust_release(trust);
    }
    return done;
}

void tls_trust_release(struct tls_trust *trust)
{
    X509_STORE_free(trust->store);
    sk_X509_NAME_pop_free(trust->names, X509_NAME_free);
    *trust = (struct tls_trust){.store = NULL};
}
