#include "tls/failure.h"

#include "tls/inspect.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdio.h>

static const struct {
    const char *label;
    const char *text;
} failures[] = {

#define X(symbol, label, text) {label, text},
    TLS_FAILURES(X)
#undef X
};

const char *tls_failure_label(enum tls_failure failure)
{
    return failures[failure].label;
}

const char *tls_failure_text(enum tls_failure failure)
{
    return failures[failure].text;
}

static enum tls_failure of_certificate(int result)
{
    static const enum tls_failure failures_of[] = {[INSPECT_UNKNOWN_CA] = TLS_UNKNOWN_CA,
                                                   [INSPECT_EXPIRED] = TLS_EXPIRED,
                                                   [INSPECT_EARLY] = TLS_NOT_YET,
                                                   [INSPECT_OTHER] = TLS_CERTIFICATE};

    switch (result) {
    case X509_V_ERR_CERT_REVOKED:
        return TLS_REVOKED;
    case X509_V_ERR_CRL_HAS_EXPIRED:
    case X509_V_ERR_CRL_NOT_YET_VALID:
        return TLS_CRL_OLD;
    case X509_V_ERR_UNABLE_TO_GET_CRL:
        return TLS_CRL_NONE;
    default:
        return failures_of[inspect_reason(result)];
    }
}

static const struct {
    int reason;
    enum tls_failure failure;
} reasons[] = {
    {SSL_R_HTTP_REQUEST, TLS_PLAIN},
    {SSL_R_HTTPS_PROXY_REQUEST, TLS_PLAIN},
    {SSL_R_WRONG_VERSION_NUMBER, TLS_PLAIN},
    {SSL_R_UNSUPPORTED_PROTOCOL, TLS_VERSION},
    {SSL_R_UNKNOWN_PROTOCOL, TLS_VERSION},
    {SSL_R_VERSION_TOO_LOW, TLS_VERSION},
    {SSL_R_NO_PROTOCOLS_AVAILABLE, TLS_VERSION},
    {SSL_R_NO_SHARED_CIPHER, TLS_CIPHER},
    {SSL_R_NO_SHARED_GROUPS, TLS_CIPHER},
    {SSL_R_NO_SUITABLE_KEY_SHARE, TLS_CIPHER},
    {SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM, TLS_CIPHER},
    {SSL_R_NO_SHARED_SIGNATURE_ALGORITHMS, TLS_CIPHER},
    {SSL_R_NO_APPLICATION_PROTOCOL, TLS_PROTOCOL},
    {SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE, TLS_NO_CERTIFICATE},
    {SSL_R_NO_RENEGOTIATION, TLS_RENEGOTIATION},
    {SSL_R_UNEXPECTED_EOF_WHILE_READING, TLS_TRUNCATED},
};

static enum tls_failure of_reason(int reason)
{
    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
        if (reasons[i].reason == reason) {
            return reasons[i].failure;
        }
    }
    return TLS_BROKEN;
}

static enum tls_failure take(unsigned long code, const SSL *ssl, char detail[TLS_DETAIL_MAX])
{
    int reason = ERR_GET_REASON(code);
    const char *words = ERR_reason_error_string(code);

    if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED) {
        long result = SSL_get_verify_result(ssl);

        (void)snprintf(detail, TLS_DETAIL_MAX, "%s", X509_verify_cert_error_string(result));
        return of_certificate((int)result);
    }
    if (reason > SSL_AD_REASON_OFFSET) {
        (void)snprintf(detail, TLS_DETAIL_MAX, "%s",
                       SSL_alert_desc_string_long(reason - SSL_AD_REASON_OFFSET));
        return TLS_ALERT;
    }
    (void)snprintf(detail, TLS_DETAIL_MAX, "%s", words ? words : "");
    return of_reason(reason);
}

enum tls_failure tls_failure_take(const struct ssl_st *ssl, char ret_detail[TLS_DETAIL_MAX])
{
    enum tls_failure failure = TLS_BROKEN;
    unsigned long code = 0;

    ret_detail[0] = '\0';
    /* The first error is the cause. When it is none of the SSL layer, a later one may say more. */
    while ((code = ERR_get_error()) != 0) {
        if (ERR_GET_LIB(code) == ERR_LIB_SSL) {
            failure = take(code, ssl, ret_detail);
            break;
        }
    }
    ERR_clear_error();
    return failure;
}
