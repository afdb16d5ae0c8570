/*
 * A subtree that is read in slices, with random transactions in between: the reader must get the
 * state at the beginning, znode by znode, whatever has happened since.
 */
#include "base/check.h"
#include "base/mem.h"
#include "base/rng.h"
#include "server/state/cut.h"
#include "server/state/path.h"
#include "tests/lib/state_kit.h"
#include "tests/lib/unit.h"

#include <stdio.h>

enum {
    SEEDS = 1500,
    PATHS = 60,
    CUTS = 3, /* At a time. */
    NODES_MAX = 256,
    TXNS = 120,
    BYTES_MAX = 1 << 20,
    PATH_MAX_LEN = 64
};

/* Each znode at the beginning of the cut. */
struct expected {
    size_t count;
    struct state_cut_znode znodes[NODES_MAX];
    char paths[NODES_MAX][PATH_MAX_LEN];
};

struct reader {
    bool open;
    struct state_cut cut;
    struct expected expected;
    size_t seen;
    char pruned[PATH_MAX_LEN]; /* The reader does not want what is below it any more. */
};

struct run {
    struct rng rng;
    struct state *state;
    zxid_t zxid;
    char paths[PATHS][PATH_MAX_LEN];
    struct reader readers[CUTS];
    uint32_t finished;
    uint32_t saved; /* How often something was set aside. */
};

/* Some names are a prefix of another, with bytes around that of the slash. */
static void draw_path(struct run *run, char out[PATH_MAX_LEN])
{
    static const char *const names[] = {"a", "a-", "a.", "a0", "b", "b b", "c"};
    uint32_t depth = 1 + (uint32_t)rng_below(&run->rng, 4);
    int len = 0;

    for (uint32_t i = 0; i < depth; i++) {
        len += snprintf(out + len, (size_t)(PATH_MAX_LEN - len), "/%s",
                        names[rng_below(&run->rng, sizeof(names) / sizeof(names[0]))]);
    }
}

static const char *any_path(struct run *run)
{
    return run->paths[rng_below(&run->rng, PATHS)];
}

/* ---- Transactions. ---- */

static void put_create(struct run *run, struct buf *txn, const char *path)
{
    char data[32];
    const struct znode *parent = state_find(run->state, path_parent(slice_str(path)));
    bool null = rng_below(&run->rng, 5) == 0;

    (void)snprintf(data, sizeof(data), "made %llu", (unsigned long long)run->zxid);
    txn_put(txn, &(struct txn_effect){
                     .type = TXN_CREATE,
                     .path = slice_str(path),
                     .data = null ? slice_make(NULL, 0) : slice_str(data),
                     .flags = null ? TXN_NULL_DATA : 0,
                     .acl = slice_str(rng_below(&run->rng, 3) == 0 ? "acl" : ""),
                     .creates = znode_creates(parent) + 1,
                 });
}

static void put_set(struct run *run, struct buf *txn, const struct znode *node, const char *path)
{
    struct stat_view stat;
    char data[32];

    (void)snprintf(data, sizeof(data), "set %llu", (unsigned long long)run->zxid);
    znode_stat(node, &stat);
    if (rng_below(&run->rng, 3) == 0) {
        kit_set_acl(txn, path, rng_below(&run->rng, 2) == 0 ? "other" : "", stat.aversion + 1);
    } else {
        kit_set(txn, path, data, stat.version + 1);
    }
}

/* One valid effect, or none. */
static void change(struct run *run)
{
    const char *path = any_path(run);
    struct slice parent = path_parent(slice_str(path));
    const struct znode *node = kit_find(run->state, path);
    struct buf txn;

    buf_init(&txn, 1 << 16);
    run->zxid++;
    kit_begin(&txn, KIT_TIME_MS + (int64_t)run->zxid);
    if (node == NULL && state_find(run->state, parent) != NULL) {
        put_create(run, &txn, path);
    } else if (node != NULL && rng_below(&run->rng, 2) == 0) {
        put_set(run, &txn, node, path);
    } else if (node != NULL && znode_first_child(node, slice_make(NULL, 0)) == NULL) {
        kit_delete(&txn, path);
    }
    assert_int_equal(kit_apply(run->state, run->zxid, &txn), ERR_OK);
    buf_release(&txn);
}

/* ---- What is expected. ---- */

static void expect(struct run *run, struct reader *reader, const char *top)
{
    struct expected *expected = &reader->expected;
    const struct znode *node = kit_find(run->state, top);
    struct walk walk;

    expected->count = 0;
    walk_init(&walk, node, strcmp(top, "/") == 0 ? slice_make(NULL, 0) : slice_str(top));
    while (node != NULL) {
        struct state_cut_znode *to = &expected->znodes[expected->count];
        char *path = expected->paths[expected->count++];
        struct slice text = walk.path.len > 0 ? buf_slice(&walk.path) : slice_str("/");

        assert_true(expected->count < NODES_MAX && text.len < PATH_MAX_LEN);
        (void)snprintf(path, PATH_MAX_LEN, "%.*s", (int)text.len, (const char *)text.data);
        *to = (struct state_cut_znode){.path = slice_str(path), .owner = znode_owner(node)};
        znode_stat(node, &to->stat);
        to->data = blob_ref(znode_data(node));
        to->acl = blob_ref(state_acl_blob(run->state, znode_acl(node)));
        node = walk_next(&walk, true);
    }
    walk_release(&walk);
}

