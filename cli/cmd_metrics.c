/* metrics: those of one replica, or of all. */
#include "base/mem.h"
#include "cli/commands.h"
#include "cli/prom.h"
#include "cli/replicas.h"
#include "server/read/glob.h"

#include <stdio.h>
#include <string.h>

enum {
    HTTP_OK = 200,
    NAMES_MAX = 64
};

static const struct out_column columns[] = {
    {"NAME", "name", false}, {"LABELS", "text", false}, {"VALUE", "value", true}, {.title = NULL}};
static const struct out_column all_columns[] = {{"REPLICA", "endpoint", false},
                                                {"NAME", "name", false},
                                                {"LABELS", "text", false},
                                                {"VALUE", "value", true},
                                                {.title = NULL}};

/* ---- Choosing ---- */

/* A name, a part of it, or a pattern; without any, all. */
static bool is_wanted(const struct cli *cli, struct slice name)
{
    for (int i = 0; i < cli->args.operand_count; i++) {
        if (glob_match(slice_str(args_operand(&cli->args, i)), name, false)) {
            return true;
        }
    }
    return cli->args.operand_count == 0;
}

static json_t *item_of(const struct prom_line *line, const char *endpoint, bool words)
{
    json_t *item = json_object();

    (void)json_object_set_new(item, "endpoint", json_string(endpoint));
    (void)json_object_set_new(item, "name",
                              json_stringn((const char *)line->name.data, line->name.len));
    if (words && line->labels.len > 0) {
        (void)json_object_set_new(item, "text",
                                  json_stringn((const char *)line->labels.data, line->labels.len));
    }
    (void)json_object_set_new(item, "labels", prom_labels(line));
    (void)json_object_set_new(item, "value", prom_value(line));
    return item;
}

/* Text is printed at once, as it is; else the figures go to the list. Returns how many. */
static int take(const struct cli *cli, const struct replicas_answer *answer, json_t *list)
{
    struct slice rest = buf_slice(&answer->body);
    struct prom_line line;
    int taken = 0;

    while (prom_next(&rest, &line)) {
        if (!is_wanted(cli, line.name)) {
            continue;
        }
        taken++;
        if (cli->out.format == SETTINGS_TEXT) {
            out_bytes(&cli->out, line.text);
            out_say(&cli->out, "\n");
        } else {
            (void)json_array_append_new(
                list, item_of(&line, answer->url, cli->out.format == SETTINGS_TABLE));
        }
    }
    return taken;
}

/* ---- The command ---- */

static int finish(const struct cli *cli, int taken, json_t *value, bool all)
{
    if (taken == 0) {
        return cli_fail(cli, CMD_FAILED, "NoMetric", "no metric has that name");
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
    if (code == CMD_OK) {
        code = answered > 0 ? finish(cli, taken, value, true) : replicas_none(cli, replicas);
    }
    replicas_release(replicas);
    mem_free(replicas);
    return code;
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
    return finish(cli, taken, value, false);
}

static int run(struct cli *cli)
{
    json_t *value = json_pack("{s:[]}", "metrics");
    int code = args_has(&cli->args, "all") ? run_all(cli, value) : run_one(cli, value);

    json_decref(value);
    return code;
}

static const struct cmd_option options[] = {
    {"all", 'a', NULL, "metrics of all replicas, each with its endpoint", NULL},
    {.name = NULL},
};

static const struct cmd_example examples[] = {
    {"zabra metrics znode sessions", "metrics whose name contains one of these words"},
    {"zabra metrics 'zabra_ws_*' -o json", "metrics whose whole name matches the pattern"},
    {"zabra metrics --all zabra_applied_zxid", "the same metric of all replicas"},
    {.line = NULL},
};

const struct cmd cmd_metrics = {
    .name = "metrics",
    .summary = "print the metrics of a replica",
    .usage = "[NAME]...",
    .text = "Prints the format of Prometheus, or JSON. docs/metrics.md explains each metric.\n",
    .options = options,
    .examples = examples,
    .operands = {CMD_OPERAND_TEXT},
    .operands_max = NAMES_MAX,
    .run = run,
};
