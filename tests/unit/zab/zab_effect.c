#include "tests/lib/zab_notice.h"
#include "tests/unit/zab/zab_text.h"

static const char *const phases[] = {
    [ZAB_PHASE_ELECTION] = "election",
    [ZAB_PHASE_DISCOVERY] = "discovery",
    [ZAB_PHASE_SYNC] = "sync",
    [ZAB_PHASE_BROADCAST] = "broadcast",
};

/* ---- Effects. ---- */

static void text_persist(struct buf *out, const struct zab_persist *persist)
{
    (void)buf_append_str(out, "disk ");
    switch (persist->type) {
    case ZAB_PERSIST_APPEND:
        (void)buf_append_str(out, "append ");
        text_record(out, persist->append.rec);
        break;
    case ZAB_PERSIST_TRUNCATE:
        (void)buf_append_str(out, "truncate ");
        text_zxid(out, persist->truncate.zxid);
        break;
    case ZAB_PERSIST_PROMISE:
        (void)buf_printf(out, "promise %u to %u", persist->promise.epoch, persist->promise.leader);
        break;
    case ZAB_PERSIST_JOIN:
        (void)buf_append_str(out, "join ");
        text_config(out, persist->join.config);
        break;
    case ZAB_PERSIST_QUARANTINE:
        (void)buf_printf(out, "quarantine: %s", persist->quarantine.reason);
        break;
    case ZAB_PERSIST_RELEASE:
        (void)buf_append_str(out, "release");
        break;
    case ZAB_PERSIST_RESET:
        (void)buf_append_str(out, "reset");
        break;
    case ZAB_PERSIST_SNAP_BEGIN:
        (void)buf_append_str(out, "snap begin");
        break;
    case ZAB_PERSIST_SNAP_CHUNK:
        (void)buf_printf(out, "snap chunk offset=%llu bytes=%zu",
                         (unsigned long long)persist->snap_chunk.offset,
                         persist->snap_chunk.bytes.len);
        break;
    case ZAB_PERSIST_SNAP_INSTALL:
        (void)buf_append_str(out, "snap install");
        break;
    case ZAB_PERSIST_SNAP_ABORT:
        (void)buf_append_str(out, "snap abort");
        break;
    }
}

static void text_notice(struct buf *out, const char *kind, const struct zab_notice *notice)
{
    char text[ZAB_TEXT_MAX];

    zab_notice_text(notice, text);
    (void)buf_printf(out, "%s: %s", kind, text);
}

static void text_snap_fetch(struct buf *out, const struct zab_snap_fetch *fetch)
{
    (void)buf_printf(out, "read snapshot for %u", fetch->peer);
    text_named_zxid(out, "oldest", fetch->oldest);
    (void)buf_printf(out, " offset=%llu%s", (unsigned long long)fetch->offset,
                     fetch->is_first ? " first" : "");
    text_number(out, "id", fetch->id);
}

/* The number of a request and its bytes. */
static void text_request(struct buf *out, const char *what, uint64_t request, struct slice bytes)
{
    (void)buf_printf(out, "%s %llu", what, (unsigned long long)request);
    if (bytes.len > 0) {
        (void)buf_append_str(out, " bytes=");
        (void)buf_append_slice(out, bytes);
    }
}

static void text_confirmed(struct buf *out, const struct zab_effect *effect)
{
    text_request(out, "confirmed", effect->confirmed.request, slice_make(NULL, 0));
    text_named_zxid(out, "zxid", effect->confirmed.zxid);
}

