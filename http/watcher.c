/* The watcher's thread: calls, changes, timers, start and stop. */
#include "http/watcher.h"

#include "base/os_files.h"

#include <unistd.h>

enum {
    CHECK_MS = 250,  /* Between two checks whether this replica may still answer. */
    ASK_MS_MIN = 10, /* Between two walks over all clients. */
    FOREVER_MS = 1000
};

/* ---- Any thread ---- */

static void give_slot(struct http_watcher *watcher)
{
    uint32_t before = atomic_fetch_sub(&watcher->slots, 1);

    ASSERT(before > 0);
}

bool watcher_take_slot(struct http_conn *conn)
{
    struct http_watcher *watcher = conn->http->watcher;

    if (atomic_fetch_add(&watcher->slots, 1) < conn->http->limits->streams_max) {
        return true;
    }
    give_slot(watcher);
    http_refuse(conn, ERR_THROTTLED,
                "the limit of streams and waiting requests (maxStreams) is reached");
    return false;
}

void watcher_client_init(struct watcher_client *client, const struct watcher_ops *ops,
                         struct http_conn *conn)
{
    client->ops = ops;
    client->watcher = conn->http->watcher;
    client->session = conn->request.auth.session_id;
    client->principal = principal_copy(&conn->principal);
    watch_owner_init(&client->owner, &client->principal, 1, SIZE_MAX);
    list_init(&client->call);
    list_init(&client->node);
    list_init(&client->listening);
    list_init(&client->due);
    client->fd = conn->fd;
    client->hangup.fd = -1;
}

void watcher_client_release(struct watcher_client *client)
{
    ASSERT(list_empty(&client->node) && client->hangup.fd < 0);

    principal_release(&client->principal);
    give_slot(client->watcher);
}

void watcher_call(struct watcher_client *client, enum watcher_call call)
{
    struct http_watcher *watcher = client->watcher;

    if (atomic_fetch_or(&client->calls, (uint32_t)call) == 0) {
        mailbox_must_post(&watcher->inbox, &client->call);
    }
}

static void wake(struct http_watcher *watcher)
{
    if (!atomic_exchange(&watcher->woken, true)) {
        loop_wake(watcher->wake.fd);
    }
}

/* Wakes the watcher after a change; called on the core's thread. Without clients there is nothing
 * to do: a watch that is added later reads the window itself. */
static void on_news(void *ctx)
{
    struct http_watcher *watcher = ctx;

    if (atomic_load(&watcher->slots) > 0) {
        wake(watcher);
    }
}

/* ---- Clients ---- */

static void on_hangup(struct loop_watch *watch, uint32_t ready UNUSED)
{
    struct watcher_client *client = watch->ctx;

    /* Otherwise the loop would report the hangup until the descriptor is closed. */
    loop_remove(&client->watcher->loop, &client->hangup);
    client->watched = false;
    client->ops->on_hangup(client);
}

/* Returns a duplicate of the descriptor, which counts in the limit of all clients. -1: the limit is
 * reached, no descriptor is left, or storage needs one. */
static int copy_of(struct http_watcher *watcher, int fd)
{
    struct budget *files = &watcher->http->caps.files;

    if (!budget_try_take(files, 1)) {
        return -1;
    }

    int copy = loop_dup(fd);

    if (copy >= 0 && !os_files_are_claimed()) {
        return copy;
    }
    if (copy >= 0) {
        close(copy);
    }
    budget_give(files, 1);
    return -1;
}

bool watcher_add(struct watcher_client *client)
{
    struct http_watcher *watcher = client->watcher;
    int copy = copy_of(watcher, client->fd);

    ASSERT(list_empty(&client->node));
    if (copy < 0) {
        return false;
    }
    client->hangup = (struct loop_watch){
        .fd = copy, .interest = LOOP_PEER_END, .on_ready = on_hangup, .ctx = client};
    loop_add(&watcher->loop, &client->hangup);
    client->watched = true;
    list_push_back(&watcher->clients, &client->node);
    return true;
}

