/* The list of the other replicas, and its changes: which links there are, with which addresses. */
#include "zab/tcp/tcp_int.h"

#include <stdio.h>
#include <strings.h>

/* ---- What follows from the addresses. ---- */

static bool is_host(const char *host, const char *other)
{
    return host[0] && !strcasecmp(host, other);
}

static bool has_host(const struct tcp_peer *peer, const char *host)
{
    return is_host(peer->host, host) || is_host(peer->next_host, host);
}

/* Whether another replica, or this one, has the host of this peer. */
static bool shares_host(const struct tcp *tcp, const struct link *of, const char *host)
{
    bool shares = is_host(tcp->own_hosts[0], host) || is_host(tcp->own_hosts[1], host);

    for_each_link (link, tcp) {
        shares |= link != of && has_host(&link->peer, host);
    }
    return shares;
}

/* Sets which hosts a certificate of the peer may name. */
static void compare_hosts_of(const struct tcp *tcp, struct link *link)
{
    const char *const hosts[2] = {link->peer.host, link->peer.next_host};

    for (size_t i = 0; i < 2; i++) {
        link->hosts[i] = shares_host(tcp, link, hosts[i]) ? NULL : hosts[i];
    }
}

/* The host of an address of tcp_set_join proves a replica only that is not in the list: no other
 * replica may take the place of a replica there that is. */
static void compare_hosts(struct tcp *tcp)
{
    for_each_link (link, tcp) {
        compare_hosts_of(tcp, link);
    }
    list_for_each_entry (struct join_target, target, node, &tcp->targets) {
        const char *host = target->address.host;

        target->host = shares_host(tcp, NULL, host) ? NULL : host;
    }
}

/* Returns the address from which a peer calls whose host is an address. */
static struct link_caller caller_at(const char *host, uint16_t port)
{
    struct resolve_answer answer;
    struct link_caller caller = {.is_known = resolve_numeric(host, port, &answer)};

    if (caller.is_known) {
        caller.caller = caller_of(&answer.addresses[0].addr);
    }
    return caller;
}

static void set_callers(struct link *link)
{
    link->callers[0] = caller_at(link->peer.host, link->peer.port);
    link->callers[1] = caller_at(link->peer.next_host, link->peer.next_port);
    if (link->up && !link->up->dialed) {
        link->callers[0] = (struct link_caller){.is_known = true, .caller = link->up->caller};
    }
}

/* ---- Changes. ---- */

/* Gives the link its addresses. An attempt to connect begins again: it may have gone to an address
 * that the peer no longer has. A connection that is up has been proven, and stays. */
static void set_addresses(struct tcp *tcp, struct link *link, const struct tcp_peer *peer)
{
    ASSERT((peer->host[0] != '\0') == (peer->port != 0));
    ASSERT((peer->next_host[0] != '\0') == (peer->next_port != 0));
    ASSERT(peer->host[0] || !peer->next_host[0]);

    if (link->dialing) {
        tcp_drop(link->dialing, "the address of the peer has changed");
    }
    link->peer = *peer;
    link->resolving = false; /* The answer to the old name is dropped. */
    link->answer = (struct resolve_answer){.count = 0};
    link->answer_used = 0;
    link->second = true; /* The first address comes next. */
    link->retry_at_ms = 0;
    link->backoff_ms = tcp->options.retry_min_ms;
    link->hang_ups = 0;
    link->refusal[0] = '\0';
    set_callers(link);
}

static bool has_changed(const struct tcp_peer *before, const struct tcp_peer *peer)
{
    return strcmp(before->host, peer->host) != 0 || before->port != peer->port ||
           strcmp(before->next_host, peer->next_host) != 0 || before->next_port != peer->next_port;
}

static void add(struct tcp *tcp, const struct tcp_peer *peer)
{
    outsiders_yield(tcp);

    struct link *link = link_take(tcp, peer->id);

    ASSERT(link);
    set_addresses(tcp, link, peer);
}

