/*
 * Outsiders: connected replicas that are not in the list, such as one that waits to be added, or
 * one whose list is outdated. Each has proven the secret or its certificate before it gets a link.
 * There are a few at most, in slots that no member needs. One that has called has a short queue and
 * short frames, must say something from time to time, and what it says about other replicas does
 * not count.
 */
#include "zab/tcp/tcp_int.h"

enum {
    SILENCE_TICKS = 5 /* A caller that says nothing for that long is disconnected. */
};

uint32_t outsiders_count(const struct tcp *tcp)
{
    uint32_t count = 0;

    for_each_link (link, tcp) {
        count += link->is_outsider ? 1U : 0U;
    }
    return count;
}

void outsiders_sweep(struct tcp *tcp)
{
    for_each_link (link, tcp) {
        if (link->is_outsider && !link->up && !link->dialing && !link->claim) {
            link_release(tcp, link);
        }
    }
}

struct link *outsiders_add(struct tcp *tcp, uint32_t id)
{
    outsiders_sweep(tcp);
    if (outsiders_count(tcp) >= tcp->options.outsiders_max) {
        return NULL;
    }

    struct link *link = link_take(tcp, id);

    if (link) {
        link->is_outsider = true;
        link->backoff_ms = tcp->options.retry_min_ms;
        link->hosts[0] = link->peer.host;
        link->hosts[1] = link->peer.next_host;
    }
    return link;
}

void outsiders_admit(struct tcp *tcp, struct link *link)
{
    ASSERT(link->is_outsider);

    link->is_outsider = false;
    if (link->up) {
        link->up->is_outsider = false;
    }
    link_believe(tcp, link);
    tcp->seen_changed = true;
}

void outsiders_yield(struct tcp *tcp)
{
    struct link *last = NULL;

    if (tcp->used != UINT64_MAX) {
        return;
    }
    for_each_link (link, tcp) {
        uint64_t since_ms = link->up ? link->up->up_since_ms : UINT64_MAX;

        if (link->is_outsider &&
            (!last || since_ms > (last->up ? last->up->up_since_ms : UINT64_MAX))) {
            last = link;
        }
    }
    ASSERT(last);
    if (last->up && !last->up->doomed) {
        last->up->doomed = "a member takes the place of this replica, which is none";
    }
    link_remove(tcp, last);
}

uint64_t outsiders_tick(struct tcp *tcp, uint64_t now_ms)
{
    uint64_t wake_ms = UINT64_MAX;

    for_each_link (link, tcp) {
        if (link_is_caller(link)) {
            uint64_t end_ms = link->up->heard_ms + (uint64_t)SILENCE_TICKS * tcp->options.probe_ms;

            if (now_ms >= end_ms) {
                tcp_drop(link->up, "the peer is no member, and says nothing");
            } else {
                wake_ms = min_u64(wake_ms, end_ms);
            }
        }
    }
    return wake_ms;
}
