/*
 * survivor.h - a majority of the disks is lost for good: one survivor continues alone.
 *
 * The whole change is one write of the disk's identity, whose founding configuration is replaced by
 * one in which this disk alone votes; so a crash leaves the old ensemble or the new one. Everything
 * in the survivor's log counts as committed then, because its only voter has it. The epochs that
 * follow are far above all that the lost replicas may have seen. Offline, on a stopped replica's
 * directory.
 */
#ifndef SERVER_SURVIVOR_H
#define SERVER_SURVIVOR_H

#include "storage/store.h"
#include "zab/config.h"

/* What the disk has; the caller prints it before anybody decides. */
struct survivor {
    struct store_identity identity;
    struct zab_config config; /* The newest one that the disk knows, committed or not. */
    uint32_t promised_epoch;
    uint32_t epoch;   /* Of the last record. */
    zxid_t committed; /* Known to be: what the others had beyond it is lost. */
    zxid_t last;      /* Newest record: what is beyond `committed` may never have been acknowledged,
                         and is kept. */
    uint64_t torn_bytes;
};

/* Fills `ret_survivor` from an opened store. ERR_FOREIGN: another member's disk. ERR_CORRUPT: it is
 * damaged, or in quarantine. ERR_MISSING: it is in no cluster. `*ret_why` is then a sentence. */
enum err survivor_look(struct store *store, const struct store_report *report, uint32_t id,
                       struct survivor *ret_survivor, const char **ret_why);

/* Makes it durable on a store that is open for changes; `history` is random. */
enum err survivor_go_on(struct store *store, const struct survivor *survivor, uint64_t history);

#endif
