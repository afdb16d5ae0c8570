/* Backups by the command line: taken while clients write, kept by a policy, restored into a new
 * ensemble. */
#include "tests/proc/shell.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROOT "Authorization: Basic c3VwZXI6cm9vdA==" /* super:root */

enum {
    SIZE = 3,
    PATH_BYTES = 200
};

static struct ensemble ensemble;

/* Sets a variable for shell lines. */
static void set(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void set(const char *name, const char *format, ...)
{
    char value[SHELL_OUTPUT_MAX];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(value, sizeof value, format, args);
    va_end(args);
    assert_int_equal(setenv(name, value, 1), 0);
}

/* $BACKUP takes a backup, $OUT is a directory for them. */
static void set_up(void)
{
    ensemble_launch(&ensemble, SIZE, "snapCount=50\n" ENSEMBLE_SUPER);
    shell_open(&ensemble);
    set("OUT", "%s/out", ensemble.dir);
    set("BACKUP", "zabra backup --user super --password-file %s/pw", ensemble.dir);
    assert_int_equal(shell("umask 077; printf root >%s/pw; mkdir $OUT", ensemble.dir), 0);
}

static void tear_down(void)
{
    ensemble_close(&ensemble);
}

static void write_some(const char *prefix, int count)
{
    assert_int_equal(
        shell("for i in $(seq %d); do zabra create /%s$i $i || exit 1; done", count, prefix), 0);
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
    write_some("old", 60);
    /* While a writer makes numbered znodes in a session: two backups, of all and of the changes. */
    assert_int_equal(
        shell("zabra session -- sh -c 'zabra create /eph x -e >$OUT/eph; i=0; while [ ! -e "
              "$OUT/stop ] && [ $i -lt 5000 ]; do i=$((i+1)); zabra create /n$(printf %%05d $i) x "
              ">$OUT/log || exit 1; done' & eval \"$LIB\"; await '[ -s $OUT/eph ]'; "
              "$BACKUP --verify $OUT && sleep 1 && $BACKUP --verify --since-last $OUT; code=$?; "
              "touch $OUT/stop; wait; exit $code"),
        0);
    write_some("late", 3);
    restore("--from $OUT/*full.backup $OUT/*more.backup");
    assert_int_equal(shell("zabra get /old60 && ! zabra get /late1 && ! zabra get /eph"), 0);
    /* Numbers 1 to k, without a gap, and k > 1. */
    assert_int_equal(
        shell("zabra ls / | grep '^n' | sort | awk '{ if ($0 != sprintf(\"n%%05d\", NR)) "
              "exit 1 } END { exit NR < 2 }'"),
        0);
    /* The restored ensemble works, and all three replicas agree. */
    write_some("new", 3);
    assert_int_equal(shell("zabra doctor"), 0);
}

TEST(the_state_before_a_mistake_comes_back, set_up, tear_down)
{
    write_some("a", 5);
    assert_int_equal(shell("$BACKUP $OUT/full"), 0);
    write_some("b", 5);
    assert_int_equal(shell("zabra stat /b5 | sed -n 's/^czxid *//p'"), 0);
    set("GOOD", "%s", shell_output);
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
    write_some("a", 5);
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
    assert_true(is_refused("--from $OUT/full $OUT/full2", "one full backup"));
    assert_true(is_refused("--from $OUT/full --until-zxid 0x7fffffff00000000", "behind the end"));
    assert_int_equal(shell("zabra restore --from $OUT/full --dir $OUT --id 1 2>&1"), 1);
    assert_non_null(strstr(shell_output, "not empty"));
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
    write_some("a", 2);
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

    write_some("a", 3);
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
    assert_int_equal(shell("curl -fs localhost:%u/metrics | grep '^zabra_backup_last_seconds "
                           "[1-9]'",
                           ensemble.replicas[0].client_port),
                     0);
}
