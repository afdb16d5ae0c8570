/* set, create, rm: one write. */
#include "cli/acl_tree.h"

#include <unistd.h>

enum {
    ACL_HEADER_MAX = 4096,
    MAX_DEFAULT = 1000, /* Most znodes that one rm deletes, without --max. */
    LINE_MAX_LEN = 64,
    NONE = -1 /* No version is given. */
};

#define TTL_MAX_MS ((INT64_C(1) << 40) - 1)

/* Sends the write. Prints the answer as JSON, or as text, with `ret_path`, the path of the znode,
 * which it returns there as a new reference. */
static int ask(const struct cli *cli, const struct client_request *request, json_t **ret_path)
{
    json_t *json = NULL;
    int code = cli_ask_json(cli, request, &json);

    if (code == CMD_OK && out_is_json(&cli->out)) {
        cli_answer(cli);
    } else if (code == CMD_OK && ret_path) {
        out_say(&cli->out, "%s\n", jsonr_text(json, "path"));
    }
    if (code == CMD_OK && ret_path) {
        *ret_path = json_incref(jsonr_at(json, "path"));
    }
    return code;
}

/* Writes the Zk-Acl header of --acl. Returns false when an error has been reported. */
static bool take_acl(const struct cli *cli, char header[ACL_HEADER_MAX], const char **ret_header)
{
    const char *acl = args_get(&cli->args, "acl");
    int len = snprintf(header, ACL_HEADER_MAX, "Zk-Acl: %s", acl ? acl : "");

    *ret_header = acl ? header : NULL;
    return len < ACL_HEADER_MAX ||
           CLI_REFUSE(cli, "--acl is longer than %d bytes", (int)ACL_HEADER_MAX);
}

/* Whether --ephemeral has a session, or is not given. A session of this command alone would end
 * with the command, and the znode with the session. */
static bool has_session(const struct cli *cli)
{
    return !args_has(&cli->args, "ephemeral") || cli->settings.session ||
           CLI_REFUSE(cli, "an ephemeral znode needs a session, and ZABRA_SESSION is not set: run "
                           "this within 'zabra session -- COMMAND'");
}

/* ---- set ---- */

/* Whether the options fit together: some apply only to a new znode. */
static bool only_what_fits(struct cli *cli)
{
    const char *name = args_has(&cli->args, "parents")     ? "parents"
                       : args_has(&cli->args, "ephemeral") ? "ephemeral"
                       : args_has(&cli->args, "acl")       ? "acl"
                                                           : NULL;

    return !name || args_has(&cli->args, "create") || args_has(&cli->args, "new") ||
           CLI_REFUSE(cli, "--%s needs --create or --new", name);
}

static int run_set(struct cli *cli)
{
    bool null = args_has(&cli->args, "null");
    const char *tag = args_get(&cli->args, "if-match");
    const char *acl_header = NULL;
    char acl[ACL_HEADER_MAX];
    char match[CLIENT_HEADER_MAX];
    int count = 0;
    struct client_request request = {
        .method = "PUT",
        .path = cli_path(cli, 0),
        .params = {{"version", args_has(&cli->args, "version")
                                   ? URL_NUMBER(cli_number(cli, "version"))
                                   : NULL},
                   {"upsert", cli_flag(cli, "create")},
                   {"parents", cli_flag(cli, "parents")},
                   {"ephemeral", cli_flag(cli, "ephemeral")},
                   {"null", url_flag(null)}}};

    if (!cli_take_data(cli, 1, &request)) {
        return CMD_FAILED;
    }
    if (null == request.has_body) {
        return CLI_USAGE(cli, null ? "give either --null or data"
                                   : "the data is missing: DATA, @FILE, -, or --null");
    }
    if (!only_what_fits(cli) || !has_session(cli) || !take_acl(cli, acl, &acl_header)) {
        return CMD_USAGE;
    }
    if (acl_header) {
        request.headers[count++] = acl_header;
    }
    if (tag) {
        (void)snprintf(match, sizeof(match), "If-Match: %s", tag);
        request.headers[count++] = match;
    }
    if (args_has(&cli->args, "new")) {
        request.headers[count++] = "If-None-Match: *";
    }
    return ask(cli, &request, NULL);
}

