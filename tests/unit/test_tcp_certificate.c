/* Certificates between two replicas: which are accepted, and the sentence that says why others are
 * not. */
#include "tests/lib/cert_kit.h"
#include "tests/lib/cert_weak.h"
#include "tests/lib/tcp_kit.h"

#include <stdio.h>
#include <sys/stat.h>

/* The files of the two replicas; index by id. */
struct certs {
    struct cert_kit kit;
    char cert[3][CERT_KIT_PATH_MAX];
    char key[3][CERT_KIT_PATH_MAX];
    char ca[CERT_KIT_PATH_MAX];
    struct kit_setup setup;
};

static void open_kit(struct certs *certs)
{
    cert_kit_open(&certs->kit);
    (void)cert_kit_path(&certs->kit, "ca.pem", certs->ca);
    certs->setup = kit_make_setup();
    certs->setup.tls[1] = certs->setup.tls[2] = KEYS_REQUIRED;
    certs->setup.secret[1] = certs->setup.secret[2] = NULL;
}

static void close_kit(struct certs *certs)
{
    cert_kit_close(&certs->kit);
}

static void use(struct certs *certs, uint32_t id, const char *name)
{
    char file[64];

    (void)snprintf(file, sizeof(file), "%s.pem", name);
    (void)cert_kit_path(&certs->kit, file, certs->cert[id]);
    (void)snprintf(file, sizeof(file), "%s.key", name);
    (void)cert_kit_path(&certs->kit, file, certs->key[id]);
    certs->setup.files[id] = (struct keys_options){
        .cert_file = certs->cert[id], .key_file = certs->key[id], .ca_file = certs->ca};
}

/* Gives the replica a certificate with these names or this URI (NULL: none). */
static void give(struct certs *certs, uint32_t id, const char *names, const char *uri)
{
    struct cert_kit_spec spec = {
        .kind = ISSUE_PEER, .common = "replica", .names = names, .uri = uri};
    char name[16];

    (void)snprintf(name, sizeof(name), "peer-%u", id);
    cert_kit_add(&certs->kit, name, &spec);
    use(certs, id, name);
}

static enum keys_seal kind_at(uint32_t id)
{
    struct tcp_seal seal;

    tcp_seal(kit_nodes[id].tcp, 3 - id, &seal);
    assert_true(seal.up && !seal.removed);
    return seal.kind;
}

static void expect_sealed(struct certs *certs, enum keys_seal kind)
{
    kit_connect_both(&certs->setup);
    assert_int_equal(kind_at(1), kind);
    assert_int_equal(kind_at(2), kind);
    kit_send_round(2, 0);
    KIT_RUN_UNTIL(&certs->setup, kit_nodes[1].messages == 1);
    kit_stop_both();
}

/* One of the two refuses the other for this reason. */
static void expect_refused(struct certs *certs, uint32_t by, const char *why)
{
    kit_start(&certs->setup, 1);
    kit_start(&certs->setup, 2);
    KIT_RUN_UNTIL(&certs->setup, kit_nodes[by].refusals > 0);
    if (!strstr(kit_nodes[by].why, why)) {
        fail_msg("\"%s\" is not about \"%s\"", kit_nodes[by].why, why);
    }
    assert_int_equal(kit_nodes[1].ups + kit_nodes[2].ups, 0);
    kit_stop_both();
}

TEST(certificates_alone_suffice, certs, open_kit, close_kit)
{
    give(certs, 1, "127.0.0.1", NULL); /* The host of server.1. */
    give(certs, 2, NULL, "zabra://kit/2");
    expect_sealed(certs, KEYS_SEAL_CERTIFICATE);
    give(certs, 1, NULL, "zabra://07000000000000000000000000000000/1"); /* The cluster. */
    expect_sealed(certs, KEYS_SEAL_CERTIFICATE);
}

