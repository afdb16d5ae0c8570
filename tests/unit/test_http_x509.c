/* Identities by client certificate, and what answers over TLS say. */
#include "base/address.h"
#include "server/op/auth.h"
#include "tests/lib/ws_head.h"
#include "tests/unit/http_front.h"
#include "tests/unit/http_sealed.h"
#include "tests/unit/http_take.h"

#define BOB  KIT_BOB
#define HOST "Host: localhost\r\n"

static struct taken taken;

static void start(void (*change)(struct config_clients *limits))
{
    static const struct cert_kit_spec bob = {.kind = ISSUE_CLIENT, .common = "bob"};
    static const struct cert_kit_spec root = {.kind = ISSUE_CLIENT, .common = "root"};

    gate = kit_gate_new();
    sealed_limits(&gate->limits, CONFIG_TLS_OPTIONAL);
    cert_kit_add(&certs, "bob", &bob);
    cert_kit_add(&certs, "root", &root);
    gate->limits.tls.clients = 1;
    (void)cert_kit_path(&certs, "ca.pem", gate->limits.tls.ca_file);
    (void)snprintf(gate->limits.tls.super_x509, sizeof(gate->limits.tls.super_x509), "CN=root");
    if (change) {
        change(&gate->limits);
    }
    assert_int_equal(
        http_start(gate, &(struct http_upgrade){.take = taken_take, .ctx = &taken}, &http), ERR_OK);
    port = kit_port(http);
}

static void setup(void)
{
    start(NULL);
}

static void require_identity(struct config_clients *limits)
{
    limits->require_identity = true;
}

static void setup_closed(void)
{
    start(require_identity);
}

static void trust(struct config_clients *limits)
{
    assert_true(address_block_parse(slice_str("127.0.0.1"), &limits->proxies[0]));
    limits->proxy_count = 1;
    limits->tls.hsts_ms = 3600000;
}

static void setup_trusting(void)
{
    start(trust);
}

/* Sends one request over TLS with the certificate (NULL: none) and checks status and a text of the
 * answer. */
static void expect(const char *cert, const char *request, const char *status, const char *has)
{
    struct sealed sealed;
    char wanted[64];
    const char *answer = NULL;

    (void)snprintf(wanted, sizeof(wanted), "HTTP/1.1 %s", status);
    sealed_open_as(&sealed, cert);
    sealed_say(&sealed, request);
    sealed_say(&sealed, HOST "Connection: close\r\n\r\n");
    answer = sealed_hear_all(&sealed);
    if (!strstr(answer, wanted) || !strstr(answer, has)) {
        fail_msg("%s: %s", request, answer);
    }
    sealed_close(&sealed);
}

#define WHOAMI "GET /whoami/v1 HTTP/1.1\r\n"

TEST(a_certificate_is_an_identity, setup, sealed_teardown)
{
    expect("bob", WHOAMI, "200", "{\"scheme\":\"x509\",\"id\":\"CN=bob\"}");
    expect("bob", WHOAMI, "200", "\"authenticated\":true,\"super\":false");
    expect("bob", WHOAMI BOB, "200",
           "{\"scheme\":\"x509\",\"id\":\"CN=bob\"},{\"scheme\":\"digest\",\"id\":\"bob:");
    expect(NULL, WHOAMI, "200", "\"authenticated\":false");
    expect(NULL, WHOAMI BOB, "200", "{\"scheme\":\"digest\",\"id\":\"bob:");
    expect("root", WHOAMI, "200", "\"super\":true");
}

