/* Commands that wait, or run another command while they hold something: outcomes, exit codes,
 * signals, environment, and znodes shared with the recipes. */
#include "tests/lib/unit.h"
#include "tests/proc/shell.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

static struct ensemble ensemble;

static void open_all(void)
{
    ensemble_launch(&ensemble, 3, "tickTime=100\nsyncLimit=100\nminSessionTimeout=200\n");
    shell_open(&ensemble);
    ensemble_call_until(&ensemble, 0, "POST", "/znodes/v1/?op=create&name=closed", NULL, 201);
    ensemble_call_until(&ensemble, 0, "POST", "/znodes/v1/?op=create&name=text", "text", 201);
    shell_expect("zabra acl /closed digest:bob:ikIaKsbtGweaHnb/jKn7OHqbunM=:cdrwa", 0, "");
}

static void close_all(void)
{
    ensemble_close(&ensemble);
}

/* ---- Each command and its outcomes ---- */

struct row {
    const char *line; /* Without "zabra"; the environment sets "-o json". */
    int code;
    const char *said; /* The code of an error; else a part of the output. */
};

static const struct row rows[] = {
    {"lock a -- echo fine", 0, "fine"},
    {"lock a -- sh -c 'exit 7'", 7, ""},
    {"lock a -- sh -c 'kill -9 $$'", 137, ""},
    {"lock a -- /no/such/command", 127, "CommandNotFound"},
    {"lock a -- /etc/passwd", 126, "CommandNotRun"},
    {"lock /closed -- true", 125, "NoAuth"},
    {"lock a", 2, "Usage"},
    {"lock /a//b -- true", 2, "Usage"},
    {"lock a --try --wait 1s -- true", 2, "Usage"},
    {"lock a --endpoints 127.0.0.1:1 -- true", 125, "NoEnsemble"},
    {"elect a -- echo fine", 0, "fine"},
    {"elect a --leader", 3, "NoLeader"},
    {"elect nope --leader", 3, "NoNode"},
    {"elect /closed --leader", 5, "NoAuth"},
    {"elect /closed -- true", 125, "NoAuth"},
    {"elect a --leader --endpoints 127.0.0.1:1", 6, "NoEnsemble"},
    {"semaphore a --leases 2 -- echo fine", 0, "fine"},
    {"semaphore a -- true", 2, "Usage"},
    {"semaphore /closed --leases 2 -- true", 125, "NoAuth"},
    {"semaphore a -n 2 --endpoints 127.0.0.1:1 -- true", 125, "NoEnsemble"},
    {"session -- zabra session show", 0, "timeout_ms"},
    {"session -- zabra create /eph -e", 0, "/eph"},
    {"get /eph --linearizable", 3, "NoNode"},
    {"session -- sh -c 'exit 3'", 3, ""},
    {"session show", 2, "Usage"},
    {"session -- zabra session list", 0, "127.0.0.1"},
    {"session list --limit 0", 2, "Usage"},
    {"session lost", 2, "Usage"},
    {"session --endpoints 127.0.0.1:1 -- true", 125, "NoEnsemble"},
    {"barrier wait a", 0, ""},
    {"barrier raise a", 0, ""},
    {"barrier raise a", 0, ""},
    {"barrier wait a --wait 100ms", 7, "WaitOver"},
    {"barrier lower a", 0, ""},
    {"barrier lower a", 0, ""},
    {"barrier raise /closed/a", 5, "NoAuth"},
    {"barrier enter a me --count 1", 2, "Usage"},
    {"barrier enter a me --count 1 -- echo fine", 0, "fine"},
    {"barrier enter a me --count 2 --wait 60s -- true", 0, ""}, /* It stays open. */
    {"barrier enter b me --count 2 --wait 100ms -- true", 124, "WaitOver"},
    {"barrier enter /closed me --count 1 -- true", 125, "NoAuth"},
    {"barrier wait a --endpoints 127.0.0.1:1", 6, "NoEnsemble"},
    {"queue pop a", 3, "NoNode"},
    {"queue len a", 3, "NoNode"},
    {"queue push a one", 0, "/queues/a/item-0000000000"},
    {"queue push a two", 0, "/queues/a/item-0000000001"},
    {"queue peek a", 0, "\"dataUtf8\":\"one\""},
    {"queue len a", 0, "{\"path\":\"/queues/a\",\"length\":2}"},
    {"queue pop a", 0, "\"dataUtf8\":\"one\""},
    {"queue pop a -o text", 0, "two"},
    {"queue push a three -o table", 0, "/queues/a/item-0000000002\n"},
    {"queue pop a -o table", 0, "three"},
    {"queue pop a", 3, "Empty"},
    {"queue pop a --wait 100ms", 7, "WaitOver"},
    {"queue pop /closed", 5, "NoAuth"},
    {"queue push /closed x", 5, "NoAuth"},
    {"queue shove a", 2, "Usage"},
    {"queue pop a --endpoints 127.0.0.1:1 --timeout 1s", 6, "NoEnsemble"},
    {"counter get a", 3, "NoNode"},
    {"counter add a", 0, "{\"path\":\"/counters/a\",\"value\":1}"},
    {"counter add a -3", 0, "\"value\":-2"},
    {"counter set a 9223372036854775807", 0, "\"value\":9223372036854775807"},
    {"counter add a", 10, "Overflow"},
    {"counter get /text", 1, "NotANumber"},
    {"counter get /closed", 5, "NoAuth"},
    {"counter add a x", 2, "Usage"},
    {"counter get a --endpoints 127.0.0.1:1", 6, "NoEnsemble"},
    {"watch /text --since 0x1 --once", 0, "NodeCreated"},
    {"watch /text --since 0x1 --once -- sh -c 'exit 9'", 9, ""},
    {"watch /closed --once --since nonsense", 2, "BadArguments"},
    {"watch text", 2, "Usage"},
    {"watch /text --endpoints 127.0.0.1:1 --timeout 300ms", 6, "NoEnsemble"},
};

