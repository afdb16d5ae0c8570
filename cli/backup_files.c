#include "cli/backup_files.h"

#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

enum {
    PART_TRIES_MAX = 100, /* Times that a part gets its name, or is removed, meanwhile. */
    LOCK_LINE_MAX = 256,  /* Of /proc/locks. */
    STAMP_LEN = 20,       /* "20261122T070451.123Z" */
    HOUR_MS = 3600000,
    DAY_MS = 24 * HOUR_MS
};

static const char *const endings[] = {"-more" BACKUP_SUFFIX, "-full" BACKUP_SUFFIX};

/* ---- One file. ---- */

static enum err read_exactly(void *ctx, uint64_t offset, void *to, size_t len)
{
    const struct backup_open *open = ctx;
    uint8_t *at = to;

    while (len > 0) {
        ssize_t got = pread(open->fd, at, len, (off_t)offset);

        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return ERR_IO;
        }
        at += got;
        offset += (uint64_t)got;
        len -= (size_t)got;
    }
    return ERR_OK;
}

int backup_open(const char *path, struct backup_open *ret_open)
{
    struct stat stat;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    int why = 0;

    if (fd < 0) {
        return errno;
    }
    if (fstat(fd, &stat) != 0) {
        why = errno;
    } else if (!S_ISREG(stat.st_mode)) {
        why = S_ISDIR(stat.st_mode) ? EISDIR : EINVAL;
    }
    if (why != 0) {
        (void)close(fd);
        return why;
    }
    ret_open->fd = fd;
    ret_open->input = (struct backup_input){
        .name = path, .size = (uint64_t)stat.st_size, .read = read_exactly, .ctx = ret_open};
    return 0;
}

void backup_close(struct backup_open *open)
{
    (void)close(open->fd);
}

/* ---- A directory. ---- */

int64_t backup_dir_next_ms(const struct backup_dir *dir, int64_t now_ms)
{
    int64_t newest_ms = dir->count > 0 ? dir->files[dir->count - 1].made_ms : INT64_MIN;

    return now_ms > newest_ms ? now_ms : newest_ms + 1;
}

void backup_dir_name(int64_t made_ms, bool full, char name[BACKUP_NAME_MAX])
{
    time_t seconds = (time_t)(made_ms / 1000);
    struct tm utc;
    char stamp[STAMP_LEN];

    (void)gmtime_r(&seconds, &utc);
    (void)strftime(stamp, sizeof stamp, "%Y%m%dT%H%M%S", &utc);
    (void)snprintf(name, BACKUP_NAME_MAX, "%s.%03dZ%s", stamp, (int)(made_ms % 1000),
                   endings[full]);
}

/* Takes a name apart; false if it is not that of a backup. */
static bool take_name(const char *name, struct backup_file *ret_file)
{
    struct tm utc = {.tm_isdst = 0};
    int millis = 0;
    int end = 0;

    *ret_file = (struct backup_file){.kept = false};
    if (strlen(name) >= BACKUP_NAME_MAX ||
        sscanf(name, "%4d%2d%2dT%2d%2d%2d.%3dZ%n", &utc.tm_year, &utc.tm_mon, &utc.tm_mday,
               &utc.tm_hour, &utc.tm_min, &utc.tm_sec, &millis, &end) != 7 ||
        end != STAMP_LEN) {
        return false;
    }
    ret_file->full = strcmp(name + end, endings[true]) == 0;
    if (!ret_file->full && strcmp(name + end, endings[false]) != 0) {
        return false;
    }
    utc.tm_year -= 1900;
    utc.tm_mon -= 1;
    ret_file->made_ms = (int64_t)timegm(&utc) * 1000 + millis;
    (void)snprintf(ret_file->name, sizeof ret_file->name, "%s", name);
    return true;
}

static int compare(const void *a, const void *b)
{
    const struct backup_file *left = a;
    const struct backup_file *right = b;

    return strcmp(left->name, right->name);
}

/* Calls `take` for each name of the directory until it returns false. Returns 0, or the number of a
 * system error. */
static int for_each_name(const char *path, bool (*take)(void *ctx, const char *name), void *ctx)
{
    DIR *stream = opendir(path);
    const struct dirent *entry;

    if (!stream) {
        return errno;
    }
    do {
        entry = readdir(stream); /* NOLINT(concurrency-mt-unsafe): our own stream. */
    } while (entry && take(ctx, entry->d_name));
    (void)closedir(stream);
    return 0;
}

