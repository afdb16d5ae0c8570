/*
 * Requests prepared many deep, before anything is applied, give what a naive model gives that
 * changes itself at once: the same verdicts, the same answers and in the end the same znodes.
 */
#include "base/mem.h"
#include "base/rng.h"
#include "server/prep.h"
#include "server/state/path.h"
#include "tests/lib/prep_model.h"
#include "tests/lib/state_kit.h"
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    SEEDS = 500,
    REQUESTS = 400,
    DATA_LEN_MAX = 12,
    OPS_MAX = MODEL_REPLIES_MAX,
    QUEUE_MAX = 24,
    RECURSIVE_MAX = 6
};

static const struct prep_limits limits = {.data_bytes_max = DATA_LEN_MAX - 2,
                                          .txn_bytes_max = 1 << 20,
                                          .multi_ops_max = OPS_MAX,
                                          .recursive_max = RECURSIVE_MAX};

/* ---- Random requests. ---- */

struct request {
    struct op_args args;
    struct op_args ops[OPS_MAX];
    char paths[OPS_MAX + 1][MODEL_PATH_MAX];
    size_t path_count;
};

static const char *draw_path(struct rng *rng, struct request *request)
{
    static const char *const names[] = {"a", "b", "b-", "q0000000000", "q0000000001"};
    char *path = request->paths[request->path_count++];
    size_t len = 0;
    uint64_t depth = 1 + rng_below(rng, 3);

    if (rng_below(rng, 20) == 0) {
        static const char *const builtin[] = {"/", "/zookeeper", STATE_CONFIG_PATH,
                                              "/zookeeper/config/x"};

        snprintf(path, MODEL_PATH_MAX, "%s", builtin[rng_below(rng, 4)]);
        return path;
    }
    for (uint64_t i = 0; i < depth; i++) {
        len += (size_t)snprintf(path + len, MODEL_PATH_MAX - len, "/%s", names[rng_below(rng, 5)]);
    }
    return path;
}

static void draw_create(struct rng *rng, struct request *request, struct op_args *args)
{
    args->op = OP_CREATE;
    args->parents = rng_below(rng, 6) == 0;
    args->container = rng_below(rng, 8) == 0;
    args->ephemeral = rng_below(rng, 40) == 0;
    args->ttl_ms = rng_below(rng, 6) == 0 ? (int64_t)rng_below(rng, 100) - 1 : 0;
    if (rng_below(rng, 4) == 0) {
        char *path = request->paths[request->path_count - 1];
        char *name = strrchr(path, '/') + 1;

        snprintf(name, 2, "%s", rng_below(rng, 2) == 0 ? "q" : "");
        args->path = slice_str(path);
        args->sequence = rng_below(rng, 8) > 0;
    }
}

static void draw_conditions(struct rng *rng, struct model *model, struct op_args *args)
{
    char path[MODEL_PATH_MAX];

    snprintf(path, MODEL_PATH_MAX, "%.*s", (int)args->path.len, (const char *)args->path.data);
    const struct model_node *node = model_find(model, path);

    if (rng_below(rng, 3) == 0) {
        args->has_version = true;
        args->version = (int32_t)rng_below(rng, 4) - 1;
    }
    if (args->op != OP_CHECK && rng_below(rng, 5) == 0) {
        args->has_etag = true;
        args->etag_czxid = node != NULL ? node->stat.czxid + rng_below(rng, 2) : 3;
        args->etag_version = node != NULL ? node->stat.version : 0;
    }
    args->must_exist = args->op != OP_CHECK && rng_below(rng, 8) == 0;
}

static void draw_op(struct rng *rng, struct model *model, struct request *request,
                    struct op_args *args)
{
    static const char data[] = "0123456789abcdef";
    uint64_t roll = rng_below(rng, 100);

    *args = (struct op_args){.op = OP_CHECK};
    args->path = slice_str(draw_path(rng, request));
    if (roll < 45) {
        draw_create(rng, request, args);
    } else if (roll < 65) {
        args->op = OP_SET;
        args->upsert = rng_below(rng, 4) == 0;
        args->must_be_new = rng_below(rng, 8) == 0;
        args->parents = rng_below(rng, 8) == 0;
    } else if (roll < 90) {
        args->op = OP_DELETE;
        args->recursive = rng_below(rng, 4) == 0;
        args->max = (uint32_t)rng_below(rng, 9);
    }
    if (args->op != OP_CREATE) {
        draw_conditions(rng, model, args);
    }
    if (args->op == OP_CREATE || args->op == OP_SET) {
        args->data_null = rng_below(rng, 4) == 0;
        args->data = slice_make(data, args->data_null ? 0 : rng_below(rng, DATA_LEN_MAX));
    }
}

static void draw_request(struct rng *rng, struct model *model, struct request *request)
{
    uint64_t roll = rng_below(rng, 100);

    *request = (struct request){0};
    if (roll < 20) {
        request->args = (struct op_args){.op = OP_MULTI, .ops = request->ops};
        request->args.op_count = (uint32_t)rng_below(rng, OPS_MAX + 1);
        for (uint32_t i = 0; i < request->args.op_count; i++) {
            draw_op(rng, model, request, &request->ops[i]);
        }
        return;
    }
    draw_op(rng, model, request, &request->args);
    if (roll > 70 && request->args.op != OP_CREATE) {
        request->args = (struct op_args){.op = OP_REAP, .path = request->args.path};
    }
}

/* ---- The run. ---- */

