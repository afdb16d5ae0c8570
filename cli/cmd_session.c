/* session: a command that runs in a session, and the session that a command is in. */
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/hold.h"
#include "cli/url.h"

#include <string.h>

enum {
    PAGE = 1000,
    LIMIT_DEFAULT = 1000000
};

static const struct out_column list_columns[] = {
    {"SESSION", "session", false},      {"TIMEOUT", "timeout_ms", true},
    {"EPHEMERALS", "ephemerals", true}, {"HEARD-AT", "heard_at", true},
    {"HEARD-MS", "heard_ms", true},     {"ADDRESS", "address", false},
    {"IDENTITY", "identity", false},    {.title = NULL},
};

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
        (void)cli_usage(cli, "ZABRA_SESSION, the secret of a session, is not set: run this "
                             "within 'zabra session -- COMMAND'");
    }
    return cli->settings.session != NULL;
}

static int show(struct cli *cli)
{
    json_t *json = NULL;
    int code = CMD_USAGE;

    if (!is_in_session(cli)) {
        return CMD_USAGE;
    }
    code = cli_read(cli, "/sessions/v1/", &json);
    if (code == CMD_OK) {
        out_facts(&cli->out, json, columns);
    }
    return code;
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

/* ---- The sessions of all. ---- */

static void list_url(int64_t left, const char *after, struct buf *url)
{
    url_init(url, "/sessions/v1", NULL);
    url_param(url, "view", "list");
    url_param_number(url, "limit", left < PAGE ? left : PAGE);
    if (*after) {
        url_param(url, "after", after);
    }
}

/* `*whole` is what was listed so far; NULL: nothing. */
static int add_page(struct cli *cli, int64_t left, json_t **whole)
{
    struct buf url;
    int code = CMD_OK;
    json_t *page = NULL;

    list_url(left, jsonr_text(*whole, "after"), &url);
    /* With --curl one page is shown: the next one depends on it. */
    code = cli_read(cli, buf_cstr(&url), &page);
    buf_release(&url);
    if (code != CMD_OK) {
        return code;
    }
    if (!*whole) {
        *whole = json_object();
        (void)json_object_set_new(*whole, "sessions", json_array());
    }
    (void)json_array_extend(jsonr_at(*whole, "sessions"), jsonr_at(page, "sessions"));
    (void)json_object_set(*whole, "more", jsonr_at(page, "more"));
    (void)json_object_del(*whole, "after");
    if (jsonr_at(page, "after")) {
        (void)json_object_set(*whole, "after", jsonr_at(page, "after"));
    }
    return CMD_OK;
}

static int list(struct cli *cli)
{
    struct args_range limits = {.min = 1, .max = LIMIT_DEFAULT, .otherwise = LIMIT_DEFAULT};
    json_t *whole = NULL;
    int64_t limit = 0;
    int64_t left = 0;
    int code = CMD_OK;

    if (!cli_number(cli, "limit", limits, &limit)) {
        return CMD_USAGE;
    }
    do {
        left = limit - (int64_t)json_array_size(jsonr_at(whole, "sessions"));
        code = left > 0 ? add_page(cli, left, &whole) : CMD_OK;
    } while (code == CMD_OK && left > 0 && json_is_true(jsonr_at(whole, "more")));
    if (code == CMD_OK) {
        out_list(&cli->out, whole, "sessions", list_columns);
    }
    json_decref(whole);
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

static const struct cmd_option options[] = {
    HOLD_OPTIONS,
    {"limit", 'n', "N", "list: at most N sessions, the oldest (1000000)", NULL},
    {.name = NULL},
};

static const struct cmd_example examples[] = {
    {"zabra session -- sh -c 'zabra create /app/me -e && ./serve'",
     "/app/me exists as long as ./serve runs"},
    {"zabra session show", "prints the timeout and number of ephemerals of the current session"},
    {"zabra session list -o table", "lists your sessions; the super user sees all"},
    {.line = NULL},
};

const struct cmd cmd_session = {
    .name = "session",
    .summary = "run a command in a session; show, close or list sessions",
    .usage = "-- COMMAND [ARGUMENT...] | show | close | list",
    .text = "zabra keeps the session alive while the command runs, then closes it, which\n"
            "deletes its ephemeral znodes. ZABRA_SESSION in the environment of the command\n"
            "has the secret, so that each 'zabra' in it uses the session. The list has\n"
            "public ids. It shows the sessions that your user or your address has opened;\n"
            "the super user sees all. Only the leader knows the last heartbeat of every\n"
            "session; use --endpoints to ask it.\n" HOLD_HELP,
    .options = options,
    .examples = examples,
    .operands = {CMD_OPERAND_TEXT},
    .operands_max = 1,
    .has_child = true,
    .run = run,
};
