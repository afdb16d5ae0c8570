/* The names of the reasons for which a change of the configuration is refused. */
#include "base/check.h"
#include "zab/zab.h"

const char *zab_fault_name(enum zab_fault fault)
{
    static const char *const names[] = {
        [ZAB_FAULT_NOT_READY] = "NotReady",
        [ZAB_FAULT_UNDER_WAY] = "UnderWay",
        [ZAB_FAULT_VERSION] = "Version",
        [ZAB_FAULT_LEVEL_FALLS] = "LevelFalls",
        [ZAB_FAULT_LEVEL_UNKNOWN] = "LevelUnknown",
        [ZAB_FAULT_LEVEL_TOO_LOW] = "LevelTooLow",
        [ZAB_FAULT_HOLD_TOO_LOW] = "HoldTooLow",
        [ZAB_FAULT_HELD] = "Held",
        [ZAB_FAULT_MEMBER_OLDER] = "MemberOlder",
        [ZAB_FAULT_MEMBER_AWAY] = "MemberAway",
        [ZAB_FAULT_MEMBERS_LEVEL] = "MembersLevel",
        [ZAB_FAULT_ID_RANGE] = "IdRange",
        [ZAB_FAULT_ID_TWICE] = "IdTwice",
        [ZAB_FAULT_ID_IN_USE] = "IdInUse",
        [ZAB_FAULT_ID_UNKNOWN] = "IdUnknown",
        [ZAB_FAULT_DISK_REMOVED] = "DiskRemoved",
        [ZAB_FAULT_TEXT] = "BadText",
        [ZAB_FAULT_NO_ADDRESS] = "NoAddress",
        [ZAB_FAULT_ADDRESS_IN_USE] = "AddressInUse",
        [ZAB_FAULT_TOO_MANY] = "TooMany",
        [ZAB_FAULT_TOO_LONG] = "TooLong",
        [ZAB_FAULT_NOT_OBSERVER] = "NotObserver",
        [ZAB_FAULT_NOT_VOTER] = "NotVoter",
        [ZAB_FAULT_NOT_IN_STEP] = "NotInStep",
        [ZAB_FAULT_LAST_VOTER] = "LastVoter",
        [ZAB_FAULT_MAJORITY] = "NoMajority",
        [ZAB_FAULT_TOLERANCE] = "MinTolerance",
        [ZAB_FAULT_NO_TOLERANCE] = "NoTolerance",
        [ZAB_FAULT_LEADER_LEAVES] = "LeaderLeaves",
        [ZAB_FAULT_NO_SUCCESSOR] = "NoSuccessor",
        [ZAB_FAULT_MAX_OBSERVERS] = "MaxObservers",
    };

    ASSERT(fault > ZAB_FAULT_NONE && fault < sizeof names / sizeof names[0] && names[fault]);
    return names[fault];
}
