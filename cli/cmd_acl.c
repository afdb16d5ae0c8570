/* acl: the access control list of a znode. */
#include "base/os_clock.h"
#include "cli/acl_text.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/url.h"

#include <stdio.h>
#include <string.h>

enum {
    BODY_MAX = 1 << 20
};

/* ---- Showing ---- */

static void print_acl(const struct cli *cli, const json_t *list)
{
    const json_t *entry = NULL;
    struct buf line;
    size_t i = 0;

    buf_init(&line, BODY_MAX);
    json_array_foreach(list, i, entry)
    {
        buf_clear(&line);
        acl_text_put(entry, &line);
        out_say(&cli->out, "%s\n", buf_cstr(&line));
    }
    buf_release(&line);
}

static int ask_acl(struct cli *cli, const char *path, bool last, json_t **ret_json)
{
    struct buf url;
    int code = CMD_OK;

    url_init(&url, "/znodes/v1", path);
    url_param(&url, "view", "acl");
    code = cli_ask_json(cli, &(struct client_request){.target = buf_cstr(&url), .last = last},
                        ret_json);
    buf_release(&url);
    return code;
}

static int show(struct cli *cli, const char *path)
{
    json_t *json = NULL;
    int code = ask_acl(cli, path, true, &json);

    if (code != CMD_OK) {
        return code;
    }
    if (out_is_json(&cli->out)) {
        cli_answer(cli);
    } else {
        print_acl(cli, jsonr_at(json, "acl"));
    }
    return CMD_OK;
}

/* ---- Setting ---- */

/* `match` is a header or NULL. */
static int patch(struct cli *cli, const char *path, json_t *body, const char *match)
{
    struct client_request request = {.method = "PATCH",
                                     .has_body = true,
                                     .type = "application/json",
                                     .headers = {match},
                                     .last = true};
    struct buf text;
    struct buf url;
    int code = CMD_OK;

    buf_init(&text, BODY_MAX);
    jsonr_put(&text, body);
    request.body = buf_slice(&text);
    url_init(&url, "/znodes/v1", path);
    request.target = buf_cstr(&url);
    code = client_ask(cli->client, &request);
    buf_release(&url);
    buf_release(&text);
    return code;
}

static void print_set(const struct cli *cli)
{
    if (out_is_json(&cli->out)) {
        cli_answer(cli);
    }
}

static int set(struct cli *cli, const char *path, const char *text)
{
    struct args_range range = {.min = 0, .max = INT32_MAX};
    json_t *list = acl_text_parse(text);
    json_t *body = NULL;
    int64_t version = 0;
    int code = CMD_OK;

    if (!list) {
        return cli_usage(cli,
                         "\"%s\" is not open, read, creator or a list scheme:id:perms,... with "
                         "perms out of c, d, r, w and a",
                         text);
    }
    body = json_pack("{s:o}", "acl", list);
    if (!cli_number(cli, "version", range, &version)) {
        json_decref(body);
        return CMD_USAGE;
    }
    if (args_has(&cli->args, "version")) {
        (void)json_object_set_new(body, "aversion", json_integer(version));
    }
    code = patch(cli, path, body, NULL);
    json_decref(body);
    if (code == CMD_OK) {
        print_set(cli);
    }
    return code > CMD_OK ? cli_tell(cli) : code;
}

/* ---- Changing a part ---- */

static int apply(struct cli *cli, json_t *list)
{
    const char *text = NULL;

    for (int i = 0; (text = args_nth(&cli->args, "remove", i)); i++) {
        if (!acl_text_remove(list, text)) {
            return cli_fail(cli, CMD_FAILED, "NoEntry", "the ACL has no entry for %s", text);
        }
    }
    for (int i = 0; (text = args_nth(&cli->args, "add", i)); i++) {
        json_t *entry = acl_text_entry(slice_str(text));

        if (!entry) {
            return cli_usage(cli,
                             "--add: \"%s\" is not scheme:id:perms with perms out of c, d, r, "
                             "w and a",
                             text);
        }
        acl_text_add(list, entry);
    }
    return CMD_OK;
}

