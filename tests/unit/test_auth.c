/* Identities: what a client shows, and how replicas pass it on. */
#include "server/op/auth.h"
#include "server/state/txn.h"
#include "tests/lib/unit.h"

#include <stdio.h>

static void assert_text(struct slice got, const char *text)
{
    assert_true(slice_eq(got, slice_str(text)));
}

/* printf '%s' 'bob:secret' | openssl dgst -binary -sha1 | base64 */
#define BOB "bob:fyVmFCwVbTJYrznoSu1koqYEYF0="

static struct auth *with(const struct auth *old, const char *credential, const char *super)
{
    struct auth *auth = NULL;

    assert_int_equal(auth_add(old, slice_str("digest"), slice_str(credential), super, &auth),
                     ERR_OK);
    return auth;
}

TEST(a_digest_is_user_and_hash)
{
    struct auth *auth = with(NULL, "bob:secret", "");

    assert_int_equal(auth->count, 1);
    assert_text(auth->ids[0].scheme, "digest");
    assert_text(auth->ids[0].id, BOB);
    assert_false(auth->super);
    auth_unref(auth);
}

TEST(identities_add_up_and_the_old_list_stays)
{
    struct auth *first = with(NULL, "bob:secret", "");
    struct auth *second = with(first, "eve:x", "");
    struct auth *again = with(second, "bob:secret", "");

    assert_int_equal(first->count, 1);
    assert_int_equal(second->count, 2);
    assert_text(second->ids[0].id, BOB);
    assert_int_equal(again->count, 2);
    auth_unref(first);
    auth_unref(second);
    auth_unref(again);
}

TEST(the_number_of_identities_is_bounded)
{
    struct auth *auth = NULL;

    for (int i = 0; i < AUTH_IDS_MAX; i++) {
        char credential[16];
        struct auth *more;

        assert_true(snprintf(credential, sizeof(credential), "u%d:p", i) > 0);
        more = with(auth, credential, "");
        auth_unref(auth);
        auth = more;
    }
    struct auth *more = NULL;

    assert_int_equal(auth_add(auth, slice_str("digest"), slice_str("one:more"), "", &more),
                     ERR_FULL);
    assert_null(more);
    auth_unref(auth);
}

TEST(the_super_digest_makes_super)
{
    struct auth *auth = with(NULL, "bob:secret", BOB);
    struct auth *other = with(NULL, "bob:other", BOB);
    struct auth *kept = with(auth, "eve:x", BOB);

    assert_true(auth->super);
    assert_false(other->super);
    assert_true(kept->super);
    auth_unref(auth);
    auth_unref(other);
    auth_unref(kept);
}

TEST(a_malformed_identity_is_refused)
{
    static const struct {
        const char *scheme;
        const char *credential;
    } bad[] = {
        {"digest", ""},  {"digest", "nocolon"}, {"digest", ":p"},
        {"sasl", "a:b"}, {"world", "anyone"},
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct auth *auth = NULL;

        assert_int_equal(
            auth_add(NULL, slice_str(bad[i].scheme), slice_str(bad[i].credential), "", &auth),
            ERR_AUTH_FAILED);
        assert_null(auth);
    }
}

TEST(basic_is_a_digest)
{
    static const char *const good[] = {"Basic Ym9iOnNlY3JldA==", "bASIC   Ym9iOnNlY3JldA=="};
    static const char *const bad[] = {"",
                                      "Basic",
                                      "Basic ",
                                      "Basic %%%",
                                      "Basic Ym9i",
                                      "Bearer Ym9iOnNlY3JldA==",
                                      "BasicYm9iOnNl"};

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct auth *auth = NULL;

        assert_int_equal(auth_basic(NULL, slice_str(good[i]), "", &auth), ERR_OK);
        assert_text(auth->ids[0].id, BOB);
        auth_unref(auth);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct auth *auth = NULL;

        assert_int_equal(auth_basic(NULL, slice_str(bad[i]), "", &auth), ERR_AUTH_FAILED);
        assert_null(auth);
    }
}

