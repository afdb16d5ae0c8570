/*
 * The form of requests and results between replicas. The first byte chooses. What decodes has
 * passed the rules of requests, and encodes to bytes that decode to the same.
 */
#include "base/mem.h"
#include "server/op/acl.h"
#include "server/op/change.h"
#include "server/op/ops.h"
#include "tests/fuzz/fuzz.h"

enum {
    FORM_ARGS,
    FORM_RESULT,
    BYTES_MAX = 1 << 20
};

static bool try_args(struct slice bytes)
{
    struct op_args args;
    struct op_args *multi = NULL;
    struct buf first;
    struct buf second;
    const char *why = NULL;
    enum err err = op_args_decode(bytes, &args, &multi);

    if (err != ERR_OK) {
        ASSERT((err == ERR_FORMAT || err == ERR_TOO_LARGE) && !multi);
        return false;
    }
    ASSERT(args.ops == multi && args.op_count <= OPS_MULTI_MAX && args.op_count <= bytes.len);
    ASSERT(op_args_check(&args, &why) == ERR_OK);
    buf_init(&first, BYTES_MAX);
    buf_init(&second, BYTES_MAX);
    op_args_encode(&args, &first);
    mem_free(multi);
    err = op_args_decode(buf_slice(&first), &args, &multi);
    ASSERT(err == ERR_OK);
    op_args_encode(&args, &second);
    mem_free(multi);
    ASSERT(!first.overflow && slice_eq(buf_slice(&first), buf_slice(&second)));
    ASSERT(first.len <= bytes.len);
    buf_release(&first);
    buf_release(&second);
    return true;
}

static bool try_result(struct slice bytes)
{
    struct op_result result;
    struct op_result again;
    struct buf first;
    struct buf second;

    op_result_init(&result);
    op_result_init(&again);

    enum err err = op_result_decode(bytes, &result);

    if (err == ERR_OK) {
        ASSERT(result.err < ERR_COUNT && result.result_count <= OPS_MULTI_MAX);
        ASSERT(result.result_count == 0 || result.err == ERR_OK ||
               result.failed_index < result.result_count);
        buf_init(&first, BYTES_MAX);
        buf_init(&second, BYTES_MAX);
        op_result_encode(&result, &first);
        ASSERT(op_result_decode(buf_slice(&first), &again) == ERR_OK);
        op_result_encode(&again, &second);
        ASSERT(!first.overflow && slice_eq(buf_slice(&first), buf_slice(&second)));
        buf_release(&first);
        buf_release(&second);
    } else {
        ASSERT(err == ERR_FORMAT && !result.results);
    }
    op_result_release(&result);
    op_result_release(&again);
    return err == ERR_OK;
}

static bool fuzz_one(struct slice input)
{
    struct wire_reader reader;

    wire_reader_init(&reader, input);

    bool is_result = (wire_get_u8(&reader) & 1U) == FORM_RESULT;
    struct slice bytes = fuzz_rest(&reader);

    return is_result ? try_result(bytes) : try_args(bytes);
}

static void seed_args(struct fuzz_sink *sink, const char *name, const struct op_args *args)
{
    struct buf bytes;

    buf_init(&bytes, FUZZ_INPUT_MAX);
    wire_put_u8(&bytes, FORM_ARGS);
    op_args_encode(args, &bytes);
    fuzz_seed(sink, name, buf_slice(&bytes));
    buf_release(&bytes);
}

static void seed_result(struct fuzz_sink *sink, const char *name, const struct op_result *result)
{
    struct buf bytes;

    buf_init(&bytes, FUZZ_INPUT_MAX);
    wire_put_u8(&bytes, FORM_RESULT);
    op_result_encode(result, &bytes);
    fuzz_seed(sink, name, buf_slice(&bytes));
    buf_release(&bytes);
}

/* One request of each row that stands alone. Only the fields of the row travel. */
static void seed_rows(struct fuzz_sink *sink)
{
    for (const struct op_def *def = ops_table(); def->name; def++) {
        uint8_t hash[TXN_SECRET_HASH_LEN];
        uint8_t ids[OP_ID_BYTES];
        struct op_args args;

        op_args_init(&args, def->id);
        if (def->id != OP_CHECK && def->id != OP_MULTI) {
            args.path = slice_str("/a/b");
            args.data = slice_str("data");
            args.upsert = true; /* A set may carry an ACL only then. */
            args.session = 77;
            args.watch_id = 5;
            args.raise = 2;
            args.member = 4;
            args.has_peer = true;
            args.peer = slice_str("zk4:10998");
            op_ids_put(ids, 0, 4);
            args.promote = slice_make(ids, sizeof(ids));
            args.scheme = slice_str("digest");
            args.credential = slice_str("me:pw");
            args.has_acl = acl_standard(slice_str("creator"), &args.acl);
            op_args_hash_secret(&args, hash);
            seed_args(sink, def->name, &args);
        }
    }
}

static void fuzz_seeds(struct fuzz_sink *sink)
{
    struct op_result results[2] = {{.err = ERR_RUNTIME_INCONSISTENCY}, {.err = ERR_BAD_VERSION}};
    struct op_result result = {.err = ERR_BAD_VERSION,
                               .detail = "why",
                               .has_stat = true,
                               .stat = {.czxid = 5, .version = 3}};
    struct op_args ops[3];
    struct op_args multi;
    struct op_result answer = {.path = slice_str("/q/n-0000000007"),
                               .created = true,
                               .replayed = true,
                               .has_acl = true,
                               .has_session = true,
                               .session = {.id = 5, .timeout_ms = 15000, .member = 2}};

    seed_rows(sink);
    op_args_init(&multi, OP_MULTI);
    op_args_init(&ops[0], OP_CREATE);
    op_args_init(&ops[1], OP_CHECK);
    op_args_init(&ops[2], OP_DELETE);
    ops[0].path = slice_str("/q/n-");
    ops[0].sequence = true;
    ops[0].data_null = true;
    ops[1].path = slice_str("/a");
    ops[1].has_version = true;
    ops[2].path = slice_str("/b");
    ops[2].has_etag = true;
    ops[2].etag_czxid = 77;
    multi.ops = ops;
    multi.op_count = 3;
    seed_args(sink, "multi", &multi);

    seed_result(sink, "result", &result);
    seed_result(sink, "result-answer", &answer);
    result.results = results;
    result.result_count = 2;
    result.failed_index = 1;
    seed_result(sink, "result-multi", &result);
}

FUZZ_TARGET(op_wire)
