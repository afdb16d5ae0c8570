/* The commands of the command line as people and scripts run them, by a shell: each of them with
 * what can become of it, exit codes, errors as JSON, and the lines of --curl, which must do the
 * same. */
#include "tests/proc/ensemble.h"
#include "tests/proc/proxy.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* bob:pw */
#define BOB_ID "bob:ikIaKsbtGweaHnb/jKn7OHqbunM="

enum {
    LINE_MAX_LEN = 1024,
    BODY_MAX = 4096,
    OUTPUT_MAX = 1 << 20,
    COUNTERS = 8,
    COUNTS = 5,
    TRIES = 15,
    GROWS = 20,
    LOST_PERCENT = 50,
    MODE_SECRET = 0600
};

static struct ensemble ensemble;
static char output[OUTPUT_MAX];
static char other[OUTPUT_MAX];
static char prefix[64];
static uint32_t fixtures;

/* ---- Running ---- */

/* Runs the line with a shell, in which `zabra` is what is tested and $P the fixture. What it prints
 * goes to `out`; the exit code. */
static int shell_to(char out[OUTPUT_MAX], const char *line)
{
    FILE *pipe = popen(line, "r");
    size_t len = 0;
    int status = 0;

    assert_non_null(pipe);
    len = fread(out, 1, OUTPUT_MAX - 1, pipe);
    out[len] = '\0';
    status = pclose(pipe);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int shell(const char *format, ...) __attribute__((format(printf, 1, 2)));

static int shell(const char *format, ...)
{
    char line[LINE_MAX_LEN];
    va_list list;

    va_start(list, format);
    assert_true(vsnprintf(line, sizeof(line), format, list) < LINE_MAX_LEN);
    va_end(list);
    return shell_to(output, line);
}

static void expect(const char *line, int code, const char *said)
{
    int got = shell("{ %s\n} 2>&1", line);

    if (got != code || !strstr(output, said)) {
        fail_msg("%s: exit code %d, not %d, and \"%s\" expected in: %s", line, got, code, said,
                 output);
    }
}

/* ---- Fixtures ---- */

/* $P/here "hello" with a child, $P/num "5", and $P/closed, which is bob's alone. */
static void make_fixture(void)
{
    char body[BODY_MAX];

    (void)snprintf(prefix, sizeof(prefix), "/f%u", fixtures++);
    (void)snprintf(body, sizeof(body),
                   "{\"ops\":[{\"op\":\"create\",\"path\":\"%s\"},"
                   "{\"op\":\"create\",\"path\":\"%s/here\",\"dataUtf8\":\"hello\"},"
                   "{\"op\":\"create\",\"path\":\"%s/here/kid\"},"
                   "{\"op\":\"create\",\"path\":\"%s/num\",\"dataUtf8\":\"5\"},"
                   "{\"op\":\"create\",\"path\":\"%s/closed\",\"acl\":[{\"perms\":[\"all\"],"
                   "\"scheme\":\"digest\",\"id\":\"" BOB_ID "\"}]}]}",
                   prefix, prefix, prefix, prefix, prefix);

    long status = web_do(ensemble.web,
                         &(struct web_call){.method = "POST",
                                            .port = ensemble.replicas[0].client_port,
                                            .path = "/multi/v1",
                                            .body = body,
                                            .headers = "Content-Type: application/json"},
                         &ensemble.reply);

    ENSEMBLE_CHECK(&ensemble, status == 200);
    assert_int_equal(setenv("P", prefix, 1), 0);
}

static int open_all(void **state)
{
    char text[LINE_MAX_LEN];
    char *slash = NULL;

    (void)state;
    ensemble_launch(&ensemble, 3, NULL);
    (void)snprintf(text, sizeof(text), "127.0.0.1:%u,127.0.0.1:%u,127.0.0.1:%u",
                   ensemble.replicas[0].client_port, ensemble.replicas[1].client_port,
                   ensemble.replicas[2].client_port);
    assert_int_equal(setenv("ZABRA_ENDPOINTS", text, 1), 0);
    (void)snprintf(text, sizeof(text), "%s", ZABRA_BINARY);
    slash = strrchr(text, '/');
    assert_non_null(slash);
    (void)snprintf(slash, sizeof(text) - (size_t)(slash - text), ":%.512s", getenv("PATH"));
    assert_int_equal(setenv("PATH", text, 1), 0);
    assert_int_equal(setenv("D", ensemble.dir, 1), 0);
    assert_int_equal(setenv("TMPDIR", ensemble.dir, 1), 0);
    assert_int_equal(setenv("XDG_CONFIG_HOME", "/nowhere", 1), 0);
    assert_int_equal(unsetenv("VISUAL"), 0);
    assert_int_equal(setenv("EDITOR", "sed -i s/hello/edited/", 1), 0);
    assert_int_equal(shell("umask 077; echo pw >$D/pw; echo no >$D/wrong; echo text >$D/data"), 0);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    ensemble_close(&ensemble);
    return 0;
}

/* ---- Each command, and what can become of it ---- */

struct row {
    const char *line; /* Without "zabra", which stands before it; -o json goes behind it. */
    int code;
    const char *said; /* Of an error its code; else a member of what is printed, "" for any. */
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
    {"create $P/new x", 0, "path"},
    {"create $P/nope/new", 3, "NoNode"},
    {"create $P/here", 4, "NodeExists"},
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
    json_t *printed = json_loads(output, JSON_DISABLE_EOF_CHECK, &fault);
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
                 row->code, row->said ? row->said : "", output);
    }
    json_decref(printed);
}

