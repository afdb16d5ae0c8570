/*
 * vfs_mem.h - a disk in memory that crashes, fills up, fails and rots on request.
 *
 * Every write is volatile by sector until the file is synced, and so is its size; names are
 * volatile until the directory is synced. A crash keeps or loses each of these on its own. Content
 * is in sparse pages, so thousands of disks are cheap. One thread; the same seed gives the same
 * disk.
 */
#ifndef TESTS_LIB_VFS_MEM_H
#define TESTS_LIB_VFS_MEM_H

#include "storage/vfs.h"
#include "tests/lib/draw.h"

struct vfs_mem;

enum vfs_mem_crash_mode {
    VFS_MEM_PROCESS,  /* The process died, the machine did not: volatile content remains. */
    VFS_MEM_KEEP_ALL, /* Everything was written out in time. */
    VFS_MEM_LOSE_ALL, /* Nothing unsynced survives. */
    VFS_MEM_SECTORS,  /* Each unsynced sector, size and name survives or not. */
    VFS_MEM_TORN,     /* As before; besides, a sector may survive in part. */
};

/* `capacity_bytes` bounds the sum of file sizes; 0: no bound. */
struct vfs_mem *vfs_mem_new(uint64_t capacity_bytes);
void vfs_mem_free(struct vfs_mem *disk); /* All files must be closed. */

/* A copy of the present disk with its volatile content; no open files. For rolled-back disks. */
struct vfs_mem *vfs_mem_clone(const struct vfs_mem *disk);

/* The table for the store; valid as long as the disk. */
struct vfs vfs_mem_vfs(struct vfs_mem *disk);

/* Changes the bound; existing content stays. */
void vfs_mem_set_capacity(struct vfs_mem *disk, uint64_t capacity_bytes);

/* ---- Crashes. Open files give ERR_IO from then on; they are still to be closed. ---- */

void vfs_mem_crash(struct vfs_mem *disk, struct rng *rng, enum vfs_mem_crash_mode mode);

/* How many things (sectors, sizes, names) a crash would decide about now. */
size_t vfs_mem_pending(const struct vfs_mem *disk);

/* A crash in which bit i of `keep` decides about the i-th of these things; from 64 on all are
 * lost. */
void vfs_mem_crash_subset(struct vfs_mem *disk, uint64_t keep);

/* A hash of all names, sizes and bytes on a disk that has crashed and was not written since. Two
 * disks with the same one hold the same. */
uint64_t vfs_mem_digest(const struct vfs_mem *disk);

/* ---- Faults. Calls are counted from 1: all operations but close and drop_cache. ---- */

uint64_t vfs_mem_calls(const struct vfs_mem *disk);

/* The `call`-th call from the beginning returns `err`; a write then writes its first half. 0: none.
 */
void vfs_mem_fail_at(struct vfs_mem *disk, uint64_t call, enum err err);

/* The `call`-th open and the `count - 1` after it return ERR_NO_FILES; opens are counted from here,
 * from 1. 0: none. */
void vfs_mem_lack_files(struct vfs_mem *disk, uint64_t call, uint64_t count);

/* Opens since vfs_mem_lack_files, or in total. */
uint64_t vfs_mem_opens(const struct vfs_mem *disk);

/* Files that are open now, and the most that ever were. */
uint64_t vfs_mem_open_now(const struct vfs_mem *disk);
uint64_t vfs_mem_open_max(const struct vfs_mem *disk);

/* The `call`-th call is the last one to reach the disk, without becoming durable; it and all later
 * ones return ERR_IO until vfs_mem_crash. 0: none. */
void vfs_mem_crash_at(struct vfs_mem *disk, uint64_t call);

/* True when the call of vfs_mem_crash_at, vfs_mem_fail_at or vfs_mem_lack_files was reached. */
bool vfs_mem_fault_hit(const struct vfs_mem *disk);

/* ---- A disk that fails while it is used, until the next call of vfs_mem_fail. ---- */

enum vfs_mem_failing {
    VFS_MEM_FAIL_NONE = 0,
    VFS_MEM_FAIL_READS = 1,
    VFS_MEM_FAIL_WRITES = 2, /* A write writes its first half. */
    VFS_MEM_FAIL_SYNCS = 4,  /* See below. */
    VFS_MEM_FAIL_NAMES = 8,  /* Opening, listing, renaming, removing, sizes. */
    VFS_MEM_FAIL_ALL = 15,
};

/* Calls of these kinds (a sum of vfs_mem_failing) return ERR_IO, until the test changes that; no
 * crash does. After a failed sync a part of the dirty content, drawn from `seed`, counts as written
 * although it is not, as in Linux: reads give the new bytes until drop_cache() or a crash of the
 * machine. No later sync writes them, but another write into the same page does. */
void vfs_mem_fail(struct vfs_mem *disk, unsigned kinds, uint64_t seed);

/* Calls that have failed because of vfs_mem_fail or vfs_mem_unreadable. */
uint64_t vfs_mem_io_errors(const struct vfs_mem *disk);

/* Reads of the block at `offset` return ERR_IO until something is written there. */
void vfs_mem_unreadable(struct vfs_mem *disk, const char *name, uint64_t offset);

/* ---- Inspection and damage. ---- */

/* Visits the names in sorted order. */
void vfs_mem_each(const struct vfs_mem *disk, void (*each)(void *arg, const char *name), void *arg);
bool vfs_mem_size(const struct vfs_mem *disk, const char *name, uint64_t *ret_size);
bool vfs_mem_read(const struct vfs_mem *disk, const char *name, uint64_t offset, void *data,
                  size_t len);

/* Changes bytes durably, without the store. */
void vfs_mem_poke(struct vfs_mem *disk, const char *name, uint64_t offset, const void *data,
                  size_t len);
void vfs_mem_flip(struct vfs_mem *disk, const char *name, uint64_t offset, uint8_t mask);
void vfs_mem_cut(struct vfs_mem *disk, const char *name, uint64_t size);
void vfs_mem_remove(struct vfs_mem *disk, const char *name);

/* Flips one random bit in a random file that is not empty; false when there is none. */
bool vfs_mem_rot(struct vfs_mem *disk, struct rng *rng);

/* Removes all files: an empty disk. */
void vfs_mem_wipe(struct vfs_mem *disk);

#endif
