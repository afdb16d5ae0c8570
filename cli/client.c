#include "cli/client.h"

#include "cli/curl_handles.h"
#include "server/op/ops.h"

enum {
    TRY_MIN_MS = 1000,   /* Least time of one attempt, if that much is left. */
    REFUSED_MS = 1000,   /* How long to retry while every endpoint refuses connections. */
    PAUSE_MIN_MS = 50,   /* First pause between two rounds of attempts. */
    PAUSE_MAX_MS = 1000, /* Longest pause; each one is twice as long as the one before. */
    LAST_TRY_MS = 300,   /* Least time of the last attempt. */
    POLL_MS = 1000,
    PREFER_MAX = 32,
    QUORUM_MS = 2000, /* A replica that has waited this long for a leader will not find one soon. */
    ANSWER_MS = 500,  /* Time that is kept for the answer to reach the client. */
};

/* One request and its attempts. */
struct attempts {
    const struct client_request *request;
    char key[OP_SECRET_LEN + 1];
    uint64_t end_ms;
    /* Since when each attempt has met a refused connection or a server that is no replica; 0: the
     * last attempt met something else. A proxy's 502, 503 or 504 does not change this value. */
    uint64_t refused_since_ms;
    uint32_t pause_ms;
    int turns;     /* Moves from one replica to the next one. */
    int read_only; /* Answers of read-only replicas in a row. */
    int tls;       /* Attempts in a row that TLS has ended: a retry does not mend a certificate. */
    /* The last 503 or 504 of a replica; else the first answer of a read-only replica, or of a
     * server that is no replica. */
    struct client_error heard;
    bool hung;        /* An attempt was sent, and not answered in time. */
    bool unsent;      /* An attempt timed out before it could be sent. */
    bool refused;     /* A connection was refused, or a host name is unknown. */
    bool unsure;      /* An attempt without an answer may have been applied. */
    bool leaderless;  /* A replica has waited in vain for a leader, and applied nothing. */
    bool interrupted; /* The user interrupted a pause between attempts. */
};

/* The result of one attempt. */
enum outcome {
    ANSWERED,
    TRY_NEXT_REPLICA, /* Another replica may serve the request. */
    RETRY_LATER,      /* The same replica may serve the request in a moment. */
    INTERRUPTED
};

/* ---- Life ---- */

struct client *client_open(struct settings *settings)
{
    struct client *client = mem_zalloc(1, sizeof(*client));
    const char *fault = NULL;

    client->settings = settings;
    client->interrupt_fd = -1;
    buf_init(&client->reply.body, CLIENT_BODY_MAX);
    client_enter(client, settings->session);
    if (settings->min_zxid) {
        client_seen(client, settings->min_zxid);
    }
    if (!endpoints_parse(&client->endpoints, settings->endpoints, &fault)) {
        (void)snprintf(
            settings->error, sizeof(settings->error),
            "--endpoints: \"%s\" does not begin with HOST or HOST:PORT, as in a:9998,b:9998 (at "
            "most %d of them; https://a:9998 for TLS)",
            fault, (int)ENDPOINTS_MAX);
        client_close(client);
        return NULL;
    }
    if (!client_tls_check(settings, &client->endpoints)) {
        client_close(client);
        return NULL;
    }
    return client;
}

static void drop_json(struct client *client)
{
    json_decref(client->json);
    client->json = NULL;
}

void client_close(struct client *client)
{
    if (!client) {
        return;
    }
    drop_json(client);
    json_decref(client->error.problem);
    buf_release(&client->reply.body);
    if (client->easy) {
        curl_easy_cleanup(client->easy);
        (void)curl_multi_cleanup(client->multi);
    }
    explicit_bzero(client->password, sizeof(client->password));
    explicit_bzero(client->session, sizeof(client->session));
    mem_free(client);
}

json_t *client_json(struct client *client)
{
    if (!client->json) {
        client->json = jsonr_parse(buf_slice(&client->reply.body), NULL);
    }
    return client->json;
}

/* Whether the request changes something. */
static bool changes(const struct client_request *request)
{
    const char *method = request->method ? request->method : "GET";

    return !request->reads && strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0;
}

/* ---- Answers ---- */

/* Returns the number of bytes up to the end of the last line that is wanted. */
static size_t wanted_len(struct client *client, const char *data, size_t len)
{
    for (size_t i = 0; client->lines_left >= 0 && i < len; i++) {
        if (data[i] == '\n' && --client->lines_left == 0) {
            return i + 1;
        }
    }
    return len;
}

