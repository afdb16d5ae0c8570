/*
 * ports.h - ports on loopback for servers under test.
 *
 * Taken below the range from which the kernel picks ports for outgoing connections: otherwise a
 * client that dials a server which is not up yet can meet itself.
 */
#ifndef TESTS_LIB_PORTS_H
#define TESTS_LIB_PORTS_H

#include <stdint.h>

/* A port that is free now; each call gives another one. No other program gets it from here while
 * this one lives: whoever is restarted finds it again, and his clients meet nobody else meanwhile.
 */
uint16_t port_free(void);

#endif
