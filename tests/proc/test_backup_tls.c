/* A backup by a replica that speaks only TLS and demands a certificate of each client; its own
 * certificate is replaced while it sends. */
#include "tests/lib/cert_kit.h"
#include "tests/proc/shell.h"

#include <signal.h>
#include <stdlib.h>

static struct ensemble ensemble;
static struct cert_kit certs;
static char keys[ENSEMBLE_KEYS_MAX];

#define ROOT   "--user super --password-file $D/pw "
#define CLIENT "--ca $C/ca.pem --cert $C/bob.pem --key $C/bob.key "
#define SUBJECT                                                                               \
    "openssl s_client -connect ${ZABRA_ENDPOINTS#https://} -cert $C/bob.pem -key $C/bob.key " \
    "</dev/null 2>/dev/null | sed -n 's/^subject=//p'"

static void set_up(void)
{
    char endpoint[64];

    cert_kit_open(&certs);
    cert_kit_add_client(&certs, "bob");
    cert_kit_add_server(&certs, "replica", "first");
    ensemble_tls_keys(certs.dir, "replica", "required", "required",
                      "maxBackupBytesPerSecond=1048576\n" ENSEMBLE_SUPER, keys);
    ensemble_open(&ensemble, 1, NULL);
    ensemble.keys = keys;
    ensemble_write_configs(&ensemble);
    ensemble_start(&ensemble, 0);
    shell_open(&ensemble);
    (void)snprintf(endpoint, sizeof endpoint, "https://127.0.0.1:%u",
                   ensemble.replicas[0].client_port);
    assert_int_equal(setenv("ZABRA_ENDPOINTS", endpoint, 1), 0);
    assert_int_equal(setenv("C", certs.dir, 1), 0);
    assert_int_equal(
        shell(
            "eval \"$LIB\"; await 'zabra create /a x " CLIENT ">/dev/null 2>&1' && umask 077 && "
            "printf root >$D/pw && head -c 300000 /dev/urandom >$D/data && for i in $(seq 12); do "
            "zabra create /big$i @$D/data " CLIENT ">/dev/null || exit 1; done"),
        0);
}

static void tear_down(void)
{
    ensemble_close(&ensemble);
    cert_kit_close(&certs);
}

TEST(a_certificate_is_replaced_during_a_backup, set_up, tear_down)
{
    struct shell_job job;

    assert_int_not_equal(shell("zabra backup " ROOT "--ca $C/ca.pem $D/none 2>&1"), 0);
    assert_int_equal(shell("[ ! -e $D/none ] && [ ! -e $D/none.part ]"), 0);
    shell_start(&job, "zabra backup --verify " ROOT CLIENT "$D/b 2>&1");
    assert_int_equal(shell("eval \"$LIB\"; await '[ -s $D/b.part ]'"), 0);
    cert_kit_add_server(&certs, "replica", "second");
    ensemble_signal(&ensemble, 0, SIGHUP);
    assert_int_equal(shell("eval \"$LIB\"; await '" SUBJECT " | grep -q second' && [ -e $D/b.part "
                           "] && [ ! -e $D/b ]"),
                     0);
    shell_finish(&job, 0, "full backup");
    assert_null(strstr(shell_output, "trying again"));
    assert_int_equal(shell("zabra inspect $D/b && zabra restore --from $D/b --dir $D/new --id 1 && "
                           "zabra backup " ROOT CLIENT "$D/c"),
                     0);
}
