/* Commands about the ensemble as a whole, exports and imports, manual pages, the shell. */
#include "tests/lib/unit.h"
#include "tests/proc/shell.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* bob:pw */
#define BOB_ACL "digest:bob:ikIaKsbtGweaHnb/jKn7OHqbunM=:cdrwa"

static struct ensemble ensemble;

static void open_all(void)
{
    ensemble_launch(&ensemble, 3, NULL);
    shell_open(&ensemble);
    assert_int_equal(shell("umask 077; echo pw >$D/pw; echo no >$D/wrong"), 0);
    shell_expect("zabra create /app hello && zabra create /app/a x && zabra create /app/b/c y -p "
                 "&& zabra create /closed/in -p && zabra acl /closed " BOB_ACL,
                 0, "/app/b/c");
}

static void close_all(void)
{
    ensemble_close(&ensemble);
}

/* ---- status, members, metrics ---- */

TEST_GROUP(open_all, close_all)

TEST(status)
{
    shell_expect("zabra status", 0, "leader ");
    shell_expect_json(
        "zabra status -o json", 0,
        "(.replicas | length) == 3 and ([.replicas[] | select(.role == \"leader\")] | "
        "length) == 1 and .replicas[0].serving");
    shell_expect_json("zabra status -o json --given --endpoints ${ZABRA_ENDPOINTS##*,},127.0.0.1:1",
                      0,
                      "(.replicas | length) == 2 and .replicas[1].error.code == \"Unreachable\"");
    shell_expect_json("zabra status -o json --endpoints 127.0.0.1:1", 6,
                      ".error.code == \"NoEnsemble\" and .error.exit_code == 6");
    shell_expect_json("zabra status -o json --user bob --password-file $D/none", 2,
                      ".error.code == \"Usage\"");
    shell_expect("zabra status x", 2, "unexpected argument \"x\"");
    shell_expect("zabra status --curl", 0, "/status/v1'");
}

TEST(members)
{
    shell_expect("zabra members", 0, "seen by replica");
    shell_expect_json("zabra members -o json", 0,
                      "(.members | length) == 3 and .leader > 0 and .members[0].peer");
    shell_expect("zabra members -o ndjson | wc -l", 0, "3");
    shell_expect_json("zabra members -o json --endpoints 127.0.0.1:1", 6,
                      ".error.code == \"NoEnsemble\"");
}

TEST(metrics)
{
    shell_expect("zabra metrics zabra_serving", 0, "zabra_serving 1\n");
    shell_expect_json(
        "zabra metrics 'zabra_role*' znodes -o json", 0,
        "([.metrics[] | select(.name == \"zabra_role\" and .value == 1)] | length) == 1 and "
        "([.metrics[] | select(.name == \"zabra_znodes\")] | length) == 1 and "
        "([.metrics[].labels.role] | index(\"leader\")) != null");
    shell_expect_json(
        "zabra metrics zabra_disk_free_bytes zabra_memory_max_bytes -o json", 0,
        "(.metrics | length) == 2 and ([.metrics[].value | select(. > 1048576)] | length) "
        "== 2");
    shell_expect_json(
        "zabra metrics --all zabra_serving -o json", 0,
        "(.metrics | length) == 3 and ([.metrics[].endpoint] | unique | length) == 3");
    shell_expect("zabra metrics operation_seconds_bucket -o table", 0, "op=\"create\"");
    shell_expect_json("zabra metrics nothing_like_it -o json", 1, ".error.code == \"NoMetric\"");
    shell_expect_json("zabra metrics -o json --endpoints 127.0.0.1:1", 6,
                      ".error.code == \"NoEnsemble\"");
    shell_expect_json("zabra metrics -a -o json --endpoints 127.0.0.1:1", 6,
                      ".error.code == \"NoEnsemble\"");
}

/* Each kind measures something and leaves no znode, not after Ctrl-C either. */
TEST(bench)
{
    shell_expect_json("zabra bench -t 300ms -c 4 --znodes 5 -o json", 0,
                      "([.results[].what] == [\"read\", \"write\"]) and .results[0].count > 0 and "
                      ".results[0].p99_ms >= .results[0].p50_ms and .endpoints == 3");
    shell_expect_json("zabra bench write -t 200ms -o json", 0,
                      "[.results[].what] == [\"write\"] and .results[0].errors == 0");
    shell_expect_json("zabra bench watch -t 300ms -c 5 -o json", 0,
                      ".results[1].what == \"event\" and .results[1].count >= 5");
    shell_expect("zabra bench read -t 200ms", 0, "P99.9");
    shell_expect("zabra bench write -t 60s & p=$!; until zabra ls / | grep -q zabra-bench; do :; "
                 "done; kill -INT $p; wait $p",
                 130, "");
    shell_expect("zabra ls / | grep bench", 1, "");
    shell_expect_json("zabra bench nonsense -o json", 2, ".error.code == \"Usage\"");
    shell_expect_json("zabra bench -c 0 -o json", 2, ".error.code == \"Usage\"");
    shell_expect_json("zabra bench -o json --endpoints 127.0.0.1:1", 6,
                      ".error.code == \"NoEnsemble\"");
}

