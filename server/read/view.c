#include "base/thread.h"
#include "server/op/acl.h"
#include "server/read/view_int.h"
#include "server/state/cut.h"
#include "server/state/path.h"

struct view {
    pthread_rwlock_t lock;
    pthread_mutex_t cuts_mutex; /* Held under the read lock to add or remove cuts of the state. */
    struct state *state;        /* NULL until recovery has put one in place. */
    bool whole;
    struct view_clients clients;
};

struct view *view_new(void)
{
    struct view *view = mem_zalloc(1, sizeof(*view));
    pthread_rwlockattr_t attr;

    ASSERT(pthread_rwlockattr_init(&attr) == 0);
    ASSERT(pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP) == 0);
    ASSERT(pthread_rwlock_init(&view->lock, &attr) == 0);
    ASSERT(pthread_rwlockattr_destroy(&attr) == 0);
    mutex_init(&view->cuts_mutex);
    return view;
}

void view_free(struct view *view)
{
    if (view == NULL) {
        return;
    }
    ASSERT(pthread_rwlock_destroy(&view->lock) == 0);
    mutex_destroy(&view->cuts_mutex);
    state_free(view->state);
    mem_free(view);
}

void view_set_clients(struct view *view, struct heard *heard, bool show_all)
{
    view->clients = (struct view_clients){.heard = heard, .show_all = show_all};
}

const struct view_clients *view_clients(const struct view *view)
{
    return &view->clients;
}

struct state *view_write(struct view *view)
{
    ASSERT(pthread_rwlock_wrlock(&view->lock) == 0);

    return view->state;
}

void view_write_done(struct view *view)
{
    ASSERT(pthread_rwlock_unlock(&view->lock) == 0);
}

void view_replace(struct view *view, struct state *take_state)
{
    struct state *old = view_write(view);

    if (old != NULL) {
        state_cuts_lose(old);
    }
    view->state = take_state;
    view->whole = false;
    view_write_done(view);
    /* Freed without the lock, because a large tree takes long to free. */
    state_free(old);
}

void view_set_whole(struct view *view, bool whole)
{
    struct state *state = view_write(view);

    ASSERT(state != NULL || !whole);
    if (state != NULL && !whole) {
        state_cuts_lose(state);
    }
    view->whole = whole;
    view_write_done(view);
}

const struct state *view_read_whole(struct view *view)
{
    const struct state *state = view_read(view);

    if (state != NULL && !view->whole) {
        view_read_done(view);
        return NULL;
    }
    return state;
}

const struct state *view_read(struct view *view)
{
    ASSERT(pthread_rwlock_rdlock(&view->lock) == 0);
    if (view->state == NULL) {
        ASSERT(pthread_rwlock_unlock(&view->lock) == 0);
        return NULL;
    }
    return view->state;
}

void view_read_done(struct view *view)
{
    ASSERT(pthread_rwlock_unlock(&view->lock) == 0);
}

void view_refuse(struct op_result *result, enum err err, const char *detail)
{
    ASSERT(err != ERR_OK);

    result->err = err;
    result->detail = detail;
}

const struct state *view_begin(struct view *view, struct op_result *result)
{
    const struct state *state = view_read_whole(view);

    if (state == NULL) {
        view_refuse(result, ERR_NOT_READY, "this replica has no state that may be read yet");
    }
    return state;
}

bool view_may_read(const struct state *state, const struct op_principal *who,
                   const struct znode *node)
{
    uint32_t acl = znode_acl(node);

    return acl == 0 || acl_allows(state_acl(state, acl), who, ACL_READ);
}

bool view_shows_path(const struct state *state, const struct op_principal *who, struct slice path)
{
    if (state_find(state, path) == NULL) {
        return false;
    }
    while (path.len > 1) {
        path = path_parent(path);
        if (!view_may_read(state, who, state_find(state, path))) {
            return false;
        }
    }
    return true;
}

void view_look(const struct state *state, const struct op_principal *who,
               const struct op_args *args, struct op_result *result)
{
    const struct znode *node = state_find(state, args->path);

    result->zxid = state_applied(state);
    if (node == NULL) {
        result->err = ERR_NO_NODE;
        return;
    }
    if (!view_may_read(state, who, node)) {
        result->err = ERR_NO_AUTH;
        return;
    }
    result->err = ERR_OK;
    result->has_stat = true;
    state_shown_stat(state, node, &result->stat);
    result->computed = state_is_computed(state, node);
    if (args->perms) {
        result->has_perms = true;
        result->perms = acl_perms(state_acl(state, znode_acl(node)), who);
    }
    if (args->op == OP_GET) {
        result->data = state_shown_data(state, node);
    }
}

enum err view_cut_begin(struct view *view, const struct op_principal *who, struct slice path,
                        size_t bytes_max, struct state_cut *cut, zxid_t *ret_zxid)
{
    const struct state *state = view_read_whole(view);
    const struct znode *node = NULL;
    enum err err = ERR_OK;

    *ret_zxid = 0;
    if (state == NULL) {
        return ERR_NOT_READY;
    }
    *ret_zxid = state_applied(state);
    node = state_find(state, path);
    if (node == NULL) {
        err = ERR_NO_NODE;
    } else if (!view_may_read(state, who, node)) {
        err = ERR_NO_AUTH;
    } else {
        MUTEX_HOLD(&view->cuts_mutex);
        state_cut_begin(cut, view->state, path, bytes_max);
    }
    view_read_done(view);
    return err;
}

/* Ends the cut. The lock excludes transactions, and the mutex excludes other readers. If
 * state_cuts_lose has removed the cut from its state already, state_cut_end has no effect. */
void view_cut_end(struct view *view, struct state_cut *cut)
{
    ASSERT(pthread_rwlock_rdlock(&view->lock) == 0);
    mutex_lock(&view->cuts_mutex);
    state_cut_end(cut);
    mutex_unlock(&view->cuts_mutex);
    view_read_done(view);
    state_cut_release(cut);
}

bool view_cut_enter(struct view *view, struct state_cut *cut)
{
    ASSERT(pthread_rwlock_rdlock(&view->lock) == 0);
    if (cut->fate != STATE_CUT_GOOD) {
        view_read_done(view);
        return false;
    }
    state_cut_enter(cut, view->state);
    return true;
}

void view_cut_leave(struct view *view, struct state_cut *cut)
{
    state_cut_leave(cut);
    view_read_done(view);
}