static size_t take_body(char *data, size_t size, size_t count, void *ctx)
{
    struct client *client = ctx;
    size_t len = wanted_len(client, data, size * count);
    bool fits = buf_append(&client->reply.body, data, len);

    return fits && client->lines_left != 0 ? size * count : 0; /* 0 ends the transfer. */
}

static void clear_reply(struct client *client)
{
    struct buf body = client->reply.body;

    buf_clear(&body);
    drop_json(client);
    client->reply = (struct client_reply){.body = body};
}

/* ---- Errors ---- */

int client_unanswered(struct client *client)
{
    return client_fail(client, CMD_NO_ENSEMBLE, "NoEnsemble",
                       "no replica answers at %s; check that one is running and that --endpoints "
                       "is right",
                       client->settings->endpoints);
}

/* Whether the outcome of the write is unknown. */
static bool is_unsure(const struct attempts *attempts)
{
    return attempts->unsure && changes(attempts->request);
}

/* Whether the request was not answered in time. An attempt that timed out before it was sent (the
 * last one may be short) does not make the request late if another attempt was refused, or has set
 * `heard`. */
static bool is_late(const struct attempts *attempts)
{
    bool known = attempts->refused || attempts->heard.exit_code;

    return attempts->hung || (attempts->unsent && !known) || is_unsure(attempts);
}

static int too_late(struct client *client, const struct attempts *attempts)
{
    return client_fail(client, CMD_TIMED_OUT, "TimedOut", "no answer in time from %s%s",
                       client->settings->endpoints,
                       is_unsure(attempts) ? "; the write may or may not have been applied" : "");
}

/* ---- One attempt ---- */

/* Makes the handles for the first request; without libcurl there is an error. */
static bool is_ready(struct client *client)
{
    const char *fault = client->easy ? NULL : curl_handles_init();

    if (fault) {
        (void)client_fail(client, CMD_FAILED, "NoLibrary", "%s", fault);
    } else if (!client->easy) {
        client->multi = curl_handles_multi();
        client->easy = curl_handles_easy();
    }
    return !fault;
}

/* Waits at most `wait_ms` for data. Returns false when `interrupt_fd` has become readable. */
static bool poll_for(struct client *client, uint64_t wait_ms)
{
    struct curl_waitfd fd = {.fd = client->interrupt_fd, .events = CURL_WAIT_POLLIN};
    unsigned int extra = client->interrupt_fd >= 0 ? 1 : 0;

    (void)curl_multi_poll(client->multi, &fd, extra, (int)wait_ms, NULL);
    client_note(client);
    client_meanwhile(client);
    return extra == 0 || fd.revents == 0;
}

/* Runs the transfer of the handle to its end. Returns false when an interrupt ended it. */
static bool run(struct client *client, CURLcode *ret_result)
{
    int running = 1;
    bool interrupted = false;

    (void)curl_multi_add_handle(client->multi, client->easy);
    (void)curl_multi_perform(client->multi, &running);
    while (running && !interrupted) {
        interrupted = !poll_for(client, POLL_MS);
        (void)curl_multi_perform(client->multi, &running);
    }
    *ret_result = CURLE_OPERATION_TIMEDOUT;

    /* The transfer may have ended before the interrupt came. */
    bool ended = curl_handles_ended(client->multi, ret_result);

    (void)curl_multi_remove_handle(client->multi, client->easy);
    return ended || !interrupted;
}

static bool is_refused(CURLcode result)
{
    return result == CURLE_COULDNT_CONNECT || result == CURLE_COULDNT_RESOLVE_HOST;
}

/* Whether the request was sent. A request that was never sent cannot have been applied. */
static bool was_sent(const struct client *client)
{
    long bytes = 0;

    (void)curl_easy_getinfo(client->easy, CURLINFO_REQUEST_SIZE, &bytes);
    return bytes > 0;
}

/* Returns the time for one attempt. It is a share of the time that is left: one replica that hangs
 * must not use up all of it. */
static long try_ms(const struct client *client, const struct attempts *attempts)
{
    uint64_t now_ms = os_now_ms();
    uint64_t left_ms = attempts->end_ms > now_ms ? attempts->end_ms - now_ms : 1;
    uint64_t share_ms = left_ms / (uint64_t)client->endpoints.count;

    return (long)min_u64(max_u64(share_ms, TRY_MIN_MS), left_ms);
}

/* Judges an attempt without an answer. A read whose answer was cut off is judged like a read that
 * no replica answered. */
