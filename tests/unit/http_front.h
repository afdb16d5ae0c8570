/* http_front.h - a running front end on a port of its own; a test program has one at a time. */
#ifndef TESTS_UNIT_HTTP_FRONT_H
#define TESTS_UNIT_HTTP_FRONT_H

#include "tests/unit/http_kit.h"

static struct gate *gate;
static struct http *http;
static uint16_t port;

/* Serves `gate`, which the caller has made. */
static inline void front_start(void)
{
    assert_int_equal(http_start(gate, NULL, &http), ERR_OK);
    port = kit_port(http);
}

/* Serves a new gate; `change`, if given, changes its limits first. */
static inline void front_start_with(void (*change)(struct config_clients *limits))
{
    gate = kit_gate_new();
    if (change) {
        change(&gate->limits);
    }
    front_start();
}

static inline void front_setup(void)
{
    front_start_with(NULL);
}

static inline void front_teardown(void)
{
    http_drain(http);
    http_stop(http);
    kit_gate_free(gate);
}

/* The status alone. */
static inline int front_ask(const char *method, const char *target, const char *headers,
                            const char *body)
{
    struct kit_answer answer = kit_ask(port, method, target, headers, body);
    int status = answer.status;

    kit_free(&answer);
    return status;
}

/* Returns the status; the head or the body must contain `has`, if given. */
static inline int front_expect(const char *method, const char *target, const char *headers,
                               const char *body, const char *has)
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

static inline int front_get(const char *target, const char *headers)
{
    return front_ask("GET", target, headers, NULL);
}

/* Sends GETs on one connection; the client of each has the headers of its row. Each answer must
 * have the status and contain the text of its row. */
struct front_turn {
    const char *headers;
    int status;
    const char *has;
};

static inline void front_take_turns(const char *target, const struct front_turn *turns,
                                    size_t count)
{
    int fd = kit_connect(port);

    for (size_t i = 0; i < count; i++) {
        struct kit_answer answer;

        kit_send(fd, "GET ");
        kit_send(fd, target);
        kit_send(fd, " HTTP/1.1\r\nHost: localhost\r\n");
        kit_send(fd, turns[i].headers);
        kit_send(fd, "\r\n");
        answer = kit_read(fd, false);
        if (answer.status != turns[i].status || !kit_body_has(&answer, turns[i].has)) {
            fail_msg("request %zu: %d without %s: %s", i, answer.status, turns[i].has,
                     (const char *)answer.body);
        }
        kit_free(&answer);
    }
    close(fd);
}

#endif
