/* The other replicas and their connections: which one is up, when it ends, when to dial again. */
#include "zab/tcp/tcp_int.h"

#include <stdarg.h>
#include <stdio.h>

struct link *tcp_link(struct tcp *tcp, uint32_t peer)
{
    for_each_link (link, tcp) {
        if (link->peer.id == peer) {
            return link;
        }
    }
    return NULL;
}

bool tcp_knows_caller(const struct tcp *tcp, const struct caller *caller)
{
    bool knows = false;

    for_each_link (link, tcp) {
        for (size_t i = 0; i < 2; i++) {
            knows |= link->callers[i].is_known && caller_eq(&link->callers[i].caller, caller);
        }
    }
    return knows;
}

void tcp_reap(struct tcp *tcp)
{
    while (tcp->depth == 0 && !list_empty(&tcp->graveyard)) {
        conn_free(list_first(&tcp->graveyard, struct conn, node));
    }
}

/* ---- When to dial again. ---- */

uint64_t tcp_jitter(struct tcp *tcp, uint32_t delay_ms)
{
    uint32_t half = delay_ms / 2;

    return half + rng_below(&tcp->rng, (uint64_t)half + 1);
}

void link_again(struct link *link, struct tcp *tcp, bool at_once)
{
    uint64_t now_ms = os_now_ms();

    if (link->up || link->dialing) {
        return; /* The peer has called meanwhile. */
    }
    if (at_once) {
        link->backoff_ms = tcp->options.retry_min_ms;
        link->retry_at_ms = now_ms;
        return;
    }
    if (link->answer_used < link->answer.count || (link->peer.next_host[0] && !link->second)) {
        link->retry_at_ms = now_ms; /* The name, or the peer, has another address. */
        return;
    }
    link->retry_at_ms = now_ms + tcp_jitter(tcp, link->backoff_ms);
    link->backoff_ms = (uint32_t)min_u64((uint64_t)link->backoff_ms * 2, tcp->options.retry_max_ms);
}

/* ---- What is known of a peer's processes. ---- */

static void forget(struct tcp *tcp, struct link *link)
{
    link->alive_ms = 0;
    link->doubted_ms = 0;
    link->rivals_ms = 0;
    link->looked_ms = 0;
    link->asks = 0;
    link->yields = false;
    link->overdue = false;
    link->told_count = 0;
    memset(link->seen, 0, sizeof(link->seen));
    memset(link->questions, 0, sizeof(link->questions));
    tcp->seen_changed = true;
}

/* ---- Slots. ---- */

/* Forgets what the other links know by the index of this one: a replica that gets the index next
 * has nothing to do with it. */
static void forget_index(struct tcp *tcp, uint32_t index)
{
    for_each_link (link, tcp) {
        link->seen[index] = 0;
        link->questions[index] = (struct question){.asked_ms = 0};
        link->asks &= ~(UINT64_C(1) << index);
    }
    tcp->seen_changed = true;
}

struct link *link_take(struct tcp *tcp, uint32_t id)
{
    ASSERT(id > 0 && id <= ZAB_ID_MAX && !tcp_link(tcp, id));

    if (tcp->used == UINT64_MAX) {
        return NULL;
    }

    uint32_t index = (uint32_t)__builtin_ctzll(~tcp->used);

    tcp->used |= UINT64_C(1) << index;
    tcp->links[index].peer.id = id;
    for_each_link (link, tcp) {
        for (uint32_t i = 0; i < link->told_count && !link_is_caller(link); i++) {
            link->seen[index] = link->told[i].id == id ? link->told[i].start : link->seen[index];
        }
    }
    return &tcp->links[index];
}

void link_release(struct tcp *tcp, struct link *link)
{
    uint32_t index = link_index(tcp, link);

    ASSERT(((tcp->used >> index) & 1) == 1);
    tcp->used &= ~(UINT64_C(1) << index);
    memset(link, 0, sizeof(*link));
    forget_index(tcp, index);
}

void link_believe(struct tcp *tcp, struct link *link)
{
    memset(link->seen, 0, sizeof(link->seen));
    for (uint32_t i = 0; i < link->told_count; i++) {
        const struct link *about = tcp_link(tcp, link->told[i].id);

        if (about && about != link) {
            link->seen[link_index(tcp, about)] = link->told[i].start;
        }
    }
}

/* ---- Ends. ---- */

