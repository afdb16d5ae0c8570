/*
 * Clients that come while the front end closes: it serves each, or redirects it, or the kernel
 * refuses it. The front end accepts no client that it then leaves without an answer.
 */
#include "http/http_int.h"
#include "tests/unit/http_kit.h"

enum {
    ROUNDS = 6,
    CLIENTS = 3,
    BEFORE = 20,       /* Answers that each client has received when the closing begins. */
    KEPT_OUT_MS = 500, /* A kernel repeats a handshake after a second. */
    IN_LINE = 20
};

struct client {
    struct thread thread;
    uint16_t port;
    _Atomic uint32_t answers;
    uint32_t unanswered;
    bool was_kept_out;
};

static struct gate *gate;
static struct http *http;

static int dial(uint16_t port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd, (const struct sockaddr *)&to, sizeof(to)) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* The first bytes of an answer have arrived. */
static bool is_answered(int fd)
{
    static const char request[] =
        "GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    char first[8];

    return send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL) > 0 &&
           recv(fd, first, sizeof(first), MSG_WAITALL) == sizeof(first) &&
           memcmp(first, "HTTP/1.1", sizeof(first)) == 0;
}

static void ask_until_refused(void *arg)
{
    struct client *client = arg;
    uint64_t dial_ms = os_now_ms();

    for (int fd = dial(client->port); fd >= 0; fd = dial(client->port)) {
        if (is_answered(fd)) {
            atomic_fetch_add(&client->answers, 1);
        } else {
            client->unanswered++;
        }
        close(fd);
        dial_ms = os_now_ms();
    }
    client->was_kept_out = os_now_ms() - dial_ms >= KEPT_OUT_MS;
}

/* Returns how many clients were kept out: they came after the last accepted connection and before
 * the port closed. */
static int close_once(void)
{
    int kept_out = 0;
    struct client clients[CLIENTS] = {{.port = 0}};
    uint64_t end_ms = os_now_ms() + KIT_DEADLINE_MS;

    gate = kit_gate_new();
    assert_int_equal(http_start(gate, NULL, &http), ERR_OK);
    for (int i = 0; i < CLIENTS; i++) {
        clients[i].port = kit_port(http);
        thread_start(&clients[i].thread, "client", ask_until_refused, &clients[i]);
    }
    for (int i = 0; i < CLIENTS; i++) {
        while (atomic_load(&clients[i].answers) < BEFORE) {
            assert_true(os_now_ms() < end_ms);
            poll(NULL, 0, 1);
        }
    }
    http_drain(http);
    for (int i = 0; i < CLIENTS; i++) {
        thread_join(&clients[i].thread);
        assert_int_equal(clients[i].unanswered, 0);
        kept_out += clients[i].was_kept_out;
    }
    http_stop(http);
    kit_gate_free(gate);
    return kept_out;
}

TEST(no_accepted_client_is_left_without_an_answer)
{
    int kept_out = 0;

    for (int i = 0; i < ROUNDS; i++) {
        kept_out += close_once();
    }
    assert_true(kept_out > 0);
}

/* A client that has sent nothing yet is redirected before it asks. */
TEST(a_silent_client_is_redirected)
{
    struct kit_answer answer;

    gate = kit_gate_new();
    assert_int_equal(http_start(gate, NULL, &http), ERR_OK);

    int fd = dial(kit_port(http));

    assert_true(fd >= 0);
    http_drain(http);
    answer = kit_read(fd, false);
    assert_int_equal(answer.status, 503);
    assert_non_null(strstr((const char *)answer.body, "NotReady"));
    kit_free(&answer);
    close(fd);
    http_stop(http);
    kit_gate_free(gate);
}

static void stop(void *arg)
{
    http_stop(arg);
}

