/* Requests of other clients: those of ZooKeeper's REST gateway, those that add a type to each body,
 * and the limits that docs/from-zookeeper.md names. */
#include "tests/lib/unit.h"
#include "tests/proc/shell.h"
#include "tests/proc/talk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    NAME_MAX_BYTES = 4096, /* Of one component of a path. */
    IDENTITIES_MAX = 16
};

#define OCTET "Accept: application/octet-stream"
#define JSON  "Accept: application/json"
#define TYPED "Content-Type: application/json"

static struct ensemble ensemble;

static void open_all(void)
{
    ensemble_launch(&ensemble, 1, NULL);
    shell_open(&ensemble);
}

static void close_all(void)
{
    ensemble_close(&ensemble);
}

struct exchange {
    const char *method;
    const char *path;
    const char *headers; /* Additional lines, or NULL. */
    const char *body;    /* Or NULL. */
    long status;
    const char *has; /* Text in the answer's body, or NULL. */
};

static void run(const struct exchange *exchange)
{
    const struct web_call call = {.method = exchange->method,
                                  .port = ensemble.replicas[0].client_port,
                                  .path = exchange->path,
                                  .headers = exchange->headers,
                                  .body = exchange->body};
    long status = web_do(ensemble.web, &call, &ensemble.reply);

    if (status != exchange->status ||
        (exchange->has && !strstr(web_text(&ensemble.reply), exchange->has))) {
        fail_msg("%s %s: %ld, expected %ld %s\n%s", exchange->method, exchange->path, status,
                 exchange->status, exchange->has ? exchange->has : "", web_text(&ensemble.reply));
    }
}

#define RUN(exchanges)                                                        \
    for (size_t i = 0; i < sizeof(exchanges) / sizeof((exchanges)[0]); i++) { \
        run(&(exchanges)[i]);                                                 \
    }

/* ---- The REST gateway of ZooKeeper ---- */

/* The gateway's requests for JSON and for bytes, in its syntax. */
static const struct exchange gateway[] = {
    {"POST", "/znodes/v1/?op=create&name=gw", JSON, "one", 201, "\"path\":\"/gw\""},
    {"POST", "/znodes/v1/?op=create&name=gw", JSON, "one", 409, "already exists"},
    {"POST", "/znodes/v1/gw?name=c-&sequence=true", JSON, NULL, 201, "/gw/c-0000000000"},
    {"POST", "/znodes/v1/gw?op=create&name=b&dataformat=utf8", OCTET, "two", 201, NULL},
    {"POST", "/znodes/v1/none?op=create&name=x", JSON, "", 404, NULL},
    {"HEAD", "/znodes/v1/gw", JSON, NULL, 200, NULL},
    {"HEAD", "/znodes/v1/gw", OCTET, NULL, 204, NULL},
    {"HEAD", "/znodes/v1/none", JSON, NULL, 404, NULL},
    {"GET", "/znodes/v1/gw", JSON, NULL, 200, "\"data64\":\"b25l\""},
    {"GET", "/znodes/v1/gw?dataformat=utf8", JSON, NULL, 200, "\"dataUtf8\":\"one\""},
    {"GET", "/znodes/v1/gw?view=data", OCTET, NULL, 200, "one"},
    {"GET", "/znodes/v1/gw?view=children", JSON, NULL, 200, "\"children\":[\"b\",\"c-"},
    {"GET", "/znodes/v1/none", JSON, NULL, 404, "not found"},
    {"PUT", "/znodes/v1/gw?version=-1&dataformat=utf8", JSON, "three", 200, "\"version\":1"},
    {"PUT", "/znodes/v1/gw?version=0", JSON, "x", 412, "bad version"},
    {"PUT", "/znodes/v1/gw?null=true", OCTET, NULL, 204, NULL},
    {"GET", "/znodes/v1/gw", OCTET, NULL, 204, NULL},
    {"DELETE", "/znodes/v1/gw", JSON, NULL, 409, "not empty"},
    {"DELETE", "/znodes/v1/gw/b?version=7", JSON, NULL, 412, NULL},
    {"DELETE", "/znodes/v1/gw/b", JSON, NULL, 204, NULL},
    {"DELETE", "/znodes/v1/gw/b", JSON, NULL, 404, NULL},
};

