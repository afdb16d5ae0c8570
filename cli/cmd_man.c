/* __man: writes the manual pages as roff, from the table of commands. */
#include "cli/out.h"

#include <errno.h>

enum {
    FILE_NAME_MAX = 4096,
    LINE_MAX_LEN = 1024
};

/* ---- roff ---- */

/* Writes text within a line. */
static void put(FILE *to, const char *text)
{
    static const char *const escapes[UINT8_MAX + 1] = {
        ['\\'] = "\\e",  ['-'] = "\\-",   ['\''] = "\\(aq",
        ['^'] = "\\(ha", ['~'] = "\\(ti", ['`'] = "\\(ga"};

    for (; *text; text++) {
        const char *escape = escapes[(uint8_t)*text];

        (void)(escape ? fputs(escape, to) : fputc(*text, to));
    }
}

/* Writes lines that may begin with any character: roff would take a dot for a request. */
static void put_lines(FILE *to, const char *text)
{
    while (*text) {
        size_t len = strcspn(text, "\n");
        char line[LINE_MAX_LEN];

        (void)snprintf(line, sizeof(line), "%.*s", (int)len, text);
        if (*line == '.') {
            (void)fputs("\\&", to);
        }
        if (*line) {
            put(to, line);
            (void)fputc('\n', to);
        } else if (text[1]) {
            (void)fputs(".PP\n", to);
        }
        text += len + (text[len] ? 1 : 0);
    }
}

static void put_upper(FILE *to, const char *text)
{
    for (; *text; text++) {
        (void)fputc(*text >= 'a' && *text <= 'z' ? *text - 'a' + 'A' : *text, to);
    }
}

static void put_head(FILE *to, const char *page, const char *summary)
{
    (void)fputs(".TH ", to);
    put_upper(to, page);
    (void)fprintf(to, " 1 \"\" \"zabra %s\" \"zabra\"\n.SH NAME\n", ZABRA_VERSION);
    put(to, page);
    (void)fputs(" \\- ", to);
    put(to, summary);
    (void)fputc('\n', to);
}

static void put_options(FILE *to, const char *title, const struct cmd_option *options)
{
    if (!options->name) {
        return;
    }
    (void)fprintf(to, ".SH %s\n", title);
    for (const struct cmd_option *at = options; at->name; at++) {
        (void)fputs(".TP\n", to);
        if (at->letter) {
            (void)fprintf(to, "\\fB\\-%c\\fR, ", at->letter);
        }
        (void)fputs("\\fB\\-\\-", to);
        put(to, at->name);
        (void)fputs("\\fR", to);
        if (at->value) {
            (void)fputs(" \\fI", to);
            put(to, at->value);
            (void)fputs("\\fR", to);
        }
        (void)fputc('\n', to);
        put_lines(to, at->help);
        if (at->env) {
            (void)fprintf(to, "(environment: %s)\n", at->env);
        }
    }
}

static void put_examples(FILE *to, const struct cmd *cmd)
{
    if (!cmd->examples->line) {
        return;
    }
    (void)fputs(".SH EXAMPLES\n", to);
    for (const struct cmd_example *at = cmd->examples; at->line; at++) {
        (void)fputs(".TP\n\\fB", to);
        put(to, at->line);
        (void)fputs("\\fR\n", to);
        put_lines(to, at->what);
    }
}

/* Writes lines that roff must not join. */
static void put_more(FILE *to, const struct cmd *cmd)
{
    if (cmd->more) {
        BUF_AUTO(text, CMD_MORE_MAX);

        cmd->more(&text);
        (void)fputs(".nf\n", to);
        put_lines(to, buf_cstr(&text));
        (void)fputs(".fi\n", to);
    }
}

static void put_exit_codes(FILE *to)
{
    (void)fputs(".SH EXIT STATUS\n", to);
    for (const struct cmd_exit_code *at = cmd_exit_codes; at->name; at++) {
        (void)fprintf(to, ".TP\n\\fB%d\\fR\n", at->code);
        put_lines(to, at->meaning);
    }
    (void)fputs(".PP\n"
                "Commands that run another one exit with its code, or with 128 plus the number "
                "of the\n"
                "signal that ended it; ",
                to);
    (void)fprintf(to, "%d to %d are zabra's own.\n", (int)CMD_CHILD_LOST, (int)CMD_CHILD_NOT_FOUND);
}

