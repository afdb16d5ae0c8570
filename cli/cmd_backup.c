/* backup: everything that a replica has, in one file, while clients read and write. */
#include "cli/args.h"
#include "cli/backup_files.h"
#include "cli/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    SINCE_MAX = 64,
    TRIES_MAX = 3
};

struct backing {
    struct cli *cli;
    const char *target; /* FILE, DIR or "-". */
    bool is_dir;
    bool is_pipe;
    char path[BACKUP_PATH_MAX]; /* Of the file when it is complete. */
    char part[BACKUP_PATH_MAX]; /* While it is written. */
    int fd;
    int error; /* Why writing failed; 0: it did not. */
    struct backup_dir dir;
    bool increment;
    char since[SINCE_MAX];
    struct backup_head head;
};

static int fail_file(const struct backing *backing, const char *path, int error)
{
    return cli_fail(backing->cli, CMD_FAILED, "File", "%.900s: %s", path, strerrordesc_np(error));
}

/* ---- What to ask for. ---- */

/* Finds the end of the newest backup in the directory. Returns CMD_OK, or the code of a reported
 * error. */
static int find_last(struct backing *backing)
{
    const struct backup_dir *dir = &backing->dir;
    char why[BACKUP_WHY_MAX];
    char path[BACKUP_PATH_MAX];
    struct backup_head head;
    struct backup_open last;
    struct buf memory;

    if (dir->count == 0) {
        out_say(&backing->cli->out, "no backup yet: taking a full one\n");
        return CMD_OK;
    }
    (void)snprintf(path, sizeof path, "%.3900s/%s", backing->target,
                   dir->files[dir->count - 1].name);
    int error = backup_open(path, &last);

    if (error != 0) {
        return fail_file(backing, path, error);
    }
    enum err err = backup_read_head(&last.input, &memory, &head, why);

    backup_close(&last);
    buf_release(&memory);
    if (err != ERR_OK) {
        return cli_fail(backing->cli, CMD_FAILED, "Backup",
                        "%s; remove it, or take a full backup (without --since-last)", why);
    }
    backing->increment = true;
    (void)snprintf(backing->since, sizeof backing->since, "%016" PRIx64 ":0x%" PRIx64, head.history,
                   head.end);
    return CMD_OK;
}

/* Finds out what the operand is. */
static int look_at_target(struct backing *backing)
{
    const struct cli *cli = backing->cli;
    bool since_last = args_has(&cli->args, "since-last");
    struct stat stat_of;

    backing->is_pipe = strcmp(backing->target, "-") == 0;
    backing->is_dir =
        !backing->is_pipe && stat(backing->target, &stat_of) == 0 && S_ISDIR(stat_of.st_mode);
    if (!backing->is_dir && (since_last || args_has(&cli->args, "keep"))) {
        return CLI_USAGE(cli, "--since-last and --keep need a directory that exists");
    }
    if (backing->is_pipe && args_has(&cli->args, "verify")) {
        return CLI_USAGE(cli, "a pipe cannot be verified: use zabra inspect on the file");
    }
    if (backing->is_pipe && isatty(STDOUT_FILENO)) {
        return CLI_USAGE(cli, "a backup is no text for a terminal: use a pipe or a file");
    }
    if (!backing->is_dir) {
        return CMD_OK;
    }
    backup_parts_remove(backing->target);

    int error = backup_dir_list(backing->target, &backing->dir);

    if (error != 0) {
        return fail_file(backing, backing->target, error);
    }
    return since_last ? find_last(backing) : CMD_OK;
}

/* ---- The transfer. ---- */

static bool take(void *ctx, struct slice bytes)
{
    struct backing *backing = ctx;

    while (bytes.len > 0) {
        ssize_t done = write(backing->fd, bytes.data, bytes.len);

        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done <= 0) {
            backing->error = done < 0 ? errno : EIO;
            return false;
        }
        bytes = slice_from(bytes, (size_t)done);
    }
    return true;
}

