#include "cli/backup_files.h"
#include "cli/inspect_files.h"
#include "cli/out.h"

#include <sys/stat.h>

enum {
    READ_BYTES = 4 << 20,
    READ_RECORDS = 1000,
    MESSAGE_MAX = 4096
};

struct inspection {
    const char *dir;
    bool with_records;
    struct out out;
    struct vfs vfs;
    struct store *store;
    struct store_report report;
    struct inspect_files files;

    /* The newest snapshot that the log covers. ERR_MISSING: there is none. */
    enum err snapshot_err;
    struct store_snap_info snapshot;
    uint64_t snapshot_blocks;

    /* The log, read from end to end. */
    enum err log_err;
    uint64_t records;
    uint64_t record_bytes;
    bool sound;
};

static const char *record_name(enum logrec_type type)
{
    switch (type) {
    case LOGREC_TXN:
        return "transaction";
    case LOGREC_EPOCH:
        return "epoch";
    case LOGREC_CONFIG:
        return "configuration";
    case LOGREC_STAMP:
        return "watermarks";
    }
    return "unknown";
}

static void print_identity(const struct store_report *report)
{
    const struct store_identity *identity = &report->identity;
    char cluster[INSPECT_CLUSTER_MAX];

    (void)printf("identity\n");
    if (!report->has_identity) {
        (void)printf("  none: no replica has used this directory\n");
        return;
    }
    inspect_cluster(identity->cluster, cluster);
    (void)printf("  replica      %" PRIu32 "\n  incarnation  %016" PRIx64 "\n  cluster      %s%s\n",
                 identity->member_id, identity->incarnation, cluster,
                 identity->bootstrapping ? " (founding: in no cluster yet)" : "");
    if (report->promised_epoch) {
        (void)printf("  promised     epoch %" PRIu32 " to replica %" PRIu32 "\n",
                     report->promised_epoch, report->promised_leader);
    }
    if (report->quarantined) {
        (void)printf("  quarantined  %s\n", report->reason);
    }
    if (report->one_slot_bad) {
        (void)printf("  note         one of the two copies of a small record is damaged; the "
                     "other is used\n");
    }
}

/* ---- Reading everything. ---- */

static void check_snapshot(struct inspection *inspection)
{
    struct store_snap_reader *reader = NULL;
    struct slice block;
    enum err err = store_snap_open(inspection->store, &reader, &inspection->snapshot);

    inspection->snapshot_err = err;
    if (err) {
        return;
    }
    while ((err = store_snap_next(reader, &block)) == ERR_OK) {
        inspection->snapshot_blocks++;
    }
    inspection->snapshot_err = err == ERR_MISSING ? ERR_OK : err;
    store_snap_close(reader);
}

static void print_record(const struct logrec *rec)
{
    (void)printf("    0x%016" PRIx64 "  %-13s %8" PRIu32 " bytes  chain %016" PRIx64 "\n",
                 rec->zxid, record_name(rec->type), rec->len, rec->chain);
}

/* Reads the whole log back. */
static void check_log(struct inspection *inspection)
{
    struct logrec **recs = mem_zalloc(READ_RECORDS, sizeof(struct logrec *));
    zxid_t at = inspection->report.log_base;
    enum err err = ERR_OK;
    size_t count = 1;

    while (err == ERR_OK && count > 0 && at < inspection->report.log_last) {
        count = 0;
        err = store_read(inspection->store, at, READ_BYTES, READ_RECORDS, recs, &count);
        for (size_t i = 0; err == ERR_OK && i < count; i++) {
            if (inspection->with_records) {
                print_record(recs[i]);
            }
            at = recs[i]->zxid;
            inspection->record_bytes += recs[i]->len;
            inspection->records++;
            logrec_unref(recs[i]);
        }
    }
    mem_free(recs);
    inspection->log_err = err;
}

static bool has_log(const struct inspection *inspection)
{
    return inspection->report.verdict == STORE_CLEAN ||
           inspection->report.verdict == STORE_TORN_TAIL;
}

static bool judge(const struct inspection *inspection)
{
    const struct store_report *report = &inspection->report;
    bool snapshot_ok =
        inspection->snapshot_err == ERR_OK || inspection->snapshot_err == ERR_MISSING;

    return has_log(inspection) && !report->quarantined && snapshot_ok &&
           inspection->log_err == ERR_OK && inspect_files_sound(&inspection->files);
}

