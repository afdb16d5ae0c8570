#include "cli/out.h"

enum {
    OPTION_MAX = 96,
    OPTION_WIDTH = 28,
    COLUMNS = 96,
    MESSAGE_MAX = 256
};

/* ---- One command ---- */

/* Writes an option as "-o, --output text|json". */
static void name_option(const struct cmd_option *option, char text[OPTION_MAX])
{
    int len = option->letter ? snprintf(text, OPTION_MAX, "-%c, ", option->letter)
                             : snprintf(text, OPTION_MAX, "    ");

    (void)snprintf(text + len, (size_t)(OPTION_MAX - len), "--%s%s%s", option->name,
                   option->value ? " " : "", option->value ? option->value : "");
}

/* Prints text with line breaks between words. All lines but the first begin at `column`. */
static void print_wrapped(const char *text, int column)
{
    int at = column;

    while (*text) {
        int len = (int)strcspn(text, " ");
        bool fits = at == column || at + 1 + len <= COLUMNS;

        if (!fits) {
            (void)printf("\n%*s", column, "");
            at = column;
        } else if (at > column) {
            (void)putchar(' ');
            at++;
        }
        (void)printf("%.*s", len, text);
        at += len;
        text += len;
        text += strspn(text, " ");
    }
    (void)putchar('\n');
}

static void print_options(const char *title, const struct cmd_option *options)
{
    if (!options->name) {
        return;
    }
    (void)printf("\n%s\n", title);
    for (const struct cmd_option *at = options; at->name; at++) {
        char name[OPTION_MAX];

        name_option(at, name);
        (void)printf("  %-*s", OPTION_WIDTH, name);
        if (strlen(name) >= OPTION_WIDTH) {
            (void)printf("\n%*s", OPTION_WIDTH + 2, "");
        }
        print_wrapped(at->help, OPTION_WIDTH + 2);
    }
}

static void print_examples(const struct cmd *cmd)
{
    if (!cmd->examples->line) {
        return;
    }
    (void)printf("\nExamples:\n");
    for (const struct cmd_example *at = cmd->examples; at->line; at++) {
        (void)printf("  %s\n", at->line);
        (void)printf("      %s\n", at->what);
    }
}

static void print_more(const struct cmd *cmd)
{
    if (cmd->more) {
        BUF_AUTO(text, CMD_MORE_MAX);

        cmd->more(&text);
        (void)fputs(buf_cstr(&text), stdout);
    }
}

void help_one(const struct cmd *cmd)
{
    const char *options = cmd->run ? " [OPTIONS]" : "";
    const char *blank = *cmd->usage ? " " : "";

    (void)printf("usage: zabra %s%s%s%s\n\n%s\n", cmd->name, options, blank, cmd->usage,
                 cmd->summary);
    if (cmd->text) {
        (void)printf("\n%s", cmd->text);
    }
    print_examples(cmd);
    print_options("Options:", cmd->options);
    if (cmd->run) {
        print_options("Options of all commands that talk to the ensemble:", settings_options);
        (void)printf(
            "\nThe environment (--endpoints: ZABRA_ENDPOINTS) and lines name=value in\n"
            "$XDG_CONFIG_HOME/zabra/config (mode 0600) also set them. ZABRA_SESSION is the "
            "secret of the\n"
            "session that requests belong to. Exit codes: 'zabra help exit-codes'.\n");
    }
    print_more(cmd);
}

/* ---- All commands ---- */

void help_all(FILE *to)
{
    (void)fprintf(to, "zabra: one tree of znodes on a few replicas, served over HTTP\n\n");
    (void)fprintf(to, "usage: zabra COMMAND [OPTIONS]\n");
    for (const struct cmd *const *at = cmd_table; *at; at++) {
        if ((*at)->group) {
            (void)fprintf(to, "\n%s:\n", (*at)->group);
        }
        if (!(*at)->hidden) {
            (void)fprintf(to, "  %-10s %s\n", (*at)->name, (*at)->summary);
        }
    }
    (void)fprintf(to, "\n'zabra help COMMAND' explains a command, 'zabra help exit-codes' the exit "
                      "codes.\nTo try it: zabra dev --nodes 3\nTo install it: "
                      "docs/operating.md of the package zabra-doc (/usr/share/doc/zabra)\n");
}

