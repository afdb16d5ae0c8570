/* Every command of the command line with each outcome: output, exit codes, and errors as JSON. */
#include "tests/lib/unit.h"
#include "tests/proc/fixture.h"
#include "tests/proc/proxy.h"

#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    COUNTERS = 8,
    COUNTS = 5,
    TRIES = 15,
    GROWS = 20,
    LOST_PERCENT = 50
};

static struct ensemble ensemble;
static char other[SHELL_OUTPUT_MAX];

static void open_all(void)
{
    ensemble_launch(&ensemble, 3, NULL);
    shell_open(&ensemble);
    fixture_open(&ensemble);
}

static void close_all(void)
{
    ensemble_close(&ensemble);
}

/* ---- Each command and its outcomes ---- */

struct row {
    const char *line; /* Without "zabra" before it and "-o json" after it. */
    int code;
    const char *said; /* The code of an error; else a member of the output, "" for any. */
};

static const struct row rows[] = {
    {"get $P/here", 0, "dataUtf8"},
    {"get $P/nope", 3, "NoNode"},
    {"get $P/closed", 5, "NoAuth"},
    {"get here", 2, "Usage"},
    {"stat $P/here", 0, "czxidHex"},
    {"stat $P/nope", 3, "NoNode"},
    {"stat $P/closed", 5, "NoAuth"},
    {"ls $P", 0, "children"},
    {"ls $P/nope", 3, "NoNode"},
    {"ls $P/closed", 5, "NoAuth"},
    {"ls --limit 0 $P", 2, "Usage"},
    {"tree $P", 0, "nodes"},
    {"tree $P/nope", 3, "NoNode"},
    {"tree $P/closed", 5, "NoAuth"},
    {"find $P --name kid", 0, "nodes"},
    {"find $P/nope --name kid", 3, "NoNode"},
    {"find $P/closed --name kid", 5, "NoAuth"},
    {"find $P", 2, "Usage"},
    {"set $P/here x", 0, "version"},
    {"set $P/nope x", 3, "NoNode"},
    {"set $P/here x --version 7", 4, "BadVersion"},
    {"set $P/here x --new", 4, ""},
    {"set $P/closed x", 5, "NoAuth"},
    {"set $P/here", 2, "Usage"},
    {"set $P/here x --version y", 2, "Usage"},
    {"set $P/here/x x --parents", 2, "Usage"},
    {"create $P/new x", 0, "path"},
    {"create $P/nope/new", 3, "NoNode"},
    {"create $P/here", 4, "NodeExists"},
    {"create /", 2, "Usage"},
    {"create $P/closed/new", 5, "NoAuth"},
    {"create $P/eph -e", 2, "Usage"},
    {"create $P/x --acl nonsense", 2, "InvalidACL"},
    {"rm $P/here/kid", 0, "deleted"},
    {"rm $P/nope", 3, "NoNode"},
    {"rm -f $P/nope", 0, "deleted"},
    {"rm $P", 4, "NotEmpty"},
    {"rm $P/num --version 7", 4, "BadVersion"},
    {"rm -ry $P/closed/..", 2, "Usage"},
    {"rm -r $P/here </dev/null", 2, "Usage"},
    {"rm -ry $P/here", 0, "deleted"},
    {"rm -ry $P --max 1", 4, "NotEmpty"},
    {"cp $P/num $P/num2", 0, "znodes"},
    {"cp $P/nope $P/x", 3, "NoNode"},
    {"cp $P/num $P/nope/x", 3, "NoNode"},
    {"cp $P/num $P/num", 2, "Usage"},
    {"cp $P/num $P/num2", 4, "NodeExists"},
    {"cp $P/closed $P/x", 5, "NoAuth"},
    {"mv $P/num2 $P/num3", 0, "znodes"},
    {"mv $P/nope $P/x", 3, "NoNode"},
    {"mv $P/num $P/num3", 4, "NodeExists"},
    {"mv $P/num $P/num/x", 2, "Usage"},
    {"mv $P/closed $P/x", 5, "NoAuth"},
    {"edit $P/num", 0, NULL},
    {"edit $P/nope", 3, "NoNode"},
    {"edit $P/closed", 5, "NoAuth"},
    {"touch $P/num", 0, "version"},
    {"touch $P/touched", 0, "version"},
    {"touch -c $P/nope", 3, "NoNode"},
    {"touch $P/nope/x", 3, "NoNode"},
    {"touch $P/closed", 5, "NoAuth"},
    {"incr $P/num", 0, "value"},
    {"incr $P/num 9223372036854775807", 10, "Overflow"},
    {"incr $P/touched", 1, "NotANumber"},
    {"incr $P/nope", 3, "NoNode"},
    {"incr $P/closed", 5, "NoAuth"},
    {"incr $P/num x", 2, "Usage"},
    {"multi $D/ops", 0, "results"},
    {"multi $D/ops", 4, "NodeExists"},
    {"multi $D/none", 1, "File"},
    {"multi $D/data", 2, "BadArguments"},
    {"acl $P/num", 0, "acl"},
    {"acl $P/nope", 3, "NoNode"},
    {"acl $P/closed", 5, "NoAuth"},
    {"acl $P/num read --version 7", 4, "BadVersion"},
    {"acl $P/num --add world:anyone:cdrwa", 0, "aversion"},
    {"acl $P/num --remove ip:1.2.3.4", 1, "NoEntry"},
    {"acl $P/num everything", 2, "Usage"},
    {"quota $P/num --count 1", 0, "quotas"},
    {"quota $P/num", 0, "quotas"},
    {"create $P/num/over", 10, "QuotaExceeded"},
    {"quota $P/here", 3, "NoNode"},
    {"whoami", 0, "ids"},
    {"whoami --user bob --password-file $D/none", 2, "Usage"},
    {"api GET /znodes/v1$P", 0, "numChildren"},
    {"api GET /znodes/v1$P/nope", 3, "NoNode"},
    {"api POST \"/znodes/v1$P?op=create&name=num\"", 4, "NodeExists"},
    {"api GET /znodes/v1$P/closed", 5, "NoAuth"},
    {"api GET /nowhere", 1, "NotFound"},
    {"api FETCH /", 2, "Usage"},
    {"gett /", 2, "Usage"},
    {"get / --no-such-option", 2, "Usage"},
};

