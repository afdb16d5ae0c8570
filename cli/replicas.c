#include "cli/replicas.h"

#include "cli/curl_handles.h"

enum {
    POLL_MS = 100
};

/* Starts the request to one replica. Returns false when an error has been reported. */
static bool begin(struct cli *cli, const char *target, struct replicas_answer *answer, CURLM *multi)
{
    struct client_request request = {.target = target,
                                     .accept = "application/json, text/plain;q=0.5"};
    uint64_t wait_ms = min_u64((uint64_t)cli->settings.timeout_ms, REPLICAS_WAIT_MS);

    answer->easy = curl_handles_easy();
    if (client_prepare(cli->client, answer->easy, answer->url, &request, &answer->headers) !=
        CMD_OK) {
        (void)cli_tell(cli);
        return false;
    }
    curl_easy_setopt(answer->easy, CURLOPT_TIMEOUT_MS, (long)wait_ms);
    curl_easy_setopt(answer->easy, CURLOPT_ERRORBUFFER, answer->error);
    curl_handles_body(answer->easy, &answer->body);
    curl_easy_setopt(answer->easy, CURLOPT_PRIVATE, (void *)answer);
    answer->asked_ms = os_wall_ms();
    (void)curl_multi_add_handle(multi, answer->easy);
    return true;
}

static void take_end(const struct client *client, struct replicas_answer *answer, CURLcode result)
{
    char why[CLIENT_WHY_MAX];
    int64_t date_s = (int64_t)curl_getdate(client_header(answer->easy, "Date"), NULL);

    answer->answered_ms = os_wall_ms();
    answer->clock_ms = date_s > 0 ? date_s * 1000 : 0;
    answer->tls = client_tls_fault(client, answer->easy, result, answer->error, why);
    if (answer->tls) {
        (void)snprintf(answer->error, sizeof(answer->error), "%s", why);
        return;
    }
    if (result != CURLE_OK) {
        if (!answer->error[0]) {
            (void)snprintf(answer->error, sizeof(answer->error), "%s", curl_easy_strerror(result));
        }
        return;
    }
    (void)curl_easy_getinfo(answer->easy, CURLINFO_RESPONSE_CODE, &answer->status);
    answer->foreign = !client_is_replica(answer->easy);
    if (answer->foreign) {
        (void)snprintf(answer->error, sizeof(answer->error),
                       "the server there does not answer like zabra (status %ld)", answer->status);
        answer->status = 0;
        return;
    }
    answer->json = jsonr_parse(buf_slice(&answer->body), NULL);
}

static void take_ends(const struct client *client, CURLM *multi)
{
    CURLcode result = CURLE_OK;
    CURL *easy = NULL;
    char *private = NULL;

    while ((easy = curl_handles_ended(multi, &result))) {
        (void)curl_easy_getinfo(easy, CURLINFO_PRIVATE, &private);
        take_end(client, (struct replicas_answer *)(void *)private, result);
    }
}

/* Waits for data. Returns true when a signal ends the wait for the answers; those that are missing
 * then are errors. */
static bool is_interrupted(const struct client *client, CURLM *multi)
{
    struct curl_waitfd fd = {.fd = client->interrupt_fd, .events = CURL_WAIT_POLLIN};

    (void)curl_multi_poll(multi, &fd, client->interrupt_fd >= 0 ? 1 : 0, POLL_MS, NULL);
    return fd.revents != 0;
}

static int run(struct cli *cli, const char *target, struct replicas *replicas)
{
    CURLM *multi = curl_handles_multi();
    int running = 1;
    bool begun = true;

    for (int i = 0; begun && i < replicas->count; i++) {
        begun = begin(cli, target, &replicas->answers[i], multi);
    }
    while (begun && running) { /* Each request has its own deadline. */
        (void)curl_multi_perform(multi, &running);
        if (running && is_interrupted(cli->client, multi)) {
            break;
        }
    }
    take_ends(cli->client, multi);
    for (int i = 0; i < replicas->count; i++) {
        struct replicas_answer *answer = &replicas->answers[i];

        if (answer->easy) {
            (void)curl_multi_remove_handle(multi, answer->easy);
            curl_easy_cleanup(answer->easy);
        }
        curl_slist_free_all(answer->headers);
    }
    (void)curl_multi_cleanup(multi);
    return begun ? CMD_OK : cli->client->error.exit_code;
}

