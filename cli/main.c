#include "cli/cmd.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static int run_version(int arg_count, char **args);
static int run_help(int arg_count, char **args);

static const struct cmd cmd_version = {
    .name = "version", .summary = "print the version", .usage = "", .run = run_version};
static const struct cmd cmd_help = {
    .name = "help", .summary = "explain a command", .usage = "[COMMAND]", .run = run_help};

static const struct cmd *const commands[] = {&cmd_serve,   &cmd_dev,  &cmd_inspect, &cmd_recover,
                                             &cmd_version, &cmd_help, NULL};

int cmd_usage_error(const struct cmd *cmd, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)fprintf(stderr, "zabra %s: ", cmd->name);
    (void)vfprintf(stderr, format, args);
    (void)fprintf(stderr, "; see 'zabra help %s'\n", cmd->name);
    va_end(args);
    return CMD_USAGE;
}

const char *cmd_option(const char *name, int arg_count, char **args, int *pos)
{
    const char *arg = args[*pos];
    size_t len = strlen(name);

    if (strncmp(arg, "--", 2) != 0 || strncmp(arg + 2, name, len) != 0) {
        return NULL;
    }
    arg += 2 + len;
    if (*arg == '=') {
        (*pos)++;
        return arg + 1;
    }
    if (*arg) {
        return NULL;
    }

    const char *value = *pos + 1 < arg_count ? args[*pos + 1] : "";

    *pos += 2;
    return value;
}

static const struct cmd *find(const char *name)
{
    for (const struct cmd *const *cmd = commands; *cmd; cmd++) {
        if (!strcmp((*cmd)->name, name)) {
            return *cmd;
        }
    }
    return NULL;
}

static void print_all(FILE *to)
{
    (void)fprintf(to, "zabra: one tree of znodes on a few replicas, served over HTTP\n\n");
    (void)fprintf(to, "usage: zabra COMMAND [OPTIONS]\n\n");
    for (const struct cmd *const *cmd = commands; *cmd; cmd++) {
        (void)fprintf(to, "  %-9s %s\n", (*cmd)->name, (*cmd)->summary);
    }
    (void)fprintf(to, "\n'zabra help COMMAND' says more. To begin: zabra dev --nodes 3\n");
    (void)fprintf(to, "exit codes: 0 success, 1 failure, 2 wrong usage or configuration\n");
}

static void print_one(const struct cmd *cmd)
{
    (void)printf("usage: zabra %s %s\n\n%s\n", cmd->name, cmd->usage, cmd->summary);
    if (cmd->text) {
        (void)printf("\n%s", cmd->text);
    }
    if (cmd->more) {
        cmd->more();
    }
}

static int run_version(int arg_count, char **args)
{
    if (arg_count > 0) {
        return cmd_usage_error(&cmd_version, "\"%s\" is not understood", args[0]);
    }
    (void)printf("zabra %s\n", ZABRA_VERSION);
    return CMD_OK;
}

static int run_help(int arg_count, char **args)
{
    const struct cmd *cmd = arg_count > 0 ? find(args[0]) : NULL;

    if (arg_count == 0) {
        print_all(stdout);
        return CMD_OK;
    }
    if (!cmd) {
        return cmd_usage_error(&cmd_help, "there is no command \"%s\"", args[0]);
    }
    print_one(cmd);
    return CMD_OK;
}

static int run(int arg_count, char **args)
{
    if (arg_count < 2) {
        print_all(stderr);
        return CMD_USAGE;
    }
    if (!strcmp(args[1], "--help") || !strcmp(args[1], "-h")) {
        return run_help(0, NULL);
    }
    if (!strcmp(args[1], "--version")) {
        return run_version(0, NULL);
    }

    const struct cmd *cmd = find(args[1]);

    if (!cmd) {
        (void)fprintf(stderr, "zabra: there is no command \"%s\"; see 'zabra help'\n", args[1]);
        return CMD_USAGE;
    }
    for (int i = 2; i < arg_count; i++) {
        if (!strcmp(args[i], "--help")) {
            print_one(cmd);
            return CMD_OK;
        }
    }
    return cmd->run(arg_count - 2, args + 2);
}

int main(int argc, char **argv)
{
    int code = run(argc, argv);

    /* A full disk or a closed pipe behind stdout must not look like success. */
    if (fflush(stdout) || ferror(stdout)) {
        return CMD_FAILED;
    }
    return code;
}