const struct cmd cmd_set = {
    .name = "set",
    .summary = "set the data of a znode",
    .usage = "PATH DATA | @FILE | -",
    .text = VALUE_HELP,
    .options =
        {CMD_NUMBER("version", 0, "N", "only when the version is N", INT32_MIN, INT32_MAX, 0),
         CMD_VALUE("if-match", 0, "ETAG", "only if the ETag of the data is this one"),
         CMD_FLAG("create", 'c', "create the znode if it does not exist"),
         CMD_FLAG("new", 'n', "create the znode, fail if it exists"),
         CMD_FLAG("parents", 'p', "with --create or --new: also create missing parents"),
         CMD_FLAG("ephemeral", 'e', "with --create or --new: delete it when the session ends"),
         CMD_VALUE("acl", 0, "LIST", "with --create or --new: its ACL (see 'zabra help acl')"),
         CMD_FLAG("null", 0, "no data at all, which is not the same as empty data")},
    .examples = {{"zabra set /app/config @config.json", "takes the data from a file"},
                 {"date | zabra set /app/started - --create --parents",
                  "creates it if it does not exist"},
                 {"zabra set /app/leader me --version 3",
                  "exit code 4 when another client changed it first"}},
    .operands = {1, 2, {CMD_OPERAND_PATH, CMD_OPERAND_FILE}},
    .run = run_set,
};

/* ---- create ---- */

static int run_create(struct cli *cli)
{
    const char *path = cli_path(cli, 0);
    int64_t ttl_ms = cli_number(cli, "ttl");
    char acl[ACL_HEADER_MAX];
    json_auto_t *created = NULL;
    BUF_AUTO(parent, URL_MAX);

    const char *name = url_split(path, &parent);
    struct client_request request = {.method = "POST",
                                     .path = buf_cstr(&parent),
                                     .params = {{"op", "create"},
                                                {"name", name},
                                                {"sequence", cli_flag(cli, "sequence")},
                                                {"ephemeral", cli_flag(cli, "ephemeral")},
                                                {"container", cli_flag(cli, "container")},
                                                {"parents", cli_flag(cli, "parents")},
                                                {"null", cli_flag(cli, "null")},
                                                {"ttl", ttl_ms ? URL_NUMBER(ttl_ms) : NULL}},
                                     .about = path};

    if (path[1] == '\0' && !args_has(&cli->args, "sequence")) {
        return CLI_USAGE(cli, "the root always exists");
    }
    if (!cli_take_data(cli, 1, &request)) {
        return CMD_FAILED;
    }
    if (!take_acl(cli, acl, &request.headers[0]) || !has_session(cli)) {
        return CMD_USAGE;
    }

    int code = ask(cli, &request, &created);

    if (code == CMD_OK && created) {
        acl_tree_warn(cli, json_string_value(created));
    }
    return code;
}

const struct cmd cmd_create = {
    .name = "create",
    .summary = "create a znode, and print its path",
    .usage = "PATH [DATA | @FILE | -]",
    .text = VALUE_HELP "A warning says so when the new znode is more open than its parent.\n",
    .options = {CMD_FLAG("sequence", 's', "append a sequence number of ten digits"),
                CMD_FLAG("ephemeral", 'e', "delete it when the session ends (ZABRA_SESSION)"),
                CMD_FLAG(
                    "container", 0,
                    "delete it some time after its last child, or when it gets none in 5 minutes"),
                CMD_TIME("ttl", 0,
                         "delete it when it was not changed for this time and has no children", 1,
                         TTL_MAX_MS, 0),
                CMD_FLAG("parents", 'p', "make missing parents too"),
                CMD_VALUE("acl", 0, "LIST", "its ACL (see 'zabra help acl')"),
                CMD_FLAG("null", 0, "no data at all, which is not the same as empty data")},
    .examples = {{"zabra create /app", "creates a znode with empty data"},
                 {"zabra create /jobs/job- resize --sequence", "prints /jobs/job-0000000000"},
                 {"zabra create /cache/x @x.bin --ttl 10m --parents",
                  "deletes it ten minutes after its last change"}},
    .operands = {1, 2, {CMD_OPERAND_PATH, CMD_OPERAND_FILE}},
    .run = run_create,
};

