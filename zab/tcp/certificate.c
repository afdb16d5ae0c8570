/* Certificates between replicas: reads the PEM files, and says whether a certificate names a
 * replica. */
#include "base/buf.h"
#include "base/check.h"
#include "base/os_read.h"
#include "zab/tcp/keys_int.h"

#include <inttypes.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>

enum {
    FILE_BYTES_MAX = 256 << 10,
    CHAIN_MAX = 8, /* Certificates between that of the replica and the CA. */
    CAS_MAX = 64,
    NAMES_BYTES_MAX = 96, /* Bytes of the names in a certificate that a text shows. */
    HOSTS_MAX = 136,      /* Bytes of the two hosts that a text shows. */
};

/* One of the three files, while it is read. */
struct pem {
    const char *key;  /* Configuration key. */
    const char *path; /* Value of the key. */
    BIO *bio;
};

static enum err fail(char error[KEYS_ERROR_MAX], const struct pem *pem, const char *what)
{
    (void)snprintf(error, KEYS_ERROR_MAX, "%s: %.*s %s", pem->key, KEYS_PATH_MAX, pem->path, what);
    ERR_clear_error();
    return ERR_CONFIG;
}

/* Reads the file. A private key that other users may read is refused. */
static enum err open_pem(struct pem *pem, bool is_private, char error[KEYS_ERROR_MAX])
{
    const struct os_source source = {
        .key = pem->key, .path = pem->path, .bytes_max = FILE_BYTES_MAX, .secret = is_private};
    struct buf bytes;

    if (!os_read(&source, &bytes, error, KEYS_ERROR_MAX)) {
        return ERR_CONFIG;
    }
    pem->bio = BIO_new(BIO_s_mem());
    ASSERT(pem->bio && BIO_write(pem->bio, bytes.data, (int)bytes.len) == (int)bytes.len);
    os_read_release(&bytes);
    return ERR_OK;
}

static void close_pem(struct pem *pem)
{
    BIO_free(pem->bio);
    pem->bio = NULL;
}

/* The key must not ask for a password: a replica has no terminal. */
static int no_password(char *text, /* NOLINT(readability-non-const-parameter): OpenSSL's type. */
                       int size, int is_write, void *ctx)
{
    (void)text;
    (void)size;
    (void)is_write;
    (void)ctx;
    return -1;
}

static STACK_OF(X509) * read_certificates(struct pem *pem, int most, char error[KEYS_ERROR_MAX])
{
    STACK_OF(X509) *list = NULL;

    if (open_pem(pem, false, error)) {
        return NULL;
    }
    list = sk_X509_new_null();
    ASSERT(list);

    X509 *next = NULL;

    while ((next = PEM_read_bio_X509(pem->bio, NULL, no_password, NULL))) {
        ASSERT(sk_X509_push(list, next) > 0);
    }

    bool ended = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
    int count = sk_X509_num(list);

    ERR_clear_error();
    close_pem(pem);
    if (!ended || count == 0 || count > most) {
        (void)fail(error, pem,
                   !ended       ? "holds a damaged certificate; write the file again"
                   : count == 0 ? "holds no certificate in PEM form; check the path"
                                : "holds too many certificates");
        sk_X509_pop_free(list, X509_free);
        return NULL;
    }
    return list;
}

static EVP_PKEY *read_key(struct pem *pem, char error[KEYS_ERROR_MAX])
{
    if (open_pem(pem, true, error)) {
        return NULL;
    }

    EVP_PKEY *key = PEM_read_bio_PrivateKey(pem->bio, NULL, no_password, NULL);

    close_pem(pem);
    if (!key) {
        (void)fail(error, pem,
                   "holds no private key in PEM form, or one with a password, which a replica "
                   "cannot ask for");
    }
    return key;
}

/* ---- Checks of the own certificate. ---- */

const char *certificate_fault(long result)
{
    switch (result) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
        return "has expired";
    case X509_V_ERR_CERT_NOT_YET_VALID:
        return "is not valid yet, or the clock of this machine is wrong";
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
        return "is not signed by a CA of peerCaFile";
    case X509_V_ERR_INVALID_PURPOSE:
        return "is not for TLS servers and clients both (extended key usage)";
    case X509_V_ERR_EE_KEY_TOO_SMALL:
    case X509_V_ERR_CA_KEY_TOO_SMALL:
    case X509_V_ERR_CA_MD_TOO_WEAK:
        return "has a key or a signature that is too weak: use RSA of 2048 bits or more, or ECDSA, "
               "with SHA-256";
    default:
        return X509_verify_cert_error_string(result);
    }
}

