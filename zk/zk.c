/*
 * The thread: one libev loop with all connections and our mailboxes. Connections with something to
 * run or to send are collected in a list, and have their turn after all ready descriptors have been
 * served.
 */
#include "zk/zk_int.h"

#include "base/lack.h"

#include <stdio.h>
#include <unistd.h>

enum {
    FIFO_FIRST = 1 << 30, /* WebSockets have the numbers below. */
    LABEL_MAX = 64,
    EVENT_MAX = 5 << 20 /* The path of an event may be as long as a frame of setWatches. */
};

/* ---- Metrics, on any thread ---- */

static void write_metrics(void *ctx, struct buf *out)
{
    struct zk *zk = ctx;
    const struct zk_metrics *metrics = &zk->metrics;
    char label[LABEL_MAX];

    ZK_METRICS(METRIC_PUT)
    metric_head(out, "zabra_native_closed_total", "counter",
                "Connections of native clients closed, by reason.");
    for (size_t i = 0; zk_reasons[i]; i++) {
        (void)snprintf(label, sizeof(label), "reason=\"%s\"", zk_reasons[i]);
        metric_put(out, "zabra_native_closed_total", label, metric_get(&metrics->closes[i]));
    }
}

static void add_figures(void *ctx, struct gate_front_figures *figures)
{
    const struct zk *zk = ctx;

    figures->natives += metric_get(&zk->metrics.connections);
    figures->native_requests += metric_get(&zk->metrics.requests);
    figures->watches += metric_get(&zk->metrics.watches);
    figures->events += metric_get(&zk->metrics.events);
}

/* ---- The watch listing ---- */

/* Posts the listing even if the mailbox is full: there are never more than HTTP connections. */
static void ask_listing(void *ctx, struct watch_listing *listing)
{
    struct zk *zk = ctx;

    mailbox_must_post(&zk->asked.box, &listing->node);
}

static struct watch_listing_client client_of(const struct zk_conn *conn)
{
    return (struct watch_listing_client){
        .owner = &conn->owner, .session = conn->session.id, .over = "native"};
}

static void add_place(const struct zk *zk, struct watch_listing *listing)
{
    const struct watch_table *table = subscribe_table(zk->subscriber);
    const struct watch *watch = watch_at(table, listing->path, NULL);
    bool more = true;

    while (watch && more) {
        struct watch_listing_client client =
            client_of(list_entry(watch->owner, struct zk_conn, owner));

        more = watch_listing_add_watch(listing, &client, watch);
        watch = watch_at(table, listing->path, watch);
    }
}

static void add_all(struct zk *zk, struct watch_listing *listing)
{
    bool more = true;

    for (struct list *it = zk->conns.next; it != &zk->conns && more; it = it->next) {
        struct watch_listing_client client = client_of(list_entry(it, struct zk_conn, node));

        more = watch_listing_add_client(listing, &client);
    }
}

static void add_watches(struct zk *zk, struct watch_listing *listing)
{
    const struct zk_conn *conn = map_get_u64(&zk->attached, listing->session);

    watch_listing_begin(listing);
    if (listing->path.len > 0 && !listing->clients) {
        add_place(zk, listing);
    } else if (listing->session == 0) {
        add_all(zk, listing);
    } else if (conn) {
        struct watch_listing_client client = client_of(conn);

        (void)watch_listing_add_client(listing, &client);
    }
}

/* ---- The end of a round ---- */

/* Returns the time of one connection, so that all of them have their turn soon. */
static uint64_t turn_us(const struct zk *zk)
{
    uint64_t count = 1;

    for (const struct list *it = zk->turn.next;
         it != &zk->turn && count < ZK_TURNS_US / ZK_WORK_LEAST_US; it = it->next) {
        count++;
    }
    return min_u64(ZK_TURNS_US / count, ZK_WORK_US);
}

/* Gives the connection its turn. Returns the time after it. */
static uint64_t give_turn(struct zk_conn *conn, uint64_t now_us, uint64_t work_us)
{
    list_remove(&conn->turn);
    conn->zk->now_us = now_us;
    conn->zk->end_us = now_us + work_us;
    zk_conn_turn(conn);
    return os_now_us();
}

