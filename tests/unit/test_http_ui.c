/* The dashboard's files, from the binary and from a directory: headers, representations, refusals.
 */
#include "web/assets.h"

#include "tests/unit/http_front.h"

#include <stdlib.h>
#include <sys/stat.h>

static char site[64];

static void start(const char *web_dir)
{
    gate = kit_gate_new();
    (void)snprintf(gate->limits.web_dir, sizeof(gate->limits.web_dir), "%s", web_dir);
    front_start();
}

static void setup(void)
{
    start("");
}

static void put(const char *path, const char *text)
{
    char name[256];

    (void)snprintf(name, sizeof(name), "%s/%s", site, path);

    FILE *file = fopen(name, "we");

    assert_non_null(file);
    (void)fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void setup_site(void)
{
    char assets[256];

    (void)snprintf(site, sizeof(site), "/tmp/zabra-ui-XXXXXX");
    assert_non_null(mkdtemp(site));
    (void)snprintf(assets, sizeof(assets), "%s/assets", site);
    assert_int_equal(mkdir(assets, 0700), 0);
    put("index.html", "<!doctype html>");
    put("assets/main.js", "let a;");
    put("secret", "secret");
    start(site);
}

static void teardown_site(void)
{
    const char *names[] = {"assets/main.js", "assets", "index.html", "secret", ""};

    front_teardown();
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char name[256];

        (void)snprintf(name, sizeof(name), "%s/%s", site, names[i]);
        assert_int_equal(remove(name), 0);
    }
}

static int status_of(const char *method, const char *target, const char *headers)
{
    struct kit_answer answer = kit_ask(port, method, target, headers, NULL);
    int status = answer.status;

    kit_free(&answer);
    return status;
}

static void assert_header(const struct kit_answer *answer, const char *name, const char *value)
{
    const char *given = kit_header(answer, name);

    if (!value) {
        assert_null(given);
        return;
    }
    assert_non_null(given);
    assert_string_equal(given, value);
}

static void a_build_without_it_says_so(void)
{
    struct kit_answer answer = kit_ask(port, "GET", "/ui/", "", NULL);

    assert_int_equal(answer.status, 404);
    assert_true(kit_body_has(&answer, "built without the dashboard"));
    kit_free(&answer);
}

TEST(the_page_has_many_urls, setup, front_teardown)
{
    const char *urls[] = {"/ui",
                          "/ui/",
                          "/ui/tree",
                          "/ui/tree/app/config?tab=data",
                          "/ui/tree/app/v1.2.js",
                          "/ui/overview?a=1&a=2&callback=x"};

    if (!asset_find(slice_str(ASSET_PAGE))) {
        a_build_without_it_says_so();
        return;
    }
    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
        struct kit_answer answer = kit_ask(port, "GET", urls[i], "", NULL);

        assert_int_equal(answer.status, 200);
        assert_true(kit_body_has(&answer, "<!doctype html>"));
        assert_header(&answer, "Content-Type", "text/html; charset=utf-8");
        assert_header(&answer, "Content-Encoding", NULL);
        assert_header(&answer, "Cache-Control", "no-cache");
        kit_free(&answer);
    }
    assert_int_equal(status_of("HEAD", "/ui/", ""), 200);
    assert_int_equal(status_of("OPTIONS", "/ui/", ""), 204);
    assert_int_equal(status_of("PUT", "/ui/", ""), 405);
    assert_int_equal(status_of("GET", "/ui/%2e%2e/livez", ""), 200); /* The page again. */
    assert_int_equal(status_of("GET", "/ui/%2", ""), 400);
    assert_int_equal(status_of("GET", "/uix", ""), 404);
    assert_int_equal(status_of("GET", "/ui/assets/none.js", ""), 404);
}

static void assert_locked_down(const char *url)
{
    struct kit_answer answer = kit_ask(port, "GET", url, "", NULL);

    assert_int_equal(answer.status, 200);
    assert_header(&answer, "Content-Security-Policy",
                  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
                  "connect-src 'self' http://127.0.0.1:9998 ws://127.0.0.1:9998 "
                  "http://two.test:9998 ws://two.test:9998; base-uri 'none'; form-action 'none'; "
                  "frame-ancestors 'none'; require-trusted-types-for 'script'");
    assert_header(&answer, "X-Content-Type-Options", "nosniff");
    assert_header(&answer, "Referrer-Policy", "no-referrer");
    assert_header(&answer, "Cross-Origin-Opener-Policy", "same-origin");
    kit_free(&answer);
}

