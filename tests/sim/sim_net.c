#include "base/check.h"
#include "base/mem.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_gist.h"
#include "tests/sim/sim_member.h"

/*
 * TCP as the protocol sees it: the bytes of a connection arrive in order or not at all. Each
 * direction of a pair is one queue. A cut holds the queue back, as retransmission does. The
 * connection may die meanwhile at either end, and the other end does not notice.
 */

enum packet_kind {
    PACKET_DATA,
    PACKET_DIAL,   /* The greeting of the dialer. */
    PACKET_ACCEPT, /* The greeting of the other end. */
    PACKET_FIN,
};

enum {
    DIAL_MIN_US = 20 * SIM_MS,
    DIAL_MAX_US = 300 * SIM_MS,
    TAIL_FACTOR = 10,
    MUTE_TICKS = 2, /* Half of EXPIRY_BEHIND_REPORTS, after which a replica counts as lost. */
    KEEPALIVE_PPM = 30000, /* For each look at a pair: about every five seconds. */
};

static uint64_t mute_bound_us(const struct sim *sim)
{
    return (uint64_t)sim->knobs.limits.tick_ms * SIM_MS * MUTE_TICKS;
}

/* Without faults, delays stay below what replicas treat as silence: liveness needs that. */
static uint64_t delay_us(struct sim *sim, const struct sim_link *link)
{
    uint64_t tick_us = (uint64_t)sim->knobs.limits.tick_ms * SIM_MS;
    uint64_t us = rng_range(&sim->rng, sim->knobs.delay_min_us, sim->knobs.delay_max_us);

    us *= link->delay_factor;
    if (rng_chance(&sim->rng, sim->knobs.delay_tail_ppm)) {
        us *= TAIL_FACTOR;
    }
    return sim->phase == SIM_LIVENESS ? min_u64(us, tick_us) : us;
}

/* The connection to `peer` as `at` sees it from now on. */
static void set_end(struct sim *sim, uint32_t at, uint32_t peer, uint64_t conn)
{
    sim->ends[at][peer] = conn;
    sim->links[at][peer].since_us = sim->now_us;
}

static struct sim_packet *head(struct sim_link *link)
{
    return &link->items[link->head];
}

static void drop_head(struct sim_link *link)
{
    ASSERT(link->queued >= head(link)->len);
    link->queued -= head(link)->len;
    mem_free(head(link)->bytes);
    link->head = (link->head + 1) % link->cap;
    link->count--;
}

static void grow(struct sim_link *link)
{
    size_t cap = link->cap ? link->cap * 2 : 32;
    struct sim_packet *items = mem_alloc(cap * sizeof(*items));

    for (size_t i = 0; i < link->count; i++) {
        items[i] = link->items[(link->head + i) % link->cap];
    }
    mem_free(link->items);
    link->items = items;
    link->head = 0;
    link->cap = cap;
}

static void on_arrival(struct sim *sim, struct sim_event *event);

static void schedule(struct sim *sim, uint32_t from, uint32_t to)
{
    struct sim_link *link = &sim->links[from][to];

    if (link->scheduled || link->count == 0 || link->cuts > 0) {
        return;
    }

    uint64_t at_us = head(link)->at_us;
    struct sim_event *event =
        sim_after(sim, at_us > sim->now_us ? at_us - sim->now_us : 0, on_arrival, "arrival", NULL);

    event->a = from;
    event->b = to;
    link->scheduled = true;
}

static void push(struct sim *sim, uint32_t from, uint32_t to, struct sim_packet packet)
{
    struct sim_link *link = &sim->links[from][to];
    uint64_t at_us = sim->now_us + delay_us(sim, link);

    if (link->count == link->cap) {
        grow(link);
    }
    packet.sent_us = sim->now_us;
    packet.at_us = at_us > link->last_us ? at_us : link->last_us;
    /* On a slow link the bytes of one packet follow those of another. */
    packet.at_us += link->rate > 0 ? (uint64_t)packet.len * SIM_MS / link->rate : 0;
    link->last_us = packet.at_us;
    link->queued += packet.len;
    link->items[(link->head + link->count) % link->cap] = packet;
    link->count++;
    schedule(sim, from, to);
}

