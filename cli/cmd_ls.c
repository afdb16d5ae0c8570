/* ls, find, tree: many znodes. A replica answers page by page, or searches in bounded steps. */
#include "base/mem.h"
#include "base/minmax.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/url.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    LIMIT_MAX = 1000000,
    FOUND_DEFAULT = 1000,
    DEPTH_MAX = 1024
};

/* ---- ls ---- */

static const char ls_columns[] = "NAME:";
static const char ls_long_columns[] =
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

/* For people: when, and what kind of znode. */
static void add_words(json_t *children)
{
    json_t *child = NULL;

    for (size_t i = 0; (child = json_array_get(children, i)); i++) {
        char modified[OUT_TIME_MAX];

        if (jsonr_at(child, "hidden")) {
            continue;
        }
        out_time(jsonr_number(child, "stat.mtime"), modified);
        (void)json_object_set_new(child, "modified", json_string(modified));
        (void)json_object_set_new(child, "kind", json_string(kind_of(jsonr_at(child, "stat"))));
    }
}

static int run_ls(struct cli *cli)
{
    struct args_range limits = {.min = 1, .max = LIMIT_MAX, .otherwise = LIMIT_MAX};
    bool with_stat = args_has(&cli->args, "long");
    struct client_request request = {
        .target = "/znodes/v1",
        .path = cli_path(cli, 0),
        .params = {{"view", "children"}, {"with", with_stat ? "stat" : NULL}}};
    int64_t limit = 0;
    json_auto_t *whole = NULL;
    int code = CMD_OK;

    if (!cli_number(cli, "limit", limits, &limit)) {
        return CMD_USAGE;
    }
    code = cli_ask_pages(cli, &request, "children", limit, &whole);
    if (code == CMD_OK) {
        if (with_stat && !out_is_json(&cli->out)) {
            add_words(jsonr_at(whole, "children"));
        }
        out_list(&cli->out, whole, "children", with_stat ? ls_long_columns : ls_columns);
    }
    return code;
}

const struct cmd cmd_ls = {
    .name = "ls",
    .summary = "list the children of a znode",
    .usage = "[PATH]",
    .text = "Up to 1000 children are from one moment; longer lists are read in pages.\n",
    .options = {{"long", 'l', NULL, "also print version, size, children, time and kind of each",
                 NULL},
                {"limit", 'n', "N", "at most N children, the first in byte order (1000000)", NULL}},
    .examples = {{"zabra ls /app", "prints one name per line"},
                 {"zabra ls -l /app -o table", "prints a table with details of each"},
                 {"zabra ls /app -o ndjson", "prints one line of JSON per child"}},
    .operands = {CMD_OPERAND_PATH},
    .run = run_ls,
};

/* ---- find ---- */

static const char find_columns[] = "PATH:path";
static const char node_columns[] =
    "VERSION:stat.version>, BYTES:stat.dataLength>, CHILDREN:stat.numChildren>, PATH:path";

