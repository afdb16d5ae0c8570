/*
 * cp, mv: copy or move a znode or a subtree in one transaction, so that no client sees half of it.
 *
 * The subtree is read as it was at one moment. A move deletes each znode by czxid, version and
 * aversion; when another client has changed, replaced or added a znode meanwhile, nothing happens,
 * and the subtree is read again.
 */
#include "base/os_clock.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/copy.h"
#include "cli/url.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Reported like any failure of the ensemble, with advice when the subtree is too large. */
static int tell(const struct cli *cli, int code)
{
    const struct client_error *error = client_error(cli->client);

    if (code != CMD_LIMIT) {
        return cli_tell(cli);
    }
    return cli_fail(cli, CMD_LIMIT, error->code,
                    "%s; the subtree is too large for one transaction: use 'zabra export' and "
                    "'zabra import'",
                    error->message);
}

/* Whether what is in the way is in the source: it has changed since it was read. */
static bool is_source(const struct cli *cli, size_t creates)
{
    const json_t *index = json_object_get(client_error(cli->client)->problem, "op_index");

    return index && json_integer_value(index) >= (json_int_t)creates;
}

static int ask_multi(struct cli *cli, const struct copy *copy)
{
    struct client_request request = {.method = "POST",
                                     .target = "/multi/v1",
                                     .has_body = true,
                                     .type = "application/json",
                                     .last = true};
    struct buf body;
    int code = CMD_OK;

    buf_init(&body, CLIENT_BODY_MAX);
    buf_append_str(&body, "{\"ops\":");
    jsonr_put(&body, copy->ops);
    buf_append_str(&body, "}");
    request.body = buf_slice(&body);
    code = client_ask(cli->client, &request);
    buf_release(&body);
    return code;
}

static void print_done(const struct cli *cli, const struct copy *copy)
{
    static const struct out_column columns[] = {
        {"from", "from", false},
        {"to", "to", false},
        {"znodes", "znodes", false},
        {"ephemerals left out", "skippedEphemerals", false},
        {.title = NULL},
    };

    if (out_is_text(&cli->out)) {
        if (copy->ephemerals > 0) {
            (void)fprintf(stderr, "zabra cp: left out %" PRId64 " ephemeral znodes\n",
                          copy->ephemerals);
        }
        return;
    }

    json_t *value =
        json_pack("{s:s,s:s,s:I,s:I}", "from", copy->from, "to", copy->to, "znodes",
                  (json_int_t)copy->count, "skippedEphemerals", (json_int_t)copy->ephemerals);

    out_facts(&cli->out, value, columns);
    json_decref(value);
}

static int run_copy(struct cli *cli, struct copy *copy)
{
    uint64_t end_ms = os_now_ms() + (uint64_t)cli->settings.timeout_ms;
    bool again = true;
    int code = CMD_OK;

    while (again) {
        code = copy_read(cli, copy);
        if (code == CMD_OK) {
            code = ask_multi(cli, copy);
        } else if (copy->told) {
            return code;
        }
        again = copy->move && code > CMD_OK && is_source(cli, copy->count) && os_now_ms() < end_ms;
    }
    if (code == CMD_OK) {
        print_done(cli, copy);
    }
    return code > CMD_OK ? tell(cli, code) : code;
}

static bool is_within(const char *path, const char *top)
{
    size_t len = strlen(top);

    return strncmp(path, top, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

static int run(struct cli *cli, bool move)
{
    struct copy copy = {.move = move,
                        .recursive = move || args_has(&cli->args, "recursive"),
                        .parents = args_has(&cli->args, "parents"),
                        .with_acl = !args_has(&cli->args, "no-acl")};
    int code = CMD_USAGE;

    if (!cli_path(cli, 0, &copy.from) || !cli_path(cli, 1, &copy.to)) {
        return CMD_USAGE;
    }
    if (copy.from[1] == '\0' || copy.to[1] == '\0') {
        return cli_usage(cli, "the root cannot be copied or moved");
    }
    if (is_within(copy.to, copy.from) && (move || strcmp(copy.to, copy.from) == 0)) {
        return cli_usage(cli, "%s is the same as %s, or below it", copy.to, copy.from);
    }
    code = run_copy(cli, &copy);
    json_decref(copy.ops);
    return code;
}

static int run_cp(struct cli *cli)
{
    return run(cli, false);
}

static int run_mv(struct cli *cli)
{
    return run(cli, true);
}

#define COPY_TEXT                                                                              \
    "It is one transaction: no client sees a part of it. A transaction is limited to\n"        \
    "maxMultiOps operations and maxMultiBytes (see /limits/v1); mv needs two operations for\n" \
    "each znode. For larger subtrees use export and import. ACLs, containers and TTLs are\n"   \
    "kept. DST must not exist. An ephemeral znode belongs to its session: "

static const struct cmd_option cp_options[] = {
    {"recursive", 'r', NULL, "with the whole subtree", NULL},
    {"parents", 'p', NULL, "create missing parents of DST", NULL},
    {"no-acl", 0, NULL, "do not copy the ACLs: every client gets all permissions", NULL},
    {.name = NULL},
};

static const struct cmd_example cp_examples[] = {
    {"zabra cp -r /app/blue /app/green", "copies a consistent state of the subtree"},
    {.line = NULL},
};

const struct cmd cmd_cp = {
    .name = "cp",
    .summary = "copy a znode or a subtree",
    .usage = "SRC DST",
    .text = COPY_TEXT "it is left out.\n",
    .options = cp_options,
    .examples = cp_examples,
    .operands = {CMD_OPERAND_PATH, CMD_OPERAND_PATH},
    .operands_min = 2,
    .operands_max = 2,
    .run = run_cp,
};

static const struct cmd_option mv_options[] = {
    {"parents", 'p', NULL, "create missing parents of DST", NULL},
    {"no-acl", 0, NULL, "do not keep the ACLs: every client gets all permissions", NULL},
    {.name = NULL},
};

static const struct cmd_example mv_examples[] = {
    {"zabra mv /app/config.new /app/config.old", "renames it, with its subtree"},
    {.line = NULL},
};

const struct cmd cmd_mv = {
    .name = "mv",
    .summary = "move a znode with its subtree",
    .usage = "SRC DST",
    .text = COPY_TEXT "it is not moved. Versions start at 0 at DST.\n"
                      "If the source changes meanwhile, zabra reads it again and retries.\n",
    .options = mv_options,
    .examples = mv_examples,
    .operands = {CMD_OPERAND_PATH, CMD_OPERAND_PATH},
    .operands_min = 2,
    .operands_max = 2,
    .run = run_mv,
};