/* ---- export, import ---- */

TEST(an_import_restores_an_export)
{
    shell_expect("zabra export /app >$D/app.ndjson && tail -1 $D/app.ndjson", 0, "\"znodes\":4");
    shell_expect_json("zabra import /copy $D/app.ndjson -p -o json", 0,
                      ".created == 4 and .multis == 1 and .dryRun == false");
    shell_expect("zabra export /copy | sed -e 1d -e 's/,\"stat.*//' >$D/out1; sed -e 1d -e "
                 "'s/,\"stat.*//' $D/app.ndjson >$D/out2; cmp $D/out1 $D/out2 && wc -l <$D/out1",
                 0, "5\n");
    shell_expect("zabra export /app | zabra import /piped -p", 0, "created       4\n");
    shell_expect("zabra export /app --curl", 0, "/export/v1/app'\n");
    shell_expect("sh -c \"$(zabra import /curled $D/app.ndjson -p --curl)\"", 0, "\"created\":4");
}

/* Progress is shown on a terminal, but not between the lines of an export. */
TEST(progress)
{
    shell_expect("script -qec 'zabra export /app >$D/shown' /dev/null </dev/null", 0, "exported ");
    shell_expect("script -qec 'zabra import /shown $D/shown -p' /dev/null </dev/null", 0,
                 "imported [");
    shell_expect("script -qec 'zabra export /app' /dev/null </dev/null", 0, "\"end\"");
    assert_null(strstr(shell_output, "exported"));
    shell_expect("zabra export /app 2>&1 >/dev/null; zabra rm -ry /shown", 0, "");
    assert_string_equal(shell_output, "");
}

TEST(conflicts)
{
    shell_expect("zabra export /app >$D/app.ndjson; zabra import /twice -p $D/app.ndjson", 0, "");
    shell_expect_json("zabra import /twice $D/app.ndjson -o json", 4,
                      ".error.code == \"NodeExists\"");
    shell_expect_json("zabra import /twice $D/app.ndjson --conflict skip -o json", 0,
                      ".skipped == 4");
    shell_expect("zabra set /twice/a changed; zabra import /twice --conflict overwrite "
                 "<$D/app.ndjson; zabra get /twice/a",
                 0, "overwritten   4\n");
    assert_non_null(strstr(shell_output, "x"));
    shell_expect_json("zabra import /dry -p --dry-run $D/app.ndjson -o json", 0,
                      ".dryRun and .created == 4");
    shell_expect("zabra get /dry", 3, "NoNode");
}

/* Completed batches remain after a failure, and are reported. */
TEST(an_incomplete_transfer_is_an_error)
{
    shell_expect("zabra export /app >$D/app.ndjson; zabra create /cut", 0, "");
    shell_expect_json("head -2 $D/app.ndjson | zabra import /cut/off -o json", 9,
                      ".error.exit_code == 9 and .error.import.lines == 1");
    shell_expect("zabra rm -ry /cut; zabra create /cut; (seq 300 | sed 's/.*/{\"path\":\"k&\"}/'; "
                 "echo '{\"path\":\"k1\"}') | zabra import /cut",
                 9, "the first 256 znodes were imported and remain");
    /* The server ends in the middle: the export is incomplete. */
    shell_expect("printf 'HTTP/1.1 200 OK\\r\\nContent-Type: application/x-ndjson\\r\\nZk-Zxid: "
                 "0x1\\r\\nConnection: close\\r\\n\\r\\n{\"export\":1}\\n' >$D/answer; "
                 "python3 -c 'import socket,sys\n"
                 "s=socket.create_server((\"127.0.0.1\",0)); print(s.getsockname()[1],flush=True)\n"
                 "c=s.accept()[0]; c.recv(65536); c.sendall(open(sys.argv[1],\"rb\").read()); "
                 "c.close()' $D/answer >$D/port & "
                 "until [ -s $D/port ]; do :; done; zabra export /app --endpoints "
                 "127.0.0.1:$(cat $D/port); c=$?; wait; exit $c",
                 1, "it was cut off");
}