static const char *verdict_of(const struct inspection *inspection)
{
    if (inspection->report.verdict == STORE_EMPTY) {
        return "empty";
    }
    return inspection->sound ? "sound" : "NOT sound";
}

/* ---- As text. ---- */

static void print_snapshot(const struct inspection *inspection)
{
    const struct store_snap_info *info = &inspection->snapshot;
    enum err err = inspection->snapshot_err;

    (void)printf("snapshot\n");
    if (err == ERR_MISSING) {
        (void)printf("  none: the log has all transactions\n");
        return;
    }
    (void)printf("  start        0x%016" PRIx64 "\n  end          0x%016" PRIx64
                 "\n  znodes       %" PRIu64 "\n  bytes        %" PRIu64 " in %" PRIu64
                 " blocks\n  digest       %016" PRIx64 "\n  verdict      %s\n",
                 info->start, info->end, info->node_count, info->file_bytes,
                 inspection->snapshot_blocks, info->digest, err ? err_text(err) : "sound");
}

static void print_epochs(struct inspection *inspection)
{
    size_t count = 0;
    struct epoch_range *ranges = store_epochs(inspection->store, &count);

    for (size_t i = 0; i < count; i++) {
        (void)printf("  epoch        %" PRIu32 ": records %" PRIu32 " to %" PRIu32 "\n",
                     ranges[i].epoch, ranges[i].first, ranges[i].last);
    }
    mem_free(ranges);
}

static void print_log(struct inspection *inspection)
{
    const struct store_report *report = &inspection->report;

    (void)printf("log\n  follows      0x%016" PRIx64 "\n  last         0x%016" PRIx64
                 "\n  committed    0x%016" PRIx64 " at least\n",
                 report->log_base, report->log_last, report->committed);
    print_epochs(inspection);
    check_log(inspection);
    (void)printf("  records      %" PRIu64 ", %" PRIu64 " bytes of payload\n", inspection->records,
                 inspection->record_bytes);
    if (report->torn_bytes) {
        (void)printf("  torn tail    %" PRIu64 " bytes that were never acknowledged\n",
                     report->torn_bytes);
    }
    (void)printf("  verdict      %s\n",
                 inspection->log_err ? err_text(inspection->log_err) : "sound");
}

static void print_files(const struct inspection *inspection)
{
    (void)printf("files\n");
    for (size_t i = 0; i < inspection->files.count; i++) {
        const struct inspect_file *file = &inspection->files.items[i];

        (void)printf("  %-30s %s: %s\n", file->name, file->verdict, file->text);
    }
}

static void print_text(struct inspection *inspection)
{
    const struct store_report *report = &inspection->report;

    print_identity(report);
    if (has_log(inspection)) {
        check_snapshot(inspection);
        print_snapshot(inspection);
        print_log(inspection);
    } else if (report->verdict == STORE_DAMAGED) {
        (void)printf("damaged\n  %s\n", report->reason);
    }
    if (inspection->files.count > 0) {
        print_files(inspection);
    }
    inspection->sound = judge(inspection);
    (void)printf("%s: %s%s\n", inspection->dir, verdict_of(inspection),
                 report->verdict == STORE_EMPTY ? ", no replica has used it" : "");
}

/* ---- As JSON. ---- */

static json_t *hex(uint64_t number)
{
    return json_sprintf("0x%" PRIx64, number);
}

static json_t *json_identity(const struct store_report *report)
{
    const struct store_identity *identity = &report->identity;
    char cluster[INSPECT_CLUSTER_MAX];

    inspect_cluster(identity->cluster, cluster);
    return report->has_identity
               ? json_pack("{s:I,s:o,s:s,s:b,s:I,s:I}", "replica", (json_int_t)identity->member_id,
                           "incarnation", hex(identity->incarnation), "cluster", cluster,
                           "founding", identity->bootstrapping, "promised_epoch",
                           (json_int_t)report->promised_epoch, "promised_leader",
                           (json_int_t)report->promised_leader)
               : json_null();
}

static json_t *json_snapshot(const struct inspection *inspection)
{
    const struct store_snap_info *info = &inspection->snapshot;

    return inspection->snapshot_err == ERR_MISSING
               ? json_null()
               : json_pack("{s:o,s:o,s:I,s:I,s:o,s:b}", "start", hex(info->start), "end",
                           hex(info->end), "znodes", (json_int_t)info->node_count, "bytes",
                           (json_int_t)info->file_bytes, "digest", hex(info->digest), "sound",
                           inspection->snapshot_err == ERR_OK);
}

