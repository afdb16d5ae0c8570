/*
 * zab_drive.h - one protocol core, driven by hand: events go in by short calls, effects are
 * recorded for inspection, the disk answers on request.
 *
 * The test plays the other replicas. The disk is a model; besides keeping its content it checks the
 * rules that the core must never break: the core acknowledges, promises and delivers nothing that
 * the model does not have.
 */
#ifndef TESTS_LIB_ZAB_DRIVE_H
#define TESTS_LIB_ZAB_DRIVE_H

#include "zab/zab.h"

enum {
    DRIVE_SEEDS_MAX = 7,
    DRIVE_RECS_MAX = 256,
    DRIVE_RANGES_MAX = 64,
    DRIVE_INCARNATION = 100, /* Replica n has the disk 100 + n. */
};

/* A history of records with a base. */
struct drive_log {
    zxid_t base;
    uint64_t base_chain;
    struct logrec *recs[DRIVE_RECS_MAX];
    size_t count;
};

void drive_log_release(struct drive_log *log);
void drive_log_reset(struct drive_log *log, zxid_t base, uint64_t chain);
struct logrec *drive_log_add(struct drive_log *log, zxid_t zxid); /* EPOCH when the counter is 0. */
struct logrec *drive_log_add_type(struct drive_log *log, enum logrec_type type, zxid_t zxid,
                                  struct slice payload);
void drive_log_cut(struct drive_log *log, zxid_t zxid);
void drive_log_copy(struct drive_log *to, const struct drive_log *from);
zxid_t drive_log_last(const struct drive_log *log);
uint64_t drive_log_chain(const struct drive_log *log, zxid_t zxid);
uint32_t drive_log_ranges(const struct drive_log *log, struct epoch_range ranges[DRIVE_RANGES_MAX]);

/* A change of the disk that is not durable yet. */
struct drive_change {
    struct zab_persist persist;
    struct zab_msg_snap_chunk last_piece; /* SNAP_CHUNK whose flags mark it as the last. */
};

struct drive {
    struct zab *zab;            /* NULL when a host has it. */
    const struct zab *observed; /* For the status. */
    /* If set, the events go to a host of the core instead, and its effects come back. */
    void (*host)(void *ctx, const struct zab_event *event, struct zab_effects *effects);
    void *host_ctx;
    struct zab_init init; /* The test may change it between drive_init and drive_start. */
    struct epoch_range ranges[DRIVE_RANGES_MAX];
    struct zab_seed seeds[DRIVE_SEEDS_MAX];
    uint64_t now_ms;
    uint64_t age_ms;
    uint8_t peer_level;      /* Level that peers say when their connection comes up. */
    struct drive_log disk;   /* The test may fill it between drive_init and drive_start. */
    struct drive_log staged; /* The log of a snapshot that is complete and not yet installed. */
    bool is_staging;
    uint32_t promised; /* On disk. */
    uint32_t promised_leader;
    bool quarantined;
    bool bootstrapping;
    bool install_fails;       /* The next received snapshot does not verify. */
    bool restores_by_hand;    /* drive_restored answers RESTORE, not the model at once. */
    zxid_t restored_end;      /* Of the snapshot; 0: its start. */
    uint64_t restored_digest; /* Of the state at that zxid. */
    /* The newest of each that needs an answer of the host; token 0: none. */
    struct zab_effect fetch;
    struct zab_effect restore;
    struct zab_snap_fetch snap_fetch[DRIVE_SEEDS_MAX + 1];
    struct zab_forwarded forwarded;
    struct drive_change *pending;
    size_t pending_count;
    struct zab_effect *seen; /* All effects since drive_clear. */
    size_t seen_count;
    size_t seen_cap;
    void **owned; /* Memory that they refer to. */
    size_t owned_count;
    size_t owned_cap;
    zxid_t delivered;
    size_t delivered_count;
    uint32_t dialogue;                       /* Of our newest CEPOCH. */
    uint64_t round;                          /* Of our newest VOTE. */
    uint32_t leader;                         /* The leader of drive_follow, ... */
    uint32_t epoch;                          /* ... in this epoch, ... */
    struct drive_log theirs;                 /* ... with this log. */
    uint32_t dialogues[DRIVE_SEEDS_MAX + 1]; /* Of the learners that the test plays. */
};

