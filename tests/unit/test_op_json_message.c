/* Decodes messages of a WebSocket into requests, and converts ACLs between JSON and bytes. */
#include "server/json/op_json.h"
#include "server/op/acl.h"
#include "tests/lib/unit.h"

#include <stdio.h>

enum {
    TEXT_MAX = 1 << 20,
    LINE_MAX = 512
};

struct parsed {
    enum err err;
    struct op_request *request;
    struct op_message_id id;
    struct op_fault fault;
};

/* Decodes a copy that is freed afterwards: a request must not refer to the message. */
static struct parsed parse(const char *text)
{
    struct parsed parsed = {.request = op_request_new()};
    struct buf copy;

    buf_init(&copy, TEXT_MAX);
    buf_append_str(&copy, text);
    parsed.err = op_json_parse_message(buf_slice(&copy), parsed.request, &parsed.id, &parsed.fault);
    memset(copy.data, 'x', copy.len);
    buf_release(&copy);
    assert_int_equal(parsed.err, parsed.fault.err);
    return parsed;
}

static struct parsed accepted(const char *text)
{
    struct parsed parsed = parse(text);

    if (parsed.err != ERR_OK) {
        print_message("%s: %s\n", text, parsed.fault.detail);
    }
    assert_int_equal(parsed.err, ERR_OK);
    assert_true(parsed.id.known);
    return parsed;
}

static void release(struct parsed *parsed)
{
    op_request_free(parsed->request);
}

static void assert_text(struct slice got, const char *want)
{
    assert_true(slice_eq(got, slice_str(want)));
}

static void assert_refused(const char *text, enum err err, const char *word)
{
    struct parsed parsed = parse(text);

    if (parsed.err != err || !strstr(parsed.fault.detail, word)) {
        print_message("%s: %s\n", text, parsed.fault.detail);
    }
    assert_int_equal(parsed.err, err);
    assert_non_null(strstr(parsed.fault.detail, word));
    release(&parsed);
}

TEST(a_message_is_an_operation_with_its_envelope)
{
    struct parsed parsed = accepted(
        "{\"id\":9007199254740992,\"op\":\"set\",\"path\":\"/svc/a\",\"dataJson\": {\"a\":1.50} ,"
        "\"version\":3,\"key\":\"5b\",\"min_zxid\":\"0x500000012\",\"colour\":{\"dataJson\":7}}");
    struct op_request *request = parsed.request;

    assert_true(parsed.id.number == UINT64_C(1) << 53);
    assert_int_equal(request->def->id, OP_SET);
    assert_text(request->args.path, "/svc/a");
    assert_text(request->args.data, "{\"a\":1.50}");
    assert_true(request->args.has_version && request->args.version == 3);
    assert_text(request->key, "5b");
    assert_true(request->min_zxid == UINT64_C(0x500000012));
    assert_int_equal(request->consistency, OP_LOCAL);
    release(&parsed);

    parsed = accepted("{\"id\":0,\"op\":\"get\",\"path\":\"/a\",\"watch\":true,\"min_zxid\":17,"
                      "\"consistency\":\"linearizable\"}");
    assert_true(parsed.request->args.watch && parsed.request->min_zxid == 17);
    assert_int_equal(parsed.request->consistency, OP_LINEARIZABLE);
    assert_int_equal(parsed.request->args.dataformat, OP_AUTO);
    release(&parsed);
}