/* While certificates are introduced, replicas without one still prove the secret. */
TEST(the_secret_is_passed_over_once_both_have_certificates, certs, open_kit, close_kit)
{
    certs->setup.secret[1] = certs->setup.secret[2] = "the secret of the ensemble";
    expect_sealed(certs, KEYS_SEAL_PSK);
    give(certs, 1, "127.0.0.1", NULL);
    expect_sealed(certs, KEYS_SEAL_PSK);
    certs->setup.files[1] = (struct keys_options){.secret_count = 0};
    give(certs, 2, "127.0.0.1", NULL);
    expect_sealed(certs, KEYS_SEAL_PSK);
    give(certs, 1, "127.0.0.1", NULL);
    expect_sealed(certs, KEYS_SEAL_CERTIFICATE);
    certs->setup.secret[2] = NULL; /* Taken away from one replica after the other. */
    expect_sealed(certs, KEYS_SEAL_CERTIFICATE);
}

/* A stolen certificate of another replica does not make a replica 2 or 1. */
TEST(a_certificate_of_another_replica_is_refused, certs, open_kit, close_kit)
{
    static const char *const uris[] = {"zabra://kit/3", "zabra://other/2", "zabra://kit/22",
                                       "zabra://00000000000000000000000000000000/2"};

    give(certs, 1, "127.0.0.1", NULL);
    for (size_t i = 0; i < sizeof(uris) / sizeof(uris[0]); i++) {
        give(certs, 2, "zk3.example", uris[i]);
        expect_refused(certs, 1, "its certificate is not one of replica 2: the names in it");
    }
    give(certs, 2, "127.0.0.1", NULL);
    give(certs, 1, "zk3.example", "zabra://kit/3");
    expect_refused(certs, 2, "its certificate is not one of replica 1: the names in it (DNS:zk3");
}

/* Then the certificate of one would be that of the other. */
TEST(a_host_of_several_replicas_names_none_of_them, certs, open_kit, close_kit)
{
    certs->setup.knows_host = true;
    give(certs, 1, NULL, "zabra://kit/1");
    give(certs, 2, "127.0.0.1", NULL);
    expect_refused(certs, 1,
                   "not one of replica 2: it must include zabra://ENSEMBLE/2, because several "
                   "replicas have its host; the names in it: IP:(address)");
    give(certs, 2, "127.0.0.1", "zabra://kit/2");
    expect_sealed(certs, KEYS_SEAL_CERTIFICATE);
    give(certs, 1, "127.0.0.1", "zabra://kit/2");
    expect_refused(certs, 2, "it must include zabra://ENSEMBLE/1");
}

/* ---- Changes of the list. ---- */

/* Starts both; replica 1 has this list. */
static void start_with_list(struct certs *certs, const struct tcp_peer *peers, uint32_t count)
{
    kit_start(&certs->setup, 1);
    kit_start(&certs->setup, 2);
    tcp_set_peers(kit_nodes[1].tcp, peers, count);
}

static void expect_refused_by_1(struct certs *certs, const char *why)
{
    KIT_RUN_UNTIL(&certs->setup, kit_nodes[1].refusals > 0);
    if (!strstr(kit_nodes[1].why, why)) {
        fail_msg("\"%s\" is not about \"%s\"", kit_nodes[1].why, why);
    }
    assert_int_equal(kit_nodes[1].ups, 0);
}

TEST(while_the_address_changes_both_hosts_name_the_replica, certs, open_kit, close_kit)
{
    struct tcp_peer peer = {.id = 2, .host = "zk2.example", .port = 1};

    give(certs, 1, "127.0.0.1", NULL);
    give(certs, 2, "zk2b.example", NULL);
    start_with_list(certs, &peer, 1);
    expect_refused_by_1(certs, "(DNS:zk2b.example) do not include zk2.example of server.2");
    peer.next_port = 1;
    (void)snprintf(peer.next_host, sizeof(peer.next_host), "zk9.example");
    tcp_set_peers(kit_nodes[1].tcp, &peer, 1);
    kit_nodes[1].refusals = 0;
    expect_refused_by_1(certs, "do not include zk2.example or zk9.example of server.2");
    (void)snprintf(peer.next_host, sizeof(peer.next_host), "ZK2b.example");
    tcp_set_peers(kit_nodes[1].tcp, &peer, 1);
    KIT_RUN_UNTIL(&certs->setup, kit_nodes[1].ups == 1);
    kit_stop_both();
}