void watcher_listen(struct watcher_client *client)
{
    list_push_back(&client->watcher->listeners, &client->listening);
}

void watcher_remove(struct watcher_client *client)
{
    struct http_watcher *watcher = client->watcher;

    watch_owner_release(subscribe_table(watcher->subscriber), &client->owner);
    list_remove(&client->node);
    list_remove(&client->listening);
    list_remove(&client->due);
    if (client->watched) {
        loop_remove(&watcher->loop, &client->hangup);
        client->watched = false;
    }
    if (client->hangup.fd >= 0) {
        close(client->hangup.fd);
        client->hangup.fd = -1;
        budget_give(&watcher->http->caps.files, 1);
    }
}

void watcher_due(struct watcher_client *client)
{
    if (list_empty(&client->due)) {
        list_push_back(&client->watcher->due, &client->due);
    }
}

bool watcher_over_budget(struct watcher_client *client)
{
    struct http_watcher *watcher = client->watcher;

    if (os_now_us() - watcher->turn_us < WATCHER_WORK_US) {
        return false;
    }
    list_remove(&client->due);
    list_push_back(&watcher->later, &client->due);
    return true;
}

void watcher_ask_by(struct http_watcher *watcher, uint64_t at_ms)
{
    watcher->next_ms = min_u64(at_ms, watcher->next_ms);
}

/* ---- Callbacks of the subscriber ---- */

static void on_event(void *ctx UNUSED, struct watch_owner *owner, struct watch *hits,
                     const struct watch_event *event)
{
    struct watcher_client *client = list_entry(owner, struct watcher_client, owner);

    if (client->ops->on_event) {
        client->ops->on_event(client, hits, event);
    } else {
        watcher_due(client);
    }
}

static void on_change(void *ctx, zxid_t zxid, const struct state_change *change)
{
    struct http_watcher *watcher = ctx;

    if (change->type != TXN_SET_ACL && change->type != TXN_SESSION_CLOSE) {
        return;
    }
    list_for_each_entry (struct watcher_client, client, listening, &watcher->listeners) {
        client->ops->on_change(client, zxid, change);
    }
}

static void on_lost(void *ctx, zxid_t from)
{
    struct http_watcher *watcher = ctx;

    list_for_each_entry (struct watcher_client, client, node, &watcher->clients) {
        if (client->ops->on_lost) {
            client->ops->on_lost(client, from);
        } else {
            watcher_due(client);
        }
    }
}

/* ---- A turn ---- */

static void serve_due(struct http_watcher *watcher)
{
    list_take_each (struct watcher_client, client, due, &watcher->due) {
        client->ops->on_due(client);
    }
}

static void take_calls(struct http_watcher *watcher)
{
    struct list batch;

    mailbox_drain(&watcher->inbox, &batch);
    /* Each client is removed from `batch` before the exchange, because another thread may post the
     * client again right after the exchange. */
    list_take_each (struct watcher_client, client, call, &batch) {
        client->ops->on_call(client, atomic_exchange(&client->calls, 0));
    }
}

static void pump(struct http_watcher *watcher)
{
    zxid_t before = subscribe_at(watcher->subscriber);

    watcher->more = false;
    if (list_empty(&watcher->clients)) {
        return;
    }
    /* Further events are handled in the next turn, after calls and timers. */
    watcher->more = subscribe_pump(watcher->subscriber, ZXID_MAX, WATCHER_SETS) != before;
}

static void end_all(struct http_watcher *watcher, enum watcher_end end)
{
    list_for_each_entry_safe (struct watcher_client, client, next, node, &watcher->clients) {
        client->ops->on_end(client, end);
    }
}

/* Ends all clients when this replica stops or receives no changes any more: clients must not wait
 * in vain. */
