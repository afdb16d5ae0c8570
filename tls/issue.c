#include "tls/issue.h"

#include "tls/pem.h"

#include "base/check.h"
#include "base/minmax.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdio.h>

enum {
    LABEL_MAX = 63,
    SERIAL_LEN = 20,
    ADDRESS_MAX = 16, /* Bytes of an IPv6 address. */
    WILD_LABELS = 3,  /* "*.example.org": a wildcard for all of a top level is refused. */
    URI_MAX = 1024,
    WHY_MAX = 128
};

#define REFUSE(error, ...) ((void)snprintf(error, ISSUE_ERROR_MAX, __VA_ARGS__), false)

/* What a certificate may be used for. */
static const struct {
    const char *basic;
    const char *key_usage;
    const char *purposes; /* NULL: no list. */
} uses[] = {
    [ISSUE_CA] = {"critical,CA:TRUE,pathlen:0", "critical,keyCertSign,cRLSign", NULL},
    [ISSUE_SERVER] = {"critical,CA:FALSE", "critical,digitalSignature", "serverAuth"},
    [ISSUE_CLIENT] = {"critical,CA:FALSE", "critical,digitalSignature", "clientAuth"},
    [ISSUE_PEER] = {"critical,CA:FALSE", "critical,digitalSignature", "serverAuth,clientAuth"},
};

void issue_init(struct issue_pair *pair)
{
    buf_init(&pair->cert, ISSUE_PEM_MAX);
    buf_init(&pair->key, ISSUE_PEM_MAX);
}

void issue_release(struct issue_pair *pair)
{
    if (pair->key.data) {
        explicit_bzero(pair->key.data, pair->key.cap);
    }
    buf_release(&pair->cert);
    buf_release(&pair->key);
}

/* ---- Names ---- */

enum name_kind {
    NAME_WRONG,
    NAME_DNS,
    NAME_ADDRESS,
    NAME_MAIL
};

struct name {
    enum name_kind kind;
    char text[ISSUE_NAME_MAX + 1];
    uint8_t address[ADDRESS_MAX];
    int address_len;
};

static bool is_alnum(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9');
}

/* Returns why the label of a host name is wrong, or NULL. */
static const char *label_fault(const char *label, size_t len)
{
    if (len == 0) {
        return "has an empty label: two dots in a row, or a dot at an end";
    }
    if (len > LABEL_MAX) {
        return "has a label of more than 63 bytes";
    }
    if (label[0] == '-' || label[len - 1] == '-') {
        return "has a label that begins or ends with \"-\"";
    }
    for (size_t i = 0; i < len; i++) {
        if (label[i] == '*') {
            return "has a wildcard that is not the whole first label, as in *.example.org";
        }
        if (!is_alnum(label[i]) && label[i] != '-') {
            return "has a character that no host name has; write letters, digits, \"-\" and dots "
                   "(other scripts in their xn-- form)";
        }
    }
    return NULL;
}

static bool is_number(const char *text, size_t len)
{
    return len > 0 && strspn(text, "0123456789") >= len;
}

/* Returns why the text is no DNS name, or NULL. */
static const char *host_fault(const char *text)
{
    bool wild = strncmp(text, "*.", 2) == 0;
    int labels = wild ? 1 : 0;
    const char *at = wild ? text + 2 : text;
    size_t len = 0;

    for (;; at += len + 1) {
        len = strcspn(at, ".");

        const char *fault = label_fault(at, len);

        if (fault) {
            return fault;
        }
        labels++;
        if (at[len] == '\0') {
            break;
        }
    }
    if (is_number(at, len)) {
        return "is not an IP address, and no host name ends in a number";
    }
    return wild && labels < WILD_LABELS ? "has a wildcard for a whole top-level domain" : NULL;
}

static const char *mail_fault(const char *text)
{
    const char *at = strrchr(text, '@');

    for (const char *byte = text; byte < at; byte++) {
        if (!is_alnum(*byte) && !strchr("._+-", *byte)) {
            return "has a character before the \"@\" that is none of letters, digits and \"._+-\"";
        }
    }
    return at == text ? "has nothing before the \"@\"" : host_fault(at + 1);
}

