/* Backups by the command line: taken while clients write, kept by a policy, restored into a new
 * ensemble. */
#include "tests/proc/backup_kit.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROOT "Authorization: Basic c3VwZXI6cm9vdA==" /* super:root */

enum {
    SIZE = 3,
    ROUNDS = 4,
    PATH_BYTES = 200
};

static struct ensemble ensemble;

static void set_up(void)
{
    ensemble_launch(&ensemble, SIZE, "snapCount=50\n" ENSEMBLE_SUPER);
    backup_prepare(&ensemble);
}

static void tear_down(void)
{
    ensemble_close(&ensemble);
}

/* The endpoints, with this replica first. */
static void set_first(uint32_t index)
{
    char text[PATH_BYTES];
    int len = snprintf(text, sizeof text, "127.0.0.1:%u", ensemble.replicas[index].client_port);

    for (uint32_t i = 0; i < SIZE; i++) {
        if (i != index) {
            len += snprintf(text + len, sizeof text - (size_t)len, ",127.0.0.1:%u",
                            ensemble.replicas[i].client_port);
        }
    }
    backup_set("ZABRA_ENDPOINTS", "%s", text);
}

/* Stops all, restores replica 1 with these arguments, and starts all: the others with empty
 * directories. */
static void restore(const char *arguments)
{
    for (uint32_t i = 0; i < SIZE; i++) {
        (void)ensemble_stop(&ensemble, i);
        ensemble_empty(&ensemble, i);
    }
    assert_int_equal(shell("rm -rf %s; zabra restore %s --dir %s --id 1", ensemble.replicas[0].data,
                           arguments, ensemble.replicas[0].data),
                     0);
    for (uint32_t i = 0; i < SIZE; i++) {
        ensemble_start(&ensemble, i);
    }
    ensemble_wait_all_ready(&ensemble);
}

TEST(a_backup_under_writes_is_restored_without_a_gap, set_up, tear_down)
{
    backup_write_some("old", 60);
    /* While a writer makes numbered znodes in a session: two backups, of all and of the changes. */
    assert_int_equal(
        shell("zabra session -- sh -c 'zabra create /eph x -e >$OUT/eph; i=0; while [ ! -e "
              "$OUT/stop ] && [ $i -lt 5000 ]; do i=$((i+1)); zabra create /n$(printf %%05d $i) x "
              ">$OUT/log || exit 1; done' & eval \"$LIB\"; await '[ -s $OUT/eph ]'; "
              "$BACKUP --verify $OUT && sleep 1 && $BACKUP --verify --since-last $OUT; code=$?; "
              "touch $OUT/stop; wait; exit $code"),
        0);
    backup_write_some("late", 3);
    restore("--from $OUT/*full.backup $OUT/*more.backup");
    assert_int_equal(shell("zabra get /old60 && ! zabra get /late1 && ! zabra get /eph"), 0);
    /* Numbers 1 to k, without a gap, and k > 1. */
    assert_int_equal(
        shell("zabra ls / | grep '^n' | sort | awk '{ if ($0 != sprintf(\"n%%05d\", NR)) "
              "exit 1 } END { exit NR < 2 }'"),
        0);
    /* The restored ensemble works, and all three replicas agree. */
    backup_write_some("new", 3);
    assert_int_equal(shell("zabra doctor"), 0);
}

TEST(the_state_before_a_mistake_comes_back, set_up, tear_down)
{
    backup_write_some("a", 5);
    assert_int_equal(shell("$BACKUP $OUT/full"), 0);
    backup_write_some("b", 5);
    assert_int_equal(shell("zabra stat /b5 | sed -n 's/^czxid *//p'"), 0);
    backup_set("GOOD", "%s", shell_output);
    assert_int_equal(shell("zabra rm -r / --yes >/dev/null 2>&1; for i in 1 2 3 4 5; do zabra rm "
                           "/a$i; done; ! zabra get /a1"),
                     0);
    assert_int_equal(
        shell("curl -fsu super:root -o $OUT/more \"http://127.0.0.1:%u/backup/v1?since="
              "$(zabra inspect -o json $OUT/full | jq -r .last)\"",
              ensemble.replicas[0].client_port),
        0);
    restore("--from $OUT/full $OUT/more --until-zxid $(echo $GOOD)");
    assert_int_equal(shell("zabra get /a1 && zabra get /b5"), 0);
}

