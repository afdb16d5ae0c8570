/* Reads of the locked state: their answers and their bounds. */
#include "base/mem.h"
#include "base/thread.h"
#include "server/read/view.h"
#include "tests/lib/state_kit.h"
#include "tests/lib/unit.h"

#include <stdatomic.h>
#include <stdio.h>

enum {
    MANY = VIEW_NODES_MAX + 500, /* Children that take two holds of the lock. */
    ROUNDS = 60
};

struct fixture {
    struct view *view;
    struct state *state; /* The view's. */
    struct op_result result;
    zxid_t zxid;
};

static void setup(struct fixture *fixture)
{
    *fixture = (struct fixture){.view = view_new(), .state = state_new(1)};
    view_replace(fixture->view, fixture->state);
    view_set_whole(fixture->view, true);
    op_result_init(&fixture->result);
}

static void teardown(struct fixture *fixture)
{
    op_result_release(&fixture->result);
    view_free(fixture->view);
}

static void make(struct fixture *fixture, const char *path, const char *data)
{
    struct state *state = view_write(fixture->view);

    assert_ptr_equal(state, fixture->state);
    assert_int_equal(kit_make(state, ++fixture->zxid, path, data), ERR_OK);
    view_write_done(fixture->view);
}

static void make_many(struct fixture *fixture, const char *parent, int count, const char *data)
{
    char path[64];

    make(fixture, parent, NULL);
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof(path), "%s/%06d", parent, i);
        make(fixture, path, data);
    }
}

static const struct op_principal anonymous = {.address = "127.0.0.1"};

static struct op_result *read_op(struct fixture *fixture, struct op_args args)
{
    struct op_result *result = &fixture->result;

    op_result_release(result);
    op_result_init(result);
    view_run(fixture->view, &anonymous, &args, result);
    return result;
}

static struct op_args op(enum op_id id, const char *path)
{
    return (struct op_args){.op = id, .path = slice_str(path)};
}

static void assert_path(const struct op_result *result, uint32_t i, const char *path)
{
    assert_true(i < result->entry_count);
    assert_true(slice_eq(result->entries[i].path, slice_str(path)));
}

/* A newly installed state may be a fuzzy one: no read uses it before it is whole. */
TEST(a_state_is_readable_once_it_is_whole, fixture, setup, teardown)
{
    static const enum op_id reads[] = {OP_GET, OP_STAT, OP_CHILDREN, OP_TREE};

    make(fixture, "/a", "xyz");
    for (size_t i = 0; i < sizeof(reads) / sizeof(reads[0]); i++) {
        view_set_whole(fixture->view, false);
        assert_int_equal(read_op(fixture, op(reads[i], "/a"))->err, ERR_NOT_READY);
        assert_non_null(fixture->result.detail);
        view_set_whole(fixture->view, true);
        assert_int_equal(read_op(fixture, op(reads[i], "/a"))->err, ERR_OK);
    }
}

TEST(get_and_stat, fixture, setup, teardown)
{
    make(fixture, "/a", "xyz");
    make(fixture, "/n", NULL);
    struct op_result *result = read_op(fixture, op(OP_GET, "/a"));

    assert_int_equal(result->err, ERR_OK);
    assert_int_equal(result->zxid, 2);
    assert_true(result->has_stat);
    assert_int_equal(result->stat.czxid, 1);
    assert_true(slice_eq(blob_slice(result->data), slice_str("xyz")));
    assert_null(read_op(fixture, op(OP_GET, "/n"))->data);
    assert_null(read_op(fixture, op(OP_STAT, "/a"))->data);
    assert_int_equal(result->stat.data_length, 3);
    assert_int_equal(read_op(fixture, op(OP_EXISTS, "/no"))->err, ERR_NO_NODE);
    assert_int_equal(result->zxid, 2);
    assert_false(result->has_stat);
}

TEST(data_outlives_the_znode, fixture, setup, teardown)
{
    struct buf txn;

    make(fixture, "/a", "xyz");
    struct op_result *result = read_op(fixture, op(OP_GET, "/a"));

    buf_init(&txn, 4096);
    kit_delete(&txn, "/a");
    assert_int_equal(kit_apply(view_write(fixture->view), ++fixture->zxid, &txn), ERR_OK);
    view_write_done(fixture->view);
    assert_true(slice_eq(blob_slice(result->data), slice_str("xyz")));
    buf_release(&txn);
}

