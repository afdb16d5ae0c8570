#include "tls/inspect.h"

#include "tls/pem.h"

#include "base/check.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

enum {
    CHAIN_MAX = 16, /* Certificates of one text. */
    LEVEL = 2,      /* The security level of OpenSSL, as at a handshake: 112 bits. */
    TYPE_MAX = 32,
    YEAR_BASE = 1900
};

/* ---- Reading ---- */

/* Reads all certificates of the text, at most CHAIN_MAX. */
static STACK_OF(X509) * read_certs(struct slice pem)
{
    STACK_OF(X509) *certs = sk_X509_new_null();
    BIO *bio = tls_pem_open(pem);
    X509 *cert = NULL;

    ASSERT(certs);
    while (sk_X509_num(certs) < CHAIN_MAX &&
           (cert = PEM_read_bio_X509(bio, NULL, tls_pem_no_password, NULL))) {
        ASSERT(sk_X509_push(certs, cert) > 0);
    }
    ERR_clear_error();
    BIO_free(bio);
    return certs;
}

static EVP_PKEY *read_key(struct slice pem)
{
    BIO *bio = tls_pem_open(pem);
    EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, tls_pem_no_password, NULL);

    ERR_clear_error();
    BIO_free(bio);
    return key;
}

const char *inspect_date(int64_t time_s, char text[INSPECT_TEXT_MAX])
{
    ASN1_TIME *time = ASN1_TIME_set(NULL, (time_t)time_s);
    struct tm tm = {.tm_year = 0};

    if (time && ASN1_TIME_to_tm(time, &tm) == 1) {
        (void)snprintf(text, INSPECT_TEXT_MAX, "%04d-%02d-%02d", tm.tm_year + YEAR_BASE,
                       tm.tm_mon + 1, tm.tm_mday);
    } else {
        (void)snprintf(text, INSPECT_TEXT_MAX, "an unknown date");
    }
    ASN1_TIME_free(time);
    return text;
}

#define DATE(time_s) inspect_date(time_s, (char[INSPECT_TEXT_MAX]){0})

/* ---- Texts ---- */

/* Copies text from outside, without characters that a terminal would obey. */
static void copy_clean(const void *from, size_t len, char *text, size_t size)
{
    const uint8_t *bytes = from;
    size_t at = 0;

    for (; at < len && at + 1 < size; at++) {
        text[at] = (char)(bytes[at] >= ' ' && bytes[at] < 0x7f ? bytes[at] : '?');
    }
    text[at] = '\0';
}

static void put_subject(const X509_NAME *name, char text[INSPECT_TEXT_MAX])
{
    BIO *bio = BIO_new(BIO_s_mem());
    char *data = NULL;

    ASSERT(bio);
    (void)X509_NAME_print_ex(bio, name, 0, XN_FLAG_RFC2253);

    long len = BIO_get_mem_data(bio, &data);

    copy_clean(data, len > 0 ? (size_t)len : 0, text, INSPECT_TEXT_MAX);
    BIO_free(bio);
}

static void put_key(EVP_PKEY *key, char text[INSPECT_TEXT_MAX])
{
    char curve[TYPE_MAX] = "";

    if (key && EVP_PKEY_is_a(key, "EC") &&
        EVP_PKEY_get_group_name(key, curve, sizeof(curve), NULL) == 1) {
        bool usual = strcmp(curve, "prime256v1") == 0;

        (void)snprintf(text, INSPECT_TEXT_MAX, "ECDSA %s", usual ? "P-256" : curve);
    } else if (key) {
        (void)snprintf(text, INSPECT_TEXT_MAX, "%s %d", EVP_PKEY_get0_type_name(key),
                       EVP_PKEY_get_bits(key));
    } else {
        (void)snprintf(text, INSPECT_TEXT_MAX, "unknown");
    }
}

