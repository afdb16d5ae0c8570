/* The client of ZooKeeper's protocol over TLS, against a server with a certificate of its own. */
#include "tls/dial.h"
#include "zk/wire.h"

#include "base/buf.h"
#include "base/check.h"
#include "cli/zk_client.h"
#include "tests/lib/cert_kit.h"
#include "tests/lib/unit.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    BYTES_MAX = 1 << 16,
    PATIENCE_MS = 10000,
    SHORT_MS = 200,
    EVENTS = 3
};

enum manner {
    MANNER_TLS,
    MANNER_PLAIN, /* Answers the hello of TLS with other bytes. */
    MANNER_CLOSE,
    MANNER_SILENT
};

struct server {
    struct cert_kit kit;
    const char *cert; /* Name of a pair of the kit. */
    enum manner manner;
    bool wants_certificate;
    int listener;
    uint16_t port;
    pthread_t thread;
    struct zk_client client;
};

/* ---- The server ---- */

static void put_hello(struct buf *out)
{
    static const uint8_t password[16];
    size_t at = zk_frame_begin(out);

    zk_put_int(out, 0);
    zk_put_int(out, PATIENCE_MS);
    zk_put_long(out, 5);
    zk_put_bytes(out, slice_make(password, sizeof(password)));
    zk_put_bool(out, false);
    zk_frame_end(out, at);
}

/* The hello and some events: one record has them all. */
static void serve_session(SSL *ssl)
{
    struct buf out;
    char bytes[BYTES_MAX];

    buf_init(&out, BYTES_MAX);
    put_hello(&out);
    for (int i = 0; i < EVENTS; i++) {
        size_t at = zk_frame_begin(&out);

        zk_put_int(&out, -1);
        zk_put_long(&out, -1);
        zk_put_int(&out, 0);
        zk_put_int(&out, ZK_CLIENT_CHANGED);
        zk_put_int(&out, 3);
        zk_put_bytes(&out, slice_str("/changed"));
        zk_frame_end(&out, at);
    }
    if (SSL_read(ssl, bytes, sizeof(bytes)) > 0) {
        (void)SSL_write(ssl, out.data, (int)out.len);
        while (SSL_read(ssl, bytes, sizeof(bytes)) > 0) {
        }
    }
    buf_release(&out);
}

static void serve_tls(const struct server *server, int fd)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    SSL *ssl = NULL;
    char name[64];

    (void)snprintf(name, sizeof(name), "%s.pem", server->cert);
    ASSERT(SSL_CTX_use_certificate_file(ctx, CERT_KIT_PATH(&server->kit, name), SSL_FILETYPE_PEM) ==
           1);
    (void)snprintf(name, sizeof(name), "%s.key", server->cert);
    ASSERT(SSL_CTX_use_PrivateKey_file(ctx, CERT_KIT_PATH(&server->kit, name), SSL_FILETYPE_PEM) ==
           1);
    if (server->wants_certificate) {
        ASSERT(SSL_CTX_load_verify_file(ctx, CERT_KIT_PATH(&server->kit, "ca.pem")) == 1);
        SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    }
    ssl = SSL_new(ctx);
    (void)SSL_set_fd(ssl, fd);
    if (SSL_accept(ssl) == 1) {
        serve_session(ssl);
    }
    ERR_clear_error();
    SSL_free(ssl);
    SSL_CTX_free(ctx);
}

static void *serve(void *ctx)
{
    struct server *server = ctx;
    sigset_t pipe_only;
    int fd = accept(server->listener, NULL, NULL);
    char bytes[BYTES_MAX];

    (void)sigemptyset(&pipe_only);
    (void)sigaddset(&pipe_only, SIGPIPE);
    (void)pthread_sigmask(SIG_BLOCK, &pipe_only, NULL);
    if (server->manner == MANNER_TLS) {
        serve_tls(server, fd);
    } else if (server->manner == MANNER_PLAIN) {
        (void)send(fd, bytes, (size_t)snprintf(bytes, sizeof(bytes), "ZooKeeper without TLS"),
                   MSG_NOSIGNAL);
    }
    if (server->manner != MANNER_SILENT) {
        (void)shutdown(fd, SHUT_WR);
    }
    while (recv(fd, bytes, sizeof(bytes), 0) > 0) {
    }
    close(fd);
    return NULL;
}

static void setup(struct server *server)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);

    *server = (struct server){.cert = "zk", .listener = socket(AF_INET, SOCK_STREAM, 0)};
    cert_kit_open(&server->kit);
    cert_kit_add_server(&server->kit, "zk", "zk");
    cert_kit_add_client(&server->kit, "bob");
    assert_int_equal(bind(server->listener, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(server->listener, 1), 0);
    assert_int_equal(getsockname(server->listener, (struct sockaddr *)&address, &len), 0);
    server->port = ntohs(address.sin_port);
}

static void teardown(struct server *server)
{
    zk_client_close(&server->client);
    if (server->thread) {
        assert_int_equal(pthread_join(server->thread, NULL), 0);
    }
    close(server->listener);
    cert_kit_close(&server->kit);
}

/* ---- The client ---- */

