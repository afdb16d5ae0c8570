/*
 * `zabra members`: the list, every change with its output, what is refused and why, wrong command
 * lines, waits that end or are interrupted, and servers that answer nonsense.
 */
#include "tests/lib/unit.h"
#include "tests/proc/membership.h"
#include "tests/proc/shell.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    COUNT = 5,
    FOUNDERS = 3, /* Replicas 4 and 5 are added. */
    LINE_MAX_BYTES = 1024
};

static struct ensemble ensemble;

/* Answers like a replica, in one way at each of its ports ($FAKE lists them): what it says to a
 * request for the list, and to a change. */
static const char fake[] =
    "import http.server, json, os, sys, threading, time\n"
    "problem = lambda s, c, d, **m: (s, json.dumps(dict(code=c, detail=d, status=s, **m)))\n"
    "one = {'id': 1, 'role': 'voter', 'state': 'leader', 'peer': '127.0.0.1:1'}\n"
    "four = {'id': 4, 'role': 'observer', 'state': 'unreachable', 'peer': 'zk4:1',\n"
    "        'refused': 'its secret is another one'}\n"
    "sound = json.dumps({'members': [one, four], 'seen_by': 1, 'level': 2})\n"
    "bad = dict(one, state='a\\033[2Jb', refused='\\033]0;x\\a')\n"
    "odd = json.dumps({'members': [bad, 7,\n"
    "                  {'id': 'x'}], 'seen_by': 10**30, 'pending': {'version': '\\033[31m5'},\n"
    "                  'waiting': [{'id': 4, 'command': 'zabra\\033[2J members'}, None]})\n"
    "tag = '\"m1\"'\n"
    "late = problem(412, 'BadVersion', 'the configuration has another version')\n"
    "refusal = problem(409, 'ChangeRefused', 'a\033[2Jb', reason='\033[2J')\n"
    "changes = [(200, 'nonsense'), (200, '{\"applied\":true}'), late, refusal, (500, ''),\n"
    "           (0, ''), problem(409, 'ChangeRefused', 'replica 4 has just come in step',\n"
    "                            reason='NotInStep')]\n"
    "ways = [(None, sound, None)]\n"
    "ways += [(tag, text, None) for text in ['nonsense', '[]', '{\"members\":{}}', odd]]\n"
    "ways += [(tag, sound, change) for change in changes]\n"
    "def make(tag, list, change):\n"
    "    class Handler(http.server.BaseHTTPRequestHandler):\n"
    "        def send(self, status, body):\n"
    "            self.send_response(status)\n"
    "            self.send_header('Zk-Zxid', '0x1')\n"
    "            if tag: self.send_header('ETag', tag)\n"
    "            self.send_header('Content-Length', str(len(body)))\n"
    "            self.end_headers()\n"
    "            self.wfile.write(body.encode())\n"
    "        def do_GET(self): self.send(200, list)\n"
    "        def do_POST(self):\n"
    "            self.rfile.read(int(self.headers.get('Content-Length') or 0))\n"
    "            if change[0]: self.send(*change)\n"
    "            else: time.sleep(60)\n"
    "        do_PUT = do_PATCH = do_DELETE = do_POST\n"
    "        def log_message(self, *args): pass\n"
    "    return http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)\n"
    "servers = [make(*way) for way in ways]\n"
    "for server in servers: threading.Thread(target=server.serve_forever, daemon=True).start()\n"
    "print(*[server.server_port for server in servers], flush=True)\n"
    "os.close(1)\n"
    "while os.getppid() == int(sys.argv[1]): time.sleep(0.2)\n";

static FILE *fake_pipe;

