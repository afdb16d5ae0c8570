/* Hard quotas on znodes and bytes at and below a path, including requests in flight. */
#include "base/check.h"
#include "server/prepare/prep_int.h"
#include "server/state/path.h"

static bool has_quotas(const struct prep_step *step)
{
    return overlay_has_quotas(&step->prep->overlay, step->state);
}

/* The next path from the root down to `path` that has a quota; `pos` starts at 0. */
static bool next_quota(const struct prep_step *step, struct slice path, size_t *pos,
                       struct slice *ret_top, struct overlay_quota *ret_quota)
{
    while (path_component(path, pos).len > 0) {
        *ret_top = slice_make(path.data, *pos);
        overlay_quota(&step->prep->overlay, step->state, *ret_top, ret_quota);
        if (ret_quota->exists) {
            return true;
        }
    }
    return false;
}

static bool is_over(uint64_t used, int64_t more, int64_t limit)
{
    return limit >= 0 && more > 0 && used + (uint64_t)more > (uint64_t)limit;
}

/* A change that makes nothing larger always passes, also above the limit. */
enum err prep_check_quota(const struct prep_step *step, struct slice path, int64_t count,
                          int64_t bytes)
{
    struct overlay_quota quota;
    struct slice top;
    size_t pos = 0;

    if (!has_quotas(step)) {
        return ERR_OK;
    }
    while (next_quota(step, path, &pos, &top, &quota)) {
        if (is_over(quota.count, count, quota.count_hard)) {
            return prep_refuse(step, ERR_QUOTA_EXCEEDED,
                               "a quota above the znode (countHardLimit) allows no more znodes");
        }
        if (is_over(quota.bytes, bytes, quota.bytes_hard)) {
            return prep_refuse(
                step, ERR_QUOTA_EXCEEDED,
                "a quota above the znode (byteHardLimit) allows fewer bytes of data");
        }
    }
    return ERR_OK;
}

void prep_count_quota(const struct prep_step *step, struct slice path, int64_t count, int64_t bytes)
{
    struct overlay_quota quota;
    struct slice top;
    size_t pos = 0;

    if (!has_quotas(step)) {
        return;
    }
    while (next_quota(step, path, &pos, &top, &quota)) {
        quota.count += (uint64_t)count;
        quota.bytes += (uint64_t)bytes;
        overlay_put_quota(&step->prep->overlay, top, step->zxid, &quota);
    }
}

/* ---- Limits znodes. ---- */

void prep_limits_set(const struct prep_step *step, struct slice path, struct slice data)
{
    struct overlay *overlay = &step->prep->overlay;
    struct overlay_quota quota;
    struct state_quota limits;
    struct slice top;

    if (!state_quota_of(path, &top)) {
        return;
    }
    overlay_quota(overlay, step->state, top, &quota);
    if (!quota.exists) {
        /* The state counts in the same way when it applies this. */
        overlay_usage(overlay, step->state, top, &quota.count, &quota.bytes);
        prep_count_limits(step, top, true);
    }
    (void)state_quota_parse(data, &limits); /* Malformed: no limits. */
    quota.exists = true;
    quota.count_hard = limits.count_hard;
    quota.bytes_hard = limits.bytes_hard;
    overlay_put_quota(overlay, top, step->zxid, &quota);
}

void prep_limits_gone(const struct prep_step *step, struct slice path)
{
    struct slice top;

    if (state_quota_of(path, &top)) {
        overlay_put_quota(&step->prep->overlay, top, step->zxid,
                          &(struct overlay_quota){.exists = false});
        prep_count_limits(step, top, false);
    }
}
