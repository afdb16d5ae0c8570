#include "tls/shares.h"

#include "base/check.h"
#include "base/mem.h"

struct tls_shares_address {
    uint64_t key;
    struct list turn;     /* In `turns` while any waits. */
    struct list holder;   /* In `holders` while any has a place. */
    struct list waiting;  /* The oldest first. */
    struct list held;     /* By `patient_ms`, and so is `extended`. */
    struct list extended; /* Their time was lengthened. */
    uint64_t count;       /* Of `held` and `extended`. */
};

void tls_shares_init(struct tls_shares *shares)
{
    map_init(&shares->addresses);
    list_init(&shares->turns);
    list_init(&shares->holders);
    shares->holder_count = 0;
    shares->count = 0;
}

void tls_shares_release(struct tls_shares *shares)
{
    ASSERT(map_count(&shares->addresses) == 0 && shares->count == 0);
    map_release(&shares->addresses);
}

static struct tls_shares_address *address_of(struct tls_shares *shares, uint64_t key)
{
    struct tls_shares_address *address = map_get_u64(&shares->addresses, key);

    if (!address) {
        address = mem_zalloc(1, sizeof(*address));
        address->key = key;
        list_init(&address->waiting);
        list_init(&address->held);
        list_init(&address->extended);
        (void)map_put_u64(&shares->addresses, key, address);
    }
    return address;
}

void tls_shares_wait(struct tls_shares *shares, struct tls_shares_one *one, uint64_t address_key)
{
    struct tls_shares_address *address = address_of(shares, address_key);

    one->address = address;
    one->held = false;
    if (list_empty(&address->waiting)) {
        list_push_back(&shares->turns, &address->turn);
    }
    list_push_back(&address->waiting, &one->node);
}

struct tls_shares_one *tls_shares_next(struct tls_shares *shares)
{
    struct tls_shares_address *address = NULL;

    if (list_empty(&shares->turns)) {
        return NULL;
    }
    address = list_first(&shares->turns, struct tls_shares_address, turn);
    return list_first(&address->waiting, struct tls_shares_one, node);
}

static void stop_waiting(struct tls_shares_one *one)
{
    struct tls_shares_address *address = one->address;

    list_remove(&one->node);
    if (list_empty(&address->waiting)) {
        list_remove(&address->turn);
    }
}

void tls_shares_hold(struct tls_shares *shares, struct tls_shares_one *one, uint64_t patient_ms)
{
    struct tls_shares_address *address = one->address;

    ASSERT(!one->held);
    stop_waiting(one);
    if (!list_empty(&address->waiting)) { /* The other addresses come first now. */
        list_remove(&address->turn);
        list_push_back(&shares->turns, &address->turn);
    }
    if (address->count == 0) {
        list_push_back(&shares->holders, &address->holder);
        shares->holder_count++;
    }
    address->count++;
    shares->count++;
    one->held = true;
    one->patient_ms = patient_ms;
    list_push_back(&address->held, &one->node);
}

void tls_shares_extend(struct tls_shares_one *one, uint64_t patient_ms)
{
    ASSERT(one->held && patient_ms >= one->patient_ms);
    one->patient_ms = patient_ms;
    list_remove(&one->node);
    list_push_back(&one->address->extended, &one->node);
}

static struct tls_shares_one *first_over(const struct list *held, uint64_t now_ms)
{
    struct tls_shares_one *one = NULL;

    if (!list_empty(held)) {
        one = list_first(held, struct tls_shares_one, node);
    }
    return one && now_ms >= one->patient_ms ? one : NULL;
}

/* The average number of places per address is the least that may lose one; at least one address has
 * that many. */
struct tls_shares_one *tls_shares_weakest(struct tls_shares *shares, uint64_t now_ms)
{
    uint64_t least = shares->count / (shares->holder_count > 0 ? shares->holder_count : 1);
    struct tls_shares_one *weakest = NULL;

    list_for_each_entry (struct tls_shares_address, address, holder, &shares->holders) {
        if (address->count >= least) {
            struct tls_shares_one *one = first_over(&address->held, now_ms);

            one = one ? one : first_over(&address->extended, now_ms);
            weakest = one ? one : weakest;
            least = one ? address->count + 1 : least;
        }
    }
    return weakest;
}

void tls_shares_leave(struct tls_shares *shares, struct tls_shares_one *one)
{
    struct tls_shares_address *address = one->address;

    if (one->held) {
        list_remove(&one->node);
        address->count--;
        shares->count--;
    } else {
        stop_waiting(one);
    }
    if (one->held && address->count == 0) {
        list_remove(&address->holder);
        shares->holder_count--;
    }
    one->held = false;
    one->address = NULL;
    if (address->count == 0 && list_empty(&address->waiting)) {
        (void)map_remove_u64(&shares->addresses, address->key);
        mem_free(address);
    }
}
