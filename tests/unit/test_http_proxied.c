/* Requests through a trusted proxy: which client they count for, and how it is addressed. */
#include "base/address.h"
#include "server/op/auth.h"
#include "tests/lib/ws_head.h"
#include "tests/unit/http_front.h"
#include "tests/unit/http_take.h"

#include <poll.h>

#define BOB    KIT_BOB
#define CLIENT "X-Forwarded-For: 203.0.113.9\r\n"

enum {
    CONNECTIONS_MAX = 6,
    PER_ADDRESS_MAX = 2
};

static struct taken taken;

static void start(const char *proxy, bool capped)
{
    const struct http_upgrade upgrade = {.take = taken_take, .ctx = &taken};

    gate = kit_gate_new();
    if (proxy) {
        assert_true(address_block_parse(slice_str(proxy), &gate->limits.proxies[0]));
        gate->limits.proxy_count = 1;
    }
    if (capped) {
        gate->limits.connections_max = CONNECTIONS_MAX;
        gate->limits.connections_per_address_max = PER_ADDRESS_MAX;
    }
    assert_int_equal(http_start(gate, &upgrade, &http), ERR_OK);
    port = kit_port(http);
}

static void setup(void)
{
    start("127.0.0.0/8", false);
}

static void setup_other(void)
{
    start("10.0.0.0/8", false);
}

static void setup_capped(void)
{
    start("127.0.0.0/8", true);
}

static void setup_capped_other(void)
{
    start("10.0.0.0/8", true);
}

/* Returns the status; the head or the body must contain `has`. */
static int ask(const char *method, const char *target, const char *headers, const char *has)
{
    return front_expect(method, target, headers, strcmp(method, "POST") == 0 ? "x" : NULL, has);
}

static int who(const char *headers, const char *has)
{
    return ask("GET", "/whoami/v1", headers, has);
}

TEST(the_client_is_the_one_that_a_trusted_proxy_names, setup, front_teardown)
{
    assert_int_equal(who("", "\"address\":\"127.0.0.1\""), 200);
    assert_int_equal(who(CLIENT, "\"address\":\"203.0.113.9\""), 200);
    assert_int_equal(
        who("X-Forwarded-For: 1.1.1.1, 203.0.113.9, 127.0.0.7\r\n", "\"address\":\"203.0.113.9\""),
        200);
    assert_int_equal(who("X-Forwarded-For: 1.1.1.1\r\nX-Forwarded-For: 203.0.113.9\r\n",
                         "\"address\":\"203.0.113.9\""),
                     200);
    assert_int_equal(who("Forwarded: for=\"[2001:db8::7]:80\"\r\n", "\"address\":\"2001:db8::7\""),
                     200);
    assert_int_equal(who("Forwarded: for=_abc\r\n", "\"address\":\"_abc\""), 200);
}

TEST(malformed_headers_of_a_proxy_are_refused, setup, front_teardown)
{
    assert_int_equal(who("X-Forwarded-For: 203.0.113\r\n", "malformed X-Forwarded-For"), 400);
    assert_int_equal(who("Forwarded: 203.0.113.9\r\n", "malformed Forwarded"), 400);
    assert_int_equal(who(CLIENT "Forwarded: for=198.51.100.1\r\n", "contradict"), 400);
    assert_int_equal(who(CLIENT "X-Forwarded-Proto: gopher\r\n", "neither http nor https"), 400);
    assert_int_equal(who(CLIENT "X-Forwarded-Host: a b\r\n", "malformed host"), 400);
    assert_int_equal(who(CLIENT, "\"address\":\"203.0.113.9\""), 200);
}

/* Anybody can send these headers. */
TEST(headers_of_other_clients_count_for_nothing, setup_other, front_teardown)
{
    assert_int_equal(who(CLIENT, "\"address\":\"127.0.0.1\""), 200);
    assert_int_equal(who("Forwarded: for=10.0.0.1\r\n", "\"address\":\"127.0.0.1\""), 200);
    assert_int_equal(who("Forwarded: nonsense\r\n", "\"address\":\"127.0.0.1\""), 200);
    assert_int_equal(ask("POST", "/znodes/v1/?name=u",
                         CLIENT "X-Forwarded-Proto: https\r\nX-Forwarded-Host: zabra.test\r\n",
                         "Location: http://localhost"),
                     201);
}

TEST(permissions_by_address_are_those_of_the_client, setup, front_teardown)
{
    const char *list = BOB "Zk-Acl: ip:203.0.113.0/24:r, auth::cdrwa\r\n";

    assert_int_equal(ask("POST", "/znodes/v1/?name=a", list, NULL), 201);
    assert_int_equal(ask("GET", "/znodes/v1/a", CLIENT, NULL), 200);
    assert_int_equal(ask("GET", "/znodes/v1/a", "X-Forwarded-For: 198.51.100.1\r\n", NULL), 401);
    assert_int_equal(ask("GET", "/znodes/v1/a", "", NULL), 401); /* The proxy itself. */
    /* A client cannot name an address for itself: the proxy appends the true one. */
    assert_int_equal(
        ask("GET", "/znodes/v1/a", "X-Forwarded-For: 203.0.113.9, 198.51.100.1\r\n", NULL), 401);
    assert_int_equal(ask("GET", "/znodes/v1/a", "Forwarded: for=unknown\r\n", NULL), 401);
}