/* Reads an IP address. Returns false when the text is none. */
static bool take_address(struct name *name)
{
    bool six = strchr(name->text, ':') != NULL;

    name->address_len = six ? ADDRESS_MAX : (int)sizeof(struct in_addr);
    return inet_pton(six ? AF_INET6 : AF_INET, name->text, name->address) == 1;
}

static const char *name_fault(struct name *name, enum issue_kind kind)
{
    if (strpbrk(name->text, " \t\r\n")) {
        return "has a blank; separate names by commas alone";
    }
    if (take_address(name)) {
        name->kind = NAME_ADDRESS;
        return NULL;
    }
    if (strchr(name->text, '/') || strchr(name->text, '[')) {
        return "is not a name or an address alone; leave out scheme, brackets and port";
    }
    if (strchr(name->text, ':')) {
        return "is not an IPv6 address, and a name has no port";
    }
    if (strchr(name->text, '@')) {
        name->kind = NAME_MAIL;
        return kind == ISSUE_CLIENT ? mail_fault(name->text)
                                    : "is a mail address, which only a client's certificate has";
    }
    name->kind = NAME_DNS;
    return host_fault(name->text);
}

/* Takes the next name of a list. Returns false with a sentence in `error`. */
static bool take_name(struct slice *rest, enum issue_kind kind, struct name *name,
                      char error[ISSUE_ERROR_MAX])
{
    struct slice text = slice_cut(rest, ',');

    if (text.len == 0) {
        return REFUSE(error, "the list of names has an empty item; remove the comma");
    }
    if (text.len > ISSUE_NAME_MAX) {
        return REFUSE(error, "the name \"%.40s...\" is longer than %d bytes",
                      (const char *)text.data, (int)ISSUE_NAME_MAX);
    }
    *name = (struct name){.kind = NAME_WRONG};
    memcpy(name->text, text.data, text.len);

    const char *fault = name_fault(name, kind);

    return !fault || REFUSE(error, "the name \"%s\" %s", name->text, fault);
}

/* Whether the text can stand in the list of names behind it: no name is twice. */
static bool is_twice(const char *names, size_t before, const struct name *name)
{
    struct slice rest = slice_make(names, before);

    while (rest.len > 0) {
        struct slice other = slice_cut(&rest, ',');

        if (other.len == strlen(name->text) &&
            strncasecmp((const char *)other.data, name->text, other.len) == 0) {
            return true;
        }
    }
    return false;
}

static GENERAL_NAME *general_name(const struct name *name)
{
    static const int types[] = {
        [NAME_DNS] = GEN_DNS, [NAME_ADDRESS] = GEN_IPADD, [NAME_MAIL] = GEN_EMAIL};
    GENERAL_NAME *general = GENERAL_NAME_new();
    bool is_address = name->kind == NAME_ADDRESS;
    ASN1_STRING *value = ASN1_STRING_type_new(is_address ? V_ASN1_OCTET_STRING : V_ASN1_IA5STRING);

    ASSERT(general && value);
    ASSERT(ASN1_STRING_set(value, is_address ? (const void *)name->address : name->text,
                           is_address ? name->address_len : -1) == 1);
    GENERAL_NAME_set0_value(general, types[name->kind], value);
    return general;
}

/* Reads the list of names; each goes to `ret_names`, if that is given. */
static bool take_names(const struct issue_request *request, GENERAL_NAMES *ret_names,
                       char error[ISSUE_ERROR_MAX])
{
    const char *list = request->names ? request->names : "";
    struct slice rest = slice_str(list);
    size_t list_len = rest.len;
    bool more = list_len > 0;
    struct name name;

    for (int count = 0; more; count++) {
        size_t before = list_len - rest.len;

        more = slice_find(rest, ',') < rest.len;
        if (count == ISSUE_NAMES_MAX) {
            return REFUSE(error, "a certificate has at most %d names", (int)ISSUE_NAMES_MAX);
        }
        if (!take_name(&rest, request->kind, &name, error)) {
            return false;
        }
        if (is_twice(list, before, &name)) {
            return REFUSE(error, "the name \"%s\" is in the list twice", name.text);
        }
        if (ret_names) {
            ASSERT(sk_GENERAL_NAME_push(ret_names, general_name(&name)) > 0);
        }
    }
    return true;
}

