/* `zabra migrate`: what it leaves alone in the target, and says about it. The source is a replica,
 * which speaks ZooKeeper's protocol, too. */
#include "tests/proc/shell.h"

#include <signal.h>
#include <stdlib.h>

static struct ensemble source;
static struct ensemble target;
static struct ensemble brief;  /* A source with short sessions, or a target with three replicas. */
static struct ensemble behind; /* A server of the source that lacks its latest writes. */

#define MIGRATE "zabra migrate --user super --password-file $D/pw --from $FROM"
#define EVE     "--user eve --password-file $D/pw" /* She alone may read what she has closed. */

static void address(const struct ensemble *ensemble, const char *name)
{
    char text[64];

    (void)snprintf(text, sizeof(text), "127.0.0.1:%u", ensemble->replicas[0].client_port);
    assert_int_equal(setenv(name, text, 1), 0);
}

/* The target has all that the source has, and one znode more. */
static void set_up(void)
{
    ensemble_launch(&source, 1, NULL);
    ensemble_launch(&target, 1, ENSEMBLE_SUPER "maxDataBytes=2000\n");
    shell_open(&target);
    address(&source, "FROM");
    shell_expect("umask 077; printf root >$D/pw; "
                 "for to in $FROM $ZABRA_ENDPOINTS; do export ZABRA_ENDPOINTS=$to; "
                 "zabra create -p /app/secret/key value && zabra create /app/open x || exit 1; "
                 "done; zabra create /app/mine y",
                 0, "/app/mine");
}

/* A server in front of the source, that is behind until it is asked to catch up: what was written
 * before becomes visible with a SYNC, which a pass sends after it has read the target. At the first
 * two it runs $LATE, with their number in $N. While $D/hold exists, it passes no GET_DATA on,
 * and makes $D/holding. The first connection on which $END is asked for ends. Prints its port. */
static const char lagging[] =
    "import os, socket, subprocess, sys, threading, time\n"
    "made, end = 0, os.environ.get('END', 'no path').encode()\n"
    "def relay(server, client):\n"
    "    while data := server.recv(65536):\n"
    "        client.sendall(data)\n"
    "def serve(client):\n"
    "    global made, end\n"
    "    server = socket.create_connection(('127.0.0.1', int(sys.argv[1])))\n"
    "    threading.Thread(target=relay, args=(server, client), daemon=True).start()\n"
    "    file, first = client.makefile('rb'), True\n"
    "    while len(head := file.read(4)) == 4:\n"
    "        frame = file.read(int.from_bytes(head, 'big'))\n"
    "        while frame[4:8] == b'\\0\\0\\0\\x04' and os.path.exists(sys.argv[2]):\n"
    "            open(sys.argv[2] + 'ing', 'w').close()\n"
    "            time.sleep(0.05)\n"
    "        if end in frame:\n"
    "            end = b'no path'\n"
    "            return client.shutdown(socket.SHUT_RDWR)\n"
    "        if not first and frame[4:8] == b'\\0\\0\\0\\x09' and made < 2:\n"
    "            made += 1\n"
    "            late = ['sh', '-c', os.environ['LATE']]\n"
    "            subprocess.run(late, env=dict(os.environ, N=str(made)), check=True)\n"
    "        server.sendall(head + frame)\n"
    "        first = False\n"
    "listener = socket.create_server(('127.0.0.1', 0))\n"
    "print(listener.getsockname()[1], flush=True)\n"
    "while True:\n"
    "    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()\n";

/* After `eval "$LAG"` a line has the server in front of the source as $FROM. */
static void lag(const char *late)
{
    assert_int_equal(setenv("LAGGING", lagging, 1), 0);
    assert_int_equal(setenv("LATE", late, 1), 0);
    assert_int_equal(setenv("LAG",
                            "python3 -c \"$LAGGING\" ${FROM#*:} $D/hold >$D/port & s=$!; "
                            "trap 'kill $s' EXIT; eval \"$LIB\"; await '[ -s $D/port ]'; "
                            "FROM=127.0.0.1:$(cat $D/port)\n",
                            1),
                     0);
}

/* Begins to follow the source, with these options; the messages are in $D/said. After `eval
 * "$LIB$FOLLOW"` a line ends it with `cut_over`, or waits for its end with `ended`. Each znode
 * /mark comes through the migration. */
