/* Builds a request for libcurl (headers, credentials, session), and finds what went wrong with a
 * request. */
#include "cli/client.h"
#include "cli/curl_handles.h"

#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    MORE_MAX = 48,
    ZXID_MAX = 32,
    ABOUT_MAX = 32,
    ONE_MS = 300,   /* Timeout of a status query to one replica. */
    ALL_MS = 1000,  /* Timeout of all status queries together. */
    NOTE_MS = 1500, /* Delay after which a user wants to know the reason. */
    STATUS_MAX = 64 << 10,
    WHY_MAX = 512
};

/* ---- Errors: words and exit codes ---- */

int client_fail(struct client *client, int exit_code, const char *code, const char *format, ...)
{
    struct client_error *error = &client->error;
    va_list list;

    json_decref(error->problem);
    *error = (struct client_error){.exit_code = exit_code};
    (void)snprintf(error->code, sizeof(error->code), "%s", code);
    va_start(list, format);
    (void)vsnprintf(error->message, sizeof(error->message), format, list);
    va_end(list);
    return exit_code;
}

/* Error codes whose exit code does not follow from the HTTP status. */
static const struct {
    const char *code;
    int exit_code;
} by_code[] = {
    {"UnknownSession", CMD_EXPIRED},
    {"SessionExpired", CMD_EXPIRED},
    {"NotFound", CMD_FAILED},
    {"ChangeRefused", CMD_FAILED},
};

static const struct {
    long status;
    int exit_code;
} by_status[] = {
    {400, CMD_USAGE},    {401, CMD_DENIED},      {403, CMD_DENIED},    {404, CMD_NO_NODE},
    {409, CMD_CONFLICT}, {412, CMD_CONFLICT},    {413, CMD_LIMIT},     {429, CMD_LIMIT},
    {431, CMD_LIMIT},    {503, CMD_NO_ENSEMBLE}, {504, CMD_TIMED_OUT}, {507, CMD_LIMIT},
};

static int exit_code_of(long status, const char *code)
{
    for (size_t i = 0; i < sizeof(by_code) / sizeof(by_code[0]); i++) {
        if (strcmp(by_code[i].code, code) == 0) {
            return by_code[i].exit_code;
        }
    }
    for (size_t i = 0; i < sizeof(by_status) / sizeof(by_status[0]); i++) {
        if (by_status[i].status == status) {
            return by_status[i].exit_code;
        }
    }
    return CMD_FAILED;
}

/* Writes more about an error: the actual version, when the caller expected another one; a hint at
 * --user, when permission is missing. */
static void put_more(const struct client *client, const json_t *problem, long status,
                     char more[MORE_MAX])
{
    const char *code = jsonr_text(problem, "code");

    if (strcmp(code, "BadVersion") == 0 && jsonr_at(problem, "stat")) {
        (void)snprintf(more, MORE_MAX, "; the version is %" PRId64 " now",
                       jsonr_number(problem, "stat.version"));
    } else if (strcmp(code, "NoAuth") == 0 && status == HTTP_UNAUTHORIZED &&
               !client->settings->user) {
        (void)snprintf(more, MORE_MAX, "; the request had no user (--user)");
    }
}

/* Returns what the problem is about. That is a path; for a multi it is the path of the element that
 * has failed, or, if the answer has no results, the element's place in the request ("ops[2]"). */
static const char *find_about(const struct client *client, const json_t *problem,
                              char place[ABOUT_MAX])
{
    const json_t *index = jsonr_at(problem, "op_index");
    const json_t *element =
        json_is_integer(index)
            ? json_array_get(jsonr_at(problem, "results"), (size_t)json_integer_value(index))
            : NULL;

    if (!element && json_is_integer(index)) {
        (void)snprintf(place, ABOUT_MAX, "ops[%d]", (int)json_integer_value(index));
        return place;
    }
    return !element && client->about ? client->about
                                     : jsonr_text(element ? element : problem, "path");
}

const char *client_header(CURL *easy, const char *name)
{
    struct curl_header *header = NULL;
    CURLHcode code = curl_easy_header(easy, name, 0, CURLH_HEADER, -1, &header);

    return code == CURLHE_OK ? header->value : "";
}

