#include "server/process/buckets.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/os_rng.h"
#include "base/thread.h"

static uint64_t multiply(uint64_t a, uint64_t b)
{
    uint64_t product = 0;

    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static uint64_t add(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

void buckets_set(struct buckets *buckets, uint64_t tokens, uint64_t token_ns, uint64_t debt_ns)
{
    ASSERT(tokens > 0 && token_ns > 0);
    mutex_lock(&buckets->mutex);
    buckets->token_ns = token_ns;
    buckets->depth_ns = multiply(tokens, token_ns);
    buckets->ceiling_ns = add(buckets->depth_ns, debt_ns);
    mutex_unlock(&buckets->mutex);
}

void buckets_init(struct buckets *buckets, uint64_t tokens, uint64_t token_ns, uint64_t debt_ns)
{
    mutex_init(&buckets->mutex);
    buckets->seed = os_random_u64();
    buckets->now_ns = 0;
    buckets->sets = mem_zalloc(BUCKETS_SETS, sizeof(buckets->sets[0]));
    buckets_set(buckets, tokens, token_ns, debt_ns);
}

void buckets_release(struct buckets *buckets)
{
    mem_free(buckets->sets);
    mutex_destroy(&buckets->mutex);
}

uint64_t buckets_key(const struct buckets *buckets, uint32_t kind, struct slice text)
{
    uint64_t key = hash64(hash64_mix(buckets->seed, kind), text);

    return key != 0 ? key : 1;
}

static uint64_t owed_ns(const struct buckets *buckets, uint64_t full_ns)
{
    return full_ns > buckets->now_ns ? full_ns - buckets->now_ns : 0;
}

/* Returns the set of a key. The high half of the key selects the set. */
static struct bucket_set *set_of(struct buckets *buckets, uint64_t key)
{
    return &buckets->sets[(key >> 32) % BUCKETS_SETS];
}

/* Returns a pointer to the time at which the name's bucket will be full. The bucket is the name's
 * own one, else a free one, else the shared one of the set. When it is a free one, `ret_free`
 * points to it; else `ret_free` is NULL. */
static uint64_t *find(struct buckets *buckets, uint64_t key, struct bucket **ret_free)
{
    struct bucket_set *set = set_of(buckets, key);

    *ret_free = NULL;
    for (size_t i = 0; i < BUCKETS_WAYS; i++) {
        struct bucket *bucket = &set->ways[i];

        if (bucket->key == key) {
            *ret_free = NULL;
            return &bucket->full_ns;
        }
        if (owed_ns(buckets, bucket->full_ns) == 0) {
            *ret_free = bucket;
        }
    }
    return *ret_free ? &(*ret_free)->full_ns : &set->shared_full_ns;
}

static void begin(struct buckets *buckets, uint64_t now_ns)
{
    mutex_lock(&buckets->mutex);
    buckets->now_ns = max_u64(buckets->now_ns, now_ns);
}

static uint64_t wait_ns(const struct buckets *buckets, uint64_t full_ns, uint64_t tokens)
{
    uint64_t needed_ns = min_u64(multiply(tokens, buckets->token_ns), buckets->depth_ns);
    uint64_t after_ns = add(owed_ns(buckets, full_ns), needed_ns);

    return after_ns > buckets->depth_ns ? after_ns - buckets->depth_ns : 0;
}

/* Charges the tokens; returns the ns until the bucket is full again. */
static uint64_t charge(const struct buckets *buckets, uint64_t *full_ns, uint64_t tokens)
{
    uint64_t owed = add(owed_ns(buckets, *full_ns), multiply(tokens, buckets->token_ns));

    owed = min_u64(owed, buckets->ceiling_ns);
    *full_ns = add(buckets->now_ns, owed);
    return owed;
}

uint64_t buckets_wait(struct buckets *buckets, uint64_t key, uint64_t tokens, uint64_t now_ns)
{
    struct bucket *none = NULL;

    begin(buckets, now_ns);
    uint64_t left_ns = wait_ns(buckets, *find(buckets, key, &none), tokens);

    mutex_unlock(&buckets->mutex);
    return left_ns;
}

uint64_t buckets_charge(struct buckets *buckets, uint64_t key, uint64_t tokens, uint64_t now_ns)
{
    struct bucket *place = NULL;

    begin(buckets, now_ns);
    uint64_t owed = charge(buckets, find(buckets, key, &place), tokens);

    if (place) {
        place->key = key;
    }
    mutex_unlock(&buckets->mutex);
    return owed;
}

/* ---- Names' own buckets. ---- */

/* Returns the name's own bucket. NULL: the name has none, or a full one, which counts as none. */
static struct bucket *find_own(struct buckets *buckets, uint64_t key)
{
    struct bucket_set *set = set_of(buckets, key);

    for (size_t i = 0; i < BUCKETS_WAYS; i++) {
        struct bucket *bucket = &set->ways[i];

        if (bucket->key == key && owed_ns(buckets, bucket->full_ns) > 0) {
            return bucket;
        }
    }
    return NULL;
}

/* Gives the name the bucket of its set that is full, or will be full first. NULL: `place` does not
 * allow to take that bucket. */
static struct bucket *find_place(struct buckets *buckets, uint64_t key, enum buckets_place place)
{
    struct bucket_set *set = set_of(buckets, key);
    struct bucket *bucket = &set->ways[0];

    for (size_t i = 1; i < BUCKETS_WAYS; i++) {
        if (owed_ns(buckets, set->ways[i].full_ns) < owed_ns(buckets, bucket->full_ns)) {
            bucket = &set->ways[i];
        }
    }
    bool is_free = owed_ns(buckets, bucket->full_ns) == 0;

    if (place == BUCKETS_KEEP_OUT || (place == BUCKETS_IF_FREE && !is_free)) {
        return NULL;
    }
    *bucket = (struct bucket){.key = key};
    return bucket;
}

bool buckets_own_wait(struct buckets *buckets, uint64_t key, uint64_t tokens, uint64_t now_ns,
                      uint64_t *ret_wait_ns)
{
    begin(buckets, now_ns);
    const struct bucket *bucket = find_own(buckets, key);

    *ret_wait_ns = bucket ? wait_ns(buckets, bucket->full_ns, tokens) : 0;
    mutex_unlock(&buckets->mutex);
    return bucket != NULL;
}

uint64_t buckets_own_charge(struct buckets *buckets, uint64_t key, uint64_t tokens, uint64_t now_ns,
                            enum buckets_place place)
{
    begin(buckets, now_ns);
    struct bucket *bucket = find_own(buckets, key);

    if (!bucket) {
        bucket = find_place(buckets, key, place);
    }
    uint64_t owed = bucket ? charge(buckets, &bucket->full_ns, tokens) : 0;

    mutex_unlock(&buckets->mutex);
    return owed;
}
