/*
 * What causes the load: `GET /top/v1`, clients with the most watches, and `zabra top`. The rows
 * that a client may see; names that are long, strange or many; a replica that does not answer.
 */
#include "tests/lib/unit.h"
#include "tests/proc/shell.h"
#include "tests/proc/socket.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define ALICE   "Authorization: Basic YWxpY2U6cHc="     /* alice:pw */
#define BOB     "Authorization: Basic Ym9iOnB3"         /* bob:pw */
#define ROOT    "Authorization: Basic c3VwZXI6cm9vdA==" /* super:root */
/* bob:pw may do everything, others nothing. */
#define FOR_BOB "Zk-Acl: digest:bob:ikIaKsbtGweaHnb/jKn7OHqbunM=:cdrwa"

enum {
    READS = 300,
    MANY = 400,
    PATH_BYTES = 600,
    PATIENCE_MS = 15000
};

static struct ensemble ensemble;

static void open_all(void)
{
    ensemble_launch(&ensemble, 3, ENSEMBLE_SUPER);
    shell_open(&ensemble);
    assert_int_equal(shell("umask 077; echo root >$D/root; echo pw >$D/pw"), 0);
}

static void close_all(void)
{
    ensemble_close(&ensemble);
}

static long call(uint32_t index, const char *method, const char *path, const char *headers)
{
    return web_do(ensemble.web,
                  &(struct web_call){.method = method,
                                     .port = ensemble.replicas[index].client_port,
                                     .path = path,
                                     .headers = headers,
                                     .body = strcmp(method, "PUT") == 0 ? "x" : NULL},
                  &ensemble.reply);
}

static json_t *top_of(uint32_t index, const char *headers)
{
    assert_int_equal(call(index, "GET", "/top/v1", headers), 200);

    json_t *top = web_json(&ensemble.reply);

    assert_non_null(top);
    return top;
}

/* Returns the row of a list whose `member` is this text; NULL: there is none. */
static const json_t *row_of(const json_t *top, const char *list, const char *member,
                            const char *text)
{
    size_t at = 0;
    const json_t *row = NULL;

    json_array_foreach(json_object_get(top, list), at, row)
    {
        const char *has = json_string_value(json_object_get(row, member));

        if (has && strcmp(has, text) == 0) {
            return row;
        }
    }
    return NULL;
}

static bool shows(uint32_t index, const char *headers, const char *list, const char *member,
                  const char *text)
{
    json_t *top = top_of(index, headers);
    bool found = row_of(top, list, member, text) != NULL;

    json_decref(top);
    return found;
}

static json_int_t number(const json_t *row, const char *member)
{
    return json_integer_value(json_object_get(row, member));
}

TEST_GROUP(open_all, close_all)

TEST(requests_count_at_the_replica_that_took_them)
{
    assert_int_equal(call(1, "PUT", "/znodes/v1/hot/spot/a?upsert=true&parents=true", ALICE), 201);
    for (int i = 0; i < READS; i++) {
        (void)call(1, "GET", "/znodes/v1/hot/spot/a", ALICE);
    }
    json_t *top = top_of(1, ROOT);
    const json_t *row = row_of(top, "prefixes", "path", "/hot/spot/a");

    assert_non_null(row);
    assert_true(number(row, "reads") + number(row, "error") >= READS * 9 / 10); /* A window may
                                                                                   have ended. */
    assert_true(number(row, "reads") <= READS);
    assert_non_null(row_of(top, "prefixes", "path", "/hot"));
    assert_non_null(row_of(top, "clients", "identity", "digest:alice"));
    assert_true(json_is_true(json_object_get(top, "complete")));
    assert_true(number(top, "window_ms") > 0 && number(top, "window_ms") <= 20000);
    assert_true(number(top, "requests") >= READS * 9 / 10);
    json_decref(top);
    assert_false(shows(2, ROOT, "prefixes", "path", "/hot"));
}

/* Paths of znodes that a client may not list, of znodes that do not exist, and other clients. */
TEST(clients_see_only_what_they_may)
{
    assert_int_equal(call(0, "PUT", "/znodes/v1/closed?upsert=true", BOB "\n" FOR_BOB), 201);
    assert_int_equal(call(0, "PUT", "/znodes/v1/closed/secret?upsert=true", BOB), 201);
    assert_int_equal(call(0, "GET", "/znodes/v1/a-token-by-mistake", BOB), 404);

    assert_true(shows(0, ROOT, "prefixes", "path", "/closed/secret"));
    assert_true(shows(0, ROOT, "prefixes", "path", "/a-token-by-mistake"));
    assert_true(shows(0, ROOT, "clients", "identity", "digest:bob"));
    assert_true(shows(0, BOB, "prefixes", "path", "/closed/secret"));
    assert_false(shows(0, BOB, "prefixes", "path", "/a-token-by-mistake"));
    assert_true(shows(0, BOB, "clients", "identity", "digest:bob"));
    assert_true(shows(0, ALICE, "prefixes", "path", "/closed")); /* A child of "/". */
    assert_false(shows(0, ALICE, "prefixes", "path", "/closed/secret"));
    assert_false(shows(0, ALICE, "clients", "identity", "digest:bob"));
    assert_false(shows(0, "", "prefixes", "path", "/closed/secret"));
    assert_false(shows(0, "", "clients", "identity", "digest:bob"));
    /* The user's name alone does not help. */
    assert_false(shows(0, "Authorization: Basic Ym9iOm5v", "prefixes", "path", "/closed/secret"));

    json_t *top = top_of(0, ALICE);

    assert_true(json_is_false(json_object_get(top, "complete")));
    json_decref(top);
    assert_null(strstr(web_text(&ensemble.reply), "ikIaKsbt")); /* No hashes. */
    shell_expect("zabra top --once", 0, "not all rows are shown");
    shell_expect("zabra top --once --user super --password-file $D/root", 0, "/closed/secret");
}

