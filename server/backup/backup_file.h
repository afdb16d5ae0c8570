/*
 * backup_file.h - the bytes of a backup.
 *
 * A backup is what a learner is refilled with: a snapshot, and the records of the log behind it. An
 * increment has records only. The file is a sequence of parts: type u8, length u64, payload,
 * CRC-32C of these three as u32. Parts in order: HEAD, SNAPSHOT (unless the backup is an increment,
 * or the log reaches back to the very beginning), any number of RECORDS, END. The snapshot is the
 * file of the replica as it is, so that its own checksums hold. END has a SHA-256 of all bytes
 * before it, and the digest of the state at the last record.
 *
 * All integers are little-endian. Nothing follows END: a file that is cut anywhere has no END.
 */
#ifndef SERVER_BACKUP_FILE_H
#define SERVER_BACKUP_FILE_H

#include "base/buf.h"
#include "base/crypto.h"
#include "base/err.h"
#include "base/logrec.h"
#include "storage/store.h"

enum {
    BACKUP_VERSION = 1,
    BACKUP_MAGIC_LEN = 8,
    BACKUP_FRAME_LEN = 9, /* Type and length of a part. */
    BACKUP_CRC_LEN = 4,
    BACKUP_END_LEN = 77, /* Bytes of the part END. */
    BACKUP_RELEASE_MAX = 32,
    BACKUP_CONFIG_MAX = 16 * 1024,  /* Bytes of an encoded configuration. */
    BACKUP_HEAD_MAX = 32 * 1024,    /* Bytes of the payload of HEAD. */
    BACKUP_RECORDS_MAX = 256 * 1024 /* Bytes of a part RECORDS, or one longer record. */
};

/* On disk: never renumber. */
enum backup_part {
    BACKUP_HEAD = 1,
    BACKUP_SNAPSHOT = 2,
    BACKUP_RECORDS = 3,
    BACKUP_END = 4
};

struct backup_head {
    uint8_t cluster[STORE_CLUSTER_LEN];
    uint64_t history;
    uint32_t member; /* Replica that made it. */
    bool full;       /* It has all data; else only the records after `from`. */
    /* The records after this zxid follow. Of a full backup the snapshot's start, or 0. */
    zxid_t from;
    zxid_t least;            /* A state can be restored at this zxid and later ones. */
    zxid_t end;              /* The last record. */
    uint64_t digest;         /* Digest of the state at `end`. */
    int64_t made_ms;         /* By the clocks of a majority of the voters, ms since 1970. */
    uint64_t snapshot_bytes; /* 0: there is no part SNAPSHOT. */
    uint64_t log_bytes;      /* Estimate of the bytes of records. */
    char release[BACKUP_RELEASE_MAX];
    struct slice config; /* An encoded configuration, not newer than `from`. */
};

struct backup_end {
    zxid_t zxid;
    uint64_t chain; /* Chain value there; 0 if an increment has no records. */
    uint64_t digest;
    uint64_t records;
    uint8_t sha256[CRYPTO_SHA256_LEN]; /* Of all bytes before this part. */
};

extern const uint8_t backup_magic[BACKUP_MAGIC_LEN];

/* Append magic and HEAD, or END. */
void backup_put_head(const struct backup_head *head, struct buf *out);
void backup_put_end(const struct backup_end *end, struct buf *out);

/* Decode a payload. ERR_FORMAT; of HEAD ERR_NEWER if a later release has made the backup. `config`
 * points into `payload`. */
enum err backup_get_head(struct slice payload, struct backup_head *ret_head);
enum err backup_get_end(struct slice payload, struct backup_end *ret_end);

/* Whether these bytes are a part END, with a sound checksum. */
bool backup_is_end(struct slice bytes);

/* Appends one record to the payload of RECORDS. */
void backup_put_record(const struct logrec *rec, struct buf *payload);

/* Appends a part with its checksum. */
void backup_put_part(enum backup_part type, struct slice payload, struct buf *out);

/* The first bytes of a part, and the checksum so far; a long payload follows in pieces. */
uint32_t backup_begin_part(enum backup_part type, uint64_t len, struct buf *out);

#endif
