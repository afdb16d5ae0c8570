/* Makes the checksums of a backup right, whatever its bytes are. */
#include "base/check.h"
#include "base/crc32c.h"
#include "base/hash.h"
#include "base/wire.h"
#include "tests/fuzz/backup_script.h"

enum {
    PARTS_MAX = 16,
    HEAD_FROM = 2 + 16 + 8 + 4 + 1, /* Offsets in the payload of HEAD, */
    HEAD_DIGEST = HEAD_FROM + 24,
    END_CHAIN = 8, /* in that of END, */
    END_DIGEST = 16,
    END_RECORDS = 24,
    END_SUM = 32,
    SNAP_HEAD = 48, /* and in a snapshot; see snapfile.c. */
    SNAP_START = 24,
    SNAP_CHAIN = 32,
    SNAP_CONFIG = 40,
    SNAP_HEAD_CRC = 44,
    SNAP_FRAME = 8,
    SNAP_TRAILER = 72
};

/* A part: its payload. */
struct part {
    uint8_t type;
    size_t at; /* Of its frame. */
    uint8_t *bytes;
    size_t len;
};

struct parts {
    struct part items[PARTS_MAX];
    size_t count;
};

/* Finds the parts, as far as their lengths make sense. */
static void find_parts(struct buf *file, struct parts *parts)
{
    size_t at = BACKUP_MAGIC_LEN;

    parts->count = 0;
    while (parts->count < PARTS_MAX && file->len >= BACKUP_FRAME_LEN + BACKUP_CRC_LEN &&
           at <= file->len - BACKUP_FRAME_LEN - BACKUP_CRC_LEN) {
        uint64_t len = wire_load_u64(file->data + at + 1);

        if (len > file->len - at - BACKUP_FRAME_LEN - BACKUP_CRC_LEN) {
            return;
        }
        parts->items[parts->count++] = (struct part){.type = file->data[at],
                                                     .at = at,
                                                     .bytes = file->data + at + BACKUP_FRAME_LEN,
                                                     .len = (size_t)len};
        at += BACKUP_FRAME_LEN + (size_t)len + BACKUP_CRC_LEN;
    }
}

static struct part *find(struct parts *parts, enum backup_part type)
{
    for (size_t i = 0; i < parts->count; i++) {
        if (parts->items[i].type == type) {
            return &parts->items[i];
        }
    }
    return NULL;
}

/* ---- The snapshot. ---- */

static uint32_t crc_at(uint64_t offset, const void *data, size_t len)
{
    uint8_t seed[8];

    wire_store_u64(seed, offset);
    return crc32c(crc32c(0, seed, sizeof seed), data, len);
}

static bool is_snapshot(const struct part *part)
{
    return part && part->len >= (size_t)SNAP_HEAD + 4 + SNAP_TRAILER;
}

/* Checksums of the blocks, and the trailer. */
static void repair_blocks(const struct part *part, size_t at, uint64_t end_chain)
{
    uint8_t *trailer = part->bytes + part->len - SNAP_TRAILER;
    size_t end = part->len - SNAP_TRAILER;
    uint64_t blocks = 0;

    while (at + SNAP_FRAME <= end) {
        uint32_t len = wire_load_u32(part->bytes + at);

        if (len > end - at - SNAP_FRAME) {
            break;
        }
        wire_store_u32(part->bytes + at + 4, crc_at(at, part->bytes + at + SNAP_FRAME, len));
        at += SNAP_FRAME + len;
        blocks++;
    }
    wire_store_u64(trailer + 16, end_chain);
    wire_store_u64(trailer + 40, blocks);
    wire_store_u64(trailer + 48, part->len);
}

static void repair_snapshot(const struct part *part, uint64_t end_chain)
{
    uint32_t config = is_snapshot(part) ? wire_load_u32(part->bytes + SNAP_CONFIG) : 0;

    if (!is_snapshot(part) || config > part->len - SNAP_HEAD - 4 - SNAP_TRAILER) {
        return;
    }
    uint8_t *trailer = part->bytes + part->len - SNAP_TRAILER;

    wire_store_u32(part->bytes + SNAP_HEAD_CRC, crc_at(0, part->bytes, SNAP_HEAD_CRC));
    wire_store_u32(part->bytes + SNAP_HEAD + config,
                   crc_at(SNAP_HEAD, part->bytes + SNAP_HEAD, config));
    repair_blocks(part, (size_t)SNAP_HEAD + config + 4, end_chain);

    /* The hash is made of pieces, as they are written. */
    uint64_t hash = hash64(0, slice_make(part->bytes, SNAP_HEAD));

    hash = hash64(hash, slice_make(part->bytes + SNAP_HEAD, config));
    hash = hash64(hash, slice_make(part->bytes + SNAP_HEAD + config, 4));
    for (size_t at = (size_t)SNAP_HEAD + config + 4, end = part->len - SNAP_TRAILER;
         at + SNAP_FRAME <= end;) {
        uint32_t len = wire_load_u32(part->bytes + at);

        if (len > end - at - SNAP_FRAME) {
            break;
        }
        hash = hash64(hash, slice_make(part->bytes + at, SNAP_FRAME));
        hash = hash64(hash, slice_make(part->bytes + at + SNAP_FRAME, len));
        at += SNAP_FRAME + len;
    }
    wire_store_u64(trailer + 56, hash);
    wire_store_u32(trailer + 64, crc_at(part->len - SNAP_TRAILER, trailer, 64));
}

