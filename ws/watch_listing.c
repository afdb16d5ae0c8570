/* The watch listing of sockets, for requests over HTTP. */
#include "base/check.h"
#include "ws/ws_int.h"

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
    const struct ws_socket *socket = NULL;

    watch_listing_begin(listing);
    if (listing->path.len > 0 && !listing->clients) {
        add_place(ws, listing);
    } else if (listing->session != 0) {
        socket = map_get_u64(&ws->attached, listing->session);
        if (socket) {
            struct watch_listing_client client = client_of(socket);

            (void)watch_listing_add_client(listing, &client);
        }
    } else {
        add_all(ws, listing);
    }
}

void ws_listing_answer(struct ws *ws)
{
    struct list asked;

    (void)mailbox_drain(&ws->asked, &asked);
    list_for_each_safe (it, tmp, &asked) {
        struct watch_listing *listing = list_entry(it, struct watch_listing, node);

        list_remove(&listing->node);
        add(ws, listing);
        watch_listing_pass(listing);
    }
}
