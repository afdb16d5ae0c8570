/* status, metrics: show reports of all replicas, or (metrics) of one. */
#include "cli/prom.h"
#include "cli/replicas.h"
#include "server/read/glob.h"

enum {
    NAMES_MAX = 64
};

/* ---- status ---- */

static const char status_columns[] =
    "ID:id>, ROLE:role, SERVES:serving, EPOCH:epoch>, ZXID:zxid, LAG-MS:lag_ms>, ZNODES:znodes>, "
    "SESSIONS:sessions>, VERSION:version, UP:up>, ENDPOINT:endpoint, NOTE:note";

/* Returns an age as "3d4h", "4h5m", "5m6s" or "6s". */
static json_t *age_of(int64_t ms)
{
    int64_t s = ms / 1000;

    return s >= 86400  ? json_sprintf("%" PRId64 "d%" PRId64 "h", s / 86400, s % 86400 / 3600)
           : s >= 3600 ? json_sprintf("%" PRId64 "h%" PRId64 "m", s / 3600, s % 3600 / 60)
           : s >= 60   ? json_sprintf("%" PRId64 "m%" PRId64 "s", s / 60, s % 60)
                       : json_sprintf("%" PRId64 "s", s);
}

/* Describes one replica: its report with its endpoint, or why there is no report. */
static json_t *describe(const struct replicas_answer *answer)
{
    json_t *item = answer->status == HTTP_OK && json_is_object(answer->json)
                       ? json_copy(answer->json)
                       : json_object();

    (void)json_object_set_new(item, "endpoint", json_string(answer->url));
    if (answer->status == 0) {
        (void)json_object_set_new(
            item, "error", json_pack("{s:s,s:s}", "code", "Unreachable", "message", answer->error));
    } else if (answer->status != HTTP_OK) {
        (void)json_object_set_new(item, "error",
                                  json_pack("{s:s,s:i,s:s}", "code", "Refused", "status",
                                            (int)answer->status, "message",
                                            jsonr_text(answer->json, "detail")));
    }
    return item;
}

/* Adds text for people: uptime, and facts without a column. */
static void add_words(json_t *replicas)
{
    JSONR_EACH (item, replicas) {
        const char *note = jsonr_text(item, "reason");

        if (jsonr_at(item, "error")) {
            (void)json_object_set_new(item, "role", json_string("-"));
            note = jsonr_text(item, "error.message");
        }
        if (jsonr_at(item, "uptime_ms")) {
            (void)json_object_set_new(item, "up", age_of(jsonr_number(item, "uptime_ms")));
        }
        (void)json_object_set_new(item, "note", *note ? json_string(note) : json_null());
    }
}

static int print_status(const struct cli *cli, const struct replicas *replicas)
{
    json_auto_t *value = json_pack("{s:[]}", "replicas");
    json_t *list = jsonr_at(value, "replicas");
    int answered = 0;
    int serving = 0;
    int denied = 0;

    for (int i = 0; i < replicas->count; i++) {
        const struct replicas_answer *answer = &replicas->answers[i];

        answered += answer->status != 0;
        denied += answer->status == HTTP_UNAUTHORIZED;
        serving += json_is_true(jsonr_at(answer->json, "serving"));
        (void)json_array_append_new(list, describe(answer));
    }
    if (answered == 0) {
        return replicas_none(cli, replicas);
    }
    if (denied == answered) {
        return cli->settings.user
                   ? cli_fail(cli, CMD_DENIED, "AuthFailed", "no replica accepts the password")
                   : cli_fail(cli, CMD_DENIED, "NoAuth",
                              "the replicas answer only clients with an identity, and the request "
                              "had no user (--user)");
    }
    if (!out_is_json(&cli->out)) {
        add_words(list);
    }
    out_table(&cli->out, value, "replicas", status_columns);
    return serving > 0 ? CMD_OK : CMD_NO_ENSEMBLE;
}

static int run_status(struct cli *cli)
{
    struct replicas *replicas = NULL;
    int code = args_has(&cli->args, "given") ? replicas_ask(cli, "/status/v1", &replicas)
                                             : replicas_ask_all(cli, "/status/v1", &replicas);

    code = code == CMD_OK ? print_status(cli, replicas) : code;
    replicas_free(replicas);
    return code;
}