/* Connections whose turn does not come now stay in front of all others. One long reply is written
 * in a round, whose time is not bounded: so others have their turns between two of them. */
static void give_turns(struct zk *zk)
{
    uint64_t work_us = turn_us(zk);
    uint64_t now_us = os_now_us();
    uint64_t end_us = now_us + ZK_TURNS_US;

    while (!list_empty(&zk->turn) && now_us < end_us) {
        now_us = give_turn(list_first(&zk->turn, struct zk_conn, turn), now_us, work_us);
    }
    struct zk_conn *conn = zk_turn_next_long(zk);

    if (conn) {
        zk->long_turn = true;
        (void)give_turn(conn, now_us, work_us);
        zk->long_turn = false;
    }
}

static void on_turn_end(struct ev_loop *loop, struct ev_prepare *watcher UNUSED, int events UNUSED)
{
    struct zk *zk = ev_userdata(loop);

    list_move_all(&zk->turn, &zk->later);
    zk_out_relieve(zk);
    give_turns(zk);
    zk_call_resume(zk); /* Behind the turns, which free requests: no other event may follow soon. */
    if (!list_empty(&zk->later) || !list_empty(&zk->turn) || zk_turn_awaits_long(zk)) {
        ev_async_send(zk->loop, &zk->changed); /* Keeps the next poll from sleeping. */
    }
    if (atomic_load(&zk->draining) && !mailbox_is_closed(&zk->emptied) && list_empty(&zk->conns) &&
        mailbox_count(&zk->arrivals.box) == 0) {
        mailbox_close(&zk->emptied);
    }
    metric_set(&zk->metrics.watches, watch_table_count(subscribe_table(zk->subscriber)));
}

/* ---- What wakes the thread ---- */

/* Removes each node from the list before `take`, which may post it to another mailbox. */
static void take_all(struct zk *zk, struct zk_inbox *inbox)
{
    struct list nodes;

    (void)mailbox_drain(&inbox->box, &nodes);
    while (!list_empty(&nodes)) {
        inbox->take(zk, list_pop(&nodes));
    }
}

static void take_arrival(struct zk *zk, struct list *node)
{
    zk_conn_adopt(zk, list_entry(node, struct zk_arrival, node));
}

/* Lets those continue that have waited longest for room in the gate, each with an equal part of it,
 * so that none waits for all requests of those before it. The room is kept for them until they have
 * had their turn. */
static void resume_held(struct zk *zk)
{
    uint64_t taken = zk->inside + zk->promised;
    uint64_t room = zk->inside_max - min_u64(taken, zk->inside_max);
    uint64_t count = 0;

    list_for_each (it, &zk->held) {
        count++;
    }
    for (uint64_t i = 0; i < min_u64(room, count); i++) {
        struct zk_conn *conn = list_take(&zk->held, struct zk_conn, held);

        zk_call_promise(conn, max_u64(room / count, 1));
        zk_turn_soon(conn);
    }
    if (!list_empty(&zk->held)) {
        zk_call_retry(zk);
    }
}

static void take_reply(struct zk *zk, struct list *node)
{
    zk_queue_back(zk, list_entry(node, struct op_request, node));
}

static void take_asked(struct zk *zk, struct list *node)
{
    struct watch_listing *listing = list_entry(node, struct watch_listing, node);

    add_watches(zk, listing);
    watch_listing_pass(listing);
}

static void on_inbox(struct ev_loop *loop, struct ev_io *watcher, int events UNUSED)
{
    struct zk *zk = ev_userdata(loop);
    struct zk_inbox *inbox = list_entry(watcher, struct zk_inbox, io);

    take_all(zk, inbox);
    if (inbox == &zk->replies) {
        resume_held(zk);
    }
}

