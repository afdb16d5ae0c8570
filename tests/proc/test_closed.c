/* Closed mode on real replicas: clients without an identity, lists that new znodes inherit, and
 * what the command line says about both. */
#include "tests/lib/unit.h"
#include "tests/proc/shell.h"

#include <stdio.h>
#include <string.h>

#define BOB_LIST "digest:bob:ikIaKsbtGweaHnb/jKn7OHqbunM=:cdrwa" /* bob:pw */
#define AS_BOB   " --user bob --password-file $D/pw"

static struct ensemble ensemble;

static void open_shell(void)
{
    shell_open(&ensemble);
    assert_int_equal(shell("umask 077; echo pw >$D/pw; echo wrong >$D/wrong"), 0);
}

static void open_three(void)
{
    ensemble_launch(&ensemble, 3, "requireIdentity=true\ninheritAcl=true\n");
    open_shell();
}

static void close_all(void)
{
    ensemble_close(&ensemble);
}

/* Each replica answers the same, with all that was written before. */
static void expect_everywhere(const char *command, const char *said)
{
    char line[SHELL_LINE_MAX];

    for (uint32_t i = 0; i < ensemble.count; i++) {
        (void)snprintf(line, sizeof(line), "%s --endpoints 127.0.0.1:%u --linearizable" AS_BOB,
                       command, ensemble.replicas[i].client_port);
        shell_expect(line, 0, said);
    }
}

TEST_GROUP(open_three, close_all)

TEST(without_an_identity_only_probes_are_answered)
{
    for (uint32_t i = 0; i < ensemble.count; i++) {
        assert_int_equal(ensemble_call(&ensemble, i, "GET", "/znodes/v1/", NULL), 401);
        assert_string_equal(web_header(&ensemble.reply, "WWW-Authenticate"),
                            "Basic realm=\"zabra\", charset=\"UTF-8\"");
        assert_int_equal(ensemble_call(&ensemble, i, "GET", "/metrics", NULL), 401);
        assert_int_equal(ensemble_call(&ensemble, i, "PUT", "/znodes/v1/?upsert=true", "x"), 401);
        assert_int_equal(web_do(ensemble.web,
                                &(struct web_call){.port = ensemble.replicas[i].client_port,
                                                   .path = "/metrics",
                                                   .headers = "Authorization: Basic ?"},
                                &ensemble.reply),
                         401);
        assert_non_null(strstr(buf_cstr(&ensemble.reply.body), "\"code\":\"AuthFailed\""));
        assert_int_equal(ensemble_call(&ensemble, i, "GET", "/livez", NULL), 200);
        assert_int_equal(ensemble_call(&ensemble, i, "GET", "/readyz", NULL), 200);
    }
}

TEST(the_command_line_names_the_missing_user)
{
    shell_expect("zabra get /", 5, "the request had no user (--user)");
    shell_expect("zabra create /none", 5, "requireIdentity");
    shell_expect("zabra status", 5, "--user");
    shell_expect("zabra ls /" AS_BOB, 0, "zookeeper");
    shell_expect("zabra status" AS_BOB, 0, "leader ");
    shell_expect("eval \"$LIB\"; await 'zabra doctor" AS_BOB " | grep -q \"no problem found\"'", 0,
                 "");
    shell_expect("zabra doctor" AS_BOB, 0, "3 replicas asked");
    shell_expect("zabra doctor", 1, "For 401 check --user");
    shell_expect("zabra watch /", 5, "--user");
    shell_expect("zabra export /", 5, "--user");
    shell_expect("zabra metrics", 5, "--user");
}

