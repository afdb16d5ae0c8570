/* The table of operations, text into fields, and the rules across fields. */
#include "server/op/ops.h"
#include "server/read/view.h"
#include "tests/lib/unit.h"

static const struct op_field *field(enum op_id op, const char *name)
{
    const struct op_field *found = op_field_find(ops_by_id(op), slice_str(name));

    assert_non_null(found);
    return found;
}

static enum err parse(enum op_id op, const char *name, const char *text, struct op_args *args)
{
    const char *why = NULL;
    enum err err = op_field_parse(field(op, name), slice_str(text), args, &why);

    assert_true(err == ERR_OK || why != NULL);
    return err;
}

static enum err check(const struct op_args *args)
{
    const char *why = NULL;
    enum err err = op_args_check(args, &why);

    assert_true(err == ERR_OK || why != NULL);
    return err;
}

static struct op_args args_of(enum op_id op, const char *path)
{
    struct op_args args;

    op_args_init(&args, op);
    args.path = slice_str(path);
    return args;
}

TEST(each_row_is_found_by_number_and_by_name)
{
    int rows = 0;

    for (const struct op_def *def = ops_table(); def->name; def++) {
        size_t fields = 0;

        rows++;
        assert_ptr_equal(ops_by_id(def->id), def);
        assert_ptr_equal(ops_by_name(slice_str(def->name)), def);
        assert_true(view_reads(def->id) == (def->kind == OP_KIND_READ || def->id == OP_MULTI));
        assert_true((def->method[0] == '\0') == (def->route[0] == '\0'));
        while (def->fields[fields].name) {
            fields++;
        }
        assert_true(fields <= OPS_FIELDS_MAX);
    }
    assert_int_equal(rows, OP_IDS - 1);
    assert_null(ops_by_id((enum op_id)0));
    assert_null(ops_by_id((enum op_id)99));
    assert_null(ops_by_name(slice_str("gets")));
}

TEST(numbers_are_plain_decimals_within_their_range)
{
    struct op_args args = args_of(OP_SET, "/a");

    assert_int_equal(parse(OP_SET, "version", "-1", &args), ERR_OK);
    assert_true(args.has_version && args.version == -1);
    assert_int_equal(parse(OP_SET, "version", "2147483647", &args), ERR_OK);
    assert_int_equal(args.version, INT32_MAX);
    const char *bad[] = {"",
                         "+1",
                         " 1",
                         "1 ",
                         "0x1",
                         "1e3",
                         "--1",
                         "-",
                         "2147483648",
                         "99999999999999999999999",
                         "9223372036854775808"};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(parse(OP_SET, "version", bad[i], &args), ERR_BAD_ARGUMENTS);
    }
    assert_int_equal(args.version, INT32_MAX);
    assert_int_equal(parse(OP_CREATE, "ttl", "0", &args), ERR_BAD_ARGUMENTS);
    assert_int_equal(parse(OP_CREATE, "ttl", "1099511627776", &args), ERR_BAD_ARGUMENTS);
    assert_int_equal(parse(OP_CREATE, "ttl", "1099511627775", &args), ERR_OK);
    assert_int_equal(parse(OP_CHILDREN, "limit", "4294967295", &args), ERR_OK);
    assert_int_equal(args.limit, UINT32_MAX);
}

TEST(words_are_exact)
{
    struct op_args args = args_of(OP_CREATE, "/a");

    assert_int_equal(parse(OP_CREATE, "sequence", "true", &args), ERR_OK);
    assert_true(args.sequence);
    assert_int_equal(parse(OP_CREATE, "sequence", "0", &args), ERR_OK);
    assert_false(args.sequence);
    assert_int_equal(parse(OP_CREATE, "sequence", "yes", &args), ERR_BAD_ARGUMENTS);
    assert_int_equal(parse(OP_CREATE, "sequence", "True", &args), ERR_BAD_ARGUMENTS);
    assert_int_equal(parse(OP_CHILDREN, "with", "data", &args), ERR_OK);
    assert_int_equal(args.with, OP_WITH_DATA);
    assert_int_equal(parse(OP_CHILDREN, "with", "all", &args), ERR_BAD_ARGUMENTS);
    assert_int_equal(parse(OP_GET, "dataformat", "json", &args), ERR_OK);
    assert_int_equal(args.dataformat, OP_JSON);
    assert_int_equal(parse(OP_GET, "dataformat", "xml", &args), ERR_BAD_ARGUMENTS);
}

