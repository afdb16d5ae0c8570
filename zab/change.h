/*
 * change.h - changes of the configuration that a client asks for. zab.h includes it.
 */
#ifndef ZAB_CHANGE_H
#define ZAB_CHANGE_H

#include "zab/config.h"

enum {
    ZAB_TEXT_MAX = 320,        /* Bytes of a sentence for the operator, with its NUL. */
    ZAB_TOLERANCE_DEFAULT = -1 /* See zab_change.min_tolerance. */
};

struct zab;
struct zab_effects;

enum zab_change_what {
    ZAB_CHANGE_ADD,     /* A new member, which observes: its disk takes part in no quorum. */
    ZAB_CHANGE_REMOVE,  /* A member leaves for good; its disk may not come back. */
    ZAB_CHANGE_EDIT,    /* A member gets other texts. */
    ZAB_CHANGE_PROMOTE, /* An observer that is in step becomes a voter, with its present disk. */
    ZAB_CHANGE_DEMOTE,  /* A voter, an empty seat or a joining member becomes an observer. */
};

/* What a change does with one member. */
struct zab_change_item {
    enum zab_change_what what;
    uint32_t id;
    bool joining;           /* ADD: it is to become a voter once it is in step. */
    struct zab_texts texts; /* ADD: all of them; EDIT: those that the next three name. */
    bool sets_address;      /* EDIT: host and port. */
    bool sets_client;
    bool sets_zone;
};

/* A change of the configuration that a client asks for. */
struct zab_change {
    bool checks_version; /* Refused unless the committed configuration has this version. */
    zxid_t version;
    const struct zab_change_item *items; /* At most one for each id. */
    uint32_t item_count;
    uint16_t level; /* Raise the level to this one; 0: leave it. */
    /* Raise the level although members are away, which then need a later release; change the voters
     * although the ensemble will then tolerate no failure. */
    bool force;
    bool sets_hold;
    uint16_t hold; /* With `sets_hold`: keep the level at this one or below; 0: no limit. */
    bool dry_run;  /* Judge the change and propose nothing. */
    /* The new configuration must tolerate so many failures. ZAB_TOLERANCE_DEFAULT: one fewer than
     * the present one. */
    int32_t min_tolerance;
};

enum zab_fault {
    ZAB_FAULT_NONE,
    ZAB_FAULT_NOT_READY,      /* This replica does not lead, or no quorum is in step. */
    ZAB_FAULT_UNDER_WAY,      /* Another change is not committed yet. */
    ZAB_FAULT_VERSION,        /* The configuration has another version. */
    ZAB_FAULT_LEVEL_FALLS,    /* The level is not below the one that is asked for. */
    ZAB_FAULT_LEVEL_UNKNOWN,  /* The leader's release does not know the level. */
    ZAB_FAULT_LEVEL_TOO_LOW,  /* Level 0 has no hold. */
    ZAB_FAULT_HOLD_TOO_LOW,   /* The level is above the hold that is asked for. */
    ZAB_FAULT_HELD,           /* The hold is below the level that is asked for. */
    ZAB_FAULT_MEMBER_OLDER,   /* The release of a member does not know the level. */
    ZAB_FAULT_MEMBER_AWAY,    /* A member has not been connected for long enough. */
    ZAB_FAULT_MEMBERS_LEVEL,  /* Members can be changed from ZAB_LEVEL_TEXTS on. */
    ZAB_FAULT_ID_RANGE,       /* Ids are 1 to ZAB_ID_MAX. */
    ZAB_FAULT_ID_TWICE,       /* Two items have one id. */
    ZAB_FAULT_ID_IN_USE,      /* ADD: there is such a member. */
    ZAB_FAULT_ID_UNKNOWN,     /* All but ADD: there is no such member. */
    ZAB_FAULT_DISK_REMOVED,   /* ADD: the disk that is connected under this id was removed. */
    ZAB_FAULT_TEXT,           /* A text is malformed or too long. */
    ZAB_FAULT_NO_ADDRESS,     /* A member would have no address for other replicas. */
    ZAB_FAULT_ADDRESS_IN_USE, /* Two members would have one address. */
    ZAB_FAULT_TOO_MANY,       /* There would be more than ZAB_MEMBERS_MAX members. */
    ZAB_FAULT_TOO_LONG,       /* The configuration would be longer than ZAB_CONFIG_BYTES_MAX. */
    ZAB_FAULT_NOT_OBSERVER,   /* PROMOTE: the member votes, or has an empty seat. */
    ZAB_FAULT_NOT_VOTER,      /* DEMOTE: the member observes. */
    ZAB_FAULT_NOT_IN_STEP,    /* PROMOTE: the member is not in step, or not for long enough. */
    ZAB_FAULT_LAST_VOTER,     /* No voter would be left. */
    ZAB_FAULT_MAJORITY,       /* The voters in step would be no majority. */
    ZAB_FAULT_TOLERANCE,      /* Fewer failures would be tolerated than `min_tolerance`. */
    ZAB_FAULT_NO_TOLERANCE,   /* No failure would be tolerated any more; `force` permits it. */
    ZAB_FAULT_LEADER_LEAVES,  /* The leader would lose its vote: see zab_hand_over. */
    ZAB_FAULT_NO_SUCCESSOR,   /* The same, and no voter that stays can lead. */
    ZAB_FAULT_MAX_OBSERVERS,  /* `auto_join`: there are `max_observers` already. */
};

