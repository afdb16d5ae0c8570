#include "cli/curl_handles.h"

#include "base/lack.h"

void curl_handles_init(void)
{
    CURLcode code = curl_global_init(CURL_GLOBAL_DEFAULT);

    if (code != CURLE_OK) {
        lack_failed("libcurl does not start: %s", curl_easy_strerror(code));
    }
}

CURL *curl_handles_easy(void)
{
    CURL *easy = curl_easy_init();

    if (!easy) {
        lack_failed("there is no memory left for a connection");
    }
    return easy;
}

CURLM *curl_handles_multi(void)
{
    CURLM *multi = curl_multi_init();

    if (!multi) {
        lack_failed("there is no memory left for connections");
    }
    return multi;
}