/* Requests that only the gateway supports. */
static const struct exchange elsewhere[] = {
    {"GET", "/znodes/v1/gw", "Accept: application/xml", NULL, 406, NULL},
    {"GET", "/znodes/v1/gw", "Accept: application/javascript", NULL, 406, NULL},
    {"GET", "/znodes/v1/gw?callback=f", JSON, NULL, 406, "JSONP"},
    {"GET", "/application.wadl", NULL, NULL, 404, NULL},
    {"POST", "/znodes/v1/gw?name=e&ephemeral=true", JSON, "", 401, "needs a session"},
    {"GET", "/znodes/v1/gw?view=everything", JSON, NULL, 400, NULL},
    {"GET", "/znodes/v1/gw?colour=red", JSON, NULL, 400, "colour"},
    {"POST", "/sessions/v1/?op=create&expire=1", JSON, NULL, 201, "\"timeout_ms\":2000"},
};

TEST_GROUP(open_all, close_all)

TEST(the_gateways_clients_work)
{
    char secret[64];
    char url[128];
    const char *id = NULL;

    RUN(gateway);
    run(&(struct exchange){"POST", "/sessions/v1/?op=create&expire=30", JSON, NULL, 201, "\"id\""});
    id = strstr(web_text(&ensemble.reply), "\"id\":\"");
    assert_non_null(id);
    (void)snprintf(secret, sizeof(secret), "%.36s", id + strlen("\"id\":\""));
    (void)snprintf(url, sizeof(url), "/znodes/v1/gw?name=e&ephemeral=true&session=%s", secret);
    run(&(struct exchange){"POST", url, JSON, "", 201, "/gw/e"});
    (void)snprintf(url, sizeof(url), "/sessions/v1/%s", secret);
    run(&(struct exchange){"PUT", url, JSON, NULL, 200, NULL});
    run(&(struct exchange){"DELETE", url, JSON, NULL, 204, NULL});
    run(&(struct exchange){"DELETE", url, JSON, NULL, 204, NULL});
    run(&(struct exchange){"GET", "/znodes/v1/gw/e", JSON, NULL, 404, NULL});
    run(&(struct exchange){"PUT", url, JSON, NULL, 404, "SessionExpired"});
    RUN(elsewhere);
}

/* ---- Types that clients add ---- */

/* Each client with its defaults, without an explicit type of the body. */
TEST(clients_write_data_with_their_defaults)
{
    assert_int_equal(shell("%s", "zabra create /asis"), 0);
    shell_expect("curl -sS -X PUT -d 'a=1&b' http://${ZABRA_ENDPOINTS}/znodes/v1/asis", 0, "asis");
    shell_expect("zabra get /asis", 0, "a=1&b");
    shell_expect("printf 'x\\0y\\n' | curl -sS --data-binary @- "
                 "\"http://${ZABRA_ENDPOINTS}/znodes/v1/asis?op=create&name=curl\" && "
                 "zabra get /asis/curl | od -An -c",
                 0, "x  \\0   y  \\n");
    shell_expect("curl -sS -d '{\"ops\":[{\"op\":\"set\",\"path\":\"/asis\",\"dataUtf8\":\"m\"}]}' "
                 "http://${ZABRA_ENDPOINTS}/multi/v1 && zabra get /asis",
                 0, "\"ok\":true");
    shell_expect("python3 -c 'import sys, urllib.request as r\n"
                 "r.urlopen(r.Request(sys.argv[1], b\"p\\x00%41+\", method=\"PUT\"))' "
                 "http://${ZABRA_ENDPOINTS}/znodes/v1/asis && zabra get /asis | od -An -c",
                 0, "p  \\0   %   4   1   +");
    shell_expect(
        "node=$(command -v node || ls " ZABRA_TOP "/tests/contract/node_modules/node-*/bin/node); "
        "if [ -x \"$node\" ]; then \"$node\" -e 'fetch(process.argv[1], {method: "
        "\"PUT\", body: \"f\\u00e9\"}).then((r) => process.exit(r.ok ? 0 : 1))' "
        "http://${ZABRA_ENDPOINTS}/znodes/v1/asis && zabra get /asis; else echo f\303\251; "
        "fi",
        0, "f\303\251");
}

/* ---- Limits ---- */

TEST(an_impossible_url_is_400_everywhere)
{
    static const struct exchange exchanges[] = {
        {"GET", "/ui/%00", NULL, NULL, 400, "control character"},
        {"GET", "/ui/%zz", NULL, NULL, 400, "percent escape"},
        {"GET", "/ui/%ff", NULL, NULL, 400, "UTF-8"},
        {"HEAD", "/ui/%00", NULL, NULL, 400, NULL},
        {"HEAD", "/znodes/v1/%00", NULL, NULL, 400, NULL},
    };

    RUN(exchanges);
    run(&(struct exchange){"HEAD", "/ui/%00", NULL, NULL, 400, NULL});
    assert_int_equal(strlen(web_text(&ensemble.reply)), 0);
}