TEST(an_if_match_is_a_star_or_a_data_tag)
{
    const char *bad[] = {"",
                         "d1.0",
                         "\"c1.0\"",
                         "\"d.0\"",
                         "\"d1\"",
                         "\"d1.\"",
                         "\"d1.x\"",
                         "\"dA.0\"",
                         "W/\"d1.0\"",
                         "\"d1.0",
                         "\"d1.0\" ",
                         "\"d1.1.1\"",
                         "\"d1.4294967296\"",
                         "\"d10000000000000000.0\"",
                         "\"d1.0\", \"d2.0\""};
    struct op_args args = args_of(OP_SET, "/a");

    assert_int_equal(parse(OP_SET, "If-Match", "*", &args), ERR_OK);
    assert_true(args.must_exist && !args.has_etag);
    assert_int_equal(parse(OP_SET, "If-Match", "\"dffffffffffffffff.-3\"", &args), ERR_OK);
    assert_true(args.has_etag && args.etag_czxid == UINT64_MAX && args.etag_version == -3);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(parse(OP_SET, "If-Match", bad[i], &args), ERR_BAD_ARGUMENTS);
    }
    assert_int_equal(parse(OP_SET, "If-None-Match", "*", &args), ERR_OK);
    assert_true(args.must_be_new);
    assert_int_equal(parse(OP_SET, "If-None-Match", "\"d1.0\"", &args), ERR_BAD_ARGUMENTS);
}

TEST(a_resume_position_is_a_zxid_or_an_event_id)
{
    const char *bad[] = {"",
                         "0x",
                         "-1",
                         "0x1g",
                         ":",
                         "7f:",
                         ":1a",
                         "7f:0x",
                         "7f:-1",
                         "7f:1:2",
                         "0x12345678901234567",
                         "12345678901234567:1"};
    struct op_args args = args_of(OP_WATCH, "/a");

    assert_int_equal(parse(OP_WATCH, "since", "31", &args), ERR_OK);
    assert_true(args.has_since && args.since == 31 && !args.has_since_history);
    assert_int_equal(parse(OP_WATCH, "since", "0x1F", &args), ERR_OK);
    assert_true(args.since == 31);
    assert_int_equal(parse(OP_WATCH, "since", "000000000000007f:0x31", &args), ERR_OK);
    assert_true(args.since == 0x31 && args.has_since_history && args.since_history == 0x7f);
    assert_int_equal(parse(OP_WATCH, "since", "7f:31", &args), ERR_OK);
    assert_true(args.since == 0x31);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(parse(OP_WATCH, "since", bad[i], &args), ERR_BAD_ARGUMENTS);
    }
}

TEST(a_watch_has_a_kind_by_either_name)
{
    struct op_args args = args_of(OP_WATCH, "/a");

    assert_int_equal(args.kind, WATCH_PERSISTENT);
    assert_int_equal(parse(OP_WATCH, "mode", "recursive", &args), ERR_OK);
    assert_int_equal(args.kind, WATCH_RECURSIVE);
    assert_int_equal(parse(OP_WATCH, "kind", "exists", &args), ERR_OK);
    assert_int_equal(args.kind, WATCH_EXISTS);
    assert_int_equal(parse(OP_WATCH, "mode", "all", &args), ERR_BAD_ARGUMENTS);
    assert_int_equal(check(&args), ERR_OK);
    args.path = slice_str("/a/");
    assert_int_equal(check(&args), ERR_BAD_ARGUMENTS);
}

TEST(a_secret_is_a_uuid)
{
    const char *bad[] = {"",
                         "short",
                         "0189abcd-1234-4abc-89ab-0123456789a",
                         "0189abcd-1234-4abc-89ab-0123456789abc",
                         "0189abcd/1234-4abc-89ab-0123456789ab",
                         "0189abcd-1234-4abc-89ab-0123456789ag"};
    struct op_args args = {.op = OP_ATTACH};

    assert_int_equal(check(&args), ERR_BAD_ARGUMENTS);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(parse(OP_ATTACH, "session", bad[i], &args), ERR_BAD_ARGUMENTS);
    }
    assert_int_equal(parse(OP_ATTACH, "session", "0189abcd-1234-4abc-89AB-0123456789ab", &args),
                     ERR_OK);
    assert_int_equal(check(&args), ERR_OK);
}

