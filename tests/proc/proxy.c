#include "tests/proc/proxy.h"

#include "base/loop.h"
#include "tests/proc/relay.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

enum {
    POLL_MS = 50
};

static void link_close(struct proxy_link *link)
{
    close(link->client);
    close(link->server);
    *link = (struct proxy_link){.client = -1, .server = -1};
}

static struct proxy_link *link_unused(struct proxy *proxy)
{
    for (uint32_t i = 0; i < PROXY_CONNECTIONS; i++) {
        if (proxy->links[i].client < 0) {
            return &proxy->links[i];
        }
    }
    return NULL;
}

static void take_client(struct proxy *proxy)
{
    struct sockaddr_storage from;
    int client = loop_accept(proxy->listen_fd, &from);
    struct proxy_link *link = link_unused(proxy);
    int server = client >= 0 && link ? relay_dial(proxy->target, 0) : -1;

    if (client < 0) {
        return;
    }
    if (server < 0) {
        close(client);
        return;
    }
    *link = (struct proxy_link){.client = client, .server = server};
}

/* Forwards the available bytes; false at the end. */
static bool pass(struct proxy *proxy, int from, int to)
{
    ssize_t got = read(from, proxy->bytes, sizeof(proxy->bytes));

    if (got < 0) {
        return errno == EAGAIN;
    }
    return got > 0 && relay_send_all(to, proxy->bytes, (size_t)got);
}

static void serve_client(struct proxy *proxy, struct proxy_link *link)
{
    if (pass(proxy, link->client, link->server)) {
        link->asked = true;
    } else {
        link_close(link);
    }
}

/* Reads and discards; true at the end. */
static bool swallow(struct proxy *proxy, int fd)
{
    ssize_t got = read(fd, proxy->bytes, sizeof(proxy->bytes));

    return got == 0 || (got < 0 && errno != EAGAIN);
}

static void serve_server(struct proxy *proxy, struct proxy_link *link)
{
    bool answer = link->asked;

    link->asked = false;
    if (atomic_load(&proxy->deaf)) {
        if (swallow(proxy, link->server)) {
            link_close(link);
        }
        return;
    }
    if (answer && rng_below(&proxy->rng, 100) < proxy->drop_percent) {
        atomic_fetch_add(&proxy->dropped, 1);
        link_close(link);
        return;
    }
    atomic_fetch_add(&proxy->passed, answer ? 1 : 0);
    if (!pass(proxy, link->server, link->client)) {
        link_close(link);
    }
}

static void make_orphans(struct proxy *proxy)
{
    for (uint32_t i = 0; i < PROXY_CONNECTIONS; i++) {
        proxy->links[i].orphan = proxy->links[i].client >= 0;
    }
    atomic_store(&proxy->orphaning, false);
}

static void serve_orphan(struct proxy *proxy, struct proxy_link *link, bool client, bool server)
{
    link->client_ended = link->client_ended || (client && swallow(proxy, link->client));
    link->server_ended = link->server_ended || (server && swallow(proxy, link->server));
    if (link->client_ended && link->server_ended) {
        link_close(link);
    }
}

static int polled(int fd, bool ended)
{
    return ended ? -1 : fd;
}

static void turn(struct proxy *proxy)
{
    struct pollfd polls[1 + 2 * PROXY_CONNECTIONS];

    if (atomic_load(&proxy->orphaning)) {
        make_orphans(proxy);
    }
    polls[0] = (struct pollfd){.fd = proxy->listen_fd, .events = POLLIN};
    for (uint32_t i = 0; i < PROXY_CONNECTIONS; i++) {
        const struct proxy_link *link = &proxy->links[i];

        polls[1 + 2 * i] =
            (struct pollfd){.fd = polled(link->client, link->client_ended), .events = POLLIN};
        polls[2 + 2 * i] =
            (struct pollfd){.fd = polled(link->server, link->server_ended), .events = POLLIN};
    }
    if (poll(polls, sizeof(polls) / sizeof(polls[0]), POLL_MS) <= 0) {
        return;
    }
    for (uint32_t i = 0; i < PROXY_CONNECTIONS; i++) {
        struct proxy_link *link = &proxy->links[i];

        if (link->orphan) {
            serve_orphan(proxy, link, polls[1 + 2 * i].revents != 0, polls[2 + 2 * i].revents != 0);
            continue;
        }
        if (link->client >= 0 && polls[1 + 2 * i].revents) {
            serve_client(proxy, link);
        }
        if (link->client >= 0 && polls[2 + 2 * i].revents) {
            serve_server(proxy, link);
        }
    }
    if (polls[0].revents) {
        take_client(proxy);
    }
}

static void run(void *arg)
{
    struct proxy *proxy = arg;

    while (!atomic_load(&proxy->stopping)) {
        turn(proxy);
    }
}

void proxy_start(struct proxy *proxy, uint16_t target, uint32_t drop_percent, uint64_t seed)
{
    memset(proxy, 0, sizeof(*proxy));
    proxy->target = target;
    proxy->drop_percent = drop_percent;
    rng_init(&proxy->rng, seed);
    for (uint32_t i = 0; i < PROXY_CONNECTIONS; i++) {
        proxy->links[i] = (struct proxy_link){.client = -1, .server = -1};
    }
    proxy->listen_fd = relay_listen(PROXY_CONNECTIONS, &proxy->port);
    thread_start(&proxy->thread, "proxy", run, proxy);
}

void proxy_orphan(struct proxy *proxy)
{
    atomic_store(&proxy->orphaning, true);
    while (atomic_load(&proxy->orphaning)) {
        (void)poll(NULL, 0, 1);
    }
}

void proxy_stop(struct proxy *proxy)
{
    atomic_store(&proxy->stopping, true);
    thread_join(&proxy->thread);
    for (uint32_t i = 0; i < PROXY_CONNECTIONS; i++) {
        if (proxy->links[i].client >= 0) {
            link_close(&proxy->links[i]);
        }
    }
    close(proxy->listen_fd);
}
