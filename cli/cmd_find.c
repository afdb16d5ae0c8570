/* find: znodes by name and data; the replica searches in bounded steps. */
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/url.h"

#include <stdio.h>

enum {
    LIMIT_DEFAULT = 1000,
    LIMIT_MAX = 1000000,
    PAGE = 1000
};

static const struct out_column columns[] = {{"PATH", "path", false}, {.title = NULL}};
static const struct out_column long_columns[] = {
    {"VERSION", "stat.version", true},
    {"BYTES", "stat.dataLength", true},
    {"CHILDREN", "stat.numChildren", true},
    {"PATH", "path", false},
    {.title = NULL},
};

/* What was found so far, as the first answer has it. */
struct search {
    const char *path;
    int64_t left;
    json_t *whole;
};

static void search_url(const struct cli *cli, const struct search *search, struct buf *url)
{
    static const char *const patterns[] = {"name", "data"};
    const char *after = jsonr_text(search->whole, "after");

    url_init(url, "/search/v1", search->path);
    for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
        const char *pattern = args_get(&cli->args, patterns[i]);

        if (pattern) {
            url_param(url, patterns[i], pattern);
        }
    }
    url_param(url, "with", "stat");
    url_param_number(url, "limit", search->left < PAGE ? search->left : PAGE);
    if (*after) {
        url_param(url, "after", after);
    }
}

/* Adds one answer to those before it. */
static void add(struct search *search, json_t *page)
{
    int64_t looked = jsonr_number(page, "looked") + jsonr_number(search->whole, "looked");

    search->left -= (int64_t)json_array_size(jsonr_at(page, "nodes"));
    if (!search->whole) {
        search->whole = json_incref(page);
        return;
    }
    (void)json_array_extend(jsonr_at(search->whole, "nodes"), jsonr_at(page, "nodes"));
    (void)json_object_del(search->whole, "after");
    (void)json_object_del(page, "nodes");
    (void)json_object_update(search->whole, page);
    (void)json_object_set_new(search->whole, "looked", json_integer(looked));
}

static int step(struct cli *cli, struct search *search)
{
    struct buf url;
    json_t *page = NULL;
    int code = CMD_OK;

    search_url(cli, search, &url);
    code = cli_read(cli, buf_cstr(&url), &page);
    buf_release(&url);
    if (code != CMD_OK) {
        return code;
    }
    add(search, page);
    return CMD_OK;
}

static int run(struct cli *cli)
{
    struct args_range limits = {.min = 1, .max = LIMIT_MAX, .otherwise = LIMIT_DEFAULT};
    struct search search = {.whole = NULL};
    int code = CMD_OK;

    if (!cli_path(cli, 0, &search.path) || !cli_number(cli, "limit", limits, &search.left)) {
        return CMD_USAGE;
    }
    if (!args_has(&cli->args, "name") && !args_has(&cli->args, "data")) {
        return cli_usage(cli, "give a search text: --name, --data or both");
    }
    do {
        code = step(cli, &search);
    } while (code == CMD_OK && search.left > 0 && json_is_true(jsonr_at(search.whole, "more")));
    if (code == CMD_OK) {
        out_list(&cli->out, search.whole, "nodes",
                 args_has(&cli->args, "long") ? long_columns : columns);
    }
    if (code == CMD_OK && json_is_true(jsonr_at(search.whole, "more"))) {
        (void)fprintf(stderr, "zabra find: there may be more matches; raise --limit\n");
    }
    json_decref(search.whole);
    return code;
}

static const struct cmd_option options[] = {
    {"name", 'N', "PATTERN",
     "znodes whose name matches this pattern (* and ?) or contains this "
     "text",
     NULL},
    {"data", 'd', "TEXT", "znodes whose data contains this text", NULL},
    {"long", 'l', NULL, "also print version and size of each", NULL},
    {"limit", 'n', "N", "at most N matches (1000)", NULL},
    {.name = NULL},
};

static const struct cmd_example examples[] = {
    {"zabra find /app --name '*.json'", "by name"},
    {"zabra find --data db1.example -l", "finds znodes that still mention db1"},
    {.line = NULL},
};

const struct cmd cmd_find = {
    .name = "find",
    .summary = "find znodes by name or data",
    .usage = "[PATH]",
    .text = "The replica searches in steps of 10,000 znodes, so the matches are not from one\n"
            "moment. It skips znodes that you may not read, and all below them.\n",
    .options = options,
    .examples = examples,
    .operands = {CMD_OPERAND_PATH},
    .operands_max = 1,
    .run = run,
};
