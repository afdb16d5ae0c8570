/* ls, find, tree: list many znodes. A replica answers in pages, or searches in bounded steps. */
#include "cli/cli.h"

enum {
    FOUND_DEFAULT = 1000,
    DEPTH_MAX = 1024
};

/* ---- ls ---- */

static const char long_columns[] =
    "VERSION:stat.version>, BYTES:stat.dataLength>, CHILDREN:stat.numChildren>, "
    "MODIFIED:modified, KIND:kind, NAME:name";

static const char *kind_of(const json_t *stat)
{
    bool ephemeral = strcmp(jsonr_text(stat, "ephemeralOwnerHex"), "0x0") != 0;

    return ephemeral                     ? "ephemeral"
           : jsonr_at(stat, "container") ? "container"
           : jsonr_at(stat, "ttl")       ? "ttl"
                                         : "-";
}

/* Adds text for people: the time of the last change, and the kind of znode. */
static void add_words(json_t *children)
{
    JSONR_EACH (child, children) {
        if (jsonr_at(child, "hidden")) {
            continue;
        }
        (void)json_object_set_new(child, "modified", out_time(jsonr_number(child, "stat.mtime")));
        (void)json_object_set_new(child, "kind", json_string(kind_of(jsonr_at(child, "stat"))));
    }
}

static int run_ls(struct cli *cli)
{
    bool with_stat = args_has(&cli->args, "long");
    struct client_request request = {
        .path = cli_path(cli, 0),
        .params = {{"view", "children"}, {"with", with_stat ? "stat" : NULL}}};
    json_auto_t *whole = NULL;
    int code = cli_ask_pages(cli, &request, "children", &whole);

    if (code == CMD_OK) {
        if (with_stat && !out_is_json(&cli->out)) {
            add_words(jsonr_at(whole, "children"));
        }
        out_list(&cli->out, whole, "children", with_stat ? long_columns : "NAME:");
    }
    return code;
}

const struct cmd cmd_ls = {
    .name = "ls",
    .summary = "list the children of a znode",
    .usage = "[PATH]",
    .text = "Up to 1000 children are from one moment; longer lists are read in pages.\n",
    .options = {CMD_FLAG("long", 'l', "also print version, size, children, time and kind of each"),
                CMD_NUMBER("limit", 'n', "N",
                           "at most N children, the first in byte order (1000000)", 1,
                           CLI_LIMIT_MAX, CLI_LIMIT_MAX)},
    .examples = {{"zabra ls /app", "prints one name per line"},
                 {"zabra ls -l /app -o table", "prints a table with details of each"},
                 {"zabra ls /app -o ndjson", "prints one line of JSON per child"}},
    .operands = {0, 1, {CMD_OPERAND_PATH}},
    .run = run_ls,
};

/* ---- find ---- */

static const char node_columns[] =
    "VERSION:stat.version>, BYTES:stat.dataLength>, CHILDREN:stat.numChildren>, PATH:path";

static int run_find(struct cli *cli)
{
    struct client_request request = {.target = "/search/v1",
                                     .path = cli_path(cli, 0),
                                     .params = {{"name", args_get(&cli->args, "name")},
                                                {"data", args_get(&cli->args, "data")},
                                                {"with", "stat"}}};
    json_auto_t *whole = NULL;

    if (!args_has(&cli->args, "name") && !args_has(&cli->args, "data")) {
        return CLI_USAGE(cli, "give a search text: --name, --data or both");
    }

    int code = cli_ask_pages(cli, &request, "nodes", &whole);

    if (code == CMD_OK) {
        out_list(&cli->out, whole, "nodes",
                 args_has(&cli->args, "long") ? node_columns : "PATH:path");
    }
    if (code == CMD_OK && json_is_true(jsonr_at(whole, "more"))) {
        (void)fprintf(stderr, "zabra find: there may be more matches; raise --limit\n");
    }
    return code;
}

const struct cmd cmd_find = {
    .name = "find",
    .summary = "find znodes by name or data",
    .usage = "[PATH]",
    .text = "The replica searches in steps of 10,000 znodes, so the matches are not from one\n"
            "moment. It skips znodes that you may not read, and all below them.\n",
    .options = {CMD_VALUE("name", 'N', "PATTERN",
                          "znodes whose name matches this pattern (* and ?) or contains this text"),
                CMD_VALUE("data", 'd', "TEXT", "znodes whose data contains this text"),
                CMD_FLAG("long", 'l', "also print version and size of each"),
                CMD_NUMBER("limit", 'n', "N", "at most N matches (1000)", 1, CLI_LIMIT_MAX,
                           FOUND_DEFAULT)},
    .examples = {{"zabra find /app --name '*.json'", "by name"},
                 {"zabra find --data db1.example -l", "finds znodes that still mention db1"}},
    .operands = {0, 1, {CMD_OPERAND_PATH}},
    .run = run_find,
};

