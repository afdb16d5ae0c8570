#include "tests/lib/dial.h"

#include "base/check.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <sys/socket.h>

int dial_begin(uint16_t port, bool deaf)
{
    struct sock_filter drop_all[] = {BPF_STMT(BPF_RET | BPF_K, 0)};
    struct sock_fprog program = {.len = 1, .filter = drop_all};
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int failed = deaf ? setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) : 0;

    ASSERT(!failed);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    failed = connect(fd, (const struct sockaddr *)&to, sizeof(to));
    ASSERT(failed && (errno == EINPROGRESS || errno == ECONNREFUSED));
    return fd;
}
