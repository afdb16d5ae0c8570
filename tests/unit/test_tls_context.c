/* Contexts: versions and ciphers, choice among certificates, tickets, files. */
#include "base/log.h"
#include "tests/lib/cert_weak.h"
#include "tests/unit/tls_kit.h"

#include <stdio.h>
#include <sys/stat.h>

/* ---- Versions, ciphers, protocols ---- */

TEST(old_versions_are_refused, tls_kit, tls_kit_open, tls_kit_close)
{
    tls_kit_refuses(tls_kit, &(struct tls_peer_setup){.version = TLS1_VERSION}, TLS_VERSION);
    tls_kit_refuses(tls_kit, &(struct tls_peer_setup){.version = TLS1_1_VERSION}, TLS_VERSION);
    tls_kit_connect(tls_kit, &(struct tls_peer_setup){.version = TLS1_2_VERSION});
    assert_string_equal(SSL_get_version(tls_kit->peer.ssl), "TLSv1.2");
}

TEST(ciphers_without_forward_secrecy_or_aead_are_refused, tls_kit, tls_kit_open, tls_kit_close)
{
    static const char *const bad[] = {"ECDHE-ECDSA-AES128-SHA256", "AES128-GCM-SHA256",
                                      "ECDHE-ECDSA-AES256-SHA", "DHE-RSA-AES128-GCM-SHA256"};
    static const char *const good[] = {"ECDHE-ECDSA-AES128-GCM-SHA256",
                                       "ECDHE-ECDSA-CHACHA20-POLY1305"};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const struct tls_peer_setup setup = {.version = TLS1_2_VERSION, .ciphers = bad[i]};

        tls_kit_refuses(tls_kit, &setup, TLS_CIPHER);
    }
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        tls_kit_connect(tls_kit,
                        &(struct tls_peer_setup){.version = TLS1_2_VERSION, .ciphers = good[i]});
        tls_kit_hang_up(tls_kit);
    }
}

TEST(a_client_that_offers_only_h2_is_refused, tls_kit, tls_kit_open, tls_kit_close)
{
    const unsigned char *chosen = NULL;
    unsigned len = 0;

    tls_kit_refuses(tls_kit, &(struct tls_peer_setup){.protocols = "\2h2"}, TLS_PROTOCOL);
    tls_kit_connect(tls_kit, &(struct tls_peer_setup){.protocols = "\2h2\10http/1.1"});
    SSL_get0_alpn_selected(tls_kit->peer.ssl, &chosen, &len);
    assert_int_equal(len, 8);
    assert_memory_equal(chosen, "http/1.1", 8);
}

/* ---- Choice among certificates ---- */

TEST(the_name_of_the_client_chooses_the_certificate, tls_kit, tls_kit_open, tls_kit_close)
{
    const struct cert_kit_spec a = {.kind = ISSUE_SERVER, .common = "a", .names = "a.example"};
    const struct cert_kit_spec b = {.kind = ISSUE_SERVER, .common = "b", .names = "*.b.example"};
    char text[TLS_IDENTITY_MAX];

    cert_kit_add(&tls_kit->certs, "a", &a);
    cert_kit_add(&tls_kit->certs, "b", &b);
    (void)snprintf(tls_kit->cert_files, sizeof(tls_kit->cert_files),
                   "%s/server.pem,%s/a.pem, %s/b.pem", tls_kit->certs.dir, tls_kit->certs.dir,
                   tls_kit->certs.dir);
    (void)snprintf(tls_kit->key_files, sizeof(tls_kit->key_files),
                   "%s/server.key,%s/a.key, %s/b.key", tls_kit->certs.dir, tls_kit->certs.dir,
                   tls_kit->certs.dir);
    tls_kit_connect(tls_kit, &(struct tls_peer_setup){.name = "a.example"});
    assert_string_equal(tls_kit_subject(tls_kit, text), "CN=a");
    tls_kit_hang_up(tls_kit);
    tls_kit_connect(tls_kit, &(struct tls_peer_setup){.name = "x.b.example"});
    assert_string_equal(tls_kit_subject(tls_kit, text), "CN=b");
    tls_kit_hang_up(tls_kit);
    tls_kit_connect(tls_kit, NULL);
    assert_string_equal(tls_kit_subject(tls_kit, text), "CN=server");
    tls_kit_hang_up(tls_kit);
    /* No certificate is for this name: the first one is offered, and the client refuses it. */
    tls_kit_dial(tls_kit, &(struct tls_peer_setup){.name = "c.example"});
    assert_false(tls_kit_shake(tls_kit));
    assert_int_equal(tls_kit->failure, TLS_ALERT);
    assert_non_null(strstr(tls_kit->detail, "certificate"));
}

