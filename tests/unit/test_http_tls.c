/* HTTP over TLS: what holds for plain connections holds here too. */
#include "tests/unit/http_sealed.h"

#include <netinet/tcp.h>
#include <sched.h>

enum {
    BIG = 65000 /* The largest that this gate takes, about. */,
    SHORT_MS = 300
};

static void optional(struct config_clients *limits)
{
    sealed_limits(limits, CONFIG_TLS_OPTIONAL);
    limits->data_bytes_max = 1 << 16;
}

static void required(struct config_clients *limits)
{
    sealed_limits(limits, CONFIG_TLS_REQUIRED);
}

static void strict(struct config_clients *limits)
{
    optional(limits);
    limits->head_timeout_ms = SHORT_MS;
}

static void narrow(struct config_clients *limits)
{
    optional(limits);
    limits->connections_per_address_max = 1;
}

static void full(struct config_clients *limits)
{
    optional(limits);
    limits->connections_max = 1;
}

static void one_seat(struct config_clients *limits)
{
    narrow(limits);
    limits->seats_max = 1;
}

static void set_up(void)
{
    front_start_with(optional);
}

static void set_up_required(void)
{
    front_start_with(required);
}

static void set_up_strict(void)
{
    front_start_with(strict);
}

static void set_up_narrow(void)
{
    front_start_with(narrow);
}

static void set_up_full(void)
{
    front_start_with(full);
}

/* As a front end of WebSockets that has all it may have. */
static bool take_none(void *ctx UNUSED, int fd UNUSED, size_t head_len UNUSED,
                      const char *key UNUSED, const struct op_principal *client UNUSED,
                      void *seat UNUSED)
{
    return false;
}

static void set_up_no_sockets(void)
{
    gate = kit_gate_new();
    optional(&gate->limits);
    assert_int_equal(http_start(gate, &(struct http_upgrade){.take = take_none}, &http), ERR_OK);
    port = kit_port(http);
}

static void set_up_one_seat(void)
{
    front_start_with(one_seat);
}

#define HOST "Host: localhost\r\n"

static const char get[] = "GET /livez HTTP/1.1\r\n" HOST "\r\n";
static const char get_last[] = "GET /livez HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n";

static size_t count_of(const char *text, const char *part)
{
    size_t count = 0;

    for (const char *at = strstr(text, part); at; at = strstr(at + 1, part)) {
        count++;
    }
    return count;
}

static const struct tls_metrics *tls_metrics(void)
{
    return tls_current_metrics(http->tls);
}

static uint64_t handshakes(void)
{
    return metric_get(&tls_metrics()->running);
}

/* ---- Requests ---- */

TEST(one_port_serves_both, set_up, sealed_teardown)
{
    struct sealed sealed;

    assert_int_equal(front_ask("GET", "/livez", "", NULL), 200);
    sealed_open(&sealed);
    sealed_say(&sealed, get_last);
    assert_non_null(strstr(sealed_hear_all(&sealed), "HTTP/1.1 200 OK"));
    sealed_close(&sealed);
    assert_int_equal(metric_get(&tls_metrics()->full), 1);
}

TEST(requests_follow_each_other, set_up, sealed_teardown)
{
    struct sealed sealed;

    sealed_open(&sealed);
    for (int i = 0; i < 3; i++) {
        sealed_say(&sealed, get);
        assert_non_null(strstr(sealed_hear(&sealed, "livez: ok"), "200 OK"));
        buf_clear(&sealed.got);
    }
    /* Three in one record, and in many. */
    sealed_say(&sealed, "GET /livez HTTP/1.1\r\n" HOST "\r\nGET /livez HTTP/1.1\r\n" HOST
                        "\r\nGET /livez HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n");
    assert_int_equal(count_of(sealed_hear_all(&sealed), "200 OK"), 3);
    sealed_close(&sealed);
}

TEST(a_request_may_arrive_as_records_of_one_byte, set_up, sealed_teardown)
{
    struct sealed sealed;

    sealed_open(&sealed);
    for (size_t round = 0; round < 2; round++) {
        const char *request = round == 0 ? get : get_last;

        for (size_t i = 0; request[i]; i++) {
            sealed_send(&sealed, request + i, 1);
        }
        assert_non_null(strstr(sealed_hear(&sealed, "livez: ok"), "200 OK"));
        buf_clear(&sealed.got);
    }
    sealed_close(&sealed);
}

