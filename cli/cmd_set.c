/* set, create, touch: one write. */
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/url.h"
#include "cli/value.h"

#include <stdio.h>

enum {
    ACL_HEADER_MAX = 4096
};

/* Prints the written znode: in text only its path, if the caller does not know it. */
static int print_written(const struct cli *cli, bool with_path)
{
    const json_t *json = cli_json(cli);

    if (!json) {
        return CMD_FAILED;
    }
    if (out_is_json(&cli->out)) {
        cli_answer(cli);
    } else if (with_path) {
        out_say(&cli->out, "%s\n", jsonr_text(json, "path"));
    }
    return CMD_OK;
}

static bool is_given(const struct cli *cli, const char *option, struct buf *url, const char *param)
{
    bool given = args_has(&cli->args, option);

    if (given) {
        url_param(url, param, NULL);
    }
    return given;
}

/* The Zk-Acl header of --acl. False: reported. */
static bool take_acl(const struct cli *cli, char header[ACL_HEADER_MAX], const char **ret_header)
{
    const char *acl = args_get(&cli->args, "acl");
    int len = snprintf(header, ACL_HEADER_MAX, "Zk-Acl: %s", acl ? acl : "");

    *ret_header = acl ? header : NULL;
    if (len >= ACL_HEADER_MAX) {
        (void)cli_usage(cli, "--acl is longer than %d bytes", (int)ACL_HEADER_MAX);
    }
    return len < ACL_HEADER_MAX;
}

/* An ephemeral znode of a session that ends at once would be gone at once. */
static bool has_session(const struct cli *cli)
{
    if (!args_has(&cli->args, "ephemeral") || cli->settings.session) {
        return true;
    }
    (void)cli_usage(cli, "an ephemeral znode needs a session, and ZABRA_SESSION is not set: run "
                         "this within 'zabra session -- COMMAND'");
    return false;
}

/* ---- set ---- */

static int put_znode(struct cli *cli, const char *target, const struct value *value)
{
    char acl[ACL_HEADER_MAX];
    char match[CLIENT_HEADER_MAX];
    struct client_request request = {.method = "PUT", .target = target, .last = true};
    const char *tag = args_get(&cli->args, "if-match");
    int count = 0;
    int code = CMD_USAGE;

    if (!take_acl(cli, acl, &request.headers[0])) {
        return CMD_USAGE;
    }
    count = request.headers[0] ? 1 : 0;
    if (tag) {
        (void)snprintf(match, sizeof(match), "If-Match: %s", tag);
        request.headers[count++] = match;
    }
    if (args_has(&cli->args, "new")) {
        request.headers[count++] = "If-None-Match: *";
    }
    value_put(value, &request);
    code = cli_ask(cli, &request);
    return code == CMD_OK ? print_written(cli, false) : code;
}

/* Some options apply only to a new znode. */
static bool only_what_fits(struct cli *cli)
{
    static const char *const of_making[] = {"parents", "ephemeral", "acl"};

    if (args_has(&cli->args, "create") || args_has(&cli->args, "new")) {
        return true;
    }
    for (size_t i = 0; i < sizeof(of_making) / sizeof(of_making[0]); i++) {
        if (args_has(&cli->args, of_making[i])) {
            (void)cli_usage(cli, "--%s needs --create or --new", of_making[i]);
            return false;
        }
    }
    return true;
}

static int set_value(struct cli *cli, const char *path, const struct value *value)
{
    struct args_range range = {.min = INT32_MIN, .max = INT32_MAX};
    bool null = args_has(&cli->args, "null");
    int64_t version = 0;
    struct buf url;
    int code = CMD_USAGE;

    if (null == value->given) {
        return cli_usage(cli, null ? "give either --null or data"
                                   : "the data is missing: DATA, @FILE, -, or --null");
    }
    if (!cli_number(cli, "version", range, &version) || !only_what_fits(cli) || !has_session(cli)) {
        return CMD_USAGE;
    }
    url_init(&url, "/znodes/v1", path);
    if (args_has(&cli->args, "version")) {
        url_param_number(&url, "version", version);
    }
    (void)is_given(cli, "create", &url, "upsert");
    (void)is_given(cli, "parents", &url, "parents");
    (void)is_given(cli, "ephemeral", &url, "ephemeral");
    (void)is_given(cli, "null", &url, "null");
    code = put_znode(cli, buf_cstr(&url), value);
    buf_release(&url);
    return code;
}

static int run_set(struct cli *cli)
{
    struct value value;
    const char *path = NULL;
    int code = CMD_FAILED;

    if (!cli_path(cli, 0, &path)) {
        return CMD_USAGE;
    }
    if (value_read(cli, args_operand(&cli->args, 1), &value)) {
        code = set_value(cli, path, &value);
    }
    value_release(&value);
    return code;
}

