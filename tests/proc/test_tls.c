/* TLS of a real replica, as an operator sets it up: both kinds on one port, certificates of
 * clients, reload, refused starts. */
#include "tests/lib/cert_kit.h"
#include "tests/proc/shell.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

static struct ensemble ensemble;
static struct cert_kit certs;
static char keys[ENSEMBLE_KEYS_MAX];

#define ROOT "Authorization: Basic c3VwZXI6cm9vdA=="

static void set_up(void)
{
    cert_kit_open(&certs);
    cert_kit_add_client(&certs, "bob");
    cert_kit_add_server(&certs, "replica", "first");
    ensemble_tls_keys(certs.dir, "replica", "optional", "ask", ENSEMBLE_SUPER, keys);
    ensemble_open(&ensemble, 1, NULL);
    ensemble.keys = keys;
    ensemble_write_configs(&ensemble);
    ensemble_start(&ensemble, 0);
    ensemble_wait_ready(&ensemble, 0);
    shell_open(&ensemble);
    assert_int_equal(setenv("C", certs.dir, 1), 0);
}

static void tear_down(void)
{
    ensemble_close(&ensemble);
    cert_kit_close(&certs);
}

/* The subject of the certificate that the replica shows now. */
#define SUBJECT                                                            \
    "openssl s_client -connect $ZABRA_ENDPOINTS </dev/null 2>/dev/null | " \
    "sed -n 's/^subject=//p'"
#define CURL "curl -sS -m 60 --cacert $C/ca.pem "

static bool log_has(const char *text)
{
    return shell("grep -q '%s' %s", text, ensemble.replicas[0].log) == 0;
}

static bool shows(const char *common)
{
    return shell("%s", SUBJECT) == 0 && strstr(shell_output, common) != NULL;
}

TEST_GROUP(set_up, tear_down)

TEST(one_port_serves_both_kinds)
{
    shell_expect(CURL "-X PUT -d hello \"https://$ZABRA_ENDPOINTS/znodes/v1/both?upsert=true\"", 0,
                 "\"/both\"");
    shell_expect("curl -sS \"http://$ZABRA_ENDPOINTS/znodes/v1/both?view=data\"", 0, "aGVsbG8=");
    shell_expect("zabra get /both", 0, "hello");
    shell_expect("ZABRA_ENDPOINTS=https://$ZABRA_ENDPOINTS zabra get --ca $C/ca.pem /both", 0,
                 "hello");
    shell_expect("curl -sS https://$ZABRA_ENDPOINTS/", 60, ""); /* Without the CA. */
    assert_true(log_has("answers on http(s)://127"));
    assert_true(ensemble_metric(&ensemble, 0, "zabra_tls_handshakes_total{result=\"full\"}") >= 2);
    assert_true(ensemble_metric(&ensemble, 0, "zabra_tls_certificate_expires_seconds") > 86400);
}

/* A session that a certificate has opened is shown to it, and to no other client of the address. */
TEST(a_certificate_owns_its_sessions)
{
    const char *bob = "--cert $C/bob.pem --key $C/bob.key";
    const char *list = "\"https://$ZABRA_ENDPOINTS/sessions/v1?consistency=linearizable\"";

    shell_expect(CURL "-X POST \"https://$ZABRA_ENDPOINTS/sessions/v1?expire=60\"", 0, "\"id\"");
    assert_int_equal(shell(CURL "%s -X POST \"https://$ZABRA_ENDPOINTS/sessions/v1?expire=60\" | "
                                "sed -n 's/.*\"session\":\"\\([^\"]*\\)\".*/\\1/p' > $D/owned; "
                                "test -s $D/owned",
                           bob),
                     0);
    assert_int_equal(shell(CURL "%s %s | grep -q \"$(cat $D/owned)\"", bob, list), 0);
    assert_int_equal(shell(CURL "%s | grep -q '\"session\"'", list), 0);
    assert_int_equal(shell(CURL "%s | grep -q \"$(cat $D/owned)\"", list), 1);
}

TEST(a_large_value_passes_both_ways)
{
    shell_expect("head -c 1000000 /dev/urandom > $D/large && " CURL
                 "--data-binary @$D/large -X PUT -o $D/said -w '%{http_code}' "
                 "\"https://$ZABRA_ENDPOINTS/znodes/v1/large?upsert=true\"",
                 0, "201");
    shell_expect(CURL
                 "-H 'Accept: application/octet-stream' -o $D/back "
                 "https://$ZABRA_ENDPOINTS/znodes/v1/large && cmp $D/large $D/back && echo same",
                 0, "same");
}

TEST(handshakes_that_are_refused_are_in_the_log)
{
    shell_expect("curl -sS --tls-max 1.1 --ciphers DEFAULT@SECLEVEL=0 --cacert $C/ca.pem "
                 "https://$ZABRA_ENDPOINTS/ 2>&1",
                 35, "");
    ENSEMBLE_WAIT(&ensemble, log_has("no version of TLS from 1.2 on"));
    assert_int_equal(
        ensemble_metric(&ensemble, 0, "zabra_tls_handshakes_total{result=\"version\"}"), 1);
    shell_expect("openssl s_client -connect $ZABRA_ENDPOINTS -alpn h2 </dev/null 2>&1 | "
                 "grep -c 'alert no application protocol'",
                 0, "1");
    shell_expect("openssl s_client -connect $ZABRA_ENDPOINTS -reconnect -tls1_2 </dev/null "
                 "2>/dev/null | grep -c ^Reused",
                 0, "5");
}

