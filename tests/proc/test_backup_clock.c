/* A policy that removes old backups, and wrong clocks: ages are by the clocks of a majority, and
 * nothing is removed when the clock of the command differs. */
#include "tests/proc/backup_kit.h"

#include <string.h>

#define TWO_HOURS_MS INT64_C(7200000)

enum {
    SIZE = 3
};

static struct ensemble ensemble;
static struct faulty *replicas[SIZE];
static struct faulty *command;

static void set_up_with(const char *keys)
{
    ensemble_open(&ensemble, SIZE, keys);
    ensemble.faulty = true;
    for (uint32_t i = 0; i < SIZE; i++) {
        replicas[i] = faulty_open(ensemble.replicas[i].faulty);
        ensemble_start(&ensemble, i);
    }
    ensemble_wait_all_ready(&ensemble);
    backup_prepare(&ensemble);
    command = backup_offer_faulty(&ensemble);
    assert_int_equal(shell("zabra create /a x"), 0);
}

/* A backup of /big znodes takes seconds. */
static void set_up(void)
{
    set_up_with("maxBackupBytesPerSecond=1048576\n" ENSEMBLE_SUPER);
}

static void set_up_soon_stale(void)
{
    set_up_with("staleLimit=1500\n" ENSEMBLE_SUPER);
}

static void tear_down(void)
{
    ensemble_close(&ensemble);
}

static void put_old(void)
{
    assert_int_equal(shell("rm -f $OUT/*; touch $OUT/20200101T000000.000Z-full.backup"), 0);
}

/* Takes a backup from the first replica. True if the one of 2020 stays. */
static bool keeps_old(void)
{
    put_old();
    assert_int_equal(shell("$FAULTY $BACKUP --keep 1h:1h $OUT 2>&1; code=$?; ls $OUT; exit $code"),
                     0);
    assert_non_null(strstr(shell_output, "replica 1\n"));
    bool is_kept = strstr(shell_output, "\n20200101T") != NULL;

    assert_true(is_kept == (strstr(shell_output, "no old backup is removed") != NULL));
    return is_kept;
}

/* Waits until the first replica knows how far its clock is ahead. */
static void await_ahead(const char *seconds)
{
    assert_int_equal(shell("eval \"$LIB\"; await \"curl -fs localhost:%u/metrics | grep -E "
                           "'^zabra_clock_ahead_seconds %s'\"",
                           ensemble.replicas[0].client_port, seconds),
                     0);
}

TEST(a_wrong_clock_removes_no_backup, set_up, tear_down)
{
    assert_false(keeps_old());
    atomic_store(&command->wall_offset_ms, TWO_HOURS_MS);
    assert_true(keeps_old());
    assert_non_null(strstr(shell_output, " s ahead of that of the ensemble"));
    /* The replica that is asked has the same wrong clock: it is on the same machine. */
    atomic_store(&replicas[0]->wall_offset_ms, TWO_HOURS_MS);
    await_ahead("7[12]");
    assert_true(keeps_old());
    assert_non_null(strstr(shell_output, " s ahead of that of the ensemble"));
    atomic_store(&command->wall_offset_ms, 0);
    assert_false(keeps_old());
    /* All replicas have a wrong clock. */
    atomic_store(&replicas[1]->wall_offset_ms, TWO_HOURS_MS);
    atomic_store(&replicas[2]->wall_offset_ms, TWO_HOURS_MS);
    await_ahead("-?[01](\\.|$)");
    assert_true(keeps_old());
    assert_non_null(strstr(shell_output, " s behind that of the ensemble"));
}

/* The clocks are compared when a backup begins: one of more than an hour is no wrong clock. */
TEST(a_long_backup_removes_old_ones, set_up, tear_down)
{
    struct shell_job job;

    put_old();
    assert_int_equal(
        shell("for i in 1 2 3 4 5 6 7 8; do zabra create /big$i @$D/data || exit 1; done"), 0);
    shell_start(&job, "$FAULTY $BACKUP --keep 1h:1h $OUT 2>&1");
    assert_int_equal(shell("eval \"$LIB\"; await '[ -s $OUT/*.part ]'"), 0);
    atomic_store(&command->wall_offset_ms, TWO_HOURS_MS);
    shell_finish(&job, 0, "removed 1 old backup\n");
    assert_int_equal(shell("[ ! -e $OUT/2020* ] && ls $OUT/*full.backup"), 0);
}

/* A replica that is cut off has no other clock to compare with, so the time of its backup is that
 * of its own clock, which the command on the same machine has, too. */
TEST(a_stale_backup_removes_none, set_up_soon_stale, tear_down)
{
    ensemble_kill(&ensemble, 1);
    ensemble_kill(&ensemble, 2);
    atomic_store(&command->wall_offset_ms, TWO_HOURS_MS);
    atomic_store(&replicas[0]->wall_offset_ms, TWO_HOURS_MS);
    ENSEMBLE_WAIT(&ensemble, shell("curl -fsu super:root -o /dev/null localhost:%u/backup/v1",
                                   ensemble.replicas[0].client_port) != 0);
    await_ahead("-?0(\\.|$)");
    assert_int_equal(
        shell("f=$(date -u -d '30 minutes ago' +%%Y%%m%%dT%%H%%M%%S).000Z-full.backup; "
              "touch $OUT/$f; $FAULTY $BACKUP --stale --keep 1h:1h $OUT 2>&1 && [ -e "
              "$OUT/$f ]"),
        0);
    assert_non_null(strstr(shell_output, "no old backup is removed"));
}