/* True if the command fails with this text, and makes no directory. */
static bool is_refused(const char *arguments, const char *text)
{
    int code =
        shell("zabra restore %s --dir $OUT/new --id 1 2>&1; code=$?; [ ! -e $OUT/new ] && [ ! "
              "-e $OUT/new.part ] && exit $code; exit 99",
              arguments);

    return code == 1 && strstr(shell_output, text) != NULL;
}

TEST(what_cannot_be_restored_is_named, set_up, tear_down)
{
    backup_write_some("a", 5);
    assert_int_equal(shell("$BACKUP $OUT/full && $BACKUP $OUT/full2"), 0);
    assert_int_equal(
        shell("head -c 1000 $OUT/full >$OUT/cut; cp $OUT/full $OUT/flipped; printf x | "
              "dd of=$OUT/flipped bs=1 seek=700 conv=notrunc 2>/dev/null; echo text "
              ">$OUT/text"),
        0);
    assert_true(is_refused("--from $OUT/missing", "missing: No such file"));
    assert_true(is_refused("--from $OUT/cut", "cut: is cut or damaged"));
    assert_true(is_refused("--from $OUT/flipped", "flipped: is cut or damaged"));
    assert_true(is_refused("--from $OUT/text", "text: is not a backup"));
    assert_true(is_refused("--from $OUT/full $OUT/full2", "full2: is a full backup"));
    assert_true(is_refused("--from $OUT/full --until-zxid 0x7fffffff00000000", "behind the end"));
    assert_int_equal(shell("zabra restore --from $OUT/full --dir $OUT --id 1 2>&1"), 1);
    assert_non_null(strstr(shell_output, "not empty"));
    assert_int_equal(shell("zabra restore --from $OUT/full --dir $OUT/new --id 1 --until-time "
                           "2026-02-30T00:00:00Z 2>&1"),
                     2);
    assert_int_equal(shell("mkdir $OUT/slash && zabra restore --from $OUT/full --dir $OUT/slash// "
                           "--id 1 && zabra inspect $OUT/slash"),
                     0);
    assert_int_equal(shell("zabra restore --from $OUT/full --dir $OUT/new --id 9 2>&1"), 1);
    assert_non_null(strstr(shell_output, "no member"));
    assert_int_equal(shell("zabra inspect $OUT/full && ! zabra inspect $OUT/cut"), 0);
    /* Only the super user may take one; a failure leaves no file. */
    assert_int_equal(shell("zabra backup $OUT/none 2>&1"), 5);
    assert_int_equal(shell("[ ! -e $OUT/none ] && [ ! -e $OUT/none.part ]"), 0);
}

TEST(a_policy_keeps_chains, set_up, tear_down)
{
    /* Made long ago, by their names. */
    assert_int_equal(shell("touch $OUT/20200101T000000.000Z-full.backup "
                           "$OUT/20200101T010000.000Z-more.backup $OUT/other"),
                     0);
    backup_write_some("a", 2);
    assert_int_equal(shell("$BACKUP --keep 24h:1h $OUT && $BACKUP --since-last --keep 24h:1h $OUT"),
                     0);
    assert_int_equal(shell("ls $OUT | grep -c backup; [ -e $OUT/other ] && ! ls $OUT | grep 2020"),
                     0);
    assert_int_equal(shell_output[0], '2');
    assert_int_equal(shell("$BACKUP --keep 1x $OUT 2>&1"), 2);
    assert_int_equal(shell("$BACKUP --since-last $OUT/none 2>&1"), 2);
    assert_int_equal(shell("$BACKUP - | cat >$OUT/piped && zabra inspect $OUT/piped"), 0);
}

