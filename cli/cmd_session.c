/* session: a command that runs in a session, and the session that a command is in. */
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/wait.h"

#include <string.h>

enum {
    LIMIT_DEFAULT = 1000000
};

static const char list_columns[] =
    "SESSION:session, TIMEOUT:timeout_ms>, EPHEMERALS:ephemerals>, HEARD-AT:heard_at>, "
    "HEARD-MS:heard_ms>, ADDRESS:address, IDENTITY:identity";

static const char columns[] =
    "session:session, timeout_ms:timeout_ms>, opened_ms:opened_ms>, ephemerals:ephemerals>, "
    "ephemeral_bytes:ephemeral_bytes>";

static bool is_in_session(const struct cli *cli)
{
    if (!cli->settings.session) {
        (void)cli_usage(cli, "ZABRA_SESSION, the secret of a session, is not set: run this "
                             "within 'zabra session -- COMMAND'");
    }
    return cli->settings.session != NULL;
}

static int show(struct cli *cli)
{
    struct client_request request = {.target = "/sessions/v1/", .last = true};
    json_t *json = NULL;
    int code = CMD_USAGE;

    if (!is_in_session(cli)) {
        return CMD_USAGE;
    }
    code = cli_ask_json(cli, &request, &json);
    if (code == CMD_OK) {
        out_facts(&cli->out, json, columns);
    }
    return code;
}

static int close_session(struct cli *cli)
{
    struct client_request request = {
        .method = "DELETE", .target = "/sessions/v1/", .keyless = true, .last = true};
    int code = CMD_USAGE;

    if (!is_in_session(cli)) {
        return CMD_USAGE;
    }
    code = cli_ask(cli, &request);
    if (code == CMD_OK && !out_is_text(&cli->out)) {
        out_result(&cli->out, json_pack("{s:b}", "closed", 1));
    }
    return code;
}

/* ---- The sessions of all. ---- */

static int list(struct cli *cli)
{
    struct args_range limits = {.min = 1, .max = LIMIT_DEFAULT, .otherwise = LIMIT_DEFAULT};
    struct client_request request = {.target = "/sessions/v1", .params = {{"view", "list"}}};
    json_auto_t *whole = NULL;
    int64_t limit = 0;
    int code = CMD_OK;

    if (!cli_number(cli, "limit", limits, &limit)) {
        return CMD_USAGE;
    }
    code = cli_ask_pages(cli, &request, "sessions", limit, &whole);
    if (code == CMD_OK) {
        (void)json_object_del(whole, "looked"); /* These two are about one page. */
        (void)json_object_del(whole, "hears_all");
        out_list(&cli->out, whole, "sessions", list_columns);
    }
    return code;
}

/* ---- All. ---- */

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
        return cli_usage(cli, "give either \"%s\" or a command to run", verb);
    }
    if (strcmp(verb, "show") == 0) {
        return show(cli);
    }
    if (strcmp(verb, "close") == 0) {
        return close_session(cli);
    }
    if (strcmp(verb, "list") == 0) {
        return list(cli);
    }
    return cli_usage(cli, "\"%s\" is not one of show, close, list", verb);
}

const struct cmd cmd_session = {
    .name = "session",
    .group = "Sessions and rights",
    .summary = "run a command in a session; show, close or list sessions",
    .usage = "-- COMMAND [ARGUMENT...] | show | close | list",
    .text = "zabra keeps the session alive while the command runs, then closes it, which\n"
            "deletes its ephemeral znodes. ZABRA_SESSION in the environment of the command\n"
            "has the secret, so that each 'zabra' in it uses the session. The list has\n"
            "public ids. It shows the sessions that your user or your address has opened;\n"
            "the super user sees all. Only the leader knows the last heartbeat of every\n"
            "session; use --endpoints to ask it.\n" HOLD_HELP,
    .options = {HOLD_OPTIONS,
                {"limit", 'n', "N", "list: at most N sessions, the oldest (1000000)", NULL}},
    .examples = {{"zabra session -- sh -c 'zabra create /app/me -e && ./serve'",
                  "/app/me exists as long as ./serve runs"},
                 {"zabra session show",
                  "prints the timeout and number of ephemerals of the current session"},
                 {"zabra session list -o table", "lists your sessions; the super user sees all"}},
    .operands = {CMD_OPERAND_TEXT},
    .has_child = true,
    .run = run,
};