static bool add_backup(void *ctx, const char *name)
{
    struct backup_dir *dir = ctx;
    struct backup_file file;

    if (take_name(name, &file)) {
        dir->overflow = dir->count == dir->max;
        if (dir->overflow) {
            return false;
        }
        MEM_GROW(dir->files, dir->count, dir->cap, BACKUP_FILES_LISTED);
        dir->files[dir->count++] = file;
    }
    return true;
}

int backup_dir_list(const char *path, size_t files_max, struct backup_dir *ret_dir)
{
    *ret_dir = (struct backup_dir){.max = files_max};

    int error = for_each_name(path, add_backup, ret_dir);

    if (ret_dir->count > 0) {
        qsort(ret_dir->files, ret_dir->count, sizeof *ret_dir->files, compare);
    }
    return ret_dir->overflow ? EOVERFLOW : error;
}

const char *backup_dir_error(int error)
{
    return error == EOVERFLOW ? "has more than 100000 backups: move the older ones to another "
                                "directory, whole chains at a time"
                              : strerrordesc_np(error);
}

static bool see_name(void *ctx, const char *name)
{
    bool *empty = ctx;

    *empty = strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
    return *empty;
}

int backup_dir_is_empty(const char *path, bool *ret_empty)
{
    *ret_empty = true;
    return for_each_name(path, see_name, ret_empty);
}

void backup_parent(const char *path, char out[BACKUP_PATH_MAX])
{
    size_t len = strlen(path);

    while (len > 1 && path[len - 1] == '/') {
        len--;
    }
    while (len > 0 && path[len - 1] != '/') {
        len--;
    }
    (void)snprintf(out, BACKUP_PATH_MAX, "%.*s", len == 0 ? 1 : (int)min_size(len, 4000),
                   len == 0 ? "." : path);
}

int backup_sync_parent(const char *path)
{
    char dir[BACKUP_PATH_MAX];

    backup_parent(path, dir);

    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int error = fd >= 0 && fsync(fd) == 0 ? 0 : errno;

    if (fd >= 0) {
        (void)close(fd);
    }
    return error;
}

/* ---- Unfinished backups. ---- */

/* Whether the name still means the open file: the process that had it locked may have given it
 * another name, or removed it. */
static bool is_still(const char *path, const struct stat *open_file)
{
    struct stat named;

    return lstat(path, &named) == 0 && named.st_dev == open_file->st_dev &&
           named.st_ino == open_file->st_ino;
}

/* Opens the file. `*ret_is_new`: this process has made it, so no other one writes it. */
static int open_or_make(const char *path, bool *ret_is_new)
{
    int flags = O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
    int fd = open(path, flags | O_CREAT | O_EXCL, 0600);

    *ret_is_new = fd >= 0;
    if (fd >= 0 || errno != EEXIST) {
        return fd;
    }
    fd = open(path, flags);
    errno = fd < 0 && errno == ENOENT ? ESTALE : errno; /* It is gone meanwhile. */
    return fd;
}

/* Opens and locks the file. Returns 0; the number of a system error; ESTALE: the name means another
 * file meanwhile; ENOLCK: it cannot be locked, and was there before. */
static int lock_part(const char *path, int *ret_fd, struct stat *ret_stat)
{
    bool is_new = false;
    int fd = open_or_make(path, &is_new);
    int error = 0;

    *ret_fd = fd;
    if (fd < 0) {
        return errno;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && (errno == EWOULDBLOCK || !is_new)) {
        error = errno == EWOULDBLOCK ? errno : ENOLCK;
    } else if (fstat(fd, ret_stat) != 0) {
        error = errno;
    } else if (!is_still(path, ret_stat)) {
        error = ESTALE;
    }
    if (error != 0) {
        (void)close(fd);
    }
    return error;
}

/* Why a file that is there must not be written; NULL: it may. Another user could read it, or has
 * made another name of it. */
static const char *judge_part(const struct stat *part)
{
    return !S_ISREG(part->st_mode)     ? "is no regular file: remove it"
           : part->st_uid != geteuid() ? "belongs to another user: remove it"
           : part->st_nlink != 1       ? "has several names (hard links): remove it"
                                       : NULL;
}

