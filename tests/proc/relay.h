/*
 * relay.h - common functions of proxy.h and slow_link.h, which forward bytes between two sockets on
 * loopback.
 *
 * Any thread.
 */
#ifndef TESTS_PROC_RELAY_H
#define TESTS_PROC_RELAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Listens on a port that the kernel chooses. Fails the test on an error. */
int relay_listen(int backlog, uint16_t *ret_port);

/* Limits the kernel's buffers of the socket in both directions. */
void relay_limit_buffers(int fd, int bytes);

/* Connects and waits: a replica on loopback answers at once or not at all. Small buffers must be
 * set before the connection is made; 0: the default. Returns -1 if refused. */
int relay_dial(uint16_t port, int buffer_bytes);

/* Sends and waits until the other side has taken all bytes. False: it does not read, or has
 * closed. */
bool relay_send_all(int fd, const uint8_t *bytes, size_t len);

#endif
