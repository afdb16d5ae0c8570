/* doctor: asks all replicas, and reports each problem with what to do. */
#include "cli/doctor.h"
#include "cli/prom.h"
#include "cli/replicas.h"

/* ---- Requests ---- */

/* Returns the metrics that have no labels, by name. */
static json_t *figures_of(const struct replicas_answer *answer)
{
    struct slice rest = buf_slice(&answer->body);
    json_t *figures = json_object();
    struct prom_line line;

    while (prom_next(&rest, &line)) {
        if (line.labels.len == 0) {
            (void)json_object_setn_new(figures, (const char *)line.name.data, line.name.len,
                                       prom_value(&line));
        }
    }
    return figures;
}

static void put_status(json_t *fact, const struct replicas_answer *answer)
{
    (void)json_object_set_new(fact, "endpoint", json_string(answer->url));
    if (answer->status == 0) {
        (void)json_object_set_new(fact, "error", json_string(answer->error));
        (void)json_object_set_new(fact, "foreign", json_boolean(answer->foreign));
        (void)json_object_set_new(fact, "tls", json_boolean(answer->tls));
        return;
    }
    (void)json_object_set_new(fact, "http", json_integer(answer->status));
    (void)json_object_set_new(fact, "clock_ms", json_integer(answer->clock_ms));
    (void)json_object_set_new(fact, "asked_ms", json_integer(answer->asked_ms));
    (void)json_object_set_new(fact, "answered_ms", json_integer(answer->answered_ms));
    if (answer->status == HTTP_OK && answer->json) {
        (void)json_object_set(fact, "status", answer->json);
    }
}

static void put_answer(json_t *fact, const char *member, const struct replicas_answer *answer)
{
    bool checks = strcmp(member, "ready") == 0 && answer->status == HTTP_UNAVAILABLE;

    if (strcmp(member, "status") == 0) {
        put_status(fact, answer);
    } else if (strcmp(member, "metrics") == 0 && answer->status == HTTP_OK) {
        (void)json_object_set_new(fact, member, figures_of(answer));
    } else if (answer->json && (checks || answer->status == HTTP_OK)) {
        (void)json_object_set(fact, member, answer->json);
    }
}

/* Sends one request to all replicas, and puts each answer into the list as `member`. */
static int ask_for(struct cli *cli, const char *member, const char *target, json_t *list)
{
    struct replicas *replicas = NULL;
    int code = replicas_ask(cli, target, &replicas);

    for (int i = 0; i < replicas->count; i++) {
        if (json_array_size(list) <= (size_t)i) {
            (void)json_array_append_new(list, json_object());
        }
        put_answer(json_array_get(list, (size_t)i), member, &replicas->answers[i]);
    }
    replicas_free(replicas);
    return code;
}

static int take_facts(struct cli *cli, json_t *facts)
{
    static const char *const routes[][2] = {{"status", "/status/v1"},
                                            {"ready", "/readyz"},
                                            {"limits", "/limits/v1"},
                                            {"ensemble", "/ensemble/v1"},
                                            {"metrics", "/metrics"}};
    json_t *list = json_array();
    json_t *ensemble = NULL;
    int code = replicas_find(cli, &ensemble);

    for (size_t i = 0; code == CMD_OK && i < sizeof(routes) / sizeof(routes[0]); i++) {
        code = ask_for(cli, routes[i][0], routes[i][1], list);
    }
    (void)json_object_set_new(facts, "replicas", list);
    (void)json_object_set_new(facts, "ensemble", ensemble ? ensemble : json_null());
    return code;
}

/* Drops default endpoints that do not answer: without --endpoints, a default port on which nothing
 * listens is not a finding. */