/* True if the output is an error as JSON with the process's exit code. */
static bool is_error(const struct row *row)
{
    const char *text = strstr(shell_output, "{\"error\"");
    json_error_t fault;
    json_t *printed = text ? json_loads(text, JSON_DISABLE_EOF_CHECK, &fault) : NULL;
    const json_t *error = json_object_get(printed, "error");
    const char *said = json_string_value(json_object_get(error, "code"));
    bool is = said && strcmp(said, row->said) == 0 &&
              json_string_length(json_object_get(error, "message")) > 0 &&
              json_integer_value(json_object_get(error, "exit_code")) == row->code;

    json_decref(printed);
    return is;
}

TEST_GROUP(open_all, close_all)

TEST(each_command_with_each_outcome)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int code = shell("ZABRA_OUTPUT=json zabra %s", rows[i].line);

        if (code != rows[i].code || (!is_error(&rows[i]) && !strstr(shell_output, rows[i].said))) {
            fail_msg("zabra %s: exit code %d, not %d, and \"%s\" expected in: %s", rows[i].line,
                     code, rows[i].code, rows[i].said, shell_output);
        }
    }
}

TEST(commands_that_curl_can_express)
{
    shell_expect("zabra queue push c x --curl | sh >/dev/null && zabra queue pop c", 0, "x");
    shell_expect("zabra counter set c 5 --curl | sh >/dev/null && zabra counter get c", 0, "5\n");
    shell_expect("zabra barrier raise c --curl | sh >/dev/null; zabra barrier lower c --curl | sh; "
                 "zabra get /barriers/c --linearizable",
                 3, "NoNode");
    shell_expect("zabra lock c --curl -- true", 0, "docs/recipes/lock.md");
    shell_expect("zabra watch /text -r --curl", 0, "/watch/v1/text?kind=recursive'");
}

/* ---- Holding ---- */

TEST(a_lock_exports_its_path_and_fence)
{
    shell_expect(
        "zabra lock e -- sh -c 'echo $ZABRA_LOCK_PATH; [ $ZABRA_LOCK_FENCE = "
        "$(zabra get $ZABRA_LOCK_PATH -o json | sed \"s/.*czxid\\\":\\([0-9]*\\).*/\\1/\") "
        "] && zabra session show -o json'",
        0, "\"ephemerals\":1");
    assert_int_equal(strncmp(shell_output, "/locks/e/lock-0000000000\n", 25), 0);
    shell_expect("eval \"$LIB\"; zabra elect e --ttl 60s --name me -- sleep 30 & p=$!; "
                 "await 'zabra elect e --leader --linearizable'; zabra elect e --leader; "
                 "kill -TERM $p; wait $p",
                 143, "me\n");
}

/* The queue is that of the recipes: the command waits for a contender that uses curl. */
TEST(a_lock_is_shared_with_recipes)
{
    shell_expect("zabra create /locks/shared/lock- -s -p && zabra lock shared --try -- true", 124,
                 "--try does not wait");
    shell_expect("zabra lock shared --wait 100ms -- true", 124, "the waiting time is over");
    shell_expect("eval \"$LIB\"; zabra lock shared -- echo mine & p=$!; "
                 "await 'zabra ls /locks/shared | grep 3'; "
                 "zabra rm /locks/shared/lock-0000000000; wait $p",
                 0, "mine\n");
}

