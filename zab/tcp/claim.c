/*
 * Two processes with one id: a copied directory, a second disk, or a machine that meets the
 * half-open connection of its time before the reboot.
 *
 * Each process has a start (tcp_options). A connection of another start than the one that is up, or
 * than the one that another replica is connected with, is a claim: its HELLO is proven, but it
 * waits. The older process is asked on the connection that exists, here and at the replicas that
 * have one. When it answers within `probe_ms` the claim is refused, else it takes the place.
 * Replicas that find out later that they are connected with different processes ask as well: the
 * one with the younger process hangs up if the older one lives, the one with the older process if
 * that does not answer. One question per connection and `probe_ms` is asked, however often a
 * process claims.
 */
#include "base/check.h"
#include "base/os_clock.h"
#include "zab/tcp/tcp_int.h"

#include <netdb.h>
#include <stdio.h>

enum {
    HOST_MAX = 46,       /* A numeric address. */
    PAUSE_SHARE = 8,     /* Of `probe_ms`, before a claim asks. */
    ADVERTISE_SHOWN = 24 /* Of the address that it tells clients. */
};

/* ---- Who is it? ---- */

static uint32_t index_of(const struct tcp *tcp, const struct link *link)
{
    ASSERT(link >= tcp->links && link < tcp->links + tcp->options.peer_count);

    return (uint32_t)(link - tcp->links);
}

/* What a peer advertises may hold anything. */
static void make_printable(char *text)
{
    for (; *text; text++) {
        if (*text < ' ' || *text > '~') {
            *text = '?';
        }
    }
}

/* "10.0.0.3 (clients: zk3:9998)". Without its port: each attempt has another one. */
static void describe(const struct conn *conn, char text[TCP_ADDRESS_MAX])
{
    ASSERT(conn->watch.fd >= 0);

    struct sockaddr_storage addr;
    socklen_t len = sizeof(addr);
    char host[HOST_MAX] = "?";

    if (getpeername(conn->watch.fd, (struct sockaddr *)&addr, &len) == 0) {
        (void)getnameinfo((const struct sockaddr *)&addr, len, host, sizeof(host), NULL, 0,
                          NI_NUMERICHOST);
    }
    if (conn->identity.advertise[0]) {
        (void)snprintf(text, TCP_ADDRESS_MAX, "%s (clients: %.*s)", host, ADVERTISE_SHOWN,
                       conn->identity.advertise);
    } else {
        (void)snprintf(text, TCP_ADDRESS_MAX, "%s", host);
    }
    make_printable(text);
}

static void tell(struct tcp *tcp, uint32_t id, const char *one, const char *other,
                 char text[TCP_WHY_MAX])
{
    ASSERT(one[0] && other[0]);

    (void)snprintf(text, TCP_WHY_MAX, "two processes claim id %u: %s and %s", id, one, other);
    if (tcp->handler.on_duplicate) {
        tcp->handler.on_duplicate(tcp->handler.ctx, id, text);
    }
}

/* ---- What is known. ---- */

static bool is_up(const struct link *link)
{
    return link->up && !link->up->doomed;
}

static bool within(const struct tcp *tcp, uint64_t at_ms, uint64_t of_ms)
{
    return at_ms != 0 && at_ms + tcp->options.probe_ms > of_ms;
}

/* Another process of that id is connected, here or with a replica that told so. */
static bool is_contested(const struct tcp *tcp, const struct link *link, uint64_t start)
{
    uint32_t index = index_of(tcp, link);

    if (is_up(link) && link->up->identity.start != start) {
        return true;
    }
    for (uint32_t i = 0; i < tcp->options.peer_count; i++) {
        const struct link *other = &tcp->links[i];

        if (is_up(other) && other->seen[index] != 0 && other->seen[index] != start) {
            return true;
        }
    }
    return false;
}

/* The older process has answered here. Bytes of it that came late count as well: on a slow link its
 * answer stands behind others, and a process that is gone sends nothing. */
