/* Reports to the owner of the transport: refusals, and two processes with one id. */
#include "zab/tcp/tcp_int.h"

#include <netdb.h>
#include <stdio.h>

enum {
    UNKNOWN_AGAIN_MS = 10000, /* Minimum time between reports of refused unknown callers. */
    HOST_MAX = 46,            /* A numeric address. */
    ADVERTISE_SHOWN = 24      /* Characters shown of the address for clients. */
};

/* Replaces unprintable characters: the address that a peer advertises may hold any bytes. */
static void make_printable(char *text)
{
    for (; *text; text++) {
        if (*text < ' ' || *text > '~') {
            *text = '?';
        }
    }
}

/* Writes a text such as "10.0.0.3 (clients: zk3:9998)". The text has no source port: the port
 * differs in each attempt, so report_refusal would take each attempt for a new refusal. */
void claim_describe(const struct conn *conn, char text[TCP_ADDRESS_MAX])
{
    ASSERT(conn->watch.fd >= 0);

    struct sockaddr_storage addr;
    socklen_t len = sizeof(addr);
    char host[HOST_MAX] = "?";

    if (getpeername(conn->watch.fd, (struct sockaddr *)&addr, &len) == 0) {
        (void)getnameinfo((const struct sockaddr *)&addr, len, host, sizeof(host), NULL, 0,
                          NI_NUMERICHOST);
    }
    if (conn->identity.advertise[0]) {
        (void)snprintf(text, TCP_ADDRESS_MAX, "%s (clients: %.*s)", host, ADVERTISE_SHOWN,
                       conn->identity.advertise);
    } else {
        (void)snprintf(text, TCP_ADDRESS_MAX, "%s", host);
    }
    make_printable(text);
}

void claim_text(uint32_t id, const char *one, const char *other, char text[TCP_WHY_MAX])
{
    (void)snprintf(text, TCP_WHY_MAX, "two processes claim id %u: %s and %s", id, one, other);
}

void report_duplicate(const struct tcp *tcp, uint32_t id, const char *text)
{
    if (tcp->handler.on_duplicate) {
        tcp->handler.on_duplicate(tcp->handler.ctx, id, text);
    }
}

/* Reports a refusal unless it was reported before: a caller may try as often as it likes, but must
 * not fill the log. */
void report_refusal(struct tcp *tcp, struct link *link, const char *why)
{
    uint64_t now_ms = os_now_ms();
    bool again = link ? !strcmp(link->refusal, why)
                      : tcp->unknown_at_ms && now_ms - tcp->unknown_at_ms < UNKNOWN_AGAIN_MS;

    tcp->refused++;
    if (again) {
        return;
    }
    if (link) {
        (void)snprintf(link->refusal, sizeof(link->refusal), "%s", why);
    } else {
        tcp->unknown_at_ms = now_ms;
    }
    if (tcp->handler.on_refused) {
        tcp->handler.on_refused(tcp->handler.ctx, link ? link->peer.id : 0, why);
    }
}
