/* curl_handles.h - handles of libcurl; without memory for one the command ends (base/lack.h). */
#ifndef CLI_CURL_HANDLES_H
#define CLI_CURL_HANDLES_H

#include "base/buf.h"

#include <curl/curl.h>

/* Once, before there are threads and before the other two. */
void curl_handles_init(void);

/* The caller frees them with curl_easy_cleanup and curl_multi_cleanup. */
CURL *curl_handles_easy(void);
CURLM *curl_handles_multi(void);

/* The result of the one transfer of a multi handle, when it has ended; else false. */
bool curl_handles_result(CURLM *multi, CURLcode *ret_result);

/* Where the body of the answer goes: one that does not fit ends the transfer. NULL: it is dropped.
 */
void curl_handles_body(CURL *easy, struct buf *body);

/* GET of a replica, once; `body` as above. Returns the status; 0: there was no whole answer within
 * `timeout_ms`. */
long curl_handles_get(const char *url, long timeout_ms, struct buf *body);

#endif
