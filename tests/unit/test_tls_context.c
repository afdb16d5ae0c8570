/* Contexts: what clients are refused for, choice among certificates, tickets, files, reload. */
#include "base/log.h"
#include "tests/lib/cert_weak.h"
#include "tests/unit/tls_kit.h"

#include <stdio.h>
#include <sys/stat.h>

static void add_client(struct tls_kit *kit, const char *name, enum cert_kit_life life)
{
    const struct cert_kit_spec spec = {.kind = ISSUE_CLIENT,
                                       .common = name,
                                       .names = "bob.example,bob@example.com",
                                       .uri = "zabra://clients/bob",
                                       .life = life};

    cert_kit_add(&kit->certs, name, &spec);
}

static void ask(struct tls_kit *kit)
{
    tls_kit_open(kit);
    kit->setup.clients = TLS_CLIENTS_ASK;
    add_client(kit, "bob", CERT_KIT_VALID);
}

static void require(struct tls_kit *kit)
{
    ask(kit);
    kit->setup.clients = TLS_CLIENTS_REQUIRED;
}

/* The handshake fails for this reason, and the client learns of it by an alert. */
static void expect_refused(struct tls_kit *kit, const struct tls_peer_setup *setup,
                           enum tls_failure failure)
{
    tls_kit_dial(kit, setup);
    if (tls_kit_shake(kit)) {
        fail_msg("the handshake has succeeded");
    }
    if (kit->failure != failure) {
        fail_msg("not %s, but %s (%s)", tls_failure_label(failure), tls_failure_label(kit->failure),
                 kit->detail);
    }
    assert_int_equal(tls_peer_shake(&kit->peer), -1);
    tls_kit_hang_up(kit);
}

/* ---- Versions, ciphers, protocols ---- */

TEST(old_versions_are_refused, tls_kit, tls_kit_open, tls_kit_close)
{
    expect_refused(tls_kit, &(struct tls_peer_setup){.version = TLS1_VERSION}, TLS_VERSION);
    expect_refused(tls_kit, &(struct tls_peer_setup){.version = TLS1_1_VERSION}, TLS_VERSION);
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

        expect_refused(tls_kit, &setup, TLS_CIPHER);
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

    expect_refused(tls_kit, &(struct tls_peer_setup){.protocols = "\2h2"}, TLS_PROTOCOL);
    tls_kit_connect(tls_kit, &(struct tls_peer_setup){.protocols = "\2h2\10http/1.1"});
    SSL_get0_alpn_selected(tls_kit->peer.ssl, &chosen, &len);
    assert_int_equal(len, 8);
    assert_memory_equal(chosen, "http/1.1", 8);
}

/* ---- Clients' certificates ---- */

TEST(the_subject_of_a_client_is_its_identity, tls_kit, ask, tls_kit_close)
{
    tls_kit_connect(tls_kit, &(struct tls_peer_setup){.cert = "bob"});
    assert_string_equal(tls_socket_identity(tls_kit->socket), "CN=bob");
    tls_kit_hang_up(tls_kit);
    tls_kit_connect(tls_kit, NULL);
    assert_string_equal(tls_socket_identity(tls_kit->socket), "");
}

TEST(an_alternative_name_may_be_the_identity, tls_kit, ask, tls_kit_close)
{
    static const struct {
        enum tls_identity_kind kind;
        const char *text;
    } kinds[] = {{TLS_SAN_DNS, "bob.example"},
                 {TLS_SAN_URI, "zabra://clients/bob"},
                 {TLS_SAN_EMAIL, "bob@example.com"}};

    for (size_t i = 0; i < 3; i++) {
        tls_kit->setup.identity = kinds[i].kind;
        tls_kit_connect(tls_kit, &(struct tls_peer_setup){.cert = "bob"});
        assert_string_equal(tls_socket_identity(tls_kit->socket), kinds[i].text);
        tls_kit_hang_up(tls_kit);
        tls_current_close(tls_kit->current);
        tls_kit->current = NULL;
    }
}

TEST(a_client_without_a_certificate_is_refused_when_one_is_required, tls_kit, require,
     tls_kit_close)
{
    expect_refused(tls_kit, &(struct tls_peer_setup){.version = TLS1_2_VERSION},
                   TLS_NO_CERTIFICATE);
    tls_kit_connect(tls_kit, &(struct tls_peer_setup){.cert = "bob"});
}

