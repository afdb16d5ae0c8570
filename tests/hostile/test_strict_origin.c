/* Requests that a page of another origin makes a browser send. The type of a body is no defence:
 * what an HTML form sends needs no preflight, and data of any type is stored. */
#include "tests/lib/unit.h"
#include "tests/proc/ensemble.h"

#include <stdio.h>
#include <string.h>

static struct ensemble ensemble;

static void setup(void)
{
    ensemble_launch(&ensemble, 1, NULL);
}

static void close_all(void)
{
    ensemble_close(&ensemble);
}

TEST_GROUP(setup, close_all)

/* What an HTML form, or a script without CORS, can send without a preflight: each type of body to
 * each resource that accepts POST, with the headers that browsers add for a page of another
 * origin. */
TEST(a_form_of_another_origin_writes_nothing)
{
    static const char *const types[] = {"application/x-www-form-urlencoded", "text/plain",
                                        "multipart/form-data; boundary=x"};
    static const char *const marks[] = {"Origin: http://evil.example", "Origin: null",
                                        "Origin: https://127.0.0.1",   "Sec-Fetch-Site: cross-site",
                                        "Sec-Fetch-Site: same-site",   "Host: evil.example"};
    static const char *const paths[] = {"/znodes/v1/?op=create&name=forged", "/multi/v1",
                                        "/import/v1", "/sync/v1",
                                        "/sessions/v1/?op=create&expire=60"};
    static const char body[] = "{\"ops\":[{\"op\":\"create\",\"path\":\"/forged\"}],\"x\":\"=\"}";
    char headers[128];

    for (size_t i = 0; i < 3 * 6 * 5; i++) {
        const struct web_call call = {.method = "POST",
                                      .port = ensemble.replicas[0].client_port,
                                      .path = paths[i / 18],
                                      .headers = headers,
                                      .body = body};
        long status = i % 6 == 5 ? 421 : 403;

        (void)snprintf(headers, sizeof(headers), "Content-Type: %s\n%s", types[i / 6 % 3],
                       marks[i % 6]);
        if (web_do(ensemble.web, &call, &ensemble.reply) != status) {
            fail_msg("%s %s: %s", call.path, headers, web_text(&ensemble.reply));
        }
    }
    assert_int_equal(ensemble_call(&ensemble, 0, "GET", "/znodes/v1/forged", NULL), 404);
}
