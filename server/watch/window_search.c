/* Searches in the index of the window: the sets of a path, and the newest ACLs. */
#include "base/check.h"
#include "base/mem.h"
#include "server/state/path.h"
#include "server/watch/window_int.h"

/* With the mutex held: whether all sets after `after` are available. */
static enum err check_place(const struct window *window, uint64_t life, zxid_t after)
{
    if (window->suspended) {
        return ERR_NOT_READY;
    }
    return life != window->restarts || after < window->base ? ERR_MISSING : ERR_OK;
}

/* ---- The sets of a path. ---- */

/* The path whose chain has all changes below this one: itself, or its deepest ancestor that has
 * such a chain. */
static struct slice path_above(struct slice path)
{
    uint32_t depth = 0;

    for (size_t i = 1; i < path.len; i++) {
        depth += path.data[i] == '/';
        if (depth == WINDOW_DEPTH_MAX) {
            return slice_make(path.data, i);
        }
    }
    return path;
}

static void begin_chain(struct window_search *search, const struct window_path *path,
                        enum window_role role)
{
    if (path != NULL && path->chains[role].sets > 0) {
        search->number[role] = path->chains[role].newest;
        search->at[role] = path->chains[role].newest_at;
        search->more[role] = true;
    }
}

static void begin(const struct window *window, struct window_search *search)
{
    search->begun = true;
    begin_chain(search, index_find(&window->index, search->path), WINDOW_AT);
    if (search->below) {
        begin_chain(search, index_find(&window->index, path_above(search->path)), WINDOW_BELOW);
    }
}

/* Moves to the previous set, if it is still in the window. */
static void step(struct window *window, struct window_search *search, int role)
{
    uint64_t number = search->number[role];
    const struct change_set *set = *window_place(window, (uint32_t)(number - window->oldest));

    ASSERT(search->at[role] < set->entry_count);
    const struct window_entry *entry = &set->entries[search->at[role]];
    uint32_t distance = (uint32_t)number - entry->prev;

    search->more[role] = distance > 0 && number - window->oldest >= distance;
    search->number[role] = number - distance;
    search->at[role] = entry->prev_at;
}

/* The next set of both chains, or NULL. */
static struct change_set *next_set(struct window *window, struct window_search *search)
{
    uint64_t number = 0;
    bool found = false;

    for (int role = 0; role < WINDOW_ROLES; role++) {
        if (search->more[role] && (!found || search->number[role] > number)) {
            number = search->number[role];
            found = true;
        }
    }
    if (!found || number < window->oldest) {
        return NULL;
    }
    struct change_set *set = *window_place(window, (uint32_t)(number - window->oldest));

    if (set->zxid <= search->after) {
        return NULL;
    }
    for (int role = 0; role < WINDOW_ROLES; role++) {
        if (search->more[role] && search->number[role] == number) {
            step(window, search, role);
        }
    }
    return set;
}

static size_t search_some(struct window *window, struct window_search *search,
                          struct change_set **out, size_t max)
{
    size_t count = 0;

    if (!search->begun) {
        begin(window, search);
    }
    for (uint32_t looks = 0; looks < WINDOW_HOLD_MAX && count < max; looks++) {
        struct change_set *set = next_set(window, search);

        if (set == NULL) {
            search->done = true;
            return count;
        }
        search->looked++;
        if (set->zxid <= search->upto) {
            out[count++] = change_set_ref(set);
        }
    }
    return count;
}

enum err window_search(struct window *window, struct window_search *search, struct change_set **out,
                       size_t max, size_t *ret_count)
{
    ASSERT(!search->done && max > 0);

    *ret_count = 0;
    window_lock(window);
    enum err err = check_place(window, search->life, search->after);

    if (err == ERR_OK) {
        *ret_count = search_some(window, search, out, max);
    }
    window_unlock(window);
    return err;
}

/* ---- The newest ACLs. ---- */

void set_acls_free(struct set_acls *acls)
{
    for (uint32_t i = 0; acls != NULL && i < acls->count; i++) {
        blob_unref(acls->items[i].own);
        blob_unref(acls->items[i].parent);
    }
    mem_free(acls);
}

static bool fires(const struct change *change)
{
    return change->type == TXN_CREATE || change->type == TXN_SET || change->type == TXN_DELETE;
}

/* The set is in the window, so each path that fires an event is known. */
static struct blob *acl_of(const struct window *window, struct slice path)
{
    const struct window_path *known = index_find(&window->index, path);

    ASSERT(known != NULL && known->has_acl);
    return blob_ref(known->acl);
}

/* True when one of them has changed. */
static bool look_up(const struct window *window, const struct change_set *set,
                    struct set_acls *acls)
{
    bool moved = false;

    for (uint32_t i = 0; i < set->count; i++) {
        const struct change *change = &set->items[i];

        if (fires(change)) {
            acls->items[i].own = acl_of(window, change->path);
            moved = moved || !window_same_acl(acls->items[i].own, change->acl);
        }
        if (fires(change) && change->type != TXN_SET) {
            acls->items[i].parent = acl_of(window, path_parent(change->path));
            moved = moved || !window_same_acl(acls->items[i].parent, change->parent_acl);
        }
    }
    return moved;
}

enum err window_acls(struct window *window, uint64_t life, const struct change_set *set,
                     struct set_acls **ret_acls)
{
    bool moved = false;

    *ret_acls = NULL;
    if (set->zxid > atomic_load_explicit(&window->settled, memory_order_acquire)) {
        return ERR_OK;
    }
    struct set_acls *acls = mem_zalloc(1, sizeof(*acls) + set->count * sizeof(acls->items[0]));

    acls->count = set->count;
    window_lock(window);
    enum err err = check_place(window, life, set->zxid - 1);

    if (err == ERR_OK) {
        moved = look_up(window, set, acls);
    }
    window_unlock(window);
    if (moved) {
        *ret_acls = acls;
    } else {
        set_acls_free(acls);
    }
    return err;
}

bool window_acl(struct window *window, struct slice path, struct blob **ret_acl)
{
    window_lock(window);
    const struct window_path *known = index_find(&window->index, path);
    bool has_acl = known != NULL && known->has_acl;

    *ret_acl = has_acl ? blob_ref(known->acl) : NULL;
    window_unlock(window);
    return has_acl;
}