static void name_files(struct backing *backing)
{
    char name[BACKUP_NAME_MAX];

    if (backing->is_dir) {
        backup_dir_name(os_wall_ms(), !backing->increment, name);
        (void)snprintf(backing->path, sizeof backing->path, "%.3900s/%s", backing->target, name);
    } else {
        (void)snprintf(backing->path, sizeof backing->path, "%.3900s", backing->target);
    }
    (void)snprintf(backing->part, sizeof backing->part, "%.3990s" BACKUP_PART, backing->path);
}

static int open_part(struct backing *backing)
{
    name_files(backing);
    if (backing->is_pipe) {
        backing->fd = STDOUT_FILENO;
        return CMD_OK;
    }
    int error = backup_part_open(backing->part, &backing->fd);

    return error == 0 ? CMD_OK
           : error == EWOULDBLOCK
               ? cli_fail(backing->cli, CMD_FAILED, "File",
                          "%.900s: another zabra backup writes this file", backing->part)
               : fail_file(backing, backing->part, error);
}

/* Whether the log of the ensemble does not reach back to the last backup. */
static bool is_gap(const struct backing *backing, int code)
{
    const char *name = backing->cli->client->error.code;

    return code != CMD_OK && backing->increment &&
           (strcmp(name, "Gap") == 0 || strcmp(name, "HistoryChanged") == 0);
}

/* Whether another replica may do better: the connection broke after the first bytes, perhaps
 * because its replica has ended. What a pipe has got cannot be taken back. */
static bool may_retry(const struct backing *backing, int code, int tries)
{
    return code != CMD_OK && !backing->is_pipe && backing->error == 0 && tries < TRIES_MAX &&
           strcmp(backing->cli->client->error.code, "CutOff") == 0;
}

static void drop_part(struct backing *backing)
{
    (void)unlink(backing->part);
    (void)close(backing->fd);
    backing->fd = -1;
}

static struct client_request make_request(const struct backing *backing)
{
    return (struct client_request){
        .target = "/backup/v1",
        .accept = "application/octet-stream",
        .params = {{"since", backing->increment ? backing->since : NULL}}};
}

/* One attempt: the answer goes into the part, or to the pipe. */
static int try_once(struct backing *backing)
{
    struct transfer transfer = {.input = -1,
                                .take = take,
                                .ctx = backing,
                                .progress = {.verb = "backed up"},
                                .request = make_request(backing)};
    int code = transfer_run(backing->cli, &transfer);

    buf_release(&transfer.answer);
    return code;
}

static int receive(struct backing *backing)
{
    struct cli *cli = backing->cli;
    int code = open_part(backing);

    for (int tries = 1; code == CMD_OK; tries++) {
        code = try_once(backing);
        bool gap = is_gap(backing, code);

        if (!gap && !may_retry(backing, code, tries)) {
            break;
        }
        out_note(&cli->out, "%s: %s", cli->client->error.message,
                 gap ? "taking a full backup" : "trying again");
        if (!gap) {
            endpoints_turn(&cli->client->endpoints);
        }
        backing->increment = backing->increment && !gap;
        drop_part(backing);
        code = open_part(backing);
    }
    if (backing->error != 0) {
        return fail_file(backing, backing->part, backing->error);
    }
    return code == CMD_OK || backing->fd < 0 ? code : cli_tell(cli);
}

/* ---- What arrived. ---- */

static enum err on_head(void *ctx, const struct backup_head *head)
{
    struct backing *backing = ctx;

    backing->head = *head;
    backing->head.config = slice_make(NULL, 0);
    return ERR_OK;
}

/* Reads the file back: all checksums, and SHA-256 of the whole. */
static int check_sums(struct backing *backing, const struct backup_open *file)
{
    const struct backup_visitor visitor = {.on_head = on_head, .ctx = backing};
    struct backup_mark mark = {.is_known = false};
    struct backup_end end;
    char why[BACKUP_WHY_MAX];
    enum err err = backup_read(&file->input, &visitor, &mark, &end, why);

    return err == ERR_OK ? CMD_OK : cli_fail(backing->cli, CMD_FAILED, "Backup", "%s", why);
}

