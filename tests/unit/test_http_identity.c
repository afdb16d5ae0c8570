/* Clients without an identity, before a front end that requires one: closed mode. */
#include "http/route.h"
#include "tests/lib/ports.h"
#include "tests/unit/http_front.h"

#define BOB  KIT_BOB
#define ROOT KIT_ROOT

enum {
    BODY_BYTES = 200 << 10,
    LOOKS = 200 /* A millisecond apart. */
};

static void setup_closed(void)
{
    gate = kit_gate_new();
    kit_permit_root(&gate->limits);
    gate->limits.multi_bytes_max = 2 * BODY_BYTES;
    gate->limits.require_identity = true;
    front_start();
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
        assert_int_equal(front_expect(rows[i].method, rows[i].target, "", body,
                                      "WWW-Authenticate: Basic realm=\"zabra\""),
                         401);
        int status = front_expect(rows[i].method, rows[i].target, BOB, body, NULL);

        if (status != rows[i].with) {
            fail_msg("%s %s: %d", rows[i].method, rows[i].target, status);
        }
    }
    assert_int_equal(front_expect("GET", "/znodes/v1/", "", NULL, "\"code\":\"NoAuth\""), 401);
    assert_int_equal(front_expect("GET", "/znodes/v1/", "", NULL, "requireIdentity"), 401);
    assert_int_equal(front_get("/livez", ""), 200);
    assert_int_equal(front_get("/readyz", ""), 200);
    assert_int_equal(front_get("/znodes/v1/", ROOT), 200);
    /* Browsers ask without credentials whether they may send some. */
    assert_int_equal(
        front_expect("OPTIONS", "/znodes/v1/", "Origin: https://app.test\r\n", NULL, NULL), 204);
    assert_int_equal(front_expect("OPTIONS", "/status/v1", "", NULL, NULL), 204);
}

/* Whether clients without an identity may use the resource. */
static bool is_open(const struct http_route *route)
{
    return route->kind == HTTP_ROUTE_PROBE || route->kind == HTTP_ROUTE_UI;
}

static void expect_closed(const char *method, const char *target)
{
    int status = front_expect(method, target, "", NULL, "WWW-Authenticate: Basic realm=\"zabra\"");

    if (status != 401) {
        fail_msg("%s %s: %d", method, target, status);
    }
}

/* All resources that there are, with each of their methods. */
TEST(every_other_resource_is_closed, setup_closed, front_teardown)
{
    struct http_routes routes;
    uint32_t closed = 0;

    http_routes_init(&routes);
    for (uint32_t i = 0; i < routes.count; i++) {
        const struct http_route *route = &routes.items[i];
        char target[128];

        (void)snprintf(target, sizeof(target), "%.*s%s", (int)route->fixed_len, route->name,
                       route->has_path ? "/" : "");
        if (is_open(route)) {
            continue;
        }
        closed++;
        expect_closed("GET", target);
        expect_closed("POST", target);
        for (uint32_t k = 0; k < route->row_count; k++) {
            expect_closed(route->rows[k]->method, target);
        }
    }
    assert_true(closed > 15);
    assert_int_equal(front_get("/ui/", ""), 200);
    assert_int_equal(front_get("/livez", ""), 200);
    assert_int_equal(front_get("/readyz", ""), 200);
}

TEST(malformed_credentials_are_no_identity, setup_closed, front_teardown)
{
    assert_int_equal(
        front_expect("GET", "/znodes/v1/", "Authorization: Bearer x\r\n", NULL, "AuthFailed"), 401);
    assert_int_equal(front_expect("GET", "/", "Authorization: Basic Ym9i\r\n", NULL, "AuthFailed"),
                     401);
    assert_int_equal(front_expect("GET", "/metrics", "Authorization:\r\n", NULL, "AuthFailed"),
                     401);
    assert_int_equal(front_get("/livez", "Authorization: Bearer x\r\n"), 200);
}

/* An identity is of one request: the connection does not keep it. */
TEST(an_identity_opens_one_request, setup_closed, front_teardown)
{
    static const struct front_turn turns[] = {
        {BOB, 200, "\"path\":\"/\""},
        {"", 401, "requireIdentity"},
        {BOB, 200, "\"path\":\"/\""},
        {"", 401, "requireIdentity"},
    };

    front_take_turns("/znodes/v1/?view=stat", turns, sizeof(turns) / sizeof(turns[0]));
}