/* ---- Pages ---- */

static void put_command(FILE *to, const struct cmd *cmd)
{
    char page[64];

    (void)snprintf(page, sizeof(page), "zabra-%s", cmd->name);
    put_head(to, page, cmd->summary);
    (void)fputs(".SH SYNOPSIS\n\\fBzabra ", to);
    put(to, cmd->name);
    (void)fputs(cmd->run ? "\\fR [\\fIOPTIONS\\fR] " : "\\fR ", to);
    put(to, cmd->usage);
    (void)fputc('\n', to);
    if (cmd->text) {
        (void)fputs(".SH DESCRIPTION\n", to);
        put_lines(to, cmd->text);
        put_more(to, cmd);
    }
    put_options(to, "OPTIONS", cmd->options);
    put_examples(to, cmd);
    if (cmd->run) {
        put_options(to, "COMMON OPTIONS", settings_options);
    }
    put_exit_codes(to);
    (void)fputs(".SH SEE ALSO\n\\fBzabra\\fR(1)\n", to);
}

static void put_overview(FILE *to)
{
    put_head(to, "zabra", "one tree of znodes on a few replicas, served over HTTP");
    (void)fputs(".SH SYNOPSIS\n\\fBzabra\\fR \\fICOMMAND\\fR [\\fIOPTIONS\\fR]\n", to);
    (void)fputs(".SH COMMANDS\n", to);
    for (const struct cmd *const *at = cmd_table; *at; at++) {
        if ((*at)->group) {
            (void)fprintf(to, ".SS %s\n", (*at)->group);
        }
        if (!(*at)->hidden) {
            (void)fputs(".TP\n\\fBzabra\\-", to);
            put(to, (*at)->name);
            (void)fputs("\\fR(1)\n", to);
            put_lines(to, (*at)->summary);
        }
    }
    put_options(to, "OPTIONS OF ALL COMMANDS THAT TALK TO THE ENSEMBLE", settings_options);
    (void)fputs(".SH FILES\n"
                ".TP\n"
                "\\fI$XDG_CONFIG_HOME/zabra/config\\fR\n"
                "Lines name=value of the options above; it must have mode 0600.\n"
                ".SH ENVIRONMENT\n"
                ".TP\n"
                "\\fBZABRA_SESSION\\fR\n"
                "The secret of the session that requests belong to.\n",
                to);
    put_exit_codes(to);
}

/* ---- The command ---- */

/* Writes one page into the folder; with a NULL `cmd` the overview. */
static bool write_page(const char *folder, const struct cmd *cmd)
{
    char name[FILE_NAME_MAX];
    FILE *to = NULL;
    bool failed = false;

    (void)snprintf(name, sizeof(name), "%s/zabra%s%s.1", folder, cmd ? "-" : "",
                   cmd ? cmd->name : "");
    to = fopen(name, "we");
    if (to) {
        if (cmd) {
            put_command(to, cmd);
        } else {
            put_overview(to);
        }
        failed = ferror(to) != 0;
        failed = fclose(to) != 0 || failed;
    }
    if (!to || failed) {
        (void)fprintf(stderr, "zabra __man: cannot write %s: %s\n", name, strerrordesc_np(errno));
    }
    return to && !failed;
}

static int write_all(const char *folder)
{
    bool written = write_page(folder, NULL);

    for (const struct cmd *const *at = cmd_table; written && *at; at++) {
        written = (*at)->hidden || write_page(folder, *at);
    }
    return written ? CMD_OK : CMD_FAILED;
}

static int run_man(int arg_count, char **args)
{
    const struct cmd *cmd = arg_count == 1 ? cmd_by_name(args[0]) : NULL;
    int pos = 0;
    const char *folder = arg_count > 0 ? cmd_option("to", arg_count, args, &pos) : NULL;

    if (folder && *folder) {
        return write_all(folder);
    }
    if (arg_count == 0) {
        put_overview(stdout);
    } else if (cmd) {
        put_command(stdout, cmd);
    } else {
        return OUT_USAGE(&cmd_man, "there is no command \"%s\"", args[0]);
    }
    return CMD_OK;
}

const struct cmd cmd_man = {
    .name = "__man",
    .summary = "print a page of the manual as roff",
    .usage = "[COMMAND | --to FOLDER]",
    .hidden = true,
    .run_alone = run_man,
};
