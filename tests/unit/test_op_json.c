/* Decodes bodies of requests into arguments, and encodes results as JSON. */
#include "base/mem.h"
#include "server/json/op_json.h"
#include "server/op/change.h"
#include "tests/lib/draw.h"
#include "tests/lib/unit.h"

#include <stdio.h>

enum {
    ROUNDS = 3000,
    TEXT_MAX = 1 << 20
};

struct parsed {
    enum err err;
    struct op_args args;
    struct op_args *multi;
    struct buf memory;
    struct op_fault fault;
};

static void parse(struct parsed *parsed, enum op_id op, const char *text)
{
    buf_init(&parsed->memory, TEXT_MAX);
    op_args_init(&parsed->args, op);
    parsed->err = op_json_parse(ops_by_id(op), slice_str(text), &parsed->args, &parsed->memory,
                                &parsed->multi, &parsed->fault);
    assert_true(parsed->err == parsed->fault.err);
}

static void release(struct parsed *parsed)
{
    mem_free(parsed->multi);
    buf_release(&parsed->memory);
}

static void assert_refused(enum op_id op, const char *text, enum err err, const char *word)
{
    struct parsed parsed;

    parse(&parsed, op, text);
    if (parsed.err != err || !strstr(parsed.fault.detail, word)) {
        print_message("%s: %s\n", text, parsed.fault.detail);
    }
    assert_int_equal(parsed.err, err);
    assert_non_null(strstr(parsed.fault.detail, word));
    assert_null(parsed.multi);
    release(&parsed);
}

TEST(a_multi_is_read_by_the_fields_of_its_rows)
{
    struct parsed parsed;

    parse(&parsed, OP_MULTI,
          "{\"ops\":[{\"op\":\"create\",\"path\":\"/a\",\"data64\":\"aGk=\",\"sequence\":true},"
          "{\"path\":\"/b\",\"op\":\"set\",\"dataUtf8\":\"\\u00e9\\u0000\",\"version\":3},"
          "{\"op\":\"set\",\"path\":\"/c\",\"dataJson\": [1, {\"dataJson\": 2.50}] },"
          "{\"op\":\"create\",\"path\":\"/d\",\"null\":true},"
          "{\"op\":\"delete\",\"path\":\"/f\",\"czxid\":\"0x500000012\"},"
          "{\"op\":\"check\",\"path\":\"/e\",\"czxid\":7}]}");
    assert_int_equal(parsed.err, ERR_OK);
    assert_int_equal(parsed.args.op_count, 6);
    assert_true(slice_eq(parsed.multi[0].data, slice_str("hi")) && parsed.multi[0].sequence);
    assert_true(slice_eq(parsed.multi[1].data, slice_make("\xc3\xa9\0", 3)));
    assert_true(parsed.multi[1].has_version && parsed.multi[1].version == 3);
    assert_true(slice_eq(parsed.multi[2].data, slice_str("[1, {\"dataJson\": 2.50}]")));
    assert_true(parsed.multi[3].data_null);
    assert_true(parsed.multi[4].has_czxid && parsed.multi[4].czxid == UINT64_C(0x500000012));
    assert_true(slice_eq(parsed.multi[5].path, slice_str("/e")));
    assert_true(parsed.multi[5].has_czxid && parsed.multi[5].czxid == 7);
    assert_false(parsed.multi[1].has_czxid);
    release(&parsed);
}

