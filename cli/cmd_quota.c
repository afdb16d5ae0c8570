/* quota: the limits of a subtree. */
#include "base/base64.h"
#include "cli/revise.h"

#define ROOT "/zookeeper/quota"
#define NAME "zookeeper_limits"

#define LIMIT_MAX INT64_C(999999999999999999)

enum {
    LIMITS = 4,
    TEXT_MAX = 256,
    NONE = -1
};

/* The limits, with their keys in ZooKeeper's text. */
static const struct {
    const char *key;
    const char *option;
    const char *member; /* The member in JSON. */
} limits[LIMITS] = {
    {"count", "soft-count", "softCount"},
    {"bytes", "soft-bytes", "softBytes"},
    {"countHardLimit", "count", "count"},
    {"byteHardLimit", "bytes", "bytes"},
};

static const char columns[] =
    "COUNT:count>, BYTES:bytes>, SOFT-COUNT:softCount>, SOFT-BYTES:softBytes>, PATH:path";

/* ---- The text: "count=N,bytes=N=;byteHardLimit=N;countHardLimit=N" ---- */

static void parse(struct slice text, int64_t values[LIMITS])
{
    char copy[TEXT_MAX];

    (void)snprintf(copy, sizeof(copy), "%.*s", (int)text.len, (const char *)text.data);
    for (int i = 0; i < LIMITS; i++) {
        size_t len = strlen(limits[i].key);

        values[i] = NONE;
        for (const char *at = copy; at; at = strpbrk(at + 1, ",;")) {
            at += strspn(at, ",;");
            if (strncmp(at, limits[i].key, len) == 0 && at[len] == '=') {
                (void)sscanf(at + len + 1, "%" SCNd64, &values[i]);
            }
        }
    }
}

static json_t *to_json(const char *path, const int64_t values[LIMITS])
{
    json_t *value = json_pack("{s:s}", "path", path);

    for (int i = 0; i < LIMITS; i++) {
        (void)json_object_set_new(value, limits[i].member,
                                  values[i] == NONE ? json_null() : json_integer(values[i]));
    }
    return value;
}

/* Declares a buffer with the path of the znode that has the limits. */
#define LIMITS_PATH(name, path) \
    BUF_AUTO(name, URL_MAX);    \
    buf_printf(&(name), ROOT "%s/" NAME, path)

static int no_quota(const struct cli *cli, const char *path)
{
    return cli_fail(cli, CMD_NO_NODE, "NoNode", "%s has no quota", path);
}

/* ---- Showing ---- */

static void print_list(const struct cli *cli, json_t *list)
{
    json_auto_t *whole = json_pack("{s:o}", "quotas", list);

    out_table(&cli->out, whole, "quotas", columns);
}

static void print_one(const struct cli *cli, const char *path, const int64_t values[LIMITS])
{
    print_list(cli, json_pack("[o]", to_json(path, values)));
}

static int show(struct cli *cli, const char *path)
{
    int64_t values[LIMITS];
    LIMITS_PATH(at, path);

    int code =
        client_ask(cli->client, &(struct client_request){.path = buf_cstr(&at),
                                                         .accept = "application/octet-stream",
                                                         .last = true});

    if (code == CMD_NO_NODE) {
        return no_quota(cli, path);
    }
    if (code == CMD_OK) {
        parse(buf_slice(&cli->client->reply.body), values);
        print_one(cli, path, values);
    }
    return code > CMD_OK ? cli_tell(cli) : code;
}

/* Returns the path that the znode ROOT/`below` limits; NULL: that znode contains no limits. */
static const char *limited(const char *below, struct buf *out)
{
    static const char name[] = "/" NAME;
    size_t len = strlen(below);

    if (len <= strlen(name) || strcmp(below + len - strlen(name), name) != 0) {
        return NULL;
    }
    buf_clear(out);
    buf_append_byte(out, '/');
    buf_append(out, below, len - strlen(name));
    return buf_cstr(out);
}

/* Takes a line of an export: adds the quota in it to the list. */
static int take_line(const struct cli *cli, struct slice text, json_t *list, bool *ret_end)
{
    char fault[JSONR_ERROR_MAX] = "";
    json_auto_t *line = jsonr_parse(text, fault);
    int code = CMD_OK;
    BUF_AUTO(path, URL_MAX);
    BUF_AUTO(data, TEXT_MAX);

    const char *top = limited(jsonr_text(line, "path"), &path);

    *ret_end = jsonr_at(line, "end") != NULL;
    if (!line || jsonr_at(line, "error")) {
        code = cli_fail(cli, CMD_FAILED, "BadAnswer", "the list of quotas is incomplete: %s",
                        line ? jsonr_text(line, "error.detail") : fault);
    } else if (top && base64_decode(&data, slice_str(jsonr_text(line, "data64"))) == ERR_OK) {
        int64_t values[LIMITS];

        parse(buf_slice(&data), values);
        (void)json_array_append_new(list, to_json(top, values));
    }
    return code;
}

static int take_lines(const struct cli *cli, struct slice text, json_t *list)
{
    bool end = false;
    int code = CMD_OK;

    while (code == CMD_OK && !end && text.len > 0) {
        code = take_line(cli, slice_cut(&text, '\n'), list, &end);
    }
    return code == CMD_OK && !end
               ? cli_fail(cli, CMD_FAILED, "BadAnswer", "the list of quotas was cut off; try again")
               : code;
}

/* Prints all quotas. They come as an export, which has no size limit: there may be more quotas than
 * an answer of another kind can hold. */