static void follow(const char *options)
{
    char text[SHELL_LINE_MAX];

    (void)snprintf(text, sizeof(text),
                   MIGRATE " --watch %s >$D/report 2>$D/said & p=$!; "
                           "trap 'kill -9 $p $s' EXIT; "
                           "source() { ZABRA_ENDPOINTS=$FROM zabra \"$@\"; }; "
                           "mark() { source create /mark && await 'zabra get /mark' && "
                           "source rm /mark && await '! zabra get /mark'; }; "
                           "ended() { wait $p; r=$?; trap - EXIT; [ -z \"$s\" ] || kill $s; "
                           "cat $D/report $D/said; return $r; }; "
                           "cut_over() { kill -INT $p; ended; }; "
                           "await 'grep following $D/said' || { cat $D/said; exit 99; }\n",
                   options);
    assert_int_equal(setenv("FOLLOW", text, 1), 0);
}

/* A proxy in front of the target: requests that begin with one of $SLOW are passed on after
 * $BEFORE has run. Prints its port. */
static const char proxy[] =
    "import os, socket, subprocess, sys, threading\n"
    "def relay(server, client):\n"
    "    while data := server.recv(65536):\n"
    "        client.sendall(data)\n"
    "def serve(client):\n"
    "    server = socket.create_connection(('127.0.0.1', int(sys.argv[1])))\n"
    "    threading.Thread(target=relay, args=(server, client), daemon=True).start()\n"
    "    while data := client.recv(65536):\n"
    "        if data.startswith(tuple(os.environ['SLOW'].encode().split(b','))):\n"
    "            subprocess.run(['sh', '-c', os.environ['BEFORE']], check=True)\n"
    "        server.sendall(data)\n"
    "listener = socket.create_server(('127.0.0.1', 0))\n"
    "print(listener.getsockname()[1], flush=True)\n"
    "while True:\n"
    "    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()\n";

/* After `eval "$DELAY"` a line has the proxy in front of the target. */
static void delay(const char *slow, const char *before)
{
    assert_int_equal(setenv("PROXY", proxy, 1), 0);
    assert_int_equal(setenv("SLOW", slow, 1), 0);
    assert_int_equal(setenv("BEFORE", before, 1), 0);
    assert_int_equal(setenv("DELAY",
                            "python3 -c \"$PROXY\" ${ZABRA_ENDPOINTS##*:} >$D/port & s=$!; "
                            "trap 'kill $s' EXIT; eval \"$LIB\"; await '[ -s $D/port ]'; "
                            "ZABRA_ENDPOINTS=127.0.0.1:$(cat $D/port)\n",
                            1),
                     0);
}

static void tear_down(void)
{
    ensemble_close(&target);
    ensemble_close(&source);
}

static void close_in_source(const char *path)
{
    assert_int_equal(shell("ZABRA_ENDPOINTS=$FROM zabra acl %s creator " EVE, path), 0);
}

TEST(what_is_below_an_unreadable_znode_is_not_deleted, set_up, tear_down)
{
    close_in_source("/app/secret");
    shell_expect(MIGRATE " --replace 2>&1", 9, "zabra migrate: not copied: /app/secret: ");
    shell_expect(MIGRATE " --replace -o json", 9, "\"verified\":false");
    shell_expect("zabra get /app/secret/key && zabra get /app/mine", 0, "value");
}

TEST(an_unreadable_top_ends_the_migration, set_up, tear_down)
{
    close_in_source("/app");
    shell_expect(MIGRATE " --prefix /app --replace 2>&1", 5, "nothing below it was");
    shell_expect("zabra get /app/secret/key && zabra get /app/mine", 0, "value");
}

TEST(extra_znodes_are_deleted_when_all_was_read, set_up, tear_down)
{
    shell_expect(MIGRATE " --replace 2>&1", 0, "verified");
    shell_expect("zabra get /app/secret/key", 0, "value");
    shell_expect("zabra get /app/mine 2>&1", 3, "NoNode");
}

TEST(following_deletes_only_what_the_source_had, set_up, tear_down)
{
    follow("--into");
    shell_expect("zabra create /app/mine/child z && eval \"$LIB$FOLLOW\" && "
                 "source session -- zabra create --ephemeral /app/mine e && "
                 "source create /app/mine other && source rm /app/mine && mark && "
                 "zabra get /app/mine/child && cut_over",
                 0, "z");
    shell_expect("cat $D/report", 0, "only in zabra: /app/mine/child\n");
    shell_expect("grep verified $D/report", 0, " no\n");
    shell_expect("zabra get /app/mine/child", 0, "z");
}

