/*
 * Connections of native clients to the whole front end: frames of any kind in slices of any length,
 * a gate that answers when and in which order the input says, clients that read slowly, hang up,
 * take over each other's sessions, and a tree that others change.
 *
 * Whatever happens: replies come in the order of requests, one for each, or the connection ends;
 * each can be read by the rules of its request; the zxid of a header never falls, and is never
 * ahead of the events told; the bounds of memory hold, and nothing is left at the end.
 */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/zk_caller.h"
#include "tests/lib/zk_ask.h"
#include "tests/unit/zk_bench.h"

#include <sys/socket.h>

enum {
    CALLERS = 3,
    STEPS_MAX = 600,
    ROUNDS_AHEAD = 10,
    PASS_MS = 50,
    ROUNDS_MAX = 20000, /* Until all is quiet. */
    PENDING_MAX = 256 << 10,
    ROOM_SMALL = 1, /* The kernel makes it some thousand bytes. */
    DATA_MAX = 4000,
    TIMEOUT_MS = 10000
};

struct run {
    struct zk_bench bench;
    struct zk_caller callers[CALLERS];
    size_t answered;
};

static const char *const paths[] = {"/", "/a", "/a/b", "/a/b/c", "/zookeeper", "/c-", "/bad/", ""};

enum {
    PATHS = sizeof(paths) / sizeof(paths[0])
};

/* ---- The steps of an input ---- */

static void dial(struct run *run, struct zk_caller *caller, uint8_t how)
{
    const struct zk_caller *other = &run->callers[how % CALLERS];
    uint64_t session = how & 4U ? other->session : 0;
    zxid_t seen = how & 8U ? max_u64(other->replied, other->told) + (how & 16U ? 1 : 0) : 0;
    uint8_t passwd[ZK_PASSWD_BYTES];

    memcpy(passwd, other->passwd, sizeof(passwd));
    passwd[0] ^= how & 32U ? 1 : 0;
    zk_caller_hang_up(caller);
    caller->fd = zk_bench_dial(&run->bench, how & 64U ? ROOM_SMALL : 0);
    if ((how & 128U) == 0) {
        zk_ask_hello(&caller->pending, seen, TIMEOUT_MS, session, passwd);
    }
}

static const char *path_of(uint8_t arg)
{
    return paths[arg % PATHS];
}

static struct slice data_of(uint8_t arg)
{
    static const uint8_t data[DATA_MAX];
    static const uint16_t sizes[] = {0, 3, 200, DATA_MAX};

    return slice_make(data, sizes[arg / PATHS % 4]);
}

static void ask_watches(struct zk_caller *caller, const struct run *run, uint8_t arg)
{
    size_t first = arg % PATHS;
    const struct zk_ask_list some = {&paths[first], 1U + arg / PATHS % (PATHS - first)};
    struct zk_ask_list lists[ZK_LISTS] = {{0}};

    for (unsigned i = 0; i < ZK_LISTS; i++) {
        if (((uint32_t)arg >> i) & 1U) {
            lists[i] = some;
        }
    }
    zk_ask_watches(&caller->pending, ZK_XID_SET_WATCHES, arg & 32U ? run->bench.gate->zxid : 0,
                   lists);
}

static void ask_auth(struct zk_caller *caller, uint8_t arg)
{
    size_t at = zk_ask_begin(&caller->pending, ZK_XID_AUTH, ZK_AUTH);

    zk_put_int(&caller->pending, 0);
    zk_put_bytes(&caller->pending, slice_str(arg & 1U ? "digest" : "ip"));
    zk_put_bytes(&caller->pending, slice_str(arg & 2U ? "bob:pw" : "x"));
    zk_frame_end(&caller->pending, at);
}

/* What stands behind the path: a watch, a number, or nothing. */
static int flag_of(int32_t type, uint8_t arg)
{
    switch (type) {
    case ZK_GET_DATA:
    case ZK_EXISTS:
    case ZK_GET_CHILDREN:
    case ZK_GET_CHILDREN2:
        return arg / PATHS % 4 == 3 ? -1 : arg / PATHS % 2;
    case ZK_ADD_WATCH:
    case ZK_CHECK_WATCHES:
    case ZK_REMOVE_WATCHES:
        return arg / PATHS % 8;
    default:
        return -1;
    }
}

