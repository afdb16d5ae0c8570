/* The bytes of a transaction. */
#include "server/state/state.h"
#include "server/state/txn.h"
#include "tests/lib/unit.h"

static const struct txn_header header = {
    .origin_member = 3, .origin_boot = UINT64_MAX - 1, .request = 77, .age_ms = 5, .stamp_ms = -5};

TEST(each_type_comes_back)
{
    const struct txn_effect effects[] = {
        {.type = TXN_CREATE,
         .flags = TXN_REPLY,
         .path = slice_str("/a"),
         .data = slice_str("xy"),
         .acl = slice_str("acl"),
         .owner = OWNER_CONTAINER,
         .creates = 9},
        {.type = TXN_CREATE, .flags = TXN_NULL_DATA, .path = slice_str("/a/b")},
        {.type = TXN_SET, .path = slice_str("/a"), .data = slice_str("z"), .version = -7},
        {.type = TXN_DELETE, .flags = TXN_REPLY, .path = slice_str("/a/b")},
        {.type = TXN_CHECK, .path = slice_str("/")},
        {.type = TXN_SET_ACL, .path = slice_str("/a"), .acl = slice_str("w"), .version = 2},
        {.type = TXN_SESSION_OPEN, .extra = slice_str("session")},
        {.type = TXN_FORGET, .extra = slice_str("")},
    };
    struct wire_reader reader;
    struct txn_header got_header;
    struct txn_effect got;
    struct buf txn;

    buf_init(&txn, 4096);
    txn_begin(&txn, &header);
    for (size_t i = 0; i < sizeof(effects) / sizeof(effects[0]); i++) {
        txn_put(&txn, &effects[i]);
    }
    assert_int_equal(txn_open(&reader, buf_slice(&txn), &got_header), ERR_OK);
    assert_int_equal(got_header.origin_member, 3);
    assert_true(got_header.origin_boot == UINT64_MAX - 1);
    assert_int_equal(got_header.request, 77);
    assert_int_equal(got_header.age_ms, 5);
    assert_int_equal(got_header.stamp_ms, -5);
    for (size_t i = 0; i < sizeof(effects) / sizeof(effects[0]); i++) {
        assert_int_equal(txn_next(&reader, &got), ERR_OK);
        assert_int_equal(got.type, effects[i].type);
        assert_int_equal(got.flags, effects[i].flags);
        assert_true(slice_eq(got.path, effects[i].path));
        assert_true(slice_eq(got.data, effects[i].data));
        assert_true(slice_eq(got.acl, effects[i].acl));
        assert_true(slice_eq(got.extra, effects[i].extra));
        assert_true(got.owner == effects[i].owner);
        assert_int_equal(got.creates, effects[i].creates);
        assert_int_equal(got.version, effects[i].version);
    }
    assert_int_equal(txn_next(&reader, &got), ERR_MISSING);
    assert_int_equal(txn_next(&reader, &got), ERR_MISSING);
    buf_release(&txn);
}

/* Reads everything; OK or the first error. */
static enum err read_all(struct slice txn)
{
    struct wire_reader reader;
    struct txn_header got_header;
    struct txn_effect got;
    enum err err = txn_open(&reader, txn, &got_header);

    while (err == ERR_OK) {
        err = txn_next(&reader, &got);
    }
    return err == ERR_MISSING ? ERR_OK : err;
}

TEST(every_cut_is_noticed)
{
    struct buf txn;
    size_t header_len = 0;

    buf_init(&txn, 4096);
    txn_begin(&txn, &header);
    header_len = txn.len;
    txn_put(&txn, &(struct txn_effect){
                      .type = TXN_CREATE, .path = slice_str("/a"), .data = slice_str("xy")});
    assert_int_equal(read_all(buf_slice(&txn)), ERR_OK);
    for (size_t len = 0; len < txn.len; len++) {
        enum err want = len == header_len ? ERR_OK : ERR_FORMAT;

        assert_int_equal(read_all(slice_make(txn.data, len)), want);
    }
    buf_release(&txn);
}

static void assert_patched_refused(size_t pos, uint8_t value)
{
    struct buf txn;

    buf_init(&txn, 4096);
    txn_begin(&txn, &header);
    txn_put(&txn, &(struct txn_effect){.type = TXN_DELETE, .path = slice_str("/a")});
    txn.data[pos] = value;
    assert_int_equal(read_all(buf_slice(&txn)), ERR_FORMAT);
    buf_release(&txn);
}

