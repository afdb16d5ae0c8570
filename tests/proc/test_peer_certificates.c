/*
 * TLS between replicas that have certificates and no secret: certificates that are replaced, that
 * cannot be used, and that are excluded.
 */
#include "tests/lib/cert_weak.h"
#include "tests/proc/peer_certs.h"
#include "tests/proc/shell.h"

#include <stdio.h>

enum {
    REPLICAS = 3
};

static struct ensemble ensemble;
static struct cert_kit kit;

static void open_with_certificates(void)
{
    ensemble_open(&ensemble, REPLICAS, NULL);
    shell_open(&ensemble);
    peer_certs_open(&ensemble, &kit);
}

static void start_all(void)
{
    for (uint32_t i = 0; i < REPLICAS; i++) {
        ensemble_start(&ensemble, i);
    }
    ensemble_wait_all_ready(&ensemble);
}

static uint64_t sealed(uint32_t index)
{
    return ensemble_metric(&ensemble, index, "zabra_peer_connections{sealed=\"certificate\"}");
}

static void wait_sealed(void)
{
    for (uint32_t i = 0; i < REPLICAS; i++) {
        ENSEMBLE_WAIT(&ensemble, sealed(i) == REPLICAS - 1);
    }
}

/* A running replica survives a certificate that TLS would not use, and says what is wrong. */
static void try_weak_certificate(void)
{
    struct cert_weak weak = {.rsa_bits = 1024, .common = "peer-3", .names = "URI:zabra://shop/3"};
    struct issue_pair pair;

    cert_weak_make(&weak, &kit.ca, &pair);
    cert_kit_put(&kit, "peer-3", &pair);
    issue_release(&pair);
    ENSEMBLE_WAIT(&ensemble, shell("grep -q 'peerCertFile: .* has a key or a signature that is too "
                                   "weak: .*; the old files stay in use' $D/3.log") == 0);
    ENSEMBLE_WAIT(&ensemble, ensemble_metric(&ensemble, 2, "zabra_peer_key_reload_failed") == 1);
}

/* Without any secret: the certificates prove the ids. A certificate that is replaced needs no
 * restart; one that cannot be used changes nothing; that of another replica is refused. */
TEST(certificates_connect_and_are_replaced)
{
    open_with_certificates();
    start_all();
    wait_sealed();
    ensemble_call_until(&ensemble, 0, "PUT", "/znodes/v1/a?upsert=true", "x", 201);
    assert_int_equal(ensemble_call(&ensemble, 1, "GET", "/ensemble/v1", NULL), 200);
    assert_non_null(strstr(web_text(&ensemble.reply), "\"sealed\":\"certificate\""));

    peer_certs_make(&kit, "peer-3", 3, CERT_KIT_EXPIRED);
    ENSEMBLE_WAIT(&ensemble, ensemble_metric(&ensemble, 2, "zabra_peer_key_reload_failed") == 1);
    assert_int_equal(
        shell("grep -q 'changed files of peerKeys: not reloaded: peerCertFile: .* has expired; the "
              "old files stay in use' $D/3.log"),
        0);
    try_weak_certificate();
    peer_certs_make(&kit, "peer-3", 3, CERT_KIT_VALID);
    ENSEMBLE_WAIT(&ensemble, ensemble_metric(&ensemble, 2, "zabra_peer_key_reload_failed") == 0);
    assert_int_equal(sealed(2), REPLICAS - 1);

    /* Replica 3 with the certificate of replica 2. */
    assert_int_equal(ensemble_stop(&ensemble, 2), 0);
    peer_certs_make(&kit, "peer-3", 2, CERT_KIT_VALID);
    ensemble_start(&ensemble, 2);
    for (uint32_t i = 1; i <= 2; i++) {
        ENSEMBLE_WAIT(&ensemble,
                      shell("grep -q 'peer 3 is refused: its certificate is not one of replica 3: "
                            ".*; the names in it: URI:zabra://shop/2' $D/%u.log",
                            i) == 0);
    }
    ensemble_kill(&ensemble, 2);
    ensemble_close(&ensemble);
    cert_kit_close(&kit);
}

/* Replaces the CA: replicas 1 and 2 get certificates of the new one, replica 3 changes nothing. */
static void exclude_replica_3(void)
{
    static const struct cert_kit_spec authority = {.kind = ISSUE_CA, .common = "new"};
    struct issue_pair before = kit.ca;
    struct buf both;

    cert_kit_write(&kit, "ca-3.pem", buf_slice(&before.cert));
    assert_int_equal(shell("sed -i 's|/ca.pem$|/ca-3.pem|' %s", ensemble.replicas[2].config), 0);
    start_all();
    wait_sealed();
    cert_kit_make(&authority, NULL, &kit.ca);
    buf_init(&both, (size_t)2 * ISSUE_PEM_MAX);
    assert_true(buf_append(&both, before.cert.data, before.cert.len));
    assert_true(buf_append(&both, kit.ca.cert.data, kit.ca.cert.len));
    cert_kit_write(&kit, "ca.pem", buf_slice(&both));
    buf_release(&both);
    issue_release(&before);
    for (uint32_t i = 0; i < 2; i++) {
        ENSEMBLE_WAIT(&ensemble,
                      ensemble_metric(&ensemble, i, "zabra_peer_key_reloads_total") >= 1);
    }
    peer_certs_make(&kit, "peer-1", 1, CERT_KIT_VALID);
    peer_certs_make(&kit, "peer-2", 2, CERT_KIT_VALID);
    cert_kit_write(&kit, "ca.pem", buf_slice(&kit.ca.cert));
}

/* A stolen certificate whose owner does not hang up: a follower ends the connection soon, the
 * leader after a minute at the latest; the others stay an ensemble. */
TEST(an_excluded_certificate_is_disconnected_within_a_minute)
{
    open_with_certificates();
    exclude_replica_3();
    for (uint32_t i = 0; i < 2; i++) {
        ENSEMBLE_WAIT(&ensemble,
                      shell("grep -q 'closes the connection with peer 3: it began with a "
                            "certificate of a CA that has been removed' $D/%u.log",
                            i + 1) == 0);
        ENSEMBLE_WAIT(&ensemble, sealed(i) == 1);
        ENSEMBLE_WAIT(&ensemble, shell("grep -q 'peer 3 is refused: the peer does not trust the CA "
                                       "of' $D/%u.log",
                                       i + 1) == 0);
    }
    ensemble_wait_ready(&ensemble, 0);
    ensemble_wait_ready(&ensemble, 1);
    ensemble_call_until(&ensemble, 0, "PUT", "/znodes/v1/after?upsert=true", "x", 201);
    ensemble_kill(&ensemble, 2);
    ensemble_close(&ensemble);
    cert_kit_close(&kit);
}

/* A replica whose certificate cannot be used does not start. */
TEST(an_expired_certificate_prevents_a_start)
{
    open_with_certificates();
    peer_certs_make(&kit, "peer-1", 1, CERT_KIT_EXPIRED);
    ensemble_start(&ensemble, 0);
    assert_int_equal(ensemble_wait_end(&ensemble, 0), 2);
    assert_int_equal(shell("grep -q '^zabra: peerCertFile: .*peer-1.pem has expired' $D/1.log"), 0);
    ensemble_close(&ensemble);
    cert_kit_close(&kit);
}
