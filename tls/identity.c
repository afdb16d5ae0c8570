#include "tls/identity.h"

#include "base/utf8.h"

#include <openssl/bio.h>
#include <openssl/x509v3.h>
#include <string.h>

/* Whether a control character begins here, also one of U+0080 to U+009F. `bytes` are `left`
 * bytes of valid UTF-8. */
static bool is_control(const unsigned char *bytes, long left)
{
    return bytes[0] < ' ' || bytes[0] == 0x7f || (bytes[0] == 0xc2 && left > 1 && bytes[1] < 0xa0);
}

/* Copies a name. Control characters are refused: a NUL would cut the name, so that it could pass
 * for a shorter one, and others could change what a terminal shows. */
static bool copy_name(const void *name, long len, char ret_text[TLS_IDENTITY_MAX])
{
    const unsigned char *bytes = name;

    if (len <= 0 || len >= TLS_IDENTITY_MAX || !utf8_valid(slice_make(bytes, (size_t)len))) {
        return false;
    }
    for (long i = 0; i < len; i++) {
        if (is_control(bytes + i, len - i)) {
            return false;
        }
    }
    memcpy(ret_text, bytes, (size_t)len);
    ret_text[len] = '\0';
    return true;
}

/* Letters beyond ASCII stay as they are, as in Java's RFC 2253 form, which ZooKeeper uses. */
static bool copy_subject(const X509 *certificate, char ret_text[TLS_IDENTITY_MAX])
{
    const unsigned long flags = XN_FLAG_RFC2253 & ~(unsigned long)ASN1_STRFLGS_ESC_MSB;
    BIO *out = BIO_new(BIO_s_mem());
    bool done = false;

    if (out && X509_NAME_print_ex(out, X509_get_subject_name(certificate), 0, flags) >= 0) {
        char *text = NULL;
        long len = BIO_get_mem_data(out, &text);

        done = copy_name(text, len, ret_text);
    }
    BIO_free(out);
    return done;
}

static bool copy_alternative(const X509 *certificate, int type, char ret_text[TLS_IDENTITY_MAX])
{
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    bool done = false;

    for (int i = 0; names && i < sk_GENERAL_NAME_num(names) && !done; i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);

        if (name->type == type) { /* All three kinds are IA5 strings. */
            const ASN1_STRING *text = name->d.ia5;

            done = copy_name(ASN1_STRING_get0_data(text), ASN1_STRING_length(text), ret_text);
            break;
        }
    }
    GENERAL_NAMES_free(names);
    return done;
}

bool tls_identity_of(const struct x509_st *certificate, enum tls_identity_kind kind,
                     char ret_text[TLS_IDENTITY_MAX])
{
    static const int types[] = {
        [TLS_SAN_DNS] = GEN_DNS, [TLS_SAN_URI] = GEN_URI, [TLS_SAN_EMAIL] = GEN_EMAIL};
    bool done = kind == TLS_SUBJECT ? copy_subject(certificate, ret_text)
                                    : copy_alternative(certificate, types[kind], ret_text);

    if (!done) {
        ret_text[0] = '\0';
    }
    return done;
}