/* The address that was dialed is ready for the next step of its round. */
static void leave_target(struct conn *conn)
{
    struct join_target *target = conn->target;

    if (target) {
        ASSERT(target->dialing == conn && conn->tcp->joins > 0);
        conn->tcp->joins--;
        conn->target = NULL;
        target->dialing = NULL;
        target->retry_at_ms = 0;
    }
}

void tcp_bury(struct conn *conn)
{
    ASSERT(conn->state != CONN_CLOSED);

    struct tcp *tcp = conn->tcp;

    leave_target(conn);
    if (conn->state != CONN_UP && conn->state != CONN_LEAVING) {
        ASSERT(tcp->shaking_count > 0);
        tcp->shaking_count--;
    }
    conn_close(conn);
    list_remove(&conn->node);
    list_push_back(&tcp->graveyard, &conn->node);
}

static void drop_up(struct conn *conn, struct link *link, const char *why)
{
    ASSERT(link && link->up == conn);

    struct tcp *tcp = conn->tcp;
    bool lasted = os_now_ms() - conn->up_since_ms >= tcp->options.retry_max_ms;
    uint32_t id = link->peer.id;

    link->up = NULL;
    list_for_each_entry (struct join_target, target, node, &tcp->targets) {
        target->retry_at_ms = lasted ? 0 : target->retry_at_ms;
    }
    forget(tcp, link);
    link_again(link, tcp, lasted);
    tcp_bury(conn);
    tcp->handler.on_down(tcp->handler.ctx, id, why);
}

void tcp_drop(struct conn *conn, const char *why)
{
    struct link *link = conn->peer ? tcp_link(conn->tcp, conn->peer) : NULL;

    if (conn->state == CONN_UP) {
        drop_up(conn, link, why);
        return;
    }
    if (link && link->claim == conn) {
        link->claim = NULL;
    }
    ASSERT(!conn->dialed || conn->target || (link && link->dialing == conn));
    if (link && link->dialing == conn) {
        link->dialing = NULL;
        link_again(link, conn->tcp, false);
    }
    if (conn->target && !conn->target->why[0]) {
        (void)snprintf(conn->target->why, TCP_WHY_MAX, "%s", why);
    }
    tcp_bury(conn);
}

bool tcp_part(struct conn *conn)
{
    struct link *link = conn->peer ? tcp_link(conn->tcp, conn->peer) : NULL;

    ASSERT(conn->state < CONN_CLAIM);
    if (link && link->dialing == conn) {
        link->dialing = NULL;
        link_again(link, conn->tcp, false);
    }
    tcp_bury(conn);
    return false;
}

struct conn *tcp_other_dialed(const struct conn *conn)
{
    list_for_each_entry (struct conn, other, node, &conn->tcp->shaking) {
        if (other != conn && other->dialed && other->peer == conn->peer &&
            other->state != CONN_CLAIM) {
            return other;
        }
    }
    return NULL;
}

void tcp_doom_all(struct tcp *tcp, const char *why)
{
    for_each_link (link, tcp) {
        if (link->up) {
            link->up->doomed = why;
        }
    }
    list_for_each_entry (struct conn, conn, node, &tcp->shaking) {
        conn->doomed = why;
    }
}

/* ---- Removed replicas. ---- */

void link_remove(struct tcp *tcp, struct link *link)
{
    struct conn *up = link->up;

    list_for_each_entry_safe (struct conn, conn, tmp, node, &tcp->shaking) {
        if (conn->peer == link->peer.id) {
            tcp_bury(conn); /* Dialed, a claim, or a caller. */
        }
    }
    if (up) {
        up->state = CONN_LEAVING;
        list_push_back(&tcp->leaving, &up->node);
        loop_modify(tcp->loop, &up->watch, 0);
    }
    link_release(tcp, link);
}

/* Returns a connection of a removed replica, of `peer` only (0: of any), or NULL. */
static struct conn *find_leaving(struct tcp *tcp, uint32_t peer)
{
    list_for_each_entry (struct conn, conn, node, &tcp->leaving) {
        if (peer == 0 || conn->peer == peer) {
            return conn;
        }
    }
    return NULL;
}