static void greet(struct sim_packet *packet, const struct sim_node *node)
{
    packet->incarnation = node->hello.incarnation;
    packet->bootstrapping = node->hello.bootstrapping;
    packet->level = node->level;
    memcpy(packet->cluster, node->hello.cluster, ZAB_CLUSTER_LEN);
}

static void peer_down(struct sim *sim, struct sim_event *event)
{
    struct sim_node *node = &sim->nodes[event->node];
    struct zab_event down = {.type = ZAB_EV_PEER_DOWN, .peer = (uint32_t)event->a};

    sim_node_step(sim, node, &down);
}

static bool is_peer(const struct sim_node *node, uint32_t peer)
{
    return (node->peers & 1U << peer) != 0;
}

static void peer_up(struct sim *sim, struct sim_event *event)
{
    struct sim_node *node = &sim->nodes[event->node];
    const struct sim_packet *packet = event->ptr;
    struct zab_event up = {.type = ZAB_EV_PEER_UP,
                           .peer = (uint32_t)event->a,
                           .peer_up = {.incarnation = packet->incarnation,
                                       .bootstrapping = packet->bootstrapping,
                                       .level = packet->level}};

    memcpy(up.peer_up.cluster, packet->cluster, ZAB_CLUSTER_LEN);
    sim_node_step(sim, node, &up);
}

/* Notifies a process at once, or when it wakes from its pause. */
static void tell(struct sim *sim, struct sim_node *node, sim_fn run, const char *name,
                 uint32_t peer, const struct sim_packet *packet)
{
    struct sim_event *event = sim_after(sim, 0, run, name, node);

    event->a = peer;
    if (packet) {
        event->ptr = mem_dup(packet, sizeof(*packet));
    }
}

static void fin(struct sim *sim, uint32_t from, uint32_t to, uint64_t conn)
{
    push(sim, from, to, (struct sim_packet){.kind = PACKET_FIN, .conn = conn});
}

static void on_dial(struct sim *sim, struct sim_node *node, uint32_t peer,
                    const struct sim_packet *packet)
{
    struct sim_packet answer = {.kind = PACKET_ACCEPT, .conn = packet->conn, .life = packet->life};

    SIM_TRACE(sim, "net %u accepts %u conn %lu", node->id, peer, (unsigned long)packet->conn);
    set_end(sim, node->id, peer, packet->conn);
    greet(&answer, node);
    push(sim, node->id, peer, answer);
    tell(sim, node, peer_up, "up", peer, packet);
}

static void on_accept(struct sim *sim, struct sim_node *node, uint32_t peer,
                      const struct sim_packet *packet)
{
    if (packet->life != node->life || sim->ends[node->id][peer] != 0) {
        fin(sim, node->id, peer, packet->conn);
        return;
    }
    set_end(sim, node->id, peer, packet->conn);
    tell(sim, node, peer_up, "up", peer, packet);
}

static void on_fin(struct sim *sim, struct sim_node *node, uint32_t peer, uint64_t conn)
{
    if (sim->ends[node->id][peer] == conn) {
        set_end(sim, node->id, peer, 0);
        tell(sim, node, peer_down, "down", peer, NULL);
    }
}

static void receive(struct sim *sim, struct sim_event *event)
{
    struct sim_node *node = &sim->nodes[event->node];
    const uint8_t *bytes = event->ptr;
    struct zab_event recv = {.type = ZAB_EV_RECV, .peer = (uint32_t)event->a};
    struct zab_msg msg;
    uint32_t type = (uint32_t)(event->b >> 32);
    size_t len = (uint32_t)event->b;

    if (zab_msg_decode((enum zab_msg_type)type, slice_make(bytes, len), false, &msg) != ERR_OK) {
        sim_fail(sim, "A26", "message %u from %u to %u does not decode", type, recv.peer, node->id);
    }
    recv.msg = &msg;
    sim->totals.messages++;
    if (sim->options.trace) {
        struct sim_gist gist = sim_gist(&msg);

        SIM_TRACE(sim, "recv %u<-%u %s dialogue %u epoch %u zxid %lx commit %lx flags %x", node->id,
                  recv.peer, zab_msg_name(msg.type), msg.dialogue, gist.epoch,
                  (unsigned long)gist.zxid, (unsigned long)gist.commit, gist.flags);
    }
    sim_node_step(sim, node, &recv);
    zab_msg_release(&msg);
}