TEST(what_the_source_deletes_is_deleted_but_for_others_below_it, set_up, tear_down)
{
    follow("--into");
    shell_expect("eval \"$LIB$FOLLOW\"; source create -p /app/a/b/c v && source create /app/kept w "
                 "&& mark && zabra get /app/a/b/c && zabra create /app/kept/own x && "
                 "source rm -ry /app/a && source rm /app/kept && mark && "
                 "! zabra get /app/a && zabra get /app/kept/own && cut_over",
                 0, "x");
    shell_expect("zabra get /app/kept", 0, "w");
}

/* The znode is gone when its change is read, and the deletion of its child is read after it. */
TEST(a_znode_that_is_deleted_after_a_change_is_deleted, set_up, tear_down)
{
    address(&source, "DIRECT");
    lag("");
    follow("--into");
    shell_expect("eval \"$LAG$FOLLOW\"; source() { ZABRA_ENDPOINTS=$DIRECT zabra \"$@\"; }; "
                 "touch $D/hold && source set /app/secret x && await '[ -e $D/holding ]' && "
                 "source rm -ry /app/secret && rm $D/hold && mark && cut_over",
                 0, "deleted");
    shell_expect("zabra get /app/secret 2>&1", 3, "NoNode");
}

TEST(clients_of_a_target_that_was_empty_keep_what_they_write, set_up, tear_down)
{
    follow("");
    shell_expect("zabra rm -ry /app && eval \"$LIB$FOLLOW\" && zabra create /late mine && "
                 "zabra create /app/secret/late mine && source rm -ry /app/open && cut_over",
                 0, "only in zabra");
    shell_expect("zabra get /late && zabra get /app/secret/late", 0, "mine");
    shell_expect("zabra get /app/open 2>&1", 3, "NoNode");
}

TEST(a_pass_deletes_what_the_last_one_has_seen, set_up, tear_down)
{
    follow("");
    shell_expect("zabra rm -ry /app && eval \"$LIB$FOLLOW\" && kill -STOP $p && "
                 "source rm -ry /app/secret && kill -CONT $p && cut_over",
                 0, "deleted");
    shell_expect("zabra get /app/secret 2>&1", 3, "NoNode");
}

TEST(each_pass_asks_the_server_to_catch_up, set_up, tear_down)
{
    lag("ZABRA_ENDPOINTS=$FROM zabra create /late$N x");
    shell_expect("eval \"$LAG\"; " MIGRATE " --replace -o json && "
                 "zabra get /late1 && zabra get /late2",
                 0, "\"verified\":true");
}

/* The lines of a pass that ends with its connection are not sent by the next one. */
TEST(what_a_lost_pass_has_read_is_forgotten, set_up, tear_down)
{
    shell_expect("zabra rm /app/mine; for to in $FROM $ZABRA_ENDPOINTS; do "
                 "ZABRA_ENDPOINTS=$to zabra create /app/secret/key/deep x || exit 1; done; "
                 "ZABRA_ENDPOINTS=$FROM zabra set /app/open new",
                 0, "/app/secret/key/deep");
    assert_int_equal(setenv("END", "/key/deep", 1), 0);
    lag("[ $N != 2 ] || ZABRA_ENDPOINTS=$FROM zabra set /app/open x");
    shell_expect_json("eval \"$LAG\"; " MIGRATE " --into -o json", 0, ".verified");
    shell_expect("zabra get /app/open", 0, "x");
    assert_int_equal(unsetenv("END"), 0);
}

TEST(a_server_that_is_behind_is_not_read, set_up, tear_down)
{
    struct shell_job job;

    ensemble_launch(&behind, 1, NULL);
    address(&behind, "BEHIND");
    follow("--into");
    shell_expect("ZABRA_ENDPOINTS=$FROM zabra create /late acknowledged", 0, "");
    shell_start(&job, "%s",
                "own=$FROM; FROM=$own,$BEHIND; eval \"$LIB$FOLLOW\"; FROM=$own; "
                "before=$(zabra stat /late) && await '[ -e $D/back ]' && mark && "
                "[ \"$(zabra stat /late)\" = \"$before\" ] && cut_over");
    ENSEMBLE_WAIT(&target, shell("grep -qs following $D/said") == 0);
    ensemble_kill(&source, 0);
    ENSEMBLE_WAIT(
        &behind,
        ensemble_metric(&behind, 0, "zabra_native_closed_total{reason=\"replica_behind\"}") > 0);
    ensemble_start(&source, 0);
    ensemble_wait_ready(&source, 0);
    assert_int_equal(shell("touch $D/back"), 0);
    shell_finish(&job, 0, "connecting again");
    ensemble_close(&behind);
}

