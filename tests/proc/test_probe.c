/* `zabra probe`: the health of one replica for its supervisor, whatever its ports require. */
#include "tests/lib/cert_kit.h"
#include "tests/lib/ports.h"
#include "tests/lib/unit.h"
#include "tests/proc/ensemble.h"
#include "tests/proc/shell.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    STOPPED_MS = 1500 /* The deadline of a probe, 300 ms, with a machine at a fifth of its speed. */
};

static struct cert_kit kit;
static struct ensemble ensemble;

/* Starts `count` replicas with TLS for clients in this mode and these further lines; $C is the
 * configuration of the first one. */
static void open_some(uint32_t count, const char *mode, const char *clients, const char *more)
{
    static char keys[ENSEMBLE_KEYS_MAX];

    cert_kit_open(&kit);
    cert_kit_add(
        &kit, "server",
        &(struct cert_kit_spec){.kind = ISSUE_SERVER, .common = "s", .names = "zk1.example"});
    ensemble_tls_keys(kit.dir, "server", mode, clients, more, keys);
    ensemble_open(&ensemble, count, keys);
    shell_open(&ensemble);
    assert_int_equal(setenv("C", ensemble.replicas[0].config, 1), 0);
    for (uint32_t i = 0; i < count; i++) {
        ensemble_start(&ensemble, i);
    }
}

static void close_all(void)
{
    ensemble_close(&ensemble);
    cert_kit_close(&kit);
}

static void open_three(void)
{
    open_some(3, "optional", NULL, "");
    ensemble_wait_all_ready(&ensemble);
}

static void open_secure(void)
{
    open_some(1, "required", "ask", "requireIdentity=true\n");
}

static void open_closed(void)
{
    char more[64];

    (void)snprintf(more, sizeof more, "probeListen=127.0.0.1:%u\n", port_free());
    open_some(1, "required", "required", more);
}

/* Nothing of the environment leads to the replica but its own configuration. */
#define OWN "unset ZABRA_ENDPOINTS; "

static void wait_healthy(void)
{
    assert_int_equal(shell("eval \"$LIB\"; " OWN "await 'zabra probe ready --config $C'"), 0);
}

TEST(a_replica_that_lost_the_others_is_alive_but_not_ready, open_three, close_all)
{
    shell_expect(OWN "zabra probe ready --config $C", 0, "is ready");
    shell_expect(OWN "zabra probe live --config $C", 0, "is alive");
    /* Other endpoints of the environment are not asked. */
    shell_expect("ZABRA_ENDPOINTS=127.0.0.1:1 zabra probe ready --config $C -o json", 0,
                 "\"state\":\"ready\"");
    ensemble_kill(&ensemble, 1);
    ensemble_kill(&ensemble, 2);
    ENSEMBLE_WAIT(&ensemble, shell(OWN "! zabra probe ready --config $C >/dev/null 2>&1") == 0);
    shell_expect(OWN "zabra probe ready --config $C 2>$D/why; c=$?; wc -l <$D/why; exit $c", 1,
                 "1\n");
    shell_expect(OWN "zabra probe ready --config $C 2>&1", 1, "is not ready: leader: no leader");
    shell_expect(OWN "zabra probe live --config $C", 0, "is alive");
}

TEST(a_stopped_replica_fails_within_the_deadline, open_three, close_all)
{
    ensemble_signal(&ensemble, 0, SIGSTOP);

    uint64_t from_ms = os_now_ms();

    shell_expect(OWN "zabra probe live --config $C --timeout 300ms 2>&1", 1, "timed out");
    ENSEMBLE_CHECK(&ensemble, os_now_ms() - from_ms < (uint64_t)STOPPED_MS * ENSEMBLE_FACTOR);
    ensemble_signal(&ensemble, 0, SIGCONT);
    ensemble_kill(&ensemble, 0);
    shell_expect(OWN "zabra probe live --config $C 2>&1", 1, "does not answer");
}

/* The certificate is for another name, and its CA is unknown here; no password is sent. */
TEST(a_replica_with_tls_is_asked_at_its_own_address, open_secure, close_all)
{
    wait_healthy();
    shell_expect(OWN "zabra probe ready --config $C", 0, "https://127.0.0.1:");
    shell_expect(OWN "zabra probe ready --config $C --curl", 0, "curl -sS -k ");
    shell_expect(OWN "ZABRA_USER=super ZABRA_PASSWORD_FILE=$D/none zabra probe live --config $C", 0,
                 "is alive");
    /* Elsewhere the certificate counts. */
    shell_expect("zabra probe ready --endpoints https://$ZABRA_ENDPOINTS 2>&1", 1, "authority");
    shell_expect("zabra probe ready --endpoints $ZABRA_ENDPOINTS 2>&1", 1, "https://");
}

TEST(a_replica_that_requires_certificates_is_asked_at_probe_listen, open_closed, close_all)
{
    wait_healthy();
    shell_expect(OWN "zabra probe ready --config $C", 0, "http://127.0.0.1:");
    shell_expect(OWN "grep -v probeListen $C >$D/bare; zabra probe ready --config $D/bare 2>&1", 1,
                 "clientCertificates: required");
    shell_expect("zabra probe ready --endpoints a:1,b:2 2>&1", 2, "give one endpoint");
    shell_expect("zabra probe sound 2>&1", 2, "is not one of ready, live");
}
