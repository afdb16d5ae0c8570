#include "server/replica/clock.h"

#include "base/check.h"
#include "base/probe.h"

#include <stdlib.h>

/* ---- Age. ---- */

void age_seen(struct age *age, int64_t age_ms)
{
    ASSERT(age_ms >= 0);
    age->seen_ms = max_i64(age->seen_ms, age_ms);
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

    age->heard_ms = max_i64(age->heard_ms, min_i64(age_ms, most_ms));
}

int64_t age_now(const struct age *age, uint64_t now_ms)
{
    int64_t known_ms = max_i64(age->seen_ms, age->heard_ms);

    if (!age->runs) {
        return known_ms;
    }
    ASSERT(now_ms >= age->since_ms);
    return max_i64(add_ms(age->base_ms, now_ms - age->since_ms), known_ms);
}

void age_turn(struct age *age, uint32_t epoch, bool own, bool leads, uint64_t now_ms)
{
    ASSERT(own || !leads);
    if (age->runs && (!leads || epoch != age->epoch)) {
        /* The age that this replica has counted as leader is kept like an age from a heartbeat. */
        age->heard_ms = age_now(age, now_ms);
        age->runs = false;
        set_line(age, age->heard_ms, now_ms);
    }
    if (epoch != age->epoch) {
        /* When a leader begins its own next epoch, the age stays valid: no other leader was in
         * between. */
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

/* ---- Stamp. ---- */

static int64_t clamp(int64_t value, int64_t least, int64_t most)
{
    return max_i64(least, min_i64(value, most));
}

int64_t stamp_clamp(int64_t wall_ms)
{
    return clamp(wall_ms, 0, STAMP_MAX_MS);
}

static bool is_near(int64_t a, int64_t b)
{
    return a - b <= STEADY_JUMP_MS && b - a <= STEADY_JUMP_MS;
}

/* Whether to use the wall clock as it is: `ahead_ms`, its difference from the monotonic clock, has
 * not jumped, or has been stable for STEADY_SETTLE_MS since it jumped. */
static bool is_believed(const struct steady *steady, uint64_t now_ms, int64_t ahead_ms)
{
    if (!steady->known || is_near(ahead_ms, steady->ahead_ms) || MUTANT(55)) {
        return true;
    }
    return steady->jumped && is_near(ahead_ms, steady->jump_ahead_ms) &&
           now_ms - steady->jump_ms >= STEADY_SETTLE_MS;
}

int64_t steady_read(struct steady *steady, uint64_t now_ms, int64_t wall_ms)
{
    int64_t ahead_ms = stamp_clamp(wall_ms) - (int64_t)now_ms;

    ASSERT(now_ms <= (uint64_t)STAMP_MAX_MS);
    if (is_believed(steady, now_ms, ahead_ms)) {
        *steady = (struct steady){.known = true, .ahead_ms = ahead_ms};
    } else if (!steady->jumped || !is_near(ahead_ms, steady->jump_ahead_ms)) {
        steady->jumped = true;
        steady->jump_ahead_ms = ahead_ms;
        steady->jump_ms = now_ms;
    }
    return (int64_t)now_ms + steady->ahead_ms;
}

static int latest_first(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;

    return x > y ? -1 : x < y;
}

int64_t stamp_reached(int64_t *clocks_ms, size_t count, size_t needed)
{
    ASSERT(needed > 0);
    if (count < needed) {
        return 0;
    }
    qsort(clocks_ms, count, sizeof(clocks_ms[0]), latest_first);
    return stamp_clamp(clocks_ms[needed - 1]);
}

int64_t stamp_next(int64_t last_ms, int64_t wall_ms, const struct reached *reached)
{
    ASSERT(reached->least_ms >= 0 && reached->least_ms <= reached->most_ms);
    ASSERT(reached->most_ms <= STAMP_MAX_MS);
    int64_t next_ms = stamp_clamp(
        clamp(wall_ms, reached->least_ms - STAMP_SLACK_MS, reached->least_ms + STAMP_SLACK_MS));
    bool ahead = last_ms > reached->most_ms + STAMP_SLACK_MS + STAMP_HOLD_MS;

    return ahead ? next_ms : max_i64(next_ms, last_ms);
}