TEST(a_second_signal_ends_the_wait_for_a_frozen_source, set_up, tear_down)
{
    struct shell_job job;

    follow("--into --timeout 10m");
    shell_start(&job, "%s",
                "eval \"$LIB$FOLLOW\"; await '[ -e $D/frozen ]' && "
                "await 'kill -INT $p; grep -i interrupted $D/said' && cut_over");
    ENSEMBLE_WAIT(&target, shell("grep -qs following $D/said") == 0);
    ensemble_signal(&source, 0, SIGSTOP);
    assert_int_equal(shell("touch $D/frozen"), 0);
    shell_finish(&job, 130, "run the command again with --into to continue");
}

TEST(a_second_signal_ends_the_last_reads, set_up, tear_down)
{
    struct shell_job job;

    lag("[ $N != 2 ] || { ZABRA_ENDPOINTS=$FROM zabra create /late x; touch $D/hold; }");
    follow("--into --timeout 10m");
    shell_start(&job, "%s",
                "eval \"$LAG$FOLLOW\"; kill -INT $p; await '[ -e $D/frozen ]' && "
                "await 'kill -INT $p; grep -i interrupted $D/said' || kill -KILL $p; ended");
    ENSEMBLE_WAIT(&target, shell("[ -e $D/holding ]") == 0);
    ensemble_signal(&target, 0, SIGSTOP); /* It is not read any more. */
    assert_int_equal(shell("touch $D/frozen"), 0);
    shell_finish(&job, 130, "run the command again with --into to continue");
}

/* Signals end the wait for this server, which is frozen before it has answered. */
static void expect_interrupted(struct ensemble *frozen)
{
    assert_int_equal(setenv("COMMAND", MIGRATE " --watch --into --timeout 10m", 1), 0);
    ensemble_signal(frozen, 0, SIGSTOP);
    shell_expect("eval \"exec $COMMAND\" >$D/report 2>$D/said & p=$!; "
                 "while kill -INT $p 2>$D/gone; do sleep 0.1; done & "
                 "wait $p; r=$?; cat $D/said; exit $r",
                 130, "run the command again with --into to continue");
    ensemble_signal(frozen, 0, SIGCONT);
}

TEST(a_signal_ends_the_wait_for_the_first_answers, set_up, tear_down)
{
    expect_interrupted(&source);
    expect_interrupted(&target);
}

/* These signals come at once. */
static void expect_json(const char *signals, int code)
{
    lag("");
    assert_int_equal(setenv("COMMAND", MIGRATE " --watch --into -o json", 1), 0);
    assert_int_equal(setenv("SIGNALS", signals, 1), 0);
    shell_expect("eval \"$LAG\"; touch $D/hold; eval \"exec $COMMAND\" >$D/report & p=$!; "
                 "await '[ -e $D/holding ]' && for n in STOP $SIGNALS CONT; do kill -$n $p; done; "
                 "wait $p; r=$?; rm $D/hold $D/holding $D/port; cat $D/report; exit $r",
                 code, "\"code\":\"Interrupted\"");
}

TEST(an_interrupted_migration_writes_its_json, set_up, tear_down)
{
    expect_json("TERM", 143);
    expect_json("TERM HUP", 129);
}

/* The answer to the question whether the source is idle does not come before $D/end exists. */
#define NO_ANSWER "[ $N != 2 ] || { touch $D/asked; until [ -e $D/end ]; do sleep 0.05; done; "

TEST(signals_end_the_wait_for_an_idle_source, set_up, tear_down)
{
    lag(NO_ANSWER "}");
    follow("--into --until-idle 1s --timeout 10m");
    shell_expect("eval \"$LAG$FOLLOW\"; await '[ -e $D/asked ]' && "
                 "await 'kill -INT $p; grep -i interrupted $D/said'; touch $D/end; ended",
                 130, "run the command again with --into to continue");
}

