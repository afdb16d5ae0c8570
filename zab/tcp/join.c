/*
 * The addresses of tcp_set_join. This replica knows no ids there: its greeting asks any replica
 * answers, and the answer says which replica it is. Each address is dialed in rounds: its name is
 * looked up, then each address of the name is dialed, but for those where a connected replica has
 * answered.
 */
#include "zab/tcp/tcp_int.h"

#include <errno.h>
#include <stdio.h>

enum {
    REACHED_AGAIN_MS = 1000, /* Pause after a round that has found no other replica. */
};

static bool is_equal(const struct tcp_address *a, const struct tcp_address *b)
{
    return a->port == b->port && strcmp(a->host, b->host) == 0;
}

/* ---- The list. ---- */

static struct join_target *find(const struct tcp *tcp, const struct tcp_address *address)
{
    list_for_each_entry (struct join_target, target, node, &tcp->targets) {
        if (is_equal(&target->address, address)) {
            return target;
        }
    }
    return NULL;
}

static struct join_target *add(struct tcp *tcp, const struct tcp_address *address)
{
    struct join_target *target = mem_zalloc(1, sizeof(*target));

    ASSERT(address->host[0] && address->port != 0);
    list_init(&target->node);
    target->address = *address;
    target->backoff_ms = tcp->options.retry_min_ms;
    list_push_back(&tcp->targets, &target->node);
    return target;
}

/* A loop over the list may be under way, so that nothing is freed here. */
void join_set(struct tcp *tcp, const struct tcp_address *addresses, uint32_t count)
{
    list_for_each_entry (struct join_target, target, node, &tcp->targets) {
        target->is_listed = false;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct join_target *target = find(tcp, &addresses[i]);

        target = target ? target : add(tcp, &addresses[i]);
        target->is_listed = true;
    }
    list_for_each_entry (struct join_target, target, node, &tcp->targets) {
        if (!target->is_listed && target->dialing) {
            tcp_drop(target->dialing, "the address is no longer to be dialed");
        }
    }
}

static void free_unlisted(struct tcp *tcp)
{
    list_for_each_entry_safe (struct join_target, target, tmp, node, &tcp->targets) {
        if (!target->is_listed) {
            list_remove(&target->node);
            mem_free(target);
        }
    }
}

bool join_has_names(const struct tcp *tcp)
{
    struct resolve_answer answer;

    list_for_each_entry (struct join_target, target, node, &tcp->targets) {
        if (!resolve_numeric(target->address.host, target->address.port, &answer)) {
            return true;
        }
    }
    return false;
}

uint64_t tcp_join_reached_ms(const struct tcp *tcp)
{
    uint64_t reached_ms = UINT64_MAX;

    list_for_each_entry (struct join_target, target, node, &tcp->targets) {
        reached_ms = target->is_listed ? min_u64(reached_ms, target->reached_ms) : reached_ms;
    }
    return reached_ms == UINT64_MAX ? 0 : reached_ms;
}

/* ---- A round. ---- */

/* Whether a replica has answered at the address that is connected now, or this replica itself. */
static bool is_reached(struct tcp *tcp, const struct resolve_address *address)
{
    uint32_t id = met_at(tcp, address);
    const struct link *link = tcp_link(tcp, id);

    return id == tcp->options.id || (link && link_is_up(link));
}

/* Whether to pass over the address: there is no place for the replica that has answered there. */
static bool has_no_place(struct tcp *tcp, const struct resolve_address *address)
{
    uint32_t id = met_at(tcp, address);

    return id != 0 && !tcp_link(tcp, id) && outsiders_count(tcp) >= tcp->options.outsiders_max;
}

static void note(struct join_target *target, const char *why)
{
    if (!target->why[0]) {
        (void)snprintf(target->why, sizeof(target->why), "%s", why);
    }
}

/* Reports a change. The callback may take the address out of the list. */
static void tell(struct tcp *tcp, struct join_target *target, bool all)
{
    struct tcp_address address = target->address;
    char why[TCP_WHY_MAX];

    (void)snprintf(why, sizeof(why), "%s", all ? "" : target->why);
    if ((target->has_told && strcmp(target->told, why) == 0) || (!all && !why[0])) {
        return;
    }
    target->has_told = true;
    (void)snprintf(target->told, sizeof(target->told), "%s", why);
    if (tcp->handler.on_join) {
        tcp->handler.on_join(tcp->handler.ctx, &address, all ? NULL : why);
    }
}

