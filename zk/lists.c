/* Lists of watches: setWatches after a reconnect, and requests about watches. */
#include "zk/zk_int.h"

enum {
    PATHS_PER_LOOK = 16 /* Paths between two looks at the clock. */
};

/* What becomes of a watch that the client had: an event that it has missed, or the watch again. */
static void judge(const struct zk_call *call, uint32_t list, const struct op_result *result,
                  enum watch_event_type *ret_event)
{
    bool exists = result->err == ERR_OK;
    bool missing = result->err == ERR_NO_NODE;

    *ret_event = 0;
    if (list == ZK_LIST_EXISTS) {
        *ret_event = exists ? WATCH_CREATED : 0;
    } else if (missing) {
        *ret_event = WATCH_DELETED;
    } else if (list == ZK_LIST_DATA && exists && result->stat.mzxid > call->req.since) {
        *ret_event = WATCH_DATA_CHANGED;
    } else if (list == ZK_LIST_CHILDREN && exists && result->stat.pzxid > call->req.since) {
        *ret_event = WATCH_CHILDREN_CHANGED;
    }
}

/* Handles a path that no znode can have, as ZooKeeper does: data and children are missing. Nothing
 * else can ever happen there, so no watch is kept. */
static bool walk_impossible(const struct zk_call *call, uint32_t list, struct slice path)
{
    struct zk_conn *conn = call->conn;

    if (list == ZK_LIST_DATA || list == ZK_LIST_CHILDREN) {
        zk_watch_tell(conn, WATCH_DELETED, path);
    }
    return !conn->lost && conn->state != ZK_CUT;
}

/* Handles one path; without the right to read it the watch is added, and no event is sent. False:
 * the call must wait, or has ended. */
static bool walk_one(struct zk_call *call, uint32_t list, struct slice path)
{
    static const enum watch_kind kinds[ZK_LISTS] = {
        [ZK_LIST_DATA] = WATCH_DATA,           [ZK_LIST_EXISTS] = WATCH_EXISTS,
        [ZK_LIST_CHILDREN] = WATCH_CHILDREN,   [ZK_LIST_PERSISTENT] = WATCH_PERSISTENT,
        [ZK_LIST_RECURSIVE] = WATCH_RECURSIVE,
    };
    struct zk_conn *conn = call->conn;
    enum watch_event_type event = 0;
    struct op_args args;
    struct op_result result;
    const char *why = NULL;
    enum err err = ERR_OK;

    op_args_init(&args, OP_STAT);
    args.path = path.len > 0 ? path : slice_str("/"); /* The root, see zk_take_read. */
    if (op_args_check(&args, &why) != ERR_OK) {
        return walk_impossible(call, list, path);
    }
    op_result_init(&result);
    view_run(gate_view(call->zk->gate), &conn->principal, &args, &result);
    zxid_t zxid = result.zxid;
    bool read = result.err == ERR_OK || result.err == ERR_NO_NODE || result.err == ERR_NO_AUTH;

    if (list < ZK_LIST_PERSISTENT) {
        judge(call, list, &result, &event);
    }
    op_result_release(&result);
    if (!read) {
        zk_close_lost(conn, "not_ready");
        return false;
    }
    if (!zk_order_allows(call, zxid)) {
        return false;
    }
    call->upto = max_u64(zxid, call->upto);
    if (event != 0) {
        zk_watch_tell(conn, event, path);
    } else if (path.len > 0) {
        err = zk_watch_add(conn, kinds[list], path, zxid);
    }
    if (err == ERR_THROTTLED) {
        call->fault = ZK_THROTTLED;
    } else if (err != ERR_OK) {
        zk_close_lost(conn, "not_ready");
    }
    return err == ERR_OK && !conn->lost && conn->state != ZK_CUT;
}

