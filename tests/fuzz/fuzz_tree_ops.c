/*
 * Operations on the tree, read from the bytes, through preparation and application: prepared many
 * deep before anything is applied, they give what a naive model gives that changes itself at once.
 *
 * The same check as tests/prop/test_prep.c with drawn requests; here the fuzzer looks for the
 * requests that reach new places.
 */
#include "base/mem.h"
#include "server/prep.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/state_check.h"
#include "tests/lib/prep_model.h"
#include "tests/lib/state_kit.h"

#include <stdio.h>

enum {
    REQUESTS_MAX = 200,
    QUEUE_MAX = 24,
    OPS_MAX = MODEL_REPLIES_MAX,
    NODES_MAX = MODEL_NODES_MAX - 16, /* What one request may add. */
    DATA_LEN_MAX = 12,
    PATHS_PER_DEPTH = 84
};

static const struct prep_limits limits = {.data_bytes_max = DATA_LEN_MAX - 2,
                                          .txn_bytes_max = 1 << 20,
                                          .multi_ops_max = OPS_MAX,
                                          .recursive_max = 6};

struct request {
    struct op_args args;
    struct op_args ops[OPS_MAX];
    char paths[OPS_MAX + 1][MODEL_PATH_MAX];
    size_t path_count;
};

/* ---- Requests out of bytes. ---- */

static const char *read_path(struct wire_reader *reader, struct request *request)
{
    static const char *const names[] = {"a", "b", "b-", "q0000000000", "q0000000001"};
    static const char *const builtin[] = {"/", "/zookeeper", STATE_CONFIG_PATH,
                                          "/zookeeper/config/x"};
    char *path = request->paths[request->path_count++];
    uint8_t choice = wire_get_u8(reader);
    int depth = choice / PATHS_PER_DEPTH;
    int rest = choice % PATHS_PER_DEPTH;
    size_t len = 0;

    if (choice >= 3 * PATHS_PER_DEPTH) {
        (void)snprintf(path, MODEL_PATH_MAX, "%s", builtin[choice & 3U]);
        return path;
    }
    for (int i = 0; i <= depth; i++) {
        int put = snprintf(path + len, MODEL_PATH_MAX - len, "/%s", names[rest % 5]);

        len += (size_t)put;
        rest /= 5;
    }
    return path;
}

static void read_create(struct wire_reader *reader, struct request *request, struct op_args *args)
{
    uint8_t flags = wire_get_u8(reader);
    char *path = request->paths[request->path_count - 1];
    char *name = strrchr(path, '/') + 1;

    args->op = OP_CREATE;
    args->parents = (flags & 1U) != 0;
    args->container = (flags & 2U) != 0;
    args->ephemeral = (flags & 12U) == 12;
    args->ttl_ms = (flags & 0x30U) == 0x30 ? (int64_t)wire_get_u8(reader) - 1 : 0;
    if ((flags & 0x40U) != 0) {
        (void)snprintf(name, 2, "%s", (flags & 4U) != 0 ? "q" : "");
        args->path = slice_str(path);
        args->sequence = (flags & 8U) == 0;
    }
}

static void read_conditions(struct wire_reader *reader, struct model *model, struct op_args *args)
{
    char path[MODEL_PATH_MAX];
    uint8_t flags = wire_get_u8(reader);

    (void)snprintf(path, MODEL_PATH_MAX, "%.*s", (int)args->path.len,
                   (const char *)args->path.data);

    const struct model_node *node = model_find(model, path);

    if ((flags & 1U) != 0) {
        args->has_version = true;
        args->version = (int32_t)(flags >> 4 & 3U) - 1;
    }
    if (args->op != OP_CHECK && (flags & 6U) == 6) {
        args->has_etag = true;
        args->etag_czxid = node ? node->stat.czxid + (flags >> 6 & 1U) : 3;
        args->etag_version = node ? node->stat.version : 0;
    }
    args->must_exist = args->op != OP_CHECK && (flags & 8U) != 0;
}

static void read_op(struct wire_reader *reader, struct model *model, struct request *request,
                    struct op_args *args)
{
    static const char data[] = "0123456789abcdef";
    uint8_t kind = wire_get_u8(reader);

