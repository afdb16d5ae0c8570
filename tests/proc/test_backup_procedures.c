/*
 * Runs the procedures of docs/operating.md for backups: each line of the "sh" blocks below a
 * heading, as the page has it, against real replicas. Only directories, the password, the moment
 * and the user are replaced; the test starts and stops the replica where the page calls systemctl.
 */
#include "base/buf.h"
#include "tests/proc/page.h"
#include "tests/proc/shell.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    SIZE = 3,
    LINE_MAX_BYTES = 2048
};

static struct ensemble ensemble;
static char moment[64];

static void set_up(void)
{
    ensemble_launch(&ensemble, SIZE, "snapCount=50\n" ENSEMBLE_SUPER);
    shell_open(&ensemble);
    assert_int_equal(shell("umask 077; printf root >$D/backup-password; mkdir $D/zabra-backup"), 0);
}

static void tear_down(void)
{
    ensemble_close(&ensemble);
}

/* ---- Lines of the page ---- */

/* Puts what this machine has in the place of what the page says. */
static void localise(const char *line, uint32_t at, struct buf *out)
{
    const struct {
        const char *page;
        const char *here;
    } places[] = {{"/var/lib/zabra-", "$D/zabra-"},
                  {"/var/lib/zabra", ensemble.replicas[at].data},
                  {"/etc/zabra/", "$D/"},
                  {"chown -R zabra: ", "chown -R $(id -u) "},
                  {"2026-11-27T14:02:00Z", moment}};

    buf_clear(out);
    while (*line) {
        size_t len = 0;

        for (size_t i = 0; i < sizeof places / sizeof places[0] && len == 0; i++) {
            if (strncmp(line, places[i].page, strlen(places[i].page)) == 0) {
                len = strlen(places[i].page);
                buf_append_str(out, places[i].here);
            }
        }
        if (len == 0) {
            buf_append_byte(out, (uint8_t)*line);
            len = 1;
        }
        line += len;
    }
}

static uint32_t run_block(const char *heading, uint32_t block, uint32_t at);

static void run_line(const char *line, uint32_t at)
{
    struct buf here;

    if (strcmp(line, "systemctl stop zabra") == 0) {
        if (ensemble.replicas[at].pid > 0) {
            assert_int_equal(ensemble_stop(&ensemble, at), 0);
        }
        return;
    }
    if (strcmp(line, "systemctl start zabra") == 0) {
        (void)mkdir(ensemble.replicas[at].data, 0700); /* StateDirectory= of the unit. */
        ensemble_start(&ensemble, at);
        return;
    }
    if (strcmp(line, "systemctl start zabra-backup") == 0) { /* The unit runs the daily line. */
        assert_int_equal(run_block("Daily backup", 1, at), 1);
        return;
    }
    buf_init(&here, LINE_MAX_BYTES);
    localise(line, at, &here);
    int code = shell("{ %s\n} 2>&1", buf_cstr(&here));

    buf_release(&here);
    if (code != 0) {
        print_message("%s\nended with %d: %s", line, code, shell_output);
    }
    assert_int_equal(code, 0);
}

static void run_at(void *ctx, const char *line)
{
    run_line(line, *(const uint32_t *)ctx);
}

/* Runs one block below a heading on the machine of a replica; returns the number of lines. */
static uint32_t run_block(const char *heading, uint32_t block, uint32_t at)
{
    return page_run(heading, block, run_at, &at);
}

/* ---- The procedures ---- */

static void write_some(const char *prefix)
{
    shell_expect("true", 0, "");
    assert_int_equal(shell("for i in 1 2 3 4 5; do zabra create /%s$i $i || exit 1; done", prefix),
                     0);
}

static void rebuild_others(void)
{
    for (uint32_t i = 1; i < SIZE; i++) {
        assert_int_equal(run_block("All machines are lost", 2, i), 3);
    }
    ensemble_wait_all_ready(&ensemble);
}

TEST(all_machines_are_lost, set_up, tear_down)
{
    write_some("a");
    assert_int_equal(run_block("Daily backup", 1, 0), 1);
    write_some("b");
    assert_int_equal(run_block("Daily backup", 1, 0), 1);
    assert_int_equal(shell("ls $D/zabra-backup | grep -c -e full.backup -e more.backup"), 0);
    assert_int_equal(shell_output[0], '2');
    assert_int_equal(run_block("Restore drill", 1, 0), 3);
    for (uint32_t i = 0; i < SIZE; i++) {
        ensemble_kill(&ensemble, i);
    }
    assert_int_equal(run_block("All machines are lost", 1, 0), 5);
    rebuild_others();
    shell_expect("zabra get /a5 && zabra get /b5 && zabra create /after x && zabra members", 0,
                 "55");
    shell_expect("zabra doctor", 0, "");
}

TEST(back_to_the_moment_before_a_bad_deployment, set_up, tear_down)
{
    write_some("a");
    assert_int_equal(run_block("Daily backup", 1, 0), 1);
    write_some("b");
    /* The moment is a whole second, after all good changes and before the bad ones. */
    assert_int_equal(
        shell(
            "T=$(($(date +%%s) + 1)); while [ $(date +%%s) -lt $((T + 1)) ]; do sleep 0.05; done; "
            "date -u -d @$T +%%Y-%%m-%%dT%%H:%%M:%%SZ"),
        0);
    (void)snprintf(moment, sizeof moment, "%.20s", shell_output);
    assert_int_equal(shell("for i in 1 2 3 4 5; do zabra rm /a$i && zabra set /b$i bad || exit 1; "
                           "done"),
                     0);
    assert_int_equal(run_block("Back to an earlier moment", 1, 0), 1);
    for (uint32_t i = 1; i < SIZE; i++) {
        assert_int_equal(ensemble_stop(&ensemble, i), 0);
    }
    assert_int_equal(run_block("Back to an earlier moment", 2, 0), 5);
    rebuild_others();
    shell_expect("zabra get /a5 && zabra get /b5", 0, "55");
}