TEST(the_list_of_now_says_which_hosts_are_shared, certs, open_kit, close_kit)
{
    struct tcp_peer peers[] = {{.id = 2, .host = "zk2.example", .port = 1},
                               {.id = 3, .host = "zk3.example", .port = 1},
                               {.id = 1, .host = "zk1.example", .port = 1}};
    const char *const shared = "because several replicas have its host";

    give(certs, 1, "127.0.0.1", NULL);
    give(certs, 2, "zk2.example", NULL);
    peers[1].next_port = 1;
    (void)snprintf(peers[1].next_host, sizeof(peers[1].next_host), "ZK2.example");
    start_with_list(certs, peers, 2); /* Replica 3 moves to the host of replica 2. */
    expect_refused_by_1(certs, shared);
    kit_stop_both();

    (void)snprintf(peers[2].host, sizeof(peers[2].host), "zk2.example");
    start_with_list(certs, peers, 3);          /* Replica 1 says that it has that host as well. */
    tcp_set_peers(kit_nodes[1].tcp, peers, 1); /* Says nothing about itself. */
    expect_refused_by_1(certs, shared);
    (void)snprintf(peers[2].host, sizeof(peers[2].host), "zk1.example");
    peers[1].next_port = 0;
    peers[1].next_host[0] = '\0';
    tcp_set_peers(kit_nodes[1].tcp, peers, 3);
    KIT_RUN_UNTIL(&certs->setup, kit_nodes[1].ups == 1);
    kit_stop_both();
}

TEST(without_a_known_host_only_the_uri_names_the_replica, certs, open_kit, close_kit)
{
    struct tcp_peer peer = {.id = 2};

    give(certs, 1, "127.0.0.1", NULL);
    give(certs, 2, "127.0.0.1", NULL);
    start_with_list(certs, &peer, 1);
    expect_refused_by_1(certs, "it must include zabra://ENSEMBLE/2, because its host is unknown");
    kit_stop_both();
    give(certs, 2, NULL, "zabra://kit/2");
    start_with_list(certs, &peer, 1);
    KIT_RUN_UNTIL(&certs->setup, kit_nodes[1].ups == 1);
    kit_stop_both();
}

/* ---- Authorities. ---- */

TEST(another_authority_is_refused, certs, open_kit, close_kit)
{
    struct cert_kit other;
    char ca[CERT_KIT_PATH_MAX];
    struct cert_kit_spec spec = {.kind = ISSUE_PEER, .common = "replica", .names = "127.0.0.1"};
    char cert[CERT_KIT_PATH_MAX];
    char key[CERT_KIT_PATH_MAX];

    cert_kit_open(&other);
    cert_kit_add(&other, "peer", &spec);
    give(certs, 1, "127.0.0.1", NULL);
    certs->setup.files[2] =
        (struct keys_options){.cert_file = cert_kit_path(&other, "peer.pem", cert),
                              .key_file = cert_kit_path(&other, "peer.key", key),
                              .ca_file = cert_kit_path(&other, "ca.pem", ca)};
    /* The dialer verifies first. */
    expect_refused(certs, 2, "the certificate of the peer is not signed by a CA of peerCaFile");
    expect_refused(certs, 1, "the peer does not trust the CA of this replica's certificate");
    cert_kit_close(&other);
}

TEST(without_certificate_and_secret_nothing_is_accepted, certs, open_kit, close_kit)
{
    give(certs, 1, "127.0.0.1", NULL);
    expect_refused(certs, 2, "is not signed by a CA of peerCaFile");
    certs->setup.files[1] = (struct keys_options){.secret_count = 0};
    give(certs, 2, "127.0.0.1", NULL);
    expect_refused(certs, 1, "offers neither the secret of this replica nor a certificate");
}

