#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/url.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    MAX_DEFAULT = 1000,
    LINE_MAX_LEN = 64
};

/* The number of znodes; -1: more than one answer can hold. An exit code in `ret_code`. */
static int64_t count(const struct cli *cli, const char *path, int *ret_code)
{
    struct buf url;
    int64_t nodes = 0;

    url_init(&url, "/znodes/v1", path);
    url_param(&url, "view", "tree");
    *ret_code = client_ask(cli->client, &(struct client_request){.target = buf_cstr(&url)});
    buf_release(&url);
    if (*ret_code == CMD_LIMIT) {
        *ret_code = CMD_OK;
        return -1;
    }
    if (*ret_code == CMD_NO_NODE && args_has(&cli->args, "force")) {
        *ret_code = CMD_OK;
        return 1; /* Without znodes below, nothing is asked. */
    }
    if (*ret_code == CMD_OK) {
        nodes = (int64_t)json_array_size(jsonr_at(client_json(cli->client), "nodes"));
    } else if (*ret_code > CMD_OK) {
        (void)cli_tell(cli);
    }
    return nodes;
}

/* True when the user answers yes. */
static bool ask_person(const char *path, int64_t nodes)
{
    char line[LINE_MAX_LEN];

    if (nodes < 0) {
        (void)fprintf(stderr, "delete %s and more znodes below it than can be counted? [y/N] ",
                      path);
    } else {
        (void)fprintf(stderr, "delete %s and the %" PRId64 " znode%s below it? [y/N] ", path,
                      nodes - 1, nodes == 2 ? "" : "s");
    }
    return fgets(line, sizeof(line), stdin) && (line[0] == 'y' || line[0] == 'Y');
}

/* CMD_OK when the delete may continue. */
static int confirm(const struct cli *cli, const char *path)
{
    int code = CMD_OK;

    if (args_has(&cli->args, "yes") || cli->settings.curl) {
        return CMD_OK;
    }
    if (!isatty(STDIN_FILENO)) {
        return cli_usage(cli,
                         "cannot ask whether to delete all of %s without a terminal; give "
                         "--yes",
                         path);
    }

    int64_t nodes = count(cli, path, &code);

    if (code == CMD_OK && nodes != 1 && !ask_person(path, nodes)) {
        return cli_fail(cli, CMD_FAILED, "Declined", "nothing was deleted");
    }
    return code;
}

static bool delete_url(const struct cli *cli, const char *path, struct buf *url)
{
    struct args_range versions = {.min = 0, .max = INT32_MAX};
    struct args_range counts = {.min = 1, .max = UINT32_MAX, .otherwise = MAX_DEFAULT};
    int64_t version = 0;
    int64_t max = 0;

    if (!cli_number(cli, "version", versions, &version) || !cli_number(cli, "max", counts, &max)) {
        return false;
    }
    url_init(url, "/znodes/v1", path);
    if (args_has(&cli->args, "version")) {
        url_param_number(url, "version", version);
    }
    if (args_has(&cli->args, "recursive")) {
        url_param(url, "recursive", NULL);
        url_param_number(url, "max", max);
    }
    return true;
}

static int delete_znode(const struct cli *cli, const char *path)
{
    struct buf url;
    int code = CMD_OK;

    if (!delete_url(cli, path, &url)) {
        return CMD_USAGE;
    }
    code = client_ask(cli->client, &(struct client_request){
                                       .method = "DELETE", .target = buf_cstr(&url), .last = true});
    buf_release(&url);

    bool gone = code == CMD_NO_NODE && args_has(&cli->args, "force");

    if (code > CMD_OK && !gone) {
        return cli_tell(cli);
    }
    if (code != CMD_SHOWN && !out_is_text(&cli->out)) {
        static const struct out_column columns[] = {
            {"path", "path", false}, {"deleted", "deleted", false}, {.title = NULL}};
        json_t *value = json_pack("{s:s,s:b}", "path", path, "deleted", gone ? 0 : 1);

        out_facts(&cli->out, value, columns);
        json_decref(value);
    }
    return gone ? CMD_OK : code;
}

static int run(struct cli *cli)
{
    const char *path = NULL;
    int code = CMD_OK;

    if (!cli_path(cli, 0, &path)) {
        return CMD_USAGE;
    }
    if (args_has(&cli->args, "max") && !args_has(&cli->args, "recursive")) {
        return cli_usage(cli, "--max needs --recursive");
    }
    if (args_has(&cli->args, "recursive")) {
        code = confirm(cli, path);
    }
    return code == CMD_OK ? delete_znode(cli, path) : code;
}

static const struct cmd_option options[] = {
    {"recursive", 'r', NULL, "with the whole subtree, in one transaction", NULL},
    {"max", 0, "N", "with -r: refuse to delete more than N znodes (1000)", NULL},
    {"yes", 'y', NULL, "with -r: do not ask", NULL},
    {"version", 0, "N", "only if the version is N", NULL},
    {"force", 'f', NULL, "no error when the znode does not exist", NULL},
    {.name = NULL},
};

static const struct cmd_example examples[] = {
    {"zabra rm /app/old", "exit code 4 when it has children"},
    {"zabra rm -r /app/old", "asks on a terminal; without one, give --yes"},
    {.line = NULL},
};

const struct cmd cmd_rm = {
    .name = "rm",
    .summary = "delete a znode or a subtree",
    .usage = "PATH",
    .options = options,
    .examples = examples,
    .operands = {CMD_OPERAND_PATH},
    .operands_min = 1,
    .operands_max = 1,
    .run = run,
};
