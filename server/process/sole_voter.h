/*
 * sole_voter.h - when a majority of the disks is lost for good, one disk becomes the only voter, as
 * with etcd's --force-new-cluster.
 *
 * One write makes the change: it replaces the configuration in the disk's identity by one in which
 * this disk alone votes. So a crash leaves the old ensemble or the new one. All of the log then
 * counts as committed, because the only voter has it. The epochs that follow are far above all
 * epochs that the lost replicas may have seen, or that another survivor may have begun since:
 * nothing but the epoch tells replicas that two logs differ. Runs offline, on a stopped replica's
 * directory.
 */
#ifndef SERVER_SOLE_VOTER_H
#define SERVER_SOLE_VOTER_H

#include "storage/store.h"
#include "zab/config.h"

/* The contents of the disk; the caller prints them before the operator decides. */
struct sole_voter {
    struct store_identity identity;
    struct zab_config config; /* The newest configuration on the disk, committed or not. */
    uint32_t promised_epoch;
    uint32_t epoch;   /* Epoch of the last record. */
    zxid_t committed; /* Commit index as this disk knows it; the true one may be higher. */
    zxid_t last;      /* Newest record; all writes after it are lost. Records after `committed` are
                         kept, although they may never have been acknowledged. */
    uint64_t torn_bytes;
    int64_t stamp_ms; /* A time at which an epoch up to these began, ms since 1970; 0: not known. */
};

/* Fills `ret_voter` from an opened store. ERR_FOREIGN: the disk is another member's. ERR_CORRUPT:
 * the disk is damaged, or in quarantine. ERR_MISSING: the disk is in no cluster, or no longer.
 * ERR_FORMAT: an earlier release has written it. ERR_NEWER: a later one has. ERR_TOO_LARGE: its
 * epochs are used up. After an error
 * `*ret_why` is the reason. */
enum err sole_voter_check(struct store *store, const struct store_report *report, uint32_t id,
                          struct sole_voter *ret_voter, const char **ret_why);

/* Makes the disk the only voter, durably, in a store that is open for changes. `history` is a new
 * random id of the history (Zk-History), `now_ms` the wall clock. The epochs skipped are 1,000, and
 * one for each second since `voter->stamp_ms`: any ensemble that continued from these epochs has
 * begun fewer. */
enum err sole_voter_write(struct store *store, const struct sole_voter *voter, uint64_t history,
                          int64_t now_ms);

#endif