static void start_fake(void)
{
    char line[64];
    char ports[256] = "";

    assert_int_equal(setenv("FAKE", fake, 1), 0);
    (void)snprintf(line, sizeof line, "exec python3 -c \"$FAKE\" %d", (int)getpid());
    fake_pipe = popen(line, "r");
    assert_non_null(fake_pipe);
    assert_non_null(fgets(ports, sizeof ports, fake_pipe));
    ports[strcspn(ports, "\n")] = '\0';
    assert_int_equal(setenv("FAKE", ports, 1), 0);
}

static void set_address(uint32_t index)
{
    char name[8];
    char text[32];

    (void)snprintf(name, sizeof name, "A%u", index + 1);
    (void)snprintf(text, sizeof text, "127.0.0.1:%u", ensemble.replicas[index].peer_port);
    assert_int_equal(setenv(name, text, 1), 0);
}

static void open_all(void)
{
    membership_open(&ensemble, COUNT, FOUNDERS, ENSEMBLE_SUPER);
    shell_open(&ensemble);
    assert_int_equal(shell("umask 077; echo root >$D/pw; echo no >$D/wrong"), 0);
    assert_int_equal(setenv("S", "--user super --password-file", 1), 0);
    for (uint32_t i = 0; i < COUNT; i++) {
        set_address(i);
    }
    start_fake();
}

static void close_all(void)
{
    ensemble_close(&ensemble);
    assert_int_equal(setenv("FAKE", "", 1), 0);
}

/* Runs `zabra members WORDS` as the super user. */
static void expect(const char *words, int code, const char *said)
{
    char line[LINE_MAX_BYTES];

    (void)snprintf(line, sizeof line, "zabra members %s $S $D/pw", words);
    shell_expect(line, code, said);
}

/* The last line has also printed this. */
static void also(const char *said)
{
    if (!strstr(shell_output, said)) {
        fail_msg("\"%s\" expected in: %s", said, shell_output);
    }
}

static void not_said(const char *text)
{
    if (strstr(shell_output, text)) {
        fail_msg("\"%s\" not expected in: %s", text, shell_output);
    }
}

/* Like expect(), with JSON for which the jq expression is true. */
static void expect_json(const char *words, int code, const char *filter)
{
    char line[LINE_MAX_BYTES];

    (void)snprintf(line, sizeof line, "zabra members %s -o json $S $D/pw", words);
    shell_expect_json(line, code, filter);
}

/* ---- Tests, in order: each leaves what the next one begins with. ---- */

TEST_GROUP(open_all, close_all)

TEST(the_list)
{
    shell_expect(
        "eval \"$LIB\"; await 'zabra members >$D/list; grep \"tolerance 1$\" $D/list'; cat $D/list",
        0, "ID  ROLE");
    also("\n 3  voter ");
    also("seen by replica 1, feature level 2, tolerance 1\n");
    shell_expect("zabra members list -o table", 0, "seen by replica 1");
    shell_expect("zabra members -o ndjson | jq -r .role | sort | uniq -c", 0, "3 voter\n");
    shell_expect("zabra members -o json | jq -c '[.members[].id]'", 0, "[1,2,3]\n");
    shell_expect("zabra upgrade", 0, "feature level 2\n");
    shell_expect("zabra members --curl", 0, "/ensemble/v1'\n");
}

