/*
 * walfmt.h - the bytes of the write-ahead log: segment header, batches, records. No I/O.
 *
 * Each sector of a batch ends with a checksum of its own. The checksum is seeded by the segment's
 * salt, the place in the file and the batch number, and is never zero. So after a crash each sector
 * shows whether it was written or still holds the zeros of preallocation. These two states
 * distinguish a torn batch, which was never acknowledged, exactly from damage.
 */
#ifndef STORAGE_WALFMT_H
#define STORAGE_WALFMT_H

#include "base/buf.h"
#include "base/logrec.h"
#include "storage/store.h"

enum {
    WALFMT_VERSION = 1,
    WALFMT_STAMP = 4,                              /* Bytes of checksum at a sector's end. */
    WALFMT_CONTENT = VFS_SECTOR - WALFMT_STAMP,    /* Bytes of content in a sector. */
    WALFMT_BLOCK_SECTORS = VFS_BLOCK / VFS_SECTOR, /* Sectors in a block, the unit of batches. */
    WALFMT_BATCH_HEAD = 48,                        /* Bytes of content before the records. */
    WALFMT_RECORD_HEAD = 36,                       /* Bytes before each payload. */
    WALFMT_BATCH_RAW_MAX = 4 * 1024 * 1024, /* Maximum content of a batch with several records. */
};

/* First block of a segment. The header names an older segment and the place at which the log leaves
 * that segment and continues here. So the header cuts off the bytes of the older segment behind
 * that place (truncation). */
struct walfmt_header {
    uint8_t cluster[STORE_CLUSTER_LEN];
    uint32_t member_id;
    uint64_t incarnation;
    uint64_t history;     /* Counts how often the log was started again. */
    uint64_t number;      /* Number of this segment; ascending, with gaps. */
    uint64_t prev_number; /* Segment that this one continues; 0: none, the log starts here. */
    uint64_t prev_offset; /* Offset at which the log leaves that segment. */
    zxid_t prev_zxid;     /* The last record before this segment. */
    uint64_t prev_chain;  /* Chain value at `prev_zxid`. */
    zxid_t committed;     /* Commit watermark when the segment was made. */
    uint64_t salt;        /* Seeds every checksum of the batches. */
    uint64_t bytes;       /* Size of the file. */
    uint64_t batch_first; /* Number of the first batch. */
};

/* The place of a batch. It seeds the batch's checksums, so that misplaced or stale bytes never
 * verify. */
struct walfmt_place {
    uint64_t salt;
    uint64_t offset; /* Offset in the file, a multiple of VFS_BLOCK. */
    uint64_t number; /* Number of the batch. */
};

struct walfmt_batch {
    uint32_t len;        /* Bytes of all records. */
    uint32_t count;      /* Number of records. */
    zxid_t durable_upto; /* Last zxid before this batch; the log up to it was synced. */
    uint64_t chain;      /* Chain value at `durable_upto`. */
    zxid_t committed;    /* Records up to this zxid were known to be committed. */
};

struct walfmt_record {
    enum logrec_type type;
    zxid_t zxid;
    zxid_t prev;
    uint64_t chain;
    struct slice payload; /* Points into the batch. */
};

enum walfmt_sector {
    WALFMT_SECTOR_ZERO, /* Never written. */
    WALFMT_SECTOR_GOOD, /* Written as part of this very batch. */
    WALFMT_SECTOR_BAD,
};

void walfmt_header_encode(const struct walfmt_header *header, uint8_t out[VFS_BLOCK]);
/* Verifies and decodes a header. ERR_CORRUPT. */
enum err walfmt_header_decode(const uint8_t in[VFS_BLOCK], struct walfmt_header *ret_header);

/* Returns the size in the file of a batch whose content (head and records) has `raw_len` bytes. */
uint64_t walfmt_framed_len(uint64_t raw_len);

/* Functions that write a batch: begin, any number of records, end, then walfmt_frame. `raw` holds
 * the content. */
void walfmt_batch_begin(struct buf *raw);
void walfmt_batch_put(struct buf *raw, const struct walfmt_place *place,
                      const struct walfmt_record *record);
void walfmt_batch_end(struct buf *raw, const struct walfmt_place *place,
                      const struct walfmt_batch *batch);

/* Spreads the content over sectors, each with its checksum; replaces what `framed` held. */
void walfmt_frame(struct slice raw, const struct walfmt_place *place, struct buf *framed);

/* Returns the state of one sector; `index` counts sectors from the start of the batch. */
enum walfmt_sector walfmt_sector_state(const struct walfmt_place *place, uint64_t index,
                                       const uint8_t sector[VFS_SECTOR]);

/* Moves the contents of the sectors together, to the front of `framed`. Returns false unless each
 * sector is good. `first`: index, within the batch, of the first sector in `framed`. */
bool walfmt_unframe(const struct walfmt_place *place, uint64_t first, uint8_t *framed,
                    size_t sectors);

/* Decodes the head of a batch, which lies whole in the first sector. ERR_CORRUPT. */
enum err walfmt_batch_decode(const uint8_t content[WALFMT_BATCH_HEAD],
                             const struct walfmt_place *place, struct walfmt_batch *ret_batch);

/* Walks the records of an unframed batch. */
struct walfmt_cursor {
    struct walfmt_place place;
    struct slice raw;     /* Head and records. */
    size_t pos;           /* Offset of the next record. */
    uint32_t payload_max; /* A longer payload is damage. */
};

/* Returns the next record. ERR_MISSING: after the last record. ERR_CORRUPT. */
enum err walfmt_next(struct walfmt_cursor *cursor, struct walfmt_record *ret_record);

#endif