struct pending {
    zxid_t zxid;
    struct buf txn;
    struct model_verdict verdict;
};

struct run {
    struct rng rng;
    struct state *state;
    struct prep *prep;
    struct pending queue[QUEUE_MAX]; /* Prepared, not applied; oldest first. */
    size_t queue_len;
    zxid_t zxid;
    int64_t time_ms;
};

static struct model model;

static void assert_stat(const struct stat_view *got, const struct stat_view *want)
{
    assert_true(got->czxid == want->czxid && got->mzxid == want->mzxid);
    assert_true(got->pzxid == want->pzxid);
    assert_true(got->ctime == want->ctime && got->mtime == want->mtime);
    assert_int_equal(got->version, want->version);
    assert_int_equal(got->cversion, want->cversion);
    assert_int_equal(got->data_length, want->data_length);
    assert_int_equal(got->num_children, want->num_children);
}

static void assert_verdict(const struct op_args *args, const struct op_result *got,
                           const struct model_verdict *want)
{
    bool multi = args->op == OP_MULTI;

    assert_int_equal(got->err, want->err);
    assert_int_equal(got->has_stat, want->has_stat);
    if (want->has_stat) {
        assert_stat(&got->stat, &want->stat);
    }
    assert_int_equal(got->result_count, multi && want->err != ERR_OK ? args->op_count : 0);
    for (uint32_t i = 0; i < got->result_count; i++) {
        enum err element = i < want->failed ? ERR_OK : ERR_RUNTIME_INCONSISTENCY;

        assert_int_equal(got->results[i].err, i == want->failed ? want->err : element);
    }
    assert_int_equal(got->failed_index, multi && want->err != ERR_OK ? want->failed : 0);
}

static void apply_oldest(struct run *run, struct state_changes *changes)
{
    struct pending first = run->queue[0];
    size_t replies = 0;

    assert_int_equal(state_apply(run->state, first.zxid, buf_slice(&first.txn), false, changes),
                     ERR_OK);
    for (size_t i = 0; i < changes->count; i++) {
        const struct state_change *change = &changes->items[i];

        if (change->reply) {
            const struct model_reply *want = &first.verdict.replies[replies++];

            assert_true(slice_eq(change->path, slice_str(want->path)));
            assert_stat(&change->stat, &want->stat);
        }
    }
    assert_int_equal(replies, first.verdict.reply_count);
    buf_release(&first.txn);
    run->queue_len--;
    memmove(&run->queue[0], &run->queue[1], run->queue_len * sizeof(run->queue[0]));
    prep_applied(run->prep, first.zxid);
}

static void one_request(struct run *run)
{
    struct request request;
    struct op_result result;
    struct model_verdict verdict;
    struct pending *last = &run->queue[run->queue_len];
    const struct model_moment at = {.zxid = run->zxid + 1, .time_ms = run->time_ms};
    const struct txn_header header = {.time_ms = at.time_ms};

    draw_request(&run->rng, &model, &request);
    model_request(&model, &limits, &request.args, at, &verdict);
    op_result_init(&result);
    buf_init(&last->txn, 1 << 20);
    enum err err = prep_request(run->prep, run->state,
                                &(struct prep_job){.args = &request.args, .header = &header},
                                at.zxid, &last->txn, &result);

    assert_int_equal(err, verdict.err);
    assert_verdict(&request.args, &result, &verdict);
    op_result_release(&result);
    if (err != ERR_OK) {
        assert_int_equal(last->txn.len, 0);
        buf_release(&last->txn);
        return;
    }
    last->zxid = ++run->zxid;
    last->verdict = verdict;
    run->queue_len++;
}

static void assert_same_znodes(const struct state *state)
{
    assert_int_equal(state_node_count(state), model.count);
    for (size_t i = 0; i < model.count; i++) {
        const struct model_node *want = &model.nodes[i];
        const struct znode *got = kit_find(state, want->path);
        struct stat_view stat;

        assert_non_null(got);
        znode_stat(got, &stat);
        assert_stat(&stat, &want->stat);
        assert_true(znode_owner(got) == want->owner);
        assert_int_equal(znode_creates(got), want->creates);
        assert_int_equal(znode_data(got) == NULL, want->null);
        assert_true(slice_eq(blob_slice(znode_data(got)), slice_str(want->data)));
    }
}

static void run_seed(uint64_t seed)
{
    static struct run run;
    struct state_changes changes = {0};

    run = (struct run){.state = state_new(1), .prep = prep_new(&limits), .time_ms = 1000};
    rng_init(&run.rng, seed);
    model_init(&model);
    for (int i = 0; i < REQUESTS; i++) {
        one_request(&run);
        run.time_ms += (int64_t)rng_below(&run.rng, i % 100 == 99 ? 400000 : 20);
        while (run.queue_len == QUEUE_MAX || (run.queue_len > 0 && rng_below(&run.rng, 8) == 0)) {
            apply_oldest(&run, &changes);
        }
        if (run.queue_len == 0) {
            assert_int_equal(prep_pending(run.prep), 0);
            assert_same_znodes(run.state);
        }
    }
    while (run.queue_len > 0) {
        apply_oldest(&run, &changes);
    }
    assert_same_znodes(run.state);
    state_changes_release(&changes);
    prep_free(run.prep);
    state_free(run.state);
}

static void test_prepared_ahead_equals_done_at_once(void **state)
{
    (void)state;

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        run_seed(seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prepared_ahead_equals_done_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
