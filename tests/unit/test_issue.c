/* tls/issue: what is in the certificates, whether they verify, and each refusal of a name. */
#include "tests/lib/cert_kit.h"
#include "tests/lib/unit.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <sys/stat.h>

enum {
    TEXT_MAX = 4096
};

/* Verifies a certificate as OpenSSL does in a handshake. Returns X509_V_OK or the error. */
static int verify(const struct issue_pair *pair, const struct issue_pair *ca, int purpose,
                  const char *host)
{
    X509_STORE *store = X509_STORE_new();
    X509_STORE_CTX *ctx = X509_STORE_CTX_new();
    X509 *cert = cert_kit_cert(pair);
    X509 *root = cert_kit_cert(ca);

    assert_int_equal(X509_STORE_add_cert(store, root), 1);
    assert_int_equal(X509_STORE_CTX_init(ctx, store, cert, NULL), 1);
    assert_int_equal(X509_STORE_CTX_set_purpose(ctx, purpose), 1);
    X509_VERIFY_PARAM_set_auth_level(X509_STORE_CTX_get0_param(ctx), 2);
    if (host && !X509_VERIFY_PARAM_set1_ip_asc(X509_STORE_CTX_get0_param(ctx), host)) {
        X509_VERIFY_PARAM_set1_host(X509_STORE_CTX_get0_param(ctx), host, 0);
    }
    (void)X509_verify_cert(ctx);

    int error = X509_STORE_CTX_get_error(ctx);

    X509_free(cert);
    X509_free(root);
    X509_STORE_CTX_free(ctx);
    X509_STORE_free(store);
    return error;
}

static void put_text(X509 *cert, char text[TEXT_MAX])
{
    BIO *bio = BIO_new(BIO_s_mem());

    assert_int_equal(X509_print(bio, cert), 1);

    int len = BIO_read(bio, text, TEXT_MAX - 1);

    assert_true(len > 0);
    text[len] = '\0';
    BIO_free(bio);
}

struct bench {
    struct issue_pair ca;
    struct issue_pair other;
    struct issue_pair pair; /* Made by the test. */
};

static void set_up(struct bench *bench)
{
    cert_kit_make(&(struct cert_kit_spec){.kind = ISSUE_CA, .common = "one"}, NULL, &bench->ca);
    cert_kit_make(&(struct cert_kit_spec){.kind = ISSUE_CA, .common = "two"}, NULL, &bench->other);
    issue_init(&bench->pair);
}

static void tear_down(struct bench *bench)
{
    issue_release(&bench->ca);
    issue_release(&bench->other);
    issue_release(&bench->pair);
}

TEST(a_server_is_a_server_under_its_names_only, bench, set_up, tear_down)
{
    cert_kit_make(&(struct cert_kit_spec){.kind = ISSUE_SERVER,
                                          .common = "zk1",
                                          .names = "a.example,*.b.example,127.0.0.1,::1"},
                  &bench->ca, &bench->pair);
    assert_int_equal(verify(&bench->pair, &bench->ca, X509_PURPOSE_SSL_SERVER, "a.example"), 0);
    assert_int_equal(verify(&bench->pair, &bench->ca, X509_PURPOSE_SSL_SERVER, "x.b.example"), 0);
    assert_int_equal(verify(&bench->pair, &bench->ca, X509_PURPOSE_SSL_SERVER, "127.0.0.1"), 0);
    assert_int_equal(verify(&bench->pair, &bench->ca, X509_PURPOSE_SSL_SERVER, "::1"), 0);
    assert_int_equal(verify(&bench->pair, &bench->ca, X509_PURPOSE_SSL_SERVER, "b.example"),
                     X509_V_ERR_HOSTNAME_MISMATCH);
    assert_int_equal(verify(&bench->pair, &bench->ca, X509_PURPOSE_SSL_SERVER, "zk1"),
                     X509_V_ERR_HOSTNAME_MISMATCH);
    assert_int_equal(verify(&bench->pair, &bench->ca, X509_PURPOSE_SSL_SERVER, "127.0.0.2"),
                     X509_V_ERR_IP_ADDRESS_MISMATCH);
    assert_int_equal(verify(&bench->pair, &bench->ca, X509_PURPOSE_SSL_CLIENT, NULL),
                     X509_V_ERR_INVALID_PURPOSE);
    assert_int_not_equal(verify(&bench->pair, &bench->other, X509_PURPOSE_SSL_SERVER, NULL), 0);
}

