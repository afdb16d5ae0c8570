#include "cli/curl_handles.h"

#include "base/lack.h"
#include "cli/libcurl.h"

const char *curl_handles_init(void)
{
    static bool ready;
    const char *fault = libcurl_load();

    if (fault || ready) {
        return fault;
    }

    CURLcode code = curl_global_init(CURL_GLOBAL_DEFAULT);

    if (code != CURLE_OK) {
        lack_failed("libcurl does not start: %s", curl_easy_strerror(code));
    }
    ready = true;
    return NULL;
}

void curl_handles_need(void)
{
    const char *fault = curl_handles_init();

    if (fault) {
        lack_failed("%s", fault);
    }
}

CURL *curl_handles_easy(void)
{
    curl_handles_need();

    CURL *easy = curl_easy_init();

    if (!easy) {
        lack_failed("there is no memory left for a connection");
    }
    return easy;
}

CURLM *curl_handles_multi(void)
{
    curl_handles_need();

    CURLM *multi = curl_multi_init();

    if (!multi) {
        lack_failed("there is no memory left for connections");
    }
    return multi;
}

CURL *curl_handles_ended(CURLM *multi, CURLcode *ret_result)
{
    int left = 0;
    const CURLMsg *message = curl_multi_info_read(multi, &left);

    if (message) {
        *ret_result = message->data.result;
    }
    return message ? message->easy_handle : NULL;
}

static size_t take_body(char *data, size_t size, size_t count, void *ctx)
{
    return !ctx || buf_append(ctx, data, size * count) ? size * count : 0;
}

void curl_handles_body(CURL *easy, struct buf *body)
{
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, (void *)body);
}

long curl_handles_get(const char *url, const char *ca, long timeout_ms, struct buf *body)
{
    CURL *easy = curl_handles_easy();
    long status = 0;

    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, timeout_ms);
    /* With TLS libcurl must ignore SIGPIPE, which this option forbids. */
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, ca ? 0L : 1L);
    if (ca) {
        curl_easy_setopt(easy, CURLOPT_CAINFO, ca);
        curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
    }
    curl_easy_setopt(easy, CURLOPT_PROXY, ""); /* Replicas are asked directly. */
    curl_handles_body(easy, body);
    if (curl_easy_perform(easy) == CURLE_OK) {
        (void)curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    }
    curl_easy_cleanup(easy);
    return status;
}