TEST(without_a_state_no_read_is_answered, fixture, setup, teardown)
{
    struct view *view = view_new();
    struct fixture empty = {.view = view};

    op_result_init(&empty.result);
    assert_null(view_read(view));
    assert_null(view_write(view));
    view_write_done(view);
    assert_int_equal(read_op(&empty, op(OP_GET, "/"))->err, ERR_NOT_READY);
    assert_int_equal(read_op(&empty, op(OP_CHILDREN, "/"))->err, ERR_NOT_READY);
    assert_int_equal(read_op(&empty, op(OP_TREE, "/"))->err, ERR_NOT_READY);
    assert_int_equal(read_op(&empty, op(OP_MULTI, "/"))->err, ERR_NOT_READY);
    op_result_release(&empty.result);
    view_free(view);
}

TEST(children_in_pages, fixture, setup, teardown)
{
    struct op_args args = op(OP_CHILDREN, "/d");

    make_many(fixture, "/d", 5, "v");
    args.limit = 2;
    struct op_result *result = read_op(fixture, args);

    assert_int_equal(result->err, ERR_OK);
    assert_int_equal(result->entry_count, 2);
    assert_true(result->more);
    assert_path(result, 0, "000000");
    assert_path(result, 1, "000001");
    assert_null(result->entries[0].data);
    assert_int_equal(result->stat.num_children, 5);
    args.after = slice_str("000002");
    args.with = OP_WITH_DATA;
    result = read_op(fixture, args);
    assert_path(result, 0, "000003");
    assert_false(result->more);
    assert_true(slice_eq(blob_slice(result->entries[1].data), slice_str("v")));
    assert_int_equal(result->entries[1].stat.czxid, 6);
    args.after = slice_str("000004");
    assert_int_equal(read_op(fixture, args)->entry_count, 0);
    assert_int_equal(read_op(fixture, op(OP_CHILDREN, "/no"))->err, ERR_NO_NODE);
}

TEST(a_long_page_continues_in_further_holds, fixture, setup, teardown)
{
    struct op_args args = op(OP_CHILDREN, "/d");
    char name[16];

    make_many(fixture, "/d", 2 * VIEW_NODES_MAX + 10, "v");
    args.limit = 10000;
    struct op_result *result = read_op(fixture, args);

    assert_int_equal(result->entry_count, 2 * VIEW_NODES_MAX + 10);
    assert_false(result->more);
    for (uint32_t i = 0; i < result->entry_count; i++) {
        snprintf(name, sizeof(name), "%06u", i);
        assert_path(result, i, name);
    }
    args.limit = 0;
    assert_int_equal(read_op(fixture, args)->entry_count, VIEW_NODES_MAX);
    assert_true(fixture->result.more);
}

TEST(a_page_of_data_is_bounded, fixture, setup, teardown)
{
    struct op_args args = op(OP_CHILDREN, "/d");
    char *data = mem_alloc((1 << 20) + 1);

    memset(data, 'x', 1 << 20);
    data[1 << 20] = '\0';
    make_many(fixture, "/d", 18, data);
    args.with = OP_WITH_DATA;
    struct op_result *result = read_op(fixture, args);

    assert_int_equal(result->entry_count, VIEW_DATA_BYTES_MAX >> 20);
    assert_true(result->more);
    args.with = OP_WITH_STAT;
    assert_int_equal(read_op(fixture, args)->entry_count, 18);
    args = op(OP_TREE, "/d");
    args.with = OP_WITH_DATA;
    assert_int_equal(read_op(fixture, args)->err, ERR_TOO_LARGE);
    assert_int_equal(result->entry_count, 0);
    mem_free(data);
}

TEST(tree, fixture, setup, teardown)
{
    struct op_args args = op(OP_TREE, "/a");

    make(fixture, "/a", "1");
    make(fixture, "/a/b", "2");
    make(fixture, "/a/b/c", "3");
    make(fixture, "/a/d", NULL);
    args.with = OP_WITH_DATA;
    struct op_result *result = read_op(fixture, args);

    assert_int_equal(result->err, ERR_OK);
    assert_int_equal(result->entry_count, 4);
    assert_path(result, 0, "");
    assert_path(result, 1, "b");
    assert_path(result, 2, "b/c");
    assert_path(result, 3, "d");
    assert_true(slice_eq(blob_slice(result->entries[2].data), slice_str("3")));
    args.depth = 1;
    assert_int_equal(read_op(fixture, args)->entry_count, 3);
    args.limit = 2;
    assert_int_equal(read_op(fixture, args)->err, ERR_TOO_LARGE);
    assert_non_null(result->detail);
    args = op(OP_TREE, "/");
    assert_int_equal(read_op(fixture, args)->entry_count, 8);
    assert_path(result, 7, "zookeeper/quota");
    args = op(OP_TREE, "/no");
    assert_int_equal(read_op(fixture, args)->err, ERR_NO_NODE);
}