static void ask_other(struct run *run, struct zk_caller *caller, int32_t type, uint8_t arg)
{
    switch (type) {
    case ZK_AUTH:
        ask_auth(caller, arg);
        break;
    case ZK_SET_WATCHES:
        ask_watches(caller, run, arg);
        break;
    case ZK_PING:
        zk_ask_plain(&caller->pending, ZK_XID_PING, type);
        break;
    case ZK_WHO_AM_I:
    case ZK_CLOSE_SESSION:
    case ZK_SASL:
        zk_ask_plain(&caller->pending, ++caller->xid, type);
        break;
    default:
        zk_ask_path(&caller->pending, ++caller->xid, type, path_of(arg), flag_of(type, arg));
        break;
    }
}

static void ask(struct run *run, struct zk_caller *caller, uint8_t what, uint8_t arg)
{
    static const int32_t types[] = {ZK_GET_DATA,
                                    ZK_EXISTS,
                                    ZK_GET_CHILDREN,
                                    ZK_GET_CHILDREN2,
                                    ZK_SET_DATA,
                                    ZK_CREATE,
                                    ZK_CREATE2,
                                    ZK_DELETE,
                                    ZK_SYNC,
                                    ZK_PING,
                                    ZK_MULTI,
                                    ZK_SET_WATCHES,
                                    ZK_ADD_WATCH,
                                    ZK_REMOVE_WATCHES,
                                    ZK_CHECK_WATCHES,
                                    ZK_AUTH,
                                    ZK_WHO_AM_I,
                                    ZK_GET_EPHEMERALS,
                                    ZK_GET_ALL_CHILDREN_NUMBER,
                                    ZK_GET_ACL,
                                    ZK_CREATE_TTL,
                                    ZK_CLOSE_SESSION,
                                    ZK_SASL,
                                    ZK_RECONFIG};
    int32_t type = types[what % (sizeof(types) / sizeof(types[0]))];

    switch (type) {
    case ZK_SET_DATA:
        zk_ask_set(&caller->pending, ++caller->xid, path_of(arg), data_of(arg), -1);
        break;
    case ZK_CREATE:
    case ZK_CREATE2:
        zk_ask_create(&caller->pending, ++caller->xid, type, path_of(arg), data_of(arg), arg >> 6U);
        break;
    case ZK_CREATE_TTL:
        zk_ask_create(&caller->pending, ++caller->xid, type, path_of(arg), data_of(arg), 5);
        break;
    case ZK_DELETE:
        zk_ask_delete(&caller->pending, ++caller->xid, path_of(arg), arg < 128 ? -1 : 0);
        break;
    case ZK_MULTI:
        zk_ask_multi(&caller->pending, ++caller->xid, path_of(arg), -1, path_of(arg / PATHS));
        break;
    default:
        ask_other(run, caller, type, arg);
        break;
    }
}

/* Another front end changes the tree. */
static void write_else(struct run *run, uint8_t how)
{
    struct op_args args;

    static const enum op_id ops[] = {OP_CREATE, OP_SET, OP_DELETE};

    const char *why = NULL;

    op_args_init(&args, ops[how / PATHS % 3]);
    args.path = slice_str(path_of(how));
    args.data = args.op == OP_DELETE ? slice_make(NULL, 0) : slice_str("else");
    if (op_args_check(&args, &why) == ERR_OK) {
        (void)zk_bench_write(&run->bench, &args);
    }
}

static void set_mood(struct gate *gate, uint8_t mood)
{
    static const enum err errs[] = {ERR_OK,        ERR_OK,     ERR_THROTTLED,
                                    ERR_NOT_READY, ERR_CLOSED, ERR_OUTCOME_UNKNOWN,
                                    ERR_NO_AUTH,   ERR_NO_NODE};

    atomic_store(&gate->reply_err, errs[mood & 7U]);
    atomic_store(&gate->submit_err, mood & 8U ? ERR_THROTTLED : mood & 16U ? ERR_CLOSED : ERR_OK);
    atomic_store(&gate->local_err, mood & 32U ? ERR_NOT_READY : ERR_OK);
}