static const struct cmd_option set_options[] = {
    {"version", 0, "N", "only when the version is N", NULL},
    {"if-match", 0, "ETAG", "only if the ETag of the data is this one", NULL},
    {"create", 'c', NULL, "create the znode if it does not exist", NULL},
    {"new", 'n', NULL, "create the znode, fail if it exists", NULL},
    {"parents", 'p', NULL, "with --create or --new: also create missing parents", NULL},
    {"ephemeral", 'e', NULL, "with --create or --new: delete it when the session ends", NULL},
    {"acl", 0, "LIST", "with --create or --new: its ACL (see 'zabra help acl')", NULL},
    {"null", 0, NULL, "no data at all, which is not the same as empty data", NULL},
    {.name = NULL},
};

static const struct cmd_example set_examples[] = {
    {"zabra set /app/config @config.json", "takes the data from a file"},
    {"date | zabra set /app/started - --create --parents", "creates it if it does not exist"},
    {"zabra set /app/leader me --version 3", "exit code 4 when another client changed it first"},
    {.line = NULL},
};

const struct cmd cmd_set = {
    .name = "set",
    .summary = "set the data of a znode",
    .usage = "PATH DATA | @FILE | -",
    .text = VALUE_HELP,
    .options = set_options,
    .examples = set_examples,
    .operands = {CMD_OPERAND_PATH, CMD_OPERAND_FILE},
    .operands_min = 1,
    .operands_max = 2,
    .run = run_set,
};

/* ---- create ---- */

/* The URL of the parent, which receives the request to create the child. False: reported. */
static bool create_url(struct cli *cli, const char *path, struct buf *url)
{
    struct args_range range = {.min = 1, .max = (INT64_C(1) << 40) - 1};
    struct buf parent;
    int64_t ttl_ms = 0;

    if (!cli_duration(cli, "ttl", range, &ttl_ms) || !has_session(cli)) {
        return false;
    }
    buf_init(&parent, URL_MAX);

    const char *name = url_split(path, &parent);

    url_init(url, "/znodes/v1", buf_cstr(&parent));
    buf_release(&parent);
    url_param(url, "op", "create");
    url_param(url, "name", name);
    (void)is_given(cli, "sequence", url, "sequence");
    (void)is_given(cli, "ephemeral", url, "ephemeral");
    (void)is_given(cli, "container", url, "container");
    (void)is_given(cli, "parents", url, "parents");
    (void)is_given(cli, "null", url, "null");
    if (ttl_ms) {
        url_param_number(url, "ttl", ttl_ms);
    }
    return true;
}

static int create_value(struct cli *cli, const char *path, const struct value *value)
{
    struct client_request request = {.method = "POST", .last = true, .about = path};
    char acl[ACL_HEADER_MAX];
    struct buf url;
    int code = CMD_USAGE;

    if (!take_acl(cli, acl, &request.headers[0]) || !create_url(cli, path, &url)) {
        return CMD_USAGE;
    }
    request.target = buf_cstr(&url);
    value_put(value, &request);
    code = cli_ask(cli, &request);
    buf_release(&url);
    return code == CMD_OK ? print_written(cli, true) : code;
}

static int run_create(struct cli *cli)
{
    const char *path = args_operand(&cli->args, 0);
    const char *fault = url_path_fault(path, args_has(&cli->args, "sequence"));
    struct value value;
    int code = CMD_FAILED;

    if (fault) {
        return cli_usage(cli, "the path \"%s\" %s", path, fault);
    }
    if (path[1] == '\0' && !args_has(&cli->args, "sequence")) {
        return cli_usage(cli, "the root always exists");
    }
    if (value_read(cli, args_operand(&cli->args, 1), &value)) {
        code = create_value(cli, path, &value);
    }
    value_release(&value);
    return code;
}

static const struct cmd_option create_options[] = {
    {"sequence", 's', NULL, "append a sequence number of ten digits", NULL},
    {"ephemeral", 'e', NULL, "delete it when the session ends (ZABRA_SESSION)", NULL},
    {"container", 0, NULL,
     "delete it some time after its last child, or when it gets none in 5 minutes", NULL},
    {"ttl", 0, "TIME", "delete it when it was not changed for this time and has no children", NULL},
    {"parents", 'p', NULL, "make missing parents too", NULL},
    {"acl", 0, "LIST", "its ACL (see 'zabra help acl')", NULL},
    {"null", 0, NULL, "no data at all, which is not the same as empty data", NULL},
    {.name = NULL},
};

static const struct cmd_example create_examples[] = {
    {"zabra create /app", "creates a znode with empty data"},
    {"zabra create /jobs/job- resize --sequence", "prints /jobs/job-0000000000"},
    {"zabra create /cache/x @x.bin --ttl 10m --parents", "deletes it ten minutes after its last "
                                                         "change"},
    {.line = NULL},
};

const struct cmd cmd_create = {
    .name = "create",
    .summary = "create a znode, and print its path",
    .usage = "PATH [DATA | @FILE | -]",
    .text = VALUE_HELP,
    .options = create_options,
    .examples = create_examples,
    .operands = {CMD_OPERAND_PATH, CMD_OPERAND_FILE},
    .operands_min = 1,
    .operands_max = 2,
    .run = run_create,
};