static void print_exit_codes(void)
{
    for (const struct cmd_exit_code *at = cmd_exit_codes; at->name; at++) {
        (void)printf("%4d  %-12s %s\n", at->code, at->name, at->meaning);
    }
    (void)printf("\nCommands that run another one (lock, elect, semaphore, session, barrier, watch "
                 "-- COMMAND)\n"
                 "exit with its code, or with 128 plus the number of the signal that ended it. "
                 "Codes %d to %d\n"
                 "are zabra's own.\n",
                 (int)CMD_CHILD_LOST, (int)CMD_CHILD_NOT_FOUND);
}

int help_unknown(const struct out *out, const char *name)
{
    const char *meant = cmd_guess(name);
    char message[MESSAGE_MAX];

    (void)snprintf(message, sizeof(message),
                   *name == '-' ? "\"%.100s\" is not a command; options follow the command: zabra "
                                  "COMMAND [OPTIONS]"
                   : meant      ? "unknown command \"%.100s\"; did you mean %s?"
                                : "unknown command \"%.100s\"; 'zabra help' lists them",
                   name, meant);
    out_error(out, CMD_USAGE, "Usage", message, NULL);
    return CMD_USAGE;
}

/* ---- Help as JSON ---- */

static json_t *options_json(const struct cmd_option *options)
{
    json_t *list = json_array();

    for (const struct cmd_option *at = options; at && at->name; at++) {
        char letter[] = {at->letter, '\0'};

        (void)json_array_append_new(list, json_pack("{s:s,s:s*,s:s*,s:s}", "name", at->name,
                                                    "letter", *letter ? letter : NULL, "value",
                                                    at->value, "help", at->help));
    }
    return list;
}

static json_t *command_json(const struct cmd *cmd)
{
    json_t *options = options_json(cmd->options);

    if (cmd->run) {
        json_auto_t *common = options_json(settings_options);

        (void)json_array_extend(options, common);
    }
    return json_pack("{s:s,s:s,s:s,s:o}", "name", cmd->name, "summary", cmd->summary, "usage",
                     cmd->usage, "options", options);
}

/* Returns one command, or with NULL all commands that are listed. */
static json_t *commands_json(const struct cmd *only)
{
    json_t *list = json_array();

    for (const struct cmd *const *at = cmd_table; *at; at++) {
        if (only ? *at == only : !(*at)->hidden) {
            (void)json_array_append_new(list, command_json(*at));
        }
    }
    return list;
}

static json_t *exit_codes_json(void)
{
    json_t *list = json_array();

    for (const struct cmd_exit_code *at = cmd_exit_codes; at->name; at++) {
        (void)json_array_append_new(list, json_pack("{s:i,s:s,s:s}", "code", at->code, "name",
                                                    at->name, "meaning", at->meaning));
    }
    return list;
}

/* Prints the commands or the exit codes. Without a topic JSON has both, and NDJSON the commands. */
static void print_json(const struct out *out, const struct cmd *cmd, bool codes)
{
    json_auto_t *value = json_object();

    if (!codes) {
        (void)json_object_set_new(value, "commands", commands_json(cmd));
    }
    if (!cmd) {
        (void)json_object_set_new(value, "exit_codes", exit_codes_json());
    }
    out_list(out, value, codes ? "exit_codes" : "commands", "");
}

/* ---- The commands ---- */

static int run_help(int arg_count, char **args)
{
    struct out out = {.cmd = "help", .format = settings_format(&arg_count, args, true)};
    const struct cmd *cmd = arg_count > 0 ? cmd_by_name(args[0]) : NULL;
    bool codes = arg_count > 0 && strcmp(args[0], "exit-codes") == 0;

    if (arg_count > 0 && !cmd && !codes) {
        return help_unknown(&out, args[0]);
    }
    if (arg_count > 1) {
        return out_usage(&out, "unexpected argument \"%s\": zabra help %s", args[1],
                         cmd_help.usage);
    }
    if (out_is_json(&out)) {
        print_json(&out, cmd, codes);
    } else if (cmd) {
        help_one(cmd);
    } else if (codes) {
        print_exit_codes();
    } else {
        help_all(stdout);
    }
    return CMD_OK;
}

const struct cmd cmd_help = {.name = "help",
                             .summary = "explain a command, or the exit codes",
                             .usage = "[COMMAND | exit-codes]",
                             .operands = {0, 1, {CMD_OPERAND_COMMAND}},
                             .run_alone = run_help};