static const struct {
    const char *words;
    const char *said;
} mistakes[] = {
    {"frob", "\"frob\" is not one of list, add, promote, demote, move, replace, remove; see "},
    {"add", "the id of a member is missing; see 'zabra help members'"},
    {"add 0 a:1", "\"0\" is not the id of a member, a number from 1 to 65535"},
    {"add 65536 a:1", "\"65536\" is not the id of a member"},
    {"add 4x a:1", "\"4x\" is not the id of a member"},
    {"add 99999999999999999999 a:1", "\"99999999999999999999\" is not the id of a member"},
    {"add '' a:1", "\"\" is not the id of a member"},
    {"add 4", "the address for other replicas is missing: HOST:PORT"},
    {"add 4 a:1 b", "unexpected argument \"b\""},
    {"add 4 a:1 --force", "--force is not for add"},
    {"promote", "the id of a member is missing"},
    {"promote 4 a:1", "unexpected argument \"a:1\""},
    {"promote 4 --auto-promote", "--auto-promote is not for promote"},
    {"demote 3 --wait", "--wait is not for demote"},
    {"move 3", "move needs HOST:PORT, --client or --zone"},
    {"move 3 a:1 --min-tolerance 1", "--min-tolerance is not for move"},
    {"replace 3", "the id of a member is missing"},
    {"replace 3 3 a:1", "the new member needs an id of its own"},
    {"replace 3 70000 a:1", "\"70000\" is not the id of a member"},
    {"replace 3 4", "the address of replica 4 is missing: HOST:PORT"},
    {"remove", "the id of a member is missing"},
    {"remove 3 --wait", "--wait is not for remove"},
    {"remove 3 --wait-max 1s", "--wait-max is not for remove"},
    {"remove 3 --min-tolerance x", "--min-tolerance: \"x\" is not a number from 0 to 64"},
    {"remove 3 --min-tolerance 65", "--min-tolerance: \"65\" is not a number from 0 to 64"},
    {"list --dry-run", "--dry-run is not for list"},
    {"list 3", "unexpected argument \"3\""},
    /* The replica refuses these. */
    {"add 4 zk4", "peer must be host:port, the address for other replicas: a port from 1 to 65535"},
    {"add 4 zk4:0", "peer must be host:port"},
    {"add 4 zk4:65536", "peer must be host:port"},
    {"add 4 'zk 4:1'", "peer must be host:port"},
    {"add 4 $(printf 'a\\001b:1')", "peer must be host:port"},
    {"add 4 ::1:1", "peer must be host:port"},
    {"add 4 $(head -c 300 /dev/zero | tr '\\0' a):1", "peer must be host:port"},
    {"add 4 a:1 --client b", "client must be host:port, the address for clients"},
    {"add 4 a:1 --zone 'b c'", "zone"},
    {"move 3 zk3", "peer must be host:port"},
};

TEST(mistakes_are_named)
{
    for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
        expect(mistakes[i].words, 2, mistakes[i].said);
    }
    expect_json("add 0 a:1", 2, ".error.code == \"Usage\" and .error.exit_code == 2");
}

static const struct {
    const char *words;
    int code;
    const char *said;
} refusals[] = {
    {"add 3 zk9:1", 1,
     "member 3 exists already: edit it, or choose another id (ChangeRefused); "
     "'zabra members move' edits a member\n"},
    {"add 4 $A1", 1, "members 4 and 1 would have the same address for other replicas"},
    {"move 3 $A2", 1, "members 3 and 2 would have the same address for other replicas"},
    {"promote 9", 1, "there is no member 9: "},
    {"demote 9", 1, "there is no member 9"},
    {"move 9 zk9:1", 1, "there is no member 9"},
    {"remove 9", 1, "there is no member 9"},
    {"replace 9 4 $A4", 1, "there is no member 9; 'zabra members' lists them\n"},
    {"replace 1 2 $A2 --force", 1,
     "member 2 votes already, so it cannot take the place of member 1; 'zabra members remove 1' "
     "removes that one\n"},
    {"promote 2", 1, "member 2 is no observer: it votes"},
    {"remove 3", 1,
     "failures tolerated: none after the change, 1 now: promote other members first, "
     "or force the change (ChangeRefused); --force forces it\n"},
    {"demote 3", 1, "failures tolerated: none after the change, 1 now"},
    {"remove 3 --min-tolerance 1 --force", 1,
     "failures tolerated: 0 after the change, 1 now, and at least 1 are asked for"},
};