TEST(only_the_leader_names_its_own_operations)
{
    for (const struct op_def *def = ops_table(); def->name; def++) {
        bool nowhere = true;

        for (const struct op_field *at = def->fields; at->name; at++) {
            nowhere = nowhere && at->source == OP_FROM_NOWHERE;
        }
        assert_true(!op_is_internal(def->id) || def->route[0] == '\0');
        assert_true(op_is_internal(def->id) || !nowhere || def->fields[0].name == NULL);
    }
    assert_true(op_is_internal(OP_REAP) && op_is_internal(OP_EXPIRE));
    assert_true(op_is_internal(OP_RAISE) && op_is_internal(OP_OPEN));
}

TEST(paths_are_checked_and_a_sequence_may_have_no_prefix)
{
    struct op_args args = args_of(OP_CREATE, "/q/");

    assert_int_equal(check(&args), ERR_BAD_ARGUMENTS);
    args.sequence = true;
    assert_int_equal(check(&args), ERR_OK);
    args.path = slice_str("/q/./");
    assert_int_equal(check(&args), ERR_BAD_ARGUMENTS);
    args.path = slice_str("");
    assert_int_equal(check(&args), ERR_BAD_ARGUMENTS);
    args = args_of(OP_GET, "a");
    assert_int_equal(check(&args), ERR_BAD_ARGUMENTS);
    args = args_of(OP_GET, "/a/../b");
    assert_int_equal(check(&args), ERR_BAD_ARGUMENTS);
}

TEST(contradictions_are_refused)
{
    struct op_args args = args_of(OP_SET, "/a");

    args.has_version = true;
    args.version = 3;
    args.has_etag = true;
    args.etag_version = 3;
    assert_int_equal(check(&args), ERR_OK);
    args.etag_version = 4;
    assert_int_equal(check(&args), ERR_BAD_ARGUMENTS);
    args.version = -1;
    assert_int_equal(check(&args), ERR_OK);
    args = args_of(OP_SET, "/a");
    args.has_czxid = true;
    assert_int_equal(check(&args), ERR_OK);
    args.upsert = true;
    assert_int_equal(check(&args), ERR_BAD_ARGUMENTS);
    args = args_of(OP_SET, "/a");
    args.must_be_new = true;
    args.upsert = true;
    assert_int_equal(check(&args), ERR_BAD_ARGUMENTS);
    args = args_of(OP_SET, "/a");
    args.data_null = true;
    args.data = slice_str("x");
    assert_int_equal(check(&args), ERR_BAD_ARGUMENTS);
    args = args_of(OP_DELETE, "/a");
    args.max = 5;
    assert_int_equal(check(&args), ERR_BAD_ARGUMENTS);
    args.recursive = true;
    assert_int_equal(check(&args), ERR_OK);
    args = args_of(OP_CREATE, "/a");
    args.container = true;
    args.ttl_ms = 5;
    assert_int_equal(check(&args), ERR_BAD_ARGUMENTS);
    args = args_of(OP_CREATE, "/a");
    args.ephemeral = true;
    assert_int_equal(check(&args), ERR_OK);
    args = args_of(OP_CHECK, "/a");
    assert_int_equal(check(&args), ERR_BAD_ARGUMENTS);
}

TEST(attributes_of_a_new_znode_need_a_create_or_an_upsert)
{
    struct op_args args = args_of(OP_SET, "/a");

    args.ephemeral = true;
    assert_int_equal(check(&args), ERR_BAD_ARGUMENTS);
    args.upsert = true;
    assert_int_equal(check(&args), ERR_OK);
    args = args_of(OP_SET, "/a");
    args.has_acl = true;
    assert_int_equal(check(&args), ERR_BAD_ARGUMENTS);
    args.must_be_new = true;
    assert_int_equal(check(&args), ERR_OK);
}

