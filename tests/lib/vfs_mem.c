#include "base/check.h"
#include "base/hash.h"
#include "base/mem.h"
#include "tests/lib/vfs_mem_int.h"

#include <string.h>

/* Decides what survives. */
struct chooser {
    struct rng *rng; /* NULL: by `bits`. */
    enum vfs_mem_crash_mode mode;
    uint64_t bits;
    unsigned next;
};

static bool choose(struct chooser *chooser)
{
    if (!chooser->rng) {
        bool keep = chooser->next < 64 && (chooser->bits >> chooser->next & 1) != 0;

        chooser->next++;
        return keep;
    }
    switch (chooser->mode) {
    case VFS_MEM_PROCESS:
    case VFS_MEM_KEEP_ALL:
        return true;
    case VFS_MEM_LOSE_ALL:
        return false;
    case VFS_MEM_SECTORS:
    case VFS_MEM_TORN:
        return rng_chance(chooser->rng, 500000);
    }
    UNREACHABLE();
}

/* ---- The disk. ---- */

struct vfs_mem *vfs_mem_new(uint64_t capacity_bytes)
{
    struct vfs_mem *disk = mem_zalloc(1, sizeof(*disk));

    disk->capacity = capacity_bytes;
    return disk;
}

void vfs_mem_free(struct vfs_mem *disk)
{
    mem_changes_clear(disk);
    mem_dir_clear(disk, &disk->now);
    mem_dir_clear(NULL, &disk->durable);
    mem_free(disk->now.list);
    mem_free(disk->durable.list);
    mem_free(disk->changes);
    mem_free(disk);
}

struct vfs vfs_mem_vfs(struct vfs_mem *disk)
{
    return (struct vfs){.ops = &vfs_mem_ops, .ctx = disk};
}

void vfs_mem_set_capacity(struct vfs_mem *disk, uint64_t capacity_bytes)
{
    disk->capacity = capacity_bytes;
}

/* The distinct inodes that a crash may touch: those that `now`, `durable` and the changes name. The
 * order depends on names only. */
static struct inode **inodes_list(const struct vfs_mem *disk, size_t *ret_count)
{
    size_t max = disk->now.count + disk->durable.count + disk->change_count;
    struct inode **list = mem_zalloc(max + 1, sizeof(struct inode *));
    size_t count = 0;

    for (size_t i = 0; i < max; i++) {
        size_t in_durable = i - disk->now.count;
        size_t in_changes = in_durable - disk->durable.count;
        struct inode *inode = i < disk->now.count ? disk->now.list[i].inode
                              : in_durable < disk->durable.count
                                  ? disk->durable.list[in_durable].inode
                                  : disk->changes[in_changes].inode;

        if (inode && !inode->is_listed) {
            inode->is_listed = true;
            list[count++] = inode;
        }
    }
    for (size_t i = 0; i < count; i++) {
        list[i]->is_listed = false;
    }
    *ret_count = count;
    return list;
}

static void sector_crash(struct page *page, unsigned sector, struct chooser *chooser)
{
    uint8_t *bytes = page->bytes + (size_t)sector * VFS_SECTOR;
    const uint8_t *old = page->old + (size_t)sector * VFS_SECTOR;
    bool is_torn =
        chooser->rng && chooser->mode == VFS_MEM_TORN && rng_chance(chooser->rng, 200000);

    if (is_torn) {
        size_t kept = (size_t)rng_below(chooser->rng, VFS_SECTOR);
        bool is_front = choose(chooser);

        /* The part that did not reach the disk keeps its old content. */
        memcpy(is_front ? bytes + kept : bytes, is_front ? old + kept : old,
               is_front ? VFS_SECTOR - kept : kept);
    } else if (!choose(chooser)) {
        memcpy(bytes, old, VFS_SECTOR);
    }
}

static void inode_crash(struct vfs_mem *disk, struct inode *inode, struct chooser *chooser)
{
    mem_lost_revert(inode);
    for (size_t i = 0; i < inode->dirty_count; i++) {
        struct page *page = inode->pages[inode->dirty[i]];

        for (unsigned sector = 0; sector < SECTORS; sector++) {
            if ((unsigned)page->dirty >> sector & 1U) {
                sector_crash(page, sector, chooser);
            }
        }
    }
    if (inode->size != inode->durable_size && !choose(chooser)) {
        mem_charge(disk, inode, inode->size, inode->durable_size);
        inode->size = inode->durable_size;
    }
    mem_inode_sync(inode);
    mem_inode_clear_from(inode, inode->size);
    mem_inode_sync(inode);
}

static void close_all(struct vfs_mem *disk)
{
    disk->era++;
    disk->is_dead = false;
    disk->crash_at = 0;
    disk->fail_at = 0;
}

