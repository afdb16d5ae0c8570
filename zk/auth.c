/* Identities: auth, whoAmI, and what belongs to the session of the caller. */
#include "zk/zk_int.h"

enum {
    COUNT_MAX = 1000000 /* Descendants that getAllChildrenNumber counts. */
};

static void refuse(struct zk_call *call)
{
    zk_reply_code(call, ZK_AUTH_FAILED);
    zk_close_lost(call->conn, "auth_failed");
}

/* Whether the identities may be used. False: passwords of this user have failed too often from this
 * address. The connection ends without a reply, so that the client tries again later: clients take
 * a reply with an error as the end of everything. */
static bool may_show(struct zk_call *call, struct auth *auth)
{
    struct op_principal shown = call->conn->principal;
    uint32_t known = shown.auth ? shown.auth->count : 0;

    shown.auth = auth;
    return gate_credentials_wait(call->zk->gate, &shown, known) == 0;
}

bool zk_auth_add(struct zk_call *call)
{
    struct zk_conn *conn = call->conn;
    struct zk *zk = call->zk;
    struct auth *auth = NULL;
    enum err err = ERR_OK;

    if (slice_eq(call->req.scheme, slice_str("ip"))) {
        zk_reply_code(call, ZK_OK); /* The address is an identity already. */
        return true;
    }
    err = auth_add(conn->principal.auth, call->req.scheme, call->req.credential,
                   zk->limits->super_digest, &auth);
    if (err != ERR_OK) {
        if (err == ERR_AUTH_FAILED) {
            gate_credentials_failed(zk->gate, &conn->principal, GATE_FAILED_MALFORMED);
        }
        refuse(call);
    } else if (may_show(call, auth)) {
        auth_unref(conn->principal.auth);
        conn->principal.auth = auth;
        conn->identity_ms = 0;
        zk_reply_code(call, ZK_OK);
    } else {
        auth_unref(auth);
        zk_close_lost(conn, "auth_failed");
    }
    return true;
}

bool zk_auth_show(struct zk_call *call)
{
    struct zk_conn *conn = call->conn;
    struct buf *out = zk_out_begin(conn);
    size_t at = out->len;

    zk_encode_who(out, call->req.xid, conn->seen, &conn->principal);
    if (zk_out_end(conn, at)) {
        zk_reply_count(call, ERR_OK);
    } else {
        zk_close_lost(conn, "reply_too_large");
    }
    return true;
}

/* ---- The ephemerals of the caller's session ---- */

static bool is_wanted(struct slice prefix, struct slice path)
{
    return prefix.len == 0 || slice_starts_with(path, prefix);
}

/* Adds one page to the list. ERR_OK with `*ret_more` false: it was the last. */
static enum err add_page(struct zk_call *call, struct buf *names, struct zk_list *list,
                         struct buf *after, bool *ret_more)
{
    struct op_args args;
    struct op_result result;
    enum err err = ERR_OK;

    op_args_init(&args, OP_EPHEMERALS);
    args.session = call->conn->session.id;
    args.after = buf_slice(after);
    op_result_init(&result);
    view_run(gate_view(call->zk->gate), &call->zk->self, &args, &result);
    err = result.err;
    for (uint32_t i = 0; i < result.entry_count; i++) {
        if (is_wanted(call->req.path, result.entries[i].path)) {
            zk_list_add(names, list, result.entries[i].path);
        }
    }
    if (result.entry_count > 0) {
        buf_clear(after);
        (void)buf_append_slice(after, result.entries[result.entry_count - 1].path);
    }
    *ret_more = result.more && err == ERR_OK;
    call->upto = max_u64(result.zxid, call->upto);
    op_result_release(&result);
    return err;
}

/* Replies with the names. False when events must leave first: then the call runs again. */
static bool tell(struct zk_call *call, const struct buf *names, uint32_t count)
{
    struct zk_conn *conn = call->conn;
    struct buf *out = NULL;
    struct zk_list list;
    size_t at = 0;

    if (!zk_order_allows(call, call->upto)) {
        return false;
    }
    zk_order_saw(conn, call->upto);
    out = zk_out_begin(conn);
    at = out->len;
    zk_list_begin(out, call->req.xid, conn->seen, &list);
    (void)buf_append_slice(out, buf_slice(names));
    list.count = count;
    zk_list_end(out, &list, NULL);
    if (zk_out_end(conn, at) && !names->overflow) {
        zk_reply_count(call, ERR_OK);
    } else {
        out->len = at;
        zk_close_lost(conn, "reply_too_large");
    }
    return true;
}

