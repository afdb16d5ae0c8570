/*
 * Backups of this replica, for the super user. A thread of the server (server/process/backups.h)
 * reads the disk; the library pulls the bytes, and the connection is suspended while there are
 * none. The status is sent with the first bytes, so a refusal is an ordinary problem. A failure
 * after that breaks the connection off: the client sees that the last part is missing.
 */
#include "http/http_int.h"
#include "server/process/backups.h"

enum {
    AGE_LEN = 24,
    RESPONSE_BLOCK = 32 << 10,
    /* The library fills a socket until the kernel takes no more, and its thread serves no other
     * connection meanwhile. */
    UNSENT_BYTES = 64 << 10
};

struct http_backup {
    struct http *http;
    struct http_conn *conn; /* Valid while the request or its response is alive. */
    struct backups_run *run;
    bool is_sending; /* The response owns the backup. */
    bool has_waited; /* For bytes: the time that the client may take is counted from now. */
    bool is_whole;
    uint64_t address_key;
    uint64_t start_ms;
    uint64_t sent;
};

/* Called on the thread of the backups. */
static void wake(void *ctx)
{
    struct http_backup *backup = ctx;

    http_resume(backup->http, backup->conn->mhd);
}

static void end(struct http_backup *backup)
{
    struct http_transfers *transfers = &backup->http->transfers;

    if (backup->run) {
        backups_leave(backup->run);
    }
    metric_add(&transfers->backups_failed, backup->is_whole ? 0 : 1);
    atomic_fetch_sub_explicit(&transfers->backups.value, 1, memory_order_relaxed);
    budget_shares_give(&transfers->places, backup->address_key, 1);
    mem_free(backup);
}

static enum MHD_Result refuse(struct http_conn *conn, enum err err, const char *why)
{
    struct op_problem problem = op_problem_make(OP_KIND_INFO, err);

    if (err == ERR_NO_AUTH && !conn->principal.auth) {
        problem.status = MHD_HTTP_UNAUTHORIZED; /* The credentials may still come. */
    } else if (err == ERR_CORRUPT || err == ERR_IO || err == ERR_NO_FILES) {
        problem.status = MHD_HTTP_SERVICE_UNAVAILABLE; /* Another replica may have the data. */
    }
    problem.detail = why;
    return http_answer_problem(conn, &problem);
}

/* ---- The response. ---- */

/* Tells a client that has asked for a stale backup how old it is. */
static void age_header(struct http_conn *conn, struct MHD_Response *response)
{
    const char *why = NULL;
    char text[AGE_LEN];

    if (gate_check_local(conn->http->gate, &why) != ERR_OK) {
        (void)snprintf(text, sizeof text, "%llu",
                       (unsigned long long)(http_status(conn)->lag_ms / 1000));
        http_header(response, "Age", text);
    }
}

/* The client must read again within slowTimeout, and the whole may last slowTimeout plus the time
 * for the bytes so far at HTTP_BYTES_PER_MS. */
static bool set_deadline(struct http_backup *backup)
{
    uint64_t slow_ms = backup->http->limits->slow_timeout_ms;
    uint64_t end_ms = backup->start_ms + slow_ms + backup->sent / HTTP_BYTES_PER_MS;
    uint64_t now_ms = os_now_ms();
    uint64_t left_ms = min_u64(end_ms > now_ms ? end_ms - now_ms : 0, slow_ms);

    return left_ms > 0 && http_conn_enter(backup->conn, HTTP_SENDING, left_ms);
}

/* Suspends the connection until there are bytes. It is suspended first, because they may come at
 * once. Meanwhile the client has no deadline: it is this replica that is slow. False: the
 * connection has expired. */
static bool park(struct http_backup *backup)
{
    if (!http_conn_enter(backup->conn, HTTP_BUSY, 0)) {
        return false;
    }
    backup->has_waited = true;
    http_suspend(backup->conn);
    if (backups_look(backup->run) != BACKUPS_WAIT) {
        http_resume(backup->http, backup->conn->mhd);
    }
    return true;
}

static ssize_t on_read(void *cls, uint64_t pos UNUSED, char *to, size_t max)
{
    struct http_backup *backup = cls;
    size_t len = 0;

    if (backup->has_waited) {
        backup->start_ms = os_now_ms() - backup->sent / HTTP_BYTES_PER_MS;
        backup->has_waited = false;
    }
    switch (backups_take(backup->run, to, max, &len)) {
    case BACKUPS_BYTES:
        backup->sent += len;
        return set_deadline(backup) ? (ssize_t)len : MHD_CONTENT_READER_END_WITH_ERROR;
    case BACKUPS_WAIT:
        return park(backup) ? 0 : MHD_CONTENT_READER_END_WITH_ERROR;
    case BACKUPS_END:
        backup->is_whole = true;
        return MHD_CONTENT_READER_END_OF_STREAM;
    case BACKUPS_FAILED:
        break;
    }
    return MHD_CONTENT_READER_END_WITH_ERROR;
}

