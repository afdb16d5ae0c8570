/* The command line over https: every kind of command, and each mistake. The replicas speak both, so
 * that the helpers of this folder can use plain HTTP. */
#include "tests/lib/cert_kit.h"
#include "tests/lib/unit.h"
#include "tests/proc/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LIST_MAX = 512,
    DAY_S = 24 * 60 * 60
};

static struct cert_kit kit;
static struct ensemble ensemble;
static char plain[LIST_MAX]; /* All replicas, by http. */
static char first[LIST_MAX]; /* The first replica, by https. */

static void name_endpoints(void)
{
    char secure[LIST_MAX] = "";
    size_t secure_len = 0;
    size_t plain_len = 0;

    for (uint32_t i = 0; i < ensemble.count; i++) {
        secure_len += (size_t)snprintf(secure + secure_len, sizeof(secure) - secure_len,
                                       "%shttps://localhost:%u", i ? "," : "",
                                       ensemble.replicas[i].client_port);
        plain_len +=
            (size_t)snprintf(plain + plain_len, sizeof(plain) - plain_len, "%s127.0.0.1:%u",
                             i ? "," : "", ensemble.replicas[i].client_port);
    }
    (void)snprintf(first, sizeof(first), "https://127.0.0.1:%u", ensemble.replicas[0].client_port);
    assert_int_equal(setenv("ZABRA_ENDPOINTS", secure, 1), 0);
    assert_int_equal(setenv("ZABRA_CA", CERT_KIT_PATH(&kit, "ca.pem"), 1), 0);
    assert_int_equal(setenv("C", kit.dir, 1), 0);
    assert_int_equal(setenv("FIRST", first, 1), 0);
    assert_int_equal(setenv("PLAIN", plain, 1), 0);
}

static void open_all(void)
{
    static char keys[ENSEMBLE_KEYS_MAX];

    cert_kit_open(&kit);
    cert_kit_add_server(&kit, "server", "s");
    cert_kit_add_client(&kit, "bob");
    ensemble_tls_keys(kit.dir, "server", "optional", "ask", "", keys);
    ensemble_launch(&ensemble, 3, keys);
    shell_open(&ensemble);
    fixture_open(&ensemble);
    name_endpoints();
}

static void close_all(void)
{
    assert_int_equal(unsetenv("ZABRA_CA"), 0);
    ensemble_close(&ensemble);
    cert_kit_close(&kit);
}

TEST_GROUP(open_all, close_all)

TEST(commands_speak_https)
{
    static const struct {
        const char *line;
        const char *said;
    } lines[] = {
        {"zabra get $P/here", "hello"},
        {"zabra set $P/here hallo && zabra get $P/here", "hallo"},
        {"zabra create $P/new x", "/new"},
        {"zabra get $P/closed --user bob --password-file $D/pw", ""},
        {"zabra ls $P", "here"},
        {"zabra tree $P", "kid"},
        {"zabra find $P --name kid", "/here/kid"},
        {"zabra stat $P/here", "version"},
        {"zabra incr $P/num", "6"},
        {"zabra cp $P/here $P/copy -r && zabra get $P/copy/kid; zabra ls $P", "copy"},
        {"zabra acl $P/here", "world:anyone"},
        {"zabra quota", ""},
        {"zabra whoami -o json", "ids"},
        {"zabra export $P/here >$D/out && zabra import $P/again $D/out && zabra ls $P/again",
         "kid"},
        {"zabra status -o json | grep -c '\"endpoint\":\"https://'", "1"},
        {"zabra members", "leader"},
        {"zabra metrics zabra_znodes", "zabra_znodes"},
        {"zabra lock l -- echo inside", "inside"},
        {"zabra session -- sh -c 'zabra create $P/mine --ephemeral'", "/mine"},
        {"CA=$ZABRA_CA; unset ZABRA_CA; zabra session --ca $CA -- zabra get $P/here", "hallo"},
        {"zabra queue push $P/q one && zabra queue pop $P/q", "one"},
        {"zabra bench mix -c 8 -t 500ms --endpoints $FIRST -o json", "\"errors\":0"},
        {"zabra bench watch -c 8 -t 500ms -o json", "\"what\":\"event\""},
        {"zabra get $P/here --curl | sh", "hallo"},
        {"printf 'get /\\nls /\\n' | zabra shell", "zookeeper"},
        {"zabra rm -ry $P/again", ""},
    };

    fixture_make();
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        shell_expect(lines[i].line, 0, lines[i].said);
    }
}

