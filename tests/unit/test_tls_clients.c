/* Certificates of clients: identities, and what is refused. */
#include "tests/lib/cert_weak.h"
#include "tests/unit/tls_kit.h"

static void require(struct tls_kit *kit)
{
    tls_kit_ask(kit);
    kit->setup.clients = TLS_CLIENTS_REQUIRED;
}

TEST(the_subject_of_a_client_is_its_identity, tls_kit, tls_kit_ask, tls_kit_close)
{
    tls_kit_connect(tls_kit, &(struct tls_peer_setup){.cert = "bob"});
    assert_string_equal(tls_socket_identity(tls_kit->socket), "CN=bob");
    tls_kit_hang_up(tls_kit);
    tls_kit_connect(tls_kit, NULL);
    assert_string_equal(tls_socket_identity(tls_kit->socket), "");
}

TEST(an_alternative_name_may_be_the_identity, tls_kit, tls_kit_ask, tls_kit_close)
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
    tls_kit_refuses(tls_kit, &(struct tls_peer_setup){.version = TLS1_2_VERSION},
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
    tls_kit_add_client(tls_kit, "old", CERT_KIT_EXPIRED);
    tls_kit_add_client(tls_kit, "early", CERT_KIT_EARLY);
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

/* Its own list counts; the one that could revoke it is that of its root, which is not trusted. */
TEST(an_intermediate_authority_alone_needs_its_own_list_only, tls_kit, require, tls_kit_close)
{
    struct tls_peer_setup setup = {.cert = "eve"};
    struct tree tree;

    plant(tls_kit, &tree);
    cert_kit_write(&tls_kit->certs, "both.pem", buf_slice(&tree.between.cert));
    write_lists(tls_kit, &tree, NULL, true);
    tls_kit_connect(tls_kit, &setup);
    issue_release(&tree.root);
    issue_release(&tree.between);
}

/* The operator trusts an intermediate authority alone, and not all that its root signs. */
TEST(an_intermediate_authority_may_be_trusted_alone, tls_kit, require, tls_kit_close)
{
    static const struct cert_weak middle = {.common = "middle"};
    const struct cert_kit_spec eve = {.kind = ISSUE_CLIENT, .common = "eve"};
    struct tls_peer_setup setup = {.cert = "eve"};
    struct issue_pair ca;
    struct issue_pair pair;

    cert_weak_make(&middle, &tls_kit->certs.ca, &ca);
    cert_kit_put(&tls_kit->certs, "middle", &ca);
    cert_kit_make(&eve, &ca, &pair);
    cert_kit_put(&tls_kit->certs, "eve", &pair);
    (void)cert_kit_path(&tls_kit->certs, "middle.pem", tls_kit->ca_file);
    tls_kit_connect(tls_kit, &setup);
    assert_string_equal(tls_socket_identity(tls_kit->socket), "CN=eve");
    tls_kit_hang_up(tls_kit);
    setup.cert = "bob"; /* Of the root. */
    expect_refused_late(tls_kit, &setup, TLS_UNKNOWN_CA);
    issue_release(&pair);
    issue_release(&ca);
}