static void check_row(const struct row *row, int code)
{
    json_error_t fault;
    json_t *printed = json_loads(shell_output, JSON_DISABLE_EOF_CHECK, &fault);
    const json_t *error = json_object_get(printed, "error");
    const char *said = json_string_value(json_object_get(error, "code"));
    bool as_said = false;

    if (row->code == 0) {
        as_said = !row->said || json_object_get(printed, row->said);
    } else {
        as_said = said && (!*row->said || strcmp(said, row->said) == 0) &&
                  json_string_length(json_object_get(error, "message")) > 0 &&
                  json_integer_value(json_object_get(error, "exit_code")) == row->code;
    }
    if (code != row->code || !as_said) {
        fail_msg("zabra %s: exit code %d, not %d, and \"%s\" expected in: %s", row->line, code,
                 row->code, row->said ? row->said : "", shell_output);
    }
    json_decref(printed);
}

TEST_GROUP(open_all, close_all)

TEST(each_command_with_each_outcome)
{
    fixture_make();
    assert_int_equal(shell("echo '{\"op\":\"create\",\"path\":\"'$P'/m\"}' >$D/ops"), 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *redirect = strchr(rows[i].line, '<');
        int len = redirect ? (int)(redirect - rows[i].line) : (int)strlen(rows[i].line);

        check_row(&rows[i],
                  shell("zabra %.*s -o json %s", len, rows[i].line, redirect ? redirect : ""));
    }
}

/* No replica listens: each command reports it in the same way, and soon. */
static int shell_refused(const char *line, const char *timeout)
{
    return shell("zabra %s -o json --endpoints 127.0.0.1:1 --timeout %s", line, timeout);
}

TEST(no_ensemble)
{
    fixture_make();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        bool first = i == 0 || strncmp(rows[i].line, rows[i - 1].line, 4) != 0;

        if (first && rows[i].code == 0) {
            struct row row = {rows[i].line, 6, "NoEnsemble"};

            int code = shell_refused(row.line, "50ms");

            if (code == 7) { /* It had no time to see the refusal. */
                code = shell_refused(row.line, "5s");
            }
            check_row(&row, code);
        }
    }
}

/* ---- Output as tables and lines ---- */