TEST(refusals_say_why)
{
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        expect(refusals[i].words, refusals[i].code, refusals[i].said);
    }
    expect_json("remove 3", 1,
                ".error.code == \"ChangeRefused\" and .error.reason == \"NoTolerance\" and "
                ".error.outcome == \"not-applied\" and .error.status == 409");
    shell_expect("zabra members add 4 $A4", 5,
                 "only the super user may change the members of the ensemble (NoAuth); the request "
                 "had no user (--user)");
    shell_expect("zabra members remove 3 $S $D/wrong", 5, "(NoAuth)");
    shell_expect("zabra members -o json | jq -c '[.members[].id]'", 0, "[1,2,3]\n");
}

TEST(a_dry_run_only_judges)
{
    expect("remove 3 --force --dry-run", 0,
           "would be changed; nothing is changed (--dry-run)\n"
           "voters: 2, in step: 2\n"
           "voters that may fail: 1 before, 0 after\n"
           "note: 2 voters tolerate no more failures than 1: promote or demote one more\n");
    not_said("next:");
    expect("remove 3 --force --dry-run -o table", 0, "voters: 2, in step: 2\n");
    expect_json("remove 3 --force --dry-run", 0,
                ".applied == false and .version == null and .tolerance == {\"before\":1,"
                "\"after\":0} and .in_step == 2 and [.members[].id] == [1,2]");
    expect("replace 3 4 $A4 --dry-run", 0,
           "this is the first step, which adds member 4; whether member 3 may leave is judged once "
           "it is in step\n");
    expect("promote 4 --dry-run --wait", 1, "there is no member 4");
    shell_expect("zabra members -o json | jq -c '[.members[].id]'", 0, "[1,2,3]\n");
}

/* The list is asked for, as the change depends on it; the change is only printed. */
TEST(curl_shows_the_change)
{
    shell_expect("zabra members add 5 127.0.0.1:9 --zone c --curl $S $D/pw >$D/lines; "
                 "wc -l <$D/lines; cat $D/lines",
                 0, "2\n");
    also("If-Match: \"m");
    also("{\"id\":5,\"peer\":\"127.0.0.1:9\",\"zone\":\"c\"}");
    shell_expect("zabra members -o json | jq -c '[.members[].id]'", 0, "[1,2,3]\n");
    shell_expect("tail -1 $D/lines | sh", 0, "\"applied\":true");
    expect(
        "remove 5", 0,
        "voters: 3, in step: 3\nvoters that may fail: 1 before, 1 after\nnext: replica 5 ends "
        "by itself (exit code 6) when it is reached; empty its directory, or destroy its disk\n");
}

TEST(no_replica_answers)
{
    static const char *const words[] = {"", "add 4 $A4", "promote 3 --wait", "remove 3",
                                        "replace 3 4 $A4"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        char line[LINE_MAX_BYTES];

        (void)snprintf(line, sizeof line, "%s --endpoints 127.0.0.1:1 --timeout 1s", words[i]);
        expect(line, 6, "no replica answers at 127.0.0.1:1");
    }
}

/* Runs against one of the ways in which the fake replica answers. */
static void expect_of_fake(int way, const char *words, int code, const char *said)
{
    char line[LINE_MAX_BYTES];

    (void)snprintf(line, sizeof line,
                   "%s --timeout 2s --endpoints 127.0.0.1:$(echo $FAKE | cut -d' ' -f%d)", words,
                   way + 1);
    expect(line, code, said);
    not_said("\033");
}

TEST(nonsense_is_noticed)
{
    expect_of_fake(0, "add 5 a:1", 1,
                   "has no list of members with a version: its release is too "
                   "old to change members, or it is not a zabra replica\n");
    expect_of_fake(1, "add 5 a:1", 1, "the answer is not JSON");
    expect_of_fake(1, "list", 1, "the answer is not JSON");
    expect_of_fake(2, "remove 1", 1, "has no list of members with a version");
    expect_of_fake(3, "replace 1 5 a:1", 1, "has no list of members with a version");
    expect_of_fake(5, "add 5 a:1", 1, "the answer is not JSON");
    expect_of_fake(6, "add 5 a:1", 1,
                   "has taken the change, but its answer does not say what has become of it; see "
                   "'zabra members'\n");
    expect_of_fake(8, "remove 1", 1, "a?[2Jb (ChangeRefused)");
    expect_of_fake(9, "remove 1", 1, "the replica answered with status 500 and no reason");
}

