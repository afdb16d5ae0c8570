/* Libraries that only some commands need: what is said when one is missing, or too old. */
#include "cli/libcurl.h"
#include "cli/library.h"
#include "tests/lib/unit.h"

#include <curl/curl.h>
#include <string.h>

static size_t (*found_length)(const char *text);

static const struct library_symbol symbols[] = {{"strlen", (void *)&found_length}, {NULL, NULL}};

TEST(the_functions_of_a_library_are_found)
{
    char error[LIBRARY_ERROR_MAX] = "";

    assert_true(library_load("libc.so.6", "libc6", symbols, error));
    assert_string_equal(error, "");
    assert_int_equal(found_length("four"), 4);
}

TEST(a_missing_library_names_its_package)
{
    char error[LIBRARY_ERROR_MAX] = "";

    assert_false(library_load("libnone-of-this.so.4", "libnone4", symbols, error));
    assert_non_null(strstr(error, "libnone-of-this.so.4 cannot be loaded"));
    assert_non_null(strstr(error, "install the package libnone4"));
}

TEST(a_library_that_lacks_a_function_is_refused)
{
    static const struct library_symbol none[] = {{"no_such_function", (void *)&found_length},
                                                 {NULL, NULL}};
    char error[LIBRARY_ERROR_MAX] = "";

    found_length = NULL;
    assert_false(library_load("libc.so.6", "libc6", none, error));
    assert_non_null(strstr(error, "no_such_function"));
    assert_non_null(strstr(error, "install the package libc6"));
    assert_null(found_length);
}

TEST(libcurl_is_loaded_once)
{
    assert_null(libcurl_load());
    assert_null(libcurl_load());
    assert_int_equal(curl_getdate("Thu, 01 Jan 1970 00:00:10 GMT", NULL), 10);
}

/* The number of an option says of which type its value is. */
TEST(options_of_each_type_arrive)
{
    CURL *easy = NULL;
    CURLM *multi = NULL;
    char *url = NULL;
    void *private = NULL;
    int mark = 0;

    assert_int_equal(curl_global_init(CURL_GLOBAL_DEFAULT), CURLE_OK);
    easy = curl_easy_init();
    multi = curl_multi_init();
    assert_non_null(easy);
    assert_non_null(multi);
    assert_int_equal(curl_easy_setopt(easy, CURLOPT_URL, "http://127.0.0.1:9/x"), CURLE_OK);
    assert_int_equal(curl_easy_setopt(easy, CURLOPT_PRIVATE, (void *)&mark), CURLE_OK);
    assert_int_equal(curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, 5L), CURLE_OK);
    assert_int_equal(curl_easy_setopt(easy, CURLOPT_MAXREDIRS, -2L), CURLE_BAD_FUNCTION_ARGUMENT);
    assert_int_equal(curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)1 << 40),
                     CURLE_OK);
    assert_int_equal(curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)-2),
                     CURLE_BAD_FUNCTION_ARGUMENT);
    assert_int_equal(curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, 3L), CURLM_OK);
    assert_int_equal(curl_easy_getinfo(easy, CURLINFO_EFFECTIVE_URL, &url), CURLE_OK);
    assert_string_equal(url, "http://127.0.0.1:9/x");
    assert_int_equal(curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&private), CURLE_OK);
    assert_ptr_equal(private, &mark);
    curl_easy_cleanup(easy);
    assert_int_equal(curl_multi_cleanup(multi), CURLM_OK);
}