bool client_is_replica(CURL *easy)
{
    return *client_header(easy, "Zk-Zxid") != '\0';
}

int client_foreign(struct client *client, const char *url, long status)
{
    return client_fail(client, CMD_NO_ENSEMBLE, "BadAnswer",
                       "%s does not answer like zabra (status %ld): another server listens "
                       "there, or a proxy without a replica behind it; check --endpoints",
                       url, status);
}

static void judge_problem(struct client *client, long status, json_t *problem)
{
    const char *code = jsonr_text(problem, "code");
    char place[ABOUT_MAX];
    char more[MORE_MAX] = "";
    const char *about = find_about(client, problem, place);

    put_more(client, problem, status, more);
    (void)client_fail(client, exit_code_of(status, code), code, "%s%s%s (%s)%s", about,
                      *about ? ": " : "", jsonr_text(problem, "detail"), code, more);
    client->error.problem = problem;
}

int client_judge(struct client *client, long status, struct slice body)
{
    json_t *problem = NULL;

    if (status / 100 == 2 || status / 100 == 3) {
        json_decref(client->error.problem);
        client->error = (struct client_error){.exit_code = CMD_OK};
        return CMD_OK;
    }
    problem = jsonr_parse(body, NULL);
    if (*jsonr_text(problem, "code")) {
        judge_problem(client, status, problem);
    } else {
        json_decref(problem);
        (void)client_fail(client, exit_code_of(status, ""), "Http",
                          "the replica answered with status %ld and no reason", status);
    }
    client->error.status = status;
    return client->error.exit_code;
}

/* ---- Requests ---- */

struct curl_slist *client_put_header(struct curl_slist *list, const char *name, const char *value)
{
    BUF_AUTO(line, CLIENT_URL_MAX);

    buf_printf(&line, "%s%s%s", name, value ? ": " : "", value ? value : "");
    list = curl_slist_append(list, buf_cstr(&line));
    ASSERT(list && !line.overflow);
    return list;
}

void client_enter(struct client *client, const char *session)
{
    (void)snprintf(client->session, sizeof(client->session), "%s", session ? session : "");
}

void client_seen_number(struct client *client, uint64_t zxid)
{
    client->seen_zxid = max_u64(zxid, client->seen_zxid);
}

void client_seen(struct client *client, const char *zxid)
{
    client_seen_number(client, strtoull(zxid, NULL, 0));
}

static int take_password(struct client *client)
{
    if (!client->settings->user || client->has_password) {
        return CMD_OK;
    }
    if (!settings_password(client->settings, client->password)) {
        return client_fail(client, CMD_USAGE, "Usage", "%s", client->settings->error);
    }
    client->has_password = true;
    return CMD_OK;
}

static struct curl_slist *common_headers(const struct client *client,
                                         const struct client_request *request)
{
    struct curl_slist *list = client_put_header(NULL, "Expect:", NULL);
    char zxid[ZXID_MAX];

    list =
        client_put_header(list, "Accept", request->accept ? request->accept : "application/json");
    if (request->has_body) {
        list = client_put_header(list, "Content-Type",
                                 request->type ? request->type : "application/octet-stream");
    }
    if (client->seen_zxid) {
        (void)snprintf(zxid, sizeof(zxid), "0x%" PRIx64, client->seen_zxid);
        list = client_put_header(list, "Zk-Min-Zxid", zxid);
    }
    if (client->session[0]) {
        list = client_put_header(list, "Zk-Session", client->session);
    }
    for (int i = 0; i < CLIENT_HEADERS_MAX && request->headers[i]; i++) {
        list = client_put_header(list, request->headers[i], NULL);
    }
    return list;
}

/* Whether --linearizable applies: the request reads replicated data, and does not choose a
 * consistency itself. */
static bool may_be_stale(const struct client_request *request, const char *target,
                         const char *query)
{
    static const char *const routes[] = {"/znodes/", "/search/", "/export/", "/multi/",
                                         "/sessions/"};
    bool reads = request->reads || !request->method || strcmp(request->method, "GET") == 0;

    for (size_t i = 0; reads && i < sizeof(routes) / sizeof(routes[0]); i++) {
        if (strncmp(target, routes[i], strlen(routes[i])) == 0) {
            return !query || !strstr(query, "consistency=");
        }
    }
    return false;
}