static void test_each_command_and_what_can_become_of_it(void **state)
{
    (void)state;
    make_fixture();
    assert_int_equal(shell("echo '{\"op\":\"create\",\"path\":\"'$P'/m\"}' >$D/ops"), 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *redirect = strchr(rows[i].line, '<');
        int len = redirect ? (int)(redirect - rows[i].line) : (int)strlen(rows[i].line);

        check_row(&rows[i],
                  shell("zabra %.*s -o json %s", len, rows[i].line, redirect ? redirect : ""));
    }
}

/* Nobody listens: told in the same way by each, and soon. */
static void test_no_ensemble(void **state)
{
    (void)state;
    make_fixture();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        bool first = i == 0 || strncmp(rows[i].line, rows[i - 1].line, 4) != 0;

        if (first && rows[i].code == 0) {
            struct row row = {rows[i].line, 6, "NoEnsemble"};

            check_row(&row,
                      shell("zabra %s -o json --endpoints 127.0.0.1:1 --timeout 50ms", row.line));
        }
    }
}

/* ---- --curl ---- */

/* What is there, without what differs from one time to the next. */
static void take_snapshot(char out[OUTPUT_MAX])
{
    char line[LINE_MAX_LEN];

    (void)snprintf(line, sizeof(line),
                   "zabra api GET /export/v1$P --user bob --password-file $D/pw |"
                   "sed -e 1d -e 's/\"stat\".*\"version\"/\"version\"/' -e 's/,\"pzxid.*//'; "
                   "zabra quota -o json | grep -o \"$P\\\".*\" | sed s,$P,,");
    assert_int_equal(shell_to(out, line), 0);
}

static void test_shown_reads_print_the_same(void **state)
{
    static const char *const lines[] = {
        "get $P/here",
        "get $P/here -o json",
        "get $P/here --linearizable",
        "get $P/closed --user bob --password-file $D/pw -o json",
        "stat $P/here -o json",
        "ls $P -o json",
        "ls -l $P -o json",
        "tree $P -o json",
        "find $P --name kid -o json",
        "acl $P/here -o json",
        "whoami -o json",
        "whoami -o json --user bob --password-file $D/pw",
        "api GET \"/znodes/v1$P?view=children\"",
    };

    (void)state;
    make_fixture();
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        assert_int_equal(shell("zabra %s; echo", lines[i]), 0);
        (void)memcpy(other, output, sizeof(output));
        other[strcspn(other, "\n")] = '\0';
        assert_int_equal(shell("zabra %s --curl | sh; echo", lines[i]), 0);
        output[strcspn(output, "\n")] = '\0';
        if (strcmp(output, other) != 0 || strlen(output) < 5) {
            fail_msg("zabra %s: %s, but by curl: %s", lines[i], other, output);
        }
    }
}

