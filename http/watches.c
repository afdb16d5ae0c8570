/* The list of watches: asked of the threads that own them, while the connection is suspended. */
#include "base/mem.h"
#include "http/http_int.h"
#include "server/process/census.h"

struct http_watches {
    struct census census;
    struct http_conn *conn;
};

/* The thread that was asked last. */
static void on_done(struct census *census)
{
    struct http_conn *conn = census->ctx;

    http_resume(conn->http, conn->mhd);
}

enum MHD_Result http_watches_begin(struct http_conn *conn)
{
    struct http_watches *watches = mem_zalloc(1, sizeof(*watches));

    census_init(&watches->census, conn->http->gate, &conn->request.args, &conn->principal);
    watches->census.on_done = on_done;
    watches->census.ctx = conn;
    conn->request.watches = watches;
    http_suspend(conn);
    census_pass(&watches->census);
    return MHD_YES;
}

enum MHD_Result http_watches_over(struct http_conn *conn)
{
    struct jsonw json;

    buf_clear(&conn->out.own);
    jsonw_init(&json, &conn->out.own);
    census_write(&conn->request.watches->census, &json);
    return http_send_info(conn);
}

void http_watches_free(struct http_watches *watches)
{
    if (watches) {
        census_release(&watches->census);
        mem_free(watches);
    }
}
