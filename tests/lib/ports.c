#include "tests/lib/ports.h"

#include "base/check.h"
#include "base/loop.h"

#include <arpa/inet.h>
#include <unistd.h>

enum {
    PORT_FIRST = 12000,
    PORT_COUNT = 20000
};

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

        if (is_free(port)) {
            return port;
        }
    }
    UNREACHABLE();
}
