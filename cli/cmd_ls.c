/* ls: the children of a znode, page by page. */
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/url.h"

enum {
    PAGE = 1000,
    LIMIT_DEFAULT = 1000000
};

static const struct out_column name_columns[] = {{"NAME", "", false}, {.title = NULL}};
static const struct out_column long_columns[] = {
    {"VERSION", "stat.version", true},
    {"BYTES", "stat.dataLength", true},
    {"CHILDREN", "stat.numChildren", true},
    {"MODIFIED", "modified", false},
    {"KIND", "kind", false},
    {"NAME", "name", false},
    {.title = NULL},
};

/* The list so far: the first page, to which the others are added. */
struct listing {
    const char *path;
    bool with_stat;
    int64_t left; /* Children that may still be listed. */
    json_t *whole;
};

static void page_url(const struct listing *listing, const char *after, struct buf *url)
{
    url_init(url, "/znodes/v1", listing->path);
    url_param(url, "view", "children");
    url_param_number(url, "limit", listing->left < PAGE ? listing->left : PAGE);
    if (listing->with_stat) {
        url_param(url, "with", "stat");
    }
    if (*after) {
        url_param(url, "after", after);
    }
}

static void add_page(struct listing *listing, json_t *page)
{
    json_t *children = jsonr_at(page, "children");

    listing->left -= (int64_t)json_array_size(children);
    if (!listing->whole) {
        listing->whole = json_incref(page);
        return;
    }
    (void)json_array_extend(jsonr_at(listing->whole, "children"), children);
    (void)json_object_set(listing->whole, "more", jsonr_at(page, "more"));
    if (jsonr_at(page, "after")) {
        (void)json_object_set(listing->whole, "after", jsonr_at(page, "after"));
    } else {
        (void)json_object_del(listing->whole, "after");
    }
}

static int fetch(struct cli *cli, struct listing *listing)
{
    bool more = true;

    while (more && listing->left > 0) {
        const char *after = jsonr_text(listing->whole, "after");
        struct buf url;
        int code = CMD_OK;
        json_t *page = NULL;

        page_url(listing, after, &url);
        /* With --curl one page is shown: the next one depends on it. */
        code = cli_read(cli, buf_cstr(&url), &page);
        buf_release(&url);
        if (code != CMD_OK) {
            return code;
        }
        add_page(listing, page);
        more = json_is_true(jsonr_at(page, "more"));
    }
    return CMD_OK;
}

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
    size_t i = 0;

    json_array_foreach(children, i, child)
    {
        char modified[OUT_TIME_MAX];

        if (jsonr_at(child, "hidden")) {
            continue;
        }
        out_time(jsonr_number(child, "stat.mtime"), modified);
        (void)json_object_set_new(child, "modified", json_string(modified));
        (void)json_object_set_new(child, "kind", json_string(kind_of(jsonr_at(child, "stat"))));
    }
}

static void print(const struct cli *cli, const struct listing *listing)
{
    if (!out_is_json(&cli->out) && listing->with_stat) {
        add_words(jsonr_at(listing->whole, "children"));
    }
    out_list(&cli->out, listing->whole, "children",
             listing->with_stat ? long_columns : name_columns);
}

static int run(struct cli *cli)
{
    struct args_range limits = {.min = 1, .max = LIMIT_DEFAULT, .otherwise = LIMIT_DEFAULT};
    struct listing listing = {.with_stat = args_has(&cli->args, "long")};
    int code = CMD_OK;

    if (!cli_path(cli, 0, &listing.path) || !cli_number(cli, "limit", limits, &listing.left)) {
        return CMD_USAGE;
    }
    code = fetch(cli, &listing);
    if (code == CMD_OK) {
        print(cli, &listing);
    }
    json_decref(listing.whole);
    return code;
}

static const struct cmd_option options[] = {
    {"long", 'l', NULL, "also print version, size, children, time and kind of each", NULL},
    {"limit", 'n', "N", "at most N children, the first in byte order (1000000)", NULL},
    {.name = NULL},
};

static const struct cmd_example examples[] = {
    {"zabra ls /app", "prints one name per line"},
    {"zabra ls -l /app -o table", "prints a table with details of each"},
    {"zabra ls /app -o ndjson", "prints one line of JSON per child"},
    {.line = NULL},
};

const struct cmd cmd_ls = {
    .name = "ls",
    .summary = "list the children of a znode",
    .usage = "[PATH]",
    .text = "Up to 1000 children are from one moment; longer lists are read in pages.\n",
    .options = options,
    .examples = examples,
    .operands = {CMD_OPERAND_PATH},
    .operands_max = 1,
    .run = run,
};