TEST(transfers_that_are_refused)
{
    shell_expect_json("zabra export /nope -o json", 3, ".error.code == \"NoNode\"");
    shell_expect_json("zabra export /closed -o json", 5, ".error.code == \"NoAuth\"");
    shell_expect("zabra export /closed --user bob --password-file $D/pw", 0, "\"znodes\":2");
    shell_expect("zabra export / >$D/all", 9, "you may not read them");
    shell_expect("zabra export / --user bob --password-file $D/pw | tail -1", 0,
                 "\"skippedUnreadable\":0");
    shell_expect("zabra create /masked && zabra acl /masked world:anyone:r,auth::cdrwa --user bob "
                 "--password-file $D/pw && zabra export /masked",
                 9, "cannot be imported");
    shell_expect("zabra export /masked --user bob --password-file $D/pw", 0, "\"maskedAcls\":0");
    shell_expect("zabra rm /masked", 0, "");
    shell_expect_json("zabra export /app -o json --endpoints 127.0.0.1:1", 6,
                      ".error.code == \"NoEnsemble\"");
    shell_expect("zabra export /app --endpoints 127.0.0.1:1,$ZABRA_ENDPOINTS", 0, "\"znodes\":4");
    shell_expect("zabra export app", 2, "path");
    shell_expect_json("echo '{\"path\":\"x\"}' | zabra import /nope -o json", 3,
                      ".error.code == \"NoNode\"");
    shell_expect_json("echo '{\"path\":\"x\"}' | zabra import /closed -o json", 5,
                      ".error.code == \"NoAuth\"");
    shell_expect_json("zabra import /app -o json </dev/null", 1, ".error.code == \"File\"");
    shell_expect_json("echo nonsense | zabra import /app -o json", 2,
                      ".error.code == \"BadArguments\"");
    shell_expect_json("zabra import /app $D/none -o json", 1, ".error.code == \"File\"");
    shell_expect_json("zabra import /app --conflict maybe -o json </dev/null", 2,
                      ".error.code == \"Usage\"");
    shell_expect_json("echo '{\"path\":\"x\"}' | zabra import /app -o json --endpoints 127.0.0.1:1",
                      6, ".error.code == \"NoEnsemble\"");
}

/* An import needs the super user if its own lines close a znode to the caller, or the ensemble has
 * a closed one. It says so before it changes anything. */
TEST(an_import_that_needs_the_super_user_is_refused_before_it_begins)
{
    shell_expect("zabra create /early && seq 300 | sed 's/.*/{\"path\":\"k&\"}/' >$D/own && "
                 "(cat $D/own; zabra export /closed --user bob --password-file $D/pw | sed -n "
                 "'2,3s/\"path\":\"/&shut/p' | sed 's,shutin,shut/in,') >>$D/own2 && cat $D/own2 "
                 "| wc -l",
                 0, "302");
    shell_expect_json(
        "zabra import /early $D/own2 -o json", 5,
        ".error.code == \"NoAuth\" and (.error.message | test(\"line 302.*nothing was "
        "imported: use the super user\"))");
    shell_expect("zabra ls /early", 0, "");
    assert_string_equal(shell_output, "");
    shell_expect_json("zabra import /early $D/own2 -o json --dry-run", 5,
                      ".error.code == \"NoAuth\"");
    shell_expect("sed 's,k300,in/x,' $D/own >$D/there && zabra import /closed $D/there", 5,
                 "nothing was imported");
    shell_expect_json("zabra import /early $D/own2 -o json --user bob --password-file $D/pw", 0,
                      ".created == 302");
    shell_expect("zabra rm -ry /early --user bob --password-file $D/pw", 0, "");
}

/* ---- Manual ---- */

/* Each page has its sections, and no text line that roff would take for a request. */
TEST(manual_pages)
{
    shell_expect("mkdir $D/man && zabra __man --to $D/man", 0, "");
    shell_expect("test $(ls $D/man | wc -l) -eq $(($(zabra help | grep -c '^  [a-z]') + 1))", 0,
                 "");
    shell_expect("cd $D/man; for s in NAME SYNOPSIS 'EXIT STATUS'; do grep -L \"^.SH $s\" *; done",
                 0, "");
    assert_string_equal(shell_output, "");
    shell_expect(
        "grep -vhE '^(\\.(TH|SH|SS|TP|PP|nf|fi)( |$)|[^.])' $D/man/*; grep -n \"^'\" $D/man/*", 1,
        "");
    assert_string_equal(shell_output, "");
    shell_expect("! command -v groff >/dev/null || groff -man -Tutf8 -ww -z $D/man/*", 0, "");
    assert_string_equal(shell_output, "");
    shell_expect("zabra __man import", 0, "\\fB\\-\\-conflict\\fR \\fIfail|skip|overwrite\\fR");
    shell_expect("zabra __man serve", 0, "clientPort");
    shell_expect("zabra __man nonsense", 2, "there is no command");
    shell_expect("zabra __man --to $D/no/such", 1, "cannot write");
}