TEST(a_secret_is_a_random_uuid)
{
    char secrets[2][OP_SECRET_LEN + 1];

    for (int i = 0; i < 100; i++) {
        op_secret_make(secrets[i % 2]);
        assert_true(op_is_uuid(slice_str(secrets[i % 2])));
        assert_int_equal(secrets[i % 2][14], '4');
        assert_non_null(strchr("89ab", secrets[i % 2][19]));
        assert_true(i == 0 || strcmp(secrets[0], secrets[1]) != 0);
    }
    assert_false(op_is_uuid(slice_str("01234567-89ab-4cde-8f01-23456789abc")));
    assert_false(op_is_uuid(slice_str("0123456789ab-4cde-8f01-23456789abcdef")));
    assert_false(op_is_uuid(slice_str("01234567-89ab-4cde-8f01-23456789abcg")));
    assert_true(op_is_uuid(slice_str("01234567-89AB-4CDE-8F01-23456789ABCD")));
}

/* Each tag has its own letter, so that one cannot pass for another. */
TEST(an_acl_has_a_tag_of_its_own)
{
    struct op_args args = args_of(OP_SETACL, "/a");

    args.has_acl = true;
    assert_int_equal(parse(OP_SETACL, "If-Match", "\"d1f.3\"", &args), ERR_BAD_ARGUMENTS);
    assert_int_equal(parse(OP_SET, "If-Match", "\"a1f.3\"", &args), ERR_BAD_ARGUMENTS);
    assert_int_equal(parse(OP_SETACL, "If-Match", "\"a1f.3\"", &args), ERR_OK);
    assert_true(args.has_etag && args.etag_czxid == 0x1f && args.etag_version == 3);
    assert_int_equal(check(&args), ERR_OK);
    args.has_aversion = true;
    args.aversion = 4;
    assert_int_equal(check(&args), ERR_BAD_ARGUMENTS);
    args.aversion = -1;
    assert_int_equal(check(&args), ERR_OK);
    assert_int_equal(parse(OP_SETACL, "If-Match", "*", &args), ERR_OK);
    assert_true(args.must_exist);
}

TEST(a_multi_holds_writes_or_reads)
{
    struct op_args items[2] = {args_of(OP_SET, "/a"), args_of(OP_CHECK, "/b")};
    struct op_args multi = {.op = OP_MULTI, .ops = items, .op_count = 2};

    assert_int_equal(check(&multi), ERR_OK);
    assert_int_equal(op_args_kind(&multi), OP_KIND_WRITE);
    items[1] = args_of(OP_GET, "/b");
    assert_int_equal(check(&multi), ERR_BAD_ARGUMENTS);
    items[0] = args_of(OP_EXISTS, "/a");
    assert_int_equal(check(&multi), ERR_OK);
    assert_int_equal(op_args_kind(&multi), OP_KIND_READ);
    items[0] = (struct op_args){.op = OP_MULTI};
    assert_int_equal(check(&multi), ERR_BAD_ARGUMENTS);
    items[0] = args_of(OP_REAP, "/a");
    assert_int_equal(check(&multi), ERR_BAD_ARGUMENTS);
    multi.op_count = 0;
    assert_int_equal(check(&multi), ERR_BAD_ARGUMENTS);
}

TEST(a_hold_is_a_level_or_null)
{
    struct op_args args = args_of(OP_LEVEL, "");
    const char *const bad[] = {"0", "65536", "-1", "", "nul", "NULL"};

    assert_int_equal(check(&args), ERR_BAD_ARGUMENTS);
    assert_int_equal(parse(OP_LEVEL, "hold", "65535", &args), ERR_OK);
    assert_true(args.has_hold && args.hold == 65535);
    assert_int_equal(parse(OP_LEVEL, "hold", "null", &args), ERR_OK);
    assert_true(args.has_hold && args.hold == 0);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(parse(OP_LEVEL, "hold", bad[i], &args), ERR_BAD_ARGUMENTS);
    }
    assert_int_equal(check(&args), ERR_OK);
    args.force = true;
    assert_int_equal(check(&args), ERR_BAD_ARGUMENTS);
    args.raise = 1;
    assert_int_equal(check(&args), ERR_BAD_ARGUMENTS);
    args.has_hold = false;
    assert_int_equal(check(&args), ERR_OK);
}
