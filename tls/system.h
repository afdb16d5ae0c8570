/*
 * system.h - the system calls behind the functions that this process replaces (calls.c, and recv()
 * in http/inlet.c), whether the descriptor is attached or not.
 */
#ifndef TLS_SYSTEM_H
#define TLS_SYSTEM_H

#include <sys/socket.h>
#include <sys/types.h>

ssize_t tls_system_recv(int fd, void *to, size_t len, int flags);
ssize_t tls_system_send(int fd, const void *from, size_t len, int flags);
ssize_t tls_system_sendmsg(int fd, const struct msghdr *message, int flags);
int tls_system_shutdown(int fd, int how);
int tls_system_close(int fd);

#endif
