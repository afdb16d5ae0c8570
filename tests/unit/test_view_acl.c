/* What a client may read, by ZooKeeper's rules; reads of ACLs and sessions. */
#include "base/mem.h"
#include "server/op/acl.h"
#include "server/op/ops.h"
#include "server/read/view.h"
#include "tests/lib/state_kit.h"
#include "tests/lib/unit.h"

#include <stdio.h>

struct fixture {
    struct view *view;
    struct state *state; /* The view's. */
    struct op_result result;
    zxid_t zxid;
    struct op_principal anonymous;
    struct op_principal alice;
    struct op_principal root;
    struct buf acl;
};

/* A text with zero bytes does not fit the kit's function. */
static void create(struct fixture *fixture, const char *path, const char *data, struct slice acl)
{
    struct buf txn;
    struct state *state = view_write(fixture->view);
    const char *slash = strrchr(path, '/');
    size_t parent_len = slash == path ? 1 : (size_t)(slash - path);
    const struct znode *parent = state_find(state, slice_make(path, parent_len));

    buf_init(&txn, 1 << 20);
    kit_begin(&txn, KIT_TIME_MS);
    txn_put(&txn, &(struct txn_effect){.type = TXN_CREATE,
                                       .path = slice_str(path),
                                       .data = slice_str(data),
                                       .acl = acl,
                                       .creates = znode_creates(parent) + 1});
    assert_int_equal(kit_apply(state, ++fixture->zxid, &txn), ERR_OK);
    buf_release(&txn);
    view_write_done(fixture->view);
}

static void put(struct fixture *fixture, uint32_t perms, const char *scheme, const char *id)
{
    acl_put(&fixture->acl,
            &(struct acl_entry){.perms = perms, .scheme = slice_str(scheme), .id = slice_str(id)});
}

static struct slice alices(struct fixture *fixture, uint32_t perms)
{
    char id[256];
    struct auth_id shown = fixture->alice.auth->ids[0];

    (void)snprintf(id, sizeof id, "%.*s", (int)shown.id.len, (const char *)shown.id.data);
    buf_clear(&fixture->acl);
    put(fixture, perms, "digest", id);
    return buf_slice(&fixture->acl);
}

static void setup(struct fixture *fixture)
{
    *fixture = (struct fixture){.view = view_new(), .state = state_new(1)};
    view_replace(fixture->view, fixture->state);
    view_set_whole(fixture->view, true);
    op_result_init(&fixture->result);
    buf_init(&fixture->acl, ACL_BYTES_MAX);
    assert_int_equal(
        auth_add(NULL, slice_str("digest"), slice_str("alice:secret"), "", &fixture->alice.auth),
        ERR_OK);
    create(fixture, "/open", "o", slice_make(NULL, 0));
    create(fixture, "/open/mine", "m", alices(fixture, ACL_ALL));
    create(fixture, "/open/other", "x", slice_make(NULL, 0));
    create(fixture, "/open/mine/below", "b", slice_make(NULL, 0));
}

static void teardown(struct fixture *fixture)
{
    op_result_release(&fixture->result);
    auth_unref(fixture->alice.auth);
    auth_unref(fixture->root.auth);
    buf_release(&fixture->acl);
    view_free(fixture->view);
}

static struct op_result *read_op(struct fixture *fixture, const struct op_principal *who,
                                 struct op_args args)
{
    struct op_result *result = &fixture->result;

    op_result_release(result);
    op_result_init(result);
    view_run(fixture->view, who, &args, result);
    return result;
}

static struct op_args about(enum op_id op, const char *path)
{
    struct op_args args;

    op_args_init(&args, op);
    args.path = slice_str(path);
    return args;
}

/* ---- READ ---- */

TEST(each_read_needs_the_permission, fixture, setup, teardown)
{
    static const enum op_id ops[] = {OP_GET, OP_STAT, OP_EXISTS, OP_CHILDREN, OP_TREE};

    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        struct op_args args = about(ops[i], "/open/mine");
        struct op_result *result = read_op(fixture, &fixture->anonymous, args);

        assert_int_equal(result->err, ERR_NO_AUTH);
        assert_false(result->has_stat);
        assert_null(result->data);
        assert_int_equal(result->entry_count, 0);
        assert_int_equal(result->zxid, fixture->zxid);
        assert_int_equal(read_op(fixture, &fixture->alice, args)->err, ERR_OK);
    }
}

