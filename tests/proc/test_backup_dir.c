/* A directory of backups: one command at a time writes into it, its chains stay whole, and wrong
 * clocks do no harm. */
#include "tests/proc/backup_kit.h"

#include <string.h>
#include <unistd.h>

enum {
    SIZE = 1,
    HOUR_MS = 3600000
};

static struct ensemble ensemble;

/* A backup of /big znodes takes seconds. */
static void set_up(void)
{
    ensemble_launch(&ensemble, SIZE, "maxBackupBytesPerSecond=1048576\n" ENSEMBLE_SUPER);
    backup_prepare(&ensemble);
}

static void tear_down(void)
{
    ensemble_close(&ensemble);
}

/* True if what the directory has can be restored. */
static bool is_restorable(void)
{
    return shell("rm -rf $D/new; zabra restore --from $OUT --dir $D/new --id 1 2>&1") == 0;
}

/* The kinds of the files of the directory, in their order. */
static const char *kinds(void)
{
    assert_int_equal(shell("ls $OUT | sed 's/.*-\\(....\\).*/\\1/' | tr '\\n' ' '"), 0);
    return shell_output;
}

/* Writes what the next backup needs seconds for. */
static void write_big(const char *prefix)
{
    assert_int_equal(
        shell("for i in 1 2 3 4 5 6 7 8; do zabra create /%s$i @$D/data || exit 1; done", prefix),
        0);
}

TEST(one_backup_at_a_time_writes_into_a_directory, set_up, tear_down)
{
    struct shell_job job;

    assert_int_equal(shell("zabra create /a x && $BACKUP $OUT"), 0);
    write_big("b");
    shell_start(&job, "$BACKUP --since-last --verify $OUT 2>&1");
    assert_int_equal(shell("eval \"$LIB\"; await '[ -s $OUT/*more.backup.part ]'"), 0);
    assert_int_equal(shell("$BACKUP --since-last $OUT 2>&1"), 1);
    assert_non_null(strstr(shell_output, "another zabra backup (process "));
    shell_finish(&job, 0, "increment");
    assert_string_equal(kinds(), "full more ");
    assert_true(is_restorable());
}

/* On a file system without locks another backup may come in between. */
TEST(an_increment_whose_chain_has_gone_on_is_not_kept, set_up, tear_down)
{
    struct shell_job job;

    assert_int_equal(shell("zabra create /a x && $BACKUP $OUT"), 0);
    write_big("b");
    shell_start(&job, "$BACKUP --since-last $OUT 2>&1");
    assert_int_equal(shell("eval \"$LIB\"; await '[ -s $OUT/*more.backup.part ]' && "
                           "cp $OUT/*full.backup $OUT/20990101T000000.000Z-full.backup"),
                     0);
    shell_finish(&job, 0, "another backup was put into this directory");
    assert_string_equal(kinds(), "full full full ");
    assert_true(is_restorable());
}

/* The bytes have arrived, but the file cannot be read back, or cannot get its name. */
TEST(a_backup_that_is_not_stored_has_failed, set_up, tear_down)
{
    struct shell_job job;

    write_big("b");
    shell_start(&job, "$BACKUP --verify $OUT 2>&1");
    assert_int_equal(
        shell("eval \"$LIB\"; await '[ -s $OUT/*full.backup.part ]' && rm $OUT/*.part"), 0);
    shell_finish(&job, 1, "full.backup.part: No such file or directory");
    assert_int_equal(shell("ls -A $OUT"), 0);
    assert_string_equal(shell_output, "");
    shell_start(&job, "$BACKUP $OUT/file 2>&1");
    assert_int_equal(shell("eval \"$LIB\"; await '[ -s $OUT/file.part ]' && mkdir $OUT/file"), 0);
    shell_finish(&job, 1, "file: Is a directory");
    assert_int_equal(shell("ls -A $OUT $OUT/file && rmdir $OUT/file && ls -A $OUT"), 0);
    assert_null(strstr(shell_output, "part"));
}

TEST(a_chain_with_a_gap_is_not_continued, set_up, tear_down)
{
    assert_int_equal(shell("for i in 1 2 3; do zabra create /a$i x && $BACKUP --since-last $OUT || "
                           "exit 1; done; rm $(ls $OUT/*more.backup | head -1)"),
                     0);
    assert_false(is_restorable());
    assert_int_equal(shell("$BACKUP --since-last $OUT 2>&1"), 0);
    assert_non_null(strstr(shell_output, "does not continue the backup before it: taking a full"));
    assert_string_equal(kinds(), "full more full ");
    assert_true(is_restorable());
}

