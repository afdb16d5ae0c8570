#include "tests/lib/ports.h"

#include "base/check.h"
#include "base/loop.h"

#include <arpa/inet.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    PORT_FIRST = 12000,
    PORT_COUNT = 20000
};

/* For as long as this program lives, also while nobody listens there: the name of a socket that is
 * in no directory, so that it is gone with us. */
static int claim(uint16_t port)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int len = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "zabra-test-port-%u", port);

    ASSERT(fd >= 0);
    if (bind(fd, (struct sockaddr *)&name,
             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len)) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static bool is_free(uint16_t port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(port)};

    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);

    int fd = loop_listen((struct sockaddr *)&addr, sizeof(addr), 1);

    if (fd >= 0) {
        close(fd);
    }
    return fd >= 0;
}

/* Programs that run at the same time begin at different places. */
uint16_t port_free(void)
{
    static uint32_t tried;

    if (tried == 0) {
        tried = (uint32_t)getpid() * 97;
    }
    for (uint32_t i = 0; i < PORT_COUNT; i++) {
        uint16_t port = (uint16_t)(PORT_FIRST + tried++ % PORT_COUNT);

        int claimed = claim(port);

        if (claimed >= 0 && is_free(port)) {
            return port;
        }
        if (claimed >= 0) {
            close(claimed);
        }
    }
    UNREACHABLE();
}