/* Data for a paused process wait; a connection that dies meanwhile discards them. */
static void on_data(struct sim *sim, struct sim_node *node, uint32_t peer,
                    struct sim_packet *packet)
{
    if (sim->ends[node->id][peer] != packet->conn) {
        fin(sim, node->id, peer, packet->conn); /* As a kernel answers for an unknown connection. */
        return;
    }

    struct sim_event *event = sim_after(sim, 0, receive, "recv", node);

    event->a = peer;
    event->b = (uint64_t)packet->type << 32 | packet->len;
    event->ptr = packet->bytes;
    packet->bytes = NULL;
}

static void on_arrival(struct sim *sim, struct sim_event *event)
{
    uint32_t from = (uint32_t)event->a;
    uint32_t to = (uint32_t)event->b;
    struct sim_link *link = &sim->links[from][to];
    struct sim_node *node = &sim->nodes[to];

    link->scheduled = false;
    if (link->cuts > 0 || link->count == 0) {
        return;
    }

    struct sim_packet packet = *head(link);

    if (sim->now_us - packet.sent_us >= mute_bound_us(sim)) {
        link->mute_us = sim->now_us;
    }
    head(link)->bytes = NULL;
    drop_head(link);
    if (!node->up) {
        /* A running machine resets connections to a missing process; a dead one is silent. */
        mem_free(packet.bytes);
        schedule(sim, from, to);
        return;
    }
    switch ((enum packet_kind)packet.kind) {
    case PACKET_DATA:
        on_data(sim, node, from, &packet);
        break;
    case PACKET_DIAL:
        on_dial(sim, node, from, &packet);
        break;
    case PACKET_ACCEPT:
        on_accept(sim, node, from, &packet);
        break;
    case PACKET_FIN:
        on_fin(sim, node, from, packet.conn);
        break;
    }
    mem_free(packet.bytes);
    schedule(sim, from, to);
}

/* ---- Effects of the replica. ---- */

void sim_net_send(struct sim *sim, struct sim_node *from, uint32_t to, const struct zab_msg *msg)
{
    uint64_t conn = sim->ends[from->id][to];
    struct buf bytes;

    ASSERT(to >= 1 && to <= sim->knobs.nodes);
    if (conn == 0) {
        return;
    }
    if (msg->type == ZAB_ENTRY && sim->drop_from == from->id && sim->drop_to == to) {
        sim->drop_from = 0;
        return;
    }
    buf_init(&bytes, zab_msg_size_max(msg->type));
    zab_msg_encode(msg, &bytes);
    if (bytes.overflow) {
        sim_fail(sim, "A25", "a %s of node %u is too large", zab_msg_name(msg->type), from->id);
    }
    if (sim->knobs.queue_bytes > 0 && sim->links[from->id][to].queued >= sim->knobs.queue_bytes) {
        SIM_TRACE(sim, "net %u drops %u, whose queue is full", from->id, to);
        buf_release(&bytes);
        sim_net_close(sim, from, to);
        return;
    }
    push(sim, from->id, to,
         (struct sim_packet){.kind = PACKET_DATA,
                             .conn = conn,
                             .type = (uint32_t)msg->type,
                             .len = (uint32_t)bytes.len,
                             .bytes = bytes.data});
}

void sim_net_close(struct sim *sim, struct sim_node *from, uint32_t to)
{
    uint64_t conn = sim->ends[from->id][to];

    if (conn == 0) {
        return;
    }
    SIM_TRACE(sim, "net %u closes %u", from->id, to);
    set_end(sim, from->id, to, 0);
    fin(sim, from->id, to, conn);
    tell(sim, from, peer_down, "down", to, NULL);
}

/* A process that dies sends a FIN; a machine that dies sends nothing. */
void sim_net_node_down(struct sim *sim, struct sim_node *node, bool silent)
{
    for (uint32_t id = 1; id <= sim->knobs.nodes; id++) {
        uint64_t conn = sim->ends[node->id][id];

        set_end(sim, node->id, id, 0);
        if (conn != 0 && !silent) {
            fin(sim, node->id, id, conn);
        }
    }
}

