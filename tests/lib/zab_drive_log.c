#include "base/check.h"
#include "tests/lib/zab_drive.h"

#include <stdio.h>

void drive_log_reset(struct drive_log *log, zxid_t base, uint64_t chain)
{
    drive_log_release(log);
    log->base = base;
    log->base_chain = chain;
}

void drive_log_release(struct drive_log *log)
{
    for (size_t i = 0; i < log->count; i++) {
        logrec_unref(log->recs[i]);
    }
    *log = (struct drive_log){0};
}

zxid_t drive_log_last(const struct drive_log *log)
{
    return log->count ? log->recs[log->count - 1]->zxid : log->base;
}

uint64_t drive_log_chain(const struct drive_log *log, zxid_t zxid)
{
    for (size_t i = 0; i < log->count; i++) {
        if (log->recs[i]->zxid == zxid) {
            return log->recs[i]->chain;
        }
    }
    return log->base_chain;
}

struct logrec *drive_log_add_type(struct drive_log *log, enum logrec_type type, zxid_t zxid,
                                  struct slice payload)
{
    zxid_t last = drive_log_last(log);
    struct logrec *rec = logrec_new(type, zxid, last, drive_log_chain(log, last), payload);

    ASSERT(log->count < DRIVE_RECS_MAX);
    log->recs[log->count++] = rec;
    return rec;
}

struct logrec *drive_log_add(struct drive_log *log, zxid_t zxid)
{
    char text[32];

    (void)snprintf(text, sizeof text, "%llx", (unsigned long long)zxid);
    return drive_log_add_type(log, zxid_counter(zxid) == 0 ? LOGREC_EPOCH : LOGREC_TXN, zxid,
                              slice_str(text));
}

void drive_log_cut(struct drive_log *log, zxid_t zxid)
{
    while (log->count > 0 && log->recs[log->count - 1]->zxid > zxid) {
        logrec_unref(log->recs[--log->count]);
    }
    ASSERT(drive_log_last(log) == zxid);
}

void drive_log_copy(struct drive_log *to, const struct drive_log *from)
{
    drive_log_reset(to, from->base, from->base_chain);
    for (size_t i = 0; i < from->count; i++) {
        to->recs[to->count++] = logrec_ref(from->recs[i]);
    }
}

uint32_t drive_log_ranges(const struct drive_log *log, struct epoch_range ranges[DRIVE_RANGES_MAX])
{
    uint32_t count = 0;

    for (size_t i = 0; i < log->count; i++) {
        uint32_t epoch = zxid_epoch(log->recs[i]->zxid);
        uint32_t counter = zxid_counter(log->recs[i]->zxid);

        if (count == 0 || ranges[count - 1].epoch != epoch) {
            ASSERT(count < DRIVE_RANGES_MAX);
            ranges[count++] = (struct epoch_range){.epoch = epoch, .first = counter};
        }
        ranges[count - 1].last = counter;
    }
    return count;
}