TEST(new_znodes_have_the_list_of_their_parent_on_every_replica)
{
    shell_expect("zabra create /p --acl " BOB_LIST AS_BOB, 0, "/p");
    shell_expect("zabra create /p/a x" AS_BOB " --endpoints ${ZABRA_ENDPOINTS##*,}", 0, "/p/a");
    shell_expect("zabra create /p/b/c/d x -p" AS_BOB, 0, "/p/b/c/d");
    shell_expect("zabra set /p/s x --create" AS_BOB, 0, "");
    shell_expect("printf '%s\\n' '{\"path\":\"one\",\"dataUtf8\":\"1\"}' "
                 "'{\"path\":\"one/two\",\"dataUtf8\":\"2\"}' | zabra import /p/i -p" AS_BOB,
                 0, "");
    expect_everywhere("zabra acl /p/a", BOB_LIST);
    expect_everywhere("zabra acl /p/b/c", BOB_LIST);
    expect_everywhere("zabra acl /p/b/c/d", BOB_LIST);
    expect_everywhere("zabra acl /p/s", BOB_LIST);
    expect_everywhere("zabra acl /p/i/one/two", BOB_LIST);
    /* An import that overwrites does not open what a line leaves out. */
    shell_expect("echo '{\"path\":\"one\",\"dataUtf8\":\"3\"}' | "
                 "zabra import /p/i --conflict overwrite" AS_BOB,
                 0, "");
    expect_everywhere("zabra get /p/i/one", "3");
    expect_everywhere("zabra acl /p/i/one", BOB_LIST);
    /* An invented user, and bob's name with another password, are identities without permission. */
    shell_expect("zabra get /p/a --user eve --password-file $D/pw", 5, "NoAuth");
    shell_expect("zabra get /p/a --user bob --password-file $D/wrong", 5, "NoAuth");
}

/* ---- Open znodes below restricted ones, and lists of subtrees ---- */

TEST(create_warns_of_a_znode_more_open_than_its_parent)
{
    shell_expect("zabra create /w --acl " BOB_LIST AS_BOB, 0, "/w");
    shell_expect("zabra create /w/in" AS_BOB " 2>&1", 0, "/w/in");
    shell_expect("zabra create /w/in2" AS_BOB " 2>&1 | grep -c warning", 1, "0");
    shell_expect("zabra stat /w/in2" AS_BOB, 0, "czxid");
    shell_expect("zabra create /w/out --acl open" AS_BOB " 2>&1", 0,
                 "warning: /w/out has world:anyone:cdrwa, which its parent /w does not give");
    shell_expect("zabra create /w/some --acl world:anyone:r," BOB_LIST AS_BOB " 2>&1", 0,
                 "/w/some has world:anyone:r,");
    shell_expect("zabra create /w/out2 --acl open" AS_BOB " -o json 2>/dev/null | jq -r .path", 0,
                 "/w/out2");
    shell_expect("zabra create /open --acl open" AS_BOB " 2>&1 | grep -c warning", 1, "0");
    shell_expect("zabra create /open/in --acl open" AS_BOB " 2>&1 | grep -c warning", 1, "0");
    shell_expect("zabra stat /open/in" AS_BOB, 0, "czxid");
    shell_expect("zabra create /w/shown --acl open --curl" AS_BOB " 2>&1", 0, "curl");
}

