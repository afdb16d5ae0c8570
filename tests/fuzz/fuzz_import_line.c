/*
 * The body of an import, cut into pieces at will: whatever it is, no byte is lost or used twice,
 * nothing refers to freed memory, and each batch fits the form between replicas. The input decides
 * whether batches succeed. Its first byte chooses the parameters.
 */
#include "base/mem.h"
#include "server/read/view.h"
#include "server/state/state.h"
#include "server/transfer/import.h"
#include "tests/fuzz/fuzz.h"

enum {
    SKIP = 1, /* Bits of the first byte. */
    OVERWRITE = 2,
    DRY = 4,
    FAILS = 8, /* The second batch, if there is one. */
    PIECE_SHIFT = 4,
    ROUNDS_MAX = 100000,
    OUT_MAX = 1 << 20
};

static void check_multi(const struct op_args *args)
{
    struct op_args back;
    struct op_args *multi = NULL;
    struct buf first;
    struct buf second;
    const char *why = NULL;

    ASSERT(args->op == OP_MULTI && args->op_count > 0 && op_args_check(args, &why) == ERR_OK);
    buf_init(&first, OUT_MAX);
    buf_init(&second, OUT_MAX);
    op_args_encode(args, &first);
    ASSERT(op_args_decode(buf_slice(&first), &back, &multi) == ERR_OK);
    op_args_encode(&back, &second);
    ASSERT(!first.overflow && slice_eq(buf_slice(&first), buf_slice(&second)));
    mem_free(multi);
    buf_release(&first);
    buf_release(&second);
}

static void answer(struct import *import, bool fails)
{
    struct op_request *op = op_request_new();
    struct op_result result;

    op_result_init(&result);
    import_fill(import, op);
    check_multi(&op->args);
    if (fails) {
        result.err = ERR_NODE_EXISTS;
        result.failed_index = op->args.op_count - 1;
        result.results = mem_zalloc(op->args.op_count, sizeof(*result.results));
        result.result_count = op->args.op_count;
    } else {
        result.zxid = 7;
    }
    import_answer(import, &result);
    op_result_release(&result);
    op_request_free(op);
}

/* Reads to its end; true when all of it was accepted. */
static bool drive(struct import *import, struct slice body, size_t piece, bool fails)
{
    uint32_t rounds = 0;
    uint32_t batches = 0;
    size_t at = 0;

    while (import_state(import) == IMPORT_TAKES || import_state(import) == IMPORT_READY) {
        size_t len = body.len - at < piece ? body.len - at : piece;

        ASSERT(++rounds < ROUNDS_MAX);
        if (import_state(import) == IMPORT_READY) {
            answer(import, fails && ++batches > 1);
        } else if (len == 0) {
            import_end(import);
        } else {
            size_t used = import_take(import, slice_make(body.data + at, len));

            ASSERT(used <= len);
            at += used;
        }
    }
    const struct op_import_figures *figures = import_figures(import);

    ASSERT(figures->lines == figures->created + figures->skipped + figures->overwritten);
    if (import_state(import) == IMPORT_FAILED) {
        const struct op_fault *fault = import_fault(import);

        ASSERT(fault->err != ERR_OK && fault->detail[0] != '\0' && figures->line > 0);
        return false;
    }
    ASSERT(at == body.len && figures->line == 0);
    return true;
}

static bool fuzz_one(struct slice input)
{
    struct wire_reader reader;
    /* In the network that an ACL of the seeds names. */
    struct op_principal someone = {.auth = NULL, .address = "10.0.0.1"};
    struct import_limits limits = {
        .data_bytes_max = 1024, .multi_ops_max = 8, .multi_bytes_max = 8192};
    struct op_args args;
    struct view *view = view_new();

    wire_reader_init(&reader, input);
    uint8_t choice = wire_get_u8(&reader);
    struct slice body = fuzz_rest(&reader);

    view_replace(view, state_new(1));
    view_set_whole(view, true);
    op_args_init(&args, OP_IMPORT);
    args.path = slice_str(choice & OVERWRITE ? "/" : "/zookeeper");
    args.conflict = choice & SKIP        ? OP_CONFLICT_SKIP
                    : choice & OVERWRITE ? OP_CONFLICT_OVERWRITE
                                         : OP_CONFLICT_FAIL;
    args.dry_run = (choice & DRY) != 0;
    struct import *import = import_new(view, &someone, &args, &limits);
    bool done = drive(import, body, 1U + (1U << (choice >> PIECE_SHIFT)), (choice & FAILS) != 0);

    import_free(import);
    view_free(view);
    return done;
}

static void seed(struct fuzz_sink *sink, const char *name, uint8_t choice, const char *text)
{
    struct buf bytes;

    buf_init(&bytes, FUZZ_INPUT_MAX);
    wire_put_u8(&bytes, choice);
    wire_put_raw(&bytes, slice_str(text));
    fuzz_seed(sink, name, buf_slice(&bytes));
    buf_release(&bytes);
}

static void fuzz_seeds(struct fuzz_sink *sink)
{
    static const char whole[] =
        "{\"export\":1,\"path\":\"/app\",\"zxid\":\"0x1\",\"history\":\"00000000000000ff\"}\n"
        "{\"path\":\"\",\"data64\":\"dG9w\",\"stat\":{\"czxid\":\"0x5\",\"version\":0}}\n"
        "{\"path\":\"a\",\"null\":true,\"acl\":[{\"perms\":[\"all\"],\"scheme\":\"ip\","
        "\"id\":\"10.0.0.0/8\"}],\"container\":true}\n"
        "{\"path\":\"a/b\",\"dataUtf8\":\"z\\u00fc\",\"ttl\":5000}\n"
        "{\"end\":true,\"znodes\":3,\"skippedEphemerals\":0,\"skippedUnreadable\":0}\n";
    static const char bare[] = "{\"path\":\"x\"}\n\n{\"path\":\"x/y\",\"dataJson\": [1, {}] }\r\n"
                               "{\"path\":\"z\",\"data64\":\"\"}";

    static const char plain[] =
        "{\"path\":\"x\",\"dataUtf8\":\"a string of so many characters that the parser does not "
        "see it\"}\n{\"data64\":"
        "\"MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3\",\"path\":\"y\"}\n";

    seed(sink, "whole", SKIP | 12 << PIECE_SHIFT, whole);
    seed(sink, "overwrite", OVERWRITE | 3 << PIECE_SHIFT, whole);
    seed(sink, "dry", DRY | SKIP | 15 << PIECE_SHIFT, whole);
    seed(sink, "bare", FAILS, bare);
    seed(sink, "bytes", SKIP, bare);
    seed(sink, "long", SKIP | 6 << PIECE_SHIFT, plain);
}

FUZZ_TARGET(import_line)
