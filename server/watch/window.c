#include "base/mem.h"
#include "server/state/path.h"
#include "server/watch/window_int.h"

/* ---- One set. ---- */

/* Whether the window keeps this type of effect: watches, on_change or the newest ACLs need it. */
static bool is_news(enum txn_effect_type type)
{
    return type != TXN_CHECK && type != TXN_REMEMBER && type != TXN_FORGET && type != TXN_ANSWER;
}

static uint32_t count_news(const struct state_changes *changes)
{
    uint32_t count = 0;

    for (size_t i = 0; i < changes->count; i++) {
        count += is_news(changes->items[i].type);
    }
    return count;
}

static void fill(struct state_change *change, const struct state_change *from)
{
    *change = *from;
    (void)blob_ref(from->data);
    (void)blob_ref(from->acl);
    (void)blob_ref(from->parent_acl);
}

struct change_set *change_set_new(zxid_t zxid, struct logrec *rec,
                                  const struct state_changes *changes)
{
    uint32_t count = count_news(changes);

    if (count == 0) {
        return NULL;
    }
    size_t size = sizeof(struct change_set) + count * sizeof(struct state_change);
    struct change_set *set = mem_alloc(size);

    *set = (struct change_set){.refs = 1, .zxid = zxid, .bytes = size};
    for (size_t i = 0; i < changes->count; i++) {
        const struct state_change *from = &changes->items[i];

        if (is_news(from->type)) {
            fill(&set->items[set->count++], from);
            set->bytes += from->data != NULL ? sizeof(*from->data) + from->data->len : 0;
        }
    }
    ASSERT(set->count == count);
    if (rec != NULL) {
        set->rec = logrec_ref(rec);
        set->bytes += sizeof(*rec) + rec->len;
    }
    return set;
}

struct change_set *change_set_ref(struct change_set *set)
{
    ASSERT(atomic_load_explicit(&set->refs, memory_order_relaxed) > 0);

    atomic_fetch_add_explicit(&set->refs, 1, memory_order_relaxed);
    return set;
}

void change_set_unref(struct change_set *set)
{
    if (set == NULL || atomic_fetch_sub_explicit(&set->refs, 1, memory_order_acq_rel) > 1) {
        return;
    }
    for (uint32_t i = 0; i < set->count; i++) {
        blob_unref(set->items[i].data);
        blob_unref(set->items[i].acl);
        blob_unref(set->items[i].parent_acl);
    }
    if (set->rec != NULL) {
        logrec_unref(set->rec);
    }
    mem_free(set->entries);
    mem_free(set);
}

/* ---- The window. ---- */

struct window *window_new(size_t bytes_max, uint32_t sets_max, zxid_t start)
{
    struct window *window = mem_zalloc(1, sizeof(*window));

    ASSERT(sets_max > 0);
    window->bytes_max = bytes_max;
    window->sets_max = sets_max;
    window->base = start;
    window->last = start;
    window->settled = start;
    window->ring = mem_zalloc(sets_max, sizeof(struct change_set *));
    index_init(&window->index, sets_max);
    list_init(&window->listeners);
    mutex_init(&window->mutex);
    mutex_init(&window->listeners_mutex);
    return window;
}

/* Raises `settled`. Only the core thread writes it. */
static void settle(struct window *window, zxid_t zxid)
{
    if (zxid > atomic_load_explicit(&window->settled, memory_order_relaxed)) {
        atomic_store_explicit(&window->settled, zxid, memory_order_release);
    }
}

/* Removes the oldest set, links it to the list `chain`, and returns it as the new head. The caller
 * releases the list after it has released the lock. */
static struct change_set *drop_oldest(struct window *window, struct change_set *chain)
{
    struct change_set *set = *window_place(window, 0);