/* A client that has no ECDSA gets the certificate with the key of RSA, and all others the first. */
TEST(the_kind_of_key_chooses_the_certificate, tls_kit, tls_kit_open, tls_kit_close)
{
    static const struct cert_weak rsa = {
        .rsa_bits = 2048, .common = "rsa", .names = "DNS:localhost"};
    struct tls_peer_setup setup = {.version = TLS1_2_VERSION,
                                   .ciphers = "ECDHE-RSA-AES128-GCM-SHA256"};
    char text[TLS_IDENTITY_MAX];
    struct issue_pair pair;

    cert_weak_make(&rsa, &tls_kit->certs.ca, &pair);
    cert_kit_put(&tls_kit->certs, "rsa", &pair);
    issue_release(&pair);
    (void)snprintf(tls_kit->cert_files, sizeof(tls_kit->cert_files), "%s/server.pem,%s/rsa.pem",
                   tls_kit->certs.dir, tls_kit->certs.dir);
    (void)snprintf(tls_kit->key_files, sizeof(tls_kit->key_files), "%s/server.key,%s/rsa.key",
                   tls_kit->certs.dir, tls_kit->certs.dir);
    tls_kit_connect(tls_kit, &setup);
    assert_string_equal(tls_kit_subject(tls_kit, text), "CN=rsa");
    tls_kit_hang_up(tls_kit);
    setup.ciphers = "ECDHE-ECDSA-AES128-GCM-SHA256";
    tls_kit_connect(tls_kit, &setup);
    assert_string_equal(tls_kit_subject(tls_kit, text), "CN=server");
    tls_kit_hang_up(tls_kit);
    tls_kit_connect(tls_kit, NULL);
    assert_string_equal(tls_kit_subject(tls_kit, text), "CN=server");
}

/* ---- Tickets ---- */

/* Connects with the newest ticket; whether the session was resumed. */
static bool resumes(struct tls_kit *kit, int version, SSL_SESSION **session)
{
    const struct tls_peer_setup setup = {.version = version, .session = *session, .cert = "bob"};
    bool resumed = false;

    tls_kit_connect(kit, &setup);
    assert_int_equal(send(kit->fd, "x", 1, MSG_NOSIGNAL), 1);
    (void)tls_kit_hear(kit);
    resumed = tls_socket_is_resumed(kit->socket);
    assert_int_equal(SSL_session_reused(kit->peer.ssl), resumed);
    assert_string_equal(tls_socket_identity(kit->socket),
                        kit->setup.clients == TLS_CLIENTS_OFF ? "" : "CN=bob");
    if (kit->peer.session) {
        SSL_SESSION_free(*session);
        *session = kit->peer.session;
        kit->peer.session = NULL;
    }
    tls_kit_hang_up(kit);
    return resumed;
}

TEST(a_ticket_resumes_and_keeps_the_identity, tls_kit, tls_kit_ask, tls_kit_close)
{
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};

    for (size_t i = 0; i < 2; i++) {
        SSL_SESSION *session = NULL;

        assert_false(resumes(tls_kit, versions[i], &session));
        assert_true(resumes(tls_kit, versions[i], &session));
        assert_true(resumes(tls_kit, versions[i], &session));
        SSL_SESSION_free(session);
    }
}

/* A setup of its own whose tickets the test can turn. */
static SSL_SESSION *ticket_of(struct tls_context *context, struct tls_kit *kit,
                              SSL_SESSION *session, bool *ret_resumed)
{
    /* A copy: OpenSSL would use the session of a ticket only once. */
    const struct tls_peer_setup setup = {.session = session ? SSL_SESSION_dup(session) : NULL};

    tls_kit_dial(kit, &setup);
    SSL_SESSION_free(setup.session);
    tls_socket_free(kit->socket);
    kit->socket = tls_socket_new(context, kit->fd);
    assert_true(tls_kit_shake(kit));
    *ret_resumed = tls_socket_is_resumed(kit->socket);
    (void)tls_kit_hear(kit);
    session = kit->peer.session;
    assert_non_null(session);
    kit->peer.session = NULL;
    tls_kit_hang_up(kit);
    return session;
}

/* A client that sends data with its hello, although the ticket does not permit it: the data may be
 * a copy of another client's, so it is never delivered. */
