/* The list of watches: collected by the threads that own them, while the connection is suspended.
 * */
#include "base/mem.h"
#include "http/http_int.h"
#include "server/process/watch_listing.h"

/* Runs on the last of these threads. */
static void on_done(struct watch_listing *listing)
{
    struct http_conn *conn = listing->ctx;

    http_resume(conn->http, conn->mhd);
}

static enum MHD_Result resume(struct http_conn *conn)
{
    struct jsonw json;

    buf_clear(&conn->out.own);
    jsonw_init(&json, &conn->out.own);
    watch_listing_write(conn->request.task.data, &json);
    return http_send_info(conn);
}

static void release(struct http_conn *conn)
{
    watch_listing_release(conn->request.task.data);
    mem_free(conn->request.task.data);
}

static const struct http_task_ops watches_task = {.resume = resume, .release = release};

enum MHD_Result http_watches_begin(struct http_conn *conn)
{
    struct watch_listing *listing = mem_zalloc(1, sizeof(*listing));

    watch_listing_init(listing, conn->http->gate, &conn->request.args, &conn->principal);
    listing->on_done = on_done;
    listing->ctx = conn;
    conn->request.task = (struct http_task){&watches_task, listing};
    http_suspend(conn);
    watch_listing_pass(listing);
    return MHD_YES;
}