TEST(a_late_answer_is_none_to_the_next_question, set_up, tear_down)
{
    lag(NO_ANSWER "ZABRA_ENDPOINTS=$FROM zabra create /late x; }");
    follow("--into --until-idle 1s");
    shell_expect("eval \"$LAG$FOLLOW\"; await '[ -e $D/asked ]' && kill -INT $p; "
                 "touch $D/end; ended",
                 0, "verified");
    shell_expect("zabra get /late && ! grep connecting $D/said", 0, "x");
}

TEST(time_without_a_connection_is_not_idle, set_up, tear_down)
{
    struct shell_job job;

    follow("--into --until-idle 5s");
    shell_start(&job, "%s", "eval \"$LIB$FOLLOW\"; ended");
    ENSEMBLE_WAIT(&target, shell("grep -qs following $D/said") == 0);
    ensemble_kill(&source, 0);
    assert_int_equal(shell("sleep 6"), 0);
    uint64_t back_ms = os_now_ms();

    ensemble_start(&source, 0);
    shell_finish(&job, 0, "connecting again");
    assert_true(os_now_ms() >= back_ms + 5000);
    ensemble_wait_ready(&source, 0);
}

TEST(a_server_that_is_behind_is_not_idle, set_up, tear_down)
{
    lag("[ $N != 2 ] || { date +%s%3N >$D/at && ZABRA_ENDPOINTS=$FROM zabra create /late x; }");
    follow("--into --until-idle 2s");
    shell_expect("eval \"$LAG$FOLLOW\"; ended", 0, "verified");
    assert_int_equal(shell("[ $(date +%%s%%3N) -ge $(($(cat $D/at) + 2000)) ]"), 0);
    shell_expect("zabra get /late", 0, "x");
}

TEST(a_znode_that_the_target_refuses_is_named, set_up, tear_down)
{
    shell_expect("export ZABRA_ENDPOINTS=$FROM; head -c 5000 /dev/zero >$D/big && "
                 "zabra create /big @$D/big && zabra create /big/child x",
                 0, "/big/child");
    /* A line with the error follows the report. */
    shell_expect_json(MIGRATE " --replace -o json | head -1", 0,
                      ".refused == 2 and .created == 0 and .deleted == 1 "
                      "and .onlyInTarget == 0 and .verified == false and "
                      ".differing == [.notCopied[].path] and .differing == [\"/big\", "
                      "\"/big/child\"] and (.notCopied[0].reason | contains(\"maxDataBytes\"))");
    shell_expect(MIGRATE " --replace -o json", 9, "\"code\":\"NotCopied\"");
    shell_expect(MIGRATE " --replace 2>&1", 9, "2 znodes were not copied");
}

TEST(what_only_the_target_has_is_named, set_up, tear_down)
{
    shell_expect_json(MIGRATE " --into -o json", 0,
                      "(.verified | not) and .onlyInTarget == 1 and .extra == [\"/app/mine\"] and "
                      ".differing == []");
    shell_expect_json(MIGRATE " --replace --dry-run -o json", 0,
                      ".deleted == 1 and .onlyInTarget == 0 and .extra == [] and "
                      ".differing == [\"/app/mine\"]");
    close_in_source("/app/secret");
    shell_expect_json(MIGRATE " --replace -o json | head -1", 0,
                      ".deleted == 0 and .onlyInTarget == 2 and .refused == 1");
}

TEST(a_top_with_data_or_an_acl_is_overwritten_only_if_asked, set_up, tear_down)
{
    shell_expect("for to in $FROM $ZABRA_ENDPOINTS; do ZABRA_ENDPOINTS=$to; "
                 "zabra create /data $to && zabra create /closed && zabra create /empty || exit 1; "
                 "done; zabra acl /closed creator " EVE,
                 0, "");
    shell_expect(MIGRATE " --prefix /data 2>&1", 4, "/data of zabra has 1 znodes already");
    shell_expect(MIGRATE " --prefix /closed 2>&1", 4, "/closed of zabra has 1 znodes already");
    shell_expect("[ \"$(zabra get /data)\" = $ZABRA_ENDPOINTS ]", 0, "");
    shell_expect_json(MIGRATE " --prefix /empty -o json", 0, ".verified");
    shell_expect_json(MIGRATE " --prefix /data --into -o json", 0, ".verified");
    shell_expect("[ \"$(zabra get /data)\" = $FROM ]", 0, "");
}