void text_effect(struct buf *out, const struct zab_effect *effect, const struct zab_config *own)
{
    switch (effect->type) {
    case ZAB_FX_SEND:
        text_msg(out, &effect->send.msg, own);
        break;
    case ZAB_FX_DISCONNECT:
        (void)buf_printf(out, "close %u", effect->disconnect.peer);
        break;
    case ZAB_FX_PERSIST:
        text_persist(out, &effect->persist);
        break;
    case ZAB_FX_DELIVER:
        (void)buf_append_str(out, "deliver ");
        text_record(out, effect->deliver.rec);
        break;
    case ZAB_FX_FETCH:
        (void)buf_append_str(out, "read log");
        text_named_zxid(out, "after", effect->fetch.after);
        break;
    case ZAB_FX_SNAP_FETCH:
        text_snap_fetch(out, &effect->snap_fetch);
        break;
    case ZAB_FX_RESTORE:
        (void)buf_append_str(out, "load state ");
        text_zxid(out, effect->restore.start);
        break;
    case ZAB_FX_CONFIRMED:
        text_confirmed(out, effect);
        break;
    case ZAB_FX_FORWARDED:
        text_request(out, "forwarded", effect->forwarded.request, effect->forwarded.bytes);
        (void)buf_printf(out, " by %u", effect->forwarded.peer);
        break;
    case ZAB_FX_REFUSED:
        text_request(out, "refused", effect->refused.request, effect->refused.bytes);
        break;
    case ZAB_FX_PING_PAYLOAD:
        (void)buf_printf(out, "payload of %u", effect->ping_payload.peer);
        break;
    case ZAB_FX_MEMBERS:
        (void)buf_append_str(out, "peers");
        break; /* zab_play.c adds their ids. */
    case ZAB_FX_REMOVED:
        (void)buf_append_str(out, "removed");
        text_named_zxid(out, "by", effect->removed.zxid);
        break;
    case ZAB_FX_SEARCH:
        (void)buf_append_str(out, effect->search.is_on ? "search" : "search ends");
        break;
    case ZAB_FX_ROLE:
        break; /* Part of text_status. */
    case ZAB_FX_HALT:
        text_notice(out, "halt", &effect->notice);
        break;
    case ZAB_FX_ALARM:
        text_notice(out, "alarm", &effect->notice);
        break;
    }
}

/* ---- The state. ---- */

static void text_switch(struct buf *out, const char *name, bool was, bool is)
{
    if (was != is) {
        (void)buf_printf(out, " %s%s", is ? "" : "not ", name);
    }
}

static void text_moved_zxid(struct buf *out, const char *name, zxid_t was, zxid_t is)
{
    if (was != is) {
        (void)buf_printf(out, " %s=", name);
        text_zxid(out, is);
    }
}

static void text_moved(struct buf *out, const char *name, uint64_t was, uint64_t is)
{
    if (was != is) {
        (void)buf_printf(out, " %s=%llu", name, (unsigned long long)is);
    }
}

void text_status(struct buf *out, const struct zab_status *was, const struct zab_status *is)
{
    if (was->state != is->state) {
        (void)buf_printf(out, " %s", text_state(is->state));
    }
    if (was->phase != is->phase) {
        (void)buf_printf(out, " %s", phases[is->phase]);
    }
    text_moved(out, "leader", was->leader, is->leader);
    text_moved(out, "epoch", was->epoch, is->epoch);
    text_moved(out, "promised", was->promised, is->promised);
    text_moved_zxid(out, "last", was->last, is->last);
    text_moved_zxid(out, "durable", was->durable, is->durable);
    text_moved_zxid(out, "committed", was->committed, is->committed);
    text_moved_zxid(out, "delivered", was->delivered, is->delivered);
    text_switch(out, "serving", was->serving, is->serving);
    text_switch(out, "quarantined", was->quarantined, is->quarantined);
    text_switch(out, "bootstrapping", was->bootstrapping, is->bootstrapping);
    text_switch(out, "unknown_disk", was->unknown_disk, is->unknown_disk);
    text_switch(out, "outside", was->outside, is->outside);
    text_switch(out, "quorum_low", was->quorum_low, is->quorum_low);
    text_moved(out, "low_voters", was->low_voters, is->low_voters);
    text_moved(out, "refills", was->refills, is->refills);
    text_moved(out, "refills_stalled", was->refills_stalled, is->refills_stalled);
}