/* ---- shell ---- */

TEST(scripts)
{
    shell_expect("printf 'cd app\\nls\\n# nothing\\n\\npwd\\nget a\\ncd ../app/b/c/..\\npwd\\n"
                 "get ../a' | zabra shell",
                 0, "a\nb\n/app\nx/app/b\nx");
    shell_expect("printf 'create \"/app/x y\" \"a # b\"\\nget /app/x\\\\ y\\nrm \"/app/x "
                 "y\"\\nget \"/app/x y\"' | zabra shell",
                 3, "a # b");
    assert_non_null(strstr(shell_output, "line 4 ended with exit code 3"));
    shell_expect("printf 'get /nope\\npwd\\n' | zabra shell", 3, "line 1 ended with exit code 3");
    assert_null(strstr(shell_output, "\n/\n"));
    shell_expect("printf 'get /nope\\npwd\\nexit\\nget /nope\\n' | zabra shell -k", 9, "\n/\n");
    shell_expect("printf 'cd /nope' | zabra shell", 3, "NoNode");
    shell_expect("printf 'cd /closed' | zabra shell", 5, "NoAuth");
    shell_expect("printf 'cd closed\\nls\\n' | zabra shell --user bob --password-file $D/pw", 0,
                 "in\n");
    shell_expect("printf 'set /app/a y --version 9' | zabra shell -o json", 4, "\"BadVersion\"");
    shell_expect("printf 'get \"/app' | zabra shell", 2, "a quote is not terminated");
    shell_expect("printf 'gett /app' | zabra shell", 2, "did you mean get?");
    shell_expect("printf 'ls' | zabra shell --endpoints 127.0.0.1:1", 6, "no replica answers");
    /* An argument that may be a name is one in each folder. */
    shell_expect("printf 'cd app\\nqueue push jobs x\\nqueue pop /queues/jobs\\n' | zabra shell", 0,
                 "/queues/jobs/item-0000000000\nx");
    /* A command does not read the rest of the script. */
    shell_expect("printf 'set /app/a -\\nset /app/a x\\nget /app/a' | zabra shell", 0, "x");
}

/* Types keys into a terminal and waits for the expected output. Tab is pressed again if the replica
 * was slower than the shell waits for it. */
static const char typing[] =
    "import os, pty, select, sys, time\n"
    "pid, fd = pty.fork()\n"
    "if pid == 0:\n"
    "    os.environ['TERM'] = 'xterm'\n"
    "    os.execvp('zabra', ['zabra', 'shell'])\n"
    "end = time.monotonic() + 60\n"
    "for keys, shown in ((b'', b'zabra />'), (b'cd /ap', b'/ap'), (b'\\t', b'p'),\n"
    "                    (b'\\r', b'zabra /app>'),\n"
    "                    (b'nonsense\\x03pw\\x7fwd\\r', b'/app\\r\\n'), (b'get \\t', b'\\nb'),\n"
    "                    (b'\\x03exit\\r', None)):\n"
    "    os.write(fd, keys)\n"
    "    out = b''\n"
    "    while shown and shown not in out:\n"
    "        if select.select([fd], [], [], 2)[0]:\n"
    "            out += os.read(fd, 4096)\n"
    "        elif time.monotonic() > end:\n"
    "            sys.exit(f'{shown} was not shown, but {out}')\n"
    "        elif keys.endswith(b'\\t'):\n"
    "            os.write(fd, b'\\t')\n"
    "out = b''\n"
    "try:\n"
    "    while True: out += os.read(fd, 4096)\n"
    "except OSError: pass\n"
    "code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])\n"
    "sys.exit(f'ended with {code}: {out.decode()}' if code else 0)\n";

TEST(typing)
{
    assert_int_equal(setenv("TYPING", typing, 1), 0);
    shell_expect("python3 -c \"$TYPING\"", 0, "");
    shell_expect("stat -c %a $D/zabra/history; cat $D/zabra/history", 0, "600\n");
    assert_non_null(strstr(shell_output, "pwd"));
}