TEST(a_client_is_no_server_and_a_peer_is_both, bench, set_up, tear_down)
{
    struct issue_pair client;

    cert_kit_make(&(struct cert_kit_spec){.kind = ISSUE_CLIENT, .common = "bob"}, &bench->ca,
                  &client);
    assert_int_equal(verify(&client, &bench->ca, X509_PURPOSE_SSL_CLIENT, NULL), 0);
    assert_int_equal(verify(&client, &bench->ca, X509_PURPOSE_SSL_SERVER, NULL),
                     X509_V_ERR_INVALID_PURPOSE);
    issue_release(&client);

    cert_kit_make(
        &(struct cert_kit_spec){.kind = ISSUE_PEER, .common = "peer 3", .uri = "zabra://ab/3"},
        &bench->ca, &bench->pair);
    assert_int_equal(verify(&bench->pair, &bench->ca, X509_PURPOSE_SSL_CLIENT, NULL), 0);
    assert_int_equal(verify(&bench->pair, &bench->ca, X509_PURPOSE_SSL_SERVER, NULL), 0);

    X509 *cert = cert_kit_cert(&bench->pair);
    char text[TEXT_MAX];

    put_text(cert, text);
    assert_non_null(strstr(text, "URI:zabra://ab/3"));
    X509_free(cert);
}

TEST(the_key_is_p256_and_fits, bench, set_up, tear_down)
{
    cert_kit_make(&(struct cert_kit_spec){.kind = ISSUE_CLIENT, .common = "bob"}, &bench->ca,
                  &bench->pair);

    X509 *cert = cert_kit_cert(&bench->pair);
    EVP_PKEY *key = cert_kit_key(&bench->pair);
    char text[TEXT_MAX];

    assert_int_equal(X509_check_private_key(cert, key), 1);
    put_text(cert, text);
    assert_non_null(strstr(text, "NIST CURVE: P-256"));
    assert_non_null(strstr(text, "ecdsa-with-SHA256"));
    assert_non_null(strstr(text, "Subject: CN=bob"));
    assert_non_null(strstr(text, "Issuer: CN=one"));
    assert_null(strstr(text, "Subject Alternative Name"));
    X509_free(cert);
    EVP_PKEY_free(key);
}

TEST(two_certificates_share_neither_key_nor_number, bench, set_up, tear_down)
{
    struct cert_kit_spec spec = {.kind = ISSUE_CLIENT, .common = "bob"};
    struct issue_pair again;

    cert_kit_make(&spec, &bench->ca, &bench->pair);
    cert_kit_make(&spec, &bench->ca, &again);

    X509 *one = cert_kit_cert(&bench->pair);
    X509 *two = cert_kit_cert(&again);

    assert_int_not_equal(ASN1_INTEGER_cmp(X509_get0_serialNumber(one), X509_get0_serialNumber(two)),
                         0);
    assert_int_equal(ASN1_STRING_length(X509_get0_serialNumber(one)), 20);
    assert_false(slice_eq(buf_slice(&bench->pair.key), buf_slice(&again.key)));
    X509_free(one);
    X509_free(two);
    issue_release(&again);
}

TEST(an_authority_signs_no_second_authority, bench, set_up, tear_down)
{
    X509 *cert = cert_kit_cert(&bench->ca);
    char text[TEXT_MAX];

    put_text(cert, text);
    assert_non_null(strstr(text, "CA:TRUE, pathlen:0"));
    assert_int_equal(verify(&bench->ca, &bench->ca, X509_PURPOSE_ANY, NULL), 0);
    X509_free(cert);
}

