/* The bytes of a transaction. */
#include "server/state/state.h"
#include "server/state/txn.h"
#include "tests/lib/unit.h"

static const struct txn_header header = {
    .origin_member = 3, .origin_boot = UINT64_MAX - 1, .request = 77, .age_ms = 5, .stamp_ms = -5};

TEST(each_type_survives_a_round_trip)
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
        {.type = TXN_DELETE,
         .flags = TXN_VERSION_BEFORE,
         .path = slice_str("/a/c"),
         .version = INT32_MIN},
        {.type = TXN_CHECK, .path = slice_str("/")},
        {.type = TXN_SET_ACL, .path = slice_str("/a"), .acl = slice_str("w"), .version = 2},
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

TEST(unknown_types_and_flags_are_refused)
{
    assert_patched_refused(0, 1);              /* Version: it had one time, of a wall clock. */
    assert_patched_refused(0, 4);              /* Version. */
    assert_patched_refused(1, 1);              /* Header flags: the actor would be missing. */
    assert_patched_refused(1, 2);              /* Header flags. */
    assert_patched_refused(38, 0);             /* Type. */
    assert_patched_refused(38, 11);            /* Type. */
    assert_patched_refused(39, 4);             /* Effect flags: the version would be missing. */
    assert_patched_refused(39, 8);             /* Effect flags. */
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

/* All replicas read a committed transaction: one that none can read would stop all. */
TEST(absurd_times_are_read_as_possible_times)
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

/* The times of a transaction with that effect alone, as decoded. */
static struct txn_effect there_and_back(struct buf *txn, const struct txn_effect *effect)
{
    struct txn_effect got;

    buf_clear(txn);
    txn_begin(txn, &header);
    txn_put(txn, effect);
    next_of(txn, &got);
    assert_int_equal(got.type, effect->type);
    assert_int_equal(got.flags, effect->flags);
    assert_int_equal(got.path.len, 0);
    return got;
}

TEST(sessions_survive_a_round_trip)
{
    const struct txn_effect open = {.type = TXN_SESSION_OPEN,
                                    .flags = TXN_REPLY,
                                    .open = {.session = 7,
                                             .timeout_ms = 9,
                                             .secret_hash = {1, 2, [31] = 3},
                                             .from = slice_str("::1")}};
    const struct txn_effect close = {.type = TXN_SESSION_CLOSE,
                                     .close = {.session = 8, .reason = TXN_CLOSED_EXPIRED}};
    const struct txn_effect move = {.type = TXN_SESSION_MOVE,
                                    .move = {.session = 9, .attach = UINT64_MAX, .member = 4}};
    struct txn_effect got;
    struct buf txn;

    buf_init(&txn, 4096);
    got = there_and_back(&txn, &open);
    assert_int_equal(got.open.session, 7);
    assert_int_equal(got.open.timeout_ms, 9);
    assert_memory_equal(got.open.secret_hash, open.open.secret_hash, TXN_SECRET_HASH_LEN);
    assert_true(slice_eq(got.open.from, open.open.from));
    got = there_and_back(&txn, &close);
    assert_int_equal(got.close.session, 8);
    assert_int_equal(got.close.reason, TXN_CLOSED_EXPIRED);
    got = there_and_back(&txn, &move);
    assert_int_equal(got.move.session, 9);
    assert_true(got.move.attach == UINT64_MAX);
    assert_int_equal(got.move.member, 4);
    buf_release(&txn);
}

TEST(results_survive_a_round_trip)
{
    const struct txn_effect remember = {.type = TXN_REMEMBER,
                                        .remember = {.scope = slice_str("s"),
                                                     .key = slice_str("key"),
                                                     .fingerprint = {9, [15] = 8},
                                                     .result = slice_str("result")}};
    const struct txn_effect forget = {.type = TXN_FORGET, .forget = {.horizon = 77}};
    struct txn_remember got;
    struct buf txn;

    buf_init(&txn, 4096);
    got = there_and_back(&txn, &remember).remember;
    assert_true(slice_eq(got.scope, remember.remember.scope));
    assert_true(slice_eq(got.key, remember.remember.key));
    assert_true(slice_eq(got.result, remember.remember.result));
    assert_memory_equal(got.fingerprint, remember.remember.fingerprint, TXN_FINGERPRINT_LEN);
    assert_int_equal(there_and_back(&txn, &forget).forget.horizon, 77);
    buf_release(&txn);
}

/* The bytes of all types that have one field of bytes, as README.md describes them. */
TEST(fields_of_bytes_stay_as_they_are)
{
    const struct txn_effect move = {.type = TXN_SESSION_MOVE,
                                    .flags = TXN_REPLY,
                                    .move = {.session = 1, .attach = 2, .member = 3}};
    static const uint8_t want[] = {TXN_SESSION_MOVE,
                                   TXN_REPLY,
                                   20,
                                   0,
                                   0,
                                   0,
                                   1,
                                   0,
                                   0,
                                   0,
                                   0,
                                   0,
                                   0,
                                   0,
                                   2,
                                   0,
                                   0,
                                   0,
                                   0,
                                   0,
                                   0,
                                   0,
                                   3,
                                   0,
                                   0,
                                   0};
    struct buf txn;

    buf_init(&txn, 4096);
    (void)there_and_back(&txn, &move);
    assert_int_equal(txn.len, 38 + sizeof(want));
    assert_memory_equal(txn.data + 38, want, sizeof(want));
    buf_release(&txn);
}

/* The field of bytes of the effect, cut or grown to that length. */
static enum err read_resized(struct buf *txn, size_t start, uint32_t len)
{
    wire_store_u32(txn->data + start - 4, len);
    return read_all(slice_make(txn->data, start + len));
}

/* Each cut of the fields and a surplus byte are noticed; so is number 0, which is no field. */
TEST(malformed_fields_are_refused)
{
    const struct txn_effect effects[] = {
        {.type = TXN_SESSION_OPEN, .open = {.session = 7, .from = slice_str("x")}},
        {.type = TXN_SESSION_CLOSE, .close = {.session = 7, .reason = TXN_CLOSED_BY_CLIENT}},
        {.type = TXN_SESSION_MOVE, .move = {.session = 7}},
        {.type = TXN_REMEMBER, .remember = {.scope = slice_str("s"), .result = slice_str("r")}},
        {.type = TXN_FORGET, .forget = {.horizon = 7}},
    };
    struct buf txn;

    buf_init(&txn, 4096);
    for (size_t i = 0; i < sizeof(effects) / sizeof(effects[0]); i++) {
        buf_clear(&txn);
        txn_begin(&txn, &header);
        size_t start = txn.len + 6; /* After type, flags and length. */

        txn_put(&txn, &effects[i]);
        uint32_t len = (uint32_t)(txn.len - start);

        buf_append_byte(&txn, 0);
        assert_int_equal(read_resized(&txn, start, len), ERR_OK);
        assert_int_equal(read_resized(&txn, start, len + 1), ERR_FORMAT);
        for (uint32_t cut = 0; cut < len; cut++) {
            assert_int_equal(read_resized(&txn, start, cut), ERR_FORMAT);
        }
        if (effects[i].type != TXN_REMEMBER) {
            wire_store_u64(txn.data + start, 0);
            assert_int_equal(read_resized(&txn, start, len), ERR_FORMAT);
        }
    }
    buf_release(&txn);
}

TEST(an_unknown_reason_is_refused)
{
    const struct txn_effect effect = {.type = TXN_SESSION_CLOSE,
                                      .close = {.session = 7, .reason = 3}};
    struct buf txn;

    buf_init(&txn, 4096);
    txn_begin(&txn, &header);
    txn_put(&txn, &effect);
    assert_int_equal(read_all(buf_slice(&txn)), ERR_FORMAT);
    buf_release(&txn);
}

/* ---- The actor. ---- */

static struct txn_actor sample_actor(void)
{
    return (struct txn_actor){.op = 35,
                              .super = true,
                              .session = UINT64_C(0x100000007),
                              .address = slice_str("127.0.0.1"),
                              .count = 2,
                              .confirmed = 1,
                              .ids = {slice_str("digest:alice"), slice_str("x:")}};
}

/* A transaction of that actor with one delete. */
static void put_txn_of(struct buf *txn, const struct txn_actor *from)
{
    struct txn_header with = header;
    struct buf bytes;

    buf_init(&bytes, TXN_ACTOR_MAX);
    txn_actor_encode(&bytes, from);
    assert_false(bytes.overflow);
    with.actor = buf_slice(&bytes);
    txn_begin(txn, &with);
    txn_put(txn, &(struct txn_effect){.type = TXN_DELETE, .path = slice_str("/a")});
    buf_release(&bytes);
}

static enum err actor_of(const struct buf *txn, struct txn_actor *ret_actor)
{
    struct txn_header got_header;
    struct wire_reader reader;

    assert_int_equal(txn_open(&reader, buf_slice(txn), &got_header), ERR_OK);
    return txn_actor_decode(got_header.actor, ret_actor);
}

TEST(an_actor_survives_a_round_trip)
{
    const struct txn_actor actor = sample_actor();
    struct txn_actor got;
    struct buf txn;

    buf_init(&txn, 4096);
    put_txn_of(&txn, &actor);
    assert_int_equal(read_all(buf_slice(&txn)), ERR_OK);
    assert_int_equal(actor_of(&txn, &got), ERR_OK);
    assert_int_equal(got.op, 35);
    assert_true(got.super);
    assert_true(got.session == actor.session);
    assert_true(slice_eq(got.address, actor.address));
    assert_int_equal(got.count, 2);
    assert_int_equal(got.confirmed, 1);
    assert_true(slice_eq(got.ids[0], actor.ids[0]) && slice_eq(got.ids[1], actor.ids[1]));
    buf_release(&txn);
}

TEST(an_anonymous_actor_takes_few_bytes)
{
    const struct txn_actor plain = {.op = 6, .address = slice_str("127.0.0.1")};
    struct txn_actor got;
    struct buf txn;
    size_t bare;

    buf_init(&txn, 4096);
    txn_begin(&txn, &header);
    txn_put(&txn, &(struct txn_effect){.type = TXN_DELETE, .path = slice_str("/a")});
    bare = txn.len;
    buf_clear(&txn);
    put_txn_of(&txn, &plain);
    assert_int_equal(txn.len - bare, 2 + 3 + 1 + 9);
    assert_int_equal(actor_of(&txn, &got), ERR_OK);
    assert_int_equal(got.count, 0);
    assert_false(got.super);
    buf_release(&txn);
}

/* The most that a client can have, each identity longer than is kept. */
TEST(long_identities_are_cut)
{
    struct txn_actor most = sample_actor();
    struct txn_actor got;
    struct buf txn;
    char text[1088];

    memset(text, 'n', sizeof(text));
    most.count = TXN_ACTOR_IDS_MAX;
    for (uint32_t i = 0; i < most.count; i++) {
        most.ids[i] = slice_make(text, sizeof(text));
    }
    buf_init(&txn, 1 << 16);
    put_txn_of(&txn, &most);
    assert_int_equal(actor_of(&txn, &got), ERR_OK);
    assert_int_equal(got.count, TXN_ACTOR_IDS_MAX);
    assert_int_equal(got.ids[TXN_ACTOR_IDS_MAX - 1].len, TXN_ACTOR_ID_MAX);
    buf_release(&txn);
}

TEST(confirmed_identities_are_noted_afterwards)
{
    const struct txn_actor actor = sample_actor();
    struct txn_actor plain = actor;
    struct txn_actor got;
    struct buf txn;
    struct buf same;

    buf_init(&txn, 4096);
    buf_init(&same, 4096);
    put_txn_of(&txn, &actor);
    txn_confirm(&txn, 0x8002);
    assert_int_equal(actor_of(&txn, &got), ERR_OK);
    assert_int_equal(got.confirmed, 0x8002);
    assert_true(slice_eq(got.ids[0], actor.ids[0]));

    /* Without identities, or without an actor, nothing changes. */
    plain.count = 0;
    buf_clear(&txn);
    put_txn_of(&txn, &plain);
    put_txn_of(&same, &plain);
    txn_confirm(&txn, 0xffff);
    assert_true(slice_eq(buf_slice(&txn), buf_slice(&same)));
    buf_clear(&txn);
    buf_clear(&same);
    txn_begin(&txn, &header);
    txn_begin(&same, &header);
    txn_confirm(&txn, 0xffff);
    assert_true(slice_eq(buf_slice(&txn), buf_slice(&same)));
    buf_release(&txn);
    buf_release(&same);
}

TEST(a_malformed_actor_is_refused)
{
    const struct txn_actor actor = sample_actor();
    struct txn_actor got;
    struct buf bytes;

    buf_init(&bytes, TXN_ACTOR_MAX);
    txn_actor_encode(&bytes, &actor);
    for (size_t len = 0; len < bytes.len; len++) {
        assert_int_equal(txn_actor_decode(slice_make(bytes.data, len), &got), ERR_FORMAT);
    }
    buf_append_byte(&bytes, 0);
    assert_int_equal(txn_actor_decode(buf_slice(&bytes), &got), ERR_FORMAT);
    bytes.len--;
    bytes.data[1] = TXN_ACTOR_IDS_MAX + 1;
    assert_int_equal(txn_actor_decode(buf_slice(&bytes), &got), ERR_FORMAT);
    buf_release(&bytes);
}

/* Version 2 has neither an actor nor a version in a delete; its other bytes are the same. */
TEST(the_version_before_is_still_read)
{
    const struct txn_actor actor = sample_actor();
    struct buf txn;

    buf_init(&txn, 4096);
    txn_begin(&txn, &header);
    txn_put(&txn, &(struct txn_effect){.type = TXN_DELETE, .path = slice_str("/a")});
    txn.data[0] = 2;
    assert_int_equal(read_all(buf_slice(&txn)), ERR_OK);
    buf_clear(&txn);
    put_txn_of(&txn, &actor);
    txn.data[0] = 2;
    assert_int_equal(read_all(buf_slice(&txn)), ERR_FORMAT);
    buf_release(&txn);
}