/* The znode's own list counts: nothing is inherited. */
TEST(znodes_below_have_their_own_lists, fixture, setup, teardown)
{
    struct op_result *result =
        read_op(fixture, &fixture->anonymous, about(OP_GET, "/open/mine/below"));

    assert_int_equal(result->err, ERR_OK);
    assert_true(slice_eq(blob_slice(result->data), slice_str("b")));
}

TEST(absence_is_no_secret, fixture, setup, teardown)
{
    assert_int_equal(read_op(fixture, &fixture->anonymous, about(OP_GET, "/open/mine/no"))->err,
                     ERR_NO_NODE);
    assert_int_equal(read_op(fixture, &fixture->anonymous, about(OP_EXISTS, "/open/no"))->err,
                     ERR_NO_NODE);
}

TEST(the_super_user_reads_all, fixture, setup, teardown)
{
    struct auth *auth = fixture->alice.auth;
    char digest[256];

    (void)snprintf(digest, sizeof digest, "%.*s", (int)auth->ids[0].id.len,
                   (const char *)auth->ids[0].id.data);
    assert_int_equal(
        auth_add(NULL, slice_str("digest"), slice_str("alice:secret"), digest, &fixture->root.auth),
        ERR_OK);
    assert_true(fixture->root.auth->super);
    buf_clear(&fixture->acl);
    put(fixture, ACL_READ, "ip", "10.1.2.3");
    create(fixture, "/far", "f", buf_slice(&fixture->acl));
    assert_int_equal(read_op(fixture, &fixture->alice, about(OP_GET, "/far"))->err, ERR_NO_AUTH);
    assert_int_equal(read_op(fixture, &fixture->root, about(OP_GET, "/far"))->err, ERR_OK);
}

TEST(other_permissions_do_not_permit_reading, fixture, setup, teardown)
{
    create(fixture, "/w", "w", alices(fixture, ACL_ALL & ~(uint32_t)ACL_READ));
    assert_int_equal(read_op(fixture, &fixture->alice, about(OP_GET, "/w"))->err, ERR_NO_AUTH);
    assert_int_equal(read_op(fixture, &fixture->alice, about(OP_EXISTS, "/w"))->err, ERR_NO_AUTH);
}

/* ---- Lists of more than one znode. ---- */

/* Names belong to the parent; stat and data do not. */
TEST(unreadable_children_show_their_names, fixture, setup, teardown)
{
    struct op_args args = about(OP_CHILDREN, "/open");

    args.with = OP_WITH_DATA;
    struct op_result *result = read_op(fixture, &fixture->anonymous, args);

    assert_int_equal(result->err, ERR_OK);
    assert_int_equal(result->entry_count, 2);
    assert_true(slice_eq(result->entries[0].path, slice_str("mine")));
    assert_true(result->entries[0].hidden);
    assert_int_equal(result->entries[0].stat.czxid, 0);
    assert_null(result->entries[0].data);
    assert_false(result->entries[1].hidden);
    assert_true(slice_eq(blob_slice(result->entries[1].data), slice_str("x")));

    result = read_op(fixture, &fixture->alice, args);
    assert_false(result->entries[0].hidden);
    assert_true(slice_eq(blob_slice(result->entries[0].data), slice_str("m")));
}

TEST(a_tree_ends_at_unreadable_znodes, fixture, setup, teardown)
{
    struct op_args args = about(OP_TREE, "/open");

    args.with = OP_WITH_STAT;
    struct op_result *result = read_op(fixture, &fixture->anonymous, args);

    assert_int_equal(result->err, ERR_OK);
    assert_int_equal(result->entry_count,
                     3); /* The top itself, mine and other; nothing below mine. */
    assert_true(slice_eq(result->entries[1].path, slice_str("mine")));
    assert_true(result->entries[1].hidden);
    assert_false(result->entries[2].hidden);
    assert_int_equal(read_op(fixture, &fixture->alice, args)->entry_count, 4);
}