TEST(sessions_and_identities_have_their_members)
{
    struct parsed parsed = accepted("{\"id\":1,\"op\":\"session\",\"timeout_ms\":15000}");

    assert_int_equal(parsed.request->args.timeout_ms, 15000);
    release(&parsed);
    parsed = accepted("{\"id\":1,\"op\":\"attach\","
                      "\"session\":\"0189abcd-1234-4abc-89ab-0123456789ab\"}");
    assert_text(parsed.request->args.secret, "0189abcd-1234-4abc-89ab-0123456789ab");
    release(&parsed);
    parsed = accepted("{\"id\":1,\"op\":\"close\"}"); /* The attached session. */
    assert_int_equal(parsed.request->args.secret.len, 0);
    release(&parsed);
    parsed = accepted("{\"id\":1,\"op\":\"auth\",\"scheme\":\"digest\",\"credential\":\"me:pw\"}");
    assert_text(parsed.request->args.scheme, "digest");
    assert_text(parsed.request->args.credential, "me:pw");
    release(&parsed);
}

TEST(a_watch_has_its_kind_and_where_to_resume)
{
    struct parsed parsed = accepted("{\"id\":2,\"op\":\"watch\",\"path\":\"/svc\",\"kind\":"
                                    "\"recursive\",\"since\":\"0x500000001\",\"values\":true}");
    struct op_args *args = &parsed.request->args;

    assert_int_equal(args->kind, WATCH_RECURSIVE);
    assert_true(args->values && args->has_since && !args->has_since_history);
    assert_true(args->since == UINT64_C(0x500000001));
    release(&parsed);
    parsed = accepted("{\"id\":2,\"op\":\"watch\",\"path\":\"/a\",\"since\":\"7f:1a\"}");
    args = &parsed.request->args;
    assert_int_equal(args->kind, WATCH_PERSISTENT);
    assert_true(args->has_since_history && args->since_history == 0x7f && args->since == 0x1a);
    release(&parsed);
    parsed = accepted("{\"id\":2,\"op\":\"watch\",\"path\":\"/a\",\"since\":12}");
    assert_true(parsed.request->args.since == 12);
    release(&parsed);
    parsed = accepted("{\"id\":2,\"op\":\"unwatch\",\"watch\":7}");
    assert_int_equal(parsed.request->args.watch_id, 7);
    release(&parsed);
}

TEST(elements_find_their_values_among_unknown_members)
{
    struct parsed parsed =
        accepted("{\"id\":3,\"dataJson\":0,\"x\":[{\"dataJson\":1}],\"op\":\"multi\",\"ops\":["
                 "{\"op\":\"delete\",\"path\":\"/a\",\"dataJson\":2},"
                 "{\"op\":\"create\",\"path\":\"/b\",\"y\":{\"dataJson\":3},\"dataJson\":[4],"
                 "\"acl\":\"creator\"},{\"op\":\"set\",\"path\":\"/c\",\"dataJson\":\"5\"}]}");
    const struct op_args *items = parsed.request->multi;

    assert_int_equal(parsed.request->args.op_count, 3);
    assert_int_equal(items[0].data.len, 0);
    assert_text(items[1].data, "[4]");
    assert_true(items[1].has_acl);
    assert_text(items[2].data, "\"5\"");
    release(&parsed);
}