TEST(large_bodies_pass_both_ways, set_up, sealed_teardown)
{
    uint8_t *bytes = mem_alloc(BIG);
    struct sealed sealed;
    struct buf head;
    const uint8_t *body = NULL;

    for (size_t i = 0; i < BIG; i++) {
        bytes[i] = (uint8_t)('a' + i * 7 % 23);
    }
    buf_init(&head, 1024);
    buf_printf(&head,
               "PUT /znodes/v1/big?upsert=true HTTP/1.1\r\n" HOST "Content-Length: %d\r\n\r\n",
               BIG);
    sealed_open(&sealed);
    sealed_send(&sealed, head.data, head.len);
    sealed_send(&sealed, bytes, BIG);
    assert_non_null(strstr(sealed_hear(&sealed, "\"dataLength\""), "201 Created"));
    buf_clear(&sealed.got);
    sealed_say(&sealed, "GET /znodes/v1/big HTTP/1.1\r\n" HOST
                        "Accept: application/octet-stream\r\nConnection: close\r\n\r\n");
    (void)sealed_hear_all(&sealed);
    body = memmem(sealed.got.data, sealed.got.len, "\r\n\r\n", 4);
    assert_non_null(body);
    assert_int_equal(sealed.got.data + sealed.got.len - (body + 4), BIG);
    assert_memory_equal(body + 4, bytes, BIG);
    sealed_close(&sealed);
    buf_release(&head);
    mem_free(bytes);
}

TEST(an_answer_follows_the_end_of_the_client, set_up, sealed_teardown)
{
    struct sealed sealed;

    sealed_open(&sealed);
    sealed_say(&sealed, get_last);
    (void)SSL_shutdown(sealed.peer.ssl);
    (void)tls_peer_push(&sealed.peer, SIZE_MAX);
    assert_non_null(strstr(sealed_hear_all(&sealed), "200 OK"));
    sealed_close(&sealed);
}

/* ---- Limits ---- */

TEST(a_malformed_head_gets_400_inside, set_up, sealed_teardown)
{
    struct sealed sealed;

    sealed_open(&sealed);
    sealed_say(&sealed, "GET /livez HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n");
    assert_non_null(strstr(sealed_hear_all(&sealed), "HTTP/1.1 400 "));
    sealed_close(&sealed);
    sealed_open(&sealed); /* The same for a later head. */
    sealed_say(&sealed, get);
    (void)sealed_hear(&sealed, "livez: ok");
    sealed_say(&sealed, "GET /livez HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n");
    assert_non_null(strstr(sealed_hear_all(&sealed), "HTTP/1.1 400 "));
    sealed_close(&sealed);
}

TEST(a_late_head_gets_408_inside, set_up_strict, sealed_teardown)
{
    struct sealed sealed;

    sealed_open(&sealed);
    sealed_say(&sealed, "GET /livez HT");
    assert_non_null(strstr(sealed_hear_all(&sealed), "HTTP/1.1 408 "));
    sealed_close(&sealed);
}

TEST(a_connection_over_the_limit_gets_429_inside, set_up_narrow, sealed_teardown)
{
    struct sealed first;
    struct sealed second;

    sealed_open(&first);
    sealed_say(&first, get);
    (void)sealed_hear(&first, "livez: ok");
    sealed_open(&second);
    sealed_say(&second, "GET /znodes/v1/ HTTP/1.1\r\n" HOST "\r\n");
    assert_non_null(strstr(sealed_hear_all(&second), "HTTP/1.1 429 "));
    sealed_close(&second);
    sealed_open(&second); /* A probe is answered. */
    sealed_say(&second, get);
    assert_non_null(strstr(sealed_hear_all(&second), "HTTP/1.1 200 "));
    sealed_close(&second);
    sealed_close(&first);
}

TEST(a_connection_over_all_limits_gets_503_inside, set_up_full, sealed_teardown)
{
    struct sealed first;
    struct sealed second;

    sealed_open(&first);
    sealed_open(&second);
    sealed_say(&second, "GET /znodes/v1/ HTTP/1.1\r\n" HOST "\r\n");
    assert_non_null(strstr(sealed_hear_all(&second), "HTTP/1.1 503 "));
    assert_non_null(strstr(buf_cstr(&second.got), "maxConnections"));
    sealed_close(&second);
    sealed_close(&first);
}

