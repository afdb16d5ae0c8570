/*
 * failure.h - why a handshake or a connection has failed, as one sentence for the log and one label
 * for the metrics.
 */
#ifndef TLS_FAILURE_H
#define TLS_FAILURE_H

#include <stddef.h>

/* X(symbol, label of the metric, sentence about the client) */
#define TLS_FAILURES(X)                                                                          \
    X(NONE, "none", "the handshake has succeeded")                                               \
    X(PLAIN, "plain_bytes", "the client sent bytes that are not TLS")                            \
    X(VERSION, "version", "the client offers no version of TLS from 1.2 on")                     \
    X(CIPHER, "cipher", "the client offers no cipher or key exchange that this replica accepts") \
    X(PROTOCOL, "protocol",                                                                      \
      "the client offers by ALPN only protocols other than http/1.1, such as h2")                \
    X(NO_CERTIFICATE, "no_certificate",                                                          \
      "the client gave no certificate, and clientCertificates=required demands one")             \
    X(UNKNOWN_CA, "unknown_ca", "the client's certificate is not from a CA in clientCaFile")     \
    X(EXPIRED, "expired", "the client's certificate has expired")                                \
    X(NOT_YET, "not_yet_valid", "the client's certificate is not valid yet")                     \
    X(REVOKED, "revoked", "the client's certificate is in the revocation list of clientCrlFile") \
    X(CRL_OLD, "crl_expired",                                                                    \
      "a revocation list of clientCrlFile has expired or is not valid yet: replace it")          \
    X(CRL_NONE, "crl_missing",                                                                   \
      "clientCrlFile has no list of the CA that signed the client's certificate: add it")        \
    X(CERTIFICATE, "bad_certificate", "the client's certificate is not acceptable")              \
    X(RENEGOTIATION, "renegotiation", "the client asked for a renegotiation, which is refused")  \
    X(ALERT, "alert", "the client ended the handshake by an alert")                              \
    X(TRUNCATED, "truncated", "the client closed the connection in the middle of the handshake") \
    X(TIMEOUT, "timeout",                                                                        \
      "the handshake was not complete within headTimeout, or 1 s over a limit of connections")   \
    X(EVICTED, "evicted",                                                                        \
      "maxHandshakes handshakes were running, so this incomplete one was ended")                 \
    X(UNSEATED, "unseated",                                                                      \
      "the connection is over a limit, and another one needed its place before the handshake "   \
      "was complete")                                                                            \
    X(STOPPED, "stopped", "this replica is shutting down")                                       \
    X(FLOOD, "flood", "the client sent many records that carry almost no data, or key updates")  \
    X(BROKEN, "broken", "a record is damaged or breaks the protocol")

enum tls_failure {
#define X(symbol, label, text) TLS_##symbol,
    TLS_FAILURES(X)
#undef X
    TLS_FAILURE_COUNT
};

/* Y(symbol): the failures of a connection after its handshake. */
#define TLS_BREAKS(Y) Y(RENEGOTIATION) Y(FLOOD) Y(ALERT) Y(BROKEN)

const char *tls_failure_label(enum tls_failure failure);
const char *tls_failure_text(enum tls_failure failure);

enum {
    TLS_DETAIL_MAX = 160 /* Bytes of tls_failure_take's detail, with its NUL. */
};

struct ssl_st;

/* Takes the errors of the last call of OpenSSL on this thread, and clears them. `ret_detail` gets
 * OpenSSL's own words, or the name of the alert that the client sent; "" if there are none. */
enum tls_failure tls_failure_take(const struct ssl_st *ssl, char ret_detail[TLS_DETAIL_MAX]);

#endif
