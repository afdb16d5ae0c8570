#include "tests/lib/cert_weak.h"

#include "base/check.h"
#include "tests/lib/cert_kit.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>

/* In seconds since 1970. */
#define Y2020 1577836800LL
#define Y2120 4733510400LL

static void add(X509 *cert, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509_EXTENSION *extension = NULL;

    X509V3_set_ctx(&ctx, cert, cert, NULL, NULL, 0);
    extension = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    ASSERT(extension && X509_add_ext(cert, extension, -1) == 1);
    X509_EXTENSION_free(extension);
}

static void put_names(X509 *cert, const struct cert_weak *spec, const X509 *issuer)
{
    X509_NAME *name = X509_NAME_new();

    ASSERT(name && X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8,
                                              (const unsigned char *)spec->common, -1, -1, 0) == 1);
    ASSERT(X509_set_subject_name(cert, name) == 1);
    ASSERT(X509_set_issuer_name(cert, X509_get_subject_name(issuer)) == 1);
    X509_NAME_free(name);
}

static void put_extensions(X509 *cert, const struct cert_weak *spec)
{
    if (spec->names) {
        add(cert, NID_subject_alt_name, spec->names);
        add(cert, NID_ext_key_usage, "serverAuth,clientAuth");
    } else {
        add(cert, NID_basic_constraints, "critical,CA:TRUE");
        add(cert, NID_key_usage, "critical,keyCertSign,cRLSign");
        add(cert, NID_subject_key_identifier, "hash");
    }
}

static void write_pair(X509 *cert, EVP_PKEY *key, struct issue_pair *ret_pair)
{
    BIO *bio = BIO_new(BIO_s_mem());
    char *text = NULL;

    issue_init(ret_pair);
    ASSERT(bio && PEM_write_bio_X509(bio, cert) == 1);

    long len = BIO_get_mem_data(bio, &text);

    ASSERT(buf_append(&ret_pair->cert, text, (size_t)len));
    (void)BIO_reset(bio);
    ASSERT(PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) == 1);
    len = BIO_get_mem_data(bio, &text);
    ASSERT(buf_append(&ret_pair->key, text, (size_t)len));
    BIO_free(bio);
}

void cert_weak_make(const struct cert_weak *spec, const struct issue_pair *ca,
                    struct issue_pair *ret_pair)
{
    EVP_PKEY *key = spec->rsa_bits ? EVP_RSA_gen((unsigned)spec->rsa_bits) : EVP_EC_gen("P-256");
    EVP_PKEY *ca_key = ca ? cert_kit_key(ca) : NULL;
    X509 *issuer = ca ? cert_kit_cert(ca) : NULL;
    X509 *cert = X509_new();
    const EVP_MD *digest = EVP_get_digestbyname(spec->digest ? spec->digest : "SHA256");

    ASSERT(key && cert && X509_set_version(cert, X509_VERSION_3) == 1);
    ASSERT(ASN1_INTEGER_set(X509_get_serialNumber(cert), 7) == 1);
    ASSERT(ASN1_TIME_set(X509_getm_notBefore(cert), Y2020));
    ASSERT(ASN1_TIME_set(X509_getm_notAfter(cert), Y2120));
    put_names(cert, spec, issuer ? issuer : cert);
    ASSERT(X509_set_pubkey(cert, key) == 1);
    put_extensions(cert, spec);
    ASSERT(X509_sign(cert, ca ? ca_key : key, digest) > 0);
    write_pair(cert, key, ret_pair);
    X509_free(cert);
    X509_free(issuer);
    EVP_PKEY_free(ca_key);
    EVP_PKEY_free(key);
}