int backup_part_open(const char *path, const char **ret_why)
{
    struct stat part = {.st_mode = 0};
    int error = ESTALE;
    int fd = -1;

    for (int i = 0; i < PART_TRIES_MAX && error == ESTALE; i++) {
        error = lock_part(path, &fd, &part);
    }
    if (error != 0) {
        *ret_why = error == EWOULDBLOCK || error == ESTALE ? "another zabra backup writes this file"
                   : error == ENOLCK ? "exists, and this file system has no locks: remove it if no "
                                       "other zabra backup writes it"
                   : error == ELOOP  ? "is a symbolic link: remove it"
                                     : strerrordesc_np(error);
        return -1;
    }
    *ret_why = judge_part(&part);
    if (!*ret_why && (fchmod(fd, 0600) != 0 || ftruncate(fd, 0) != 0)) {
        *ret_why = strerrordesc_np(errno);
    }
    if (*ret_why) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

void backup_write_why(int fd, int error, uint64_t need, char out[BACKUP_WHY_MAX])
{
    struct statvfs room;
    off_t at = lseek(fd, 0, SEEK_CUR);
    bool is_full = error == ENOSPC || error == EDQUOT;

    if (!is_full || need == 0 || at < 0 || fstatvfs(fd, &room) != 0) {
        (void)snprintf(out, BACKUP_WHY_MAX, "%s", strerrordesc_np(error));
        return;
    }
    (void)snprintf(out, BACKUP_WHY_MAX,
                   "%s: the backup needs about %" PRIu64 " bytes, and there was room for %" PRIu64
                   "; the file was removed, and earlier backups are as they were",
                   strerrordesc_np(error), need,
                   (uint64_t)at + (uint64_t)room.f_bavail * room.f_frsize);
}

struct cleaning {
    const char *dir;
    bool is_locked; /* No other process writes into it. */
};

static bool remove_part(void *ctx, const char *name)
{
    const struct cleaning *cleaning = ctx;
    size_t len = strlen(name);
    size_t end = strlen(BACKUP_PART);
    char path[BACKUP_PATH_MAX];
    char base[BACKUP_NAME_MAX];
    struct backup_file file;
    struct stat part;

    if (len <= end || len >= BACKUP_NAME_MAX || strcmp(name + len - end, BACKUP_PART) != 0) {
        return true;
    }
    (void)snprintf(base, sizeof base, "%.*s", (int)(len - end), name);
    (void)snprintf(path, sizeof path, "%.3900s/%s", cleaning->dir, name);
    if (!take_name(base, &file)) {
        return true;
    }
    int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);

    if (fd < 0) {
        (void)(cleaning->is_locked && errno != ENOENT && unlink(path));
        return true;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &part) == 0 && is_still(path, &part)) {
        (void)unlink(path);
    }
    (void)close(fd);
    return true;
}

void backup_parts_remove(const char *path, bool is_locked)
{
    struct cleaning cleaning = {.dir = path, .is_locked = is_locked};

    (void)for_each_name(path, remove_part, &cleaning);
}

/* ---- The lock of a directory. ---- */

/* Finds the process that has a file locked, in the kernel's list. 0: it is not there. */
static pid_t find_holder(const struct stat *file)
{
    FILE *list = fopen("/proc/locks", "re");
    char line[LOCK_LINE_MAX];
    pid_t found = 0;

    while (list && found == 0 && fgets(line, sizeof line, list)) {
        unsigned int major = 0;
        unsigned int minor = 0;
        unsigned long long inode = 0;
        int pid = 0;

        if (sscanf(line, "%*d: FLOCK %*s %*s %d %x:%x:%llu", &pid, &major, &minor, &inode) == 4 &&
            inode == file->st_ino && makedev(major, minor) == file->st_dev) {
            found = pid;
        }
    }
    if (list) {
        (void)fclose(list);
    }
    return found > 0 ? found : 0;
}