/* A body that is longer than what is read of a refused one: the answer comes at once. */
TEST(a_large_write_without_an_identity_is_refused_by_its_head, setup_closed, front_teardown)
{
    static const char *const heads[] = {
        "PUT /znodes/v1/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8388609\r\n\r\n",
        "POST /multi/v1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8388609\r\n\r\n",
        ("PUT /znodes/v1/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n"
         "Expect: 100-continue\r\n\r\n"),
    };

    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        int fd = kit_connect(port);
        struct kit_answer answer;

        kit_send(fd, heads[i]);
        answer = kit_read(fd, false);
        assert_int_equal(answer.status, 401);
        assert_true(kit_body_has(&answer, "requireIdentity"));
        kit_free(&answer);
        close(fd);
    }
}

/* Sends a request whose body lacks its last byte. */
static int send_almost(const char *headers)
{
    char *body = mem_alloc(BODY_BYTES);
    char head[300];
    int fd = kit_connect(port);

    (void)snprintf(head, sizeof(head),
                   "POST /multi/v1 HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: "
                   "%d\r\n\r\n",
                   headers, (int)BODY_BYTES);
    memset(body, 'x', BODY_BYTES);
    kit_send(fd, head);
    kit_send_bytes(fd, body, BODY_BYTES - 1);
    mem_free(body);
    return fd;
}

static int finish(int fd)
{
    struct kit_answer answer;
    int status = 0;

    kit_send(fd, "x");
    answer = kit_read(fd, false);
    status = answer.status;
    kit_free(&answer);
    close(fd);
    return status;
}

/* The body of a refused request is not kept: a client without an identity can fill no memory. */
TEST(a_write_without_an_identity_takes_no_memory, setup_closed, front_teardown)
{
    uint64_t end_ms = os_now_ms() + KIT_DEADLINE_MS;
    int fd = send_almost("");

    for (int i = 0; i < LOOKS; i++) {
        assert_int_equal(budget_used(&http->bodies.budget), 0);
        (void)poll(NULL, 0, 1);
    }
    assert_int_equal(finish(fd), 401);
    assert_int_equal(budget_used(&http->bodies.budget), 0);
    /* The same with an identity takes memory, so the looks above would have seen it. */
    fd = send_almost(BOB);
    while (budget_used(&http->bodies.budget) < BODY_BYTES / 2) {
        assert_true(os_now_ms() < end_ms);
        (void)poll(NULL, 0, 1);
    }
    assert_int_equal(finish(fd), 400); /* No JSON. */
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
    assert_int_equal(front_get("/znodes/v1/", header), 401);
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
    assert_int_equal(front_expect("GET", "/status/v1", BOB, NULL, "maxConnectionsPerAddress"), 429);
    assert_int_equal(front_get("/readyz", ""), 200);
    assert_int_equal(front_expect("GET", "/metrics", "", NULL, "WWW-Authenticate: Basic"), 401);
    assert_int_equal(front_get("/metrics", "Authorization: Bearer x\r\n"), 401);
    assert_int_equal(front_get("/metrics", BOB), 200);
    close(fd);
}

/* ---- The port of probes ---- */

static uint16_t probe_port;

static void start_with_probes(bool metrics)
{
    gate = kit_gate_new();
    probe_port = port_free();
    (void)snprintf(gate->limits.probe_address, sizeof(gate->limits.probe_address), "127.0.0.1");
    gate->limits.probe_port = probe_port;
    gate->limits.probe_metrics = metrics;
    front_start();
}

static void setup_health_alone(void)
{
    start_with_probes(false);
}

static void setup_all_probes(void)
{
    start_with_probes(true);
}

static void expect_probe(const char *target, int status, const char *has)
{
    struct kit_answer answer = kit_ask(probe_port, "GET", target, "", NULL);

    assert_int_equal(answer.status, status);
    assert_true(kit_body_has(&answer, has));
    kit_free(&answer);
}

/* As beyond loopback without insecure=true. */
TEST(a_port_for_health_alone_has_no_metrics, setup_health_alone, front_teardown)
{
    expect_probe("/livez", 200, "disk");
    expect_probe("/readyz?verbose", 200, "leader");
    expect_probe("/metrics", 404, "only with insecure=true; ask the port for clients");
    expect_probe("/metrics?verbose", 404, "insecure=true");
    expect_probe("/znodes/v1/", 404, "/livez, /readyz and /metrics only");
    assert_int_equal(front_get("/metrics", ""), 200);
}

TEST(the_port_of_probes_has_metrics, setup_all_probes, front_teardown)
{
    expect_probe("/readyz", 200, "leader");
    expect_probe("/metrics", 200, "zabra_http_connections ");
}