TEST(a_socket_over_the_limit_gets_503_inside, set_up_no_sockets, sealed_teardown)
{
    struct sealed sealed;

    sealed_open(&sealed);
    sealed_say(&sealed,
               "GET /ws/v1 HTTP/1.1\r\n" HOST "Upgrade: websocket\r\nConnection: Upgrade\r\n"
               "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: zabra.v1.json\r\n"
               "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n");
    assert_non_null(strstr(sealed_hear_all(&sealed), "HTTP/1.1 503 "));
    assert_non_null(strstr(buf_cstr(&sealed.got), "maxWebSockets"));
    sealed_close(&sealed);
}

/* The reason is the limit, and not that the client has closed. */
TEST(a_handshake_over_the_limit_gives_way_to_another, set_up_one_seat, sealed_teardown)
{
    struct sealed first;
    struct sealed third;
    int second = -1;

    sealed_open(&first);
    second = kit_connect(port);
    kit_send_bytes(second, "\x16\x03\x01", 3);
    for (uint64_t end_ms = os_now_ms() + KIT_DEADLINE_MS; handshakes() == 0;) {
        assert_true(os_now_ms() < end_ms);
        (void)sched_yield();
    }
    sealed_open(&third);
    sealed_say(&third, get);
    assert_non_null(strstr(sealed_hear_all(&third), "HTTP/1.1 200 "));
    assert_true(kit_closed(second));
    close(second);
    sealed_close(&third);
    sealed_close(&first);
    assert_int_equal(metric_get(&tls_metrics()->failed[TLS_UNSEATED]), 1);
    assert_int_equal(metric_get(&tls_metrics()->failed[TLS_TRUNCATED]), 0);
}

TEST(a_late_handshake_ends_the_connection, set_up_strict, sealed_teardown)
{
    int fd = kit_connect(port);

    kit_send_bytes(fd, "\x16\x03\x01", 3);
    assert_true(kit_closed(fd));
    close(fd);
    assert_int_equal(metric_get(&tls_metrics()->failed[TLS_TIMEOUT]), 1);
}

/* The connection ends without close_notify: a network may have cut it. */
TEST(a_body_that_was_cut_is_not_applied, set_up, sealed_teardown)
{
    static const char *const heads[] = {"Content-Length: 10\r\n\r\nfive.",
                                        "Transfer-Encoding: chunked\r\n\r\n5\r\nfive.\r\n"};

    for (size_t i = 0; i < 2; i++) {
        struct sealed sealed;

        sealed_open(&sealed);
        sealed_say(&sealed, "PUT /znodes/v1/cut?upsert=true HTTP/1.1\r\n" HOST);
        sealed_say(&sealed, heads[i]);
        assert_int_equal(shutdown(sealed.fd, SHUT_WR), 0);
        assert_string_equal(sealed_hear(&sealed, "HTTP/1.1"), "");
        sealed_close(&sealed);
        assert_int_equal(front_ask("GET", "/znodes/v1/cut", "", NULL), 404);
    }
}

TEST(bytes_that_are_no_record_are_refused_and_counted, set_up, sealed_teardown)
{
    int fd = kit_connect(port);

    kit_send_bytes(fd, "\x16 is not a handshake at all", 27);
    while (!kit_closed(fd)) { /* The alert comes first. */
    }
    close(fd);
    assert_int_equal(metric_get(&tls_metrics()->failed[TLS_PLAIN]), 1);
    assert_int_equal(front_ask("GET", "/livez", "", NULL), 200);
}