TEST(forms_of_output)
{
    fixture_make();
    shell_expect("zabra get $P/here", 0, "hello");
    shell_expect("zabra ls $P", 0, "closed\nhere\nnum\n");
    shell_expect("zabra ls $P -o ndjson", 0, "{\"name\":\"closed\"}\n{\"name\":\"here\"}\n");
    shell_expect("zabra ls -l $P/here -o table", 0, "VERSION  BYTES  CHILDREN");
    shell_expect("LC_ALL=C zabra tree $P/here", 0, "\n`-- kid\n\n2 znodes\n");
    shell_expect("LC_ALL=C.UTF-8 zabra tree $P/here -l", 0, "└── kid  [v0, 0 bytes]");
    shell_expect("zabra stat $P/here -o table", 0, "children  1\n");
    shell_expect("zabra create -s $P/here/job-", 0, "/here/job-0000000001\n");
    shell_expect("zabra acl $P/here", 0, "world:anyone:cdrwa\n");
    shell_expect("zabra set $P/here x --version 5", 4, "BadVersion); the version is 0 now\n");
    shell_expect("zabra get $P/nope >$D/data2", 3, "zabra get: /f");
    shell_expect("zabra whoami x", 2, "unexpected argument \"x\": zabra whoami; see");
    shell_expect("zabra help exit-codes", 0, "122  lost");
    shell_expect("zabra get --help", 0, "usage: zabra get [OPTIONS] PATH");
    shell_expect("zabra whoami --help", 0, "usage: zabra whoami [OPTIONS]\n");
    shell_expect("ZABRA_OUTPUT=json zabra get $P/nope", 3, "{\"error\":{");
}

/* Only on a terminal, and only if colors are not disabled. */
TEST(colors)
{
    static const char *const plain[] = {
        "TERM=xterm NO_COLOR=1 script -qec 'zabra get /nope' /dev/null </dev/null",
        "TERM=xterm script -qec 'zabra get /nope --no-color' /dev/null </dev/null",
        "TERM=dumb script -qec 'zabra get /nope' /dev/null </dev/null",
        "TERM=xterm zabra get /nope",
    };

    shell_expect("TERM=xterm script -qec 'zabra get /nope' /dev/null </dev/null", 3,
                 "\033[31mzabra get:");
    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
        shell_expect(plain[i], 3, "zabra get: /nope");
        assert_null(strchr(shell_output, '\033'));
    }
}

/* Containers and TTL znodes are shown as such. */
TEST(kinds)
{
    fixture_make();
    shell_expect("zabra create $P/box --container && zabra create $P/forgotten x --ttl 10m && "
                 "zabra ls -l $P | awk '{print $5, $6}'",
                 0, "container box\n");
    assert_non_null(strstr(shell_output, "- closed\n"));
    assert_non_null(strstr(shell_output, "ttl forgotten\n"));
    shell_expect("zabra stat $P/forgotten | tr -s ' '", 0, "ttl_ms 600000\n");
    shell_expect("zabra stat $P/box | tr -s ' '", 0, "container yes\n");
    shell_expect("zabra stat $P/here | grep -e container -e ttl", 1, "");
}

/* Each read that may be stale accepts --linearizable. */
TEST(no_read_is_stale)
{
    static const char *const reads[] = {
        "zabra get /",  "zabra find --name x",
        "zabra export", "zabra session list",
        "zabra quota",  "echo '[{\"op\":\"get\",\"path\":\"/\"}]' | zabra multi"};
    char line[SHELL_LINE_MAX];

    for (size_t i = 0; i < sizeof(reads) / sizeof(reads[0]); i++) {
        (void)snprintf(line, sizeof(line), "%s --linearizable --curl | sh", reads[i]);
        shell_expect(line, 0, "");
        (void)snprintf(line, sizeof(line), "%s --linearizable --curl", reads[i]);
        shell_expect(line, 0, "consistency=linearizable'");
    }
    shell_expect("zabra whoami --linearizable", 0, "world");
    shell_expect("zabra api GET '/znodes/v1/?consistency=local' --linearizable", 0,
                 "\"path\":\"/\"");
}

/* A truncated list is marked as such. */
TEST(truncation_is_reported)
{
    fixture_make();
    shell_expect("zabra find $P --name h --limit 1", 0, "zabra find: there may be more");
    shell_expect("zabra find $P --name kid", 0, "kid");
    assert_null(strstr(shell_output, "more"));
    shell_expect("for i in $(seq 600); do echo '{\"op\":\"create\",\"parents\":true,"
                 "\"path\":\"/zookeeper/quota/many/'$i'/zookeeper_limits\",\"dataUtf8\":"
                 "\"count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=7\"}'; done | zabra multi "
                 "| wc -l",
                 0, "600");
    shell_expect("zabra quota -o ndjson | grep -c '\"path\":\"/many/.*\"count\":7'", 0, "600");
    shell_expect("zabra quota $P --count x --endpoints 127.0.0.1:1", 2, "is not a number");
}