static void judge_silence(struct client *client, struct attempts *attempts, CURLcode result)
{
    uint64_t since_ms = attempts->refused_since_ms ? attempts->refused_since_ms : os_now_ms();

    bool sent = was_sent(client);
    bool over = result == CURLE_OPERATION_TIMEDOUT;

    attempts->refused_since_ms = is_refused(result) ? since_ms : 0;
    attempts->refused = attempts->refused || is_refused(result);
    attempts->hung = attempts->hung || (over && sent);
    attempts->unsent = attempts->unsent || (over && !sent);
    attempts->unsure = attempts->unsure || sent;
    if (is_late(attempts)) {
        (void)too_late(client, attempts);
    } else if (result == CURLE_GOT_NOTHING && !url_is_secure(endpoints_url(&client->endpoints))) {
        (void)client_fail(client, CMD_NO_ENSEMBLE, "NoEnsemble",
                          "%s closes each connection without an answer; if this port speaks only "
                          "TLS, write https:// in --endpoints",
                          endpoints_url(&client->endpoints));
    } else {
        (void)client_unanswered(client);
    }
}

static bool is_read_only(const struct client_error *error)
{
    return strcmp(error->code, "NotReadOnly") == 0;
}

/* Whether to ask other replicas after the answer of a read-only replica. That answer is final once
 * all replicas have given it in turn, unless an earlier attempt may have applied the write. */
static bool others_may(const struct client *client, const struct attempts *attempts)
{
    return attempts->unsure || attempts->read_only < client->endpoints.count;
}

/* Keeps the error of the attempt in `heard`, to report it if no attempt gets a final answer. With
 * `first` an error that was kept earlier is not replaced. */
static void hear(const struct client *client, struct attempts *attempts, bool first)
{
    if (first && attempts->heard.exit_code) {
        return;
    }
    json_decref(attempts->heard.problem);
    attempts->heard = client->error;
    (void)json_incref(attempts->heard.problem);
}

/* Judges an answer that does not come from a replica: another program listens at the endpoint, or a
 * proxy that has found no replica (503). With any other 5xx status a proxy may have passed the
 * request on before it lost the answer. */
static enum outcome judge_foreign(struct client *client, struct attempts *attempts)
{
    long status = client->reply.status;
    bool gateway = status >= HTTP_BAD_GATEWAY && status <= HTTP_UNKNOWN;

    (void)client_foreign(client, endpoints_url(&client->endpoints), status);
    if (!gateway && !attempts->refused_since_ms) {
        attempts->refused_since_ms = os_now_ms();
    }
    attempts->hung = attempts->hung || status == HTTP_UNKNOWN;
    attempts->unsure = attempts->unsure || (status / 100 == 5 && status != HTTP_UNAVAILABLE);
    hear(client, attempts, true);
    return TRY_NEXT_REPLICA;
}

/* Whether the replica has waited for a leader for QUORUM_MS, and has not applied the write. After a
 * shorter wait an election may still be under way, so the client tries again. The time to send the
 * request is no part of the wait. */
static bool is_leaderless(const struct client *client)
{
    const char *outcome = jsonr_text(client->error.problem, "outcome");

    return client->reply.status == HTTP_UNAVAILABLE && strcmp(outcome, "not-applied") == 0 &&
           client_waited_ms(client) >= QUORUM_MS;
}

/* Judges an attempt that TLS has ended. The request was not applied: no replica has read it. Other
 * endpoints may be right. */
static enum outcome judge_tls(struct client *client, struct attempts *attempts, const char *why)
{
    (void)client_fail(client, CMD_NO_ENSEMBLE, CLIENT_TLS, "%s: %s",
                      endpoints_url(&client->endpoints), why);
    if (!attempts->refused_since_ms) {
        attempts->refused_since_ms = os_now_ms();
    }
    attempts->tls++;
    hear(client, attempts, true);
    return TRY_NEXT_REPLICA;
}

static enum outcome judge(struct client *client, struct attempts *attempts, CURLcode result)
{
    struct client_reply *reply = &client->reply;
    char why[CLIENT_WHY_MAX];