static void crash(struct vfs_mem *disk, struct chooser *chooser)
{
    size_t count = 0;
    struct inode **inodes = inodes_list(disk, &count);

    for (size_t i = 0; i < count; i++) {
        inode_crash(disk, inodes[i], chooser);
    }
    mem_free(inodes);
    mem_dir_copy(disk, &disk->now, &disk->durable);
    for (size_t i = 0; i < disk->change_count; i++) {
        if (choose(chooser)) {
            mem_change_apply(disk, &disk->now, &disk->changes[i]);
        }
    }
    mem_changes_clear(disk);
    mem_dir_copy(NULL, &disk->durable, &disk->now);
    close_all(disk);
}

void vfs_mem_crash(struct vfs_mem *disk, struct rng *rng, enum vfs_mem_crash_mode mode)
{
    struct chooser chooser = {.rng = rng, .mode = mode};

    ASSERT(rng);
    if (mode == VFS_MEM_PROCESS) {
        close_all(disk);
    } else {
        crash(disk, &chooser);
    }
}

size_t vfs_mem_pending(const struct vfs_mem *disk)
{
    size_t count = 0;
    size_t pending = disk->change_count;
    struct inode **inodes = inodes_list(disk, &count);

    for (size_t i = 0; i < count; i++) {
        const struct inode *inode = inodes[i];

        pending += inode->size != inode->durable_size ? 1 : 0;
        for (size_t k = 0; k < inode->dirty_count; k++) {
            pending += (size_t)__builtin_popcount((unsigned)inode->pages[inode->dirty[k]]->dirty);
        }
    }
    mem_free(inodes);
    return pending;
}

void vfs_mem_crash_subset(struct vfs_mem *disk, uint64_t keep)
{
    struct chooser chooser = {.bits = keep};

    crash(disk, &chooser);
}

static uint64_t inode_digest(const struct inode *inode, uint64_t hash)
{
    hash = hash64_mix(hash, inode->size);
    for (size_t i = 0; i < inode->page_count; i++) {
        const struct page *page = inode->pages[i];

        if (page) { /* All others are zeros. */
            ASSERT(!page->dirty && !page->lost && !page->is_unreadable);
            hash = hash64(hash64_mix(hash, i), slice_make(page->bytes, sizeof(page->bytes)));
        }
    }
    return hash;
}

uint64_t vfs_mem_digest(const struct vfs_mem *disk)
{
    uint64_t hash = disk->now.count;

    ASSERT(disk->change_count == 0 && disk->now.count == disk->durable.count);
    for (size_t i = 0; i < disk->now.count; i++) {
        const struct entry *entry = &disk->now.list[i];

        hash = inode_digest(entry->inode, hash64(hash, slice_str(entry->name)));
    }
    return hash;
}

uint64_t vfs_mem_calls(const struct vfs_mem *disk)
{
    return disk->calls;
}

void vfs_mem_fail_at(struct vfs_mem *disk, uint64_t call, enum err err)
{
    disk->fail_at = call;
    disk->fail_err = err;
    disk->fault_hit = false;
}

void vfs_mem_lack_files(struct vfs_mem *disk, uint64_t call, uint64_t count)
{
    disk->opens = 0;
    disk->lack_at = call;
    disk->lack_count = count;
    disk->fault_hit = false;
}

uint64_t vfs_mem_opens(const struct vfs_mem *disk)
{
    return disk->opens;
}

uint64_t vfs_mem_open_now(const struct vfs_mem *disk)
{
    return disk->open_now;
}

uint64_t vfs_mem_open_max(const struct vfs_mem *disk)
{
    return disk->open_max;
}

void vfs_mem_crash_at(struct vfs_mem *disk, uint64_t call)
{
    disk->crash_at = call;
    disk->fault_hit = false;
}

bool vfs_mem_fault_hit(const struct vfs_mem *disk)
{
    return disk->fault_hit;
}

/* ---- Copies. ---- */

static struct inode *inode_clone(const struct inode *inode)
{
    struct inode *copy = mem_dup(inode, sizeof(*inode));

    copy->refs = 1;
    copy->links = 0;
    copy->pages = mem_zalloc(inode->page_count + 1, sizeof(struct page *));
    for (size_t i = 0; i < inode->page_count; i++) {
        const struct page *page = inode->pages[i];

        if (page) {
            copy->pages[i] = mem_dup(page, sizeof(*page));
            copy->pages[i]->old = page->old ? mem_dup(page->old, VFS_BLOCK) : NULL;
        }
    }
    copy->dirty =
        inode->dirty_count ? mem_dup(inode->dirty, inode->dirty_count * sizeof(size_t)) : NULL;
    copy->dirty_cap = inode->dirty_count;
    return copy;
}

