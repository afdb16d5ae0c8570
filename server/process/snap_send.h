/*
 * snap_send.h - snapshots that are sent to learners: one open file per peer. The file stays open
 * for a while after its last piece was read, so that a learner that has missed the last pieces can
 * resume.
 *
 * Before a file is sent, all of it is read and its checksums are verified. The process does this
 * once for each file, with one exception: a file that was sent to a peer to the end is checked
 * again when that peer requests it again, because the peer may have refused it. A peer that begins
 * again during the check does not restart the check. A snapshot that does not verify is never sent
 * or loaded again; the next older one replaces it.
 *
 * The members of an ensemble change, so more peers may ask in the course of time than there are
 * slots. A new peer gets the slot of a peer whose file is closed.
 *
 * Checking proceeds block by block, so that the thread can do other work in between. Owner: the
 * worker thread; in the simulator the node.
 */
#ifndef SERVER_SNAP_SEND_H
#define SERVER_SNAP_SEND_H

#include "base/buf.h"
#include "storage/store.h"
#include "zab/zab.h"

/* How long a file stays open for a peer that requests nothing. */
enum {
    SEND_IDLE_MS = 300000,
    SEND_IDLE_LOW_MS = 5000, /* While the disk is full: an open file takes space even if removed. */
};

static inline uint64_t snap_send_idle_ms(bool is_low)
{
    return is_low ? SEND_IDLE_LOW_MS : SEND_IDLE_MS;
}

/* The snapshot that is sent to one peer. */
struct snap_send_slot {
    uint32_t peer; /* 0: the slot is free. */
    struct store_snap_reader *reader;
    struct store_snap_info info;
    bool is_checked;
    bool has_sent;   /* A file was sent to the end, and not checked since. */
    zxid_t sent;     /* Start of the snapshot that was sent. */
    uint64_t now_ms; /* Time of the last use, also by a check. */
};

struct snap_send {
    struct store *store;
    struct snap_send_slot slots[ZAB_MEMBERS_MAX];
    uint64_t condemned; /* Number of files that did not verify. */
};

void snap_send_init(struct snap_send *send, struct store *store);

/* Closes all files: the replica loads another state, or the process ends. */
void snap_send_close(struct snap_send *send);

/* Closes each file that its peer has not used for `idle_ms`: that peer is gone. A file that is not
 * checked yet stays open, because the caller will check it. */
void snap_send_tidy(struct snap_send *send, uint64_t now_ms, uint64_t idle_ms);

/* A piece of a snapshot file: the request; members marked "out" are its result. */
struct snap_piece {
    uint32_t peer;
    bool is_first;               /* First piece of a transfer. */
    uint64_t id;                 /* First piece: snapshot that the peer has a part of; 0: none. */
    zxid_t oldest;               /* First piece: the snapshot may not begin before this zxid. */
    uint64_t offset;             /* Offset in the file. First piece: bytes that the peer has; out: 0
                                    when another snapshot is sent. */
    uint32_t len;                /* Bytes of the piece, at most. */
    bool is_last;                /* Out: the file ends with this piece. */
    struct store_snap_info info; /* Out: the file. */
};

/* Begins a transfer, or begins it again. Keeps the open snapshot when the peer has a part of it, or
 * when it is the newest one and its check has not ended. Otherwise opens the newest snapshot.
 * ERR_MISSING: there is no snapshot. ERR_BUSY: files are open for ZAB_MEMBERS_MAX other peers. */
enum err snap_send_begin(struct snap_send *send, const struct snap_piece *piece, uint64_t now_ms);

/* True when the file that is open for the peer may be sent. */
bool snap_send_is_checked(const struct snap_send *send, uint32_t peer);

/* Checks the next block; `ret_bytes` is its length. ERR_MISSING: no snapshot verifies. ERR_CLOSED:
 * no file is open for this peer any more. */
enum err snap_send_check(struct snap_send *send, uint32_t peer, uint64_t now_ms, size_t *ret_bytes);

/* Appends the piece to `out`. ERR_CLOSED: no file is open for this peer, or it is not checked yet.
 * ERR_IO: the file cannot be read. */
enum err snap_send_piece(struct snap_send *send, struct snap_piece *piece, uint64_t now_ms,
                         struct buf *out);

#endif
