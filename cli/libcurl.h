/*
 * libcurl.h - loads libcurl when a command is about to send its first request.
 *
 * The functions of <curl/curl.h> are called by their own names. libcurl.c defines them; each calls
 * the function of that name in the library.
 */
#ifndef CLI_LIBCURL_H
#define CLI_LIBCURL_H

/* Loads libcurl, the first time. Returns NULL, or why there is none, a sentence without a full stop
 * that names the package. Any thread. Where this was not called before, or has failed, the first
 * call of one of libcurl's functions ends the process with that sentence. */
const char *libcurl_load(void);

#endif