/* Shifts the time of the only full backup; says what the next backup makes of it. */
static const char *after_shift(int64_t ms)
{
    char path[ENSEMBLE_PATH_MAX];

    assert_int_equal(shell("rm -f $OUT/*; zabra set /a x && $BACKUP $OUT >/dev/null && printf %%s "
                           "$OUT/*full.backup"),
                     0);
    (void)snprintf(path, sizeof path, "%.*s", (int)sizeof path - 1, shell_output);
    backup_shift(path, ms);
    assert_int_equal(shell("zabra set /a y && $BACKUP --since-last $OUT"), 0);
    return kinds();
}

/* The age is that of the clocks of the replicas; besides the full backup comes the last increment
 * of the chain before. */
TEST(a_full_backup_follows_an_old_one, set_up, tear_down)
{
    assert_int_equal(shell("zabra create /a x"), 0);
    assert_string_equal(after_shift(-23 * HOUR_MS), "full more ");
    assert_string_equal(after_shift(-25 * HOUR_MS), "full more full ");
    assert_string_equal(after_shift(HOUR_MS), "full more full "); /* Of the future. */
}

/* What is sound before a gap, or a damaged file, can be restored by the command that is printed. */
TEST(the_sound_backups_of_a_chain_can_be_restored, set_up, tear_down)
{
    assert_int_equal(shell("for i in 1 2 3 4; do zabra create /a$i x && $BACKUP --since-last $OUT "
                           "|| exit 1; done 2>/dev/null; rm $(ls $OUT/*more.backup | sed -n 2p)"),
                     0);
    assert_false(is_restorable());
    assert_non_null(strstr(shell_output, "are sound, up to zxid 0x"));
    assert_int_equal(shell("L=$(zabra inspect -o json $(ls $OUT/*more.backup | head -1) | jq -r "
                           ".last); C=$(zabra restore --from $OUT --dir $D/new --id 1 2>&1 | tail "
                           "-1); eval $C | grep \"at zxid $L\""),
                     0);
    /* The full one is damaged, and there is an older chain. */
    assert_int_equal(shell("rm $(ls $OUT/*more.backup | tail -1) && $BACKUP $OUT && F=$(ls "
                           "$OUT/*full.backup | tail -1) && printf x | dd of=$F bs=1 seek=900 "
                           "conv=notrunc 2>/dev/null"),
                     0);
    assert_false(is_restorable());
    assert_non_null(strstr(shell_output, "to restore the backups before it, move "));
    assert_int_equal(shell("mv $(ls $OUT/*full.backup | tail -1) $D/"), 0);
    assert_true(is_restorable());
}

/* True if $LAST is the zxid of what is restored for the time $T. */
static bool is_restored_to_last(void)
{
    return shell("rm -rf $D/new; zabra restore --from $OUT --dir $D/new --id 1 --until-time $T "
                 "2>&1 | grep \"at zxid $LAST,\"") == 0;
}

/* Of the backups 1 to 4, number 2 has $LAST, and number 3 has a mistake after the time $T. */
TEST(a_damaged_backup_after_the_wanted_time_is_not_needed, set_up, tear_down)
{
    assert_int_equal(
        shell("eval \"$LIB\"; zabra create /a x && await 'zabra set /a x >/dev/null; [ "
              "$(zabra stat -o json /a | jq .mtime) -gt 0 ]' && $BACKUP $OUT && zabra "
              "create /good x && $BACKUP --since-last $OUT"),
        0);
    assert_int_equal(shell("zabra inspect -o json $OUT/*more.backup | jq -j .last"), 0);
    backup_set("LAST", "%s", shell_output);
    assert_int_equal(
        shell("T=$(($(date +%%s) + 1)); while [ $(date +%%s) -lt $((T + 1)) ]; do sleep "
              "0.05; done; date -u -d @$T +%%Y-%%m-%%dT%%H:%%M:%%SZ | tr -d '\\n'"),
        0);
    backup_set("T", "%s", shell_output);
    assert_int_equal(shell("zabra rm /good && $BACKUP --since-last $OUT && zabra create /b x && "
                           "$BACKUP --since-last $OUT"),
                     0);
    assert_true(is_restored_to_last());
    assert_int_equal(shell("printf xxxx | dd of=$(ls $OUT/*more.backup | sed -n 3p) bs=1 seek=200 "
                           "conv=notrunc 2>/dev/null"),
                     0);
    assert_false(is_restorable());
    assert_true(is_restored_to_last());
    /* Nor is it opened. */
    assert_int_equal(shell("f=$(ls $OUT/*more.backup | sed -n 3p); rm $f && mkdir $f"), 0);
    assert_false(is_restorable());
    assert_non_null(strstr(shell_output, "more.backup: Is a directory"));
    assert_non_null(strstr(shell_output, "are sound, up to zxid 0x"));
    assert_true(is_restored_to_last());
    /* The hint is not at a later moment than the wanted one. */
    assert_int_equal(shell("printf xxxx | dd of=$(ls $OUT/*more.backup | sed -n 2p) bs=1 seek=200 "
                           "conv=notrunc 2>/dev/null"),
                     0);
    assert_false(is_restored_to_last());
    assert_int_equal(shell("C=$(zabra restore --from $OUT --dir $D/new --id 1 --until-time $T 2>&1 "
                           "| tail -1); eval $C | grep \"at zxid $LAST,\""),
                     0);
}

