/*
 * Backups over random histories: what is restored from a full backup and increments, up to any
 * zxid, is the state at that zxid. Transactions run between the pieces of snapshots and backups. A
 * backup that is cut at any byte, or has any byte flipped, is refused.
 */
#include "base/mem.h"
#include "base/os_clock.h"
#include "base/rng.h"
#include "server/backup/backup_source.h"
#include "server/config/config.h"
#include "server/op/ops.h"
#include "server/prepare/prep.h"
#include "server/process/recover.h"
#include "server/process/restore.h"
#include "server/read/view.h"
#include "tests/lib/limits_kit.h"
#include "tests/lib/unit.h"
#include "tests/lib/vfs_mem.h"
#include "zab/level.h"
#include "zab/msg.h"

#include <stdio.h>

enum {
    SEEDS = 200,
    STEPS = 160,
    ZXIDS_MAX = 2000,
    BACKUPS_MAX = 12,
    SESSIONS = 5,
    NAMES = 12,
    SEGMENT = 64 << 10,
    HISTORY = 77,
    AGE_S = 5000 /* Of the backups when they are restored. */
};

struct saved {
    struct buf bytes;
    struct backup_head head;
    char name[16];
};

struct world {
    struct rng rng;
    struct vfs_mem *disk;
    struct store *store;
    struct store_identity identity;
    struct view *view;
    struct prep *prep;
    zxid_t last;
    uint64_t chain;
    uint64_t digests[ZXIDS_MAX]; /* By counter of the zxid. */
    int64_t stamps[ZXIDS_MAX];
    uint64_t sessions[SESSIONS];
    int64_t now_ms;
    struct saved saved[BACKUPS_MAX];
    size_t saved_count;
};

static struct store_options options_of(struct vfs_mem *disk)
{
    return (struct store_options){.vfs = vfs_mem_vfs(disk),
                                  .segment_bytes = SEGMENT,
                                  .keep_bytes_max = 1 << 20,
                                  .snapshots_keep = 1,
                                  .salt_seed = 5,
                                  .record_bytes_max = ZAB_RECORD_BYTES_MAX,
                                  .member_id = 1};
}

static struct zab_config first_config(void)
{
    struct zab_config config = {.history = HISTORY, .count = 2, .level = ZAB_LEVEL_KNOWN};

    memset(config.cluster, 9, sizeof config.cluster);
    config.members[0] = (struct zab_member){.id = 1, .voter = true, .incarnation = 11};
    config.members[1] = (struct zab_member){.id = 2, .voter = true, .incarnation = 12};
    return config;
}

static void open_world(struct world *world, uint64_t seed)
{
    struct store_options options;
    struct store_report report;
    struct zab_config config = first_config();
    struct store_op op = {.type = STORE_IDENTITY, .identity = &world->identity};
    struct buf bytes;

    *world = (struct world){.now_ms = 1000};
    rng_init(&world->rng, seed);
    world->disk = vfs_mem_new(0);
    options = options_of(world->disk);
    assert_int_equal(store_open(&options, false, &world->store, &report), ERR_OK);
    world->identity = (struct store_identity){.member_id = 1, .incarnation = 11};
    memcpy(world->identity.cluster, config.cluster, sizeof config.cluster);
    buf_init(&bytes, STORE_GENESIS_MAX);
    zab_config_encode(&config, &bytes);
    memcpy(world->identity.genesis, bytes.data, bytes.len);
    world->identity.genesis_len = (uint32_t)bytes.len;
    buf_release(&bytes);
    assert_int_equal(store_run_one(world->store, &op), ERR_OK);
    world->view = view_new();
    view_replace(world->view, state_new(HISTORY));
    view_set_whole(world->view, true);
    world->prep = prep_new(&kit_limits);
}

static void close_world(struct world *world)
{
    for (size_t i = 0; i < world->saved_count; i++) {
        buf_release(&world->saved[i].bytes);
    }
    prep_free(world->prep);
    view_free(world->view);
    store_close(world->store, true);
    vfs_mem_free(world->disk);
}

/* ---- The history. ---- */