/* Gives replica 1 new keys while it runs: its own certificate, and these CAs. */
static void set_authorities(const struct certs *certs, const struct issue_pair *first,
                            const struct issue_pair *second)
{
    struct keys_options options = certs->setup.files[1];
    struct keys *keys = NULL;
    char error[KEYS_ERROR_MAX] = "";
    char path[CERT_KIT_PATH_MAX];
    struct buf both;

    buf_init(&both, (size_t)2 * ISSUE_PEM_MAX);
    assert_true(buf_append(&both, first->cert.data, first->cert.len));
    if (second) {
        assert_true(buf_append(&both, second->cert.data, second->cert.len));
    }
    cert_kit_write(&certs->kit, "now.pem", buf_slice(&both));
    buf_release(&both);
    options.ca_file = cert_kit_path(&certs->kit, "now.pem", path);
    if (keys_load(&options, &keys, error)) {
        fail_msg("%s", error);
    }
    tcp_set_keys(kit_nodes[1].tcp, keys);
    keys_release(keys);
}

static bool is_removed_at_1(void)
{
    struct tcp_seal seal;

    tcp_seal(kit_nodes[1].tcp, 2, &seal);
    assert_true(seal.up && seal.kind == KEYS_SEAL_CERTIFICATE);
    return seal.removed;
}

/* A certificate that expires while the replicas are connected ends nothing; the next connection is
 * refused. */
TEST(an_expired_certificate_is_refused, certs, open_kit, close_kit)
{
    int64_t now_s = os_wall_ms() / 1000;
    struct issue_request request = {.kind = ISSUE_PEER,
                                    .common = "replica",
                                    .names = "127.0.0.1",
                                    .from_s = now_s - 60,
                                    .until_s = now_s + 3};
    struct issue_pair pair;

    give(certs, 1, "127.0.0.1", NULL);
    cert_kit_make_dated(&request, &certs->kit.ca, &pair);
    cert_kit_put(&certs->kit, "short", &pair);
    issue_release(&pair);
    use(certs, 2, "short");
    kit_connect_both(&certs->setup);
    KIT_RUN_UNTIL(&certs->setup, os_wall_ms() / 1000 > now_s + 4);
    assert_int_equal(kit_nodes[1].downs + kit_nodes[2].downs, 0);
    set_authorities(certs, &certs->kit.ca, NULL); /* A reload ends it neither. */
    assert_false(is_removed_at_1());
    tcp_disconnect(kit_nodes[1].tcp, 2);
    KIT_RUN_UNTIL(&certs->setup, kit_nodes[1].refusals > 0 && kit_nodes[2].refusals > 0);
    assert_string_equal(kit_nodes[1].why, "the certificate of the peer has expired");
    assert_non_null(
        strstr(kit_nodes[2].why, "says that the certificate of this replica has expired: renew"));
    kit_stop_both();
}

/* ---- A CA that is removed. ---- */

/* Another CA, under which replica 1 has a certificate as well. */
static void open_other_authority(struct certs *certs, struct cert_kit *ret_other)
{
    struct cert_kit_spec spec = {.kind = ISSUE_PEER, .common = "replica", .names = "127.0.0.1"};
    struct issue_pair pair;

    cert_kit_open(ret_other);
    cert_kit_make(&spec, &ret_other->ca, &pair);
    cert_kit_put(&certs->kit, "renewed", &pair);
    issue_release(&pair);
}

