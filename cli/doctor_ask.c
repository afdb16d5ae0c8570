#include "cli/doctor_ask.h"

#include "cli/doctor.h"
#include "cli/prom.h"
#include "cli/replicas.h"

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

int doctor_ask(struct cli *cli, json_t *facts)
{
    int code = take_facts(cli, facts);

    if (code == CMD_OK) {
        drop_guesses(cli, facts);
    }
    return code;
}

static int count(const json_t *findings, const char *severity)
{
    int found = 0;

    JSONR_EACH (finding, findings) {
        found += strcmp(jsonr_text(finding, "severity"), severity) == 0;
    }
    return found;
}

json_t *doctor_result(const json_t *facts)
{
    json_t *findings = doctor_look(facts);

    return json_pack("{s:b,s:i,s:i,s:i,s:o}", "ok", json_array_size(findings) == 0, "replicas",
                     (int)json_array_size(jsonr_at(facts, "replicas")), "errors",
                     count(findings, "error"), "warnings", count(findings, "warning"), "findings",
                     findings);
}