bool zk_auth_ephemerals(struct zk_call *call)
{
    struct zk_list list = {.count = 0};
    struct buf names;
    struct buf after;
    enum err err = ERR_OK;
    bool more = true;
    bool done = true;

    if (!zk_read_may(call)) {
        return true;
    }
    buf_init(&names, ZK_REPLY_MAX);
    buf_init(&after, STATE_PATH_MAX);
    while (more && err == ERR_OK && !names.overflow) {
        err = add_page(call, &names, &list, &after, &more);
    }
    if (err == ERR_OK) {
        done = tell(call, &names, list.count);
    } else {
        zk_close_lost(call->conn, "not_ready");
    }
    buf_release(&after);
    buf_release(&names);
    return done;
}

/* ---- getAllChildrenNumber ---- */

/* Replies with an error, or ends the connection. */
static void fail_count(struct zk_call *call, enum err err)
{
    if (zk_error_code(err) == ZK_CLOSE) {
        zk_close_lost(call->conn, zk_error_reason(err));
    } else {
        zk_reply_code(call, zk_error_code(err));
    }
}

/* Whether the caller may ask. False: it has its reply, or the connection has ended. */
static bool may_count(struct zk_call *call)
{
    struct op_args args;
    struct op_result result;
    enum err err = ERR_OK;

    op_args_init(&args, OP_STAT);
    args.path = call->req.path;
    op_result_init(&result);
    view_run(gate_view(call->zk->gate), &call->conn->principal, &args, &result);
    err = result.err;
    op_result_release(&result);
    if (err != ERR_OK) {
        fail_count(call, err);
    }
    return err == ERR_OK;
}

/* Counts some more znodes; `*ret_more`: there are others. The walk is a search that finds
 * nothing, because no name contains a slash; it continues after call->acls. */
static enum err count_some(struct zk_call *call, bool *ret_more)
{
    struct op_args args;
    struct op_result result;
    enum err err = ERR_OK;

    op_args_init(&args, OP_SEARCH);
    args.path = call->req.path;
    args.pattern = slice_str("/");
    args.after = buf_slice(&call->acls);
    op_result_init(&result);
    view_run(gate_view(call->zk->gate), &call->zk->self, &args, &result);
    call->counted += result.looked;
    call->upto = max_u64(max_u64(result.zxid, result.upto), call->upto);
    err = result.err;
    *ret_more = result.more && err == ERR_OK && result.after.len > 0;
    buf_clear(&call->acls);
    (void)buf_append_slice(&call->acls, result.after);
    op_result_release(&result);
    return err;
}

/* Counts while the turn lasts. False: the call runs again, or is answered (`*ret_done`). */
static bool count_all(struct zk_call *call, bool *ret_done)
{
    bool more = !call->walked;
    enum err err = ERR_OK;

    *ret_done = false;
    while (more && call->counted <= COUNT_MAX) {
        err = count_some(call, &more);
        call->zk->now_us = os_now_us();
        if (more && call->zk->now_us >= call->zk->end_us) {
            zk_turn_later(call->conn);
            return false;
        }
    }
    if (err != ERR_OK || call->counted > COUNT_MAX) {
        fail_count(call, err != ERR_OK ? err : ERR_THROTTLED);
        *ret_done = true;
        return false;
    }
    call->walked = true;
    return true;
}

/* While others write, the number is an estimate, as in ZooKeeper. */
bool zk_auth_count(struct zk_call *call)
{
    struct zk_conn *conn = call->conn;
    bool done = false;

    if (!zk_read_may(call) || (call->counted == 0 && !may_count(call))) {
        return true;
    }
    if (!count_all(call, &done)) {
        return done;
    }
    if (!zk_order_allows(call, call->upto)) {
        return false;
    }
    zk_order_saw(conn, call->upto);
    zk_encode_number(zk_out_begin(conn), call->req.xid, conn->seen,
                     (int32_t)(call->counted > 0 ? call->counted - 1 : 0));
    zk_reply_count(call, ERR_OK);
    return true;
}