TEST(an_ephemeral_top_is_overwritten_only_if_asked, set_up, tear_down)
{
    shell_expect("ZABRA_ENDPOINTS=$FROM zabra create /held theirs && "
                 "zabra session -- sh -c 'zabra create --ephemeral /held mine && { " MIGRATE
                 " --prefix /held 2>&1; [ $? = 4 ]; } && [ $(zabra get /held) = mine ]'",
                 0, "/held of zabra has 1 znodes already");
}

/* Data above the target's bound, in the file $D/big. */
#define BIG "head -c 5000 /dev/zero >$D/big && "

TEST(a_refused_change_deletes_nothing, set_up, tear_down)
{
    shell_expect(BIG "for to in $FROM $ZABRA_ENDPOINTS; do export ZABRA_ENDPOINTS=$to; "
                     "zabra create /big small && zabra create /big/child x || exit 1; done; "
                     "ZABRA_ENDPOINTS=$FROM zabra set /big @$D/big",
                 0, "");
    shell_expect(MIGRATE " --replace 2>&1", 9, "not copied: /big");
    shell_expect("zabra get /big && zabra get /big/child", 0, "small");
    shell_expect("zabra get /app/mine 2>&1", 3, "NoNode");
}

TEST(a_refused_znode_that_another_client_creates_is_not_deleted, set_up, tear_down)
{
    lag("[ $N != 1 ] || { zabra create /big small && zabra create /big/child old; }");
    shell_expect(BIG "ZABRA_ENDPOINTS=$FROM zabra create /big @$D/big && "
                     "ZABRA_ENDPOINTS=$FROM zabra create /big/child x",
                 0, "");
    shell_expect("eval \"$LAG\"; " MIGRATE " --replace 2>&1", 9, "not copied: /big: ");
    shell_expect("zabra get /big && zabra get /big/child", 0, "smallx");
    shell_expect("zabra get /app/mine 2>&1", 3, "NoNode");
}

TEST(a_refused_root_is_named, set_up, tear_down)
{
    shell_expect(BIG "ZABRA_ENDPOINTS=$FROM zabra create /big @$D/big && "
                     "ZABRA_ENDPOINTS=$FROM zabra create /big/child x",
                 0, "");
    shell_expect("FROM=$FROM/big; " MIGRATE " --into 2>&1", 9, "not copied: /: ");
    shell_expect("zabra get /child", 0, "x");
}

TEST(unreadable_znodes_of_the_target_are_counted, set_up, tear_down)
{
    shell_expect("zabra acl /app/mine creator " EVE, 0, "");
    shell_expect_json("zabra migrate --from $FROM --into --no-counters -o json", 0,
                      ".verified == false and .unreadable == 1 and .onlyInTarget == 0 and "
                      ".refused == 0");
    shell_expect("zabra migrate --from $FROM --into --no-counters 2>&1 >$D/report", 0,
                 "zabra does not show 1 znodes to this user");
    shell_expect_json(MIGRATE " --replace -o json", 0, ".verified and .unreadable == 0");
    shell_expect("zabra acl /app/secret/key creator " EVE, 0, "");
    shell_expect("zabra migrate --from $FROM --prefix /app/secret --no-counters 2>&1", 4,
                 "/app/secret of zabra has 1 znodes already");
}

/* The user may write and administer it, but not read: no pass knows that it is equal. */
TEST(a_znode_that_each_pass_overwrites_unread_is_the_cause, set_up, tear_down)
{
    shell_expect("for to in $FROM $ZABRA_ENDPOINTS; do ZABRA_ENDPOINTS=$to zabra acl /app/open "
                 "world:anyone:wa,auth::cdrwa " EVE " || exit 1; done",
                 0, "");
    shell_expect("zabra migrate --from $FROM --auth digest:eve:root --into --no-counters 2>&1", 9,
                 "overwritten by each pass, because this user may not read them");
}

