#include "tests/lib/zk_model.h"

#include "tests/lib/zk_ask.h"

const char *const zk_model_paths[ZK_MODEL_PATHS] = {"/",    "/a",   "/b",    "/a/x",
                                                    "/a/y", "/b/x", "/a/x/p"};

static const uint8_t parents[ZK_MODEL_PATHS] = {0, 0, 0, 1, 1, 2, 3};

uint8_t zk_model_path(struct slice path)
{
    uint8_t at = 0;

    while (at + 1 < ZK_MODEL_PATHS && !slice_eq(path, slice_str(zk_model_paths[at]))) {
        at++;
    }
    return at;
}

/* Modes of a watch in a table. */
enum {
    STANDARD = 1,
    PERSISTENT = 2,
    RECURSIVE = 4
};

void zk_model_init(struct zk_model_node nodes[ZK_MODEL_PATHS])
{
    memset(nodes, 0, ZK_MODEL_PATHS * sizeof(nodes[0]));
    nodes[0].exists = true;
}

void zk_model_forget(struct zk_model_tables *tables)
{
    memset(tables->data, 0, sizeof(tables->data));
    memset(tables->child, 0, sizeof(tables->child));
}

static bool has_recursive(const struct zk_model_tables *tables, uint8_t path)
{
    bool found = (tables->data[path] & RECURSIVE) != 0;

    while (path != 0 && !found) {
        path = parents[path];
        found = (tables->data[path] & RECURSIVE) != 0;
    }
    return found;
}

/* ZooKeeper's table of data watches; whether the client gets the event. */
static bool fire_data(struct zk_model_tables *tables, enum watch_event_type type, uint8_t path,
                      zxid_t zxid)
{
    bool fires = tables->data[path] != 0 || has_recursive(tables, path);

    tables->data[path] &= (uint8_t)~STANDARD;
    if (fires) {
        tables->on_event(tables->ctx, type, path, zxid);
    }
    return fires;
}

/* ZooKeeper's table of child watches. `quiet`: the client has had this event. */
static void fire_child(struct zk_model_tables *tables, enum watch_event_type type, uint8_t path,
                       zxid_t zxid, bool quiet)
{
    bool fires = tables->child[path] != 0;

    tables->child[path] &= (uint8_t)~STANDARD;
    if (fires && !quiet) {
        tables->on_event(tables->ctx, type, path, zxid);
    }
}

void zk_model_fire(struct zk_model_tables *tables, enum zk_model_change change, uint8_t path,
                   zxid_t zxid)
{
    bool had = false;

    switch (change) {
    case ZK_MODEL_CREATE:
        (void)fire_data(tables, WATCH_CREATED, path, zxid);
        fire_child(tables, WATCH_CHILDREN_CHANGED, parents[path], zxid, false);
        break;
    case ZK_MODEL_SET:
        (void)fire_data(tables, WATCH_DATA_CHANGED, path, zxid);
        break;
    case ZK_MODEL_DELETE:
        had = fire_data(tables, WATCH_DELETED, path, zxid);
        fire_child(tables, WATCH_DELETED, path, zxid, had);
        fire_child(tables, WATCH_CHILDREN_CHANGED, parents[path], zxid, false);
        break;
    case ZK_MODEL_CHANGES:
        break;
    }
}

/* What ZooKeeper answers to this change now. */
int32_t zk_model_judge(const struct zk_model_node *nodes, enum zk_model_change change, uint8_t path)
{
    if (change == ZK_MODEL_CREATE) {
        if (nodes[path].exists) {
            return ZK_NODE_EXISTS;
        }
        return nodes[parents[path]].exists ? ZK_OK : ZK_NO_NODE;
    }
    if (!nodes[path].exists) {
        return ZK_NO_NODE;
    }
    return change == ZK_MODEL_DELETE && nodes[path].children > 0 ? ZK_NOT_EMPTY : ZK_OK;
}

void zk_model_apply(struct zk_model_node *nodes, enum zk_model_change change, uint8_t path,
                    zxid_t zxid)
{
    struct zk_model_node *parent = &nodes[parents[path]];

    if (change == ZK_MODEL_SET) {
        nodes[path].mzxid = zxid;
    } else if (change == ZK_MODEL_CREATE) {
        nodes[path] = (struct zk_model_node){.exists = true, .mzxid = zxid, .pzxid = zxid};
        parent->children++;
        parent->pzxid = zxid;
    } else {
        nodes[path].exists = false;
        parent->children--;
        parent->pzxid = zxid;
    }
}

int32_t zk_model_read(struct zk_model_tables *tables, const struct zk_model_node *nodes,
                      int32_t type, uint8_t path, bool watch)
{
    bool exists = nodes[path].exists;

    if (watch && (exists || type == ZK_EXISTS)) {
        uint8_t *table = type == ZK_GET_CHILDREN2 ? tables->child : tables->data;

        table[path] |= STANDARD;
    }
    return exists ? ZK_OK : ZK_NO_NODE;
}

int32_t zk_model_add(struct zk_model_tables *tables, uint8_t path, int mode)
{
    if (mode == ZK_ADD_RECURSIVE) {
        tables->data[path] |= RECURSIVE;
    } else {
        tables->data[path] |= PERSISTENT;
        tables->child[path] |= PERSISTENT;
    }
    return ZK_OK;
}