/* Nothing that a replica sends commands the terminal. */
TEST(a_hostile_list_is_harmless)
{
    expect_of_fake(4, "list", 0, "a?[2Jb");
    also("a change of the members is not committed yet: version ?[31m5\n");
    also("replica 4 waits to be added: zabra?[2J members\n");
    also("replica 0 waits to be added\n");
}

/* The members have changed between the list and the change. A wait takes the list again. */
TEST(another_version_is_a_conflict)
{
    expect_of_fake(7, "remove 1", 4,
                   "the configuration has another version (BadVersion); the members have changed "
                   "meanwhile, see 'zabra members'\n");
    expect_of_fake(7, "promote 4 --wait --wait-max 4s", 7,
                   "the wait is over: the configuration has another version");
    also("zabra members: waiting: the configuration has another version\n");
}

/* After the leader that leaves has handed over, the next one counts again how long the new member
 * has been in step. */
TEST(a_replacement_waits_without_being_told)
{
    expect_of_fake(11, "replace 1 4 --wait-max 1s", 7,
                   "the wait is over: replica 4 has just come in step");
    also("zabra members: waiting: replica 4 has just come in step\n");
    expect_of_fake(11, "promote 4", 1, "(ChangeRefused); --wait waits for it\n");
}

TEST(a_deadline_ends_each_request_and_each_wait)
{
    expect_of_fake(10, "remove 1", 7, "no answer in time");
    also("; the write may or may not have been applied");
    expect_of_fake(10, "replace 1 4 zk4:2", 1,
                   "member 4 exists with the address zk4:1; leave the address out, or correct it "
                   "with 'zabra members move'\n");
}

/* ---- Changes ---- */

/* A wrong address harms nothing, and the wait says what is missing. */
TEST(a_wait_for_a_wrong_address_ends)
{
    expect("add 5 127.0.0.1:1 --wait --wait-max 1s", 7, "changed: version 0x");
    also("waiting: member 5 at 127.0.0.1:1 is unreachable");
    also("the wait is over: member 5 at 127.0.0.1:1 is unreachable");
    also("; replica 5 must run with this address (its log says why it does not join)\n");
    expect_json("add 4 127.0.0.1:2 --wait --wait-max 0s", 7, ".error.code == \"TimedOut\"");
    expect("remove 5", 0, "changed: version 0x");
    expect("remove 4", 0, "changed: version 0x");
}

/* With one of three voters down, no other one may go. */
TEST(a_majority_must_stay)
{
    ensemble_kill(&ensemble, 2);
    shell_expect("eval \"$LIB\"; await \"zabra members remove 2 --force $S $D/pw 2>&1 | grep "
                 "'majority is'\"; zabra members remove 2 --force $S $D/pw",
                 1,
                 "1 of 2 voters would be in step, and a majority is 2: start the others, or "
                 "change fewer members at once (ChangeRefused)\n");
    expect("remove 3 --dry-run", 0, "voters that may fail: 0 before, 0 after\n");
    ensemble_start(&ensemble, 2);
    ensemble_wait_ready(&ensemble, 2);
}

/* Replicas 4 and 5 are members before they run; both are in step for ten seconds at the same time.
 */
