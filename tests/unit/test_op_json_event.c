/* Replies to messages, and the messages that the server sends by itself. */
#include "server/json/op_json.h"
#include "tests/lib/unit.h"

enum {
    TEXT_MAX = 1 << 20
};

static const struct stat_view a_stat = {.czxid = 16, .mzxid = 17, .pzxid = 18, .version = 3};

#define STAT                                                                   \
    "\"stat\":{\"czxid\":\"0x10\",\"mzxid\":\"0x11\",\"ctime\":0,\"mtime\":0," \
    "\"version\":3,\"cversion\":0,\"aversion\":0,\"ephemeralOwner\":\"0x0\","  \
    "\"dataLength\":0,\"numChildren\":0,\"pzxid\":\"0x12\"}"

static struct buf out;

static void open_output(void)
{
    buf_init(&out, TEXT_MAX);
}

static void close_output(void)
{
    buf_release(&out);
}

static struct jsonw *begin(void)
{
    static struct jsonw json;

    buf_clear(&out);
    jsonw_init(&json, &out);
    return &json;
}

static void assert_written(const char *want)
{
    assert_string_equal(buf_cstr(&out), want);
}

TEST(a_reply_has_the_id_and_the_zxid_of_its_state, open_output, close_output)
{
    struct op_args args;
    struct op_result result;

    op_args_init(&args, OP_SET);
    op_result_init(&result);
    args.path = slice_str("/svc/a");
    result.zxid = UINT64_C(0x500000015);
    result.has_stat = true;
    result.stat = a_stat;
    assert_int_equal(op_json_reply(begin(), 3, &args, &result, 0), ERR_OK);
    assert_written("{\"id\":3,\"ok\":true,\"zxid\":\"0x500000015\",\"path\":\"/svc/a\"," STAT "}");
    args.op = OP_SYNC;
    assert_int_equal(op_json_reply(begin(), 4, &args, &result, 0), ERR_OK);
    assert_written("{\"id\":4,\"ok\":true,\"zxid\":\"0x500000015\"}");
    args.op = OP_EXISTS;
    result.err = ERR_NO_NODE;
    result.replayed = true;
    assert_int_equal(op_json_reply(begin(), 5, &args, &result, 7), ERR_OK);
    assert_written("{\"id\":5,\"ok\":true,\"zxid\":\"0x500000015\",\"path\":\"/svc/a\","
                   "\"exists\":false,\"watch\":7,\"replayed\":true}");
    op_result_release(&result);
}

TEST(results_of_a_multi_are_in_the_form_of_messages, open_output, close_output)
{
    struct op_args items[1];
    struct op_args args;
    struct op_result results[1];
    struct op_result result = {.zxid = 9, .results = results, .result_count = 1};

    op_args_init(&items[0], OP_SET);
    items[0].path = slice_str("/a");
    op_args_init(&args, OP_MULTI);
    args.ops = items;
    args.op_count = 1;
    op_result_init(&results[0]);
    results[0].has_stat = true;
    results[0].stat = a_stat;
    assert_int_equal(op_json_reply(begin(), 1, &args, &result, 0), ERR_OK);
    assert_written("{\"id\":1,\"ok\":true,\"zxid\":\"0x9\",\"results\":[{\"op\":\"set\","
                   "\"ok\":true,\"path\":\"/a\"," STAT "}]}");
}

TEST(a_session_is_shown_in_both_forms, open_output, close_output)
{
    struct op_json_style style = {.uri = slice_str("http://h/sessions/v1/s")};
    struct op_args args;
    struct op_result result;

    op_args_init(&args, OP_SESSION);
    op_result_init(&result);
    args.secret = slice_str("s");
    result.has_session = true;
    result.session = (struct op_session_info){.id = 0x1f, .timeout_ms = 15000, .opened_ms = 7};
    assert_int_equal(op_json_result(begin(), &args, &result, &style), ERR_OK);
    assert_written("{\"id\":\"s\",\"uri\":\"http://h/sessions/v1/s\",\"session\":\"0x1f\","
                   "\"timeout_ms\":15000,\"opened_ms\":7,\"ephemerals\":0,\"ephemeral_bytes\":0}");
    assert_int_equal(op_json_reply(begin(), 1, &args, &result, 0), ERR_OK);
    assert_written("{\"id\":1,\"ok\":true,\"session\":{\"id\":\"s\",\"public\":\"0x1f\","
                   "\"timeout_ms\":15000,\"opened_ms\":7,\"ephemerals\":0,"
                   "\"ephemeral_bytes\":0}}");
    op_result_release(&result);
}

TEST(an_acl_is_shown_with_its_version, open_output, close_output)
{
    struct op_json_style style = {.message = false};
    struct op_args args;
    struct op_result result;

    op_args_init(&args, OP_GETACL);
    op_result_init(&result);
    args.path = slice_str("/a");
    result.has_acl = true;
    result.stat.aversion = 4;
    assert_int_equal(op_json_result(begin(), &args, &result, &style), ERR_OK);
    assert_non_null(strstr(buf_cstr(&out),
                           "{\"path\":\"/a\",\"acl\":[{\"perms\":[\"read\",\"write\",\"create\","
                           "\"delete\",\"admin\"],\"scheme\":\"world\",\"id\":\"anyone\"}],"
                           "\"aversion\":4,\"stat\":{"));
    op_result_release(&result);
}

