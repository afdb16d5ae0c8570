/*
 * inspect.h - says what is in a certificate, and everything that is wrong with it: the faults that
 * otherwise show one by one, as handshakes that fail. Any thread.
 */
#ifndef TLS_INSPECT_H
#define TLS_INSPECT_H

#include "tls/issue.h"

enum {
    INSPECT_TEXT_MAX = 512,
    INSPECT_NAMES_MAX = 16 << 10, /* Bytes of all names; what does not fit is left out. */
    INSPECT_DAY_S = 24 * 60 * 60,
    INSPECT_AHEAD_S = 14 * INSPECT_DAY_S /* So early the end of a certificate is a warning. */
};

struct inspect_cert {
    char subject[INSPECT_TEXT_MAX]; /* In the form of RFC 2253. */
    char issuer[INSPECT_TEXT_MAX];
    char serial[INSPECT_TEXT_MAX];      /* Hexadecimal digits. */
    char key[INSPECT_TEXT_MAX];         /* "ECDSA P-256" */
    char fingerprint[INSPECT_TEXT_MAX]; /* SHA-256 of the certificate: "AB:CD:..." */
    int64_t from_s;                     /* Valid from here, in seconds since 1970 ... */
    int64_t until_s;                    /* ... to here. */
    bool is_ca;
    bool serves;      /* May be a server. */
    bool asks;        /* May be a client. */
    struct buf names; /* Lines "dns:a.example", "ip:127.0.0.1", "uri:...", "email:...". */
};

/* Reads the first certificate of a PEM text. The caller calls inspect_release() in both cases.
 * Returns false when the text has none. Control characters in names are replaced by "?". */
bool inspect_read(struct slice pem, struct inspect_cert *cert);
void inspect_release(struct inspect_cert *cert);

/* What to check. */
struct inspect_question {
    struct slice cert; /* PEM; intermediate certificates may follow. */
    struct slice key;  /* PEM; empty: not checked. */
    struct slice ca;   /* PEM, one certificate or more; empty: the chain is not checked. */
    bool serves;       /* Must be fit for a server. */
    bool asks;         /* Must be fit for a client. */
    const char *host;  /* A name or an address that must fit; NULL: not checked. */
    const char *uri;   /* A URI that must be among the names; NULL: not checked. */
    int64_t now_s;
};

/* Gets each sentence about a certificate. `error`: it does not work; else a warning. */
typedef void inspect_say(void *ctx, bool error, const char *sentence);

/* Reports everything that is wrong. Returns the number of errors. */
int inspect_check(const struct inspect_question *question, inspect_say *say, void *ctx);

/* Why a certificate did not verify, by the code of OpenSSL (X509_V_ERR_...), which curl passes
 * on. inspect_words() is OpenSSL's text. */
enum inspect_reason {
    INSPECT_UNKNOWN_CA,
    INSPECT_EXPIRED,
    INSPECT_EARLY,
    INSPECT_OTHER
};

enum inspect_reason inspect_reason(int code);
const char *inspect_words(int code);

/* Writes "2026-11-22" into `text`, which it returns. */
const char *inspect_date(int64_t time_s, char text[INSPECT_TEXT_MAX]);

#endif