static void open_reader(struct run *run, struct reader *reader)
{
    const char *top = rng_below(&run->rng, 3) == 0 ? "/" : any_path(run);

    if (kit_find(run->state, top) == NULL) {
        return;
    }
    expect(run, reader, top);
    state_cut_begin(&reader->cut, run->state, slice_str(top), BYTES_MAX);
    reader->open = true;
    reader->seen = 0;
    reader->pruned[0] = '\0';
}

static void close_reader(struct reader *reader)
{
    if (!reader->open) {
        return;
    }
    state_cut_end(&reader->cut);
    state_cut_release(&reader->cut);
    for (size_t i = 0; i < reader->expected.count; i++) {
        blob_unref(reader->expected.znodes[i].data);
        blob_unref(reader->expected.znodes[i].acl);
    }
    reader->open = false;
}

/* ---- Reading. ---- */

static void skip_pruned(struct reader *reader)
{
    const struct expected *expected = &reader->expected;

    while (reader->pruned[0] != '\0' && reader->seen < expected->count &&
           path_is_within(expected->znodes[reader->seen].path, slice_str(reader->pruned))) {
        reader->seen++;
    }
}

static void check(struct reader *reader, const struct state_cut_znode *znode)
{
    skip_pruned(reader);
    assert_true(reader->seen < reader->expected.count);
    const struct state_cut_znode *expected = &reader->expected.znodes[reader->seen++];

    assert_true(slice_eq(znode->path, expected->path));
    assert_memory_equal(&znode->stat, &expected->stat, sizeof(znode->stat));
    assert_int_equal(znode->owner, expected->owner);
    assert_ptr_equal(znode->data, expected->data);
    assert_true(slice_eq(blob_slice(znode->acl), blob_slice(expected->acl)));
}

/* Now and then the reader skips what is below. */
static void maybe_prune(struct run *run, struct reader *reader, const struct state_cut_znode *znode)
{
    if (rng_below(&run->rng, 12) == 0) {
        (void)snprintf(reader->pruned, sizeof(reader->pruned), "%.*s", (int)znode->path.len,
                       (const char *)znode->path.data);
        state_cut_prune(&reader->cut);
    }
}

static void read_some(struct run *run, struct reader *reader)
{
    uint32_t left = 1 + (uint32_t)rng_below(&run->rng, 4);
    enum state_cut_step step = STATE_CUT_PASSED;
    struct state_cut_znode znode;

    run->saved += reader->cut.saved.root != NULL;
    state_cut_enter(&reader->cut, run->state);
    while (left-- > 0 && step != STATE_CUT_END) {
        step = state_cut_next(&reader->cut, &znode);
        if (step == STATE_CUT_ZNODE) {
            check(reader, &znode);
            maybe_prune(run, reader, &znode);
        }
    }
    state_cut_leave(&reader->cut);
    if (step == STATE_CUT_END) {
        skip_pruned(reader);
        assert_int_equal(reader->seen, reader->expected.count);
        assert_null(reader->cut.saved.root);
        assert_int_equal(reader->cut.saved_bytes, 0);
        close_reader(reader);
        run->finished++;
    }
}

static void play(struct run *run)
{
    for (uint32_t i = 0; i < TXNS / 2; i++) {
        change(run);
    }
    for (uint32_t i = 0; i < TXNS; i++) {
        struct reader *reader = &run->readers[rng_below(&run->rng, CUTS)];

        if (!reader->open) {
            open_reader(run, reader);
        } else if (rng_below(&run->rng, 4) == 0) {
            read_some(run, reader);
        }
        change(run);
    }
    for (uint32_t i = 0; i < CUTS; i++) {
        for (uint32_t j = 0; run->readers[i].open && j < NODES_MAX; j++) {
            read_some(run, &run->readers[i]);
        }
        assert_false(run->readers[i].open);
    }
}

TEST(a_cut_shows_the_state_at_its_beginning)
{
    static struct run run;
    uint32_t finished = 0;
    uint32_t saved = 0;

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        run = (struct run){.state = state_new(1)};
        rng_init(&run.rng, seed);
        for (uint32_t i = 0; i < PATHS; i++) {
            draw_path(&run, run.paths[i]);
        }
        play(&run);
        finished += run.finished;
        saved += run.saved;
        state_free(run.state);
    }
    assert_true(finished > SEEDS * CUTS);
    assert_true(saved > finished);
}
