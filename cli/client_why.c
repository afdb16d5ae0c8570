/*
 * Finds why a request is not served: when an answer is late, the client asks the replicas that
 * respond for the reason. A replica without a quorum holds a write for longer than the client
 * waits.
 */
#include "cli/client.h"
#include "cli/curl_handles.h"

#include <unistd.h>

enum {
    ONE_MS = 300,   /* Timeout of the answer of one replica. */
    ALL_MS = 1000,  /* Timeout of all answers together. */
    NOTE_MS = 1500, /* Delay after which a user wants to know the reason. */
    STATUS_MAX = 64 << 10,
    WHY_MAX = 512
};

/* Asks a replica why it does not serve. Returns false when it serves, or does not answer. */
static bool find_reason(struct client *client, const char *endpoint, char why[WHY_MAX])
{
    struct client_request request = {.target = "/status/v1"};
    struct curl_slist *headers = NULL;
    CURL *easy = curl_handles_easy();
    json_auto_t *status = NULL;
    const char *reason = "";
    BUF_AUTO(body, STATUS_MAX);

    if (client_prepare(client, easy, endpoint, &request, &headers) == CMD_OK) {
        curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)ONE_MS);
        curl_handles_body(easy, &body);
        if (curl_easy_perform(easy) == CURLE_OK) {
            status = jsonr_parse(buf_slice(&body), NULL);
            reason = json_is_true(jsonr_at(status, "serving")) ? "" : jsonr_text(status, "reason");
            (void)snprintf(why, WHY_MAX, "%s says: %s", endpoint, reason);
        }
    }
    curl_easy_cleanup(easy);
    curl_slist_free_all(headers);
    return *reason != '\0';
}

static bool find_why(struct client *client, char why[WHY_MAX])
{
    uint64_t end_ms = os_now_ms() + ALL_MS;

    for (int i = 0; i < client->endpoints.count && os_now_ms() < end_ms; i++) {
        if (find_reason(client, client->endpoints.urls[i], why)) {
            return true;
        }
    }
    return false;
}

void client_note_later(struct client *client)
{
    bool person = isatty(STDERR_FILENO) && !client->settings->curl;

    client->note_ms = person && !client->noted ? os_now_ms() + NOTE_MS : 0;
}

void client_note(struct client *client)
{
    char why[WHY_MAX];

    if (client->note_ms == 0 || os_now_ms() < client->note_ms) {
        return;
    }
    client->note_ms = os_now_ms() + NOTE_MS;
    if (find_why(client, why)) {
        (void)fprintf(stderr, "zabra: still trying; %s\n", why);
        client->note_ms = 0;
        client->noted = true;
    }
}

void client_explain(struct client *client)
{
    static const char advice[] = "run 'zabra doctor' to find the cause";
    struct client_error *error = &client->error;
    size_t len = strlen(error->message);
    char why[WHY_MAX];

    if (error->exit_code != CMD_NO_ENSEMBLE && error->exit_code != CMD_TIMED_OUT) {
        return;
    }
    if (find_why(client, why)) {
        (void)snprintf(error->message + len, sizeof(error->message) - len, "; %s; %s", why, advice);
    } else if (error->status || error->exit_code == CMD_TIMED_OUT) {
        (void)snprintf(error->message + len, sizeof(error->message) - len, "; %s", advice);
    }
}
