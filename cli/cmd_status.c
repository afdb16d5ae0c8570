/* status, members: the status that each replica reports; the members as one replica sees them. */
#include "base/mem.h"
#include "cli/commands.h"
#include "cli/replicas.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    HTTP_OK = 200,
    HTTP_UNAUTHORIZED = 401,
    AGE_MAX = 32
};

/* ---- status ---- */

static const struct out_column status_columns[] = {
    {"ID", "id", true},
    {"ROLE", "role", false},
    {"SERVES", "serving", false},
    {"EPOCH", "epoch", true},
    {"ZXID", "zxid", false},
    {"LAG-MS", "lag_ms", true},
    {"ZNODES", "znodes", true},
    {"SESSIONS", "sessions", true},
    {"VERSION", "version", false},
    {"UP", "up", true},
    {"ENDPOINT", "endpoint", false},
    {"NOTE", "note", false},
    {.title = NULL},
};

/* "3d4h", "4h5m", "5m6s", "6s" */
static void put_age(int64_t ms, char text[AGE_MAX])
{
    int64_t s = ms / 1000;

    if (s >= 86400) {
        (void)snprintf(text, AGE_MAX, "%" PRId64 "d%" PRId64 "h", s / 86400, s % 86400 / 3600);
    } else if (s >= 3600) {
        (void)snprintf(text, AGE_MAX, "%" PRId64 "h%" PRId64 "m", s / 3600, s % 3600 / 60);
    } else if (s >= 60) {
        (void)snprintf(text, AGE_MAX, "%" PRId64 "m%" PRId64 "s", s / 60, s % 60);
    } else {
        (void)snprintf(text, AGE_MAX, "%" PRId64 "s", s);
    }
}

/* One replica: its report with its endpoint, or why there is none. */
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

/* For people: uptime, and facts without a column. */
static void add_words(json_t *replicas)
{
    json_t *item = NULL;
    size_t i = 0;

    json_array_foreach(replicas, i, item)
    {
        const char *note = jsonr_text(item, "reason");
        char up[AGE_MAX];

        if (jsonr_at(item, "error")) {
            (void)json_object_set_new(item, "role", json_string("-"));
            note = jsonr_text(item, "error.message");
        }
        if (jsonr_at(item, "uptime_ms")) {
            put_age(jsonr_number(item, "uptime_ms"), up);
            (void)json_object_set_new(item, "up", json_string(up));
        }
        (void)json_object_set_new(item, "note", *note ? json_string(note) : json_null());
    }
}

struct tally {
    int answered;
    int serving;
    int denied;
};

static json_t *collect(const struct replicas *replicas, struct tally *tally)
{
    json_t *list = json_array();

    for (int i = 0; i < replicas->count; i++) {
        const struct replicas_answer *answer = &replicas->answers[i];

        tally->answered += answer->status != 0;
        tally->denied += answer->status == HTTP_UNAUTHORIZED;
        tally->serving += json_is_true(jsonr_at(answer->json, "serving"));
        (void)json_array_append_new(list, describe(answer));
    }
    return json_pack("{s:o}", "replicas", list);
}

static int print_status(const struct cli *cli, const struct replicas *replicas)
{
    struct tally tally = {.answered = 0};
    json_t *value = collect(replicas, &tally);

    if (!out_is_json(&cli->out)) {
        add_words(jsonr_at(value, "replicas"));
    }
    if (tally.answered > 0 && tally.denied < tally.answered) {
        struct out out = cli->out;

        /* Numbers need their titles. */
        out.format = out.format == SETTINGS_TEXT ? SETTINGS_TABLE : out.format;
        out_list(&out, value, "replicas", status_columns);
    }
    json_decref(value);
    if (tally.answered == 0) {
        return replicas_none(cli, replicas);
    }
    if (tally.denied == tally.answered) {
        return cli_fail(cli, CMD_DENIED, "AuthFailed", "no replica accepts the password");
    }
    return tally.serving > 0 ? CMD_OK : CMD_NO_ENSEMBLE;
}

static int run_status(struct cli *cli)
{
    struct replicas *replicas = NULL;
    json_t *ensemble = NULL;
    int code = args_has(&cli->args, "given") || cli->settings.curl ? CMD_OK
                                                                   : replicas_find(cli, &ensemble);

    json_decref(ensemble);
    if (code != CMD_OK) {
        return code;
    }
    replicas = mem_zalloc(1, sizeof(*replicas));
    code = replicas_ask(cli, "/status/v1", replicas);
    if (code == CMD_OK) {
        code = print_status(cli, replicas);
    }
    replicas_release(replicas);
    mem_free(replicas);
    return code;
}

static const struct cmd_option status_options[] = {
    {"given", 0, NULL, "only the replicas of --endpoints, not all members that these know", NULL},
    {.name = NULL},
};

static const struct cmd_example status_examples[] = {
    {"zabra status", "prints one line per replica"},
    {"zabra status -o json | jq -r '.replicas[] | select(.role == \"leader\").endpoint'",
     "prints the endpoint of the leader"},
    {.line = NULL},
};

const struct cmd cmd_status = {
    .name = "status",
    .summary = "show the status of each replica",
    .usage = "",
    .text = "Asks all replicas at the same time, also members that only the others know.\n"
            "Each row is the report of the replica itself. Exit code 6 when no replica\n"
            "serves.\n",
    .options = status_options,
    .examples = status_examples,
    .run = run_status,
};

/* ---- members ---- */

static const struct out_column member_columns[] = {
    {"ID", "id", true},
    {"ROLE", "role", false},
    {"STATE", "state", false},
    {"VOTES", "votes", false},
    {"ZXID", "zxid", false},
    {"LAG", "lag_ms", true},
    {"SYNC99", "log_sync_p99_ms", true},
    {"HEARD", "heard_ms", true},
    {"PEER", "peer", false},
    {"CLIENT", "client", false},
    {"REFUSED", "refused", false},
    {.title = NULL},
};

static int run_members(struct cli *cli)
{
    json_t *json = NULL;
    int code = cli_read(cli, "/ensemble/v1", &json);
    struct out out = cli->out;

    if (code != CMD_OK) {
        return code;
    }
    if (out.format == SETTINGS_JSON) {
        cli_answer(cli);
        return CMD_OK;
    }
    out.format = out.format == SETTINGS_TEXT ? SETTINGS_TABLE : out.format;
    out_list(&out, json, "members", member_columns);
    out_say(&out, "seen by replica %" PRId64 "\n", jsonr_number(json, "seen_by"));
    return CMD_OK;
}

static const struct cmd_example members_examples[] = {
    {"zabra members", "members, as seen by the replica that answers"},
    {"zabra members --endpoints zk2:9998", "members, as seen by this replica"},
    {.line = NULL},
};

const struct cmd cmd_members = {
    .name = "members",
    .summary = "list the members of the ensemble, as one replica sees them",
    .usage = "",
    .text = "LAG: time since the member last heard from a leader; SYNC99: 99th percentile of\n"
            "its log sync times; HEARD: age of this report; all in ms.\n",
    .examples = members_examples,
    .run = run_members,
};