TEST(bodies_that_do_not_fit_are_refused_by_name)
{
    assert_refused(OP_MULTI, "", ERR_BAD_ARGUMENTS, "empty");
    assert_refused(OP_MULTI, "[]", ERR_BAD_ARGUMENTS, "object");
    assert_refused(OP_MULTI, "{}", ERR_BAD_ARGUMENTS, "ops");
    assert_refused(OP_MULTI, "{\"ops\":[]}", ERR_BAD_ARGUMENTS, "empty");
    assert_refused(OP_MULTI, "{\"ops\":[{}],\"x\":1}", ERR_BAD_ARGUMENTS, "x is not");
    assert_refused(OP_MULTI, "{\"ops\":[1]}", ERR_BAD_ARGUMENTS, "op");
    assert_refused(OP_MULTI, "{\"ops\":[{\"op\":\"fly\"}]}", ERR_BAD_ARGUMENTS, "fly");
    assert_refused(OP_MULTI, "{\"ops\":[{\"op\":\"multi\"}]}", ERR_BAD_ARGUMENTS, "multi");
    assert_refused(OP_MULTI, "{\"ops\":[{\"op\":\"get\"}]}", ERR_BAD_ARGUMENTS, "path");
    assert_refused(OP_MULTI, "{\"ops\":[{\"op\":\"get\",\"path\":7}]}", ERR_BAD_ARGUMENTS, "path");
    assert_refused(OP_MULTI, "{\"ops\":[{\"op\":\"get\",\"path\":\"a\"}]}", ERR_BAD_ARGUMENTS,
                   "not possible");
    assert_refused(OP_MULTI, "{\"ops\":[{\"op\":\"get\",\"op\":\"get\",\"path\":\"/\"}]}",
                   ERR_BAD_ARGUMENTS, "duplicate");
    assert_refused(OP_CREATE, "{\"dataUtf8\":\"a\",\"data64\":\"\"}", ERR_BAD_ARGUMENTS,
                   "exclude each other");
    assert_refused(OP_MULTI, "{\"ops\":[{\"op\":\"set\",\"path\":\"/a\"}]}", ERR_BAD_ARGUMENTS,
                   "must be given");
    assert_refused(OP_MULTI, "{\"ops\":[{\"op\":\"check\",\"path\":\"/a\",\"czxid\":\"x\"}]}",
                   ERR_BAD_ARGUMENTS, "czxid must be a number");
    assert_refused(OP_CREATE, "{\"data64\":\"a\"}", ERR_BAD_ARGUMENTS, "base64");
    assert_refused(OP_CREATE, "{\"data64\":7}", ERR_BAD_ARGUMENTS, "string");
    assert_refused(OP_CREATE, "{\"dataUtf8\":\"\",\"acl\":[]}", ERR_INVALID_ACL, "acl");
    assert_refused(OP_GET, "{\"path\":\"/a\",\"watch\":true}", ERR_BAD_ARGUMENTS, "watch is not");
    assert_refused(OP_CLOSE, "{\"hash\":\"x\"}", ERR_BAD_ARGUMENTS, "hash is not");
    assert_refused(OP_MULTI, "{\"ops\":[{\"op\":\"reap\",\"path\":\"/a\"}]}", ERR_BAD_ARGUMENTS,
                   "reap is not");
    assert_refused(OP_CREATE, "{\"dataUtf8\":\"\",\"name\":\"x\"}", ERR_BAD_ARGUMENTS, "name");
    assert_refused(OP_CREATE, "{\"dataUtf8\":\"\",\"data\":\"x\"}", ERR_BAD_ARGUMENTS, "data ");
    assert_refused(OP_CREATE, "{\"dataUtf8\":\"\",\"sequence\":1}", ERR_BAD_ARGUMENTS, "sequence");
    assert_refused(OP_CREATE, "{\"op\":\"set\",\"dataUtf8\":\"\"}", ERR_BAD_ARGUMENTS, "op");
    assert_refused(OP_CREATE, "{\"dataUtf8\":\"\",\"ttl\":99999999999999999999}", ERR_BAD_ARGUMENTS,
                   "JSON");
    assert_refused(OP_CREATE, "{\"dataUtf8\":\"\",\"ttl\":1.5}", ERR_BAD_ARGUMENTS, "ttl");
    assert_refused(OP_CREATE, "{\"dataUtf8\":\"\",\"ttl\":null}", ERR_BAD_ARGUMENTS, "ttl");
    assert_refused(OP_LEVEL, "{\"hold\":\"1\"}", ERR_BAD_ARGUMENTS, "hold has a value");
    assert_refused(OP_LEVEL, "{\"hold\":0}", ERR_BAD_ARGUMENTS, "hold is out of range");
    assert_refused(OP_LEVEL, "{\"raise\":null}", ERR_BAD_ARGUMENTS, "raise has a value");
}