    *args = (struct op_args){.op = OP_CHECK};
    args->path = slice_str(read_path(reader, request));
    switch (kind & 3U) {
    case 0:
        read_create(reader, request, args);
        break;
    case 1:
        args->op = OP_SET;
        args->upsert = (kind & 4U) != 0;
        args->must_be_new = (kind & 24U) == 24;
        args->parents = (kind & 32U) != 0;
        break;
    case 2:
        args->op = OP_DELETE;
        args->recursive = (kind & 4U) != 0;
        args->max = kind >> 3 & 7U;
        break;
    default:
        break;
    }
    if (args->op != OP_CREATE) {
        read_conditions(reader, model, args);
    }
    if (args->op == OP_CREATE || args->op == OP_SET) {
        args->data_null = (kind & 0x80U) != 0;
        args->data = slice_make(data, args->data_null ? 0 : wire_get_u8(reader) % DATA_LEN_MAX);
    }
}

static void read_request(struct wire_reader *reader, struct model *model, struct request *request)
{
    uint8_t kind = wire_get_u8(reader);

    *request = (struct request){0};
    if ((kind & 3U) == 3) {
        request->args = (struct op_args){.op = OP_MULTI, .ops = request->ops};
        request->args.op_count = (kind >> 2) % (OPS_MAX + 1);
        for (uint32_t i = 0; i < request->args.op_count; i++) {
            read_op(reader, model, request, &request->ops[i]);
        }
        return;
    }
    read_op(reader, model, request, &request->args);
    if ((kind & 0x30U) == 0x30 && request->args.op != OP_CREATE) {
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
    struct state *state;
    struct prep *prep;
    struct pending queue[QUEUE_MAX]; /* Prepared, not applied; oldest first. */
    size_t queue_len;
    zxid_t zxid;
    int64_t time_ms;
    size_t prepared;
};

static struct model model;

static bool is_same_stat(const struct stat_view *a, const struct stat_view *b)
{
    return a->czxid == b->czxid && a->mzxid == b->mzxid && a->pzxid == b->pzxid &&
           a->ctime == b->ctime && a->mtime == b->mtime && a->version == b->version &&
           a->cversion == b->cversion && a->data_length == b->data_length &&
           a->num_children == b->num_children;
}

static void check_verdict(const struct op_result *got, const struct model_verdict *want)
{
    ASSERT(got->err == want->err && got->has_stat == want->has_stat);
    ASSERT(!want->has_stat || is_same_stat(&got->stat, &want->stat));
    ASSERT(got->result_count == 0 || got->failed_index == want->failed);
}

static void check_znodes(const struct state *state)
{
    ASSERT(state_node_count(state) == model.count);
    for (size_t i = 0; i < model.count; i++) {
        const struct model_node *want = &model.nodes[i];
        const struct znode *got = kit_find(state, want->path);
        struct stat_view stat;

        ASSERT(got);
        znode_stat(got, &stat);
        ASSERT(is_same_stat(&stat, &want->stat) && znode_owner(got) == want->owner);
        ASSERT(znode_creates(got) == want->creates && (znode_data(got) == NULL) == want->null);
        ASSERT(slice_eq(blob_slice(znode_data(got)), slice_str(want->data)));
    }
}

static void apply_oldest(struct run *run, struct state_changes *changes)
{
    struct pending first = run->queue[0];
    size_t replies = 0;
    enum err err = state_apply(run->state, first.zxid, buf_slice(&first.txn), false, changes);

    ASSERT(err == ERR_OK);
    for (size_t i = 0; i < changes->count; i++) {
        if (changes->items[i].reply) {
            const struct model_reply *want = &first.verdict.replies[replies++];

            ASSERT(slice_eq(changes->items[i].path, slice_str(want->path)));
            ASSERT(is_same_stat(&changes->items[i].stat, &want->stat));
        }
    }
    ASSERT(replies == first.verdict.reply_count);
    buf_release(&first.txn);
    run->queue_len--;
    memmove(&run->queue[0], &run->queue[1], run->queue_len * sizeof(run->queue[0]));
    prep_applied(run->prep, first.zxid);
}

static void one_request(struct run *run, struct wire_reader *reader)
{
    struct request request;
    struct op_result result;
    struct model_verdict verdict;
    struct pending *last = &run->queue[run->queue_len];
    const struct model_moment at = {.zxid = run->zxid + 1, .time_ms = run->time_ms};
    const struct txn_header header = {.time_ms = at.time_ms};

    read_request(reader, &model, &request);
    model_request(&model, &limits, &request.args, at, &verdict);
    op_result_init(&result);
    buf_init(&last->txn, 1 << 20);

    enum err err = prep_request(run->prep, run->state,
                                &(struct prep_job){.args = &request.args, .header = &header},
                                at.zxid, &last->txn, &result);

    ASSERT(err == verdict.err);
    check_verdict(&result, &verdict);
    op_result_release(&result);
    if (err != ERR_OK) {
        ASSERT(last->txn.len == 0);
        buf_release(&last->txn);
        return;
    }
    last->zxid = ++run->zxid;
    last->verdict = verdict;
    run->queue_len++;
    run->prepared++;
}

bool fuzz_one(struct slice input)
{
    static struct run run;
    struct state_changes changes = {0};
    struct wire_reader reader;

    run = (struct run){.state = state_new(1), .prep = prep_new(&limits), .time_ms = 1000};
    model_init(&model);
    wire_reader_init(&reader, input);
    for (int i = 0; i < REQUESTS_MAX && fuzz_more(&reader) && model.count < NODES_MAX; i++) {
        uint8_t pace = wire_get_u8(&reader);

        one_request(&run, &reader);
        run.time_ms += pace >= 0xf0 ? 400000 : pace & 15;
        /* How many are applied before the next one is prepared. */
        for (int k = 0; k < (pace >> 4 & 3) || run.queue_len == QUEUE_MAX; k++) {
            if (run.queue_len > 0) {
                apply_oldest(&run, &changes);
            }
        }
        if (run.queue_len == 0) {
            ASSERT(prep_pending(run.prep) == 0);
        }
    }
    while (run.queue_len > 0) {
        apply_oldest(&run, &changes);
    }
    check_znodes(run.state);
    state_check(run.state);
    state_changes_release(&changes);
    prep_free(run.prep);
    state_free(run.state);
    return run.prepared > 0;
}

void fuzz_seeds(struct fuzz_sink *sink)
{
    static const uint8_t plain[] = {
        0x00, 0x00, 0x00, 0x00, 0x00, 5, /* create /a */
        0x00, 0x00, 0x00, 0x54, 0x00, 5, /* create /a/a */
        0x10, 0x00, 0x01, 0x00, 0x00, 3, /* set /a */
        0x00, 0x00, 0x02, 0x54, 0x00,    /* delete /a/a */
        0x30, 0x00, 0x02, 0x00, 0x11,    /* delete /a, version 0 */
    };
    static const uint8_t kinds[] = {
        0x00, 0x00, 0x00, 0x00, 0x02, 1,                               /* a container */
        0x00, 0x00, 0x00, 0x01, 0x30, 9, 2,                            /* with a time to live */
        0x00, 0x00, 0x00, 0x54, 0x44, 3,                               /* a sequence below /a */
        0xf0, 0x00, 0x00, 0x54, 0x44, 3, 0x30, 0x30, 0x02, 0x01, 0x00, /* reap */
        0x30, 0x30, 0x02, 0x00, 0x00,
    };
    static const uint8_t multi[] = {
        0x00, 0x0f, 0x00, 0x00, 0x01, 5,    0x00, 0x54, 0x00, 5,    0x03, 0x00, 0x00, 0x30,
        0x0b, 0x02, 0x54, 0x00, 0x06, 0x00, 0x00, 0x00, 0x00, 0x25, 0xf8, 0x00, 4, /* upsert with
                                                                                      parents */
    };

    fuzz_seed(sink, "plain", slice_make(plain, sizeof(plain)));
    fuzz_seed(sink, "kinds", slice_make(kinds, sizeof(kinds)));
    fuzz_seed(sink, "multi", slice_make(multi, sizeof(multi)));
}
