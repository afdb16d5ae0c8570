/* Builds a request for curl: headers, credentials, session. */
#include "base/check.h"
#include "base/minmax.h"
#include "base/os_clock.h"
#include "cli/client_int.h"
#include "cli/cmd.h"
#include "cli/url.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct curl_slist *client_put_header(struct curl_slist *list, const char *format, ...)
{
    struct buf line;
    va_list args;
    int len = 0;

    va_start(args, format);
    len = vsnprintf(NULL, 0, format, args);
    va_end(args);
    ASSERT(len >= 0);
    buf_init(&line, (size_t)len + 1);

    char *to = (char *)buf_reserve(&line, (size_t)len + 1);

    ASSERT(to);
    va_start(args, format);
    (void)vsnprintf(to, (size_t)len + 1, format, args);
    va_end(args);
    list = curl_slist_append(list, to);
    ASSERT(list);
    buf_release(&line);
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

uint64_t client_zxid(const struct client *client)
{
    return client->seen_zxid;
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
    struct curl_slist *list = NULL;

    list = client_put_header(list, "Accept: %s",
                             request->accept ? request->accept : "application/json");
    list = client_put_header(list, "Expect:");
    if (request->has_body) {
        list = client_put_header(list, "Content-Type: %s",
                                 request->type ? request->type : "application/octet-stream");
    }
    if (client->seen_zxid) {
        list = client_put_header(list, "Zk-Min-Zxid: 0x%" PRIx64, client->seen_zxid);
    }
    if (client->session[0]) {
        list = client_put_header(list, "Zk-Session: %s", client->session);
    }
    for (int i = 0; i < CLIENT_HEADERS_MAX && request->headers[i]; i++) {
        list = client_put_header(list, "%s", request->headers[i]);
    }
    return list;
}

int client_prepare(struct client *client, void *easy, const struct client_request *request,
                   const char *url, struct curl_slist **ret_headers)
{
    const char *method = request->method ? request->method : "GET";
    int code = take_password(client);

    *ret_headers = NULL;
    if (code != CMD_OK) {
        return code;
    }
    curl_easy_reset(easy);
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_PROXY, ""); /* Replicas are asked directly. */
    curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http");
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
    return CMD_OK;
}

/* NOLINTNEXTLINE(bugprone-easily-swappable-parameters): the library's type. */
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

/* The library knows when an answer began, but not when a long body was sent. */
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

/* True for a read of replicated data, which a majority can confirm. */
static bool may_be_stale(const struct client_request *request)
{
    static const char *const routes[] = {"/znodes/", "/search/", "/export/", "/multi/",
                                         "/sessions/"};
    bool reads = request->reads || !request->method || strcmp(request->method, "GET") == 0;
    const char *query = strchr(request->target, '?');

    for (size_t i = 0; reads && i < sizeof(routes) / sizeof(routes[0]); i++) {
        if (strncmp(request->target, routes[i], strlen(routes[i])) == 0) {
            return !query || !strstr(query, "consistency=");
        }
    }
    return false;
}

void client_url(const struct client *client, const struct client_request *request, struct buf *url)
{
    buf_init(url, CLIENT_URL_MAX);
    buf_append_str(url, endpoints_url(&client->endpoints));
    buf_append_str(url, request->target);
    if (client->settings->linearizable && may_be_stale(request)) {
        url_param(url, "consistency", "linearizable");
    }
}
