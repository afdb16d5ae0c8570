/* The command line over https: the files that it checks, and each way in which a connection fails.
 * The server is a thread that answers every request in the same way. */
#include "cli/client.h"
#include "tests/lib/cert_kit.h"
#include "tests/lib/unit.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

enum {
    LINE_MAX_LEN = 512,
    HEAD_MAX = 4096,
    PATHS = 16,
    BODY_BYTES = 8 << 20,
    WAIT_MS = 5000, /* Of the server for a client. */
    SHORT_MS = 500  /* Of a client that waits for nothing. */
};

static const char whole[] = "HTTP/1.1 200 OK\r\nZk-Zxid: 0x1\r\nContent-Length: 2\r\n\r\n{}";

struct server {
    int fd;
    uint16_t port;
    SSL_CTX *ctx;       /* NULL: plain text. */
    const char *answer; /* NULL: the connection is ended, then reset, after the handshake. */
    pthread_t thread;
    atomic_bool stops;
    atomic_int requests; /* Whole heads that it has read. */
};

static struct cert_kit kit;
static struct issue_pair stranger; /* Another authority. */
static struct server server;
static struct settings settings;
static char endpoints[LINE_MAX_LEN];

/* Returns the path of a file of the kit, valid for the next PATHS calls. */
static const char *at(const char *name)
{
    static char paths[PATHS][CERT_KIT_PATH_MAX];
    static int next;

    next = (next + 1) % PATHS;
    return cert_kit_path(&kit, name, paths[next]);
}

/* ---- The server ---- */

/* Reads a head and answers it. */
static void serve_plain(int fd, const char *answer)
{
    char head[HEAD_MAX] = "";
    ssize_t got = recv(fd, head, sizeof(head) - 1, 0);

    if (got > 0 && strncmp(head, "GET ", 4) == 0) {
        server.requests++;
        (void)send(fd, answer, strlen(answer), MSG_NOSIGNAL);
    } else if (got > 0) {
        static const char refusal[] = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";

        (void)send(fd, refusal, strlen(refusal), MSG_NOSIGNAL);
    }
}

static void serve_tls(int fd, const char *answer)
{
    SSL *ssl = SSL_new(server.ctx);
    char head[HEAD_MAX] = "";

    (void)SSL_set_fd(ssl, fd);
    if (SSL_accept(ssl) == 1 && answer && SSL_read(ssl, head, sizeof(head) - 1) > 0) {
        server.requests++;
        (void)SSL_write(ssl, answer, (int)strlen(answer));
        (void)SSL_shutdown(ssl);
    }
    ERR_clear_error();
    SSL_free(ssl);
}

/* The thread blocks SIGPIPE for itself: the client must do without. */
static void *serve(void *unused)
{
    sigset_t pipe_only;

    (void)unused;
    (void)sigemptyset(&pipe_only);
    (void)sigaddset(&pipe_only, SIGPIPE);
    assert_int_equal(pthread_sigmask(SIG_BLOCK, &pipe_only, NULL), 0);
    while (!server.stops) {
        struct pollfd wait = {.fd = server.fd, .events = POLLIN};
        struct timeval limit = {.tv_sec = WAIT_MS / 1000};
        int fd = poll(&wait, 1, 20) > 0 ? accept(server.fd, NULL, NULL) : -1;

        if (fd < 0) {
            continue;
        }
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
        if (server.ctx) {
            serve_tls(fd, server.answer);
        } else {
            serve_plain(fd, server.answer);
        }
        (void)shutdown(fd, SHUT_WR);

        char rest[HEAD_MAX]; /* Data that is not read would turn the close into a reset. */

        while (server.answer && recv(fd, rest, sizeof(rest), 0) > 0) {
        }
        close(fd);
    }
    return NULL;
}

/* Begins to serve. `name`: files of the kit; NULL: plain text. */
static void start(const char *name, const char *answer)
{
    char file[CERT_KIT_PATH_MAX];

    server.answer = answer;
    server.requests = 0;
    server.stops = false;
    if (name) {
        server.ctx = SSL_CTX_new(TLS_server_method());
        (void)snprintf(file, sizeof(file), "%s.pem", name);
        assert_int_equal(SSL_CTX_use_certificate_file(server.ctx, at(file), SSL_FILETYPE_PEM), 1);
        (void)snprintf(file, sizeof(file), "%s.key", name);
        assert_int_equal(SSL_CTX_use_PrivateKey_file(server.ctx, at(file), SSL_FILETYPE_PEM), 1);
    }
}

