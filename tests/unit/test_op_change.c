/* Changes of the members: the rules of their arguments, and the answer as bytes. */
#include "server/op/change.h"
#include "server/op/ops.h"
#include "tests/lib/unit.h"

static struct op_args args_of(enum op_id op)
{
    struct op_args args;

    op_args_init(&args, op);
    args.member = 4;
    return args;
}

/* The arguments are refused, with `word` in the sentence. */
static void assert_refused(const struct op_args *args, const char *word)
{
    const char *why = NULL;

    assert_int_equal(op_args_check(args, &why), ERR_BAD_ARGUMENTS);
    if (!strstr(why, word)) {
        fail_msg("%s without %s", why, word);
    }
}

static void assert_fine(const struct op_args *args)
{
    const char *why = NULL;

    if (op_args_check(args, &why) != ERR_OK) {
        fail_msg("%s", why);
    }
}

static struct slice list(uint8_t *bytes, const uint32_t *ids, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        op_ids_put(bytes, i, ids[i]);
    }
    return slice_make(bytes, (size_t)count * OP_ID_BYTES);
}

/* ---- Addresses. ---- */

TEST(an_address_has_a_host_and_a_port)
{
    static const struct {
        const char *text;
        const char *host;
        uint16_t port;
    } good[] = {
        {"zk4:10998", "zk4", 10998},
        {"10.0.0.4:1", "10.0.0.4", 1},
        {"[fd00::4]:65535", "fd00::4", 65535},
        {"zk4.example.net:9999", "zk4.example.net", 9999},
    };

    static const char *const bad[] = {
        "",       "zk4",     ":1",         "zk4:",       "zk4:0",        "zk4:65536",  "zk4:+1",
        "zk4: 1", "zk 4:1",  "fd00::4:1",  "[fd00::4:1", "[]:1",         "[zk4]:1",    "zk4:1:2",
        "zk4:1 ", "zk4:0x1", "zk4:100000", "zk4\n:1",    "[10.0.0.4]:1", "\xc3\xa9:1",
    };
    struct slice host;
    uint16_t port = 0;

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_true(op_address_split(slice_str(good[i].text), &host, &port));
        assert_true(slice_eq(host, slice_str(good[i].host)));
        assert_int_equal(port, good[i].port);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (op_address_split(slice_str(bad[i]), &host, &port)) {
            fail_msg("\"%s\" is taken for an address", bad[i]);
        }
    }
}

TEST(a_host_has_at_most_253_bytes)
{
    char text[300];
    struct slice host;
    uint16_t port = 0;

    memset(text, 'h', sizeof(text));
    memcpy(text + OP_HOST_MAX, ":1", 3);
    assert_true(op_address_split(slice_str(text), &host, &port));
    text[OP_HOST_MAX] = 'h';
    memcpy(text + OP_HOST_MAX + 1, ":1", 3);
    assert_false(op_address_split(slice_str(text), &host, &port));
}

/* ---- Rules. ---- */

TEST(a_new_member_has_an_id_and_an_address)
{
    struct op_args args = args_of(OP_MEMBER_ADD);

    assert_refused(&args, "peer must be given");
    args.has_peer = true;
    args.peer = slice_str("zk4");
    assert_refused(&args, "peer must be host:port");
    args.peer = slice_str("zk4:10998");
    assert_fine(&args);
    args.client = slice_str("zk4");
    assert_refused(&args, "client must be host:port");
    args.client = slice_str("zk4:9998");
    args.zone = slice_str("rack 7");
    assert_refused(&args, "zone must be");
    args.zone = slice_str("0123456789012345678901234567890123456789012345678901234567890123");
    assert_refused(&args, "at most 63 bytes");
    args.zone = slice_str("rack-7");
    assert_fine(&args);
    args.member = 0;
    assert_refused(&args, "id must be given");
    args.member = 65536;
    assert_refused(&args, "1 to 65535");
}

/* It can be listened at, but not dialed. */
TEST(a_wildcard_is_no_address)
{
    static const char *const wildcards[] = {"0.0.0.0:1", "[::]:1", "[::ffff:0.0.0.0]:1"};
    struct op_args args = args_of(OP_MEMBER_SET);

    for (size_t i = 0; i < sizeof(wildcards) / sizeof(wildcards[0]); i++) {
        args.has_peer = true;
        args.peer = slice_str(wildcards[i]);
        assert_refused(&args, "peer is the address of no machine");
        args.peer = slice_str("[::1]:1");
        assert_fine(&args);
        args.client = slice_str(wildcards[i]);
        assert_refused(&args, "client is the address of no machine");
        args.client = slice_str("0.0.0.1:1");
        assert_fine(&args);
    }
}

TEST(a_member_gets_a_role_or_texts)
{
    struct op_args args = args_of(OP_MEMBER_SET);

    assert_refused(&args, "nothing to change");
    args.role = OP_ROLE_VOTER;
    assert_fine(&args);
    args.has_zone = true;
    assert_refused(&args, "role excludes");
    args.role = OP_ROLE_NONE;
    assert_fine(&args); /* The zone is removed. */
    args.has_zone = false;
    args.has_peer = true;
    assert_refused(&args, "peer must be host:port");
}

