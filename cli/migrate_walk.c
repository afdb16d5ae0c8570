#include "cli/migrate_walk.h"

#include "base/check.h"
#include "base/jsonw.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "cli/migrate_index.h"

#include <stdio.h>

enum {
    WINDOW = 64,  /* Znodes in flight. */
    REQUESTS = 3, /* Of each of them. */
    PATH_MAX_BYTES = 1 << 20,
    ACL_JSON_MAX = 1 << 20
};

_Static_assert(WINDOW *REQUESTS <= ZK_CLIENT_DUE_MAX, "the requests of all znodes in flight fit");

void migrate_walk_init(struct migrate_walk *walk, struct zk_client *client, struct slice top,
                       const struct migrate_visitor *visitor)
{
    *walk = (struct migrate_walk){.client = client, .top = top, .visitor = visitor};
    buf_init(&walk->data, ZK_CLIENT_FRAME_MAX);
    buf_init(&walk->acl, ACL_JSON_MAX);
}

static void forget(struct migrate_walk *walk)
{
    for (size_t i = 0; i < walk->unsent_count; i++) {
        mem_free(walk->unsent[i]);
    }
    for (uint32_t i = 0; i < walk->sent_count; i++) {
        mem_free(walk->sent[(walk->sent_first + i) % ZK_CLIENT_DUE_MAX]);
    }
    walk->unsent_count = 0;
    walk->sent_count = 0;
    walk->replies = 0;
    walk->err = 0;
}

void migrate_walk_release(struct migrate_walk *walk)
{
    forget(walk);
    mem_free(walk->unsent);
    walk->unsent = NULL;
    buf_release(&walk->data);
    buf_release(&walk->acl);
}

static char *copy(struct slice text)
{
    char *copied = mem_alloc(text.len + 1);

    memcpy(copied, text.data ? (const void *)text.data : "", text.len);
    copied[text.len] = '\0';
    return copied;
}

void migrate_walk_add(struct migrate_walk *walk, struct slice path)
{
    MEM_GROW(walk->unsent, walk->unsent_count, walk->unsent_cap, MEM_ITEMS_MAX);
    walk->unsent[walk->unsent_count++] = copy(path);
}

/* ---- Sending ---- */

static void send_one(struct migrate_walk *walk, char *path)
{
    struct buf full;

    buf_init(&full, PATH_MAX_BYTES);
    buf_append_slice(&full, walk->top);
    if (*path != '\0' || full.len == 0) {
        buf_append_byte(&full, '/');
        buf_append_str(&full, path);
    }
    zk_client_send(walk->client, ZK_CLIENT_GET_DATA, buf_slice(&full), walk->watch);
    zk_client_send(walk->client, ZK_CLIENT_GET_ACL, buf_slice(&full), false);
    zk_client_send(walk->client, ZK_CLIENT_GET_CHILDREN, buf_slice(&full), walk->watch);
    walk->sent[(walk->sent_first + walk->sent_count++) % ZK_CLIENT_DUE_MAX] = path;
    buf_release(&full);
}

/* ---- Taking ---- */

static void take_acl(struct migrate_walk *walk, const struct zk_client_news *news)
{
    static const char *const names[] = {"read", "write", "create", "delete", "admin"};
    struct slice list = news->list;
    struct jsonw json;

    buf_clear(&walk->acl);
    jsonw_init(&json, &walk->acl);
    walk->bad_acl = false;
    jsonw_array(&json);
    for (uint32_t i = 0; i < news->count; i++) {
        struct zk_client_acl acl = zk_client_acl_next(&list);
        struct slice id = acl.id;

        walk->bad_acl = walk->bad_acl || !utf8_valid(acl.scheme) || !utf8_valid(id);
        walk->znode.acl_sum = migrate_acl_add(walk->znode.acl_sum, acl.perms, acl.scheme, id);
        walk->znode.masked =
            walk->znode.masked || (slice_eq(acl.scheme, slice_str("digest")) && id.len > 2 &&
                                   memcmp(id.data + id.len - 2, ":x", 2) == 0);
        if (walk->bad_acl) {
            break;
        }
        jsonw_object(&json);
        jsonw_kv_array(&json, "perms");
        for (uint32_t bit = 0; bit < sizeof(names) / sizeof(names[0]); bit++) {
            if ((acl.perms >> bit & 1) != 0) {
                jsonw_cstr(&json, names[bit]);
            }
        }
        jsonw_array_end(&json);
        jsonw_kv_string(&json, "scheme", acl.scheme);
        jsonw_kv_string(&json, "id", id);
        jsonw_object_end(&json);
    }
    if (!walk->bad_acl) {
        jsonw_array_end(&json);
    }
    walk->znode.acl_sum = migrate_acl_done(walk->znode.acl_sum);
}