TEST(a_watch_reads_events_over_https)
{
    fixture_make();
    shell_expect("eval \"$LIB\"; zabra watch $P/here --once -o json >$D/events & "
                 "await 'grep -q watch $D/events'; zabra set $P/here x; wait; cat $D/events",
                 0, "NodeDataChanged");
}

TEST(mistakes_are_named)
{
    shell_expect("ZABRA_CA= zabra ls / 2>&1", 6, "is unknown here; name its file with --ca");
    shell_expect("zabra ls / --ca $C/nope 2>&1", 2, "No such file or directory");
    shell_expect("zabra ls / --endpoints 127.0.0.1:1 --ca $C/ca.pem 2>&1", 2,
                 "of use only with an endpoint that begins with https://");
    shell_expect("zabra ls / --cert $C/bob.pem 2>&1", 2, "--key is missing");
    shell_expect("ZABRA_CA= zabra export / 2>&1", 6, "name its file with --ca");
    shell_expect("ZABRA_CA= zabra import / $D/data 2>&1", 6, "name its file with --ca");
    shell_expect("ZABRA_CA= timeout 20 zabra watch / 2>&1", 6, "name its file with --ca");
    shell_expect("ZABRA_CA= zabra watch / --endpoints $FIRST 2>&1", 6, "name its file with --ca");
    shell_expect("ZABRA_CA= zabra bench -t 100ms 2>&1", 6, "name its file with --ca");
    shell_expect("ZABRA_CA= zabra status 2>&1", 6, "name its file with --ca");
    shell_expect("ZABRA_CA= zabra lock l -- true 2>&1", 125, "name its file with --ca");
    shell_expect("ZABRA_CA= zabra doctor --endpoints $FIRST 2>&1", 1, "error tls: ");
    shell_expect("ZABRA_CA= zabra ls / -o json 2>&1", 6, "\"code\":\"Tls\"");
}

/* ---- The options of cert ---- */

TEST(an_option_of_another_action_of_cert_is_refused)
{
    shell_expect("zabra cert show $C/bob.pem --san x 2>&1", 2, "'cert show' has no option --san");
    shell_expect("zabra cert show $C/bob.pem --host y 2>&1", 2, "'cert show' has no option --host");
    shell_expect("zabra cert show $C/bob.pem --id 3 2>&1", 2, "'cert show' has no option --id");
    shell_expect("zabra cert show $C/bob.pem --ca $C/ca.pem 2>&1", 2, "no option --ca");
    shell_expect("zabra cert check $C/bob.pem --san x 2>&1", 2, "'cert check' has no option --san");
    shell_expect("zabra cert check $C/bob.pem --id three --cluster c 2>&1", 2,
                 "--id must be the number of the replica");
    shell_expect("zabra cert check $C/bob.pem --id 0 --cluster c 2>&1", 2,
                 "--id must be the number of the replica");
    shell_expect("zabra cert check $C/bob.pem --id 1 --cluster c/d 2>&1", 2,
                 "is not the name or id of a cluster");
    shell_expect("zabra cert ca --dir $D/x --san x 2>&1", 2, "'cert ca' has no option --san");
    shell_expect("zabra cert client --dir $D/x --name n --host h 2>&1", 2, "no option --host");
    shell_expect("zabra cert show $C/bob.pem", 0, "CN=bob");
    shell_expect("zabra cert check $C/bob.pem --ca $C/ca.pem", 0, "is in order");
}

/* ---- Only https ---- */