/* Another client changed the list, or the znode is another one now: not reported. */
static bool is_late(const struct cli *cli, int code)
{
    return code > CMD_OK && client_was_late(cli->client);
}

/* Reported, except for is_late(). */
static int change_once(struct cli *cli, const char *path)
{
    char match[CLIENT_HEADER_MAX];
    json_t *json = NULL;
    json_t *body = NULL;
    int code = ask_acl(cli, path, false, &json);

    if (code != CMD_OK) {
        return code;
    }
    (void)snprintf(match, sizeof(match), "If-Match: %.256s", client_reply(cli->client)->etag);
    body = json_pack("{s:O}", "acl", jsonr_at(json, "acl"));
    code = apply(cli, jsonr_at(body, "acl"));
    if (code == CMD_OK) {
        code = patch(cli, path, body, match);
        if (code > CMD_OK && !is_late(cli, code)) {
            (void)cli_tell(cli);
        }
    }
    json_decref(body);
    return code;
}

static int change(struct cli *cli, const char *path)
{
    uint64_t end_ms = os_now_ms() + (uint64_t)cli->settings.timeout_ms;
    int code = CMD_OK;

    do {
        code = change_once(cli, path);
    } while (is_late(cli, code) && os_now_ms() < end_ms);
    if (code == CMD_OK) {
        print_set(cli);
    }
    return is_late(cli, code) ? cli_tell(cli) : code;
}

static int run(struct cli *cli)
{
    const char *text = args_operand(&cli->args, 1);
    bool part = args_has(&cli->args, "add") || args_has(&cli->args, "remove");
    const char *path = NULL;

    if (!cli_path(cli, 0, &path)) {
        return CMD_USAGE;
    }
    if (text && part) {
        return cli_usage(cli, "give either a whole list or --add and --remove");
    }
    if (args_has(&cli->args, "version") && !text) {
        return cli_usage(cli, "--version needs a list to set");
    }
    if (part) {
        return change(cli, path);
    }
    return text ? set(cli, path, text) : show(cli, path);
}

static const struct cmd_option options[] = {
    {"add", 'a', "ENTRY", "add or replace an entry; may be repeated", NULL},
    {"remove", 'd', "SCHEME:ID", "remove an entry; may be repeated", NULL},
    {"version", 0, "N", "only if the version of the ACL (aversion) is N", NULL},
    {.name = NULL},
};

static const struct cmd_example examples[] = {
    {"zabra acl /app", "one entry per line"},
    {"zabra acl /app read --user bob", "every client may read, none may write"},
    {"zabra acl /app world:anyone:r,auth::cdrwa --user bob", "every client may read, bob may do "
                                                             "everything"},
    {"zabra acl /app --add ip:10.0.0.0/8:rw --remove world:anyone", "changes single entries"},
    {.line = NULL},
};

const struct cmd cmd_acl = {
    .name = "acl",
    .summary = "show or set the access control list of a znode",
    .usage = "PATH [LIST]",
    .text = "LIST is open (every client has all permissions), read (every client may read),\n"
            "creator (you have all permissions), or entries scheme:id:perms separated by\n"
            "commas, as in ZooKeeper's shell. Permissions are c(reate) d(elete) r(ead)\n"
            "w(rite) a(dmin); schemes are world, auth, digest, ip. A digest id holds a hash\n"
            "in place of the password: 'zabra whoami --user NAME' prints it. An ACL applies\n"
            "to its znode only, not to the znodes below.\n",
    .options = options,
    .examples = examples,
    .operands = {CMD_OPERAND_PATH, CMD_OPERAND_TEXT},
    .operands_min = 1,
    .operands_max = 2,
    .run = run,
};