int backup_dir_lock(const char *path, struct backup_lock *ret_lock)
{
    struct stat dir;
    int error = 0;

    *ret_lock = (struct backup_lock){.fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    if (ret_lock->fd < 0) {
        return errno;
    }
    ret_lock->is_held = flock(ret_lock->fd, LOCK_EX | LOCK_NB) == 0;
    if (!ret_lock->is_held && errno == EWOULDBLOCK) {
        error = errno;
        ret_lock->holder = fstat(ret_lock->fd, &dir) == 0 ? find_holder(&dir) : 0;
        backup_dir_unlock(ret_lock);
    }
    return error;
}

void backup_dir_unlock(struct backup_lock *lock)
{
    if (lock->fd >= 0) {
        (void)close(lock->fd);
    }
    lock->fd = -1;
    lock->is_held = false;
}

/* ---- Heads. ---- */

bool backup_dir_head(const char *path, const char *name, struct backup_head *ret_head,
                     char why[BACKUP_WHY_MAX])
{
    char whole[BACKUP_PATH_MAX];
    struct backup_open open;
    struct buf memory;

    (void)snprintf(whole, sizeof whole, "%.3900s/%s", path, name);
    int error = backup_open(whole, &open);

    if (error != 0) {
        (void)snprintf(why, BACKUP_WHY_MAX, "%.200s: %s", whole, strerrordesc_np(error));
        return false;
    }
    enum err err = backup_read_head(&open.input, &memory, ret_head, why);

    backup_close(&open);
    buf_release(&memory);
    ret_head->config = slice_make(NULL, 0);
    return err == ERR_OK;
}

void backup_dir_take_heads(const char *path, struct backup_dir *dir)
{
    for (size_t i = 0; i < dir->count; i++) {
        struct backup_file *file = &dir->files[i];
        char why[BACKUP_WHY_MAX];
        struct backup_head head;

        if (backup_dir_head(path, file->name, &head, why)) {
            file->made_ms = head.made_ms;
        }
    }
}

void backup_dir_release(struct backup_dir *dir)
{
    mem_free(dir->files);
    *dir = (struct backup_dir){.count = 0};
}

/* ---- The policy. ---- */

/* Parses a number with h or d, and moves behind it. 0: it is malformed. */
static int64_t take_span(const char **text)
{
    char *end = NULL;

    if (**text < '0' || **text > '9') {
        return 0;
    }
    errno = 0;
    unsigned long long number = strtoull(*text, &end, 10);
    int64_t unit_ms = *end == 'h' ? HOUR_MS : *end == 'd' ? DAY_MS : 0;

    if (errno != 0 || unit_ms == 0 || number == 0 || number > 100000) {
        return 0;
    }
    *text = end + 1;
    return (int64_t)number * unit_ms;
}

bool backup_span_parse(const char *text, int64_t *ret_ms)
{
    *ret_ms = take_span(&text);
    return *ret_ms > 0 && *text == '\0';
}

bool backup_policy_parse(const char *text, struct backup_policy *ret_policy)
{
    *ret_policy = (struct backup_policy){.count = 0};
    do {
        struct backup_rule *rule = &ret_policy->rules[ret_policy->count];

        text += ret_policy->count > 0 ? 1 : 0; /* The comma. */
        rule->age_ms = take_span(&text);
        if (rule->age_ms == 0 || *text != ':') {
            return false;
        }
        text++;
        rule->every_ms = take_span(&text);
        if (rule->every_ms == 0 || rule->every_ms > rule->age_ms) {
            return false;
        }
        ret_policy->count++;
    } while (*text == ',' && ret_policy->count < BACKUP_RULES_MAX);
    return *text == '\0';
}

size_t backup_dir_chain_end(const struct backup_dir *dir, size_t first)
{
    size_t end = first + 1;

    while (end < dir->count && !dir->files[end].full) {
        end++;
    }
    return end;
}

static void mark_rule(const struct backup_rule *rule, struct backup_dir *dir, int64_t now_ms)
{
    int64_t interval = -1;

    for (size_t i = 0, end; i < dir->count; i = end) {
        end = backup_dir_chain_end(dir, i);

        int64_t last_ms = dir->files[end - 1].made_ms;
        int64_t here = last_ms / rule->every_ms;

        if (now_ms - last_ms <= rule->age_ms && here != interval) {
            interval = here;
            for (size_t j = i; j < end; j++) {
                dir->files[j].kept = true;
            }
        }
    }
}

size_t backup_dir_chain(const struct backup_dir *dir)
{
    size_t first = dir->count;

    while (first > 0 && !dir->files[first - 1].full) {
        first--;
    }
    return first > 0 ? first - 1 : dir->count;
}

void backup_policy_mark(const struct backup_policy *policy, struct backup_dir *dir, int64_t now_ms)
{
    for (size_t i = 0; i < policy->count; i++) {
        mark_rule(&policy->rules[i], dir, now_ms);
    }
    for (size_t i = backup_dir_chain(dir); i < dir->count; i++) {
        dir->files[i].kept = true;
    }
}

int backup_dir_remove(const char *path, const struct backup_dir *dir, uint32_t *ret_removed,
                      char ret_path[BACKUP_PATH_MAX])
{
    *ret_removed = 0;
    for (size_t i = dir->count; i-- > 0;) {
        if (dir->files[i].kept) {
            continue;
        }
        (void)snprintf(ret_path, BACKUP_PATH_MAX, "%.3900s/%s", path, dir->files[i].name);
        if (unlink(ret_path) != 0) {
            return errno;
        }
        (*ret_removed)++;
    }
    return 0;
}