static void on_changed(struct ev_loop *loop, struct ev_async *watcher UNUSED, int events UNUSED)
{
    struct zk *zk = ev_userdata(loop);
    zxid_t before = subscribe_at(zk->subscriber);

    if (atomic_load(&zk->draining)) {
        list_for_each_entry (struct zk_conn, conn, node, &zk->conns) {
            zk_close_begin(conn, "drain");
        }
    }
    if (atomic_load(&zk->stopping)) {
        ev_break(loop, EVBREAK_ALL);
        return;
    }
    if (subscribe_pump(zk->subscriber, ZXID_MAX, ZK_PUMP_SETS) != before) {
        ev_async_send(zk->loop, &zk->changed); /* There may be more changes. */
    }
    zk_order_retry(zk);
}

static void on_retry(struct ev_loop *loop, struct ev_timer *watcher UNUSED, int events UNUSED)
{
    resume_held(ev_userdata(loop));
}

static void on_tick(struct ev_loop *loop, struct ev_timer *watcher UNUSED, int events UNUSED)
{
    zk_tick(ev_userdata(loop));
}

static void open_inbox(struct zk *zk, struct zk_inbox *inbox,
                       void (*take)(struct zk *zk, struct list *node))
{
    mailbox_init(&inbox->box, 1);
    ev_io_init(&inbox->io, on_inbox, inbox->box.event_fd, EV_READ);
    inbox->take = take;
    ev_io_start(zk->loop, &inbox->io);
}

static void watch_all(struct zk *zk)
{
    open_inbox(zk, &zk->arrivals, take_arrival);
    open_inbox(zk, &zk->replies, take_reply);
    open_inbox(zk, &zk->asked, take_asked);
    ev_async_init(&zk->changed, on_changed);
    ev_prepare_init(&zk->turn_end, on_turn_end);
    ev_timer_init(&zk->retry, on_retry, 0., 0.);
    ev_timer_init(&zk->tick, on_tick, ZK_TICK_MS / 1000., ZK_TICK_MS / 1000.);
    ev_async_start(zk->loop, &zk->changed);
    ev_prepare_start(zk->loop, &zk->turn_end);
    ev_timer_start(zk->loop, &zk->tick);
}

/* ---- Start, drain, stop ---- */

static void body(void *arg)
{
    struct zk *zk = arg;

    (void)ev_run(zk->loop, 0);
}

static void free_all(struct zk *zk)
{
    ASSERT(list_empty(&zk->conns) && zk->inside == 0);

    ev_loop_destroy(zk->loop); /* This also stops the watchers. */
    mailbox_release(&zk->arrivals.box);
    mailbox_release(&zk->replies.box);
    mailbox_release(&zk->asked.box);
    mailbox_release(&zk->emptied);
    map_release(&zk->attached);
    budget_shares_release(&zk->pieces);
    budget_shares_release(&zk->calls);
    budget_shares_release(&zk->watches);
    buf_release(&zk->out);
    buf_release(&zk->acls);
    principal_release(&zk->self);
    mem_free(zk->read);
    mem_free(zk);
}

static struct zk *zk_new(struct gate *gate, void (*give_seat)(void *seat))
{
    struct zk *zk = mem_zalloc(1, sizeof(*zk));
    const struct config_clients *limits = gate_limits(gate);