TEST(what_is_not_known_is_refused)
{
    assert_patched_refused(0, 1);              /* Version: it had one time, of a wall clock. */
    assert_patched_refused(0, 3);              /* Version. */
    assert_patched_refused(1, 1);              /* Header flags. */
    assert_patched_refused(38, 0);             /* Type. */
    assert_patched_refused(38, 11);            /* Type. */
    assert_patched_refused(39, 4);             /* Effect flags. */
    assert_patched_refused(39, TXN_NULL_DATA); /* A delete has no data. */
    assert_patched_refused(44, 'a');           /* An illegal path. */
}

static struct txn_header read_with(int64_t age_ms, int64_t stamp_ms)
{
    struct txn_header got_header;
    struct wire_reader reader;
    struct buf txn;

    buf_init(&txn, 4096);
    txn_begin(&txn, &header);
    wire_store_u64(txn.data + 22, (uint64_t)age_ms);
    wire_store_u64(txn.data + 30, (uint64_t)stamp_ms);
    assert_int_equal(txn_open(&reader, buf_slice(&txn), &got_header), ERR_OK);
    buf_release(&txn);
    return got_header;
}

/* A committed transaction is read by all replicas: one that none can read would stop all. */
TEST(absurd_times_are_read_as_times_that_can_be)
{
    assert_int_equal(read_with(-1, 0).age_ms, 0);
    assert_int_equal(read_with(INT64_MIN, 0).age_ms, 0);
    assert_int_equal(read_with(TXN_AGE_MAX_MS + 1, 0).age_ms, 0);
    assert_true(read_with(TXN_AGE_MAX_MS, 0).age_ms == TXN_AGE_MAX_MS);
    assert_true(read_with(0, INT64_MAX).stamp_ms == TXN_STAMP_MAX_MS);
    assert_true(read_with(0, INT64_MIN).stamp_ms == -TXN_STAMP_MAX_MS);
    assert_true(read_with(0, TXN_STAMP_MAX_MS).stamp_ms == TXN_STAMP_MAX_MS);
}

static void next_of(struct buf *txn, struct txn_effect *ret_effect)
{
    struct wire_reader reader;
    struct txn_header got_header;

    assert_int_equal(txn_open(&reader, buf_slice(txn), &got_header), ERR_OK);
    assert_int_equal(txn_next(&reader, ret_effect), ERR_OK);
    assert_true(wire_reader_done(&reader));
}

TEST(sessions_come_back)
{
    const struct txn_session_open open = {
        .session = 7, .timeout_ms = 9, .secret_hash = {1, 2, [31] = 3}, .from = slice_str("::1")};
    const struct txn_session_close close = {.session = 8, .reason = TXN_CLOSED_EXPIRED};
    const struct txn_session_move move = {.session = 9, .attach = UINT64_MAX, .member = 4};
    struct txn_session_open got_open;
    struct txn_session_close got_close;
    struct txn_session_move got_move;
    struct txn_effect effect;
    struct buf txn;

    buf_init(&txn, 4096);
    txn_begin(&txn, &header);
    size_t start = txn.len;

    txn_put_session_open(&txn, TXN_REPLY, &open);
    next_of(&txn, &effect);
    assert_int_equal(effect.type, TXN_SESSION_OPEN);
    assert_int_equal(effect.flags, TXN_REPLY);
    assert_int_equal(txn_get_session_open(&effect, &got_open), ERR_OK);
    assert_int_equal(got_open.session, 7);
    assert_int_equal(got_open.timeout_ms, 9);
    assert_memory_equal(got_open.secret_hash, open.secret_hash, TXN_SECRET_HASH_LEN);
    assert_true(slice_eq(got_open.from, open.from));
    txn.len = start;
    txn_put_session_close(&txn, 0, &close);
    next_of(&txn, &effect);
    assert_int_equal(txn_get_session_close(&effect, &got_close), ERR_OK);
    assert_int_equal(got_close.session, 8);
    assert_int_equal(got_close.reason, TXN_CLOSED_EXPIRED);
    txn.len = start;
    txn_put_session_move(&txn, 0, &move);
    next_of(&txn, &effect);
    assert_int_equal(txn_get_session_move(&effect, &got_move), ERR_OK);
    assert_int_equal(got_move.session, 9);
    assert_true(got_move.attach == UINT64_MAX);
    assert_int_equal(got_move.member, 4);
    buf_release(&txn);
}

