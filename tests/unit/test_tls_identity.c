/* The text of the identity that a certificate proves. */
#include "tls/identity.h"

#include "tests/lib/unit.h"

#include <openssl/x509.h>
#include <stdio.h>
#include <string.h>

/* Writes the identity of a certificate whose subject has this common name. */
static bool identity_of_name(const char *common, char text[TLS_IDENTITY_MAX])
{
    X509 *cert = X509_new();
    X509_NAME *name = X509_NAME_new();
    bool done = false;

    assert_int_equal(X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8,
                                                (const unsigned char *)common, -1, -1, 0),
                     1);
    assert_int_equal(X509_set_subject_name(cert, name), 1);
    done = tls_identity_of(cert, TLS_SUBJECT, text);
    X509_NAME_free(name);
    X509_free(cert);
    return done;
}

/* Terminals obey U+0080 to U+009F as they obey escape sequences. */
TEST(control_characters_are_in_no_identity)
{
    static const char *const bad[] = {"a\xc2\x80",
                                      "\xc2\x9b"
                                      "31m",
                                      "a\xc2\x9f"
                                      "b"};
    char text[TLS_IDENTITY_MAX];

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        (void)snprintf(text, sizeof(text), "before");
        if (identity_of_name(bad[i], text)) {
            fail_msg("%s", text);
        }
        assert_string_equal(text, "");
    }
    assert_true(identity_of_name("J\xc3\xbcrgen\xc2\xa0\xe2\x80\x9d", text));
    assert_string_equal(text, "CN=J\xc3\xbcrgen\xc2\xa0\xe2\x80\x9d");
}