static void go(void)
{
    assert_int_equal(pthread_create(&server.thread, NULL, serve, NULL), 0);
}

static void stop(void)
{
    server.stops = true;
    assert_int_equal(pthread_join(server.thread, NULL), 0);
    SSL_CTX_free(server.ctx);
    server.ctx = NULL;
}

static void open_all(void)
{
    struct sockaddr_in local = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(local);

    cert_kit_open(&kit);
    cert_kit_make(&(struct cert_kit_spec){.kind = ISSUE_CA, .common = "stranger"}, NULL, &stranger);
    cert_kit_put(&kit, "stranger", &stranger);
    cert_kit_add(
        &kit, "server",
        &(struct cert_kit_spec){.kind = ISSUE_SERVER, .common = "s", .names = CERT_KIT_LOCAL});
    cert_kit_add(&kit, "client", &(struct cert_kit_spec){.kind = ISSUE_CLIENT, .common = "bob"});
    server.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(server.fd, (struct sockaddr *)&local, sizeof(local)), 0);
    assert_int_equal(listen(server.fd, 16), 0);
    assert_int_equal(getsockname(server.fd, (struct sockaddr *)&local, &len), 0);
    server.port = ntohs(local.sin_port);
}

static void close_all(void)
{
    close(server.fd);
    issue_release(&stranger);
    cert_kit_close(&kit);
}

/* ---- The client ---- */

static void use(const char *scheme, const char *host)
{
    (void)snprintf(endpoints, sizeof(endpoints), "%s%s:%u", scheme, host, server.port);
    settings = (struct settings){.endpoints = endpoints, .timeout_ms = WAIT_MS};
}

/* Sends one request, which must end with the exit code and the error, and `words` in its message.
 */
static void ask_by_code(int code, const char *error, const char *words)
{
    struct client *client = client_open(&settings);

    if (!client) {
        fail_msg("%s", settings.error);
    }

    int got = client_ask(client, &(struct client_request){.target = "/status/v1"});

    if (got != code || !strstr(client->error.message, words)) {
        fail_msg("exit code %d, not %d, and \"%s\" in: %s", got, code, words,
                 client->error.message);
    }
    assert_string_equal(client->error.code, error);
    client_close(client);
}

static void ask(int code, const char *words)
{
    ask_by_code(code, code == CMD_OK ? "" : CLIENT_TLS, words);
}

static void refuse(const char *words)
{
    struct client *client = client_open(&settings);

    assert_null(client);
    if (!strstr(settings.error, words)) {
        fail_msg("no \"%s\" in: %s", words, settings.error);
    }
}

TEST_GROUP(open_all, close_all)

TEST(a_known_authority_is_trusted)
{
    start("server", whole);
    go();
    use("https://", "127.0.0.1");
    settings.ca = at("ca.pem");
    ask(CMD_OK, "");
    use("https://", "localhost");
    settings.ca = at("ca.pem");
    ask(CMD_OK, "");
    assert_int_equal(server.requests, 2);
    stop();
}

TEST(an_unknown_authority_is_named)
{
    start("server", whole);
    go();
    use("https://", "127.0.0.1");
    ask(CMD_NO_ENSEMBLE, "is unknown here; name its file with --ca");
    settings.ca = at("stranger.pem");
    ask(CMD_NO_ENSEMBLE, "stranger.pem did not sign the certificate of the server");
    assert_int_equal(server.requests, 0);
    stop();
}

TEST(another_name_is_named_with_the_right_ones)
{
    cert_kit_add(&kit, "other",
                 &(struct cert_kit_spec){
                     .kind = ISSUE_SERVER, .common = "o", .names = "a.example,10.0.0.1"});
    start("other", whole);
    go();
    use("https://", "127.0.0.1");
    settings.ca = at("ca.pem");
    ask(CMD_NO_ENSEMBLE, "is for a.example, 10.0.0.1, not for 127.0.0.1;");
    use("https://", "localhost");
    settings.ca = at("ca.pem");
    ask(CMD_NO_ENSEMBLE, "is for a.example, 10.0.0.1, not for localhost;");
    assert_int_equal(server.requests, 0);
    stop();
}