/* Asks replica 1 for a backup. */
static long ask(const char *query, const char *headers)
{
    char path[PATH_BYTES];

    (void)snprintf(path, sizeof path, "/backup/v1%s", query);
    return web_do(ensemble.web,
                  &(struct web_call){.method = "GET",
                                     .port = ensemble.replicas[0].client_port,
                                     .path = path,
                                     .headers = headers},
                  &ensemble.reply);
}

/* True if the query gets this status, and a problem with this code. */
static bool is_problem(const char *query, long status, const char *code)
{
    return ask(query, ROOT) == status && strstr(web_text(&ensemble.reply), code) != NULL;
}

TEST(the_interface_answers_what_it_has, set_up, tear_down)
{
    char query[PATH_BYTES];
    char zxid[64];

    backup_write_some("a", 3);
    assert_int_equal(ask("", ROOT), 200);
    assert_string_equal(web_header(&ensemble.reply, "Content-Type"), "application/octet-stream");
    (void)snprintf(zxid, sizeof zxid, "%s", web_header(&ensemble.reply, "Zk-Zxid"));
    (void)snprintf(query, sizeof query, "?since=%s:%s", web_header(&ensemble.reply, "Zk-History"),
                   zxid);
    assert_int_equal(ask(query, ROOT), 200);
    /* Not a zxid of the log; one that lies ahead; of another history. */
    assert_true(is_problem("?since=0x1", 409, "Gap"));
    assert_true(is_problem("?since=0x7fffffff00000000", 503, "ReplicaBehind"));
    assert_true(is_problem("?since=1:0x1", 409, "HistoryChanged"));
    /* For the super user only. */
    assert_int_equal(ask("", "Authorization: Basic Ym9iOnB3"), 403);
    assert_int_equal(ask("", NULL), 401);
    assert_int_equal(shell("curl -fs localhost:%u/metrics | grep '^zabra_backup_last_seconds "
                           "[1-9]'",
                           ensemble.replicas[0].client_port),
                     0);
}

/* ---- Replicas that are cut off ---- */

static void set_up_cut_off(void)
{
    ensemble_launch(&ensemble, SIZE, "staleLimit=1500\n" ENSEMBLE_SUPER);
    backup_prepare(&ensemble);
}

/* Replica 1 starts again with a secret that the others do not have. */
static void cut_off_first(void)
{
    assert_int_equal(ensemble_stop(&ensemble, 0), 0);
    assert_int_equal(
        shell("printf 'another secret of the replicas' >$D/other && chmod 600 $D/other "
              "&& echo peerSecretFile=$D/other >>%s",
              ensemble.replicas[0].config),
        0);
    ensemble_start(&ensemble, 0);
    ENSEMBLE_WAIT(&ensemble, ensemble_call(&ensemble, 0, "GET", "/livez", NULL) == 200);
}

TEST(a_replica_that_is_cut_off_is_passed_over, set_up_cut_off, tear_down)
{
    backup_write_some("old", 1);
    assert_int_equal(shell("$BACKUP $OUT"), 0);
    cut_off_first();
    ensemble_call_until(&ensemble, 1, "PUT", "/znodes/v1/late?upsert=true", "x", 201);
    set_first(0);
    assert_int_equal(shell("$BACKUP --since-last --verify $OUT && zabra restore --from $OUT --dir "
                           "$OUT/new --id 1 >/dev/null && zabra inspect $OUT/new >/dev/null"),
                     0);
    assert_null(strstr(shell_output, "replica 1\n"));
    assert_non_null(strstr(shell_output, "increment"));
    /* The last one has the last write. */
    assert_int_equal(shell("unset ZABRA_ENDPOINTS; z=$(zabra stat /late --endpoints "
                           "127.0.0.1:%u | sed -n 's/^czxid *//p'); l=$(zabra inspect -o json "
                           "$OUT/*more.backup | jq -r .last); [ $((l)) -ge $((z)) ]",
                           ensemble.replicas[1].client_port),
                     0);
    /* It has nothing to give, but to a client that asks for what is old. */
    assert_true(is_problem("", 503, "NotReady"));
    assert_non_null(strstr(web_text(&ensemble.reply), "stale=true"));
}

