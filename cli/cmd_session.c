/* session: a command that runs in a session, and the session that a command is in. */
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/hold.h"

#include <string.h>

static const struct out_column columns[] = {
    {"session", "session", false},
    {"timeout_ms", "timeout_ms", true},
    {"opened_ms", "opened_ms", true},
    {"ephemerals", "ephemerals", true},
    {"ephemeral_bytes", "ephemeral_bytes", true},
    {.title = NULL},
};

static bool is_in_session(const struct cli *cli)
{
    if (!cli->settings.session) {
        (void)cli_usage(cli, "there is no session: ZABRA_SESSION has its secret, and is set within "
                             "'zabra session -- COMMAND'");
    }
    return cli->settings.session != NULL;
}

static int show(struct cli *cli)
{
    const json_t *json = NULL;
    int code = CMD_USAGE;

    if (!is_in_session(cli)) {
        return CMD_USAGE;
    }
    code = cli_ask(cli, &(struct client_request){.target = "/sessions/v1/", .last = true});
    if (code != CMD_OK) {
        return code;
    }
    json = cli_json(cli);
    if (json) {
        out_facts(&cli->out, json, columns);
    }
    return json ? CMD_OK : CMD_FAILED;
}

static int close_session(struct cli *cli)
{
    struct client_request request = {
        .method = "DELETE", .target = "/sessions/v1/", .keyless = true, .last = true};
    json_t *value = NULL;
    int code = CMD_USAGE;

    if (!is_in_session(cli)) {
        return CMD_USAGE;
    }
    code = cli_ask(cli, &request);
    if (code == CMD_OK && !out_is_text(&cli->out)) {
        static const struct out_column closed[] = {{"closed", "closed", false}, {.title = NULL}};

        value = json_pack("{s:b}", "closed", 1);
        out_facts(&cli->out, value, closed);
        json_decref(value);
    }
    return code;
}

static int run_child(struct cli *cli)
{
    struct hold hold;
    int code = hold_open(&hold, cli, NULL);

    if (code == CMD_OK) {
        code = hold_run(&hold, NULL);
    }
    hold_close(&hold);
    return code;
}

static int run(struct cli *cli)
{
    const char *verb = args_operand(&cli->args, 0);

    if (!verb) {
        return run_child(cli);
    }
    if (cli->args.child) {
        return cli_usage(cli, "\"%s\" and a command to run exclude each other", verb);
    }
    if (strcmp(verb, "show") == 0) {
        return show(cli);
    }
    if (strcmp(verb, "close") == 0) {
        return close_session(cli);
    }
    return cli_usage(cli, "\"%s\" is neither show nor close", verb);
}

static const struct cmd_option options[] = {
    HOLD_OPTIONS,
    {.name = NULL},
};

static const struct cmd_example examples[] = {
    {"zabra session -- sh -c 'zabra create /app/me -e && ./serve'",
     "/app/me is there for as long as ./serve runs"},
    {"zabra session show", "within: time-out and number of ephemerals"},
    {.line = NULL},
};

const struct cmd cmd_session = {
    .name = "session",
    .summary = "run a command in a session, show that session, close it",
    .usage = "-- COMMAND [ARGUMENT...] | show | close",
    .text = "The session is kept alive while the command runs, and closed behind it: its\n"
            "ephemeral znodes are gone then. ZABRA_SESSION in the environment is its secret,\n"
            "and puts each 'zabra' within into it. There is no list of sessions: a replica\n"
            "tells each only its own.\n" HOLD_HELP,
    .options = options,
    .examples = examples,
    .operands = {CMD_OPERAND_TEXT},
    .operands_max = 1,
    .has_child = true,
    .run = run,
};
