#include "server/process/confirmed.h"

#include "base/check.h"
#include "base/mem.h"

enum {
    NS_PER_MS = 1000000
};

void confirmed_init(struct confirmed *confirmed)
{
    int failed = pthread_mutex_init(&confirmed->mutex, NULL);

    ASSERT(failed == 0);
    confirmed->sets = mem_zalloc(CONFIRMED_SETS, sizeof(confirmed->sets[0]));
}

void confirmed_release(struct confirmed *confirmed)
{
    mem_free(confirmed->sets);
    (void)pthread_mutex_destroy(&confirmed->mutex);
}

static uint64_t load(const _Atomic uint64_t *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

static void store(_Atomic uint64_t *word, uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_relaxed);
}

static struct confirmed_set *set_of(struct confirmed *confirmed, const struct confirmed_name *name)
{
    return &confirmed->sets[(name->user >> 32) % CONFIRMED_SETS];
}

static struct confirmed_slot *find(struct confirmed_set *set, uint64_t identity)
{
    for (size_t i = 0; i < CONFIRMED_WAYS; i++) {
        if (load(&set->ways[i].identity) == identity) {
            return &set->ways[i];
        }
    }
    return NULL;
}

bool confirmed_has(struct confirmed *confirmed, const struct confirmed_name *name)
{
    return find(set_of(confirmed, name), name->identity) != NULL;
}

/* False as well when the clock seems to have gone back. */
static bool is_older(const struct confirmed_slot *slot, uint64_t now_ns, uint64_t ms)
{
    uint64_t used_ns = load(&slot->used_ns);

    return now_ns > used_ns && now_ns - used_ns >= ms * NS_PER_MS;
}

static bool is_super(const struct confirmed_slot *slot)
{
    return atomic_load_explicit(&slot->super, memory_order_relaxed);
}

static bool is_free(const struct confirmed_slot *slot)
{
    return load(&slot->identity) == 0;
}

/* Among the identities that lists have confirmed; the super user's do not count. */
static void count_own(const struct confirmed_set *set, const struct confirmed_name *name,
                      uint32_t *ret_user, uint32_t *ret_address)
{
    *ret_user = 0;
    *ret_address = 0;
    for (size_t i = 0; i < CONFIRMED_WAYS; i++) {
        const struct confirmed_slot *slot = &set->ways[i];

        if (!is_free(slot) && !is_super(slot) && load(&slot->address) == name->address) {
            (*ret_address)++;
            *ret_user += load(&slot->user) == name->user ? 1 : 0;
        }
    }
}

/* True when the new identity may replace this one. A user, or address, that already has all its
 * places replaces one of its own. */
static bool may_replace(const struct confirmed_slot *slot, const struct confirmed_name *name,
                        uint32_t of_user, uint32_t of_address, uint64_t now_ns)
{
    if (name->super) {
        return is_free(slot) || !is_super(slot) || is_older(slot, now_ns, CONFIRMED_IDLE_MS);
    }
    if (of_user >= CONFIRMED_OF_USER && load(&slot->user) != name->user) {
        return false;
    }
    if (of_address >= CONFIRMED_OF_ADDRESS && load(&slot->address) != name->address) {
        return false;
    }
    return is_free(slot) || (!is_super(slot) && is_older(slot, now_ns, CONFIRMED_IDLE_MS));
}

/* The least recently used slot that may be replaced; a free one was never used. NULL: none. */
static struct confirmed_slot *place_for(struct confirmed_set *set,
                                        const struct confirmed_name *name, uint64_t now_ns)
{
    struct confirmed_slot *best = NULL;
    uint32_t of_user = 0;
    uint32_t of_address = 0;

    count_own(set, name, &of_user, &of_address);
    for (size_t i = 0; i < CONFIRMED_WAYS; i++) {
        struct confirmed_slot *slot = &set->ways[i];

        if (may_replace(slot, name, of_user, of_address, now_ns) &&
            (!best || load(&slot->used_ns) < load(&best->used_ns))) {
            best = slot;
        }
    }
    return best;
}

static void take_place(struct confirmed *confirmed, const struct confirmed_name *name,
                       uint64_t now_ns)
{
    struct confirmed_set *set = set_of(confirmed, name);

    (void)pthread_mutex_lock(&confirmed->mutex);
    struct confirmed_slot *slot = find(set, name->identity) ? NULL : place_for(set, name, now_ns);

    if (slot) {
        store(&slot->used_ns, now_ns);
        store(&slot->user, name->user);
        store(&slot->address, name->address);
        atomic_store_explicit(&slot->super, name->super, memory_order_relaxed);
        store(&slot->identity, name->identity);
    }
    (void)pthread_mutex_unlock(&confirmed->mutex);
}

/* In most calls the identity is kept already, or has no place: neither takes the lock. */
void confirmed_keep(struct confirmed *confirmed, const struct confirmed_name *name, uint64_t now_ns)
{
    struct confirmed_set *set = set_of(confirmed, name);
    struct confirmed_slot *slot = find(set, name->identity);

    if (slot) {
        if (is_older(slot, now_ns, CONFIRMED_REFRESH_MS)) {
            store(&slot->used_ns, now_ns);
        }
    } else if (place_for(set, name, now_ns)) {
        take_place(confirmed, name, now_ns);
    }
}
