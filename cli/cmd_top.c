/* top: what causes the load of the ensemble, live. */
#include "cli/live.h"
#include "cli/replicas.h"
#include "cli/top_report.h"

#include <unistd.h>

/* Ends what the terminal showed, and continues at its upper left corner. */
#define CLEAR "\033[H\033[2J\033[3J"

enum {
    ROWS = 10,
    ROWS_MAX = 64,
    INTERVAL_MS = 2000,
    INTERVAL_MIN_MS = 500,
    INTERVAL_MAX_MS = 3600000
};

/* ---- Requests ---- */

/* Why an answer is of no use; "": it is. */
static const char *fault_of(const struct replicas_answer *answer)
{
    if (answer->status == 0) {
        return answer->error;
    }
    if (answer->status == HTTP_NOT_FOUND) {
        return "its release cannot tell: upgrade the replica";
    }
    if (answer->status == HTTP_OK) {
        return json_is_object(answer->json) ? "" : "its answer is not JSON";
    }
    return *jsonr_text(answer->json, "detail") ? jsonr_text(answer->json, "detail")
                                               : "it refuses the request";
}

static void put_answer(json_t *fact, const char *member, const struct replicas_answer *answer,
                       bool is_guess)
{
    const char *fault = fault_of(answer);

    if (is_guess && answer->status == 0) {
        return; /* Nothing need listen there; members that do not answer are in the list of these.
                 */
    }
    (void)json_object_set_new(fact, "endpoint", json_string(answer->url));
    if (!*fault) {
        (void)json_object_set(fact, member, answer->json);
    } else if (strcmp(member, "top") == 0) {
        (void)json_object_set_new(fact, "error", out_string(fault));
    }
}

/* Sends a request to all replicas, and puts the answers into the list. `ret_status` gets the status
 * of a refusal, if no replica gives a useful answer. */
static int ask_for(struct cli *cli, const char *member, const char *target, json_t *list)
{
    struct replicas *replicas = NULL;
    int code = replicas_ask(cli, target, &replicas);
    int useful = 0;
    int denied = 0;

    for (int i = 0; i < replicas->count; i++) {
        const struct replicas_answer *answer = &replicas->answers[i];

        if (json_array_size(list) <= (size_t)i) {
            (void)json_array_append_new(list, json_object());
        }
        useful += *fault_of(answer) == '\0';
        denied += answer->status == HTTP_UNAUTHORIZED;
        put_answer(json_array_get(list, (size_t)i), member, answer,
                   cli->settings.endpoints_guessed);
    }
    if (code == CMD_OK && useful == 0 && strcmp(member, "top") == 0) {
        code = denied > 0 ? cli_fail(cli, CMD_DENIED, cli->settings.user ? "AuthFailed" : "NoAuth",
                                     "the replicas answer only clients with an identity (--user)")
                          : replicas_none(cli, replicas);
    }
    replicas_free(replicas);
    return code;
}

static int take_report(struct cli *cli, json_t **ret_report)
{
    json_auto_t *facts = json_object();
    json_t *list = json_array();
    json_t *ensemble = NULL;
    int code = cli->settings.curl ? CMD_OK : replicas_find(cli, &ensemble);

    (void)json_object_set_new(facts, "ensemble", ensemble ? ensemble : json_null());
    (void)json_object_set_new(facts, "replicas", list);
    code = code == CMD_OK ? ask_for(cli, "top", "/top/v1", list) : code;
    code = code == CMD_OK ? ask_for(cli, "watches", "/watches/v1?clients=true", list) : code;
    if (code == CMD_OK) {
        *ret_report = top_report_of(facts, (size_t)cli_number(cli, "rows"));
    }
    return code;
}

/* ---- Output ---- */

static void print_part(const struct cli *cli, const json_t *report, const char *member,
                       const char *title, const char *columns)
{
    out_say(&cli->out, "%s%s%s\n", cli->out.color ? OUT_BOLD : "", title,
            cli->out.color ? OUT_PLAIN : "");
    if (json_array_size(jsonr_at(report, member)) == 0) {
        out_say(&cli->out, "none\n\n");
        return;
    }
    out_table(&cli->out, report, member, columns);
    out_say(&cli->out, "\n");
}

