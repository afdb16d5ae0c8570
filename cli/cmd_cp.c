/*
 * cp, mv: copy or move a znode or a subtree in one transaction, so that no client sees half of it.
 *
 * The subtree is read as it was at one moment. A move deletes each znode on condition that czxid,
 * version and aversion are unchanged. When another client has changed, replaced or added a znode
 * meanwhile, the transaction has no effect, and the subtree is read again.
 */
#include "cli/cli.h"
#include "cli/copy.h"

enum {
    LINES_OF_ONE = 2 /* Lines to read for one znode: the head of the export, and the znode. */
};

struct copy {
    const char *from;
    const char *to;
    bool move;      /* Also delete the source. */
    bool recursive; /* Also copy all znodes below the source. */
    bool parents;   /* Make missing parents of the target. */
    bool with_acl;

    json_t *ops;        /* The operations: creates, and then deletes. run() releases them. */
    size_t count;       /* Znodes that are copied. */
    int64_t ephemerals; /* Ephemeral znodes that are left out. */
};

/* ---- Lines of an export ---- */

json_t *copy_create_op(const json_t *line, const char *path, bool with_acl)
{
    json_t *op = json_pack("{s:s,s:s}", "op", "create", "path", path);

    jsonr_copy(op, line,
               with_acl ? "data64, null, container, ttl, acl" : "data64, null, container, ttl");
    return op;
}

/* Whether the ACL has a masked hash. Replicas show hashes to administrators only; other users see
 * "user:x". */
static bool is_masked(const json_t *acl)
{
    JSONR_EACH (entry, acl) {
        const char *id = jsonr_text(entry, "id");
        size_t len = strlen(id);

        if (strcmp(jsonr_text(entry, "scheme"), "digest") == 0 && len > 2 &&
            strcmp(id + len - 2, ":x") == 0) {
            return true;
        }
    }
    return false;
}

/* Writes "top/below", or `top` itself when `below` is empty. */
static void join(const char *top, const char *below, struct buf *out)
{
    buf_clear(out);
    buf_printf(out, "%s%s%s", top, *below ? "/" : "", below);
}

static int fail(struct cli *cli, const struct copy *copy, int exit_code, const char *code,
                const char *why)
{
    return cli_fail(cli, exit_code, code, "%s: %s", copy->from, why);
}

/* ---- Operations ---- */

static int add_znode(struct cli *cli, struct copy *copy, const json_t *line)
{
    json_t *op = NULL;
    BUF_AUTO(to, URL_MAX);

    if (copy->with_acl && is_masked(jsonr_at(line, "acl"))) {
        return fail(
            cli, copy, CMD_DENIED, "NoAuth",
            "an ACL is shown in full only with admin permission; use --no-acl to copy without "
            "ACLs");
    }
    join(copy->to, jsonr_text(line, "path"), &to);
    op = copy_create_op(line, buf_cstr(&to), copy->with_acl);
    if (copy->parents && copy->count == 0) {
        (void)json_object_set_new(op, "parents", json_true());
    }
    (void)json_array_append_new(copy->ops, op);
    copy->count++;
    return CMD_OK;
}

static int take_end(struct cli *cli, struct copy *copy, const json_t *line)
{
    copy->ephemerals = jsonr_number(line, "skippedEphemerals");
    if (jsonr_number(line, "skippedUnreadable") > 0) {
        return fail(cli, copy, CMD_DENIED, "NoAuth", "you may not read some of the znodes");
    }
    if (copy->ephemerals > 0 && (copy->move || copy->count == 0)) {
        return fail(cli, copy, CMD_CONFLICT, "Ephemeral",
                    "an ephemeral znode belongs to a session and cannot be copied or moved");
    }
    return CMD_OK;
}