/* The sequence number decides, not the name before it; a znode without a number is not in the
 * queue. */
TEST(one_queue_for_all_names)
{
    shell_expect("zabra create /mixed/backup -p; zabra lock /mixed -- "
                 "zabra elect /mixed --name late --try -- echo too early",
                 124, "--try does not wait");
    shell_expect("zabra elect /mixed -- zabra lock /mixed --try -- echo too early", 124,
                 "--try does not wait");
    shell_expect("zabra lock /mixed --try -- zabra elect /mixed --leader", 3, "a lock is held");
    shell_expect("eval \"$LIB\"; zabra elect /mixed --try --name early -- "
                 "sh -c 'zabra lock /mixed -- true & until zabra ls /mixed | grep -q lock; do :; "
                 "done; zabra elect /mixed --leader'",
                 0, "early\n");
    shell_expect(
        "zabra lock /mixed --try -- sh -c 'zabra elect /mixed --name behind -- true & p=$!; "
        "until zabra ls /mixed | grep -q candidate; do :; done; "
        "zabra elect /mixed --leader; c=$?; kill $p; exit $c'",
        3, "a lock is held: lock-");
    shell_expect("zabra create /mixed/aaa boss; "
                 "zabra elect /mixed --try --name me -- zabra elect /mixed --leader",
                 0, "me\n");
}

/* The first candidate leads, whatever its znode is called and contains. */
TEST(the_first_candidate_leads)
{
    shell_expect("zabra create /election/odd/candidate- me -s -p && "
                 "printf '\\377' | zabra create /election/odd/candidate- - -s && "
                 "zabra elect odd --leader",
                 0, "me\n");
    shell_expect("zabra rm /election/odd/candidate-0000000000 && zabra elect odd --leader", 0,
                 "/w==\n");
    shell_expect("zabra create /election/shy -p && zabra create /election/shy/candidate- x -s "
                 "--acl digest:bob:ikIaKsbtGweaHnb/jKn7OHqbunM=:cdrwa && "
                 "zabra elect shy --leader",
                 5, "you may not read its name");
}

/* --wait limits the wait for the others to enter, and again the wait for them to leave. */
TEST(a_barrier_is_left_together)
{
    shell_expect("zabra create /barriers/late/members/other -p; "
                 "zabra barrier enter late me --count 1 --wait 6s -- sh -c 'sleep 6.1; "
                 "(sleep 0.2; zabra rm /barriers/late/members/other) >/dev/null 2>&1 &'; "
                 "c=$?; zabra ls /barriers/late/members --linearizable; exit $c",
                 0, "/barriers/late/members/other");
    assert_null(strstr(shell_output, "the waiting time"));
    assert_null(strstr(shell_output, "\nother"));
}

/* A signal ends a waiting command. A holder passes it on to its child, whose exit code counts. */
TEST(signals)
{
    shell_expect("eval \"$LIB\"; zabra lock s --ttl 60s -- sh -c 'trap \"exit 5\" TERM; : >$D/in; "
                 "while :; do sleep 0.05; done' & p=$!; await '[ -e $D/in ]'; "
                 "zabra lock s --ttl 60s -- true & q=$!; await 'zabra ls /locks/s | grep 1'; "
                 "kill -HUP $q; wait $q; echo waited $?; kill -TERM $p; wait $p",
                 5, "waited 129\n");
    shell_expect("eval \"$LIB\"; await '! zabra ls /locks/s --linearizable | grep lock'", 0, "");
}

/* Started by nohup, the command keeps the lock when the terminal closes. */
TEST(an_ignored_hangup_keeps_the_lock)
{
    shell_expect(
        "eval \"$LIB\"; (trap '' HUP; exec zabra lock nohup --ttl 60s -- sh -c ': >$D/held; "
        "while [ ! -e $D/go ]; do sleep 0.05; done; exit 7') & p=$!; await '[ -e $D/held ]'; "
        "kill -HUP $p; sleep 0.3; zabra ls /locks/nohup --linearizable; : >$D/go; wait $p",
        7, "lock-");
}

