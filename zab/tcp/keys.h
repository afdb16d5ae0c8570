/*
 * keys.h - what this replica proves itself with to the other replicas: the secrets of
 * peerSecretFile and the certificate of peerCertFile.
 *
 * A `struct keys` never changes: a reload makes another one (keys_load, on any thread) and gives it
 * to the transport (tcp_set_keys). Connections keep the keys with which they began. Only the core
 * thread counts references.
 */
#ifndef ZAB_TCP_KEYS_H
#define ZAB_TCP_KEYS_H

#include "base/err.h"
#include "base/slice.h"

enum {
    KEYS_SECRETS_MAX = 2, /* Two, so that a secret is replaced without a stop. */
    KEYS_ERROR_MAX = 512,
};

/* The values of peerTls, in the order of a rolling change. */
enum keys_mode {
    KEYS_OFF,      /* Dials plain, refuses TLS. */
    KEYS_ACCEPT,   /* Dials plain, accepts both. */
    KEYS_DIAL,     /* Dials TLS, accepts both. */
    KEYS_REQUIRED, /* Dials TLS, refuses plain connections. */
};

/* How a connection is sealed. */
enum keys_seal {
    KEYS_SEAL_NO,
    KEYS_SEAL_PSK, /* With a key derived from the shared secret. */
    KEYS_SEAL_CERTIFICATE,
};

struct keys;

struct keys_options {
    struct slice secrets[KEYS_SECRETS_MAX]; /* The first is used to dial, all are accepted. */
    uint32_t secret_count;
    const char *cert_file; /* PEM files; NULL or "": no certificate. */
    const char *key_file;
    const char *ca_file;
};

/* Loads the keys; reads the PEM files. On an error returns ERR_CONFIG, with one line in `error`
 * that begins with the configuration key. The caller has a reference. */
enum err keys_load(const struct keys_options *options, struct keys **ret_keys,
                   char error[KEYS_ERROR_MAX]);

struct keys *keys_share(struct keys *keys); /* Returns one more reference. */
void keys_release(struct keys *keys);       /* Accepts NULL. Wipes the secrets with the last one. */

/* Returns the secret, which is empty if there is none with this index. */
struct slice keys_secret(const struct keys *keys, uint32_t index);

/* Returns how many secrets are to be tried: at least one, which may be the empty one. */
uint32_t keys_secret_count(const struct keys *keys);

/* Whether `keys` still has the secret. The empty secret always counts as there: it is the lack of
 * one, which needs no removal. */
bool keys_have(const struct keys *keys, struct slice secret);

/* Whether replicas with these keys prove themselves to each other: by a secret, or by certificates
 * if each connection has TLS. */
bool keys_prove(const struct keys *keys, enum keys_mode mode);

/* Returns when the certificate expires, s since 1970; 0: no certificate. */
int64_t keys_expire_s(const struct keys *keys);

/* Return the name of a value in texts: "off", "accept", ...; "no", "psk", "certificate". */
const char *keys_mode_name(enum keys_mode mode);
const char *keys_seal_name(enum keys_seal seal);

#endif
