#include "tests/fuzz/backup_script.h"

#include "base/check.h"
#include "storage/snapfile.h"
#include "tests/fuzz/fuzz.h"
#include "tests/lib/state_kit.h"
#include "tests/lib/vfs_mem.h"
#include "zab/config.h"
#include "zab/level.h"

enum {
    RECORDS_MAX = 64,
    BLOCKS_MAX = 64,
    BLOCK_MAX = 8000,
    RECORD_MAX = 32 << 10,
    SCAN_BYTES = 200, /* Several blocks for a few znodes. */
    CLUSTER = 9,      /* Each byte of its id. */
    HISTORY = 77
};

/* Bits of a script's flags. */
enum {
    IS_FULL = 1,
    HAS_SNAPSHOT = 2
};

static const uint64_t session_id = UINT64_C(0x100000002); /* The zxid that opens it. */
static const char snap_name[] = "s";

/* ---- Writing. ---- */

/* Appends the next snapshot as a file. */
static void write_snapshot(struct wire_reader *reader, struct buf *out)
{
    struct vfs_mem *disk = vfs_mem_new(0);
    struct vfs vfs = vfs_mem_vfs(disk);
    struct snapfile_info info = {.shown = {.start = 0}};
    struct snapfile_writer writer;
    uint64_t size = 0;

    memset(info.cluster, CLUSTER, sizeof info.cluster);
    info.shown.start = wire_get_u64(reader) >> 1;
    info.shown.end = info.shown.start + wire_get_u16(reader);
    info.shown.start_chain = wire_get_u64(reader);
    info.shown.node_count = wire_get_u64(reader);
    struct slice config = fuzz_take(reader, BACKUP_CONFIG_MAX);
    enum err err = snapfile_create(&writer, &vfs, snap_name, RECORD_MAX);

    THEN(err, snapfile_put_head(&writer, &info, config));
    struct slice block = fuzz_take(reader, BLOCK_MAX);

    for (int i = 0; err == ERR_OK && block.len > 0 && i < BLOCKS_MAX; i++) {
        err = snapfile_put_block(&writer, block);
        block = fuzz_take(reader, BLOCK_MAX);
    }
    THEN(err, snapfile_put_trailer(&writer, &info));
    ASSERT(err == ERR_OK);
    snapfile_writer_close(&writer);
    bool is_there = vfs_mem_size(disk, snap_name, &size);

    ASSERT(is_there);
    is_there = vfs_mem_read(disk, snap_name, 0, buf_reserve(out, (size_t)size), (size_t)size);
    ASSERT(is_there);
    out->len += (size_t)size;
    vfs_mem_free(disk);
}

static void read_head(struct wire_reader *reader, uint8_t flags, struct backup_head *head)
{
    struct slice release;

    *head = (struct backup_head){.full = (flags & IS_FULL) != 0};
    memset(head->cluster, CLUSTER, sizeof head->cluster);
    head->history = wire_get_u64(reader);
    head->member = wire_get_u32(reader);
    head->from = wire_get_u64(reader);
    head->least = wire_get_u64(reader);
    head->end = wire_get_u64(reader);
    head->made_ms = (int64_t)wire_get_u64(reader);
    head->log_bytes = wire_get_u64(reader);
    release = fuzz_take(reader, sizeof head->release - 1);
    for (size_t i = 0; i < release.len; i++) {
        head->release[i] = (char)release.data[i];
    }
    head->config = fuzz_take(reader, BACKUP_CONFIG_MAX);
}

void backup_script_write(struct wire_reader *reader, struct buf *file)
{
    uint8_t flags = wire_get_u8(reader);
    struct backup_head head;
    struct backup_end end = {.zxid = 0};
    struct buf part;
    uint8_t type;

    buf_init(&part, BACKUP_SCRIPT_MAX);
    read_head(reader, flags, &head);
    if ((flags & HAS_SNAPSHOT) != 0) {
        write_snapshot(reader, &part);
    }
    head.snapshot_bytes = part.len;
    backup_put_head(&head, file);
    if (part.len > 0) {
        backup_put_part(BACKUP_SNAPSHOT, buf_slice(&part), file);
    }
    buf_clear(&part);
    while ((type = wire_get_u8(reader)) != 0 && end.records < RECORDS_MAX) {
        wire_put_u8(&part, type); /* As backup_put_record does, but of any type and order. */
        wire_put_u64(&part, wire_get_u64(reader));
        wire_put_u64(&part, 0);
        wire_put_bytes(&part, fuzz_take(reader, BLOCK_MAX));
        end.records++;
    }
    if (part.len > 0) {
        backup_put_part(BACKUP_RECORDS, buf_slice(&part), file);
    }
    end.zxid = head.end;
    backup_put_end(&end, file);
    buf_release(&part);
}

/* ---- Seeds. ---- */