TEST(a_large_tree_is_refused, fixture, setup, teardown)
{
    make_many(fixture, "/d", VIEW_NODES_MAX, NULL);
    assert_int_equal(read_op(fixture, op(OP_TREE, "/d"))->err, ERR_TOO_LARGE);
    assert_int_equal(read_op(fixture, op(OP_TREE, "/zookeeper"))->err, ERR_OK);
}

TEST(a_multi_reads_one_state, fixture, setup, teardown)
{
    struct op_args ops[5] = {op(OP_GET, "/a"), op(OP_STAT, "/no"), op(OP_CHILDREN, "/"),
                             op(OP_EXISTS, "/a"), op(OP_SET, "/a")};
    struct op_args args = {.op = OP_MULTI, .ops = ops, .op_count = 5};

    make(fixture, "/a", "1");
    struct op_result *result = read_op(fixture, args);

    assert_int_equal(result->err, ERR_OK);
    assert_int_equal(result->zxid, 1);
    assert_int_equal(result->result_count, 5);
    assert_true(slice_eq(blob_slice(result->results[0].data), slice_str("1")));
    assert_int_equal(result->results[1].err, ERR_NO_NODE);
    assert_int_equal(result->results[2].entry_count, 2);
    assert_path(&result->results[2], 1, "zookeeper");
    assert_true(result->results[3].has_stat);
    assert_int_equal(result->results[4].err, ERR_BAD_ARGUMENTS);
}

TEST(multi_is_bounded, fixture, setup, teardown)
{
    struct op_args ops[3] = {op(OP_CHILDREN, "/d"), op(OP_CHILDREN, "/d"), op(OP_GET, "/d")};
    struct op_args args = {.op = OP_MULTI, .ops = ops, .op_count = 3};

    make_many(fixture, "/d", 600, NULL);
    struct op_result *result = read_op(fixture, args);

    assert_int_equal(result->results[0].entry_count, 600);
    assert_int_equal(result->results[1].entry_count, VIEW_NODES_MAX - 601);
    assert_true(result->results[1].more);
    assert_int_equal(result->results[2].err, ERR_TOO_LARGE);
}

/* Readers check one invariant: /a and /b always have the same version. */
struct reader {
    struct thread thread;
    struct view *view;
    atomic_bool *stop;
    uint64_t reads;
    bool torn;
};

static void read_until_stopped(void *arg)
{
    struct reader *reader = arg;

    while (!atomic_load(reader->stop)) {
        const struct state *state = view_read(reader->view);
        struct stat_view a;
        struct stat_view b;

        znode_stat(kit_find(state, "/a"), &a);
        znode_stat(kit_find(state, "/b"), &b);
        view_read_done(reader->view);
        reader->torn = reader->torn || a.version != b.version;
        reader->reads++;
    }
}

TEST(readers_see_whole_transactions, fixture, setup, teardown)
{
    struct reader readers[2];
    atomic_bool stop = false;
    struct buf txn;

    make(fixture, "/a", "");
    make(fixture, "/b", "");
    buf_init(&txn, 4096);
    for (size_t i = 0; i < 2; i++) {
        readers[i] = (struct reader){.view = fixture->view, .stop = &stop};
        thread_start(&readers[i].thread, "reader", read_until_stopped, &readers[i]);
    }
    for (int32_t version = 1; version <= 2000; version++) {
        kit_set(&txn, "/a", "x", version);
        kit_set(&txn, "/b", "x", version);
        assert_int_equal(kit_apply(view_write(fixture->view), ++fixture->zxid, &txn), ERR_OK);
        view_write_done(fixture->view);
    }
    atomic_store(&stop, true);
    for (size_t i = 0; i < 2; i++) {
        thread_join(&readers[i].thread);
        assert_false(readers[i].torn);
    }
    buf_release(&txn);
}

