#include "tls/system.h"

#include "base/check.h"

#include <dlfcn.h>
#include <string.h>

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

ssize_t tls_system_sendmsg(int fd, const struct msghdr *message, int flags)
{
    need_all();
    return next.sendmsg(fd, message, flags);
}

int tls_system_close(int fd)
{
    need_all();
    return next.close(fd);
}

/* The thread sanitizer knows that a thread that receives bytes with recvmsg() runs after the thread
 * that sent them with sendmsg(); it does not know this of the other calls. */
ssize_t tls_system_recv(int fd, void *to, size_t len, int flags)
{
#ifdef __SANITIZE_THREAD__
    struct iovec part = {.iov_base = to, .iov_len = len};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

    return recvmsg(fd, &message, flags);
#else
    return recvfrom(fd, to, len, flags, NULL, NULL);
#endif
}

ssize_t tls_system_send(int fd, const void *from, size_t len, int flags)
{
#ifdef __SANITIZE_THREAD__
    struct iovec part = {.iov_len = len};
    const struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

    memcpy(&part.iov_base, &from, sizeof(from)); /* The bytes are only read. */
    return tls_system_sendmsg(fd, &message, flags);
#else
    return sendto(fd, from, len, flags, NULL, 0);
#endif
}

int tls_system_shutdown(int fd, int how)
{
    need_all();
    return next.shutdown(fd, how);
}
