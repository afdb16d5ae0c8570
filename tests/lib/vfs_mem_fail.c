#include "base/check.h"
#include "base/mem.h"
#include "tests/lib/vfs_mem_int.h"

#include <string.h>

/* A disk that fails while it is used. */

void vfs_mem_fail(struct vfs_mem *disk, unsigned kinds, uint64_t seed)
{
    ASSERT(kinds <= VFS_MEM_FAIL_ALL);

    disk->failing = kinds;
    rng_init(&disk->fail_rng, seed);
}

uint64_t vfs_mem_io_errors(const struct vfs_mem *disk)
{
    return disk->io_errors;
}

void vfs_mem_unreadable(struct vfs_mem *disk, const char *name, uint64_t offset)
{
    const struct entry *entry = mem_dir_find(&disk->now, name);

    ASSERT(entry && offset < entry->inode->size);
    mem_inode_page(entry->inode, (size_t)(offset / VFS_BLOCK))->is_unreadable = true;
}

bool mem_fails(struct vfs_mem *disk, enum vfs_mem_failing kind)
{
    bool fails = (disk->failing & (unsigned)kind) != 0;

    disk->io_errors += fails;
    return fails;
}

bool mem_read_fails(struct vfs_mem *disk, const struct inode *inode, uint64_t offset, size_t len)
{
    size_t end = (size_t)((offset + len + VFS_BLOCK - 1) / VFS_BLOCK);

    if (mem_fails(disk, VFS_MEM_FAIL_READS)) {
        return true;
    }
    for (size_t i = (size_t)(offset / VFS_BLOCK); i < end && i < inode->page_count; i++) {
        if (inode->pages[i] && inode->pages[i]->is_unreadable) {
            disk->io_errors++;
            return true;
        }
    }
    return false;
}

/* The sectors of `mask` reach the disk as programs see them. */
static void page_reached(struct page *page, unsigned mask)
{
    for (unsigned sector = 0; sector < SECTORS; sector++) {
        size_t at = (size_t)sector * VFS_SECTOR;

        if (mask >> sector & 1U) {
            memcpy(page->old + at, page->bytes + at, VFS_SECTOR);
        }
    }
}

/* A part of the dirty content has reached the disk, the rest has not; all of it counts as clean.
 * The file's size stays volatile. */
void mem_sync_failed(struct vfs_mem *disk, struct inode *inode)
{
    for (size_t i = 0; i < inode->dirty_count; i++) {
        struct page *page = inode->pages[inode->dirty[i]];
        unsigned reached = page->dirty & (unsigned)rng_u64(&disk->fail_rng);

        page_reached(page, reached);
        page->lost = (uint8_t)(page->lost | (page->dirty & ~reached));
        page->dirty = 0;
    }
}

void mem_lost_revert(struct inode *inode)
{
    for (size_t i = 0; i < inode->dirty_count; i++) {
        struct page *page = inode->pages[inode->dirty[i]];

        for (unsigned sector = 0; sector < SECTORS; sector++) {
            size_t at = (size_t)sector * VFS_SECTOR;

            if ((unsigned)page->lost >> sector & 1U) {
                memcpy(page->bytes + at, page->old + at, VFS_SECTOR);
            }
        }
        page->lost = 0;
    }
}