TEST(each_element_of_a_list_has_its_own_error, fixture, setup, teardown)
{
    struct op_args ops[] = {about(OP_GET, "/open/mine"),    about(OP_GET, "/open"),
                            about(OP_EXISTS, "/open/mine"), about(OP_CHILDREN, "/open/mine"),
                            about(OP_GET, "/no"),           about(OP_CHILDREN, "/open")};

    static const enum err errs[] = {ERR_NO_AUTH, ERR_OK,      ERR_NO_AUTH,
                                    ERR_NO_AUTH, ERR_NO_NODE, ERR_OK};
    struct op_args args = about(OP_MULTI, "");

    args.ops = ops;
    args.op_count = sizeof ops / sizeof ops[0];
    struct op_result *result = read_op(fixture, &fixture->anonymous, args);

    assert_int_equal(result->err, ERR_OK);
    assert_int_equal(result->result_count, args.op_count);
    for (size_t i = 0; i < args.op_count; i++) {
        assert_int_equal(result->results[i].err, errs[i]);
        assert_int_equal(result->results[i].zxid, fixture->zxid);
    }
    assert_null(result->results[0].data);
    assert_int_equal(result->results[3].entry_count, 0);
    assert_int_equal(result->results[5].entry_count, 2);
}

/* ---- The list itself. ---- */

static bool shown_id_is(const struct op_result *result, const char *id)
{
    struct slice rest = blob_slice(result->acl);
    struct acl_entry entry;

    return acl_next(&rest, &entry) && slice_eq(entry.id, slice_str(id));
}

TEST(an_open_znode_has_no_list, fixture, setup, teardown)
{
    struct op_result *result = read_op(fixture, &fixture->anonymous, about(OP_GETACL, "/open"));

    assert_int_equal(result->err, ERR_OK);
    assert_true(result->has_acl && result->has_stat);
    assert_null(result->acl);
}

TEST(a_list_needs_read_or_admin, fixture, setup, teardown)
{
    struct op_args args = about(OP_GETACL, "/open/mine");

    assert_int_equal(read_op(fixture, &fixture->anonymous, args)->err, ERR_NO_AUTH);
    assert_int_equal(read_op(fixture, &fixture->alice, args)->err, ERR_OK);
    create(fixture, "/admin", "", alices(fixture, ACL_ADMIN));
    assert_int_equal(read_op(fixture, &fixture->alice, about(OP_GETACL, "/admin"))->err, ERR_OK);
    create(fixture, "/write", "", alices(fixture, ACL_WRITE));
    assert_int_equal(read_op(fixture, &fixture->alice, about(OP_GETACL, "/write"))->err,
                     ERR_NO_AUTH);
    assert_int_equal(read_op(fixture, &fixture->alice, about(OP_GETACL, "/no"))->err, ERR_NO_NODE);
}

TEST(only_an_administrator_sees_hashes, fixture, setup, teardown)
{
    char id[64];

    (void)snprintf(id, sizeof id, "%.*s", (int)fixture->alice.auth->ids[0].id.len,
                   (const char *)fixture->alice.auth->ids[0].id.data);
    create(fixture, "/r", "", alices(fixture, ACL_READ));
    assert_true(shown_id_is(read_op(fixture, &fixture->alice, about(OP_GETACL, "/r")), "alice:x"));
    assert_true(shown_id_is(read_op(fixture, &fixture->alice, about(OP_GETACL, "/open/mine")), id));
}

/* As long as an id may be: longer than the name of any client's identity. */
TEST(long_names_are_shown_as_well, fixture, setup, teardown)
{
    size_t len = 4000;
    char *id = mem_alloc(len + 32);

    memset(id, 'u', len);
    (void)snprintf(id + len, 32, ":%s", "AAAAAAAAAAAAAAAAAAAAAAAAAAA=");
    buf_clear(&fixture->acl);
    put(fixture, ACL_READ, "digest", id);
    put(fixture, ACL_READ, "world", "anyone");
    create(fixture, "/long", "", buf_slice(&fixture->acl));
    struct op_result *result = read_op(fixture, &fixture->anonymous, about(OP_GETACL, "/long"));

    assert_int_equal(result->err, ERR_OK);
    (void)snprintf(id + len, 32, ":x");
    assert_true(shown_id_is(result, id));
    mem_free(id);
}

/* ---- Sessions. ---- */

