/* What the kernel tells of connections that nobody has accepted yet (sock_diag(7)). */
#include "base/loop.h"
#include "base/slice.h"

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
static bool is_young(struct slice message)
{
    struct inet_diag_msg connection;

    if (message.len < NLMSG_LENGTH(sizeof(connection))) {
        return false;
    }
    memcpy(&connection, message.data + NLMSG_HDRLEN, sizeof(connection));
    return connection.idiag_retrans == 0;
}

/* Cuts the next message off, without the macros of the kernel's header: their casts ignore
 * alignment. False when there is none, or it is longer than what is left. */
static bool next_message(struct slice *rest, struct nlmsghdr *ret_head, struct slice *ret_message)
{
    if (rest->len < sizeof(*ret_head)) {
        return false;
    }
    memcpy(ret_head, rest->data, sizeof(*ret_head));
    if (ret_head->nlmsg_len < sizeof(*ret_head) || ret_head->nlmsg_len > rest->len) {
        return false;
    }
    size_t step = NLMSG_ALIGN((size_t)ret_head->nlmsg_len);

    *ret_message = slice_make(rest->data, ret_head->nlmsg_len);
    step = step < rest->len ? step : rest->len;
    *rest = slice_make(rest->data + step, rest->len - step);
    return true;
}

/* The list may take several messages; its end, as an error, is another type of message. */
static bool is_any_young(int fd)
{
    uint8_t answer[ANSWER_MAX];

    for (int i = 0; i < ANSWERS_MAX; i++) {
        ssize_t got = recv(fd, answer, sizeof(answer), 0);
        struct slice rest = slice_make(answer, got > 0 ? (size_t)got : 0);
        struct nlmsghdr head;
        struct slice message;

        if (!next_message(&rest, &head, &message)) {
            return false;
        }
        do {
            if (head.nlmsg_type != SOCK_DIAG_BY_FAMILY) {
                return false;
            }
            if (is_young(message)) {
                return true;
            }
        } while (next_message(&rest, &head, &message));
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
