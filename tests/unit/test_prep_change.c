/* Changes of the configuration, which the leader has judged: which client may make them, and what
 * their transaction holds. */
#include "server/op/change.h"
#include "tests/unit/prep_kit.h"

#include <stdio.h>

struct judged {
    struct fixture fixture;
    struct prep_verdict verdict;
};

static void judge(struct judged *judged)
{
    setup(&judged->fixture);
    judged->verdict = (struct prep_verdict){.err = ERR_OK};
    judged->fixture.verdict = &judged->verdict;
    buf_init(&judged->verdict.answer, OP_CHANGE_BYTES_MAX);
}

static void drop(struct judged *judged)
{
    buf_release(&judged->verdict.answer);
    teardown(&judged->fixture);
}

static void be_super(struct judged *judged)
{
    assert_int_equal(auth_add(NULL, slice_str("digest"), slice_str("bob:secret"),
                              "bob:fyVmFCwVbTJYrznoSu1koqYEYF0=", &judged->fixture.who.auth),
                     ERR_OK);
}

static void refuse(struct judged *judged, enum err err, const char *why, const char *reason)
{
    judged->verdict.err = err;
    (void)snprintf(judged->verdict.why, sizeof(judged->verdict.why), "%s", why);
    judged->verdict.reason = reason;
}

/* The leader has an answer of these bytes. */
static void answer(struct judged *judged, const char *bytes)
{
    buf_clear(&judged->verdict.answer);
    buf_append_str(&judged->verdict.answer, bytes);
}

/* Returns the effect of that type in the last transaction, of `count` effects. */
static struct txn_effect effect_of(struct judged *judged, enum txn_effect_type type, size_t count)
{
    struct wire_reader reader;
    struct txn_header header;
    struct txn_effect effect;
    struct txn_effect found = {.flags = 0};

    assert_int_equal(txn_open(&reader, buf_slice(&judged->fixture.txn), &header), ERR_OK);
    while (txn_next(&reader, &effect) == ERR_OK) {
        found = effect.type == type ? effect : found;
        count--;
    }
    assert_int_equal(count, 0);
    return found;
}

static struct op_args removal(void)
{
    return (struct op_args){.op = OP_MEMBER_REMOVE, .member = 3};
}

TEST(only_the_super_user_changes_the_level, judged, judge, drop)
{
    const struct op_args args = {.op = OP_LEVEL, .raise = 1};

    assert_int_equal(run(&judged->fixture, args), ERR_NO_AUTH);
    assert_non_null(strstr(judged->fixture.result.detail, "feature level"));
    be_super(judged);
    assert_int_equal(run(&judged->fixture, args), ERR_OK);
    (void)effect_of(judged, TXN_ANSWER, 0);
}

TEST(only_the_super_user_changes_the_members, judged, judge, drop)
{
    static const enum op_id ops[] = {OP_MEMBER_ADD, OP_MEMBER_SET, OP_MEMBER_REMOVE,
                                     OP_MEMBERS_CHANGE};

    answer(judged, "the answer");
    refuse(judged, ERR_CHANGE_REFUSED, "a secret of the ensemble", "IdInUse");
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        assert_int_equal(run(&judged->fixture, (struct op_args){.op = ops[i], .dry_run = i % 2}),
                         ERR_NO_AUTH);
        assert_string_equal(judged->fixture.result.detail,
                            "only the super user may change the members of the ensemble");
        assert_null(judged->fixture.result.reason);
        assert_false(judged->fixture.result.has_change);
    }
    be_super(judged);
    judged->verdict.err = ERR_OK;
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        assert_int_equal(run(&judged->fixture, (struct op_args){.op = ops[i]}), ERR_OK);
    }
}

TEST(the_transaction_has_the_answer, judged, judge, drop)
{
    be_super(judged);
    answer(judged, "the answer");
    assert_int_equal(run(&judged->fixture, removal()), ERR_OK);
    struct txn_effect effect = effect_of(judged, TXN_ANSWER, 1);

    assert_int_equal(effect.flags, TXN_REPLY);
    assert_true(slice_eq(effect.answer.bytes, slice_str("the answer")));
}

TEST(a_refusal_has_sentence_and_reason, judged, judge, drop)
{
    be_super(judged);
    answer(judged, "the answer");
    refuse(judged, ERR_CHANGE_REFUSED, "there is no successor", "NoSuccessor");
    assert_int_equal(run(&judged->fixture, removal()), ERR_CHANGE_REFUSED);
    assert_string_equal(judged->fixture.result.detail, "there is no successor");
    assert_string_equal(judged->fixture.result.reason, "NoSuccessor");
    assert_false(judged->fixture.result.has_change);
    assert_int_equal(judged->fixture.txn.len, 0);
    /* The version is shown that the client has to use. */
    refuse(judged, ERR_BAD_VERSION, "another version", NULL);
    assert_int_equal(run(&judged->fixture, removal()), ERR_BAD_VERSION);
    assert_true(judged->fixture.result.has_change);
}

TEST(a_dry_run_leaves_nothing_behind, judged, judge, drop)
{
    struct op_args args = removal();

    be_super(judged);
    answer(judged, "tried");
    judged->fixture.key = slice_str("key");
    args.dry_run = true;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(run(&judged->fixture, args), ERR_OK);
        assert_int_equal(judged->fixture.txn.len, 0);
        assert_false(judged->fixture.result.replayed);
        assert_true(slice_eq(blob_slice(judged->fixture.result.change), slice_str("tried")));
        assert_int_equal(prep_pending(judged->fixture.prep), 0);
    }
    /* So its key is free for the change itself. */
    args.dry_run = false;
    assert_int_equal(run(&judged->fixture, args), ERR_OK);
    assert_true(judged->fixture.txn.len > 0);
}

TEST(a_key_repeats_the_answer, judged, judge, drop)
{
    be_super(judged);
    answer(judged, "the first answer");
    judged->fixture.key = slice_str("key");
    assert_int_equal(run(&judged->fixture, removal()), ERR_OK);
    (void)effect_of(judged, TXN_REMEMBER, 2);
    assert_int_equal(kit_apply(judged->fixture.state, judged->fixture.zxid, &judged->fixture.txn),
                     ERR_OK);
    prep_applied(judged->fixture.prep, judged->fixture.zxid);
    /* What the leader says now does not matter. */
    answer(judged, "another answer");
    refuse(judged, ERR_NOT_FOUND, "there is no member 3", NULL);
    assert_int_equal(apply(&judged->fixture, removal()), ERR_OK);
    assert_true(judged->fixture.result.replayed);
    assert_true(slice_eq(blob_slice(judged->fixture.result.change), slice_str("the first answer")));
    assert_int_equal(judged->fixture.txn.len, 0);
}

TEST(members_change_while_the_disks_are_full, judged, judge, drop)
{
    be_super(judged);
    answer(judged, "the answer");
    judged->fixture.low_since = 1;
    assert_int_equal(run(&judged->fixture, removal()), ERR_OK);
}