static bool connect_to(struct server *server, const char *ca, bool proves, int64_t timeout_ms)
{
    struct zk_client *client = &server->client;
    char error[TLS_DIAL_ERROR_MAX];
    char hosts[64];

    (void)snprintf(hosts, sizeof(hosts), "127.0.0.1:%u", server->port);
    assert_true(zk_client_init(client, hosts, timeout_ms));
    client->tls = tls_dial_new(CERT_KIT_PATH(&server->kit, ca),
                               proves ? CERT_KIT_PATH(&server->kit, "bob.pem") : NULL,
                               proves ? CERT_KIT_PATH(&server->kit, "bob.key") : NULL, error);
    assert_non_null(client->tls);
    assert_int_equal(pthread_create(&server->thread, NULL, serve, server), 0);
    return zk_client_connect(client);
}

static void expect_refusal(struct server *server, const char *ca, const char *words)
{
    assert_false(connect_to(server, ca, false, PATIENCE_MS));
    if (!strstr(server->client.error, words)) {
        fail_msg("%s, not %s", server->client.error, words);
    }
}

/* They are decrypted at once, and the kernel has no byte of the second one. */
TEST(frames_of_one_record_are_all_taken, server, setup, teardown)
{
    struct zk_client_news news;

    assert_true(connect_to(server, "ca.pem", false, PATIENCE_MS));
    for (int i = 0; i < EVENTS; i++) {
        zk_client_next(&server->client, SHORT_MS, &news);
        assert_int_equal(news.kind, ZK_CLIENT_EVENT);
        assert_true(slice_eq(news.path, slice_str("/changed")));
    }
    zk_client_next(&server->client, 0, &news);
    assert_int_equal(news.kind, ZK_CLIENT_NOTHING);
}

TEST(a_certificate_of_another_ca_is_refused, server, setup, teardown)
{
    struct issue_pair stranger;

    cert_kit_make(&(struct cert_kit_spec){.kind = ISSUE_CA, .common = "stranger"}, NULL, &stranger);
    cert_kit_put(&server->kit, "stranger", &stranger);
    issue_release(&stranger);
    expect_refusal(server, "stranger.pem", "TLS: the certificate of the server: ");
}

TEST(a_certificate_of_another_host_is_refused, server, setup, teardown)
{
    cert_kit_add(&server->kit, "other",
                 &(struct cert_kit_spec){
                     .kind = ISSUE_SERVER, .common = "other", .names = "127.0.0.2,other.example"});
    server->cert = "other";
    expect_refusal(server, "ca.pem", "IP address mismatch");
}

TEST(an_expired_certificate_is_refused, server, setup, teardown)
{
    cert_kit_add(&server->kit, "old",
                 &(struct cert_kit_spec){.kind = ISSUE_SERVER,
                                         .common = "old",
                                         .names = CERT_KIT_LOCAL,
                                         .life = CERT_KIT_EXPIRED});
    server->cert = "old";
    expect_refusal(server, "ca.pem", "certificate has expired");
}

TEST(a_server_that_wants_a_certificate_gets_it, server, setup, teardown)
{
    struct zk_client_news news;

    server->wants_certificate = true;
    assert_true(connect_to(server, "ca.pem", true, PATIENCE_MS));
    zk_client_next(&server->client, PATIENCE_MS, &news);
    assert_int_equal(news.kind, ZK_CLIENT_EVENT);
}

TEST(without_a_certificate_the_error_names_the_option, server, setup, teardown)
{
    server->wants_certificate = true;
    expect_refusal(server, "ca.pem", "--from-cert");
}

TEST(a_server_without_tls_is_found_out, server, setup, teardown)
{
    server->manner = MANNER_PLAIN;
    expect_refusal(server, "ca.pem", "TLS: the handshake failed: wrong version number");
}

TEST(a_server_that_closes_is_found_out, server, setup, teardown)
{
    server->manner = MANNER_CLOSE;
    expect_refusal(server, "ca.pem", "is this its port for TLS?");
}

TEST(a_silent_handshake_has_a_deadline, server, setup, teardown)
{
    server->manner = MANNER_SILENT;
    assert_false(connect_to(server, "ca.pem", false, SHORT_MS));
    assert_non_null(strstr(server->client.error, "TLS: the server does not answer"));
}

TEST(files_that_cannot_be_used_are_named, server, setup, teardown)
{
    char error[TLS_DIAL_ERROR_MAX];

    assert_null(tls_dial_new("/none/ca.pem", NULL, NULL, error));
    assert_string_equal(error, "the CA: /none/ca.pem: No such file or directory");
    cert_kit_write(&server->kit, "empty", slice_str("no certificate\n"));
    assert_null(tls_dial_new(CERT_KIT_PATH(&server->kit, "empty"), NULL, NULL, error));
    assert_null(tls_dial_new(CERT_KIT_PATH(&server->kit, "ca.pem"),
                             CERT_KIT_PATH(&server->kit, "bob.pem"),
                             CERT_KIT_PATH(&server->kit, "zk.key"), error));
    assert_non_null(strstr(error, "the key: "));
    assert_non_null(strstr(error, "key values mismatch"));
}