/* Adds the children that the visitor wants. */
static void add_children(struct migrate_walk *walk, const struct zk_client_news *news)
{
    struct slice list = news->list;
    struct buf child;

    buf_init(&child, PATH_MAX_BYTES);
    for (uint32_t i = 0; i < news->count; i++) {
        struct slice name = zk_client_name_next(&list);

        buf_clear(&child);
        if (walk->znode.path.len > 0) {
            buf_append_slice(&child, walk->znode.path);
            buf_append_byte(&child, '/');
        }
        buf_append_slice(&child, name);
        if (name.len == 0 || memchr(name.data, '/', name.len) || memchr(name.data, 0, name.len) ||
            !utf8_valid(name) || child.overflow) {
            walk->visitor->refused(walk->visitor->ctx, walk->znode.path,
                                   "the name of a child is not UTF-8, or too long");
        } else if (walk->visitor->wants(walk->visitor->ctx, buf_slice(&child))) {
            migrate_walk_add(walk, buf_slice(&child));
        }
    }
    buf_release(&child);
}

/* Shows the visitor a znode whose replies are complete; `news` has its children. */
static bool visit(struct migrate_walk *walk, const struct zk_client_news *news)
{
    const struct migrate_visitor *visitor = walk->visitor;
    struct migrate_znode *znode = &walk->znode;

    if (walk->err == ZK_CLIENT_NO_NODE) {
        return visitor->missing(visitor->ctx, znode->path);
    }
    if (walk->err != 0 || walk->bad_acl) {
        char why[128];

        (void)snprintf(why, sizeof(why), "%s%s", walk->err != 0 ? "cannot read it: " : "",
                       walk->err != 0 ? zk_client_err_text(walk->err) : "its ACL is not UTF-8");
        visitor->refused(visitor->ctx, znode->path, why);
        return true;
    }
    znode->data = buf_slice(&walk->data);
    znode->acl = buf_slice(&walk->acl);
    znode->stat = news->stat;
    /* cversion counts creates and deletes, in 32 bits; what is deleted is creates minus children.
     */
    znode->creates = ((uint32_t)news->stat.cversion + (uint32_t)news->stat.num_children) / 2;
    if (!visitor->znode(visitor->ctx, znode)) {
        return false;
    }
    if (znode->stat.ephemeral_owner == 0 && !znode->pruned) {
        add_children(walk, news);
    }
    return true;
}

static bool take_reply(struct migrate_walk *walk, const struct zk_client_news *news)
{
    char *path = walk->sent[walk->sent_first];

    if (walk->replies++ == 0) {
        walk->znode = (struct migrate_znode){.path = slice_str(path)};
        walk->err = 0;
        walk->bad_acl = false;
    }
    walk->err = walk->err != 0 ? walk->err : news->err;
    if (news->op == ZK_CLIENT_GET_DATA) {
        buf_clear(&walk->data);
        walk->znode.is_null = news->data.data == NULL;
        buf_append_slice(&walk->data, news->data);
    } else if (news->op == ZK_CLIENT_GET_ACL && news->err == 0) {
        take_acl(walk, news);
    }
    if (walk->replies < REQUESTS) {
        return true;
    }
    walk->replies = 0;
    walk->sent_first = (walk->sent_first + 1) % ZK_CLIENT_DUE_MAX;
    walk->sent_count--;
    bool goes = visit(walk, news);

    mem_free(path);
    return goes;
}

void migrate_walk_event(const struct migrate_walk *walk, const struct zk_client_news *news)
{
    struct slice path = news->path;
    size_t len = walk->top.len;

    if (!slice_starts_with(path, walk->top) || (path.len > len && path.data[len] != '/')) {
        return;
    }
    path = path.len > len ? slice_make(path.data + len + 1, path.len - len - 1)
                          : slice_make(path.data, 0);
    walk->visitor->changed(walk->visitor->ctx, path);
}

/* ---- The loop ---- */

static enum migrate_step take_one(struct migrate_walk *walk)
{
    struct zk_client_news news;

    zk_client_next(walk->client, -1, &news);
    switch (news.kind) {
    case ZK_CLIENT_REPLY:
        return take_reply(walk, &news) ? MIGRATE_DONE : MIGRATE_ENDED;
    case ZK_CLIENT_EVENT:
        migrate_walk_event(walk, &news);
        return MIGRATE_DONE;
    case ZK_CLIENT_STOP:
        return MIGRATE_STOPPED;
    case ZK_CLIENT_LOST:
        return MIGRATE_LOST;
    case ZK_CLIENT_NOTHING:
        break;
    }
    return MIGRATE_DONE;
}

enum migrate_step migrate_walk_run(struct migrate_walk *walk)
{
    enum migrate_step step = MIGRATE_DONE;

    walk->runs = true;
    while (step == MIGRATE_DONE && (walk->unsent_count > 0 || walk->sent_count > 0)) {
        while (walk->unsent_count > 0 && walk->sent_count < WINDOW) {
            send_one(walk, walk->unsent[--walk->unsent_count]);
        }
        step = take_one(walk);
    }
    walk->runs = false;
    if (step != MIGRATE_DONE) {
        forget(walk);
    }
    return step;
}
