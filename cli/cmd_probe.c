/* probe: asks one replica whether it is ready, or alive, as its supervisor does. */
#include "base/os_process.h"
#include "cli/replicas.h"
#include "server/config/config.h"

#include <unistd.h>

enum {
    PROBE_MS = 2000,    /* Default of --timeout: supervisors wait for seconds only. */
    PROBE_WHY_MAX = 640 /* Bytes of the checks that have failed. */
};

static const char *const targets[] = {"/readyz", "/livez"};
static const char *const words[] = {"ready", "alive"};

/* Takes the address from the configuration of the replica, so that a supervisor needs no argument.
 * What listens at this address on this machine is asked nothing secret and told nothing secret,
 * hence its certificate, which need not have this address, is not checked. Returns CMD_OK, or the
 * code of a reported error. */
static int take_own(struct cli *cli)
{
    struct endpoints *endpoints = &cli->client->endpoints;
    char host_name[CONFIG_HOST_MAX];
    char error[CONFIG_ERROR_MAX];
    struct config_probe probe;
    const struct config_sources sources = {.file = args_get(&cli->args, "config"),
                                           .env = (const char *const *)environ,
                                           .host_name = host_name};

    os_host_name(host_name, sizeof host_name);
    if (config_find_probe(&sources, &probe, error)) {
        return cli_fail(cli, CMD_FAILED, "Usage", "%s", error);
    }
    bool is_v6 = strchr(probe.host, ':') != NULL;

    endpoints->count = 1;
    endpoints->current = 0;
    (void)snprintf(endpoints->urls[0], ENDPOINT_MAX, "http%s://%s%s%s:%u",
                   probe.is_secure ? "s" : "", is_v6 ? "[" : "", probe.host, is_v6 ? "]" : "",
                   probe.port);
    cli->client->trusts_all = probe.is_secure;
    cli->settings.user = NULL;
    client_enter(cli->client, NULL);
    return CMD_OK;
}

/* Lists the checks that have failed. */
static void list_failed(const struct replicas_answer *answer, char why[PROBE_WHY_MAX])
{
    size_t len = 0;

    (void)snprintf(why, PROBE_WHY_MAX, "status %ld", answer->status);
    JSONR_EACH (check, jsonr_at(answer->json, "checks")) {
        if (!json_is_true(jsonr_at(check, "ok")) && len < PROBE_WHY_MAX) {
            (void)snprintf(why + len, PROBE_WHY_MAX - len, "%s%s: %s", len > 0 ? "; " : "",
                           jsonr_text(check, "name"), jsonr_text(check, "text"));
            len = strlen(why);
        }
    }
}

static int judge(const struct cli *cli, const struct replicas_answer *answer, const char *word)
{
    char why[PROBE_WHY_MAX];

    if (answer->status == HTTP_OK) {
        return CMD_OK;
    }
    if (answer->status == 0) {
        return cli_fail(cli, CMD_FAILED, "NoEnsemble", "%s does not answer: %s", answer->url,
                        answer->error);
    }
    list_failed(answer, why);
    return cli_fail(cli, CMD_FAILED, "NoEnsemble", "%s is not %s: %s", answer->url, word, why);
}

static int ask(struct cli *cli, int what)
{
    struct replicas *replicas = NULL;
    int code = replicas_ask(cli, targets[what], &replicas);

    if (code == CMD_OK) {
        const struct replicas_answer *answer = &replicas->answers[0];

        code = judge(cli, answer, words[what]);
        if (code == CMD_OK) {
            out_say(&cli->out, "%s is %s\n", answer->url, words[what]);
            out_result(&cli->out,
                       json_pack("{s:s,s:s}", "endpoint", answer->url, "state", words[what]));
        }
    }
    replicas_free(replicas);
    return code;
}

static int run(struct cli *cli)
{
    int what = cli_choice(cli, "", args_operand(&cli->args, 0), "ready, live");
    int code = CMD_OK;

    if (what < 0) {
        return CMD_USAGE;
    }
    if (!args_has(&cli->args, "timeout")) {
        cli->settings.timeout_ms = PROBE_MS;
    }
    if (!args_has(&cli->args, "endpoints")) {
        code = take_own(cli);
    } else if (cli->client->endpoints.count != 1) {
        code = CLI_USAGE(cli, "--endpoints: probe asks one replica; give one endpoint");
    }
    return code == CMD_OK ? ask(cli, what) : code;
}

const struct cmd cmd_probe = {
    .name = "probe",
    .summary = "check that a replica is ready, or alive",
    .usage = "ready|live [OPTIONS]",
    .text = "For health checks of containers and scripts; needs no shell. ready: the replica\n"
            "serves clients (/readyz). live: its process works (/livez). It asks once, and waits\n"
            "for 2 s unless --timeout says otherwise. Without --endpoints on the command line it\n"
            "asks the replica of this machine, at the address that --config and the environment\n"
            "give to zabra serve: probeListen, else clientPort. The certificate of that replica\n"
            "is not checked, and no user or session is sent. With clientCertificates=required\n"
            "the replica needs probeListen. Exit code 0: yes; 1: no, with the reason in one line\n"
            "on stderr; 2: wrong usage.\n",
    .options = {CMD_VALUE("config", 0, "FILE", "the configuration of the replica")},
    .examples = {{"zabra probe ready --config /etc/zabra/zabra.cfg", "this machine's replica"},
                 {"zabra probe live --endpoints zk1:9998", "another one"}},
    .operands = {1, 1, {CMD_OPERAND_TEXT}},
    .run = run};