TEST(acl_sets_the_list_of_a_subtree)
{
    shell_expect("zabra create /t/a/b -p" AS_BOB " && zabra create /t/a/c" AS_BOB
                 " && zabra create /t/d --acl " BOB_LIST AS_BOB " >/dev/null",
                 0, "/t/a/c");
    shell_expect("zabra acl -R /t " BOB_LIST " --max 4" AS_BOB, 10, "no ACL was changed");
    expect_everywhere("zabra acl /t/a/b", "world:anyone:cdrwa");
    shell_expect("zabra acl -R /t " BOB_LIST AS_BOB, 0, "5 znodes, 4 ACLs set");
    expect_everywhere("zabra acl /t", BOB_LIST);
    expect_everywhere("zabra acl /t/a/b", BOB_LIST);
    expect_everywhere("zabra acl /t/a/c", BOB_LIST);
    /* What is set already is not written again: so a second run continues the first one. */
    shell_expect("zabra acl -R /t " BOB_LIST AS_BOB, 0, "5 znodes, 0 ACLs set");
    shell_expect("zabra acl -R /t creator" AS_BOB, 0, "5 znodes, 0 ACLs set");
    shell_expect("zabra acl -R /t auth::cdrwa" AS_BOB " -o json | jq -c .", 0,
                 "{\"path\":\"/t\",\"znodes\":5,\"set\":0,\"gone\":0,\"denied\":[],"
                 "\"unreadable\":[]}");
    /* The list is the same, however it is typed; and an entry is not the end of another one. */
    shell_expect("zabra acl -R /t digest:bob:ikIaKsbtGweaHnb/jKn7OHqbunM=:ccddrrwwaa" AS_BOB, 0,
                 "5 znodes, 0 ACLs set");
    shell_expect("zabra acl -R /t x509:world:anyone:r,auth::cdrwa" AS_BOB, 0, "5 ACLs set");
    shell_expect("zabra acl -R /t x509:world:anyone:r,auth::cdrwa,world:anyone:r" AS_BOB, 0,
                 "5 ACLs set");
    expect_everywhere("zabra acl /t/a/b", "\nworld:anyone:r\n");
    shell_expect("zabra acl -R /t/none open" AS_BOB, 3, "NoNode");
    shell_expect("zabra acl -R /t" AS_BOB, 2, "--recursive needs a whole list");
    shell_expect("zabra acl -R /t open --version 1" AS_BOB, 2, "no --version");
    shell_expect("zabra acl /t open --max 1" AS_BOB, 2, "--max needs --recursive");
    shell_expect("zabra acl -R /t everything" AS_BOB, 2, "is not open, read, creator");
    shell_expect("zabra acl -R /t open --curl" AS_BOB, 2, "--curl cannot show them");
}

#define AS_EVE " --user eve --password-file $D/pw"

/* Eve may not set the list of one znode, and not read another one: the rest is set, and a second
 * run says the same. */
TEST(znodes_that_cannot_be_set_are_named_and_skipped)
{
    shell_expect("zabra create /e --acl open" AS_BOB " && zabra create /e/1 --acl open" AS_BOB
                 " && zabra create /e/2 --acl world:anyone:cdr," BOB_LIST AS_BOB
                 " && zabra create /e/2/in --acl open" AS_BOB
                 " && zabra create /e/3 --acl " BOB_LIST AS_BOB
                 " && zabra create /e/3/in --acl open" AS_BOB
                 " && zabra create /e/4 --acl world:anyone:cdrwa" AS_BOB " 2>/dev/null",
                 0, "/e/4");
    shell_expect("zabra acl -R /e world:anyone:ra" AS_EVE, 9,
                 "4 ACLs were set; 1 could not be set, and the znodes below 1 could not be read");
    expect_everywhere("zabra acl /e", "world:anyone:ra");
    expect_everywhere("zabra acl /e/1", "world:anyone:ra");
    expect_everywhere("zabra acl /e/2/in", "world:anyone:ra");
    expect_everywhere("zabra acl /e/4", "world:anyone:ra");
    expect_everywhere("zabra acl /e/3/in", "world:anyone:cdrwa");
    shell_expect("zabra acl -R /e world:anyone:ra" AS_EVE " 2>&1", 9,
                 "/e/2: not set: admin permission is missing");
    shell_expect("zabra acl -R /e world:anyone:ra" AS_EVE " 2>&1", 9,
                 "/e/3: read permission is missing");
    shell_expect(
        "zabra acl -R /e world:anyone:ra" AS_EVE " -o json | jq -c .error.acl,.error.exit_code", 0,
        "{\"path\":\"/e\",\"znodes\":6,\"set\":0,\"gone\":0,\"denied\":[\"/e/2\"],"
        "\"unreadable\":[\"/e/3\"]}\n9\n");
    /* Bob may: the same command sets the rest. */
    shell_expect("zabra acl -R /e world:anyone:ra" AS_BOB, 0, "7 znodes, 3 ACLs set");
}

