/*
 * calls.h - the system calls behind the functions that this folder defines for the whole process:
 * send(), sendmsg(), shutdown() and close().
 */
#ifndef TLS_CALLS_H
#define TLS_CALLS_H

#include <stddef.h>
#include <sys/types.h>

/* Without TLS, whether the descriptor is attached or not. */
ssize_t tls_call_recv(int fd, void *to, size_t len, int flags);
ssize_t tls_call_send(int fd, const void *from, size_t len, int flags);
int tls_call_shutdown(int fd, int how);

#endif