/* Many names, long ones, quotes and control characters: the answer stays small and valid, and the
 * hot prefix stays in it. */
TEST(hostile_names_hide_nothing)
{
    char path[PATH_BYTES];

    for (int i = 0; i < MANY; i++) {
        (void)snprintf(path, sizeof(path), "/znodes/v1/x%d/%%22%%5c%d/z", i, i);
        (void)call(2, "GET", path, "");
        (void)call(2, "GET", "/znodes/v1/busy/one", "");
        if (i % 50 == 0) {
            int len = snprintf(path, sizeof(path), "/znodes/v1/");

            memset(path + len, 'l', 400);
            path[len + 400] = '\0';
            (void)call(2, "GET", path, "");
        }
    }
    json_t *top = top_of(2, ROOT);

    assert_true(json_array_size(json_object_get(top, "prefixes")) <= 192);
    assert_true(json_array_size(json_object_get(top, "clients")) <= 64);
    const json_t *row = row_of(top, "prefixes", "path", "/busy/one");

    assert_non_null(row);
    assert_true(number(row, "reads") + number(row, "error") >= MANY / 2);
    assert_true(number(row, "error") <= number(top, "requests") / 64 * 2);
    json_decref(top);
    assert_int_equal(call(2, "GET", "/top/v1?limit=1", ""), 400); /* It has no parameters. */
    assert_int_equal(call(2, "POST", "/top/v1", ROOT), 405);
}

TEST(clients_with_the_most_watches_come_first)
{
    struct socket *sockets[3];

    for (int i = 0; i < 3; i++) {
        sockets[i] = socket_open(ensemble.replicas[0].client_port, &(struct socket_options){0});
        assert_int_equal(socket_status(sockets[i]), 101);
        for (int j = 0; j < (i == 1 ? 7 : i + 1); j++) {
            json_decref(socket_call(sockets[i], "\"op\":\"watch\",\"path\":\"/w%d\"", j));
        }
    }
    assert_int_equal(call(0, "GET", "/watches/v1?clients=true&limit=2", ROOT), 200);
    json_t *list = web_json(&ensemble.reply);
    const json_t *clients = json_object_get(list, "clients");

    assert_int_equal(json_array_size(clients), 2);
    assert_int_equal(number(json_array_get(clients, 0), "watches"), 7);
    assert_int_equal(number(json_array_get(clients, 1), "watches"), 3);
    assert_true(json_is_true(json_object_get(list, "truncated")));
    json_decref(list);
    shell_expect("zabra top --once -o json | jq -c '.watchers[0].watches, (.watchers | length)'", 0,
                 "7\n3\n");
    shell_expect("zabra top --once -n 1 -o json | jq -c '.watchers | length'", 0, "1\n");
    for (int i = 0; i < 3; i++) {
        socket_close(sockets[i]);
    }
}

/* The most telling prefix is shown, not those above it; replicas that do not answer are named, and
 * cost the time of one request. */
TEST(the_command_adds_up_the_replicas)
{
    for (int i = 0; i < READS; i++) {
        (void)call((uint32_t)i % 3, "GET", "/znodes/v1/sum/of/all/replicas", ALICE);
    }
    assert_int_equal(shell("zabra top --once -n 64 -o json --user super --password-file $D/root "
                           ">$D/top.json"),
                     0);
    shell_expect("jq -r '.prefixes[].path' $D/top.json | grep -x /sum/of/all", 0, "/sum/of/all\n");
    shell_expect("jq -r '.prefixes[].path' $D/top.json | grep -cx /sum/of", 1, "0\n");
    shell_expect("jq '.replicas | length, ([.[].id] | add)' $D/top.json", 0, "3\n6\n");
    shell_expect("jq '[.clients[] | select(.identity == \"digest:alice\")] | length' $D/top.json",
                 0, "1\n");

    ensemble_signal(&ensemble, 2, SIGSTOP);
    shell_expect("zabra top --once --timeout 1s", 0, "Busiest prefixes");
    shell_expect("zabra top --once --timeout 1s -o json | jq '.errors | length'", 0, "1\n");
    ensemble_signal(&ensemble, 2, SIGCONT);
    shell_expect("zabra top --once --endpoints 127.0.0.1:1", 6, "");
}

/* On a terminal the report is drawn again; with -o ndjson each is a line. */
TEST(the_report_is_live_until_a_signal)
{
    shell_expect("zabra top -o ndjson -i 500ms | head -n 2 | jq -s length", 0, "2\n");
    shell_expect("timeout -s INT 3 script -qec 'zabra top -i 500ms' /dev/null </dev/null | "
                 "grep -c Busiest.prefixes | grep -vx 1",
                 0, "");
    shell_expect("(sleep 1; echo) | timeout -s INT 2 zabra top -o ndjson -i 1h; test $? -ge 124", 0,
                 "\"prefixes\"");
    shell_expect("zabra top -i 1ms", 2, "interval");
    shell_expect("zabra top x", 2, "unexpected argument");
    shell_expect("zabra top --curl", 0, "/top/v1'");
}
