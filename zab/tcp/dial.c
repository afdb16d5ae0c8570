#include "zab/tcp/tcp_int.h"

#include <errno.h>

static bool dials(const struct tcp *tcp, const struct link *link)
{
    return tcp->options.id > link->peer.id && link->peer.host[0];
}

static void connect_next(struct link *link, struct tcp *tcp)
{
    ASSERT(link->answer_used < link->answer.count && !link->dialing);

    const struct resolve_address *address = &link->answer.addresses[link->answer_used++];
    int fd = tcp_connect(tcp, address);

    if (fd < 0) {
        link_again(link, tcp, false);
        if (fd == -EPERM) {
            report_refusal(tcp, link, TCP_BEYOND);
        }
        return;
    }
    link->dialing = tcp_start(tcp, link, NULL, fd);
}

static const char *host_of(const struct link *link)
{
    return link->second ? link->peer.next_host : link->peer.host;
}

static uint16_t port_of(const struct link *link)
{
    return link->second ? link->peer.next_port : link->peer.port;
}

/* Looks up the address of the peer; while it has two, the other one. */
static void look_up(struct link *link, struct tcp *tcp)
{
    link->second = !link->second && link->peer.next_host[0] != '\0';
    link->answer_used = 0;
    if (resolve_numeric(host_of(link), port_of(link), &link->answer)) {
        connect_next(link, tcp);
        return;
    }
    if (tcp->lookups >= TCP_LOOKUPS_MAX) { /* The resolver hangs, and names keep changing. */
        link_again(link, tcp, false);
        return;
    }
    dial_open_resolver(tcp);
    link->resolving = true;
    tcp->lookups++;
    resolver_ask(tcp->resolver, link->peer.id, host_of(link), port_of(link));
}

static void dial(struct link *link, struct tcp *tcp)
{
    ASSERT(!link->up && !link->dialing && !link->resolving);

    if (link->answer_used < link->answer.count) {
        connect_next(link, tcp);
    } else {
        look_up(link, tcp);
    }
}

uint64_t dial_tick(struct link *link, struct tcp *tcp, uint64_t now_ms)
{
    if (!dials(tcp, link) || link->up || link->dialing || link->resolving) {
        return UINT64_MAX;
    }

    uint64_t from_ms = max_u64(link->retry_at_ms, tcp->dial_from_ms);

    if (now_ms < from_ms) {
        return from_ms;
    }
    dial(link, tcp);
    return link->dialing || link->resolving ? UINT64_MAX : link->retry_at_ms;
}

/* Takes the addresses of a peer. Those of a replica or a name that has left the list since are
 * dropped. */
static void take_answer(struct tcp *tcp, const struct resolve_job *job)
{
    struct link *link = tcp_link(tcp, job->id);

    if (!link || !link->resolving || job->port != port_of(link) ||
        strcmp(job->host, host_of(link)) != 0) {
        return;
    }
    link->resolving = false;
    link->answer = job->answer;
    link->answer_used = 0;
    if (link->answer.count > 0 && !link->up && !link->dialing && os_now_ms() >= tcp->dial_from_ms) {
        connect_next(link, tcp);
    } else {
        link_again(link, tcp, false);
    }
}

static void on_resolver_ready(struct loop_watch *watch, uint32_t ready)
{
    struct tcp *tcp = watch->ctx;
    struct list jobs;

    (void)ready;
    resolver_answers(tcp->resolver, &jobs);
    list_take_each (struct resolve_job, job, node, &jobs) {
        if (job->id == tcp->options.id) {
            listen_answer(tcp, &job->answer);
        } else {
            ASSERT(tcp->lookups > 0);
            tcp->lookups--;
            if (job->id > ZAB_ID_MAX) {
                join_answer(tcp, job);
            } else {
                take_answer(tcp, job);
            }
        }
        mem_free(job);
    }
}

uint64_t dial_join_tick(struct tcp *tcp, uint64_t now_ms)
{
    if (join_has_names(tcp)) {
        dial_open_resolver(tcp);
    }
    return join_tick(tcp, now_ms);
}

void dial_open_resolver(struct tcp *tcp)
{
    if (tcp->resolver) {
        return;
    }
    tcp->resolver = resolver_open();
    loop_add_reader(tcp->loop, &tcp->resolver_watch, resolver_event_fd(tcp->resolver),
                    on_resolver_ready, tcp);
}

void dial_close_resolver(struct tcp *tcp)
{
    ASSERT(tcp->depth == 0);

    if (tcp->resolver) {
        loop_remove(tcp->loop, &tcp->resolver_watch);
        resolver_close(tcp->resolver);
        tcp->resolver = NULL;
    }
}