static uint64_t open_session(struct fixture *fixture)
{
    struct state *state = view_write(fixture->view);

    assert_int_equal(kit_session(state, ++fixture->zxid), ERR_OK);
    view_write_done(fixture->view);
    return fixture->zxid;
}

TEST(a_session_is_found_by_secret_and_by_id, fixture, setup, teardown)
{
    uint64_t id = open_session(fixture);
    struct op_session session = {.shown = true, .id = id};
    struct op_session_info info = {0};

    assert_int_equal(view_find_session(fixture->view, &session, &info), ERR_OK);
    assert_int_equal(info.id, id);
    assert_true(info.timeout_ms > 0);
    session.id = 0;
    kit_hash(id, session.hash);
    info = (struct op_session_info){0};
    assert_int_equal(view_find_session(fixture->view, &session, &info), ERR_OK);
    assert_int_equal(info.id, id);
    session.hash[31] ^= 1;
    assert_int_equal(view_find_session(fixture->view, &session, &info), ERR_UNKNOWN_SESSION);
    session.id = id + 1;
    assert_int_equal(view_find_session(fixture->view, &session, &info), ERR_UNKNOWN_SESSION);
}

TEST(a_session_is_inspected_by_its_secret, fixture, setup, teardown)
{
    uint64_t id = open_session(fixture);
    uint8_t hash[TXN_SECRET_HASH_LEN];
    struct op_args args;

    op_args_init(&args, OP_GETSESSION);
    kit_hash(id, hash);
    args.secret_hash = slice_make(hash, sizeof hash);
    struct op_result *result = read_op(fixture, &fixture->anonymous, args);

    assert_int_equal(result->err, ERR_OK);
    assert_true(result->has_session);
    assert_int_equal(result->session.id, id);
    assert_int_equal(result->zxid, fixture->zxid);
    hash[0] ^= 1;
    result = read_op(fixture, &fixture->anonymous, args);
    assert_int_equal(result->err, ERR_UNKNOWN_SESSION);
    assert_false(result->has_session);
}

TEST(a_state_that_is_not_whole_knows_no_session, fixture, setup, teardown)
{
    struct op_session session = {.shown = true, .id = open_session(fixture)};
    struct op_session_info info;
    uint8_t hash[TXN_SECRET_HASH_LEN];
    struct op_args args;

    op_args_init(&args, OP_TOUCH);
    kit_hash(session.id, hash);
    args.secret_hash = slice_make(hash, sizeof hash);
    view_set_whole(fixture->view, false);
    assert_int_equal(view_find_session(fixture->view, &session, &info), ERR_NOT_READY);
    assert_int_equal(read_op(fixture, &fixture->anonymous, args)->err, ERR_NOT_READY);
    assert_int_equal(read_op(fixture, &fixture->anonymous, about(OP_GETACL, "/"))->err,
                     ERR_NOT_READY);
}

/* Whether the refusal of this write is evidence of a wrong password. */
static bool is_wrong(struct fixture *fixture, const char *credential, struct op_args args)
{
    struct op_principal who = {.auth = NULL};

    assert_int_equal(auth_add(NULL, slice_str("digest"), slice_str(credential), "", &who.auth),
                     ERR_OK);
    view_note_refusal(fixture->view, &who, &args);

    bool wrong = atomic_load(&who.auth->wrong) != 0;

    principal_release(&who);
    return wrong;
}

TEST(refused_writes_show_wrong_passwords, fixture, setup, teardown)
{
    static const char *const named[] = {"/vault", "/vault/x", "/vault/"};
    static const char *const others[] = {"", "/", "/open", "/x/vault", "vault", "//", "/vault//x"};

    create(fixture, "/vault", "x", alices(fixture, ACL_ALL));
    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++) {
        struct op_args element = {.op = OP_CREATE, .path = slice_str(named[i])};
        struct op_args multi = {.op = OP_MULTI, .ops = &element, .op_count = 1};

        assert_true(is_wrong(fixture, "alice:wrong", element));
        assert_true(is_wrong(fixture, "alice:wrong", multi));
        assert_false(is_wrong(fixture, "alice:secret", element));
        assert_false(is_wrong(fixture, "bob:wrong", element));
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_false(is_wrong(fixture, "alice:wrong",
                              (struct op_args){.op = OP_SET, .path = slice_str(others[i])}));
    }
}
