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

#endif
