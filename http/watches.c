/* The list of watches: asked of the threads that own them, while the connection is suspended. */
#include "base/mem.h"
#include "http/http_int.h"
#include "server/process/census.h"

/* The thread that was asked last. */
static void on_done(struct census *census)
{
    struct http_conn *conn = census->ctx;

    http_resume(conn->http, conn->mhd);
}

static enum MHD_Result resume(struct http_conn *conn)
{
    struct jsonw json;

    buf_clear(&conn->out.own);
    jsonw_init(&json, &conn->out.own);
    census_write(conn->request.task.data, &json);
    return http_send_info(conn);
}

static void release(struct http_conn *conn)
{
    census_release(conn->request.task.data);
    mem_free(conn->request.task.data);
}

static const struct http_task_ops watches_task = {.resume = resume, .release = release};

enum MHD_Result http_watches_begin(struct http_conn *conn)
{
    struct census *census = mem_zalloc(1, sizeof(*census));

    census_init(census, conn->http->gate, &conn->request.args, &conn->principal);
    census->on_done = on_done;
    census->ctx = conn;
    conn->request.task = (struct http_task){&watches_task, census};
    http_suspend(conn);
    census_pass(census);
    return MHD_YES;
}
