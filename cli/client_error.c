/* What went wrong: words and exit codes. */
#include "cli/client_int.h"
#include "cli/cmd.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

enum {
    MORE_MAX = 48,
    ABOUT_MAX = 32,
    HTTP_WHO = 401,
    HTTP_OTHER_VERSION = 412
};

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

/* Codes that say more than their status does. */
static const struct {
    const char *code;
    int exit_code;
} by_code[] = {
    {"UnknownSession", CMD_EXPIRED},
    {"SessionExpired", CMD_EXPIRED},
    {"NotFound", CMD_FAILED},
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

bool client_was_late(const struct client *client)
{
    return client->error.status == HTTP_OTHER_VERSION;
}

/* The actual version, when the caller expected another one; a hint at --user, when permission is
 * missing.
 */
static void put_more(const struct client *client, const json_t *problem, long status,
                     char more[MORE_MAX])
{
    const char *code = jsonr_text(problem, "code");

    if (strcmp(code, "BadVersion") == 0 && jsonr_at(problem, "stat")) {
        (void)snprintf(more, MORE_MAX, "; it is %" PRId64 " now",
                       jsonr_number(problem, "stat.version"));
    } else if (strcmp(code, "NoAuth") == 0 && status == HTTP_WHO && !client->settings->user) {
        (void)snprintf(more, MORE_MAX, "; the request had no user (--user)");
    }
}

/* The element of a multi that has failed, or NULL. */
static const json_t *failed_element(const json_t *problem)
{
    const json_t *index = jsonr_at(problem, "op_index");

    return json_is_integer(index)
               ? json_array_get(jsonr_at(problem, "results"), (size_t)json_integer_value(index))
               : NULL;
}

/* What the problem is about: a path, or where in what was sent. */
static const char *find_about(const struct client *client, const json_t *problem,
                              char place[ABOUT_MAX])
{
    const json_t *index = jsonr_at(problem, "op_index");
    const json_t *element = failed_element(problem);

    if (!element && json_is_integer(index)) {
        (void)snprintf(place, ABOUT_MAX, "ops[%d]", (int)json_integer_value(index));
        return place;
    }
    return !element && client->about ? client->about
                                     : jsonr_text(element ? element : problem, "path");
}

bool client_is_replica(void *easy)
{
    struct curl_header *header = NULL;

    return curl_easy_header(easy, "Zk-Zxid", 0, CURLH_HEADER, -1, &header) == CURLHE_OK;
}

int client_foreign(struct client *client, const char *url, long status)
{
    return client_fail(client, CMD_NO_ENSEMBLE, "BadAnswer",
                       "%s does not answer like zabra (status %ld): another server listens "
                       "there, or a proxy without a replica behind it; check --endpoints",
                       url, status);
}

/* For a replica that gave no reason. */
static int judge_bare(struct client *client, long status)
{
    (void)client_fail(client, exit_code_of(status, ""), "Http",
                      "the replica answered with status %ld and no reason", status);
    client->error.status = status;
    return client->error.exit_code;
}

static int judge_problem(struct client *client, long status, json_t *problem)
{
    const char *code = jsonr_text(problem, "code");
    char place[ABOUT_MAX];
    char more[MORE_MAX] = "";
    const char *about = find_about(client, problem, place);

    put_more(client, problem, status, more);
    (void)client_fail(client, exit_code_of(status, code), code, "%s%s%s (%s)%s", about,
                      *about ? ": " : "", jsonr_text(problem, "detail"), code, more);
    client->error.status = status;
    client->error.problem = problem;
    return client->error.exit_code;
}

int client_judge(struct client *client, long status, struct slice body)
{
    char fault[JSONR_ERROR_MAX];
    json_t *problem = NULL;

    if (status / 100 == 2 || status / 100 == 3) {
        json_decref(client->error.problem);
        client->error = (struct client_error){.exit_code = CMD_OK};
        return CMD_OK;
    }
    problem = jsonr_parse(body, fault);
    if (!*jsonr_text(problem, "code")) {
        json_decref(problem);
        return judge_bare(client, status);
    }
    return judge_problem(client, status, problem);
}