struct zab_change_report {
    zxid_t previous;   /* Version of the configuration that the change was judged against. */
    zxid_t version;    /* Version of the new one; 0: nothing was proposed. */
    uint32_t member;   /* The member that the fault is about. */
    uint32_t other;    /* ADDRESS_IN_USE: the member that has the address. */
    size_t bytes;      /* TOO_LONG */
    uint16_t level;    /* The level, or the highest that the release of leader or member knows. */
    uint16_t hold;     /* HELD */
    uint32_t level_ms; /* MEMBER_AWAY: how long a member must have been connected. */

    /* How many failures of voters in step the configuration tolerates: voters in step, the leader
     * included, without the majority. Negative: not even without a failure. Set once all items have
     * been judged, before (`previous`) and after the change. */
    int32_t tolerance_before;
    int32_t tolerance_after;
    int32_t tolerance_needed; /* TOLERANCE */
    uint32_t voters;          /* Voters of the new configuration, ... */
    uint32_t majority;        /* ... how many of them are a majority, ... */
    uint32_t in_step;         /* ... and how many of them are in step. */
    bool is_early;      /* NOT_READY: this leader is new, and voters are still being brought in
                           step. Judge the change again soon. */
    bool leader_leaves; /* This leader would lose its vote. A dry run has no fault then. */

    /* NOT_IN_STEP */
    bool is_connected;
    bool is_synced;     /* It has the leader's log up to the beginning of the epoch. */
    uint64_t lacking;   /* If synced: records of the leader's log that it has not acknowledged. */
    uint64_t step_ms;   /* For how long it has been in step; 0: it is not. */
    uint32_t needed_ms; /* For how long it must have been in step. */
    uint32_t lag_ms;    /* In step: it has what the leader's log had so long ago. */
};

/* Judges a change and proposes it (leader only). `txn` is the client's transaction, at most
 * ZAB_CONFIG_TXN_MAX bytes, which the CONFIG record holds: the host gets it with the record's
 * delivery. Without a fault the record has the zxid `version` of the report, unless `dry_run` is
 * set. */
enum zab_fault zab_change(struct zab *zab, const struct zab_change *change, struct slice txn,
                          struct zab_change_report *ret_report, struct zab_effects *effects);

/* Makes the leader hand over to another voter in step, because a change that it was asked for would
 * take its vote. It proposes nothing from now on, and its role ends in one of the next steps: the
 * request is then judged by its successor. If no voter can lead within a tick, this leader
 * continues, and the host refuses the request with ZAB_FAULT_NO_SUCCESSOR. False: it does not lead,
 * or hands over already. */
bool zab_hand_over(struct zab *zab);

/* Writes the sentence that says why the change was refused and what to do: at most ZAB_TEXT_MAX - 1
 * bytes and a NUL. */
void zab_fault_text(enum zab_fault fault, const struct zab_change_report *report,
                    char text[ZAB_TEXT_MAX]);

/* Returns the name of the fault for programs, "IdInUse"; it never changes. */
const char *zab_fault_name(enum zab_fault fault);

#endif
