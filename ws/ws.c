/*
 * The sockets' thread: one libev loop with the connections of libwebsockets and our mailboxes.
 * Sockets with something to run or to send are collected in a list, and have their turn after all
 * ready descriptors have been served, so that many messages leave in one system call.
 */
#include "base/lack.h"
#include "base/log.h"
#include "base/os_rng.h"
#include "ws/ws_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- Metrics, on any thread ---- */

static void write_metrics(void *ctx, struct buf *out)
{
    struct ws *ws = ctx;
    const struct ws_metrics *metrics = &ws->metrics;
    char label[sizeof("code=\"client\"") + 8];

    WS_METRICS(METRIC_PUT)
    metric_head(out, "zabra_ws_closed_total", "counter",
                "WebSocket connections closed, by the close code of the server.");
    for (size_t i = 0; i < WS_CODES; i++) {
        if (ws_codes[i] == WS_CODE_NONE) {
            (void)snprintf(label, sizeof(label), "code=\"client\"");
        } else {
            (void)snprintf(label, sizeof(label), "code=\"%d\"", (int)ws_codes[i]);
        }
        metric_put(out, "zabra_ws_closed_total", label, metric_get(&metrics->closes[i]));
    }
}

static void add_figures(void *ctx, struct gate_front_figures *figures)
{
    const struct ws *ws = ctx;

    figures->sockets += metric_get(&ws->metrics.sockets);
    figures->watches += metric_get(&ws->metrics.watches);
    figures->events += metric_get(&ws->metrics.events);
}

/* ---- The watch listing ---- */

/* Posts the listing even if the mailbox is full. Each HTTP connection waits until its listing is
 * answered, so the mailbox never holds more listings than there are connections. */
static void ask_listing(void *ctx, struct watch_listing *listing)
{
    struct ws *ws = ctx;
    mailbox_must_post(&ws->asked.box, &listing->node);
}

static struct watch_listing_client client_of(const struct ws_socket *socket)
{
    return (struct watch_listing_client){
        .owner = &socket->owner, .session = socket->session.attached.id, .over = "websocket"};
}

static void add_place(const struct ws *ws, struct watch_listing *listing)
{
    const struct watch_table *table = subscribe_table(ws->subscriber);
    const struct watch *watch = watch_at(table, listing->path, NULL);
    bool more = true;

    while (watch && more) {
        struct watch_listing_client client =
            client_of(list_entry(watch->owner, struct ws_socket, owner));

        more = watch_listing_add_watch(listing, &client, watch);
        watch = watch_at(table, listing->path, watch);
    }
}

static void add_all(struct ws *ws, struct watch_listing *listing)
{
    bool more = true;

    for (struct list *it = ws->sockets.next; it != &ws->sockets && more; it = it->next) {
        struct watch_listing_client client = client_of(list_entry(it, struct ws_socket, node));

        more = watch_listing_add_client(listing, &client);
    }
}

static void add_watches(struct ws *ws, struct watch_listing *listing)
{
    const struct ws_socket *socket = map_get_u64(&ws->attached, listing->session);

    watch_listing_begin(listing);
    if (listing->path.len > 0 && !listing->clients) {
        add_place(ws, listing);
    } else if (listing->session == 0) {
        add_all(ws, listing);
    } else if (socket) {
        struct watch_listing_client client = client_of(socket);

        (void)watch_listing_add_client(listing, &client);
    }
}

/* ---- The end of a turn ---- */

/* Runs a socket's messages at most once between two polls. Otherwise a client that takes large
 * replies as fast as they are made would keep the thread from reading anything else: the client's
 * own pongs, and all other clients. */
static void run_messages(struct ws_socket *socket)
{
    if (socket->queue.ran_poll != socket->ws->polls) {
        ws_queue_run(socket);
    } else if (ws_queue_is_ready(socket)) {
        ws_turn_later(socket);
    }
}