    ASSERT(window->count > 0 && window->bytes >= set->bytes);
    window->first = (uint32_t)(((uint64_t)window->first + 1) % window->sets_max);
    window->count--;
    window->oldest++;
    window->bytes -= set->bytes;
    window->base = set->zxid;
    settle(window, set->zxid);
    index_drop(&window->index, set);
    set->dropped = chain;
    return set;
}

static void let_go(struct change_set *chain)
{
    while (chain != NULL) {
        struct change_set *next = chain->dropped;

        change_set_unref(chain);
        chain = next;
    }
}

static struct change_set *drop_all(struct window *window)
{
    struct change_set *chain = NULL;

    while (window->count > 0) {
        chain = drop_oldest(window, chain);
    }
    ASSERT(window->bytes == 0);
    return chain;
}

void window_free(struct window *window)
{
    if (window == NULL) {
        return;
    }
    ASSERT(list_empty(&window->listeners));
    let_go(drop_all(window));
    mutex_destroy(&window->mutex);
    mutex_destroy(&window->listeners_mutex);
    index_release(&window->index);
    mem_free(window->ring);
    mem_free(window);
}

static bool is_over(const struct window *window, const struct change_set *next)
{
    return window->bytes + window->index.bytes + next->bytes > window->bytes_max;
}

void window_append(struct window *window, struct change_set *take_set)
{
    struct change_set *dropped = NULL;

    mutex_lock(&window->mutex);
    ASSERT(take_set->zxid > window->last && take_set->count > 0 && !window->suspended);
    if (index_add(&window->index, take_set, window->oldest + window->count)) {
        settle(window, take_set->zxid);
    }
    while (window->count == window->sets_max || (window->count > 0 && is_over(window, take_set))) {
        dropped = drop_oldest(window, dropped);
    }
    *window_place(window, window->count++) = take_set;
    window->bytes += take_set->bytes;
    window->last = take_set->zxid;
    mutex_unlock(&window->mutex);
    window->news = true;
    let_go(dropped);
}

void window_skip(struct window *window, zxid_t zxid)
{
    MUTEX_HOLD(&window->mutex);
    window->last = max_u64(window->last, zxid);
}

/* Empties the window. Readers may still hold sets from before the restart. So `settled` becomes at
 * least the newest zxid of these sets: then window_acls does not accept their ACLs unchecked, and
 * returns ERR_MISSING. */
void window_restart(struct window *window, zxid_t start)
{
    mutex_lock(&window->mutex);
    struct change_set *dropped = drop_all(window);
    zxid_t settled = max_u64(window->last, start);

    window->base = start;
    window->last = start;
    window->restarts++;
    window->suspended = false;
    atomic_store_explicit(&window->settled, settled, memory_order_release);
    mutex_unlock(&window->mutex);
    window->news = true;
    let_go(dropped);
}

void window_suspend(struct window *window)
{
    MUTEX_HOLD(&window->mutex);
    window->suspended = true;
    atomic_store_explicit(&window->settled, UINT64_MAX, memory_order_release);
}

/* ---- Listeners. ---- */

void window_wake(struct window *window)
{
    if (!window->news) {
        return;
    }
    window->news = false;
    MUTEX_HOLD(&window->listeners_mutex);
    list_for_each_entry (struct window_listener, listener, node, &window->listeners) {
        listener->wake(listener->ctx);
    }
}

void window_listen(struct window *window, struct window_listener *listener)
{
    MUTEX_HOLD(&window->listeners_mutex);
    list_push_back(&window->listeners, &listener->node);
}

void window_unlisten(struct window *window, struct window_listener *listener)
{
    MUTEX_HOLD(&window->listeners_mutex);
    list_remove(&listener->node);
}

/* ---- Readers. ---- */

void window_end(struct window *window, struct window_mark *ret_end)
{
    MUTEX_HOLD(&window->mutex);
    *ret_end = (struct window_mark){.zxid = window->last, .restarts = window->restarts};
}