/* Takes the replica into the list, or its address. */
static void set(struct tcp *tcp, const struct tcp_peer *peer)
{
    struct link *link = tcp_link(tcp, peer->id);

    if (!link) {
        add(tcp, peer);
        return;
    }
    if (link->is_outsider) {
        outsiders_admit(tcp, link);
    }
    if (has_changed(&link->peer, peer)) {
        set_addresses(tcp, link, peer);
    }
}

static void set_own_hosts(struct tcp *tcp, const struct tcp_peer *self)
{
    (void)snprintf(tcp->own_hosts[0], RESOLVE_HOST_MAX, "%s", self->host);
    (void)snprintf(tcp->own_hosts[1], RESOLVE_HOST_MAX, "%s", self->next_host);
}

static const struct tcp_peer *find(const struct tcp_peer *peers, uint32_t count, uint32_t id)
{
    const struct tcp_peer *found = NULL;

    for (uint32_t i = 0; i < count; i++) {
        ASSERT(!found || peers[i].id != id);
        found = peers[i].id == id ? &peers[i] : found;
    }
    return found;
}

void tcp_set_peers(struct tcp *tcp, const struct tcp_peer *peers, uint32_t count)
{
    const struct tcp_peer *self = find(peers, count, tcp->options.id);

    ASSERT(count <= ZAB_MEMBERS_MAX + (self ? 1U : 0U));
    for_each_link (link, tcp) { /* First, so that the added replicas find a slot. */
        if (!link->is_outsider && !find(peers, count, link->peer.id)) {
            link_remove(tcp, link);
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        if (&peers[i] == self) {
            set_own_hosts(tcp, self);
        } else {
            set(tcp, &peers[i]);
        }
    }
    compare_hosts(tcp);
}

void tcp_set_join(struct tcp *tcp, const struct tcp_address *addresses, uint32_t count)
{
    join_set(tcp, addresses, count);
    compare_hosts(tcp);
}

/* ---- Certificates and a list that is not in force yet. ---- */

/* Whether another replica of the list has the host. */
static bool list_shares(const struct tcp_peer *peers, uint32_t count, const struct tcp_peer *of,
                        const char *host)
{
    bool shares = false;

    for (uint32_t i = 0; i < count; i++) {
        shares |= &peers[i] != of && has_host(&peers[i], host);
    }
    return shares;
}

uint32_t tcp_locks_out(const struct tcp *tcp, const struct tcp_peer *peers, uint32_t count,
                       char why[TCP_TEXT_MAX])
{
    const struct tcp_peer *self = find(peers, count, tcp->options.id);

    for_each_link (link, tcp) {
        const struct tcp_peer *peer = find(peers, count, link->peer.id);
        const char *hosts[2] = {NULL, NULL};

        if (!peer || !link_is_up(link)) {
            continue;
        }
        for (size_t i = 0; i < 2; i++) {
            const char *host = i == 0 ? peer->host : peer->next_host;
            bool is_own =
                !self && (is_host(tcp->own_hosts[0], host) || is_host(tcp->own_hosts[1], host));

            hosts[i] = is_own || list_shares(peers, count, peer, host) ? NULL : host;
        }
        if (!shake_names(link->up, hosts, why)) {
            return peer->id;
        }
    }
    return 0;
}

void peers_open(struct tcp *tcp, const struct tcp_options *options)
{
    ASSERT(!find(options->peers, options->peer_count, options->id));
    ASSERT(options->outsiders_max <= TCP_OUTSIDERS_MAX);

    tcp->links = mem_zalloc(ZAB_MEMBERS_MAX, sizeof(*tcp->links));
    (void)snprintf(tcp->own_hosts[0], RESOLVE_HOST_MAX, "%s", options->host ? options->host : "");
    tcp_set_peers(tcp, options->peers, options->peer_count);
}

void peers_close(struct tcp *tcp)
{
    join_set(tcp, NULL, 0);
    list_take_each (struct join_target, target, node, &tcp->targets) {
        mem_free(target);
    }
    mem_free(tcp->links);
}