/* Opens the files of the newest chain, and the new one. */
static int replay_chain(struct backing *backing, const struct backup_open *file)
{
    const struct backup_dir *dir = &backing->dir;
    size_t first = dir->count;
    struct backup_open *opened = mem_zalloc(dir->count + 1, sizeof *opened);
    struct backup_input *inputs = mem_zalloc(dir->count + 1, sizeof *inputs);
    char(*paths)[BACKUP_PATH_MAX] = mem_zalloc(dir->count + 1, sizeof *paths);
    struct backup_check *check = mem_zalloc(1, sizeof *check);
    char why[BACKUP_WHY_MAX];
    size_t count = 0;
    int code = CMD_OK;

    while (backing->increment && first > 0 && !dir->files[first - 1].full) {
        first--;
    }
    first -= backing->increment && first > 0 ? 1 : 0;
    for (size_t i = first; backing->increment && i < dir->count && code == CMD_OK; i++) {
        (void)snprintf(paths[count], sizeof *paths, "%.3900s/%s", backing->target,
                       dir->files[i].name);
        int error = backup_open(paths[count], &opened[count]);

        if (error != 0) {
            code = fail_file(backing, paths[count], error);
        } else {
            inputs[count] = opened[count].input;
            count++;
        }
    }
    size_t mine = count;

    if (code == CMD_OK) {
        inputs[count++] = file->input;
        if (backup_check(check, inputs, count, why) != ERR_OK) {
            code = cli_fail(backing->cli, CMD_FAILED, "Backup", "%s", why);
        }
        backup_check_release(check);
    }
    for (size_t i = 0; i < mine; i++) {
        backup_close(&opened[i]);
    }
    mem_free(check);
    mem_free(paths);
    mem_free(inputs);
    mem_free(opened);
    return code;
}

static int verify(struct backing *backing)
{
    struct backup_open file;
    int error = backup_open(backing->part, &file);

    if (error != 0) {
        return fail_file(backing, backing->part, error);
    }
    int code = check_sums(backing, &file);

    if (code == CMD_OK && args_has(&backing->cli->args, "verify")) {
        code = replay_chain(backing, &file);
    }
    backup_close(&file);
    return code;
}

/* ---- Put in place. ---- */

