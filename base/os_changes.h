/*
 * os_changes.h - notices that files have changed, by what stat() reports, so that they are read
 * again.
 *
 * A change counts when two looks in a row see the same: the certificate and the key of one renewal
 * are often written one after the other, and between them they do not fit. After a reading that
 * has failed, the files are due again and again, because the cause may be outside of them: the
 * clock, a lack of descriptors, a directory. One thread at a time.
 */
#ifndef BASE_OS_CHANGES_H
#define BASE_OS_CHANGES_H

#include <stdbool.h>
#include <stdint.h>

enum {
    OS_CHANGES_MAX = 18,         /* Files. */
    OS_CHANGES_LOOKS_MAX = 5,    /* Looks until files count that never stop changing. */
    OS_CHANGES_RETRY_MS = 30000, /* Time between two readings that fail. */
};

/* What a file looks like; zeroed: it is not there. */
struct os_mark {
    uint64_t device;
    uint64_t inode;
    int64_t size;
    int64_t written_ns;
    int64_t changed_ns; /* Also by chmod, chown and rename. */
};

struct os_changes {
    const char *paths[OS_CHANGES_MAX]; /* The caller's. */
    uint32_t count;
    struct os_mark read[OS_CHANGES_MAX]; /* When the files were last read. */
    struct os_mark seen[OS_CHANGES_MAX]; /* At the last look. */
    uint32_t unsettled;                  /* Looks in a row that have seen a change. */
    bool failed;
    uint64_t retry_ms;
};

enum os_due {
    OS_NOT_DUE,
    OS_CHANGED,
    OS_RETRY /* Nothing has changed, but the last reading has failed. */
};

/* Adds a file to zeroed `changes`; "" is left out. `path` must live as long as `changes`. */
void os_changes_add(struct os_changes *changes, const char *path);

/* Looks at the files; says whether they are to be read again now. May wait for a file system. */
enum os_due os_changes_look(struct os_changes *changes, uint64_t now_ms);

/* Before the files are read, so that a change during the reading is found by the next look. May
 * wait for a file system. */
void os_changes_begin(struct os_changes *changes);

/* After they were read: whether they could be used. */
void os_changes_end(struct os_changes *changes, bool good, uint64_t now_ms);

#endif
