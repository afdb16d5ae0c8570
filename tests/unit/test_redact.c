/* Secrets are taken out of configurations and logs; what is no secret stays. */
#include "cli/redact.h"
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

#define SECRET "hunter2hunter2"
#define UUID   "0b9d8c1e-5f7a-4a52-9d0e-3c1b2a495867"
#define HASH   "zUZ0bpqYS7FucDXsnUgxOWTto1s="

static void redact(const char *text, bool is_config, struct buf *out)
{
    struct redaction redaction = {.in_key = redact_begins_in_key(slice_str(text))};

    for (const char *at = text; *at;) {
        size_t len = strcspn(at, "\n");

        if (is_config) {
            redact_config_line(slice_make(at, len), out);
        } else {
            redact_log_line(&redaction, slice_make(at, len), out);
        }
        at += len + (at[len] == '\n');
    }
}

static void expect(const char *text, bool is_config, const char *want)
{
    struct buf out;

    buf_init(&out, 1 << 16);
    redact(text, is_config, &out);
    assert_string_equal(buf_cstr(&out), want);
    buf_release(&out);
}

static const char *const lines[] = {
    "password=" SECRET,
    "password: " SECRET " more",
    "{\"password\":\"" SECRET "\",\"x\":1}",
    "{\"password\": \"with blanks " SECRET "\"}",
    "PASSWORD = '" SECRET "'",
    "{\"password\":\"ab\\\"cd" SECRET "\"}",
    "{\"secret\":{\"value\":\"" SECRET "\"}}",
    "{\"secret\": [ \"a\", \"" SECRET "\" ]}",
    "{\"grant_type\":\"password\",\"client_secret\":\"" SECRET "\"}",
    "{\"error\":\"wrong password\", \"user_password\" : \"" SECRET "\"}",
    "{'type': 'token', 'access_token': '" SECRET "'}",
    "{\\\"type\\\":\\\"api_key\\\",\\\"client_secret\\\":\\\"" SECRET "\\\"}",
    "pass=" SECRET,
    "DB_PASS: " SECRET,
    "curl -u super:" SECRET " http://zk1:9998",
    "curl -fsu super:" SECRET " http://zk1:9998",
    "curl --user=super:" SECRET,
    "--user super:" SECRET,
    "addauth digest alice:" SECRET,
    "digest:alice:" SECRET,
    "used token " SECRET " of alice",
    "X-Auth-Key: " SECRET,
    "encryption-key=" SECRET,
    "db_password=\"a " SECRET "\" x",
    "peerSecret=" SECRET,
    "client_secret=" SECRET "&x=1",
    "GET /x?token=" SECRET "&y=2 HTTP/1.1",
    "access_token: " SECRET,
    "api_key=" SECRET ", api-key:" SECRET,
    "Authorization: Basic " SECRET " and more " SECRET,
    "authorization=Digest username=a, response=" SECRET,
    "sent Basic " SECRET,
    "sent bearer " SECRET,
    "Cookie: a=1; b=" SECRET,
    "set-cookie=" SECRET,
    "Zk-Session: " SECRET,
    "superDigest=super:" SECRET,
    "https://user:" SECRET "@zk1:9998/x",
    "https://" SECRET "@zk1:9998/x",
    "aws_secret_access_key=" SECRET,
    "X-Amz-Signature=" SECRET,
    "passphrase => " SECRET,
    "-----BEGIN PRIVATE KEY-----\n" SECRET "\n" SECRET "\n-----END PRIVATE KEY-----\nafter",
    "-----BEGIN EC PRIVATE KEY-----\n" SECRET "\n-----END EC PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\n" SECRET,
    SECRET "\n" SECRET "\n-----END RSA PRIVATE KEY-----\nafter", /* The beginning is missing. */
    "curl -u admin:'two " SECRET "' http://zk1:9998",
    "curl -u 'admin:two " SECRET "' http://zk1:9998",
    "{\"scheme\":\"digest\",\"id\":\"bob:" SECRET "\"}",
    "{\"auth\": \"digest\", \"id\": \"bob:two " SECRET "\"}",
    "pw=" SECRET,
    "{\"pw\":\"" SECRET "\"}",
    "password: two " SECRET,
    "--auth=digest:bob:two " SECRET,
    "--password 'two " SECRET "'",
    "{\"password\":\"it's " SECRET "\"}",
    "password='a \"quoted\" " SECRET "'",
    "https://user:p@" SECRET "@zk1/x",
    "https://user:a/" SECRET "@zk1/x",
    "https://user:a?" SECRET "@zk1/x",
    "https://user:p@a/" SECRET "@zk1/x",
    "password: a," SECRET,
    "password: a;b&" SECRET ", user: bob",
    "password: it's " SECRET,
    "{\\\"pw\\\":\\\"" SECRET "\\\"}",
    "{'pw': '" SECRET "'}",
    "-----END PRIVATE KEY----------BEGIN PRIVATE KEY-----\n" SECRET,
    SECRET "\n-----END PRIVATE KEY----------BEGIN PRIVATE KEY-----\n" SECRET,
    "-----BEGIN PGP PRIVATE KEY BLOCK-----\n" SECRET "\n-----END PGP PRIVATE KEY BLOCK-----",
    "user 'pw' Basic " SECRET,
    "run D:\\pw\\bin -u bob:" SECRET,
    "C:\\pw\\curl.exe --password " SECRET,
    "password Basic " SECRET,
    "password=Basic " SECRET,
    "password -u bob:" SECRET,
    "Token Password Bearer " SECRET,
    "password Passw0rd" SECRET,
    "PW = " SECRET,
    "pw => '" SECRET "'",
    "--pw " SECRET,
    "https://user:/" SECRET "@zk1/x",
    "https://user:1234567/" SECRET "@zk1/x",
    "https://user:p\"" SECRET "@zk1/x",
    "{'password': u'" SECRET "'}",
    "{'password': b'two " SECRET "'}",
    "password: 'it''s " SECRET "'",
    "-u 'bob:it''s " SECRET "'",
    "password = two " SECRET,
    "password:\ttwo " SECRET,
    "[\"--password\",\"" SECRET "\"]",
    "['--password', 'two " SECRET "']",
    "{\"args\":\"[\\\"--password\\\",\\\"" SECRET "\\\"]\"}",
    "[\"curl\",\"-u\",\"bob:" SECRET "\"]",
    "['curl', '--user', 'bob:two " SECRET "']",
    "{\"run\":\"curl -u \\\"bob:two " SECRET "\\\"\"}",
    "{\"run\":\"curl --user=\\\"bob:" SECRET "\\\"\"}",
    "{\"run\":\"curl -u bob:\\\"two " SECRET "\\\"\"}",
    "addauth \"digest\" \"bob:" SECRET "\"",
    "add_auth('digest', 'bob:two " SECRET "')",
    "Auth(scheme='digest', auth='bob:" SECRET "')",
    "basic or digest, Authorization: Basic " SECRET,
};

