/* Quotas: the text of limits, and usage that follows each change of the tree. */
#include "server/state/state.h"
#include "tests/lib/state_kit.h"
#include "tests/lib/unit.h"

struct fixture {
    struct state *state;
    struct buf txn;
    zxid_t zxid;
};

static void setup(struct fixture *fixture)
{
    fixture->state = state_new(1);
    fixture->zxid = 0;
    buf_init(&fixture->txn, 1 << 20);
}

static void teardown(struct fixture *fixture)
{
    state_free(fixture->state);
    buf_release(&fixture->txn);
}

static void make(struct fixture *fixture, const char *path, const char *data)
{
    assert_int_equal(kit_make(fixture->state, ++fixture->zxid, path, data), ERR_OK);
    kit_verify(fixture->state);
}

static void apply(struct fixture *fixture)
{
    assert_int_equal(kit_apply(fixture->state, ++fixture->zxid, &fixture->txn), ERR_OK);
    kit_verify(fixture->state);
}

static void assert_usage(const struct fixture *fixture, const char *path, const char *want)
{
    const struct state_quota *quota = state_quota_find(fixture->state, slice_str(path));
    struct buf text;

    assert_non_null(quota);
    buf_init(&text, 100);
    kit_quota_stats(quota, &text);
    assert_string_equal(buf_cstr(&text), want);
    buf_release(&text);
}

struct limits {
    int64_t count;
    int64_t bytes;
    int64_t count_hard;
    int64_t bytes_hard;
};

static void assert_limits(const char *text, enum err want, struct limits limits)
{
    struct state_quota got;

    assert_int_equal(state_quota_parse(slice_str(text), &got), want);
    assert_int_equal(got.count_limit, limits.count);
    assert_int_equal(got.bytes_limit, limits.bytes);
    assert_int_equal(got.count_hard, limits.count_hard);
    assert_int_equal(got.bytes_hard, limits.bytes_hard);
}

TEST(the_text_of_limits)
{
    static const struct limits none = {-1, -1, -1, -1};

    assert_limits("count=5,bytes=7=;byteHardLimit=9;countHardLimit=8", ERR_OK,
                  (struct limits){5, 7, 8, 9});
    assert_limits("count=-1,bytes=-1=;byteHardLimit=100;countHardLimit=-1", ERR_OK,
                  (struct limits){-1, -1, -1, 100});
    assert_limits("count=5,bytes=7", ERR_OK, (struct limits){5, 7, -1, -1});
    assert_limits("bytes=7,count=5", ERR_OK, (struct limits){5, 7, -1, -1});
    assert_limits("countHardLimit=0", ERR_OK, (struct limits){-1, -1, 0, -1});
    assert_limits("count=,bytes=7,later=1", ERR_OK, (struct limits){-1, 7, -1, -1});
    assert_limits("count=5,,;bytes=7,", ERR_OK, (struct limits){5, 7, -1, -1});
    assert_limits("count=999999999999999999", ERR_OK,
                  (struct limits){INT64_C(999999999999999999), -1, -1, -1});
    assert_limits("", ERR_FORMAT, none);
    assert_limits("count", ERR_FORMAT, none);
    assert_limits(",count=5", ERR_FORMAT, none);
    assert_limits("count=5,bytes=x", ERR_FORMAT, none);
    assert_limits("count=5,bytes=7 ", ERR_FORMAT, none);
    assert_limits("count=-", ERR_FORMAT, none);
    assert_limits("count=9999999999999999999", ERR_FORMAT, none);
}

TEST(usage_follows_the_tree, fixture, setup, teardown)
{
    make(fixture, "/a", "123");
    make(fixture, "/a/b", "45");
    make(fixture, "/ab", "not below");
    make(fixture, STATE_QUOTA_PATH "/a", NULL);
    make(fixture, STATE_QUOTA_PATH "/a/" STATE_LIMITS_NAME, "count=5,bytes=-1");
    assert_usage(fixture, "/a", "count=2,bytes=5");
    make(fixture, "/a/b/c", "678");
    assert_usage(fixture, "/a", "count=3,bytes=8");
    kit_set(&fixture->txn, "/a/b", "4", 1);
    kit_set(&fixture->txn, "/a", NULL, 1);
    apply(fixture);
    assert_usage(fixture, "/a", "count=3,bytes=4");
    kit_delete(&fixture->txn, "/a/b/c");
    kit_delete(&fixture->txn, "/a/b");
    kit_delete(&fixture->txn, "/none");
    assert_int_equal(kit_apply(fixture->state, 100, &fixture->txn), ERR_CORRUPT);
    kit_verify(fixture->state);
    assert_usage(fixture, "/a", "count=3,bytes=4");
    kit_delete(&fixture->txn, "/a/b/c");
    kit_delete(&fixture->txn, "/a/b");
    kit_delete(&fixture->txn, "/a");
    apply(fixture);
    assert_usage(fixture, "/a",
                 "count=0,bytes=0"); /* The quota was set before the znode existed. */
    make(fixture, "/a", "again");
    assert_usage(fixture, "/a", "count=1,bytes=5");
}

