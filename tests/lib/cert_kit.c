#include "tests/lib/cert_kit.h"

#include "base/check.h"

#include <dirent.h>
#include <fcntl.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* In seconds since 1970. */
#define Y2000 946684800LL
#define Y2001 978307200LL
#define Y2020 1577836800LL
#define Y2100 4102444800LL
#define Y2120 4733510400LL

void cert_kit_make_dated(const struct issue_request *request, const struct issue_pair *ca,
                         struct issue_pair *ret_pair)
{
    char error[ISSUE_ERROR_MAX];

    issue_init(ret_pair);
    ASSERT(issue_make(request, ca, ret_pair, error));
}

void cert_kit_make(const struct cert_kit_spec *spec, const struct issue_pair *ca,
                   struct issue_pair *ret_pair)
{
    static const int64_t from_s[] = {
        [CERT_KIT_VALID] = Y2020, [CERT_KIT_EXPIRED] = Y2000, [CERT_KIT_EARLY] = Y2100};
    static const int64_t until_s[] = {
        [CERT_KIT_VALID] = Y2120, [CERT_KIT_EXPIRED] = Y2001, [CERT_KIT_EARLY] = Y2120};

    cert_kit_make_dated(&(struct issue_request){.kind = spec->kind,
                                                .common = spec->common,
                                                .names = spec->names,
                                                .uri = spec->uri,
                                                .from_s = from_s[spec->life],
                                                .until_s = until_s[spec->life]},
                        ca, ret_pair);
}

/* ---- The directory ---- */

const char *cert_kit_path(const struct cert_kit *kit, const char *name,
                          char path[CERT_KIT_PATH_MAX])
{
    ASSERT(snprintf(path, CERT_KIT_PATH_MAX, "%s/%s", kit->dir, name) < CERT_KIT_PATH_MAX);
    return path;
}

void cert_kit_write(const struct cert_kit *kit, const char *name, struct slice bytes)
{
    const char *draft = CERT_KIT_PATH(kit, "draft");
    int fd = open(draft, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    ASSERT(fd >= 0);
    ASSERT(write(fd, bytes.data, bytes.len) == (ssize_t)bytes.len);
    ASSERT(close(fd) == 0);
    ASSERT(rename(draft, CERT_KIT_PATH(kit, name)) == 0);
}

void cert_kit_put(const struct cert_kit *kit, const char *name, const struct issue_pair *pair)
{
    char file[CERT_KIT_PATH_MAX];

    (void)snprintf(file, sizeof(file), "%s.key", name);
    cert_kit_write(kit, file, buf_slice(&pair->key));
    (void)snprintf(file, sizeof(file), "%s.pem", name);
    cert_kit_write(kit, file, buf_slice(&pair->cert));
}

void cert_kit_add(const struct cert_kit *kit, const char *name, const struct cert_kit_spec *spec)
{
    struct issue_pair pair;

    cert_kit_make(spec, &kit->ca, &pair);
    cert_kit_put(kit, name, &pair);
    issue_release(&pair);
}

void cert_kit_add_server(const struct cert_kit *kit, const char *name, const char *common)
{
    const struct cert_kit_spec spec = {
        .kind = ISSUE_SERVER, .common = common, .names = CERT_KIT_LOCAL};

    cert_kit_add(kit, name, &spec);
}

void cert_kit_add_client(const struct cert_kit *kit, const char *common)
{
    const struct cert_kit_spec spec = {.kind = ISSUE_CLIENT, .common = common};

    cert_kit_add(kit, common, &spec);
}

void cert_kit_open(struct cert_kit *kit)
{
    static const struct cert_kit_spec spec = {.kind = ISSUE_CA, .common = "tests"};

    (void)snprintf(kit->dir, sizeof(kit->dir), "/tmp/zabra-certs-XXXXXX");
    ASSERT(mkdtemp(kit->dir));
    cert_kit_make(&spec, NULL, &kit->ca);
    cert_kit_put(kit, "ca", &kit->ca);
}

void cert_kit_close(struct cert_kit *kit)
{
    DIR *dir = opendir(kit->dir);
    struct dirent *entry = NULL;

    ASSERT(dir);
    while ((entry = readdir(dir))) { /* NOLINT(concurrency-mt-unsafe): our own stream. */
        (void)unlinkat(dirfd(dir), entry->d_name, 0); /* Fails for "." and "..". */
    }
    (void)closedir(dir);
    ASSERT(rmdir(kit->dir) == 0);
    issue_release(&kit->ca);
}

/* ---- Revocation ---- */

X509 *cert_kit_cert(const struct issue_pair *pair)
{
    BIO *bio = BIO_new_mem_buf(pair->cert.data, (int)pair->cert.len);
    X509 *cert = PEM_read_bio_X509(bio, NULL, NULL, NULL);

    ASSERT(cert);
    BIO_free(bio);
    return cert;
}

EVP_PKEY *cert_kit_key(const struct issue_pair *pair)
{
    BIO *bio = BIO_new_mem_buf(pair->key.data, (int)pair->key.len);
    EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL);

    ASSERT(key);
    BIO_free(bio);
    return key;
}

static void put_revoked(X509_CRL *list, const struct issue_pair *pair)
{
    X509 *cert = cert_kit_cert(pair);
    X509_REVOKED *entry = X509_REVOKED_new();
    ASN1_TIME *when = ASN1_TIME_set(NULL, Y2020);

    ASSERT(entry && when);
    ASSERT(X509_REVOKED_set_serialNumber(entry, X509_get_serialNumber(cert)) == 1);
    ASSERT(X509_REVOKED_set_revocationDate(entry, when) == 1);
    ASSERT(X509_CRL_add0_revoked(list, entry) == 1);
    ASN1_TIME_free(when);
    X509_free(cert);
}

void cert_kit_revoke(const struct issue_pair *ca, const struct issue_pair *revoked, struct buf *out)
{
    X509 *cert = cert_kit_cert(ca);
    EVP_PKEY *key = cert_kit_key(ca);
    X509_CRL *list = X509_CRL_new();
    ASN1_TIME *from = ASN1_TIME_set(NULL, Y2020);
    ASN1_TIME *until = ASN1_TIME_set(NULL, Y2120);
    BIO *pem = BIO_new(BIO_s_mem());
    char *text = NULL;

    ASSERT(list && from && until && pem);
    ASSERT(X509_CRL_set_version(list, X509_CRL_VERSION_2) == 1);
    ASSERT(X509_CRL_set_issuer_name(list, X509_get_subject_name(cert)) == 1);
    ASSERT(X509_CRL_set1_lastUpdate(list, from) == 1);
    ASSERT(X509_CRL_set1_nextUpdate(list, until) == 1);
    if (revoked) {
        put_revoked(list, revoked);
    }
    ASSERT(X509_CRL_sort(list) == 1 && X509_CRL_sign(list, key, EVP_sha256()) > 0);
    ASSERT(PEM_write_bio_X509_CRL(pem, list) == 1);

    long len = BIO_get_mem_data(pem, &text);

    ASSERT(buf_append(out, text, (size_t)len));
    BIO_free(pem);
    ASN1_TIME_free(from);
    ASN1_TIME_free(until);
    X509_CRL_free(list);
    EVP_PKEY_free(key);
    X509_free(cert);
}