/* The new list shuts out the caller: the znodes below are set first, so that nothing is left over
 * behind a znode that the caller can no longer read. */
TEST(a_list_without_the_caller_is_set_on_the_whole_subtree)
{
    shell_expect("zabra create /g/a/b/c -p --acl open" AS_BOB
                 " && zabra create /g/d --acl open" AS_BOB " 2>/dev/null",
                 0, "/g/d");
    shell_expect("zabra acl -R /g " BOB_LIST AS_EVE, 0, "5 znodes, 5 ACLs set");
    expect_everywhere("zabra acl /g/a/b/c", BOB_LIST);
    expect_everywhere("zabra acl /g", BOB_LIST);
    shell_expect("zabra acl -R /g " BOB_LIST AS_EVE, 5, "NoAuth");
}

/* ---- The system's znodes ---- */

/* Below an open /zookeeper/quota only clients that administer a subtree can limit it. */
TEST(a_quota_needs_admin_on_its_subtree)
{
    shell_expect("zabra create /q --acl " BOB_LIST AS_BOB " && zabra create /q/in" AS_BOB, 0, "/q");
    shell_expect("zabra quota /q --count 2" AS_EVE, 5, "needs the permission admin");
    shell_expect("zabra quota /q/in --bytes 1" AS_EVE, 5, "needs the permission admin");
    shell_expect("zabra quota /q/later --bytes 1" AS_EVE, 5, "needs the permission admin");
    shell_expect("zabra quota /q --count 2" AS_BOB, 0, "");
    shell_expect("zabra quota /q --clear" AS_EVE, 5, "needs the permission admin");
    shell_expect("zabra rm -r -y /zookeeper/quota/q" AS_EVE, 5, "needs the permission admin");
    shell_expect("zabra create /q/more" AS_BOB, 10, "QuotaExceeded");
    shell_expect("zabra quota /q --clear" AS_BOB " && zabra create /q/more" AS_BOB, 0, "/q/more");
}

/* The last test of the group: it closes the root. */
TEST(the_whole_tree_is_closed_with_the_systems_znodes)
{
    static const char *const paths[] = {"/", "/zookeeper", "/zookeeper/quota"};

    shell_expect("zabra create /quoted x --acl open" AS_BOB
                 " && zabra quota /quoted --count 5 >/dev/null" AS_BOB,
                 0, "/quoted");
    shell_expect("zabra acl -R / " BOB_LIST AS_BOB, 0, " ACLs set");
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        char line[SHELL_LINE_MAX];

        (void)snprintf(line, sizeof(line), "zabra acl %s", paths[i]);
        expect_everywhere(line, BOB_LIST);
        (void)snprintf(line, sizeof(line), "zabra ls %s" AS_EVE, paths[i]);
        shell_expect(line, 5, "NoAuth");
        (void)snprintf(line, sizeof(line), "zabra create %s/evil" AS_EVE, i > 0 ? paths[i] : "");
        shell_expect(line, 5, "NoAuth");
    }
    shell_expect("zabra get /zookeeper/quota/quoted/zookeeper_limits" AS_EVE, 5, "NoAuth");
    shell_expect("zabra quota /quoted --count 1" AS_EVE, 5, "NoAuth");
    shell_expect("zabra quota /none --bytes 1" AS_EVE, 5, "NoAuth");
    shell_expect("zabra stat /zookeeper/config" AS_EVE, 0, "czxid");
    shell_expect("zabra set /quoted y" AS_BOB, 0, "");
    shell_expect("zabra acl -R /zookeeper " BOB_LIST AS_BOB, 0, " 0 ACLs set");
}

/* ---- Certificates ---- */