TEST(connections_of_a_removed_authority_are_known, certs, open_kit, close_kit)
{
    struct cert_kit other;

    give(certs, 1, "127.0.0.1", NULL);
    give(certs, 2, "127.0.0.1", NULL);
    open_other_authority(certs, &other);
    kit_connect_both(&certs->setup);
    set_authorities(certs, &certs->kit.ca, &other.ca);
    assert_false(is_removed_at_1());
    use(certs, 1, "renewed");
    set_authorities(certs, &other.ca, &certs->kit.ca);
    assert_false(is_removed_at_1());
    set_authorities(certs, &other.ca, NULL);
    assert_true(is_removed_at_1());
    set_authorities(certs, &other.ca, &certs->kit.ca);
    assert_false(is_removed_at_1());
    set_authorities(certs, &other.ca, NULL);
    tcp_disconnect(kit_nodes[1].tcp, 2); /* It does not come back. */
    KIT_RUN_UNTIL(&certs->setup, kit_nodes[1].refusals > 0 || kit_nodes[2].refusals > 0);
    assert_int_equal(kit_nodes[1].ups, 1);
    kit_stop_both();
    cert_kit_close(&other);
}

/* The keys are replaced after `turns` turns of the handshake, which continues with the old ones. */
static bool replace_during_handshake(struct certs *certs, const struct cert_kit *other, int turns)
{
    bool connected = false;

    give(certs, 1, "127.0.0.1", NULL);
    kit_start(&certs->setup, 1);
    kit_start(&certs->setup, 2);
    for (int i = 0; i < turns; i++) {
        kit_run(&certs->setup);
    }
    use(certs, 1, "renewed");
    set_authorities(certs, &other->ca, NULL);
    KIT_RUN_UNTIL(&certs->setup,
                  kit_nodes[1].ups + kit_nodes[1].refusals > 0 || kit_nodes[2].refusals > 0);
    connected = kit_nodes[1].ups == 1;
    assert_true(!connected || is_removed_at_1());
    kit_stop_both();
    return connected;
}

TEST(a_handshake_with_keys_that_are_replaced_meanwhile, certs, open_kit, close_kit)
{
    struct cert_kit other;
    int connected = 0;

    give(certs, 2, "127.0.0.1", NULL);
    open_other_authority(certs, &other);
    for (int turns = 0; turns < 12; turns++) {
        connected += replace_during_handshake(certs, &other, turns) ? 1 : 0;
    }
    assert_true(connected > 2);
    cert_kit_close(&other);
}

/* ---- Files that cannot be used: the start, or a reload, says why. ---- */

static void expect_unusable(const struct certs *certs, uint32_t id, const char *why)
{
    struct keys *keys = NULL;
    char error[KEYS_ERROR_MAX] = "";

    assert_int_equal(keys_load(&certs->setup.files[id], &keys, error), ERR_CONFIG);
    if (!strstr(error, why)) {
        fail_msg("\"%s\" is not about \"%s\"", error, why);
    }
}

static void give_life(struct certs *certs, enum issue_kind kind, enum cert_kit_life life)
{
    struct cert_kit_spec spec = {
        .kind = kind, .common = "replica", .names = "127.0.0.1", .life = life};

    cert_kit_add(&certs->kit, "peer", &spec);
    use(certs, 1, "peer");
}

TEST(unusable_files_are_named, certs, open_kit, close_kit)
{
    struct keys *keys = NULL;
    char error[KEYS_ERROR_MAX];

    give_life(certs, ISSUE_PEER, CERT_KIT_EXPIRED);
    expect_unusable(certs, 1, "has expired");
    give_life(certs, ISSUE_PEER, CERT_KIT_EARLY);
    expect_unusable(certs, 1, "is not valid yet, or the clock");
    give_life(certs, ISSUE_SERVER, CERT_KIT_VALID);
    expect_unusable(certs, 1, "is not for TLS servers and clients both");
    give_life(certs, ISSUE_PEER, CERT_KIT_VALID);
    assert_int_equal(keys_load(&certs->setup.files[1], &keys, error), ERR_OK);
    assert_true(keys_expire_s(keys) > INT64_C(4000000000)); /* In 2120. */
    keys_release(keys);

    assert_int_equal(chmod(certs->key[1], 0644), 0);
    expect_unusable(certs, 1, "chmod 600");
    assert_int_equal(chmod(certs->key[1], 0600), 0);
    give(certs, 2, "127.0.0.1", NULL);
    certs->setup.files[1].key_file = certs->key[2];
    expect_unusable(certs, 1, "peerKeyFile: ");
    expect_unusable(certs, 1, "does not belong to the certificate in peerCertFile");
    certs->setup.files[1].key_file = certs->cert[1];
    assert_int_equal(chmod(certs->cert[1], 0600), 0);
    expect_unusable(certs, 1, "holds no private key in PEM form");
    certs->setup.files[1].key_file = certs->kit.dir;
    expect_unusable(certs, 1, "is not a regular file");
    certs->setup.files[1].key_file = certs->key[1];
    certs->setup.files[1].ca_file = "/nonexistent";
    expect_unusable(certs, 1, "peerCaFile: /nonexistent cannot be read");
    certs->setup.files[1].ca_file = certs->ca;
    cert_kit_write(&certs->kit, "peer.pem", slice_str("nothing"));
    expect_unusable(certs, 1, "holds no certificate in PEM form");
    cert_kit_write(&certs->kit, "peer.pem",
                   slice_str("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"));
    expect_unusable(certs, 1, "holds a damaged certificate");
}

