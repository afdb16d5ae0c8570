/* Command lines: options, operands, numbers, suggestions; and what all commands have in common. */
#include "cli/cmd.h"
#include "cli/settings.h"
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    WORDS_MAX = 16
};

#define OWN                                                                      \
    {                                                                            \
        CMD_VALUE("version", 0, "N", ""), CMD_FLAG("recursive", 'r', ""),        \
            CMD_VALUE("limit", 'n', "N", ""), CMD_VALUE("header", 'H', "H", ""), \
    }

static const struct cmd plain = {
    .name = "x",
    .usage = "PATH",
    .options = OWN,
    .operands = {1, 2, {CMD_OPERAND_PATH, CMD_OPERAND_TEXT}},
};
static const struct cmd runner = {.name = "lock",
                                  .usage = "NAME -- CMD",
                                  .options = OWN,
                                  .operands = {0, 1, {0}},
                                  .has_child = true};

static struct args args;
static char *words[WORDS_MAX + 1];

/* One blank separates the words. */
static bool parse(const struct cmd *cmd, const char *line)
{
    static char text[256];
    int count = 0;

    (void)snprintf(text, sizeof(text), "%s", line);
    for (char *word = text; word && *word; count++) {
        char *blank = strchr(word, ' ');

        assert_true(count < WORDS_MAX);
        words[count] = word;
        if (blank) {
            *blank = '\0';
        }
        word = blank ? blank + 1 : NULL;
    }
    words[count] = NULL;
    return args_parse(&args, cmd, settings_options, count, words);
}

TEST(options_may_stand_anywhere)
{
    assert_true(parse(&plain, "--version 3 /a -r b --limit=5"));
    assert_int_equal(args.operand_count, 2);
    assert_string_equal(args_operand(&args, 0), "/a");
    assert_string_equal(args_operand(&args, 1), "b");
    assert_null(args_operand(&args, 2));
    assert_string_equal(args_get(&args, "version"), "3");
    assert_string_equal(args_get(&args, "limit"), "5");
    assert_true(args_has(&args, "recursive"));
    assert_false(args_has(&args, "output"));
}

TEST(short_options_are_joined)
{
    assert_true(parse(&plain, "-rn7 /a"));
    assert_true(args_has(&args, "recursive"));
    assert_string_equal(args_get(&args, "limit"), "7");
    assert_true(parse(&plain, "-rojson /a"));
    assert_string_equal(args_get(&args, "output"), "json");
}

TEST(the_last_option_wins_and_all_can_be_read)
{
    assert_true(parse(&plain, "/a -H a:1 -H b:2"));
    assert_string_equal(args_get(&args, "header"), "b:2");
    assert_string_equal(args_nth(&args, "header", 0), "a:1");
    assert_string_equal(args_nth(&args, "header", 1), "b:2");
    assert_null(args_nth(&args, "header", 2));
}

TEST(dashes_that_do_not_begin_an_option)
{
    assert_true(parse(&plain, "/a -"));
    assert_string_equal(args_operand(&args, 1), "-");
    assert_true(parse(&plain, "/a -5"));
    assert_string_equal(args_operand(&args, 1), "-5");
    assert_true(parse(&plain, "/a -- --version"));
    assert_string_equal(args_operand(&args, 1), "--version");
}

TEST(the_command_of_a_child_is_left_unparsed)
{
    assert_true(parse(&runner, "/lock -r -- make -n --limit=1"));
    assert_int_equal(args.operand_count, 1);
    assert_int_equal(args.child_count, 3);
    assert_string_equal(args.child[0], "make");
    assert_string_equal(args.child[2], "--limit=1");
    assert_null(args.child[3]);
    assert_false(args_has(&args, "limit"));
    assert_true(parse(&runner, "/lock"));
    assert_null(args.child);
}

TEST(mistakes_are_reported)
{
    assert_false(parse(&plain, "/a --versoin 3"));
    assert_string_equal(args.error, "there is no option --versoin; did you mean --version?");
    assert_false(parse(&plain, "/a --colour"));
    assert_string_equal(args.error, "there is no option --colour: zabra x PATH");
    assert_false(parse(&plain, "/a -q"));
    assert_string_equal(args.error, "there is no option -q");
    assert_false(parse(&plain, "/a --version"));
    assert_non_null(strstr(args.error, "--version needs a value"));
    assert_false(parse(&plain, "/a --recursive=1"));
    assert_string_equal(args.error, "--recursive takes no value");
    assert_false(parse(&plain, "-r"));
    assert_non_null(strstr(args.error, "missing"));
    assert_false(parse(&plain, "/a b c"));
    assert_non_null(strstr(args.error, "unexpected argument \"c\""));
}

TEST(numbers_and_times)
{
    struct cmd_range range = {.min = -5, .max = 100000};
    int64_t got = 0;

    assert_true(args_number("-5", range, &got) && got == -5);
    assert_false(args_number("-6", range, &got));
    assert_false(args_number("5x", range, &got));
    assert_false(args_number("", range, &got));
    assert_false(args_number("99999999999999999999", range, &got));
    assert_true(args_duration_ms("250ms", range, &got) && got == 250);
    assert_true(args_duration_ms("10", range, &got) && got == 10000);
    assert_true(args_duration_ms("10s", range, &got) && got == 10000);
    assert_true(args_duration_ms("1m", range, &got) && got == 60000);
    assert_false(args_duration_ms("2h", range, &got));
    assert_false(args_duration_ms("1d", range, &got));
}