static void print_text(const struct cli *cli, const json_t *report)
{
    print_part(cli, report, "prefixes", "Busiest prefixes, requests per second",
               "READS:reads_per_s>, WRITES:writes_per_s>, MISSED:missed_per_s>, PREFIX:path");
    print_part(cli, report, "clients", "Busiest clients, requests per second",
               "READS:reads_per_s>, WRITES:writes_per_s>, MISSED:missed_per_s>, ADDRESS:address, "
               "IDENTITY:identity");
    print_part(cli, report, "watchers", "Largest watchers",
               "WATCHES:watches>, ADDRESS:address, IDENTITY:identity, SESSION:session, OVER:over, "
               "REPLICA:endpoint");
    print_part(cli, report, "replicas", "Slowest replicas",
               "ID:id>, STATE:state, BEHIND:behind>, LAG-MS:lag_ms>, SYNC50:log_sync_p50_ms>, "
               "SYNC99:log_sync_p99_ms>, REQUESTS/S:requests_per_s>, ENDPOINT:endpoint");
    JSONR_EACH (error, jsonr_at(report, "errors")) {
        out_text(&cli->out, jsonr_text(error, "endpoint"));
        out_say(&cli->out, ": ");
        out_text(&cli->out, jsonr_text(error, "error"));
        out_say(&cli->out, "\n");
    }
    if (!json_is_true(jsonr_at(report, "complete"))) {
        out_say(&cli->out, "not all rows are shown: the super user sees the requests of all "
                           "clients (--user)\n");
    }
}

static void print(const struct cli *cli, const json_t *report, bool clears)
{
    if (out_is_json(&cli->out)) {
        out_json(&cli->out, report);
    } else {
        out_say(&cli->out, "%s", clears ? CLEAR : "");
        print_text(cli, report);
    }
    (void)fflush(stdout);
}

/* ---- The loop ---- */

/* Waits for the time of the next report. Returns CMD_OK, or the exit code of the end. */
static int wait_for(struct live *live, uint64_t until_ms)
{
    struct live_news news = {.kind = LIVE_OVER};

    while (news.kind != LIVE_TIME) {
        live_wait(live, until_ms, &news);
        if (news.kind == LIVE_SIGNAL) {
            return CMD_SIGNAL + news.signal_number;
        }
    }
    return CMD_OK;
}

static int run_live(struct cli *cli)
{
    struct live *live = live_open(cli);
    bool clears = !out_is_json(&cli->out);
    int code = CMD_OK;

    while (code == CMD_OK) {
        uint64_t next_ms = os_now_ms() + (uint64_t)cli_number(cli, "interval");
        json_auto_t *report = NULL;

        code = take_report(cli, &report);
        if (code == CMD_OK) {
            print(cli, report, clears);
            code = wait_for(live, next_ms);
        }
    }
    live_close(live);
    return code;
}

static int run(struct cli *cli)
{
    bool lives =
        cli->out.format == SETTINGS_NDJSON || (!out_is_json(&cli->out) && isatty(STDOUT_FILENO));
    json_auto_t *report = NULL;

    if (lives && !args_has(&cli->args, "once") && !cli->settings.curl) {
        return run_live(cli);
    }
    int code = take_report(cli, &report);

    if (code == CMD_OK) {
        print(cli, report, false);
    }
    return code;
}

const struct cmd cmd_top = {
    .name = "top",
    .summary = "show what causes the load: prefixes, clients, watchers, replicas",
    .usage = "",
    .text = "Adds up the requests of the last 10 to 20 seconds of all replicas: the prefixes\n"
            "and the clients with the most requests. MISSED is the most that a replica has\n"
            "not counted for a row. Also the clients with the most watches, and the replicas,\n"
            "the slowest first. Only the super user sees all rows; other clients see paths\n"
            "that they may list, and themselves. On a terminal the report is shown again\n"
            "until Ctrl-C, with -o ndjson it is one line each time, otherwise it is printed\n"
            "once.\n",
    .options = {CMD_FLAG("once", 0, "print one report and end"),
                CMD_TIME("interval", 'i', "time between two reports (2s)", INTERVAL_MIN_MS,
                         INTERVAL_MAX_MS, INTERVAL_MS),
                CMD_NUMBER("rows", 'n', "N", "rows of each list (10)", 1, ROWS_MAX, ROWS)},
    .examples = {{"zabra top", "the load, live"},
                 {"zabra top --once -o json | jq -r '.prefixes[0].path'", "the busiest prefix"}},
    .run = run,
};
