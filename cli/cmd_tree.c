/* tree: a subtree as it was at one moment. */
#include "base/mem.h"
#include "base/minmax.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/url.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    DEPTH_MAX = 1024
};

/* The branches to the left of a line; which of the levels above have more to come. */
struct branches {
    const char *through;
    const char *blank;
    const char *fork;
    const char *last;
};

static const struct branches lines = {"│   ", "    ", "├── ", "└── "};
static const struct branches ascii = {"|   ", "    ", "|-- ", "`-- "};

static const struct out_column columns[] = {
    {"VERSION", "stat.version", true},
    {"BYTES", "stat.dataLength", true},
    {"CHILDREN", "stat.numChildren", true},
    {"PATH", "path", false},
    {.title = NULL},
};

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
    struct buf text;

    mark_last(nodes, last);
    buf_init(&text, (size_t)(DEPTH_MAX + 2) * 8);
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
    buf_release(&text);
    mem_free(last);
}

static int ask(struct cli *cli, const char *path, int64_t depth, json_t **ret_json)
{
    struct buf url;
    int code = CMD_OK;

    url_init(&url, "/znodes/v1", path);
    url_param(&url, "view", "tree");
    url_param(&url, "with", args_has(&cli->args, "data") ? "data" : "stat");
    if (args_has(&cli->args, "data")) {
        url_param(&url, "dataformat", "auto");
    }
    if (depth) {
        url_param_number(&url, "depth", depth);
    }
    code = cli_read(cli, buf_cstr(&url), ret_json);
    buf_release(&url);
    return code;
}

static int run(struct cli *cli)
{
    struct args_range depths = {.min = 1, .max = DEPTH_MAX};
    const char *path = NULL;
    int64_t depth = 0;
    int code = CMD_OK;
    json_t *json = NULL;

    if (!cli_path(cli, 0, &path) || !cli_number(cli, "level", depths, &depth)) {
        return CMD_USAGE;
    }
    code = ask(cli, path, depth, &json);
    if (code != CMD_OK) {
        return code;
    }
    if (cli->out.format == SETTINGS_TEXT) {
        print_tree(cli, jsonr_at(json, "nodes"));
    } else {
        out_list(&cli->out, json, "nodes", columns);
    }
    return CMD_OK;
}

static const struct cmd_option options[] = {
    {"level", 'L', "N", "show at most N levels", NULL},
    {"long", 'l', NULL, "also print version and size of each znode", NULL},
    {"data", 0, NULL, "include the data of each znode in JSON", NULL},
    {.name = NULL},
};

static const struct cmd_example examples[] = {
    {"zabra tree /app", "prints a consistent state of the subtree"},
    {"zabra tree / -L 2", "prints the first two levels"},
    {.line = NULL},
};

const struct cmd cmd_tree = {
    .name = "tree",
    .summary = "show a znode and its subtree",
    .usage = "[PATH]",
    .text = "One answer holds at most 1000 znodes or 1 MiB: use --level for a larger tree.\n",
    .options = options,
    .examples = examples,
    .operands = {CMD_OPERAND_PATH},
    .operands_max = 1,
    .run = run,
};