TEST(any_request)
{
    fixture_make();
    shell_expect("zabra api POST /import/v1$P '{\"path\":\"hand\"}' "
                 "-H 'Content-Type: application/x-ndjson' && zabra stat $P/hand",
                 0, "\"created\":1");
}

/* Errors name the wrong word and suggest the right one. */
TEST(mistakes)
{
    static const char *const mistakes[][2] = {
        {"gett", "zabra: unknown command \"gett\"; did you mean get?\n"},
        {"nonsense", "zabra: unknown command \"nonsense\"; 'zabra help' lists them\n"},
        {"nonsense -o json", "\"command\":\"nonsense\""},
        {"-o text get /", "zabra: \"-o\" is not a command; options follow the command"},
        {"help gett", "zabra help: unknown command \"gett\"; did you mean get?\n"},
        {"help get set", "unexpected argument \"set\""},
        {"serve --nope", "zabra: nope: unknown key (flag --nope)"},
        {"serve zoo.cfg", "or --config FILE"},
        {"dev --nodes 10", "--nodes: \"10\" is not a number from 1 to 9"},
        {"dev --port 0", "--port: \"0\" is not a number from 1 to"},
        {"dev --data", "--data needs a directory"},
        {"dev nonsense", "\"nonsense\" is neither an option"},
        {"dev --node 3", "unknown option or key --node; did you mean --nodes?"},
        {"dev --tickTme=9", "unknown option or key --tickTme; did you mean --tickTime?"},
        {"dev --quite-another 9", "unknown option or key --quite-another; see 'zabra help serve'"},
        {"get / --endpoints 9998", "\"9998\" does not begin with HOST"},
        {"lock a --ttl 50ms -- true", "--ttl: 50ms is not between 100 ms and 3600 s"},
        {"lock a --ttl soon -- true", "\"soon\" is not a time like"},
    };
    char line[SHELL_LINE_MAX];

    for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
        (void)snprintf(line, sizeof(line), "zabra %s", mistakes[i][0]);
        shell_expect(line, 2, mistakes[i][1]);
    }
}

/* A terminal is asked for confirmation; script(1) makes one. */
TEST(a_terminal_is_asked_for_confirmation)
{
    fixture_make();
    shell_expect("echo n | script -qec 'zabra rm -r $P/here' /dev/null", 1,
                 "and the 1 znode below it?");
    shell_expect("zabra ls $P/here", 0, "kid");
    shell_expect("echo y | script -qec 'zabra rm -r $P/here' /dev/null", 0, "[y/N]");
    shell_expect("zabra ls $P/here", 3, "NoNode");
    shell_expect("echo y | script -qec 'zabra rm -r $P/num' /dev/null && zabra stat $P/num", 3,
                 "NoNode");
    shell_expect("script -qec 'zabra rm -rf $P/num' /dev/null </dev/null", 0, "");
}

/* An error quotes the argument as it was given. */
TEST(errors_quote_the_given_argument)
{
    fixture_make();
    shell_expect("head -c 2000000 /dev/zero | zabra create $P/big -", 10,
                 "/big: the body is larger");
    shell_expect("zabra create $P/big --acl nonsense", 2, "/big: Zk-Acl must be");
    shell_expect("zabra create $P/no/such", 3, "/no/such: the parent does not exist");
    shell_expect("printf '%s\n' '{\"op\":\"check\",\"path\":\"/\"}' "
                 "'{\"op\":\"set\",\"path\":\"/x\",\"vresion\":1}' | zabra multi",
                 2, "zabra multi: ops[1]: vresion is not a member");
    shell_expect("zabra quota $P/slip --count 5", 0,
                 "/slip does not exist yet; its quota is set\n");
    assert_int_equal(shell("zabra quota $P/slip --clear"), 0);
    shell_expect("zabra queue psuh mail x", 2, "\"psuh\" is not one of push, pop, peek, len");
    shell_expect("zabra get $P/closed", 5, "(NoAuth); the request had no user (--user)");
    shell_expect("zabra get $P/closed --user bob --password-file $D/wrong", 5, "(NoAuth)\n");
}

/* ---- Credentials, endpoints, retries ---- */