TEST(without_a_quorum_a_stale_backup_can_be_taken, set_up_cut_off, tear_down)
{
    backup_write_some("a", 1);
    assert_int_equal(ask("?stale=true", ROOT), 200);
    assert_null(web_header(&ensemble.reply, "Age"));
    ensemble_kill(&ensemble, 1);
    ensemble_kill(&ensemble, 2);
    ENSEMBLE_WAIT(&ensemble, ask("", ROOT) == 503);
    assert_non_null(strstr(web_text(&ensemble.reply), "staleLimit"));
    assert_int_equal(ask("?stale=true", ROOT), 200);
    assert_non_null(web_header(&ensemble.reply, "Age"));
    assert_int_equal(shell("zabra --timeout 2s $BACKUP $OUT/b 2>&1; [ ! -e $OUT/b ] && "
                           "$BACKUP --stale --verify $OUT/b 2>&1 && zabra inspect $OUT/b"),
                     0);
    assert_non_null(strstr(shell_output, "has had no contact with a leader for "));
}

/* ---- Faults ---- */

/* Segments of the log are small, and nothing of it is kept for readers. */
static void set_up_purged(void)
{
    ensemble_launch(&ensemble, SIZE,
                    "snapCount=10\nwalSegmentBytes=65536\nmaxRefillLogBytes=0\n" ENSEMBLE_SUPER);
    backup_prepare(&ensemble);
    assert_int_equal(shell("head -c 60000 /dev/urandom >$D/data"), 0);
}

TEST(a_log_that_was_purged_needs_a_full_backup, set_up_purged, tear_down)
{
    assert_int_equal(shell("zabra create /a x && $BACKUP $OUT"), 0);
    assert_int_equal(shell("zabra create /p @$D/data && for i in $(seq 80); do zabra set /p "
                           "@$D/data >/dev/null || exit 1; done"),
                     0);
    assert_int_equal(
        shell("curl -su super:root -w '%%{http_code}' \"http://127.0.0.1:%u/backup/v1?since=$("
              "zabra inspect -o json $OUT/*full.backup | jq -r .last)\"",
              ensemble.replicas[0].client_port),
        0);
    assert_non_null(strstr(shell_output, "Gap"));
    assert_non_null(strstr(shell_output, "take a full backup"));
    assert_non_null(strstr(shell_output, "409"));
    assert_int_equal(shell("$BACKUP --since-last --verify $OUT 2>&1"), 0);
    assert_non_null(strstr(shell_output, "taking a full backup"));
    assert_int_equal(shell("ls $OUT | grep -c full.backup$; ls $OUT | wc -l; zabra restore --from "
                           "$OUT --dir $D/new --id 1 >/dev/null"),
                     0);
    assert_string_equal(shell_output, "2\n2\n");
}

/* A backup takes several seconds. */
static void set_up_slow(void)
{
    ensemble_launch(&ensemble, SIZE, "maxBackupBytesPerSecond=1048576\n" ENSEMBLE_SUPER);
    backup_prepare(&ensemble);
    assert_int_equal(shell("for i in $(seq 12); do zabra create /big$i @$D/data || exit 1; done"),
                     0);
}