TEST(dates_are_named)
{
    struct cert_kit_spec spec = {.kind = ISSUE_SERVER, .common = "s", .names = CERT_KIT_LOCAL};

    spec.life = CERT_KIT_EXPIRED;
    cert_kit_add(&kit, "expired", &spec);
    start("expired", whole);
    go();
    use("https://", "127.0.0.1");
    settings.ca = at("ca.pem");
    ask(CMD_NO_ENSEMBLE, "has expired");
    stop();
    spec.life = CERT_KIT_EARLY;
    cert_kit_add(&kit, "early", &spec);
    start("early", whole);
    go();
    ask(CMD_NO_ENSEMBLE, "is not yet valid");
    stop();
}

TEST(a_client_is_no_server)
{
    start("client", whole);
    go();
    use("https://", "127.0.0.1");
    settings.ca = at("ca.pem");
    ask(CMD_NO_ENSEMBLE, "does not verify: ");
    stop();
}

/* The server asks for a certificate of the client, in the given version. */
static void start_strict(int version)
{
    start("server", whole);
    SSL_CTX_set_verify(server.ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    assert_int_equal(SSL_CTX_load_verify_locations(server.ctx, at("ca.pem"), NULL), 1);
    assert_int_equal(SSL_CTX_set_max_proto_version(server.ctx, version), 1);
    go();
    use("https://", "127.0.0.1");
    settings.ca = at("ca.pem");
}

TEST(a_server_that_wants_a_certificate_is_understood)
{
    struct issue_pair eve;

    cert_kit_make(&(struct cert_kit_spec){.kind = ISSUE_CLIENT, .common = "eve"}, &stranger, &eve);
    cert_kit_put(&kit, "eve", &eve);
    issue_release(&eve);

    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};

    for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
        start_strict(versions[i]);
        ask(CMD_NO_ENSEMBLE, "--cert");
        assert_int_equal(server.requests, 0);
        settings.cert = at("eve.pem");
        settings.key = at("eve.key");
        ask(CMD_NO_ENSEMBLE, "does not know the authority that signed the certificate of --cert");
        assert_int_equal(server.requests, 0);
        settings.cert = at("client.pem");
        settings.key = at("client.key");
        ask(CMD_OK, "");
        assert_int_equal(server.requests, 1);
        stop();
    }
}

/* An alert says that the write was not applied: its outcome is not unknown. */
TEST(a_write_that_tls_refuses_was_not_applied)
{
    start_strict(TLS1_3_VERSION);

    struct client *client = client_open(&settings);

    assert_int_equal(client_ask(client, &(struct client_request){.method = "PUT",
                                                                 .path = "/a",
                                                                 .has_body = true,
                                                                 .body = slice_str("x")}),
                     CMD_NO_ENSEMBLE);
    assert_string_equal(client->error.code, CLIENT_TLS);
    client_close(client);
    stop();
}

/* No alert: a replica may have read the request. */
TEST(the_outcome_behind_a_reset_connection_is_unknown)
{
    struct buf body;

    start("server", NULL);
    go();
    use("https://", "127.0.0.1");
    settings.ca = at("ca.pem");
    settings.timeout_ms = SHORT_MS;
    buf_init(&body, BODY_BYTES);
    (void)memset(buf_reserve(&body, BODY_BYTES), 'x', BODY_BYTES);
    body.len = BODY_BYTES;

    struct client *client = client_open(&settings);

    assert_int_equal(client_ask(client, &(struct client_request){.method = "PUT",
                                                                 .path = "/a",
                                                                 .has_body = true,
                                                                 .body = buf_slice(&body)}),
                     CMD_TIMED_OUT);
    assert_non_null(strstr(client->error.message, "may or may not have been applied"));
    client_close(client);
    buf_release(&body);
    stop();
}

TEST(old_versions_are_refused)
{
    start("server", whole);
    SSL_CTX_set_security_level(server.ctx, 0);
    assert_int_equal(SSL_CTX_set_max_proto_version(server.ctx, TLS1_1_VERSION), 1);
    go();
    use("https://", "127.0.0.1");
    settings.ca = at("ca.pem");
    ask(CMD_NO_ENSEMBLE, "no version of TLS in common");
    stop();
}