static const char *common_fault(const char *common)
{
    size_t len = strlen(common);

    if (len == 0) {
        return "is empty";
    }
    if (len > ISSUE_COMMON_MAX) {
        return "is longer than 64 bytes";
    }
    if (common[0] == ' ' || common[len - 1] == ' ') {
        return "begins or ends with a blank";
    }
    for (size_t i = 0; i < len; i++) {
        if (!is_alnum(common[i]) && !strchr("._-@ ", common[i])) {
            return "has a character that is none of letters, digits, blanks and \"._-@\"";
        }
    }
    return NULL;
}

static const char *uri_fault(const char *uri)
{
    static const char also[] = "-._~:/@%+";

    if (strlen(uri) > URI_MAX) {
        return "is longer than 1024 bytes";
    }
    for (const char *at = uri; *at; at++) {
        if (!is_alnum(*at) && !strchr(also, *at)) {
            return "has a character that is none of letters, digits and \"-._~:/@%+\"";
        }
    }
    return strstr(uri, "://") ? NULL : "has no scheme, as in zabra://CLUSTER/1";
}

bool issue_check(const struct issue_request *request, char error[ISSUE_ERROR_MAX])
{
    bool serves = request->kind == ISSUE_SERVER || request->kind == ISSUE_PEER;
    bool has_names = request->names && *request->names;
    const char *fault = common_fault(request->common);

    if (fault) {
        return REFUSE(error, "the name of the certificate, \"%.80s\", %s", request->common, fault);
    }
    fault = request->uri ? uri_fault(request->uri) : NULL;
    if (fault) {
        return REFUSE(error, "the URI \"%.80s\" %s", request->uri, fault);
    }
    if (request->kind == ISSUE_CA && (has_names || request->uri)) {
        return REFUSE(error, "an authority has no names of hosts");
    }
    if (serves && !has_names && !request->uri) {
        return REFUSE(error,
                      "the certificate \"%s\" needs the names by which clients reach the "
                      "server, as in a.example,127.0.0.1",
                      request->common);
    }
    if (request->until_s <= request->from_s) {
        return REFUSE(error, "the certificate \"%s\" would end before it begins", request->common);
    }
    return take_names(request, NULL, error);
}

/* ---- Certificates ---- */

/* Adds an extension that OpenSSL writes from its text form. */
static void put_text(X509 *cert, X509 *issuer, int nid, const char *text)
{
    X509V3_CTX ctx;
    X509_EXTENSION *extension = NULL;

    X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
    extension = X509V3_EXT_conf_nid(NULL, &ctx, nid, text);
    ASSERT(extension && X509_add_ext(cert, extension, -1) == 1);
    X509_EXTENSION_free(extension);
}

static void put_names(X509 *cert, const struct issue_request *request)
{
    GENERAL_NAMES *names = sk_GENERAL_NAME_new_null();
    char error[ISSUE_ERROR_MAX];

    ASSERT(names && take_names(request, names, error));
    if (request->uri) {
        GENERAL_NAME *uri = GENERAL_NAME_new();
        ASN1_IA5STRING *value = ASN1_IA5STRING_new();

        ASSERT(uri && value && ASN1_STRING_set(value, request->uri, -1) == 1);
        GENERAL_NAME_set0_value(uri, GEN_URI, value);
        ASSERT(sk_GENERAL_NAME_push(names, uri) > 0);
    }
    if (sk_GENERAL_NAME_num(names) > 0) {
        ASSERT(X509_add1_ext_i2d(cert, NID_subject_alt_name, names, 0, 0) == 1);
    }
    sk_GENERAL_NAME_pop_free(names, GENERAL_NAME_free);
}

/* The serial number is random, so that it cannot be predicted. */
static void put_serial(X509 *cert)
{
    uint8_t bytes[SERIAL_LEN];
    BIGNUM *number = NULL;

    ASSERT(RAND_bytes(bytes, sizeof(bytes)) == 1);
    bytes[0] = (uint8_t)((bytes[0] & 0x7f) | 0x40); /* Positive, and of full length. */
    number = BN_bin2bn(bytes, sizeof(bytes), NULL);
    ASSERT(number && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(cert)));
    BN_free(number);
}