/* The modes that a type of checkWatches and removeWatches means, in each table. */
static void meant(int type, uint8_t *ret_data, uint8_t *ret_child)
{
    static const uint8_t data[] = {
        0, 0, STANDARD, STANDARD | PERSISTENT | RECURSIVE, PERSISTENT, RECURSIVE};
    static const uint8_t child[] = {0, STANDARD, 0, STANDARD | PERSISTENT, PERSISTENT, 0};

    *ret_data = data[type];
    *ret_child = child[type];
}

int32_t zk_model_find(struct zk_model_tables *tables, uint8_t path, int mode, bool removes)
{
    uint8_t data = 0;
    uint8_t child = 0;
    bool found = false;

    meant(mode, &data, &child);
    found = (tables->data[path] & data) != 0 || (tables->child[path] & child) != 0;
    if (removes) {
        tables->data[path] &= (uint8_t)~data;
        tables->child[path] &= (uint8_t)~child;
    }
    return found ? ZK_OK : ZK_NO_WATCHER;
}

/* What has become of a watch that the client had. 0: nothing, it is registered. */
static enum watch_event_type missed(const struct zk_model_node *node, uint32_t list, zxid_t since)
{
    if (list == ZK_LIST_EXISTS) {
        return node->exists ? WATCH_CREATED : 0;
    }
    if (!node->exists) {
        return WATCH_DELETED;
    }
    if (list == ZK_LIST_DATA) {
        return node->mzxid > since ? WATCH_DATA_CHANGED : 0;
    }
    return node->pzxid > since ? WATCH_CHILDREN_CHANGED : 0;
}

void zk_model_set(struct zk_model_tables *tables, const struct zk_model_node *nodes, uint32_t list,
                  uint8_t path, zxid_t since)
{
    enum watch_event_type type = 0;

    if (list < ZK_LIST_PERSISTENT) {
        type = missed(&nodes[path], list, since);
    }
    if (type != 0) {
        tables->on_event(tables->ctx, type, path, (zxid_t)-1);
    } else if (list == ZK_LIST_PERSISTENT) {
        tables->data[path] |= PERSISTENT;
        tables->child[path] |= PERSISTENT;
    } else if (list == ZK_LIST_RECURSIVE) {
        tables->data[path] |= RECURSIVE;
    } else if (list == ZK_LIST_CHILDREN) {
        tables->child[path] |= STANDARD;
    } else {
        tables->data[path] |= STANDARD;
    }
}

bool zk_model_is_write(const struct zk_model_asked *asked)
{
    return asked->type == ZK_CREATE || asked->type == ZK_SET_DATA || asked->type == ZK_DELETE;
}

bool zk_model_is_read(const struct zk_model_asked *asked)
{
    return asked->type == ZK_GET_DATA || asked->type == ZK_EXISTS ||
           asked->type == ZK_GET_CHILDREN2;
}

/* ---- What a library remembers ---- */

void zk_model_remember(uint8_t lists[ZK_LISTS], const struct zk_model_asked *asked, int32_t code)
{
    uint8_t bit = (uint8_t)(1U << asked->path);
    bool ok = code == ZK_OK;

    if (asked->type == ZK_ADD_WATCH) {
        lists[asked->mode == ZK_ADD_RECURSIVE ? ZK_LIST_RECURSIVE : ZK_LIST_PERSISTENT] |= bit;
    } else if (asked->type == ZK_REMOVE_WATCHES && ok) {
        static const uint8_t meant_lists[] = {0, 4, 3, 31, 8, 16};

        for (uint32_t list = 0; list < ZK_LISTS; list++) {
            if (((uint32_t)meant_lists[asked->mode] >> list) & 1U) {
                lists[list] &= (uint8_t)~bit;
            }
        }
    } else if (asked->mode == 0) {
        return;
    } else if (asked->type == ZK_GET_CHILDREN2 && ok) {
        lists[ZK_LIST_CHILDREN] |= bit;
    } else if ((asked->type == ZK_GET_DATA || asked->type == ZK_EXISTS) && ok) {
        lists[ZK_LIST_DATA] |= bit;
    } else if (asked->type == ZK_EXISTS) {
        lists[ZK_LIST_EXISTS] |= bit;
    }
}

void zk_model_use_up(uint8_t lists[ZK_LISTS], int32_t type, uint8_t path)
{
    uint8_t bit = (uint8_t)(1U << path);

    if (type == WATCH_DELETED || type == WATCH_CHILDREN_CHANGED) {
        lists[ZK_LIST_CHILDREN] &= (uint8_t)~bit;
    }
    if (type != WATCH_CHILDREN_CHANGED) {
        lists[ZK_LIST_DATA] &= (uint8_t)~bit;
        lists[ZK_LIST_EXISTS] &= (uint8_t)~bit;
    }
}

void zk_model_ask(struct buf *out, int32_t xid, zxid_t since, const uint8_t lists[ZK_LISTS])
{
    const char *names[ZK_LISTS][ZK_MODEL_PATHS];
    struct zk_ask_list asked[ZK_LISTS] = {{0}};

    for (uint32_t list = 0; list < ZK_LISTS; list++) {
        asked[list].paths = names[list];
        for (uint32_t path = 0; path < ZK_MODEL_PATHS; path++) {
            if (((uint32_t)lists[list] >> path) & 1U) {
                names[list][asked[list].count++] = zk_model_paths[path];
            }
        }
    }
    zk_ask_watches(out, xid, since, asked);
}