static void put_hex(const uint8_t *bytes, size_t len, const char *between,
                    char text[INSPECT_TEXT_MAX])
{
    size_t at = 0;

    text[0] = '\0';
    for (size_t i = 0; i < len && at + 4 < INSPECT_TEXT_MAX; i++) {
        at += (size_t)snprintf(text + at, INSPECT_TEXT_MAX - at, "%s%02X", i ? between : "",
                               bytes[i]);
    }
}

static void put_name(const GENERAL_NAME *name, struct buf *out)
{
    static const char *const kinds[] = {
        [GEN_EMAIL] = "email", [GEN_DNS] = "dns", [GEN_URI] = "uri"};
    int type = 0;
    const ASN1_STRING *value = GENERAL_NAME_get0_value(name, &type);
    char text[INSPECT_TEXT_MAX] = "";

    if (type == GEN_IPADD) {
        int len = ASN1_STRING_length(value);
        int family = len == (int)sizeof(struct in_addr) ? AF_INET : AF_INET6;
        bool sound = family == AF_INET || len == (int)sizeof(struct in6_addr);

        if (sound && inet_ntop(family, ASN1_STRING_get0_data(value), text, sizeof(text))) {
            buf_printf(out, "ip:%s\n", text);
        }
    } else if (type == GEN_EMAIL || type == GEN_DNS || type == GEN_URI) {
        copy_clean(ASN1_STRING_get0_data(value), (size_t)ASN1_STRING_length(value), text,
                   sizeof(text));
        buf_printf(out, "%s:%s\n", kinds[type], text);
    }
}

static void put_names(const X509 *x509, struct buf *out)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(x509, NID_subject_alt_name, NULL, NULL);

    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        put_name(sk_GENERAL_NAME_value(names, i), out);
    }
    GENERAL_NAMES_free(names);
    ERR_clear_error();
}

static void put_facts(X509 *x509, struct inspect_cert *cert)
{
    const ASN1_INTEGER *serial = X509_get0_serialNumber(x509);
    uint8_t digest[EVP_MAX_MD_SIZE];
    unsigned digest_len = 0;

    put_subject(X509_get_subject_name(x509), cert->subject);
    put_subject(X509_get_issuer_name(x509), cert->issuer);
    put_key(X509_get0_pubkey(x509), cert->key);
    put_hex(ASN1_STRING_get0_data(serial), (size_t)ASN1_STRING_length(serial), "", cert->serial);
    ASSERT(X509_digest(x509, EVP_sha256(), digest, &digest_len) == 1);
    put_hex(digest, digest_len, ":", cert->fingerprint);
    cert->from_s = tls_pem_seconds(X509_get0_notBefore(x509));
    cert->until_s = tls_pem_seconds(X509_get0_notAfter(x509));
    cert->is_ca = X509_check_ca(x509) == 1;
    cert->serves = !cert->is_ca && X509_check_purpose(x509, X509_PURPOSE_SSL_SERVER, 0) == 1;
    cert->asks = !cert->is_ca && X509_check_purpose(x509, X509_PURPOSE_SSL_CLIENT, 0) == 1;
    put_names(x509, &cert->names);
}

bool inspect_read(struct slice pem, struct inspect_cert *cert)
{
    STACK_OF(X509) *certs = read_certs(pem);
    bool found = sk_X509_num(certs) > 0;

    *cert = (struct inspect_cert){.is_ca = false};
    buf_init(&cert->names, INSPECT_NAMES_MAX);
    if (found) {
        put_facts(sk_X509_value(certs, 0), cert);
    }
    sk_X509_pop_free(certs, X509_free);
    return found;
}

void inspect_release(struct inspect_cert *cert)
{
    buf_release(&cert->names);
}

/* ---- Codes ---- */