int replicas_ask(struct cli *cli, const char *target, struct replicas **ret_replicas)
{
    const struct endpoints *endpoints = &cli->client->endpoints;
    struct replicas *replicas = mem_zalloc(1, sizeof(*replicas));
    int code = CMD_OK;

    *ret_replicas = replicas;
    if (cli->settings.curl) {
        return cli_ask(cli, &(struct client_request){.target = target});
    }
    replicas->count = endpoints->count;
    for (int i = 0; i < replicas->count; i++) {
        struct replicas_answer *answer = &replicas->answers[i];

        (void)snprintf(answer->url, sizeof(answer->url), "%s", endpoints->urls[i]);
        buf_init(&answer->body, REPLICAS_ANSWER_MAX);
    }
    code = run(cli, target, replicas);
    replicas->count = code == CMD_OK ? replicas->count : 0;
    return code;
}

void replicas_free(struct replicas *replicas)
{
    for (int i = 0; replicas && i < ENDPOINTS_MAX; i++) {
        buf_release(&replicas->answers[i].body);
        json_decref(replicas->answers[i].json);
    }
    mem_free(replicas);
}

int replicas_none(const struct cli *cli, const struct replicas *replicas)
{
    for (int i = 0; i < replicas->count; i++) {
        const struct replicas_answer *answer = &replicas->answers[i];

        if (answer->tls) {
            return cli_fail(cli, CMD_NO_ENSEMBLE, CLIENT_TLS, "%s: %s", answer->url, answer->error);
        }
        if (answer->foreign) {
            return cli_fail(cli, CMD_NO_ENSEMBLE, "BadAnswer", "%s: %s; check --endpoints",
                            answer->url, answer->error);
        }
    }
    return cli_fail(cli, client_unanswered(cli->client), "NoEnsemble", "%s",
                    cli->client->error.message);
}

/* ---- The members ---- */

/* Adds an advertised replica. `secure`: a replica advertised it over TLS; then credentials must not
 * be sent to it in plain text. */
static void add_member(struct endpoints *endpoints, const char *url, bool secure)
{
    const char *place = strstr(url, "://");
    bool upgrade = secure && place && !url_is_secure(url);

    for (int i = 0; i < endpoints->count; i++) {
        if (url_same_place(endpoints->urls[i], url)) {
            return;
        }
    }
    if (*url && strlen(url) + 1 < ENDPOINT_MAX && endpoints->count < ENDPOINTS_MAX) {
        (void)snprintf(endpoints->urls[endpoints->count++], ENDPOINT_MAX, "%s%s",
                       upgrade ? "https" : "", upgrade ? place : url);
    }
}

int replicas_find(struct cli *cli, json_t **ret_ensemble)
{
    struct replicas *replicas = NULL;
    int code = replicas_ask(cli, "/ensemble/v1", &replicas);

    *ret_ensemble = NULL;
    for (int i = 0; i < replicas->count; i++) {
        const struct replicas_answer *answer = &replicas->answers[i];
        const json_t *members = jsonr_at(answer->json, "members");

        if (answer->status != HTTP_OK || !members) {
            continue;
        }
        JSONR_EACH (member, members) {
            add_member(&cli->client->endpoints, jsonr_text(member, "client"),
                       url_is_secure(answer->url));
        }
        if (!*ret_ensemble || jsonr_number(*ret_ensemble, "leader") == 0) {
            json_decref(*ret_ensemble);
            *ret_ensemble = json_incref(answer->json);
        }
    }
    replicas_free(replicas);
    return code;
}

int replicas_ask_all(struct cli *cli, const char *target, struct replicas **ret_replicas)
{
    json_auto_t *ensemble = NULL;
    int code = cli->settings.curl ? CMD_OK : replicas_find(cli, &ensemble);

    *ret_replicas = NULL;
    return code == CMD_OK ? replicas_ask(cli, target, ret_replicas) : code;
}
