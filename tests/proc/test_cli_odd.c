/* Rare events of the command line: lost answers, foreign servers, signals at bad moments,
 * unconfirmed sessions, unusual data and lines. */
#include "base/mem.h"
#include "cli/wait.h"
#include "tests/lib/unit.h"
#include "tests/proc/fixture.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    TIMEOUT_MS = 4000,
    CROWD_MS = 15000, /* Of commands that run all at once. */
    LONG_MS = 20000, /* The timeout of a session that must outlive an election on a slow machine. */
    GRACE_MS = 500
};

static struct ensemble ensemble;

static void open_all(void)
{
    ensemble_launch(&ensemble, 3, "tickTime=100\nsyncLimit=100\nminSessionTimeout=200\n");
    shell_open(&ensemble);
    fixture_open(&ensemble);
}

static void close_all(void)
{
    ensemble_close(&ensemble);
}

/* ---- The shell of these tests ---- */

/* Each test opens the shell for an ensemble of its own; the programs of the machine stay in reach,
 * however long the PATH is that the tests were started with. */
TEST(the_shell_keeps_a_long_path)
{
    char *before = mem_strdup(getenv("PATH"));
    char longer[SHELL_LINE_MAX];

    (void)snprintf(longer, sizeof(longer), "/none/%0600d:%.2048s", 0, before);
    assert_int_equal(setenv("PATH", longer, 1), 0);
    for (int i = 0; i < 20; i++) {
        shell_open(&(struct ensemble){.dir = "/none"});
    }
    shell_expect("zabra version | grep -c zabra", 0, "1");
    assert_int_equal(setenv("PATH", before, 1), 0);
    mem_free(before);
}

/* ---- Answers ---- */

/* Starts a server that reads one request and exits, so that the outcome of the request is
 * unknown. */
static pid_t start_dying_server(uint16_t *ret_port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET};
    socklen_t len = sizeof(addr);
    char request[4096];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    pid_t pid = 0;

    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&addr, &len), 0);
    *ret_port = ntohs(addr.sin_port);
    pid = fork();
    if (pid == 0) {
        int client = accept(fd, NULL, NULL);

        _exit(client >= 0 && read(client, request, sizeof(request)) > 0 ? 0 : 1);
    }
    close(fd);
    return pid;
}