TEST(an_invalid_message_is_refused_with_its_id)
{
    const char *no_id[] = {"{\"op\":\"ping\"}", "{\"op\":\"ping\",\"id\":-1}",
                           "{\"op\":\"ping\",\"id\":1.0}", "{\"op\":\"ping\",\"id\":\"1\"}",
                           "{\"op\":\"ping\",\"id\":9007199254740993}"};
    struct parsed parsed;

    for (size_t i = 0; i < sizeof(no_id) / sizeof(no_id[0]); i++) {
        parsed = parse(no_id[i]);
        assert_true(parsed.err == ERR_BAD_ARGUMENTS && !parsed.id.known);
        release(&parsed);
    }
    parsed = parse("{\"id\":4,\"op\":\"fly\"}");
    assert_true(parsed.err == ERR_UNIMPLEMENTED && parsed.id.known && parsed.id.number == 4);
    assert_null(parsed.request->def);
    release(&parsed);
    assert_refused("{\"id\":4,\"op\":\"reap\",\"path\":\"/a\"}", ERR_UNIMPLEMENTED, "reap");
    assert_refused("{\"id\":4,\"op\":\"expire\",\"session\":1}", ERR_UNIMPLEMENTED, "expire");
    assert_refused("", ERR_BAD_ARGUMENTS, "message is empty");
    assert_refused("[1]", ERR_BAD_ARGUMENTS, "object");
    assert_refused("{\"id\":4}", ERR_BAD_ARGUMENTS, "op must");
    assert_refused("{\"id\":4,\"op\":\"get\"}", ERR_BAD_ARGUMENTS, "not possible");
    assert_refused("{\"id\":4,\"op\":\"check\",\"path\":\"/a\"}", ERR_BAD_ARGUMENTS, "multi");
    assert_refused("{\"id\":4,\"op\":\"attach\"}", ERR_BAD_ARGUMENTS, "session= must");
    assert_refused("{\"id\":4,\"op\":\"attach\",\"session\":\"short\"}", ERR_BAD_ARGUMENTS, "UUID");
    assert_refused("{\"id\":4,\"op\":\"unwatch\"}", ERR_BAD_ARGUMENTS, "watch= must");
    assert_refused("{\"id\":4,\"op\":\"auth\",\"scheme\":\"digest\"}", ERR_BAD_ARGUMENTS,
                   "credential");
    assert_refused("{\"id\":4,\"op\":\"setacl\",\"path\":\"/a\"}", ERR_BAD_ARGUMENTS, "acl must");
    assert_refused("{\"id\":4,\"op\":\"session\",\"expire\":1,\"timeout_ms\":1}", ERR_BAD_ARGUMENTS,
                   "exclude");
    assert_refused("{\"id\":4,\"op\":\"watch\",\"path\":\"/a\",\"kind\":\"all\"}",
                   ERR_BAD_ARGUMENTS, "kind");
    assert_refused("{\"id\":4,\"op\":\"watch\",\"path\":\"/a\",\"since\":\"0xg\"}",
                   ERR_BAD_ARGUMENTS, "since");
    assert_refused("{\"id\":4,\"op\":\"get\",\"path\":\"/a\",\"key\":\"\"}", ERR_BAD_ARGUMENTS,
                   "key");
    assert_refused("{\"id\":4,\"op\":\"get\",\"path\":\"/a\",\"min_zxid\":-1}", ERR_BAD_ARGUMENTS,
                   "min_zxid");
    assert_refused("{\"id\":4,\"op\":\"get\",\"path\":\"/a\",\"consistency\":\"weak\"}",
                   ERR_BAD_ARGUMENTS, "consistency");
    assert_refused("{\"id\":4,\"op\":\"create\",\"path\":\"/a\",\"name\":\"b\"}", ERR_BAD_ARGUMENTS,
                   "as the member path");
    assert_refused("{\"id\":4,\"op\":\"multi\",\"ops\":[{\"op\":\"get\",\"path\":\"/a\","
                   "\"watch\":true}]}",
                   ERR_BAD_ARGUMENTS, "no watch");
}

TEST(a_failing_element_is_named)
{
    struct parsed parsed = parse("{\"id\":5,\"op\":\"multi\",\"ops\":[{\"op\":\"get\",\"path\":"
                                 "\"/a\"},{\"op\":\"get\",\"path\":\"a\"}]}");

    assert_true(parsed.fault.has_index && parsed.fault.index == 1 && parsed.id.number == 5);
    assert_null(parsed.request->multi);
    release(&parsed);
}

/* ---- ACLs ---- */

/* A message with that JSON value as its ACL. */
static struct parsed read_acl(const char *value)
{
    struct parsed parsed;
    struct buf text;

    buf_init(&text, TEXT_MAX);
    buf_append_str(&text, "{\"id\":1,\"op\":\"setacl\",\"path\":\"/a\",\"acl\":");
    buf_append_str(&text, value);
    buf_append_byte(&text, '}');
    parsed = parse(buf_cstr(&text));
    assert_true(parsed.err == ERR_OK || parsed.fault.detail[0] != '\0');
    buf_release(&text);
    return parsed;
}