/* In TLS 1.3 the client is content before the server has seen its certificate. */
static void expect_refused_late(struct tls_kit *kit, const struct tls_peer_setup *setup,
                                enum tls_failure failure)
{
    tls_kit_dial(kit, setup);
    assert_false(tls_kit_shake(kit));
    assert_string_equal(tls_failure_label(kit->failure), tls_failure_label(failure));
    assert_int_equal(tls_peer_receive(&kit->peer, &kit->got), SSL_ERROR_SSL);
    tls_kit_hang_up(kit);
}

TEST(certificates_that_are_not_acceptable_are_refused, tls_kit, require, tls_kit_close)
{
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
    const struct cert_kit_spec other = {.kind = ISSUE_CA, .common = "other"};
    const struct cert_kit_spec eve = {.kind = ISSUE_CLIENT, .common = "eve"};
    const struct cert_kit_spec server = {
        .kind = ISSUE_SERVER, .common = "srv", .names = "localhost"};
    struct issue_pair ca;
    struct issue_pair pair;

    cert_kit_make(&other, NULL, &ca);
    cert_kit_make(&eve, &ca, &pair);
    cert_kit_put(&tls_kit->certs, "eve", &pair);
    cert_kit_add(&tls_kit->certs, "srv", &server);
    add_client(tls_kit, "old", CERT_KIT_EXPIRED);
    add_client(tls_kit, "early", CERT_KIT_EARLY);
    for (size_t i = 0; i < 2; i++) {
        struct tls_peer_setup setup = {.version = versions[i], .cert = "eve"};

        expect_refused_late(tls_kit, &setup, TLS_UNKNOWN_CA);
        setup.cert = "old";
        expect_refused_late(tls_kit, &setup, TLS_EXPIRED);
        setup.cert = "early";
        expect_refused_late(tls_kit, &setup, TLS_NOT_YET);
        setup.cert = "srv"; /* Not for clients. */
        expect_refused_late(tls_kit, &setup, TLS_CERTIFICATE);
        setup.cert = NULL;
        expect_refused_late(tls_kit, &setup, TLS_NO_CERTIFICATE);
    }
    issue_release(&pair);
    issue_release(&ca);
}

static void write_list(struct tls_kit *kit, const struct issue_pair *pair)
{
    struct buf list;

    buf_init(&list, 65536);
    cert_kit_revoke(&kit->certs.ca, pair, &list);
    cert_kit_write(&kit->certs, "crl.pem", buf_slice(&list));
    buf_release(&list);
    (void)cert_kit_path(&kit->certs, "crl.pem", kit->crl_file);
}

static void reload(struct tls_kit *kit)
{
    struct tls_fault fault;

    if (!tls_current_reload(kit->current, &fault)) {
        fail_msg("%s", fault.text);
    }
}

/* A ticket of before does not help: the list has changed. */
TEST(a_revoked_certificate_is_refused_after_a_reload, tls_kit, require, tls_kit_close)
{
    const struct cert_kit_spec spec = {.kind = ISSUE_CLIENT, .common = "mallory"};
    struct tls_peer_setup setup = {.cert = "mallory"};
    struct issue_pair pair;

    cert_kit_make(&spec, &tls_kit->certs.ca, &pair);
    cert_kit_put(&tls_kit->certs, "mallory", &pair);
    write_list(tls_kit, NULL);
    tls_kit_connect(tls_kit, &setup);
    (void)tls_kit_hear(tls_kit);
    setup.session = tls_kit->peer.session;
    assert_non_null(setup.session);
    assert_true(SSL_SESSION_up_ref(setup.session));
    tls_kit_hang_up(tls_kit);
    write_list(tls_kit, &pair);
    reload(tls_kit);
    expect_refused_late(tls_kit, &setup, TLS_REVOKED);
    SSL_SESSION_free(setup.session);
    issue_release(&pair);
}

