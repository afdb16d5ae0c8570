/*
 * Two processes with one id: a copied directory, a second disk, or a rebooted machine whose
 * half-open connection from before the reboot is still up.
 *
 * Each process has a start number (tcp_options). A proven connection becomes a claim, and waits,
 * when a process with another start number is connected under the same id, here or with another
 * replica. This replica asks the older process whether it lives, on that process's own connection
 * and through the replicas that are connected with it. If the older process answers within
 * `probe_ms`, the claim is refused, else the claim's connection replaces the older one.
 *
 * Replicas that find out later that they are connected with different processes ask as well
 * (rival.c). The replica with the younger process hangs up if the older one lives. The replica with
 * the older process hangs up if that process does not answer. Per connection and `probe_ms` one
 * question is asked, even if a process claims more often.
 */
#include "zab/tcp/tcp_int.h"

#include <stdio.h>

/* ---- What is known. ---- */

/* Whether another process than `start` is connected under the peer's id, here or with a replica
 * that has reported that process (SEEN). */
static bool is_contested(const struct tcp *tcp, const struct link *link, uint64_t start)
{
    uint32_t index = link_index(tcp, link);

    if (link_is_up(link) && link->up->identity.start != start) {
        return true;
    }
    for_each_link (other, tcp) {
        if (link_is_up(other) && other->seen[index] != 0 && other->seen[index] != start) {
            return true;
        }
    }
    return false;
}

/* Whether the older process has answered on its own connection. Bytes that came from it in the
 * second half of `probe_ms` count as well: on a slow network its answer waits behind other bytes,
 * and a process that has ended sends nothing. */
static bool lives_here(const struct tcp *tcp, const struct link *link)
{
    const struct conn *claim = link->claim;

    if (!link_is_up(link) || link->up->identity.start == claim->identity.start) {
        return false;
    }
    return tcp_within(tcp, link->alive_ms, claim->claimed_ms) ||
           (claim->overdue && link->up->read_ms >= claim->claimed_ms + tcp->options.probe_ms / 2);
}

static bool lives_elsewhere(const struct tcp *tcp, const struct link *link)
{
    return link->elsewhere != link->claim->identity.start &&
           tcp_within(tcp, link->vouched_ms, link->claim->claimed_ms);
}

/* ---- Claims. ---- */

static void refuse(struct tcp *tcp, struct link *link, const char *one, struct conn *conn)
{
    uint32_t id = link->peer.id;
    char other[TCP_ADDRESS_MAX];
    char text[TCP_WHY_MAX];

    claim_describe(conn, other);
    claim_text(id, one, other, text);
    tcp->duplicates++;
    if (conn->dialed) {
        struct control control = {.type = CONTROL_REFUSED};

        (void)snprintf(control.text, sizeof(control.text), "%s", text);
        flow_control(conn, &control);
        (void)conn_write(conn);
    } else {
        shake_hello(conn, text, HELLO_DUPLICATE);
    }
    tcp_drop(conn, text);
    report_duplicate(tcp, id, text);
}

static void let_in(struct conn *conn)
{
    conn->state = CONN_HELLO;
    tcp_link(conn->tcp, conn->peer)->claim = NULL;
    if (!conn->dialed) {
        shake_hello(conn, "", HELLO_DUPLICATE);
    }
    loop_modify(conn->tcp->loop, &conn->watch, LOOP_READ | (conn->blocked ? LOOP_WRITE : 0U));
    tcp_established(conn);
    conn->want = flow_input(conn); /* Frames that the acceptor has sent meanwhile. */
}

/* Whether the connection becomes the one claim that waits for its id. A claim of another process is
 * refused; a new connection of the same process takes over the claim of its old connection. */
static bool takes_turn(struct link *link, struct conn *conn)
{
    struct conn *before = link->claim;

    if (!before) {
        return true;
    }
    if (before->identity.start != conn->identity.start) {
        return false;
    }
    conn->claimed_ms = before->claimed_ms;
    tcp_drop(before, "replaced by a newer connection");
    return true;
}

/* Finds no place for a proven replica that is not in the list. Both replicas report it. */
static void turn_away(struct conn *conn)
{
    char text[TCP_WHY_MAX];

    (void)snprintf(
        text, sizeof(text),
        "replica %u is connected with %u replicas that are no members, and takes no more "
        "of them: add or stop some",
        conn->tcp->options.id, outsiders_count(conn->tcp));
    if (!conn->dialed) {
        shake_hello(conn, text, HELLO_FULL);
    }
    (void)tcp_refuse(conn, "%s", text);
}

/* Returns the link of a proven peer, a new one if the peer is not in the list. NULL: there is no
 * place for it, and the connection has ended. */
