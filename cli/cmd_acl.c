/* acl: the access control list of a znode. */
#include "cli/acl_text.h"
#include "cli/acl_tree.h"
#include "cli/cmd.h"
#include "cli/revise.h"

enum {
    BODY_MAX = 1 << 20,
    TREE_MAX = 10000 /* Znodes of a subtree, without --max. */
};

/* ---- Showing ---- */

static void print_acl(const struct cli *cli, const json_t *list)
{
    BUF_AUTO(line, BODY_MAX);

    JSONR_EACH (entry, list) {
        buf_clear(&line);
        acl_text_put(entry, &line);
        out_say(&cli->out, "%s\n", buf_cstr(&line));
    }
}

static int show(struct cli *cli, const char *path)
{
    json_t *json = NULL;
    int code = cli_ask_json(
        cli, &(struct client_request){.path = path, .params = {{"view", "acl"}}}, &json);

    if (code == CMD_OK && out_is_json(&cli->out)) {
        cli_answer(cli);
    } else if (code == CMD_OK) {
        print_acl(cli, jsonr_at(json, "acl"));
    }
    return code;
}

/* ---- Setting ---- */

static int set(struct cli *cli, const char *path, const char *text)
{
    struct client_request request = {
        .method = "PATCH", .path = path, .has_body = true, .type = "application/json"};
    json_t *list = acl_text_parse(text);
    json_auto_t *body = NULL;
    int code = CMD_OK;
    BUF_AUTO(sent, BODY_MAX);

    if (!list) {
        return CLI_USAGE(cli,
                         "\"%s\" is not open, read, creator or a list scheme:id:perms,...; perms "
                         "are letters of cdrwa",
                         text);
    }
    body = json_pack("{s:o}", "acl", list);
    if (args_has(&cli->args, "version")) {
        (void)json_object_set_new(body, "aversion", json_integer(cli_number(cli, "version")));
    }
    jsonr_put(&sent, body);
    request.body = buf_slice(&sent);
    code = cli_ask(cli, &request);
    if (code == CMD_OK && out_is_json(&cli->out)) {
        cli_answer(cli);
    }
    return code;
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
            return CLI_USAGE(cli,
                             "--add: \"%s\" is not scheme:id:perms; perms are letters of "
                             "cdrwa",
                             text);
        }
        acl_text_add(list, entry);
    }
    return CMD_OK;
}

static int change_once(struct revise *revise, void *ctx)
{
    struct cli *cli = revise->cli;
    int code = revise_read(revise);
    BUF_AUTO(sent, BODY_MAX);

    (void)ctx;
    if (code != CMD_OK || !revise->exists) {
        return code == CMD_OK ? cli_tell(cli) : code;
    }

    const json_t *json = cli_json(cli);
    json_auto_t *body = json_pack("{s:O}", "acl", jsonr_at(json, "acl"));

    code = json ? apply(cli, jsonr_at(body, "acl")) : CMD_FAILED;
    if (code == CMD_OK) {
        jsonr_put(&sent, body);
        code = revise_write(revise, buf_slice(&sent), false);
    }
    return code;
}

static int change(struct cli *cli, const char *path)
{
    int code =
        revise_run(&(struct revise){.cli = cli, .path = path, .acl = true}, change_once, NULL);

    if (code == CMD_OK && out_is_json(&cli->out)) {
        cli_answer(cli);
    }
    return code;
}

static int run_tree(struct cli *cli, const char *path, const char *text)
{
    if (!text || args_has(&cli->args, "version")) {
        return CLI_USAGE(cli, "--recursive needs a whole list to set, and no --version");
    }
    if (cli->settings.curl) {
        return CLI_USAGE(cli, "--recursive sends requests that depend on answers: --curl cannot "
                              "show them");
    }
    return acl_tree_set(cli, path, text);
}

static int run(struct cli *cli)
{
    const char *text = args_operand(&cli->args, 1);
    bool part = args_has(&cli->args, "add") || args_has(&cli->args, "remove");
    const char *path = cli_path(cli, 0);

    if (text && part) {
        return CLI_USAGE(cli, "give either a whole list or --add and --remove");
    }
    if (args_has(&cli->args, "version") && !text) {
        return CLI_USAGE(cli, "--version needs a list to set");
    }
    if (args_has(&cli->args, "max") && !args_has(&cli->args, "recursive")) {
        return CLI_USAGE(cli, "--max needs --recursive");
    }
    if (args_has(&cli->args, "recursive")) {
        return run_tree(cli, path, text);
    }
    if (part) {
        return change(cli, path);
    }
    return text ? set(cli, path, text) : show(cli, path);
}

const struct cmd cmd_acl = {
    .name = "acl",
    .summary = "show or set the access control list of a znode",
    .usage = "PATH [LIST]",
    .text = "LIST is open (every client has all permissions), read (every client may read),\n"
            "creator (you have all permissions), or entries scheme:id:perms separated by\n"
            "commas, as in ZooKeeper's shell. Permissions are c(reate) d(elete) r(ead)\n"
            "w(rite) a(dmin); schemes are world, auth, digest, ip, x509. An id with a comma\n"
            "and a colon is in double quotes: x509:\"CN=a:b,O=c\":r. A digest id holds a hash\n"
            "in place of the password: 'zabra whoami --user NAME' prints it. An ACL applies\n"
            "to its znode only, not to the znodes below. With -R the list is set on the znode\n"
            "and all below it: all lists are read first, then those that differ are set one\n"
            "after the other, the znode itself last. Znodes that you may not read hide what\n"
            "is below them; these, and znodes without admin permission, are skipped and\n"
            "named, and the exit code is 9. -R is not atomic: after a lost connection some\n"
            "lists are set (exit code 9), and the same command continues with the rest.\n"
            "Znodes that others create meanwhile are not included; run it again. The list of\n"
            "/zookeeper/config cannot be set, so -R leaves it out.\n",
    .options = {CMD_VALUE("add", 'a', "ENTRY", "add or replace an entry; may be repeated"),
                CMD_VALUE("remove", 'd', "SCHEME:ID", "remove an entry; may be repeated"),
                CMD_NUMBER("version", 0, "N", "only if the version of the ACL (aversion) is N", 0,
                           INT32_MAX, 0),
                CMD_FLAG("recursive", 'R', "set the list on the whole subtree"),
                CMD_NUMBER("max", 0, "N", "with -R: refuse a subtree of more than N znodes (10000)",
                           1, CLI_LIMIT_MAX, TREE_MAX)},
    .examples = {{"zabra acl /app", "one entry per line"},
                 {"zabra acl /app read --user bob", "every client may read, none may write"},
                 {"zabra acl /app world:anyone:r,auth::cdrwa --user bob",
                  "every client may read, bob may do everything"},
                 {"zabra acl /app --add ip:10.0.0.0/8:rw --remove world:anyone",
                  "changes single entries"},
                 {"zabra acl -R /app creator --user bob", "gives bob the whole subtree"}},
    .operands = {1, 2, {CMD_OPERAND_PATH, CMD_OPERAND_TEXT}},
    .run = run,
};