static void test_shown_writes_do_the_same(void **state)
{
    static const char *const lines[] = {
        "set $P/here \"it's % \\\"x\\\"\"",
        "set $P/here @$D/data --version 0",
        "set $P/made - --create --parents <$D/data",
        "set $P/here - --user bob --password-file $D/pw <$D/data",
        "set $P/closed x --user bob --password-file $D/pw",
        "set $P/here --null",
        "create $P/new x",
        "create $P/here/new --acl world:anyone:r",
        "create $P/here/sub/new --parents",
        "create $P/ttl --ttl 1h",
        "rm $P/here/kid",
        "rm -ry $P/here",
        "cp -r $P/here $P/copy",
        "mv $P/here $P/moved",
        "touch $P/num",
        "incr $P/num 37",
        "edit $P/here",
        "multi $D/ops",
        "acl $P/num read",
        "acl $P/num --add ip:127.0.0.1:rw",
        "quota $P --count 100 --bytes 1000",
        "api PUT /znodes/v1$P/here x",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        static const char ops[] = "echo '{\"op\":\"set\",\"path\":\"'$P'/num\",\"dataUtf8\":"
                                  "\"6\"}' >$D/ops";
        const char *redirect = strchr(lines[i], '<');
        int len = redirect ? (int)(redirect - lines[i]) : (int)strlen(lines[i]);
        static char before[OUTPUT_MAX];

        make_fixture();
        take_snapshot(before);
        assert_int_equal(shell(ops), 0);
        assert_int_equal(shell("zabra %s", lines[i]), 0);
        take_snapshot(other);
        make_fixture();
        assert_int_equal(shell(ops), 0);
        assert_int_equal(shell("zabra %.*s --curl >$D/line && sh $D/line %s", len, lines[i],
                               redirect ? redirect : ""),
                         0);
        take_snapshot(output);
        if (strcmp(output, other) != 0 || strcmp(before, other) == 0) {
            fail_msg("zabra %s: %s, but by curl: %s", lines[i], other, output);
        }
    }
}

static void test_shown_lines_hold_no_secret(void **state)
{
    (void)state;
    make_fixture();
    assert_int_equal(
        shell("ZABRA_SESSION=5e55 zabra set $P/here x --user bob --password-file $D/pw "
              "--curl"),
        0);
    assert_null(strstr(output, "5e55"));
    assert_null(strstr(output, "pw\""));
    expect("zabra get $P/here", 0, "hello");
}

/* ---- Output for people, lines and tables ---- */

static void test_forms_of_output(void **state)
{
    (void)state;
    make_fixture();
    expect("zabra get $P/here", 0, "hello");
    expect("zabra ls $P", 0, "closed\nhere\nnum\n");
    expect("zabra ls $P -o ndjson", 0, "{\"name\":\"closed\"}\n{\"name\":\"here\"}\n");
    expect("zabra ls -l $P/here -o table", 0, "VERSION  BYTES  CHILDREN");
    expect("LC_ALL=C zabra tree $P/here", 0, "\n`-- kid\n\n2 znodes\n");
    expect("LC_ALL=C.UTF-8 zabra tree $P/here -l", 0, "└── kid  [v0, 0 bytes]");
    expect("zabra stat $P/here -o table", 0, "children  1\n");
    expect("zabra create -s $P/here/job-", 0, "/here/job-0000000001\n");
    expect("zabra acl $P/here", 0, "world:anyone:cdrwa\n");
    expect("zabra set $P/here x --version 5", 4, "BadVersion); it is 0 now\n");
    expect("zabra get $P/nope >$D/data2", 3, "zabra get: /f");
    expect("zabra gett", 2, "did you mean get?");
    expect("zabra help exit-codes", 0, "122  lost");
    expect("zabra get --help", 0, "usage: zabra get PATH");
    expect("ZABRA_OUTPUT=json zabra get $P/nope", 3, "{\"error\":{");
}

/* On a terminal a person is asked; script(1) makes one. */
static void test_a_person_is_asked(void **state)
{
    (void)state;
    make_fixture();
    expect("echo n | script -qec 'zabra rm -r $P/here' /dev/null", 1, "and the 1 znode below it?");
    expect("zabra ls $P/here", 0, "kid");
    expect("echo y | script -qec 'zabra rm -r $P/here' /dev/null", 0, "[y/N]");
    expect("zabra ls $P/here", 3, "NoNode");
    expect("echo y | script -qec 'zabra rm -r $P/num' /dev/null && zabra stat $P/num", 3, "NoNode");
}

