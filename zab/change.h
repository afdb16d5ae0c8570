/*
 * change.h - changes of the configuration that a client asks for. zab.h includes it.
 */
#ifndef ZAB_CHANGE_H
#define ZAB_CHANGE_H

#include "zab/config.h"

enum {
    ZAB_TEXT_MAX = 320 /* Bytes of a sentence for the operator, with its NUL. */
};

struct zab;
struct zab_effects;

enum zab_change_what {
    ZAB_CHANGE_ADD,    /* A new member, which observes: its disk takes part in no quorum. */
    ZAB_CHANGE_REMOVE, /* An observer or an empty seat leaves. */
    ZAB_CHANGE_EDIT,   /* A member gets other texts. */
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
    bool force;     /* Raise it although members are away, which then need a later release. */
    bool sets_hold;
    uint16_t hold; /* With `sets_hold`: keep the level at this one or below; 0: no limit. */
    bool dry_run;  /* Judge the change and propose nothing. */
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
    ZAB_FAULT_ID_UNKNOWN,     /* REMOVE, EDIT: there is no such member. */
    ZAB_FAULT_VOTES,          /* REMOVE: the member is a voter. */
    ZAB_FAULT_DISK_REMOVED,   /* ADD: the disk that is connected under this id was removed. */
    ZAB_FAULT_TEXT,           /* A text is malformed or too long. */
    ZAB_FAULT_NO_ADDRESS,     /* A member would have no address for other replicas. */
    ZAB_FAULT_ADDRESS_IN_USE, /* Two members would have one address. */
    ZAB_FAULT_TOO_MANY,       /* There would be more than ZAB_MEMBERS_MAX members. */
    ZAB_FAULT_TOO_LONG,       /* The configuration would be longer than ZAB_CONFIG_BYTES_MAX. */
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
};

/* Judges a change and proposes it (leader only). `txn` is the client's transaction, at most
 * ZAB_CONFIG_TXN_MAX bytes, which the CONFIG record holds: the host gets it with the record's
 * delivery. Without a fault the record has the zxid `version` of the report, unless `dry_run` is
 * set. */
enum zab_fault zab_change(struct zab *zab, const struct zab_change *change, struct slice txn,
                          struct zab_change_report *ret_report, struct zab_effects *effects);

/* Writes the sentence that says why the change was refused and what to do: at most ZAB_TEXT_MAX - 1
 * bytes and a NUL. */
void zab_fault_text(enum zab_fault fault, const struct zab_change_report *report,
                    char text[ZAB_TEXT_MAX]);

#endif
