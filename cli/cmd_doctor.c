/* doctor: asks all replicas, and reports each problem with what to do. */
#include "cli/doctor_ask.h"

/* ---- Output ---- */

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
    int code = doctor_ask(cli, facts);

    if (code == CMD_OK) {
        json_auto_t *result = doctor_result(facts);

        tell(cli, result);
        code = json_is_true(jsonr_at(result, "ok")) ? CMD_OK : CMD_FAILED;
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
