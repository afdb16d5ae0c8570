/* get, stat, whoami: commands of a single read. */
#include "cli/cli.h"

#include <unistd.h>

/* ---- get ---- */

static int get_bytes(struct cli *cli, struct client_request *request)
{
    request->accept = "application/octet-stream";

    int code = cli_ask(cli, request);

    if (code == CMD_OK) {
        struct slice body = buf_slice(&cli->client->reply.body);
        bool ends = body.len == 0 || body.data[body.len - 1] == '\n';

        out_bytes(&cli->out, body);
        if (!ends && isatty(STDOUT_FILENO)) {
            (void)putchar('\n'); /* Otherwise the prompt would follow on the same line. */
        }
    }
    return code;
}

static int get_json(struct cli *cli, struct client_request *request)
{
    json_t *json = NULL;

    request->params[0] = (struct client_param){"dataformat", "auto"};

    int code = cli_ask_json(cli, request, &json);

    if (code == CMD_OK && cli->out.format == SETTINGS_TABLE) {
        out_facts(&cli->out, json,
                  "path:path, text:dataUtf8, base64:data64, version:version, bytes:dataLength");
    } else if (code == CMD_OK) {
        cli_answer(cli);
    }
    return code;
}

static int run_get(struct cli *cli)
{
    struct client_request request = {.path = cli_path(cli, 0)};

    return cli->settings.format == SETTINGS_TEXT ? get_bytes(cli, &request)
                                                 : get_json(cli, &request);
}

const struct cmd cmd_get = {
    .name = "get",
    .group = "Data",
    .summary = "print the data of a znode",
    .usage = "PATH",
    .text = "Prints the bytes unchanged. Both null and empty data print nothing; -o json\n"
            "distinguishes them.\n",
    .examples = {{"zabra get /app/config", "the bytes of the znode, and nothing else"},
                 {"zabra get /app/config -o json", "with its version, times and other fields"},
                 {"zabra get /app/config --linearizable",
                  "never stale, whichever replica answers"}},
    .operands = {1, 1, {CMD_OPERAND_PATH}},
    .run = run_get,
};

/* ---- stat ---- */

static const char stat_columns[] =
    "path:path, version:version, bytes:dataLength, children:numChildren, created:created, "
    "modified:modified, czxid:czxidHex, mzxid:mzxidHex, pzxid:pzxidHex, cversion:cversion, "
    "aversion:aversion, owner:ephemeralOwnerHex, container:container, ttl_ms:ttl";

/* Returns the answer with times that people can read. */
static json_t *with_times(json_t *answer)
{
    json_t *value = json_copy(answer);

    (void)json_object_set_new(value, "created", out_time(jsonr_number(answer, "ctime")));
    (void)json_object_set_new(value, "modified", out_time(jsonr_number(answer, "mtime")));
    return value;
}

static int run_stat(struct cli *cli)
{
    struct client_request request = {.path = cli_path(cli, 0), .params = {{"view", "stat"}}};
    json_t *json = NULL;
    int code = cli_ask_json(cli, &request, &json);

    if (code == CMD_OK && out_is_json(&cli->out)) {
        cli_answer(cli);
    } else if (code == CMD_OK) {
        json_auto_t *value = with_times(json);

        out_facts(&cli->out, value, stat_columns);
    }
    return code;
}

const struct cmd cmd_stat = {
    .name = "stat",
    .summary = "show version, size, times and owner of a znode",
    .usage = "PATH",
    .examples = {{"zabra stat /app", "version, sizes, times, owner session"},
                 {"zabra stat /app >/dev/null && echo there",
                  "exit code 3 when it does not exist"}},
    .operands = {1, 1, {CMD_OPERAND_PATH}},
    .run = run_stat,
};

/* ---- whoami ---- */

static int run_whoami(struct cli *cli)
{
    struct client_request request = {.target = "/whoami/v1"};
    json_t *json = NULL;
    int code = cli_ask_json(cli, &request, &json);

    if (code == CMD_OK && out_is_json(&cli->out)) {
        cli_answer(cli);
    } else if (code == CMD_OK) {
        out_list(&cli->out, json, "ids", "SCHEME:scheme, ID:id");
    }
    if (code == CMD_OK && json_is_true(jsonr_at(json, "super"))) {
        out_say(&cli->out, "super user: ACLs do not apply\n");
    }
    return code;
}

const struct cmd cmd_whoami = {
    .name = "whoami",
    .summary = "show how a replica identifies you",
    .usage = "",
    .text = "Prints one line for each of your identities that an ACL entry may name.\n",
    .examples = {{"zabra whoami --user bob --password-file ~/.zabra-password",
                  "your identities for ACLs"}},
    .run = run_whoami,
};
