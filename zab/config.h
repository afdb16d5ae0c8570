/*
 * config.h - the replicated configuration: the voters, by id and incarnation.
 *
 * This configuration alone decides what is a quorum. A voter's entry is a seat, which names one
 * disk by its incarnation. The incarnation keeps an emptied or swapped disk from voting: such a
 * disk is unknown until a committed change admits it to the seat.
 */
#ifndef ZAB_CONFIG_H
#define ZAB_CONFIG_H

#include "base/buf.h"
#include "base/err.h"
#include "base/logrec.h"

enum {
    ZAB_MEMBERS_MAX = 64,
    ZAB_CLUSTER_LEN = 16,
    ZAB_ID_MAX = 65535
};

/* No ensemble reaches this age: a greater age is decoded as 0. */
#define ZAB_AGE_MAX_MS UINT64_C(100000000000000) /* More than 3,000 years. */

struct zab_member {
    uint32_t id;              /* 1..ZAB_ID_MAX. */
    bool voter;               /* False for an observer and for an empty seat. */
    bool empty_seat;          /* A seat without a disk; not counted until a disk is admitted. */
    uint64_t incarnation;     /* 0 for observers: any disk may observe. */
    uint64_t admitted_age_ms; /* Age of the ensemble at this disk's admission; 0: founder. */
};

struct zab_config {
    zxid_t version; /* zxid of the CONFIG record; 0: the first configuration of a cluster. */
    uint8_t cluster[ZAB_CLUSTER_LEN];
    uint64_t history; /* Random id of the data's history; 'zabra recover' makes a new one. */
    uint32_t count;
    struct zab_member members[ZAB_MEMBERS_MAX]; /* Ascending by id. */
};

/* Loops over the members. NOLINTBEGIN(*-parentheses): `member` is declared here. */
#define for_each_member(member, config)                                \
    for (__typeof__(&(config)->members[0]) member = (config)->members; \
         member < (config)->members + (config)->count; member++)

/* NOLINTEND(*-parentheses) */

/* Whether `id` is one of `ids`. */
static inline bool zab_id_is_among(const uint32_t *ids, size_t count, uint32_t id)
{
    for (size_t i = 0; i < count; i++) {
        if (ids[i] == id) {
            return true;
        }
    }
    return false;
}

/* Returns the member with this id, or NULL. */
const struct zab_member *zab_config_find(const struct zab_config *config, uint32_t id);

/* True when (id, incarnation) is a voter of this configuration. */
bool zab_config_is_voter(const struct zab_config *config, uint32_t id, uint64_t incarnation);

uint32_t zab_config_voters(const struct zab_config *config);

/* Turns `config` into the configuration of one survivor, for the case that a majority is lost for
 * good: the survivor alone votes, the other voters' seats are empty, and `history` replaces the old
 * history. `version` must be above all versions before. */
void zab_config_survive(struct zab_config *config, uint32_t id, uint64_t incarnation,
                        zxid_t version, uint64_t history);

/* Appends the configuration in format 3. */
void zab_config_encode(const struct zab_config *config, struct buf *out);

/* Reads format 3; of a later format, the fields that format 3 has. ERR_FORMAT unless members
 * ascend, ids are in range and there is at least one voter. */
enum err zab_config_decode(struct slice bytes, struct zab_config *ret_config);

/* Whether `bytes` have a format before format 3, which this release does not read. */
bool zab_config_is_older(struct slice bytes);

#endif
