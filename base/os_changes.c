#include "base/os_changes.h"

#include "base/check.h"

#include <string.h>
#include <sys/stat.h>

enum {
    NS_PER_S = 1000000000
};

static int64_t ns_of(const struct timespec *time)
{
    return (int64_t)time->tv_sec * NS_PER_S + time->tv_nsec;
}

static struct os_mark mark_of(const char *path)
{
    struct stat about;

    if (stat(path, &about)) {
        return (struct os_mark){.inode = 0};
    }
    return (struct os_mark){.device = about.st_dev,
                            .inode = about.st_ino,
                            .size = about.st_size,
                            .written_ns = ns_of(&about.st_mtim),
                            .changed_ns = ns_of(&about.st_ctim)};
}

static bool is_same(const struct os_mark *a, const struct os_mark *b)
{
    return a->device == b->device && a->inode == b->inode && a->size == b->size &&
           a->written_ns == b->written_ns && a->changed_ns == b->changed_ns;
}

void os_changes_add(struct os_changes *changes, const char *path)
{
    if (path[0]) {
        ASSERT(changes->count < OS_CHANGES_MAX);
        changes->paths[changes->count++] = path;
    }
}

enum os_due os_changes_look(struct os_changes *changes, uint64_t now_ms)
{
    bool settled = true;
    bool fresh = false;

    for (uint32_t i = 0; i < changes->count; i++) {
        struct os_mark mark = mark_of(changes->paths[i]);

        settled = settled && is_same(&mark, &changes->seen[i]);
        fresh = fresh || !is_same(&mark, &changes->read[i]);
        changes->seen[i] = mark;
    }
    changes->unsettled = settled ? 0 : changes->unsettled + 1;
    if (fresh && (settled || changes->unsettled >= OS_CHANGES_LOOKS_MAX)) {
        return OS_CHANGED;
    }
    return !fresh && changes->failed && now_ms >= changes->retry_ms ? OS_RETRY : OS_NOT_DUE;
}

void os_changes_begin(struct os_changes *changes)
{
    for (uint32_t i = 0; i < changes->count; i++) {
        changes->read[i] = mark_of(changes->paths[i]);
        changes->seen[i] = changes->read[i];
    }
    changes->unsettled = 0;
}

void os_changes_end(struct os_changes *changes, bool good, uint64_t now_ms)
{
    changes->failed = !good;
    changes->retry_ms = now_ms + OS_CHANGES_RETRY_MS;
}
