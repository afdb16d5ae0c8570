/* What the kernel tells of connections that nobody has accepted yet (sock_diag(7)). */
#include "base/loop.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/tcp.h>
#include <unistd.h>

enum {
    NEW_SYN_RECV = 12, /* Of the kernel: a handshake without a socket of its own yet. */
    ANSWER_MAX = 8192
};

static bool ask(int fd, int family, uint16_t port)
{
    struct {
        struct nlmsghdr head;
        struct inet_diag_req_v2 diag;
    } request = {
        .head = {.nlmsg_len = sizeof(request),
                 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                 .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
        .diag = {.sdiag_family = (uint8_t)family,
                 .sdiag_protocol = IPPROTO_TCP,
                 .idiag_states = 1U << TCP_SYN_RECV | 1U << NEW_SYN_RECV,
                 .id.idiag_sport = htons(port)},
    };

    return send(fd, &request, sizeof(request), 0) == (ssize_t)sizeof(request);
}

/* A list comes to its end with another type of message; the first one is enough. */
static bool is_any(int fd)
{
    _Alignas(struct nlmsghdr) uint8_t answer[ANSWER_MAX];
    const struct nlmsghdr *head = (const struct nlmsghdr *)(const void *)answer;
    ssize_t got = recv(fd, answer, sizeof(answer), 0);

    return got >= (ssize_t)sizeof(*head) && head->nlmsg_type == SOCK_DIAG_BY_FAMILY;
}

static bool has_handshakes(int family, uint16_t port)
{
    int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);

    if (fd < 0) {
        return false;
    }
    bool any = ask(fd, family, port) && is_any(fd);

    close(fd);
    return any;
}

bool loop_has_handshakes(int listen_fd)
{
    uint16_t port = loop_local_port(listen_fd);

    return has_handshakes(AF_INET, port) || has_handshakes(AF_INET6, port);
}
