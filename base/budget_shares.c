#include "base/budget_shares.h"

#include "base/check.h"
#include "base/thread.h"

void budget_shares_init(struct budget_shares *shares, uint64_t max, uint64_t address_max)
{
    budget_init(&shares->budget, max);
    mutex_init(&shares->mutex);
    map_init(&shares->taken);
    shares->address_max = address_max;
}

void budget_shares_release(struct budget_shares *shares)
{
    ASSERT(map_count(&shares->taken) == 0);
    map_release(&shares->taken);
    mutex_destroy(&shares->mutex);
}

void budget_shares_forget(struct budget_shares *shares)
{
    budget_give(&shares->budget, budget_used(&shares->budget));
    map_release(&shares->taken);
    map_init(&shares->taken);
}

static uint64_t taken_by(const struct budget_shares *shares, uint64_t key)
{
    return (uintptr_t)map_get_u64(&shares->taken, key);
}

static void set_taken(struct budget_shares *shares, uint64_t key, uint64_t amount)
{
    if (amount == 0) {
        (void)map_remove_u64(&shares->taken, key);
    } else {
        // NOLINTNEXTLINE(performance-no-int-to-ptr): an amount, never followed.
        (void)map_put_u64(&shares->taken, key, (void *)(uintptr_t)amount);
    }
}

bool budget_shares_try_take(struct budget_shares *shares, uint64_t key, size_t amount)
{
    MUTEX_HOLD(&shares->mutex);

    uint64_t taken = taken_by(shares, key);
    bool fits = taken <= shares->address_max && amount <= shares->address_max - taken &&
                budget_try_take(&shares->budget, amount);

    if (fits) {
        set_taken(shares, key, taken + amount);
    }
    return fits;
}

void budget_shares_take(struct budget_shares *shares, uint64_t key, size_t amount)
{
    MUTEX_HOLD(&shares->mutex);
    budget_take(&shares->budget, amount);
    set_taken(shares, key, taken_by(shares, key) + amount);
}

void budget_shares_give(struct budget_shares *shares, uint64_t key, size_t amount)
{
    MUTEX_HOLD(&shares->mutex);

    uint64_t taken = taken_by(shares, key);

    ASSERT(amount <= taken);
    budget_give(&shares->budget, amount);
    set_taken(shares, key, taken - amount);
}
