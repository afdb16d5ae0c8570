#include "tests/lib/ports.h"

#include "base/check.h"
#include "base/loop.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    PORT_FIRST = 12000,
    PORT_COUNT = 20000
};

/* Claims a port for the lifetime of this program, even while no server listens there. The claim is
 * a socket name in no directory, so it ends with this program. The name fills the whole field. */
static int claim(uint16_t port)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "zabra-test-port-%u", port);
    ASSERT(fd >= 0);
    if (bind(fd, (struct sockaddr *)&name, sizeof(name)) < 0) {
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

/* Claims a free port; -1: it is not free. */
static int take(uint16_t port)
{
    int claimed = claim(port);

    if (claimed >= 0 && !is_free(port)) {
        close(claimed);
        return -1;
    }
    return claimed;
}

/* Claims all or none. */
static bool take_rows(uint16_t first, uint16_t count, uint16_t apart)
{
    int claims[2 * PORT_ROW_MAX];
    uint32_t taken = 0;

    while (taken < 2U * count) {
        uint32_t row = taken < count ? 0 : apart;

        claims[taken] = take((uint16_t)(first + row + taken % count));
        if (claims[taken] < 0) {
            while (taken > 0) {
                close(claims[--taken]);
            }
            return false;
        }
        taken++;
    }
    return true;
}

/* Programs that run at the same time begin at different ports. */
static uint16_t next_port(void)
{
    static uint32_t tried;

    if (tried == 0) {
        tried = (uint32_t)getpid() * 97;
    }
    return (uint16_t)(PORT_FIRST + tried++ % PORT_COUNT);
}

uint16_t port_free(void)
{
    for (uint32_t i = 0; i < PORT_COUNT; i++) {
        uint16_t port = next_port();

        if (take(port) >= 0) {
            return port;
        }
    }
    UNREACHABLE();
}

uint16_t port_free_rows(uint16_t count, uint16_t apart)
{
    ASSERT(count > 0 && count <= PORT_ROW_MAX && count <= apart);
    for (uint32_t i = 0; i < PORT_COUNT; i++) {
        uint16_t first = next_port();

        if (take_rows(first, count, apart)) {
            return first;
        }
    }
    UNREACHABLE();
}
