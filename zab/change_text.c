/* The sentences that say why a change of the configuration was refused. */
#include "base/check.h"
#include "zab/level.h"
#include "zab/zab.h"

#include <stdio.h>
#include <string.h>

static const char *const texts[] = {
    [ZAB_FAULT_NONE] = "",
    [ZAB_FAULT_NOT_READY] =
        "no leader can change the configuration now: a majority of the voters must be in step",
    [ZAB_FAULT_UNDER_WAY] = "another change is under way: try again when it is committed",
    [ZAB_FAULT_VERSION] = "the configuration has another version: read it again",
    [ZAB_FAULT_TOO_MANY] = "an ensemble has at most 64 members, with those that now leave",
    [ZAB_FAULT_LAST_VOTER] = "no voter would be left: promote another member first",
    [ZAB_FAULT_LEVEL_TOO_LOW] = "the level is 0, which has no hold: raise the level first",
};

static const char malformed[] =
    "an address or the zone of member # is malformed: a host has at most 253 bytes, an address for "
    "clients 255, a zone 63, all of them printable ASCII without blanks";

static const char no_successor[] =
    "member # leads, and no voter that stays can take over: promote one first, or wait until one "
    "is in step";

static const char max_observers[] =
    "replica # is not added by itself: there are as many observers as 'maxObservers' permits; add "
    "it by hand, or raise that number";

/* Texts about one member, whose id stands for '#'. */
static const char *const member_texts[] = {
    [ZAB_FAULT_ID_RANGE] = "# is no id of a member: ids are 1 to 65535",
    [ZAB_FAULT_ID_TWICE] = "the change names member # twice: change it once",
    [ZAB_FAULT_ID_IN_USE] = "member # exists already: edit it, or choose another id",
    [ZAB_FAULT_ID_UNKNOWN] = "there is no member #: the list of the members shows all ids",
    [ZAB_FAULT_DISK_REMOVED] = "replica # has a removed disk: empty its data directory first",
    [ZAB_FAULT_TEXT] = malformed,
    [ZAB_FAULT_NO_ADDRESS] = "member # needs an address for other replicas: host and port",
    [ZAB_FAULT_NOT_OBSERVER] =
        "member # is no observer: it votes, or has an empty seat that the leader fills by itself",
    [ZAB_FAULT_NOT_VOTER] = "member # observes already: it has no vote to lose",
    [ZAB_FAULT_LEADER_LEAVES] =
        "member # leads: it must hand leadership over before it loses its vote",
    [ZAB_FAULT_NO_SUCCESSOR] = no_successor,
    [ZAB_FAULT_MAX_OBSERVERS] = max_observers,
};

static void put_about(const char *form, uint32_t member, char text[ZAB_TEXT_MAX])
{
    const char *rest = strchr(form, '#');

    ASSERT(rest);
    (void)snprintf(text, ZAB_TEXT_MAX, "%.*s%u%s", (int)(rest - form), form, member, rest + 1);
}

/* A member is promoted only once it has kept up with the leader for some time. */
static void put_step(const struct zab_change_report *report, char text[ZAB_TEXT_MAX])
{
    char rule[ZAB_TEXT_MAX / 2];

    (void)snprintf(rule, sizeof rule, "it must be within %u s of the leader for %u s",
                   report->lag_ms / 1000, report->needed_ms / 1000);
    if (!report->is_connected) {
        (void)snprintf(text, ZAB_TEXT_MAX, "replica %u is not connected: %s", report->member, rule);
    } else if (!report->is_synced) {
        (void)snprintf(text, ZAB_TEXT_MAX, "replica %u is still being brought in step: %s",
                       report->member, rule);
    } else {
        (void)snprintf(text, ZAB_TEXT_MAX, "replica %u lacks %llu record%s: %s, %u s so far",
                       report->member, (unsigned long long)report->lacking,
                       report->lacking == 1 ? "" : "s", rule, (unsigned)(report->step_ms / 1000));
    }
}

/* Sentences about the voters in step. */
static void put_voters(enum zab_fault fault, const struct zab_change_report *report,
                       char text[ZAB_TEXT_MAX])
{
    switch ((int)fault) {
    case ZAB_FAULT_MAJORITY:
        (void)snprintf(text, ZAB_TEXT_MAX,
                       "%u of %u voters would be in step, and a majority is %u: start the others, "
                       "or change fewer members at once",
                       report->in_step, report->voters, report->majority);
        break;
    case ZAB_FAULT_TOLERANCE:
        (void)snprintf(text, ZAB_TEXT_MAX,
                       "failures tolerated: %d after the change, %d now, and at least %d are asked "
                       "for: promote other members first, or ask for fewer",
                       report->tolerance_after, report->tolerance_before, report->tolerance_needed);
        break;
    case ZAB_FAULT_NO_TOLERANCE:
        (void)snprintf(text, ZAB_TEXT_MAX,
                       "failures tolerated: none after the change, %d now: promote other members "
                       "first, or force the change",
                       report->tolerance_before);
        break;
    }
}

/* Writes a sentence that has a number besides the member's id. */
static void put_numbers(enum zab_fault fault, const struct zab_change_report *report,
                        char text[ZAB_TEXT_MAX])
{
    switch ((int)fault) {
    case ZAB_FAULT_MEMBERS_LEVEL:
        (void)snprintf(
            text, ZAB_TEXT_MAX,
            "the level is %u: members can be changed from level %u on, so raise it first",
            report->level, ZAB_LEVEL_TEXTS);
        break;
    case ZAB_FAULT_ADDRESS_IN_USE:
        (void)snprintf(
            text, ZAB_TEXT_MAX,
            "members %u and %u would have the same address for other replicas: give each "
            "an address of its own",
            report->member, report->other);
        break;
    case ZAB_FAULT_TOO_LONG:
        (void)snprintf(text, ZAB_TEXT_MAX,
                       "the configuration would have %zu of %u bytes: use shorter names",
                       report->bytes, (unsigned)ZAB_CONFIG_BYTES_MAX);
        break;
    }
}

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
    case ZAB_FAULT_TOO_MANY:
    case ZAB_FAULT_LAST_VOTER:
        (void)snprintf(text, ZAB_TEXT_MAX, "%s", texts[fault]);
        break;
    case ZAB_FAULT_MEMBERS_LEVEL:
    case ZAB_FAULT_ADDRESS_IN_USE:
    case ZAB_FAULT_TOO_LONG:
        put_numbers(fault, report, text);
        break;
    case ZAB_FAULT_NOT_IN_STEP:
        put_step(report, text);
        break;
    case ZAB_FAULT_MAJORITY:
    case ZAB_FAULT_TOLERANCE:
    case ZAB_FAULT_NO_TOLERANCE:
        put_voters(fault, report, text);
        break;
    case ZAB_FAULT_ID_RANGE:
    case ZAB_FAULT_ID_TWICE:
    case ZAB_FAULT_ID_IN_USE:
    case ZAB_FAULT_ID_UNKNOWN:
    case ZAB_FAULT_DISK_REMOVED:
    case ZAB_FAULT_TEXT:
    case ZAB_FAULT_NO_ADDRESS:
    case ZAB_FAULT_NOT_OBSERVER:
    case ZAB_FAULT_NOT_VOTER:
    case ZAB_FAULT_LEADER_LEAVES:
    case ZAB_FAULT_NO_SUCCESSOR:
    case ZAB_FAULT_MAX_OBSERVERS:
        put_about(member_texts[fault], report->member, text);
        break;
    }
}