/* Once the acceptor is gone, nothing would end the wait of a queued large read. */
TEST(a_queued_large_read_does_not_delay_the_stop)
{
    static const char request[] = "GET /znodes/v1/?view=tree HTTP/1.1\r\nHost: localhost\r\n\r\n";
    uint64_t end_ms = os_now_ms() + KIT_DEADLINE_MS;
    struct kit_answer answer;
    struct thread closing;

    gate = kit_gate_new();
    assert_int_equal(http_start(gate, NULL, &http), ERR_OK);
    pthread_mutex_lock(&http->large.mutex);
    http->large.running_max = 0;
    pthread_mutex_unlock(&http->large.mutex);

    int fd = kit_connect(kit_port(http));

    kit_send(fd, request);
    while (atomic_load(&http->suspended) == 0) {
        assert_true(os_now_ms() < end_ms);
        poll(NULL, 0, 1);
    }
    thread_start(&closing, "stop", stop, http);
    answer = kit_read(fd, false);
    assert_int_equal(answer.status, 503);
    kit_free(&answer);
    close(fd);
    thread_join(&closing);
    kit_gate_free(gate);
}

static void put_in_line(int *fds, uint32_t count)
{
    static const char request[] = "GET /znodes/v1/?view=tree HTTP/1.1\r\nHost: localhost\r\n\r\n";
    uint64_t end_ms = os_now_ms() + KIT_DEADLINE_MS;

    for (uint32_t i = 0; i < count; i++) {
        fds[i] = kit_connect(kit_port(http));
        kit_send(fds[i], request);
        while (atomic_load(&http->large.waiting_count) < i + 1) {
            assert_true(os_now_ms() < end_ms);
            poll(NULL, 0, 1);
        }
    }
}

TEST(all_queued_large_reads_are_answered_at_the_stop)
{
    struct kit_answer answer;
    int fds[IN_LINE];

    for (int round = 0; round < ROUNDS; round++) {
        gate = kit_gate_new();
        assert_int_equal(http_start(gate, NULL, &http), ERR_OK);
        pthread_mutex_lock(&http->large.mutex);
        http->large.running_max = 0;
        pthread_mutex_unlock(&http->large.mutex);
        put_in_line(fds, IN_LINE);
        http_stop(http);
        for (int i = 0; i < IN_LINE; i++) {
            answer = kit_read(fds[i], false);
            assert_int_equal(answer.status, 503);
            assert_true(kit_body_has(&answer, "is shutting down"));
            kit_free(&answer);
            assert_true(kit_closed(fds[i]));
            close(fds[i]);
        }
        kit_gate_free(gate);
    }
}

/* The read's turn has come, and the library stops before it learns of it: the slot is free again
 * nevertheless. */
TEST(a_large_read_whose_turn_comes_at_the_stop_frees_its_slot)
{
    struct http_conn *first = mem_zalloc(1, sizeof(*first));
    int fd = -1;

    for (int round = 0; round < IN_LINE; round++) {
        gate = kit_gate_new();
        assert_int_equal(http_start(gate, NULL, &http), ERR_OK);
        first->http = http;
        assert_int_equal(http_large_enter(first), HTTP_LARGE_ENTERED);
        put_in_line(&fd, 1);
        http_large_leave(first);
        http_stop(http); /* It asserts that no slot is taken. */
        close(fd);
        kit_gate_free(gate);
    }
    mem_free(first);
}

/* A read that arrives while the front end closes is not queued. */
TEST(a_large_read_is_refused_while_draining)
{
    static const char request[] = "GET /znodes/v1/?view=tree HTTP/1.1\r\nHost: localhost\r\n\r\n";
    struct kit_answer answer;

    gate = kit_gate_new();
    assert_int_equal(http_start(gate, NULL, &http), ERR_OK);
    http->large.running_max = 0;

    int fd = kit_connect(kit_port(http));

    atomic_store(&http->draining, true);
    kit_send(fd, request);
    answer = kit_read(fd, false);
    assert_int_equal(answer.status, 503);
    assert_non_null(memmem(answer.body, answer.body_len, "is shutting down", 16));
    kit_free(&answer);
    close(fd);
    http_stop(http);
    kit_gate_free(gate);
}
