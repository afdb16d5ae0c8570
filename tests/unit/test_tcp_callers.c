/* Callers of the peer port: how many handshakes an address gets, and all unknown ones. */
#include "tests/lib/unit.h"
#include "zab/tcp/callers.h"

#include <arpa/inet.h>
#include <string.h>

enum {
    START_MS = 5000
};

static struct caller make(const char *text)
{
    struct sockaddr_storage address = {.ss_family = strchr(text, ':') ? AF_INET6 : AF_INET};
    void *to = address.ss_family == AF_INET ? (void *)&((struct sockaddr_in *)&address)->sin_addr
                                            : (void *)&((struct sockaddr_in6 *)&address)->sin6_addr;

    assert_int_equal(inet_pton(address.ss_family, text, to), 1);
    return caller_of(&address);
}

static struct caller number(uint32_t n)
{
    struct caller caller = {.bytes = {0x20, 1, 0, 0, (uint8_t)(n >> 24), (uint8_t)(n >> 16),
                                      (uint8_t)(n >> 8), (uint8_t)n}};

    return caller;
}

/* How many of `count` calls at once are let in. */
static uint32_t call(struct callers *callers, struct caller caller, bool known, uint64_t now_ms,
                     uint32_t count)
{
    uint32_t admitted = 0;

    for (uint32_t i = 0; i < count; i++) {
        admitted += callers_admit(callers, &caller, known, now_ms) ? 1 : 0;
    }
    return admitted;
}

TEST(addresses_are_told_apart)
{
    struct caller a = make("10.0.0.1");
    struct caller b = make("10.0.0.2");
    struct caller mapped = make("::ffff:10.0.0.1");
    struct caller c = make("2001:db8::1");
    struct caller d = make("2001:db8::ffff:1"); /* The same machine has all of a /64. */
    struct caller e = make("2001:db8:0:1::1");

    assert_false(caller_eq(&a, &b));
    assert_true(caller_eq(&a, &mapped));
    assert_true(caller_eq(&c, &d));
    assert_false(caller_eq(&c, &e));
}

TEST(an_address_gets_a_burst_and_a_rate)
{
    struct callers callers = {.places = {{.seen_ms = 0}}};

    for (int known = 0; known <= 1; known++) {
        struct caller caller = number((uint32_t)known);

        assert_int_equal(call(&callers, caller, known, START_MS, 1000), CALLERS_BURST);
        assert_int_equal(call(&callers, caller, known, START_MS + 1000, 1000), CALLERS_PER_S);
        assert_int_equal(call(&callers, caller, known, START_MS + 1000, 1000), 0);
    }
}

/* The others share what is left, but each gets its first handshake. */
TEST(few_attackers_take_nothing_from_a_new_peer)
{
    struct callers callers = {.places = {{.seen_ms = 0}}};
    uint32_t admitted = 0;

    for (uint32_t i = 0; i < 40; i++) {
        admitted += call(&callers, number(i), false, START_MS, 1000);
    }
    assert_in_range(admitted, CALLERS_ALL_PER_S, CALLERS_ALL_PER_S + 40);
    assert_int_equal(call(&callers, number(2), false, START_MS, 1), 0);
    assert_int_equal(call(&callers, number(99), false, START_MS, 1), 1);
    assert_int_equal(call(&callers, number(100), true, START_MS, 1000), CALLERS_BURST);
}

/* Any number of addresses gets a bounded number of handshakes; known peers still get theirs. */
TEST(many_attackers_get_a_bounded_number)
{
    struct callers callers = {.places = {{.seen_ms = 0}}};
    uint32_t admitted = 0;

    for (uint32_t ms = 0; ms < 4000; ms++) {
        for (uint32_t i = 0; i < 5; i++) {
            admitted += call(&callers, number(ms * 5 + i), false, START_MS + ms, 2);
        }
    }
    assert_in_range(admitted, CALLERS_ALL_PER_S, 2 * 5 * CALLERS_ALL_PER_S + 2);
    assert_int_equal(call(&callers, make("10.0.0.1"), true, START_MS + 4000, 10), 10);
}

TEST(a_pause_makes_a_call_the_first_one_again)
{
    struct callers callers = {.places = {{.seen_ms = 0}}};
    uint32_t admitted = call(&callers, number(1), false, START_MS, 1000);

    assert_int_equal(admitted, CALLERS_BURST);
    for (uint32_t i = 2; i < 20; i++) { /* Uses up what all share. */
        (void)call(&callers, number(i), false, START_MS, 1000);
    }
    assert_int_equal(call(&callers, number(1), false, START_MS + 10, 1), 0);
    assert_int_equal(call(&callers, number(1), false, START_MS + 10 + CALLERS_FRESH_MS, 1), 1);
}