static struct link *place_of(struct conn *conn)
{
    struct link *link = tcp_link(conn->tcp, conn->peer);

    if (link) {
        return link;
    }
    link = outsiders_add(conn->tcp, conn->peer);
    if (link && conn->dialed) {
        link->dialing = conn;
    } else if (!link) {
        turn_away(conn);
    }
    return link;
}

/* Whether this replica and a peer dial each other at the same time, and the peer's connection is
 * the one to give up: both keep that of the replica with the larger id. This holds for a short time
 * only: what answers at the address of the peer has not proven yet that it is the peer. */
static bool is_crossed(const struct conn *conn)
{
    const struct tcp_options *options = &conn->tcp->options;
    const struct conn *other = conn->dialed ? NULL : tcp_other_dialed(conn);

    return other && other->state == CONN_HELLO && options->id > conn->peer &&
           os_now_ms() < other->claimed_ms + options->probe_ms;
}

void claim_arrives(struct conn *conn)
{
    ASSERT(conn->state == CONN_HELLO && conn->identity.start != 0);

    if (is_crossed(conn)) {
        (void)tcp_part(conn);
        return;
    }

    struct tcp *tcp = conn->tcp;
    struct link *link = place_of(conn);
    char claimant[TCP_ADDRESS_MAX];

    if (!link) {
        return;
    }

    if (!is_contested(tcp, link, conn->identity.start)) {
        if (!conn->dialed) {
            shake_hello(conn, "", HELLO_DUPLICATE);
        }
        tcp_established(conn);
        return;
    }
    conn->state = CONN_CLAIM;
    conn->claimed_ms = os_now_ms();
    if (!takes_turn(link, conn)) {
        claim_describe(link->claim, claimant);
        refuse(tcp, link, claimant, conn);
        return;
    }
    link->claim = conn;
    loop_modify(tcp->loop, &conn->watch, LOOP_PEER_END);
}

static uint64_t ask_at_ms(const struct conn *claim)
{
    return claim->claimed_ms + claim->tcp->options.probe_ms / TCP_PAUSE_SHARE;
}

/* Asks whether the older process lives. This is done after a pause: if the network has delayed the
 * HELLO, its sender may have ended, and then the claim's connection closes during the pause. The
 * deadline counts from the questions: even if this process was suspended before it asked, the older
 * process has the whole time to answer. */
static void ask(struct tcp *tcp, struct link *link)
{
    struct conn *claim = link->claim;
    uint32_t probe_ms = tcp->options.probe_ms;
    char claimant[TCP_ADDRESS_MAX];

    ASSERT(claim && !claim->asked);
    claim->asked = true;
    claim->deadline_ms = os_now_ms() + probe_ms - probe_ms / TCP_PAUSE_SHARE;
    claim_describe(claim, claimant);
    if (link_is_up(link) && link->up->identity.start != claim->identity.start) {
        probe_peer(tcp, link, claimant);
    }
    probe_others(tcp, link, claim->identity.start, claimant);
}

static bool settle_claim(struct tcp *tcp, struct link *link)
{
    struct conn *claim = link->claim;
    char address[TCP_ADDRESS_MAX];

    if (claim->doomed) {
        return false; /* The flush closes the connection. */
    }
    if (lives_here(tcp, link)) {
        claim_describe(link->up, address);
        refuse(tcp, link, address, claim);
        return true;
    }
    if (lives_elsewhere(tcp, link)) {
        refuse(tcp, link, link->elsewhere_address, claim);
        return true;
    }
    if (claim->overdue || !is_contested(tcp, link, claim->identity.start)) {
        let_in(claim);
        return true;
    }
    return false;
}

bool claim_settle(struct tcp *tcp)
{
    bool changed = false;

    ASSERT(tcp->depth > 0);
    for_each_link (link, tcp) {
        changed |= link->claim && settle_claim(tcp, link);
        changed |= rival_settle(tcp, link);
    }
    if (tcp->seen_changed) {
        rival_tell_seen(tcp);
    }
    return changed;
}

uint64_t claim_tick(struct tcp *tcp, uint64_t now_ms)
{
    uint64_t wake_ms = UINT64_MAX;

    for_each_link (link, tcp) {
        if (link->claim) {
            if (!link->claim->asked && !link->claim->doomed && now_ms >= ask_at_ms(link->claim)) {
                ask(tcp, link);
            }
            link->claim->overdue = link->claim->asked && now_ms >= link->claim->deadline_ms;
            wake_ms = min_u64(wake_ms, link->claim->asked ? link->claim->deadline_ms
                                                          : ask_at_ms(link->claim));
        }
        wake_ms = min_u64(wake_ms, rival_tick(tcp, link, now_ms));
    }
    return wake_ms;
}
