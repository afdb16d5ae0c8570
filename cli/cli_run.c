/* Runs a command: checks its command line, opens its client, and closes the client afterwards. */
#include "cli/cli.h"
#include "cli/curl_handles.h"

static bool asks_help(int arg_count, char **args)
{
    for (int i = 0; i < arg_count && strcmp(args[i], "--") != 0; i++) {
        if (strcmp(args[i], "--help") == 0 || strcmp(args[i], "-h") == 0) {
            return true;
        }
    }
    return false;
}

/* Makes the path of a lock, queue or similar znode from its operand: a path, or a name within the
 * command's folder. Returns what is wrong with the path, or NULL. */
static const char *take_name(struct cli *cli, const char *name)
{
    struct buf *path = &cli->named;
    const char *fault = NULL;

    if (*name != '/') {
        buf_printf(path, "%s/", cli->cmd->folder);
    }
    buf_append_str(path, name);
    fault = path->overflow ? "is too long" : url_path_fault(buf_cstr(path), false);
    return !fault && path->len == 1 ? "is the root; this command needs another znode" : fault;
}

/* Checks the operands that are paths. With --sequence the last name of a new znode may be missing
 * or incomplete: the ensemble appends a number. Returns false when an error has been reported. */
static bool check_paths(struct cli *cli)
{
    bool open = args_has(&cli->args, "sequence");

    for (int i = 0; i < CMD_OPERANDS_MAX; i++) {
        const char *text = args_operand(&cli->args, i);
        const char *fault = NULL;

        if (text && cli->cmd->operands.kinds[i] == CMD_OPERAND_PATH) {
            fault = url_path_fault(text, open);
        } else if (text && cli->cmd->operands.kinds[i] == CMD_OPERAND_NAME) {
            fault = take_name(cli, text);
            text = buf_cstr(&cli->named);
        }
        if (fault) {
            return CLI_REFUSE(cli, "the path \"%s\" %s", text, fault);
        }
    }
    return true;
}

/* Checks the numbers and times that options give. Returns false when an error has been reported. */
static bool check_numbers(const struct cli *cli)
{
    for (const struct cmd_option *at = cli->cmd->options; at->name; at++) {
        const char *text = args_get(&cli->args, at->name);
        int64_t number = 0;

        if (!at->is_number || args_take_number(&cli->args, at, &number)) {
            continue;
        }
        if (!at->is_time) {
            return CLI_REFUSE(cli, "--%s: \"%s\" is not a number from %" PRId64 " to %" PRId64,
                              at->name, text, at->range.min, at->range.max);
        }
        return args_duration_ms(text, (struct cmd_range){INT64_MIN, INT64_MAX, 0}, &number)
                   ? CLI_REFUSE(cli, "--%s: %s is not between %" PRId64 " ms and %" PRId64 " s",
                                at->name, text, at->range.min, at->range.max / 1000)
                   : CLI_REFUSE(cli, "--%s: \"%s\" is not a time like 500ms, 15s or 2m", at->name,
                                text);
    }
    return true;
}

/* Most commands send requests; with --curl some only print them. */
static int run_with_libcurl(struct cli *cli)
{
    const char *fault = cli->settings.curl ? NULL : curl_handles_init();

    return fault ? cli_fail(cli, CMD_FAILED, "NoLibrary", "%s", fault) : cli->cmd->run(cli);
}

static int run_opened(struct cli *cli, uint64_t *zxid)
{
    int code = CMD_USAGE;

    cli->client = client_open(&cli->settings);
    if (!cli->client) {
        return cli_fail(cli, CMD_USAGE, "Usage", "%s", cli->settings.error);
    }
    client_seen_number(cli->client, *zxid);
    code = check_paths(cli) && check_numbers(cli) ? run_with_libcurl(cli) : CMD_USAGE;
    *zxid = cli->client->seen_zxid;
    client_close(cli->client);
    return code == CMD_SHOWN ? CMD_OK : code;
}

static int run_parsed(struct cli *cli, uint64_t *zxid)
{
    int code = CMD_USAGE;

    if (settings_load(&cli->settings, &cli->args)) {
        cli->out.format = cli->settings.format;
        cli->out.color = cli->settings.color;
        cli->out.silent = cli->settings.curl;
        code = run_opened(cli, zxid);
    } else {
        code = cli_fail(cli, CMD_USAGE, "Usage", "%s", cli->settings.error);
    }
    settings_release(&cli->settings);
    return code;
}

int cli_run(const struct cmd *cmd, int arg_count, char **args, uint64_t *zxid)
{
    struct cli *cli = NULL;
    int code = CMD_USAGE;

    if (asks_help(arg_count, args)) {
        help_one(cmd);
        return CMD_OK;
    }
    if (cmd->run_alone) {
        return cmd->run_alone(arg_count, args);
    }
    cli = mem_zalloc(1, sizeof(*cli));
    cli->cmd = cmd;
    cli->out.cmd = cmd->name;
    cli->out.format = settings_format(&arg_count, args, false);
    buf_init(&cli->named, URL_MAX);
    if (args_parse(&cli->args, cmd, settings_options, arg_count, args)) {
        code = run_parsed(cli, zxid);
    } else {
        code = CLI_USAGE(cli, "%s", cli->args.error);
    }
    buf_release(&cli->named);
    buf_release(&cli->data);
    mem_free(cli);
    return code;
}