TEST(a_plain_port_and_a_tls_port_are_told_apart)
{
    start(NULL, whole);
    go();
    use("https://", "127.0.0.1");
    ask(CMD_NO_ENSEMBLE, "this port does not speak TLS; write http://");
    stop();
    start("server", whole);
    go();
    use("http://", "127.0.0.1");
    settings.timeout_ms = SHORT_MS;
    ask_by_code(CMD_NO_ENSEMBLE, "NoEnsemble", "write https:// in --endpoints");
    stop();
}

TEST(no_redirection_is_followed)
{
    static char answer[LINE_MAX_LEN];

    (void)snprintf(answer, sizeof(answer),
                   "HTTP/1.1 308 Permanent Redirect\r\nLocation: https://127.0.0.1:%u/status/v1\r\n"
                   "Content-Length: 0\r\n\r\n",
                   server.port);
    start(NULL, answer);
    go();
    use("http://", "127.0.0.1");
    ask(CMD_NO_ENSEMBLE, "this port wants TLS; write https:// in --endpoints");
    assert_int_equal(server.requests, 1);
    stop();
}

TEST(another_endpoint_may_be_right)
{
    start("server", whole);
    go();
    (void)snprintf(endpoints, sizeof(endpoints), "http://127.0.0.1:%u,https://127.0.0.1:%u",
                   server.port, server.port);
    settings = (struct settings){.endpoints = endpoints, .timeout_ms = WAIT_MS};
    settings.ca = at("ca.pem");
    ask(CMD_OK, "");
    assert_int_equal(server.requests, 1);
    stop();
}

/* ---- Files ---- */

TEST(the_files_are_checked_before_a_request)
{
    use("https://", "127.0.0.1");
    settings.ca = "/nonexistent";
    refuse("--ca: cannot read /nonexistent: No such file");
    settings.ca = at("ca.key");
    refuse("has no certificate in PEM form");
    settings.ca = NULL;
    settings.cert = at("client.pem");
    refuse("--cert and --key belong together: --key is missing");
    settings.key = at("server.key");
    refuse("the key does not fit the certificate");
    settings.key = "/nonexistent";
    refuse("--key: cannot read /nonexistent");
    settings.key = at("client.key");
    assert_int_equal(chmod(settings.key, 0644), 0);
    refuse("run: chmod 600");
    assert_int_equal(chmod(settings.key, 0600), 0);
    settings.cert = NULL;
    refuse("--cert and --key belong together: --cert is missing");
    settings.cert = at("server.pem");
    settings.key = at("server.key");
    refuse("may not be used by a client");
    cert_kit_add(
        &kit, "late",
        &(struct cert_kit_spec){.kind = ISSUE_CLIENT, .common = "late", .life = CERT_KIT_EXPIRED});
    settings.cert = at("late.pem");
    settings.key = at("late.key");
    refuse("has expired on 2001-01-01");
    cert_kit_write(&kit, "empty", slice_str(""));
    settings.key = at("empty");
    refuse("--key is empty");
}

TEST(options_without_https_are_a_mistake)
{
    use("", "127.0.0.1");
    settings.ca = at("ca.pem");
    settings.tls_given = "ca";
    refuse("--ca is of use only with an endpoint that begins with https://");

    /* In the environment or the file they may serve other endpoints. */
    settings.tls_given = NULL;

    struct client *client = client_open(&settings);

    assert_non_null(client);
    client_close(client);
}

TEST(curl_gets_the_files)
{
    char line[LINE_MAX_LEN * 4];
    struct buf out;

    use("https://", "localhost");
    settings.ca = at("ca.pem");
    settings.cert = at("client.pem");
    settings.key = at("client.key");
    (void)snprintf(line, sizeof(line),
                   "curl -sS --cacert '%s' --cert '%s' --key '%s' 'https://localhost:%u/a'\n",
                   settings.ca, settings.cert, settings.key, server.port);
    buf_init(&out, sizeof(line));

    struct client *client = client_open(&settings);

    assert_non_null(client);
    client_put_curl(client, &(struct client_request){.target = "/a"}, &out);
    assert_string_equal(buf_cstr(&out), line);
    buf_clear(&out);
    client_close(client);

    /* Not for a plain endpoint. */
    use("http://", "localhost");
    settings.ca = at("ca.pem");
    client = client_open(&settings);
    client_put_curl(client, &(struct client_request){.target = "/a"}, &out);
    assert_null(strstr(buf_cstr(&out), "--cacert"));
    client_close(client);
    buf_release(&out);
}