static void check_replica(struct http_watcher *watcher)
{
    const char *why = NULL;

    if (atomic_load(&watcher->drain)) {
        if (!watcher->ended) {
            end_all(watcher, WATCHER_DRAIN);
        }
        watcher->ended = true;
        return;
    }
    if (watcher->now_ms < watcher->check_ms) {
        return;
    }
    watcher->check_ms = watcher->now_ms + CHECK_MS;
    if (gate_check_local(watcher->http->gate, &why) != ERR_OK) {
        end_all(watcher, WATCHER_CUT_OFF);
    }
}

static void ask_all(struct http_watcher *watcher)
{
    uint64_t now_ms = watcher->now_ms;

    if (now_ms < watcher->next_ms) {
        return;
    }
    if (now_ms - watcher->next_ms >= WATCHER_LATE_MS) {
        watcher->stalled_ms = now_ms;
    }
    watcher->next_ms = now_ms + FOREVER_MS;
    list_for_each_entry_safe (struct watcher_client, client, next, node, &watcher->clients) {
        watcher_ask_by(watcher, client->ops->on_time(client, now_ms));
    }
    watcher->next_ms = max_u64(watcher->next_ms, now_ms + ASK_MS_MIN);
}

static int wait_ms(const struct http_watcher *watcher)
{
    uint64_t until_ms =
        watcher->ended ? watcher->next_ms : min_u64(watcher->next_ms, watcher->check_ms);

    if (watcher->more || !list_empty(&watcher->later)) {
        return 0;
    }
    if (list_empty(&watcher->clients)) {
        return -1;
    }
    return until_ms > watcher->now_ms ? (int)(until_ms - watcher->now_ms) : 0;
}

/* ---- The list of watches ---- */

/* The mailbox holds at most one listing per connection, because each request for the list suspends
 * its connection. */
static void ask_listing(void *ctx, struct watch_listing *listing)
{
    struct http_watcher *watcher = ctx;
    mailbox_must_post(&watcher->asked, &listing->node);
}

static bool is_at(const struct watcher_client *client, const struct watch_listing *listing)
{
    const struct list *watches = &client->owner.watches;

    return listing->path.len == 0 ||
           (!list_empty(watches) &&
            slice_eq(watch_path(list_first(watches, struct watch, by_owner)), listing->path));
}

/* Adds the clients and their watches to the list; each client has one watch at most. */
static void add_listing(struct http_watcher *watcher, struct watch_listing *listing)
{
    bool more = true;

    watch_listing_begin(listing);
    for (struct list *it = watcher->clients.next; it != &watcher->clients && more; it = it->next) {
        const struct watcher_client *client = list_entry(it, struct watcher_client, node);
        const struct watch_listing_client row = {.owner = &client->owner,
                                                 .session = client->session,
                                                 .over =
                                                     client->ops->is_stream ? "stream" : "wait"};

        more = !is_at(client, listing) || watch_listing_add_client(listing, &row);
    }
}

static void take_listing(struct http_watcher *watcher)
{
    struct list asked;

    mailbox_drain(&watcher->asked, &asked);
    list_take_each (struct watch_listing, listing, node, &asked) {
        add_listing(watcher, listing);
        watch_listing_pass(listing);
    }
}

static void turn(struct http_watcher *watcher)
{
    loop_run_once(&watcher->loop, wait_ms(watcher));
    watcher->now_ms = os_now_ms();
    watcher->turn_us = os_now_us();
    list_move_all(&watcher->due, &watcher->later); /* Deferred in the last turn. */
    take_calls(watcher);
    take_listing(watcher);
    serve_due(watcher);
    pump(watcher);
    watcher->relieve(watcher);
    serve_due(watcher);
    check_replica(watcher);
    ask_all(watcher);
    serve_due(watcher);
}

