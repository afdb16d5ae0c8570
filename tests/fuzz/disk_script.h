/*
 * disk_script.h - bytes as instructions that make a replica's directory.
 *
 * A checksum guards every sector of the log, so randomly changed bytes hardly ever get past it.
 * Here the input gives the fields, and segments, batches, records and snapshots are built around
 * them with right checksums: their meaning is hostile. Raw files and damage are instructions as
 * well.
 */
#ifndef TESTS_FUZZ_DISK_SCRIPT_H
#define TESTS_FUZZ_DISK_SCRIPT_H

#include "tests/fuzz/disk.h"

/* Part of the corpus: never renumber. */
enum disk_step {
    DISK_RAW = 0,     /* Name, file as in disk.h. */
    DISK_SLOTS = 1,   /* Which u8, payload. */
    DISK_SEGMENT = 2, /* Flags u8 (DISK_SEGMENT_*), blocks u8, what the flags say. */
    DISK_BATCH = 3,   /* Flags u8 (DISK_BATCH_*), what they say, count u8, records. */
    DISK_SNAP = 4,    /* Flags u8, start u8, end u8 (records made so far), config, blocks. */
    DISK_FLIP = 5,    /* File u8, offset u32, mask u8. */
    DISK_CUT = 6,     /* File u8, size u32. */
    DISK_REMOVE = 7,  /* File u8. */
    DISK_NEXT = 8,    /* Number u8, blocks u8: a prepared file of zeros. */
    DISK_BASE = 9,    /* Base u64, chain u64: the log begins there. */
    DISK_STEPS
};

enum {
    DISK_SEGMENT_PLACE = 1U << 0,  /* prev_number u64, prev_offset u64. */
    DISK_SEGMENT_RECORD = 1U << 1, /* prev_zxid u64, prev_chain u64. */
    DISK_SEGMENT_NUMBER = 1U << 2, /* number u64, history u8. */
    DISK_SEGMENT_BATCH = 1U << 3,  /* batch_first u64, committed u64. */
    DISK_SEGMENT_OWNER = 1U << 4,  /* member u32, incarnation u64. */
    DISK_SEGMENT_BYTES = 1U << 5,  /* bytes u64. */

    DISK_BATCH_CHAIN = 1U << 0,  /* durable_upto u64, chain u64. */
    DISK_BATCH_COMMIT = 1U << 1, /* committed u64. */
    DISK_BATCH_COUNT = 1U << 2,  /* count u32 in the head. */
    DISK_BATCH_NUMBER = 1U << 3, /* number u64, offset u8 in blocks. */
    DISK_BATCH_STAY = 1U << 4,   /* The next one overwrites it. */
    DISK_BATCH_TORN = 1U << 5,   /* Mask u8: these of the first sectors stay zero. */

    DISK_RECORD_ZXID = 1U << 0,  /* zxid u64, prev u64. */
    DISK_RECORD_CHAIN = 1U << 1, /* chain u64. */
    DISK_RECORD_EPOCH = 1U << 2, /* The first one of the next epoch. */
    DISK_RECORD_TYPE = 1U << 3,  /* type u8. */
};

/* Runs instructions until the input ends, at most 64 of them. The default identity of the directory
 * is that of store_kit. */
void disk_script_run(struct vfs_mem *disk, struct wire_reader *reader);

#endif