static void end_round(struct tcp *tcp, struct join_target *target)
{
    bool all = target->answer.count > 0;
    uint64_t now_ms = os_now_ms();

    for (uint32_t i = 0; i < target->answer.count; i++) {
        all = all && is_reached(tcp, &target->answer.addresses[i]);
    }
    target->answer = (struct resolve_answer){.count = 0};
    target->answer_used = 0;
    if (all) {
        target->reached_ms = now_ms;
        target->backoff_ms = tcp->options.retry_min_ms;
        target->retry_at_ms = now_ms + REACHED_AGAIN_MS;
    } else {
        target->retry_at_ms = now_ms + tcp_jitter(tcp, target->backoff_ms);
        target->backoff_ms =
            (uint32_t)min_u64((uint64_t)target->backoff_ms * 2, tcp->options.retry_max_ms);
    }
    tell(tcp, target, all);
}

/* Dials the next address that is to be dialed. Returns false when there is none: the round ends. */
static bool dial_next(struct tcp *tcp, struct join_target *target)
{
    while (target->answer_used < target->answer.count) {
        const struct resolve_address *address = &target->answer.addresses[target->answer_used++];

        if (is_reached(tcp, address) || has_no_place(tcp, address)) {
            continue;
        }

        int fd = tcp_connect(tcp, address);

        if (fd >= 0) {
            target->dialing = tcp_start(tcp, NULL, target, fd);
            target->dialing->dialed_at = *address;
            return true;
        }
        note(target, fd == -EPERM ? TCP_BEYOND : strerrordesc_np(-fd));
    }
    return false;
}

/* Begins a round. Returns false if the resolver is asked first. */
static bool look_up(struct tcp *tcp, struct join_target *target)
{
    const struct tcp_address *address = &target->address;

    target->why[0] = '\0';
    if (resolve_numeric(address->host, address->port, &target->answer)) {
        return true;
    }
    if (tcp->lookups >= TCP_LOOKUPS_MAX) {
        note(target, "too many names wait to be looked up");
        return true;
    }
    tcp->lookups++;
    target->job = ++tcp->join_job | UINT32_C(1) << 31; /* Above all ids. */
    resolver_ask(tcp->resolver, target->job, address->host, address->port);
    return false;
}

void join_answer(struct tcp *tcp, const struct resolve_job *job)
{
    list_for_each_entry (struct join_target, target, node, &tcp->targets) {
        if (target->job == job->id && target->is_listed) {
            target->job = 0;
            target->answer = job->answer;
            target->answer_used = 0;
            target->retry_at_ms = 0;
            if (job->answer.count == 0) {
                note(target, "the name has no address");
                end_round(tcp, target);
            }
            return;
        }
    }
}

static uint64_t tick(struct tcp *tcp, struct join_target *target, uint64_t now_ms)
{
    uint64_t from_ms = max_u64(target->retry_at_ms, tcp->dial_from_ms);

    if (!target->is_listed || target->dialing || target->job != 0) {
        return UINT64_MAX;
    }
    if (now_ms < from_ms) {
        return from_ms;
    }
    if (tcp->joins >= TCP_JOINS_MAX) {
        return UINT64_MAX; /* The end of another attempt makes the transport tick again. */
    }
    if (target->answer.count == 0 && !look_up(tcp, target)) {
        return UINT64_MAX;
    }
    if (!dial_next(tcp, target)) {
        end_round(tcp, target);
    }
    return target->dialing ? UINT64_MAX : target->retry_at_ms;
}

uint64_t join_tick(struct tcp *tcp, uint64_t now_ms)
{
    uint64_t wake_ms = UINT64_MAX;

    free_unlisted(tcp);
    list_for_each_entry (struct join_target, target, node, &tcp->targets) {
        wake_ms = min_u64(wake_ms, tick(tcp, target, now_ms));
    }
    return wake_ms;
}
