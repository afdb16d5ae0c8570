/* metrics: the figures of one replica, or of all. */
#include "base/mem.h"
#include "cli/commands.h"
#include "cli/replicas.h"
#include "cli/url.h"
#include "server/glob.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    HTTP_OK = 200,
    NAMES_MAX = 64,
    VALUE_MAX = 64
};

static const struct out_column columns[] = {
    {"NAME", "name", false}, {"LABELS", "text", false}, {"VALUE", "value", true}, {.title = NULL}};
static const struct out_column all_columns[] = {{"REPLICA", "endpoint", false},
                                                {"NAME", "name", false},
                                                {"LABELS", "text", false},
                                                {"VALUE", "value", true},
                                                {.title = NULL}};

/* ---- A line of Prometheus text ---- */

struct line {
    struct slice name;
    struct slice labels; /* Between the braces. */
    struct slice value;
};

/* False: a comment, or nothing that can be read. */
static bool take_apart(struct slice text, struct line *line)
{
    const char *at = (const char *)text.data;
    const char *end = at + text.len;
    const char *name_end = at;
    const char *close = NULL;

    if (text.len == 0 || *at == '#') {
        return false;
    }
    while (name_end < end && *name_end != '{' && *name_end != ' ') {
        name_end++;
    }
    *line = (struct line){.name = slice_make(at, (size_t)(name_end - at))};
    if (name_end < end && *name_end == '{') {
        close = memrchr(name_end, '}', (size_t)(end - name_end));
        if (!close) {
            return false;
        }
        line->labels = slice_make(name_end + 1, (size_t)(close - name_end - 1));
        name_end = close + 1;
    }
    while (name_end < end && *name_end == ' ') {
        name_end++;
    }
    line->value = slice_make(name_end, (size_t)(end - name_end));
    return line->value.len > 0;
}

/* Labels into an object. Our own values hold no quotes, so none is escaped. */
static json_t *labels_of(struct slice text)
{
    json_t *labels = json_object();
    const char *at = (const char *)text.data;
    const char *end = at + text.len;

    while (at < end) {
        const char *equals = memchr(at, '=', (size_t)(end - at));
        const char *open = equals && equals + 1 < end && equals[1] == '"' ? equals + 2 : NULL;
        const char *close = open ? memchr(open, '"', (size_t)(end - open)) : NULL;
        char name[VALUE_MAX];

        if (!close) {
            break;
        }
        (void)snprintf(name, sizeof(name), "%.*s", (int)(equals - at), at);
        (void)json_object_set_new(labels, name, json_stringn(open, (size_t)(close - open)));
        at = close + 1 < end && close[1] == ',' ? close + 2 : end;
    }
    return labels;
}

static json_t *value_of(struct slice text)
{
    char copy[VALUE_MAX];
    char *end = NULL;

    (void)snprintf(copy, sizeof(copy), "%.*s", (int)text.len, (const char *)text.data);

    long long whole = strtoll(copy, &end, 10);

    if (*copy && !*end) {
        return json_integer(whole);
    }

    double value = strtod(copy, &end);

    return isfinite(value) ? json_real(value) : json_string(copy);
}

/* ---- Choosing ---- */

/* A name, a part of it, or a pattern; without any, all. */
static bool is_wanted(const struct cli *cli, struct slice name)
{
    for (int i = 0; i < cli->args.operand_count; i++) {
        if (glob_match(slice_str(args_operand(&cli->args, i)), name)) {
            return true;
        }
    }
    return cli->args.operand_count == 0;
}

static json_t *item_of(const struct line *line, const char *endpoint, bool words)
{
    json_t *item = json_object();

    (void)json_object_set_new(item, "endpoint", json_string(endpoint));
    (void)json_object_set_new(item, "name",
                              json_stringn((const char *)line->name.data, line->name.len));
    if (words && line->labels.len > 0) {
        (void)json_object_set_new(item, "text",
                                  json_stringn((const char *)line->labels.data, line->labels.len));
    }
    (void)json_object_set_new(item, "labels", labels_of(line->labels));
    (void)json_object_set_new(item, "value", value_of(line->value));
    return item;
}