/* Reads, lists and multis show the usage of a quota; the result says that it is no stored data. */
TEST(stats_of_a_quota_are_computed, fixture, setup, teardown)
{
    static const char usage[] = "count=2,bytes=3";
    struct op_args tree = op(OP_TREE, STATE_QUOTA_PATH "/a");
    struct op_args get = op(OP_GET, STATE_QUOTA_PATH "/a/" STATE_STATS_NAME);
    struct op_args multi = {.op = OP_MULTI, .ops = &get, .op_count = 1};

    make(fixture, "/a", "12");
    make(fixture, "/a/b", "3");
    make(fixture, STATE_QUOTA_PATH "/a", NULL);
    make(fixture, STATE_QUOTA_PATH "/a/" STATE_LIMITS_NAME, "count=5");
    make(fixture, STATE_QUOTA_PATH "/a/" STATE_STATS_NAME, "x");
    const struct op_result *result = read_op(fixture, get);

    assert_true(slice_eq(blob_slice(result->data), slice_str(usage)));
    assert_int_equal(result->stat.data_length, strlen(usage));
    assert_true(result->computed);
    assert_true(slice_eq(blob_slice(read_op(fixture, multi)->results[0].data), slice_str(usage)));
    tree.with = OP_WITH_DATA;
    result = read_op(fixture, tree);
    assert_path(result, 2, STATE_STATS_NAME);
    assert_true(slice_eq(blob_slice(result->entries[2].data), slice_str(usage)));
    assert_int_equal(result->entries[2].stat.data_length, strlen(usage));
    assert_true(result->computed);
    assert_false(read_op(fixture, op(OP_GET, "/a"))->computed);
    assert_int_equal(
        read_op(fixture, op(OP_GETACL, STATE_QUOTA_PATH "/a/" STATE_STATS_NAME))->stat.data_length,
        strlen(usage));
}

struct toggler {
    struct view *view;
    zxid_t zxid;
    struct thread thread;
    atomic_bool *stop;
};

/* Creates or deletes a child of both lists in one transaction, again and again. */
static void toggle_until_stopped(void *arg)
{
    struct toggler *toggler = arg;
    uint32_t creates = MANY;
    struct buf txn;

    buf_init(&txn, 4096);
    for (bool there = false; !atomic_load(toggler->stop); there = !there) {
        if (there) {
            kit_delete(&txn, "/a/x");
            kit_delete(&txn, "/b/x");
        } else {
            creates++;
            kit_create(&txn, "/a/x", "", 0, creates);
            kit_create(&txn, "/b/x", "", 0, creates);
        }
        assert_int_equal(kit_apply(view_write(toggler->view), ++toggler->zxid, &txn), ERR_OK);
        view_write_done(toggler->view);
    }
    buf_release(&txn);
}

/* Two lists that take several holds of the lock show the same state, while each transaction changes
 * both. */
TEST(a_multi_of_long_lists_shows_one_state, fixture, setup, teardown)
{
    struct op_args lists[] = {op(OP_CHILDREN, "/a"), op(OP_GET, "/"), op(OP_CHILDREN, "/b")};
    const struct op_args multi = {.op = OP_MULTI, .ops = lists, .op_count = 3};
    struct toggler toggler = {.view = fixture->view};
    struct op_result *result = &fixture->result;
    atomic_bool stop = false;

    lists[0].limit = MANY + 1;
    lists[2].limit = MANY + 1;

    make_many(fixture, "/a", MANY, NULL);
    make_many(fixture, "/b", MANY, NULL);
    toggler.zxid = fixture->zxid;
    toggler.stop = &stop;
    thread_start(&toggler.thread, "toggler", toggle_until_stopped, &toggler);
    for (int i = 0; i < ROUNDS; i++) {
        view_run_once(fixture->view, &anonymous, &multi, 3 * MANY, result);
        assert_int_equal(result->err, ERR_OK);
        assert_false(result->results[2].more);
        assert_true(result->results[0].entry_count >= MANY);
        assert_int_equal(result->results[0].entry_count, result->results[2].entry_count);
        op_result_release(result);
    }
    atomic_store(&stop, true);
    thread_join(&toggler.thread);
}

TEST(a_multi_of_long_lists_is_bounded, fixture, setup, teardown)
{
    struct op_args lists[4];
    struct op_args multi = {.op = OP_MULTI, .ops = lists};
    struct op_result *result = &fixture->result;
    uint32_t nodes = 3 * (MANY + 1);

    make_many(fixture, "/a", MANY, NULL);
    for (; multi.op_count < sizeof(lists) / sizeof(lists[0]); multi.op_count++) {
        lists[multi.op_count] = op(OP_CHILDREN, "/a");
        lists[multi.op_count].limit = MANY;
    }
    view_run_once(fixture->view, &anonymous, &multi, nodes, result);
    assert_int_equal(result->results[2].err, ERR_OK);
    assert_int_equal(result->results[3].err, ERR_TOO_LARGE);
    op_result_release(result);
    multi.op_count--;
    view_run_once(fixture->view, &anonymous, &multi, nodes, result);
    assert_int_equal(result->err, ERR_OK);
    assert_int_equal(result->results[multi.op_count - 1].entry_count, MANY);
}
