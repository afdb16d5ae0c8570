/*
 * relay.h - what passes bytes between two sockets on loopback has in common: proxy.h, slow_link.h.
 *
 * Any thread.
 */
#ifndef TESTS_PROC_RELAY_H
#define TESTS_PROC_RELAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Listens on a port of the kernel's choice. Fails the test when that is not possible. */
int relay_listen(int backlog, uint16_t *ret_port);

/* The kernel keeps no more than that of the socket in either direction. */
void relay_limit_buffers(int fd, int bytes);

/* Waits until the connection is there: a replica on loopback answers at once or not at all. Small
 * buffers have to be asked for before the connection is made; 0: as usual. -1: refused. */
int relay_dial(uint16_t port, int buffer_bytes);

/* Waits until the other side has taken all. False: it does not, or has ended. */
bool relay_send_all(int fd, const uint8_t *bytes, size_t len);

#endif
