/* curl_handles.h - handles of libcurl; without memory for one the command ends (base/lack.h). */
#ifndef CLI_CURL_HANDLES_H
#define CLI_CURL_HANDLES_H

#include <curl/curl.h>

/* Once, before there are threads and before the other two. */
void curl_handles_init(void);

/* The caller frees them with curl_easy_cleanup and curl_multi_cleanup. */
CURL *curl_handles_easy(void);
CURLM *curl_handles_multi(void);

#endif