static void give_turn(struct ws_socket *socket)
{
    ws_library_read_unread(socket);
    if (!socket->open) {
        return;
    }
    run_messages(socket);
    ws_close_farewell(socket);
    ws_read_kept(socket);
    if (!socket->open) {
        return; /* One of these calls has cut the connection. */
    }
    if (!ws_out_flush(socket)) {
        ws_close_cut(socket);
        return;
    }
    ws_overrun_eased(socket);
    ws_queue_eased(socket);
    ws_close_part(socket);
}

/* Gives each socket of ws->turn its turn. A socket that gets something to send meanwhile goes to
 * the end of the list. When WS_TURNS_US have passed, the remaining sockets keep their places: they
 * have their turn after the next poll, before sockets that join the list later. */
static void give_turns(struct ws *ws)
{
    uint64_t end_us = os_now_us() + WS_TURNS_US;

    while (!list_empty(&ws->turn) && os_now_us() < end_us) {
        give_turn(list_take(&ws->turn, struct ws_socket, turn));
        ws_events_let_out(ws);
    }
}

static void on_turn_begin(struct ev_loop *loop, struct ev_check *watcher UNUSED, int events UNUSED)
{
    struct ws *ws = ev_userdata(loop);

    ws->news_us = os_now_us();
}

static void on_turn_end(struct ev_loop *loop, struct ev_prepare *watcher UNUSED, int events UNUSED)
{
    struct ws *ws = ev_userdata(loop);

    ws->polls++;
    ws->resume_us = 0;
    list_move_all(&ws->turn, &ws->later); /* Sockets that had their turn in the last round. */
    ws_overrun_relieve(ws);
    if (!list_empty(&ws->line)) {
        ws_overrun_catch_up(ws);
    }
    give_turns(ws);
    if (!list_empty(&ws->turn) || !list_empty(&ws->later)) {
        ev_async_send(ws->loop, &ws->changed); /* Keeps the next poll from sleeping. */
    }
    if (atomic_load(&ws->draining) && !mailbox_is_closed(&ws->emptied) &&
        list_empty(&ws->sockets) && mailbox_count(&ws->arrivals.box) == 0) {
        mailbox_close(&ws->emptied);
    }
    metric_set(&ws->metrics.watches, watch_table_count(subscribe_table(ws->subscriber)));
}

/* ---- What wakes the thread ---- */

/* Removes each node from the list before `take`, which may post the node to another mailbox. */
static void take_all(struct ws *ws, struct ws_inbox *inbox)
{
    struct list nodes;

    (void)mailbox_drain(&inbox->box, &nodes);
    while (!list_empty(&nodes)) {
        inbox->take(ws, list_pop(&nodes));
    }
}

static void on_inbox(struct ev_loop *loop, struct ev_io *watcher, int events UNUSED)
{
    take_all(ev_userdata(loop), list_entry(watcher, struct ws_inbox, io));
}

static void take_arrival(struct ws *ws, struct list *node)
{
    ws_library_adopt(ws, list_entry(node, struct ws_arrival, node));
    ws_events_let_out(ws);
}

/* Gives held sockets a turn: there may be room in the gate again. */
static void resume_held(struct ws *ws)
{
    list_take_each (struct ws_socket, socket, queue.held, &ws->held) {
        ws_turn_soon(socket);
    }
}

static void take_reply(struct ws *ws, struct list *node)
{
    ws_queue_back(ws, list_entry(node, struct op_request, node));
    resume_held(ws);
}

static void take_asked(struct ws *ws, struct list *node)
{
    struct watch_listing *listing = list_entry(node, struct watch_listing, node);

    add_watches(ws, listing);
    watch_listing_pass(listing);
}

static void on_changed(struct ev_loop *loop, struct ev_async *watcher UNUSED, int events UNUSED)
{
    struct ws *ws = ev_userdata(loop);
    zxid_t before = subscribe_at(ws->subscriber);

    if (atomic_load(&ws->draining)) {
        list_for_each_entry (struct ws_socket, socket, node, &ws->sockets) {
            ws_close_begin(socket, WS_CODE_GOING_AWAY, "drain");
        }
    }
    if (atomic_load(&ws->stopping)) {
        ev_break(loop, EVBREAK_ALL);
        return;
    }
    if (subscribe_pump(ws->subscriber, ZXID_MAX, WS_PUMP_SETS) != before) {
        ev_async_send(ws->loop, &ws->changed); /* There may be more changes. */
    }
    ws_order_retry(ws);
}