/* Without a descriptor there is no room for a handshake. */
TEST(a_client_that_is_turned_away_gets_what_it_understands, set_up, sealed_teardown)
{
    static const struct {
        const char *sent;
        size_t len;
        const char *answer;
    } rows[] = {
        {"\x16\x03", 2, "\x15\x03\x03"}, {"GET", 3, "HTTP/1.1 503 "}, {"", 0, "HTTP/1.1 503 "}};

    for (size_t i = 0; i < 3; i++) {
        char got[1024] = "";
        int ends[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
        kit_send_bytes(ends[1], rows[i].sent, rows[i].len);
        http_raw_turn_away(http, ends[0]);
        assert_true(recv(ends[1], got, sizeof(got) - 1, 0) > 0);
        assert_memory_equal(got, rows[i].answer, strlen(rows[i].answer));
        close(ends[1]);
    }
}

/* Over TCP a close with unread bytes is a reset, which may overtake the answer. */
TEST(a_client_that_is_turned_away_is_not_reset, set_up, sealed_teardown)
{
    static const char *const sent[] = {"\x16\x03\x01 a hello", "GET /livez HTTP/1.1\r\n"};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(listener, (struct sockaddr *)&address, len), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &len), 0);
    assert_int_equal(listen(listener, 1), 0);
    for (size_t i = 0; i < 2; i++) {
        char got[1024];
        ssize_t part = 1;
        int client = kit_connect(ntohs(address.sin_port));
        int taken = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        struct pollfd come = {.fd = taken, .events = POLLIN};

        kit_send_bytes(client, sent[i], strlen(sent[i]));
        assert_int_equal(poll(&come, 1, KIT_DEADLINE_MS), 1);
        http_raw_turn_away(http, taken);
        while (part > 0) {
            part = recv(client, got, sizeof(got), 0);
        }
        assert_int_equal(part, 0);
        close(client);
    }
    close(listener);
}

/* ---- clientTls=required ---- */

TEST(a_plain_read_is_redirected, set_up_required, sealed_teardown)
{
    struct kit_answer answer = kit_ask(port, "GET", "/znodes/v1/a%20b?view=data", "", NULL);
    char expected[128];

    (void)snprintf(expected, sizeof(expected), "https://localhost:%u/znodes/v1/a%%20b?view=data",
                   port);
    assert_int_equal(answer.status, 308);
    assert_string_equal(kit_header(&answer, "Location"), expected);
    kit_free(&answer);
    assert_int_equal(front_ask("HEAD", "/livez", "", NULL), 308);
}

TEST(a_plain_write_is_refused, set_up_required, sealed_teardown)
{
    struct kit_answer answer = kit_ask(port, "PUT", "/znodes/v1/a?upsert=true", "", "x");

    assert_int_equal(answer.status, 400);
    assert_true(kit_body_has(&answer, "clientTls=required"));
    kit_free(&answer);
    /* No redirection to a name that the client has made up, and none for a WebSocket. */
    int fd = kit_connect(port);

    kit_send(fd, "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n");
    answer = kit_read(fd, false);
    assert_int_equal(answer.status, 400);
    assert_null(kit_header(&answer, "Location"));
    kit_free(&answer);
    close(fd);
    assert_int_equal(
        front_ask("GET", "/ws/v1", "Upgrade: websocket\r\nConnection: Upgrade\r\n", NULL), 400);
}

TEST(tls_is_served_where_it_is_required, set_up_required, sealed_teardown)
{
    struct sealed sealed;

    sealed_open(&sealed);
    sealed_say(&sealed, get_last);
    assert_non_null(strstr(sealed_hear_all(&sealed), "200 OK"));
    sealed_close(&sealed);
}

/* ---- The end ---- */

TEST(a_drain_ends_idle_connections_in_order, set_up, sealed_teardown)
{
    struct sealed idle;
    struct sealed silent;
    int half = kit_connect(port);

    kit_send_bytes(half, "\x16\x03\x01", 3);
    sealed_open(&idle);
    sealed_say(&idle, get);
    (void)sealed_hear(&idle, "livez: ok");
    sealed_open(&silent); /* It has sent no request: it is answered 503. */
    http_drain(http);
    (void)sealed_hear_all(&idle);
    assert_non_null(strstr(sealed_hear_all(&silent), "HTTP/1.1 503 "));
    assert_true(kit_closed(half));
    assert_int_equal(metric_get(&tls_metrics()->failed[TLS_STOPPED]), 1);
    sealed_close(&idle);
    sealed_close(&silent);
    close(half);
}

TEST(a_start_without_usable_files_is_refused)
{
    struct tls_fault fault;

    gate = kit_gate_new();
    optional(&gate->limits);
    (void)cert_kit_path(&certs, "none.pem", gate->limits.tls.cert_files);
    assert_false(http_tls_check(&gate->limits, &fault));
    assert_non_null(strstr(fault.text, "tlsCertFile: "));
    assert_int_equal(http_start(gate, NULL, &http), ERR_CONFIG);
    (void)cert_kit_path(&certs, "server.pem", gate->limits.tls.cert_files);
    assert_true(http_tls_check(&gate->limits, &fault));
    kit_gate_free(gate);
    cert_kit_close(&certs);
}