TEST(commands_are_suggested)
{
    assert_string_equal(cmd_guess("gett"), "get");
    assert_string_equal(cmd_guess("put"), "set");
    assert_null(cmd_guess("xyzzy"));
    for (const struct cmd *const *at = cmd_table; *at; at++) {
        assert_ptr_equal(cmd_by_name((*at)->name), *at);
        assert_true(!(*at)->run != !(*at)->run_alone);
        assert_non_null((*at)->usage);
        assert_null((*at)->options[CMD_OPTIONS_MAX - 1].name);
        assert_null((*at)->examples[CMD_EXAMPLES_MAX - 1].line);
    }
}

TEST(every_group_of_help_has_its_heading_once)
{
    static const char *const groups[] = {"Data",    "Watching", "Recipes", "Sessions and rights",
                                         "Cluster", "Tools",    NULL};
    const char *const *next = groups;

    assert_non_null(cmd_table[0]->group);
    for (const struct cmd *const *at = cmd_table; *at; at++) {
        if ((*at)->group) {
            assert_non_null(*next);
            assert_string_equal((*at)->group, *next++);
        }
    }
    assert_null(*next);
}

/* ---- Settings ---- */

static char dir[32];

static void open_dir(void)
{
    (void)snprintf(dir, sizeof(dir), "/tmp/zabra-cli-XXXXXX");
    assert_non_null(mkdtemp(dir));
    assert_int_equal(setenv("XDG_CONFIG_HOME", dir, 1), 0);
}

static void remove_dir(void)
{
    char name[128];

    (void)snprintf(name, sizeof(name), "%s/zabra/config", dir);
    (void)unlink(name);
    (void)snprintf(name, sizeof(name), "%s/zabra", dir);
    (void)rmdir(name);
    assert_int_equal(rmdir(dir), 0);
}

static void write_config(const char *text, mode_t mode)
{
    char name[128];
    FILE *file = NULL;

    (void)snprintf(name, sizeof(name), "%s/zabra", dir);
    (void)mkdir(name, 0700);
    (void)snprintf(name, sizeof(name), "%s/zabra/config", dir);
    file = fopen(name, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(name, mode), 0);
}

TEST(settings_come_in_order, open_dir, remove_dir)
{
    struct settings settings;

    write_config("# mine\n endpoints = a:1 \ntimeout=2s\nuser=file\n\nuser=bob\n", 0600);
    assert_int_equal(setenv("ZABRA_ENDPOINTS", "b:2", 1), 0);
    assert_true(parse(&plain, "/a --timeout 3s"));
    assert_true(settings_load(&settings, &args));
    assert_string_equal(settings.endpoints, "b:2");
    assert_int_equal(settings.timeout_ms, 3000);
    assert_string_equal(settings.user, "bob");
    assert_null(settings.password_file);
    settings_release(&settings);
    assert_int_equal(unsetenv("ZABRA_ENDPOINTS"), 0);
    assert_true(parse(&plain, "/a"));
    assert_true(settings_load(&settings, &args));
    assert_string_equal(settings.endpoints, "a:1");
    assert_int_equal(settings.timeout_ms, 2000);
    settings_release(&settings);
}

TEST(files_of_https_are_settings, open_dir, remove_dir)
{
    struct settings settings;

    write_config("ca=/file/ca\ncert=/file/cert\nkey=/file/key\n", 0600);
    assert_int_equal(setenv("ZABRA_CERT", "/env/cert", 1), 0);
    assert_true(parse(&plain, "/a --key /flag/key"));
    assert_true(settings_load(&settings, &args));
    assert_string_equal(settings.ca, "/file/ca");
    assert_string_equal(settings.cert, "/env/cert");
    assert_string_equal(settings.key, "/flag/key");
    assert_string_equal(settings.tls_given, "key");
    settings_release(&settings);
    assert_int_equal(unsetenv("ZABRA_CERT"), 0);
    assert_true(parse(&plain, "/a"));
    assert_true(settings_load(&settings, &args));
    assert_string_equal(settings.cert, "/file/cert");
    assert_null(settings.tls_given); /* The file may serve other endpoints. */
    settings_release(&settings);
}

static void refuse_config(const char *text, mode_t mode, const char *why)
{
    struct settings settings;

    write_config(text, mode);
    assert_true(parse(&plain, "/a"));
    assert_false(settings_load(&settings, &args));
    assert_non_null(strstr(settings.error, why));
    settings_release(&settings);
}

TEST(a_bad_file_is_refused, open_dir, remove_dir)
{
    refuse_config("user=bob\n", 0644, "chmod 600");
    refuse_config("user=bob\nendpoint=a\n", 0600, "line 2: \"endpoint\" is not a setting");
    refuse_config("user=bob\nhello\n", 0600, "line 2");
    refuse_config("timeout=soon\n", 0600, "\"soon\" is not a time");
    write_config("", 0600);
}

TEST(passwords_come_from_files, open_dir, remove_dir)
{
    char password[SETTINGS_PASSWORD_MAX];
    struct settings settings;
    char line[256];

    write_config("secret word\r\nmore\n", 0600);
    (void)snprintf(line, sizeof(line), "/a --user bob --password-file %s/zabra/config", dir);
    assert_int_equal(setenv("XDG_CONFIG_HOME", "/nowhere", 1), 0);
    assert_true(parse(&plain, line));
    assert_true(settings_load(&settings, &args));
    assert_true(settings_password(&settings, password));
    assert_string_equal(password, "secret word");
    write_config("secret\n", 0604);
    assert_false(settings_password(&settings, password));
    assert_non_null(strstr(settings.error, "all users may read"));
    settings_release(&settings);
    assert_true(parse(&plain, "/a --user bob:secret"));
    assert_false(settings_load(&settings, &args));
    settings_release(&settings);
    assert_int_equal(setenv("XDG_CONFIG_HOME", dir, 1), 0);
}