TEST(a_port_that_wants_tls_says_so)
{
    struct ensemble strict;
    char keys[ENSEMBLE_KEYS_MAX];
    char line[LIST_MAX];
    uint16_t port = 0;

    ensemble_tls_keys(kit.dir, "server", "required", "required", "", keys);
    ensemble_open(&strict, 1, keys);
    ensemble_start(&strict, 0);
    port = strict.replicas[0].client_port;
    (void)snprintf(line, sizeof(line), "https://localhost:%u", port);
    assert_int_equal(setenv("STRICT", line, 1), 0);
    (void)snprintf(line, sizeof(line), "127.0.0.1:%u", port);
    assert_int_equal(setenv("STRICT_PLAIN", line, 1), 0);
    shell_expect("eval \"$LIB\"; await 'zabra create /a b --endpoints $STRICT --cert $C/bob.pem "
                 "--key $C/bob.key'; zabra get /a --endpoints $STRICT --cert $C/bob.pem --key "
                 "$C/bob.key",
                 0, "b");
    shell_expect("zabra get /a --endpoints $STRICT 2>&1", 6, "--cert and --key");
    shell_expect("zabra get /a --endpoints $STRICT_PLAIN 2>&1", 6, "write https://");
    shell_expect("zabra get /a --endpoints $STRICT_PLAIN,$STRICT --cert $C/bob.pem --key "
                 "$C/bob.key",
                 0, "b");
    assert_int_not_equal(shell("zabra set /a c --endpoints $STRICT_PLAIN 2>&1"), 0);
    assert_non_null(strstr(shell_output, "https"));
    shell_expect("zabra get /a --endpoints $STRICT --cert $C/bob.pem --key $C/bob.key", 0, "b");
    ensemble_close(&strict);
}

/* ---- The doctor ---- */

/* A certificate of the kit that ends in `days`. */
static void add_ending(const char *name, int days)
{
    int64_t now_s = os_wall_ms() / 1000;
    struct issue_request request = {.kind = ISSUE_SERVER,
                                    .common = "s",
                                    .names = CERT_KIT_LOCAL,
                                    .from_s = now_s - ISSUE_EARLY_S,
                                    .until_s = now_s + (int64_t)days * DAY_S};
    struct issue_pair pair;

    cert_kit_make_dated(&request, &kit.ca, &pair);
    cert_kit_put(&kit, name, &pair);
    issue_release(&pair);
}

TEST(the_doctor_sees_a_certificate_that_ends_and_a_failed_reload)
{
    struct ensemble one;
    char keys[ENSEMBLE_KEYS_MAX];
    char line[LIST_MAX];

    add_ending("ending", 10);
    ensemble_tls_keys(kit.dir, "ending", "optional", NULL, "", keys);
    ensemble_launch(&one, 1, keys);
    (void)snprintf(line, sizeof(line), "https://localhost:%u", one.replicas[0].client_port);
    assert_int_equal(setenv("ONE", line, 1), 0);
    shell_expect("zabra doctor --endpoints $ONE", 1, "warning certificate-expires: ");
    shell_expect("zabra doctor --endpoints $ONE", 1, "a certificate expires in 10.0 days");

    /* A new certificate is loaded without a restart. */
    add_ending("ending", 100);
    shell_expect("eval \"$LIB\"; await 'zabra doctor --endpoints $ONE'; zabra doctor --endpoints "
                 "$ONE",
                 0, "no problem found");
    cert_kit_write(&kit, "ending.pem", slice_str("nonsense"));
    shell_expect("eval \"$LIB\"; await 'zabra doctor --endpoints $ONE | grep -q "
                 "certificate-reload'; zabra doctor --endpoints $ONE",
                 1, "could not load its certificates again (");
    add_ending("ending", 100);
    shell_expect("eval \"$LIB\"; await 'zabra doctor --endpoints $ONE'; zabra doctor --endpoints "
                 "$ONE",
                 0, "no problem found");
    ensemble_close(&one);
}
