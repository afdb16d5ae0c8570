#include "cli/acl_tree.h"

#include "cli/acl_text.h"
#include "cli/revise.h"

#include <inttypes.h>

enum {
    TEXT_MAX = 1 << 20,
    PAGE = 1000 /* Znodes of one answer of a search. */
};

struct acl_tree {
    struct cli *cli;
    const char *top;
    int64_t max;
    json_t *list;    /* The list to set. */
    struct buf want; /* The same as text. */
    json_t *paths;   /* Of all znodes of the subtree. */
    json_t *differ;  /* Of those whose list is another one. */
    int64_t set;     /* Lists that were set. */
    int64_t gone;    /* Znodes that were deleted meanwhile. */
};

/* ---- Lists ---- */

/* Writes a list as text; an entry that was there before is left out, as the replica does. */
static void put_list(const json_t *list, struct buf *out)
{
    BUF_AUTO(entry, TEXT_MAX);

    buf_clear(out);
    JSONR_EACH (one, list) {
        buf_clear(&entry);
        acl_text_put(one, &entry);
        buf_append_byte(&entry, '\n');
        if (out->len == 0 || !strstr(buf_cstr(out), buf_cstr(&entry))) {
            buf_append_slice(out, buf_slice(&entry));
        }
    }
}

/* Adds an entry for each identity of the caller, as the replica does for the scheme auth. */
static void add_own(json_t *list, const json_t *ids, const json_t *perms)
{
    JSONR_EACH (id, ids) {
        if (words_find("world, ip", jsonr_text(id, "scheme")) < 0) {
            (void)json_array_append_new(list, json_pack("{s:O,s:O,s:O}", "perms", perms, "scheme",
                                                        jsonr_at(id, "scheme"), "id",
                                                        jsonr_at(id, "id")));
        }
    }
}

/* Replaces entries of the scheme auth by the identities of the caller, so that the lists can be
 * compared. */
static int resolve(struct acl_tree *tree)
{
    json_t *whole = NULL;
    json_t *json = NULL;
    int code = cli_ask_json(tree->cli, &(struct client_request){.target = "/whoami/v1"}, &json);

    if (code != CMD_OK) {
        return code;
    }
    whole = json_array();
    JSONR_EACH (entry, tree->list) {
        if (strcmp(jsonr_text(entry, "scheme"), "auth") == 0) {
            add_own(whole, jsonr_at(json, "ids"), jsonr_at(entry, "perms"));
        } else {
            (void)json_array_append(whole, (json_t *)entry);
        }
    }
    json_decref(tree->list);
    tree->list = whole;
    if (json_array_size(whole) == 0) {
        return cli_fail(tree->cli, CMD_USAGE, "InvalidACL",
                        "creator needs credentials: the request had no user (--user)");
    }
    return CMD_OK;
}

/* Parses the list; a name becomes entries. */
static int take_list(struct acl_tree *tree, const char *text)
{
    const char *entries = strcmp(text, "open") == 0      ? "world:anyone:cdrwa"
                          : strcmp(text, "read") == 0    ? "world:anyone:r"
                          : strcmp(text, "creator") == 0 ? "auth::cdrwa"
                                                         : text;

    tree->list = acl_text_parse(entries);
    if (!tree->list) {
        return CLI_USAGE(tree->cli,
                         "\"%s\" is not open, read, creator or a list scheme:id:perms,...; perms "
                         "are letters of cdrwa",
                         text);
    }
    return CMD_OK;
}

/* ---- Reading ---- */

/* Whether the list of this znode cannot be set: the system's own znodes, below the root. */
static bool is_left_out(const struct acl_tree *tree, const char *path)
{
    static const char system[] = "/zookeeper";

    return strcmp(tree->top, "/") == 0 && strncmp(path, system, strlen(system)) == 0 &&
           (path[strlen(system)] == '\0' || path[strlen(system)] == '/');
}