/* A list that is read from `value` is written as `want`. */
static void assert_acl(const char *value, const char *want)
{
    struct parsed parsed = read_acl(value);
    struct slice acl = parsed.request->args.acl;
    struct buf out;
    struct jsonw json;

    buf_init(&out, TEXT_MAX);
    assert_int_equal(parsed.err, ERR_OK);
    assert_true(acl.len > 0 && acl_is_sound(acl));
    jsonw_init(&json, &out);
    op_json_acl(&json, acl);
    assert_string_equal(buf_cstr(&out), want);
    buf_release(&out);
    release(&parsed);
}

static void assert_no_acl(const char *value)
{
    struct parsed parsed = read_acl(value);

    assert_int_equal(parsed.err, ERR_INVALID_ACL);
    release(&parsed);
}

TEST(an_acl_is_written_as_it_is_read)
{
    const char *list = "[{\"perms\":[\"read\",\"admin\"],\"scheme\":\"digest\",\"id\":\"me:h\"},"
                       "{\"perms\":[\"write\"],\"scheme\":\"ip\",\"id\":\"10.0.0.0/8\"}]";
    const char *all = "\"perms\":[\"read\",\"write\",\"create\",\"delete\",\"admin\"]";
    char want[LINE_MAX];

    assert_acl(list, list);
    (void)snprintf(want, sizeof(want), "[{%s,\"scheme\":\"world\",\"id\":\"anyone\"}]", all);
    assert_acl("\"open\"", want);
    assert_acl("\"read\"", "[{\"perms\":[\"read\"],\"scheme\":\"world\",\"id\":\"anyone\"}]");
    (void)snprintf(want, sizeof(want), "[{%s,\"scheme\":\"auth\",\"id\":\"\"}]", all);
    assert_acl("\"creator\"", want);
    assert_acl("[{\"scheme\":\"auth\",\"perms\":[\"all\"]}]", want);
}

TEST(malformed_acls_are_refused)
{
    const char *bad[] = {"\"closed\"",
                         "7",
                         "{}",
                         "[]",
                         "[1]",
                         "[{}]",
                         "[{\"perms\":[],\"scheme\":\"world\",\"id\":\"anyone\"}]",
                         "[{\"perms\":\"read\",\"scheme\":\"world\",\"id\":\"anyone\"}]",
                         "[{\"perms\":[\"fly\"],\"scheme\":\"world\",\"id\":\"anyone\"}]",
                         "[{\"perms\":[\"read\"],\"id\":\"anyone\"}]",
                         "[{\"perms\":[\"read\"],\"scheme\":\"ip\",\"id\":7}]",
                         "[{\"perms\":[\"read\"],\"scheme\":\"ip\",\"id\":\"::1\",\"x\":1}]"};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_no_acl(bad[i]);
    }
}

TEST(an_acl_has_bounds)
{
    struct buf text;

    buf_init(&text, TEXT_MAX);
    buf_append_byte(&text, '[');
    for (int i = 0; i <= ACL_ENTRIES_MAX; i++) {
        buf_append_str(&text, i ? "," : "");
        buf_append_str(&text, "{\"perms\":[\"read\"],\"scheme\":\"ip\",\"id\":\"::1\"}");
    }
    buf_append_byte(&text, ']');
    assert_no_acl(buf_cstr(&text));
    buf_clear(&text);
    buf_append_str(&text, "[{\"perms\":[\"read\"],\"scheme\":\"ip\",\"id\":\"");
    for (int i = 0; i < ACL_BYTES_MAX; i++) {
        buf_append_byte(&text, 'a');
    }
    buf_append_str(&text, "\"}]");
    assert_no_acl(buf_cstr(&text));
    buf_release(&text);
}
