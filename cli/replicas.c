#include "cli/replicas.h"

#include "base/mem.h"
#include "base/minmax.h"
#include "base/os_clock.h"
#include "cli/client_int.h"
#include "cli/curl_handles.h"

#include <curl/curl.h>
#include <stdio.h>
#include <string.h>

enum {
    POLL_MS = 100
};

/* One request of many that are under way. */
struct asking {
    struct replicas_answer *answer;
    CURL *easy;
    struct curl_slist *headers;
    char reason[CURL_ERROR_SIZE];
};

static size_t take_header(char *data, size_t size, size_t count, void *ctx)
{
    static const char name[] = "date:";
    struct replicas_answer *answer = ctx;
    size_t len = size * count;
    char text[64];

    if (len > sizeof(name) && len < sizeof(text) && strncasecmp(data, name, strlen(name)) == 0) {
        (void)snprintf(text, sizeof(text), "%.*s", (int)(len - strlen(name)), data + strlen(name));

        int64_t seconds = (int64_t)curl_getdate(text, NULL);

        answer->clock_ms = seconds > 0 ? seconds * 1000 : 0;
    }
    return len;
}

/* False: reported. */
static bool begin(struct cli *cli, const char *target, struct asking *asking, CURLM *multi)
{
    struct replicas_answer *answer = asking->answer;
    struct client_request request = {.target = target,
                                     .accept = "application/json, text/plain;q=0.5"};
    uint64_t wait_ms = min_u64((uint64_t)cli->settings.timeout_ms, REPLICAS_WAIT_MS);

    asking->easy = curl_handles_easy();
    if (client_prepare(cli->client, asking->easy, answer->url, &request, &asking->headers) !=
        CMD_OK) {
        (void)cli_tell(cli);
        return false;
    }
    curl_easy_setopt(asking->easy, CURLOPT_TIMEOUT_MS, (long)wait_ms);
    curl_easy_setopt(asking->easy, CURLOPT_ERRORBUFFER, asking->reason);
    curl_handles_body(asking->easy, &answer->body);
    curl_easy_setopt(asking->easy, CURLOPT_HEADERFUNCTION, take_header);
    curl_easy_setopt(asking->easy, CURLOPT_HEADERDATA, (void *)answer);
    curl_easy_setopt(asking->easy, CURLOPT_PRIVATE, (void *)asking);
    answer->asked_ms = os_wall_ms();
    (void)curl_multi_add_handle(multi, asking->easy);
    return true;
}

static void take_end(struct asking *asking, CURLcode result)
{
    struct replicas_answer *answer = asking->answer;

    answer->answered_ms = os_wall_ms();
    if (result != CURLE_OK) {
        (void)snprintf(answer->error, sizeof(answer->error), "%s",
                       asking->reason[0] ? asking->reason : curl_easy_strerror(result));
        return;
    }
    (void)curl_easy_getinfo(asking->easy, CURLINFO_RESPONSE_CODE, &answer->status);
    if (!client_is_replica(asking->easy)) {
        (void)snprintf(answer->error, sizeof(answer->error),
                       "it does not answer like zabra (status %ld)", answer->status);
        answer->status = 0;
        answer->foreign = true;
        return;
    }
    answer->json = jsonr_parse(buf_slice(&answer->body), NULL);
}

static void take_ends(CURLM *multi)
{
    for (int left = 1; left;) {
        CURLMsg *message = curl_multi_info_read(multi, &left);
        char *private = NULL;

        if (!message) {
            return;
        }
        (void)curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &private);
        take_end((struct asking *)(void *)private, message->data.result);
    }
}

static int run(struct cli *cli, const char *target, struct replicas *replicas)
{
    struct asking *askings = mem_zalloc((size_t)replicas->count, sizeof(*askings));
    CURLM *multi = curl_handles_multi();
    int running = 1;
    bool begun = true;

    for (int i = 0; begun && i < replicas->count; i++) {
        askings[i].answer = &replicas->answers[i];
        begun = begin(cli, target, &askings[i], multi);
    }
    while (begun && running) { /* Each has its own deadline. */
        (void)curl_multi_perform(multi, &running);
        if (running) {
            (void)curl_multi_poll(multi, NULL, 0, POLL_MS, NULL);
        }
    }
    take_ends(multi);
    for (int i = 0; i < replicas->count; i++) {
        if (askings[i].easy) {
            (void)curl_multi_remove_handle(multi, askings[i].easy);
            curl_easy_cleanup(askings[i].easy);
        }
        curl_slist_free_all(askings[i].headers);
    }
    (void)curl_multi_cleanup(multi);
    mem_free(askings);
    return begun ? CMD_OK : client_error(cli->client)->exit_code;
}

int replicas_ask(struct cli *cli, const char *target, struct replicas **ret_replicas)
{
    const struct endpoints *endpoints = client_endpoints(cli->client);
    struct replicas *replicas = mem_zalloc(1, sizeof(*replicas));
    int code = CMD_OK;

    *ret_replicas = replicas;
    if (cli->settings.curl) {
        return cli_ask(cli, &(struct client_request){.target = target, .last = true});
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

        if (answer->foreign) {
            return cli_fail(cli, CMD_NO_ENSEMBLE, "BadAnswer", "%s: %s; check --endpoints",
                            answer->url, answer->error);
        }
    }
    return cli_fail(cli, client_unanswered(cli->client), "NoEnsemble", "%s",
                    client_error(cli->client)->message);
}

/* ---- The members ---- */

static void add_member(struct endpoints *endpoints, const char *url)
{
    for (int i = 0; i < endpoints->count; i++) {
        if (strcmp(endpoints->urls[i], url) == 0) {
            return;
        }
    }
    if (*url && strlen(url) < ENDPOINT_MAX && endpoints->count < ENDPOINTS_MAX) {
        (void)snprintf(endpoints->urls[endpoints->count++], ENDPOINT_MAX, "%s", url);
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
        const json_t *member = NULL;

        if (answer->status != HTTP_OK || !members) {
            continue;
        }
        for (size_t j = 0; (member = json_array_get(members, j)); j++) {
            add_member(client_endpoints(cli->client), jsonr_text(member, "client"));
        }
        if (!*ret_ensemble || jsonr_number(*ret_ensemble, "leader") == 0) {
            json_decref(*ret_ensemble);
            *ret_ensemble = json_incref(answer->json);
        }
    }
    replicas_free(replicas);
    return code;
}
