#include "server/process/snap_send.h"

#include "base/check.h"
#include "base/probe.h"

static struct snap_send_slot *slot_find(struct snap_send *send, uint32_t peer)
{
    for (size_t i = 0; i < ZAB_MEMBERS_MAX; i++) {
        if (send->slots[i].peer == peer) {
            return &send->slots[i];
        }
    }
    return NULL;
}

/* Returns the slot that a new peer gets: one without an open file, a free one first, then the one
 * that was not used for the longest time. NULL: each slot has an open file. */
static struct snap_send_slot *slot_to_take(struct snap_send *send)
{
    struct snap_send_slot *slot = NULL;

    for (size_t i = 0; i < ZAB_MEMBERS_MAX; i++) {
        struct snap_send_slot *other = &send->slots[i];

        if (other->peer == 0) {
            return other;
        }
        if (!other->reader && (!slot || other->now_ms < slot->now_ms)) {
            slot = other;
        }
    }
    return slot;
}

/* Returns the peer's slot, or one that another peer does not need any more; NULL: there is none. */
static struct snap_send_slot *slot_of(struct snap_send *send, uint32_t peer)
{
    struct snap_send_slot *slot = slot_find(send, peer);

    ASSERT(peer != 0);
    if (!slot) {
        slot = slot_to_take(send);
        if (slot) {
            *slot = (struct snap_send_slot){.peer = peer};
        }
    }
    return slot;
}

static void slot_close(struct snap_send_slot *slot)
{
    ASSERT(slot->reader || !slot->is_checked);

    if (slot->reader) {
        store_snap_close(slot->reader);
    }
    slot->reader = NULL;
    slot->is_checked = false;
}

void snap_send_init(struct snap_send *send, struct store *store)
{
    *send = (struct snap_send){.store = store};
}

void snap_send_close(struct snap_send *send)
{
    for (size_t i = 0; i < ZAB_MEMBERS_MAX; i++) {
        slot_close(&send->slots[i]);
    }
}

void snap_send_tidy(struct snap_send *send, uint64_t now_ms, uint64_t idle_ms)
{
    for (size_t i = 0; i < ZAB_MEMBERS_MAX; i++) {
        struct snap_send_slot *slot = &send->slots[i];

        if (slot->is_checked && now_ms - slot->now_ms >= idle_ms) {
            slot_close(slot);
        }
    }
}

static void condemn(struct snap_send *send, const struct store_snap_info *info)
{
    ASSERT(info->history > 0);
    send->condemned++;
    store_snap_condemn(send->store, info);
}

/* Opens the newest snapshot whose header and footer verify. */
static enum err slot_open(struct snap_send *send, struct snap_send_slot *slot)
{
    enum err err = ERR_OK;

    ASSERT(!slot->reader);
    do {
        err = store_snap_open(send->store, &slot->reader, &slot->info);
        if (err == ERR_CORRUPT) {
            condemn(send, &slot->info);
        }
    } while (err == ERR_CORRUPT);
    slot->is_checked = err == ERR_OK && slot->info.is_checked &&
                       !(slot->has_sent && slot->sent == slot->info.start);
    return err;
}

/* True when the bytes that the peer has are the first bytes of this file. An equal `id` proves
 * this, because the id of a file is a hash of all its bytes. */
static bool is_same(const struct snap_send_slot *slot, const struct snap_piece *piece)
{
    ASSERT(slot->reader);
    return piece->id != 0 && (piece->id == slot->info.id || MUTANT(41)) &&
           piece->offset < slot->info.file_bytes;
}

enum err snap_send_begin(struct snap_send *send, const struct snap_piece *piece, uint64_t now_ms)
{
    struct snap_send_slot *slot = slot_of(send, piece->peer);

    ASSERT(piece->is_first);
    if (!slot) {
        return ERR_BUSY;
    }
    slot->now_ms = now_ms;
    if (slot->is_checked && slot->info.start >= piece->oldest && is_same(slot, piece)) {
        PROBE("snap_send.resumed");
        return ERR_OK;
    }
    if (slot->reader && !slot->is_checked && store_snap_is_newest(send->store, &slot->info)) {
        return ERR_OK; /* The check continues: if it restarted each time, it might never end. */
    }
    slot_close(slot);
    return slot_open(send, slot);
}

bool snap_send_is_checked(const struct snap_send *send, uint32_t peer)
{
    for (size_t i = 0; i < ZAB_MEMBERS_MAX; i++) {
        if (send->slots[i].peer == peer) {
            return send->slots[i].is_checked;
        }
    }
    return false;
}

enum err snap_send_check(struct snap_send *send, uint32_t peer, uint64_t now_ms, size_t *ret_bytes)
{
    struct snap_send_slot *slot = slot_find(send, peer);
    struct slice block;

    *ret_bytes = 0;
    if (!slot || !slot->reader) {
        return ERR_CLOSED;
    }
    ASSERT(!slot->is_checked);
    slot->now_ms = now_ms;

    enum err err = store_snap_next(slot->reader, &block);

    if (err == ERR_OK) {
        *ret_bytes = block.len;
    } else if (err == ERR_MISSING) {
        store_snap_checked(send->store, &slot->info);
        slot->is_checked = true;
        slot->has_sent = slot->has_sent && slot->sent != slot->info.start;
        err = ERR_OK;
    } else {
        condemn(send, &slot->info);
        slot_close(slot);
        err = slot_open(send, slot);
    }
    return err;
}

enum err snap_send_piece(struct snap_send *send, struct snap_piece *piece, uint64_t now_ms,
                         struct buf *out)
{
    struct snap_send_slot *slot = slot_find(send, piece->peer);
    size_t len = 0;

    ASSERT(piece->len > 0 && piece->len <= ZAB_CHUNK_BYTES_MAX);
    if (!slot || !slot->is_checked) {
        return ERR_CLOSED;
    }

    if (piece->is_first && !is_same(slot, piece)) {
        piece->offset = 0;
    }

    uint8_t *to = buf_reserve(out, piece->len);

    ASSERT(to);

    enum err err = store_snap_read_raw(slot->reader, piece->offset, to, piece->len, &len);

    if (err != ERR_OK) {
        return err;
    }
    out->len += len;
    piece->info = slot->info;
    piece->is_last = len < piece->len || piece->offset + len >= slot->info.file_bytes;
    slot->now_ms = now_ms;
    if (piece->is_last) {
        slot->has_sent = true;
        slot->sent = slot->info.start;
    }
    return ERR_OK;
}