/* ---- rm ---- */

/* Returns the number of znodes; -1: too many for one answer. `ret_code` gets an exit code. */
static int64_t count(const struct cli *cli, const char *path, int *ret_code)
{
    struct client_request request = {.path = path, .params = {{"view", "tree"}}};
    int64_t nodes = 0;

    *ret_code = client_ask(cli->client, &request);
    if (*ret_code == CMD_LIMIT) {
        *ret_code = CMD_OK;
        return -1;
    }
    if (*ret_code == CMD_NO_NODE && args_has(&cli->args, "force")) {
        *ret_code = CMD_OK;
        return 1; /* Nothing to delete; with 1 no question is asked. */
    }
    if (*ret_code == CMD_OK) {
        nodes = (int64_t)json_array_size(jsonr_at(client_json(cli->client), "nodes"));
    } else if (*ret_code > CMD_OK) {
        (void)cli_tell(cli);
    }
    return nodes;
}

/* Asks the user. Returns whether the answer is yes. */
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

/* Asks for confirmation when it is needed. Returns CMD_OK when the delete may continue. */
static int confirm(const struct cli *cli, const char *path)
{
    int code = CMD_OK;

    if (args_has(&cli->args, "yes") || cli->settings.curl) {
        return CMD_OK;
    }
    if (!isatty(STDIN_FILENO)) {
        return CLI_USAGE(
            cli, "cannot ask whether to delete all of %s without a terminal; give --yes", path);
    }

    int64_t nodes = count(cli, path, &code);

    if (code == CMD_OK && nodes != 1 && !ask_person(path, nodes)) {
        return cli_fail(cli, CMD_FAILED, "Declined", "nothing was deleted");
    }
    return code;
}

static int delete_znode(const struct cli *cli, const char *path)
{
    bool all = args_has(&cli->args, "recursive");
    int64_t version = cli_number(cli, "version");
    struct client_request request = {
        .method = "DELETE",
        .path = path,
        .params = {{"version", version >= 0 ? URL_NUMBER(version) : NULL},
                   {"recursive", url_flag(all)},
                   {"max", all ? URL_NUMBER(cli_number(cli, "max")) : NULL}}};
    int code = client_ask(cli->client, &request);
    bool gone = code == CMD_NO_NODE && args_has(&cli->args, "force");

    if (code > CMD_OK && !gone) {
        return cli_tell(cli);
    }
    if (code != CMD_SHOWN) {
        out_result(&cli->out, json_pack("{s:s,s:b}", "path", path, "deleted", gone ? 0 : 1));
    }
    return gone ? CMD_OK : code;
}

static int run_rm(struct cli *cli)
{
    const char *path = cli_path(cli, 0);
    int code = CMD_OK;

    if (args_has(&cli->args, "max") && !args_has(&cli->args, "recursive")) {
        return CLI_USAGE(cli, "--max needs --recursive");
    }
    if (args_has(&cli->args, "recursive")) {
        code = confirm(cli, path);
    }
    return code == CMD_OK ? delete_znode(cli, path) : code;
}

const struct cmd cmd_rm = {
    .name = "rm",
    .summary = "delete a znode or a subtree",
    .usage = "PATH",
    .options = {CMD_FLAG("recursive", 'r', "with the whole subtree, in one transaction"),
                CMD_NUMBER("max", 0, "N", "with -r: refuse to delete more than N znodes (1000)", 1,
                           UINT32_MAX, MAX_DEFAULT),
                CMD_FLAG("yes", 'y', "with -r: do not ask"),
                CMD_NUMBER("version", 0, "N", "only if the version is N", 0, INT32_MAX, NONE),
                CMD_FLAG("force", 'f', "no error when the znode does not exist")},
    .examples = {{"zabra rm /app/old", "exit code 4 when it has children"},
                 {"zabra rm -r /app/old", "asks on a terminal; without one, give --yes"}},
    .operands = {1, 1, {CMD_OPERAND_PATH}},
    .run = run_rm,
};
