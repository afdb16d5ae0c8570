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

static int64_t add_ms(int64_t age_ms, uint64_t span_ms)
{
    int64_t sum_ms = 0;

    return __builtin_add_overflow(age_ms, span_ms, &sum_ms) ? INT64_MAX : sum_ms;
}

static void set_line(struct age *age, int64_t age_ms, uint64_t now_ms)
{
    age->line_ms = age_ms;
    age->line_at = now_ms;
}

void age_heard(struct age *age, uint32_t epoch, int64_t age_ms, uint64_t now_ms)
{
    if (epoch != age->epoch || age->runs || age_ms < 0) {
        return;
    }
    if (age->heard_ms == 0) {
        set_line(age, age_ms, now_ms);
    }
    ASSERT(now_ms >= age->line_at);
    if (age->seen_ms > add_ms(age->line_ms, now_ms - age->line_at)) {
        set_line(age, age->seen_ms, now_ms);
    }
    int64_t most_ms = add_ms(age->line_ms, now_ms - age->line_at + AGE_LATE_MS);

    age->heard_ms = max(age->heard_ms, age_ms < most_ms ? age_ms : most_ms);
}

int64_t age_now(const struct age *age, uint64_t now_ms)
{
    int64_t known_ms = max(age->seen_ms, age->heard_ms);

    if (!age->runs) {
        return known_ms;
    }
    ASSERT(now_ms >= age->since_ms);
    return max(add_ms(age->base_ms, now_ms - age->since_ms), known_ms);
}

void age_turn(struct age *age, uint32_t epoch, bool own, bool leads, uint64_t now_ms)
{
    ASSERT(own || !leads);
    if (age->runs && (!leads || epoch != age->epoch)) {
        /* The age that it counted itself becomes one that it has heard. */
        age->heard_ms = age_now(age, now_ms);
        age->runs = false;
        set_line(age, age->heard_ms, now_ms);
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
