/* The end of a role, and what begins a new election. */
#include "zab/zab_int.h"

static void leave_role(struct zab *zab)
{
    switch (zab->state) {
    case ZAB_LEADING:
        lead_leave(zab);
        break;
    case ZAB_FOLLOWING:
    case ZAB_OBSERVING:
        follow_leave(zab);
        break;
    case ZAB_LOOKING:
        break;
    }
    zab->delivery.fetch_token = 0;
}

void enter_looking(struct zab *zab, const char *why)
{
    if (MUTANT(5) && may_deliver(zab)) {
        commit_to(zab, zab->trail.durable);
        deliver(zab);
    }
    leave_role(zab);
    ASSERT(zab->follow.inbox.count == 0);
    zab->state = ZAB_LOOKING;
    zab->election.settled = false;
    zab->reason = why;
    fx_role(zab);
    election_start(zab);
}

void quarantine_self(struct zab *zab, const char *reason)
{
    if (zab->quarantined) {
        return;
    }
    PROBE("zab.quarantined_while_running");
    zab->quarantined = true;
    fx_persist(zab, ZAB_PERSIST_QUARANTINE)->quarantine.reason = reason;
    fx_alarm(zab, (struct zab_notice){.type = ZAB_NOTICE_QUARANTINED, .reason = reason});
    enter_looking(zab, reason);
    ASSERT(zab->state != ZAB_LEADING);
}

static bool is_serving(const struct zab *zab)
{
    bool whole = zab->delivery.last >= zab->delivery.fuzzy_end || MUTANT(38);

    return may_deliver(zab) && zab->restore.under_way == 0 && whole &&
           zab->delivery.last >= zxid_make(zxid_epoch(zab->trail.last), 0) && !zab->quarantined;
}

void note_serving(struct zab *zab)
{
    if (is_serving(zab) != zab->was_serving) {
        zab->was_serving = !zab->was_serving;
        fx_role(zab);
    }
}