bool tcp_end_leaving(struct tcp *tcp, uint32_t peer)
{
    bool any = false;

    ASSERT(tcp->depth > 0);
    for (struct conn *conn = find_leaving(tcp, peer); conn; conn = find_leaving(tcp, peer)) {
        const char *why = conn->doomed ? conn->doomed : "the peer is no longer a member";

        if (!conn->doomed && conn_has_output(conn)) {
            (void)conn_write(conn); /* Perhaps the message that tells the peer of its removal. */
        }
        tcp_bury(conn);
        tcp->handler.on_down(tcp->handler.ctx, conn->peer, why);
        any = true;
    }
    return any;
}

/* ---- Refusals. ---- */

bool tcp_refuse(struct conn *conn, const char *format, ...)
{
    ASSERT(conn->state == CONN_SEALING || conn->state == CONN_GREETING ||
           conn->state == CONN_HELLO);

    struct tcp *tcp = conn->tcp;
    struct link *link = conn->peer ? tcp_link(tcp, conn->peer) : NULL;
    bool is_told = conn->target != NULL && !link; /* By on_join. */
    char why[TCP_WHY_MAX];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(why, sizeof(why), format, args);
    va_end(args);
    tcp_drop(conn, why);
    if (is_told) {
        tcp->refused++;
    } else {
        report_refusal(tcp, link, why);
    }
    return false;
}

/* ---- Up. ---- */

void tcp_compare_keys(struct conn *conn)
{
    const struct keys *keys = conn->tcp->options.keys;

    conn->removed = seal_kind(conn->seal) == KEYS_SEAL_CERTIFICATE
                        ? !seal_is_trusted(conn->seal, keys)
                        : !keys_have(keys, keys_secret(conn->keys, conn->secret));
}

static void report_up(const struct conn *conn)
{
    const struct tcp_handler *handler = &conn->tcp->handler;
    struct tcp_identity identity = {.incarnation = conn->identity.incarnation,
                                    .bootstrapping = conn->identity.bootstrapping,
                                    .is_outsider = tcp_link(conn->tcp, conn->peer)->is_outsider,
                                    .level = conn->identity.level,
                                    .advertise = conn->identity.advertise};

    memcpy(identity.cluster, conn->identity.cluster, ZAB_CLUSTER_LEN);
    handler->on_up(handler->ctx, conn->peer, &identity);
}

/* Ends the peer's earlier connection, also one from before the peer was removed and added again, so
 * that the owner gets its on_down first. That callback may end this connection. */
static void end_before(struct conn *conn)
{
    struct tcp *tcp = conn->tcp;
    const struct link *link = tcp_link(tcp, conn->peer);

    if (link->up) {
        tcp_drop(link->up, "replaced by a newer connection");
    }
    (void)tcp_end_leaving(tcp, conn->peer);
}

/* Ends this replica's other attempts to reach the peer. */
static void end_attempts(struct tcp *tcp, const struct conn *conn)
{
    for (struct conn *other = tcp_other_dialed(conn); other; other = tcp_other_dialed(conn)) {
        struct link *link = tcp_link(tcp, conn->peer);

        if (link->dialing == other) {
            link->dialing = NULL;
        }
        tcp_bury(other);
    }
}

void tcp_established(struct conn *conn)
{
    struct tcp *tcp = conn->tcp;

    ASSERT(conn->state == CONN_HELLO && tcp_link(tcp, conn->peer));
    end_before(conn);
    if (conn->state == CONN_CLOSED || conn->doomed) {
        return;
    }
    end_attempts(tcp, conn);

    struct link *link = tcp_link(tcp, conn->peer);

    ASSERT(tcp->shaking_count > 0);
    ASSERT(link && !link->up);
    leave_target(conn);
    list_remove(&conn->node);
    tcp->shaking_count--;
    conn->state = CONN_UP;
    conn->up_since_ms = os_now_ms();
    conn->heard_ms = conn->up_since_ms;
    conn->is_outsider = link->is_outsider && !conn->dialed;
    if (link->dialing == conn) {
        link->dialing = NULL;
    }
    link->up = conn;
    if (!conn->dialed) {
        link->callers[0] = (struct link_caller){.is_known = true, .caller = conn->caller};
    }
    if (conn->keys != tcp->options.keys) { /* They were replaced during the handshake. */
        tcp_compare_keys(conn);
    }
    forget(tcp, link);
    /* Makes rival_tick compare this process with each SEEN that came before the connection. */
    link->looked_ms = conn->up_since_ms;
    link->refusal[0] = '\0';
    link->hang_ups = 0;
    report_up(conn);
}
