/* backup: everything that a replica has, in one file, while clients read and write. */
#include "cli/args.h"
#include "cli/backup_files.h"
#include "cli/progress.h"
#include "cli/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    SINCE_MAX = 64,
    TRIES_MAX = 3,
    FIRST_MAX = BACKUP_MAGIC_LEN + BACKUP_FRAME_LEN + BACKUP_HEAD_MAX + BACKUP_CRC_LEN
};

struct backing {
    struct cli *cli;
    const char *target; /* FILE, DIR or "-". */
    bool is_dir;
    bool is_pipe;
    char path[BACKUP_PATH_MAX]; /* Of the file when it is complete. */
    char part[BACKUP_PATH_MAX]; /* While it is written. */
    int fd;
    int error;     /* Why writing failed; 0: it did not. */
    uint64_t need; /* Bytes of the backup, about; 0: not known. */
    struct backup_dir dir;
    int64_t full_every_ms;
    int64_t named_ms; /* Time in the last name that was chosen; 0: none yet. */
    bool increment;
    bool chain_is_bad; /* The increment is sound, but not what it continues. */
    bool full_follows; /* The increment ends its chain: the next backup is a full one. */
    struct transfer *transfer;
    struct buf first; /* The first bytes of the answer: HEAD. */
    bool has_size;
    char since[SINCE_MAX];
    struct backup_head head;
};

static int fail_file(const struct backing *backing, const char *path, int error)
{
    return cli_fail(backing->cli, CMD_FAILED, "File", "%.900s: %s", path, backup_dir_error(error));
}

/* Reports why the bytes could not be written. */
static int fail_write(const struct backing *backing)
{
    char why[BACKUP_WHY_MAX];

    backup_write_why(backing->fd, backing->error, backing->need, why);
    return cli_fail(backing->cli, CMD_FAILED, "File", "%.900s: %s", backing->part, why);
}

/* ---- What to ask for. ---- */

/* Whether a full backup must follow, because of the age or the length of the newest chain. */
static bool needs_full(const struct backing *backing)
{
    const struct backup_dir *dir = &backing->dir;
    size_t first = backup_dir_chain(dir);

    return os_wall_ms() - dir->files[first].made_ms >= backing->full_every_ms ||
           dir->count - first >= BACKUP_CHAIN_MAX;
}

/* Reads the end of the newest backup in the directory; false, with a sentence: it cannot be read.
 */
static bool read_last(const struct backing *backing, struct backup_head *ret_head,
                      char why[BACKUP_WHY_MAX])
{
    const struct backup_dir *dir = &backing->dir;
    char path[BACKUP_PATH_MAX];
    struct backup_open last;
    struct buf memory;

    (void)snprintf(path, sizeof path, "%.3900s/%s", backing->target,
                   dir->files[dir->count - 1].name);
    int error = backup_open(path, &last);

    if (error != 0) {
        (void)snprintf(why, BACKUP_WHY_MAX, "%.200s: %s", path, strerrordesc_np(error));
        return false;
    }
    enum err err = backup_read_head(&last.input, &memory, ret_head, why);

    backup_close(&last);
    buf_release(&memory);
    return err == ERR_OK;
}

/* Continues the newest backup in the directory, if that is possible. Before a full backup, too: so
 * that between two chains no moment is lost. */
static void find_last(struct backing *backing)
{
    char why[BACKUP_WHY_MAX];
    struct backup_head head;

    if (backup_dir_chain(&backing->dir) == backing->dir.count) {
        out_note(&backing->cli->out, "there is no full backup yet: taking one");
        return;
    }
    if (!read_last(backing, &head, why)) {
        out_note(&backing->cli->out, "%s: taking a full backup", why);
        return;
    }
    backing->full_follows = needs_full(backing);
    backing->increment = true;
    (void)snprintf(backing->since, sizeof backing->since, "%016" PRIx64 ":0x%" PRIx64, head.history,
                   head.end);
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

    int error = backup_dir_list(backing->target, BACKUP_FILES_LISTED, &backing->dir);

    if (error != 0) {
        return fail_file(backing, backing->target, error);
    }
    if (since_last) {
        find_last(backing);
    }
    return CMD_OK;
}

/* ---- The transfer. ---- */

static enum err read_first(void *ctx, uint64_t offset, void *to, size_t len)
{
    const struct buf *first = ctx;

    memcpy(to, first->data + offset, len);
    return ERR_OK;
}