static void drop_guesses(const struct cli *cli, json_t *facts)
{
    json_t *list = jsonr_at(facts, "replicas");
    const json_t *members = jsonr_at(facts, "ensemble.members");
    bool drops = cli->settings.endpoints_guessed && !json_is_null(jsonr_at(facts, "ensemble"));

    for (size_t i = json_array_size(list); drops && i > 0; i--) {
        const json_t *fact = json_array_get(list, i - 1);

        if (jsonr_at(fact, "error") &&
            !doctor_at(members, "client", jsonr_text(fact, "endpoint"))) {
            (void)json_array_remove(list, i - 1);
        }
    }
}

/* ---- Output ---- */

static int count(const json_t *findings, const char *severity)
{
    int found = 0;

    JSONR_EACH (finding, findings) {
        found += strcmp(jsonr_text(finding, "severity"), severity) == 0;
    }
    return found;
}

static void say(const struct cli *cli, const json_t *finding)
{
    bool error = strcmp(jsonr_text(finding, "severity"), "error") == 0;
    const char *color = error ? OUT_RED : OUT_BOLD;

    out_say(&cli->out, "%s%s %s%s: %s: %s\n", cli->out.color ? color : "",
            jsonr_text(finding, "severity"), jsonr_text(finding, "code"),
            cli->out.color ? OUT_PLAIN : "", jsonr_text(finding, "subject"),
            jsonr_text(finding, "found"));
    out_say(&cli->out, "    means: %s\n", jsonr_text(finding, "meaning"));
    out_say(&cli->out, "    do:    %s\n", jsonr_text(finding, "advice"));
}

/* Prints "1 replica" or "2 replicas". */
static void say_count(const struct cli *cli, const json_t *result, const char *what)
{
    int count = (int)jsonr_number(result, what);

    out_say(&cli->out, "%d %.*s", count, (int)strlen(what) - (count == 1 ? 1 : 0), what);
}

static void say_counts(const struct cli *cli, const json_t *result)
{
    say_count(cli, result, "replicas");
    if (json_is_true(jsonr_at(result, "ok"))) {
        out_say(&cli->out, " asked, no problem found\n");
        return;
    }
    out_say(&cli->out, " asked: ");
    say_count(cli, result, "errors");
    out_say(&cli->out, ", ");
    say_count(cli, result, "warnings");
    out_say(&cli->out, "\n");
}

static void tell(const struct cli *cli, const json_t *result)
{
    static const char columns[] = "SEVERITY:severity, CODE:code, SUBJECT:subject, CONFIG:found";

    if (cli->out.format != SETTINGS_TEXT) {
        out_list(&cli->out, result, "findings", columns);
        return;
    }
    JSONR_EACH (finding, jsonr_at(result, "findings")) {
        say(cli, finding);
    }
    say_counts(cli, result);
}

static int run(struct cli *cli)
{
    json_auto_t *facts = json_object();
    int code = take_facts(cli, facts);

    if (code == CMD_OK) {
        drop_guesses(cli, facts);

        json_t *findings = doctor_look(facts);

        code = json_array_size(findings) == 0 ? CMD_OK : CMD_FAILED;

        json_auto_t *result = json_pack("{s:b,s:i,s:i,s:i,s:o}", "ok", code == CMD_OK, "replicas",
                                        (int)json_array_size(jsonr_at(facts, "replicas")), "errors",
                                        count(findings, "error"), "warnings",
                                        count(findings, "warning"), "findings", findings);

        tell(cli, result);
    }
    return code;
}

const struct cmd cmd_doctor = {
    .name = "doctor",
    .summary = "diagnose the ensemble and say what to do",
    .usage = "",
    .text = "Asks each replica at --endpoints and each member that these know. Finds two\n"
            "processes with one id, a lost quorum, replicas that are missing, behind, or of\n"
            "another history or version, and problems of disks, clocks, limits,\n"
            "certificates and configuration. Changes nothing. Exit code 0 when it finds no\n"
            "problem, otherwise 1.\n",
    .examples = {{"zabra doctor", "each problem, its meaning and what to do"},
                 {"zabra doctor -o json | jq -r '.findings[].code'", "codes for programs"}},
    .run = run,
};