TEST(a_change_of_several_names_each_once)
{
    static const uint32_t one[] = {1, 65535};
    static const uint32_t other[] = {2, 1};
    static const uint32_t zero[] = {0};
    struct op_args args = args_of(OP_MEMBERS_CHANGE);
    uint8_t bytes[3][2 * OP_MEMBERS_MAX * OP_ID_BYTES];

    args.member = 0;
    assert_refused(&args, "must be given");
    args.remove = list(bytes[0], one, 2);
    assert_fine(&args);
    assert_int_equal(op_ids_count(args.remove), 2);
    assert_int_equal(op_ids_at(args.remove, 0), 1);
    assert_int_equal(op_ids_at(args.remove, 1), 65535);
    args.promote = list(bytes[1], other, 1);
    assert_fine(&args);
    args.promote = list(bytes[1], other, 2);
    assert_refused(&args, "twice");
    args.promote = list(bytes[1], zero, 1);
    assert_refused(&args, "from 1 to 65535");
    args.promote = slice_make(bytes[1], 1);
    assert_refused(&args, "at most 64");
    for (uint32_t i = 0; i < OP_MEMBERS_MAX - 1; i++) {
        op_ids_put(bytes[2], i, 100 + i);
    }
    args.promote = slice_make(NULL, 0);
    args.demote = slice_make(bytes[2], (OP_MEMBERS_MAX - 1) * OP_ID_BYTES);
    assert_refused(&args, "at most 64");
    args.remove.len = OP_ID_BYTES;
    assert_fine(&args);
}

TEST(the_tag_of_a_configuration_is_its_version)
{
    static const char *const bad[] = {"m1",
                                      "\"m\"",
                                      "\"d1\"",
                                      "\"m1",
                                      "\"mg\"",
                                      "W/\"m1\"",
                                      "\"m0123456789abcdef0\"",
                                      "\"m1\", \"m2\""};
    const struct op_field *field =
        op_field_find(ops_by_id(OP_MEMBER_REMOVE), slice_str("If-Match"));
    struct op_args args = args_of(OP_MEMBER_REMOVE);
    const char *why = NULL;

    assert_int_equal(op_field_parse(field, slice_str("*"), &args, &why), ERR_OK);
    assert_false(args.has_etag);
    assert_int_equal(op_field_parse(field, slice_str("\"m50000001a\""), &args, &why), ERR_OK);
    assert_true(args.has_etag && args.etag_czxid == UINT64_C(0x50000001a));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(op_field_parse(field, slice_str(bad[i]), &args, &why), ERR_BAD_ARGUMENTS);
    }
}

/* ---- The answer. ---- */

static void fill(struct op_change *change)
{
    *change = (struct op_change){.version = zxid_make(5, 7),
                                 .previous = zxid_make(4, 1),
                                 .tolerance_before = -1,
                                 .tolerance_after = 2,
                                 .in_step = 5,
                                 .count = OP_MEMBERS_MAX};
    for (uint32_t i = 0; i < change->count; i++) {
        change->members[i] = (struct op_change_member){65535 - OP_MEMBERS_MAX + i,
                                                       (enum op_role)(1 + i % 3), i % 2 == 0};
    }
}

TEST(an_answer_comes_out_as_it_went_in)
{
    struct op_change change;
    struct op_change got;
    struct buf bytes;

    fill(&change);
    buf_init(&bytes, OP_CHANGE_BYTES_MAX);
    op_change_encode(&change, &bytes);
    assert_false(bytes.overflow);
    assert_true(op_change_decode(buf_slice(&bytes), &got));
    assert_true(got.version == change.version && got.previous == change.previous);
    assert_int_equal(got.tolerance_before, -1);
    assert_int_equal(got.tolerance_after, 2);
    assert_int_equal(got.in_step, 5);
    assert_int_equal(got.count, change.count);
    for (uint32_t i = 0; i < got.count; i++) {
        assert_int_equal(got.members[i].id, change.members[i].id);
        assert_int_equal(got.members[i].role, change.members[i].role);
        assert_int_equal(got.members[i].joining, change.members[i].joining);
    }
    assert_true(op_change_version(buf_slice(&bytes)) == change.version);
    assert_true(op_change_is_applied(buf_slice(&bytes)));
    change.version = 0;
    buf_clear(&bytes);
    op_change_encode(&change, &bytes);
    assert_true(op_change_version(buf_slice(&bytes)) == change.previous);
    assert_false(op_change_is_applied(buf_slice(&bytes)));
    buf_release(&bytes);
}

TEST(a_damaged_answer_is_refused)
{
    struct op_change change;
    struct op_change got;
    struct buf bytes;

    fill(&change);
    buf_init(&bytes, OP_CHANGE_BYTES_MAX + 1);
    op_change_encode(&change, &bytes);
    for (size_t len = 0; len < bytes.len; len++) {
        assert_false(op_change_decode(slice_make(bytes.data, len), &got));
        assert_true(got.count <= OP_MEMBERS_MAX);
    }
    assert_int_equal(op_change_version(slice_make(bytes.data, 3)), 0);
    buf_append_byte(&bytes, 0);
    assert_false(op_change_decode(buf_slice(&bytes), &got));
    bytes.len--;
    bytes.data[0]++;
    assert_false(op_change_decode(buf_slice(&bytes), &got)); /* Another version. */
    bytes.data[0]--;
    bytes.data[bytes.len - 1] = OP_ROLES;
    assert_false(op_change_decode(buf_slice(&bytes), &got));
    bytes.data[bytes.len - 1] = 0;
    assert_false(op_change_decode(buf_slice(&bytes), &got));
    buf_release(&bytes);
}