static int show_all(const struct cli *cli)
{
    struct client_request request = {.target = "/export/v1" ROOT, .accept = "application/x-ndjson"};
    json_t *list = NULL;
    int code = cli_ask(cli, &request);

    if (code != CMD_OK) {
        return code;
    }
    list = json_array();
    code = take_lines(cli, buf_slice(&cli->client->reply.body), list);
    if (code == CMD_OK) {
        print_list(cli, list);
    } else {
        json_decref(list);
    }
    return code;
}

/* ---- Setting ---- */

/* Takes the given limits; "none" is -1. Returns false when an error has been reported. */
static bool take(const struct cli *cli, int64_t values[LIMITS])
{
    struct cmd_range range = {.min = 0, .max = LIMIT_MAX};

    for (int i = 0; i < LIMITS; i++) {
        const char *text = args_get(&cli->args, limits[i].option);

        if (text && strcmp(text, "none") == 0) {
            values[i] = NONE;
        } else if (text && !args_number(text, range, &values[i])) {
            return CLI_REFUSE(cli, "--%s: \"%s\" is not a number from 0 to %" PRId64,
                              limits[i].option, text, LIMIT_MAX);
        }
    }
    return true;
}

static int set_once(struct revise *revise, void *ctx)
{
    int64_t *values = ctx;
    char text[TEXT_MAX];
    int code = revise_read(revise);

    if (code != CMD_OK) {
        return code;
    }
    parse(buf_slice(&revise->data), values);
    if (!take(revise->cli, values)) {
        return CMD_USAGE;
    }
    (void)snprintf(text, sizeof(text),
                   "count=%" PRId64 ",bytes=%" PRId64 "=;byteHardLimit=%" PRId64
                   ";countHardLimit=%" PRId64,
                   values[0], values[1], values[3], values[2]);
    return revise_write(revise, slice_str(text), false);
}

/* Prints a note if the znode does not exist. A quota may be set before its znode exists, but the
 * user may also have mistyped the path. */
static void note_absence(const struct cli *cli, const char *path)
{
    struct client_request request = {.path = path, .params = {{"view", "stat"}}};

    if (!cli->settings.curl && client_ask(cli->client, &request) == CMD_NO_NODE) {
        (void)fprintf(stderr, "zabra quota: %s does not exist yet; its quota is set\n", path);
    }
}

static int set(struct cli *cli, const char *path)
{
    int64_t values[LIMITS];
    LIMITS_PATH(at, path);

    int code = revise_run(&(struct revise){.cli = cli, .path = buf_cstr(&at), .parents = true},
                          set_once, values);

    if (code == CMD_OK && !out_is_text(&cli->out)) {
        print_one(cli, path, values);
    }
    if (code == CMD_OK) {
        note_absence(cli, path);
    }
    return code;
}

/* ---- Clearing ---- */

static int delete_znode(const struct cli *cli, const char *path)
{
    return client_ask(cli->client, &(struct client_request){.method = "DELETE", .path = path});
}

/* Clears a quota. Also deletes the parents that were created only for it, up to one with other
 * children. */
static int clear(struct cli *cli, const char *path)
{
    LIMITS_PATH(at, path);

    int code = delete_znode(cli, buf_cstr(&at));

    if (code == CMD_NO_NODE) {
        return no_quota(cli, path);
    }
    for (bool more = code == CMD_OK; more;) {
        at.len = (size_t)(strrchr(buf_cstr(&at), '/') - (char *)at.data);
        more = at.len > strlen(ROOT) && delete_znode(cli, buf_cstr(&at)) == CMD_OK;
    }
    if (code == CMD_OK && !out_is_text(&cli->out)) {
        print_list(cli, json_array());
    }
    return code > CMD_OK ? cli_tell(cli) : code;
}

static int run(struct cli *cli)
{
    int64_t given[LIMITS] = {0};
    const char *path = cli_path(cli, 0);
    bool sets = false;

    for (int i = 0; i < LIMITS; i++) {
        sets = sets || args_has(&cli->args, limits[i].option);
    }
    if (path[1] == '\0' && (sets || args_has(&cli->args, "clear"))) {
        return CLI_USAGE(cli, "the root has no quota");
    }
    if (args_has(&cli->args, "clear")) {
        return sets ? CLI_USAGE(cli, "give either --clear or limits") : clear(cli, path);
    }
    if (sets) {
        /* The limits are checked before the first request is sent; set() takes them again. */
        return take(cli, given) ? set(cli, path) : CMD_USAGE;
    }
    return path[1] == '\0' ? show_all(cli) : show(cli, path);
}

const struct cmd cmd_quota = {
    .name = "quota",
    .summary = "show or set the quota of a subtree",
    .usage = "[PATH]",
    .text = "Quotas are stored as in ZooKeeper, in " ROOT "PATH/" NAME ".\n",
    .options = {CMD_VALUE("count", 0, "N|none", "at most N znodes, including the top one"),
                CMD_VALUE("bytes", 0, "N|none", "at most N bytes of data in total"),
                CMD_VALUE("soft-count", 0, "N|none",
                          "a soft limit: exceeding it is reported, never refused"),
                CMD_VALUE("soft-bytes", 0, "N|none", "a soft limit of bytes"),
                CMD_FLAG("clear", 0, "remove the quota")},
    .examples = {{"zabra quota", "lists all quotas"},
                 {"zabra quota /app --count 1000 --bytes 10000000",
                  "writes beyond a limit fail with exit code 10"},
                 {"zabra quota /app --count none",
                  "removes the limit of znodes, keeps that of bytes"}},
    .operands = {0, 1, {CMD_OPERAND_PATH}},
    .run = run,
};