enum inspect_reason inspect_reason(int code)
{
    switch (code) {
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
    case X509_V_ERR_CERT_UNTRUSTED:
        return INSPECT_UNKNOWN_CA;
    case X509_V_ERR_CERT_HAS_EXPIRED:
        return INSPECT_EXPIRED;
    case X509_V_ERR_CERT_NOT_YET_VALID:
        return INSPECT_EARLY;
    default:
        return INSPECT_OTHER;
    }
}

const char *inspect_words(int code)
{
    return X509_verify_cert_error_string(code);
}

/* ---- Checks ---- */

struct check {
    const struct inspect_question *question;
    inspect_say *say;
    void *ctx;
    int errors;
    X509 *cert;
    struct inspect_cert facts;
};

static void fault(struct check *check, bool error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void fault(struct check *check, bool error, const char *format, ...)
{
    char sentence[INSPECT_TEXT_MAX * 3];
    va_list list;

    va_start(list, format);
    (void)vsnprintf(sentence, sizeof(sentence), format, list);
    va_end(list);
    check->errors += error ? 1 : 0;
    check->say(check->ctx, error, sentence);
}

static void check_dates(struct check *check, X509 *x509, const char *what)
{
    int64_t from_s = tls_pem_seconds(X509_get0_notBefore(x509));
    int64_t until_s = tls_pem_seconds(X509_get0_notAfter(x509));
    int64_t now_s = check->question->now_s;

    if (now_s < from_s) {
        fault(check, true, "the %s is not yet valid: it begins on %s; check the clock", what,
              DATE(from_s));
    } else if (now_s >= until_s) {
        fault(check, true, "the %s has expired on %s; make a new one", what, DATE(until_s));
    } else if (now_s >= until_s - INSPECT_AHEAD_S) {
        fault(check, false, "the %s expires on %s, in %d days; make a new one", what, DATE(until_s),
              (int)((until_s - now_s) / INSPECT_DAY_S));
    }
}

static void check_key(struct check *check)
{
    EVP_PKEY *key = read_key(check->question->key);

    if (!key) {
        fault(check, true, "the key is no private key in PEM form, or has a password");
    } else if (X509_check_private_key(check->cert, key) != 1) {
        fault(check, true,
              "the key does not fit the certificate; name the two that were made "
              "together");
    }
    EVP_PKEY_free(key);
    ERR_clear_error();
}

static void report_chain(struct check *check, int error)
{
    const char *issuer = check->facts.issuer;

    switch (error) {
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
        fault(check, true, "the authority did not sign the certificate, whose issuer is %s",
              issuer);
        break;
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
        fault(check, true,
              "the certificate signs itself, or its authority does, and it is not the given "
              "authority");
        break;
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
        fault(check, true,
              "the signature is not of the given authority, though its name is the issuer, %s; an "
              "authority was made twice under one name",
              issuer);
        break;
    case X509_V_ERR_EE_KEY_TOO_SMALL:
    case X509_V_ERR_CA_KEY_TOO_SMALL:
    case X509_V_ERR_CA_MD_TOO_WEAK:
        fault(check, true, "a key or a signature of the chain is too weak (%s)",
              X509_verify_cert_error_string(error));
        break;
    default:
        fault(check, true, "the chain does not verify: %s", X509_verify_cert_error_string(error));
        break;
    }
}

/* Checks that the certificate, with the intermediate ones behind it, leads to an authority. The
 * dates are checked apart, so that they hide no other fault. */
static void check_chain(struct check *check, STACK_OF(X509) * certs)
{
    STACK_OF(X509) *roots = read_certs(check->question->ca);
    X509_STORE *store = X509_STORE_new();
    X509_STORE_CTX *ctx = X509_STORE_CTX_new();

    ASSERT(store && ctx);
    for (int i = 0; i < sk_X509_num(roots); i++) {
        X509 *root = sk_X509_value(roots, i);

        (void)X509_STORE_add_cert(store, root);
        check_dates(check, root, "certificate of the authority");
        if (X509_check_ca(root) != 1) {
            fault(check, true, "the certificate of the authority is none: it may not sign others");
        }
    }
    ASSERT(X509_STORE_CTX_init(ctx, store, check->cert, certs) == 1);
    X509_STORE_CTX_set_flags(ctx, X509_V_FLAG_NO_CHECK_TIME);
    X509_VERIFY_PARAM_set_auth_level(X509_STORE_CTX_get0_param(ctx), LEVEL);
    if (sk_X509_num(roots) == 0) {
        fault(check, true, "the file of the authority has no certificate in PEM form");
    } else if (X509_verify_cert(ctx) != 1) {
        report_chain(check, X509_STORE_CTX_get_error(ctx));
    }
    X509_STORE_CTX_free(ctx);
    X509_STORE_free(store);
    sk_X509_pop_free(roots, X509_free);
    ERR_clear_error();
}

static bool fits_host(X509 *cert, const char *host)
{
    int fits = X509_check_ip_asc(cert, host, 0);

    return (fits == -2 ? X509_check_host(cert, host, 0, 0, NULL) : fits) == 1; /* -2: no address. */
}

/* Writes the names on one line. */
static const char *list_names(const struct check *check, char text[INSPECT_TEXT_MAX])
{
    struct slice rest = buf_slice(&check->facts.names);
    size_t at = 0;

    (void)snprintf(text, INSPECT_TEXT_MAX, "no host");
    while (rest.len > 0 && at < INSPECT_TEXT_MAX) {
        struct slice line = slice_cut(&rest, '\n');
        struct slice name = slice_from(line, slice_find(line, ':') + 1);

        at += (size_t)snprintf(text + at, INSPECT_TEXT_MAX - at, "%s%.*s", at ? ", " : "",
                               (int)name.len, (const char *)name.data);
    }
    return text;
}

static bool has_uri(const struct check *check, const char *uri)
{
    struct slice rest = buf_slice(&check->facts.names);

    while (rest.len > 0) {
        struct slice line = slice_cut(&rest, '\n');

        if (slice_starts_with(line, slice_str("uri:")) &&
            slice_eq(slice_from(line, strlen("uri:")), slice_str(uri))) {
            return true;
        }
    }
    return false;
}

static void check_names(struct check *check)
{
    const struct inspect_question *question = check->question;
    char names[INSPECT_TEXT_MAX];

    if (question->serves && check->facts.names.len == 0) {
        fault(check, true, "the certificate has no names of hosts (SAN): every client refuses it");
    } else if (question->host && !fits_host(check->cert, question->host)) {
        fault(check, true, "the certificate is for %s, not for %s", list_names(check, names),
              question->host);
    }
    if (question->uri && !has_uri(check, question->uri)) {
        fault(check, true, "the certificate is for %s, not for %s", list_names(check, names),
              question->uri);
    }
}

static void check_purpose(struct check *check)
{
    const struct inspect_question *question = check->question;

    if (question->serves && !check->facts.serves) {
        fault(check, true, "the certificate may not be used by a server (its purposes are others)");
    }
    if (question->asks && !check->facts.asks) {
        fault(check, true, "the certificate may not be used by a client (its purposes are others)");
    }
}

int inspect_check(const struct inspect_question *question, inspect_say *say, void *ctx)
{
    STACK_OF(X509) *certs = read_certs(question->cert);
    struct check check = {.question = question, .say = say, .ctx = ctx};

    if (sk_X509_num(certs) == 0) {
        fault(&check, true, "the file has no certificate in PEM form");
    } else {
        check.cert = sk_X509_value(certs, 0);
        (void)inspect_read(question->cert, &check.facts);
        check_dates(&check, check.cert, "certificate");
        if (question->key.len > 0) {
            check_key(&check);
        }
        if (question->ca.len > 0) {
            check_chain(&check, certs);
        }
        check_purpose(&check);
        check_names(&check);
        inspect_release(&check.facts);
    }
    sk_X509_pop_free(certs, X509_free);
    return check.errors;
}
