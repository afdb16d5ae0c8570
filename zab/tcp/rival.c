/*
 * Rivals: processes of one id with which different replicas are connected. Each replica reports to
 * the others with which process of each id it is connected (SEEN). The replica with the younger
 * process asks whether the older one lives, and hangs up on the younger process if the older one
 * lives. The replica with the older process asks that process, and hangs up if it does not answer.
 * A question or an answer may be lost: as long as the processes differ both replicas ask again
 * every `probe_ms`.
 */
#include "zab/tcp/tcp_int.h"

#include <stdio.h>

/* Sends SEEN to all peers. From these reports the other replicas find out that two processes have
 * one id. */
void rival_tell_seen(struct tcp *tcp)
{
    struct control control = {.type = CONTROL_SEEN};

    tcp->seen_changed = false;
    for_each_link (link, tcp) {
        if (link_is_up(link)) {
            control.seen[control.seen_count++] =
                (struct control_seen){.id = link->peer.id, .start = link->up->identity.start};
        }
    }
    for_each_link (link, tcp) {
        if (!link_is_caller(link)) {
            probe_send(link, &control);
        }
    }
}

/* Whether other replicas are connected with a process of the peer's id that is older, or younger,
 * than the process with which this replica is connected. */
static void compare(const struct tcp *tcp, const struct link *link, bool *ret_older,
                    bool *ret_younger)
{
    uint64_t start = link_is_up(link) ? link->up->identity.start : 0;

    *ret_older = false;
    *ret_younger = false;
    for_each_link (other, tcp) {
        uint64_t seen = start != 0 ? other->seen[link_index(tcp, link)] : 0;

        *ret_older |= seen != 0 && seen < start;
        *ret_younger |= seen > start;
    }
}

/* Looks for rivals. The replica with the younger process asks the others whether the older one
 * lives; the replica with the older process asks that process. */
static void look(struct tcp *tcp, struct link *link, uint64_t now_ms)
{
    bool older = false;
    bool younger = false;

    compare(tcp, link, &older, &younger);
    if (older && link->rivals_ms == 0) {
        link->rivals_ms = now_ms;
    }
    if (younger && link->doubted_ms == 0) {
        link->doubted_ms = now_ms;
        probe_peer(tcp, link, "");
    }
    link->looked_ms = older || younger ? now_ms : 0;
}

void rival_on_seen(struct tcp *tcp, struct link *from, const struct control *control)
{
    memcpy(from->told, control->seen, sizeof(from->told));
    from->told_count = control->seen_count;
    if (link_is_caller(from)) {
        return; /* It counts once the replica is a member. */
    }
    link_believe(tcp, from);
    for_each_link (link, tcp) {
        look(tcp, link, os_now_ms());
    }
}

/* Hangs up on the process that is up: it is the younger one, and another replica has confirmed that
 * the older one lives. */
static bool settle_rivals(struct tcp *tcp, struct link *link)
{
    struct control control = {.type = CONTROL_REFUSED};
    struct conn *conn = link->up;
    char address[TCP_ADDRESS_MAX];
    char text[TCP_WHY_MAX];

    link->yields = false;
    if (!link_is_up(link) || link->elsewhere >= link->up->identity.start) {
        return false;
    }
    claim_describe(conn, address);
    claim_text(link->peer.id, link->elsewhere_address, address, text);
    tcp->duplicates++;
    (void)snprintf(control.text, sizeof(control.text), "%s", text);
    flow_control(conn, &control);
    (void)conn_write(conn);
    report_duplicate(tcp, conn->peer, text);
    if (conn->state == CONN_UP) { /* The callback has not ended the connection. */
        tcp_drop(conn, text);
    }
    return true;
}

/* Hangs up on the process that is up if it has not answered within `probe_ms` while a younger
 * process is connected elsewhere: its machine was rebooted, or the process does not run. */
static bool settle_doubt(struct tcp *tcp, struct link *link)
{
    bool lives =
        link_is_up(link) && (tcp_within(tcp, link->alive_ms, link->doubted_ms) ||
                             link->up->read_ms >= link->doubted_ms + tcp->options.probe_ms / 2);

    link->doubted_ms = 0;
    link->overdue = false;
    if (lives || !link_is_up(link)) {
        return false;
    }
    tcp_drop(link->up,
             "the process does not answer, and another process with the same id is connected to "
             "another replica");
    return true;
}

/* Asks, after a pause, whether an older process that is connected elsewhere lives. Without the
 * pause this replica could report two live processes after the restart of a peer: if this replica
 * was suspended, it may read SEEN about the peer's new process before it reads that its own
 * connection with the old process has closed. If the clock was ahead when the old process started,
 * the new process has the smaller start number, and so seems to be the older one. */
static uint64_t tick_older(struct tcp *tcp, struct link *link, uint64_t now_ms)
{
    uint64_t at_ms = link->rivals_ms + tcp->options.probe_ms / TCP_PAUSE_SHARE;
    char address[TCP_ADDRESS_MAX];

    if (now_ms < at_ms) {
        return at_ms;
    }
    link->rivals_ms = 0;
    if (link_is_up(link)) {
        claim_describe(link->up, address);
        probe_others(tcp, link, link->up->identity.start, address);
    }
    return UINT64_MAX;
}

bool rival_settle(struct tcp *tcp, struct link *link)
{
    bool changed = false;

    ASSERT(tcp->depth > 0);
    changed |= link->yields && settle_rivals(tcp, link);
    changed |= link->overdue && settle_doubt(tcp, link);
    return changed;
}

uint64_t rival_tick(struct tcp *tcp, struct link *link, uint64_t now_ms)
{
    uint64_t wake_ms = UINT64_MAX;

    if (link->looked_ms != 0 && now_ms >= link->looked_ms + tcp->options.probe_ms) {
        look(tcp, link, now_ms);
    }
    if (link->looked_ms != 0) {
        wake_ms = link->looked_ms + tcp->options.probe_ms;
    }
    if (link->rivals_ms != 0) {
        wake_ms = min_u64(wake_ms, tick_older(tcp, link, now_ms));
    }
    if (link->doubted_ms != 0) {
        link->overdue = now_ms >= link->doubted_ms + tcp->options.probe_ms;
        wake_ms = min_u64(wake_ms, link->doubted_ms + tcp->options.probe_ms);
    }
    return wake_ms;
}