TEST(a_watch_reply_says_how_it_resumed, open_output, close_output)
{
    struct subscribe_result result = {.id = 1, .zxid = 0x13, .resumed = SUBSCRIBE_REPLAYED};

    op_json_reply_watch(begin(), 2, &result);
    assert_written("{\"id\":2,\"ok\":true,\"zxid\":\"0x13\",\"watch\":1,\"resumed\":\"replayed\"}");
    result.resumed = SUBSCRIBE_FRESH;
    op_json_reply_watch(begin(), 2, &result);
    assert_written("{\"id\":2,\"ok\":true,\"zxid\":\"0x13\",\"watch\":1}");
}

TEST(an_error_is_a_problem_with_the_requests_id, open_output, close_output)
{
    struct op_problem problem = op_problem_make(OP_KIND_WRITE, ERR_NO_NODE);
    struct op_message_id id = {.known = true, .number = 8};

    problem.message = true;
    problem.path = slice_str("/a");
    op_json_reply_error(begin(), &id, &problem);
    assert_non_null(strstr(buf_cstr(&out), "{\"id\":8,\"ok\":false,\"error\":{\"type\":"));
    assert_non_null(strstr(buf_cstr(&out), "\"outcome\":\"not-applied\""));
    assert_null(strstr(buf_cstr(&out), "\"message\":"));
    id.known = false;
    op_json_reply_error(begin(), &id, &problem);
    assert_non_null(strstr(buf_cstr(&out), "{\"id\":null,\"ok\":false,"));
}

TEST(a_change_names_its_watches_and_shows_values_on_request, open_output, close_output)
{
    struct state_change change = {.type = TXN_SET, .stat = a_stat};
    struct watch second = {.id = 5};
    struct watch first = {.id = 1, .hit_next = &second};
    struct watch_event event = {.type = WATCH_DATA_CHANGED,
                                .path = slice_str("/svc/a"),
                                .zxid = UINT64_C(0x500000014),
                                .last = true,
                                .change = &change};

    change.data = blob_new(slice_str("x"));
    op_json_event(begin(), &event, &first, true, OP_AUTO);
    assert_written("{\"event\":\"NodeDataChanged\",\"watches\":[1,5],\"path\":\"/svc/a\","
                   "\"zxid\":\"0x500000014\",\"end\":true," STAT ",\"dataUtf8\":\"x\"}");
    event.last = false;
    event.diff = true;
    op_json_event(begin(), &event, NULL, false, OP_AUTO);
    assert_written("{\"event\":\"NodeDataChanged\",\"path\":\"/svc/a\","
                   "\"zxid\":\"0x500000014\",\"end\":false,\"diff\":true}");
    event.type = WATCH_DELETED;
    op_json_event(begin(), &event, NULL, true, OP_AUTO);
    assert_written("{\"event\":\"NodeDeleted\",\"path\":\"/svc/a\","
                   "\"zxid\":\"0x500000014\",\"end\":false,\"diff\":true}");
    blob_unref(change.data);
}

TEST(data_of_a_change_is_one_line_in_a_form_that_fits, open_output, close_output)
{
    struct state_change change = {.type = TXN_SET};
    struct watch_event event = {
        .type = WATCH_CREATED, .path = slice_str("/a"), .zxid = 1, .change = &change};

    change.data = blob_new(slice_str("{\n\"a\":\r1}"));
    op_json_event(begin(), &event, NULL, true, OP_JSON);
    assert_non_null(strstr(buf_cstr(&out), "\"dataJson\":{ \"a\": 1}}"));
    blob_unref(change.data);
    change.data = blob_new(slice_str("no\njson"));
    op_json_event(begin(), &event, NULL, true, OP_JSON);
    assert_non_null(strstr(buf_cstr(&out), "\"dataUtf8\":\"no\\njson\"}"));
    blob_unref(change.data);
    change.data = blob_new(slice_str("\xff"));
    op_json_event(begin(), &event, NULL, true, OP_UTF8);
    assert_non_null(strstr(buf_cstr(&out), "\"data64\":\"/w==\"}"));
    blob_unref(change.data);
}

TEST(the_server_announces_the_end_of_a_socket, open_output, close_output)
{
    struct op_hello hello = {.server = 2,
                             .role = "follower",
                             .history = 0x7f,
                             .zxid = UINT64_C(0x500000012),
                             .heartbeat_ms = 10000,
                             .limits = slice_str("{}")};
    uint32_t watches[] = {1, 4};

    op_json_hello(begin(), &hello);
    assert_written("{\"event\":\"hello\",\"protocol\":\"zabra.v1.json\",\"server\":2,"
                   "\"role\":\"follower\",\"history\":\"000000000000007f\","
                   "\"zxid\":\"0x500000012\",\"heartbeat_ms\":10000,\"limits\":{}}");
    op_json_heartbeat(begin(), 0x15);
    assert_written("{\"event\":\"heartbeat\",\"zxid\":\"0x15\"}");
    op_json_overrun(begin(), watches, 2, 0x11);
    assert_written("{\"event\":\"overrun\",\"watches\":[1,4],\"from\":\"0x11\"}");
    op_json_gap(begin(), watches, 1, 0x12);
    assert_written("{\"event\":\"gap\",\"watches\":[1],\"zxid\":\"0x12\"}");
    op_json_session_event(begin(), "expired", 0x1f, 0x20);
    assert_written("{\"event\":\"session\",\"state\":\"expired\",\"session\":\"0x1f\","
                   "\"zxid\":\"0x20\"}");
    struct jsonw *json = begin();

    op_json_closing_begin(json, "drain");
    jsonw_raw(json, slice_str("[\"h:1\"]"));
    jsonw_object_end(json);
    assert_written("{\"event\":\"closing\",\"reason\":\"drain\",\"servers\":[\"h:1\"]}");
}