/* Replica `id` of `voters`, all of them in the configuration, with an empty log. */
void drive_init(struct drive *drive, uint32_t id, uint32_t voters);
void drive_prepare(struct drive *drive); /* Completes `init`; drive_start does it as well. */
void drive_start(struct drive *drive);
void drive_release(struct drive *drive);

/* ---- Events. ---- */

void drive_step(struct drive *drive, struct zab_event *event);
void drive_tick(struct drive *drive,
                uint64_t ms); /* First lets that much time pass, in small steps. */
void drive_pause(struct drive *drive, uint64_t ms); /* In one step, like a paused process. */
void drive_up(struct drive *drive, uint32_t peer);
void drive_up_as(struct drive *drive, uint32_t peer, uint64_t incarnation, bool bootstrapping);
void drive_down(struct drive *drive, uint32_t peer);
void drive_recv(struct drive *drive, uint32_t peer, const struct zab_msg *msg);

/* For calls into the core that are not events: takes their effects. */
void drive_take(struct drive *drive, const struct zab_effects *effects);
zxid_t drive_propose(struct drive *drive, const char *text);

/* Makes the oldest change durable and reports it; false when there is none. */
bool drive_persist_next(struct drive *drive);
void drive_persist(struct drive *drive); /* All, and those that follow from them. */
void drive_restored(struct drive *drive);
void drive_fetched(struct drive *drive); /* Answers the newest FETCH from the disk. */

/* ---- Effects since drive_clear. ---- */

void drive_clear(struct drive *drive);
const struct zab_msg *drive_sent(const struct drive *drive, uint32_t peer, enum zab_msg_type type);
size_t drive_sent_count(const struct drive *drive, uint32_t peer, enum zab_msg_type type);
const struct zab_effect *drive_effect(const struct drive *drive, enum zab_effect_type type);
const char *drive_notice(const struct drive *drive, enum zab_effect_type type); /* Its text. */
size_t drive_effect_count(const struct drive *drive, enum zab_effect_type type);
const struct zab_persist *drive_asked(const struct drive *drive, enum zab_persist_type type);
struct zab_status drive_status(const struct drive *drive);

/* ---- Election: the other replicas, all of them up, vote for `candidate`. ---- */

void drive_vote(struct drive *drive, uint32_t peer, uint32_t candidate, zxid_t zxid);
void drive_says(struct drive *drive, uint32_t peer, enum zab_state state, uint32_t leader);
void drive_elect(struct drive *drive, uint32_t candidate, zxid_t zxid);

/* ---- We lead; `peer` is a learner that the test plays. ---- */

void drive_cepoch(struct drive *drive, uint32_t peer, uint32_t promised, zxid_t zxid);
void drive_ackepoch(struct drive *drive, uint32_t peer, const struct drive_log *log,
                    uint32_t flags);
void drive_learner_says(struct drive *drive, uint32_t peer, enum zab_msg_type type, zxid_t zxid);
void drive_pong(struct drive *drive, uint32_t peer);

/* All others promise and have a copy of our log: our epoch has begun, and waits for their
 * ACK_NEWLEADER. */
void drive_establish(struct drive *drive);

/* They acknowledge it as well: BROADCAST. */
void drive_lead(struct drive *drive);

/* One more learner, in step, with a copy of our log. */
void drive_join(struct drive *drive, uint32_t peer);

/* ---- `drive->leader` leads, played by the test; its messages have our dialogue and its epoch.
 * ---- */

void drive_leader_says(struct drive *drive, struct zab_msg msg);
void drive_entry(struct drive *drive, struct logrec *rec, zxid_t commit);
void drive_newleader(struct drive *drive, struct logrec *rec);

/* Each includes all before it: elected and aware of its promise / promised and outlined / in the
 * stream after its own log / with the EPOCH record durable and acknowledged / serving. */
void drive_follow_cepoch(struct drive *drive, uint32_t leader);
void drive_follow_acked(struct drive *drive, uint32_t leader, uint32_t epoch);
void drive_follow_stream(struct drive *drive, uint32_t leader, uint32_t epoch);
void drive_follow_wait(struct drive *drive, uint32_t leader, uint32_t epoch);
void drive_follow(struct drive *drive, uint32_t leader, uint32_t epoch);

#endif
