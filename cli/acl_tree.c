#include "cli/acl_tree.h"

#include "cli/acl_text.h"

#include <inttypes.h>

enum {
    TEXT_MAX = 1 << 20,
    PAGE = 1000,       /* Znodes of one answer of a search. */
    PATHS_SHOWN = 100, /* Paths of one kind that are printed as text; JSON has all. */
    WRITES_MAX = 100   /* Attempts to set one list while other clients change it. */
};

struct acl_tree {
    struct cli *cli;
    const char *top;
    int64_t max;
    json_t *list;       /* The list to set. */
    json_t *want;       /* The same as texts of its entries. */
    json_t *paths;      /* Of all znodes that were found, each one before the znodes below it. */
    json_t *differ;     /* Those whose list is another one, as {"path", "match"}. */
    json_t *denied;     /* Paths of those whose list the caller may not set. */
    json_t *unreadable; /* Paths of those that hide from the caller what is below them. */
    int64_t set;        /* Lists that were set. */
    int64_t gone;       /* Znodes that were deleted meanwhile. */
};

/* ---- Lists ---- */

static bool has_text(const json_t *texts, const char *text)
{
    JSONR_EACH (one, texts) {
        if (strcmp(json_string_value(one), text) == 0) {
            return true;
        }
    }
    return false;
}

/* Returns the texts of the entries; an entry that was there before is left out, as the replica
 * does. */
