/* dial.h - connections to loopback that are only begun. */
#ifndef TESTS_LIB_DIAL_H
#define TESTS_LIB_DIAL_H

#include <stdbool.h>
#include <stdint.h>

/* A socket whose connection may be under way, there, or refused: poll tells. One that is deaf hears
 * no answer, so that its handshake does not end. */
int dial_begin(uint16_t port, bool deaf);

#endif