static bool lives_here(const struct tcp *tcp, const struct link *link)
{
    const struct conn *claim = link->claim;

    ASSERT(claim);
    if (!is_up(link) || link->up->identity.start == claim->identity.start) {
        return false;
    }
    return within(tcp, link->alive_ms, claim->claimed_ms) ||
           (claim->overdue && link->up->read_ms >= claim->claimed_ms + tcp->options.probe_ms / 2);
}

static bool lives_elsewhere(const struct tcp *tcp, const struct link *link)
{
    ASSERT(link->claim);

    return link->elsewhere != link->claim->identity.start &&
           within(tcp, link->vouched_ms, link->claim->claimed_ms);
}

/* ---- Questions. ---- */

/* On a connection whose queue is full nothing more is put: its peer is dropped as it is. */
static void send_control(struct link *link, const struct control *control)
{
    if (is_up(link) && link->up->queued < link->up->tcp->options.queue_bytes_max) {
        flow_control(link->up, control);
    }
}

/* Does the process that is up live? */
static void probe(struct tcp *tcp, struct link *link, const char *claimant)
{
    ASSERT(is_up(link));

    struct control control = {
        .type = CONTROL_PROBE, .id = link->peer.id, .start = link->up->identity.start};
    uint64_t now_ms = os_now_ms();

    if (within(tcp, link->probed_ms, now_ms)) {
        return;
    }
    link->probed_ms = now_ms;
    (void)snprintf(control.text, sizeof(control.text), "%s", claimant);
    send_control(link, &control);
}

/* Asks the replicas that are connected with another process than `start`. */
static void ask_others(struct tcp *tcp, struct link *link, uint64_t start, const char *claimant)
{
    uint32_t index = index_of(tcp, link);
    uint64_t now_ms = os_now_ms();
    struct control control = {.type = CONTROL_PROBE, .id = link->peer.id};

    if (within(tcp, link->asked_ms, now_ms)) {
        return;
    }
    link->asked_ms = now_ms;
    (void)snprintf(control.text, sizeof(control.text), "%s", claimant);
    for (uint32_t i = 0; i < tcp->options.peer_count; i++) {
        struct link *other = &tcp->links[i];

        control.start = other->seen[index];
        if (other != link && control.start != 0 && control.start != start) {
            send_control(other, &control);
        }
    }
}

/* ---- Claims. ---- */

static void refuse(struct tcp *tcp, struct link *link, const char *one, struct conn *conn)
{
    ASSERT(conn->state == CONN_CLAIM);

    char other[TCP_ADDRESS_MAX];
    char text[TCP_WHY_MAX];

    describe(conn, other);
    tell(tcp, link->peer.id, one, other, text);
    tcp->duplicates++;
    if (conn->dialed) {
        struct control control = {.type = CONTROL_REFUSED};

        (void)snprintf(control.text, sizeof(control.text), "%s", text);
        flow_control(conn, &control);
        (void)conn_write(conn);
    } else {
        shake_answer(conn, text);
    }
    tcp_drop(conn, text);
}

static void let_in(struct conn *conn)
{
    ASSERT(conn->state == CONN_CLAIM);

    conn->state = CONN_HELLO;
    tcp_link(conn->tcp, conn->peer)->claim = NULL;
    if (!conn->dialed) {
        shake_answer(conn, "");
    }
    loop_modify(conn->tcp->loop, &conn->watch, LOOP_READ | (conn->blocked ? LOOP_WRITE : 0U));
    tcp_established(conn);
    conn->want = flow_input(conn); /* What an acceptor sent meanwhile. */
}

/* A second claimant finds the place of the first one taken; a new connection of the same one goes
 * on where its old one was. */
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

