/*
 * calls.h - send(), sendmsg(), shutdown() and close() of the process, which serve attached
 * descriptors by socket.h and all others by the system calls.
 */
#ifndef TLS_CALLS_H
#define TLS_CALLS_H

#include <stdbool.h>

/* Fails an assertion if the libraries do not find these functions: then they would send plain
 * bytes. Call it before a descriptor is attached. */
void tls_calls_check(void);

/* Whether the libraries find a function of this name in the program. */
bool tls_calls_has(const char *name);

#endif
