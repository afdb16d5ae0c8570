/* get, stat, whoami: commands of a single read. */
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/url.h"

#include <stdio.h>
#include <unistd.h>

/* ---- get ---- */

static const struct out_column data_columns[] = {
    {"path", "path", false},       {"text", "dataUtf8", false},    {"base64", "data64", false},
    {"version", "version", false}, {"bytes", "dataLength", false}, {.title = NULL},
};

static int get_bytes(struct cli *cli, const char *target)
{
    struct client_request request = {
        .target = target, .accept = "application/octet-stream", .last = true};
    int code = cli_ask(cli, &request);

    if (code == CMD_OK) {
        struct slice body = buf_slice(&client_reply(cli->client)->body);
        bool ends = body.len == 0 || body.data[body.len - 1] == '\n';

        out_bytes(&cli->out, body);
        if (!ends && isatty(STDOUT_FILENO)) {
            (void)putchar('\n'); /* Otherwise the prompt would follow on the same line. */
        }
    }
    return code;
}

static int get_json(struct cli *cli, const char *target)
{
    json_t *json = NULL;
    int code = cli_read(cli, target, &json);

    if (code != CMD_OK) {
        return code;
    }
    if (cli->out.format == SETTINGS_TABLE) {
        out_facts(&cli->out, json, data_columns);
    } else {
        cli_answer(cli);
    }
    return CMD_OK;
}

static int run_get(struct cli *cli)
{
    const char *path = NULL;
    struct buf url;
    int code = CMD_USAGE;

    if (!cli_path(cli, 0, &path)) {
        return CMD_USAGE;
    }
    url_init(&url, "/znodes/v1", path);
    if (cli->settings.format == SETTINGS_TEXT) {
        code = get_bytes(cli, buf_cstr(&url));
    } else {
        url_param(&url, "dataformat", "auto");
        code = get_json(cli, buf_cstr(&url));
    }
    buf_release(&url);
    return code;
}

static const struct cmd_example get_examples[] = {
    {"zabra get /app/config", "the bytes of the znode, and nothing else"},
    {"zabra get /app/config -o json", "with its version, times and other fields"},
    {"zabra get /app/config --linearizable", "never stale, whichever replica answers"},
    {.line = NULL},
};

const struct cmd cmd_get = {
    .name = "get",
    .summary = "print the data of a znode",
    .usage = "PATH",
    .text = "Prints the bytes unchanged. Both null and empty data print nothing; -o json\n"
            "distinguishes them.\n",
    .examples = get_examples,
    .operands = {CMD_OPERAND_PATH},
    .operands_min = 1,
    .operands_max = 1,
    .run = run_get,
};

/* ---- stat ---- */

static const struct out_column stat_columns[] = {
    {"path", "path", false},
    {"version", "version", false},
    {"bytes", "dataLength", false},
    {"children", "numChildren", false},
    {"created", "created", false},
    {"modified", "modified", false},
    {"czxid", "czxidHex", false},
    {"mzxid", "mzxidHex", false},
    {"pzxid", "pzxidHex", false},
    {"cversion", "cversion", false},
    {"aversion", "aversion", false},
    {"owner", "ephemeralOwnerHex", false},
    {"container", "container", false},
    {"ttl_ms", "ttl", false},
    {.title = NULL},
};

/* The answer, with times that people can read. */
static json_t *with_times(json_t *answer)
{
    json_t *value = json_copy(answer);
    char created[OUT_TIME_MAX];
    char modified[OUT_TIME_MAX];

    out_time(jsonr_number(answer, "ctime"), created);
    out_time(jsonr_number(answer, "mtime"), modified);
    (void)json_object_set_new(value, "created", json_string(created));
    (void)json_object_set_new(value, "modified", json_string(modified));
    return value;
}

static int ask_stat(struct cli *cli, const char *target)
{
    json_t *json = NULL;
    int code = cli_read(cli, target, &json);

    if (code != CMD_OK) {
        return code;
    }
    if (out_is_json(&cli->out)) {
        cli_answer(cli);
    } else {
        json_t *value = with_times(json);

        out_facts(&cli->out, value, stat_columns);
        json_decref(value);
    }
    return CMD_OK;
}

static int run_stat(struct cli *cli)
{
    const char *path = NULL;
    struct buf url;
    int code = CMD_USAGE;

    if (!cli_path(cli, 0, &path)) {
        return CMD_USAGE;
    }
    url_init(&url, "/znodes/v1", path);
    url_param(&url, "view", "stat");
    code = ask_stat(cli, buf_cstr(&url));
    buf_release(&url);
    return code;
}

static const struct cmd_example stat_examples[] = {
    {"zabra stat /app", "version, sizes, times, owner session"},
    {"zabra stat /app >/dev/null && echo there", "exit code 3 when it does not exist"},
    {.line = NULL},
};

const struct cmd cmd_stat = {
    .name = "stat",
    .summary = "show version, size, times and owner of a znode",
    .usage = "PATH",
    .examples = stat_examples,
    .operands = {CMD_OPERAND_PATH},
    .operands_min = 1,
    .operands_max = 1,
    .run = run_stat,
};

/* ---- whoami ---- */

static const struct out_column id_columns[] = {
    {"SCHEME", "scheme", false}, {"ID", "id", false}, {.title = NULL}};

static int run_whoami(struct cli *cli)
{
    json_t *json = NULL;
    int code = cli_read(cli, "/whoami/v1", &json);

    if (code != CMD_OK) {
        return code;
    }
    if (out_is_json(&cli->out)) {
        cli_answer(cli);
        return CMD_OK;
    }
    out_list(&cli->out, json, "ids", id_columns);
    if (json_is_true(jsonr_at(json, "super"))) {
        out_say(&cli->out, "super user: ACLs do not apply\n");
    }
    return CMD_OK;
}

static const struct cmd_example whoami_examples[] = {
    {"zabra whoami --user bob --password-file ~/.zabra-password", "your identities for ACLs"},
    {.line = NULL},
};

const struct cmd cmd_whoami = {
    .name = "whoami",
    .summary = "show how a replica identifies you",
    .usage = "",
    .text = "Prints one line for each of your identities that an ACL entry may name.\n",
    .examples = whoami_examples,
    .run = run_whoami,
};
