/* The store on the kernel's files, and its two threads at the same time. */
#include "base/mem.h"
#include "base/thread.h"
#include "storage/store.h"
#include "tests/lib/unit.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    SEGMENT = 64 * 1024,
    ROUNDS = 120,
    ROUNDS_MAX = 20000, /* Until the other thread has had its turns. */
    PER_ROUND = 4
};

struct place {
    char path[32];
    struct vfs vfs;
    struct store_options options;
};

static void place_init(struct place *place)
{
    (void)snprintf(place->path, sizeof(place->path), "store-XXXXXX");
    assert_non_null(mkdtemp(place->path));
    assert_int_equal(vfs_posix_open(place->path, &place->vfs), ERR_OK);
    place->options = (struct store_options){.vfs = place->vfs,
                                            .segment_bytes = SEGMENT,
                                            .snapshots_keep = 2,
                                            .salt_seed = 5,
                                            .record_bytes_max = 8192};
}

static void remove_name(void *arg, const char *name)
{
    const struct place *place = arg;

    assert_int_equal(place->vfs.ops->unlink(place->vfs.ctx, name), ERR_OK);
}

static void place_release(struct place *place)
{
    assert_int_equal(place->vfs.ops->list(place->vfs.ctx, remove_name, place), ERR_OK);
    vfs_posix_close(&place->vfs);
    assert_int_equal(rmdir(place->path), 0);
}

static struct store *open_store(struct place *place, struct store_report *report)
{
    struct store *store = NULL;

    assert_int_equal(store_open(&place->options, false, &store, report), ERR_OK);
    return store;
}

static void run(struct store *store, struct store_op *op)
{
    struct store_op *ops[1] = {op};
    size_t done = 0;

    assert_int_equal(store_run(store, ops, 1, &done), ERR_OK);
    assert_int_equal(done, 1);
}

static void format(struct store *store)
{
    struct store_identity *identity = mem_zalloc(1, sizeof(*identity));
    struct store_op op = {.type = STORE_IDENTITY, .identity = identity};

    identity->incarnation = 11;
    run(store, &op);
    mem_free(identity);
}

/* Appends `count` records after `*tail`, which is replaced by the last one. */
static void append(struct store *store, struct logrec **tail, size_t count)
{
    struct logrec *recs[PER_ROUND];
    uint8_t payload[1000];
    struct logrec *last = *tail;

    memset(payload, 'x', sizeof(payload));
    for (size_t i = 0; i < count; i++) {
        zxid_t prev = last ? last->zxid : 0;

        recs[i] = logrec_new(LOGREC_TXN, prev ? prev + 1 : zxid_make(1, 0), prev,
                             last ? last->chain : 0, slice_make(payload, sizeof(payload)));
        last = recs[i];
    }

    struct store_op op = {.type = STORE_APPEND, .recs = recs, .rec_count = count};

    run(store, &op);
    logrec_unref(*tail);
    for (size_t i = 0; i + 1 < count; i++) {
        logrec_unref(recs[i]);
    }
    *tail = last;
}

TEST(the_scripted_life_on_real_files)
{
    struct place place;
    struct store_report report;
    struct logrec *tail = NULL;

    place_init(&place);

    struct store *store = open_store(&place, &report);

    assert_int_equal(report.verdict, STORE_EMPTY);
    format(store);
    for (int i = 0; i < 60; i++) {
        append(store, &tail, PER_ROUND);
        assert_int_equal(store_preallocate(store), ERR_OK);
    }

    struct store_op cut = {.type = STORE_TRUNCATE, .zxid = zxid_make(1, 100)};

    run(store, &cut);
    assert_int_equal(cut.ret_last, zxid_make(1, 100));
    store_close(store, true);
    store = open_store(&place, &report);
    assert_int_equal(report.verdict, STORE_CLEAN);
    assert_int_equal(report.log_last, zxid_make(1, 100));
    assert_int_equal(report.log_chain, cut.ret_chain);
    store_close(store, false);
    logrec_unref(tail);
    place_release(&place);
}

TEST(directory_is_locked)
{
    struct place place;
    struct vfs other;
    struct store_report report;
    struct store *second = NULL;

    place_init(&place);

    struct store *store = open_store(&place, &report);
    struct store_options options = place.options;

    assert_int_equal(vfs_posix_open(place.path, &other), ERR_OK);
    options.vfs = other;
    assert_int_equal(store_open(&options, false, &second, &report), ERR_BUSY);
    /* A read-only opening is permitted. */
    assert_int_equal(store_open(&options, true, &second, &report), ERR_OK);
    store_close(second, false);
    vfs_posix_close(&other);
    store_close(store, false);
    place_release(&place);
}