/* Whether the turn has time for one more path. */
static bool has_time(struct zk_call *call, uint32_t *paths)
{
    struct zk *zk = call->zk;

    if (++*paths % PATHS_PER_LOOK != 0) {
        return true;
    }
    zk->now_us = os_now_us();
    if (zk->now_us >= zk->end_us) {
        zk_turn_later(call->conn);
        return false;
    }
    return true;
}

/* Whether one more event may wait for the client. False: the walk continues when the client has
 * taken some, or the connection has ended. */
static bool has_room(struct zk_conn *conn)
{
    size_t most = conn->zk->limits->socket_queue_bytes_max / 2;

    if (zk_out_events(conn) > most) {
        zk_out_flush(conn); /* What it does not send is sent in another turn. */
    }
    return conn->state != ZK_CUT && zk_out_events(conn) <= most;
}

/* Handles the next paths. True when there are none left. */
static bool walk(struct zk_call *call)
{
    uint32_t paths = 0;

    for (uint32_t list = 0; list < ZK_LISTS; list++) {
        struct zk_paths rest = call->req.lists[list];
        struct slice path;

        while (zk_paths_next(&rest, &path)) {
            if (!has_room(call->conn) || !has_time(call, &paths) || !walk_one(call, list, path)) {
                return false;
            }
            call->req.lists[list] = rest;
        }
    }
    return true;
}

bool zk_lists_set(struct zk_call *call)
{
    if (!zk_read_may(call)) {
        return true;
    }
    if (call->req.list_paths > call->zk->limits->watches_max) {
        zk_reply_code(call, ZK_THROTTLED);
        return true;
    }
    bool whole = walk(call);

    if (call->fault != ZK_OK) {
        zk_reply_code(call, call->fault);
        return true;
    }
    if (!whole) {
        return false;
    }
    zk_order_saw(call->conn, call->upto);
    zk_reply_code(call, ZK_OK);
    return true;
}

bool zk_lists_add(struct zk_call *call)
{
    struct zk_conn *conn = call->conn;
    enum watch_kind kind = call->req.mode == ZK_ADD_RECURSIVE ? WATCH_RECURSIVE : WATCH_PERSISTENT;
    enum err err = ERR_OK;

    zk_order_pump(call->zk, ZXID_MAX); /* The watch begins at the newest change. */
    if (conn->lost) {
        return true;
    }
    err = zk_watch_add(conn, kind, call->req.path, subscribe_at(call->zk->subscriber));
    if (err == ERR_THROTTLED) {
        zk_reply_code(call, ZK_THROTTLED);
    } else if (err != ERR_OK) {
        zk_close_lost(conn, "not_ready");
    } else {
        zk_encode_number(zk_out_begin(conn), call->req.xid, conn->seen, 0);
        zk_reply_count(call, ERR_OK);
    }
    return true;
}

/* Whether the type of checkWatches and removeWatches means this kind. */
static bool means(int32_t type, enum watch_kind kind)
{
    switch (type) {
    case ZK_WATCHES_CHILDREN:
        return kind == WATCH_CHILDREN;
    case ZK_WATCHES_DATA:
        return kind == WATCH_DATA || kind == WATCH_EXISTS;
    case ZK_WATCHES_PERSISTENT:
        return kind == WATCH_PERSISTENT;
    case ZK_WATCHES_RECURSIVE:
        return kind == WATCH_RECURSIVE;
    default:
        return type == ZK_WATCHES_ANY;
    }
}

bool zk_lists_find(struct zk_call *call)
{
    struct watch_table *table = subscribe_table(call->zk->subscriber);
    bool found = false;

    for (enum watch_kind kind = WATCH_DATA; kind < WATCH_KINDS; kind++) {
        struct watch *watch = NULL;

        if (means(call->req.mode, kind)) {
            watch = watch_find(table, &call->conn->owner, kind, call->req.path);
        }
        found = found || watch;
        if (watch && call->req.type == ZK_REMOVE_WATCHES) {
            watch_remove(table, watch);
        }
    }
    zk_reply_code(call, found ? ZK_OK : ZK_NO_WATCHER);
    return true;
}