/* Its place of backups is taken: another replica has one. */
TEST(a_busy_replica_is_passed_over, set_up_slow, tear_down)
{
    struct shell_job job;

    set_first(0);
    shell_start(&job, "$BACKUP $OUT/a 2>&1");
    assert_int_equal(shell("eval \"$LIB\"; await '[ -s $OUT/a.part ]'"), 0);
    assert_int_equal(shell("$BACKUP $OUT/b"), 0);
    assert_null(strstr(shell_output, "replica 1\n"));
    shell_finish(&job, 0, "replica 1");
}

TEST(the_leader_dies_while_it_sends_a_backup, set_up_slow, tear_down)
{
    uint32_t leader = ensemble_wait_leader(&ensemble);
    struct shell_job job;

    set_first(leader);
    shell_start(&job, "$BACKUP --verify $OUT/b 2>&1");
    assert_int_equal(shell("eval \"$LIB\"; await '[ -s $OUT/b.part ]'"), 0);
    ensemble_kill(&ensemble, leader);
    shell_finish(&job, 0, "trying again");
    assert_int_equal(shell("[ ! -e $OUT/b.part ] && zabra inspect $OUT/b && zabra restore --from "
                           "$OUT/b --dir $OUT/new --id 1"),
                     0);
}

/* It stops after the first bytes. */
TEST(a_frozen_replica_is_passed_over, set_up_slow, tear_down)
{
    uint32_t follower = (ensemble_wait_leader(&ensemble) + 1) % SIZE;
    struct shell_job job;

    set_first(follower);
    shell_start(&job, "$BACKUP --verify --timeout 5s $OUT/b 2>&1");
    assert_int_equal(shell("eval \"$LIB\"; await '[ -s $OUT/b.part ]'"), 0);
    ensemble_signal(&ensemble, follower, SIGSTOP);
    shell_finish(&job, 0, "no more data was transferred");
    ensemble_signal(&ensemble, follower, SIGCONT);
    assert_non_null(strstr(shell_output, ": trying again"));
    assert_int_equal(shell("[ ! -e $OUT/b.part ] && zabra inspect $OUT/b"), 0);
}

TEST(a_full_disk_leaves_the_last_backup, set_up_slow, tear_down)
{
    assert_int_equal(shell("$BACKUP $OUT/b && cp $OUT/b $OUT/good && zabra create /more x"), 0);
    /* A limit of the size of files is what a full disk is, but that its error is another one. */
    assert_int_equal(shell("(trap '' XFSZ; ulimit -f 1000; exec $BACKUP $OUT/b) 2>&1"), 1);
    assert_non_null(strstr(shell_output, "File too large"));
    assert_int_equal(shell("cmp $OUT/b $OUT/good && [ ! -e $OUT/b.part ]"), 0);
    /* Nor does a restore leave anything. */
    assert_int_equal(shell("(trap '' XFSZ; ulimit -f 1000; exec zabra restore --from $OUT/b --dir "
                           "$OUT/new --id 1) 2>&1"),
                     1);
    assert_int_equal(shell("[ ! -e $OUT/new ] && [ ! -e $OUT/new.part ]"), 0);
}

/* Standard output is a device that is full. */
TEST(a_pipe_is_named_as_such, set_up, tear_down)
{
    assert_int_equal(shell("($BACKUP - >/dev/full) 2>&1"), 1);
    assert_non_null(strstr(shell_output, "standard output: No space left on device"));
    assert_null(strstr(shell_output, ".part"));
}

/* A small file system, where the user that runs the tests may mount one. */
TEST(a_full_file_system_is_named_with_the_need, set_up_slow, tear_down)
{
    if (shell("mkdir $D/small && mount -t tmpfs -o size=2m none $D/small 2>/dev/null") != 0) {
        print_message("no right to mount: left out\n");
        return;
    }
    int good = shell("$BACKUP $OUT/b");
    int code = shell("echo old >$D/small/old; $BACKUP $D/small/b 2>&1");
    bool is_named = strstr(shell_output, "small/b.part: No space left on device: the backup needs "
                                         "about ") != NULL;
    int restored = shell("zabra restore --from $OUT/b --dir $D/small/new --id 1 2>&1");
    int left = shell("ls $D/small | grep -vx old");
    int gone = shell("umount $D/small");

    assert_int_equal(good, 0);
    assert_int_equal(code, 1);
    assert_true(is_named);
    assert_int_equal(restored, 1);
    assert_int_equal(left, 1); /* Nothing but the old file. */
    assert_int_equal(gone, 0);
}