static void append(struct world *world, enum logrec_type type, struct slice payload)
{
    zxid_t zxid = world->last == 0 ? zxid_make(1, 0) : world->last + 1;
    struct logrec *rec = logrec_new(type, zxid, world->last, world->chain, payload);
    struct store_op op = {
        .type = STORE_APPEND, .recs = &rec, .rec_count = 1, .committed = world->last};
    struct state *state;

    assert_int_equal(store_run_one(world->store, &op), ERR_OK);
    state = view_write(world->view);
    if (type == LOGREC_TXN) {
        assert_int_equal(state_apply(state, zxid, payload, false, NULL), ERR_OK);
    } else {
        state_skip(state, zxid);
    }
    assert_true(zxid_counter(zxid) < ZXIDS_MAX);
    world->digests[zxid_counter(zxid)] = state_digest(state);
    world->stamps[zxid_counter(zxid)] = state_stamp_ms(state);
    view_write_done(world->view);
    prep_applied(world->prep, zxid);
    world->last = zxid;
    world->chain = rec->chain;
    logrec_unref(rec);
}

static void draw_args(struct world *world, struct op_args *args, struct op_session *session,
                      char path[32], uint8_t hash[TXN_SECRET_HASH_LEN])
{
    size_t who = rng_below(&world->rng, SESSIONS);

    (void)snprintf(path, 32, "/n%d", (int)rng_below(&world->rng, NAMES));
    *session = (struct op_session){.shown = false};
    memset(hash, (int)(1 + rng_below(&world->rng, 200)), TXN_SECRET_HASH_LEN);
    switch (rng_below(&world->rng, 6)) {
    case 0:
        op_args_init(args, OP_SESSION);
        args->secret_hash = slice_make(hash, TXN_SECRET_HASH_LEN);
        break;
    case 1:
        op_args_init(args, OP_EXPIRE);
        args->session = world->sessions[who];
        break;
    case 2:
        op_args_init(args, OP_DELETE);
        args->path = slice_str(path);
        break;
    case 3:
        op_args_init(args, OP_SET);
        args->path = slice_str(path);
        args->data = slice_str("new data");
        break;
    case 4:
        op_args_init(args, OP_CREATE);
        args->path = slice_str(path);
        args->ephemeral = true;
        *session = (struct op_session){.shown = true, .id = world->sessions[who]};
        break;
    default:
        op_args_init(args, OP_CREATE);
        args->path = slice_str(path);
        args->data = slice_str(path);
    }
}

/* One transaction, or a record that is none. */
static void step(struct world *world)
{
    zxid_t zxid = world->last == 0 ? zxid_make(1, 0) : world->last + 1;
    struct txn_header header = {.age_ms = world->now_ms, .stamp_ms = world->now_ms};
    struct op_args args;
    struct op_session session;
    struct prep_job job = {.args = &args, .header = &header, .session = &session};
    struct op_result result;
    struct buf txn;
    char path[32];
    uint8_t hash[TXN_SECRET_HASH_LEN];

    world->now_ms += (int64_t)rng_below(&world->rng, 2000);
    if (world->last == 0 || rng_below(&world->rng, 10) == 0) {
        append(world, world->last == 0 ? LOGREC_EPOCH : LOGREC_STAMP, slice_str("x"));
        return;
    }
    draw_args(world, &args, &session, path, hash);
    op_result_init(&result);
    buf_init(&txn, 1 << 20);
    const struct state *state = view_read(world->view);
    enum err err = prep_request(world->prep, state, &job, zxid, &txn, &result);

    view_read_done(world->view);
    if (err == ERR_OK && txn.len > 0) {
        if (args.op == OP_SESSION) {
            world->sessions[rng_below(&world->rng, SESSIONS)] = zxid;
        }
        append(world, LOGREC_TXN, buf_slice(&txn));
    }
    buf_release(&txn);
    op_result_release(&result);
}

/* A fuzzy snapshot: transactions run between its slices. */
static void snapshot(struct world *world)
{
    struct store_snap_writer *writer;
    struct state_cursor cursor;
    struct zab_config config = first_config();
    struct buf block;
    uint64_t digest = 0;
    uint64_t nodes = 0;
    zxid_t end = 0;

    buf_init(&block, 1 << 20);
    zab_config_encode(&config, &block);
    assert_int_equal(
        store_snap_begin(world->store, world->last, world->chain, buf_slice(&block), &writer),
        ERR_OK);
    state_scan_init(&cursor);
    while (!cursor.done) {
        const struct state *state = view_read(world->view);

        buf_clear(&block);
        state_scan(state, &cursor, 100, &block);
        end = state_applied(state);
        digest = state_digest(state);
        nodes = state_node_count(state);
        view_read_done(world->view);
        if (block.len > 0) {
            assert_int_equal(store_snap_block(writer, buf_slice(&block)), ERR_OK);
        }
        if (!cursor.done && rng_below(&world->rng, 2) == 0) {
            step(world);
        }
    }
    assert_int_equal(store_snap_finish(writer, end, digest, nodes), ERR_OK);
    state_scan_release(&cursor);
    buf_release(&block);
}

