#include "cli/cli.h"
#include "cli/inherited.h"

static int unknown(int arg_count, char **args)
{
    struct out out = {
        .cmd = args[0], .nameless = true, .format = settings_format(&arg_count, args, false)};

    return help_unknown(&out, args[0]);
}

static int run(int arg_count, char **args)
{
    if (arg_count < 2) {
        help_all(stderr);
        return CMD_USAGE;
    }
    if (!strcmp(args[1], "--help") || !strcmp(args[1], "-h")) {
        help_all(stdout);
        return CMD_OK;
    }

    const char *name = strcmp(args[1], "--version") ? args[1] : "version";
    const struct cmd *cmd = cmd_by_name(name);
    uint64_t zxid = 0;

    return cmd ? cli_run(cmd, arg_count - 2, args + 2, &zxid) : unknown(arg_count - 1, args + 1);
}

int main(int argc, char **argv)
{
    struct sigaction usual = {.sa_handler = SIG_DFL};

    inherited_note();
    (void)sigaction(SIGCHLD, &usual, NULL); /* With SIGCHLD ignored no child can be waited for. */

    int code = run(argc, argv);

    /* A full disk or a closed pipe behind stdout must not look like success. */
    if (fflush(stdout) || ferror(stdout)) {
        (void)fprintf(stderr, "zabra: could not write the output\n");
        return CMD_FAILED;
    }
    return code;
}
