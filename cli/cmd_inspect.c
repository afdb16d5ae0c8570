#include "base/log.h"
#include "base/mem.h"
#include "cli/cmd.h"
#include "storage/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    SEGMENT_BYTES = 32 << 20, /* Only asked when a segment is made, which inspection never does. */
    READ_BYTES = 4 << 20,
    READ_RECORDS = 1000,
    RECORD_BYTES_MAX = 16 << 20, /* As the server opens it. */
};

struct inspection {
    const char *dir;
    bool with_records;
    struct vfs vfs;
    struct store *store;
    struct store_report report;
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
        (void)printf("  none: this directory was never used\n");
        return;
    }
    (void)printf("  replica      %" PRIu32 "\n  incarnation  %016" PRIx64 "\n  cluster      ",
                 identity->member_id, identity->incarnation);
    print_hex(identity->cluster, sizeof(identity->cluster));
    (void)printf("%s\n", identity->founding ? " (founding: in no cluster yet)" : "");
    if (report->promised_epoch) {
        (void)printf("  promised     epoch %" PRIu32 " to replica %" PRIu32 "\n",
                     report->promised_epoch, report->promised_leader);
    }
    if (report->quarantined) {
        (void)printf("  quarantined  %s\n", report->reason);
    }
    if (report->one_slot_bad) {
        (void)printf("  note         one of the two copies of a small record is damaged; the other "
                     "serves\n");
    }
}

static bool print_snapshot(struct inspection *inspection)
{
    struct store_snap_reader *reader = NULL;
    struct store_snap_info info;
    struct slice block;
    uint64_t blocks = 0;
    enum err err = store_snap_open(inspection->store, &reader, &info);

    (void)printf("snapshot\n");
    if (err == ERR_MISSING) {
        (void)printf("  none: the log has everything\n");
        return true;
    }
    if (err) {
        (void)printf("  cannot be read: %s\n", err_text(err));
        return false;
    }
    while ((err = store_snap_next(reader, &block)) == ERR_OK) {
        blocks++;
    }
    (void)printf("  start        0x%016" PRIx64 "\n  end          0x%016" PRIx64
                 "\n  znodes       %" PRIu64 "\n  bytes        %" PRIu64 " in %" PRIu64
                 " blocks\n  digest       %016" PRIx64 "\n  verdict      %s\n",
                 info.start, info.end, info.node_count, info.file_bytes, blocks, info.digest,
                 err == ERR_MISSING ? "sound" : err_text(err));
    store_snap_close(reader);
    return err == ERR_MISSING;
}

static void print_epochs(struct inspection *inspection)
{
    struct store_epoch_range *ranges = mem_zalloc(STORE_EPOCHS_MAX, sizeof(*ranges));
    size_t count = store_epochs(inspection->store, ranges, STORE_EPOCHS_MAX);

    for (size_t i = 0; i < count; i++) {
        (void)printf("  epoch        %" PRIu32 ": records %" PRIu32 " to %" PRIu32 "\n",
                     ranges[i].epoch, ranges[i].first, ranges[i].last);
    }
    mem_free(ranges);
}

static void print_record(const struct logrec *rec)
{
    (void)printf("    0x%016" PRIx64 "  %-13s %8" PRIu32 " bytes  chain %016" PRIx64 "\n",
                 rec->zxid, record_name(rec->type), rec->len, rec->chain);
}

/* Reads the whole log back. Gives what stopped it: ERR_OK at the end. */
static enum err walk_records(struct inspection *inspection, uint64_t *ret_count,
                             uint64_t *ret_bytes)
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
            *ret_bytes += recs[i]->len;
            (*ret_count)++;
            logrec_unref(recs[i]);
        }
    }
    mem_free(recs);
    return err;
}

static bool print_log(struct inspection *inspection)
{
    const struct store_report *report = &inspection->report;
    uint64_t count = 0;
    uint64_t bytes = 0;

    (void)printf("log\n  follows      0x%016" PRIx64 "\n  last         0x%016" PRIx64
                 "\n  committed    0x%016" PRIx64 " at least\n",
                 report->log_base, report->log_last, report->committed);
    print_epochs(inspection);

    enum err err = walk_records(inspection, &count, &bytes);

    (void)printf("  records      %" PRIu64 ", %" PRIu64 " bytes of payload\n", count, bytes);
    if (report->torn_bytes) {
        (void)printf("  torn tail    %" PRIu64 " bytes that were never acknowledged\n",
                     report->torn_bytes);
    }
    (void)printf("  verdict      %s\n", err ? err_text(err) : "sound");
    return err == ERR_OK;
}

static void print_all(struct inspection *inspection)
{
    const struct store_report *report = &inspection->report;

    print_identity(report);
    if (report->verdict == STORE_DAMAGED) {
        (void)printf("damaged\n  %s\n", report->reason);
        inspection->sound = false;
    } else if (report->verdict != STORE_EMPTY) {
        bool snapshot = print_snapshot(inspection);
        bool log = print_log(inspection);

        inspection->sound = snapshot && log && !report->quarantined;
    }
    (void)printf("%s: %s\n", inspection->dir,
                 report->verdict == STORE_EMPTY ? "empty"
                 : inspection->sound            ? "sound"
                                                : "NOT sound");
}

static int fail(const struct inspection *inspection, const char *why)
{
    (void)fprintf(stderr, "zabra inspect: %s: %s\n", inspection->dir, why);
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
    inspection->sound = true;
    print_all(inspection);
    store_close(inspection->store, false);
    return inspection->sound ? CMD_OK : CMD_FAILED;
}

static int inspect(struct inspection *inspection)
{
    enum err err = vfs_posix_open(inspection->dir, &inspection->vfs);

    if (err) {
        return fail(inspection, "no directory that can be read");
    }
    err = inspection->vfs.ops->lock(inspection->vfs.ctx);

    int code = err == ERR_BUSY ? fail(inspection, "in use by a replica; stop it first")
               : err           ? fail(inspection, err_text(err))
                               : inspect_locked(inspection);

    vfs_posix_close(&inspection->vfs);
    return code;
}

static int run(int arg_count, char **args)
{
    struct inspection *inspection = mem_zalloc(1, sizeof(*inspection));
    int code = CMD_USAGE;

    for (int i = 0; i < arg_count; i++) {
        if (!strcmp(args[i], "--records")) {
            inspection->with_records = true;
        } else if (args[i][0] == '-' || inspection->dir) {
            mem_free(inspection);
            return cmd_usage_error(&cmd_inspect, "\"%s\" is not understood", args[i]);
        } else {
            inspection->dir = args[i];
        }
    }
    code = inspection->dir ? inspect(inspection)
                           : cmd_usage_error(&cmd_inspect, "the directory is missing");
    mem_free(inspection);
    return code;
}

const struct cmd cmd_inspect = {
    .name = "inspect",
    .summary = "check and show the data directory of a stopped replica",
    .usage = "[--records] DIR",
    .text = "Prints identity, promise, quarantine, snapshot and log, and says whether all is\n"
            "sound. Reads everything, changes nothing. --records lists each record of the log.\n"
            "Exit code 0: sound; 1: not, or it cannot be read.\n",
    .run = run};