static json_t *texts_of(const json_t *list)
{
    json_t *texts = json_array();
    BUF_AUTO(entry, TEXT_MAX);

    JSONR_EACH (one, list) {
        buf_clear(&entry);
        acl_text_put(one, &entry);
        if (!has_text(texts, buf_cstr(&entry))) {
            (void)json_array_append_new(texts, json_string(buf_cstr(&entry)));
        }
    }
    return texts;
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

/* No client can set the list of this znode. */
static bool is_left_out(const char *path)
{
    return strcmp(path, "/zookeeper/config") == 0;
}

static void add_paths(const struct acl_tree *tree, const json_t *nodes)
{
    JSONR_EACH (node, nodes) {
        const char *path = json_string_value(node);

        if (path && strcmp(path, tree->top) != 0 && !is_left_out(path)) {
            (void)json_array_append(tree->paths, (json_t *)node);
        }
    }
}

/* Finds all znodes of the subtree; the replica does not search below those that the caller may not
 * read. */
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

/* Reports an error after which no further list is set. */
static int tell_broken(const struct acl_tree *tree)
{
    const struct client_error *error = &tree->cli->client->error;
    char message[CLI_MESSAGE_MAX];
    json_auto_t *extra = json_object();

    if (tree->set == 0) {
        return cli_tell(tree->cli);
    }
    client_explain(tree->cli->client);
    if (error->status > 0) {
        (void)json_object_set_new(extra, "status", json_integer(error->status));
    }
    (void)snprintf(message, sizeof(message), "%.700s; %" PRId64 " of %zu ACLs were set before%s",
                   error->message, tree->set, json_array_size(tree->differ),
                   client_unserved(error->exit_code) ? ": the same command continues with the rest"
                                                     : "");
    out_error(&tree->cli->out, CMD_PARTLY, error->code, message, extra);
    return CMD_PARTLY;
}

/* What the caller can do about the list of one znode. */
enum sight {
    SIGHT_RIGHT, /* Nothing: it is the list to set. */
    SIGHT_DIFFERS,
    SIGHT_DENIED, /* Nothing: the caller has no permission admin. */
    SIGHT_HIDDEN, /* Nothing: the caller may not read it. */
    SIGHT_GONE    /* Nothing: the znode was deleted. */
};

/* Reads one list. `*ret_match` is the header that makes a write conditional on it; `*ret_blind`:
 * the caller may not see the children that the znode has. Returns CMD_OK, or the code of a reported
 * error. */
static int look_at(const struct acl_tree *tree, const char *path, enum sight *ret_sight,
                   char ret_match[CLIENT_HEADER_MAX], bool *ret_blind)
{
    const struct client *client = tree->cli->client;
    const struct client_request request = {
        .path = path, .params = {{"view", "acl"}, {"perms", "true"}}, .about = path};
    int code = client_ask(tree->cli->client, &request);
    const json_t *json = code == CMD_OK ? cli_json(tree->cli) : NULL;
    const json_t *perms = jsonr_at(json, "perms");

    *ret_blind = code == CMD_DENIED;
    if (code == CMD_NO_NODE || code == CMD_DENIED) {
        *ret_sight = code == CMD_NO_NODE ? SIGHT_GONE : SIGHT_HIDDEN;
        return CMD_OK;
    }
    if (!json) {
        return code == CMD_OK ? CMD_FAILED : code < CMD_OK ? code : tell_broken(tree);
    }

    json_auto_t *have = texts_of(jsonr_at(json, "acl"));

    *ret_blind = !has_text(perms, "read") && jsonr_number(json, "stat.numChildren") > 0;
    *ret_sight = json_equal(have, tree->want) ? SIGHT_RIGHT
                 : has_text(perms, "admin")   ? SIGHT_DIFFERS
                                              : SIGHT_DENIED;
    (void)snprintf(ret_match, CLIENT_HEADER_MAX, "If-Match: %.256s", client->reply.etag);
    return CMD_OK;
}

/* Notes why a list cannot be set, or that it need not be. */
static void note_sight(struct acl_tree *tree, json_t *path, enum sight sight)
{
    if (sight == SIGHT_DENIED) {
        (void)json_array_append(tree->denied, path);
    }
    tree->gone += sight == SIGHT_GONE ? 1 : 0;
}

/* Reads all lists, and remembers the znodes whose list differs. */
static int read_all(struct acl_tree *tree)
{
    char match[CLIENT_HEADER_MAX];

    JSONR_EACH (path, tree->paths) {
        enum sight sight = SIGHT_RIGHT;
        bool blind = false;
        int code = look_at(tree, json_string_value(path), &sight, match, &blind);

        if (code != CMD_OK) {
            return code;
        }
        if (blind) {
            (void)json_array_append(tree->unreadable, path);
        }
        if (sight == SIGHT_DIFFERS) {
            (void)json_array_append_new(tree->differ,
                                        json_pack("{s:O,s:s}", "path", path, "match", match));
        }
        note_sight(tree, path, sight);
    }
    return CMD_OK;
}

/* ---- Writing ---- */

/* Sets one list, if it is still the one that `match` names; reads it again when another client has
 * changed it. Returns CMD_OK, also when the list can no longer be set, or the code of a reported
 * error. */
static int write_one(struct acl_tree *tree, json_t *path, char match[CLIENT_HEADER_MAX],
                     struct slice body)
{
    struct client *client = tree->cli->client;
    const struct client_request request = {.method = "PATCH",
                                           .path = json_string_value(path),
                                           .body = body,
                                           .has_body = true,
                                           .type = "application/json",
                                           .headers = {match}};
    enum sight sight = SIGHT_DIFFERS;
    bool blind = false;
    int code = client_ask(client, &request);

    for (int i = 0; i < WRITES_MAX && client->error.status == HTTP_LATE; i++) {
        code = look_at(tree, request.path, &sight, match, &blind);
        if (code != CMD_OK || sight != SIGHT_DIFFERS) {
            note_sight(tree, path, sight == SIGHT_HIDDEN ? SIGHT_DENIED : sight);
            return code;
        }
        code = client_ask(client, &request);
    }
    if (code == CMD_NO_NODE || code == CMD_DENIED) {
        note_sight(tree, path, code == CMD_NO_NODE ? SIGHT_GONE : SIGHT_DENIED);
        return CMD_OK;
    }
    tree->set += code == CMD_OK ? 1 : 0;
    return code > CMD_OK ? tell_broken(tree) : code;
}

/* Sets the lists of znodes before those of the znodes above them: the caller may lose its
 * permissions by a list that it sets, and could then not reach the znodes below. */
static int write_all(struct acl_tree *tree)
{
    json_auto_t *json = json_pack("{s:O}", "acl", tree->list);
    BUF_AUTO(body, TEXT_MAX);

    jsonr_put(&body, json);
    for (size_t i = json_array_size(tree->differ); i > 0; i--) {
        const json_t *one = json_array_get(tree->differ, i - 1);
        char match[CLIENT_HEADER_MAX];
        int code = CMD_OK;

        (void)snprintf(match, sizeof(match), "%s", jsonr_text(one, "match"));
        code = write_one(tree, jsonr_at(one, "path"), match, buf_slice(&body));
        if (code != CMD_OK) {
            return code;
        }
    }
    return CMD_OK;
}

/* ---- The result ---- */

static json_t *result_of(const struct acl_tree *tree)
{
    return json_pack("{s:s,s:I,s:I,s:I,s:O,s:O}", "path", tree->top, "znodes",
                     (json_int_t)json_array_size(tree->paths), "set", (json_int_t)tree->set, "gone",
                     (json_int_t)tree->gone, "denied", tree->denied, "unreadable",
                     tree->unreadable);
}

static void list_paths(const json_t *paths, const char *what)
{
    size_t count = json_array_size(paths);

    for (size_t i = 0; i < count && i < PATHS_SHOWN; i++) {
        (void)fprintf(stderr, "zabra acl: %s: %s\n", json_string_value(json_array_get(paths, i)),
                      what);
    }
    if (count > PATHS_SHOWN) {
        (void)fprintf(stderr, "zabra acl: and %zu more\n", count - PATHS_SHOWN);
    }
}

/* Reports that the list of some znodes is still another one. */
static int tell_partly(const struct acl_tree *tree)
{
    json_auto_t *extra = json_pack("{s:o}", "acl", result_of(tree));
    char message[CLI_MESSAGE_MAX];

    if (!out_is_json(&tree->cli->out)) {
        list_paths(tree->denied, "not set: admin permission is missing");
        list_paths(tree->unreadable, "read permission is missing, so no znode below it was set");
    }
    (void)snprintf(message, sizeof(message),
                   "%" PRId64 " ACL%s set; %zu could not be set, and the znodes below %zu could "
                   "not be read: run the command as a user with admin and read permission for "
                   "all, or as the super user",
                   tree->set, tree->set == 1 ? " was" : "s were", json_array_size(tree->denied),
                   json_array_size(tree->unreadable));
    out_error(&tree->cli->out, CMD_PARTLY, "NoAuth", message, extra);
    return CMD_PARTLY;
}

static int report(const struct acl_tree *tree)
{
    size_t count = json_array_size(tree->paths);

    if (json_array_size(tree->denied) > 0 || json_array_size(tree->unreadable) > 0) {
        return tell_partly(tree);
    }
    if (out_is_text(&tree->cli->out)) {
        out_say(&tree->cli->out, "%zu znode%s, %" PRId64 " ACL%s set\n", count,
                count == 1 ? "" : "s", tree->set, tree->set == 1 ? "" : "s");
    } else {
        out_result(&tree->cli->out, result_of(tree));
    }
    return CMD_OK;
}

int acl_tree_set(struct cli *cli, const char *path, const char *text)
{
    struct acl_tree tree = {.cli = cli,
                            .top = path,
                            .max = cli_number(cli, "max"),
                            .paths = json_array(),
                            .differ = json_array(),
                            .denied = json_array(),
                            .unreadable = json_array()};
    int code = take_list(&tree, text);

    if (code == CMD_OK && (strstr(text, "auth:") || strcmp(text, "creator") == 0)) {
        code = resolve(&tree);
    }
    if (code == CMD_OK) {
        tree.want = texts_of(tree.list);
        code = find_all(&tree);
    }
    if (code == CMD_OK) {
        code = read_all(&tree);
    }
    if (code == CMD_OK) {
        code = write_all(&tree);
    }
    if (code == CMD_OK) {
        code = report(&tree);
    }
    json_decref(tree.want);
    json_decref(tree.list);
    json_decref(tree.paths);
    json_decref(tree.differ);
    json_decref(tree.denied);
    json_decref(tree.unreadable);
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
