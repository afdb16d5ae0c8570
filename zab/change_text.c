/* The sentences that say why a change of the configuration was refused. */
#include "base/check.h"
#include "zab/zab.h"

#include <stdio.h>

static const char *const texts[] = {
    [ZAB_FAULT_NONE] = "",
    [ZAB_FAULT_NOT_READY] =
        "no leader can change the configuration now: a majority of the voters must be in step",
    [ZAB_FAULT_UNDER_WAY] = "another change is under way: try again when it is committed",
    [ZAB_FAULT_VERSION] = "the configuration has another version: read it again",
    [ZAB_FAULT_LEVEL_TOO_LOW] = "the level is 0, which has no hold: raise the level first",
};

void zab_fault_text(enum zab_fault fault, const struct zab_change_report *report,
                    char text[ZAB_TEXT_MAX])
{
    switch (fault) {
    case ZAB_FAULT_LEVEL_FALLS:
        (void)snprintf(text, ZAB_TEXT_MAX, "the level is %u: it can only be raised", report->level);
        break;
    case ZAB_FAULT_LEVEL_UNKNOWN:
        (void)snprintf(text, ZAB_TEXT_MAX,
                       "the release of the leader knows levels up to %u: upgrade it first",
                       report->level);
        break;
    case ZAB_FAULT_HOLD_TOO_LOW:
        (void)snprintf(text, ZAB_TEXT_MAX, "the level is %u: it cannot be held below",
                       report->level);
        break;
    case ZAB_FAULT_HELD:
        (void)snprintf(text, ZAB_TEXT_MAX, "the level is held at %u: change the hold first",
                       report->hold);
        break;
    case ZAB_FAULT_MEMBER_OLDER:
        (void)snprintf(text, ZAB_TEXT_MAX,
                       "the release of member %u knows levels up to %u: upgrade it first",
                       report->member, report->level);
        break;
    case ZAB_FAULT_MEMBER_AWAY:
        (void)snprintf(text, ZAB_TEXT_MAX,
                       "member %u has not been connected for %u s: wait, or raise the level by "
                       "force if the member is gone for good",
                       report->member, report->level_ms / 1000);
        break;
    case ZAB_FAULT_NONE:
    case ZAB_FAULT_NOT_READY:
    case ZAB_FAULT_UNDER_WAY:
    case ZAB_FAULT_VERSION:
    case ZAB_FAULT_LEVEL_TOO_LOW:
        (void)snprintf(text, ZAB_TEXT_MAX, "%s", texts[fault]);
        break;
    }
}