/* After a loss, a command that survives SIGTERM is killed. */
TEST(a_loss_ends_the_command)
{
    shell_expect("zabra lock l --ttl 4s -- sh -c 'trap \"\" TERM; zabra rm $ZABRA_LOCK_PATH; "
                 "while :; do sleep 0.05; done'",
                 122, "the znode of this command was deleted");
    shell_expect("zabra session --ttl 4s -- sh -c 'zabra session close; exec sleep 60'", 122,
                 "the session");
    shell_expect("eval \"$LIB\"; zabra create /locks/k/lock- -sp; zabra lock k -- true & p=$!; "
                 "await 'zabra rm /locks/k/lock-0000000001'; zabra rm /locks/k/lock-0000000000; "
                 "wait $p",
                 125, " was deleted: it was the place of this command");
}

/* After a loss all processes of the command are killed. After a normal end its background processes
 * continue. */
TEST(a_loss_ends_all_processes_of_the_command)
{
    shell_expect("echo \"trap '' TERM; echo \\$\\$ >$D/deep; exec sleep 300\" >$D/deep.sh; "
                 "zabra session --ttl 4s -- sh -c 'setsid sh $D/deep.sh & until [ -s $D/deep ]; do "
                 ":; done; zabra session close; wait'; c=$?; kill -0 $(cat $D/deep) && echo there; "
                 "exit $c",
                 122, "the session");
    assert_null(strstr(shell_output, "there\n"));
    shell_expect("rm $D/deep; zabra session -- sh -c 'sh $D/deep.sh >/dev/null 2>&1 & "
                 "until [ -s $D/deep ]; do :; done'; kill -9 $(cat $D/deep) && echo left",
                 0, "left\n");
}

/* The command inherits an ignored SIGCHLD, and must still wait for its child. */
TEST(the_end_of_a_command_is_seen)
{
    shell_expect(
        "python3 -c 'import os, signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN); "
        "os.execvp(\"zabra\", [\"zabra\", \"session\", \"--\", \"sh\", \"-c\", \"exit 3\"])'",
        3, "");
}

TEST(a_semaphore_admits_as_many_as_its_leases)
{
    shell_expect("for i in 1 2 3 4 5 6; do zabra semaphore m -n 2 -- sh -c "
                 "'echo + >>$D/sem; sleep 0.1; echo - >>$D/sem' & done; wait; "
                 "awk '/[+]/ {n++} /-/ {n--} {if (n > m) m = n; c++} END {print c, m}' $D/sem",
                 0, "12 2\n");
    shell_expect(
        "zabra ls /semaphores/m/line; zabra ls /semaphores/m/leases --linearizable | wc -l", 0,
        "0\n");
}

TEST(a_barrier_starts_all_together)
{
    shell_expect("for i in 1 2 3; do zabra barrier enter t $i --count 3 -- "
                 "sh -c 'zabra get /barriers/t/ready >/dev/null && echo in' & done; wait",
                 0, "in\nin\nin\n");
    shell_expect("zabra ls /barriers/t/members --linearizable | wc -l", 0, "0\n");
    shell_expect("eval \"$LIB\"; zabra barrier raise u; zabra barrier wait u && echo through & "
                 "p=$!; zabra barrier lower u; wait $p",
                 0, "through\n");
}

TEST(an_item_is_waited_for)
{
    shell_expect("for i in 1 2 3; do zabra queue pop w --wait 60s & done; for i in 1 2 3; "
                 "do printf 'i%d\\n' $i | zabra queue push w - >/dev/null; done; wait",
                 0, "i1\n");
    assert_non_null(strstr(shell_output, "i2\n"));
    assert_non_null(strstr(shell_output, "i3\n"));
}

/* ---- Watching ---- */

TEST(a_command_for_each_change)
{
    shell_expect("eval \"$LIB\"; zabra watch /x -r -- sh -c 'cat >>$D/events; "
                 "echo $ZABRA_EVENT_TYPE $ZABRA_EVENT_PATH $ZABRA_EVENT_BOOKMARK >>$D/env; "
                 "sleep 0.1; exit 3' & p=$!; "
                 "await 'zabra set /x a; zabra rm /x; zabra create /x; [ -s $D/env ]'; "
                 "zabra create /x/kid; zabra set /x/kid b; await 'grep \"Changed /x/kid\" $D/env'; "
                 "kill -TERM $p; wait $p; grep -c '^{\"event\":\"Node' $D/events; "
                 "sed -n '$s/ [^ ]*:0x[0-9a-f]*$/ &/p' $D/env",
                 0, "NodeDataChanged /x/kid");
    shell_expect("b=$(sed -n '/Created .x.kid /s/.* //p' $D/env); "
                 "zabra watch /x -r --values --since $b --once -o ndjson",
                 0, "\"dataUtf8\":\"b\"");
}
