#include "tests/lib/zk_ask.h"

enum {
    PERM_ALL = 31,
    TTL_MS = 1000
};

void zk_ask_hello(struct buf *out, zxid_t last_zxid, int32_t timeout_ms, uint64_t session,
                  const uint8_t passwd[ZK_PASSWD_BYTES])
{
    size_t at = zk_frame_begin(out);

    zk_put_int(out, 0);
    zk_put_long(out, (int64_t)last_zxid);
    zk_put_int(out, timeout_ms);
    zk_put_long(out, (int64_t)session);
    zk_put_bytes(out, slice_make(passwd, ZK_PASSWD_BYTES));
    zk_put_bool(out, false);
    zk_frame_end(out, at);
}

size_t zk_ask_begin(struct buf *out, int32_t xid, int32_t type)
{
    size_t at = zk_frame_begin(out);

    zk_put_int(out, xid);
    zk_put_int(out, type);
    return at;
}

void zk_ask_plain(struct buf *out, int32_t xid, int32_t type)
{
    zk_frame_end(out, zk_ask_begin(out, xid, type));
}

void zk_ask_path(struct buf *out, int32_t xid, int32_t type, const char *path, int flag)
{
    bool is_number = type == ZK_ADD_WATCH || type == ZK_REMOVE_WATCHES || type == ZK_CHECK_WATCHES;
    size_t at = zk_ask_begin(out, xid, type);

    zk_put_bytes(out, slice_str(path));
    if (is_number) {
        zk_put_int(out, flag);
    } else if (flag >= 0) {
        zk_put_bool(out, flag != 0);
    }
    zk_frame_end(out, at);
}

void zk_ask_create(struct buf *out, int32_t xid, int32_t type, const char *path, struct slice data,
                   int32_t flags)
{
    size_t at = zk_ask_begin(out, xid, type);

    zk_put_bytes(out, slice_str(path));
    zk_put_bytes(out, data);
    zk_put_int(out, 1);
    zk_put_int(out, PERM_ALL);
    zk_put_bytes(out, slice_str("world"));
    zk_put_bytes(out, slice_str("anyone"));
    zk_put_int(out, flags);
    if (type == ZK_CREATE_TTL) {
        zk_put_long(out, TTL_MS);
    }
    zk_frame_end(out, at);
}

void zk_ask_set(struct buf *out, int32_t xid, const char *path, struct slice data, int32_t version)
{
    size_t at = zk_ask_begin(out, xid, ZK_SET_DATA);

    zk_put_bytes(out, slice_str(path));
    zk_put_bytes(out, data);
    zk_put_int(out, version);
    zk_frame_end(out, at);
}

void zk_ask_delete(struct buf *out, int32_t xid, const char *path, int32_t version)
{
    size_t at = zk_ask_begin(out, xid, ZK_DELETE);

    zk_put_bytes(out, slice_str(path));
    zk_put_int(out, version);
    zk_frame_end(out, at);
}

static void put_multi_head(struct buf *out, int32_t type, bool done)
{
    zk_put_int(out, type);
    zk_put_bool(out, done);
    zk_put_int(out, -1);
}

void zk_ask_multi(struct buf *out, int32_t xid, const char *checked, int32_t version,
                  const char *deleted)
{
    size_t at = zk_ask_begin(out, xid, ZK_MULTI);

    put_multi_head(out, ZK_CHECK, false);
    zk_put_bytes(out, slice_str(checked));
    zk_put_int(out, version);
    put_multi_head(out, ZK_DELETE, false);
    zk_put_bytes(out, slice_str(deleted));
    zk_put_int(out, -1);
    put_multi_head(out, ZK_ERROR, true);
    zk_frame_end(out, at);
}

void zk_ask_watches(struct buf *out, int32_t xid, zxid_t since,
                    const struct zk_ask_list lists[ZK_LISTS])
{
    bool old = lists[ZK_LIST_PERSISTENT].count + lists[ZK_LIST_RECURSIVE].count == 0;
    size_t at = zk_ask_begin(out, xid, old ? ZK_SET_WATCHES : ZK_SET_WATCHES2);

    zk_put_long(out, (int64_t)since);
    for (size_t list = 0; list < (old ? ZK_LIST_PERSISTENT : ZK_LISTS); list++) {
        zk_put_int(out, (int32_t)lists[list].count);
        for (size_t i = 0; i < lists[list].count; i++) {
            zk_put_bytes(out, slice_str(lists[list].paths[i]));
        }
    }
    zk_frame_end(out, at);
}