/* Writes the pair as that of replica 1; `more` is another certificate in its file, NULL: none. */
static void give_weak(struct certs *certs, const struct cert_weak *spec,
                      const struct issue_pair *ca, const struct issue_pair *more)
{
    struct issue_pair pair;

    cert_weak_make(spec, ca, &pair);
    if (more) {
        assert_true(buf_append(&pair.cert, more->cert.data, more->cert.len));
    }
    cert_kit_put(&certs->kit, "peer", &pair);
    use(certs, 1, "peer");
    issue_release(&pair);
}

/* OpenSSL would refuse to use them: the files are refused before, with a sentence. */
TEST(weak_certificates_are_named, certs, open_kit, close_kit)
{
    struct cert_weak strong = {.common = "replica", .names = "IP:127.0.0.1"};
    struct cert_weak leaf = strong;
    struct keys *keys = NULL;
    char error[KEYS_ERROR_MAX];

    give_weak(certs, &strong, &certs->kit.ca, NULL);
    assert_int_equal(keys_load(&certs->setup.files[1], &keys, error), ERR_OK);
    keys_release(keys);
    leaf.rsa_bits = 1024;
    give_weak(certs, &leaf, &certs->kit.ca, NULL);
    expect_unusable(certs, 1, "peerCertFile: ");
    expect_unusable(certs, 1, "has a key or a signature that is too weak: use RSA of 2048");
    leaf = strong;
    leaf.digest = "SHA1";
    give_weak(certs, &leaf, &certs->kit.ca, NULL);
    expect_unusable(certs, 1, "has a key or a signature that is too weak");
}

TEST(weak_authorities_are_named, certs, open_kit, close_kit)
{
    struct cert_weak leaf = {.common = "replica", .names = "IP:127.0.0.1"};
    struct cert_weak authority = {.common = "root"};
    struct issue_pair root;
    struct issue_pair middle;
    struct keys *keys = NULL;
    char error[KEYS_ERROR_MAX];

    cert_weak_make(&authority, NULL, &root);
    cert_kit_put(&certs->kit, "ca", &root);
    authority = (struct cert_weak){.common = "middle"};
    cert_weak_make(&authority, &root, &middle);
    give_weak(certs, &leaf, &middle, &middle);
    assert_int_equal(keys_load(&certs->setup.files[1], &keys, error), ERR_OK);
    keys_release(keys);
    issue_release(&middle);
    authority.rsa_bits = 1024;
    cert_weak_make(&authority, &root, &middle);
    give_weak(certs, &leaf, &middle, &middle);
    expect_unusable(certs, 1, "peerCertFile: ");
    expect_unusable(certs, 1, "has a key or a signature that is too weak");
    give_weak(certs, &leaf, &root, &middle); /* In the file, but not needed. */
    expect_unusable(certs, 1, "holds a certificate that TLS cannot use");
    issue_release(&middle);
    issue_release(&root);
}
