/*
 * backup_script.h - a backup as part of an input: fields with hostile values, written as a file
 * whose checksums are right, also after its bytes were changed.
 *
 * A script: flags u8; the head: history u64, member u32, from, least and end u64, time u64,
 * bytes of the log u64, release and configuration (each a length u16 and bytes); if the flags say
 * so, the snapshot: twice its start u64, distance of its end u16, chain value u64, znodes u64,
 * configuration, then blocks up to an empty one; records up to type 0: type u8, zxid u64, payload.
 */
#ifndef TESTS_FUZZ_BACKUP_SCRIPT_H
#define TESTS_FUZZ_BACKUP_SCRIPT_H

#include "base/wire.h"
#include "server/backup/backup_file.h"

enum {
    BACKUP_SCRIPT_MAX = 256 << 10 /* Bytes of a file. */
};

/* Appends the file of the next script. */
void backup_script_write(struct wire_reader *reader, struct buf *file);

/* Makes all checksums and hashes right, and the chain of the records: it begins with the snapshot,
 * or after the record `at`. Parts are followed as far as their lengths make sense. */
void backup_script_repair(struct buf *file, zxid_t at, uint64_t chain);

/* Set a digest, without the checksums over it. False: it was so already, or there is no place. */
bool backup_script_set_digest(struct buf *file, uint64_t digest);
bool backup_script_set_snapshot_digest(struct buf *file, uint64_t digest);

enum backup_seed {
    BACKUP_SEED_LOG,      /* A full backup without a snapshot. */
    BACKUP_SEED_SNAPSHOT, /* One with nothing but a snapshot. */
    BACKUP_SEED_FUZZY,    /* Its snapshot was made while clients wrote. */
    BACKUP_SEED_INCREMENT /* Behind that. */
};

/* Appends a script of a good backup. */
void backup_script_seed(struct buf *out, enum backup_seed seed);

#endif