bool claim_arrives(struct conn *conn)
{
    ASSERT(conn->state == CONN_HELLO && conn->identity.start != 0);

    struct tcp *tcp = conn->tcp;
    struct link *link = tcp_link(tcp, conn->peer);
    char claimant[TCP_ADDRESS_MAX];

    if (!is_contested(tcp, link, conn->identity.start)) {
        return true;
    }
    conn->state = CONN_CLAIM;
    conn->claimed_ms = os_now_ms();
    if (!takes_turn(link, conn)) {
        describe(link->claim, claimant);
        refuse(tcp, link, claimant, conn);
        return false;
    }
    link->claim = conn;
    conn->deadline_ms = conn->claimed_ms + tcp->options.probe_ms;
    loop_modify(tcp->loop, &conn->watch, LOOP_PEER_END);
    return false;
}

static uint64_t ask_at_ms(const struct conn *claim)
{
    return claim->claimed_ms + claim->tcp->options.probe_ms / PAUSE_SHARE;
}

/* Not at once: behind a HELLO that the network has kept back may stand the end of its process. */
static void ask(struct tcp *tcp, struct link *link)
{
    struct conn *claim = link->claim;
    char claimant[TCP_ADDRESS_MAX];

    ASSERT(claim && !claim->asked);
    claim->asked = true;
    describe(claim, claimant);
    if (is_up(link) && link->up->identity.start != claim->identity.start) {
        probe(tcp, link, claimant);
    }
    ask_others(tcp, link, claim->identity.start, claimant);
}