/* A proxy sends requests of many clients over one connection. */
TEST(each_request_of_a_connection_has_its_own_client, setup, front_teardown)
{
    static const struct front_turn turns[] = {
        {"X-Forwarded-For: 203.0.113.9\r\n", 200, "\"address\":\"203.0.113.9\""},
        {"X-Forwarded-For: 198.51.100.1\r\n", 200, "\"address\":\"198.51.100.1\""},
        {"", 200, "\"address\":\"127.0.0.1\""},
        {"X-Forwarded-For: 203.0.113.9\r\n", 200, "\"address\":\"203.0.113.9\""},
    };

    front_take_turns("/whoami/v1", turns, sizeof(turns) / sizeof(turns[0]));
}

TEST(urls_are_those_that_the_client_uses, setup, front_teardown)
{
    assert_int_equal(ask("POST", "/znodes/v1/?name=p", "", "Location: http://localhost"), 201);
    assert_int_equal(ask("POST", "/znodes/v1/?name=b",
                         CLIENT "X-Forwarded-Proto: https\r\nX-Forwarded-Host: zabra.test\r\n",
                         "Location: https://zabra.test/znodes/v1/b"),
                     201);
    assert_int_equal(ask("GET", "/znodes/v1/b?view=stat",
                         "Forwarded: for=203.0.113.9;proto=https;host=\"zabra.test:8443\"\r\n",
                         "\"uri\":\"https://zabra.test:8443/znodes/v1/b\""),
                     200);
    assert_int_equal(ask("GET", "/znodes/v1/b?view=stat", CLIENT "X-Forwarded-Host: evil.test\r\n",
                         "the proxy names"),
                     421);
    /* A page that comes from the forwarded host has the origin of this replica. */
    assert_int_equal(ask("POST", "/znodes/v1/?name=c",
                         CLIENT "X-Forwarded-Host: zabra.test\r\nOrigin: https://zabra.test\r\n",
                         NULL),
                     201);
    assert_int_equal(ask("POST", "/znodes/v1/?name=d",
                         CLIENT "X-Forwarded-Host: zabra.test\r\nOrigin: https://evil.test\r\n",
                         NULL),
                     403);
}

static int shake(const char *headers, const char *has)
{
    int fd = kit_connect(port);
    char byte = 0;
    int status = 101;

    taken = (struct taken){.https = false};
    kit_send(fd, "GET /ws/v1 HTTP/1.1\r\n"
                 "Host: localhost\r\n" WS_HEAD);
    kit_send(fd, headers);
    kit_send(fd, "\r\n");
    assert_int_equal(recv(fd, &byte, 1, MSG_PEEK), 1);
    if (byte != TAKEN_ANSWER[0]) {
        struct kit_answer answer = kit_read(fd, false);

        status = answer.status;
        assert_true(kit_body_has(&answer, has));
        kit_free(&answer);
    }
    close(fd);
    return status;
}

TEST(sockets_have_the_address_of_the_client, setup, front_teardown)
{
    assert_int_equal(shake("", ""), 101);
    assert_string_equal(taken.address, "127.0.0.1");
    assert_int_equal(shake(CLIENT, ""), 101);
    assert_string_equal(taken.address, "203.0.113.9");
    assert_int_equal(shake("X-Forwarded-For: x\r\n", "malformed X-Forwarded-For"), 400);
    assert_int_equal(shake(CLIENT "X-Forwarded-Host: evil.test\r\n", "the proxy names"), 421);
    assert_int_equal(
        shake(CLIENT "X-Forwarded-Host: zabra.test\r\nOrigin: https://zabra.test\r\n", ""), 101);
    assert_int_equal(shake(CLIENT "Origin: https://zabra.test\r\n", "allowedOrigins"), 403);
}

/* Returns the number of connections that stay, of one more than there may be. */
static int count_accepted(void)
{
    int fds[CONNECTIONS_MAX + 1];
    int accepted = 0;

    for (int i = 0; i <= CONNECTIONS_MAX; i++) {
        struct kit_answer answer;

        fds[i] = kit_connect(port);
        kit_send(fds[i], "GET /whoami/v1 HTTP/1.1\r\nHost: localhost\r\n\r\n");
        answer = kit_read(fds[i], false);
        accepted += answer.status == 200;
        kit_free(&answer);
    }
    for (int i = 0; i <= CONNECTIONS_MAX; i++) {
        close(fds[i]);
    }
    return accepted;
}

TEST(a_proxy_may_have_all_connections, setup_capped, front_teardown)
{
    assert_int_equal(count_accepted(), CONNECTIONS_MAX);
}

TEST(another_address_may_have_its_share, setup_capped_other, front_teardown)
{
    assert_int_equal(count_accepted(), PER_ADDRESS_MAX);
}
