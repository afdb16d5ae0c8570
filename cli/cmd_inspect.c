#include "base/jsonw.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/commands.h"
#include "cli/inspect_files.h"
#include "cli/out.h"
#include "storage/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    SEGMENT_BYTES =
        32 << 20, /* Called only when a segment is created, which inspection never does. */
    READ_BYTES = 4 << 20,
    READ_RECORDS = 1000,
    RECORD_BYTES_MAX = 16 << 20, /* As the server opens it. */
    MESSAGE_MAX = 4096,
    JSON_BYTES_MAX = 64 << 20, /* The store takes no more than 100,000 files. */
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

static void print_hex(const uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        (void)printf("%02x", bytes[i]);
    }
}

static void print_identity(const struct store_report *report)
{
    const struct store_identity *identity = &report->identity;

    (void)printf("identity\n");
    if (!report->has_identity) {
        (void)printf("  none: no replica has used this directory\n");
        return;
    }
    (void)printf("  replica      %" PRIu32 "\n  incarnation  %016" PRIx64 "\n  cluster      ",
                 identity->member_id, identity->incarnation);
    print_hex(identity->cluster, sizeof(identity->cluster));
    (void)printf("%s\n", identity->bootstrapping ? " (founding: in no cluster yet)" : "");
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

static void json_identity(struct jsonw *json, const struct store_report *report)
{
    const struct store_identity *identity = &report->identity;
    char cluster[2 * STORE_CLUSTER_LEN + 1];

    jsonw_key(json, "identity");
    if (!report->has_identity) {
        jsonw_null(json);
        return;
    }
    for (size_t i = 0; i < STORE_CLUSTER_LEN; i++) {
        (void)snprintf(cluster + 2 * i, 3, "%02x", identity->cluster[i]);
    }
    jsonw_object(json);
    jsonw_kv_u64(json, "replica", identity->member_id);
    jsonw_kv_hex(json, "incarnation", identity->incarnation);
    jsonw_kv_cstr(json, "cluster", cluster);
    jsonw_kv_bool(json, "founding", identity->bootstrapping);
    jsonw_kv_u64(json, "promised_epoch", report->promised_epoch);
    jsonw_kv_u64(json, "promised_leader", report->promised_leader);
    jsonw_object_end(json);
}

static void json_snapshot(struct jsonw *json, const struct inspection *inspection)
{
    const struct store_snap_info *info = &inspection->snapshot;

    jsonw_key(json, "snapshot");
    if (inspection->snapshot_err == ERR_MISSING) {
        jsonw_null(json);
        return;
    }
    jsonw_object(json);
    jsonw_kv_hex(json, "start", info->start);
    jsonw_kv_hex(json, "end", info->end);
    jsonw_kv_u64(json, "znodes", info->node_count);
    jsonw_kv_u64(json, "bytes", info->file_bytes);
    jsonw_kv_hex(json, "digest", info->digest);
    jsonw_kv_bool(json, "sound", inspection->snapshot_err == ERR_OK);
    jsonw_object_end(json);
}

static void json_log(struct jsonw *json, const struct inspection *inspection)
{
    const struct store_report *report = &inspection->report;
    size_t count = 0;
    struct epoch_range *ranges = store_epochs(inspection->store, &count);

    jsonw_key(json, "log");
    jsonw_object(json);
    jsonw_kv_hex(json, "follows", report->log_base);
    jsonw_kv_hex(json, "last", report->log_last);
    jsonw_kv_hex(json, "committed", report->committed);
    jsonw_kv_u64(json, "records", inspection->records);
    jsonw_kv_u64(json, "bytes", inspection->record_bytes);
    jsonw_kv_u64(json, "torn_bytes", report->torn_bytes);
    jsonw_kv_bool(json, "sound", inspection->log_err == ERR_OK);
    jsonw_key(json, "epochs");
    jsonw_array(json);
    for (size_t i = 0; i < count; i++) {
        jsonw_object(json);
        jsonw_kv_u64(json, "epoch", ranges[i].epoch);
        jsonw_kv_u64(json, "first", ranges[i].first);
        jsonw_kv_u64(json, "last", ranges[i].last);
        jsonw_object_end(json);
    }
    jsonw_array_end(json);
    jsonw_object_end(json);
    mem_free(ranges);
}

static void json_files(struct jsonw *json, const struct inspect_files *files)
{
    jsonw_key(json, "files");
    jsonw_array(json);
    for (size_t i = 0; i < files->count; i++) {
        jsonw_object(json);
        jsonw_kv_cstr(json, "file", files->items[i].name);
        jsonw_kv_cstr(json, "kind", files->items[i].kind);
        jsonw_kv_cstr(json, "verdict", files->items[i].verdict);
        jsonw_kv_bool(json, "sound", files->items[i].is_sound);
        jsonw_kv_cstr(json, "text", files->items[i].text);
        jsonw_object_end(json);
    }
    jsonw_array_end(json);
}

static void print_json(struct inspection *inspection)
{
    struct jsonw json;
    BUF_AUTO(out, JSON_BYTES_MAX);

    if (has_log(inspection)) {
        check_snapshot(inspection);
        check_log(inspection);
    }
    inspection->sound = judge(inspection);
    jsonw_init(&json, &out);
    jsonw_object(&json);
    jsonw_kv_cstr(&json, "directory", inspection->dir);
    jsonw_kv_cstr(&json, "verdict", verdict_of(inspection));
    jsonw_kv_bool(&json, "sound", inspection->sound);
    jsonw_kv_bool(&json, "quarantined", inspection->report.quarantined);
    jsonw_kv_cstr(&json, "reason", inspection->report.reason);
    json_identity(&json, &inspection->report);
    if (has_log(inspection)) {
        json_snapshot(&json, inspection);
        json_log(&json, inspection);
    }
    json_files(&json, &inspection->files);
    jsonw_object_end(&json);
    (void)printf("%.*s\n", (int)out.len, (const char *)out.data);
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
    struct store_options options = {.vfs = inspection->vfs,
                                    .segment_bytes = SEGMENT_BYTES,
                                    .snapshots_keep = 1,
                                    .salt_seed = 1,
                                    .record_bytes_max = RECORD_BYTES_MAX};
    enum err err = store_open(&options, true, &inspection->store, &inspection->report);

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

static int inspect(struct inspection *inspection)
{
    enum err err = vfs_posix_open(inspection->dir, &inspection->vfs);

    if (err) {
        return fail(inspection, "not a readable directory");
    }
    err = inspection->vfs.ops->lock(inspection->vfs.ctx);

    int code = err == ERR_BUSY ? fail(inspection, "in use by a replica; stop the replica first")
               : err           ? fail(inspection, err_text(err))
                               : inspect_locked(inspection);

    vfs_posix_close(&inspection->vfs);
    return code;
}

/* CMD_OK, or reported. */
static int take_args(struct inspection *inspection, int arg_count, char **args)
{
    struct out *out = &inspection->out;

    out->cmd = "inspect";
    out->format = settings_take_format(&arg_count, args);
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
    .summary = "check the data directory of a stopped replica",
    .usage = "[--records | -o json] DIR",
    .text = "Prints identity, promise, quarantine, snapshot, log and each file with a\n"
            "verdict, and whether the whole directory is sound. Reads everything, changes\n"
            "nothing. --records lists each record of the log; -o json (or --json) prints one\n"
            "object instead of text. Exit code 0: sound; 1: damaged, empty or not readable;\n"
            "2: wrong usage.\n",
    .run_alone = run};
