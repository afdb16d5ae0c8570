#include "cli/libcurl.h"

#include "base/lack.h"
#include "cli/library.h"

#include <pthread.h>
#include <stdarg.h>

#define CURL_DISABLE_TYPECHECK /* It makes macros of the functions that are defined here. */
#include <curl/curl.h>

#undef curl_easy_setopt
#undef curl_easy_getinfo
#undef curl_multi_setopt

#define FUNCTIONS(row)                                                                           \
    row(global_init) row(version_info) row(easy_init) row(easy_cleanup) row(easy_reset)          \
        row(easy_setopt) row(easy_getinfo) row(easy_header) row(easy_perform) row(easy_strerror) \
            row(multi_init) row(multi_cleanup) row(multi_setopt) row(multi_add_handle)           \
                row(multi_remove_handle) row(multi_perform) row(multi_poll) row(multi_info_read) \
                    row(slist_append) row(slist_free_all) row(getdate)

#define MEMBER(name) __typeof__(curl_##name) *(name);
#define SYMBOL(name) {"curl_" #name, (void *)&library.name},

static struct {
    FUNCTIONS(MEMBER)
} library;

static const struct library_symbol symbols[] = {FUNCTIONS(SYMBOL){NULL, NULL}};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool loaded;
static char error[LIBRARY_ERROR_MAX];

static void load(void)
{
    loaded = library_load("libcurl.so.4", "libcurl4", symbols, error);
}

const char *libcurl_load(void)
{
    (void)pthread_once(&once, load);
    return loaded ? NULL : error;
}

static __typeof__(library) *real(void)
{
    const char *fault = libcurl_load();

    if (fault) {
        lack_failed("%s", fault);
    }
    return &library;
}

CURLcode curl_global_init(long flags)
{
    return real()->global_init(flags);
}

curl_version_info_data *curl_version_info(CURLversion age)
{
    return real()->version_info(age);
}

/* ---- One transfer ---- */

CURL *curl_easy_init(void)
{
    return real()->easy_init();
}

void curl_easy_cleanup(CURL *curl)
{
    real()->easy_cleanup(curl);
}

void curl_easy_reset(CURL *curl)
{
    real()->easy_reset(curl);
}

/* The number of an option says of which type its value is. */
CURLcode curl_easy_setopt(CURL *curl, CURLoption option, ...)
{
    CURLcode code = CURLE_OK;
    va_list list;

    va_start(list, option);
    /* NOLINTNEXTLINE(bugprone-branch-clone): the types have one size only on some machines. */
    if (option < CURLOPTTYPE_OBJECTPOINT) {
        code = real()->easy_setopt(curl, option, va_arg(list, long));
    } else if (option >= CURLOPTTYPE_OFF_T && option < CURLOPTTYPE_BLOB) {
        code = real()->easy_setopt(curl, option, va_arg(list, curl_off_t));
    } else {
        code = real()->easy_setopt(curl, option, va_arg(list, void *));
    }
    va_end(list);
    return code;
}

CURLcode curl_easy_getinfo(CURL *curl, CURLINFO info, ...)
{
    va_list list;

    va_start(list, info);

    CURLcode code = real()->easy_getinfo(curl, info, va_arg(list, void *));

    va_end(list);
    return code;
}

CURLHcode curl_easy_header(CURL *easy, const char *name, size_t index, unsigned int origin,
                           int request, struct curl_header **hout)
{
    return real()->easy_header(easy, name, index, origin, request, hout);
}

CURLcode curl_easy_perform(CURL *curl)
{
    return real()->easy_perform(curl);
}

const char *curl_easy_strerror(CURLcode code)
{
    return real()->easy_strerror(code);
}

/* ---- Many transfers ---- */

CURLM *curl_multi_init(void)
{
    return real()->multi_init();
}

CURLMcode curl_multi_cleanup(CURLM *multi_handle)
{
    return real()->multi_cleanup(multi_handle);
}

CURLMcode curl_multi_setopt(CURLM *multi_handle, CURLMoption option, ...)
{
    int number = (int)option;
    CURLMcode code = CURLM_OK;
    va_list list;

    va_start(list, option);
    /* NOLINTNEXTLINE(bugprone-branch-clone): as above. */
    if (number < CURLOPTTYPE_OBJECTPOINT) {
        code = real()->multi_setopt(multi_handle, option, va_arg(list, long));
    } else if (number >= CURLOPTTYPE_OFF_T) {
        code = real()->multi_setopt(multi_handle, option, va_arg(list, curl_off_t));
    } else {
        code = real()->multi_setopt(multi_handle, option, va_arg(list, void *));
    }
    va_end(list);
    return code;
}

CURLMcode curl_multi_add_handle(CURLM *multi_handle, CURL *curl_handle)
{
    return real()->multi_add_handle(multi_handle, curl_handle);
}

CURLMcode curl_multi_remove_handle(CURLM *multi_handle, CURL *curl_handle)
{
    return real()->multi_remove_handle(multi_handle, curl_handle);
}

CURLMcode curl_multi_perform(CURLM *multi_handle, int *running_handles)
{
    return real()->multi_perform(multi_handle, running_handles);
}

CURLMcode curl_multi_poll(CURLM *multi_handle, struct curl_waitfd extra_fds[],
                          unsigned int extra_nfds, int timeout_ms, int *ret)
{
    return real()->multi_poll(multi_handle, extra_fds, extra_nfds, timeout_ms, ret);
}

CURLMsg *curl_multi_info_read(CURLM *multi_handle, int *msgs_in_queue)
{
    return real()->multi_info_read(multi_handle, msgs_in_queue);
}

/* ---- Lists of headers ---- */

struct curl_slist *curl_slist_append(struct curl_slist *list, const char *data)
{
    return real()->slist_append(list, data);
}

void curl_slist_free_all(struct curl_slist *list)
{
    if (list) { /* Without one there was perhaps no request. */
        real()->slist_free_all(list);
    }
}

/* ---- Text ---- */

time_t curl_getdate(const char *p, const time_t *unused)
{
    return real()->getdate(p, unused);
}
