/* The peer port: who is let in to begin a handshake, and who gives way when there are many. */
#include "base/check.h"
#include "base/os_clock.h"
#include "base/os_files.h"
#include "zab/tcp/tcp_int.h"

#include <errno.h>
#include <unistd.h>

enum {
    BACKLOG = 64,
    ACCEPTS_MAX = 32, /* In one turn. */
};

/* The oldest caller that has not proven itself goes; false when there is none. */
static bool drop_stranger(struct tcp *tcp, const char *why)
{
    ASSERT(tcp->depth > 0);

    list_for_each (it, &tcp->shaking) {
        struct conn *conn = list_entry(it, struct conn, node);

        if (!conn->dialed && conn->state != CONN_CLAIM) {
            tcp->refused++;
            tcp_drop(conn, why);
            return true;
        }
    }
    return false;
}

void listen_hear(struct tcp *tcp, bool all)
{
    tcp->deaf_until_ms = all ? 0 : os_now_ms() + TCP_DEAF_MS;
    for (uint32_t i = 0; i < tcp->listener_count; i++) {
        loop_modify(tcp->loop, &tcp->listeners[i], all ? LOOP_READ : 0);
    }
}

/* Strangers must not keep a peer out, neither by their number nor by their descriptors. A caller
 * that cannot be accepted would be reported again and again: it waits for a moment. */
static void on_lack(struct tcp *tcp)
{
    ASSERT(tcp->depth > 0);
    if (!drop_stranger(tcp, "out of file descriptors")) {
        listen_hear(tcp, false);
    }
}

static void on_listener_ready(struct loop_watch *watch, uint32_t ready)
{
    struct tcp *tcp = watch->ctx;
    struct sockaddr_storage from;

    (void)ready;
    tcp->depth++;
    for (int i = 0; i < ACCEPTS_MAX; i++) {
        int fd = loop_accept(watch->fd, &from);

        if (fd < 0) {
            if (os_files_is_lack(-fd)) {
                on_lack(tcp);
            }
            break;
        }
        if (tcp->shaking_count >= tcp->options.shaking_max) {
            (void)drop_stranger(tcp, "too many handshakes");
        }
        tcp_accepted(tcp, fd);
    }
    tcp->depth--;
    tcp_reap(tcp);
}

static enum err listen_on(struct tcp *tcp, const struct resolve_address *address)
{
    ASSERT(tcp->listener_count < TCP_LISTENERS_MAX);

    struct loop_watch *watch = &tcp->listeners[tcp->listener_count];
    int fd = loop_listen((const struct sockaddr *)&address->addr, address->len, BACKLOG);

    if (fd < 0) {
        return fd == -EADDRINUSE ? ERR_BUSY : ERR_CONFIG;
    }
    *watch = (struct loop_watch){
        .fd = fd, .interest = LOOP_READ, .on_ready = on_listener_ready, .ctx = tcp};
    loop_add(tcp->loop, watch);
    tcp->listener_count++;
    return ERR_OK;
}

/* A name such as localhost may have addresses of a family that this machine lacks: one that can be
 * bound is enough. */
enum err listen_open(struct tcp *tcp)
{
    struct resolve_answer answer;
    enum err err = ERR_OK;

    resolve_now(tcp->options.listen_host, tcp->options.listen_port, &answer);
    for (uint32_t i = 0; i < answer.count && err != ERR_BUSY; i++) {
        err = listen_on(tcp, &answer.addresses[i]);
    }
    if (err != ERR_BUSY && tcp->listener_count > 0) {
        err = ERR_OK;
    }
    return answer.count ? err : ERR_CONFIG;
}

void listen_close(struct tcp *tcp)
{
    for (uint32_t i = 0; i < tcp->listener_count; i++) {
        loop_remove(tcp->loop, &tcp->listeners[i]);
        close(tcp->listeners[i].fd);
    }
    tcp->listener_count = 0;
}