/* With a list of one CA only, the replica cannot know what the other one has revoked. */
TEST(a_list_of_another_authority_is_not_enough, tls_kit, require, tls_kit_close)
{
    const struct cert_kit_spec second = {.kind = ISSUE_CA, .common = "second"};
    const struct cert_kit_spec eve = {.kind = ISSUE_CLIENT, .common = "eve"};
    struct tls_peer_setup setup = {.cert = "eve"};
    struct issue_pair ca;
    struct issue_pair pair;
    struct buf both;

    cert_kit_make(&second, NULL, &ca);
    cert_kit_make(&eve, &ca, &pair);
    cert_kit_put(&tls_kit->certs, "eve", &pair);
    buf_init(&both, 65536);
    (void)buf_append_slice(&both, buf_slice(&ca.cert));
    (void)buf_append_slice(&both, buf_slice(&tls_kit->certs.ca.cert));
    cert_kit_write(&tls_kit->certs, "both.pem", buf_slice(&both));
    (void)cert_kit_path(&tls_kit->certs, "both.pem", tls_kit->ca_file);
    write_list(tls_kit, NULL);
    expect_refused_late(tls_kit, &setup, TLS_CRL_NONE);
    setup.cert = "bob";
    tls_kit_connect(tls_kit, &setup);
    buf_release(&both);
    issue_release(&pair);
    issue_release(&ca);
}

/* Three authorities: that of the kit, another one (`root`), and one that it has signed. */
struct tree {
    struct issue_pair root;
    struct issue_pair between;
};

/* Gives the replica lists of all three, or none of the kit's authority. */
static void write_lists(struct tls_kit *kit, const struct tree *tree,
                        const struct issue_pair *revoked, bool all)
{
    struct buf lists;

    buf_init(&lists, 65536);
    if (all) {
        cert_kit_revoke(&kit->certs.ca, NULL, &lists);
    }
    cert_kit_revoke(&tree->root, revoked, &lists);
    cert_kit_revoke(&tree->between, NULL, &lists);
    cert_kit_write(&kit->certs, "crl.pem", buf_slice(&lists));
    (void)cert_kit_path(&kit->certs, "crl.pem", kit->crl_file);
    buf_release(&lists);
}

/* Makes the tree, and a client "eve" that brings the certificate of `between` along. */
static void plant(struct tls_kit *kit, struct tree *tree)
{
    static const struct cert_weak root = {.common = "root"};
    static const struct cert_weak between = {.common = "between"};
    static const struct cert_kit_spec eve = {.kind = ISSUE_CLIENT, .common = "eve"};
    struct issue_pair pair;
    struct buf both;

    cert_weak_make(&root, NULL, &tree->root);
    cert_weak_make(&between, &tree->root, &tree->between);
    cert_kit_make(&eve, &tree->between, &pair);
    assert_true(buf_append_slice(&pair.cert, buf_slice(&tree->between.cert)));
    cert_kit_put(&kit->certs, "eve", &pair);
    issue_release(&pair);
    buf_init(&both, 65536);
    assert_true(buf_append_slice(&both, buf_slice(&tree->root.cert)));
    assert_true(buf_append_slice(&both, buf_slice(&kit->certs.ca.cert)));
    cert_kit_write(&kit->certs, "both.pem", buf_slice(&both));
    (void)cert_kit_path(&kit->certs, "both.pem", kit->ca_file);
    buf_release(&both);
}

TEST(a_revoked_intermediate_certificate_is_refused, tls_kit, require, tls_kit_close)
{
    struct tls_peer_setup setup = {.cert = "eve"};
    struct tree tree;

    plant(tls_kit, &tree);
    write_lists(tls_kit, &tree, NULL, true);
    tls_kit_connect(tls_kit, &setup);
    tls_kit_hang_up(tls_kit);
    write_lists(tls_kit, &tree, &tree.between, true);
    reload(tls_kit);
    expect_refused_late(tls_kit, &setup, TLS_REVOKED);
    setup.cert = "bob";
    tls_kit_connect(tls_kit, &setup);
    tls_kit_hang_up(tls_kit);
    /* Without a list of each CA only the certificate of the client is checked. */
    setup.cert = "eve";
    write_lists(tls_kit, &tree, &tree.between, false);
    reload(tls_kit);
    tls_kit_connect(tls_kit, &setup);
    issue_release(&tree.root);
    issue_release(&tree.between);
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

TEST(a_ticket_resumes_and_keeps_the_identity, tls_kit, ask, tls_kit_close)
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

TEST(each_mistake_in_the_files_of_the_replica_is_named, tls_kit, ask, tls_kit_close)
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

TEST(each_mistake_in_the_files_for_clients_is_named, tls_kit, ask, tls_kit_close)
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