TEST(the_dates_are_those_that_are_given, bench, set_up, tear_down)
{
    struct cert_kit_spec spec = {.kind = ISSUE_CLIENT, .common = "bob", .life = CERT_KIT_EXPIRED};
    struct issue_pair early;

    cert_kit_make(&spec, &bench->ca, &bench->pair);
    assert_int_equal(verify(&bench->pair, &bench->ca, X509_PURPOSE_SSL_CLIENT, NULL),
                     X509_V_ERR_CERT_HAS_EXPIRED);
    spec.life = CERT_KIT_EARLY;
    cert_kit_make(&spec, &bench->ca, &early);
    assert_int_equal(verify(&early, &bench->ca, X509_PURPOSE_SSL_CLIENT, NULL),
                     X509_V_ERR_CERT_NOT_YET_VALID);
    issue_release(&early);
}

static void expect_refused(struct issue_request request, const char *reason)
{
    char error[ISSUE_ERROR_MAX] = "accepted";

    request.until_s = request.until_s ? request.until_s : 1;
    assert_false(issue_check(&request, error));
    if (!strstr(error, reason)) {
        assert_string_equal(error, reason);
    }
}

static void expect_names_refused(const char *names, const char *reason)
{
    expect_refused((struct issue_request){.kind = ISSUE_SERVER, .common = "s", .names = names},
                   reason);
}

TEST(wrong_names_are_refused_with_the_reason)
{
    char label[ISSUE_NAME_MAX];
    char name[ISSUE_NAME_MAX * 2];
    char many[ISSUE_NAME_MAX * 10] = "h0";

    expect_names_refused("", "needs the names by which clients reach the server");
    expect_names_refused(NULL, "needs the names");
    expect_names_refused(",", "empty item");
    expect_names_refused("a.example,", "empty item");
    expect_names_refused("a.example,,b.example", "empty item");
    expect_names_refused("a.example, b.example", "the name \" b.example\" has a blank");
    expect_names_refused("a b", "has a blank");
    expect_names_refused(" ", "has a blank");
    expect_names_refused("a..example", "empty label");
    expect_names_refused("a.example.", "empty label");
    expect_names_refused(".example", "empty label");
    expect_names_refused("-a.example", "begins or ends with \"-\"");
    expect_names_refused("a-.example", "begins or ends with \"-\"");
    expect_names_refused("a_b.example", "character that no host name has");
    expect_names_refused("b\xc3\xbc"
                         "ro.example",
                         "xn-- form");
    expect_names_refused("*", "wildcard");
    expect_names_refused("*.example", "top-level domain");
    expect_names_refused("*.", "empty label");
    expect_names_refused("a.*.example", "wildcard that is not the whole first label");
    expect_names_refused("*a.example.org", "wildcard that is not the whole first label");
    expect_names_refused("*.*.example.org", "wildcard that is not the whole first label");
    expect_names_refused("300.1.1.1", "is not an IP address");
    expect_names_refused("1.2.3", "is not an IP address");
    expect_names_refused("127.0.0.01", "is not an IP address");
    expect_names_refused("9998", "is not an IP address");
    expect_names_refused("::g", "is not an IPv6 address");
    expect_names_refused("[::1]", "leave out scheme, brackets and port");
    expect_names_refused("https://a.example", "leave out scheme");
    expect_names_refused("a.example:9998", "a name has no port");
    expect_names_refused("bob@a.example", "only a client's certificate");
    expect_names_refused("a.example,A.example", "\"A.example\" is in the list twice");

    memset(label, 'a', 64);
    label[64] = '\0';
    expect_names_refused(label, "label of more than 63 bytes");
    memset(name, 'a', ISSUE_NAME_MAX + 1);
    name[ISSUE_NAME_MAX + 1] = '\0';
    expect_names_refused(name, "longer than 253 bytes");
    for (int i = 1; i <= ISSUE_NAMES_MAX; i++) {
        (void)snprintf(many + strlen(many), sizeof(many) - strlen(many), ",h%d", i);
    }
    expect_names_refused(many, "at most 64 names");
    *strrchr(many, ',') = '\0';

    char error[ISSUE_ERROR_MAX];

    assert_true(issue_check(
        &(struct issue_request){.kind = ISSUE_SERVER, .common = "s", .names = many, .until_s = 1},
        error));
}