    if (result == CURLE_WRITE_ERROR && client->lines_left == 0) {
        result = CURLE_OK; /* The client itself ended the transfer. */
    }
    if (result == CURLE_WRITE_ERROR) {
        (void)client_fail(client, CMD_LIMIT, "TooLarge", "the answer is larger than %d bytes",
                          (int)CLIENT_BODY_MAX);
        return ANSWERED;
    }
    if (client_tls_fault(client, client->easy, result, client->detail, why)) {
        return judge_tls(client, attempts, why);
    }
    attempts->tls = 0;
    if (result != CURLE_OK) {
        judge_silence(client, attempts, result);
        return TRY_NEXT_REPLICA;
    }
    (void)curl_easy_getinfo(client->easy, CURLINFO_RESPONSE_CODE, &reply->status);
    if (!client_is_replica(client->easy)) {
        return judge_foreign(client, attempts);
    }
    attempts->refused_since_ms = 0;

    curl_off_t wait_s = 0;

    (void)curl_easy_getinfo(client->easy, CURLINFO_RETRY_AFTER, &wait_s);
    reply->retry_after_ms = (int64_t)wait_s * 1000;
    reply->endpoint = client->endpoints.current;
    (void)snprintf(reply->etag, sizeof(reply->etag), "%s", client_header(client->easy, "ETag"));
    client_seen(client, client_header(client->easy, "Zk-Zxid"));
    client->about = attempts->request->about;
    (void)client_judge(client, reply->status, buf_slice(&reply->body));
    client->about = NULL;

    bool in_flight = strcmp(client->error.code, "InFlight") == 0;

    attempts->read_only = is_read_only(&client->error) ? attempts->read_only + 1 : 0;
    if (attempts->read_only > 0 && others_may(client, attempts)) {
        hear(client, attempts, true);
        return TRY_NEXT_REPLICA;
    }

    attempts->hung = attempts->hung || reply->status == HTTP_UNKNOWN;
    attempts->unsure = attempts->unsure || in_flight || reply->status == HTTP_UNKNOWN;
    attempts->leaderless = attempts->leaderless || is_leaderless(client);
    if (reply->status == HTTP_UNAVAILABLE || reply->status == HTTP_UNKNOWN) {
        hear(client, attempts, false);
        return TRY_NEXT_REPLICA;
    }
    return in_flight || reply->status == HTTP_TOO_MANY ? RETRY_LATER : ANSWERED;
}

static void log_try(const struct client *client, const struct client_request *request,
                    CURLcode result)
{
    const char *url = "";
    long status = 0;

    (void)curl_easy_getinfo(client->easy, CURLINFO_EFFECTIVE_URL, &url);
    (void)curl_easy_getinfo(client->easy, CURLINFO_RESPONSE_CODE, &status);
    (void)fprintf(stderr, "%s %s: %ld %s\n", request->method ? request->method : "GET", url, status,
                  result == CURLE_OK ? "" : curl_easy_strerror(result));
}

static enum outcome try_once(struct client *client, struct attempts *attempts)
{
    const struct client_request *request = attempts->request;
    struct curl_slist *headers = NULL;
    CURLcode result = CURLE_OK;
    char prefer[PREFER_MAX];

    clear_reply(client);
    if (!is_ready(client)) {
        return ANSWERED;
    }
    client->lines_left = request->lines_max > 0 ? request->lines_max : -1;
    if (client_prepare(client, client->easy, endpoints_url(&client->endpoints), request,
                       &headers) != CMD_OK) {
        return ANSWERED;
    }
    if (changes(request) && !request->keyless) {
        headers = client_put_header(headers, "Idempotency-Key", attempts->key);
    }
    long wait_ms = try_ms(client, attempts);

