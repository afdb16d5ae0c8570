/*
 * config.h - the replicated configuration: the members, by id and incarnation.
 *
 * This configuration alone decides what is a quorum. A voter's entry is a seat, which names one
 * disk by its incarnation. The incarnation keeps an emptied or swapped disk from voting: such a
 * disk is unknown until a committed change admits it to the seat.
 *
 * Its encoded form also has texts of each member (addresses and zone) and, in a CONFIG record, the
 * transaction of the client that asked for the change. These are read from the bytes and are not
 * in struct zab_config, which functions have on their stack. So each place that keeps a
 * configuration keeps its bytes, too.
 */
#ifndef ZAB_CONFIG_H
#define ZAB_CONFIG_H

#include "base/buf.h"
#include "base/err.h"
#include "base/logrec.h"

enum {
    ZAB_MEMBERS_MAX = 64,
    ZAB_CLUSTER_LEN = 16,
    ZAB_ID_MAX = 65535,
    ZAB_REMOVED_MAX = 64,            /* Removed disks that a configuration names. */
    ZAB_HOST_MAX = 253,              /* Bytes of a host name. */
    ZAB_CLIENT_MAX = 255,            /* Bytes of an address for clients. */
    ZAB_ZONE_MAX = 63,               /* Bytes of a zone's name. */
    ZAB_CONFIG_BYTES_MAX = 16 << 10, /* An encoded configuration without its transaction. */
    ZAB_CONFIG_TXN_MAX = 12 << 10    /* The transaction in it. */
};

/* No ensemble reaches this age: a greater age is decoded as 0. */
#define ZAB_AGE_MAX_MS UINT64_C(100000000000000) /* More than 3,000 years. */

struct zab_member {
    uint32_t id;              /* 1..ZAB_ID_MAX. */
    bool voter;               /* False for an observer and for an empty seat. */
    bool empty_seat;          /* A seat without a disk; not counted until a disk is admitted. */
    bool joining;             /* An observer that becomes a voter once it is in step. */
    uint64_t incarnation;     /* 0 for observers: any disk may observe. */
    uint64_t admitted_age_ms; /* Age of the ensemble at this disk's admission; 0: founder. */
};

/* A disk that a change has removed. */
struct zab_removed {
    uint32_t id;
    uint64_t incarnation; /* 0: not known. */
    zxid_t zxid;          /* The CONFIG record that removed it. */
};

struct zab_config {
    zxid_t version; /* zxid of the CONFIG record; 0: the first configuration of a cluster. */
    uint8_t cluster[ZAB_CLUSTER_LEN];
    uint64_t history; /* Random id of the data's history; 'zabra recover' makes a new one. */
    uint32_t count;
    struct zab_member members[ZAB_MEMBERS_MAX]; /* Ascending by id. */
    uint16_t level; /* Feature level: forms of a higher level are not used. */
    uint16_t hold;  /* The level is not raised above this; 0: no such limit. */
    uint32_t removed_count;
    struct zab_removed removed[ZAB_REMOVED_MAX]; /* Oldest first. */
};

/* Texts of a member. All bytes are printable ASCII without blanks (0x21 to 0x7e). */
struct zab_texts {
    uint16_t port;       /* Port for other replicas; 0: the configuration has no address. */
    struct slice host;   /* Host for other replicas; empty if and only if the port is 0. */
    struct slice client; /* Address for clients, host:port; empty: not known. */
    struct slice zone;   /* Where the replica runs; empty: not known. */
};

/* New texts of one member. */
struct zab_config_edit {
    uint32_t id;
    struct zab_texts texts;
};

/* What an encoded configuration has besides struct zab_config. All members may be empty. */
struct zab_config_parts {
    struct slice texts_of; /* An encoded configuration: members keep the texts that they have in it,
                              and the fields of a later release that this one does not know. */
    const struct zab_config_edit *edits; /* New texts, which replace those of `texts_of`. */
    uint32_t edit_count;
    struct slice txn; /* An encoded transaction, at most ZAB_CONFIG_TXN_MAX bytes. */
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

/* Returns the entry of a disk that was removed, or NULL. Incarnation 0 is no disk. */
const struct zab_removed *zab_config_find_removed(const struct zab_config *config, uint32_t id,
                                                  uint64_t incarnation);

/* Whether the texts are as struct zab_texts says, and not too long. */
bool zab_texts_are_sound(const struct zab_texts *texts);

uint32_t zab_config_voters(const struct zab_config *config);

/* Turns `config` into the configuration of one survivor, for the case that a majority is lost for
 * good: the survivor alone votes, the other voters' seats are empty, and `history` replaces the old
 * history. `version` must be above all versions before. */
void zab_config_survive(struct zab_config *config, uint32_t id, uint64_t incarnation,
                        zxid_t version, uint64_t history);

/*
 * Appends the configuration and `parts`. At level 0 the format is 3, which has neither the level
 * nor anything after it: hold, removed disks, joining members, edits and a transaction need
 * level 1.
 *
 * ERR_FORMAT: a text is malformed or too long, two members have one address, or the configuration
 * itself is one that zab_config_decode refuses. ERR_TOO_LARGE: the transaction is too long, or the
 * rest has more than ZAB_CONFIG_BYTES_MAX bytes; all of them are appended if `out` has room. After
 * an error the caller drops what was appended.
 */
enum err zab_config_write(const struct zab_config *config, const struct zab_config_parts *parts,
                          struct buf *out);

/* Appends the configuration without texts and transaction: at most ZAB_CONFIG_BYTES_MAX bytes.
 * Checks nothing. */
void zab_config_encode(const struct zab_config *config, struct buf *out);

/* Reads formats 3 and 4; of a later format, the fields that format 4 has. ERR_FORMAT unless members
 * ascend, ids are in range, there is at least one voter, the level is not above the hold, all texts
 * are as zab_texts says and no two members have one address. */
enum err zab_config_decode(struct slice bytes, struct zab_config *ret_config);

/* Reads the texts of one member from an encoded configuration, into which they point. False, and
 * empty texts, if `bytes` are malformed or have no such member. */
bool zab_config_texts(struct slice bytes, uint32_t id, struct zab_texts *ret_texts);

/* Returns the transaction in an encoded configuration; empty if there is none. */
struct slice zab_config_txn(struct slice bytes);

/* Whether `bytes` have a format before format 3, which this release does not read. */
bool zab_config_is_older(struct slice bytes);

#endif
