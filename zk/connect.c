/*
 * From the first frame of a connection to its session. A new session is opened and attached to the
 * connection by one transaction; a session that the client names is attached. The password of the
 * protocol is the 16 bytes of the session's secret, which is a UUID: so the same session can be
 * used over HTTP.
 *
 * A wrong password changes nothing: there is no session with this secret, and the owner of the
 * session that the client named keeps it.
 */
#include "zk/zk_int.h"

#include "base/crypto.h"

static const uint8_t no_password[ZK_PASSWD_BYTES];

void zk_connect_release(struct zk_conn *conn)
{
    if (conn->opening) {
        explicit_bzero(conn->opening, sizeof(*conn->opening));
        mem_free(conn->opening);
        conn->opening = NULL;
    }
}

/* ---- Passwords ---- */

static bool is_hyphen(size_t at)
{
    return at == 8 || at == 13 || at == 18 || at == 23;
}

/* The secret as text (op_secret_make) from its bytes, and back. */
static void text_of(const uint8_t bytes[ZK_PASSWD_BYTES], char text[OP_SECRET_LEN + 1])
{
    static const char digits[] = "0123456789abcdef";
    size_t nibble = 0;

    for (size_t i = 0; i < OP_SECRET_LEN; i++) {
        if (is_hyphen(i)) {
            text[i] = '-';
        } else {
            text[i] = digits[(bytes[nibble / 2] >> (nibble % 2 == 0 ? 4 : 0)) & 0xf];
            nibble++;
        }
    }
    text[OP_SECRET_LEN] = '\0';
}

static void bytes_of(const char text[OP_SECRET_LEN + 1], uint8_t bytes[ZK_PASSWD_BYTES])
{
    size_t nibble = 0;

    memset(bytes, 0, ZK_PASSWD_BYTES);
    for (size_t i = 0; i < OP_SECRET_LEN; i++) {
        if (!is_hyphen(i)) {
            int digit = hex_digit((uint8_t)text[i]);

            ASSERT(digit >= 0); /* The text is a UUID. */
            bytes[nibble / 2] |= (uint8_t)((uint32_t)digit << (nibble % 2 == 0 ? 4 : 0));
            nibble++;
        }
    }
}

/* ---- Answers ---- */

static struct zk_connect echo_of(const struct zk_opening *opening)
{
    return (struct zk_connect){.has_read_only = opening->tells_read_only};
}

/* Tells the client that its session has ended. Nothing else in the protocol does. */
static void refuse(struct zk_conn *conn)
{
    const struct zk_connect echo = echo_of(conn->opening);

    zk_encode_connect(zk_out_begin(conn), &echo, 0, 0, no_password);
    metric_add(&conn->zk->metrics.refused, 1);
    zk_connect_release(conn);
    zk_close_lost(conn, "session_refused");
}

static void welcome(struct zk_conn *conn)
{
    struct zk *zk = conn->zk;
    struct zk_opening *opening = conn->opening;
    const struct zk_connect echo = echo_of(opening);

    metric_add(opening->id == 0 ? &zk->metrics.sessions : &zk->metrics.takeovers, 1);
    zk_encode_connect(zk_out_begin(conn), &echo, conn->session.timeout_ms, conn->session.id,
                      opening->password);
    zk_order_saw(conn, conn->session.number);
    conn->state = ZK_OPEN;
    conn->heard_ms = os_now_ms();
    zk_connect_release(conn);
    zk_turn_stop(conn, ZK_STOP_OPENING, false);
}

/* ---- The gate ---- */

/* Whether this replica has reached the state that the client has seen. A client that has seen a
 * newer one waits for a moment, and then tries another replica. */
static bool has_caught_up(struct zk_conn *conn)
{
    struct zk *zk = conn->zk;
    const struct zk_opening *opening = conn->opening;

    list_remove(&conn->waiting);
    zk_order_pump(zk, opening->last_zxid);
    if (subscribe_at(zk->subscriber) >= opening->last_zxid) {
        return true;
    }
    if (os_now_ms() >= opening->since_ms + ZK_AHEAD_MS) {
        zk_close_lost(conn, "replica_behind");
    } else {
        list_push_back(&zk->waiting, &conn->waiting);
    }
    return false;
}

/* Whether this replica knows that the session with this secret is another than the client says. */
static bool is_another(const struct zk_conn *conn)
{
    struct op_session session = {.shown = true};
    struct op_session_info info;

    memcpy(session.hash, conn->session.hash, sizeof(session.hash));
    return view_find_session(gate_view(conn->zk->gate), &session, &info) == ERR_OK &&
           info.id != conn->opening->id;
}

static void prepare(struct zk_conn *conn, enum op_id op)
{
    struct zk_opening *opening = conn->opening;
    struct op_request *request = zk_call_request(opening->call, op);

    request->args.timeout_ms = op == OP_ATTACH ? 0 : opening->timeout_ms;
    request->args.secret = slice_make(opening->secret, OP_SECRET_LEN);
    op_args_hash_secret(&request->args, opening->call->hash);
    request->args.secret = slice_make(NULL, 0); /* The request may outlive the connection. */
    memcpy(conn->session.hash, opening->call->hash, ZK_HASH_LEN);
    zk_call_identify(opening->call);
}

