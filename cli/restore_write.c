#include "base/os_rng.h"
#include "cli/inspect_files.h"
#include "cli/restore_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <unistd.h>

enum {
    DIR_MAX = 4000
};

int restoring_fail(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)fprintf(stderr, "zabra restore: ");
    /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): `args` was just started. */
    (void)vfprintf(stderr, format, args);
    (void)fprintf(stderr, "\n");
    va_end(args);
    return CMD_FAILED;
}

void restoring_begin(struct restoring *restoring, const char *verb)
{
    restoring->progress = (struct progress){.verb = verb};
    for (size_t i = 0; i < restoring->count; i++) {
        restoring->progress.total += restoring->inputs[i].size;
    }
    restoring->read = 0;
    restoring->bytes = 0;
}

static int write_store(struct restoring *restoring, struct vfs vfs)
{
    const struct restore_target base = {.id = restoring->id,
                                        .incarnation = os_random_u64() | 1,
                                        .history = os_random_u64() | 1,
                                        .now_ms = os_wall_ms(),
                                        .keep_sessions = restoring->keep_sessions};
    struct restore_target target = base;
    struct store_report report;
    char why[BACKUP_WHY_MAX];
    enum err err = inspect_open(vfs, false, &target.store, &report, NULL);

    if (err != ERR_OK) {
        return restoring_fail("%s: %s", restoring->part, err_text(err));
    }
    restoring->history = target.history;
    restoring_begin(restoring, "restored");
    err = restore_write(&target, &restoring->check, restoring->inputs, restoring->check.sound,
                        &restoring->result, why);
    progress_clear(&restoring->progress);
    store_close(target.store, err == ERR_OK);
    return err == ERR_OK ? CMD_OK : restoring_fail("%s; %s was removed", why, restoring->part);
}

/* Removes the files of a directory that has none but files, and the directory. */
static void remove_part(struct vfs vfs, const char *dir);

static void remove_one(void *arg, const char *name)
{
    const struct vfs *vfs = arg;

    (void)vfs->ops->unlink(vfs->ctx, name);
}

static void remove_part(struct vfs vfs, const char *dir)
{
    (void)vfs.ops->list(vfs.ctx, remove_one, &vfs);
    (void)rmdir(dir);
}

static void give_one(void *arg, const char *name)
{
    struct restoring *restoring = arg;
    const struct stat *owner = &restoring->owner;

    if (fchownat(restoring->part_fd, name, owner->st_uid, owner->st_gid, AT_SYMLINK_NOFOLLOW) !=
        0) {
        restoring->is_roots = true;
    }
}

/* Gives all files to the owner of the directory that is replaced: root restores, but a replica has
 * a user of its own. Where there is none, a hint follows. Returns 0, or the number of a system
 * error. */
static int give_to_owner(struct restoring *restoring, struct vfs vfs)
{
    struct stat owner;

    restoring->is_roots = geteuid() == 0;
    if (!restoring->is_roots || stat(restoring->dir, &owner) != 0 || owner.st_uid == 0) {
        return 0;
    }
    restoring->part_fd = open(restoring->part, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    restoring->owner = owner;
    int error = restoring->part_fd < 0 ? errno : 0;

    if (error == 0) {
        restoring->is_roots = false;
        (void)vfs.ops->list(vfs.ctx, give_one, restoring);
        if (restoring->is_roots || fchown(restoring->part_fd, owner.st_uid, owner.st_gid) != 0) {
            error = EPERM;
        }
        (void)close(restoring->part_fd);
    }
    return error;
}

/* Gives the directory its name; an empty one of that name is replaced. */
static int put_in_place(const struct restoring *restoring)
{
    if (rename(restoring->part, restoring->dir) != 0) {
        return restoring_fail("%s: %s; what was restored is in %s", restoring->dir,
                              strerrordesc_np(errno), restoring->part);
    }
    int error = backup_sync_parent(restoring->dir);

    return error == 0 ? CMD_OK : restoring_fail("%s: %s", restoring->dir, strerrordesc_np(error));
}

/* Length of the path without the slashes at its end. */
static size_t name_length(const char *path)
{
    size_t len = min_size(strlen(path), DIR_MAX);

    while (len > 1 && path[len - 1] == '/') {
        len--;
    }
    return len;
}

int restoring_write(struct restoring *restoring)
{
    struct vfs vfs;

    (void)snprintf(restoring->part, sizeof restoring->part, "%.*s.part",
                   (int)name_length(restoring->dir), restoring->dir);
    if (mkdir(restoring->part, 0700) != 0) {
        return restoring_fail("%s: %s%s", restoring->part, strerrordesc_np(errno),
                              errno == EEXIST ? "; an earlier restore has not ended: remove it"
                                              : "");
    }
    enum err err = vfs_posix_open(restoring->part, &vfs);

    if (err != ERR_OK) {
        return restoring_fail("%s: %s", restoring->part, err_text(err));
    }
    int code = write_store(restoring, vfs);
    int error = code == CMD_OK ? give_to_owner(restoring, vfs) : 0;

    if (error != 0) {
        code = restoring_fail("%s: its owner cannot be set: %s", restoring->part,
                              strerrordesc_np(error));
    }
    if (code != CMD_OK) {
        remove_part(vfs, restoring->part);
    }
    vfs_posix_close(&vfs);
    return code == CMD_OK ? put_in_place(restoring) : code;
}
