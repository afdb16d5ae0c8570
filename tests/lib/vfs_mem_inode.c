#include "base/check.h"
#include "base/mem.h"
#include "tests/lib/vfs_mem_int.h"

#include <stdio.h>
#include <string.h>

/* ---- Inodes. ---- */

void mem_charge(struct vfs_mem *disk, const struct inode *inode, uint64_t from, uint64_t to)
{
    if (inode->links > 0) {
        disk->used += to;
        ASSERT(disk->used >= from);
        disk->used -= from;
    }
}

void mem_inode_unref(struct inode *inode)
{
    ASSERT(inode->refs > 0);
    if (--inode->refs > 0) {
        return;
    }
    for (size_t i = 0; i < inode->page_count; i++) {
        if (inode->pages[i]) {
            mem_free(inode->pages[i]->old);
            mem_free(inode->pages[i]);
        }
    }
    mem_free(inode->pages);
    mem_free(inode->dirty);
    mem_free(inode);
}

void mem_inode_link(struct vfs_mem *disk, struct inode *inode)
{
    inode->refs++;
    inode->links++;
    if (inode->links == 1) {
        mem_charge(disk, inode, 0, inode->size);
    }
}

void mem_inode_unlink(struct vfs_mem *disk, struct inode *inode)
{
    if (inode->links == 1) {
        mem_charge(disk, inode, inode->size, 0);
    }
    inode->links--;
    mem_inode_unref(inode);
}

struct page *mem_inode_page(struct inode *inode, size_t index)
{
    if (index >= inode->page_count) {
        size_t count = index + 1 > inode->page_count * 2 ? index + 1 : inode->page_count * 2;

        inode->pages = mem_realloc(inode->pages, count * sizeof(struct page *));
        for (size_t i = inode->page_count; i < count; i++) {
            inode->pages[i] = NULL;
        }
        inode->page_count = count;
    }
    if (!inode->pages[index]) {
        inode->pages[index] = mem_zalloc(1, sizeof(struct page));
    }
    return inode->pages[index];
}

static void page_mark(struct inode *inode, size_t index, struct page *page, unsigned sector)
{
    if (!page->old) {
        page->old = mem_dup(page->bytes, VFS_BLOCK);
        if (inode->dirty_count == inode->dirty_cap) {
            inode->dirty_cap = inode->dirty_cap ? inode->dirty_cap * 2 : 8;
            inode->dirty = mem_realloc(inode->dirty, inode->dirty_cap * sizeof(size_t));
        }
        inode->dirty[inode->dirty_count++] = index;
    }
    /* A page is written as a whole. */
    page->dirty = (uint8_t)(page->dirty | page->lost | 1U << sector);
    page->lost = 0;
}

static bool is_zero(const uint8_t *data, size_t len)
{
    return len == 0 || (data[0] == 0 && memcmp(data, data + 1, len - 1) == 0);
}

/* Writes within one page; unchanged bytes make nothing dirty. */
static void page_write(struct inode *inode, size_t index, size_t at, const uint8_t *data,
                       size_t len)
{
    bool is_absent = index >= inode->page_count || !inode->pages[index];

    if (is_absent && is_zero(data, len)) {
        return;
    }

    struct page *page = mem_inode_page(inode, index);

    page->is_unreadable = false;
    while (len > 0) {
        unsigned sector = (unsigned)(at / VFS_SECTOR);
        size_t room = VFS_SECTOR - at % VFS_SECTOR;
        size_t take = len < room ? len : room;

        if (page->lost != 0 || memcmp(page->bytes + at, data, take) != 0) {
            page_mark(inode, index, page, sector);
            memcpy(page->bytes + at, data, take);
        }
        at += take;
        data += take;
        len -= take;
    }
}

void mem_inode_write(struct inode *inode, uint64_t offset, const uint8_t *data, size_t len)
{
    while (len > 0) {
        size_t at = (size_t)(offset % VFS_BLOCK);
        size_t take = len < VFS_BLOCK - at ? len : VFS_BLOCK - at;

        page_write(inode, (size_t)(offset / VFS_BLOCK), at, data, take);
        offset += take;
        data += take;
        len -= take;
    }
}

void mem_inode_read(const struct inode *inode, uint64_t offset, uint8_t *data, size_t len)
{
    while (len > 0) {
        size_t index = (size_t)(offset / VFS_BLOCK);
        size_t at = (size_t)(offset % VFS_BLOCK);
        size_t take = len < VFS_BLOCK - at ? len : VFS_BLOCK - at;
        const struct page *page = index < inode->page_count ? inode->pages[index] : NULL;

        if (page) {
            memcpy(data, page->bytes + at, take);
        } else {
            memset(data, 0, take);
        }
        offset += take;
        data += take;
        len -= take;
    }
}

