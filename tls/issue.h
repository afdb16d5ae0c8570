/*
 * issue.h - makes keys and certificates: an authority (CA), and the certificates of servers,
 * clients and replicas that it signs. Everything is in memory, as PEM texts.
 *
 * Keys are ECDSA P-256. The caller gives the dates, so that tests can make a certificate that has
 * expired. The names are checked here, because a wrong one is otherwise only found by the client
 * that refuses the certificate.
 *
 * Any thread.
 */
#ifndef TLS_ISSUE_H
#define TLS_ISSUE_H

#include "base/buf.h"

enum {
    ISSUE_NAMES_MAX = 64,     /* Names of one certificate. */
    ISSUE_NAME_MAX = 253,     /* Bytes of one name. */
    ISSUE_COMMON_MAX = 64,    /* Bytes of a common name. */
    ISSUE_PEM_MAX = 64 << 10, /* Bytes of a certificate or a key as PEM. */
    ISSUE_ERROR_MAX = 512,
    ISSUE_DAYS = 825,       /* Usual life of a certificate. */
    ISSUE_CA_DAYS = 3650,   /* Usual life of an authority. */
    ISSUE_EARLY_S = 60 * 60 /* Certificates begin so much before they are made: clocks differ. */
};

enum issue_kind {
    ISSUE_CA,
    ISSUE_SERVER,
    ISSUE_CLIENT,
    ISSUE_PEER /* A replica: server and client of other replicas. */
};

struct issue_request {
    enum issue_kind kind;
    const char *common; /* The common name: letters, digits and "._-@" with blanks within. */
    /* "a.example,*.b.example,127.0.0.1,::1"; for clients also mail addresses. "" or NULL: none,
     * which a server and a peer without `uri` may not have. */
    const char *names;
    const char *uri; /* One more name, "zabra://CLUSTER/3"; NULL: none. */
    int64_t from_s;  /* Seconds since 1970: the certificate is valid from here ... */
    int64_t until_s; /* ... to here. */
};

/* A certificate and its private key, as PEM. */
struct issue_pair {
    struct buf cert;
    struct buf key;
};

void issue_init(struct issue_pair *pair);
void issue_release(struct issue_pair *pair); /* Wipes the key. */

/* Makes a pair. `ca` signs it and must be NULL for ISSUE_CA, which signs itself, and only for it.
 * `pair` is initialised and empty. Returns false with a sentence in `error`: a name is wrong, or
 * `ca` cannot be read, is no authority, or its key does not fit. */
bool issue_make(const struct issue_request *request, const struct issue_pair *ca,
                struct issue_pair *pair, char error[ISSUE_ERROR_MAX]);

/* Checks common name, names and URI, as issue_make() does. */
bool issue_check(const struct issue_request *request, char error[ISSUE_ERROR_MAX]);

#endif
