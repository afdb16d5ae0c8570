/* The lines that --curl shows, run by a shell: same output, same effect. */
#include "tests/lib/unit.h"
#include "tests/proc/fixture.h"

#include <stdio.h>
#include <string.h>

static struct ensemble ensemble;
static char other[SHELL_OUTPUT_MAX];
static char by_curl[SHELL_OUTPUT_MAX];

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

/* Records the tree, without values that change with each run. */
static void take_snapshot(char out[SHELL_OUTPUT_MAX])
{
    assert_int_equal(shell("%s", "zabra api GET /export/v1$P --user bob --password-file $D/pw |"
                                 "sed -e 1d -e 's/\"stat\".*\"version\"/\"version\"/' -e "
                                 "'s/,\"pzxid.*//'; zabra quota -o json | grep -o \"$P\\\".*\" | "
                                 "sed s,$P,,"),
                     0);
    memcpy(out, shell_output, SHELL_OUTPUT_MAX);
}

TEST_GROUP(open_all, close_all)

TEST(shown_reads_print_the_same)
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

    fixture_make();
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        assert_int_equal(shell("zabra %s; echo", lines[i]), 0);
        (void)memcpy(other, shell_output, sizeof(shell_output));
        other[strcspn(other, "\n")] = '\0';
        assert_int_equal(shell("zabra %s --curl | sh; echo", lines[i]), 0);
        shell_output[strcspn(shell_output, "\n")] = '\0';
        if (strcmp(shell_output, other) != 0 || strlen(shell_output) < 5) {
            fail_msg("zabra %s: %s, but by curl: %s", lines[i], other, shell_output);
        }
    }
}

TEST(shown_writes_do_the_same)
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

    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        static const char ops[] = "echo '{\"op\":\"set\",\"path\":\"'$P'/num\",\"dataUtf8\":"
                                  "\"6\"}' >$D/ops";
        const char *redirect = strchr(lines[i], '<');
        int len = redirect ? (int)(redirect - lines[i]) : (int)strlen(lines[i]);
        static char before[SHELL_OUTPUT_MAX];

        fixture_make();
        take_snapshot(before);
        assert_int_equal(shell(ops), 0);
        assert_int_equal(shell("zabra %s", lines[i]), 0);
        take_snapshot(other);
        fixture_make();
        assert_int_equal(shell(ops), 0);
        assert_int_equal(shell("zabra %.*s --curl >$D/line && sh $D/line %s", len, lines[i],
                               redirect ? redirect : ""),
                         0);
        take_snapshot(by_curl);
        if (strcmp(by_curl, other) != 0 || strcmp(before, other) == 0) {
            fail_msg("zabra %s: %s, but by curl: %s", lines[i], other, by_curl);
        }
    }
}

TEST(shown_lines_hold_no_secret)
{
    fixture_make();
    assert_int_equal(
        shell("ZABRA_SESSION=5e55 zabra set $P/here x --user bob --password-file $D/pw "
              "--curl"),
        0);
    assert_null(strstr(shell_output, "5e55"));
    assert_null(strstr(shell_output, "pw\""));
    shell_expect("zabra get $P/here", 0, "hello");
}