static void turn(struct run *run)
{
    zk_bench_round(&run->bench);
    zk_bench_check(&run->bench);
}

/* Everything that can move moves; false when nothing could. */
static bool flow(struct run *run)
{
    bool moved = false;

    for (size_t i = 0; i < CALLERS; i++) {
        moved = zk_caller_deliver(&run->callers[i], SIZE_MAX) || moved;
    }
    turn(run);
    while (zk_bench_run(&run->bench, 0)) {
        moved = true;
    }
    while (zk_bench_answer(&run->bench, 0)) {
        moved = true;
    }
    zk_bench_retry(&run->bench);
    turn(run);
    for (size_t i = 0; i < CALLERS; i++) {
        moved =
            zk_caller_receive(&run->callers[i], run->bench.gate->zxid, ZK_CALLER_READ_MAX) || moved;
    }
    return moved || !list_empty(&run->bench.zk->turn) || !list_empty(&run->bench.zk->later);
}

static void settle(struct run *run)
{
    uint32_t quiet = 0;

    for (uint32_t rounds = 0; quiet < 3; rounds++) {
        ASSERT(rounds < ROUNDS_MAX);
        quiet = flow(run) ? 0 : quiet + 1;
    }
}

static void send_step(struct run *run, struct zk_caller *caller, uint8_t step,
                      struct wire_reader *input)
{
    uint8_t what = step % 3 == 0 ? 0 : wire_get_u8(input);
    uint8_t arg = step % 3 == 0 ? 0 : wire_get_u8(input);
    uint32_t times = step % 3 == 2 ? 1U + wire_get_u8(input) % 64 : 1;

    if (step % 3 == 0) {
        struct slice raw = fuzz_take(input, FUZZ_INPUT_MAX);

        buf_append_slice(&caller->pending, raw);
    }
    for (uint32_t i = 0; step % 3 != 0 && i < times && caller->pending.len < PENDING_MAX; i++) {
        ask(run, caller, what, arg);
    }
}

static void gate_step(struct run *run, uint8_t step, uint8_t pick)
{
    switch (step) {
    case 0:
        (void)zk_bench_run(&run->bench, pick);
        break;
    case 1:
        (void)zk_bench_answer(&run->bench, pick);
        break;
    case 2:
        write_else(run, pick);
        break;
    case 3:
        set_mood(run->bench.gate, pick);
        break;
    case 4:
        if (pick % 16 == 0) {
            zk_bench_replace(&run->bench);
        } else if (pick % 16 == 1) {
            zk_bench_suspend(&run->bench);
        } else {
            zk_bench_pass(&run->bench, PASS_MS * (uint64_t)pick);
        }
        break;
    default:
        zk_bench_retry(&run->bench);
        break;
    }
}

static void step(struct run *run, struct wire_reader *input)
{
    uint8_t head = wire_get_u8(input);
    struct zk_caller *caller = &run->callers[head / 16 % CALLERS];
    uint8_t kind = head % 16;
    uint8_t pick = kind < 3 ? 0 : wire_get_u8(input);

    switch (kind) {
    case 0:
    case 1:
    case 2:
        send_step(run, caller, kind, input);
        break;
    case 3:
    case 4:
        (void)zk_caller_deliver(caller, pick == 0 ? SIZE_MAX : pick);
        turn(run);
        break;
    case 5:
        (void)zk_caller_receive(caller, run->bench.gate->zxid,
                                pick == 0 ? ZK_CALLER_READ_MAX : pick);
        break;
    case 6:
        dial(run, caller, pick);
        break;
    case 7:
        if (pick % 2 == 0) {
            zk_caller_hang_up(caller);
        } else if (caller->fd >= 0) {
            (void)shutdown(caller->fd, SHUT_WR);
        }
        break;
    case 8:
        for (uint8_t i = 0; i <= pick % 8; i++) {
            (void)flow(run);
        }
        break;
    case 9:
        turn(run);
        break;
    default:
        gate_step(run, kind - 10, pick);
        break;
    }
}

/* ---- The end ---- */