/* Peers learn the cluster of a new member from its next greeting. */
void sim_net_greet_again(struct sim *sim, struct sim_node *node)
{
    node->hello = node->identity;
    for (uint32_t id = 1; id <= sim->knobs.nodes; id++) {
        sim_net_close(sim, node, id);
    }
}

static void close_stranger(struct sim *sim, const struct sim_node *node, uint32_t id)
{
    uint64_t conn = sim->ends[node->id][id];

    if (conn == 0) {
        return;
    }
    SIM_TRACE(sim, "net %u closes %u, which is no peer any more", node->id, id);
    set_end(sim, node->id, id, 0);
    fin(sim, node->id, id, conn);
}

void sim_net_members(struct sim *sim, struct sim_node *node)
{
    struct zab_peer_status peers[ZAB_MEMBERS_MAX];
    size_t count = zab_peers(replica_zab(node->replica), peers, ZAB_MEMBERS_MAX);

    uint32_t before = node->peers;

    node->peers = 0;
    for (size_t i = 0; i < count; i++) {
        node->peers |= 1U << peers[i].id;
    }
    for (uint32_t id = 1; id <= sim->knobs.nodes; id++) {
        if (!is_peer(node, id) && (before & 1U << id) != 0) {
            close_stranger(sim, node, id);
        }
    }
}

/* ---- Dialing. ---- */

static void dial(struct sim *sim, uint32_t from, uint32_t to)
{
    struct sim_packet packet = {
        .kind = PACKET_DIAL, .conn = ++sim->conn_seq, .life = sim->nodes[from].life};

    greet(&packet, &sim->nodes[from]);
    push(sim, from, to, packet);
}

/* Keepalive: an end whose peer does not know the connection is closed after some seconds. */
static void find_half_open(struct sim *sim, uint32_t at, uint32_t peer)
{
    uint64_t conn = sim->ends[at][peer];

    if (conn != 0 && sim->ends[peer][at] != conn) {
        set_end(sim, at, peer, 0);
        tell(sim, &sim->nodes[at], peer_down, "down", peer, NULL);
    }
}

/* While a replica searches, it dials all machines, whatever their ids and addresses are: `join` has
 * a name for each of them. */
static bool wants(struct sim *sim, const struct sim_node *from, const struct sim_node *to)
{
    bool searches =
        from->status.zab.searching && (sim->knobs.change_ms > 0 || sim->knobs.bootstrap > 0);
    bool is_dialer = from->id > to->id; /* Else the other one dials. */

    return sim->ends[from->id][to->id] == 0 &&
           (searches || (is_dialer && is_peer(from, to->id) && sim_member_reaches(sim, from, to)));
}

static void dial_either(struct sim *sim, struct sim_node *a, struct sim_node *b)
{
    if (wants(sim, b, a)) {
        dial(sim, b->id, a->id);
    } else if (wants(sim, a, b)) {
        dial(sim, a->id, b->id);
    }
}

static void look_at_pair(struct sim *sim, struct sim_event *event)
{
    uint32_t a = (uint32_t)event->a;
    uint32_t b = (uint32_t)event->b;
    bool both =
        sim->nodes[a].up && sim->nodes[b].up && !sim->nodes[a].paused && !sim->nodes[b].paused;
    bool open = sim->links[a][b].cuts == 0 && sim->links[b][a].cuts == 0;
    struct sim_event *next =
        sim_after(sim, rng_range(&sim->rng, DIAL_MIN_US, DIAL_MAX_US), look_at_pair, "dial", NULL);

    next->a = a;
    next->b = b;
    sim_member_met(sim, &sim->nodes[a], &sim->nodes[b]);
    if (!both || !open) {
        return;
    }
    if (sim->ends[a][b] != sim->ends[b][a] && rng_chance(&sim->rng, KEEPALIVE_PPM)) {
        find_half_open(sim, a, b);
        find_half_open(sim, b, a);
    }
    dial_either(sim, &sim->nodes[a], &sim->nodes[b]);
}

/* ---- Faults. ---- */