TEST(a_chain_that_is_too_long_is_refused, set_up, tear_down)
{
    assert_int_equal(shell("zabra create /a x && $BACKUP $OUT && cd $OUT && seq -f "
                           "20990101T%%06.0f.000Z-more.backup 1 1000 | xargs touch"),
                     0);
    assert_false(is_restorable());
    assert_non_null(strstr(shell_output, "more than 999 increments follow"));
}

/* A fresh ensemble does not know the time at once. */
TEST(a_time_before_all_transactions_is_refused, set_up, tear_down)
{
    assert_int_equal(
        shell("eval \"$LIB\"; zabra create /a x && await 'zabra set /a x >/dev/null; [ "
              "$(zabra stat -o json /a | jq .mtime) -gt 0 ]' && $BACKUP $OUT"),
        0);
    assert_int_equal(shell("zabra restore --from $OUT --dir $D/new --id 1 --until-time "
                           "2020-01-01T00:00:00Z 2>&1; code=$?; [ ! -e $D/new ] || exit 99; exit "
                           "$code"),
                     1);
    assert_non_null(strstr(shell_output, "no transaction of the backups is as old as the time"));
    assert_int_equal(
        shell(
            "T=$(($(date +%%s) + 1)); while [ $(date +%%s) -lt $((T + 1)) ]; do sleep 0.05; done; "
            "zabra create /c x && rm $OUT/* && $BACKUP $OUT && zabra restore --from $OUT --dir "
            "$D/new --id 1 --until-time $(date -u -d @$T +%%Y-%%m-%%dT%%H:%%M:%%SZ)"),
        0);
    assert_non_null(strstr(shell_output, "the last transaction is of 20"));
    assert_non_null(strstr(shell_output, ", the first one that was left out of 20"));
}

/* A complete backup would get its name, and so take the place of the pipe. */
TEST(a_target_that_is_no_file_is_refused, set_up, tear_down)
{
    assert_int_equal(shell("mkfifo $OUT/fifo && $BACKUP $OUT/fifo 2>&1"), 2);
    assert_non_null(strstr(shell_output, "fifo: is neither a file nor a directory"));
    assert_int_equal(shell("[ -p $OUT/fifo ] && ls -A $OUT"), 0);
    assert_string_equal(shell_output, "fifo\n");
}

/* A backup that root takes by hand must not end the chain of the timer, which has a user of its
 * own: its files have the owner of the directory. */
TEST(a_new_backup_has_the_owner_of_the_directory, set_up, tear_down)
{
    if (geteuid() != 0) {
        print_message("not root: left out\n");
        return;
    }
    assert_int_equal(shell("zabra create /a x && $BACKUP $OUT && chown 65534:65534 $OUT $OUT/* && "
                           "zabra create /b x && $BACKUP --since-last --verify $OUT && stat -c "
                           "'%%u:%%g %%a' $OUT/*more.backup"),
                     0);
    assert_non_null(strstr(shell_output, "65534:65534 600\n"));
    assert_int_equal(shell("rm $OUT/* && $BACKUP $OUT && stat -c '%%u:%%g %%a' $OUT/*"), 0);
    assert_non_null(strstr(shell_output, "65534:65534 600\n"));
    /* Others may write there, so that the file could be theirs already. */
    assert_int_equal(shell("rm $OUT/* && chmod 777 $OUT && $BACKUP $OUT && stat -c %%u $OUT/*"), 0);
    assert_non_null(strstr(shell_output, "\n0\n"));
}