static void put_config(struct buf *out)
{
    struct zab_config config = {.history = HISTORY, .count = 2, .level = ZAB_LEVEL_KNOWN};
    struct buf bytes;

    memset(config.cluster, CLUSTER, sizeof config.cluster);
    config.members[0] = (struct zab_member){.id = 1, .voter = true, .incarnation = 11};
    config.members[1] = (struct zab_member){.id = 2, .voter = true, .incarnation = 12};
    buf_init(&bytes, ZAB_CONFIG_BYTES_MAX);
    zab_config_encode(&config, &bytes);
    fuzz_put(out, buf_slice(&bytes));
    buf_release(&bytes);
}

static void put_head(struct buf *out, uint8_t flags, zxid_t from, zxid_t least, zxid_t end)
{
    wire_put_u8(out, flags);
    wire_put_u64(out, HISTORY);
    wire_put_u32(out, 1);
    wire_put_u64(out, from);
    wire_put_u64(out, least);
    wire_put_u64(out, end);
    wire_put_u64(out, 3000);
    wire_put_u64(out, 0);
    fuzz_put(out, slice_str("1.2.3"));
    if ((flags & IS_FULL) != 0) {
        put_config(out);
    } else {
        fuzz_put(out, slice_make(NULL, 0));
    }
}

/* A transaction of the seeds, by its number. */
static void make_txn(uint32_t number, struct buf *txn)
{
    buf_clear(txn);
    kit_begin(txn, KIT_TIME_MS + number * 100);
    switch (number) {
    case 1:
        kit_create(txn, "/a", "1", 0, 1);
        kit_create_acl(txn, "/b", "an ACL", 2);
        break;
    case 2:
        kit_open(txn, session_id, 1);
        break;
    case 3:
        kit_create(txn, "/a/e", "x", session_id, 1);
        break;
    case 4:
        kit_delete(txn, "/b");
        kit_remember(txn, "scope", "key", "result");
        break;
    default:
        kit_create(txn, "/a/t", NULL, OWNER_TTL_MARK | 500, 2);
    }
}

static void put_txn(struct buf *out, uint32_t epoch, uint32_t counter, uint32_t number)
{
    struct buf txn;

    buf_init(&txn, BLOCK_MAX);
    make_txn(number, &txn);
    wire_put_u8(out, LOGREC_TXN);
    wire_put_u64(out, zxid_make(epoch, counter));
    fuzz_put(out, buf_slice(&txn));
    buf_release(&txn);
}

static void put_mark(struct buf *out, enum logrec_type type, zxid_t zxid)
{
    wire_put_u8(out, (uint8_t)type);
    wire_put_u64(out, zxid);
    if (type == LOGREC_CONFIG) {
        put_config(out);
    } else {
        fuzz_put(out, slice_str("x"));
    }
}

/* The snapshot of the state at (1, 3), with the end at (1, 3 + span). */
static void put_snapshot(struct buf *out, uint16_t span)
{
    struct state *state = state_new(HISTORY);
    struct state_cursor cursor;
    struct buf bytes;

    buf_init(&bytes, BLOCK_MAX);
    for (uint32_t i = 1; i <= 3; i++) {
        make_txn(i, &bytes);
        enum err err = kit_apply(state, zxid_make(1, i), &bytes);

        ASSERT(err == ERR_OK);
    }
    wire_put_u64(out, zxid_make(1, 3) << 1);
    wire_put_u16(out, span);
    wire_put_u64(out, 4711);
    wire_put_u64(out, state_node_count(state));
    put_config(out);
    state_scan_init(&cursor);
    while (!cursor.done) {
        buf_clear(&bytes);
        state_scan(state, &cursor, SCAN_BYTES, &bytes);
        fuzz_put(out, buf_slice(&bytes));
    }
    fuzz_put(out, slice_make(NULL, 0));
    state_scan_release(&cursor);
    buf_release(&bytes);
    state_free(state);
}

static void put_log(struct buf *out)
{
    put_head(out, IS_FULL, 0, 0, zxid_make(1, 6));
    put_mark(out, LOGREC_EPOCH, zxid_make(1, 0));
    for (uint32_t i = 1; i <= 4; i++) {
        put_txn(out, 1, i, i);
    }
    put_mark(out, LOGREC_CONFIG, zxid_make(1, 5));
    put_mark(out, LOGREC_STAMP, zxid_make(1, 6));
}

void backup_script_seed(struct buf *out, enum backup_seed seed)
{
    zxid_t start = zxid_make(1, 3);

    switch (seed) {
    case BACKUP_SEED_LOG:
        put_log(out);
        break;
    case BACKUP_SEED_SNAPSHOT:
        put_head(out, IS_FULL | HAS_SNAPSHOT, start, start, start);
        put_snapshot(out, 0);
        break;
    case BACKUP_SEED_FUZZY:
        put_head(out, IS_FULL | HAS_SNAPSHOT, start, start + 1, start + 2);
        put_snapshot(out, 1);
        put_txn(out, 1, 4, 4);
        put_txn(out, 1, 5, 5);
        break;
    case BACKUP_SEED_INCREMENT:
        put_head(out, 0, start + 2, start + 2, zxid_make(2, 1));
        put_mark(out, LOGREC_EPOCH, zxid_make(2, 0));
        put_mark(out, LOGREC_CONFIG, zxid_make(2, 1));
        break;
    }
    wire_put_u8(out, 0);
}
