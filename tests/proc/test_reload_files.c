/* All that a replica reads again by one request, and file systems that hang. */
#include "tests/lib/cert_kit.h"
#include "tests/proc/faulty.h"
#include "tests/proc/shell.h"

#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    END_MS = 20000 * ENSEMBLE_FACTOR /* Of a SIGTERM; nothing else delays it here. */
};

#define SECRET "8b1a9953c4611296a827abf8c47804d7"
#define RELOAD                                                          \
    "curl -sS -m 100 -u super:root -X POST -w '%{http_code}' \"http://" \
    "$ZABRA_ENDPOINTS/status/v1?op=reload\""

static struct ensemble ensemble;
static struct faulty *faulty;
static struct cert_kit certs;   /* The files of TLS. */
static struct cert_kit secrets; /* The secret of the replicas, in another directory. */
static char keys[2048];

static void set_up(void)
{
    cert_kit_open(&certs);
    cert_kit_open(&secrets);
    cert_kit_add_server(&certs, "replica", "first");
    cert_kit_write(&secrets, "secret", slice_str(SECRET "\n"));
    ensemble_open(&ensemble, 1, NULL);
    (void)snprintf(
        keys, sizeof(keys),
        "clientTls=optional\ntlsCertFile=%s/replica.pem\ntlsKeyFile=%s/replica.key\n"
        "peerTls=required\npeerSecretFile=%s/secret\nauditFile=%s/audit.log\n" ENSEMBLE_SUPER,
        certs.dir, certs.dir, secrets.dir, ensemble.dir);
    ensemble.keys = keys;
    ensemble.faulty = true;
    ensemble_write_configs(&ensemble);
    faulty = faulty_open(ensemble.replicas[0].faulty);
    shell_open(&ensemble);
    ensemble_start(&ensemble, 0);
    ensemble_wait_ready(&ensemble, 0);
}

static void tear_down(void)
{
    ensemble_close(&ensemble);
    cert_kit_close(&certs);
    cert_kit_close(&secrets);
}

static uint64_t metric(const char *name)
{
    return ensemble_metric(&ensemble, 0, name);
}

static bool log_has(const char *text)
{
    return shell("grep -q '%s' %s", text, ensemble.replicas[0].log) == 0;
}

static bool shows(const char *common)
{
    return shell("openssl s_client -connect $ZABRA_ENDPOINTS </dev/null 2>/dev/null | sed -n "
                 "'s/^subject=//p'") == 0 &&
           strstr(shell_output, common) != NULL;
}

/* What is in this directory hangs from now on. */
static void hang(const char *dir)
{
    atomic_store(&faulty->hangs, false);
    (void)snprintf(faulty->hanging, sizeof(faulty->hanging), "%s/", dir);
    atomic_store(&faulty->hangs, true);
}

static void answer_again(void)
{
    atomic_store(&faulty->hangs, false);
}

TEST_GROUP(set_up, tear_down)

TEST(one_request_reads_everything_again)
{
    cert_kit_add_server(&certs, "replica", "asked");
    shell_expect("mv $D/audit.log $D/audit.log.1 && " RELOAD, 0,
                 "{\"reloaded\":[\"auditFile\",\"peerKeys\",\"clientTls\"]}200");
    assert_true(shows("asked"));
    shell_expect("zabra create /after-the-rename", 0, "/after-the-rename");
    shell_expect("eval \"$LIB\"; await 'grep -q after-the-rename $D/audit.log'", 0, "");
    shell_expect("grep -c after-the-rename $D/audit.log.1", 1, "0");
    assert_true(metric("zabra_peer_key_reloads_total") > 0);
    assert_int_equal(metric("zabra_reloads_stuck"), 0);
}