/* ---- Who, where, again ---- */

static void test_credentials(void **state)
{
    (void)state;
    make_fixture();
    expect("zabra get $P/closed --user bob --password-file $D/pw", 0, "");
    expect("zabra get $P/closed --user bob --password-file $D/wrong", 5, "NoAuth");
    expect("ZABRA_USER=bob ZABRA_PASSWORD_FILE=$D/pw zabra set $P/closed x", 0, "");
    expect("mkdir -p $D/zabra; printf 'user=bob\\npassword-file=%s/pw\\n' $D >$D/zabra/config; "
           "chmod 600 $D/zabra/config; XDG_CONFIG_HOME=$D zabra get $P/closed",
           0, "x");
    expect("chmod 644 $D/zabra/config; XDG_CONFIG_HOME=$D zabra get $P/here", 2, "chmod 600");
    expect("chmod 644 $D/pw; zabra get $P/closed --user bob --password-file $D/pw; c=$?; chmod 600 "
           "$D/pw; exit $c",
           2, "everybody may read");
    expect("setsid zabra get $P/closed --user bob </dev/null", 2, "--password-file");
    expect("ZABRA_SESSION=00000000-0000-4000-8000-000000000000 zabra get $P/here", 8,
           "SessionExpired");
}

/* One that is not there, and one that hangs. */
static void test_other_replicas_are_asked(void **state)
{
    char line[LINE_MAX_LEN];
    uint32_t hung = 0;

    (void)state;
    make_fixture();
    expect("zabra get $P/here --endpoints 127.0.0.1:1,$ZABRA_ENDPOINTS", 0, "hello");
    hung = (ensemble_wait_leader(&ensemble) + 1) % 3;
    (void)snprintf(line, sizeof(line),
                   "zabra create $P/hung x --timeout 12s --endpoints 127.0.0.1:%u,$ZABRA_ENDPOINTS",
                   ensemble.replicas[hung].client_port);
    ensemble_signal(&ensemble, hung, SIGSTOP);
    expect(line, 0, "/hung");
    ensemble_signal(&ensemble, hung, SIGCONT);
    expect("zabra get $P/hung --endpoints ${ZABRA_ENDPOINTS%%,*} --linearizable", 0, "x");
}

/* Half of the answers are lost: what was done already is not done a second time. */
static void test_tries_are_safe(void **state)
{
    static struct proxy proxies[3];

    (void)state;
    make_fixture();
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
    assert_int_equal(strtoul(output, NULL, 10), 5 + TRIES);
    assert_int_equal(shell("zabra ls $P/here | grep -c job"), 0);
    assert_int_equal(strtoul(output, NULL, 10), TRIES);
}

/* Many at once: none is lost, no sum comes twice. */
static void test_counting_together(void **state)
{
    (void)state;
    make_fixture();
    assert_int_equal(shell("for i in $(seq %d); do (for j in $(seq %d); do zabra incr $P/count -c "
                           "--timeout 60s || exit 1; done) & done; wait",
                           (int)COUNTERS, (int)COUNTS),
                     0);
    (void)memcpy(other, output, sizeof(output));
    assert_int_equal(shell("printf '%%s' '%s' | sort -un | wc -l", other), 0);
    assert_int_equal(strtoul(output, NULL, 10), COUNTERS * COUNTS);
    assert_int_equal(shell("zabra get $P/count"), 0);
    assert_int_equal(strtoul(output, NULL, 10), COUNTERS * COUNTS);
}

/* What is added while a subtree is moved is moved too, or comes too late: it is in neither lost. */
static void test_moving_while_it_grows(void **state)
{
    (void)state;
    make_fixture();
    assert_int_equal(shell("zabra create $P/src; (for i in $(seq %d); do zabra create $P/src/c$i "
                           "2>/dev/null || zabra create $P/dst/c$i; done) & zabra mv $P/src $P/dst "
                           "--timeout 60s; code=$?; wait; exit $code",
                           (int)GROWS),
                     0);
    assert_int_equal(shell("zabra ls $P/dst | grep -c c"), 0);
    assert_int_equal(strtoul(output, NULL, 10), GROWS);
    expect("zabra stat $P/src", 3, "NoNode");
}