static void add_paths(const struct acl_tree *tree, const json_t *nodes)
{
    JSONR_EACH (node, nodes) {
        const char *path = json_string_value(node);

        if (path && strcmp(path, tree->top) != 0 && !is_left_out(tree, path)) {
            (void)json_array_append(tree->paths, (json_t *)node);
        }
    }
}

/* Finds all znodes of the subtree. */
static int find_all(struct acl_tree *tree)
{
    json_auto_t *after = NULL;
    bool more = true;

    (void)json_array_append_new(tree->paths, json_string(tree->top));
    while (more) {
        json_t *json = NULL;
        const struct client_request request = {
            .target = "/search/v1",
            .path = tree->top,
            .params = {{"name", "*"},
                       {"limit", URL_NUMBER(PAGE)},
                       {"after", after ? json_string_value(after) : NULL}}};
        int code = cli_ask_json(tree->cli, &request, &json);

        if (code != CMD_OK) {
            return code;
        }
        add_paths(tree, jsonr_at(json, "nodes"));
        more = json_is_true(jsonr_at(json, "more"));
        json_decref(after);
        after = json_incref(jsonr_at(json, "after"));
        if ((int64_t)json_array_size(tree->paths) > tree->max) {
            return cli_fail(tree->cli, CMD_LIMIT, "TooLarge",
                            "%s has more than %" PRId64 " znodes; no ACL was changed; give a "
                            "larger --max",
                            tree->top, tree->max);
        }
    }
    return CMD_OK;
}

static bool is_wanted(const struct acl_tree *tree, const json_t *answer)
{
    BUF_AUTO(have, TEXT_MAX);

    put_list(jsonr_at(answer, "acl"), &have);
    return slice_eq(buf_slice(&have), buf_slice(&tree->want));
}

/* Reads all lists, and remembers the znodes whose list differs. */
static int read_all(struct acl_tree *tree)
{
    JSONR_EACH (path, tree->paths) {
        const struct client_request request = {.path = json_string_value(path),
                                               .params = {{"view", "acl"}},
                                               .about = json_string_value(path)};
        int code = client_ask(tree->cli->client, &request);
        const json_t *json = code == CMD_OK ? cli_json(tree->cli) : NULL;

        if (code == CMD_NO_NODE && path != json_array_get(tree->paths, 0)) {
            tree->gone++;
            continue;
        }
        if (!json) {
            return code == CMD_OK ? CMD_FAILED : cli_tell(tree->cli);
        }
        if (!is_wanted(tree, json)) {
            (void)json_array_append(tree->differ, (json_t *)path);
        }
    }
    return CMD_OK;
}

/* ---- Writing ---- */

static int set_once(struct revise *revise, void *ctx)
{
    struct acl_tree *tree = ctx;
    int code = revise_read(revise);
    BUF_AUTO(sent, TEXT_MAX);

    if (code != CMD_OK) {
        return code;
    }
    if (!revise->exists) {
        tree->gone++;
        return CMD_OK;
    }
    if (is_wanted(tree, cli_json(tree->cli))) {
        return CMD_OK;
    }

    json_auto_t *body = json_pack("{s:O}", "acl", tree->list);

    jsonr_put(&sent, body);
    code = revise_write(revise, buf_slice(&sent), false);
    tree->set += code == CMD_OK ? 1 : 0;
    return code;
}

static int write_all(struct acl_tree *tree)
{
    JSONR_EACH (path, tree->differ) {
        struct revise revise = {.cli = tree->cli, .path = json_string_value(path), .acl = true};
        int code = revise_run(&revise, set_once, tree);

        if (code != CMD_OK) {
            (void)fprintf(stderr,
                          "zabra acl: %" PRId64 " of %zu ACLs were set before this error; the same "
                          "command continues with the rest\n",
                          tree->set, json_array_size(tree->differ));
            return tree->set > 0 ? CMD_PARTLY : code;
        }
    }
    return CMD_OK;
}

