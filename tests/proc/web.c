#include "tests/proc/web.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/os_clock.h"
#include "base/os_rng.h"
#include "tests/lib/exchange.h"
#include "tests/proc/sealed.h"

#include <curl/curl.h>
#include <signal.h>
#include <stdio.h>
#include <strings.h>

enum {
    HEADERS_MAX = 64 << 10,
    HEADER_LINE_MAX = 1024
};

struct web {
    CURL *curl;
};

static void on_pipe(int signal_number UNUSED)
{
}

void web_setup(void)
{
    const struct sigaction nothing = {.sa_handler = on_pipe};

    ASSERT(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK);
    /* OpenSSL writes to connections that are gone; libcurl leaves the signal to the program. A
     * handler, unlike SIG_IGN, does not pass to the programs that the test starts. */
    if (sealed_on()) {
        ASSERT(sigaction(SIGPIPE, &nothing, NULL) == 0);
    }
}

struct web *web_open(void)
{
    struct web *web = mem_zalloc(1, sizeof(*web));

    web->curl = curl_easy_init();
    ASSERT(web->curl);
    return web;
}

void web_close(struct web *web)
{
    curl_easy_cleanup(web->curl);
    mem_free(web);
}

static size_t take(char *data, size_t size, size_t count, void *ctx)
{
    buf_append(ctx, data, size * count);
    return size * count;
}

static struct curl_slist *split_headers(const char *lines)
{
    struct curl_slist *list = curl_slist_append(NULL, "Expect:");

    while (lines && *lines) {
        char line[HEADER_LINE_MAX];
        size_t len = strcspn(lines, "\n");

        (void)snprintf(line, sizeof(line), "%.*s", (int)len, lines);
        list = curl_slist_append(list, line);
        lines += len + (lines[len] ? 1 : 0);
    }
    return list;
}

static void set_call(CURL *curl, const struct web_call *call, struct web_reply *reply)
{
    char url[4096];
    const char *method = call->method ? call->method : "GET";

    bool tls = sealed_has(call->port);

    (void)snprintf(url, sizeof(url), "%s://127.0.0.1:%u%s", tls ? "https" : "http", call->port,
                   call->path);
    curl_easy_reset(curl);
    if (tls) {
        curl_easy_setopt(curl, CURLOPT_CAINFO, sealed_ca());
    }
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS,
                     call->timeout_ms ? call->timeout_ms : (long)WEB_TIMEOUT_MS);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, (void *)&reply->body);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, take);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, (void *)&reply->headers);
    if (call->body) {
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, (long)strlen(call->body));
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, call->body);
    }
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method);
    if (!strcmp(method, "HEAD")) {
        curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
    }
}

static void note(const struct web_call *call, const struct web_reply *reply)
{
    bool typed = call->headers && strcasestr(call->headers, "content-type:");
    struct buf headers;

    if (!exchange_on()) {
        return;
    }
    buf_init(&headers, HEADERS_MAX);
    (void)buf_append_str(&headers,
                         call->body && !typed ? "Content-Type: application/octet-stream\n" : "");
    (void)buf_append_str(&headers, call->headers ? call->headers : "");
    exchange_http(&(struct exchange){.method = call->method ? call->method : "GET",
                                     .target = call->path,
                                     .headers = buf_cstr(&headers),
                                     .body = call->body,
                                     .head = buf_slice(&reply->headers),
                                     .answer = buf_slice(&reply->body)});
    buf_release(&headers);
}

long web_do(struct web *web, const struct web_call *call, struct web_reply *reply)
{
    struct curl_slist *headers = split_headers(call->headers);
    uint64_t start_ms = os_now_ms();

    if (call->body && (!call->headers || !strcasestr(call->headers, "content-type:"))) {
        headers = curl_slist_append(headers, "Content-Type: application/octet-stream");
    }
    reply->status = 0;
    buf_clear(&reply->headers);
    buf_clear(&reply->body);
    set_call(web->curl, call, reply);
    curl_easy_setopt(web->curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(web->curl, CURLOPT_FRESH_CONNECT, call->fresh ? 1L : 0L);
    curl_easy_setopt(web->curl, CURLOPT_FORBID_REUSE, call->fresh ? 1L : 0L);

    CURLcode code = curl_easy_perform(web->curl);

    reply->refused = code == CURLE_COULDNT_CONNECT;
    reply->why = code == CURLE_OK ? NULL : curl_easy_strerror(code);
    if (code == CURLE_OK) {
        curl_easy_getinfo(web->curl, CURLINFO_RESPONSE_CODE, &reply->status);
    }
    curl_slist_free_all(headers);
    if (reply->status != 0) {
        note(call, reply);
    }
    reply->took_ms = os_now_ms() - start_ms;
    return reply->status;
}

void web_reply_init(struct web_reply *reply)
{
    memset(reply, 0, sizeof(*reply));
    buf_init(&reply->headers, HEADERS_MAX);
    buf_init(&reply->body, WEB_BODY_MAX);
}

void web_reply_release(struct web_reply *reply)
{
    buf_release(&reply->headers);
    buf_release(&reply->body);
}

const char *web_header_of(const char *headers, const char *name)
{
    static _Thread_local char value[HEADER_LINE_MAX];
    size_t len = strlen(name);

    for (const char *line = headers; *line;) {
        size_t line_len = strcspn(line, "\r\n");

        if (line_len > len && line[len] == ':' && !strncasecmp(line, name, len)) {
            const char *from = line + len + 1;

            from += strspn(from, " ");
            (void)snprintf(value, sizeof(value), "%.*s", (int)(line + line_len - from), from);
            return value;
        }
        line += line_len;
        line += strspn(line, "\r\n");
    }
    return NULL;
}

const char *web_header(struct web_reply *reply, const char *name)
{
    return web_header_of(buf_cstr(&reply->headers), name);
}

const char *web_text(struct web_reply *reply)
{
    return buf_cstr(&reply->body);
}

json_t *web_json(struct web_reply *reply)
{
    return json_loadb((const char *)reply->body.data, reply->body.len, JSON_DECODE_ANY, NULL);
}

void web_make_key(char ret_key[WEB_KEY_LEN + 1])
{
    uint8_t bytes[16];
    size_t at = 0;

    os_random(bytes, sizeof(bytes));
    bytes[6] = (uint8_t)((bytes[6] & 0x0f) | 0x40);
    bytes[8] = (uint8_t)((bytes[8] & 0x3f) | 0x80);
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bool dash = i == 4 || i == 6 || i == 8 || i == 10;

        at += (size_t)snprintf(ret_key + at, WEB_KEY_LEN + 1 - at, "%s%02x", dash ? "-" : "",
                               bytes[i]);
    }
}
