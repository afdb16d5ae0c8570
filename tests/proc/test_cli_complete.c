/* Completion of commands, options and paths, in each shell with a script. */
#include "tests/lib/unit.h"
#include "tests/proc/shell.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* bob:pw */
#define BOB_ACL "digest:bob:ikIaKsbtGweaHnb/jKn7OHqbunM=:cdrwa"

enum {
    TABS = 10 /* Pressed for one line. */
};

static struct ensemble ensemble;

static void open_all(void)
{
    ensemble_launch(&ensemble, 3, NULL);
    shell_open(&ensemble);
    assert_int_equal(shell("umask 077; cd $D && echo pw >pw && touch pwd"), 0);
    shell_expect(
        "zabra create /app hello && zabra create /app/a x && zabra create /app/b/c y -p "
        "&& zabra create /closed/in -p && zabra acl /closed " BOB_ACL
        " && zabra queue push mail x && zabra create /odd && zabra create '/odd/a b:c' "
        "&& zabra create '/odd/d\\e' && zabra create \"/odd/f'g\" && zabra create '/odd/$h'",
        0, "/odd/$h");
}

static void close_all(void)
{
    ensemble_close(&ensemble);
}

/* The typed line, and all completions of its last word. Without blanks and quotes every shell
 * offers the same. */
struct typed {
    const char *before;
    const char *word;
    const char *said;
    bool more; /* The znode has children: no blank follows it. */
};

static const struct typed lines[] = {
    {"zabra ", "expo", "export", false},
    {"zabra import ", "--dr", "--dry-run", false},
    {"zabra import --conflict ", "o", "overwrite", false},
    {"zabra get -o ", "nd", "ndjson", false},
    {"zabra help ", "memb", "members", false},
    {"zabra help ", "exi", "exit-codes", false},
    {"zabra completion ", "f", "fish", false},
    {"zabra bench ", "wa", "watch", false},
    {"zabra queue ", "po", "pop", false},
    {"zabra barrier ", "lo", "lower", false},
    {"zabra session ", "s", "show", false},
    {"zabra quota --count ", "n", "none", false},
    {"zabra get ", "/ap", "/app", true},
    {"zabra get ", "/app/", "/app/a /app/b", false},
    {"zabra get ", "/app/b/", "/app/b/c", false},
    {"zabra queue len ", "m", "mail", true},
    {"zabra queue len ", "/que", "/queues", true},
    {"true | zabra get --user bob --password-file pw ", "/closed/i", "/closed/in", false},
    /* No replica answers, or it refuses: no completion, and soon. */
    {"zabra get --endpoints 127.0.0.1:1 ", "/ap", "", false},
    {"zabra get ", "/closed/", "", false},
    {"zabra nonsense ", "/ap", "", false},
};

static bool skip_without(const char *name)
{
    if (shell("command -v %s >/dev/null", name) == 0) {
        return false;
    }
    print_message("skipped: there is no %s\n", name);
    skip();
    return true;
}

/* Ignores blanks at the end. */
static bool is_output(const char *by, const char *want)
{
    size_t len = 0;

    assert_int_equal(shell("cd $D; %s", by), 0);
    len = strlen(shell_output);
    while (len > 0 && strchr(" \n", shell_output[len - 1])) {
        shell_output[--len] = '\0';
    }
    return strcmp(shell_output, want) == 0;
}

/* Checks the shell's answer to $LINE. Completion does not wait for a slow replica and then offers
 * nothing, so Tab is pressed again. */
static void expect_output(const char *by, const char *line, const char *want)
{
    bool said = false;

    assert_int_equal(setenv("LINE", line, 1), 0);
    for (int i = 0; i < TABS && !said; i++) {
        said = is_output(by, want);
    }
    if (!said) {
        fail_msg("%s: completed to \"%s\", not \"%s\"", line, shell_output, want);
    }
}

static void expect_each(void (*expect)(const struct typed *typed))
{
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        expect(&lines[i]);
    }
}

/* ---- bash ---- */

