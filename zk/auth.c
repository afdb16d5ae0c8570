/* Identities: auth, whoAmI, and what belongs to the session of the caller. */
#include "zk/wire.h"
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

/* ---- Walks, which read many znodes ---- */

/* Reads the next znodes; `*ret_more`: there are others. call->acls has the last path. */
typedef enum err walk_fn(struct zk_call *call, bool *ret_more);

/* Walks while the turn lasts. False: the walk continues in another turn. */
static bool walk(struct zk_call *call, walk_fn *read_some, enum err *ret_err)
{
    bool more = !call->walked;
    struct zk *zk = call->zk;

    *ret_err = ERR_OK;
    while (more && *ret_err == ERR_OK) {
        *ret_err = read_some(call, &more);
        zk->now_us = os_now_us();
        if (more && *ret_err == ERR_OK && zk->now_us >= zk->end_us) {
            zk_turn_later(call->conn);
            return false;
        }
    }
    call->walked = *ret_err == ERR_OK;
    return true;
}

static void keep_path(struct zk_call *call, struct slice path)
{
    buf_clear(&call->acls);
    (void)buf_append_slice(&call->acls, path);
}

/* ---- The ephemerals of the caller's session ---- */

static bool is_wanted(struct slice prefix, struct slice path)
{
    return prefix.len == 0 || slice_starts_with(path, prefix);
}

void zk_auth_forget(struct zk_call *call)
{
    if (call->req.type == ZK_GET_EPHEMERALS) {
        buf_release(&call->names);
        buf_clear(&call->acls);
        call->counted = 0;
        call->from = 0;
        call->walked = false;
    }
}

/* Adds one page to the names. */
static enum err add_page(struct zk_call *call, bool *ret_more)
{
    struct op_args args;
    struct op_result result;
    enum err err = ERR_OK;

    op_args_init(&args, OP_EPHEMERALS);
    args.session = call->conn->session.id;
    args.after = buf_slice(&call->acls);
    op_result_init(&result);
    view_run(gate_view(call->zk->gate), &call->zk->self, &args, &result);
    err = result.err;
    for (uint32_t i = 0; i < result.entry_count; i++) {
        if (is_wanted(call->req.path, result.entries[i].path)) {
            zk_put_bytes(&call->names, result.entries[i].path);
            call->counted++;
        }
    }
    if (result.entry_count > 0) {
        keep_path(call, result.entries[result.entry_count - 1].path);
    }
    *ret_more = result.more && err == ERR_OK && !call->names.overflow;
    call->from = call->from == 0 ? result.zxid : call->from;
    call->upto = max_u64(result.zxid, call->upto);
    op_result_release(&result);
    return err;
}

/* The same, if the page is the only one or the call has a place. ERR_THROTTLED: it waits for one,
 * and keeps nothing. */
static enum err add_some(struct zk_call *call, bool *ret_more)
{
    enum err err = add_page(call, ret_more);

    if (*ret_more && !zk_place_take(call)) {
        zk_auth_forget(call);
        err = ERR_THROTTLED;
    }
    return err;
}

static bool waits_for_place(const struct zk_call *call)
{
    return call->place_since_us != 0 && !call->placed;
}

/* Whether all names may leave now. What was read in several turns is read again, if the client may
 * have the event of a change since then. */
static bool may_tell_names(struct zk_call *call)
{
    if (!zk_order_allows(call, call->upto)) {
        return false;
    }
    if (call->placed && call->conn->session.owned > call->from) {
        zk_auth_forget(call);
        zk_turn_later(call->conn);
        return false;
    }
    return call->names.len <= ZK_LONG_REPLY || zk_turn_takes_long(call);
}

static void tell_names(struct zk_call *call)
{
    struct zk_conn *conn = call->conn;
    struct buf *out = zk_out_begin(conn);
    size_t at = out->len;

    zk_encode_paths(out, call->req.xid, conn->seen, call->counted, buf_slice(&call->names));
    if (zk_out_end(conn, at) && !call->names.overflow) {
        zk_reply_count(call, ERR_OK);
    } else {
        out->len = at;
        zk_close_lost(conn, "reply_too_large");
    }
}

bool zk_auth_ephemerals(struct zk_call *call)
{
    enum err err = ERR_OK;

    if (!zk_read_may(call)) {
        return true;
    }
    if (!call->walked && zk_place_is_late(call)) {
        zk_reply_code(call, ZK_THROTTLED);
        return true;
    }
    if (waits_for_place(call) || !walk(call, add_some, &err) || waits_for_place(call)) {
        return false;
    }
    if (err != ERR_OK) {
        zk_close_lost(call->conn, "not_ready");
        return true;
    }
    if (!may_tell_names(call)) {
        if (!call->placed) {
            zk_auth_forget(call);
        }
        return false;
    }
    zk_order_saw(call->conn, call->upto);
    tell_names(call);
    return true;
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

/* Counts some more znodes: a search that finds each, and so ends after one page. */
static enum err count_some(struct zk_call *call, bool *ret_more)
{
    struct op_args args;
    struct op_result result;
    enum err err = ERR_OK;

    op_args_init(&args, OP_SEARCH);
    args.path = call->req.path;
    args.pattern = slice_str("*");
    args.after = buf_slice(&call->acls);
    op_result_init(&result);
    view_run(gate_view(call->zk->gate), &call->zk->self, &args, &result);
    call->counted += result.looked;
    call->upto = max_u64(max_u64(result.zxid, result.upto), call->upto);
    err = result.err;
    *ret_more = result.more && err == ERR_OK && result.after.len > 0;
    keep_path(call, result.after);
    op_result_release(&result);
    return err == ERR_OK && call->counted > COUNT_MAX ? ERR_THROTTLED : err;
}

/* While others write, the number is an estimate, as in ZooKeeper. */
bool zk_auth_count(struct zk_call *call)
{
    struct zk_conn *conn = call->conn;
    enum err err = ERR_OK;

    if (!zk_read_may(call) || (call->counted == 0 && !may_count(call))) {
        return true;
    }
    if (!walk(call, count_some, &err)) {
        return false;
    }
    if (err != ERR_OK) {
        fail_count(call, err);
        return true;
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
