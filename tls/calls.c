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

#include "base/check.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/socket.h>

#define REPLACES __attribute__((visibility("default"), used))

/* The next definitions in the search order: those of the C library, or of a sanitizer, which must
 * see the calls too. */
static struct {
    ssize_t (*sendmsg)(int fd, const struct msghdr *message, int flags);
    int (*shutdown)(int fd, int how);
    int (*close)(int fd);
} next;

static void find(const char *name, void *to)
{
    void *found = dlsym(RTLD_NEXT, name);

    ASSERT(found);
    memcpy(to, &found, sizeof(found)); /* ISO C has no cast from an object to a function. */
}

/* Before main and its threads; close() may also be called after a fork. Constructors of libraries
 * run earlier: then the first of their calls finds the functions. */
__attribute__((constructor)) static void find_all(void)
{
    find("sendmsg", &next.sendmsg);
    find("shutdown", &next.shutdown);
    find("close", &next.close);
}

static void need_all(void)
{
    if (!next.close) {
        find_all();
    }
}

static ssize_t plain_sendmsg(int fd, const struct msghdr *message, int flags)
{
    need_all();
    return next.sendmsg(fd, message, flags);
}

static int plain_close(int fd)
{
    need_all();
    return next.close(fd);
}

/* The thread sanitizer knows that a thread that receives bytes with recvmsg() runs after the thread
 * that sent them with sendmsg(); it does not know this of the other calls. */
ssize_t tls_call_recv(int fd, void *to, size_t len, int flags)
{
#ifdef __SANITIZE_THREAD__
    struct iovec part = {.iov_base = to, .iov_len = len};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

    return recvmsg(fd, &message, flags);
#else
    return recvfrom(fd, to, len, flags, NULL, NULL);
#endif
}

ssize_t tls_call_send(int fd, const void *from, size_t len, int flags)
{
#ifdef __SANITIZE_THREAD__
    struct iovec part = {.iov_base = (void *)(uintptr_t)from, .iov_len = len};
    const struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

    return plain_sendmsg(fd, &message, flags);
#else
    return sendto(fd, from, len, flags, NULL, 0);
#endif
}

int tls_call_shutdown(int fd, int how)
{
    need_all();
    return next.shutdown(fd, how);
}

/* ---- The functions of the process ---- */

ssize_t tls_calls_send(int fd, const void *from, size_t len, int flags) __asm__("send") REPLACES;
ssize_t tls_calls_sendmsg(int fd, const struct msghdr *message,
                          int flags) __asm__("sendmsg") REPLACES;
int tls_calls_shutdown(int fd, int how) __asm__("shutdown") REPLACES;
int tls_calls_close(int fd) __asm__("close") REPLACES;

ssize_t tls_calls_send(int fd, const void *from, size_t len, int flags)
{
    struct tls_socket *socket = tls_socket_of(fd);
    const struct iovec part = {.iov_base = (void *)(uintptr_t)from, .iov_len = len};

    return socket ? tls_socket_send(socket, &part, 1, flags) : tls_call_send(fd, from, len, flags);
}

ssize_t tls_calls_sendmsg(int fd, const struct msghdr *message, int flags)
{
    struct tls_socket *socket = tls_socket_of(fd);

    return socket ? tls_socket_send(socket, message->msg_iov, message->msg_iovlen, flags)
                  : plain_sendmsg(fd, message, flags);
}

int tls_calls_shutdown(int fd, int how)
{
    struct tls_socket *socket = tls_socket_of(fd);

    return socket ? tls_socket_shutdown(socket, how) : tls_call_shutdown(fd, how);
}

int tls_calls_close(int fd)
{
    struct tls_socket *socket = tls_socket_of(fd);

    if (socket) {
        tls_socket_detach(socket);
    }
    return plain_close(fd);
}
