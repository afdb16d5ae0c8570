/*
 * vfs_mem_int.h - what the files of the disk in memory share.
 */
#ifndef TESTS_LIB_VFS_MEM_INT_H
#define TESTS_LIB_VFS_MEM_INT_H

#include "tests/lib/vfs_mem.h"

enum {
    SECTORS = VFS_BLOCK / VFS_SECTOR
};

struct page {
    uint8_t bytes[VFS_BLOCK]; /* As programs see it. */
    uint8_t *old;             /* As of the last sync; NULL when nothing is dirty. */
    uint8_t dirty;            /* One bit per sector. */
    uint8_t lost;             /* Sectors that are clean, and whose content on the disk is `old`. */
    bool is_unreadable;
};

struct inode {
    uint32_t refs;  /* Names, open files and pending changes of the directory. */
    uint32_t links; /* Names and open files: the reasons to take up space. */
    uint64_t size;
    uint64_t durable_size;
    struct page **pages; /* NULL: zeros. */
    size_t page_count;
    size_t *dirty; /* Indices of pages with dirty or lost sectors. */
    size_t dirty_count;
    size_t dirty_cap;
    bool is_listed; /* Scratch mark while walking all inodes. */
};

struct entry {
    char name[VFS_NAME_MAX];
    struct inode *inode;
};

struct dir {
    struct entry *list; /* Sorted by name. */
    size_t count;
    size_t cap;
};

/* A change of the directory that is not durable. */
struct change {
    char remove[VFS_NAME_MAX]; /* Empty: none. */
    char set[VFS_NAME_MAX];    /* Empty: none. */
    struct inode *inode;       /* The inode of `set`. */
};

struct vfs_mem {
    uint64_t capacity;
    uint64_t used;
    uint32_t era; /* Grows with each crash: files that were opened before are dead. */
    struct dir now;
    struct dir durable;
    struct change *changes;
    size_t change_count;
    size_t change_cap;
    uint64_t calls;
    uint64_t fail_at;
    enum err fail_err;
    uint64_t opens;
    uint64_t lack_at;
    uint64_t lack_count;
    uint64_t open_now;
    uint64_t open_max;
    uint64_t crash_at;
    bool is_dead;
    bool fault_hit;
    unsigned failing; /* Kinds of calls. */
    uint64_t io_errors;
    struct rng fail_rng;
};

struct vfs_file {
    struct vfs_mem *disk;
    struct inode *inode;
    uint32_t era;
};

/* ---- vfs_mem_inode.c ---- */

void mem_charge(struct vfs_mem *disk, const struct inode *inode, uint64_t from, uint64_t to);
void mem_inode_unref(struct inode *inode);
void mem_inode_link(struct vfs_mem *disk, struct inode *inode);
void mem_inode_unlink(struct vfs_mem *disk, struct inode *inode);
void mem_inode_write(struct inode *inode, uint64_t offset, const uint8_t *data, size_t len);
void mem_inode_read(const struct inode *inode, uint64_t offset, uint8_t *data, size_t len);
void mem_inode_sync(struct inode *inode);
struct page *mem_inode_page(struct inode *inode, size_t index); /* Creates it if needed. */
void mem_inode_clear_from(struct inode *inode, uint64_t size);
struct entry *mem_dir_find(const struct dir *dir, const char *name);
void mem_dir_remove(struct vfs_mem *disk, struct dir *dir, const char *name);
void mem_dir_set(struct vfs_mem *disk, struct dir *dir, const char *name, struct inode *inode);
void mem_dir_clear(struct vfs_mem *disk, struct dir *dir);
void mem_dir_copy(struct vfs_mem *disk, struct dir *to, const struct dir *from);
void mem_change_apply(struct vfs_mem *disk, struct dir *dir, const struct change *change);
void mem_change_add(struct vfs_mem *disk, const char *remove, const char *set, struct inode *inode);
void mem_changes_clear(struct vfs_mem *disk);

/* ---- vfs_mem_fail.c ---- */

/* True when the disk fails calls of this kind; counts it. */
bool mem_fails(struct vfs_mem *disk, enum vfs_mem_failing kind);
bool mem_read_fails(struct vfs_mem *disk, const struct inode *inode, uint64_t offset, size_t len);
void mem_sync_failed(struct vfs_mem *disk, struct inode *inode);
void mem_lost_revert(struct inode *inode); /* The cache drops what the disk lacks. */

/* The table of operations; its context is the disk. */
extern const struct vfs_ops vfs_mem_ops;

#endif