/* Makes the certificate, all but its signature. */
static X509 *make_cert(const struct issue_request *request, X509 *ca, EVP_PKEY *key)
{
    X509 *cert = X509_new();
    X509_NAME *subject = X509_NAME_new();
    X509 *issuer = ca ? ca : cert;

    ASSERT(cert && subject);
    ASSERT(X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8,
                                      (const unsigned char *)request->common, -1, -1, 0) == 1);
    ASSERT(X509_set_version(cert, X509_VERSION_3) == 1);
    put_serial(cert);
    ASSERT(X509_set_subject_name(cert, subject) == 1);
    ASSERT(X509_set_issuer_name(cert, X509_get_subject_name(issuer)) == 1);
    ASSERT(ASN1_TIME_set(X509_getm_notBefore(cert), (time_t)request->from_s));
    ASSERT(ASN1_TIME_set(X509_getm_notAfter(cert), (time_t)request->until_s));
    ASSERT(X509_set_pubkey(cert, key) == 1);
    X509_NAME_free(subject);

    put_text(cert, issuer, NID_basic_constraints, uses[request->kind].basic);
    put_text(cert, issuer, NID_key_usage, uses[request->kind].key_usage);
    if (uses[request->kind].purposes) {
        put_text(cert, issuer, NID_ext_key_usage, uses[request->kind].purposes);
    }
    put_text(cert, issuer, NID_subject_key_identifier, "hash");
    if (ca && X509_get_ext_by_NID(ca, NID_subject_key_identifier, -1) >= 0) {
        put_text(cert, issuer, NID_authority_key_identifier, "keyid:always");
    }
    put_names(cert, request);
    return cert;
}

static void put_bio(BIO *bio, struct buf *out)
{
    char *data = NULL;
    long len = BIO_get_mem_data(bio, &data);

    ASSERT(len > 0 && buf_append(out, data, (size_t)len));
    BIO_free(bio);
}

static void put_pair(X509 *cert, EVP_PKEY *key, struct issue_pair *pair)
{
    BIO *cert_bio = BIO_new(BIO_s_mem());
    BIO *key_bio = BIO_new(BIO_s_secmem());

    ASSERT(cert_bio && PEM_write_bio_X509(cert_bio, cert) == 1);
    ASSERT(key_bio && PEM_write_bio_PrivateKey(key_bio, key, NULL, NULL, 0, NULL, NULL) == 1);
    put_bio(cert_bio, &pair->cert);
    put_bio(key_bio, &pair->key);
}

static bool load_ca(const struct issue_pair *ca, X509 **ret_cert, EVP_PKEY **ret_key,
                    char error[ISSUE_ERROR_MAX])
{
    BIO *cert_bio = tls_pem_open(buf_slice(&ca->cert));
    BIO *key_bio = tls_pem_open(buf_slice(&ca->key));

    *ret_cert = PEM_read_bio_X509(cert_bio, NULL, tls_pem_no_password, NULL);
    *ret_key = PEM_read_bio_PrivateKey(key_bio, NULL, tls_pem_no_password, NULL);
    BIO_free(cert_bio);
    BIO_free(key_bio);
    ERR_clear_error();
    if (!*ret_cert) {
        return REFUSE(error, "the certificate of the authority is no certificate in PEM form");
    }
    if (!*ret_key) {
        return REFUSE(error, "the key of the authority is no key in PEM form, or has a password");
    }
    if (X509_check_ca(*ret_cert) != 1) {
        return REFUSE(error, "the certificate is not that of an authority: it may not sign others");
    }
    if (X509_check_private_key(*ret_cert, *ret_key) != 1) {
        ERR_clear_error();
        return REFUSE(error, "the key of the authority does not fit its certificate");
    }
    return true;
}

bool issue_make(const struct issue_request *request, const struct issue_pair *ca,
                struct issue_pair *pair, char error[ISSUE_ERROR_MAX])
{
    X509 *ca_cert = NULL;
    EVP_PKEY *ca_key = NULL;

    ASSERT((request->kind == ISSUE_CA) == !ca);

    bool ok = issue_check(request, error) && (!ca || load_ca(ca, &ca_cert, &ca_key, error));

    if (ok) {
        EVP_PKEY *key = EVP_EC_gen("P-256");

        ASSERT(key);

        X509 *cert = make_cert(request, ca_cert, key);

        ASSERT(X509_sign(cert, ca ? ca_key : key, EVP_sha256()) > 0);
        put_pair(cert, key, pair);
        X509_free(cert);
        EVP_PKEY_free(key);
    }
    X509_free(ca_cert);
    EVP_PKEY_free(ca_key);
    return ok;
}
