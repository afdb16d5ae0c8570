/* upgrade: the feature level of the ensemble, and its hold. */
#include "cli/member_list.h"

enum {
    LEVEL_MAX = UINT16_MAX,
    BODY_MAX = 128
};

static const char columns[] = "ID:id>, ROLE:role, STATE:state, VERSION:version";

/* ---- Showing ---- */

static void say_level(const struct cli *cli, const json_t *whole)
{
    out_say(&cli->out, "feature level %" PRId64, jsonr_number(whole, "level"));
    if (json_is_integer(jsonr_at(whole, "hold"))) {
        out_say(&cli->out, ", held at %" PRId64, jsonr_number(whole, "hold"));
    }
    out_say(&cli->out, "\n");
}

/* ---- Changing ---- */

/* Sends the change; `done` is what is shown then. Drops `done`. */
static int change(struct cli *cli, const char *body, json_t *done)
{
    struct client_request request = {.method = "POST",
                                     .target = "/ensemble/v1/level",
                                     .has_body = true,
                                     .body = slice_str(body),
                                     .type = "application/json",
                                     .last = true};
    int code = cli_ask(cli, &request);

    if (code == CMD_OK) {
        out_result(&cli->out, done);
    } else {
        json_decref(done);
    }
    return code;
}

static int hold(struct cli *cli, int64_t level)
{
    char body[BODY_MAX];

    (void)snprintf(body, sizeof(body), "{\"hold\":%" PRId64 "}", level);
    return change(cli, body, json_pack("{s:I}", "hold", (json_int_t)level));
}

static int raise_to(struct cli *cli, int64_t level)
{
    char body[BODY_MAX];

    (void)snprintf(body, sizeof(body), "{\"raise\":%" PRId64 ",\"force\":%s}", level,
                   args_has(&cli->args, "force") ? "true" : "false");
    return change(cli, body, json_pack("{s:I}", "level", (json_int_t)level));
}

/* Takes the level of the command line; false when an error has been reported. */
static bool take_level(const struct cli *cli, int64_t *ret_level)
{
    const char *text = args_operand(&cli->args, 1);
    const struct cmd_range range = {.min = 1, .max = LEVEL_MAX};

    if (!text) {
        return CLI_REFUSE(cli, "the level is missing");
    }
    if (!args_number(text, range, ret_level)) {
        return CLI_REFUSE(cli, "\"%s\" is not a number from 1 to %d", text, LEVEL_MAX);
    }
    return true;
}

static int run_upgrade(struct cli *cli)
{
    enum {
        STATUS,
        HOLD,
        RELEASE,
        RAISE
    };

    const char *word = args_operand(&cli->args, 0) ? args_operand(&cli->args, 0) : "status";
    int verb = cli_choice(cli, "", word, "status, hold, release, raise");
    bool takes_level = verb == HOLD || verb == RAISE;
    int64_t level = 0;

    if (verb < STATUS || (takes_level && !take_level(cli, &level))) {
        return CMD_USAGE;
    }
    if (!takes_level && args_operand(&cli->args, 1)) {
        return CLI_USAGE(cli, "%s takes no level", word);
    }
    if (verb != RAISE && args_has(&cli->args, "force")) {
        return CLI_USAGE(cli, "--force is only for raise");
    }
    return verb == STATUS  ? member_list_print(cli, columns, say_level)
           : verb == HOLD  ? hold(cli, level)
           : verb == RAISE ? raise_to(cli, level)
                           : change(cli, "{\"hold\":null}", json_pack("{s:n}", "hold"));
}

const struct cmd cmd_upgrade = {
    .name = "upgrade",
    .summary = "show, hold or raise the feature level of the ensemble",
    .usage = "[status | hold LEVEL | release | raise LEVEL]",
    .text = "The level rises by itself once all members run a release that knows it, and then\n"
            "older releases cannot be started any more. 'hold' keeps it at LEVEL or below until\n"
            "'release'. 'raise' is for an ensemble with a member that is gone for good. Changes\n"
            "need --user super. Exit code 1 when the ensemble refuses the change.\n",
    .options = {CMD_FLAG("force", 0, "raise although members are away: they need a later release")},
    .examples = {{"zabra upgrade", "the level, and which release each member runs"},
                 {"zabra upgrade hold 1 --user super", "an upgrade that may be taken back"},
                 {"zabra upgrade release --user super", "the level may rise again"}},
    .operands = {0, 2, {CMD_OPERAND_TEXT, CMD_OPERAND_TEXT}},
    .run = run_upgrade,
};