/* Text is printed at once, as it is; else the figures go to the list. Returns how many. */
static int take(const struct cli *cli, const struct replicas_answer *answer, json_t *list)
{
    struct slice rest = buf_slice(&answer->body);
    int taken = 0;

    while (rest.len > 0) {
        const uint8_t *feed = memchr(rest.data, '\n', rest.len);
        size_t len = feed ? (size_t)(feed - rest.data) : rest.len;
        struct slice text = slice_make(rest.data, len);
        struct line line;

        len += feed ? 1 : 0;
        rest = slice_make(rest.data + len, rest.len - len);
        if (!take_apart(text, &line) || !is_wanted(cli, line.name)) {
            continue;
        }
        taken++;
        if (cli->out.format == SETTINGS_TEXT) {
            out_bytes(&cli->out, text);
            out_say(&cli->out, "\n");
        } else {
            (void)json_array_append_new(
                list, item_of(&line, answer->url, cli->out.format == SETTINGS_TABLE));
        }
    }
    return taken;
}

/* ---- The command ---- */

static int finish(const struct cli *cli, int answered, int taken, json_t *value, bool all)
{
    if (answered == 0) {
        return cli_fail(cli, CMD_NO_ENSEMBLE, "NoEnsemble",
                        "nobody answers at %s; is it running, and are --endpoints right?",
                        cli->settings.endpoints);
    }
    if (taken == 0) {
        return cli_fail(cli, CMD_FAILED, "NoMetric", "there is no metric of that name");
    }
    if (cli->out.format != SETTINGS_TEXT) {
        out_list(&cli->out, value, "metrics", all ? all_columns : columns);
    }
    return CMD_OK;
}

static int run_all(struct cli *cli, json_t *value)
{
    struct replicas *replicas = mem_zalloc(1, sizeof(*replicas));
    json_t *ensemble = NULL;
    int code = cli->settings.curl ? CMD_OK : replicas_find(cli, &ensemble);
    int answered = 0;
    int taken = 0;

    json_decref(ensemble);
    if (code == CMD_OK) {
        code = replicas_ask(cli, "/metrics", replicas);
    }
    for (int i = 0; code == CMD_OK && i < replicas->count; i++) {
        const struct replicas_answer *answer = &replicas->answers[i];

        if (answer->status == HTTP_OK) {
            if (cli->out.format == SETTINGS_TEXT) {
                out_say(&cli->out, "# %s\n", answer->url);
            }
            answered++;
            taken += take(cli, answer, jsonr_at(value, "metrics"));
        }
    }
    replicas_release(replicas);
    mem_free(replicas);
    return code == CMD_OK ? finish(cli, answered, taken, value, true) : code;
}

static int run_one(struct cli *cli, json_t *value)
{
    struct client_request request = {.target = "/metrics", .accept = "text/plain", .last = true};
    struct replicas_answer *answer = NULL;
    int code = cli_ask(cli, &request);
    int taken = 0;

    if (code != CMD_OK) {
        return code;
    }
    answer = mem_zalloc(1, sizeof(*answer));
    answer->body = client_reply(cli->client)->body; /* Lent: it is only read. */
    (void)snprintf(answer->url, sizeof(answer->url), "%s",
                   endpoints_url(client_endpoints(cli->client)));
    taken = take(cli, answer, jsonr_at(value, "metrics"));
    mem_free(answer);
    return finish(cli, 1, taken, value, false);
}

static int run(struct cli *cli)
{
    json_t *value = json_pack("{s:[]}", "metrics");
    int code = args_has(&cli->args, "all") ? run_all(cli, value) : run_one(cli, value);

    json_decref(value);
    return code;
}

static const struct cmd_option options[] = {
    {"all", 'a', NULL, "of all replicas, each with its endpoint", NULL},
    {.name = NULL},
};

static const struct cmd_example examples[] = {
    {"zabra metrics znode sessions", "whose name holds one of these"},
    {"zabra metrics 'zabra_ws_*' -o json", "a pattern for whole names"},
    {"zabra metrics --all zabra_applied_zxid", "the same figure of all replicas"},
    {.line = NULL},
};

const struct cmd cmd_metrics = {
    .name = "metrics",
    .summary = "print the figures of a replica",
    .usage = "[NAME]...",
    .text = "As Prometheus reads them, or as JSON. docs/metrics.md explains each.\n",
    .options = options,
    .examples = examples,
    .operands = {CMD_OPERAND_TEXT},
    .operands_max = NAMES_MAX,
    .run = run,
};