/* ---- The records. ---- */

struct chain {
    zxid_t at;
    uint64_t value;
    zxid_t snap_end; /* Where the snapshot ends, and the chain there. */
    uint64_t snap_chain;
    uint64_t records;
};

static void repair_record(struct chain *chain, uint8_t *bytes, size_t len)
{
    enum logrec_type type = (enum logrec_type)bytes[0];
    zxid_t zxid = wire_load_u64(bytes + 1);

    chain->value = logrec_chain(chain->value, type, zxid, chain->at, slice_make(bytes + 21, len));
    chain->at = zxid;
    chain->records++;
    if (zxid == chain->snap_end) {
        chain->snap_chain = chain->value;
    }
    wire_store_u64(bytes + 9, chain->value);
}

/* A record: type u8, zxid u64, chain u64, length u32, payload. */
static void repair_records(struct chain *chain, const struct part *part)
{
    size_t at = 0;

    while (part->len - at >= 21) {
        size_t len = wire_load_u32(part->bytes + at + 17);

        if (len > part->len - at - 21) {
            return;
        }
        repair_record(chain, part->bytes + at, len);
        at += 21 + len;
    }
}

static void repair_chain(struct parts *parts, struct chain *chain)
{
    const struct part *snapshot = find(parts, BACKUP_SNAPSHOT);

    if (is_snapshot(snapshot)) {
        chain->at = wire_load_u64(snapshot->bytes + SNAP_START);
        chain->value = wire_load_u64(snapshot->bytes + SNAP_CHAIN);
        chain->snap_end = wire_load_u64(snapshot->bytes + snapshot->len - SNAP_TRAILER + 8);
        chain->snap_chain = chain->value;
    }
    for (size_t i = 0; i < parts->count; i++) {
        if (parts->items[i].type == BACKUP_RECORDS) {
            repair_records(chain, &parts->items[i]);
        }
    }
    repair_snapshot(snapshot, chain->snap_chain);
}

/* ---- The whole. ---- */

static void repair_sums(struct buf *file, struct parts *parts)
{
    struct crypto_hash *hash = crypto_hash_begin();
    uint8_t sum[CRYPTO_SHA256_LEN];
    struct part *end = find(parts, BACKUP_END);

    for (size_t i = 0; i < parts->count; i++) {
        const struct part *part = &parts->items[i];
        uint8_t *frame = part->bytes - BACKUP_FRAME_LEN;

        if (part != end) {
            wire_store_u32(part->bytes + part->len, crc32c(0, frame, BACKUP_FRAME_LEN + part->len));
        }
    }
    crypto_hash_add(hash, slice_make(file->data, end ? end->at : 0));
    crypto_hash_end(hash, sum);
    if (end && end->len >= END_SUM + sizeof sum) {
        memcpy(end->bytes + END_SUM, sum, sizeof sum);
        wire_store_u32(end->bytes + end->len,
                       crc32c(0, end->bytes - BACKUP_FRAME_LEN, BACKUP_FRAME_LEN + end->len));
    }
}

void backup_script_repair(struct buf *file, zxid_t at, uint64_t chain_value)
{
    struct chain chain = {.at = at, .value = chain_value};
    struct parts parts;

    find_parts(file, &parts);
    repair_chain(&parts, &chain);
    struct part *end = find(&parts, BACKUP_END);

    if (end && end->len >= END_SUM) {
        wire_store_u64(end->bytes + END_CHAIN, chain.value);
        wire_store_u64(end->bytes + END_RECORDS, chain.records);
    }
    repair_sums(file, &parts);
}

/* Sets a number. False: it was so already. */
static bool set_number(uint8_t *to, uint64_t number)
{
    bool is_new = wire_load_u64(to) != number;

    wire_store_u64(to, number);
    return is_new;
}

bool backup_script_set_digest(struct buf *file, uint64_t digest)
{
    struct parts parts;
    bool is_new = false;

    find_parts(file, &parts);
    struct part *head = find(&parts, BACKUP_HEAD);
    struct part *end = find(&parts, BACKUP_END);

    if (head && head->len >= HEAD_DIGEST + 8) {
        is_new = set_number(head->bytes + HEAD_DIGEST, digest);
    }
    if (end && end->len >= END_DIGEST + 8) {
        is_new = set_number(end->bytes + END_DIGEST, digest) || is_new;
    }
    return is_new;
}

bool backup_script_set_snapshot_digest(struct buf *file, uint64_t digest)
{
    struct parts parts;

    find_parts(file, &parts);
    const struct part *part = find(&parts, BACKUP_SNAPSHOT);

    return is_snapshot(part) && set_number(part->bytes + part->len - SNAP_TRAILER + 24, digest);
}