TEST(wrong_common_names_uris_and_dates_are_refused)
{
    struct issue_request request = {.kind = ISSUE_CLIENT, .common = ""};

    expect_refused(request, "is empty");
    request.common = "a/b";
    expect_refused(request, "none of letters");
    request.common = "a,O=b";
    expect_refused(request, "none of letters");
    request.common = " a";
    expect_refused(request, "begins or ends with a blank");
    request.common = "12345678901234567890123456789012345678901234567890123456789012345";
    expect_refused(request, "longer than 64 bytes");
    request.common = "bob";
    request.names = "bob@";
    expect_refused(request, "empty label");
    request.names = "@a.example";
    expect_refused(request, "nothing before the \"@\"");
    request.names = "b(b@a.example";
    expect_refused(request, "before the \"@\"");
    request.names = NULL;
    request.uri = "zabra:3";
    expect_refused(request, "has no scheme");
    request.uri = "zabra://a b/3";
    expect_refused(request, "none of letters");
    request.uri = NULL;
    request.from_s = 5;
    request.until_s = 5;
    expect_refused(request, "end before it begins");
    expect_refused((struct issue_request){.kind = ISSUE_CA, .common = "c", .names = "a.example"},
                   "an authority has no names");
    expect_refused((struct issue_request){.kind = ISSUE_PEER, .common = "p"}, "needs the names");
}

static void expect_ca_refused(struct bench *bench, const struct issue_pair *ca, const char *reason)
{
    struct issue_request request = {.kind = ISSUE_CLIENT, .common = "bob", .until_s = 1};
    struct issue_pair pair;
    char error[ISSUE_ERROR_MAX] = "accepted";

    (void)bench;
    issue_init(&pair);
    assert_false(issue_make(&request, ca, &pair, error));
    assert_non_null(strstr(error, reason));
    assert_int_equal(pair.cert.len, 0);
    assert_int_equal(pair.key.len, 0);
    issue_release(&pair);
}

TEST(an_unfit_authority_is_refused, bench, set_up, tear_down)
{
    struct issue_pair mixed = {.cert = bench->ca.cert, .key = bench->other.key};
    struct issue_pair empty;

    issue_init(&empty);
    expect_ca_refused(bench, &empty, "no certificate in PEM form");
    expect_ca_refused(bench, &(struct issue_pair){.cert = bench->ca.cert, .key = empty.key},
                      "no key in PEM form");
    expect_ca_refused(bench, &mixed, "does not fit its certificate");
    cert_kit_make(&(struct cert_kit_spec){.kind = ISSUE_CLIENT, .common = "bob"}, &bench->ca,
                  &bench->pair);
    expect_ca_refused(bench, &bench->pair, "not that of an authority");
}

TEST(the_kit_writes_private_files_and_removes_them)
{
    struct cert_kit kit;
    struct stat info;

    cert_kit_open(&kit);
    cert_kit_add_server(&kit, "server", "s");
    assert_int_equal(stat(CERT_KIT_PATH(&kit, "server.key"), &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_int_equal(stat(CERT_KIT_PATH(&kit, "server.pem"), &info), 0);
    assert_int_equal(stat(CERT_KIT_PATH(&kit, "ca.pem"), &info), 0);
    cert_kit_close(&kit);
    assert_int_equal(stat(kit.dir, &info), -1);
}

TEST(the_kit_revokes, bench, set_up, tear_down)
{
    struct buf text;

    cert_kit_make(&(struct cert_kit_spec){.kind = ISSUE_CLIENT, .common = "bob"}, &bench->ca,
                  &bench->pair);
    buf_init(&text, ISSUE_PEM_MAX);
    cert_kit_revoke(&bench->ca, &bench->pair, &text);

    BIO *bio = BIO_new_mem_buf(text.data, (int)text.len);
    X509_CRL *list = PEM_read_bio_X509_CRL(bio, NULL, NULL, NULL);
    X509 *cert = cert_kit_cert(&bench->pair);
    X509 *ca = cert_kit_cert(&bench->ca);
    X509_REVOKED *entry = NULL;

    assert_non_null(list);
    assert_int_equal(X509_CRL_verify(list, X509_get0_pubkey(ca)), 1);
    assert_int_equal(X509_CRL_get0_by_cert(list, &entry, cert), 1);
    assert_int_equal(X509_CRL_get0_by_cert(list, &entry, ca), 0);
    X509_free(cert);
    X509_free(ca);
    X509_CRL_free(list);
    BIO_free(bio);
    buf_release(&text);
}
