/*
 * backup_kit.h - what tests of backups share: shell lines that take them, and files that are made
 * to look old.
 */
#ifndef TESTS_PROC_BACKUP_KIT_H
#define TESTS_PROC_BACKUP_KIT_H

#include "tests/proc/faulty.h"
#include "tests/proc/shell.h"

/* Sets a variable for shell lines. */
void backup_set(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Opens the shell. $BACKUP takes a backup as the super user, $OUT is an empty directory for them,
 * $D/data has bytes that cannot be compressed. */
void backup_prepare(const struct ensemble *ensemble);

/* For commands whose clock is wrong: `$FAULTY zabra ...` runs one under the control of the returned
 * page, which lasts as long as the test. */
struct faulty *backup_offer_faulty(const struct ensemble *ensemble);

/* Creates znodes /PREFIX1 and so on. */
void backup_write_some(const char *prefix, int count);

/* Changes the time at which a replica made a backup, by so many ms. Only HEAD stays sound. */
void backup_shift(const char *path, int64_t ms);

#endif