static int run_find(struct cli *cli)
{
    struct args_range limits = {.min = 1, .max = LIMIT_MAX, .otherwise = FOUND_DEFAULT};
    struct client_request request = {.target = "/search/v1",
                                     .path = cli_path(cli, 0),
                                     .params = {{"name", args_get(&cli->args, "name")},
                                                {"data", args_get(&cli->args, "data")},
                                                {"with", "stat"}}};
    int64_t limit = 0;
    json_auto_t *whole = NULL;
    int code = CMD_OK;

    if (!cli_number(cli, "limit", limits, &limit)) {
        return CMD_USAGE;
    }
    if (!args_has(&cli->args, "name") && !args_has(&cli->args, "data")) {
        return cli_usage(cli, "give a search text: --name, --data or both");
    }
    code = cli_ask_pages(cli, &request, "nodes", limit, &whole);
    if (code == CMD_OK) {
        out_list(&cli->out, whole, "nodes",
                 args_has(&cli->args, "long") ? node_columns : find_columns);
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
    .options = {{"name", 'N', "PATTERN",
                 "znodes whose name matches this pattern (* and ?) or contains this text", NULL},
                {"data", 'd', "TEXT", "znodes whose data contains this text", NULL},
                {"long", 'l', NULL, "also print version and size of each", NULL},
                {"limit", 'n', "N", "at most N matches (1000)", NULL}},
    .examples = {{"zabra find /app --name '*.json'", "by name"},
                 {"zabra find --data db1.example -l", "finds znodes that still mention db1"}},
    .operands = {CMD_OPERAND_PATH},
    .run = run_find,
};

/* ---- tree ---- */

/* The branches to the left of a line; which of the levels above have more to come. */
struct branches {
    const char *through;
    const char *blank;
    const char *fork;
    const char *last;
};

static const struct branches lines = {"│   ", "    ", "├── ", "└── "};
static const struct branches ascii = {"|   ", "    ", "|-- ", "`-- "};

static size_t depth_of(const char *path)
{
    size_t depth = 0;

    for (const char *at = path; *at && path[1]; at++) {
        depth += *at == '/' ? 1 : 0;
    }
    return depth;
}

/*
 * Znodes come in preorder, so whether one is the last of its parent is only known from what
 * follows. Read from the end, `open[d]` says whether a sibling at depth d follows: it is set by a
 * znode of that depth and closed by one that is higher.
 */
static void mark_last(const json_t *nodes, bool *last)
{
    bool open[DEPTH_MAX + 2] = {false};

    for (size_t i = json_array_size(nodes); i > 0; i--) {
        size_t depth = depth_of(jsonr_text(json_array_get(nodes, i - 1), "path"));

        depth = min_u64(depth, DEPTH_MAX);
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
    size_t top = depth_of(jsonr_text(json_array_get(nodes, 0), "path"));
    BUF_AUTO(text, (size_t)(DEPTH_MAX + 2) * 8);

    mark_last(nodes, last);
    for (size_t i = 0; i < count; i++) {
        size_t depth = depth_of(jsonr_text(json_array_get(nodes, i), "path"));

        depth = min_u64(depth, DEPTH_MAX);
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

static int ask(struct cli *cli, int64_t depth, json_t **ret_json)
{
    bool data = args_has(&cli->args, "data");
    struct client_request request = {.target = "/znodes/v1",
                                     .path = cli_path(cli, 0),
                                     .params = {{"view", "tree"},
                                                {"with", data ? "data" : "stat"},
                                                {"dataformat", data ? "auto" : NULL},
                                                {"depth", depth ? URL_NUMBER(depth) : NULL}},
                                     .last = true};

    return cli_ask_json(cli, &request, ret_json);
}

static int run_tree(struct cli *cli)
{
    struct args_range depths = {.min = 1, .max = DEPTH_MAX};
    int64_t depth = 0;
    int code = CMD_OK;
    json_t *json = NULL;

    if (!cli_number(cli, "level", depths, &depth)) {
        return CMD_USAGE;
    }
    code = ask(cli, depth, &json);
    if (code != CMD_OK) {
        return code;
    }
    if (cli->out.format == SETTINGS_TEXT) {
        print_tree(cli, jsonr_at(json, "nodes"));
    } else {
        out_list(&cli->out, json, "nodes", node_columns);
    }
    return CMD_OK;
}

const struct cmd cmd_tree = {
    .name = "tree",
    .summary = "show a znode and its subtree",
    .usage = "[PATH]",
    .text = "One answer holds at most 1000 znodes or 1 MiB: use --level for a larger tree.\n",
    .options = {{"level", 'L', "N", "show at most N levels", NULL},
                {"long", 'l', NULL, "also print version and size of each znode", NULL},
                {"data", 0, NULL, "include the data of each znode in JSON", NULL}},
    .examples = {{"zabra tree /app", "prints a consistent state of the subtree"},
                 {"zabra tree / -L 2", "prints the first two levels"}},
    .operands = {CMD_OPERAND_PATH},
    .run = run_tree,
};