TEST(early_data_is_not_delivered, tls_kit, tls_kit_ask, tls_kit_close)
{
    struct tls_peer_setup setup = {.cert = "bob"};
    char bytes[16] = "";
    size_t written = 0;

    tls_kit_connect(tls_kit, &setup);
    (void)tls_kit_hear(tls_kit);
    setup.session = tls_kit->peer.session;
    assert_non_null(setup.session);
    assert_int_equal(SSL_SESSION_get_max_early_data(setup.session), 0);
    assert_int_equal(SSL_SESSION_set_max_early_data(setup.session, 4096), 1);
    assert_true(SSL_SESSION_up_ref(setup.session));
    tls_kit_hang_up(tls_kit);
    tls_kit_dial(tls_kit, &setup);
    assert_int_equal(SSL_write_early_data(tls_kit->peer.ssl, "early", 5, &written), 1);
    assert_true(tls_kit_shake(tls_kit));
    assert_int_equal(SSL_get_early_data_status(tls_kit->peer.ssl), SSL_EARLY_DATA_REJECTED);
    assert_true(tls_socket_is_resumed(tls_kit->socket));
    assert_int_equal(recv(tls_kit->fd, bytes, sizeof(bytes), 0), -1);
    assert_int_equal(errno, EAGAIN);
    tls_peer_send(&tls_kit->peer, "late", 4);
    assert_int_equal(recv(tls_kit->fd, bytes, sizeof(bytes), 0), 4);
    assert_string_equal(bytes, "late");
    SSL_SESSION_free(setup.session);
}

TEST(a_ticket_is_opened_for_one_more_period, tls_kit, tls_kit_open, tls_kit_close)
{
    uint64_t now_ms = os_now_ms();
    struct tls_tickets tickets;
    struct tls_fault fault;
    struct tls_context *context = NULL;
    SSL_SESSION *first = NULL;
    SSL_SESSION *second = NULL;
    bool resumed = false;

    tls_tickets_init(&tickets, now_ms);
    context = tls_context_new(&tls_kit->setup, &tickets, &fault);
    assert_non_null(context);
    first = ticket_of(context, tls_kit, NULL, &resumed);
    assert_false(resumed);
    tls_tickets_turn(&tickets, now_ms + TLS_TICKET_PERIOD_MS - 1);
    SSL_SESSION_free(ticket_of(context, tls_kit, first, &resumed));
    assert_true(resumed);
    tls_tickets_turn(&tickets, now_ms + TLS_TICKET_PERIOD_MS);
    second = ticket_of(context, tls_kit, first, &resumed);
    assert_true(resumed);
    tls_tickets_turn(&tickets, now_ms + 2 * (uint64_t)TLS_TICKET_PERIOD_MS);
    SSL_SESSION_free(ticket_of(context, tls_kit, first, &resumed));
    assert_false(resumed);
    SSL_SESSION_free(ticket_of(context, tls_kit, second, &resumed));
    assert_true(resumed);
    /* After two periods without a handshake both keys are too old. */
    tls_tickets_turn(&tickets, now_ms + 9 * (uint64_t)TLS_TICKET_PERIOD_MS);
    SSL_SESSION_free(ticket_of(context, tls_kit, second, &resumed));
    assert_false(resumed);
    SSL_SESSION_free(first);
    SSL_SESSION_free(second);
    tls_context_unref(context);
    tls_tickets_release(&tickets);
}

/* ---- Files ---- */

/* Loading fails with one sentence that has these parts. */
static void expect_fault(struct tls_kit *kit, const char *part, const char *other)
{
    struct tls_current *current = NULL;
    struct tls_fault fault;

    assert_int_equal(tls_current_open(&kit->setup, &current, &fault), ERR_CONFIG);
    if (!strstr(fault.text, part) || !strstr(fault.text, other)) {
        fail_msg("\"%s\" names not \"%s\" and \"%s\"", fault.text, part, other);
    }
}

static void use_pair(struct tls_kit *kit, const char *cert, const char *key)
{
    (void)cert_kit_path(&kit->certs, cert, kit->cert_files);
    (void)cert_kit_path(&kit->certs, key, kit->key_files);
}