static json_t *json_log(const struct inspection *inspection)
{
    const struct store_report *report = &inspection->report;
    size_t count = 0;
    struct epoch_range *ranges = store_epochs(inspection->store, &count);
    json_t *epochs = json_array();

    for (size_t i = 0; i < count; i++) {
        (void)json_array_append_new(
            epochs, json_pack("{s:I,s:I,s:I}", "epoch", (json_int_t)ranges[i].epoch, "first",
                              (json_int_t)ranges[i].first, "last", (json_int_t)ranges[i].last));
    }
    mem_free(ranges);
    return json_pack("{s:o,s:o,s:o,s:I,s:I,s:I,s:b,s:o}", "follows", hex(report->log_base), "last",
                     hex(report->log_last), "committed", hex(report->committed), "records",
                     (json_int_t)inspection->records, "bytes", (json_int_t)inspection->record_bytes,
                     "torn_bytes", (json_int_t)report->torn_bytes, "sound",
                     inspection->log_err == ERR_OK, "epochs", epochs);
}

static json_t *json_files(const struct inspect_files *files)
{
    json_t *list = json_array();

    for (size_t i = 0; i < files->count; i++) {
        const struct inspect_file *file = &files->items[i];

        (void)json_array_append_new(list, json_pack("{s:o,s:s,s:s,s:b,s:s}", "file",
                                                    out_string(file->name), "kind", file->kind,
                                                    "verdict", file->verdict, "sound",
                                                    file->is_sound, "text", file->text));
    }
    return list;
}

static void print_json(struct inspection *inspection)
{
    bool log = has_log(inspection);

    if (log) {
        check_snapshot(inspection);
        check_log(inspection);
    }
    inspection->sound = judge(inspection);

    json_auto_t *json = json_pack(
        "{s:o,s:s,s:b,s:b,s:o,s:o,s:o*,s:o*,s:o}", "directory", out_string(inspection->dir),
        "verdict", verdict_of(inspection), "sound", inspection->sound, "quarantined",
        inspection->report.quarantined, "reason", out_string(inspection->report.reason), "identity",
        json_identity(&inspection->report), "snapshot", log ? json_snapshot(inspection) : NULL,
        "log", log ? json_log(inspection) : NULL, "files", json_files(&inspection->files));

    ASSERT(json);
    out_json(&inspection->out, json);
}

static int fail(const struct inspection *inspection, const char *why)
{
    char message[MESSAGE_MAX];

    (void)snprintf(message, sizeof(message), "%s: %s", inspection->dir, why);
    out_error(&inspection->out, CMD_FAILED, "Directory", message, NULL);
    return CMD_FAILED;
}

static int inspect_locked(struct inspection *inspection)
{
    struct store_options options;
    enum err err =
        inspect_open(inspection->vfs, true, &inspection->store, &inspection->report, &options);

    if (err) {
        return fail(inspection, err_text(err));
    }
    err = inspect_files_load(&options, &inspection->report, &inspection->files);
    if (err) {
        store_close(inspection->store, false);
        return fail(inspection, err_text(err));
    }
    if (out_is_json(&inspection->out)) {
        print_json(inspection);
    } else {
        print_text(inspection);
    }
    inspect_files_release(&inspection->files);
    store_close(inspection->store, false);
    return inspection->sound ? CMD_OK : CMD_FAILED;
}

/* ---- A backup. ---- */

static enum err take_head(void *ctx, const struct backup_head *head)
{
    struct backup_head *kept = ctx;

    *kept = *head;
    kept->config = slice_make(NULL, 0);
    return ERR_OK;
}

