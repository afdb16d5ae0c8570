/*
 * `zabra support`: what is in the archive; that no secret is, wherever one was put; replicas, logs
 * and disks that fail or hang.
 */
#include "tests/lib/unit.h"
#include "tests/proc/shell.h"

#include <signal.h>

static struct ensemble ensemble;

static void open_all(void)
{
    ensemble_launch(&ensemble, 3, ENSEMBLE_SUPER);
    shell_open(&ensemble);
    assert_int_equal(shell("umask 077; echo hunter2hunter2 >$D/pw"), 0);
}

static void close_all(void)
{
    ensemble_close(&ensemble);
}

TEST_GROUP(open_all, close_all)

TEST(the_archive_has_what_the_list_says)
{
    shell_expect("zabra support $D/a >$D/said && tail -n 2 $D/said", 0, "look through it");
    shell_expect("cd $D/a && ls | wc -l && stat -c %a *.tar", 0, "1\n600\n");
    shell_expect("cd $D/a && tar tf *.tar | sed 's,^[^/]*/,,' | sort | head -20 | tr '\\n' ' '", 0,
                 "doctor.json missing.json replicas/1/about.json replicas/1/ensemble.json "
                 "replicas/1/limits.json replicas/1/metrics.txt replicas/1/ready.json "
                 "replicas/1/status.json ");
    shell_expect("cd $D/a && tar xf *.tar && jq -e .replicas zabra-support-*/doctor.json", 0, "3");
    shell_expect("cd $D/a && grep -c zabra_role zabra-support-*/replicas/*/metrics.txt | wc -l", 0,
                 "3\n");
    shell_expect("jq -e .version $D/a/zabra-support-*/version.json", 0, "\"");
    /* As JSON, every file with its size. */
    shell_expect("zabra support $D/json -o json >$D/list.json && "
                 "tar tvf $(jq -r .file $D/list.json) | awk '{s += $3} END {print s}' >$D/sum && "
                 "jq .bytes $D/list.json | diff - $D/sum",
                 0, "");
}

/* A password, session, token, hash or key in the environment, settings, configuration or logs. */
TEST(no_secret_is_in_the_archive)
{
    assert_int_equal(shell("cat >$D/zk.cfg <<'END'\n"
                           "# hunter2hunter2 is the password\n"
                           "id=1\n"
                           "clientPort=9998\n"
                           "superDigest=super:hunter2hunter2\n"
                           "superX509=CN=hunter2hunter2\n"
                           "password=hunter2hunter2\n"
                           "environment=https://a:hunter2hunter2@b\n"
                           "clientport hunter2hunter2\n"
                           "END\n"
                           "cat >$D/one.log <<'END'\n"
                           "a line that stays\n"
                           "Authorization: Basic hunter2hunter2\n"
                           "{\"token\":\"hunter2hunter2\",\"kept\":1}\n"
                           "GET /sessions/v1/0b9d8c1e-5f7a-4a52-9d0e-3c1b2a495867\n"
                           "-----BEGIN PRIVATE KEY-----\n"
                           "hunter2hunter2\n"
                           "-----END PRIVATE KEY-----\n"
                           "digest:super:zUZ0bpqYS7FucDXsnUgxOWTto1s=\n"
                           "END\n"
                           "for i in 1 2 3; do cp $D/*.cfg $D/copy-$i.log 2>/dev/null; done; true"),
                     0);
    shell_expect("ZABRA_SESSION=0b9d8c1e-5f7a-4a52-9d0e-3c1b2a495867 "
                 "zabra support $D/b --user hunter --password-file $D/pw --config $D/zk.cfg "
                 "--log $D/one.log --log $D/zk.cfg >$D/said",
                 0, "");
    shell_expect("cd $D/b && tar xf *.tar && cat zabra-support-*/zabra.cfg", 0,
                 "id=1\nclientPort=9998\n");
    shell_expect("cat $D/b/zabra-support-*/logs/1.log", 0, "a line that stays\n");
    shell_expect("grep -c kept $D/b/zabra-support-*/logs/1.log", 0, "1\n");
    shell_expect("grep -rl hunter2hunter2 $D/b/zabra-support-*/zabra.cfg "
                 "$D/b/zabra-support-*/logs/1.log $D/b/zabra-support-*/replicas "
                 "$D/b/zabra-support-*/*.json",
                 1, "");
    shell_expect("grep -arlE '0b9d8c1e|zUZ0bpqY' $D/b", 1, "");
}

TEST(what_is_missing_is_named)
{
    shell_expect("mkfifo $D/pipe; zabra support $D/c --log $D/none --log $D/pipe --log /dev/zero "
                 "--config $D/none",
                 0, "not in it: ");
    shell_expect("cd $D/c && tar xf *.tar && jq -r '.[].name' zabra-support-*/missing.json | "
                 "grep -c -e none -e pipe -e zero",
                 0, "4\n");
    /* The end of a log of 20 MB. */
    shell_expect("yes 'a line of a log that is long' | head -c 20000000 >$D/long.log; "
                 "echo the end >>$D/long.log; zabra support $D/d --log $D/long.log >$D/said; "
                 "cd $D/d && tar xf *.tar && tail -n 1 zabra-support-*/logs/1.log && "
                 "test $(stat -c %s zabra-support-*/logs/1.log) -le 8400000",
                 0, "the end\n");
    shell_expect("head -qn 1 $D/long.log $D/d/zabra-support-*/logs/1.log | uniq -c | grep -c .", 0,
                 "1\n"); /* It begins with a whole line. */
}

TEST(replicas_that_hang_or_are_away_do_not_stop_it)
{
    ensemble_signal(&ensemble, 1, SIGSTOP);
    shell_expect("timeout 60 zabra support $D/e", 0, "replicas/3/status.json");
    ensemble_signal(&ensemble, 1, SIGCONT);
    shell_expect("cd $D/e && tar xf *.tar && cat zabra-support-*/replicas/2/about.json", 0,
                 "error");
    shell_expect("zabra support $D/f --endpoints 127.0.0.1:1", 0, "doctor.json");
    shell_expect("zabra support $D/f/x/y", 1, "No such file");
    shell_expect("zabra support $D/zk.cfg", 1, "");
    shell_expect("zabra support", 2, "");
    shell_expect("ls -A $D/f | grep -c part", 1, "0\n");
}
