#include "server/replica/age.h"

#include "base/check.h"
#include "base/probe.h"

static int64_t max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

void age_seen(struct age *age, int64_t age_ms)
{
    ASSERT(age_ms >= 0);
    age->seen_ms = max(age->seen_ms, age_ms);
}

void age_heard(struct age *age, uint32_t epoch, int64_t age_ms)
{
    if (epoch == age->epoch && !age->runs && age_ms >= 0) {
        age->heard_ms = max(age->heard_ms, age_ms);
    }
}

int64_t age_now(const struct age *age, uint64_t now_ms)
{
    int64_t known_ms = max(age->seen_ms, age->heard_ms);
    int64_t sum_ms = 0;

    if (!age->runs) {
        return known_ms;
    }
    ASSERT(now_ms >= age->since_ms);
    bool over = __builtin_add_overflow(age->base_ms, now_ms - age->since_ms, &sum_ms);

    return over ? INT64_MAX : max(sum_ms, known_ms);
}

void age_turn(struct age *age, uint32_t epoch, bool own, bool leads, uint64_t now_ms)
{
    ASSERT(own || !leads);
    if (age->runs && (!leads || epoch != age->epoch)) {
        /* What it has counted itself is like what it has heard of another leader. */
        age->heard_ms = age_now(age, now_ms);
        age->runs = false;
    }
    if (epoch != age->epoch) {
        /* A leader's own epoch is its next one: there was no other leader in between. */
        age->heard_ms = (own && age->own) || MUTANT(53) ? age->heard_ms : 0;
        age->epoch = epoch;
    }
    age->own = own;
    if (leads && !age->runs) {
        age->base_ms = age_now(age, now_ms);
        age->since_ms = now_ms;
        age->runs = true;
    }
}