TEST(each_mistake_in_the_files_of_the_replica_is_named, tls_kit, tls_kit_ask, tls_kit_close)
{
    const struct cert_kit_spec old = {
        .kind = ISSUE_SERVER, .common = "old", .names = "localhost", .life = CERT_KIT_EXPIRED};
    const struct cert_kit_spec early = {
        .kind = ISSUE_SERVER, .common = "early", .names = "localhost", .life = CERT_KIT_EARLY};

    cert_kit_add(&tls_kit->certs, "old", &old);
    cert_kit_add(&tls_kit->certs, "early", &early);
    cert_kit_write(&tls_kit->certs, "text.pem", slice_str("no certificate\n"));
    use_pair(tls_kit, "none.pem", "server.key");
    expect_fault(tls_kit, "tlsCertFile: ", "none.pem cannot be read: No such file");
    use_pair(tls_kit, "text.pem", "server.key");
    expect_fault(tls_kit, "tlsCertFile: ", "text.pem holds no certificate");
    use_pair(tls_kit, "old.pem", "old.key");
    expect_fault(tls_kit, "old.pem expired on 2001-", "replace it");
    use_pair(tls_kit, "early.pem", "early.key");
    expect_fault(tls_kit, "early.pem is not valid before 2100-", "the clock");
    use_pair(tls_kit, "bob.pem", "bob.key");
    expect_fault(tls_kit, "bob.pem is not for servers", "serverAuth");
    use_pair(tls_kit, "server.pem", "none.key");
    expect_fault(tls_kit, "tlsKeyFile: ", "none.key cannot be read: No such file");
    use_pair(tls_kit, "server.pem", "text.pem");
    expect_fault(tls_kit, "tlsKeyFile: ", "text.pem holds no private key");
    use_pair(tls_kit, "server.pem", "bob.key");
    expect_fault(tls_kit, "bob.key does not belong to the certificate", "server.pem");
    use_pair(tls_kit, "server.pem", "server.key");
    assert_int_equal(chmod(tls_kit->key_files, 0644), 0);
    expect_fault(tls_kit, "tlsKeyFile: other users may read", "chmod 600");
    use_pair(tls_kit, "", "server.key");
    expect_fault(tls_kit, "tlsCertFile: ", "is not a regular file");
    (void)snprintf(tls_kit->cert_files, sizeof(tls_kit->cert_files), "a,b");
    expect_fault(tls_kit, "tlsCertFile: give 1 to 8 paths", "same order");
}

TEST(each_mistake_in_the_files_for_clients_is_named, tls_kit, tls_kit_ask, tls_kit_close)
{
    const struct cert_kit_spec old = {.kind = ISSUE_CA, .common = "old", .life = CERT_KIT_EXPIRED};
    struct issue_pair ca;

    cert_kit_make(&old, NULL, &ca);
    cert_kit_put(&tls_kit->certs, "oldca", &ca);
    issue_release(&ca);
    (void)cert_kit_path(&tls_kit->certs, "none.pem", tls_kit->ca_file);
    expect_fault(tls_kit, "clientCaFile: ", "none.pem cannot be read");
    (void)cert_kit_path(&tls_kit->certs, "oldca.pem", tls_kit->ca_file);
    expect_fault(tls_kit, "clientCaFile: a CA certificate in", "expired on 2001-");
    (void)cert_kit_path(&tls_kit->certs, "bob.pem", tls_kit->ca_file);
    expect_fault(tls_kit, "clientCaFile: a certificate in", "is not that of a CA");
    (void)cert_kit_path(&tls_kit->certs, "ca.pem", tls_kit->ca_file);
    (void)cert_kit_path(&tls_kit->certs, "bob.pem", tls_kit->crl_file);
    expect_fault(tls_kit, "clientCrlFile: ", "holds no revocation list");
}

TEST(lists_of_paths_are_split)
{
    char paths[TLS_CHAINS_MAX][TLS_PATH_MAX];

    assert_int_equal(tls_split_paths("", paths), 0);
    assert_int_equal(tls_split_paths("/a b , /c", paths), 2);
    assert_string_equal(paths[0], "/a b");
    assert_string_equal(paths[1], "/c");
    assert_int_equal(tls_split_paths("/a,", paths), TLS_CHAINS_MAX + 1);
    assert_int_equal(tls_split_paths(",/a", paths), TLS_CHAINS_MAX + 1);
    assert_int_equal(tls_split_paths("a, ,b", paths), TLS_CHAINS_MAX + 1);
    assert_int_equal(tls_split_paths("1,2,3,4,5,6,7,8", paths), 8);
    assert_int_equal(tls_split_paths("1,2,3,4,5,6,7,8,9", paths), TLS_CHAINS_MAX + 1);
}