/* Learns how many bytes will come, about, from the first ones; not of an increment. */
static void note_size(struct backing *backing, struct slice bytes)
{
    size_t room = backing->first.size_max - backing->first.len;
    char why[BACKUP_WHY_MAX];
    struct backup_head head;
    struct buf memory;

    if (backing->has_size || room == 0) {
        return;
    }
    (void)buf_append(&backing->first, bytes.data, min_size(bytes.len, room));

    const struct backup_input input = {
        .name = "", .size = backing->first.len, .read = read_first, .ctx = &backing->first};

    backing->has_size = backup_read_head(&input, &memory, &head, why) == ERR_OK;
    buf_release(&memory);
    if (backing->has_size && head.full) {
        backing->transfer->progress.total = head.snapshot_bytes + head.log_bytes;
        backing->need = backing->transfer->progress.total;
    }
}

static bool take(void *ctx, struct slice bytes)
{
    struct backing *backing = ctx;

    note_size(backing, bytes);

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
        int64_t now_ms = backup_dir_next_ms(&backing->dir, os_wall_ms());

        backing->named_ms = now_ms > backing->named_ms ? now_ms : backing->named_ms + 1;
        backup_dir_name(backing->named_ms, !backing->increment, name);
        (void)snprintf(backing->path, sizeof backing->path, "%.3900s/%s", backing->target, name);
    } else {
        (void)snprintf(backing->path, sizeof backing->path, "%.3900s", backing->target);
    }
    if (backing->is_pipe) {
        (void)snprintf(backing->part, sizeof backing->part, "standard output");
    } else {
        (void)snprintf(backing->part, sizeof backing->part, "%.3990s" BACKUP_PART, backing->path);
    }
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
    backing->transfer = &transfer;
    backing->has_size = false;
    buf_init(&backing->first, FIRST_MAX);
    int code = transfer_run(backing->cli, &transfer);

    buf_release(&backing->first);
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
        return fail_write(backing);
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

/* The files that the new one continues, and the new one. */
struct chain {
    size_t count;
    struct backup_input *inputs;
    struct backup_open *opened;
    char (*paths)[BACKUP_PATH_MAX];
};

static void close_chain(struct chain *chain)
{
    for (size_t i = 0; i < chain->count; i++) {
        backup_close(&chain->opened[i]);
    }
    mem_free(chain->paths);
    mem_free(chain->inputs);
    mem_free(chain->opened);
}

/* Opens what an increment continues; false, with a sentence: one cannot be opened. */
static bool open_chain(const struct backing *backing, struct chain *chain, char why[BACKUP_WHY_MAX])
{
    const struct backup_dir *dir = &backing->dir;
    size_t first = backing->increment ? backup_dir_chain(dir) : dir->count;
    size_t count = dir->count - first + 1;

    *chain = (struct chain){.inputs = mem_zalloc(count, sizeof *chain->inputs),
                            .opened = mem_zalloc(count, sizeof *chain->opened),
                            .paths = mem_zalloc(count, sizeof *chain->paths)};
    for (size_t i = first; i < dir->count; i++) {
        char *path = chain->paths[chain->count];

        (void)snprintf(path, BACKUP_PATH_MAX, "%.3900s/%s", backing->target, dir->files[i].name);
        int error = backup_open(path, &chain->opened[chain->count]);

        if (error != 0) {
            (void)snprintf(why, BACKUP_WHY_MAX, "%.200s: %s", path, strerrordesc_np(error));
            return false;
        }
        chain->inputs[chain->count] = chain->opened[chain->count].input;
        chain->count++;
    }
    return true;
}

static void on_check(void *ctx, uint64_t bytes, uint64_t size)
{
    struct progress *progress = ctx;

    progress->bytes = bytes;
    progress->total = size;
    if (isatty(STDERR_FILENO)) {
        progress_show(progress, os_now_ms());
    }
}

/* Replays the new file, behind those that it continues. */
static int replay_chain(struct backing *backing, const struct backup_open *file)
{
    struct backup_check *check = mem_zalloc(1, sizeof *check);
    struct progress progress = {.verb = "verified"};
    char why[BACKUP_WHY_MAX];
    struct chain chain;
    int code = CMD_OK;
    bool ok = open_chain(backing, &chain, why);

    if (ok) {
        chain.inputs[chain.count] = file->input;
        check->on_progress = on_check;
        check->progress_ctx = &progress;
        ok = backup_check(check, chain.inputs, chain.count + 1, why) == ERR_OK;
        backup_check_release(check);
        progress_clear(&progress);
    }
    if (!ok && backing->increment) {
        out_note(&backing->cli->out, "%s: taking a full backup", why);
        backing->chain_is_bad = true;
        backing->full_follows = true;
        code = CMD_FAILED;
    } else if (!ok) {
        code = cli_fail(backing->cli, CMD_FAILED, "Backup", "%s", why);
    }
    close_chain(&chain);
    mem_free(check);
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
    int error = backup_sync_parent(backing->path);

    return error == 0 ? CMD_OK : fail_file(backing, backing->path, error);
}