/* Takes a line of the export. `*done` is set at the last line. */
static int take_line(struct cli *cli, struct copy *copy, const json_t *line, bool *done)
{
    *done = false;
    if (jsonr_at(line, "export")) {
        return CMD_OK;
    }
    if (jsonr_at(line, "error")) {
        return fail(cli, copy, CMD_FAILED, jsonr_text(line, "error.code"),
                    jsonr_text(line, "error.detail"));
    }
    *done = jsonr_at(line, "end") != NULL;
    return *done ? take_end(cli, copy, line) : add_znode(cli, copy, line);
}

/* Adds a delete for one znode to `deletes`, in which parents come first. The delete succeeds only
 * for this very znode, with this data and ACL. */
static void add_delete(const struct copy *copy, const json_t *line, json_t *deletes)
{
    const json_t *stat = jsonr_at(line, "stat");
    json_t *op = NULL;
    BUF_AUTO(path, URL_MAX);

    if (!stat) {
        return;
    }
    join(copy->from, jsonr_text(line, "path"), &path);
    op = json_pack("{s:s,s:s}", "op", "delete", "path", buf_cstr(&path));
    jsonr_copy(op, stat, "czxid, version, aversion");
    (void)json_array_append_new(deletes, op);
}

static int take_lines(struct cli *cli, struct copy *copy, json_t *deletes)
{
    struct slice rest = buf_slice(&cli->client->reply.body);
    bool done = false;
    int code = CMD_OK;

    while (code == CMD_OK && !done && rest.len > 0) {
        char error[JSONR_ERROR_MAX];
        json_t *line = jsonr_parse(slice_cut(&rest, '\n'), error);

        code = line ? take_line(cli, copy, line, &done)
                    : fail(cli, copy, CMD_FAILED, "BadAnswer", error);
        if (code == CMD_OK && copy->move) {
            add_delete(copy, line, deletes);
        }
        json_decref(line);
    }
    if (code == CMD_OK && !done && copy->recursive) {
        return fail(cli, copy, CMD_FAILED, "BadAnswer", "the answer was cut off; try again");
    }
    return code;
}

/* Reports an error as cli_tell() does; adds advice when the subtree is too large. */
static int tell(const struct cli *cli, int code)
{
    const struct client_error *error = &cli->client->error;

    if (code != CMD_LIMIT) {
        return cli_tell(cli);
    }
    return cli_fail(cli, CMD_LIMIT, error->code,
                    "%s; the subtree is too large for one transaction: use 'zabra export' and "
                    "'zabra import'",
                    error->message);
}

/* Reads the source as it is at one moment, and fills in the operations. Returns CMD_OK, CMD_SHOWN,
 * or the code of a reported error. */
static int copy_read(struct cli *cli, struct copy *copy)
{
    json_auto_t *deletes = json_array();
    struct client_request request = {.target = "/export/v1",
                                     .path = copy->from,
                                     .accept = "application/x-ndjson",
                                     .lines_max = copy->recursive ? 0 : LINES_OF_ONE};
    int code = client_ask(cli->client, &request);

    json_decref(copy->ops);
    copy->ops = json_array();
    copy->count = 0;
    code = code == CMD_OK ? take_lines(cli, copy, deletes) : code > CMD_OK ? tell(cli, code) : code;
    for (size_t i = json_array_size(deletes); i > 0; i--) {
        (void)json_array_append(copy->ops, json_array_get(deletes, i - 1)); /* Leaves first. */
    }
    return code;
}

/* ---- The commands ---- */

/* Whether an operation on the source has failed: the source was changed after it was read. */
static bool is_source(const struct cli *cli, size_t creates)
{
    const json_t *index = json_object_get(cli->client->error.problem, "op_index");

    return index && json_integer_value(index) >= (json_int_t)creates;
}

static int ask_multi(struct cli *cli, const struct copy *copy)
{
    struct client_request request = {
        .method = "POST", .target = "/multi/v1", .has_body = true, .type = "application/json"};
    BUF_AUTO(body, CLIENT_BODY_MAX);

    buf_append_str(&body, "{\"ops\":");
    jsonr_put(&body, copy->ops);
    buf_append_str(&body, "}");
    request.body = buf_slice(&body);
    return client_ask(cli->client, &request);
}