/* Types bob's password into the terminal of a shell's line, when it is requested. */
static const char asked[] =
    "import os, pty, sys\n"
    "pid, fd = pty.fork()\n"
    "if pid == 0:\n"
    "    os.execvp('sh', ['sh', '-c', sys.argv[1]])\n"
    "out = b''\n"
    "try:\n"
    "    while True:\n"
    "        out += os.read(fd, 4096)\n"
    "        if out.endswith(b'password of bob: '): os.write(fd, b'pw\\r')\n"
    "except OSError: pass\n"
    "sys.stdout.buffer.write(out)\n"
    "sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n";

/* The password is requested once, and holds for the commands of the shell and their children; it is
 * neither in their arguments nor in their environment. */
TEST(a_password_holds_for_all_of_a_shell)
{
    assert_int_equal(setenv("ASKED", asked, 1), 0);
    shell_expect(
        "echo 'lock asked -- sh -c \"zabra ls /closed; cat /proc/self/environ\"' >$D/script; "
        "python3 -c \"$ASKED\" 'zabra shell --user bob <$D/script'",
        0, "password of bob: \r\nin\r\n");
    assert_null(strstr(shell_output, "=pw"));
}

/* Runs after the tests above, because it kills a replica. */
TEST(doctor)
{
    shell_expect("zabra doctor", 0, "3 replicas asked, no problem found\n");
    shell_expect_json("zabra doctor -o json", 0, ".ok and .replicas == 3 and .findings == []");
    shell_expect_json("zabra doctor -o json --endpoints 127.0.0.1:1", 1,
                      "[.findings[].code] == [\"unreachable\", \"no-quorum\"] and .ok == false");
    shell_expect("zabra doctor --curl", 0, "/ensemble/v1'");
    ensemble_kill(&ensemble, 2);
    shell_expect("zabra doctor", 1, "do:    Check the log of the replica and start the replica");
    shell_expect("until zabra doctor -o ndjson | grep no-spare; do :; done", 0, "2 of 3 voters");
    shell_expect_json("zabra doctor -o json", 1,
                      "[.findings[].code] == [\"unreachable\", \"no-spare\"] and .errors == 1");
}

/* Runs after `doctor` and kills another replica: a client that waits in vain gets the last
 * replica's reason. */
TEST(the_reason_is_reported)
{
    ensemble_kill(&ensemble, 1);
    shell_expect("until zabra api GET /status/v1 | grep 'serving\":false'; do :; done", 0,
                 "reason");
    shell_expect("zabra set /app x --timeout 2s", 7, "; run 'zabra doctor' to find the cause");
    assert_non_null(strstr(shell_output, " says: "));
    assert_null(strstr(shell_output, "still trying"));
    shell_expect_json("zabra set /app x --timeout 2s -o json", 7,
                      ".error.message | test(\"may or may not .* says: .*zabra doctor\")");
    shell_expect("zabra get /app --linearizable --timeout 2s; [ $? -ge 6 ]", 0,
                 "; run 'zabra doctor' to find the cause");
    shell_expect("script -qec 'zabra set /app x --timeout 5s' /dev/null </dev/null", 7,
                 "zabra: still trying; http://127.0.0.1:");
}

/* Runs after the_reason_is_reported: two of three replicas are down. Each is one cause, reported
 * once and before its consequence; the running replica adds no finding. */
TEST(doctor_names_one_cause_once)
{
    shell_expect_json("zabra doctor -o json", 1,
                      "[.findings[].code] == [\"unreachable\", \"unreachable\", \"no-quorum\"] and "
                      "(.findings[2].found | test(\"1 of 3 voters work together, 2 are needed\"))");
    shell_expect_json("zabra doctor -o json --endpoints ${ZABRA_ENDPOINTS%%,*}", 1,
                      "(.findings[-1].code == \"no-quorum\") and .errors == 3");
}

/* Runs after doctor_names_one_cause_once. A replica that has waited for a leader in vain answers
 * that the write was not applied. The command does not try it again, and ends before its own
 * timeout. */
TEST(a_write_without_a_quorum_ends_with_6)
{
    uint64_t start_ms = os_now_ms();

    shell_expect_json("zabra set /app x -o json --timeout 60s", 6,
                      ".error.code == \"NotReady\" and .error.outcome == \"not-applied\"");
    shell_expect_json(
        "zabra create /app/y x -o json --timeout 60s --endpoints ${ZABRA_ENDPOINTS%%,*}", 6,
        ".error.outcome == \"not-applied\"");
    assert_true(os_now_ms() - start_ms < 50000);
}
