/* Identities: auth, whoAmI, and what belongs to the session of the caller. */
#include "zk/zk_int.h"

enum {
    COUNT_MAX = 1000000, /* Descendants that getAllChildrenNumber counts. */
    COUNT_US = 5000      /* Before other connections have their turn. */
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
static enum err add_page(struct zk_call *call, struct buf *out, struct zk_list *list,
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
            zk_list_add(out, list, result.entries[i].path);
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

bool zk_auth_ephemerals(struct zk_call *call)
{
    struct zk_conn *conn = call->conn;
    struct buf *out = NULL;
    struct zk_list list;
    struct buf after;
    enum err err = ERR_OK;
    bool more = true;
    size_t at = 0;

    zk_order_pump(call->zk, ZXID_MAX);
    if (conn->lost || !zk_read_may(call)) {
        return true;
    }
    out = zk_out_begin(conn);
    at = out->len;
    buf_init(&after, STATE_PATH_MAX);
    zk_list_begin(out, call->req.xid, conn->seen, &list);
    while (more && err == ERR_OK && !out->overflow) {
        err = add_page(call, out, &list, &after, &more);
    }
    zk_list_end(out, &list, NULL);
    buf_release(&after);
    if (err != ERR_OK) {
        out->len = at;
        zk_close_lost(conn, "not_ready");
    } else if (zk_out_end(conn, at)) {
        zk_reply_count(call, ERR_OK);
    } else {
        zk_close_lost(conn, "reply_too_large");
    }
    return true;
}

/* ---- getAllChildrenNumber ---- */

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
    if (err == ERR_OK) {
        return true;
    }
    if (zk_error_code(err) == ZK_CLOSE) {
        zk_close_lost(call->conn, zk_error_reason(err));
    } else {
        zk_reply_code(call, zk_error_code(err));
    }
    return false;
}

/* Counts some more znodes; returns whether there are others. The walk is a search that finds
 * nothing, because no name contains a slash; it continues after call->acls. */
static bool count_some(struct zk_call *call)
{
    struct op_args args;
    struct op_result result;
    bool more = false;

    op_args_init(&args, OP_SEARCH);
    args.path = call->req.path;
    args.pattern = slice_str("/");
    args.after = buf_slice(&call->acls);
    op_result_init(&result);
    view_run(gate_view(call->zk->gate), &call->zk->self, &args, &result);
    call->counted += result.looked;
    more = result.more && result.err == ERR_OK && result.after.len > 0;
    buf_clear(&call->acls);
    (void)buf_append_slice(&call->acls, result.after);
    op_result_release(&result);
    return more;
}

/* While others write, the number is an estimate, as in ZooKeeper. */
bool zk_auth_count(struct zk_call *call)
{
    uint64_t end_us = os_now_us() + COUNT_US;
    bool more = true;

    if (!zk_read_may(call) || (call->counted == 0 && !may_count(call))) {
        return true;
    }
    while (more && call->counted <= COUNT_MAX) {
        more = count_some(call);
        if (more && os_now_us() >= end_us) {
            zk_turn_later(call->conn);
            return false;
        }
    }
    if (call->counted > COUNT_MAX) {
        zk_reply_code(call, ZK_THROTTLED);
        return true;
    }
    zk_encode_number(zk_out_begin(call->conn), call->req.xid, call->conn->seen,
                     (int32_t)(call->counted > 0 ? call->counted - 1 : 0));
    zk_reply_count(call, ERR_OK);
    return true;
}