/* ---- Backups. ---- */

static int64_t wall_ms(void *ctx UNUSED)
{
    return os_wall_ms();
}

/* Takes a backup while transactions run; true if there is one. */
static bool backup(struct world *world, bool increment, struct saved *ret_saved)
{
    const struct backup_host host = {.store = world->store,
                                     .view = world->view,
                                     .identity = &world->identity,
                                     .release = "1.2.3",
                                     .wall_ms = wall_ms};
    const struct saved *last = &world->saved[world->saved_count - (increment ? 1 : 0)];
    const struct backup_ask ask = {.increment = increment,
                                   .since = increment ? last->head.end : 0,
                                   .history = increment ? last->head.history : 0};
    struct backup_source *source = backup_source_new(&host, &ask);
    const char *why = NULL;
    enum err err = ERR_OK;
    struct buf piece;

    buf_init(&piece, 1 << 24);
    buf_init(&ret_saved->bytes, 1 << 24);
    while (err == ERR_OK && !backup_source_is_done(source)) {
        size_t read = 0;

        err = backup_source_next(source, &piece, &read, &why);
        (void)buf_append_slice(&ret_saved->bytes, buf_slice(&piece));
        if (rng_below(&world->rng, 2) == 0) {
            step(world);
        }
    }
    ret_saved->head = *backup_source_head(source);
    backup_source_free(source);
    buf_release(&piece);
    if (err != ERR_OK) {
        assert_true(increment && err == ERR_GAP);
        assert_non_null(why);
        buf_release(&ret_saved->bytes);
        return false;
    }
    (void)snprintf(ret_saved->name, sizeof ret_saved->name, "backup %zu", world->saved_count);
    return true;
}

static void run_history(struct world *world)
{
    for (int i = 0; i < STEPS; i++) {
        step(world);
        if (world->last != 0 && rng_below(&world->rng, 40) == 0) {
            snapshot(world);
        }
        if (world->last != 0 && rng_below(&world->rng, 16) == 0 &&
            world->saved_count < BACKUPS_MAX) {
            bool more = world->saved_count > 0 && rng_below(&world->rng, 3) > 0;

            world->saved_count += backup(world, more, &world->saved[world->saved_count]) ? 1 : 0;
        }
    }
}

static enum err read_memory(void *ctx, uint64_t offset, void *to, size_t len)
{
    const struct buf *bytes = ctx;

    assert_true(offset + len <= bytes->len);
    memcpy(to, bytes->data + offset, len);
    return ERR_OK;
}

static struct backup_input input_of(const char *name, struct buf *bytes)
{
    return (struct backup_input){
        .name = name, .size = bytes->len, .read = read_memory, .ctx = bytes};
}

/* The backups of the chain that begins at `first`; returns their number. */
static size_t chain_of(struct world *world, size_t first, struct backup_input *inputs)
{
    size_t count = 0;

    do {
        struct saved *saved = &world->saved[first + count];

        inputs[count++] = input_of(saved->name, &saved->bytes);
    } while (first + count < world->saved_count && !world->saved[first + count].head.full);
    return count;
}

/* Writes what was checked, and recovers a replica from it. */
static void restore_and_start(struct world *world, struct backup_check *check,
                              const struct backup_input *inputs, size_t count)
{
    struct vfs_mem *disk = vfs_mem_new(0);
    struct store_options options = options_of(disk);
    struct store_report report;
    struct restore_target target = {.id = 1,
                                    .incarnation = 99,
                                    .history = 4711,
                                    .now_ms = check->made_ms + AGE_S * 1000,
                                    .keep_sessions = rng_below(&world->rng, 2)};
    uint64_t sessions = state_session_count(check->replay.state);
    struct restore_result result;
    char why[BACKUP_WHY_MAX];
    struct replica_options replica = {
        .zab = {.id = 1, .incarnation = 1, .level_max = ZAB_LEVEL_KNOWN}};
    struct view *view = view_new();
    struct store_identity identity;

    assert_int_equal(store_open(&options, false, &target.store, &report), ERR_OK);
    assert_int_equal(restore_write(&target, check, inputs, count, &result, why), ERR_OK);
    assert_int_equal(result.sessions, target.keep_sessions ? 0 : sessions);
    store_close(target.store, true);

    assert_int_equal(store_open(&options, false, &target.store, &report), ERR_OK);
    assert_int_equal(report.verdict, STORE_CLEAN);
    assert_int_equal(recover(target.store, &report, view, &replica, &identity), ERR_OK);
    assert_false(replica.zab.quarantined);
    const struct state *state = view_read(view);

    assert_non_null(state);
    assert_int_equal(state_applied(state), result.last);
    assert_int_equal(state_digest(state), result.digest);
    assert_int_equal(state_history(state), 4711);
    assert_int_equal(state_session_count(state), target.keep_sessions ? sessions : 0);
    if (!target.keep_sessions) {
        assert_int_equal(state_ephemeral_count(state), 0);
    }
    view_read_done(view);
    assert_int_equal(zab_config_voters(&replica.zab.config), 1);
    /* Another ensemble from the same backup may have had an epoch in each second since then. */
    assert_true(replica.zab.promised_epoch > 1000 + AGE_S);
    recover_release(&replica);
    view_free(view);
    store_close(target.store, true);
    vfs_mem_free(disk);
}