static void on_retry(struct ev_loop *loop, struct ev_timer *watcher UNUSED, int events UNUSED)
{
    resume_held(ev_userdata(loop));
}

static void on_look(struct ev_loop *loop, struct ev_timer *watcher UNUSED, int events UNUSED)
{
    struct ws *ws = ev_userdata(loop);

    ws_beat_look(ws);
    ws_order_retry(ws);
    if (ws->sessions_unread) {
        ws_session_look_all(ws);
    }
}

static void open_inbox(struct ws *ws, struct ws_inbox *inbox, size_t count_max,
                       void (*take)(struct ws *ws, struct list *node))
{
    mailbox_init(&inbox->box, count_max);
    ev_io_init(&inbox->io, on_inbox, inbox->box.event_fd, EV_READ);
    inbox->take = take;
    ev_io_start(ws->loop, &inbox->io);
}

static void watch_all(struct ws *ws)
{
    open_inbox(ws, &ws->arrivals, ws->limits->web_sockets_max, take_arrival);
    open_inbox(ws, &ws->replies, 1, take_reply);
    open_inbox(ws, &ws->asked, 1, take_asked);
    ev_async_init(&ws->changed, on_changed);
    ev_check_init(&ws->turn_begin, on_turn_begin);
    ev_prepare_init(&ws->turn_end, on_turn_end);
    ev_timer_init(&ws->retry, on_retry, 0., 0.);
    ev_timer_init(&ws->look, on_look, WS_LOOK_MS / 1000., WS_LOOK_MS / 1000.);
    ev_async_start(ws->loop, &ws->changed);
    ev_check_start(ws->loop, &ws->turn_begin);
    ev_prepare_start(ws->loop, &ws->turn_end);
    ev_timer_start(ws->loop, &ws->look);
}

/* ---- Start, drain, stop ---- */

static void body(void *arg)
{
    struct ws *ws = arg;

    (void)ev_run(ws->loop, 0);
}

static void free_all(struct ws *ws)
{
    ASSERT(list_empty(&ws->sockets) && ws->inside == 0);

    ev_loop_destroy(ws->loop); /* This also stops the watchers. */
    mailbox_release(&ws->arrivals.box);
    mailbox_release(&ws->replies.box);
    mailbox_release(&ws->asked.box);
    mailbox_release(&ws->emptied);
    map_release(&ws->attached);
    budget_shares_release(&ws->pieces);
    budget_shares_release(&ws->watches);
    buf_release(&ws->scratch);
    text_release(&ws->answer);
    mem_free(ws->block);
    mem_free(ws->unread);
    mem_free(ws);
}

static struct ws *ws_new(struct gate *gate, void (*give_seat)(void *seat))
{
    struct ws *ws = mem_zalloc(1, sizeof(*ws));

    ws->gate = gate;
    ws->limits = gate_limits(gate);
    ws->give_seat = give_seat;
    ws->loop = ev_loop_new(EVFLAG_AUTO | EVFLAG_NOENV);
    if (!ws->loop) {
        lack_failed(
            "no file descriptor or no memory is left for the event loop of WebSocket connections");
    }
    ev_set_userdata(ws->loop, ws);
    budget_shares_init(&ws->pieces, ws->limits->pool_bytes_max, ws->limits->address_pool_max);
    budget_shares_init(&ws->watches, ws->limits->pool_bytes_max, ws->limits->address_pool_max);
    ws->inside_max = ws->limits->requests_max > 1 ? ws->limits->requests_max / 2 : 1;
    mailbox_init(&ws->emptied, 1);
    list_init(&ws->sockets);
    list_init(&ws->turn);
    list_init(&ws->later);
    list_init(&ws->news);
    list_init(&ws->held);
    list_init(&ws->line);
    list_init(&ws->stalled);
    list_init(&ws->waiting);
    map_init(&ws->attached);
    buf_init(&ws->scratch, WS_REPLY_MAX);
    text_init(&ws->answer, WS_REPLY_MAX, gate_unsent(gate));
    ws->block = mem_alloc(WS_BLOCK_BYTES);
    ws->unread = mem_alloc(WS_READ_BYTES);
    rng_init(&ws->rng, os_random_u64());
    watch_all(ws);
    return ws;
}

