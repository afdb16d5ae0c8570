/* What the thread of the sockets reports: counters for /metrics, and the watch listing. */
#include "ws/ws_int.h"

#include <stdio.h>

/* ---- Metrics ---- */

/* The codes that the server closes sockets with; 0: closed by its client, or a broken connection.
 */
static const enum ws_code codes[] = {
    WS_CODE_NONE,   WS_CODE_GOING_AWAY, WS_CODE_NOT_TEXT,      WS_CODE_NOT_UTF8,
    WS_CODE_POLICY, WS_CODE_TOO_LARGE,  WS_CODE_SESSION_ENDED, WS_CODE_SESSION_MOVED,
    WS_CODE_UNFIT,  WS_CODE_SLOW,       WS_CODE_NO_ROOM,       WS_CODE_PROTOCOL,
};

enum {
    CODES = sizeof(codes) / sizeof(codes[0])
};

_Static_assert((int)CODES == (int)WS_CODES, "a counter for each code");

void ws_metrics_closed(struct ws *ws, enum ws_code code)
{
    for (size_t i = 0; i < CODES; i++) {
        if (codes[i] == code) {
            metric_add(&ws->metrics.closes[i], 1);
        }
    }
}

void ws_metrics_write(void *ctx, struct buf *out)
{
    struct ws *ws = ctx;
    const struct ws_metrics *metrics = &ws->metrics;
    char label[sizeof("code=\"client\"") + 8];

    WS_METRICS(METRIC_PUT)
    metric_head(out, "zabra_ws_closed_total", "counter",
                "WebSocket connections closed, by the close code of the server.");
    for (size_t i = 0; i < CODES; i++) {
        if (codes[i] == WS_CODE_NONE) {
            (void)snprintf(label, sizeof(label), "code=\"client\"");
        } else {
            (void)snprintf(label, sizeof(label), "code=\"%d\"", (int)codes[i]);
        }
        metric_put(out, "zabra_ws_closed_total", label, metric_get(&metrics->closes[i]));
    }
}

void ws_metrics_add(void *ctx, struct gate_front_figures *figures)
{
    const struct ws *ws = ctx;

    figures->sockets += metric_get(&ws->metrics.sockets);
    figures->watches += metric_get(&ws->metrics.watches);
    figures->events += metric_get(&ws->metrics.events);
}

/* ---- The watch listing ---- */

/* Bounded by the HTTP connections, each of which waits for its answer. */
void ws_listing_ask(void *ctx, struct watch_listing *listing)
{
    struct ws *ws = ctx;
    enum err err = mailbox_post_always(&ws->asked, &listing->node);

    ASSERT(err == ERR_OK);
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

static void add(struct ws *ws, struct watch_listing *listing)
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

void ws_listing_answer(struct ws *ws)
{
    struct list asked;

    (void)mailbox_drain(&ws->asked, &asked);
    while (!list_empty(&asked)) {
        struct watch_listing *listing = list_take(&asked, struct watch_listing, node);

        add(ws, listing);
        watch_listing_pass(listing);
    }
}
