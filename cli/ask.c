#include "cli/ask.h"

#include "cli/curl_handles.h"

#include <curl/curl.h>

void ask_init(void)
{
    curl_handles_init();
}

void ask_release(void)
{
    curl_global_cleanup();
}

static size_t take_body(char *data, size_t size, size_t count, void *ctx)
{
    struct buf *body = ctx;

    if (body) {
        buf_append(body, data, size * count);
    }
    return size * count;
}

long ask_get(const char *url, long timeout_ms, struct buf *body)
{
    CURL *curl = curl_handles_easy();
    long status = 0;

    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, timeout_ms);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_PROXY, ""); /* Replicas are asked directly. */
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, (void *)body);
    if (curl_easy_perform(curl) == CURLE_OK) {
        curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    }
    curl_easy_cleanup(curl);
    return status;
}