static int sync_dir(const struct backing *backing)
{
    char dir[BACKUP_PATH_MAX];
    char *slash;
    int fd;

    (void)snprintf(dir, sizeof dir, "%s", backing->path);
    slash = strrchr(dir, '/');
    if (slash) {
        slash[slash == dir ? 1 : 0] = '\0';
    }
    fd = open(slash ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool ok = fd >= 0 && fsync(fd) == 0;
    int error = errno;

    if (fd >= 0) {
        (void)close(fd);
    }
    return ok ? CMD_OK : fail_file(backing, dir, error);
}

static int publish(struct backing *backing)
{
    if (fsync(backing->fd) != 0) {
        return fail_file(backing, backing->part, errno);
    }
    int code = verify(backing);

    if (code != CMD_OK) {
        return code;
    }
    if (rename(backing->part, backing->path) != 0) {
        return fail_file(backing, backing->path, errno);
    }
    return sync_dir(backing);
}

/* Removes what the policy does not keep; after the new backup is in place. */
static int prune(struct backing *backing, const struct backup_policy *policy)
{
    uint32_t removed = 0;
    int code = CMD_OK;

    backup_dir_release(&backing->dir);
    int error = backup_dir_list(backing->target, &backing->dir);

    if (error != 0) {
        return fail_file(backing, backing->target, error);
    }
    backup_policy_mark(policy, &backing->dir, os_wall_ms());
    for (size_t i = 0; i < backing->dir.count && code == CMD_OK; i++) {
        char path[BACKUP_PATH_MAX];

        if (backing->dir.files[i].kept) {
            continue;
        }
        (void)snprintf(path, sizeof path, "%.3900s/%s", backing->target,
                       backing->dir.files[i].name);
        if (unlink(path) != 0) {
            code = fail_file(backing, path, errno);
        }
        removed++;
    }
    if (code == CMD_OK && removed > 0) {
        out_say(&backing->cli->out, "removed %" PRIu32 " old backups\n", removed);
    }
    return code;
}

static void report(const struct backing *backing, uint64_t bytes)
{
    const struct backup_head *head = &backing->head;

    out_say(&backing->cli->out,
            "%s: %s, zxid 0x%" PRIx64 ", %" PRIu64 " bytes, replica %" PRIu32 "\n", backing->path,
            head->full ? "full backup" : "increment", head->end, bytes, head->member);
    out_result(&backing->cli->out,
               json_pack("{s:o,s:b,s:I,s:o,s:I,s:I}", "file", out_string(backing->path), "full",
                         head->full, "zxid", (json_int_t)head->end, "zxidHex",
                         json_sprintf("0x%" PRIx64, head->end), "bytes", (json_int_t)bytes,
                         "replica", (json_int_t)head->member));
}

static int store(struct backing *backing, const struct backup_policy *policy)
{
    struct stat stat_of = {.st_size = 0};

    if (backing->cli->settings.curl) {
        const struct client_request request = make_request(backing);

        return cli_ask(backing->cli, &request);
    }
    int code = receive(backing);

    if (backing->is_pipe || backing->fd < 0) {
        return code;
    }
    if (code == CMD_OK) {
        code = publish(backing);
    }
    (void)fstat(backing->fd, &stat_of);
    if (code != CMD_OK) {
        drop_part(backing); /* The last good backups stay. */
        return code;
    }
    (void)close(backing->fd);
    report(backing, (uint64_t)stat_of.st_size);
    return policy->count > 0 ? prune(backing, policy) : CMD_OK;
}

static int run(struct cli *cli)
{
    const char *keep = args_get(&cli->args, "keep");
    struct backup_policy policy = {.count = 0};
    struct backing *backing = mem_zalloc(1, sizeof *backing);
    int code = CMD_OK;

    backing->cli = cli;
    backing->target = args_operand(&cli->args, 0);
    backing->fd = -1;
    if (keep && !backup_policy_parse(keep, &policy)) {
        code =
            CLI_USAGE(cli, "--keep must be like 24h:1h,30d:1d: of the last 24 hours one backup in "
                           "each hour, of the last 30 days one in each day");
    }
    if (code == CMD_OK) {
        code = look_at_target(backing);
    }
    if (code == CMD_OK) {
        code = store(backing, &policy);
    }
    backup_dir_release(&backing->dir);
    mem_free(backing);
    return code;
}

const struct cmd cmd_backup = {
    .name = "backup",
    .summary = "save everything that a replica has, while clients read and write",
    .usage = "FILE|DIR|-",
    .text = "Takes a backup from the first replica that answers: the whole state at one zxid,\n"
            "with sessions, versions and ACLs, or with --since-last only the changes since the\n"
            "newest backup in DIR. It needs the credentials of the super user. The file gets its\n"
            "name when it is complete, synced and read back; --verify also replays it into a\n"
            "tree and compares the digest with that of the replica. 'zabra restore' makes a new\n"
            "ensemble of it.\n",
    .options = {CMD_FLAG("since-last", 0, "only the changes since the newest backup in DIR"),
                CMD_VALUE("keep", 0, "POLICY",
                          "then remove old backups: 24h:1h,30d:1d keeps one an hour for a day, "
                          "one a day for 30 days"),
                CMD_FLAG("verify", 0, "replay the backup and compare the digest")},
    .examples = {{"zabra backup --user super --verify /backup/zabra", "a full backup, checked"},
                 {"zabra backup --user super --since-last --keep 24h:1h,30d:1d /backup/zabra",
                  "each hour: what has changed, and no more files than needed"},
                 {"zabra backup --user super - | age -r KEY > zabra.age",
                  "encrypted, without a file in between"}},
    .operands = {1, 1, {CMD_OPERAND_FILE}},
    .run = run,
};