/* From another address: the log has at most one such line of an address in ten seconds. */
TEST(a_renegotiation_is_in_the_log)
{
    shell_expect("(echo R; sleep 2) | openssl s_client -connect $ZABRA_ENDPOINTS -bind 127.0.0.3 "
                 "-tls1_2 >/dev/null 2>&1; echo ended",
                 0, "ended");
    ENSEMBLE_WAIT(&ensemble, log_has("asked for a renegotiation, which is refused"));
    assert_int_equal(
        ensemble_metric(&ensemble, 0, "zabra_tls_broken_total{reason=\"renegotiation\"}"), 1);
}

TEST(certificates_are_reloaded_by_a_signal_and_by_a_change)
{
    assert_true(shows("first"));
    cert_kit_add_server(&certs, "replica", "second");
    ensemble_signal(&ensemble, 0, SIGHUP);
    ENSEMBLE_WAIT(&ensemble, shows("second"));
    cert_kit_add_server(&certs, "replica", "third"); /* Without a signal, within five seconds. */
    ENSEMBLE_WAIT(&ensemble, shows("third"));
    cert_kit_write(&certs, "replica.key", slice_str("broken"));
    ENSEMBLE_WAIT(&ensemble, ensemble_metric(&ensemble, 0, "zabra_tls_reload_errors_total") > 0);
    assert_true(log_has("changed files of clientTls: not reloaded: tlsKeyFile: "));
    assert_true(log_has("; the old files stay in use"));
    assert_true(shows("third"));
    cert_kit_add_server(&certs, "replica", "fourth");
    ENSEMBLE_WAIT(&ensemble, shows("fourth"));
}

/* The files are changed and asked for within the 2 s in which a replica looks at them, or not: the
 * result is the same. */
TEST(certificates_are_reloaded_by_an_operation)
{
    cert_kit_add_server(&certs, "replica", "asked");
    shell_expect(CURL "-u super:root -X POST -w '%{http_code}' "
                      "\"https://$ZABRA_ENDPOINTS/status/v1?op=reload\"",
                 0, "{\"reloaded\":[\"clientTls\"]}200");
    assert_true(shows("asked")); /* At once. */
    assert_true(log_has("op=reload of 127.0.0.1: reloaded: clientTls"));
    cert_kit_write(&certs, "replica.key", slice_str("broken"));
    shell_expect(CURL "-u super:root -X POST -w '%{http_code}' "
                      "\"https://$ZABRA_ENDPOINTS/status/v1?op=reload\" | "
                      "grep 'clientTls: tlsKeyFile: .*the old files stay in use.*409$' | wc -l",
                 0, "1");
    assert_true(shows("asked"));
    assert_int_equal(web_do(ensemble.web,
                            &(struct web_call){.method = "POST",
                                               .port = ensemble.replicas[0].client_port,
                                               .path = "/status/v1?op=reload",
                                               .headers = ROOT},
                            &ensemble.reply),
                     409);
    assert_non_null(strstr(web_text(&ensemble.reply), "\"detail\":\"clientTls: tlsKeyFile: "));
    shell_expect(CURL "-u bob:pw -X POST -w '%{http_code}' -o $D/said "
                      "\"https://$ZABRA_ENDPOINTS/status/v1?op=reload\"",
                 0, "403");
    cert_kit_add_server(&certs, "replica", "after");
    ENSEMBLE_WAIT(&ensemble, shows("after"));
}

TEST(a_stream_goes_on_through_a_reload)
{
    struct shell_job stream;

    shell_start(&stream, CURL "-N https://$ZABRA_ENDPOINTS/watch/v1/through?mode=persistent");
    ENSEMBLE_WAIT(&ensemble, ensemble_metric(&ensemble, 0, "zabra_http_streams") > 0);
    cert_kit_add_server(&certs, "replica", "fifth");
    ensemble_signal(&ensemble, 0, SIGHUP);
    ENSEMBLE_WAIT(&ensemble, shows("fifth"));
    shell_expect("zabra create /through said", 0, "/through");
    ENSEMBLE_WAIT(&ensemble, ensemble_metric(&ensemble, 0, "zabra_http_streams") == 1);
    assert_int_equal(ensemble_stop(&ensemble, 0), 0);
    shell_finish(&stream, 0, "/through");
    ensemble_start(&ensemble, 0);
    ensemble_wait_ready(&ensemble, 0);
}

TEST(a_start_without_usable_files_writes_nothing)
{
    assert_int_equal(ensemble_stop(&ensemble, 0), 0);
    cert_kit_write(&certs, "replica.key", slice_str("broken"));
    shell_expect("zabra serve --config $D/1.cfg 2>&1", 2, "holds no private key");
    shell_expect("sed 's|^dataDir=.*|dataDir='$D'/never|' $D/1.cfg >$D/never.cfg; "
                 "zabra serve --config $D/never.cfg 2>&1",
                 2, "holds no private key");
    shell_expect("ls -d $D/never 2>&1", 2, "No such file"); /* Nothing was written. */
    cert_kit_add_server(&certs, "replica", "sixth");
    ensemble_start(&ensemble, 0);
    ensemble_wait_ready(&ensemble, 0);
    assert_true(shows("sixth"));
}