/* ---- tree ---- */

/* The texts of the branches to the left of a line. */
struct branches {
    const char *through;
    const char *blank;
    const char *fork;
    const char *last;
};

static const struct branches lines = {"│   ", "    ", "├── ", "└── "};
static const struct branches ascii = {"|   ", "    ", "|-- ", "`-- "};

static size_t depth_of(const json_t *nodes, size_t index)
{
    const char *path = jsonr_text(json_array_get(nodes, index), "path");
    size_t depth = 0;

    for (const char *at = path; *at && path[1]; at++) {
        depth += *at == '/' ? 1 : 0;
    }
    return min_size(depth, DEPTH_MAX);
}

/*
 * Marks each znode that is the last child of its parent. The list is in preorder, so the later
 * znodes decide this, and the loop reads the list from its end. `open[d]` says whether a sibling at
 * depth d follows: a znode of depth d sets it, and a znode of a lower depth clears it.
 */
static void mark_last(const json_t *nodes, bool *last)
{
    bool open[DEPTH_MAX + 2] = {false};

    for (size_t i = json_array_size(nodes); i > 0; i--) {
        size_t depth = depth_of(nodes, i - 1);

        last[i - 1] = !open[depth];
        open[depth] = true;
        for (size_t below = depth + 1; below <= DEPTH_MAX && open[below]; below++) {
            open[below] = false;
        }
    }
}

static void print_node(const struct cli *cli, const json_t *node, const char *branch_text,
                       bool is_top)
{
    const char *path = jsonr_text(node, "path");
    const char *slash = strrchr(path, '/');

    out_say(&cli->out, "%s%s", branch_text, is_top || !slash ? path : slash + 1);
    if (jsonr_at(node, "hidden")) {
        out_say(&cli->out, "  (no permission)");
    } else if (args_has(&cli->args, "long")) {
        out_say(&cli->out, "  [v%" PRId64 ", %" PRId64 " bytes]",
                jsonr_number(node, "stat.version"), jsonr_number(node, "stat.dataLength"));
    }
    out_say(&cli->out, "\n");
}

static void print_tree(const struct cli *cli, const json_t *nodes)
{
    const struct branches *with = out_is_utf8() ? &lines : &ascii;
    size_t count = json_array_size(nodes);
    bool *last = mem_zalloc(count + 1, sizeof(*last));
    bool closed[DEPTH_MAX + 2] = {false};
    size_t top = depth_of(nodes, 0);
    BUF_AUTO(text, (size_t)(DEPTH_MAX + 2) * 8);

    mark_last(nodes, last);
    for (size_t i = 0; i < count; i++) {
        size_t depth = depth_of(nodes, i);

        buf_clear(&text);
        for (size_t level = top + 1; level < depth; level++) {
            buf_append_str(&text, closed[level] ? with->blank : with->through);
        }
        if (depth > top) {
            buf_append_str(&text, last[i] ? with->last : with->fork);
        }
        closed[depth] = last[i];
        print_node(cli, json_array_get(nodes, i), buf_cstr(&text), i == 0);
    }
    out_say(&cli->out, "\n%zu znode%s\n", count, count == 1 ? "" : "s");
    mem_free(last);
}

static int run_tree(struct cli *cli)
{
    bool data = args_has(&cli->args, "data");
    int64_t depth = cli_number(cli, "level");
    struct client_request request = {.path = cli_path(cli, 0),
                                     .params = {{"view", "tree"},
                                                {"with", data ? "data" : "stat"},
                                                {"dataformat", data ? "auto" : NULL},
                                                {"depth", depth ? URL_NUMBER(depth) : NULL}}};
    json_t *json = NULL;
    int code = cli_ask_json(cli, &request, &json);

    if (code == CMD_OK && cli->out.format == SETTINGS_TEXT) {
        print_tree(cli, jsonr_at(json, "nodes"));
    } else if (code == CMD_OK) {
        out_list(&cli->out, json, "nodes", node_columns);
    }
    return code;
}

const struct cmd cmd_tree = {
    .name = "tree",
    .summary = "show a znode and its subtree",
    .usage = "[PATH]",
    .text = "One answer holds at most 1000 znodes or 1 MiB: use --level for a larger tree.\n",
    .options = {CMD_NUMBER("level", 'L', "N", "show at most N levels", 1, DEPTH_MAX, 0),
                CMD_FLAG("long", 'l', "also print version and size of each znode"),
                CMD_FLAG("data", 0, "include the data of each znode in JSON")},
    .examples = {{"zabra tree /app", "prints a consistent state of the subtree"},
                 {"zabra tree / -L 2", "prints the first two levels"}},
    .operands = {0, 1, {CMD_OPERAND_PATH}},
    .run = run_tree,
};