    zk->gate = gate;
    zk->limits = limits;
    zk->give_seat = give_seat;
    zk->frames = (struct zk_limits){.data_bytes_max = limits->data_bytes_max,
                                    .multi_bytes_max = limits->multi_bytes_max,
                                    .multi_ops_max = limits->multi_ops_max};
    zk->self.auth = auth_certificate("native", "native");
    zk->loop = ev_loop_new(EVFLAG_AUTO | EVFLAG_NOENV);
    if (!zk->loop) {
        lack_failed("no file descriptor or no memory is left for the event loop of native clients");
    }
    ev_set_userdata(zk->loop, zk);
    budget_shares_init(&zk->pieces, limits->pool_bytes_max, limits->address_pool_max);
    budget_shares_init(&zk->calls, limits->pool_bytes_max, limits->address_pool_max);
    budget_shares_init(&zk->watches, limits->pool_bytes_max, limits->address_pool_max);
    zk->inside_max = limits->requests_max > 1 ? limits->requests_max / 2 : 1;
    zk->fifos = FIFO_FIRST;
    zk->tick_ms = os_now_ms() + ZK_TICK_MS;
    mailbox_init(&zk->emptied, 1);
    list_init(&zk->conns);
    list_init(&zk->turn);
    list_init(&zk->later);
    list_init(&zk->longs);
    list_init(&zk->lists);
    list_init(&zk->places);
    list_init(&zk->placeless);
    list_init(&zk->held);
    list_init(&zk->roomless);
    list_init(&zk->waiting);
    list_init(&zk->stalled);
    map_init(&zk->attached);
    /* What may wait in front of a reply, the reply, and all events that may wait. */
    buf_init(&zk->out, ZK_UNREAD_BYTES + ZK_REPLY_MAX + limits->socket_queue_bytes_max + EVENT_MAX);
    buf_init(&zk->acls, SIZE_MAX / 2); /* Bounded by the frame. */
    zk->read = mem_alloc(ZK_READ_BYTES);
    watch_all(zk);
    return zk;
}

struct zk *zk_open(struct gate *gate, void (*give_seat)(void *seat))
{
    struct zk *zk = zk_new(gate, give_seat);

    zk_watch_open(zk);
    gate_set_front(
        gate, GATE_FRONT_NATIVE,
        (struct gate_front_hooks){
            .figures = add_figures, .metrics = write_metrics, .listing = ask_listing, .ctx = zk});
    return zk;
}

struct zk *zk_start(struct gate *gate, void (*give_seat)(void *seat))
{
    struct zk *zk = zk_open(gate, give_seat);

    thread_start(&zk->thread, "zabra-zk", body, zk);
    return zk;
}

bool zk_adopt(void *ctx, int fd, const struct op_principal *principal, void *take_seat)
{
    struct zk *zk = ctx;
    struct zk_arrival *arrival = NULL;

    if (atomic_load(&zk->draining)) {
        return false;
    }
    atomic_fetch_add(&zk->taken, 1);
    arrival = mem_alloc(sizeof(*arrival));
    *arrival =
        (struct zk_arrival){.fd = fd, .principal = principal_copy(principal), .seat = take_seat};
    mailbox_must_post(&zk->arrivals.box, &arrival->node);
    return true;
}

void zk_drain(struct zk *zk)
{
    atomic_store(&zk->draining, true);
    ev_async_send(zk->loop, &zk->changed);
    (void)mailbox_wait(&zk->emptied, ZK_DRAIN_MS);
}

static void drop_arrivals(struct zk *zk)
{
    struct list arrivals;

    (void)mailbox_drain(&zk->arrivals.box, &arrivals);
    list_take_each (struct zk_arrival, arrival, node, &arrivals) {
        close(arrival->fd);
        zk->give_seat(arrival->seat);
        principal_release(&arrival->principal);
        mem_free(arrival);
    }
}

void zk_close(struct zk *zk)
{
    atomic_store(&zk->draining, true);
    gate_set_front(zk->gate, GATE_FRONT_NATIVE, (struct gate_front_hooks){0});
    take_all(zk, &zk->asked); /* Answers requests for listings that have arrived until now. */
    drop_arrivals(zk);
    list_for_each_entry_safe (struct zk_conn, conn, next, node, &zk->conns) {
        zk_conn_free(conn);
    }
    /* The gate owns each request until the request is answered. */
    while (zk->inside > 0) {
        (void)mailbox_wait(&zk->replies.box, -1);
        take_all(zk, &zk->replies);
    }
    zk_watch_close(zk);
    free_all(zk);
}

void zk_stop(struct zk *zk)
{
    if (!zk) {
        return;
    }
    atomic_store(&zk->draining, true);
    atomic_store(&zk->stopping, true);
    ev_async_send(zk->loop, &zk->changed);
    thread_join(&zk->thread);
    zk_close(zk);
}