    if (changes(request) && wait_ms >= QUORUM_MS + ANSWER_MS) {
        /* The replica then answers before this client gives up, and reports whether it applied the
         * write. */
        (void)snprintf(prefer, sizeof(prefer), "wait=%ld", (wait_ms - ANSWER_MS) / 1000);
        headers = client_put_header(headers, "Prefer", prefer);
    }
    curl_easy_setopt(client->easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(client->easy, CURLOPT_TIMEOUT_MS, wait_ms);
    curl_easy_setopt(client->easy, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(client->easy, CURLOPT_WRITEDATA, (void *)client);
    client->detail[0] = '\0';
    curl_easy_setopt(client->easy, CURLOPT_ERRORBUFFER, client->detail);
    client_time_upload(client);

    bool whole = run(client, &result);

    if (client->settings->verbose) {
        log_try(client, request, result);
    }
    curl_slist_free_all(headers);
    return whole ? judge(client, attempts, result) : INTERRUPTED;
}

/* ---- All attempts ---- */

/* Pauses between two attempts. Returns false when the pause was interrupted. */
static bool pause_for(struct client *client, uint64_t wait_ms)
{
    uint64_t until_ms = os_now_ms() + wait_ms;

    for (uint64_t now_ms = os_now_ms(); now_ms < until_ms; now_ms = os_now_ms()) {
        if (!poll_for(client, min_u64(until_ms - now_ms, POLL_MS))) {
            return false;
        }
    }
    return true;
}

/* Whether the request is over at the end of a round. `elsewhere`: the round has ended because every
 * replica was asked, and not because one asks for a retry. */
static bool is_over(const struct attempts *attempts, uint64_t now_ms, bool elsewhere)
{
    bool refused = attempts->refused_since_ms && now_ms >= attempts->refused_since_ms + REFUSED_MS;
    bool patient = attempts->request->timeout_ms != 0; /* The caller set how long to wait. */
    bool hopeless =
        attempts->leaderless && !attempts->unsure && !patient && changes(attempts->request);

    return now_ms >= attempts->end_ms || refused || (hopeless && elsewhere);
}

/* Chooses the next replica, and pauses at the end of a round. Returns false when there is no more
 * time, or when the pause was interrupted. */
static bool go_on(struct client *client, struct attempts *attempts, enum outcome outcome)
{
    bool here = outcome == RETRY_LATER;
    uint64_t now_ms = os_now_ms();
    uint64_t left_ms = attempts->end_ms > now_ms ? attempts->end_ms - now_ms : 0;

    if (!here) {
        attempts->turns++;
        endpoints_turn(&client->endpoints);
    }

    bool round = here || attempts->turns % client->endpoints.count == 0;

    if (attempts->tls >= client->endpoints.count) {
        return false;
    }
    if (round && is_over(attempts, now_ms, outcome == TRY_NEXT_REPLICA)) {
        return false;
    }
    if (round) {
        bool busy = client->reply.status == HTTP_TOO_MANY;
        uint64_t asked_ms = busy ? (uint64_t)client->reply.retry_after_ms : 0;
        uint64_t wait_ms = max_u64(attempts->pause_ms, asked_ms);

        /* An attempt too short for an answer would hide the errors of earlier attempts. */
        if (left_ms <= LAST_TRY_MS) {
            return false;
        }
        attempts->pause_ms = min_u32(attempts->pause_ms * 2, PAUSE_MAX_MS);
        attempts->interrupted = !pause_for(client, min_u64(wait_ms, left_ms - LAST_TRY_MS));
        return !attempts->interrupted;
    }
    return left_ms > 0;
}

static int show(const struct client *client, const struct client_request *request)
{
    BUF_AUTO(line, 8 * (CLIENT_URL_MAX + request->body.len));

    client_put_curl(client, request, &line);
    (void)printf("%s", buf_cstr(&line));
    return CMD_SHOWN;
}

/* Ends the request when all attempts are over and none has a final answer. It is chance which
 * replica was asked last, so the result does not depend on the last attempt alone: if any attempt
 * was late, the request is late; else an error in `heard` replaces "no replica answers" or "this
 * replica is read-only". */
static int give_up(struct client *client, struct attempts *attempts)
{
    if (attempts->interrupted) {
        return client_fail(client, CMD_FAILED, CLIENT_INTERRUPTED, "interrupted");
    }
    if (is_late(attempts) && client->error.exit_code != CMD_TIMED_OUT) {
        return too_late(client, attempts);
    }
    if ((client->error.exit_code == CMD_NO_ENSEMBLE || is_read_only(&client->error)) &&
        attempts->heard.exit_code) {
        json_decref(client->error.problem);
        client->error = attempts->heard;
        attempts->heard.problem = NULL;
    }
    return client->error.exit_code;
}

int client_ask(struct client *client, const struct client_request *request)
{
    struct attempts attempts = {.request = request, .pause_ms = PAUSE_MIN_MS};
    int64_t time_ms = request->timeout_ms ? request->timeout_ms : client->settings->timeout_ms;
    enum outcome outcome = RETRY_LATER;

    if (client->settings->curl) {
        int shown = show(client, request);

        if (request->last || changes(request)) {
            return shown;
        }
    }
    op_secret_make(attempts.key);
    attempts.end_ms = os_now_ms() + (uint64_t)time_ms;
    client_note_later(client);
    do {
        outcome = try_once(client, &attempts);
        attempts.interrupted = outcome == INTERRUPTED;
    } while (!attempts.interrupted && outcome != ANSWERED && go_on(client, &attempts, outcome));

    int code = outcome == ANSWERED ? client->error.exit_code : give_up(client, &attempts);

    json_decref(attempts.heard.problem);
    return code;
}
