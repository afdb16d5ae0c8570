/*
 * The operation `reload` of the super user. The threads of the reloads (server/process/reload.h)
 * do the work, while the connection is suspended.
 */
#include "server/process/reload.h"

#include "http/http_int.h"

/* Called on the thread that takes the requests. */
static void on_done(struct reload *reload)
{
    struct http_conn *conn = reload->ctx;

    if (reload->err == ERR_CLOSED) { /* http_stop waits for this answer. */
        atomic_fetch_add(&conn->http->ending, 1);
    }
    http_resume(conn->http, conn->mhd);
}

/* Answers with a problem: `why`, or the text of `err`. */
static enum MHD_Result refuse(struct http_conn *conn, enum err err, const char *why)
{
    struct op_problem problem = op_problem_make(OP_KIND_INFO, err);

    if (err == ERR_CONFIG) {
        problem.status = MHD_HTTP_CONFLICT; /* The files are to blame, not this replica. */
    } else if (err == ERR_NO_AUTH && !conn->principal.auth) {
        /* A client without credentials may still send those of the super user. */
        problem.status = MHD_HTTP_UNAUTHORIZED;
    }
    problem.detail = why;
    return http_answer_problem(conn, &problem);
}

static enum MHD_Result resume(struct http_conn *conn)
{
    const struct reload *reload = conn->request.task.data;
    struct jsonw json;

    if (reload->err) {
        return refuse(conn, reload->err, reload->failure[0] ? reload->failure : NULL);
    }
    buf_clear(&conn->out.own);
    jsonw_init(&json, &conn->out.own);
    reload_write(reload, &json);
    return http_send_out(conn, conn->request.def->status, "application/json");
}

static void release(struct http_conn *conn)
{
    const struct reload *reload = conn->request.task.data;

    if (reload->err == ERR_CLOSED) {
        atomic_fetch_sub(&conn->http->ending, 1);
    }
    mem_free(conn->request.task.data);
}

static const struct http_task_ops reload_task = {.resume = resume, .release = release};

/* The connection is suspended first, because the result may come before reloads_ask returns. */
enum MHD_Result http_reload_begin(struct http_conn *conn)
{
    const struct auth *auth = conn->principal.auth;
    struct reload *reload = NULL;

    if (!auth || !auth->super) {
        return refuse(conn, ERR_NO_AUTH, "only the super user may have files read again");
    }
    reload = mem_zalloc(1, sizeof(*reload));
    reload->on_done = on_done;
    reload->ctx = conn;
    (void)snprintf(reload->by, sizeof(reload->by), "op=reload of %s", conn->principal.address);
    conn->request.task = (struct http_task){&reload_task, reload};
    http_suspend(conn);

    enum err err = reloads_ask(gate_reloads(conn->http->gate), reload);

    if (err != ERR_OK) {
        reload->err = err;
        on_done(reload);
    }
    return MHD_YES;
}