TEST(credentials)
{
    fixture_make();
    shell_expect("zabra get $P/closed --user bob --password-file $D/pw", 0, "");
    shell_expect("zabra get $P/closed --user bob --password-file $D/wrong", 5, "NoAuth");
    shell_expect("ZABRA_USER=bob ZABRA_PASSWORD_FILE=$D/pw zabra set $P/closed x", 0, "");
    shell_expect(
        "mkdir -p $D/zabra; printf 'user=bob\\npassword-file=%s/pw\\n' $D >$D/zabra/config; "
        "chmod 600 $D/zabra/config; XDG_CONFIG_HOME=$D zabra get $P/closed",
        0, "x");
    shell_expect("chmod 644 $D/zabra/config; XDG_CONFIG_HOME=$D zabra get $P/here", 2, "chmod 600");
    shell_expect(
        "chmod 644 $D/pw; zabra get $P/closed --user bob --password-file $D/pw; c=$?; chmod 600 "
        "$D/pw; exit $c",
        2, "all users may read");
    shell_expect("setsid zabra get $P/closed --user bob </dev/null", 2, "--password-file");
    shell_expect("ZABRA_SESSION=00000000-0000-4000-8000-000000000000 zabra get $P/here", 8,
                 "SessionExpired");
}

/* An endpoint without a replica, and one that hangs. */
TEST(other_replicas_are_tried)
{
    char line[SHELL_LINE_MAX];
    uint32_t hung = 0;

    fixture_make();
    shell_expect("zabra get $P/here --endpoints 127.0.0.1:1,$ZABRA_ENDPOINTS", 0, "hello");
    hung = (ensemble_wait_leader(&ensemble) + 1) % 3;
    (void)snprintf(line, sizeof(line),
                   "zabra create $P/hung x --timeout 12s --endpoints 127.0.0.1:%u,$ZABRA_ENDPOINTS",
                   ensemble.replicas[hung].client_port);
    ensemble_signal(&ensemble, hung, SIGSTOP);
    shell_expect(line, 0, "/hung");
    ensemble_signal(&ensemble, hung, SIGCONT);
    shell_expect("zabra get $P/hung --endpoints ${ZABRA_ENDPOINTS%%,*} --linearizable", 0, "x");
}

/* Half of the answers are lost: an executed write is not executed again. */
TEST(retries_are_safe)
{
    static struct proxy proxies[3];

    fixture_make();
    for (uint32_t i = 0; i < 3; i++) {
        proxy_start(&proxies[i], ensemble.replicas[i].client_port, LOST_PERCENT, i + 1);
    }
    assert_int_equal(
        shell("export ZABRA_ENDPOINTS=127.0.0.1:%u,127.0.0.1:%u,127.0.0.1:%u; for i in "
              "$(seq %d); do zabra incr $P/num --timeout 60s && zabra create -s "
              "$P/here/job- --timeout 60s || exit 1; done",
              proxies[0].port, proxies[1].port, proxies[2].port, (int)TRIES),
        0);
    for (uint32_t i = 0; i < 3; i++) {
        proxy_stop(&proxies[i]);
    }
    ENSEMBLE_CHECK(&ensemble, atomic_load(&proxies[0].dropped) > 0);
    assert_int_equal(shell("zabra get $P/num"), 0);
    assert_int_equal(strtoul(shell_output, NULL, 10), 5 + TRIES);
    assert_int_equal(shell("zabra ls $P/here | grep -c job"), 0);
    assert_int_equal(strtoul(shell_output, NULL, 10), TRIES);
}

/* Concurrent increments: none is lost, no sum is printed twice. */
TEST(concurrent_counting)
{
    fixture_make();
    assert_int_equal(shell("for i in $(seq %d); do (for j in $(seq %d); do zabra incr $P/count -c "
                           "--timeout 60s || exit 1; done) & done; wait",
                           (int)COUNTERS, (int)COUNTS),
                     0);
    (void)memcpy(other, shell_output, sizeof(shell_output));
    assert_int_equal(shell("printf '%%s' '%s' | sort -un | wc -l", other), 0);
    assert_int_equal(strtoul(shell_output, NULL, 10), COUNTERS * COUNTS);
    assert_int_equal(shell("zabra get $P/count"), 0);
    assert_int_equal(strtoul(shell_output, NULL, 10), COUNTERS * COUNTS);
}