TEST(limits_can_be_set_and_removed, fixture, setup, teardown)
{
    struct state *state = fixture->state;
    const char *limits = STATE_QUOTA_PATH "/a/" STATE_LIMITS_NAME;

    make(fixture, "/a", "1");
    make(fixture, STATE_QUOTA_PATH "/a", NULL);
    assert_null(state_quota_find(state, slice_str("/a")));
    make(fixture, limits, "countHardLimit=5");
    const struct state_quota *quota = state_quota_find(state, slice_str("/a"));

    assert_int_equal(quota->count_hard, 5);
    kit_set(&fixture->txn, limits, "byteHardLimit=6", 1);
    apply(fixture);
    assert_int_equal(quota->count_hard, -1);
    assert_int_equal(quota->bytes_hard, 6);
    kit_set(&fixture->txn, limits, "nonsense", 1);
    apply(fixture);
    assert_int_equal(quota->bytes_hard, -1);
    assert_usage(fixture, "/a", "count=1,bytes=1");
    kit_delete(&fixture->txn, limits);
    kit_create(&fixture->txn, "/a/b", "2", 0, 1);
    kit_delete(&fixture->txn, "/none");
    assert_int_equal(kit_apply(state, 100, &fixture->txn), ERR_CORRUPT);
    assert_usage(fixture, "/a", "count=1,bytes=1");
    kit_delete(&fixture->txn, limits);
    apply(fixture);
    assert_null(state_quota_find(state, slice_str("/a")));
    assert_null(state_quota_after(state, slice_make(NULL, 0)));
}

TEST(nested_quotas_all_count, fixture, setup, teardown)
{
    struct state *state = fixture->state;

    make(fixture, STATE_QUOTA_PATH "/a", NULL);
    make(fixture, STATE_QUOTA_PATH "/a/b", NULL);
    make(fixture, STATE_QUOTA_PATH "/a/b/" STATE_LIMITS_NAME, "count=1");
    make(fixture, STATE_QUOTA_PATH "/a/" STATE_LIMITS_NAME, "count=2");
    make(fixture, "/a", "1");
    make(fixture, "/a/b", "2");
    make(fixture, "/a/b/c", "3");
    assert_usage(fixture, "/a", "count=3,bytes=3");
    assert_usage(fixture, "/a/b", "count=2,bytes=2");
    assert_true(slice_eq(state_quota_after(state, slice_str("/a"))->path, slice_str("/a/b")));
    assert_null(state_quota_after(state, slice_str("/a/b")));
}

TEST(znodes_without_a_quota, fixture, setup, teardown)
{
    make(fixture, "/" STATE_LIMITS_NAME, "count=1");
    make(fixture, STATE_QUOTA_PATH "/" STATE_LIMITS_NAME, "count=1");
    make(fixture, STATE_QUOTA_PATH "/zookeeper", NULL);
    make(fixture, STATE_QUOTA_PATH "/zookeeper/" STATE_LIMITS_NAME, "count=1");
    make(fixture, STATE_QUOTA_PATH "/x", NULL);
    make(fixture, STATE_QUOTA_PATH "/x/" STATE_STATS_NAME, "count=1");
    assert_null(state_quota_after(fixture->state, slice_make(NULL, 0)));
}

/* ---- zookeeper_stats: what clients see. ---- */

static void assert_shown(const struct fixture *fixture, const char *path, const char *want)
{
    const struct znode *node = kit_find(fixture->state, path);
    struct blob *data = state_shown_data(fixture->state, node);
    struct stat_view stat;

    assert_true(slice_eq(blob_slice(data), slice_str(want)));
    state_shown_stat(fixture->state, node, &stat);
    assert_int_equal(stat.data_length, strlen(want));
    blob_unref(data);
}

TEST(stats_show_the_usage_and_store_nothing, fixture, setup, teardown)
{
    const char *stats = STATE_QUOTA_PATH "/a/" STATE_STATS_NAME;
    struct stat_view before;
    struct stat_view after;

    make(fixture, "/a", "12");
    make(fixture, STATE_QUOTA_PATH "/a", NULL);
    make(fixture, STATE_QUOTA_PATH "/a/" STATE_LIMITS_NAME, "count=5,bytes=-1");
    make(fixture, stats, "count=0,bytes=0");
    assert_shown(fixture, stats, "count=1,bytes=2");
    assert_true(state_is_computed(fixture->state, kit_find(fixture->state, stats)));
    state_shown_stat(fixture->state, kit_find(fixture->state, stats), &before);
    make(fixture, "/a/b", "1234567890");
    assert_shown(fixture, stats, "count=2,bytes=12");
    state_shown_stat(fixture->state, kit_find(fixture->state, stats), &after);
    assert_int_equal(after.mzxid, before.mzxid);
    assert_int_equal(after.version, before.version);
    assert_true(slice_eq(blob_slice(znode_data(kit_find(fixture->state, stats))),
                         slice_str("count=0,bytes=0")));
    kit_set(&fixture->txn, stats, "mine", 1);
    apply(fixture);
    assert_shown(fixture, stats, "count=2,bytes=12");
    kit_delete(&fixture->txn, STATE_QUOTA_PATH "/a/" STATE_LIMITS_NAME);
    apply(fixture);
    assert_shown(fixture, stats, "mine");
}

TEST(stats_without_limits_are_plain_znodes, fixture, setup, teardown)
{
    static const char *const paths[] = {
        "/" STATE_STATS_NAME,
        "/a/" STATE_STATS_NAME,
        STATE_QUOTA_PATH "/" STATE_STATS_NAME,
        STATE_QUOTA_PATH "/a/b/" STATE_STATS_NAME,
        STATE_QUOTA_PATH "/a/x" STATE_STATS_NAME,
    };

    make(fixture, "/a", "12");
    make(fixture, STATE_QUOTA_PATH "/a", NULL);
    make(fixture, STATE_QUOTA_PATH "/a/b", NULL);
    make(fixture, STATE_QUOTA_PATH "/a/" STATE_LIMITS_NAME, "count=5,bytes=-1");
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        make(fixture, paths[i], "stored");
        assert_shown(fixture, paths[i], "stored");
        assert_false(state_is_computed(fixture->state, kit_find(fixture->state, paths[i])));
    }
}
