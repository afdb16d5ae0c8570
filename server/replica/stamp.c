#include "server/replica/stamp.h"

#include "base/check.h"
#include "base/probe.h"

#include <stdlib.h>

static int64_t clamp(int64_t value, int64_t least, int64_t most)
{
    if (value < least) {
        return least;
    }
    return value > most ? most : value;
}

int64_t stamp_clamp(int64_t wall_ms)
{
    return clamp(wall_ms, 0, STAMP_MAX_MS);
}

static bool is_near(int64_t a, int64_t b)
{
    return a - b <= STEADY_JUMP_MS && b - a <= STEADY_JUMP_MS;
}

/* Whether the clock agrees with the value in use, or has been stable near another value for long
 * enough. */
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

    return next_ms > last_ms || ahead ? next_ms : last_ms;
}