static void expect_removed(const char *text)
{
    struct buf out;

    buf_init(&out, 1 << 16);
    redact(text, false, &out);
    if (strstr(buf_cstr(&out), SECRET) || !strstr(buf_cstr(&out), REDACTED)) {
        fail_msg("%s: %s", text, buf_cstr(&out));
    }
    buf_release(&out);
}

TEST(no_form_of_a_secret_stays_in_a_log)
{
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        expect_removed(lines[i]);
    }
}

/* Such as a JWT, which has thousands of bytes. */
TEST(a_long_password_in_a_url_is_removed)
{
    static const char *const begins[] = {"https://user:", "https://user:p@", "https://"};
    char many[1200];
    char text[4096];

    memset(many, 'a', sizeof(many) - 1);
    many[sizeof(many) - 1] = '\0';
    for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++) {
        (void)snprintf(text, sizeof(text), "%s%s" SECRET "@zk1/x", begins[i], many);
        expect_removed(text);
    }
    expect(text, false, "https://" REDACTED "@\n");
    (void)snprintf(text, sizeof(text), "GET https://zk1:9998/%s@x 200\n", many);
    expect(text, false, text);
}

TEST(sessions_and_hashes_are_removed)
{
    expect("PUT /sessions/v1/" UUID " 200", false, "PUT /sessions/v1/=" REDACTED " 200\n");
    expect("acl digest:alice:" HASH " cdrwa", false, "acl digest:alice:=" REDACTED " cdrwa\n");
    expect("a-----END PRIVATE KEY----------BEGIN CERTIFICATE-----\nx", false, REDACTED "\nx\n");
    expect("-----BEGIN PGP PRIVATE KEY BLOCK-----\nabc\n-----END PGP PRIVATE KEY BLOCK-----\nx",
           false, REDACTED "\n" REDACTED "\nx\n");
    expect("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\nx", false,
           REDACTED "\n" REDACTED "\nx\n");
}

/* A password behind its option may look like any word. */
TEST(the_value_of_an_option_is_removed)
{
    expect("zabra get / --password hunterpass --user bob", false,
           "zabra get / --password=" REDACTED " --user bob\n");
    expect("mysql --password=hunter --host x", false, "mysql --password=" REDACTED " --host x\n");
}

TEST(what_is_no_secret_stays)
{
    static const char line[] =
        "2026-11-22T07:04:51.000Z WARN auth 3 wrong passwords of user alice from 10.0.0.7\n"
        "request=c0a4 remote=10.0.0.7 method=GET route=znodes target=/znodes/v1/app status=200\n"
        "leader elected: epoch 5, zxid 0x500000012, http://10.0.0.7:9998/x@y\n"
        "http://zk1/x@y https://[::1]:9998/x@y https://[::1]/x@y http://zk1:9998?mail=x@y\n"
        "{\"uri\":\"http://zk1:9998\",\"mail\":\"x@y\"} {\\\"uri\\\":\\\"http://zk1:9998\\\",x@y}\n"
        "in the folder D:\\pw\\bin of the user 'pw' and in pw or \"pw\"\n";

    expect(line, false, line);
    expect("{\"msg\":\"invalid token\",\"path\":\"/x\"}", false,
           "{\"msg\":\"invalid token\",\"path\":\"/x\"}\n");
    expect("{password: x, user: bob}", false, "{password=" REDACTED ", user: bob}\n");
    expect("{\"password\":\"x\",\"user\":\"bob\"}", false,
           "{\"password=" REDACTED "\",\"user\":\"bob\"}\n");
    expect("https://user:x@zk1:9998/a", false, "https://" REDACTED "@zk1:9998/a\n");
}

/* Comments and unknown keys may hold anything. */
TEST(a_configuration_keeps_what_zabra_knows)
{
    expect("# old password " SECRET "\n"
           "id=1\n"
           "server.1=zk1:10998\n"
           "  clientPort = 9998\n"
           "superDigest=super:" HASH "\n"
           "superX509=CN=root\n"
           "peerSecretFile=/etc/zabra/secret\n"
           "peerSecret=" SECRET "\n"
           "environment=password:" SECRET "\n"
           "-----BEGIN PRIVATE KEY-----\n" SECRET "\n",
           true,
           "id=1\n"
           "server.1=zk1:10998\n"
           "  clientPort = 9998\n"
           "superDigest=" REDACTED "\n"
           "superX509=" REDACTED "\n"
           "peerSecretFile=/etc/zabra/secret\n"
           "# a line with an unknown key was removed\n"
           "environment=password=" REDACTED "\n");
}