TEST(restored_files_have_the_owner_of_the_directory, set_up, tear_down)
{
    backup_write_some("a", 2);
    assert_int_equal(shell("$BACKUP $OUT/b && zabra restore --from $OUT/b --dir $OUT/new --id 1"),
                     0);
    bool is_root = geteuid() == 0;

    assert_true((strstr(shell_output, "chown -R zabra: ") != NULL) == is_root);
    if (!is_root) {
        return;
    }
    assert_int_equal(shell("mkdir $OUT/owned && chown 65534:65534 $OUT/owned && zabra restore "
                           "--from $OUT/b --dir $OUT/owned --id 1"),
                     0);
    assert_null(strstr(shell_output, "chown"));
    assert_int_equal(shell("find $OUT/owned -not -user 65534 -o -not -group 65534 | grep -c .; "
                           "stat -c %%u $OUT/owned"),
                     0);
    assert_string_equal(shell_output, "0\n65534\n");
}

TEST(a_damaged_backup_is_not_continued, set_up, tear_down)
{
    backup_write_some("a", 5);
    assert_int_equal(
        shell("$BACKUP $OUT; touch $OUT/20200101T000000.000Z-full.backup.part; cd $OUT; "
              "printf x | dd of=$(ls $OUT | grep full.backup$) bs=1 seek=900 "
              "conv=notrunc 2>/dev/null"),
        0);
    backup_write_some("b", 5);
    assert_int_equal(shell("$BACKUP --since-last --verify $OUT 2>&1"), 0);
    assert_non_null(strstr(shell_output, "damaged"));
    /* Two full ones, and nothing else. */
    assert_int_equal(shell("ls $OUT | grep -c full.backup$; ls $OUT | wc -l"), 0);
    assert_string_equal(shell_output, "2\n2\n");
    assert_int_equal(shell("zabra restore --from $OUT --dir $OUT/new --id 1"), 0);
}

/* Replicas are killed one after the other, the leader among them, while a client writes and backups
 * are taken. Some of these may fail; what has a name can be restored. */
TEST(backups_survive_chaos, set_up, tear_down)
{
    struct shell_job writer;

    shell_start(&writer, "i=0; while [ ! -e $OUT/stop ]; do i=$((i+1)); zabra create /n$i $i "
                         ">/dev/null 2>&1; done");
    for (uint32_t i = 0; i < ROUNDS; i++) {
        uint32_t victim = i % 2 == 0 ? ensemble_wait_leader(&ensemble) : i % SIZE;
        struct shell_job job;

        assert_int_equal(shell("mkdir -p $OUT/dir"), 0);
        shell_start(&job, "$BACKUP --since-last --verify $OUT/dir 2>&1; $BACKUP --since-last "
                          "--verify $OUT/dir 2>&1; true");
        ensemble_kill(&ensemble, victim);
        shell_finish(&job, 0, "");
        ensemble_start(&ensemble, victim);
        ensemble_wait_all_ready(&ensemble);
    }
    assert_int_equal(shell("touch $OUT/stop; $BACKUP --since-last --verify $OUT/dir"), 0);
    shell_finish(&writer, 0, "");
    assert_int_equal(shell("ls $OUT/dir/*.part 2>/dev/null; for f in $OUT/dir/*; do zabra inspect "
                           "$f >/dev/null || exit 1; done; zabra restore --from $OUT/dir --dir "
                           "$OUT/new --id 1 && zabra inspect $OUT/new"),
                     0);
    assert_null(strstr(shell_output, ".part"));
}
