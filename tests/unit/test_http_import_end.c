/* Imports against a running front end: the end of one that is refused, slow, or fails late. */
#include "tests/unit/http_transfer.h"

#define TOP "{\"path\":\"\",\"data64\":\"dG9w\"}\n"

static void setup(void)
{
    gate = kit_gate_new();
    gate->limits.body_timeout_ms = 1500;
    front_start();
}

TEST(a_client_that_sends_nothing_is_cut_off, setup, front_teardown)
{
    int fd = kit_begin_chunked("/import/v1/app");
    struct kit_answer answer;

    kit_send_chunk(fd, TOP, sizeof(TOP) - 1);
    answer = kit_read(fd, false);
    assert_int_equal(answer.status, 408);
    kit_free(&answer);
    close(fd);
    kit_wait_metric("zabra_http_imports", 0);
    answer = kit_ask(port, "GET", "/znodes/v1/app", "", NULL);
    assert_int_equal(answer.status, 404);
    kit_free(&answer);
}

/* More than the server reads of any other refused body: the client still finds the answer. */
TEST(a_failure_in_a_long_body_is_reported, setup, front_teardown)
{
    static char blank[64 << 10];
    int fd = kit_begin_chunked("/import/v1/app");
    struct kit_answer answer;

    memset(blank, ' ', sizeof(blank));
    blank[sizeof(blank) - 1] = '\n';
    kit_send(fd, "9\r\nnonsense\n\r\n");
    for (int i = 0; i < 200; i++) {
        kit_send_chunk(fd, blank, sizeof(blank));
    }
    kit_send(fd, "0\r\n\r\n");
    answer = kit_read(fd, false);
    assert_int_equal(answer.status, 400);
    assert_true(kit_body_has(&answer, "line 1: "));
    kit_free(&answer);
    close(fd);
}

/* Nor does the client find a reset when the import has not even begun. */
TEST(a_refusal_of_a_long_body_is_reported, setup, front_teardown)
{
    static char blank[64 << 10];
    int first = kit_begin_chunked("/import/v1/app");
    int second = kit_begin_chunked("/import/v1/app");

    kit_wait_metric("zabra_http_imports", 2);
    memset(blank, '\n', sizeof(blank));
    for (int chunked = 0; chunked < 2; chunked++) {
        int fd = chunked ? kit_begin_chunked("/import/v1/app") : kit_connect(port);

        if (!chunked) {
            kit_send(fd, "POST /import/v1/app HTTP/1.1\r\nHost: localhost\r\n"
                         "Content-Length: 13107201\r\n\r\n");
        }
        for (int i = 0; i < 200; i++) {
            if (chunked) {
                kit_send_chunk(fd, blank, sizeof(blank));
            } else {
                kit_send_bytes(fd, blank, sizeof(blank));
            }
        }
        const char *last = chunked ? "0\r\n\r\n" : "\n";

        assert_int_equal(send(fd, last, strlen(last), MSG_NOSIGNAL), strlen(last));
        struct kit_answer answer = kit_read(fd, false);

        assert_int_equal(answer.status, 429);
        assert_true(kit_body_has(&answer, "maxTransfers"));
        kit_free(&answer);
        close(fd);
    }
    close(first);
    close(second);
}

/* The time for a body follows its length, also when the server only discards the rest. */
TEST(a_failure_after_a_long_time_is_reported, setup, front_teardown)
{
    static char blank[16 << 10];
    uint64_t end_ms = os_now_ms() + gate->limits.body_timeout_ms + 500;
    int fd = kit_begin_chunked("/import/v1/app");
    struct kit_answer answer;

    kit_wait_metric("zabra_http_imports", 1);
    memset(blank, '\n', sizeof(blank));
    while (os_now_ms() < end_ms) {
        uint64_t next_ms = os_now_ms() + 500;

        kit_send_chunk(fd, blank, sizeof(blank));
        while (os_now_ms() < next_ms) {
            assert_int_equal(kit_metric("zabra_http_imports"), 1);
        }
    }
    kit_send(fd, "9\r\nnonsense\n\r\n");
    end_ms = os_now_ms() + 600; /* Deadlines are checked meanwhile. */
    while (os_now_ms() < end_ms) {
        assert_int_equal(kit_metric("zabra_http_imports"), 1);
    }
    kit_send(fd, "0\r\n\r\n");
    answer = kit_read(fd, false);
    assert_int_equal(answer.status, 400);
    assert_true(kit_body_has(&answer, "not valid JSON"));
    kit_free(&answer);
    close(fd);
}

static void drain(void *arg)
{
    (void)arg;
    http_drain(http);
}

static bool is_listening(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    bool listening = connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0;

    close(fd);
    return listening;
}

TEST(a_stopping_replica_reports_its_progress, setup, front_teardown)
{
    int fd = kit_begin_chunked("/import/v1/app");
    uint64_t end_ms = os_now_ms() + KIT_DEADLINE_MS;
    struct kit_answer answer;
    struct thread stopper;

    kit_send_chunk(fd, TOP, sizeof(TOP) - 1);
    kit_wait_metric("zabra_http_imports", 1);
    thread_start(&stopper, "stopper", drain, NULL);
    while (is_listening()) {
        assert_true(os_now_ms() < end_ms);
    }
    kit_send_chunk(fd, "{\"path\":\"a\"}\n", 13);
    kit_send(fd, "0\r\n\r\n");
    answer = kit_read(fd, false);
    assert_int_equal(answer.status, 503);
    assert_true(kit_body_has(&answer, "shutting down"));
    assert_true(kit_body_has(&answer, "\"import\":{\"dryRun\":false,\"lines\":0,"));
    kit_free(&answer);
    close(fd);
    thread_join(&stopper);
}