TEST(pages_have_a_strict_content_policy, setup, front_teardown)
{
    if (asset_find(slice_str(ASSET_PAGE))) {
        assert_locked_down("/ui/");
        assert_locked_down("/ui/docs/operating.html");
    }
}

TEST(the_documentation_is_served, setup, front_teardown)
{
    if (!asset_find(slice_str(ASSET_PAGE))) {
        return;
    }

    struct kit_answer answer = kit_ask(port, "GET", "/ui/docs/recipes/lock.html", "", NULL);

    assert_int_equal(answer.status, 200);
    assert_true(kit_body_has(&answer, "Lock without herd effect"));
    assert_header(&answer, "Content-Type", "text/html; charset=utf-8");
    assert_header(&answer, "Cache-Control", "no-cache");
    kit_free(&answer);
    assert_int_equal(status_of("GET", "/ui/docs/none.html", ""), 404);
    assert_int_equal(status_of("GET", "/ui/docs/", ""), 200); /* Its first page. */
    assert_int_equal(status_of("GET", "/ui/docs", ""), 200);  /* The page. */
}

/* The compressed and the plain form are two representations, each with its own tag. */
TEST(files_are_compressed_and_cacheable, setup, front_teardown)
{
    char known[256];

    if (!asset_find(slice_str(ASSET_PAGE))) {
        return;
    }

    struct kit_answer plain = kit_ask(port, "GET", "/ui/", "", NULL);
    struct kit_answer gzip = kit_ask(port, "GET", "/ui/", "Accept-Encoding: br, gzip\r\n", NULL);

    assert_header(&gzip, "Content-Encoding", "gzip");
    assert_header(&gzip, "Vary", "Accept-Encoding, Origin");
    assert_true(gzip.body_len < plain.body_len);
    assert_int_equal(gzip.body[0], 0x1f);
    assert_int_equal(gzip.body[1], 0x8b);
    (void)snprintf(known, sizeof(known), "If-None-Match: %s\r\n", kit_header(&plain, "ETag"));
    assert_int_equal(status_of("GET", "/ui/other", known), 304);
    (void)snprintf(known, sizeof(known), "Accept-Encoding: gzip\r\nIf-None-Match: %s\r\n",
                   kit_header(&plain, "ETag"));
    assert_int_equal(status_of("GET", "/ui/", known), 200);

    const char *script = strstr((const char *)plain.body, "/ui/assets/main-");
    char target[256];

    assert_non_null(script);
    (void)snprintf(target, sizeof(target), "%.*s", (int)strcspn(script, "\""), script);

    struct kit_answer asset = kit_ask(port, "GET", target, "", NULL);

    assert_int_equal(asset.status, 200);
    assert_header(&asset, "Cache-Control", "public, max-age=31536000, immutable");
    assert_header(&asset, "X-Content-Type-Options", "nosniff");
    assert_header(&asset, "Content-Security-Policy", NULL);
    kit_free(&plain);
    kit_free(&gzip);
    kit_free(&asset);
}

TEST(a_directory_replaces_the_built_in_files, setup_site, teardown_site)
{
    char known[256];

    struct kit_answer page = kit_ask(port, "GET", "/ui/tree/secret", "", NULL);
    struct kit_answer script =
        kit_ask(port, "GET", "/ui/assets/main.js", "Accept-Encoding: gzip\r\n", NULL);

    assert_string_equal((const char *)page.body, "<!doctype html>");
    assert_header(&page, "Content-Type", "text/html; charset=utf-8");
    assert_non_null(kit_header(&page, "Content-Security-Policy"));
    assert_string_equal((const char *)script.body, "let a;");
    assert_header(&script, "Content-Type", "text/javascript; charset=utf-8");
    assert_header(&script, "Cache-Control", "no-cache"); /* The file will change. */
    assert_header(&script, "Content-Encoding", NULL);
    (void)snprintf(known, sizeof(known), "If-None-Match: %s\r\n", kit_header(&script, "ETag"));
    assert_int_equal(status_of("GET", "/ui/assets/main.js", known), 304);
    put("assets/main.js", "let b;");
    assert_int_equal(status_of("GET", "/ui/assets/main.js", known), 200);
    assert_int_equal(status_of("GET", "/ui/assets/none.js", ""), 404);
    assert_int_equal(status_of("GET", "/ui/assets/../secret", ""), 404);
    assert_int_equal(status_of("GET", "/ui/assets/%2e%2e/secret", ""), 404);
    kit_free(&page);
    kit_free(&script);
}