/* Returns X509_V_OK, or what is wrong. A replica dials and is dialed, so its certificate serves
 * both purposes. Keys and signatures are judged at the level of the contexts, which would not use
 * weaker ones. `flags`: X509_V_FLAG_. */
static long judge(X509_STORE *store, X509 *leaf, STACK_OF(X509) * chain, unsigned long flags)
{
    static const int purposes[] = {X509_PURPOSE_SSL_SERVER, X509_PURPOSE_SSL_CLIENT};
    long result = X509_V_OK;

    for (size_t i = 0; i < 2 && result == X509_V_OK; i++) {
        X509_STORE_CTX *context = X509_STORE_CTX_new();

        ASSERT(context && X509_STORE_CTX_init(context, store, leaf, chain) == 1);
        (void)X509_STORE_CTX_set_purpose(context, purposes[i]);
        X509_STORE_CTX_set_flags(context, flags);
        X509_VERIFY_PARAM_set_auth_level(X509_STORE_CTX_get0_param(context), KEYS_SECURITY_LEVEL);
        if (X509_verify_cert(context) != 1) {
            result = X509_STORE_CTX_get_error(context);
            result = result == X509_V_OK ? X509_V_ERR_UNSPECIFIED : result;
        }
        X509_STORE_CTX_free(context);
    }
    ERR_clear_error();
    return result;
}

static int64_t expire_s(const X509 *certificate)
{
    ASN1_TIME *epoch = ASN1_TIME_set(NULL, 0);
    int days = 0;
    int seconds = 0;

    ASSERT(epoch);
    (void)ASN1_TIME_diff(&days, &seconds, epoch, X509_get0_notAfter(certificate));
    ASN1_TIME_free(epoch);
    return (int64_t)days * 86400 + seconds;
}

/* ---- Use. ---- */

/* False: OpenSSL does not use them, for example because a certificate that follows the needed ones
 * in the file is weak. */
static bool give(SSL_CTX *context, X509_STORE *store, X509 *leaf, STACK_OF(X509) * chain,
                 EVP_PKEY *key)
{
    if (SSL_CTX_use_certificate(context, leaf) != 1 || SSL_CTX_use_PrivateKey(context, key) != 1 ||
        SSL_CTX_set1_chain(context, chain) != 1) {
        return false;
    }
    SSL_CTX_set1_cert_store(context, store);
    SSL_CTX_set_verify_depth(context, CHAIN_MAX);
    return true;
}

static enum err use_parts(struct keys *keys, STACK_OF(X509) * cas, STACK_OF(X509) * chain,
                          EVP_PKEY *key, const struct pem pems[3], char error[KEYS_ERROR_MAX])
{
    X509_STORE *store = X509_STORE_new();
    X509 *leaf = sk_X509_shift(chain);
    enum err err = ERR_OK;

    ASSERT(store && leaf);
    for (int i = 0; i < sk_X509_num(cas); i++) {
        (void)X509_STORE_add_cert(store, sk_X509_value(cas, i));
    }

    long result = judge(store, leaf, chain, 0);

    if (X509_check_private_key(leaf, key) != 1) {
        err = fail(error, &pems[1], "does not belong to the certificate in peerCertFile");
    } else if (result != X509_V_OK) {
        err = fail(error, &pems[0], certificate_fault(result));
    } else if (!give(keys->dialer, store, leaf, chain, key) ||
               !give(keys->acceptor, store, leaf, chain, key)) {
        err = fail(error, &pems[0],
                   "holds a certificate that TLS cannot use: use RSA of 2048 bits or more, or "
                   "ECDSA, with SHA-256, and leave out what is not needed up to the CA");
    } else {
        keys->has_certificate = true;
        keys->expire_s = expire_s(leaf);
    }
    X509_free(leaf);
    X509_STORE_free(store);
    return err;
}

enum err certificate_use(struct keys *keys, const struct keys_options *options,
                         char error[KEYS_ERROR_MAX])
{
    struct pem pems[3] = {{.key = "peerCertFile", .path = options->cert_file},
                          {.key = "peerKeyFile", .path = options->key_file},
                          {.key = "peerCaFile", .path = options->ca_file}};
    STACK_OF(X509) *chain = read_certificates(&pems[0], CHAIN_MAX, error);
    EVP_PKEY *key = chain ? read_key(&pems[1], error) : NULL;
    STACK_OF(X509) *cas = key ? read_certificates(&pems[2], CAS_MAX, error) : NULL;
    enum err err = cas ? use_parts(keys, cas, chain, key, pems, error) : ERR_CONFIG;

    sk_X509_pop_free(cas, X509_free);
    sk_X509_pop_free(chain, X509_free);
    EVP_PKEY_free(key);
    return err;
}