bool ws_check(char lack[WS_LACK_MAX])
{
    int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);

    if (fd < 0) {
        (void)snprintf(lack, WS_LACK_MAX,
                       "/dev/urandom: cannot be opened: %s; libwebsockets needs it: give the "
                       "chroot or the container its /dev",
                       strerrordesc_np(errno));
        return false;
    }
    close(fd);
    return true;
}

enum err ws_start(struct gate *gate, void (*give_seat)(void *seat), struct ws **ret_ws)
{
    struct ws *ws = ws_new(gate, give_seat);

    if (!ws_library_open(ws)) {
        log_error("ws", "libwebsockets does not start: install its libev plugin "
                        "(package libwebsockets-evlib-ev)");
        ws_library_close(ws);
        free_all(ws);
        return ERR_IO;
    }
    ws_events_open(ws);
    gate_set_front(
        gate, GATE_FRONT_WS,
        (struct gate_front_hooks){
            .figures = add_figures, .metrics = write_metrics, .listing = ask_listing, .ctx = ws});
    thread_start(&ws->thread, "zabra-ws", body, ws);
    *ret_ws = ws;
    return ERR_OK;
}

/* Counts the connection first, because other threads may call at the same time: no more than
 * web_sockets_max connections are taken. */
bool ws_adopt(void *ctx, int fd, size_t head_len, const char *key,
              const struct op_principal *principal, void *take_seat)
{
    struct ws *ws = ctx;
    struct ws_arrival *arrival = NULL;

    if (atomic_load(&ws->draining)) {
        return false;
    }
    if (atomic_fetch_add(&ws->taken, 1) >= ws->limits->web_sockets_max) {
        atomic_fetch_sub(&ws->taken, 1);
        return false;
    }
    arrival = mem_alloc(sizeof(*arrival));
    *arrival = (struct ws_arrival){
        .fd = fd, .head_len = head_len, .principal = principal_copy(principal), .seat = take_seat};
    ASSERT(strlen(key) < sizeof(arrival->key));
    memcpy(arrival->key, key, strlen(key));

    mailbox_must_post(&ws->arrivals.box, &arrival->node);
    return true;
}

void ws_drain(struct ws *ws)
{
    atomic_store(&ws->draining, true);
    ev_async_send(ws->loop, &ws->changed);
    (void)mailbox_wait(&ws->emptied, WS_DRAIN_MS);
}

static void drop_arrivals(struct ws *ws)
{
    struct list arrivals;

    (void)mailbox_drain(&ws->arrivals.box, &arrivals);
    list_for_each_safe (it, tmp, &arrivals) {
        struct ws_arrival *arrival = list_entry(it, struct ws_arrival, node);

        close(arrival->fd);
        ws->give_seat(arrival->seat);
        principal_release(&arrival->principal);
        mem_free(arrival);
    }
}

void ws_stop(struct ws *ws)
{
    if (!ws) {
        return;
    }
    atomic_store(&ws->draining, true);
    atomic_store(&ws->stopping, true);
    ev_async_send(ws->loop, &ws->changed);
    thread_join(&ws->thread);
    gate_set_front(ws->gate, GATE_FRONT_WS, (struct gate_front_hooks){0});
    take_all(ws, &ws->asked); /* Answers requests for listings that have arrived until now. */
    drop_arrivals(ws);
    ws_library_close(ws);
    /* No socket is left, but the gate owns each request until the request is answered. */
    while (ws->inside > 0) {
        (void)mailbox_wait(&ws->replies.box, -1);
        take_all(ws, &ws->replies);
    }
    ws_events_close(ws);
    free_all(ws);
}