/* Begins the first request of the session. False: the connection ends. */
static bool begin(struct zk_conn *conn)
{
    struct zk_opening *opening = conn->opening;
    struct gate_status status;
    const char *why = NULL;

    /* Without a leader the request would wait, and take the session from the connection that the
     * client has meanwhile at another replica. */
    gate_status(conn->zk->gate, &status);
    if (!status.in_step || conn->zk->limits->read_only ||
        gate_check_local(conn->zk->gate, &why) != ERR_OK) {
        zk_close_lost(conn, "not_ready");
        return false;
    }
    opening->call = zk_call_new(conn, slice_make(NULL, 0));
    prepare(conn, opening->id == 0 ? OP_OPEN : OP_ATTACH);
    if (opening->id != 0 && is_another(conn)) {
        gate_credentials_failed(conn->zk->gate, &conn->principal, GATE_FAILED_SESSION);
        refuse(conn);
        return false;
    }
    return true;
}

static void fail(struct zk_conn *conn, enum err err)
{
    bool gone = err == ERR_SESSION_EXPIRED || err == ERR_UNKNOWN_SESSION;

    if (gone && conn->opening->id != 0) {
        gate_credentials_failed(conn->zk->gate, &conn->principal, GATE_FAILED_SESSION);
        refuse(conn);
    } else if (err == ERR_OUTCOME_UNKNOWN) {
        zk_close_lost(conn, "outcome_unknown");
    } else {
        zk_close_lost(conn,
                      err == ERR_THROTTLED || err == ERR_QUOTA_EXCEEDED ? "no_room" : "not_ready");
    }
}

/* Returns the operation that must follow the one that has come back, or 0. A leader of release 1.0
 * does not know OP_OPEN: it opens the session and then attaches it, by two transactions. */
static enum op_id next_op(const struct zk_call *call)
{
    enum err err = call->request->result.err;
    enum op_id op = call->request->def->id;

    if (op == OP_OPEN && err == ERR_UNIMPLEMENTED) {
        return OP_SESSION;
    }
    return op == OP_SESSION && err == ERR_OK ? OP_ATTACH : 0;
}

/* Takes the requests of the session through the gate. True when the session is attached. */
static bool advance(struct zk_conn *conn)
{
    struct zk_call *call = conn->opening->call;

    if (call->step == ZK_BACK && next_op(call) != 0) {
        prepare(conn, next_op(call));
    }
    if (call->step == ZK_NEW && !zk_call_submit(call)) {
        return false;
    }
    if (call->step != ZK_BACK) {
        return false;
    }
    if (call->request->result.err != ERR_OK) {
        fail(conn, call->request->result.err);
        return false;
    }
    return true;
}

/* The client's reads must find its session, so the answer waits until the attachment is applied. */
void zk_connect_run(struct zk_conn *conn)
{
    struct zk_opening *opening = conn->opening;

    if (!opening->call && (!has_caught_up(conn) || !begin(conn))) {
        return;
    }
    if (!opening->settled) {
        if (!advance(conn)) {
            return;
        }
        const struct op_session_info *info = &opening->call->request->result.session;

        if (opening->id != 0 && info->id != opening->id) {
            refuse(conn);
            return;
        }
        opening->settled = true;
        zk_session_attach(conn, info);
    }
    if (!zk_order_allows(opening->call, opening->call->request->result.zxid)) {
        return;
    }
    zk_session_look(conn); /* It may have moved or ended since the gate answered. */
    if (!conn->lost) {
        zk_call_done(opening->call);
        opening->call = NULL;
        welcome(conn);
    }
}

void zk_connect_begin(struct zk_conn *conn, struct slice frame)
{
    struct zk_opening *opening = NULL;
    struct zk_connect hello;

    if (!zk_decode_connect(frame, &hello)) {
        zk_close_lost(conn, "bad_frame");
        return;
    }
    opening = mem_zalloc(1, sizeof(*opening));
    conn->opening = opening;
    conn->state = ZK_OPENING;
    conn->deadline_ms = 0;
    opening->last_zxid = (int64_t)hello.last_zxid > 0 ? hello.last_zxid : 0;
    opening->id = hello.session;
    opening->timeout_ms = hello.timeout_ms > 0 ? (uint32_t)hello.timeout_ms : 1;
    opening->tells_read_only = hello.has_read_only;
    opening->since_ms = os_now_ms();
    zk_turn_stop(conn, ZK_STOP_OPENING, true);
    if (hello.session == 0) {
        op_secret_make(opening->secret);
        bytes_of(opening->secret, opening->password);
    } else if (hello.passwd.len == ZK_PASSWD_BYTES) {
        memcpy(opening->password, hello.passwd.data, ZK_PASSWD_BYTES);
        text_of(opening->password, opening->secret);
    } else {
        refuse(conn);
        return;
    }
    zk_connect_run(conn);
}