static void run(void *arg)
{
    struct http_watcher *watcher = arg;

    while (!atomic_load(&watcher->stop) || mailbox_count(&watcher->inbox) > 0) {
        turn(watcher);
    }
}

/* ---- Start and stop ---- */

/* Each turn drains the mailbox; its descriptor only ends the wait of the loop. */
static void on_inbox(struct loop_watch *watch UNUSED, uint32_t ready UNUSED)
{
}

static void on_wake(struct loop_watch *watch, uint32_t ready UNUSED)
{
    struct http_watcher *watcher = watch->ctx;

    loop_wake_clear(watch->fd);
    /* Later changes wake again; this turn handles the earlier ones. */
    atomic_store(&watcher->woken, false);
}

static void add_figures(void *ctx, struct gate_front_figures *figures)
{
    const struct http_watcher *watcher = ctx;
    uint64_t waiting = metric_get(&watcher->metrics.streams) + metric_get(&watcher->metrics.waits);

    figures->connections += metric_get(&watcher->http->metrics.connections);
    figures->streams += waiting;
    figures->watches += waiting;
    figures->events += metric_get(&watcher->metrics.events);
}

struct http_watcher *http_watcher_start(struct http *http, watcher_relieve_fn *relieve)
{
    struct http_watcher *watcher = mem_zalloc(1, sizeof(*watcher));
    struct loop *loop = &watcher->loop;
    const struct subscribe_sink sink = {
        .ctx = watcher, .on_event = on_event, .on_change = on_change, .on_lost = on_lost};

    loop_init(loop);
    watcher->http = http;
    watcher->relieve = relieve;
    mailbox_init(&watcher->inbox, http->limits->streams_max);
    mailbox_init(&watcher->asked, 1);
    list_init(&watcher->clients);
    list_init(&watcher->listeners);
    list_init(&watcher->due);
    list_init(&watcher->later);
    pieces_init(&watcher->gather, gate_unsent(http->gate));
    buf_init(&watcher->text, SIZE_MAX / 2);
    watcher->subscriber = subscriber_new(gate_view(http->gate), gate_window(http->gate), &sink);
    loop_add_reader(loop, &watcher->inbox_watch, watcher->inbox.event_fd, on_inbox, watcher);
    loop_add_reader(loop, &watcher->asked_watch, watcher->asked.event_fd, on_inbox, watcher);
    loop_add_reader(loop, &watcher->wake, loop_wake_open(), on_wake, watcher);
    watcher->listener = (struct window_listener){.wake = on_news, .ctx = watcher};
    window_listen(gate_window(http->gate), &watcher->listener);
    gate_set_front(
        http->gate, GATE_FRONT_HTTP,
        (struct gate_front_hooks){.figures = add_figures, .listing = ask_listing, .ctx = watcher});
    thread_start(&watcher->thread, "watcher", run, watcher);
    return watcher;
}

void http_watcher_drain(struct http_watcher *watcher)
{
    atomic_store(&watcher->drain, true);
    wake(watcher);
}

void http_watcher_stop(struct http_watcher *watcher)
{
    /* All requests for the list have been answered. */
    gate_set_front(watcher->http->gate, GATE_FRONT_HTTP, (struct gate_front_hooks){0});
    window_unlisten(gate_window(watcher->http->gate), &watcher->listener);
    atomic_store(&watcher->stop, true);
    wake(watcher);
    thread_join(&watcher->thread);
    ASSERT(list_empty(&watcher->clients) && atomic_load(&watcher->slots) == 0);
    subscriber_free(watcher->subscriber);
    for (size_t i = 0; i < WATCHER_FRAMES; i++) {
        blob_unref(watcher->frames.shared[i]);
    }
    pieces_release(&watcher->gather);
    buf_release(&watcher->text);
    close(watcher->wake.fd);
    mailbox_release(&watcher->inbox);
    mailbox_release(&watcher->asked);
    loop_release(&watcher->loop);
    mem_free(watcher);
}
