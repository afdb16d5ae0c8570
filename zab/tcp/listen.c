/* The peer port: accepts callers, and drops unproven ones when there are too many. */
#include "base/os_files.h"
#include "zab/tcp/tcp_int.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

enum {
    BACKLOG = 64,
    ACCEPTS_MAX = 32,   /* Callers accepted in one turn. */
    RETRY_MIN_MS = 250, /* First pause between attempts to listen by a name. */
    RETRY_MAX_MS = 4000,
    FIRST_ANSWER_MS = 4000, /* Dialing waits that long for the address of this replica's name. */
    SHARES = 512,           /* Above the most handshakes at a time. */
};

/* How many unproven callers an address has. */
struct share {
    struct caller caller;
    uint32_t count; /* 0: an unused place. */
};

/* Returns the share of an address, or an unused place. The places are those of a hash table, whose
 * order differs in each process. */
static struct share *share_of(const struct tcp *tcp, struct share shares[SHARES],
                              const struct caller *caller)
{
    uint64_t mixed = tcp->options.start;

    for (size_t i = 0; i < sizeof(caller->bytes); i++) {
        mixed = (mixed ^ caller->bytes[i]) * UINT64_C(0x9e3779b97f4a7c15);
        mixed ^= mixed >> 32;
    }

    size_t at = mixed % SHARES;

    while (shares[at].count > 0 && !caller_eq(&shares[at].caller, caller)) {
        at = (at + 1) % SHARES;
    }
    return &shares[at];
}

/* Whether the connection is that of an unproven caller, at the address of a peer or not. */
static bool is_candidate(const struct conn *conn, bool at_peer)
{
    return !conn->dialed && conn->state != CONN_CLAIM &&
           tcp_knows_caller(conn->tcp, &conn->caller) == at_peer;
}

/* Returns the oldest unproven caller of the address that has most of them, among the addresses of
 * peers or among the others. NULL: there is none. */
static struct conn *weakest(struct tcp *tcp, bool at_peer)
{
    struct share shares[SHARES] = {{.count = 0}};
    uint32_t most = 0;

    ASSERT(tcp->shaking_count < SHARES);
    list_for_each_entry (struct conn, conn, node, &tcp->shaking) {
        if (is_candidate(conn, at_peer)) {
            struct share *share = share_of(tcp, shares, &conn->caller);

            share->caller = conn->caller;
            share->count++;
            most = max_u32(most, share->count);
        }
    }
    list_for_each_entry (struct conn, conn, node, &tcp->shaking) {
        if (is_candidate(conn, at_peer) && share_of(tcp, shares, &conn->caller)->count == most) {
            return conn;
        }
    }
    return NULL;
}

/* Drops a caller that has not proven itself; those at addresses of peers come last. Returns false
 * when there is none. */
static bool drop_unproven(struct tcp *tcp, const char *why)
{
    struct conn *conn = weakest(tcp, false);

    conn = conn ? conn : weakest(tcp, true);
    if (conn) {
        tcp->refused++;
        tcp_drop(conn, why);
    }
    return conn != NULL;
}

void listen_accept(struct tcp *tcp, bool all)
{
    tcp->accept_from_ms = all ? 0 : os_now_ms() + TCP_PAUSE_MS;
    for (uint32_t i = 0; i < tcp->listener_count; i++) {
        loop_modify(tcp->loop, &tcp->listeners[i], all ? LOOP_READ : 0);
    }
}

/* Handles a lack of descriptors: drops an unproven caller, or pauses accepting if there is none.
 * Unproven callers must not keep a peer out, neither by their number nor by their descriptors.
 * Without the pause the loop would report again and again a caller that cannot be accepted. */
static void on_lack(struct tcp *tcp)
{
    if (!drop_unproven(tcp, "this replica is out of file descriptors")) {
        listen_accept(tcp, false);
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
            (void)drop_unproven(tcp, "this replica has too many unfinished handshakes");
        }
        tcp_start(tcp, NULL, NULL, fd)->caller = caller_of(&from);
    }
    tcp->depth--;
    tcp_reap(tcp);
}

/* Returns 0 or a negative errno. */
static int listen_on(struct tcp *tcp, const struct resolve_address *address)
{
    ASSERT(tcp->listener_count < TCP_LISTENERS_MAX);

    struct loop_watch *watch = &tcp->listeners[tcp->listener_count];
    int fd = loop_listen((const struct sockaddr *)&address->addr, address->len, BACKLOG);

    if (fd < 0) {
        return fd;
    }
    loop_add_reader(tcp->loop, watch, fd, on_listener_ready, tcp);
    tcp->listener_count++;
    return 0;
}

