/* backup: everything that a replica has, in one file, while clients read and write. */
#include "cli/args.h"
#include "cli/backup_place.h"
#include "cli/progress.h"
#include "cli/transfer.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    TRIES_MAX = 3,
    FIRST_MAX = BACKUP_MAGIC_LEN + BACKUP_FRAME_LEN + BACKUP_HEAD_MAX + BACKUP_CRC_LEN
};

/* What is wanted, and the file that is written: first an increment, or a full backup; a full one
 * also after an increment that turns out to be of no use, or that ends its chain. */
struct backing {
    struct cli *cli;
    struct backup_place place;
    int64_t full_every_ms;
    struct backup_policy policy;
    char since[BACKUP_SINCE_MAX]; /* End of what an increment continues. */
    int failure;                  /* The exit code after BACKUP_FAILED. */
    /* One file. */
    bool full;
    int error;     /* Why writing failed; 0: it did not. */
    uint64_t need; /* Bytes of the backup, about; 0: not known. */
    struct transfer *transfer;
    struct buf first; /* The first bytes of the answer: HEAD. */
    bool has_head;
    bool is_newer;                /* A later release has made it, whose END is not known here. */
    uint8_t last[BACKUP_END_LEN]; /* The last bytes, */
    size_t last_len;              /* and how many of them are there. */
    int64_t age_s;    /* With --stale: since when the replica is cut off; -1: it is not. */
    int64_t ahead_ms; /* The clock here minus that of the ensemble, when HEAD came. */
    struct backup_head head;
};

/* Reports why the bytes could not be written. */
static int fail_write(const struct backing *backing)
{
    char why[BACKUP_WHY_MAX];

    backup_write_why(backing->place.fd, backing->error, backing->need, why);
    return cli_fail(backing->cli, CMD_FAILED, "File", "%.900s: %s", backing->place.part, why);
}