TEST(a_principal_is_forwarded_completely)
{
    struct op_principal who = {.address = "10.1.2.3", .auth = with(NULL, "bob:secret", BOB)};
    struct op_principal got;
    struct wire_reader reader;
    struct buf bytes;

    buf_init(&bytes, 4096);
    principal_encode(&who, &bytes);
    wire_reader_init(&reader, buf_slice(&bytes));
    assert_int_equal(principal_decode(&reader, &got), ERR_OK);
    assert_true(wire_reader_done(&reader));
    assert_string_equal(got.address, "10.1.2.3");
    assert_true(got.auth->super);
    assert_text(got.auth->ids[0].id, BOB);
    assert_text(principal_scope(&got), BOB);
    principal_release(&got);

    /* Cut anywhere it is refused, and no memory leaks. */
    for (size_t len = 0; len < bytes.len; len++) {
        wire_reader_init(&reader, slice_make(bytes.data, len));
        assert_int_equal(principal_decode(&reader, &got), ERR_FORMAT);
    }
    principal_release(&who);
    buf_release(&bytes);
}

TEST(an_anonymous_client_has_no_scope)
{
    struct op_principal who = {.address = "::1"};
    struct op_principal got;
    struct wire_reader reader;
    struct buf bytes;

    buf_init(&bytes, 4096);
    principal_encode(&who, &bytes);
    wire_reader_init(&reader, buf_slice(&bytes));
    assert_int_equal(principal_decode(&reader, &got), ERR_OK);
    assert_null(got.auth);
    assert_int_equal(principal_scope(&got).len, 0);
    buf_release(&bytes);
}

static bool is_from(const struct auth *auth, const char *address, struct slice from)
{
    struct op_principal who = {.auth = (struct auth *)(uintptr_t)auth};

    (void)snprintf(who.address, sizeof(who.address), "%s", address);
    return principal_is_from(&who, from);
}

/* The creator of a session is recognised by its address or by an identity that it has shown. */
TEST(the_creator_of_a_session_is_recognised)
{
    struct op_principal bob = {.address = "10.0.0.7", .auth = with(NULL, "bob:secret", "")};
    struct op_principal anonymous = {.address = "10.0.0.7"};
    struct auth *other = with(NULL, "bob:other", "");
    struct auth *both = with(other, "bob:secret", "");
    struct buf from;

    buf_init(&from, 200);
    principal_from(&bob, &from);
    assert_string_equal(buf_cstr(&from), "10.0.0.7 digest:" BOB);
    assert_text(principal_from_address(buf_slice(&from)), "10.0.0.7");
    assert_text(principal_from_identity(buf_slice(&from)), "digest:bob");
    assert_true(is_from(bob.auth, "::1", buf_slice(&from)));
    assert_true(is_from(both, "::1", buf_slice(&from)));
    assert_false(is_from(other, "10.0.0.7", buf_slice(&from))); /* The same name is not enough. */
    assert_false(is_from(NULL, "10.0.0.7", buf_slice(&from)));
    buf_clear(&from);
    principal_from(&anonymous, &from);
    assert_string_equal(buf_cstr(&from), "10.0.0.7");
    assert_int_equal(principal_from_identity(buf_slice(&from)).len, 0);
    assert_true(is_from(NULL, "10.0.0.7", buf_slice(&from)));
    assert_true(is_from(bob.auth, "10.0.0.7", buf_slice(&from)));
    assert_false(is_from(bob.auth, "10.0.0.8", buf_slice(&from)));
    buf_release(&from);
    principal_release(&bob);
    auth_unref(other);
    auth_unref(both);
}

/* The longest address and name fit into a session's record. */
TEST(a_long_name_is_cut_and_still_recognised)
{
    char credential[AUTH_CREDENTIAL_MAX];
    struct op_principal who = {.auth = NULL};
    struct buf from;

    memset(credential, 'n', sizeof(credential) - 4);
    (void)snprintf(credential + sizeof(credential) - 4, 4, ":pw");
    who.auth = with(NULL, credential, "");
    (void)snprintf(who.address, sizeof(who.address), "%s",
                   "ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255");
    buf_init(&from, TXN_FROM_MAX);
    principal_from(&who, &from);
    assert_false(from.overflow);
    assert_int_equal(principal_from_identity(buf_slice(&from)).len,
                     strlen("digest:") + PRINCIPAL_NAME_MAX);
    assert_true(principal_is_from(&who, buf_slice(&from)));
    buf_release(&from);
    principal_release(&who);
}