const struct cmd cmd_status = {
    .name = "status",
    .group = "Cluster",
    .summary = "show the status of each replica",
    .usage = "",
    .text = "Asks all replicas at the same time, also members that only the others know.\n"
            "Each row is the report of the replica itself. Exit code 6 when no replica\n"
            "serves.\n",
    .options = {CMD_FLAG("given", 0,
                         "only the replicas of --endpoints, not all members that these know")},
    .examples =
        {{"zabra status", "prints one line per replica"},
         {"zabra status -o json | jq -r '.replicas[] | select(.role == \"leader\").endpoint'",
          "prints the endpoint of the leader"}},
    .run = run_status,
};

/* ---- metrics ---- */

/* Whether an operand selects the metric: a name, a part of a name, or a pattern. Without operands
 * every metric is selected. */
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
    json_t *item =
        json_pack("{s:s,s:s%}", "endpoint", endpoint, "name", line->name.data, line->name.len);

    if (words && line->labels.len > 0) {
        (void)json_object_set_new(item, "text",
                                  json_stringn((const char *)line->labels.data, line->labels.len));
    }
    (void)json_object_set_new(item, "labels", prom_labels(line));
    (void)json_object_set_new(item, "value", prom_value(line));
    return item;
}

/* Prints metrics at once, unchanged, if the format is text; else adds them to the list. Returns the
 * number of selected metrics. */
static int take(const struct cli *cli, const char *url, struct slice body, json_t *list)
{
    struct prom_line line;
    int taken = 0;

    while (prom_next(&body, &line)) {
        if (!is_wanted(cli, line.name)) {
            continue;
        }
        taken++;
        if (cli->out.format == SETTINGS_TEXT) {
            out_bytes(&cli->out, line.text);
            out_say(&cli->out, "\n");
        } else {
            (void)json_array_append_new(list,
                                        item_of(&line, url, cli->out.format == SETTINGS_TABLE));
        }
    }
    return taken;
}

/* Puts the metrics of each replica into the list; `ret_taken` gets their number. */
static int take_all(struct cli *cli, json_t *list, int *ret_taken)
{
    struct replicas *replicas = NULL;
    int code = replicas_ask_all(cli, "/metrics", &replicas);
    int answered = 0;

    for (int i = 0; code == CMD_OK && i < replicas->count; i++) {
        const struct replicas_answer *answer = &replicas->answers[i];

        if (answer->status == HTTP_OK) {
            if (cli->out.format == SETTINGS_TEXT) {
                out_say(&cli->out, "# %s\n", answer->url);
            }
            answered++;
            *ret_taken += take(cli, answer->url, buf_slice(&answer->body), list);
        }
    }
    if (code == CMD_OK && answered == 0) {
        code = replicas_none(cli, replicas);
    }
    replicas_free(replicas);
    return code;
}

static int run_metrics(struct cli *cli)
{
    struct client *client = cli->client;
    json_auto_t *value = json_pack("{s:[]}", "metrics");
    json_t *list = jsonr_at(value, "metrics");
    bool all = args_has(&cli->args, "all");
    int taken = 0;
    int code =
        all ? take_all(cli, list, &taken)
            : cli_ask(cli, &(struct client_request){.target = "/metrics", .accept = "text/plain"});

    if (code != CMD_OK) {
        return code;
    }
    if (!all) {
        taken = take(cli, endpoints_url(&client->endpoints), buf_slice(&client->reply.body), list);
    }
    if (taken == 0) {
        return cli_fail(cli, CMD_FAILED, "NoMetric", "no metric has that name");
    }
    if (cli->out.format != SETTINGS_TEXT) {
        out_list(&cli->out, value, "metrics",
                 all ? "REPLICA:endpoint, NAME:name, LABELS:text, VALUE:value>"
                     : "NAME:name, LABELS:text, VALUE:value>");
    }
    return CMD_OK;
}

const struct cmd cmd_metrics = {
    .name = "metrics",
    .summary = "print the metrics of a replica",
    .usage = "[NAME]...",
    .text = "Prints the format of Prometheus, or JSON. docs/metrics.md explains each metric.\n",
    .options = {CMD_FLAG("all", 'a', "metrics of all replicas, each with its endpoint")},
    .examples = {{"zabra metrics znode sessions", "metrics whose name contains one of these words"},
                 {"zabra metrics 'zabra_ws_*' -o json",
                  "metrics whose whole name matches the pattern"},
                 {"zabra metrics --all zabra_applied_zxid", "the same metric of all replicas"}},
    .operands = {0, NAMES_MAX, {CMD_OPERAND_TEXT}},
    .run = run_metrics,
};