TEST(permissions_by_certificate, setup, sealed_teardown)
{
    expect("bob",
           "PUT /znodes/v1/own?upsert=true HTTP/1.1\r\nContent-Length: 0\r\nZk-Acl: creator\r\n",
           "201", "/own");
    expect("bob", "GET /znodes/v1/own?view=acl HTTP/1.1\r\n", "200", "\"id\":\"CN=bob\"");
    expect("bob", "GET /znodes/v1/own HTTP/1.1\r\n", "200", "");
    expect("root", "GET /znodes/v1/own HTTP/1.1\r\n", "200", "");
    expect(NULL, "GET /znodes/v1/own HTTP/1.1\r\n", "401", "NoAuth");
    expect(NULL, "GET /znodes/v1/own HTTP/1.1\r\n" BOB, "403", "NoAuth");
    /* A subject may have commas. */
    expect("bob",
           "PUT /znodes/v1/list?upsert=true HTTP/1.1\r\nContent-Length: 0\r\n"
           "Zk-Acl: x509:CN=eve,O=Example:r, x509:CN=bob:cdrwa\r\n",
           "201", "/list");
    expect("bob", "GET /znodes/v1/list?view=acl HTTP/1.1\r\n", "200",
           "\"id\":\"CN=eve,O=Example\"");
    expect("bob", "GET /znodes/v1/list?view=acl&as=x509:CN%3Deve%2CO%3DExample HTTP/1.1\r\n", "200",
           "\"as\":\"x509:CN=eve,O=Example\",\"perms\":[\"read\"]");
}

/* The certificate of a connection counts for each of its requests, a password for one only. */
TEST(a_certificate_lasts_as_long_as_its_connection, setup, sealed_teardown)
{
    struct sealed sealed;

    sealed_open_as(&sealed, "bob");
    for (int i = 0; i < 4; i++) {
        const char *answer = NULL;

        buf_clear(&sealed.got);
        sealed_say(&sealed, WHOAMI HOST);
        sealed_say(&sealed, i % 2 == 0 ? BOB "\r\n" : "\r\n");
        answer = sealed_hear(&sealed, "]}");
        assert_non_null(strstr(answer, "\"id\":\"CN=bob\""));
        assert_int_equal(strstr(answer, "\"digest\"") != NULL, i % 2 == 0);
    }
    sealed_close(&sealed);
}

TEST(a_certificate_opens_a_closed_replica, setup_closed, sealed_teardown)
{
    expect("bob", "GET /znodes/v1/ HTTP/1.1\r\n", "200", "");
    expect("bob", "GET /metrics HTTP/1.1\r\n", "200", "zabra_");
    expect(NULL, "GET /znodes/v1/ HTTP/1.1\r\n", "401", "client certificate");
    expect(NULL, "GET /znodes/v1/ HTTP/1.1\r\n" BOB, "200", "");
}

/* A proxy with a certificate lends it to none of its clients. */
TEST(the_certificate_of_a_proxy_is_not_that_of_its_client, setup_trusting, sealed_teardown)
{
    expect("bob", WHOAMI, "200", "CN=bob");
    expect("bob", WHOAMI "X-Forwarded-For: 203.0.113.9\r\n", "200",
           "\"address\":\"203.0.113.9\",\"authenticated\":false");
    expect("bob", WHOAMI "Forwarded: for=unknown\r\n", "200", "\"authenticated\":false");
    expect("root", WHOAMI "X-Forwarded-For: 203.0.113.9\r\n", "200", "\"super\":false");
    /* Also not when the proxy says something about the request and does not name its client. */
    expect("root", WHOAMI "X-Forwarded-Proto: https\r\n", "200", "\"authenticated\":false");
    expect("root", WHOAMI "X-Forwarded-Host: localhost\r\n", "200", "\"authenticated\":false");
    expect("root", WHOAMI "X-Forwarded-For: \r\n", "200", "\"authenticated\":false");
    expect("root", WHOAMI "X-Forwarded-For:\r\nX-Forwarded-Host: localhost\r\n", "200",
           "\"authenticated\":false");
    expect("root", WHOAMI "Forwarded:\r\n", "200", "\"authenticated\":false");
    expect("bob", WHOAMI BOB "X-Forwarded-Proto: https\r\n", "200",
           "{\"scheme\":\"ip\",\"id\":\"127.0.0.1\"},{\"scheme\":\"digest\",\"id\":\"bob:");
}

/* The headers of a client that is no trusted proxy mean nothing, so its certificate counts. */
TEST(a_client_that_sends_the_headers_of_a_proxy_keeps_its_certificate, setup, sealed_teardown)
{
    expect("bob", WHOAMI "X-Forwarded-For: 203.0.113.9\r\n", "200", "CN=bob");
    expect("bob", WHOAMI "X-Forwarded-Proto: https\r\n", "200", "CN=bob");
}

