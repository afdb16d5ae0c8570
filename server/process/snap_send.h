/*
 * snap_send.h - snapshots on their way to learners: one open file per peer. It stays open for a
 * while after its last piece was read, so that a learner that has not got the last ones can resume.
 *
 * A file is sent only after all of it was read and its checksums were found right, once per
 * process; and again for a peer that asks for it after it was sent to its end, because then it may
 * have refused it. A peer that begins again meanwhile does not make the check begin again. What
 * does not verify is never sent nor loaded again, and the next older one takes its place.
 *
 * Checking goes block by block, so that the thread can do other work in between. Owner: the bulk
 * thread; in the simulator the node.
 */
#ifndef SERVER_SNAP_SEND_H
#define SERVER_SNAP_SEND_H

#include "base/buf.h"
#include "storage/store.h"
#include "zab/zab.h"

/* How long a file stays open for a peer that asks for nothing. */
enum {
    SEND_IDLE_MS = 300000,   /* A learner that asks for no more pieces does not come back. */
    SEND_IDLE_LOW_MS = 5000, /* The same while the disk is full: the file may be removed already. */
};

static inline uint64_t snap_send_idle_ms(bool is_low)
{
    return is_low ? SEND_IDLE_LOW_MS : SEND_IDLE_MS;
}

/* What one peer is being sent. */
struct snap_send_slot {
    uint32_t peer; /* 0: the slot is free. */
    struct store_snap_reader *reader;
    struct store_snap_info info;
    bool is_checked;
    bool has_sent;   /* To the end, and not checked since: */
    zxid_t sent;     /* the one of this start. */
    uint64_t now_ms; /* Last use, also by a check. */
};

struct snap_send {
    struct store *store;
    struct snap_send_slot slots[ZAB_MEMBERS_MAX];
    uint64_t condemned; /* Files that did not verify. */
};

void snap_send_init(struct snap_send *send, struct store *store);

/* Closes all files: another state takes the place of this one, or the process ends. */
void snap_send_close(struct snap_send *send);

/* Closes what no peer has asked for since `idle_ms`: the peer is gone. A file that is not checked
 * yet stays open, since the caller is still about to check it. */
void snap_send_tidy(struct snap_send *send, uint64_t now_ms, uint64_t idle_ms);

/* A piece of a file. */
struct snap_piece {
    uint32_t peer;
    bool is_first;               /* Of this transfer. Then the peer has `offset` bytes ... */
    uint64_t id;                 /* ... of the snapshot with this id, if it is not 0 ... */
    zxid_t oldest;               /* ... and what begins before this zxid is of no use. */
    uint64_t offset;             /* Out, of the first one: 0 if that is another snapshot. */
    uint32_t len;                /* At most. */
    bool is_last;                /* Out: the file ends with it. */
    struct store_snap_info info; /* Out: of the file. */
};

/* The peer begins, perhaps again: keeps the snapshot open that it has a part of, or the newest
 * one with a check that has not ended, or opens the newest one. ERR_MISSING: there is none. */
enum err snap_send_begin(struct snap_send *send, const struct snap_piece *piece, uint64_t now_ms);

/* True when the file that is open for the peer may be sent. */
bool snap_send_is_checked(const struct snap_send *send, uint32_t peer);

/* Reads the next block; `ret_bytes` is what was read. ERR_MISSING: not one snapshot verifies.
 * ERR_CLOSED: nothing is open for this peer any more. */
enum err snap_send_check(struct snap_send *send, uint32_t peer, uint64_t now_ms, size_t *ret_bytes);

/* Appends it to `out`. ERR_CLOSED: nothing is open for this peer, or
 * not yet checked. ERR_IO. */
enum err snap_send_piece(struct snap_send *send, struct snap_piece *piece, uint64_t now_ms,
                         struct buf *out);

#endif
