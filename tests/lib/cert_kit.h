/*
 * cert_kit.h - certificates for tests, made by the code that `zabra cert` uses: in memory, or as
 * files of a temporary directory.
 *
 * The dates are fixed, so that no test reads the clock: a valid certificate lasts from 2020 to
 * 2120.
 */
#ifndef TESTS_LIB_CERT_KIT_H
#define TESTS_LIB_CERT_KIT_H

#include "tls/issue.h"

#include <openssl/x509.h>

enum {
    CERT_KIT_PATH_MAX = 256
};

enum cert_kit_life {
    CERT_KIT_VALID,
    CERT_KIT_EXPIRED, /* From 2000 to 2001. */
    CERT_KIT_EARLY    /* From 2100 to 2120. */
};

struct cert_kit_spec {
    enum issue_kind kind;
    const char *common;
    const char *names; /* As in issue.h. */
    const char *uri;   /* As in issue.h. */
    enum cert_kit_life life;
};

/* Names of a server on this machine, by which it is reached in tests. */
#define CERT_KIT_LOCAL "localhost,127.0.0.1,::1"

/* Makes a certificate that `ca` signs (NULL: an authority, which signs itself). The caller calls
 * issue_release(). */
void cert_kit_make(const struct cert_kit_spec *spec, const struct issue_pair *ca,
                   struct issue_pair *ret_pair);

/* Makes a pair whose dates are given, in seconds since 1970. */
void cert_kit_make_dated(const struct issue_request *request, const struct issue_pair *ca,
                         struct issue_pair *ret_pair);

/* The certificate and the key of a pair as OpenSSL has them. The caller frees them. */
X509 *cert_kit_cert(const struct issue_pair *pair);
EVP_PKEY *cert_kit_key(const struct issue_pair *pair);

/* A temporary directory with an authority, "ca.pem" and "ca.key". */
struct cert_kit {
    char dir[CERT_KIT_PATH_MAX];
    struct issue_pair ca;
};

void cert_kit_open(struct cert_kit *kit);
void cert_kit_close(struct cert_kit *kit); /* Removes the directory with all files in it. */

/* Makes a certificate that the authority of the kit signs, as "NAME.pem" and "NAME.key". What is
 * there under this name is overwritten. */
void cert_kit_add(const struct cert_kit *kit, const char *name, const struct cert_kit_spec *spec);

/* The same for a server on this machine, and a client, without a URI. */
void cert_kit_add_server(const struct cert_kit *kit, const char *name, const char *common);
void cert_kit_add_client(const struct cert_kit *kit, const char *common);

/* Writes a pair as "NAME.pem" and "NAME.key", or any bytes as the file NAME, by a rename: a reader
 * sees the old file or the new one. */
void cert_kit_put(const struct cert_kit *kit, const char *name, const struct issue_pair *pair);
void cert_kit_write(const struct cert_kit *kit, const char *name, struct slice bytes);

/* Writes the path of a file of the directory ("server.pem") into `path`, which it returns. */
const char *cert_kit_path(const struct cert_kit *kit, const char *name,
                          char path[CERT_KIT_PATH_MAX]);

/* Path of a file, valid until the end of the block. */
#define CERT_KIT_PATH(kit, name) cert_kit_path(kit, name, (char[CERT_KIT_PATH_MAX]){0})

/* Appends a revocation list of `ca` as PEM, which revokes `revoked` (NULL: an empty list), valid as
 * long as what is valid here. */
void cert_kit_revoke(const struct issue_pair *ca, const struct issue_pair *revoked,
                     struct buf *out);

#endif