/* Removes what the policy does not keep; after the new backup is in place. */
static int prune(struct backing *backing, const struct backup_policy *policy)
{
    char path[BACKUP_PATH_MAX];
    uint32_t removed = 0;
    int code = CMD_OK;

    backup_dir_release(&backing->dir);
    int error = backup_dir_list(backing->target, BACKUP_FILES_LISTED, &backing->dir);

    if (error != 0) {
        return fail_file(backing, backing->target, error);
    }
    backup_policy_mark(policy, &backing->dir, os_wall_ms());
    error = backup_dir_remove(backing->target, &backing->dir, &removed, path);
    if (error != 0) {
        code = fail_file(backing, path, error);
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
    if (backing->full_follows) {
        return; /* JSON is one object. */
    }
    out_result(&backing->cli->out,
               json_pack("{s:o,s:b,s:I,s:o,s:I,s:I}", "file", out_string(backing->path), "full",
                         head->full, "zxid", (json_int_t)head->end, "zxidHex",
                         json_sprintf("0x%" PRIx64, head->end), "bytes", (json_int_t)bytes,
                         "replica", (json_int_t)head->member));
}

/* One file, from the request to its name. */
static int save(struct backing *backing)
{
    struct stat stat_of = {.st_size = 0};
    int code = receive(backing);

    if (backing->is_pipe || backing->fd < 0) {
        return code;
    }
    if (code == CMD_OK) {
        code = publish(backing);
    }
    if (code != CMD_OK) {
        drop_part(backing); /* The last good backups stay. */
        return code;
    }
    (void)fstat(backing->fd, &stat_of);
    (void)close(backing->fd);
    backing->fd = -1;
    report(backing, (uint64_t)stat_of.st_size);
    return CMD_OK;
}

/* A full backup follows also an increment that shows that what it continues is damaged. */
static int store(struct backing *backing, const struct backup_policy *policy)
{
    if (backing->cli->settings.curl) {
        const struct client_request request = make_request(backing);

        return cli_ask(backing->cli, &request);
    }
    int code = save(backing);

    if (backing->full_follows && backing->increment && (code == CMD_OK || backing->chain_is_bad)) {
        backing->full_follows = false;
        backing->increment = false;
        code = save(backing);
    }
    return code == CMD_OK && policy->count > 0 ? prune(backing, policy) : code;
}

static int run(struct cli *cli)
{
    const char *keep = args_get(&cli->args, "keep");
    const char *full_every = args_get(&cli->args, "full-every");
    struct backup_policy policy = {.count = 0};
    struct backing *backing = mem_zalloc(1, sizeof *backing);
    int code = CMD_OK;

    backing->cli = cli;
    backing->target = args_operand(&cli->args, 0);
    backing->fd = -1;
    if (!backup_span_parse(full_every ? full_every : "24h", &backing->full_every_ms)) {
        code = CLI_USAGE(cli, "--full-every must be like 24h or 7d");
    }
    if (code == CMD_OK && keep && !backup_policy_parse(keep, &policy)) {
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
            "tree and compares the digest with that of the replica. A bad disk, or a replica\n"
            "that ends meanwhile, leaves the earlier backups as they are. 'zabra restore' makes a\n"
            "new ensemble of it.\n",
    .options = {CMD_FLAG("since-last", 0, "only the changes since the newest backup in DIR"),
                CMD_VALUE("full-every", 0, "SPAN",
                          "with --since-last: how old the last full backup may become, 24h or 7d; "
                          "24h"),
                CMD_VALUE("keep", 0, "POLICY",
                          "then remove old backups: 24h:1h,30d:1d keeps one an hour for a day, "
                          "one a day for 30 days"),
                CMD_FLAG("verify", 0, "replay the backup and compare the digest")},
    .examples = {{"zabra backup --user super --verify /backup/zabra", "a full backup, checked"},
                 {"zabra backup --user super --since-last --keep 24h:1h,30d:1d /backup/zabra",
                  "each hour: what has changed, and no more files than needed"},
                 {"set -o pipefail; zabra backup - | age -r KEY >new && mv new zabra.age",
                  "encrypted; the last one stays until the new one is whole"}},
    .operands = {1, 1, {CMD_OPERAND_FILE}},
    .run = run,
};