/* What cannot be done with this target, whatever the replicas have. */
static int check_options(const struct backing *backing)
{
    const struct cli *cli = backing->cli;
    enum backup_kind kind = backing->place.kind;

    if (kind != BACKUP_TO_DIR &&
        (args_has(&cli->args, "since-last") || args_has(&cli->args, "keep"))) {
        return CLI_USAGE(cli, "--since-last and --keep need a directory that exists");
    }
    if (kind == BACKUP_TO_PIPE && args_has(&cli->args, "verify")) {
        return CLI_USAGE(cli, "a pipe cannot be verified: use zabra inspect on the file");
    }
    if (kind == BACKUP_TO_PIPE && isatty(STDOUT_FILENO)) {
        return CLI_USAGE(cli, "a backup is no text for a terminal: use a pipe or a file");
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

/* Learns from the first bytes how far the clocks differ and, but for an increment, how many bytes
 * will come, about. */
static void note_head(struct backing *backing, struct slice bytes)
{
    size_t room = backing->first.size_max - backing->first.len;
    char why[BACKUP_WHY_MAX];
    struct backup_head head;
    struct buf memory;

    if (backing->has_head || room == 0) {
        return;
    }
    (void)buf_append(&backing->first, bytes.data, min_size(bytes.len, room));

    const struct backup_input input = {
        .name = "", .size = backing->first.len, .read = read_first, .ctx = &backing->first};

    enum err err = backup_read_head(&input, &memory, &head, why);

    backing->has_head = err == ERR_OK;
    backing->is_newer = err == ERR_NEWER;
    buf_release(&memory);
    if (backing->has_head) {
        backing->ahead_ms = os_wall_ms() - head.made_ms;
    }
    if (backing->has_head && head.full) {
        backing->transfer->progress.total = head.snapshot_bytes + head.log_bytes;
        backing->need = backing->transfer->progress.total;
    }
}

/* Keeps the last bytes: only END says that the backup is whole. */
static void keep_last(struct backing *backing, struct slice bytes)
{
    size_t fresh = min_size(bytes.len, BACKUP_END_LEN);
    size_t kept = min_size(backing->last_len, BACKUP_END_LEN - fresh);

    memmove(backing->last, backing->last + backing->last_len - kept, kept);
    memcpy(backing->last + kept, bytes.data + bytes.len - fresh, fresh);
    backing->last_len = kept + fresh;
}

static bool take(void *ctx, struct slice bytes)
{
    struct backing *backing = ctx;

    note_head(backing, bytes);
    keep_last(backing, bytes);

    while (bytes.len > 0) {
        ssize_t done = write(backing->place.fd, bytes.data, bytes.len);

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

/* Whether the log of the ensemble does not reach back to the last backup. */
static bool is_gap(const struct backing *backing, int code)
{
    const char *name = backing->cli->client->error.code;

    return code != CMD_OK && !backing->full &&
           (strcmp(name, "Gap") == 0 || strcmp(name, "HistoryChanged") == 0);
}

/* Whether another replica may do better: after the first bytes the connection broke, or no more
 * came, perhaps because the replica has ended, or hangs. What a pipe has got cannot be taken
 * back. */
static bool may_retry(const struct backing *backing, int code, int tries)
{
    const char *name = backing->cli->client->error.code;

    return code != CMD_OK && backing->place.kind != BACKUP_TO_PIPE && backing->error == 0 &&
           tries < TRIES_MAX &&
           (strcmp(name, "CutOff") == 0 || (backing->has_head && code == CMD_TIMED_OUT));
}

static struct client_request make_request(const struct backing *backing)
{
    bool stale = args_has(&backing->cli->args, "stale");

    return (struct client_request){.target = "/backup/v1",
                                   .accept = "application/octet-stream",
                                   .params = {{"since", backing->full ? NULL : backing->since},
                                              {"stale", stale ? "true" : NULL}}};
}

/* A proxy that speaks HTTP/1.0 to the replica, or to zabra, ends a body by closing the connection,
 * also when it has lost the replica. */
static int check_end(const struct backing *backing)
{
    struct client *client = backing->cli->client;

    if (backing->is_newer || backup_is_end(slice_make(backing->last, backing->last_len))) {
        return CMD_OK;
    }
    return client_fail(client, CMD_FAILED, "CutOff",
                       "%s: the answer ended before the end of the backup, perhaps because a proxy "
                       "lost its connection to the replica",
                       endpoints_url(&client->endpoints));
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
    backing->has_head = false;
    backing->is_newer = false;
    backing->last_len = 0;
    buf_init(&backing->first, FIRST_MAX);
    int code = transfer_run(backing->cli, &transfer);

    if (code == CMD_OK) {
        code = check_end(backing);
    }
    /* Without --stale a replica sends no Age, but a proxy in front may. */
    backing->age_s = args_has(&backing->cli->args, "stale") ? transfer.age_s : -1;
    buf_release(&backing->first);
    buf_release(&transfer.answer);
    return code;
}

static enum backup_fate receive(struct backing *backing)
{
    struct cli *cli = backing->cli;
    int code = backup_place_begin(&backing->place, backing->full);

    for (int tries = 1; code == CMD_OK; tries++) {
        code = try_once(backing);
        if (!may_retry(backing, code, tries)) {
            break;
        }
        out_note(&cli->out, "%s: trying again", cli->client->error.message);
        endpoints_turn(&cli->client->endpoints);
        backup_place_drop(&backing->place);
        code = backup_place_begin(&backing->place, backing->full);
    }
    if (is_gap(backing, code)) {
        out_note(&cli->out, "%s: taking a full backup", cli->client->error.message);
        return BACKUP_NEEDS_FULL;
    }
    if (backing->error != 0) {
        code = fail_write(backing);
    } else if (code != CMD_OK && backing->place.fd >= 0) {
        code = cli_tell(cli);
    }
    if (code != CMD_OK) {
        backing->failure = code;
        return BACKUP_FAILED;
    }
    return BACKUP_DONE;
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
static enum backup_fate check_sums(struct backing *backing, const struct backup_open *file)
{
    const struct backup_visitor visitor = {.on_head = on_head, .ctx = backing};
    struct backup_mark mark = {.is_known = false};
    struct backup_end end;
    char why[BACKUP_WHY_MAX];

    if (backup_read(&file->input, &visitor, &mark, &end, why) == ERR_OK) {
        return BACKUP_DONE;
    }
    (void)cli_fail(backing->cli, CMD_FAILED, "Backup", "%s", why);
    return BACKUP_FAILED;
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
    const struct backup_dir *dir = &backing->place.dir;
    size_t first = backing->full ? dir->count : backup_dir_chain(dir);
    size_t count = dir->count - first + 1;

    *chain = (struct chain){.inputs = mem_zalloc(count, sizeof *chain->inputs),
                            .opened = mem_zalloc(count, sizeof *chain->opened),
                            .paths = mem_zalloc(count, sizeof *chain->paths)};
    for (size_t i = first; i < dir->count; i++) {
        char *path = chain->paths[chain->count];

        (void)snprintf(path, BACKUP_PATH_MAX, "%.3900s/%s", backing->place.target,
                       dir->files[i].name);
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
static enum backup_fate replay_chain(struct backing *backing, const struct backup_open *file)
{
    struct backup_check *check = mem_zalloc(1, sizeof *check);
    struct progress progress = {.verb = "verified"};
    char why[BACKUP_WHY_MAX];
    struct chain chain;
    enum backup_fate fate = BACKUP_DONE;
    bool ok = open_chain(backing, &chain, why);

    if (ok) {
        chain.inputs[chain.count] = file->input;
        check->on_progress = on_check;
        check->progress_ctx = &progress;
        ok = backup_check(check, chain.inputs, chain.count + 1, why) == ERR_OK;
        backup_check_release(check);
        progress_clear(&progress);
    }
    if (!ok && !backing->full) {
        out_note(&backing->cli->out, "%s: taking a full backup", why);
        fate = BACKUP_NEEDS_FULL; /* The increment is sound, but not what it continues. */
    } else if (!ok) {
        (void)cli_fail(backing->cli, CMD_FAILED, "Backup", "%s", why);
        fate = BACKUP_FAILED;
    }
    close_chain(&chain);
    mem_free(check);
    return fate;
}

/* Reads the synced file back. */
static enum backup_fate verify(struct backing *backing, uint64_t *ret_bytes)
{
    const struct backup_place *place = &backing->place;
    struct backup_open file;
    int error = fsync(place->fd) == 0 ? backup_open(place->part, &file) : errno;

    if (error != 0) {
        (void)backup_place_fail(place, place->part, error);
        return BACKUP_FAILED;
    }
    enum backup_fate fate = check_sums(backing, &file);

    if (fate == BACKUP_DONE && args_has(&backing->cli->args, "verify")) {
        fate = replay_chain(backing, &file);
    }
    *ret_bytes = file.input.size;
    backup_close(&file);
    return fate;
}

/* ---- The whole. ---- */

/* `more`: a full backup follows, and has the result: JSON is one object. */
static void report(const struct backing *backing, uint64_t bytes, bool more)
{
    const struct backup_head *head = &backing->head;
    const struct out *out = &backing->cli->out;
    json_t *age = backing->age_s >= 0 ? json_integer((json_int_t)backing->age_s) : json_null();

    if (backing->age_s >= 0) {
        out_note(out,
                 "replica %" PRIu32 " has had no contact with a leader for %" PRId64
                 " s or longer: the backup lacks what others have written since",
                 head->member, backing->age_s);
    }
    out_say(out, "%s: %s, zxid 0x%" PRIx64 ", %" PRIu64 " bytes, replica %" PRIu32 "\n",
            backing->place.path, head->full ? "full backup" : "increment", head->end, bytes,
            head->member);
    if (more) {
        json_decref(age);
        return;
    }
    out_result(out,
               json_pack("{s:o,s:b,s:I,s:o,s:I,s:I,s:o}", "file", out_string(backing->place.path),
                         "full", head->full, "zxid", (json_int_t)head->end, "zxidHex",
                         json_sprintf("0x%" PRIx64, head->end), "bytes", (json_int_t)bytes,
                         "replica", (json_int_t)head->member, "stale_seconds", age));
}

/* One file, from the request to its name. */
static enum backup_fate save(struct backing *backing)
{
    struct backup_place *place = &backing->place;
    uint64_t bytes = 0;
    bool is_last = true;
    enum backup_fate fate = receive(backing);

    if (place->kind == BACKUP_TO_PIPE) {
        return fate;
    }
    if (fate == BACKUP_DONE) {
        fate = verify(backing, &bytes);
    }
    if (fate == BACKUP_DONE) {
        is_last = backing->full ||
                  !backup_place_needs_full(place, backing->head.made_ms, backing->full_every_ms);
        fate = backup_place_publish(place, backing->full);
    }
    backup_place_drop(place); /* The last good backups stay. */
    if (fate == BACKUP_DONE) {
        report(backing, bytes, !is_last);
        fate = is_last ? BACKUP_DONE : BACKUP_NEEDS_FULL;
    }
    return fate;
}

/* Removes what --keep does not keep. The ages of a stale backup would be by the clock of the
 * replica alone, which may be wrong: it knows no majority. */
static int prune(struct backing *backing)
{
    if (backing->policy.count == 0) {
        return CMD_OK;
    }
    if (backing->age_s >= 0) {
        out_note(&backing->cli->out, "a replica that is cut off does not know whether its clock is "
                                     "right: no old backup is removed");
        return CMD_OK;
    }
    return backup_place_prune(&backing->place, &backing->policy, backing->head.made_ms,
                              backing->ahead_ms);
}

/* A full backup follows the last increment of its chain, so that between two chains no moment is
 * lost. */
static int store(struct backing *backing)
{
    if (backing->cli->settings.curl) {
        const struct client_request request = make_request(backing);

        return cli_ask(backing->cli, &request);
    }
    enum backup_fate fate = save(backing);

    if (fate == BACKUP_NEEDS_FULL) {
        backing->full = true;
        fate = save(backing);
    }
    return fate == BACKUP_DONE ? prune(backing) : backing->failure;
}

static int take_spans(struct backing *backing)
{
    const struct cli *cli = backing->cli;
    const char *keep = args_get(&cli->args, "keep");
    const char *full_every = args_get(&cli->args, "full-every");

    if (!backup_span_parse(full_every ? full_every : "24h", &backing->full_every_ms)) {
        return CLI_USAGE(cli, "--full-every must be like 24h or 7d");
    }
    if (keep && !backup_policy_parse(keep, &backing->policy)) {
        return CLI_USAGE(cli,
                         "--keep must be like 24h:1h,30d:1d: of the last 24 hours one backup in "
                         "each hour, of the last 30 days one in each day");
    }
    return CMD_OK;
}

static int run(struct cli *cli)
{
    struct backing *backing = mem_zalloc(1, sizeof *backing);

    backing->cli = cli;
    backing->failure = CMD_FAILED;
    int code = take_spans(backing);

    if (code == CMD_OK) {
        code = backup_place_open(&backing->place, cli, args_operand(&cli->args, 0));
        if (code == CMD_OK) {
            code = check_options(backing);
        }
        if (code == CMD_OK) {
            backing->full = !args_has(&cli->args, "since-last") ||
                            !backup_place_find_last(&backing->place, backing->since);
            code = store(backing);
        }
        backup_place_close(&backing->place);
    }
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
            "that ends meanwhile, leaves the earlier backups as they are. One backup at a time\n"
            "writes into DIR. A replica that is cut off from the ensemble is passed over, because\n"
            "it lacks the latest writes; --stale takes one from it, when there is no quorum.\n"
            "'zabra restore' makes a new ensemble of it.\n",
    .options = {CMD_FLAG("since-last", 0, "only the changes since the newest backup in DIR"),
                CMD_VALUE("full-every", 0, "SPAN",
                          "with --since-last: how old the last full backup may become, 24h or 7d; "
                          "24h"),
                CMD_VALUE("keep", 0, "POLICY",
                          "then remove old backups: 24h:1h,30d:1d keeps one an hour for a day, "
                          "one a day for 30 days"),
                CMD_FLAG("verify", 0, "replay the backup and compare the digest"),
                CMD_FLAG("stale", 0, "also from a replica that is cut off from the ensemble")},
    .examples = {{"zabra backup --user super --verify /backup/zabra", "a full backup, checked"},
                 {"zabra backup --user super --since-last --keep 24h:1h,30d:1d /backup/zabra",
                  "each hour: what has changed, and no more files than needed"},
                 {"set -o pipefail; zabra backup - | age -r KEY >new && mv new zabra.age",
                  "encrypted; the last one stays until the new one is whole"}},
    .operands = {1, 1, {CMD_OPERAND_FILE}},
    .run = run,
};
