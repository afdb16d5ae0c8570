/* The watch listing of sockets, for requests over HTTP. */
#include "base/check.h"
#include "ws/ws_int.h"

/* Bounded by the HTTP connections, each of which waits for its answer. */
void ws_census_ask(void *ctx, struct census *census)
{
    struct ws *ws = ctx;
    enum err err = mailbox_post_always(&ws->asked, &census->node);

    ASSERT(err == ERR_OK);
}

static struct census_client client_of(const struct ws_socket *socket)
{
    return (struct census_client){
        .owner = &socket->owner, .session = socket->session.attached.id, .over = "websocket"};
}

static void add_place(const struct ws *ws, struct census *census)
{
    const struct watch_table *table = subscribe_table(ws->subscriber);
    const struct watch *watch = watch_at(table, census->path, NULL);
    bool more = true;

    while (watch && more) {
        struct census_client client = client_of(list_entry(watch->owner, struct ws_socket, owner));

        more = census_add_watch(census, &client, watch);
        watch = watch_at(table, census->path, watch);
    }
}

static void add_all(struct ws *ws, struct census *census)
{
    bool more = true;

    for (struct list *it = ws->sockets.next; it != &ws->sockets && more; it = it->next) {
        struct census_client client = client_of(list_entry(it, struct ws_socket, node));

        more = census_add_client(census, &client);
    }
}

static void add(struct ws *ws, struct census *census)
{
    const struct ws_socket *socket = NULL;

    census_begin(census);
    if (census->path.len > 0 && !census->clients) {
        add_place(ws, census);
    } else if (census->session != 0) {
        socket = map_get_u64(&ws->attached, census->session);
        if (socket) {
            struct census_client client = client_of(socket);

            (void)census_add_client(census, &client);
        }
    } else {
        add_all(ws, census);
    }
}

void ws_census_answer(struct ws *ws)
{
    struct list asked;

    (void)mailbox_drain(&ws->asked, &asked);
    list_for_each_safe (it, tmp, &asked) {
        struct census *census = list_entry(it, struct census, node);

        list_remove(&census->node);
        add(ws, census);
        census_pass(census);
    }
}