/* The dirty content reaches the disk. */
static void page_settle(struct page *page)
{
    page->dirty = 0;
    if (page->lost == 0) {
        mem_free(page->old);
        page->old = NULL;
    }
}

void mem_inode_sync(struct inode *inode)
{
    size_t kept = 0;

    for (size_t i = 0; i < inode->dirty_count; i++) {
        struct page *page = inode->pages[inode->dirty[i]];

        page_settle(page);
        if (page->lost != 0) {
            inode->dirty[kept++] = inode->dirty[i];
        }
    }
    inode->dirty_count = kept;
    inode->durable_size = inode->size;
}

/* Makes everything after `size` zero. */
void mem_inode_clear_from(struct inode *inode, uint64_t size)
{
    static const uint8_t zeros[VFS_BLOCK];
    uint64_t end = (uint64_t)inode->page_count * VFS_BLOCK;

    while (size < end) {
        size_t at = (size_t)(size % VFS_BLOCK);
        size_t index = (size_t)(size / VFS_BLOCK);

        if (inode->pages[index]) {
            page_write(inode, index, at, zeros, VFS_BLOCK - at);
        }
        size += VFS_BLOCK - at;
    }
}

/* ---- The directory. ---- */

struct entry *mem_dir_find(const struct dir *dir, const char *name)
{
    for (size_t i = 0; i < dir->count; i++) {
        if (strcmp(dir->list[i].name, name) == 0) {
            return &dir->list[i];
        }
    }
    return NULL;
}

static void name_copy(char to[VFS_NAME_MAX], const char *from)
{
    int put = snprintf(to, VFS_NAME_MAX, "%s", from);

    ASSERT(put >= 0 && put < VFS_NAME_MAX);
}

/* `disk` decides whether the names of `dir` take up space: NULL for the durable image. */
void mem_dir_remove(struct vfs_mem *disk, struct dir *dir, const char *name)
{
    struct entry *entry = mem_dir_find(dir, name);

    if (!entry) {
        return;
    }

    size_t at = (size_t)(entry - dir->list);
    struct inode *inode = entry->inode;

    dir->count--;
    memmove(entry, entry + 1, (dir->count - at) * sizeof(*entry));
    if (disk) {
        mem_inode_unlink(disk, inode);
    } else {
        mem_inode_unref(inode);
    }
}

void mem_dir_set(struct vfs_mem *disk, struct dir *dir, const char *name, struct inode *inode)
{
    size_t at = 0;

    if (disk) {
        mem_inode_link(disk, inode);
    } else {
        inode->refs++;
    }
    mem_dir_remove(disk, dir, name);
    if (dir->count == dir->cap) {
        dir->cap = dir->cap ? dir->cap * 2 : 8;
        dir->list = mem_realloc(dir->list, dir->cap * sizeof(*dir->list));
    }
    while (at < dir->count && strcmp(dir->list[at].name, name) < 0) {
        at++;
    }
    memmove(dir->list + at + 1, dir->list + at, (dir->count - at) * sizeof(*dir->list));
    dir->list[at].inode = inode;
    name_copy(dir->list[at].name, name);
    dir->count++;
}

void mem_dir_clear(struct vfs_mem *disk, struct dir *dir)
{
    while (dir->count > 0) {
        mem_dir_remove(disk, dir, dir->list[dir->count - 1].name);
    }
}

void mem_dir_copy(struct vfs_mem *disk, struct dir *to, const struct dir *from)
{
    mem_dir_clear(disk, to);
    for (size_t i = 0; i < from->count; i++) {
        mem_dir_set(disk, to, from->list[i].name, from->list[i].inode);
    }
}

void mem_change_apply(struct vfs_mem *disk, struct dir *dir, const struct change *change)
{
    if (change->set[0]) {
        mem_dir_set(disk, dir, change->set, change->inode);
    }
    if (change->remove[0]) {
        mem_dir_remove(disk, dir, change->remove);
    }
}

/* Takes effect now, and is recorded as not durable. */
void mem_change_add(struct vfs_mem *disk, const char *remove, const char *set, struct inode *inode)
{
    struct change change = {.inode = inode};

    name_copy(change.remove, remove);
    name_copy(change.set, set);
    if (inode) {
        inode->refs++;
    }
    if (disk->change_count == disk->change_cap) {
        disk->change_cap = disk->change_cap ? disk->change_cap * 2 : 8;
        disk->changes = mem_realloc(disk->changes, disk->change_cap * sizeof(change));
    }
    disk->changes[disk->change_count++] = change;
    mem_change_apply(disk, &disk->now, &change);
}

void mem_changes_clear(struct vfs_mem *disk)
{
    for (size_t i = 0; i < disk->change_count; i++) {
        if (disk->changes[i].inode) {
            mem_inode_unref(disk->changes[i].inode);
        }
    }
    disk->change_count = 0;
}