/* Plain HTTP stays open, so that the test can see when the replicas are ready. */
static void open_certified(void)
{
    static char keys[ENSEMBLE_KEYS_MAX];
    char dir[ENSEMBLE_PATH_MAX + 4];

    ensemble_open(&ensemble, 3, NULL);
    open_shell();
    shell_expect("zabra cert ca --dir $D/c && zabra cert server --dir $D/c --name zk --san "
                 "127.0.0.1,localhost && zabra cert client --dir $D/c --name bob && "
                 "zabra cert client --dir $D/c --name eve",
                 0, "");
    (void)snprintf(dir, sizeof(dir), "%s/c", ensemble.dir);
    ensemble_tls_keys(dir, "zk", "optional", "ask", "requireIdentity=true\ninheritAcl=true\n",
                      keys);
    ensemble.keys = keys;
    ensemble_write_configs(&ensemble);
    for (uint32_t i = 0; i < ensemble.count; i++) {
        ensemble_start(&ensemble, i);
    }
    ensemble_wait_all_ready(&ensemble);
}

TEST_GROUP(open_certified, close_all)

/* Runs the command as a client with this certificate, by https, at the last replica of the list. */
static void expect_as(const char *name, const char *command, int code, const char *said)
{
    char line[SHELL_LINE_MAX];

    (void)snprintf(line, sizeof(line),
                   "%s --endpoints https://${ZABRA_ENDPOINTS##*,} --linearizable --ca $D/c/ca.pem "
                   "--cert $D/c/%s.pem --key $D/c/%s.key",
                   command, name, name);
    shell_expect(line, code, said);
}

TEST(a_certificate_is_the_identity_of_the_command_line)
{
    expect_as("bob", "zabra whoami", 0, "x509   CN=bob");
    expect_as("bob", "zabra create /c --acl creator", 0, "/c");
    expect_as("bob", "zabra create /c/in", 0, "/c/in");
    expect_as("bob", "zabra acl /c/in", 0, "x509:CN=bob:cdrwa\n");
    expect_as("eve", "zabra get /c/in", 5, "NoAuth");
    shell_expect("zabra get /c/in", 5, "--user");
    shell_expect("zabra get /c/in" AS_BOB, 5, "NoAuth");
    shell_expect("zabra session --endpoints https://${ZABRA_ENDPOINTS##*,} --ca $D/c/ca.pem --cert "
                 "$D/c/bob.pem --key $D/c/bob.key -- zabra create /c/mine -e",
                 0, "/c/mine");
}

/* What is printed is read back, also with commas in a subject. */
TEST(lists_with_subjects_are_read_as_they_are_printed)
{
    expect_as("bob",
              "zabra create /l --acl 'x509:CN=eve,O=Example:r,x509:\"CN=a:b,O=c\":r,"
              "x509:CN=bob:cdrwa'",
              0, "/l");
    expect_as("bob", "zabra acl /l", 0,
              "x509:CN=eve,O=Example:r\nx509:\"CN=a:b,O=c\":r\nx509:CN=bob:cdrwa\n");
    expect_as("bob", "zabra acl /l --remove 'x509:CN=eve,O=Example' --add 'x509:CN=eve,O=Other:r'",
              0, "");
    expect_as("bob", "zabra acl /l", 0, "x509:CN=eve,O=Other:r\n");
}

/* ---- Replicas with different settings ---- */

static void open_unlike(void)
{
    ensemble_open(&ensemble, 3, NULL);
    open_shell();
    shell_expect("for n in 1 2; do printf 'inheritAcl=true\\nrequireIdentity=true\\n' "
                 ">>$D/$n.cfg; done",
                 0, "");
    for (uint32_t i = 0; i < ensemble.count; i++) {
        ensemble_start(&ensemble, i);
    }
    ensemble_wait_all_ready(&ensemble);
}

TEST_GROUP(open_unlike, close_all)

TEST(doctor_reports_replicas_with_other_settings)
{
    shell_expect("zabra doctor -o json" AS_BOB " | cat", 0,
                 "requireIdentity is false, and true with replica 1");
    shell_expect("zabra doctor -o json" AS_BOB " | cat", 0,
                 "inheritAcl is false, and true with replica 1");
}