static void print_done(const struct cli *cli, const struct copy *copy)
{
    static const char columns[] =
        "from:from, to:to, znodes:znodes, ephemerals left out:skippedEphemerals";

    if (out_is_text(&cli->out)) {
        if (copy->ephemerals > 0) {
            (void)fprintf(stderr, "zabra cp: left out %" PRId64 " ephemeral znodes\n",
                          copy->ephemerals);
        }
        return;
    }

    json_auto_t *value =
        json_pack("{s:s,s:s,s:I,s:I}", "from", copy->from, "to", copy->to, "znodes",
                  (json_int_t)copy->count, "skippedEphemerals", (json_int_t)copy->ephemerals);

    out_facts(&cli->out, value, columns);
}

static int run_copy(struct cli *cli, struct copy *copy)
{
    uint64_t end_ms = os_now_ms() + (uint64_t)cli->settings.timeout_ms;
    int code = CMD_OK;

    do {
        code = copy_read(cli, copy);
        if (code != CMD_OK) {
            return code;
        }
        code = ask_multi(cli, copy);
    } while (copy->move && code > CMD_OK && is_source(cli, copy->count) && os_now_ms() < end_ms);
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

static int run(struct cli *cli)
{
    bool move = cli->cmd == &cmd_mv;
    struct copy copy = {.move = move,
                        .recursive = move || args_has(&cli->args, "recursive"),
                        .parents = args_has(&cli->args, "parents"),
                        .with_acl = !args_has(&cli->args, "no-acl"),
                        .from = cli_path(cli, 0),
                        .to = cli_path(cli, 1)};

    if (copy.from[1] == '\0' || copy.to[1] == '\0') {
        return CLI_USAGE(cli, "the root cannot be copied or moved");
    }
    if (is_within(copy.to, copy.from) && (move || strcmp(copy.to, copy.from) == 0)) {
        return CLI_USAGE(cli, "%s is the same as %s, or below it", copy.to, copy.from);
    }

    int code = run_copy(cli, &copy);

    json_decref(copy.ops);
    return code;
}

#define COPY_TEXT                                                                              \
    "It is one transaction: no client sees a part of it. A transaction is limited to\n"        \
    "maxMultiOps operations and maxMultiBytes (see /limits/v1); mv needs two operations for\n" \
    "each znode. For larger subtrees use export and import. ACLs, containers and TTLs are\n"   \
    "kept. DST must not exist. An ephemeral znode belongs to its session: "

const struct cmd cmd_cp = {
    .name = "cp",
    .summary = "copy a znode or a subtree",
    .usage = "SRC DST",
    .text = COPY_TEXT "it is left out.\n",
    .options = {CMD_FLAG("recursive", 'r', "with the whole subtree"),
                CMD_FLAG("parents", 'p', "create missing parents of DST"),
                CMD_FLAG("no-acl", 0, "do not copy the ACLs: every client gets all permissions")},
    .examples = {{"zabra cp -r /app/blue /app/green", "copies a consistent state of the subtree"}},
    .operands = {2, 2, {CMD_OPERAND_PATH, CMD_OPERAND_PATH}},
    .run = run,
};

const struct cmd cmd_mv = {
    .name = "mv",
    .summary = "move a znode with its subtree",
    .usage = "SRC DST",
    .text = COPY_TEXT "it is not moved. Versions start at 0 at DST.\n"
                      "If the source changes meanwhile, zabra reads it again and retries.\n",
    .options = {CMD_FLAG("parents", 'p', "create missing parents of DST"),
                CMD_FLAG("no-acl", 0, "do not keep the ACLs: every client gets all permissions")},
    .examples = {{"zabra mv /app/config.new /app/config.old", "renames it, with its subtree"}},
    .operands = {2, 2, {CMD_OPERAND_PATH, CMD_OPERAND_PATH}},
    .run = run,
};