void sim_net_reset(struct sim *sim, uint32_t a, uint32_t b)
{
    SIM_TRACE(sim, "fault: reset %u-%u", a, b);
    for (int side = 0; side < 2; side++) {
        uint32_t from = side ? b : a;
        uint32_t to = side ? a : b;
        uint64_t conn = sim->ends[from][to];
        struct sim_link *link = &sim->links[from][to];

        while (link->count > 0 && link->cuts == 0) {
            drop_head(link);
        }
        link->last_us = sim->now_us;
        if (conn != 0 && sim->nodes[from].up) {
            set_end(sim, from, to, 0);
            tell(sim, &sim->nodes[from], peer_down, "down", to, NULL);
        }
    }
}

bool sim_net_was_calm(struct sim *sim, uint32_t a, uint32_t b, uint64_t since_us)
{
    const struct sim_link *there = &sim->links[a][b];
    const struct sim_link *back = &sim->links[b][a];

    return a == b || (there->cuts == 0 && back->cuts == 0 && there->since_us <= since_us &&
                      back->since_us <= since_us && sim->ends[a][b] != 0 &&
                      sim->ends[a][b] == sim->ends[b][a]);
}

bool sim_net_is_heard(struct sim *sim, uint32_t from, uint32_t to)
{
    struct sim_link *link = &sim->links[from][to];

    return sim->ends[from][to] != 0 && sim->ends[from][to] == sim->ends[to][from] &&
           (link->cuts == 0 || sim->now_us - link->cut_us < mute_bound_us(sim)) &&
           (link->count == 0 || sim->now_us - head(link)->sent_us < mute_bound_us(sim)) &&
           (link->mute_us == 0 || sim->now_us - link->mute_us >= mute_bound_us(sim));
}

bool sim_net_was_mute(const struct sim *sim, uint32_t from, uint32_t to, uint64_t since_us)
{
    const struct sim_link *link = &sim->links[from][to];

    return link->mute_us != 0 && link->mute_us >= since_us;
}

void sim_net_cut(struct sim *sim, uint32_t from, uint32_t to)
{
    struct sim_link *link = &sim->links[from][to];

    if (link->cuts++ == 0) {
        link->cut_us = sim->now_us;
    }
}

/* The last cut of the link has ended. */
static void healed(struct sim *sim, struct sim_link *link)
{
    if (sim->now_us - link->cut_us >= mute_bound_us(sim)) {
        link->mute_us = sim->now_us;
    }
}

void sim_net_heal(struct sim *sim, uint32_t from, uint32_t to)
{
    struct sim_link *link = &sim->links[from][to];

    if (link->cuts == 0) {
        return;
    }
    if (--link->cuts == 0) {
        healed(sim, link);
    }
    link->since_us = sim->now_us;
    schedule(sim, from, to);
}

void sim_net_heal_all(struct sim *sim)
{
    for (uint32_t a = 1; a <= sim->knobs.nodes; a++) {
        for (uint32_t b = 1; b <= sim->knobs.nodes; b++) {
            if (sim->links[a][b].cuts > 0) {
                healed(sim, &sim->links[a][b]);
            }
            sim->links[a][b].since_us = sim->now_us;
            sim->links[a][b].cuts = 0;
            schedule(sim, a, b);
        }
    }
}

void sim_net_init(struct sim *sim)
{
    for (uint32_t a = 1; a <= sim->knobs.nodes; a++) {
        for (uint32_t b = 1; b <= sim->knobs.nodes; b++) {
            sim->links[a][b].delay_factor = rng_chance(&sim->rng, 100000) ? 5 : 1;
            sim->links[a][b].rate = sim->knobs.link_rates[(a * 3 + b) % SIM_RATES];
        }
        for (uint32_t b = a + 1; b <= sim->knobs.nodes; b++) {
            struct sim_event *event =
                sim_after(sim, rng_below(&sim->rng, DIAL_MAX_US), look_at_pair, "dial", NULL);

            event->a = a;
            event->b = b;
        }
    }
}

void sim_net_release(struct sim *sim)
{
    for (uint32_t a = 1; a <= sim->knobs.nodes; a++) {
        for (uint32_t b = 1; b <= sim->knobs.nodes; b++) {
            struct sim_link *link = &sim->links[a][b];

            while (link->count > 0) {
                drop_head(link);
            }
            mem_free(link->items);
        }
    }
}