static struct inode *clone_of(struct inode **from, struct inode **to, size_t count,
                              const struct inode *inode)
{
    for (size_t i = 0; i < count; i++) {
        if (from[i] == inode) {
            return to[i];
        }
    }
    return NULL;
}

struct vfs_mem *vfs_mem_clone(const struct vfs_mem *disk)
{
    struct vfs_mem *copy = vfs_mem_new(disk->capacity);
    size_t count = 0;
    struct inode **from = inodes_list(disk, &count);
    struct inode **to = mem_zalloc(count + 1, sizeof(struct inode *));

    for (size_t i = 0; i < count; i++) {
        to[i] = inode_clone(from[i]);
    }
    for (size_t i = 0; i < disk->durable.count; i++) {
        const struct entry *entry = &disk->durable.list[i];

        mem_dir_set(NULL, &copy->durable, entry->name, clone_of(from, to, count, entry->inode));
    }
    mem_dir_copy(copy, &copy->now, &copy->durable);
    for (size_t i = 0; i < disk->change_count; i++) {
        const struct change *change = &disk->changes[i];

        mem_change_add(copy, change->remove, change->set, clone_of(from, to, count, change->inode));
    }
    for (size_t i = 0; i < count; i++) {
        mem_inode_unref(to[i]);
    }
    mem_free(from);
    mem_free(to);
    return copy;
}

/* ---- Inspection and damage. ---- */

void vfs_mem_each(const struct vfs_mem *disk, void (*each)(void *arg, const char *name), void *arg)
{
    for (size_t i = 0; i < disk->now.count; i++) {
        each(arg, disk->now.list[i].name);
    }
}

bool vfs_mem_size(const struct vfs_mem *disk, const char *name, uint64_t *ret_size)
{
    const struct entry *entry = mem_dir_find(&disk->now, name);

    *ret_size = entry ? entry->inode->size : 0;
    return entry != NULL;
}

bool vfs_mem_read(const struct vfs_mem *disk, const char *name, uint64_t offset, void *data,
                  size_t len)
{
    const struct entry *entry = mem_dir_find(&disk->now, name);

    if (!entry || offset + len > entry->inode->size) {
        return false;
    }
    mem_inode_read(entry->inode, offset, data, len);
    return true;
}

void vfs_mem_poke(struct vfs_mem *disk, const char *name, uint64_t offset, const void *data,
                  size_t len)
{
    const struct entry *entry = mem_dir_find(&disk->now, name);

    ASSERT(entry && offset + len <= entry->inode->size);
    mem_inode_write(entry->inode, offset, data, len);
    mem_inode_sync(entry->inode);
}

void vfs_mem_flip(struct vfs_mem *disk, const char *name, uint64_t offset, uint8_t mask)
{
    uint8_t byte = 0;
    bool is_there = vfs_mem_read(disk, name, offset, &byte, 1);

    ASSERT(is_there);
    byte ^= mask;
    vfs_mem_poke(disk, name, offset, &byte, 1);
}

void vfs_mem_cut(struct vfs_mem *disk, const char *name, uint64_t size)
{
    const struct entry *entry = mem_dir_find(&disk->now, name);

    ASSERT(entry && size <= entry->inode->size);
    mem_charge(disk, entry->inode, entry->inode->size, size);
    entry->inode->size = size;
    mem_inode_clear_from(entry->inode, size);
    mem_inode_sync(entry->inode);
}

void vfs_mem_remove(struct vfs_mem *disk, const char *name)
{
    mem_dir_remove(disk, &disk->now, name);
    mem_dir_remove(NULL, &disk->durable, name);
}

bool vfs_mem_rot(struct vfs_mem *disk, struct rng *rng)
{
    uint64_t total = 0;

    for (size_t i = 0; i < disk->now.count; i++) {
        total += disk->now.list[i].inode->size;
    }
    if (total == 0) {
        return false;
    }

    uint64_t at = rng_below(rng, total);
    uint8_t mask = (uint8_t)(1U << rng_below(rng, 8));

    for (size_t i = 0; i < disk->now.count; i++) {
        const struct entry *entry = &disk->now.list[i];

        if (at < entry->inode->size) {
            vfs_mem_flip(disk, entry->name, at, mask);
            return true;
        }
        at -= entry->inode->size;
    }
    UNREACHABLE();
}

void vfs_mem_wipe(struct vfs_mem *disk)
{
    disk->failing = VFS_MEM_FAIL_NONE;
    mem_changes_clear(disk);
    mem_dir_clear(disk, &disk->now);
    mem_dir_clear(NULL, &disk->durable);
}