/* ---- Over a cap: the acceptor hands requests for /metrics to the thread for probes ---- */

#define METRICS "GET /metrics HTTP/1.1\r\n"

static void cap(struct config_clients *limits)
{
    require_identity(limits);
    limits->connections_max = 1;
}

static void setup_capped(void)
{
    start(cap);
}

static void cap_trusting(struct config_clients *limits)
{
    cap(limits);
    trust(limits);
}

static void setup_capped_trusting(void)
{
    start(cap_trusting);
}

TEST(over_a_cap_a_certificate_opens_the_metrics, setup_capped, sealed_teardown)
{
    int first = kit_connect(port);

    expect("bob", METRICS, "200", "zabra_");
    expect("bob", METRICS "X-Forwarded-For: 203.0.113.9\r\n", "200", "zabra_");
    expect(NULL, METRICS, "401", "client certificate");
    close(first);
}

TEST(over_a_cap_a_proxy_does_not_lend_its_certificate, setup_capped_trusting, sealed_teardown)
{
    int first = kit_connect(port);

    expect("bob", METRICS, "200", "zabra_");
    expect("bob", METRICS "X-Forwarded-For: 203.0.113.9\r\n", "401", "client certificate");
    expect("bob", METRICS "X-Forwarded-Proto: https\r\n", "401", "client certificate");
    expect("bob", METRICS "X-Forwarded-Host: localhost\r\n", "401", "client certificate");
    close(first);
}

TEST(answers_over_tls_say_https, setup_trusting, sealed_teardown)
{
    const char *put = "PUT /znodes/v1/u?upsert=true HTTP/1.1\r\nContent-Length: 0\r\n";
    const char *stat = "GET /znodes/v1/u?view=stat HTTP/1.1\r\n";
    char plain[300];
    struct kit_answer answer;

    expect(NULL, put, "201", "Location: https://localhost/znodes/v1/u");
    expect(NULL, stat, "200", "\"uri\":\"https://localhost/znodes/v1/u\"");
    expect(NULL, stat, "200", "Strict-Transport-Security: max-age=3600\r\n");
    expect(NULL, "GET /ensemble/v1 HTTP/1.1\r\n", "200", "https");
    /* The proxy speaks TLS to this replica, and its client does not speak it to the proxy. */
    (void)snprintf(plain, sizeof(plain),
                   "%sX-Forwarded-For: 203.0.113.9\r\nX-Forwarded-Proto: http\r\n", stat);
    expect(NULL, plain, "200", "\"uri\":\"http://localhost/znodes/v1/u\"");
    answer = kit_ask(port, "GET", "/znodes/v1/u?view=stat", "", NULL);
    assert_true(kit_body_has(&answer, "\"uri\":\"http://"));
    assert_null(kit_header(&answer, "Strict-Transport-Security"));
    kit_free(&answer);
}

static void shake(const char *cert, const char *headers)
{
    struct sealed sealed;

    taken = (struct taken){.https = false};
    sealed_open_as(&sealed, cert);
    sealed_say(&sealed, "GET /ws/v1 HTTP/1.1\r\n" HOST WS_HEAD);
    sealed_say(&sealed, headers);
    sealed_say(&sealed, "\r\n");
    assert_non_null(strstr(sealed_hear(&sealed, TAKEN_ANSWER), TAKEN_ANSWER));
    sealed_close(&sealed);
}

TEST(sockets_have_the_certificate_of_their_client, setup_trusting, sealed_teardown)
{
    shake("bob", "");
    assert_string_equal(taken.id, "CN=bob");
    assert_true(taken.https);
    shake("bob", BOB);
    assert_string_equal(taken.id, "CN=bob");
    shake(NULL, "");
    assert_string_equal(taken.id, "");
    shake("bob", "X-Forwarded-For: 203.0.113.9\r\nX-Forwarded-Proto: http\r\n");
    assert_string_equal(taken.id, "");
    assert_false(taken.https);
    shake("bob", "X-Forwarded-Proto: https\r\n");
    assert_string_equal(taken.id, "");
    shake("bob", "X-Forwarded-For:\r\n");
    assert_string_equal(taken.id, "");
}
