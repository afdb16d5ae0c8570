/* What the kernel tells of connections that nobody has accepted yet (sock_diag(7)). */
#include "base/loop.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/tcp.h>
#include <string.h>
#include <unistd.h>

enum {
    NEW_SYN_RECV = 12, /* Of the kernel: a handshake without a socket of its own yet. */
    ANSWER_MAX = 8192, /* The kernel cuts its list into pieces of this size at most. */
    ANSWERS_MAX = 256  /* So many pieces of dead ones, 15,000 or more, and there is no end to it. */
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

/* One whose answer had to be sent again is more than a second old: its client is gone, or only
 * looked whether somebody listens. */
static bool is_young(const struct nlmsghdr *head)
{
    struct inet_diag_msg connection;

    if (head->nlmsg_len < NLMSG_LENGTH(sizeof(connection))) {
        return false;
    }
    memcpy(&connection, NLMSG_DATA(head), sizeof(connection));
    return connection.idiag_retrans == 0;
}

/* The list may take several messages; its end, as an error, is another type of message. */
static bool is_any_young(int fd)
{
    _Alignas(struct nlmsghdr) uint8_t answer[ANSWER_MAX];

    for (int i = 0; i < ANSWERS_MAX; i++) {
        ssize_t got = recv(fd, answer, sizeof(answer), 0);
        size_t rest = got > 0 ? (size_t)got : 0;
        const struct nlmsghdr *head = (const struct nlmsghdr *)(const void *)answer;

        if (!NLMSG_OK(head, rest)) {
            return false;
        }
        for (; NLMSG_OK(head, rest); head = NLMSG_NEXT(head, rest)) {
            if (head->nlmsg_type != SOCK_DIAG_BY_FAMILY) {
                return false;
            }
            if (is_young(head)) {
                return true;
            }
        }
    }
    return false;
}

static bool has_handshakes(int family, uint16_t port)
{
    int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);

    if (fd < 0) {
        return false;
    }
    bool any = ask(fd, family, port) && is_any_young(fd);

    close(fd);
    return any;
}

bool loop_has_handshakes(int listen_fd)
{
    uint16_t port = loop_local_port(listen_fd);

    return has_handshakes(AF_INET, port) || has_handshakes(AF_INET6, port);
}
