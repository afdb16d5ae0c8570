/* curl_handles.h - handles of libcurl. The process ends when memory is short (base/lack.h). */
#ifndef CLI_CURL_HANDLES_H
#define CLI_CURL_HANDLES_H

#include "base/buf.h"

#include <curl/curl.h>

/* Loads and initialises libcurl, the first time; later calls do nothing. One thread. Returns NULL,
 * or why there is no libcurl, a sentence without a full stop. */
const char *curl_handles_init(void);

/* The same; the process ends when there is no libcurl. */
void curl_handles_need(void);

/* Return new handles, which the caller frees with curl_easy_cleanup and
 * curl_multi_cleanup. */
CURL *curl_handles_easy(void);
CURLM *curl_handles_multi(void);

/* Returns a handle whose transfer has ended, with the result; NULL: no other transfer has ended. */
CURL *curl_handles_ended(CURLM *multi, CURLcode *ret_result);

/* Sets the buffer for the body of the answer; NULL: the body is dropped. A body that does not fit
 * ends the transfer. */
void curl_handles_body(CURL *easy, struct buf *body);

/* Sends one GET to a replica; `body` as in curl_handles_body(). `ca` is the file of the authority
 * for https; NULL: those of the machine. Returns the status; 0: no complete answer came within
 * `timeout_ms`. */
long curl_handles_get(const char *url, const char *ca, long timeout_ms, struct buf *body);

#endif
