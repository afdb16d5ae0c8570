#include "base/budget.h"

#include "base/check.h"
#include "base/thread.h"

void budget_init(struct budget *budget, uint64_t max)
{
    ASSERT(max > 0);
    budget->max = max;
    atomic_init(&budget->used, 0);
    atomic_init(&budget->refusals, 0);
    atomic_init(&budget->peak, 0);
}

static void note_peak(struct budget *budget, uint64_t used)
{
    if (used > atomic_load_explicit(&budget->peak, memory_order_relaxed)) {
        atomic_store_explicit(&budget->peak, used, memory_order_relaxed);
    }
}

bool budget_try_take(struct budget *budget, size_t bytes)
{
    uint64_t used = atomic_load_explicit(&budget->used, memory_order_relaxed);

    /* The loop repeats only when another thread has changed `used` at the same moment, or when the
     * weak exchange has failed without such a change. Both are rare, but the number of repetitions
     * has no upper bound. */
    while (used <= budget->max && bytes <= budget->max - used) {
        if (atomic_compare_exchange_weak_explicit(&budget->used, &used, used + bytes,
                                                  memory_order_relaxed, memory_order_relaxed)) {
            note_peak(budget, used + bytes);
            return true;
        }
    }
    atomic_fetch_add_explicit(&budget->refusals, 1, memory_order_relaxed);
    return false;
}

void budget_take(struct budget *budget, size_t bytes)
{
    note_peak(budget,
              atomic_fetch_add_explicit(&budget->used, bytes, memory_order_relaxed) + bytes);
}

void budget_give(struct budget *budget, size_t bytes)
{
    uint64_t before = atomic_fetch_sub_explicit(&budget->used, bytes, memory_order_relaxed);

    ASSERT(before >= bytes);
}

uint64_t budget_used(const struct budget *budget)
{
    return atomic_load_explicit(&budget->used, memory_order_relaxed);
}

uint64_t budget_refusals(const struct budget *budget)
{
    return atomic_load_explicit(&budget->refusals, memory_order_relaxed);
}

uint64_t budget_peak(struct budget *budget)
{
    return atomic_exchange_explicit(&budget->peak, budget_used(budget), memory_order_relaxed);
}

enum budget_level budget_level(const struct budget *budget)
{
    uint64_t used = budget_used(budget);

    if (used >= budget->max) {
        return BUDGET_FULL;
    }
    return used >= budget->max - budget->max / 4 ? BUDGET_SHORT : BUDGET_ROOMY;
}

bool budget_is_relieved(const struct budget *budget)
{
    return budget_used(budget) <= budget->max / 2;
}

bool budget_relieve(struct budget_relief *relief, const struct budget *budget, uint64_t now_ms,
                    budget_cut_fn *cut, void *ctx)
{
    uint64_t used = budget_used(budget);

    if (now_ms >= relief->next_ms) {
        cut(ctx, 0);
        relief->next_ms = budget_used(budget) < used ? now_ms : now_ms + BUDGET_RELIEF_MS;
    }
    return budget_level(budget) != BUDGET_FULL;
}

void budget_relieve_early(struct budget_relief *relief, uint64_t now_ms, budget_cut_fn *cut,
                          void *ctx)
{
    if (now_ms >= relief->early_ms) {
        relief->early_ms = now_ms + BUDGET_RELIEF_MS;
        cut(ctx, BUDGET_RELIEF_GRACE_MS);
    }
}

/* ---- Shares. ---- */

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

bool budget_shares_try_take(struct budget_shares *shares, uint64_t key, size_t amount)
{
    MUTEX_HOLD(&shares->mutex);

    uint64_t taken = map_amount(&shares->taken, key);
    bool fits = taken <= shares->address_max && amount <= shares->address_max - taken &&
                budget_try_take(&shares->budget, amount);

    if (fits) {
        map_set_amount(&shares->taken, key, taken + amount);
    }
    return fits;
}

void budget_shares_take(struct budget_shares *shares, uint64_t key, size_t amount)
{
    MUTEX_HOLD(&shares->mutex);
    budget_take(&shares->budget, amount);
    map_set_amount(&shares->taken, key, map_amount(&shares->taken, key) + amount);
}

bool budget_shares_is_full(struct budget_shares *shares, uint64_t key)
{
    MUTEX_HOLD(&shares->mutex);
    return budget_level(&shares->budget) == BUDGET_FULL ||
           map_amount(&shares->taken, key) >= shares->address_max;
}

void budget_shares_give(struct budget_shares *shares, uint64_t key, size_t amount)
{
    MUTEX_HOLD(&shares->mutex);

    uint64_t taken = map_amount(&shares->taken, key);

    ASSERT(amount <= taken);
    budget_give(&shares->budget, amount);
    map_set_amount(&shares->taken, key, taken - amount);
}