/* ---- Certificates ---- */

TEST(a_certificate_is_an_identity_of_its_own)
{
    struct auth *bob = auth_certificate("CN=bob,O=Example", "CN=root");
    struct auth *root = auth_certificate("CN=root", "CN=root");
    struct auth *without_super = auth_certificate("CN=root", "");
    struct auth *both = NULL;

    assert_int_equal(bob->count, 1);
    assert_text(bob->ids[0].scheme, "x509");
    assert_text(bob->ids[0].id, "CN=bob,O=Example");
    assert_false(bob->super || without_super->super);
    assert_true(root->super);
    /* Ym9iOnNlY3JldA== is bob:secret. */
    assert_int_equal(auth_basic(root, slice_str("Basic Ym9iOnNlY3JldA=="), "", &both), ERR_OK);
    assert_int_equal(both->count, 2);
    assert_text(both->ids[0].scheme, "x509");
    assert_text(both->ids[1].id, BOB);
    assert_true(both->super);
    auth_unref(bob);
    auth_unref(root);
    auth_unref(without_super);
    auth_unref(both);
}

/* No password makes an identity by certificate, whatever the user is called. */
TEST(no_credential_makes_a_certificate)
{
    struct auth *auth = NULL;

    assert_int_equal(auth_add(NULL, slice_str("x509"), slice_str("CN=bob"), "", &auth),
                     ERR_AUTH_FAILED);
    auth = with(NULL, "CN=root:pw", "");
    assert_text(auth->ids[0].scheme, "digest");
    assert_false(auth->super);
    auth_unref(auth);
}

/* Two long subjects of one authority often begin alike. */
/* A user may be named like a scheme and a subject: the scopes differ all the same, as no name of a
 * user has a NUL. */
TEST(a_user_cannot_take_the_scope_of_a_certificate)
{
    char subject[128];
    struct op_principal user = {.address = "10.0.0.7"};
    struct op_principal owner = {.address = "10.0.0.8"};

    assert_int_equal(auth_add(NULL, slice_str("digest"), slice_str("x509CN=a:pw"), "", &user.auth),
                     ERR_OK);
    (void)snprintf(subject, sizeof(subject), "%.*s", (int)user.auth->ids[0].id.len - 4,
                   (const char *)user.auth->ids[0].id.data + 4);
    assert_int_equal(strncmp(subject, "CN=a:", 5), 0);
    owner.auth = auth_certificate(subject, "");
    assert_false(slice_eq(principal_scope(&user), principal_scope(&owner)));
    assert_text(principal_scope(&user), "x509CN=a:5mbQvAxNj9VKn3qAdyr3ZHha++c=");
    principal_release(&user);
    principal_release(&owner);
}

TEST(the_creator_of_a_session_is_recognised_by_certificate)
{
    struct op_principal one = {.address = "10.0.0.7",
                               .auth = auth_certificate("OU=Services of the company,CN=one", "")};
    struct auth *two = auth_certificate("OU=Services of the company,CN=two", "");
    struct buf from;

    buf_init(&from, TXN_FROM_MAX);
    principal_from(&one, &from);
    assert_false(from.overflow);
    assert_text(principal_from_identity(buf_slice(&from)), "x509:OU=Services of the compa");
    assert_true(is_from(one.auth, "::1", buf_slice(&from)));
    assert_false(is_from(two, "10.0.0.7", buf_slice(&from)));
    assert_false(is_from(NULL, "10.0.0.7", buf_slice(&from)));
    assert_true(slice_eq(principal_scope(&one),
                         slice_make("x509\0OU=Services of the company,CN=one",
                                    sizeof("x509\0OU=Services of the company,CN=one") - 1)));
    buf_release(&from);
    principal_release(&one);
    auth_unref(two);
}