TEST(members_are_added)
{
    expect("add 4 $A4 --auto-promote", 0, "changed: version 0x");
    also("voters: 3, in step: 3\nvoters that may fail: 1 before, 1 after\n");
    also("next: start replica 4, if it does not run yet\n"
         "it becomes a voter by itself after 10 s in step\n");
    expect("list", 0, "member 4 becomes a voter by itself after 10 s in step\n");
    expect("promote 4", 1,
           "replica 4 is not connected: it must be within 1 s of the leader for 10 "
           "s (ChangeRefused); --wait waits for it\n");
    expect("promote 4 --wait --wait-max 1s", 7,
           "the wait is over: replica 4 is not connected: it must be");
    also("zabra members: waiting: replica 4 is not connected");
    expect("move 4 --zone b", 0, "voters that may fail: 1 before, 1 after\n");
    not_said("next:");
    shell_expect("zabra members -o json | jq -r '.members[3] | .zone, .peer, .role'", 0, "b\n127.");
    also("observer\n");
}

/* An interrupted replacement continues when it is called again. */
TEST(a_replacement_is_repeatable)
{
    shell_expect("zabra members replace 3 5 $A5 $S $D/pw >$D/out 2>&1 & p=$!; eval \"$LIB\"; "
                 "await 'grep waiting: $D/out'; kill $p; wait $p; echo $?; cat $D/out",
                 0, "143\nadded: member 5; next it must come in step\n");
    also("zabra members: waiting: member 5 at 127.0.0.1:");
    expect("replace 3 5 127.0.0.1:1", 1, "member 5 exists with the address 127.0.0.1:");
    expect("replace 3 5 $A5 --dry-run", 1, "replica 5 is not connected");
    ensemble_start(&ensemble, 3);
    ensemble_start(&ensemble, 4);
    expect("replace 3 5 $A5", 0, "changed: version 0x");
    also("next: replica 3 ends by itself (exit code 6)");
    assert_int_equal(ensemble_wait_end(&ensemble, 2), MEMBERSHIP_EXIT);
    expect("replace 3 5 $A5", 0, "nothing to do: member 3 was removed, and 5 is a member\n");
    expect_json("replace 3 5 $A5", 0, ".members | length == 4");
    expect("replace 3 9 $A5", 1, "there is no member 3");
}

/* Replica 4 has become a voter by itself. It is demoted, and promoted by hand. */
TEST(members_are_demoted_and_promoted)
{
    shell_expect("eval \"$LIB\"; await \"zabra members -o json | jq -e '[.members[] | "
                 "select(.role == \\\"voter\\\")] | length == 4'\"",
                 0, "");
    expect("demote 4", 0,
           "voters: 3, in step: 3\nvoters that may fail: 1 before, 1 after\nnext: "
           "zabra members remove 4, if it is to leave\n");
    expect("demote 4", 1, "member 4 observes already: it has no vote to lose");
    expect_json("promote 4 --wait", 0,
                ".applied and .in_step == 4 and .tolerance == {\"before\":1,\"after\":1}");
    expect("move 4 127.0.0.1:1 --dry-run", 0, "voters: 4, in step: 4\n");
    expect("move 4 $A4 --client 127.0.0.1:7", 0,
           "next: restart replica 4 with its new address, if it does not listen there yet; a line "
           "server.4 in the file of another replica still wins there: correct it\n");
}

/* Down to the last voter. */
TEST(members_are_removed)
{
    expect("remove 5 --min-tolerance 1", 0, "voters that may fail: 1 before, 1 after\n");
    assert_int_equal(ensemble_wait_end(&ensemble, 4), MEMBERSHIP_EXIT);
    expect("remove 4 --force", 0, "note: 2 voters tolerate no more failures than 1");
    assert_int_equal(ensemble_wait_end(&ensemble, 3), MEMBERSHIP_EXIT);
    expect("remove 2 --force", 0,
           "voters that may fail: 0 before, 0 after\nnote: no voter may fail "
           "then\n");
    assert_int_equal(ensemble_wait_end(&ensemble, 1), MEMBERSHIP_EXIT);
    expect("remove 1 --force", 1, "no voter would be left: promote another member first");
    shell_expect("zabra create /after x && zabra get /after", 0, "x");
}
