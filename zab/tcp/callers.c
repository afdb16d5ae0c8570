#include "zab/tcp/callers.h"

#include "base/check.h"
#include "base/minmax.h"

#include <netinet/in.h>
#include <string.h>

struct caller caller_of(const struct sockaddr_storage *address)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    struct caller caller = {.bytes = {0}};

    if (address->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)address;

        memcpy(caller.bytes + 4, &in->sin_addr, 4);
    } else if (address->ss_family == AF_INET6) {
        const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)address;
        bool is_v4 = memcmp(&in->sin6_addr, mapped, sizeof(mapped)) == 0;

        if (is_v4) {
            memcpy(caller.bytes + 4, in->sin6_addr.s6_addr + sizeof(mapped), 4);
        } else {
            memcpy(caller.bytes, &in->sin6_addr, sizeof(caller.bytes));
        }
    }
    return caller;
}

bool caller_eq(const struct caller *a, const struct caller *b)
{
    return memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

static bool has_permit(const struct callers_rate *rate, uint64_t per_s, uint64_t burst,
                       uint64_t now_us)
{
    return rate->due_us <= now_us + (burst - 1) * (1000000 / per_s);
}

static void take_permit(struct callers_rate *rate, uint64_t per_s, uint64_t now_us)
{
    rate->due_us = max_u64(rate->due_us, now_us) + 1000000 / per_s;
}

/* Returns the place of the caller, else the one that was not used for the longest time. */
static size_t find(const struct callers *callers, const struct caller *caller)
{
    size_t oldest = 0;

    for (size_t i = 0; i < CALLERS_PLACES; i++) {
        if (callers->places[i].seen_ms != 0 && caller_eq(&callers->places[i].caller, caller)) {
            return i;
        }
        oldest = callers->places[i].seen_ms < callers->places[oldest].seen_ms ? i : oldest;
    }
    return oldest;
}

bool callers_admit(struct callers *callers, const struct caller *caller, bool known,
                   uint64_t now_ms)
{
    ASSERT(now_ms > 0);

    __typeof__(&callers->places[0]) place = &callers->places[find(callers, caller)];
    uint64_t now_us = now_ms * 1000;
    bool is_first = place->seen_ms == 0 || !caller_eq(&place->caller, caller) ||
                    now_ms - place->seen_ms >= CALLERS_FRESH_MS;
    struct callers_rate *all = is_first ? &callers->firsts : &callers->others;

    if (is_first) {
        place->caller = *caller;
        place->rate.due_us = 0;
    }
    place->seen_ms = now_ms;
    if (!has_permit(&place->rate, CALLERS_PER_S, CALLERS_BURST, now_us) ||
        (!known && !has_permit(all, CALLERS_ALL_PER_S, CALLERS_ALL_PER_S, now_us))) {
        place->seen_ms = is_first ? 0 : now_ms; /* The next attempt is the first one again. */
        return false;
    }
    take_permit(&place->rate, CALLERS_PER_S, now_us);
    if (!known) {
        take_permit(all, CALLERS_ALL_PER_S, now_us);
    }
    return true;
}