/* Prints what a backup says of itself. */
static void print_backup(const struct inspection *inspection, const struct backup_head *head,
                         const struct backup_end *end)
{
    char cluster[INSPECT_CLUSTER_MAX];

    inspect_cluster(head->cluster, cluster);
    if (out_is_json(&inspection->out)) {
        json_auto_t *json =
            json_pack("{s:o,s:b,s:o,s:b,s:s,s:o,s:I,s:s,s:o,s:o,s:o,s:o,s:I,s:o}", "file",
                      out_string(inspection->dir), "sound", 1, "history", hex(head->history),
                      "full", head->full, "cluster", cluster, "made", out_time(head->made_ms),
                      "replica", (json_int_t)head->member, "release", head->release, "follows",
                      hex(head->from), "restorable_from", hex(head->least), "last", hex(head->end),
                      "digest", hex(head->digest), "records", (json_int_t)end->records,
                      "snapshot_bytes", json_integer((json_int_t)head->snapshot_bytes));

        ASSERT(json);
        out_json(&inspection->out, json);
        return;
    }
    json_auto_t *made = out_time(head->made_ms);

    (void)printf("%s\n  made         %s by replica %" PRIu32 ", zabra %s\n  cluster      %s\n"
                 "  history      %016" PRIx64 "\n",
                 head->full ? "full backup" : "increment", json_string_value(made), head->member,
                 head->release, cluster, head->history);
    (void)printf("  follows      0x%016" PRIx64 "\n  restorable   from 0x%016" PRIx64
                 " on\n  last         0x%016" PRIx64 "\n  digest       %016" PRIx64
                 "\n  snapshot     %" PRIu64 " bytes\n  records      %" PRIu64 "\n",
                 head->from, head->least, head->end, head->digest, head->snapshot_bytes,
                 end->records);
    (void)printf("%s: sound\n", inspection->dir);
}

static int inspect_backup(const struct inspection *inspection)
{
    struct backup_head head = {.full = false};
    const struct backup_visitor visitor = {.on_head = take_head, .ctx = &head};
    struct backup_mark mark = {.is_known = false};
    struct backup_open file;
    struct backup_end end;
    char why[BACKUP_WHY_MAX];
    int error = backup_open(inspection->dir, &file);

    if (error != 0) {
        return fail(inspection, strerrordesc_np(error));
    }
    enum err err = backup_read(&file.input, &visitor, &mark, &end, why);

    backup_close(&file);
    if (err != ERR_OK) {
        out_error(&inspection->out, CMD_FAILED, "Backup", why, NULL);
        return CMD_FAILED;
    }
    print_backup(inspection, &head, &end);
    return CMD_OK;
}

static bool is_file(const char *path)
{
    struct stat stat_of;

    return stat(path, &stat_of) == 0 && S_ISREG(stat_of.st_mode);
}

static int inspect(struct inspection *inspection)
{
    if (is_file(inspection->dir)) {
        return inspect_backup(inspection);
    }

    const char *why = inspect_lock(inspection->dir, &inspection->vfs);

    if (why) {
        return fail(inspection, why);
    }

    int code = inspect_locked(inspection);

    vfs_posix_close(&inspection->vfs);
    return code;
}

/* Parses the arguments. Returns CMD_OK, or the code of a reported error. */
static int take_args(struct inspection *inspection, int arg_count, char **args)
{
    struct out *out = &inspection->out;

    out->cmd = "inspect";
    out->format = settings_format(&arg_count, args, true);
    for (int i = 0; i < arg_count; i++) {
        if (!strcmp(args[i], "--records")) {
            inspection->with_records = true;
        } else if (!strcmp(args[i], "--json")) {
            out->format = SETTINGS_JSON;
        } else if (args[i][0] == '-' || inspection->dir) {
            return out_usage(out, "unexpected argument \"%s\"", args[i]);
        } else {
            inspection->dir = args[i];
        }
    }
    if (!inspection->dir) {
        return out_usage(out, "the directory is missing");
    }
    if (out_is_json(&inspection->out) && inspection->with_records) {
        return out_usage(out, "--records prints text only, not JSON");
    }
    return CMD_OK;
}

static int run(int arg_count, char **args)
{
    struct inspection *inspection = mem_zalloc(1, sizeof(*inspection));
    int code = take_args(inspection, arg_count, args);

    if (code == CMD_OK) {
        code = inspect(inspection);
    }
    mem_free(inspection);
    return code;
}

const struct cmd cmd_inspect = {
    .name = "inspect",
    .summary = "check the data directory of a stopped replica, or a backup",
    .usage = "[--records | -o json] DIR|BACKUP",
    .text = "Prints identity, promise, quarantine, snapshot, log and each file with a\n"
            "verdict, and whether the whole directory is sound. Reads everything, changes\n"
            "nothing. Of a backup prints where it begins and ends, after a check of all bytes.\n"
            "--records lists each record of the log; -o json (or --json) prints one\n"
            "object instead of text. Exit code 0: sound; 1: damaged, empty or not readable;\n"
            "2: wrong usage.\n",
    .run_alone = run};