TEST(a_bound_is_a_number_or_null)
{
    struct parsed parsed;

    parse(&parsed, OP_LEVEL, "{\"hold\":null}");
    assert_int_equal(parsed.err, ERR_OK);
    assert_true(parsed.args.has_hold && parsed.args.hold == 0);
    release(&parsed);
    parse(&parsed, OP_LEVEL, "{\"hold\":3}");
    assert_int_equal(parsed.err, ERR_OK);
    assert_true(parsed.args.has_hold && parsed.args.hold == 3);
    release(&parsed);
}

TEST(changes_of_the_members_are_read)
{
    struct parsed parsed;

    parse(&parsed, OP_MEMBER_ADD,
          "{\"id\":4,\"peer\":\"zk4:10998\",\"client\":\"zk4:9998\",\"zone\":\"b\","
          "\"autoPromote\":true,\"dryRun\":true}");
    assert_int_equal(parsed.err, ERR_OK);
    assert_int_equal(parsed.args.member, 4);
    assert_true(parsed.args.has_peer && slice_eq(parsed.args.peer, slice_str("zk4:10998")));
    assert_true(parsed.args.has_client && slice_eq(parsed.args.client, slice_str("zk4:9998")));
    assert_true(parsed.args.has_zone && slice_eq(parsed.args.zone, slice_str("b")));
    assert_true(parsed.args.auto_promote && parsed.args.dry_run);
    release(&parsed);
    parse(&parsed, OP_MEMBER_SET, "{\"role\":\"voter\",\"minTolerance\":0,\"force\":true}");
    assert_int_equal(parsed.err, ERR_OK);
    assert_int_equal(parsed.args.role, OP_ROLE_VOTER);
    assert_true(parsed.args.has_tolerance && parsed.args.min_tolerance == 0 && parsed.args.force);
    assert_false(parsed.args.has_peer);
    release(&parsed);
    parse(&parsed, OP_MEMBERS_CHANGE, "{\"remove\":[1,65535],\"promote\":[4],\"demote\":[]}");
    assert_int_equal(parsed.err, ERR_OK);
    assert_int_equal(op_ids_count(parsed.args.remove), 2);
    assert_int_equal(op_ids_at(parsed.args.remove, 1), 65535);
    assert_int_equal(op_ids_at(parsed.args.promote, 0), 4);
    assert_int_equal(op_ids_count(parsed.args.demote), 0);
    release(&parsed);
}

TEST(changes_of_the_members_that_do_not_fit_are_refused_by_name)
{
    char ids[1024] = "{\"remove\":[1";
    static const char range[] = "id must be the id of a member: a number from 1 to 65535";

    assert_refused(OP_MEMBER_ADD, "{\"id\":0}", ERR_BAD_ARGUMENTS, range);
    assert_refused(OP_MEMBER_ADD, "{\"id\":65536}", ERR_BAD_ARGUMENTS, range);
    assert_refused(OP_MEMBER_ADD, "{\"id\":-1}", ERR_BAD_ARGUMENTS, range);
    assert_refused(OP_MEMBER_ADD, "{\"id\":\"4\"}", ERR_BAD_ARGUMENTS, "id has a value");
    assert_refused(OP_MEMBER_ADD, "{\"id\":4.0}", ERR_BAD_ARGUMENTS, "id has a value");
    assert_refused(OP_MEMBER_ADD, "{\"peer\":null}", ERR_BAD_ARGUMENTS, "peer has a value");
    assert_refused(OP_MEMBER_ADD, "{\"autoPromote\":1}", ERR_BAD_ARGUMENTS, "autoPromote has");
    assert_refused(OP_MEMBER_ADD, "{\"role\":\"voter\"}", ERR_BAD_ARGUMENTS, "role is not");
    assert_refused(OP_MEMBER_SET, "{\"role\":\"king\"}", ERR_BAD_ARGUMENTS,
                   "role must be voter or observer");
    assert_refused(OP_MEMBER_SET, "{\"role\":\"empty-seat\"}", ERR_BAD_ARGUMENTS, "role must be");
    assert_refused(OP_MEMBER_SET, "{\"minTolerance\":-1}", ERR_BAD_ARGUMENTS,
                   "minTolerance is out of range");
    assert_refused(OP_MEMBERS_CHANGE, "{\"remove\":4}", ERR_BAD_ARGUMENTS, "remove must be a list");
    assert_refused(OP_MEMBERS_CHANGE, "{\"remove\":[\"4\"]}", ERR_BAD_ARGUMENTS, "remove must be");
    assert_refused(OP_MEMBERS_CHANGE, "{\"demote\":[0]}", ERR_BAD_ARGUMENTS, "demote must be");
    assert_refused(OP_MEMBERS_CHANGE, "{\"If-Match\":1}", ERR_BAD_ARGUMENTS, "If-Match is not");
    for (int i = 0; i < OP_MEMBERS_MAX; i++) {
        (void)snprintf(ids + strlen(ids), sizeof(ids) - strlen(ids), ",%d", i + 2);
    }
    (void)snprintf(ids + strlen(ids), sizeof(ids) - strlen(ids), "]}");
    assert_refused(OP_MEMBERS_CHANGE, ids, ERR_BAD_ARGUMENTS, "more than 64 ids");
}