static void on_free(void *cls)
{
    end(cls);
}

static enum MHD_Result send_bytes(struct http_conn *conn, struct http_backup *backup)
{
    const struct backup_head *head = backups_head(backup->run);
    struct MHD_Response *response =
        http_response_pulled(MHD_SIZE_UNKNOWN, RESPONSE_BLOCK, on_read, backup, on_free);

    age_header(conn, response);
    backup->is_sending = true;
    backup->start_ms = os_now_ms();
    conn->request.task.data = NULL;
    conn->request.answer.zxid = head->end;
    conn->request.answer.is_endless = true;
    conn->request.answer.is_untimed = true;
    conn->request.answer.close = true;
    loop_pace(conn->fd, UINT32_MAX, UNSENT_BYTES);
    return http_send_lines(conn, response, "application/octet-stream");
}

/* ---- The request. ---- */

static enum MHD_Result resume(struct http_conn *conn)
{
    struct http_backup *backup = conn->request.task.data;
    const char *why = NULL;

    if (backups_look(backup->run) == BACKUPS_FAILED) {
        enum err err = backups_error(backup->run, &why);

        return refuse(conn, err, why);
    }
    return send_bytes(conn, backup);
}

static void release(struct http_conn *conn)
{
    struct http_backup *backup = conn->request.task.data;

    if (backup && !backup->is_sending) {
        end(backup);
    }
}

static const struct http_task_ops backup_task = {.resume = resume, .release = release};

/* Whether this replica may send what it has. One that is cut off lacks what the others have written
 * since, so its backup would be out of date: the client has to ask for that. */
static bool check_fresh(struct http_conn *conn)
{
    const char *why = NULL;
    enum err err = gate_check_local(conn->http->gate, &why);

    if (err != ERR_OK && !conn->request.args.stale) {
        http_refuse(conn, err,
                    "%s: its backup would lack what the others have written since; use another "
                    "replica or, if there is no quorum, ask with stale=true (zabra backup --stale)",
                    why ? why : err_text(err));
    }
    return !conn->request.refused;
}

static bool take_slot(struct http_conn *conn)
{
    return budget_shares_try_take(&conn->http->transfers.places, conn->client_key, 1);
}

static struct http_backup *backup_new(struct http_conn *conn)
{
    struct http_backup *backup = mem_zalloc(1, sizeof(*backup));
    struct http_transfers *transfers = &conn->http->transfers;

    backup->http = conn->http;
    backup->conn = conn;
    backup->address_key = conn->client_key;
    metric_add(&transfers->backups, 1);
    metric_add(&transfers->backups_ever, 1);
    return backup;
}

enum MHD_Result http_backup_begin(struct http_conn *conn)
{
    const struct auth *auth = conn->principal.auth;
    const struct op_args *args = &conn->request.args;
    const struct backup_ask ask = {
        .increment = args->has_since, .since = args->since, .history = args->since_history};

    if (!auth || !auth->super) {
        return refuse(conn, ERR_NO_AUTH, "only the super user may take a backup");
    }
    if (!check_fresh(conn)) {
        return http_answer_fault(conn);
    }
    if (conn->request.is_head) {
        struct MHD_Response *response = http_response_empty();

        age_header(conn, response);
        return http_send_lines(conn, response, "application/octet-stream");
    }
    if (!take_slot(conn)) {
        return refuse(
            conn, ERR_THROTTLED,
            "the limit of transfers (maxTransfers), of this replica or of your address, is "
            "reached: try again later, or use another replica");
    }
    struct http_backup *backup = backup_new(conn);

    conn->request.task = (struct http_task){&backup_task, backup};
    enum err err = backups_begin(gate_backups(conn->http->gate), &ask, wake, backup, &backup->run);

    if (err != ERR_OK) {
        return refuse(conn, err,
                      err == ERR_THROTTLED
                          ? "another backup of this replica is under way: wait for "
                            "its end, or use another replica"
                          : NULL);
    }
    http_suspend(conn);
    if (backups_look(backup->run) != BACKUPS_WAIT) {
        http_resume(conn->http, conn->mhd);
    }
    return MHD_YES;
}
