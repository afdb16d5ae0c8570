/*
 * The functions of the C library that this process replaces. The dynamic linker binds the calls of
 * libmicrohttpd and libwebsockets to them, because the program comes first in its search order.
 * http/inlet.c replaces recv().
 *
 * The labels give the functions the symbols of the C library, because its headers may define inline
 * functions or macros of these names.
 */
#include "tls/calls.h"

#include "tls/socket.h"
#include "tls/system.h"

#include "base/check.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/socket.h>

#define REPLACES __attribute__((visibility("default"), used))

ssize_t tls_calls_send(int fd, const void *from, size_t len, int flags) __asm__("send") REPLACES;
ssize_t tls_calls_sendmsg(int fd, const struct msghdr *message,
                          int flags) __asm__("sendmsg") REPLACES;
int tls_calls_shutdown(int fd, int how) __asm__("shutdown") REPLACES;
int tls_calls_close(int fd) __asm__("close") REPLACES;

ssize_t tls_calls_send(int fd, const void *from, size_t len, int flags)
{
    struct tls_socket *socket = tls_socket_of(fd);
    struct iovec part = {.iov_len = len};

    memcpy(&part.iov_base, &from, sizeof(from)); /* The bytes are only read. */
    return socket ? tls_socket_send(socket, &part, 1, flags)
                  : tls_system_send(fd, from, len, flags);
}

ssize_t tls_calls_sendmsg(int fd, const struct msghdr *message, int flags)
{
    struct tls_socket *socket = tls_socket_of(fd);

    return socket ? tls_socket_send(socket, message->msg_iov, message->msg_iovlen, flags)
                  : tls_system_sendmsg(fd, message, flags);
}

int tls_calls_shutdown(int fd, int how)
{
    struct tls_socket *socket = tls_socket_of(fd);

    return socket ? tls_socket_shutdown(socket, how) : tls_system_shutdown(fd, how);
}

int tls_calls_close(int fd)
{
    struct tls_socket *socket = tls_socket_of(fd);

    if (socket) {
        tls_socket_detach(socket);
    }
    return tls_system_close(fd);
}

bool tls_calls_has(const char *name)
{
    static const char here;
    Dl_info mine = {.dli_fbase = NULL};
    Dl_info about = {.dli_fbase = NULL};
    const void *found = dlsym(RTLD_DEFAULT, name);

    ASSERT(found && dladdr(found, &about) != 0 && dladdr(&here, &mine) != 0);
    return about.dli_fbase == mine.dli_fbase;
}

void tls_calls_check(void)
{
    ASSERT(tls_calls_has("send") && tls_calls_has("sendmsg"));
    ASSERT(tls_calls_has("shutdown") && tls_calls_has("close"));
}
