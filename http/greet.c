#include "http/greet.h"

#include "http/http_int.h"

#include <unistd.h>

struct greeting {
    struct list node;
    int fd;
    struct sockaddr_storage address;
    uint64_t end_ms; /* When it is handed over even if there is no room. */
};

void http_greet_open(struct http_greet *greet)
{
    *greet = (struct http_greet){.wake_fd = loop_wake_open()};
    list_init(&greet->held);
}

void http_greet_close(struct http_greet *greet)
{
    close(greet->wake_fd);
}

static void forget(struct http *http, const struct sockaddr_storage *address)
{
    http_caps_give(&http->caps, http_address_key((const struct sockaddr *)address));
    atomic_fetch_sub(&http->greet.handed, 1);
}

/* False: the library has closed the socket and will not report it. */
static bool give(struct http *http, struct MHD_Daemon *daemon, int fd,
                 const struct sockaddr_storage *address)
{
    socklen_t len =
        address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    bool given = MHD_add_connection(daemon, fd, (const struct sockaddr *)address, len) == MHD_YES;

    if (!given) {
        forget(http, address);
    }
    return given;
}

/* The library may close a connection for lack of memory without a report. So that lost reports do
 * not stop the others, none is held for long, and what was given before then no longer counts. */
static bool has_room(struct http_greet *greet)
{
    const struct greeting *first = list_first(&greet->held, struct greeting, node);

    if (atomic_load(&greet->given) >= HTTP_GREETS_MAX && first->end_ms <= os_now_ms()) {
        atomic_store(&greet->given, 0);
    }
    return atomic_load(&greet->given) < HTTP_GREETS_MAX;
}

/* Returns the count before. It stays 0 if the connection no longer counts. */
static uint32_t uncount(struct http_greet *greet)
{
    uint32_t given = atomic_load(&greet->given);

    while (given > 0 && !atomic_compare_exchange_weak(&greet->given, &given, given - 1)) {
    }
    return given;
}

/* `holds` is set before the room is looked at: a thread that makes room later sees it. */
void http_greet_some(struct http *http)
{
    struct http_greet *greet = &http->greet;

    while (!list_empty(&greet->held) && has_room(greet)) {
        struct greeting *greeting = list_take(&greet->held, struct greeting, node);

        atomic_fetch_add(&greet->given, 1);
        if (!give(http, http->waiting_daemon, greeting->fd, &greeting->address)) {
            (void)uncount(greet);
        }
        mem_free(greeting);
    }
    if (list_empty(&greet->held)) {
        atomic_store(&greet->holds, false);
    }
}

void http_greet_take(struct http *http, int fd, const struct sockaddr_storage *address, bool waits)
{
    struct http_greet *greet = &http->greet;

    atomic_fetch_add(&greet->handed, 1);
    if (!waits) {
        (void)give(http, http->daemon, fd, address);
        return;
    }

    struct greeting *greeting = mem_alloc(sizeof(*greeting));

    *greeting =
        (struct greeting){.fd = fd, .address = *address, .end_ms = os_now_ms() + HTTP_GREETS_MS};
    list_push_back(&greet->held, &greeting->node);
    atomic_store(&greet->holds, true);
    http_greet_some(http);
}

/* Wakes the acceptor once for several connections. */
void http_greet_opened(struct http *http, struct MHD_Connection *mhd)
{
    struct http_greet *greet = &http->greet;
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_DAEMON);

    atomic_fetch_sub(&greet->handed, 1);
    if (info->daemon == http->waiting_daemon && uncount(greet) == HTTP_GREETS_MAX / 2 + 1 &&
        atomic_load(&greet->holds)) {
        loop_wake(greet->wake_fd);
    }
}

void http_greet_drop_all(struct http *http)
{
    list_take_each (struct greeting, greeting, node, &http->greet.held) {
        close(greeting->fd);
        forget(http, &greeting->address);
        mem_free(greeting);
    }
    atomic_store(&http->greet.holds, false);
}