/* It may lack what other clients have written. */
TEST(a_replica_without_a_quorum_is_not_compared, set_up, tear_down)
{
    ensemble_launch(&brief, 3, ENSEMBLE_SUPER);
    address(&brief, "ZABRA_ENDPOINTS");
    shell_expect(MIGRATE " --dry-run 2>&1", 0, "nothing was changed");
    ensemble_kill(&brief, 1);
    ensemble_kill(&brief, 2);
    shell_expect(MIGRATE " --dry-run --timeout 5s; r=$?; [ $r = 6 ] || [ $r = 7 ]", 0, "");
    ensemble_close(&brief);
}

/* Answers like a replica whose export ends with the line $LAST. Prints its port. */
static const char ending[] =
    "import os\n"
    "from http.server import *\n"
    "class Answer(BaseHTTPRequestHandler):\n"
    "    def do_GET(self):\n"
    "        self.send_response(200)\n"
    "        self.send_header('Zk-Zxid', '0x7')\n"
    "        self.end_headers()\n"
    "        self.wfile.write(b'{\"export\":1}\\n' + os.environ['LAST'].encode() + b'\\n')\n"
    "    def log_message(self, *words): pass\n"
    "server = HTTPServer(('127.0.0.1', 0), Answer)\n"
    "print(server.server_port, flush=True)\n"
    "server.serve_forever()\n";

static void expect_end(const char *last, const char *said)
{
    assert_int_equal(setenv("LAST", last, 1), 0);
    shell_expect("rm -f $D/port; python3 -c \"$ENDING\" >$D/port & s=$!; trap 'kill $s' EXIT; "
                 "eval \"$LIB\"; await '[ -s $D/port ]'; "
                 "zabra migrate --from $FROM --no-counters --endpoints 127.0.0.1:$(cat $D/port) "
                 "2>&1",
                 1, said);
}

TEST(an_incomplete_export_is_named, set_up, tear_down)
{
    assert_int_equal(setenv("ENDING", ending, 1), 0);
    expect_end(
        "{\"error\":{\"code\":\"TooLarge\",\"detail\":\"more than maxExportBytes changed\"}}",
        "the export is incomplete: more than maxExportBytes changed");
    expect_end("{\"path\":\"\",\"data64\":\"\"}", "it was cut off");
    expect_end("{\"path\":\"\",\"data64\":\"*\"}", "not a line of an export");
    expect_end("[", "not a line of an export");
}

TEST(an_interrupted_deletion_is_no_refusal, set_up, tear_down)
{
    delay("DELETE", "touch $D/asked; until [ -e $D/end ]; do sleep 0.05; done");
    assert_int_equal(setenv("COMMAND", MIGRATE " --replace --watch", 1), 0);
    shell_expect("eval \"$DELAY\"; eval \"exec $COMMAND\" >$D/report 2>$D/said & p=$!; "
                 "await '[ -e $D/asked ]' && kill -INT $p; wait $p; r=$?; touch $D/end; "
                 "cat $D/report $D/said; exit $r",
                 130, "run the command again with --into to continue");
    shell_expect("! grep 'not copied' $D/said", 0, "");
}

/* A source whose sessions are shorter than a request to the target. */
static void set_up_brief(void)
{
    set_up();
    ensemble_launch(&brief, 1, "tickTime=200\nmaxSessionTimeout=3000\nsessionTimeout=3000\n");
    address(&brief, "FROM");
    shell_expect("export ZABRA_ENDPOINTS=$FROM; zabra create -p /app/open x && "
                 "zabra create -p /new/child x",
                 0, "/new/child");
}

static void tear_down_brief(void)
{
    ensemble_close(&brief);
    tear_down();
}

TEST(a_slow_target_does_not_end_the_session, set_up_brief, tear_down_brief)
{
    delay("GET /export,POST /import", "sleep 5");
    shell_expect_json("eval \"$DELAY\"; " MIGRATE " --prefix /new -o json", 0, ".verified");
    assert_true(ensemble_metric(&brief, 0, "zabra_sessions_expired_total") == 0);
}

TEST(changes_during_a_slow_deletion_are_followed, set_up_brief, tear_down_brief)
{
    delay("DELETE", "ZABRA_ENDPOINTS=$FROM zabra create /app/late x; sleep 5");
    follow("--replace --until-idle 1s");
    shell_expect("eval \"$DELAY$FOLLOW\"; ended", 0, "verified");
    shell_expect("cat $D/report; zabra get /app/late; ! grep connecting $D/said", 0, "x");
    assert_true(ensemble_metric(&brief, 0, "zabra_sessions_expired_total") == 0);
}
