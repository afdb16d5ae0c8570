#include "cli/copy.h"

#include "cli/url.h"

#include <string.h>

enum {
    LINES_OF_ONE = 2 /* Of an export: its head, and the top znode. */
};

/* ---- Lines of an export ---- */

json_t *copy_create_op(const json_t *line, const char *path, bool with_acl)
{
    static const char *const members[] = {"data64", "null", "container", "ttl"};
    json_t *op = json_pack("{s:s,s:s}", "op", "create", "path", path);
    json_t *acl = jsonr_at(line, "acl");

    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        json_t *value = json_object_get(line, members[i]);

        if (value) {
            (void)json_object_set(op, members[i], value);
        }
    }
    if (acl && with_acl) {
        (void)json_object_set(op, "acl", acl);
    }
    return op;
}

/* Hashes are shown to administrators only; to others as "user:x". */
static bool is_masked(const json_t *acl)
{
    const json_t *entry = NULL;
    size_t i = 0;

    json_array_foreach(acl, i, entry)
    {
        const char *id = jsonr_text(entry, "id");
        size_t len = strlen(id);

        if (strcmp(jsonr_text(entry, "scheme"), "digest") == 0 && len > 2 &&
            strcmp(id + len - 2, ":x") == 0) {
            return true;
        }
    }
    return false;
}

/* "path/below", or the path itself. */
static void join(const char *top, const char *below, struct buf *out)
{
    buf_clear(out);
    buf_append_str(out, top);
    if (*below) {
        buf_append_byte(out, '/');
        buf_append_str(out, below);
    }
}

static int fail(struct cli *cli, struct copy *copy, int exit_code, const char *code,
                const char *why)
{
    copy->told = true;
    return cli_fail(cli, exit_code, code, "%s: %s", copy->from, why);
}

/* ---- Operations ---- */

static int add_znode(struct cli *cli, struct copy *copy, const json_t *line)
{
    struct buf to;
    json_t *op = NULL;

    if (copy->with_acl && is_masked(jsonr_at(line, "acl"))) {
        return fail(cli, copy, CMD_DENIED, "NoAuth",
                    "an ACL is shown in full only to its administrators; --no-acl copies without");
    }
    buf_init(&to, URL_MAX);
    join(copy->to, jsonr_text(line, "path"), &to);
    op = copy_create_op(line, buf_cstr(&to), copy->with_acl);
    buf_release(&to);
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

/* The end of the lines is `*done`. */
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

/* `deletes` gets one for each znode, parents first: of this very znode, with this data and ACL. */
static void add_delete(const struct copy *copy, const json_t *line, json_t *deletes)
{
    static const char *const members[] = {"czxid", "version", "aversion"};
    const json_t *stat = jsonr_at(line, "stat");
    struct buf path;
    json_t *op = NULL;

    if (!stat) {
        return;
    }
    buf_init(&path, URL_MAX);
    join(copy->from, jsonr_text(line, "path"), &path);
    op = json_pack("{s:s,s:s}", "op", "delete", "path", buf_cstr(&path));
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        (void)json_object_set(op, members[i], json_object_get(stat, members[i]));
    }
    (void)json_array_append_new(deletes, op);
    buf_release(&path);
}

static int take_lines(struct cli *cli, struct copy *copy, json_t *deletes)
{
    struct slice rest = buf_slice(&client_reply(cli->client)->body);
    bool done = false;
    int code = CMD_OK;

    while (code == CMD_OK && !done && rest.len > 0) {
        const uint8_t *end = memchr(rest.data, '\n', rest.len);
        size_t len = end ? (size_t)(end - rest.data) : rest.len;
        char error[JSONR_ERROR_MAX];
        json_t *line = jsonr_parse(slice_make(rest.data, len), error);

        code = line ? take_line(cli, copy, line, &done)
                    : fail(cli, copy, CMD_FAILED, "BadAnswer", error);
        if (code == CMD_OK && copy->move) {
            add_delete(copy, line, deletes);
        }
        json_decref(line);
        rest = slice_make(rest.data + len, rest.len - len);
        rest = slice_make(rest.data + (end ? 1 : 0), rest.len - (end ? 1 : 0));
    }
    if (code == CMD_OK && !done && copy->recursive) {
        return fail(cli, copy, CMD_FAILED, "BadAnswer", "the answer was cut off; try again");
    }
    return code;
}

static int fetch(struct cli *cli, const struct copy *copy)
{
    struct client_request request = {.accept = "application/x-ndjson",
                                     .lines_max = copy->recursive ? 0 : LINES_OF_ONE};
    struct buf url;
    int code = CMD_OK;

    url_init(&url, "/export/v1", copy->from);
    request.target = buf_cstr(&url);
    code = client_ask(cli->client, &request);
    buf_release(&url);
    return code;
}

int copy_read(struct cli *cli, struct copy *copy)
{
    json_t *deletes = json_array();
    int code = fetch(cli, copy);

    json_decref(copy->ops);
    copy->ops = json_array();
    copy->count = 0;
    if (code == CMD_OK) {
        code = take_lines(cli, copy, deletes);
    }
    for (size_t i = json_array_size(deletes); i > 0; i--) {
        (void)json_array_append(copy->ops,
                                json_array_get(deletes, i - 1)); /* From the leaves up. */
    }
    json_decref(deletes);
    return code;
}
