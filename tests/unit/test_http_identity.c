/* Clients without an identity, before a front end that requires one: closed mode. */
#include "base/mem.h"
#include "tests/unit/http_front.h"

#define BOB  "Authorization: Basic Ym9iOnB3\r\n"         /* bob:pw */
#define ROOT "Authorization: Basic c3VwZXI6cm9vdA==\r\n" /* super:root */

static void setup_closed(void)
{
    gate = kit_gate_new();
    (void)snprintf(gate->limits.super_digest, sizeof(gate->limits.super_digest),
                   "super:zUZ0bpqYS7FucDXsnUgxOWTto1s="); /* super:root */
    gate->limits.require_identity = true;
    front_start();
}

/* Returns the status; the head or the body must contain `has`. */
static int ask(const char *method, const char *target, const char *headers, const char *body,
               const char *has)
{
    struct kit_answer answer = kit_ask(port, method, target, headers, body);
    int status = answer.status;

    if (has && !kit_body_has(&answer, has) && !strstr(answer.head, has)) {
        fail_msg("%s %s: %d without %s: %s\n%s", method, target, status, has, answer.head,
                 (const char *)answer.body);
    }
    kit_free(&answer);
    return status;
}

static int get(const char *target, const char *headers)
{
    return ask("GET", target, headers, NULL, NULL);
}

TEST(without_an_identity_only_probes_are_answered, setup_closed, front_teardown)
{
    static const struct {
        const char *method;
        const char *target;
        int with; /* The status with an identity. */
    } rows[] = {
        {"GET", "/", 200},
        {"GET", "/metrics", 200},
        {"GET", "/openapi.json", 200},
        {"GET", "/znodes/v1/", 200},
        {"HEAD", "/znodes/v1/", 200},
        {"GET", "/znodes/v1/?view=children", 200},
        {"POST", "/znodes/v1/?name=a", 201},
        {"PUT", "/znodes/v1/a", 200},
        {"DELETE", "/znodes/v1/a", 204},
        {"GET", "/whoami/v1", 200},
        {"GET", "/status/v1", 200},
        {"GET", "/limits/v1", 200},
        {"HEAD", "/export/v1/", 200},
        {"POST", "/sessions/v1", 201},
        {"GET", "/no/such/place", 404},
        {"GET", "/ws/v1", 426},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *body = strcmp(rows[i].method, "P") > 0 ? "x" : NULL;

        if (strcmp(rows[i].target, "/sessions/v1") == 0) {
            body = NULL;
        }
        assert_int_equal(ask(rows[i].method, rows[i].target, "", body,
                             "WWW-Authenticate: Basic realm=\"zabra\""),
                         401);
        int status = ask(rows[i].method, rows[i].target, BOB, body, NULL);

        if (status != rows[i].with) {
            fail_msg("%s %s: %d", rows[i].method, rows[i].target, status);
        }
    }
    assert_int_equal(ask("GET", "/znodes/v1/", "", NULL, "\"code\":\"NoAuth\""), 401);
    assert_int_equal(ask("GET", "/znodes/v1/", "", NULL, "requireIdentity"), 401);
    assert_int_equal(get("/livez", ""), 200);
    assert_int_equal(get("/readyz", ""), 200);
    assert_int_equal(get("/znodes/v1/", ROOT), 200);
    /* Browsers ask without credentials whether they may send some. */
    assert_int_equal(ask("OPTIONS", "/znodes/v1/", "Origin: https://app.test\r\n", NULL, NULL),
                     204);
    assert_int_equal(ask("OPTIONS", "/status/v1", "", NULL, NULL), 204);
}

TEST(malformed_credentials_are_no_identity, setup_closed, front_teardown)
{
    assert_int_equal(ask("GET", "/znodes/v1/", "Authorization: Bearer x\r\n", NULL, "AuthFailed"),
                     401);
    assert_int_equal(ask("GET", "/", "Authorization: Basic Ym9i\r\n", NULL, "AuthFailed"), 401);
    assert_int_equal(ask("GET", "/metrics", "Authorization:\r\n", NULL, "AuthFailed"), 401);
    assert_int_equal(get("/livez", "Authorization: Bearer x\r\n"), 200);
}

/* An identity is of one request: the connection does not keep it. */
TEST(an_identity_opens_one_request, setup_closed, front_teardown)
{
    int fd = kit_connect(port);

    for (int i = 0; i < 4; i++) {
        struct kit_answer answer;

        kit_send(fd, "GET /znodes/v1/ HTTP/1.1\r\nHost: localhost\r\n");
        kit_send(fd, i % 2 == 0 ? BOB "\r\n" : "\r\n");
        answer = kit_read(fd, false);
        assert_int_equal(answer.status, i % 2 == 0 ? 200 : 401);
        kit_free(&answer);
    }
    close(fd);
}

/* The body of a refused request is not kept: a client without an identity can fill no memory. */
TEST(a_large_write_without_an_identity_is_refused, setup_closed, front_teardown)
{
    char *body = mem_alloc((1 << 20) + 1);

    memset(body, 'x', 1 << 20);
    body[1 << 20] = '\0';
    assert_int_equal(ask("PUT", "/znodes/v1/", "", body, "requireIdentity"), 401);
    mem_free(body);
}

TEST(a_session_is_no_identity, setup_closed, front_teardown)
{
    struct kit_answer answer = kit_ask(port, "POST", "/sessions/v1", BOB, NULL);
    char header[128];

    assert_int_equal(answer.status, 201);
    const char *id = strstr((const char *)answer.body, "\"id\":\"");

    assert_non_null(id);
    (void)snprintf(header, sizeof(header), "Zk-Session: %.36s\r\n", id + strlen("\"id\":\""));
    kit_free(&answer);
    assert_int_equal(get("/znodes/v1/", header), 401);
}

/* Connections over a limit are answered on another thread, if they ask for a probe. */
static void setup_capped(void)
{
    gate = kit_gate_new();
    gate->limits.require_identity = true;
    gate->limits.connections_per_address_max = 1;
    front_start();
}

TEST(metrics_over_a_limit_need_an_identity_too, setup_capped, front_teardown)
{
    int fd = kit_connect(port);
    struct kit_answer answer;

    kit_send(fd, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
    answer = kit_read(fd, false); /* This connection stays open: it is the one that is allowed. */
    assert_int_equal(answer.status, 200);
    kit_free(&answer);
    assert_int_equal(ask("GET", "/status/v1", BOB, NULL, "maxConnectionsPerAddress"), 429);
    assert_int_equal(get("/readyz", ""), 200);
    assert_int_equal(ask("GET", "/metrics", "", NULL, "WWW-Authenticate: Basic"), 401);
    assert_int_equal(get("/metrics", "Authorization: Bearer x\r\n"), 401);
    assert_int_equal(get("/metrics", BOB), 200);
    close(fd);
}