/* Binds the addresses of a name, the first few at least. If the port of one is in use, all are
 * closed, and -EADDRINUSE is returned. Otherwise one bound address is enough, since a name such as
 * localhost may have addresses of a family that this machine lacks. Returns 0 or a negative errno:
 * of several errors -EADDRNOTAVAIL (the address of another machine) if it is among them, else the
 * last one. */
static int listen_on_all(struct tcp *tcp, const struct resolve_answer *answer)
{
    int failed = 0;

    ASSERT(tcp->listener_count == 0 && answer->count > 0);
    for (uint32_t i = 0; i < min_u32(answer->count, TCP_LISTENERS_MAX) && failed != -EADDRINUSE;
         i++) {
        int result = listen_on(tcp, &answer->addresses[i]);

        failed = failed == -EADDRNOTAVAIL && result != -EADDRINUSE ? failed : result;
    }
    if (failed == -EADDRINUSE) {
        listen_close(tcp);
    }
    return tcp->listener_count > 0 ? 0 : failed;
}

enum err listen_open(struct tcp *tcp)
{
    struct resolve_answer answer;

    if (!resolve_numeric(tcp->listen_host, tcp->options.listen_port, &answer)) {
        tcp->listen_wanted = true;
        tcp->listen_pause_ms = RETRY_MIN_MS;
        tcp->dial_from_ms = os_now_ms() + FIRST_ANSWER_MS;
        return ERR_OK;
    }

    int failed = listen_on_all(tcp, &answer);

    return failed == 0 ? ERR_OK : (failed == -EADDRINUSE ? ERR_BUSY : ERR_CONFIG);
}

uint64_t listen_tick(struct tcp *tcp, uint64_t now_ms)
{
    if (!tcp->listen_wanted || tcp->listen_resolving) {
        return UINT64_MAX;
    }
    if (now_ms < tcp->listen_at_ms) {
        return tcp->listen_at_ms;
    }
    tcp->listen_resolving = true;
    resolver_ask(tcp->resolver, tcp->options.id, tcp->listen_host, tcp->options.listen_port);
    return UINT64_MAX;
}

static void tell(const struct tcp *tcp, const char *why)
{
    if (tcp->handler.on_listen) {
        tcp->handler.on_listen(tcp->handler.ctx, why);
    }
}

/* Explains why listening failed. A wrong id and a wrong name in the server list fail in the same
 * way. */
static void explain_failure(const struct tcp *tcp, int failed, char why[TCP_WHY_MAX])
{
    uint16_t port = tcp->options.listen_port;

    if (failed == -EADDRNOTAVAIL) {
        (void)snprintf(
            why, TCP_WHY_MAX,
            "cannot listen on %.80s port %u: the name resolves to another machine; if that is "
            "wrong, correct id or the server list",
            tcp->listen_host, port);
    } else {
        (void)snprintf(why, TCP_WHY_MAX, "cannot listen on %.100s port %u: %s", tcp->listen_host,
                       port, strerrordesc_np(-failed));
    }
}

/* Sets when peers may be dialed. A replica whose name resolves to another machine may have been
 * started with the id of the replica that runs there. So it has no connections until it has bound
 * its own address, even if the name has no address meanwhile. A name that has never had an address
 * does not prevent dialing. */
static void allow_dialing(struct tcp *tcp, int failed)
{
    if (failed == -EADDRNOTAVAIL) {
        tcp->dial_from_ms = UINT64_MAX;
        tcp_doom_all(tcp, "the name of this replica resolves to another machine");
    } else if (failed == 0 || tcp->dial_from_ms != UINT64_MAX) {
        tcp->dial_from_ms = 0;
    }
}

/* Tries to listen on the addresses found. The name of a container gets its address late, and may
 * first have the address of its predecessor. */
void listen_answer(struct tcp *tcp, const struct resolve_answer *answer)
{
    ASSERT(tcp->listen_wanted && tcp->listen_resolving);

    int failed = answer->count > 0 ? listen_on_all(tcp, answer) : -ENOENT;
    char why[TCP_WHY_MAX];

    tcp->listen_resolving = false;
    allow_dialing(tcp, failed);
    if (failed == 0) {
        tcp->listen_wanted = false;
        tell(tcp, NULL);
        return;
    }
    if (answer->count == 0) {
        (void)snprintf(why, sizeof(why), "the name %.100s has no address", tcp->listen_host);
    } else {
        explain_failure(tcp, failed, why);
    }
    tcp->listen_at_ms = os_now_ms() + tcp->listen_pause_ms;
    tcp->listen_pause_ms = min_u32(tcp->listen_pause_ms * 2, RETRY_MAX_MS);
    tell(tcp, why);
}

void listen_close(struct tcp *tcp)
{
    for (uint32_t i = 0; i < tcp->listener_count; i++) {
        loop_remove(tcp->loop, &tcp->listeners[i]);
        close(tcp->listeners[i].fd);
    }
    tcp->listener_count = 0;
}
