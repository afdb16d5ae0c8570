/*
 * ports.h - ports on loopback for servers under test.
 *
 * They lie below the range from which the kernel picks ports for outgoing connections: otherwise a
 * client that dials a server which is not up yet can connect to itself.
 */
#ifndef TESTS_LIB_PORTS_H
#define TESTS_LIB_PORTS_H

#include <stdint.h>

enum {
    PORT_ROW_MAX = 8
};

/* A port that is free now; each call gives another one. No other program gets the port from these
 * functions while this program lives: a replica that restarts can bind the port again, and its
 * clients meet no other server meanwhile. tests/recipes/ensemble.py and tests/lib/ports.mjs claim
 * ports the same way. */
uint16_t port_free(void);

/* The first of `count` free ports in a row, with `count` more free ports `apart` above them; all of
 * them claimed as by port_free. */
uint16_t port_free_rows(uint16_t count, uint16_t apart);

#endif