/* A bad file is named, and does not keep the others from being read again. */
TEST(a_bad_secret_is_named_and_the_others_are_reloaded)
{
    uint64_t before = metric("zabra_tls_reloads_total");

    cert_kit_write(&secrets, "secret", slice_str("short\n"));
    shell_expect(RELOAD " | grep -c '\"detail\":\"peerKeys: peerSecretFile: .*; the old files "
                        "stay in use\".*409$'",
                 0, "1");
    assert_true(metric("zabra_tls_reloads_total") > before);
    assert_int_equal(metric("zabra_peer_key_reload_failed"), 1);
    assert_int_equal(metric("zabra_tls_reload_failed"), 0);
    assert_true(log_has("op=reload of 127.0.0.1: reloaded: auditFile, clientTls"));
    cert_kit_write(&secrets, "secret", slice_str(SECRET "\n"));
    ENSEMBLE_WAIT(&ensemble, metric("zabra_peer_key_reload_failed") == 0);
    shell_expect(RELOAD, 0, "200");
}

/* A FIFO or a directory in the place of a file neither blocks nor crashes. */
TEST(what_is_no_file_is_named)
{
    char path[CERT_KIT_PATH_MAX];

    (void)cert_kit_path(&certs, "replica.key", path);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    shell_expect(RELOAD, 0, "is not a regular file; check the path");
    assert_int_equal(unlink(path), 0);
    cert_kit_add_server(&certs, "replica", "file");
    (void)cert_kit_path(&secrets, "secret", path);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    shell_expect(RELOAD, 0, "is not a regular file; check the path");
    assert_int_equal(unlink(path), 0);
    cert_kit_write(&secrets, "secret", slice_str(SECRET "\n"));
    shell_expect(RELOAD, 0, "200");
    assert_true(shows("file"));
}

TEST(a_file_system_that_hangs_delays_nothing_else)
{
    uint64_t before = metric("zabra_peer_key_reloads_total");

    hang(certs.dir);
    shell_expect(RELOAD " | grep -c '\"detail\":\"clientTls: not read within 10 s: .*409$'", 0,
                 "1");
    assert_true(log_has("op=reload of 127.0.0.1: reloaded: auditFile, peerKeys"));
    assert_true(metric("zabra_peer_key_reloads_total") > before);
    assert_int_equal(metric("zabra_reloads_stuck"), 1);
    shell_expect("zabra doctor", 1, "warning reload-stuck: ");
    assert_true(shows("CN")); /* Handshakes, with the certificate from before. */
    cert_kit_write(&secrets, "secret", slice_str(SECRET "\n" SECRET "\n"));
    ENSEMBLE_WAIT(&ensemble, metric("zabra_peer_key_reloads_total") > before + 1);
    cert_kit_add_server(&certs, "replica", "after");
    answer_again();
    ENSEMBLE_WAIT(&ensemble, shows("after"));
    ENSEMBLE_WAIT(&ensemble, metric("zabra_reloads_stuck") == 0);
    shell_expect("zabra doctor", 0, "no problem found");
}

/* A request that waits for the file system gets its answer, and the end is orderly. */
static void end_while_it_hangs(const char *dir)
{
    struct shell_job job;
    uint64_t begin_ms = 0;

    hang(dir);
    /* Those of earlier requests may still be counted; the one that asks is. */
    ENSEMBLE_WAIT(&ensemble, metric("zabra_http_connections") == 1);
    shell_start(&job, "%s", RELOAD);
    ENSEMBLE_WAIT(&ensemble, metric("zabra_http_connections") > 1);
    begin_ms = os_now_ms();
    assert_int_equal(ensemble_stop(&ensemble, 0), 0);
    assert_true(os_now_ms() - begin_ms < END_MS);
    shell_finish(&job, 0, "503");
    assert_true(log_has("a file system does not answer; the end does not wait for it"));
    assert_true(log_has(" stopped$"));
    answer_again();
    shell_expect(": >$D/1.log", 0, "");
    ensemble_start(&ensemble, 0);
    ensemble_wait_ready(&ensemble, 0);
    assert_true(log_has("is sound: log up to zxid"));
}

TEST(the_end_does_not_wait_for_a_file_system_that_hangs)
{
    end_while_it_hangs(certs.dir);
    end_while_it_hangs(secrets.dir);
}