/* If a line has several commands, bash passes only that at the cursor to the function. */
static void expect_bash(const struct typed *typed)
{
    char line[SHELL_LINE_MAX];

    (void)snprintf(line, sizeof(line), "%s%s", strstr(typed->before, "zabra"), typed->word);
    assert_int_equal(setenv("WORD", typed->word, 1), 0);
    expect_output("bash -c 'source <(zabra completion bash); COMP_LINE=$LINE COMP_POINT=${#LINE}; "
                  "_zabra zabra \"$WORD\"; echo \"${COMPREPLY[*]}\"'",
                  line, typed->said);
}

TEST_GROUP(open_all, close_all)

TEST(bash_completes)
{
    expect_each(expect_bash);
    expect_bash(&(struct typed){"zabra import --conflict=", "o", "overwrite", false});
    expect_bash(&(struct typed){"zabra get \"", "/app/b/", "/app/b/c", false});
    expect_bash(&(struct typed){"zabra get /odd/a\\ b:", "", "c", false});
    expect_bash(&(struct typed){"zabra get ", "/odd/d", "/odd/d\\\\e", false});
}

/* ---- zsh ---- */

static void expect_zsh_line(const char *line, const char *after)
{
    expect_output("zsh -f " ZABRA_TOP "/tests/proc/complete.zsh \"$LINE\" | tr -s ' '", line,
                  after);
}

static void expect_zsh(const struct typed *typed)
{
    bool blank = typed->said[0] && !typed->more;
    char line[SHELL_LINE_MAX];
    char after[SHELL_LINE_MAX];

    (void)snprintf(line, sizeof(line), "%s%s", typed->before, typed->word);
    (void)snprintf(after, sizeof(after), "%s%s%s", typed->before,
                   typed->said[0] ? typed->said : typed->word, blank ? " |" : "|");
    expect_zsh_line(line, after);
}

TEST(zsh_completes)
{
    if (skip_without("zsh")) {
        return;
    }
    expect_each(expect_zsh);
    expect_zsh_line("true | zabra import --conflict=o",
                    "true | zabra import --conflict=overwrite |");
    expect_zsh_line("zabra get \"/app/b/", "zabra get \"/app/b/c\" |");
    expect_zsh_line("zabra get /odd/a\\ b:", "zabra get /odd/a\\ b:c |");
    expect_zsh_line("zabra get \"/odd/a b", "zabra get \"/odd/a b:c\" |");
    expect_zsh_line("zabra get /odd/d", "zabra get /odd/d\\\\e |");
    expect_zsh_line("zabra get /odd/f", "zabra get /odd/f\\'g |");
    expect_zsh_line("zabra get /odd/\\$", "zabra get /odd/\\$h |");
    expect_zsh_line("zabra get --password-file p", "zabra get --password-file pw pwd |");
    expect_zsh_line("zabra get --password-file=p",
                    "zabra get --password-file=pw --password-file=pwd |");
    expect_zsh_line("zabra lock x -- mkfif", "zabra lock x -- mkfifo |");
}

/* ---- fish ---- */

static void expect_fish_line(const char *line, const char *said)
{
    expect_output("fish --no-config -c 'zabra completion fish | source; complete -C $LINE' | "
                  "cut -f1 | tr '\\n' ' '",
                  line, said);
}

static void expect_fish(const struct typed *typed)
{
    char line[SHELL_LINE_MAX];

    (void)snprintf(line, sizeof(line), "%s%s", typed->before, typed->word);
    expect_fish_line(line, typed->said);
}

/* fish adds the quotes itself. */
TEST(fish_completes)
{
    if (skip_without("fish")) {
        return;
    }
    expect_each(expect_fish);
    expect_fish_line("true | zabra import --conflict=o", "--conflict=overwrite");
    expect_fish_line("zabra get \"/app/b/", "/app/b/c");
    expect_fish_line("zabra get /odd/a\\ b:", "/odd/a b:c");
    expect_fish_line("zabra get \"/odd/a b", "/odd/a b:c");
    expect_fish_line("zabra get /odd/d", "/odd/d\\e");
    expect_fish_line("zabra get --password-file p", "pw pwd");
    expect_fish_line("zabra get --password-file=p", "--password-file=pw --password-file=pwd");
    expect_fish_line("zabra lock x -- mkfif", "mkfifo");
}

TEST(other_shells_have_no_completion)
{
    shell_expect("zabra completion csh", 2, "bash, zsh or fish");
}