TEST(posix_calls_name_their_errors)
{
    struct place place;
    struct vfs_file *file = NULL;
    struct vfs vfs;
    char back[8] = "";
    size_t len = 0;
    uint64_t size = 0;

    assert_int_equal(vfs_posix_open("no/such/directory", &vfs), ERR_MISSING);
    place_init(&place);
    vfs = place.vfs;
    assert_int_equal(vfs.ops->open(vfs.ctx, "a", false, &file), ERR_MISSING);
    assert_int_equal(vfs.ops->open(vfs.ctx, "a", true, &file), ERR_OK);
    assert_int_equal(vfs.ops->pwrite(file, 3, "hello", 5), ERR_OK);
    assert_int_equal(vfs.ops->sync(file), ERR_OK);
    assert_int_equal(vfs.ops->size(file, &size), ERR_OK);
    assert_int_equal(size, 8);
    assert_int_equal(vfs.ops->truncate(file, 6), ERR_OK);
    vfs.ops->drop_cache(file);
    assert_int_equal(vfs.ops->pread(file, 3, back, sizeof(back), &len), ERR_OK);
    assert_int_equal(len, 3);
    assert_memory_equal(back, "hel", 3);
    vfs.ops->close(file);
    assert_int_equal(vfs.ops->open(vfs.ctx, "a", true, &file), ERR_EXISTS);
    assert_int_equal(vfs.ops->rename(vfs.ctx, "a", "b"), ERR_OK);
    assert_int_equal(vfs.ops->unlink(vfs.ctx, "a"), ERR_MISSING);
    assert_int_equal(vfs.ops->sync_dir(vfs.ctx), ERR_OK);
    assert_int_equal(vfs.ops->free_bytes(vfs.ctx, &size), ERR_OK);
    assert_true(size > 0);
    place_release(&place);
}

/* One thread appends, cuts and rotates; the other reads, makes snapshots and preallocates. */
struct race {
    struct store *store;
    _Atomic bool is_over;
    _Atomic uint64_t reads;
    _Atomic uint64_t snapshots;
};

static void read_all(struct race *race, zxid_t from)
{
    struct logrec *recs[16];
    zxid_t at = from;
    size_t count = 1;

    while (count > 0 && store_read(race->store, at, 20000, 16, recs, &count) == ERR_OK) {
        for (size_t i = 0; i < count; i++) {
            at = recs[i]->zxid;
            logrec_unref(recs[i]);
            race->reads++;
        }
    }
}

static void make_snapshot(struct race *race)
{
    struct store_snap_writer *writer = NULL;
    struct logrec *recs[1];
    size_t count = 0;
    struct store_figures figures;

    store_figures(race->store, &figures);
    if (store_read(race->store, figures.snap_newest_end, 1, 1, recs, &count) != ERR_OK ||
        count == 0) {
        return;
    }
    if (store_snap_begin(race->store, recs[0]->zxid, recs[0]->chain, slice_str("c"), &writer) ==
        ERR_OK) {
        (void)store_snap_block(writer, slice_str("block"));
        race->snapshots += store_snap_finish(writer, recs[0]->zxid, 1, 1) == ERR_OK;
    }
    logrec_unref(recs[0]);
}

static void worker_body(void *arg)
{
    struct race *race = arg;
    size_t count = 0;

    while (!atomic_load(&race->is_over)) {
        struct store_figures figures;

        store_figures(race->store, &figures);
        read_all(race, figures.snap_newest_end);
        make_snapshot(race);
        (void)store_preallocate(race->store);
        mem_free(store_epochs(race->store, &count));
        (void)store_is_low(race->store);
    }
}

TEST(log_and_bulk_threads_do_not_affect_each_other)
{
    struct place place;
    struct store_report report;
    struct logrec *tail = NULL;
    struct thread worker;

    place_init(&place);

    struct race race = {.store = open_store(&place, &report)};

    format(race.store);
    append(race.store, &tail, 1);
    thread_start(&worker, "worker", worker_body, &race);
    for (int i = 0; i < ROUNDS || (race.snapshots == 0 && i < ROUNDS_MAX); i++) {
        append(race.store, &tail, PER_ROUND);
    }
    atomic_store(&race.is_over, true);
    thread_join(&worker);
    assert_true(race.reads > 0);
    assert_true(race.snapshots > 0);
    store_close(race.store, true);

    struct store *store = open_store(&place, &report);

    assert_int_equal(report.verdict, STORE_CLEAN);
    assert_int_equal(report.log_last, tail->zxid);
    assert_int_equal(report.log_chain, tail->chain);
    assert_true(report.has_snapshot);
    store_close(store, false);
    logrec_unref(tail);
    place_release(&place);
}