/* Somebody else was quicker: the text is kept, and where is said. */
static void test_an_edit_is_not_lost(void **state)
{
    (void)state;
    make_fixture();
    expect("EDITOR='zabra set $P/here theirs; echo mine >' zabra edit $P/here", 4,
           "your text is in");

    char *name = strstr(output, ensemble.dir);

    assert_non_null(name);
    name[strcspn(name, "\n")] = '\0';
    expect("zabra get $P/here", 0, "theirs");
    assert_int_equal(shell("cat $D/zabra-edit-*; rm $D/zabra-edit-*"), 0);
    assert_string_equal(output, "mine\n");
    expect("EDITOR=false zabra edit $P/here", 1, "nothing was saved");
    expect("rm $D/zabra-edit-*; EDITOR=true zabra edit $P/here", 0, "not changed");
    expect("zabra edit $P/num && ls $D/zabra-edit-*", 2, "");
    expect("EDITOR='echo new >' zabra edit -c $P/fresh && zabra get $P/fresh", 0, "new");
}

/* Kept: ACL, null data, container, time to live. Not copied: what is of a session. */
static void test_what_is_copied(void **state)
{
    (void)state;
    make_fixture();
    expect(
        "zabra create $P/here/null --null && zabra create $P/here/box --container && zabra create "
        "$P/here/ttl --ttl 1h && zabra acl $P/here/kid world:anyone:rd",
        0, "");
    expect("zabra cp -r $P/here $P/copy && zabra mv $P/copy $P/deep/moved -p", 0, "");
    assert_int_equal(shell("zabra api GET /export/v1$P/here | sed -e 1d -e 's/,\"stat.*//'"), 0);
    (void)memcpy(other, output, sizeof(output));
    assert_int_equal(shell("zabra api GET /export/v1$P/deep/moved | sed -e 1d -e 's/,\"stat.*//'"),
                     0);
    assert_string_equal(output, other);
    assert_non_null(strstr(output, "\"container\":true"));
    assert_non_null(strstr(output, "\"ttl\":3600000"));
    assert_non_null(strstr(output, "\"null\":true"));
    expect("zabra get $P/copy", 3, "NoNode");
    expect("export ZABRA_SESSION=$(zabra api POST '/sessions/v1/?op=create&expire=30' | sed "
           "'s/.*\"id\":\"\\([^\"]*\\).*/\\1/'); zabra create -e $P/here/eph && zabra mv $P/here "
           "$P/x -o json; c=$?; zabra cp -r $P/here $P/y; zabra api DELETE /sessions/v1/; exit $c",
           4, "Ephemeral");
    expect("zabra ls $P/y", 0, "box\nkid\nnull\nttl\n");
    assert_int_equal(
        shell("for i in $(seq 1100); do echo '{\"op\":\"create\",\"path\":\"'$P/num/$i'"
              "\"}'; done | head -900 >$D/ops; zabra multi $D/ops >/dev/null"),
        0);
    expect("zabra mv $P/num $P/many", 10, "zabra export");
    expect("zabra cp -r $P/num $P/many", 0, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_command_and_what_can_become_of_it),
        cmocka_unit_test(test_no_ensemble),
        cmocka_unit_test(test_shown_reads_print_the_same),
        cmocka_unit_test(test_shown_writes_do_the_same),
        cmocka_unit_test(test_shown_lines_hold_no_secret),
        cmocka_unit_test(test_forms_of_output),
        cmocka_unit_test(test_a_person_is_asked),
        cmocka_unit_test(test_credentials),
        cmocka_unit_test(test_other_replicas_are_asked),
        cmocka_unit_test(test_tries_are_safe),
        cmocka_unit_test(test_counting_together),
        cmocka_unit_test(test_moving_while_it_grows),
        cmocka_unit_test(test_an_edit_is_not_lost),
        cmocka_unit_test(test_what_is_copied),
    };

    web_setup();
    return cmocka_run_group_tests(tests, open_all, close_all);
}