void client_url(const struct client *client, const char *endpoint,
                const struct client_request *request, struct buf *url)
{
    const char *target = request->target ? request->target : "/znodes/v1";

    buf_init(url, CLIENT_URL_MAX);
    buf_printf(url, "%s%s", endpoint, target);
    if (request->path) {
        url_path(url, request->path);
    }
    for (const struct client_param *at = request->params; at->name; at++) {
        if (at->value) {
            url_param(url, at->name, at->value);
        }
    }
    if (client->settings->linearizable &&
        may_be_stale(request, target, strchr(buf_cstr(url), '?'))) {
        url_param(url, "consistency", "linearizable");
    }
}

int client_prepare(struct client *client, CURL *easy, const char *endpoint,
                   const struct client_request *request, struct curl_slist **ret_headers)
{
    const char *method = request->method ? request->method : "GET";
    int code = take_password(client);
    struct buf url;

    *ret_headers = NULL;
    if (code != CMD_OK) {
        return code;
    }
    curl_easy_reset(easy);
    client_url(client, endpoint, request, &url);
    curl_easy_setopt(easy, CURLOPT_URL, buf_cstr(&url));
    buf_release(&url);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_PROXY, ""); /* Replicas are asked directly. */
    curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    client_tls_prepare(client, easy, endpoint);
    if (strcmp(method, "HEAD") == 0) {
        curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
    } else {
        curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, method);
    }
    if (request->has_body) {
        const void *bytes = request->body.len > 0 ? (const void *)request->body.data : "";

        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, bytes);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body.len);
    }
    if (client->has_password) {
        curl_easy_setopt(easy, CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC);
        curl_easy_setopt(easy, CURLOPT_USERNAME, client->settings->user);
        curl_easy_setopt(easy, CURLOPT_PASSWORD, client->password);
    }
    *ret_headers = common_headers(client, request);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, *ret_headers);
    curl_handles_body(easy, NULL);
    return CMD_OK;
}

/* NOLINTNEXTLINE(bugprone-easily-swappable-parameters): the type of libcurl. */
static int note_upload(void *ctx, curl_off_t down_all, curl_off_t down, curl_off_t up_all,
                       curl_off_t up)
{
    struct client *client = ctx;

    (void)down_all;
    (void)down;
    (void)up_all;
    if (up != client->uploaded) {
        client->uploaded = up;
        client->sent_ms = os_now_ms();
    }
    return 0;
}

/* Measures when the body was sent: libcurl reports when the answer began, but not when the upload
 * of a long body ended. */
void client_time_upload(struct client *client)
{
    client->uploaded = 0;
    client->sent_ms = 0;
    client->try_ms = os_now_ms();
    curl_easy_setopt(client->easy, CURLOPT_XFERINFOFUNCTION, note_upload);
    curl_easy_setopt(client->easy, CURLOPT_XFERINFODATA, (void *)client);
    curl_easy_setopt(client->easy, CURLOPT_NOPROGRESS, 0L);
}

uint64_t client_waited_ms(const struct client *client)
{
    uint64_t begun_ms = client->try_ms;
    curl_off_t connect_us = 0;

    (void)curl_easy_getinfo(client->easy, CURLINFO_PRETRANSFER_TIME_T, &connect_us);
    begun_ms += (uint64_t)connect_us / 1000;
    return os_now_ms() - max_u64(client->sent_ms, begun_ms);
}

/* ---- Why a request is not served. A replica without a quorum may hold a write for longer than the
 * client waits, so the client asks the replicas for their status. ---- */

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

    if (!client_unserved(error->exit_code)) {
        return;
    }
    if (find_why(client, why)) {
        (void)snprintf(error->message + len, sizeof(error->message) - len, "; %s; %s", why, advice);
    } else if (error->status || error->exit_code == CMD_TIMED_OUT) {
        (void)snprintf(error->message + len, sizeof(error->message) - len, "; %s", advice);
    }
}