TEST(a_name_has_at_most_4096_bytes)
{
    static const char create[] = "curl -sS -X POST -o $D/said -w '%%{http_code} ' "
                                 "\"http://${ZABRA_ENDPOINTS}/znodes/v1/?op=create&name=$(printf "
                                 "%%0%dd 0)\"; cat $D/said";

    assert_int_equal(shell(create, NAME_MAX_BYTES), 0);
    assert_non_null(strstr(shell_output, "201 "));
    assert_int_equal(shell(create, NAME_MAX_BYTES + 1), 0);
    assert_non_null(strstr(shell_output, "400 "));
    assert_non_null(strstr(shell_output, "longer than 4096 bytes"));
}

TEST(a_second_identity_of_a_user_is_added)
{
    struct socket *socket = talk_open(&ensemble, 0, NULL);
    char members[128];

    talk_ok(&ensemble, socket, "\"op\":\"auth\",\"scheme\":\"digest\",\"credential\":\"bob:a\"");
    talk_ok(&ensemble, socket, "\"op\":\"create\",\"path\":\"/of-a\",\"acl\":\"creator\"");
    talk_ok(&ensemble, socket, "\"op\":\"auth\",\"scheme\":\"digest\",\"credential\":\"bob:a\"");
    talk_ok(&ensemble, socket, "\"op\":\"auth\",\"scheme\":\"digest\",\"credential\":\"bob:b\"");
    talk_ok(&ensemble, socket, "\"op\":\"get\",\"path\":\"/of-a\"");
    talk_ok(&ensemble, socket, "\"op\":\"create\",\"path\":\"/of-both\",\"acl\":\"creator\"");
    socket_close(socket);
    shell_expect("for p in a b; do for z in of-a of-both; do curl -s -u bob:$p -o $D/said -w "
                 "'%{http_code} ' http://${ZABRA_ENDPOINTS}/znodes/v1/$z; done; done",
                 0, "200 200 403 200 ");
    socket = talk_open(&ensemble, 0, NULL);
    for (int i = 0; i < IDENTITIES_MAX; i++) {
        (void)snprintf(members, sizeof(members),
                       "\"op\":\"auth\",\"scheme\":\"digest\",\"credential\":\"u%d:p\"", i);
        talk_ok(&ensemble, socket, "%s", members);
    }
    assert_string_equal(
        talk_error(socket, "\"op\":\"auth\",\"scheme\":\"digest\",\"credential\":\"bob:a\""),
        "BadArguments");
    socket_close(socket);
}

/* The syntax of all elements is checked before the tree. */
TEST(errors_of_a_multi_have_an_order)
{
    static const struct exchange exchanges[] = {
        {"POST", "/multi/v1", TYPED,
         "{\"ops\":[{\"op\":\"delete\",\"path\":\"/none\"},{\"op\":\"create\",\"path\":\"bad\"}]}",
         400, "\"op_index\":1"},
        {"POST", "/multi/v1", TYPED,
         "{\"ops\":[{\"op\":\"delete\",\"path\":\"/none\"},{\"op\":\"nonsense\"}]}", 400,
         "\"op_index\":1"},
        {"POST", "/multi/v1", TYPED "\nZk-Session: 01234567-89ab-4cde-8f01-23456789abcd",
         "{\"ops\":[{\"op\":\"delete\",\"path\":\"/none\"},{\"op\":\"delete\",\"path\":\"/no\"}]}",
         401, "SessionExpired"},
        {"POST", "/multi/v1", TYPED,
         "{\"ops\":[{\"op\":\"create\",\"path\":\"/k\"},{\"op\":\"set\",\"path\":\"/none\","
         "\"dataUtf8\":\"\"},{\"op\":\"create\",\"path\":\"/e\",\"ephemeral\":true}]}",
         404, "\"op_index\":1"},
    };

    RUN(exchanges);
    assert_non_null(strstr(web_text(&ensemble.reply), "{\"op\":\"create\",\"ok\":true"));
    assert_non_null(strstr(web_text(&ensemble.reply), "RuntimeInconsistency"));
    run(&(struct exchange){"GET", "/znodes/v1/k", NULL, NULL, 404, NULL});
}