static void check_chain(struct world *world, size_t first)
{
    struct backup_input inputs[BACKUPS_MAX];
    size_t count = chain_of(world, first, inputs);
    zxid_t least = max_u64(world->saved[first].head.least, zxid_make(1, 0));
    zxid_t end = world->saved[first + count - 1].head.end;
    bool by_time = rng_below(&world->rng, 2) == 0;
    zxid_t until = least + rng_below(&world->rng, end - least + 1);
    struct backup_check *check = mem_zalloc(1, sizeof *check);
    char why[BACKUP_WHY_MAX];

    if (by_time) { /* The last record that is not later than the drawn one. */
        check->until =
            (struct backup_until){.has_time = true, .time_ms = world->stamps[zxid_counter(until)]};
        while (until < end && world->stamps[zxid_counter(until) + 1] <= check->until.time_ms) {
            until++;
        }
    } else {
        check->until = (struct backup_until){.has_zxid = true, .zxid = until};
    }
    enum err err = backup_check(check, inputs, count, why);

    /* Before the first transaction there is nothing to restore. */
    if (by_time && world->stamps[zxid_counter(until)] == 0) {
        assert_int_equal(err, ERR_BAD_ARGUMENTS);
        backup_check_release(check);
        mem_free(check);
        return;
    }
    if (err != ERR_OK) {
        print_error("%s\n", why);
    }
    assert_int_equal(err, ERR_OK);
    assert_int_equal(check->at.zxid, until);
    assert_int_equal(state_digest(check->replay.state), world->digests[zxid_counter(until)]);
    restore_and_start(world, check, inputs, count);
    backup_check_release(check);
    mem_free(check);
}

TEST(a_restored_state_is_that_of_the_zxid)
{
    size_t chains = 0;

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct world *world = mem_zalloc(1, sizeof *world);

        open_world(world, seed);
        run_history(world);
        for (size_t i = 0; i < world->saved_count; i++) {
            if (world->saved[i].head.full) {
                check_chain(world, i);
                chains++;
            }
        }
        close_world(world);
        mem_free(world);
    }
    assert_true(chains > SEEDS);
}

/* Whether the backup is refused, by a sentence that names it. */
static bool is_refused(struct buf *bytes)
{
    const struct backup_input input = input_of("the file", bytes);
    struct backup_check *check = mem_zalloc(1, sizeof *check);
    char why[BACKUP_WHY_MAX] = "";

    enum err err = backup_check(check, &input, 1, why);

    backup_check_release(check);
    mem_free(check);
    return err != ERR_OK && why[0] != '\0';
}

TEST(a_backup_that_is_cut_or_flipped_anywhere_is_refused)
{
    struct world *world = mem_zalloc(1, sizeof *world);
    struct saved saved = {.name = ""};

    open_world(world, 3);
    for (int i = 0; i < 6; i++) {
        step(world);
    }
    snapshot(world);
    step(world);
    assert_true(backup(world, false, &saved));
    assert_true(saved.head.snapshot_bytes > 0);
    assert_false(is_refused(&saved.bytes));
    for (size_t len = saved.bytes.len; len-- > 0;) {
        uint8_t kept = saved.bytes.data[len];
        size_t whole = saved.bytes.len;

        saved.bytes.data[len] ^= (uint8_t)(1U << (len % 8));
        assert_true(is_refused(&saved.bytes));
        saved.bytes.data[len] = kept;
        saved.bytes.len = len;
        assert_true(is_refused(&saved.bytes));
        saved.bytes.len = whole;
    }
    assert_true(buf_append_byte(&saved.bytes, 0));
    assert_true(is_refused(&saved.bytes));
    buf_release(&saved.bytes);
    close_world(world);
    mem_free(world);
}
