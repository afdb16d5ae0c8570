/* Calls of the file system that do not return: noticed by other threads, and survived by the end.
 */
#include "base/log.h"
#include "base/os_clock.h"
#include "server/audit/audit_int.h"

enum {
    STORE_STEP_MS = 100 /* The use of the store is looked at so often. */
};

void audit_is_alive(struct audit *audit)
{
    atomic_store(&audit->alive_ms, os_now_ms());
    if (atomic_exchange(&audit->hangs, false)) {
        log_info("audit", "{path}%s can be written again", audit_name(audit));
    }
}

/* While nothing waits for the file, it does not matter whether its file system answers. */
static bool is_late(struct audit *audit)
{
    uint64_t alive_ms = atomic_load(&audit->alive_ms);

    return alive_ms != 0 && os_now_ms() >= alive_ms + AUDIT_HANG_MS &&
           atomic_load(&audit->told_applied) > atomic_load(&audit->recorded);
}

bool audit_hangs(struct audit *audit)
{
    bool hangs = is_late(audit);

    if (hangs && !atomic_exchange(&audit->hangs, true)) {
        metric_add(&audit->errors, 1);
        log_warn("audit", "{path}%s cannot be written ({error}%s): {action}%s", audit_name(audit),
                 "its file system does not answer",
                 audit->options.full == AUDIT_FULL_REFUSE
                     ? "until it can, this replica takes no writes"
                     : "until it can, changes are recorded later");
    }
    return hangs;
}

/* ---- The end. ---- */

bool audit_enter_store(struct audit *audit)
{
    MUTEX_HOLD(&audit->mutex);
    audit->in_store = !audit->is_left;
    return audit->in_store;
}

void audit_leave_store(struct audit *audit)
{
    MUTEX_HOLD(&audit->mutex);
    audit->in_store = false;
}

bool audit_ends(struct audit *audit)
{
    MUTEX_HOLD(&audit->mutex);
    audit->has_ended = true;
    (void)pthread_cond_broadcast(&audit->changed);
    return audit->is_left;
}

bool audit_wait_end(struct audit *audit, uint32_t wait_ms)
{
    uint64_t end_ms = os_now_ms() + wait_ms;

    MUTEX_HOLD(&audit->mutex);
    while (!audit->has_ended && (audit->in_store || os_now_ms() < end_ms)) {
        uint64_t now_ms = os_now_ms();

        thread_wait(&audit->changed, &audit->mutex,
                    now_ms < end_ms ? end_ms - now_ms : STORE_STEP_MS);
    }
    if (!audit->has_ended) {
        log_warn("audit",
                 "{path}%s does not answer: what is not recorded yet is recorded after "
                 "the next start",
                 audit_name(audit));
        ASSERT(pthread_detach(audit->thread.handle) == 0);
        audit->is_left = true; /* From the end of this function on the thread may free all. */
        return false;
    }
    return true;
}