TEST(results_come_back)
{
    const struct txn_remember remember = {.scope = slice_str("s"),
                                          .key = slice_str("key"),
                                          .fingerprint = {9, [15] = 8},
                                          .result = slice_str("result")};
    struct txn_remember got;
    struct txn_forget got_forget;
    struct txn_effect effect;
    struct buf txn;

    buf_init(&txn, 4096);
    txn_begin(&txn, &header);
    size_t start = txn.len;

    txn_put_remember(&txn, &remember);
    next_of(&txn, &effect);
    assert_int_equal(txn_get_remember(&effect, &got), ERR_OK);
    assert_true(slice_eq(got.scope, remember.scope) && slice_eq(got.key, remember.key));
    assert_true(slice_eq(got.result, remember.result));
    assert_memory_equal(got.fingerprint, remember.fingerprint, TXN_FINGERPRINT_LEN);
    txn.len = start;
    txn_put_forget(&txn, &(struct txn_forget){.horizon = 77});
    next_of(&txn, &effect);
    assert_int_equal(txn_get_forget(&effect, &got_forget), ERR_OK);
    assert_int_equal(got_forget.horizon, 77);
    buf_release(&txn);
}

static enum err get_any(const struct txn_effect *effect)
{
    struct txn_session_open open;
    struct txn_session_close close;
    struct txn_session_move move;
    struct txn_remember remember;
    struct txn_forget forget;

    switch ((unsigned)effect->type) {
    case TXN_SESSION_OPEN:
        return txn_get_session_open(effect, &open);
    case TXN_SESSION_CLOSE:
        return txn_get_session_close(effect, &close);
    case TXN_SESSION_MOVE:
        return txn_get_session_move(effect, &move);
    case TXN_REMEMBER:
        return txn_get_remember(effect, &remember);
    default:
        return txn_get_forget(effect, &forget);
    }
}

/* Each cut of the fields, and a byte too many, is noticed; so is the number 0, which is none. */
TEST(malformed_fields_are_refused)
{
    struct txn_session_open open = {.session = 7, .from = slice_str("x")};
    struct txn_remember remember = {.scope = slice_str("s"), .result = slice_str("r")};
    struct buf txn;

    buf_init(&txn, 4096);
    for (int type = TXN_SESSION_OPEN; type <= TXN_FORGET; type++) {
        struct txn_effect effect;

        buf_clear(&txn);
        txn_begin(&txn, &header);
        if (type == TXN_SESSION_OPEN) {
            txn_put_session_open(&txn, 0, &open);
        } else if (type == TXN_SESSION_CLOSE) {
            txn_put_session_close(&txn, 0, &(struct txn_session_close){7, TXN_CLOSED_BY_CLIENT});
        } else if (type == TXN_SESSION_MOVE) {
            txn_put_session_move(&txn, 0, &(struct txn_session_move){.session = 7});
        } else if (type == TXN_REMEMBER) {
            txn_put_remember(&txn, &remember);
        } else {
            txn_put_forget(&txn, &(struct txn_forget){.horizon = 7});
        }
        next_of(&txn, &effect);
        assert_int_equal(get_any(&effect), ERR_OK);
        buf_append_byte(&txn, 0);
        size_t len = effect.extra.len;

        effect.extra = slice_make(txn.data + txn.len - 1 - len, len + 1);
        assert_int_equal(get_any(&effect), ERR_FORMAT);
        for (effect.extra.len = 0; effect.extra.len < len; effect.extra.len++) {
            assert_int_equal(get_any(&effect), ERR_FORMAT);
        }
        if (type != TXN_REMEMBER) {
            wire_store_u64(txn.data + txn.len - 1 - len, 0);
            assert_int_equal(get_any(&effect), ERR_FORMAT);
        }
    }
    buf_release(&txn);
}

TEST(an_unknown_reason_is_refused)
{
    static const uint8_t fields[] = {7, 0, 0, 0, 0, 0, 0, 0, 3};
    const struct txn_effect effect = {.type = TXN_SESSION_CLOSE,
                                      .extra = slice_make(fields, sizeof(fields))};
    struct txn_session_close got;

    assert_int_equal(txn_get_session_close(&effect, &got), ERR_FORMAT);
}
