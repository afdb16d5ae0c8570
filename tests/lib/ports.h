/*
 * ports.h - ports on loopback for servers under test.
 *
 * Taken below the range from which the kernel picks ports for outgoing connections: otherwise a
 * client that dials a server which is not up yet can meet itself.
 */
#ifndef TESTS_LIB_PORTS_H
#define TESTS_LIB_PORTS_H

#include <stdint.h>

/* A port that is free now; each call gives another one. */
uint16_t port_free(void);

#endif