static void end(struct run *run)
{
    set_mood(run->bench.gate, 0);
    atomic_store(&run->bench.gate->suspends, false);
    if (run->bench.suspended) {
        zk_bench_replace(&run->bench);
    }
    settle(run);
    for (size_t i = 0; i < CALLERS; i++) {
        zk_caller_check_end(&run->callers[i], run->bench.gate->zxid);
        run->answered += run->callers[i].answered;
        zk_caller_hang_up(&run->callers[i]);
    }
    for (uint32_t rounds = 0; run->bench.seats > 0; rounds++) {
        ASSERT(rounds < ROUNDS_MAX);
        turn(run);
        if (rounds == ROUNDS_AHEAD) { /* A client that is ahead is not read. */
            zk_bench_pass(&run->bench, ZK_AHEAD_MS);
        }
    }
    zk_bench_close(&run->bench);
}

static bool fuzz_one(struct slice input)
{
    static struct run run;
    struct wire_reader reader;

    run.answered = 0;
    zk_bench_open(&run.bench);
    for (size_t i = 0; i < CALLERS; i++) {
        zk_caller_init(&run.callers[i]);
        dial(&run, &run.callers[i], 0);
    }
    (void)flow(&run);
    wire_reader_init(&reader, input);
    for (uint32_t steps = 0; steps < STEPS_MAX && fuzz_more(&reader); steps++) {
        step(&run, &reader);
    }
    end(&run);
    return run.answered > 0;
}

/* ---- Seeds ---- */

/* Indexes of `types` in ask(). */
enum {
    GET = 0,
    CHILDREN = 3,
    SET = 4,
    CREATE = 5,
    DELETE = 7,
    SYNC = 8,
    PING = 9,
    MULTI = 10,
    SET_WATCHES = 11,
    ADD_WATCH = 12,
    REMOVE = 13,
    WHO = 16,
    COUNT = 18,
    CLOSE = 21
};

enum {
    FLOWS = 5, /* The clients are welcome, and their requests are answered. */
    PATH_A = 1,
    NO_PATH = PATHS - 1,
    WATCHED = PATHS,   /* The flag of a read, and a recursive addWatch. */
    LARGE = 3 * PATHS, /* Data of DATA_MAX bytes. */
    SECOND = 16,       /* The second client. */
    SMALL_ROOM = 64,
    TAKES_OVER = 4 + 8 /* dial(): the session of the first client, and what it has seen. */
};

static void put(struct buf *out, const uint8_t *bytes, size_t count)
{
    buf_append_slice(out, slice_make(bytes, count));
}

#define PUT(out, ...)                              \
    do {                                           \
        const uint8_t put_bytes[] = {__VA_ARGS__}; \
        put(out, put_bytes, sizeof(put_bytes));    \
    } while (0)

static void seed(struct fuzz_sink *sink, const char *name, struct buf *script)
{
    fuzz_seed(sink, name, buf_slice(script));
    buf_clear(script);
}

static void seed_raw(struct fuzz_sink *sink, const char *name, struct slice bytes,
                     struct buf *script)
{
    PUT(script, 1, WHO, 0, 8, FLOWS, 8, FLOWS, 8, 0,
        0); /* The last one is the kind of the next step. */
    fuzz_put(script, bytes);
    PUT(script, 3, 5, 3, 0, 8, FLOWS);
    seed(sink, name, script);
}

static void seed_hostile(struct fuzz_sink *sink, struct buf *script)
{
    static const uint8_t huge[] = {0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1, 0, 0, 0, 4};
    static const uint8_t negative[] = {0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1};
    static const uint8_t leaders[] = {0, 0, 0, 8, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xf6};
    static const uint8_t check[] = {0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 13};

    seed_raw(sink, "huge", slice_make(huge, sizeof(huge)), script);
    seed_raw(sink, "negative", slice_make(negative, sizeof(negative)), script);
    seed_raw(sink, "opcode-of-leader", slice_make(leaders, sizeof(leaders)), script);
    seed_raw(sink, "bare-check", slice_make(check, sizeof(check)), script);
    PUT(script, SECOND + 1, WHO, 0, 6, 128, 0, 4, 0, 's', 't', 'a', 't', 3, 2, 3, 0, 8, FLOWS, 6,
        0);
    seed(sink, "word-in-halves", script);
}