/* A list of ids takes no more bytes than its text has, for which there is room. */
TEST(the_shortest_text_of_ids_fits)
{
    struct parsed parsed;

    parse(&parsed, OP_MEMBERS_CHANGE,
          "{\"remove\":[1,2,3,4,5,6,7,8,9],\"promote\":[1,2,3,4,5,6,7,8,9],"
          "\"demote\":[1,2,3,4,5,6,7,8,9]}");
    assert_int_equal(parsed.err, ERR_OK);
    assert_int_equal(op_ids_at(parsed.args.demote, 8), 9);
    release(&parsed);
}

TEST(the_failing_element_is_named)
{
    struct parsed parsed;

    parse(&parsed, OP_MULTI,
          "{\"ops\":[{\"op\":\"delete\",\"path\":\"/a\"},{\"op\":\"delete\",\"path\":\"/a/\"}]}");
    assert_int_equal(parsed.err, ERR_BAD_ARGUMENTS);
    assert_true(parsed.fault.has_index);
    assert_int_equal(parsed.fault.index, 1);
    release(&parsed);
}

TEST(nesting_is_bounded_before_parsing)
{
    struct buf text;

    buf_init(&text, TEXT_MAX);
    buf_append_str(&text, "{\"dataJson\":");
    for (int i = 0; i < 200000; i++) {
        buf_append_byte(&text, '[');
    }
    assert_refused(OP_CREATE, buf_cstr(&text), ERR_BAD_ARGUMENTS, "64 levels");
    assert_false(op_json_valid(buf_slice(&text)));
    assert_true(op_json_valid(slice_str("[[1]]")));
    assert_true(op_json_valid(slice_str("\"]]]]\"")));
    assert_false(op_json_valid(slice_str("")));
    assert_false(op_json_valid(slice_str("{\"a\":1} x")));
    buf_release(&text);
}

TEST(random_changes_of_bodies_do_no_harm)
{
    const char *text =
        "{\"ops\":[{\"op\":\"create\",\"path\":\"/a\",\"dataJson\":{\"b\":[1,\"c\"]}},"
        "{\"op\":\"set\",\"path\":\"/b\",\"data64\":\"aGk=\",\"version\":3}]}";
    char copy[300];
    struct rng rng;

    rng_init(&rng, 11);
    for (int round = 0; round < ROUNDS; round++) {
        struct parsed parsed;

        memcpy(copy, text, strlen(text) + 1);
        for (uint64_t n = rng_range(&rng, 1, 3); n > 0; n--) {
            copy[rng_below(&rng, strlen(text))] = (char)rng_range(&rng, 1, 255);
        }
        parse(&parsed, OP_MULTI, copy);
        release(&parsed);
    }
}

static void assert_json(const struct op_args *args, const struct op_result *result, bool hex,
                        const char *want)
{
    struct op_json_style style = {.uri = slice_str(hex ? "" : "http://h/x"), .message = hex};
    struct jsonw json;
    struct buf out;

    buf_init(&out, TEXT_MAX);
    jsonw_init(&json, &out);
    assert_int_equal(op_json_result(&json, args, result, &style), ERR_OK);
    assert_string_equal(buf_cstr(&out), want);
    buf_release(&out);
}

