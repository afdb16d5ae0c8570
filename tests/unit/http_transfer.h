/*
 * http_transfer.h - what the tests of exports and imports share: metrics that show the progress of
 * a transfer, and bodies in pieces.
 */
#ifndef TESTS_UNIT_HTTP_TRANSFER_H
#define TESTS_UNIT_HTTP_TRANSFER_H

#include "tests/unit/http_front.h"

/* The value of a metric without labels. */
static inline uint64_t kit_metric(const char *name)
{
    struct kit_answer answer = kit_ask(port, "GET", "/metrics", "", NULL);
    char line[128];
    unsigned long long value = 0;

    (void)snprintf(line, sizeof(line), "\n%s ", name);
    const char *at = strstr((const char *)answer.body, line);

    assert_non_null(at);
    assert_int_equal(sscanf(at + strlen(line), "%llu", &value), 1);
    kit_free(&answer);
    return value;
}

static inline void kit_wait_metric(const char *name, uint64_t value)
{
    uint64_t end_ms = os_now_ms() + KIT_DEADLINE_MS;

    while (kit_metric(name) != value) {
        assert_true(os_now_ms() < end_ms);
    }
}

static inline void kit_send_chunk(int fd, const char *text, size_t len)
{
    char size[32];

    (void)snprintf(size, sizeof(size), "%zx\r\n", len);
    kit_send(fd, size);
    kit_send_bytes(fd, text, len);
    kit_send(fd, "\r\n");
}

/* Begins a POST whose body follows in chunks. */
static inline int kit_begin_chunked(const char *target)
{
    int fd = kit_connect(port);
    char head[256];

    (void)snprintf(head, sizeof(head),
                   "POST %s HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n",
                   target);
    kit_send(fd, head);
    return fd;
}

#endif