static void fuzz_seeds(struct fuzz_sink *sink)
{
    struct buf script;

    buf_init(&script, FUZZ_INPUT_MAX);
    PUT(&script, 1, CREATE, PATH_A, 1, GET, PATH_A + WATCHED, 1, SET, PATH_A, 1, PING, 0, 1, GET,
        PATH_A, 1, DELETE, PATH_A, 3, 7, 3, 50, 3, 0, 10, 0, 10, 0, 11, 1, 9, 0, 11, 0, 5, 20);
    seed(sink, "slices", &script);
    PUT(&script, 2, CREATE, PATH_A + LARGE, 1, 2, SET, PATH_A + LARGE, 20, 2, GET, PATH_A, 30, 3, 0,
        3, 0, 10, 3, 10, 7, 10, 9, 11, 5, 11, 2, 9, 0, 5, 9);
    seed(sink, "writes-in-the-gate", &script);
    PUT(&script, 6, SMALL_ROOM, 8, FLOWS, 1, CREATE, PATH_A + LARGE, 8, FLOWS, 2, GET, PATH_A, 63,
        2, GET, PATH_A, 63, 2, GET, PATH_A, 63, 2, GET, PATH_A, 63, 2, GET, PATH_A, 63, 2, GET,
        PATH_A, 63, 2, GET, PATH_A, 63, 3, 0, 9, 0, 3, 0, 9, 0, 9, 0, 5, 100, 9, 0, 5, 0);
    seed(sink, "slow-reader", &script);
    PUT(&script, 1, CREATE, PATH_A, 1, ADD_WATCH, WATCHED, 1, CHILDREN, WATCHED, 8, FLOWS,
        SECOND + 2, SET, PATH_A, 9, SECOND + 3, 0, 10, 0, 12, PATH_A + PATHS, 12, 2, 10, 0, 1, GET,
        PATH_A, 3, 0, 11, 0, 1, REMOVE, 5 * PATHS, 8, FLOWS, 12, PATH_A + 2 * PATHS);
    seed(sink, "watches", &script);
    PUT(&script, 1, CREATE, PATH_A, 8, FLOWS, 1, SET_WATCHES, NO_PATH, 8, FLOWS);
    seed(sink, "missed-events-of-no-path", &script);
    PUT(&script, 1, CREATE, PATH_A + 64, 8, FLOWS, SECOND + 6, TAKES_OVER, SECOND + 1, SET_WATCHES,
        PATH_A + 32 + 7, SECOND + 1, SYNC, PATH_A, SECOND + 3, 0, 1, GET, PATH_A, 3, 0, 10, 0, 11,
        0, 8, FLOWS, SECOND + 1, WHO, 0, SECOND + 1, CLOSE, 0, SECOND + 1, GET, 1, 8, FLOWS);
    seed(sink, "take-over", &script);
    PUT(&script, 13, 8, 2, CREATE, PATH_A, 5, 3, 0, 13, 0, 15, 0, 9, 0, 10, 0, 13, 5, 10, 0, 11, 0,
        13, 0, 8, FLOWS, 13, 32, 1, COUNT, 0, 3, 0, 9, 0);
    seed(sink, "moods", &script);
    PUT(&script, 1, CREATE, PATH_A, 1, ADD_WATCH, WATCHED, 8, FLOWS, 14, 1, 1, SET, PATH_A,
        SECOND + 1, GET, PATH_A, 3, 0, SECOND + 3, 0, 10, 0, 11, 0, 9, 0, SECOND + 1, GET, PATH_A,
        SECOND + 3, 0, 9, 0, 14, 0, 9, 0);
    seed(sink, "suspended", &script);
    PUT(&script, 1, ADD_WATCH, WATCHED, 1, MULTI, PATH_A, 8, FLOWS, 14, 16, 9, 0, 9, 0, 7, 1, 8,
        FLOWS, SECOND + 7, 0);
    seed(sink, "lost", &script);
    seed_hostile(sink, &script);
    buf_release(&script);
}

FUZZ_TARGET(zk_conn)