TEST(a_znode_is_flat_and_wide_numbers_have_twins)
{
    struct op_args args;
    struct op_result result;

    op_args_init(&args, OP_GET);
    op_result_init(&result);
    args.path = slice_str("/a");
    args.dataformat = OP_AUTO;
    result.data = blob_new(slice_str("x\"y"));
    result.has_stat = true;
    result.stat = (struct stat_view){.czxid = 16,
                                     .mzxid = 17,
                                     .pzxid = 18,
                                     .ctime = 1,
                                     .mtime = 2,
                                     .version = 3,
                                     .cversion = 4,
                                     .aversion = 5,
                                     .ephemeral_owner = 6,
                                     .data_length = 3,
                                     .num_children = 8};
    assert_json(&args, &result, false,
                "{\"path\":\"/a\",\"uri\":\"http://h/x\",\"dataUtf8\":\"x\\\"y\",\"czxid\":16,"
                "\"czxidHex\":\"0x10\",\"mzxid\":17,\"mzxidHex\":\"0x11\",\"ctime\":1,\"mtime\":2,"
                "\"version\":3,\"cversion\":4,\"aversion\":5,\"ephemeralOwner\":6,"
                "\"ephemeralOwnerHex\":\"0x6\",\"dataLength\":3,\"numChildren\":8,\"pzxid\":18,"
                "\"pzxidHex\":\"0x12\"}");
    args.dataformat = OP_NONE;
    assert_json(&args, &result, true,
                "{\"path\":\"/a\",\"stat\":{\"czxid\":\"0x10\",\"mzxid\":\"0x11\",\"ctime\":1,"
                "\"mtime\":2,\"version\":3,\"cversion\":4,\"aversion\":5,"
                "\"ephemeralOwner\":\"0x6\",\"dataLength\":3,\"numChildren\":8,"
                "\"pzxid\":\"0x12\"}}");
    op_result_release(&result);
}

TEST(data_without_a_representation_is_refused)
{
    struct op_json_style style = {.message = false};
    struct op_args args;
    struct op_result result;
    struct jsonw json;
    struct buf out;

    op_args_init(&args, OP_GET);
    op_result_init(&result);
    args.path = slice_str("/a");
    result.data = blob_new(slice_str("\xff"));
    buf_init(&out, TEXT_MAX);
    for (int format = OP_UTF8; format <= OP_JSON; format++) {
        args.dataformat = (enum op_dataformat)format;
        jsonw_init(&json, &out);
        assert_int_equal(op_json_result(&json, &args, &result, &style),
                         format == OP_AUTO ? ERR_OK : ERR_NOT_ACCEPTABLE);
    }
    buf_release(&out);
    op_result_release(&result);
}

TEST(the_outcome_of_a_write_is_reported)
{
    assert_string_equal(op_outcome(OP_KIND_WRITE, ERR_OUTCOME_UNKNOWN), "unknown");
    assert_string_equal(op_outcome(OP_KIND_WRITE, ERR_IN_FLIGHT), "unknown");
    assert_string_equal(op_outcome(OP_KIND_WRITE, ERR_NOT_READY), "not-applied");
    assert_string_equal(op_outcome(OP_KIND_READ, ERR_SYSTEM_ERROR), "not-applied");
}

/* Whatever went wrong, and wherever: the client learns whether to check or to try again. */
TEST(each_problem_states_its_outcome)
{
    for (int err = ERR_OK + 1; err < ERR_COUNT; err++) {
        for (int kind = OP_KIND_READ; kind <= OP_KIND_INFO; kind++) {
            struct op_problem problem = op_problem_make((enum op_kind)kind, (enum err)err);
            struct jsonw json;
            struct buf out;

            buf_init(&out, TEXT_MAX);
            jsonw_init(&json, &out);
            op_json_problem(&json, &problem);
            assert_non_null(strstr(buf_cstr(&out), problem.outcome));
            assert_true(!strcmp(problem.outcome, "not-applied") ||
                        (kind == OP_KIND_WRITE && !strcmp(problem.outcome, "unknown")));
            buf_release(&out);
        }
    }
}