void window_extent(struct window *window, struct window_extent *ret_extent)
{
    MUTEX_HOLD(&window->mutex);
    *ret_extent = (struct window_extent){.base = window->base,
                                         .last = window->last,
                                         .restarts = window->restarts,
                                         .sets = window->count,
                                         .bytes = window->bytes + window->index.bytes};
}

/* Returns the number of sets up to `zxid`, which is the index of the first later one. */
static uint32_t behind(struct window *window, zxid_t zxid)
{
    uint32_t low = 0;
    uint32_t high = window->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if ((*window_place(window, middle))->zxid <= zxid) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void read_some(struct window *window, zxid_t after, struct change_set **out, size_t max,
                      size_t *ret_count, zxid_t *ret_last)
{
    uint32_t from = behind(window, after);
    size_t left = window->count - from;
    size_t count = min_size(left, max);

    for (size_t i = 0; i < count; i++) {
        out[i] = change_set_ref(*window_place(window, from + (uint32_t)i));
    }
    *ret_count = count;
    if (count < left) {
        *ret_last = count > 0 ? out[count - 1]->zxid : after;
    } else {
        *ret_last = max_u64(window->last, after);
    }
}

/* Checks that all sets after `after` are available. The mutex is held. */
static enum err check_place(const struct window *window, uint64_t life, zxid_t after)
{
    if (window->suspended) {
        return ERR_NOT_READY;
    }
    return life != window->restarts || after < window->base ? ERR_MISSING : ERR_OK;
}

enum err window_read(struct window *window, const struct window_mark *after,
                     struct change_set **out, size_t max, size_t *ret_count, zxid_t *ret_last)
{
    MUTEX_HOLD(&window->mutex);
    enum err err = check_place(window, after->restarts, after->zxid);

    *ret_count = 0;
    *ret_last = after->zxid;
    if (err == ERR_OK) {
        read_some(window, after->zxid, out, max, ret_count, ret_last);
    }
    ASSERT(*ret_last >= after->zxid);
    return err;
}

/* ---- Searches in the index: the sets of a path. ---- */

/* Returns the path whose chain has all changes below `path`: the path itself, or its deepest
 * ancestor that has such a chain. */
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

/* Moves to the previous set of a chain, if that set is still in the window. */
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

/* Returns the newer of the two sets that are next in the chains; NULL at the end of the search. */
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
    MUTEX_HOLD(&window->mutex);
    enum err err = check_place(window, search->life, search->after);

    *ret_count = err == ERR_OK ? search_some(window, search, out, max) : 0;
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

static bool fires(const struct state_change *change)
{
    return change->type == TXN_CREATE || change->type == TXN_SET || change->type == TXN_DELETE;
}

/* Returns a reference to the newest ACL of a path. The path is known, because a set in the window
 * fires an event for it. */
static struct blob *acl_of(const struct window *window, struct slice path)
{
    const struct window_path *known = index_find(&window->index, path);

    ASSERT(known != NULL && known->has_acl);
    return blob_ref(known->acl);
}

/* Looks up the newest ACLs of a set. Returns true when one of them has changed. */
static bool look_up(const struct window *window, const struct change_set *set,
                    struct set_acls *acls)
{
    bool moved = false;

    for (uint32_t i = 0; i < set->count; i++) {
        const struct state_change *change = &set->items[i];

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
    mutex_lock(&window->mutex);
    enum err err = check_place(window, life, set->zxid - 1);

    if (err == ERR_OK) {
        moved = look_up(window, set, acls);
    }
    mutex_unlock(&window->mutex);
    if (moved) {
        *ret_acls = acls;
    } else {
        set_acls_free(acls);
    }
    return err;
}

bool window_acl(struct window *window, struct slice path, struct blob **ret_acl)
{
    MUTEX_HOLD(&window->mutex);
    const struct window_path *known = index_find(&window->index, path);
    bool has_acl = known != NULL && known->has_acl;

    *ret_acl = has_acl ? blob_ref(known->acl) : NULL;
    return has_acl;
}