static bool settle_claim(struct tcp *tcp, struct link *link)
{
    struct conn *claim = link->claim;
    char address[TCP_ADDRESS_MAX];

    if (claim->doomed) {
        return false; /* The flush closes it. */
    }
    if (lives_here(tcp, link)) {
        describe(link->up, address);
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

/* The process that is up is the younger one, and the older one lives: another replica says so. */
static bool settle_rivals(struct tcp *tcp, struct link *link)
{
    struct control control = {.type = CONTROL_REFUSED};
    char address[TCP_ADDRESS_MAX];
    char text[TCP_WHY_MAX];

    link->yields = false;
    if (!is_up(link) || link->elsewhere >= link->up->identity.start) {
        return false;
    }
    describe(link->up, address);
    tell(tcp, link->peer.id, link->elsewhere_address, address, text);
    tcp->duplicates++;
    (void)snprintf(control.text, sizeof(control.text), "%s", text);
    flow_control(link->up, &control);
    (void)conn_write(link->up);
    tcp_drop(link->up, text);
    return true;
}

/* A younger process is connected elsewhere, and the one that is up had its time to answer: its
 * machine was rebooted, or it stands still. */
static bool settle_doubt(struct tcp *tcp, struct link *link)
{
    bool lives = is_up(link) && (within(tcp, link->alive_ms, link->doubted_ms) ||
                                 link->up->read_ms >= link->doubted_ms + tcp->options.probe_ms / 2);

    link->doubted_ms = 0;
    link->overdue = false;
    if (lives || !is_up(link)) {
        return false;
    }
    tcp_drop(link->up, "it does not answer, and another process of its id is connected elsewhere");
    return true;
}

/* With whom this replica is connected: the others need it to know of two processes. */
static void tell_seen(struct tcp *tcp)
{
    struct control control = {.type = CONTROL_SEEN};

    tcp->seen_changed = false;
    for (uint32_t i = 0; i < tcp->options.peer_count; i++) {
        const struct link *link = &tcp->links[i];

        if (is_up(link)) {
            control.seen[control.seen_count++] =
                (struct control_seen){.id = link->peer.id, .start = link->up->identity.start};
        }
    }
    for (uint32_t i = 0; i < tcp->options.peer_count; i++) {
        send_control(&tcp->links[i], &control);
    }
}

bool claim_settle(struct tcp *tcp)
{
    bool changed = false;

    ASSERT(tcp->depth > 0);
    for (uint32_t i = 0; i < tcp->options.peer_count; i++) {
        struct link *link = &tcp->links[i];

        changed |= link->claim && settle_claim(tcp, link);
        changed |= link->yields && settle_rivals(tcp, link);
        changed |= link->overdue && settle_doubt(tcp, link);
    }
    if (tcp->seen_changed) {
        tell_seen(tcp);
    }
    return changed;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Nor here: a replica that stood still may hear of the next process of an id before it hears that
 * the one it knows, which seems younger when its clock was ahead, has ended. */
static uint64_t tick_rivals(struct tcp *tcp, struct link *link, uint64_t now_ms)
{
    uint64_t at_ms = link->rivals_ms + tcp->options.probe_ms / PAUSE_SHARE;
    char address[TCP_ADDRESS_MAX];

    ASSERT(link->rivals_ms != 0);
    if (now_ms < at_ms) {
        return at_ms;
    }
    link->rivals_ms = 0;
    if (is_up(link)) {
        describe(link->up, address);
        ask_others(tcp, link, link->up->identity.start, address);
    }
    return UINT64_MAX;
}

uint64_t claim_tick(struct tcp *tcp, uint64_t now_ms)
{
    uint64_t wake_ms = UINT64_MAX;

    for (uint32_t i = 0; i < tcp->options.peer_count; i++) {
        struct link *link = &tcp->links[i];

        if (link->claim) {
            if (!link->claim->asked && !link->claim->doomed && now_ms >= ask_at_ms(link->claim)) {
                ask(tcp, link);
            }
            link->claim->overdue = now_ms >= link->claim->deadline_ms;
            wake_ms = earlier(wake_ms, link->claim->asked ? link->claim->deadline_ms
                                                          : ask_at_ms(link->claim));
        }
        if (link->rivals_ms != 0) {
            wake_ms = earlier(wake_ms, tick_rivals(tcp, link, now_ms));
        }
        if (link->doubted_ms != 0) {
            link->overdue = now_ms >= link->doubted_ms + tcp->options.probe_ms;
            wake_ms = earlier(wake_ms, link->doubted_ms + tcp->options.probe_ms);
        }
    }
    return wake_ms;
}

/* ---- What peers say. ---- */

static void answer(struct link *to, uint32_t id, uint64_t start, bool yes, const char *address)
{
    struct control control = {.type = CONTROL_ALIVE, .id = id, .start = start, .yes = yes};

    (void)snprintf(control.text, sizeof(control.text), "%s", address);
    send_control(to, &control);
}

/* This replica vouches for a process that it is connected with. */
static void vouch(struct tcp *tcp, struct link *to, const struct link *of)
{
    char address[TCP_ADDRESS_MAX];

    ASSERT(is_up(of) && tcp->options.peer_count > 0);
    describe(of->up, address);
    answer(to, of->peer.id, of->up->identity.start, true, address);
}

static void on_probe(struct tcp *tcp, struct link *from, const struct control *control)
{
    struct link *target = NULL;
    char text[TCP_WHY_MAX];

    if (control->id == tcp->options.id) {
        answer(from, control->id, control->start, control->start == tcp->options.start, "");
        if (control->start == tcp->options.start && control->text[0]) {
            tell(tcp, control->id, "this one", control->text, text);
        }
        return;
    }
    target = tcp_link(tcp, control->id);
    if (!target || !is_up(target) || target->up->identity.start != control->start) {
        answer(from, control->id, control->start, false, "");
    } else if (within(tcp, target->alive_ms, os_now_ms())) {
        vouch(tcp, from, target);
    } else {
        from->asks |= UINT64_C(1) << index_of(tcp, target);
        probe(tcp, target, control->text);
    }
}

/* The process itself: whoever asked hears of it. */
static void on_alive(struct tcp *tcp, struct link *link)
{
    link->alive_ms = os_now_ms();
    for (uint32_t i = 0; i < tcp->options.peer_count; i++) {
        struct link *other = &tcp->links[i];

        if ((other->asks >> index_of(tcp, link)) & 1) {
            other->asks ^= UINT64_C(1) << index_of(tcp, link);
            vouch(tcp, other, link);
        }
    }
}

/* Another replica, of a process that it is or is not connected with. */
static void on_vouched(struct tcp *tcp, struct link *from, struct link *link,
                       const struct control *control)
{
    uint32_t index = index_of(tcp, link);

    if (from->seen[index] != control->start) {
        return; /* It has said something newer. */
    }
    if (!control->yes) {
        from->seen[index] = 0;
        return;
    }
    link->elsewhere = control->start;
    link->vouched_ms = os_now_ms();
    (void)snprintf(link->elsewhere_address, sizeof(link->elsewhere_address), "%.*s",
                   TCP_ADDRESS_MAX - 1, control->text[0] ? control->text : "?");
    link->yields = is_up(link) && link->up->identity.start > control->start;
}

/* Of two processes the replica with the younger one asks whether the older one lives, and the
 * replica with the older one asks that itself. */
static void look_for_rivals(struct tcp *tcp, const struct link *from)
{
    for (uint32_t i = 0; i < tcp->options.peer_count; i++) {
        struct link *link = &tcp->links[i];
        uint64_t start = is_up(link) ? link->up->identity.start : 0;

        if (start == 0 || from->seen[i] == 0 || from->seen[i] == start) {
            continue;
        }
        if (from->seen[i] < start) {
            link->rivals_ms = link->rivals_ms != 0 ? link->rivals_ms : os_now_ms();
        } else if (link->doubted_ms == 0) {
            link->doubted_ms = os_now_ms();
            probe(tcp, link, "");
        }
    }
}

static void on_seen(struct tcp *tcp, struct link *from, const struct control *control)
{
    memset(from->seen, 0, sizeof(from->seen));
    for (uint32_t i = 0; i < control->seen_count; i++) {
        const struct link *link = tcp_link(tcp, control->seen[i].id);

        if (link && link != from) {
            from->seen[index_of(tcp, link)] = control->seen[i].start;
        }
    }
    look_for_rivals(tcp, from);
}

static void on_refused(struct conn *conn, const struct control *control)
{
    struct tcp *tcp = conn->tcp;

    conn->doomed = "the peer has refused it: two processes claim one id";
    if (tcp->handler.on_duplicate && control->text[0]) {
        tcp->handler.on_duplicate(tcp->handler.ctx, tcp->options.id, control->text);
    }
}

void claim_on_control(struct conn *conn, const struct control *control)
{
    struct tcp *tcp = conn->tcp;
    struct link *from = tcp_link(tcp, conn->peer);
    struct link *link = tcp_link(tcp, control->id);

    ASSERT(from && from->up == conn);
    switch (control->type) {
    case CONTROL_SEEN:
        on_seen(tcp, from, control);
        break;
    case CONTROL_PROBE:
        on_probe(tcp, from, control);
        break;
    case CONTROL_ALIVE:
        if (link == from && control->yes && control->start == conn->identity.start) {
            on_alive(tcp, from);
        } else if (link && link != from) {
            on_vouched(tcp, from, link, control);
        }
        break;
    case CONTROL_REFUSED:
        on_refused(conn, control);
        break;
    }
}

void claim_link_up(struct tcp *tcp, struct link *link)
{
    ASSERT(link->up);

    link->probed_ms = 0;
    link->alive_ms = 0;
    link->doubted_ms = 0;
    link->rivals_ms = 0;
    link->asks = 0;
    link->yields = false;
    link->overdue = false;
    memset(link->seen, 0, sizeof(link->seen));
    tcp->seen_changed = true;
}

void claim_link_down(struct tcp *tcp, struct link *link)
{
    ASSERT(!link->up);

    link->doubted_ms = 0;
    link->rivals_ms = 0;
    link->asks = 0;
    link->yields = false;
    link->overdue = false;
    memset(link->seen, 0, sizeof(link->seen));
    tcp->seen_changed = true;
}