static void expect_of_dying_server(const char *words, int code, const char *said)
{
    char line[256];
    uint16_t port = 0;
    pid_t pid = start_dying_server(&port);
    int status = 0;

    (void)snprintf(line, sizeof(line), "zabra %s --endpoints 127.0.0.1:%u,127.0.0.1:1 --timeout 3s",
                   words, port);
    shell_expect(line, code, said);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

TEST_GROUP(open_all, close_all)

TEST(an_unknown_outcome_of_a_write_is_reported)
{
    expect_of_dying_server("create /x", 7, "may or may not have been applied");
    expect_of_dying_server("get /x", 6, "no replica answers");
}

/* Answers like a replica whose znodes change between two requests. Setting the ACL of /acl fails
 * for another reason; after an attempt to take a queue's item, the next item has its name. Prints
 * its port. */
static const char changing[] =
    "from http.server import *\n"
    "class Answer(BaseHTTPRequestHandler):\n"
    "    protocol_version = 'HTTP/1.1'\n"
    "    tag = 'd1.0'\n"
    "    def say(self, status, body=b''):\n"
    "        self.send_response(status)\n"
    "        self.send_header('ETag', f'\"{Answer.tag}\"')\n"
    "        self.send_header('Zk-Zxid', '0x7')\n"
    "        self.send_header('Content-Length', str(len(body)))\n"
    "        self.end_headers()\n"
    "        self.wfile.write(body)\n"
    "    def do_GET(self):\n"
    "        if '/acl' in self.path: self.say(200, b'{\"path\":\"/acl\",\"acl\":[]}')\n"
    "        elif 'view=children' in self.path: self.say(200, b'{\"children\":[\"item-1\"]}')\n"
    "        else: self.say(200, Answer.tag.encode())\n"
    "    def do_PUT(self):\n"
    "        self.rfile.read(int(self.headers['Content-Length']))\n"
    "        self.say(200, ('{\"shown\":\"%s\"}' % self.headers['Zk-Min-Zxid']).encode())\n"
    "    def do_PATCH(self):\n"
    "        self.rfile.read(int(self.headers['Content-Length']))\n"
    "        self.say(409, b'{\"code\":\"SessionMoved\",\"detail\":\"it is elsewhere now\"}')\n"
    "    def do_DELETE(self):\n"
    "        if self.headers['If-Match'] == '\"d2.0\"': return self.say(204)\n"
    "        Answer.tag = 'd2.0'\n"
    "        self.say(412, b'{\"code\":\"BadVersion\",\"detail\":\"version does not match\"}')\n"
    "    def log_message(self, *words): pass\n"
    "server = HTTPServer(('127.0.0.1', 0), Answer)\n"
    "print(server.server_port, flush=True)\n"
    "server.serve_forever()\n";

static void expect_while_it_changes(const char *words, int code, const char *said)
{
    uint64_t start_ms = os_now_ms();
    char line[1024];

    assert_int_equal(setenv("CHANGING", changing, 1), 0);
    (void)snprintf(
        line, sizeof(line),
        "rm -f $D/port; python3 -c \"$CHANGING\" >$D/port & s=$!; until [ -s $D/port ]; do "
        ":; done; zabra %s --endpoints 127.0.0.1:$(cat $D/port) --timeout %dms; c=$?; "
        "kill $s; wait $s; exit $c",
        words, (int)ENSEMBLE_DEADLINE_MS);
    shell_expect(line, code, said);
    assert_true(os_now_ms() - start_ms < ENSEMBLE_DEADLINE_MS);
}

/* Each answer takes two thirds of the timeout, so three of them do not fit. */
TEST(all_requests_of_an_import_share_its_timeout)
{
    static const char tardy[] = "from http.server import *\n"
                                "import time\n"
                                "class Answer(BaseHTTPRequestHandler):\n"
                                "    protocol_version = 'HTTP/1.1'\n"
                                "    def say(self, body):\n"
                                "        time.sleep(2)\n"
                                "        self.send_response(200)\n"
                                "        self.send_header('Zk-Zxid', '0x7')\n"
                                "        self.send_header('Content-Length', str(len(body)))\n"
                                "        self.end_headers()\n"
                                "        self.wfile.write(body)\n"
                                "    def do_GET(self): self.say(b'{\"super\":false}')\n"
                                "    def do_POST(self):\n"
                                "        self.rfile.read(int(self.headers['Content-Length']))\n"
                                "        self.say(b'{\"lines\":1,\"created\":1}')\n"
                                "    def log_message(self, *words): pass\n"
                                "server = ThreadingHTTPServer(('127.0.0.1', 0), Answer)\n"
                                "print(server.server_port, flush=True)\n"
                                "server.serve_forever()\n";

    assert_int_equal(setenv("TARDY", tardy, 1), 0);
    shell_expect("rm -f $D/port; python3 -c \"$TARDY\" >$D/port 2>/dev/null & s=$!; "
                 "until [ -s $D/port ]; do :; done; echo '{\"path\":\"a\"}' >$D/a.ndjson; "
                 "for t in 3s 30s; do zabra import / $D/a.ndjson --timeout $t "
                 "--endpoints 127.0.0.1:$(cat $D/port) >$D/out; echo $t: $?; done; "
                 "kill $s; wait $s; true",
                 0, "3s: 7\n30s: 0\n");
}

TEST(a_changed_znode_is_read_again)
{
    expect_while_it_changes("acl /acl --add world:anyone:r", 4, "SessionMoved");
    expect_while_it_changes("queue pop q", 0, "d2.0");
}

/* A server that is no replica: its status for a path says nothing about a znode. Prints its
 * port. */
static const char other_server[] =
    "from http.server import *\n"
    "import os\n"
    "class Server(ThreadingHTTPServer): request_queue_size = 64\n"
    "class Answer(BaseHTTPRequestHandler):\n"
    "    def answer(self):\n"
    "        self.send_response(int(self.path.rstrip('/').split('/')[-1].split('?')[0])\n"
    "            if self.path.startswith('/znodes') else int(os.environ['STATUS']))\n"
    "        self.send_header('Content-Type', 'text/html')\n"
    "        self.end_headers()\n"
    "        self.wfile.write(b'<p>another server</p>')\n"
    "    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer\n"
    "    def log_message(self, *words): pass\n"
    "server = Server(('127.0.0.1', 0), Answer)\n"
    "print(server.server_port, flush=True)\n"
    "server.serve_forever()\n";

/* Starts the program; its port is in $D/port. */
static void start_server(const char *program)
{
    assert_int_equal(setenv("OTHER", program, 1), 0);
    shell_expect("rm -f $D/port; python3 -c \"$OTHER\" >$D/port 2>$D/said </dev/null & "
                 "echo $! >$D/pid; until [ -s $D/port ]; do :; done",
                 0, "");
}

/* `status` is its answer to requests other than those for znodes. */
static void start_other(int status)
{
    char text[16];

    (void)snprintf(text, sizeof(text), "%d", status);
    assert_int_equal(setenv("STATUS", text, 1), 0);
    start_server(other_server);
}

static void stop_other(void)
{
    shell_expect("kill $(cat $D/pid)", 0, "");
}

enum {
    WORDS = 16,
    UNSURE = 5
};

#define ASK_WORDS   "ZABRA_TIMEOUT=%dms ZABRA_ENDPOINTS=%s127.0.0.1:$(cat $D/port) zabra %s"
#define ASK_BRIEFLY "zabra %s --endpoints 127.0.0.1:$(cat $D/port) --timeout 2s%s"

TEST(another_server_is_no_missing_znode)
{
    static const char *const words[WORDS] = {
        "get /404",    "get /200",   "stat /404",          "ls /404",
        "set /404 x",  "set /200 x", "set /403 x",         "get /404 --linearizable",
        "export /404", "export /a",  "watch /404 --once",  "lock l -- true",
        "status",      "members",    "api GET /status/v1", "import /a $D/line",
    };
    static struct shell_job alone[WORDS];
    static struct shell_job behind_none[WORDS]; /* After an endpoint without a server. */

    assert_int_equal(shell("echo '{\"path\":\"x\"}' >$D/line"), 0);
    start_other(200);
    for (size_t i = 0; i < WORDS; i++) {
        shell_start(&alone[i], ASK_WORDS, CROWD_MS, "", words[i]);
        shell_start(&behind_none[i], ASK_WORDS, CROWD_MS, "127.0.0.1:1,", words[i]);
    }
    for (size_t i = 0; i < WORDS; i++) {
        int code = strncmp(words[i], "lock", 4) == 0 ? 125 : 6;

        shell_finish(&alone[i], code, "not answer like zabra");
        shell_finish(&behind_none[i], code, "");
    }
    /* With a replica among the endpoints the command succeeds. */
    shell_expect("zabra create /beside x --endpoints 127.0.0.1:$(cat $D/port),$ZABRA_ENDPOINTS && "
                 "zabra export /beside --endpoints 127.0.0.1:$(cat $D/port),$ZABRA_ENDPOINTS",
                 0, "\"znodes\":1");
    /* A proxy may have forwarded the write before it lost the answer. */
    shell_expect("zabra set /502 x --endpoints 127.0.0.1:$(cat $D/port) --timeout 2s", 7,
                 "may or may not have been applied");
    shell_expect("zabra get /502 --endpoints 127.0.0.1:$(cat $D/port) --timeout 2s", 6,
                 "a proxy without a replica");
    shell_expect("zabra doctor -o json --endpoints 127.0.0.1:$(cat $D/port)", 1, "not-zabra");
    stop_other();
}

/* A proxy may have forwarded a write before it failed, unless it answers that it has no replica. */
TEST(a_failing_proxy_may_have_forwarded_a_write)
{
    static const int unsure[UNSURE] = {500, 502, 504, 520, 524};
    static struct shell_job writes[UNSURE];
    static struct shell_job reads[UNSURE];

    start_other(200);
    for (size_t i = 0; i < UNSURE; i++) {
        char words[2][32];

        (void)snprintf(words[0], sizeof(words[0]), "set /%d x", unsure[i]);
        (void)snprintf(words[1], sizeof(words[1]), "get /%d", unsure[i]);
        shell_start(&writes[i], ASK_BRIEFLY, words[0], "");
        shell_start(&reads[i], ASK_BRIEFLY, words[1], "; [ $? -ge 6 ] && echo read");
    }
    for (size_t i = 0; i < UNSURE; i++) {
        shell_finish(&writes[i], 7, "may or may not have been applied");
        shell_finish(&reads[i], 0, "read");
        assert_null(strstr(shell_output, "may not have been applied"));
    }
    shell_expect("zabra set /503 x --endpoints 127.0.0.1:$(cat $D/port) --timeout 2s", 6,
                 "a proxy without a replica");
    stop_other();
}

/* Answers writes like replicas. Writes to /busy: the first finds no leader for long enough, the
 * second gets a request to retry, the third succeeds. Writes to /slow: the first is read slowly and
 * then refused at once for lack of a leader, the second succeeds. Prints its port. */
static const char leaderless[] =
    "from http.server import *\n"
    "import time\n"
    "class Answer(BaseHTTPRequestHandler):\n"
    "    protocol_version = 'HTTP/1.1'\n"
    "    asked = {}\n"
    "    def say(self, status, body=b'{}'):\n"
    "        self.send_response(status)\n"
    "        self.send_header('Zk-Zxid', '0x7')\n"
    "        self.send_header('Content-Length', str(len(body)))\n"
    "        self.end_headers()\n"
    "        self.wfile.write(body)\n"
    "    def do_PUT(self):\n"
    "        n = Answer.asked[self.path] = Answer.asked.get(self.path, 0) + 1\n"
    "        left = int(self.headers['Content-Length'])\n"
    "        slow = 'slow' in self.path and n == 1\n"
    "        step = left // 8 + 1 if slow else left\n"
    "        while left > 0:\n"
    "            if slow: time.sleep(0.35)\n"
    "            left -= len(self.rfile.read(min(step, left)))\n"
    "        no = b'{\"code\":\"NoQuorum\",\"detail\":\"no leader\",\"outcome\":\"not-applied\"}'\n"
    "        if 'busy' in self.path and n == 1: time.sleep(2.2)\n"
    "        if n == 1: self.say(503, no)\n"
    "        elif 'busy' in self.path and n == 2:\n"
    "            self.say(429, b'{\"code\":\"Throttled\",\"detail\":\"later\"}')\n"
    "        else: self.say(200)\n"
    "    def log_message(self, *words): pass\n"
    "server = HTTPServer(('127.0.0.1', 0), Answer)\n"
    "print(server.server_port, flush=True)\n"
    "server.serve_forever()\n";

/* A write fails for lack of a leader only after each replica was tried, and had time. */
TEST(a_write_without_a_leader_tries_each_replica)
{
    start_server(leaderless);
    shell_expect("p=127.0.0.1:$(cat $D/port); zabra set /busy x --endpoints $p,$p,$p --timeout 30s",
                 0, "");
    /* More bytes than the kernel accepts at once. */
    shell_expect("head -c 12000000 /dev/zero | zabra set /slow - --timeout 30s --endpoints "
                 "127.0.0.1:$(cat $D/port)",
                 0, "");
    stop_other();
}

/* Each request requires at least the state that the previous ones have seen. */
TEST(requests_do_not_go_back_in_time)
{
    expect_while_it_changes("touch /x -o json", 0, "{\"shown\":\"0x7\"}");
    expect_while_it_changes("touch /x -o json --min-zxid 9", 0, "{\"shown\":\"0x9\"}");
}

/* A final refusal is not retried until the timeout. */
TEST(a_final_refusal_is_not_retried)
{
    uint64_t start_ms = os_now_ms();

    shell_expect(
        "zabra session -- sh -c 'zabra create /eph -e; zabra touch /eph/kid --timeout 60s'", 4,
        "NoChildrenForEphemerals");
    assert_true(os_now_ms() - start_ms < 60000);
}

/* ---- Commands that hold a session ---- */

/* Endpoints: a replica, a foreign server that answers with this status, and two more replicas. */
static void make_endpoints(int status, char *text, size_t size)
{
    start_other(status);
    shell_expect("cat $D/port", 0, "");
    (void)snprintf(text, size, "127.0.0.1:%u,127.0.0.1:%lu,127.0.0.1:%u,127.0.0.1:%u",
                   ensemble.replicas[0].client_port, strtoul(shell_output, NULL, 10),
                   ensemble.replicas[1].client_port, ensemble.replicas[2].client_port);
}

/* Kills the replica that has opened a session; the client knows the first `known` endpoints.
 * Returns LIVE_LOST if the session is lost, or LIVE_TIME if it has outlived its timeout. */
static enum live_kind keep_beside_other(int status, int known, uint32_t timeout_ms)
{
    static const struct cmd cmd = {.name = "test", .usage = ""};
    static struct cli cli;
    struct live_news news;
    struct live *live = NULL;
    char text[128];

    make_endpoints(status, text, sizeof(text));
    cli = (struct cli){.cmd = &cmd,
                       .settings = {.endpoints = text, .timeout_ms = ENSEMBLE_DEADLINE_MS},
                       .out = {.cmd = "test"}};
    cli.client = client_open(&cli.settings);
    assert_non_null(cli.client);
    cli.client->endpoints.count = known;
    live = live_open(&cli);
    assert_int_equal(live_session(live, timeout_ms, 0), CMD_OK);
    assert_int_equal(cli.client->reply.endpoint, 0);
    ensemble_kill(&ensemble, 0);
    live_wait(live, os_now_ms() + timeout_ms + timeout_ms / 2, &news);
    stop_other();
    live_close(live);
    client_close(cli.client);
    ensemble_start(&ensemble, 0);
    ensemble_wait_all_ready(&ensemble);
    return news.kind;
}

/* Answers of a foreign server do not concern the session: 200 does not renew it, 401 does not end
 * it. */
TEST(another_server_keeps_no_session)
{
    assert_int_equal(keep_beside_other(200, 2, TIMEOUT_MS), LIVE_LOST);
    assert_int_equal(keep_beside_other(401, 4, LONG_MS), LIVE_TIME);
}

/* No replica has confirmed the session for two thirds of its timeout, so it may be over and no
 * command starts in it. */
TEST(no_command_in_a_session_that_may_be_over)
{
    static const struct cmd cmd = {.name = "test", .usage = ""};
    static char touch[] = "touch";
    static char file[ENSEMBLE_PATH_MAX + 16];
    char *child[] = {touch, file, NULL};
    static struct cli cli;
    struct hold hold = {.cli = &cli, .look_ms = UINT64_MAX, .grace_ms = GRACE_MS};
    uint64_t end_ms = 0;

    (void)snprintf(file, sizeof(file), "%s/started", ensemble.dir);
    cli = (struct cli){
        .cmd = &cmd,
        .settings = {.endpoints = getenv("ZABRA_ENDPOINTS"), .timeout_ms = ENSEMBLE_DEADLINE_MS},
        .out = {.cmd = "test"}};
    cli.args.child = child;
    cli.args.child_count = 2;
    cli.client = client_open(&cli.settings);
    assert_non_null(cli.client);
    assert_int_equal(wait_open(&hold.wait, &cli), CMD_OK);
    assert_int_equal(live_session(hold.wait.live, TIMEOUT_MS, 0), CMD_OK);
    assert_in_range(live_session_left_ms(hold.wait.live), 1, TIMEOUT_MS);
    end_ms = os_now_ms() + TIMEOUT_MS;
    ENSEMBLE_WAIT(&ensemble, os_now_ms() > end_ms);
    assert_int_equal(live_session_left_ms(hold.wait.live), 0);
    assert_int_equal(hold_run(&hold, NULL), CMD_CHILD_FAILED);
    assert_int_not_equal(access(file, F_OK), 0);
    wait_close(&hold.wait);
    client_close(cli.client);
}

TEST(a_command_gets_its_environment)
{
    shell_expect("mine=$(sh -c 'ls /proc/self/fd | wc -l'); [ $mine = $(zabra lock fds -- sh -c "
                 "'ls /proc/self/fd | wc -l') ] && echo the same",
                 0, "the same");
    shell_expect("zabra lock seen -- sh -c '[ $((ZABRA_MIN_ZXID)) -ge $ZABRA_LOCK_FENCE ]'", 0, "");
}

/* ---- Output and data ---- */

TEST(each_error_has_a_message)
{
    shell_expect("zabra get \"$(printf '/\\377')\" -o json", 2,
                 "\"message\":\"the path \\\"/?\\\"");
    shell_expect("zabra ls / >/dev/full", 1, "could not write the output");
    shell_expect("zabra get / --min-zxid nonsense", 2, "is not a zxid");
}

TEST(data_is_not_altered)
{
    fixture_make();
    shell_expect("echo '{\"op\":\"create\",\"path\":\"'$P'/n\",\"dataJson\":{\"id\":"
                 "1234567890123456789}}' | zabra multi && zabra get $P/n",
                 0, "{\"id\":1234567890123456789}");
    shell_expect("printf 'a\\0b%%' | zabra create $P/z - && zabra touch $P/z --curl | sed 1d | sh "
                 ">/dev/null && zabra get $P/z | od -An -c && zabra stat $P/z",
                 0, "a  \\0   b   %");
    assert_non_null(strstr(shell_output, "version   1\n"));
}

/* An incomplete or invalid line must not be executed in part. */
TEST(lines_of_a_script_are_executed_whole_or_not_at_all)
{
    fixture_make();
    shell_expect("printf \"rm -ry $P\\0/x\\n\" | zabra shell; zabra stat $P", 0, "version");
    shell_expect("head -c 1100000 /dev/zero | tr '\\0' a | zabra shell", 2, "too long");
}

/* A command that runs out of descriptors reports it: no assertion may depend on resources. (Codes
 * of signals begin at 128; 134 is that of an assertion.) */
TEST(a_lack_of_descriptors_is_no_assertion)
{
    shell_expect("for n in $(seq 4 40); do (ulimit -n $n; exec zabra session --timeout 5s -- true) "
                 ">/dev/null 2>&1; c=$?; [ $c -lt 128 ] || echo \"$n descriptors: code $c\"; done; "
                 "echo looked",
                 0, "looked");
    assert_null(strstr(shell_output, "code"));
    shell_expect("zabra session -- true", 0, "");
}

/* ---- Terminals ---- */

/* After a signal during the password prompt the terminal echoes again. (The keyboard is an endless
 * pipe: `script` would forward its end as Ctrl-D.) */
TEST(the_terminal_echoes_again_after_a_signal)
{
    shell_expect("mkfifo \"$D/keyboard\" && "
                 "script -qec 'zabra whoami --user bob & p=$!; "
                 "until stty -a | grep -q -- \"-echo \"; do kill -0 $p || exit 1; done; "
                 "kill -TERM $p; wait $p; echo code $?; stty -a | grep -c \" echo \"' /dev/null "
                 "<>\"$D/keyboard\"",
                 0, "code 143");
}

/* Ctrl-D at the prompt is a missing password, not an empty one. */
TEST(the_end_of_the_terminal_is_no_password)
{
    shell_expect("said=\"$D/said\"; : >\"$said\"; "
                 "{ for i in $(seq 2000); do grep -q 'password of bob' \"$said\" && break; "
                 "sleep 0.01; done; printf '\\004'; } | "
                 "script -qefc 'zabra whoami --user bob' /dev/null | tee \"$said\"; "
                 "! grep -q digest \"$said\"",
                 0, "the typed password is empty or too long");
}
