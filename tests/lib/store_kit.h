/*
 * store_kit.h - a store on a disk in memory, driven by short calls, and beside it a model of what
 * must be on the disk.
 *
 * The model knows two things about each change: that it was requested, and that it was reported
 * durable. After a crash the store must hold the state last reported, or one that some of the later
 * requests lead to.
 */
#ifndef TESTS_LIB_STORE_KIT_H
#define TESTS_LIB_STORE_KIT_H

#include "storage/store.h"
#include "tests/lib/vfs_mem.h"

enum {
    KIT_RECS_MAX = 5120,
    KIT_SEGMENT = 64 * 1024,
    KIT_RECORD_MAX = 32 * 1024,
};

/* One history of records. */
struct skit_log {
    struct logrec *recs[KIT_RECS_MAX];
    size_t count;
    zxid_t base;
    uint64_t base_chain;
};

struct skit {
    struct vfs_mem *disk;
    struct store_options options;
    struct store *store; /* NULL when closed. */
    struct store_report report;
    struct skit_log log;   /* What the live log should contain. */
    bool allows_damage;    /* Half-written sectors count as damage, which is safe. */
    bool retries_no_space; /* Run an operation again when the disk was full. */
    bool retries_no_files; /* Do so as long as there is no descriptor. */
};

/* A fresh disk, nothing opened. */
void skit_init(struct skit *kit, uint64_t segment_bytes);
void skit_release(struct skit *kit);

/* Opens for writing and keeps the report. */
enum err skit_open(struct skit *kit);
void skit_close(struct skit *kit, bool clean);

/* Formats with a fixed identity. */
enum err skit_format(struct skit *kit);
struct store_identity skit_identity(void);

/* True when the operation has to be run again after `err`. */
bool skit_is_again(const struct skit *kit, enum err err);

/* Runs one operation. */
enum err skit_run(struct skit *kit, struct store_op *op);

/* Makes `count` records of `len` bytes after the model's last one, in `epoch`; only in the model.
 */
void skit_make(struct skit *kit, uint32_t epoch, size_t count, size_t len);

/* Makes records and appends them in one operation. The model keeps them even on failure. */
enum err skit_append(struct skit *kit, uint32_t epoch, size_t count, size_t len);

/* Truncates to the model's record `keep`, which is a number of records. */
enum err skit_truncate(struct skit *kit, size_t keep);

/* Takes a snapshot from record number `start` to record number `end` (counts; 0: the base). */
enum err skit_snapshot(struct skit *kit, size_t start, size_t end);

/* The zxid and chain value after `count` records. */
zxid_t skit_zxid(const struct skit_log *log, size_t count);
uint64_t skit_chain(const struct skit_log *log, size_t count);

/* Drops model records from `count` on, or all and starts at a base. */
void skit_log_cut(struct skit_log *log, size_t count);
void skit_log_restart(struct skit_log *log, zxid_t base, uint64_t chain);

/* The bytes of a snapshot file of another replica with the same history; the caller frees them. */
uint8_t *skit_foreign_snapshot(const struct skit_log *log, size_t start, size_t end, size_t blocks,
                               size_t *ret_len);

/* Reads the whole log and compares it with the model; returns the number of records, or -1 when
 * they differ. */
long skit_check_log(struct skit *kit);
long skit_match_log(struct skit *kit, const struct skit_log *log);

/* Receives a snapshot of records `start` to `end` of the model and the records up to `upto`, and
 * ends with INSTALL or ABORT. `inout_last` is that operation. */
enum err skit_receive(struct skit *kit, size_t start, size_t end, size_t upto,
                      struct store_op *inout_last);

/* Checks the newest snapshot's blocks; false when wrong. */
bool skit_check_snapshot(struct skit *kit);

#endif