bool certificate_is_trusted(const struct keys *keys, SSL *ssl)
{
    X509 *leaf = SSL_get1_peer_certificate(ssl);
    bool trusted =
        leaf && judge(SSL_CTX_get_cert_store(keys->acceptor), leaf, SSL_get_peer_cert_chain(ssl),
                      X509_V_FLAG_NO_CHECK_TIME) == X509_V_OK;

    X509_free(leaf);
    return trusted;
}

/* ---- Names. ---- */

static struct slice text_of(const ASN1_STRING *string)
{
    return slice_make(ASN1_STRING_get0_data(string), (size_t)ASN1_STRING_length(string));
}

static bool is_uri_of(struct slice uri, const struct certificate_claim *claim)
{
    char text[KEYS_PATH_MAX];

    for (size_t i = 0; i < 2; i++) {
        const char *ensemble = claim->ensembles[i];

        if (ensemble && ensemble[0]) {
            (void)snprintf(text, sizeof(text), "zabra://%.128s/%" PRIu32, ensemble, claim->id);
            if (slice_eq(uri, slice_str(text))) {
                return true;
            }
        }
    }
    return false;
}

/* Appends a name for people; the bytes come from a certificate and may be anything. */
static void show(struct buf *out, const char *kind, struct slice name)
{
    buf_printf(out, "%s%s:", out->len > 0 ? ", " : "", kind);
    for (size_t i = 0; i < name.len && i < NAMES_BYTES_MAX; i++) {
        bool plain = name.data[i] > ' ' && name.data[i] <= '~';

        buf_append_byte(out, plain ? name.data[i] : '?');
    }
}

/* Walks over the names: returns whether a URI is that of the claim, and appends the names that are
 * text. */
static bool look_at_names(X509 *certificate, const struct certificate_claim *claim, struct buf *out)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    bool fits = false;

    for (int i = 0; names && i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);

        if (name->type == GEN_URI) {
            fits |= is_uri_of(text_of(name->d.uniformResourceIdentifier), claim);
            show(out, "URI", text_of(name->d.uniformResourceIdentifier));
        } else if (name->type == GEN_DNS) {
            show(out, "DNS", text_of(name->d.dNSName));
        } else if (name->type == GEN_IPADD) {
            show(out, "IP", slice_str("(address)"));
        }
    }
    GENERAL_NAMES_free(names);
    return fits;
}

static bool names_host(X509 *certificate, const char *host)
{
    const unsigned flags = X509_CHECK_FLAG_NO_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT;

    return X509_check_host(certificate, host, 0, flags, NULL) == 1 ||
           X509_check_ip_asc(certificate, host, 0) == 1;
}

/* Whether the certificate names one of the hosts. `shown` gets the hosts for people: "zk1",
 * "zk1 or zk4"; "": there are none. */
static bool names_a_host(X509 *certificate, const char *const hosts[2], char shown[HOSTS_MAX])
{
    bool names = false;

    shown[0] = '\0';
    for (size_t i = 0; i < 2; i++) {
        size_t len = strlen(shown);

        if (hosts[i] && hosts[i][0]) {
            names |= names_host(certificate, hosts[i]);
            (void)snprintf(shown + len, HOSTS_MAX - len, "%s%.64s", len > 0 ? " or " : "",
                           hosts[i]);
        }
    }
    return names;
}

bool certificate_fits(X509 *certificate, const struct certificate_claim *claim, char *why,
                      size_t why_size)
{
    struct buf names;

    buf_init(&names, NAMES_BYTES_MAX);

    char hosts[HOSTS_MAX];
    bool fits = look_at_names(certificate, claim, &names);

    fits |= names_a_host(certificate, claim->hosts, hosts);

    const char *shown = names.len > 0 ? buf_cstr(&names) : "none";

    if (!fits && hosts[0]) {
        (void)snprintf(why, why_size,
                       "its certificate is not one of replica %" PRIu32
                       ": the names in it (%s) do not include %s of server.%" PRIu32,
                       claim->id, shown, hosts, claim->id);
    } else if (!fits) {
        (void)snprintf(
            why, why_size,
            "its certificate is not one of replica %" PRIu32
            ": it must include zabra://ENSEMBLE/%" PRIu32 ", because %s; the names in it: %s",
            claim->id, claim->id,
            claim->hosts[0] ? "its host is unknown" : "several replicas have its host", shown);
    }
    ERR_clear_error();
    buf_release(&names);
    return fits;
}
