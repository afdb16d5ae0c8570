/* Fills the report of an opening. */
#include "base/check.h"
#include "base/minmax.h"
#include "storage/store_int.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void report_damage(struct store_report *report, const char *format, ...)
{
    va_list args;

    if (report->verdict == STORE_DAMAGED) {
        return;
    }
    report->verdict = STORE_DAMAGED;
    va_start(args, format);
    /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): it was just started. */
    (void)vsnprintf(report->reason, sizeof(report->reason), format, args);
    va_end(args);
    ASSERT(report->reason[0] != '\0');
}

void report_log(const struct store *store, struct store_report *report)
{
    ASSERT(store->wal.is_open);

    const struct wal *wal = &store->wal;
    zxid_t snap_end = report->has_snapshot ? report->snap_end : 0;

    report->log_base = wal->live.base;
    report->log_last = wal->live.last;
    report->log_chain = wal->live.last_chain;
    report->committed = max_u64(wal->live.committed, snap_end);
}

void report_records(const struct store *store, struct store_report *report)
{
    ASSERT(report->verdict == STORE_DAMAGED || report->reason[0] == '\0');

    report->has_identity = store->has_identity;
    report->identity = store->identity;
    report->promised_epoch = store->promised_epoch;
    report->promised_leader = store->promised_leader;
    report->quarantined = store->is_quarantined;
    if (store->is_quarantined && report->verdict != STORE_DAMAGED) {
        memcpy(report->reason, store->quarantine_reason, sizeof(report->reason));
    }
}