static void report(const struct acl_tree *tree)
{
    size_t count = json_array_size(tree->paths);

    if (out_is_text(&tree->cli->out)) {
        out_say(&tree->cli->out, "%zu znode%s, %" PRId64 " ACL%s set\n", count,
                count == 1 ? "" : "s", tree->set, tree->set == 1 ? "" : "s");
    } else {
        out_result(&tree->cli->out,
                   json_pack("{s:s,s:I,s:I,s:I}", "path", tree->top, "znodes", (json_int_t)count,
                             "set", (json_int_t)tree->set, "gone", (json_int_t)tree->gone));
    }
}

int acl_tree_set(struct cli *cli, const char *path, const char *text)
{
    struct acl_tree tree = {.cli = cli,
                            .top = path,
                            .max = cli_number(cli, "max"),
                            .paths = json_array(),
                            .differ = json_array()};
    int code = take_list(&tree, text);

    buf_init(&tree.want, TEXT_MAX);
    if (code == CMD_OK && (strstr(text, "auth:") || strcmp(text, "creator") == 0)) {
        code = resolve(&tree);
    }
    if (code == CMD_OK) {
        put_list(tree.list, &tree.want);
        code = find_all(&tree);
    }
    if (code == CMD_OK) {
        code = read_all(&tree);
    }
    if (code == CMD_OK) {
        code = write_all(&tree);
    }
    if (code == CMD_OK) {
        report(&tree);
    }
    buf_release(&tree.want);
    json_decref(tree.list);
    json_decref(tree.paths);
    json_decref(tree.differ);
    return code;
}

/* ---- The warning ---- */

/* Returns the entry of world:anyone of a znode's list, as a new reference; NULL: it has none, or
 * the list cannot be read (`*ret_read` false). */
static json_t *anyone_of(const struct cli *cli, const char *path, bool *ret_read)
{
    const struct client_request request = {.path = path, .params = {{"view", "acl"}}};
    json_t *found = NULL;

    *ret_read = client_ask(cli->client, &request) == CMD_OK && client_json(cli->client);
    JSONR_EACH (entry, *ret_read ? jsonr_at(client_json(cli->client), "acl") : NULL) {
        if (!found && strcmp(jsonr_text(entry, "scheme"), "world") == 0) {
            found = json_incref((json_t *)entry);
        }
    }
    return found;
}

static bool has_perm(const json_t *entry, const json_t *perm)
{
    JSONR_EACH (one, jsonr_at(entry, "perms")) {
        if (json_equal(one, perm)) {
            return true;
        }
    }
    return false;
}

/* Whether `child` has a permission that `parent` has not. */
static bool is_wider(const json_t *child, const json_t *parent)
{
    JSONR_EACH (perm, jsonr_at(child, "perms")) {
        if (!has_perm(parent, perm)) {
            return true;
        }
    }
    return false;
}

void acl_tree_warn(const struct cli *cli, const char *path)
{
    bool read = false;
    BUF_AUTO(above, URL_MAX);
    BUF_AUTO(text, TEXT_MAX);

    (void)url_split(path, &above);

    json_auto_t *parent = anyone_of(cli, buf_cstr(&above), &read);

    /* Usually the parent is open, and no second request is necessary. */
    if (!read || json_array_size(jsonr_at(parent, "perms")) == strlen("cdrwa")) {
        return;
    }

    json_auto_t *child = anyone_of(cli, path, &read);

    if (child && is_wider(child, parent)) {
        acl_text_put(child, &text);
        (void)fprintf(
            stderr,
            "zabra create: warning: %s has %s, which its parent %s does not give to every "
            "client: restrict it with 'zabra acl %s LIST', create with --acl, or set "
            "inheritAcl=true on the replicas\n",
            path, buf_cstr(&text), buf_cstr(&above), path);
    }
}
