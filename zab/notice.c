/* The texts of what HALT and ALARM report: what has happened, and what the operator can do. */
#include "zab/zab_int.h"

#include <stdio.h>

static const char *const texts[] = {
    [ZAB_NOTICE_QUARANTINED] = "quarantine: {reason}",
    [ZAB_NOTICE_FOUNDER_LIST] =
        "replica {peer} has founded a cluster with other members than this replica's server list: "
        "make the lists equal",
    [ZAB_NOTICE_LEADER_LIST] =
        "the cluster of leader {peer} has other members than this replica's server list: make the "
        "lists equal",
    [ZAB_NOTICE_ADMISSION] =
        "member {peer} has come back with a new disk: its admission is proposed",
    [ZAB_NOTICE_DIVERGED] = "the state of replica {peer} differs at zxid {zxid}: it is refilled",
    [ZAB_NOTICE_DIVERGED_UNKNOWN] =
        "the state of replica {peer} differs at zxid {zxid}; which state is right is decided when "
        "more replicas have reported",
    [ZAB_NOTICE_BAD_SNAPSHOT] =
        "the state made from a received snapshot differs from its digest at zxid {zxid}",
    [ZAB_NOTICE_EPOCH_PROPOSED] =
        "leader {peer} proposes epoch {epoch}, far beyond {highest}: refused",
    [ZAB_NOTICE_EPOCH_CLAIMED] = "peer {peer} claims epoch {epoch}, far beyond {highest}: refused",
    [ZAB_NOTICE_REFILL_STALLED] =
        "the refill of peer {peer} has made no progress for {seconds} s: the log is kept for it no "
        "longer; check its disk and the network to it",
    [ZAB_NOTICE_REFILL_LOST_LOG] =
        "the refill of peer {peer} begins again: the log that it needs was purged, because it "
        "exceeded maxRefillLogBytes or the disk was full; raise the limit, free disk space or give "
        "the peer a faster link",
    [ZAB_NOTICE_NO_SNAPSHOT] = "peer {peer} needs a snapshot and there is none",
    [ZAB_NOTICE_NO_MAJORITY] =
        "the replicas' states differ at zxid {zxid} and no majority agrees: all replicas stop; "
        "restore a backup, or compare their data directories and keep the right one",
    [ZAB_NOTICE_COMMITTED_LOST] =
        "leader {peer} asks to drop committed records after zxid {zxid} (committed: {committed}): "
        "a quorum has lost data; stop all replicas, keep this data directory, and recover from the "
        "newest one with 'zabra recover', or restore a backup",
    [ZAB_NOTICE_HISTORIES_DIFFER] =
        "the histories of this replica and leader {peer} differ before zxid {zxid}: damaged data "
        "or a defect",
    [ZAB_NOTICE_MALFORMED_CONFIG] = "the configuration record at zxid {zxid} is malformed",
    [ZAB_NOTICE_UNREADABLE_LOG] = "cannot read committed records after zxid {zxid} from the log",
    [ZAB_NOTICE_UNREADABLE_SNAPSHOT] =
        "the state cannot be loaded from the snapshot at zxid {zxid} that was just verified",
};

static void put_field(const struct zab_notice *notice, struct slice name, struct buf *out)
{
    if (slice_eq(name, slice_str("peer"))) {
        buf_printf(out, "%u", notice->peer);
    } else if (slice_eq(name, slice_str("zxid"))) {
        buf_printf(out, "0x%llx", (unsigned long long)notice->zxid);
    } else if (slice_eq(name, slice_str("committed"))) {
        buf_printf(out, "0x%llx", (unsigned long long)notice->committed);
    } else if (slice_eq(name, slice_str("epoch"))) {
        buf_printf(out, "%u", notice->epoch);
    } else if (slice_eq(name, slice_str("highest"))) {
        buf_printf(out, "%u", notice->highest);
    } else if (slice_eq(name, slice_str("seconds"))) {
        buf_printf(out, "%llu", (unsigned long long)notice->seconds);
    } else {
        ASSERT(slice_eq(name, slice_str("reason")));
        buf_append_str(out, notice->reason);
    }
}

void zab_notice_text(const struct zab_notice *notice, char text[ZAB_TEXT_MAX])
{
    const char *at = texts[notice->type];
    struct buf out;

    buf_init(&out, ZAB_TEXT_MAX - 1);
    while (*at != '\0') {
        size_t len = strcspn(at, "{");

        buf_append(&out, at, len);
        at += len;
        if (*at == '{') {
            len = strcspn(at, "}");
            put_field(notice, slice_make(at + 1, len - 1), &out);
            at += len + 1;
        }
    }
    memcpy(text, out.data, out.len);
    text[out.len] = '\0';
    buf_release(&out);
}
