/* session: runs a command in a session, and shows or closes the session that a command is in. */
#include "cli/wait.h"

static const char list_columns[] =
    "SESSION:session, TIMEOUT:timeout_ms>, EPHEMERALS:ephemerals>, HEARD-AT:heard_at>, "
    "HEARD-MS:heard_ms>, ADDRESS:address, IDENTITY:identity";

static const char columns[] =
    "session:session, timeout_ms:timeout_ms>, opened_ms:opened_ms>, ephemerals:ephemerals>, "
    "ephemeral_bytes:ephemeral_bytes>";

static bool is_in_session(const struct cli *cli)
{
    return cli->settings.session ||
           CLI_REFUSE(cli, "ZABRA_SESSION, the secret of a session, is not set: run this within "
                           "'zabra session -- COMMAND'");
}

static int show(struct cli *cli)
{
    struct client_request request = {.target = "/sessions/v1/"};
    json_t *json = NULL;
    int code = is_in_session(cli) ? cli_ask_json(cli, &request, &json) : CMD_USAGE;

    if (code == CMD_OK) {
        out_facts(&cli->out, json, columns);
    }
    return code;
}

static int close_session(struct cli *cli)
{
    struct client_request request = {
        .method = "DELETE", .target = "/sessions/v1/", .keyless = true};
    int code = is_in_session(cli) ? cli_ask(cli, &request) : CMD_USAGE;

    if (code == CMD_OK) {
        out_result(&cli->out, json_pack("{s:b}", "closed", 1));
    }
    return code;
}

static int list(struct cli *cli)
{
    struct client_request request = {.target = "/sessions/v1", .params = {{"view", "list"}}};
    json_auto_t *whole = NULL;
    int code = cli_ask_pages(cli, &request, "sessions", &whole);

    if (code == CMD_OK) {
        /* Both members describe the query, not a session. */
        (void)json_object_del(whole, "looked");
        (void)json_object_del(whole, "hears_all");
        out_list(&cli->out, whole, "sessions", list_columns);
    }
    return code;
}

static int run(struct cli *cli)
{
    static int (*const acts[])(struct cli * cli) = {show, close_session, list};
    const char *verb = args_operand(&cli->args, 0);

    if (!verb) {
        return hold_around(cli, NULL, NULL, NULL);
    }
    if (cli->args.child) {
        return CLI_USAGE(cli, "give either \"%s\" or a command to run", verb);
    }

    int index = cli_choice(cli, "", verb, "show, close, list");

    return index < 0 ? CMD_USAGE : acts[index](cli);
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
                CMD_NUMBER("limit", 'n', "N", "list: at most N sessions, the oldest (1000000)", 1,
                           CLI_LIMIT_MAX, CLI_LIMIT_MAX)},
    .examples = {{"zabra session -- sh -c 'zabra create /app/me -e && ./serve'",
                  "/app/me exists as long as ./serve runs"},
                 {"zabra session show",
                  "prints the timeout and number of ephemerals of the current session"},
                 {"zabra session list -o table", "lists your sessions; the super user sees all"}},
    .operands = {0, 1, {CMD_OPERAND_TEXT}},
    .has_child = true,
    .run = run,
};