/* A znode that is added during the move of a subtree is moved too, or refused. None is lost. */
TEST(moving_while_it_grows)
{
    fixture_make();
    assert_int_equal(shell("zabra create $P/src; (for i in $(seq %d); do zabra create $P/src/c$i "
                           "2>/dev/null || zabra create $P/dst/c$i; done) & zabra mv $P/src $P/dst "
                           "--timeout 60s; code=$?; wait; exit $code",
                           (int)GROWS),
                     0);
    assert_int_equal(shell("zabra ls $P/dst | grep -c c"), 0);
    assert_int_equal(strtoul(shell_output, NULL, 10), GROWS);
    shell_expect("zabra stat $P/src", 3, "NoNode");
}

/* Only the copied znode is deleted: not a new one with its name, nor one with a changed ACL. */
TEST(a_move_deletes_only_the_copied_znode)
{
    fixture_make();
    shell_expect("zabra mv $P/num $P/moved --curl | tail -1 >$D/line; zabra rm $P/num; "
                 "zabra create $P/num other; sh $D/line",
                 0, "BadVersion");
    shell_expect("zabra mv $P/num $P/moved --curl | tail -1 >$D/line; "
                 "zabra acl $P/num world:anyone:rd; sh $D/line",
                 0, "BadVersion");
    shell_expect("zabra get $P/moved", 3, "NoNode");
    shell_expect("zabra get $P/num", 0, "other");
    shell_expect("zabra mv $P/num $P/moved && zabra acl $P/moved", 0, "world:anyone:dr");
}

/* Another client was quicker: the text is kept in a file, and the error names it. */
TEST(an_edit_is_not_lost)
{
    fixture_make();
    shell_expect("EDITOR='zabra set $P/here theirs; echo mine >' zabra edit $P/here", 4,
                 "your text is in");

    char *name = strstr(shell_output, ensemble.dir);

    assert_non_null(name);
    name[strcspn(name, "\n")] = '\0';
    shell_expect("zabra get $P/here", 0, "theirs");
    assert_int_equal(shell("cat $D/zabra-edit-*; rm $D/zabra-edit-*"), 0);
    assert_string_equal(shell_output, "mine\n");
    shell_expect("EDITOR=false zabra edit $P/here", 1, "nothing was saved");
    shell_expect("rm $D/zabra-edit-*; EDITOR=true zabra edit $P/here", 0, "not changed");
    shell_expect("zabra edit $P/num && ls $D/zabra-edit-*", 2, "");
    shell_expect("EDITOR='echo new >' zabra edit -c $P/fresh && zabra get $P/fresh", 0, "new");
}

/* Copied: ACL, null data, container, TTL. Not copied: znodes of a session. */
TEST(attributes_that_a_copy_keeps)
{
    fixture_make();
    shell_expect(
        "zabra create $P/here/null --null && zabra create $P/here/box --container && zabra create "
        "$P/here/ttl --ttl 1h && zabra acl $P/here/kid world:anyone:rd",
        0, "");
    shell_expect("zabra cp -r $P/here $P/copy && zabra mv $P/copy $P/deep/moved -p", 0, "");
    assert_int_equal(shell("zabra api GET /export/v1$P/here | sed -e 1d -e 's/,\"stat.*//'"), 0);
    (void)memcpy(other, shell_output, sizeof(shell_output));
    assert_int_equal(shell("zabra api GET /export/v1$P/deep/moved | sed -e 1d -e 's/,\"stat.*//'"),
                     0);
    assert_string_equal(shell_output, other);
    assert_non_null(strstr(shell_output, "\"container\":true"));
    assert_non_null(strstr(shell_output, "\"ttl\":3600000"));
    assert_non_null(strstr(shell_output, "\"null\":true"));
    shell_expect("zabra get $P/copy", 3, "NoNode");
    shell_expect(
        "export ZABRA_SESSION=$(zabra api POST '/sessions/v1/?op=create&expire=30' | sed "
        "'s/.*\"id\":\"\\([^\"]*\\).*/\\1/'); zabra create -e $P/here/eph && zabra mv $P/here "
        "$P/x -o json; c=$?; zabra cp -r $P/here $P/y; zabra api DELETE /sessions/v1/; exit $c",
        4, "Ephemeral");
    shell_expect("zabra ls $P/y", 0, "box\nkid\nnull\nttl\n");
    assert_int_equal(
        shell("for i in $(seq 1100); do echo '{\"op\":\"create\",\"path\":\"'$P/num/$i'"
              "\"}'; done | head -900 >$D/ops; zabra multi $D/ops >/dev/null"),
        0);
    shell_expect("zabra mv $P/num $P/many", 10, "zabra export");
    shell_expect("zabra cp -r $P/num $P/many", 0, "");
}
