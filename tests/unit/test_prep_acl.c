/* What ACLs refuse, in which order, and the lists that requests set. */
#include "server/op/acl.h"
#include "tests/unit/prep_kit.h"

enum {
    LIST_MAX = 256
};

/* An encoded list in memory of its own; valid until the third call after this one. */
static struct slice list_of(uint32_t perms, const char *scheme, const char *id)
{
    static uint8_t memory[4][LIST_MAX];
    static size_t next;
    uint8_t *to = memory[next++ % 4];
    struct buf out;

    buf_init(&out, LIST_MAX);
    acl_put(&out,
            &(struct acl_entry){.perms = perms, .scheme = slice_str(scheme), .id = slice_str(id)});
    memcpy(to, out.data, out.len);
    struct slice list = slice_make(to, out.len);

    buf_release(&out);
    return list;
}

static struct slice anyone(uint32_t perms)
{
    return list_of(perms, "world", "anyone");
}

/* Sets the identity of later requests; NULL: none. */
static void be(struct fixture *fixture, const char *credential)
{
    principal_release(&fixture->who);
    if (credential != NULL) {
        assert_int_equal(auth_add(NULL, slice_str("digest"), slice_str(credential),
                                  "root:gIN1qIOiR6J+O9R96nNDsKRfDDM=", &fixture->who.auth),
                         ERR_OK);
    }
}

static struct op_args with_acl(struct op_args args, struct slice acl)
{
    args.has_acl = true;
    args.acl = acl;
    return args;
}

/* Creates and applies a znode at `path` with that list; no ACL of a parent may forbid it. */
static void make(struct fixture *fixture, const char *path, struct slice acl)
{
    assert_int_equal(apply(fixture, with_acl(op(OP_CREATE, path), acl)), ERR_OK);
}

static struct slice acl_at(struct fixture *fixture, const char *path)
{
    return state_acl(fixture->state, znode_acl(kit_find(fixture->state, path)));
}

static void start_again(struct fixture *fixture)
{
    prep_clear(fixture->prep);
    state_free(fixture->state);
    fixture->state = state_new(1);
    fixture->zxid = 0;
}

TEST(each_operation_needs_its_right, fixture, setup, teardown)
{
    static const struct {
        enum op_id op;
        const char *path;
        uint32_t right;
        bool on_parent;
    } rows[] = {
        {OP_CREATE, "/p/n/x", ACL_CREATE, false}, {OP_SET, "/p/n", ACL_WRITE, false},
        {OP_SETACL, "/p/n", ACL_ADMIN, false},    {OP_CHECK, "/p/n", ACL_READ, false},
        {OP_DELETE, "/p/n", ACL_DELETE, true},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct op_args args = op(rows[i].op, rows[i].path);
        struct slice with = anyone(rows[i].right);
        struct slice without = anyone(ACL_ALL & ~rows[i].right);

        args.acl = anyone(ACL_ALL);
        make(fixture, "/p", rows[i].on_parent ? without : anyone(ACL_ALL));
        make(fixture, "/p/n", rows[i].on_parent ? with : without);
        assert_int_equal(run(fixture, args), ERR_NO_AUTH);
        const char *place = rows[i].on_parent ? "/p" : "/p/n";
        struct op_args more = with_acl(op(OP_SETACL, place), with);

        start_again(fixture);
        make(fixture, "/p", anyone(ACL_ALL));
        make(fixture, "/p/n", anyone(ACL_ALL));
        assert_int_equal(run(fixture, more), ERR_OK); /* In flight, and visible. */
        assert_int_equal(run(fixture, args), ERR_OK);
        start_again(fixture);
    }
}

TEST(create_checks_list_then_parent_then_right_then_name, fixture, setup, teardown)
{
    struct slice bad = list_of(ACL_ALL, "nobody", "x");

    make(fixture, "/p", anyone(ACL_READ));
    assert_int_equal(run(fixture, with_acl(op(OP_CREATE, "x"), bad)), ERR_BAD_ARGUMENTS);
    assert_int_equal(run(fixture, with_acl(op(OP_CREATE, "/no/x"), bad)), ERR_INVALID_ACL);
    assert_non_null(fixture->result.detail);
    assert_int_equal(run(fixture, op(OP_CREATE, "/no/x")), ERR_NO_NODE);
    assert_int_equal(run(fixture, op(OP_CREATE, "/p/..")), ERR_NO_AUTH);
    assert_int_equal(run(fixture, with_acl(op(OP_CREATE, "/x"), slice_make(NULL, 0))),
                     ERR_INVALID_ACL);
}

TEST(delete_checks_the_parent_before_the_znode, fixture, setup, teardown)
{
    struct op_args args = op(OP_DELETE, "/p/no");

    assert_int_equal(run(fixture, op(OP_DELETE, "/no/no")), ERR_NO_NODE);
    make(fixture, "/p", anyone(ACL_ALL & ~ACL_DELETE));
    assert_int_equal(run(fixture, args), ERR_NO_AUTH);
    make(fixture, "/p/n", anyone(ACL_ALL));
    args = op(OP_DELETE, "/p/n");
    args.has_version = true;
    args.version = 9;
    assert_int_equal(run(fixture, args), ERR_NO_AUTH);
    assert_false(fixture->result.has_stat);
}

TEST(set_checks_the_right_before_the_version, fixture, setup, teardown)
{
    struct op_args args = op(OP_SET, "/n");

    args.has_version = true;
    args.version = 9;
    make(fixture, "/n", anyone(ACL_READ));
    assert_int_equal(run(fixture, args), ERR_NO_AUTH);
    args.op = OP_CHECK;
    assert_int_equal(run(fixture, args), ERR_BAD_VERSION);
    assert_true(fixture->result.has_stat);
}

TEST(the_stat_of_an_unreadable_znode_is_not_shown, fixture, setup, teardown)
{
    struct op_args args = op(OP_DELETE, "/n");

    args.has_version = true;
    args.version = 9;
    make(fixture, "/n", anyone(ACL_WRITE));
    assert_int_equal(run(fixture, args), ERR_BAD_VERSION);
    assert_false(fixture->result.has_stat);
}

TEST(setacl_checks_in_order, fixture, setup, teardown)
{
    struct op_args args = with_acl(op(OP_SETACL, "/no"), list_of(ACL_ALL, "x", "y"));

    assert_int_equal(run(fixture, with_acl(op(OP_SETACL, "/no/"), args.acl)), ERR_BAD_ARGUMENTS);
    assert_int_equal(run(fixture, args), ERR_INVALID_ACL);
    args.acl = anyone(ACL_READ | ACL_ADMIN);
    assert_int_equal(run(fixture, args), ERR_NO_NODE);
    assert_int_equal(apply(fixture, op(OP_CREATE, "/n")), ERR_OK);
    args.path = slice_str("/n");
    args.has_aversion = true;
    args.aversion = 1;
    assert_int_equal(run(fixture, args), ERR_BAD_VERSION);
    assert_int_equal(fixture->result.stat.aversion, 0);
    args.aversion = 0;
    assert_int_equal(run(fixture, args), ERR_OK);
    assert_int_equal(run(fixture, args),
                     ERR_BAD_VERSION); /* The condition sees the change in flight. */
    prep_clear(fixture->prep);
    assert_int_equal(apply(fixture, args), ERR_OK);
    assert_true(slice_eq(acl_at(fixture, "/n"), args.acl));
    args.aversion = -1;
    args.acl = anyone(ACL_READ);
    assert_int_equal(apply(fixture, args), ERR_OK);
    args.aversion = 9;
    assert_int_equal(run(fixture, args), ERR_NO_AUTH);
    args.path = slice_str("/zookeeper/config");
    assert_int_equal(run(fixture, args), ERR_NO_AUTH);
    args.path = slice_str("/");
    args.has_aversion = false;
    assert_int_equal(apply(fixture, args), ERR_OK);
    assert_int_equal(run(fixture, op(OP_CREATE, "/x")), ERR_NO_AUTH);
}

static zxid_t czxid_at(struct fixture *fixture, const char *path)
{
    struct stat_view stat;

    znode_stat(kit_find(fixture->state, path), &stat);
    return stat.czxid;
}

/* By the ETag of the ACL, which changes when the znode is created again. */
TEST(setacl_by_the_tag_of_the_acl, fixture, setup, teardown)
{
    struct op_args args = with_acl(op(OP_SETACL, "/t"), anyone(ACL_ALL));

    args.has_etag = true;
    assert_int_equal(run(fixture, args), ERR_BAD_VERSION); /* If-Match on an absent list. */
    assert_int_equal(apply(fixture, op(OP_CREATE, "/t")), ERR_OK);
    args.etag_czxid = czxid_at(fixture, "/t");
    assert_int_equal(apply(fixture, args), ERR_OK);
    assert_int_equal(run(fixture, args), ERR_BAD_VERSION);
    assert_int_equal(fixture->result.stat.aversion, 1);
    assert_int_equal(apply(fixture, op(OP_DELETE, "/t")), ERR_OK);
    assert_int_equal(apply(fixture, op(OP_CREATE, "/t")), ERR_OK);
    assert_int_equal(run(fixture, args), ERR_BAD_VERSION);
    args.etag_czxid = czxid_at(fixture, "/t");
    assert_int_equal(run(fixture, args), ERR_OK);
}

TEST(a_creator_is_distinguished_from_others, fixture, setup, teardown)
{
    struct slice creator;

    assert_true(acl_standard(slice_str("creator"), &creator));
    assert_int_equal(run(fixture, with_acl(op(OP_CREATE, "/n"), creator)), ERR_INVALID_ACL);
    be(fixture, "ann:secret");
    make(fixture, "/n", creator);
    assert_int_equal(run(fixture, op(OP_SET, "/n")), ERR_OK);
    be(fixture, "bob:secret");
    assert_int_equal(run(fixture, op(OP_SET, "/n")), ERR_NO_AUTH);
    be(fixture, NULL);
    assert_int_equal(run(fixture, op(OP_SET, "/n")), ERR_NO_AUTH);
    /* The server's own requests have no identity, and no ACL refuses them. */
    const struct txn_header header = {.age_ms = 1, .stamp_ms = 1};
    struct op_args args = op(OP_SET, "/n");

    op_result_release(&fixture->result);
    op_result_init(&fixture->result);
    assert_int_equal(prep_request(fixture->prep, fixture->state,
                                  &(struct prep_job){.args = &args, .header = &header},
                                  fixture->zxid + 1, &fixture->txn, &fixture->result),
                     ERR_OK);
}

TEST(created_parents_get_the_same_list, fixture, setup, teardown)
{
    struct op_args args = op(OP_CREATE, "/a/b/c");
    struct slice list = anyone(ACL_READ | ACL_CREATE);

    args.parents = true;
    assert_int_equal(run(fixture, with_acl(args, anyone(ACL_READ))), ERR_NO_AUTH);
    assert_non_null(strstr(fixture->result.detail, "parents"));
    assert_int_equal(prep_pending(fixture->prep), 0);
    assert_int_equal(apply(fixture, with_acl(args, list)), ERR_OK);
    assert_true(slice_eq(acl_at(fixture, "/a"), list));
    assert_true(slice_eq(acl_at(fixture, "/a/b"), list));
    assert_true(slice_eq(acl_at(fixture, "/a/b/c"), list));
    make(fixture, "/p", anyone(ACL_READ));
    args.path = slice_str("/p/x/y");
    assert_int_equal(run(fixture, args), ERR_NO_AUTH);
    args.path = slice_str("/p/x/.."); /* Checked before the name. */
    assert_int_equal(run(fixture, args), ERR_NO_AUTH);
}

TEST(a_recursive_delete_needs_the_right_at_each_level, fixture, setup, teardown)
{
    struct op_args args = op(OP_DELETE, "/a");

    args.recursive = true;
    make(fixture, "/a", anyone(ACL_ALL));
    make(fixture, "/a/b", anyone(ACL_ALL & ~ACL_DELETE));
    make(fixture, "/a/b/c", anyone(ACL_READ));
    assert_int_equal(run(fixture, args), ERR_NO_AUTH);
    assert_int_equal(prep_pending(fixture->prep), 0);
    assert_int_equal(run(fixture, with_acl(op(OP_SETACL, "/a/b"), anyone(ACL_DELETE))), ERR_OK);
    assert_int_equal(run(fixture, args), ERR_OK);
}

/* ---- Quotas: the limits of a subtree belong to the client that administers it ---- */

#define LIMITS "/zookeeper/quota/p/zookeeper_limits"

static struct op_args limits_op(enum op_id id)
{
    struct op_args args = op(id, LIMITS);

    args.parents = true;
    return args;
}

static enum err upsert_limits(struct fixture *fixture)
{
    struct op_args args = limits_op(OP_SET);

    args.upsert = true;
    return run(fixture, args);
}

TEST(limits_need_the_right_admin_for_their_subtree, fixture, setup, teardown)
{
    struct op_args tree = op(OP_DELETE, "/zookeeper/quota/p");

    tree.recursive = true;
    make(fixture, "/p", anyone(ACL_ALL & ~ACL_ADMIN));
    assert_int_equal(run(fixture, limits_op(OP_CREATE)), ERR_NO_AUTH);
    assert_non_null(strstr(fixture->result.detail, "admin"));
    assert_int_equal(upsert_limits(fixture), ERR_NO_AUTH);
    be(fixture, "root:r");
    assert_int_equal(apply(fixture, limits_op(OP_CREATE)), ERR_OK);
    be(fixture, NULL);
    assert_int_equal(run(fixture, limits_op(OP_SET)), ERR_NO_AUTH);
    assert_int_equal(run(fixture, op(OP_DELETE, LIMITS)), ERR_NO_AUTH);
    assert_int_equal(run(fixture, tree), ERR_NO_AUTH);
    /* The right is that of the newest list, also in flight. */
    be(fixture, "root:r");
    assert_int_equal(run(fixture, with_acl(op(OP_SETACL, "/p"), anyone(ACL_ADMIN))), ERR_OK);
    be(fixture, NULL);
    assert_int_equal(run(fixture, limits_op(OP_SET)), ERR_OK);
    assert_int_equal(run(fixture, tree), ERR_OK);
}

TEST(limits_of_a_missing_subtree_need_admin_for_its_ancestor, fixture, setup, teardown)
{
    struct op_args args = limits_op(OP_CREATE);

    args.path = slice_str("/zookeeper/quota/p/a/b/zookeeper_limits");
    make(fixture, "/p", anyone(ACL_ALL & ~ACL_ADMIN));
    assert_int_equal(run(fixture, args), ERR_NO_AUTH);
    make(fixture, "/p/a", anyone(ACL_ADMIN));
    assert_int_equal(run(fixture, args), ERR_OK);
}

/* Other znodes below /zookeeper/quota limit nothing. */
TEST(znodes_beside_limits_need_no_right_of_the_subtree, fixture, setup, teardown)
{
    make(fixture, "/p", anyone(ACL_READ));
    assert_int_equal(run(fixture, op(OP_CREATE, "/zookeeper/quota/p")), ERR_OK);
    assert_int_equal(run(fixture, op(OP_CREATE, "/zookeeper/quota/p/zookeeper_stats")), ERR_OK);
    assert_int_equal(run(fixture, op(OP_DELETE, "/zookeeper/quota/p/zookeeper_stats")), ERR_OK);
    assert_int_equal(run(fixture, op(OP_CREATE, "/zookeeper/quota/zookeeper_limits")), ERR_OK);
}

TEST(each_element_of_a_multi_is_checked, fixture, setup, teardown)
{
    struct op_args ops[3] = {with_acl(op(OP_CREATE, "/a"), anyone(ACL_READ)), op(OP_CREATE, "/b"),
                             op(OP_CREATE, "/a/x")};
    struct op_args multi = {.op = OP_MULTI, .ops = ops, .op_count = 3};

    assert_int_equal(run(fixture, multi), ERR_NO_AUTH);
    assert_int_equal(fixture->result.failed_index, 2);
    multi.op_count = 2;
    assert_int_equal(apply(fixture, multi), ERR_OK);
    assert_int_equal(acl_at(fixture, "/b").len, 0);
    assert_true(slice_eq(acl_at(fixture, "/a"), anyone(ACL_READ)));
    ops[0] = with_acl(op(OP_SETACL, "/a"), anyone(ACL_WRITE)); /* As an import does. */
    ops[1] = op(OP_CREATE, "/c");
    assert_int_equal(run(fixture, multi), ERR_NO_AUTH);
    ops[0].path = slice_str("/b");
    assert_int_equal(apply(fixture, multi), ERR_OK);
    assert_true(slice_eq(acl_at(fixture, "/b"), anyone(ACL_WRITE)));
    ops[0] = op(OP_REAP, "/b");
    assert_int_equal(run(fixture, multi), ERR_BAD_ARGUMENTS);
}

TEST(closing_a_session_checks_no_acl, fixture, setup, teardown)
{
    struct op_args args = with_acl(ephemeral("/p/e"), anyone(ACL_READ));

    make(fixture, "/p", anyone(ACL_CREATE));
    assert_int_equal(apply(fixture, session_op(fixture, OP_SESSION, 1)), ERR_OK);
    be_in(fixture, 1);
    assert_int_equal(apply(fixture, args), ERR_OK);
    assert_int_equal(run(fixture, op(OP_DELETE, "/p/e")), ERR_NO_AUTH);
    assert_int_equal(apply(fixture, session_op(fixture, OP_CLOSE, 1)), ERR_OK);
    assert_null(kit_find(fixture->state, "/p/e"));
}

/* ---- The actor of the transaction. ---- */

static struct txn_actor actor_of(struct fixture *fixture)
{
    struct txn_header header;
    struct txn_actor actor;
    struct wire_reader reader;

    assert_int_equal(txn_open(&reader, buf_slice(&fixture->txn), &header), ERR_OK);
    assert_int_equal(txn_actor_decode(header.actor, &actor), ERR_OK);
    return actor;
}

TEST(the_transaction_names_its_client, fixture, setup, teardown)
{
    struct auth *first = NULL;

    make(fixture, "/p", list_of(ACL_ALL, "digest", "bob:+lIjZ+MPFVGhaETjZyjFPnv3tMk="));
    assert_int_equal(auth_add(NULL, slice_str("digest"), slice_str("alice:x"), "", &first), ERR_OK);
    assert_int_equal(
        auth_add(first, slice_str("digest"), slice_str("bob:secret"), "", &fixture->who.auth),
        ERR_OK);
    auth_unref(first);
    struct buf id;

    /* The list above names another password of bob. */
    buf_init(&id, 200);
    buf_append_slice(&id, fixture->who.auth->ids[1].id);
    make(fixture, "/q", list_of(ACL_ALL, "digest", buf_cstr(&id)));
    buf_release(&id);
    assert_int_equal(run(fixture, op(OP_SET, "/p")), ERR_NO_AUTH);
    assert_int_equal(run(fixture, op(OP_SET, "/q")), ERR_OK);
    struct txn_actor actor = actor_of(fixture);

    assert_int_equal(actor.op, OP_SET);
    assert_true(slice_eq(actor.address, slice_str("10.0.0.7")));
    assert_int_equal(actor.count, 2);
    assert_true(slice_eq(actor.ids[0], slice_str("digest:alice")));
    assert_true(slice_eq(actor.ids[1], slice_str("digest:bob")));
    assert_int_equal(actor.confirmed, 2);
    assert_false(actor.super);
    assert_true(actor.session == 0);

    /* No hash, and no password, is in the transaction. */
    assert_null(memmem(fixture->txn.data, fixture->txn.len, "=", 1));
    assert_null(memmem(fixture->txn.data, fixture->txn.len, "secret", 6));
}

TEST(the_transaction_names_its_session, fixture, setup, teardown)
{
    struct op_args args = op(OP_CREATE, "/e");

    assert_int_equal(run(fixture, session_op(fixture, OP_SESSION, 1)), ERR_OK);
    uint64_t session = fixture->zxid;

    assert_true(actor_of(fixture).session == 0); /* Its effect names it. */
    assert_int_equal(actor_of(fixture).op, OP_SESSION);
    fixture->session = (struct op_session){.shown = true, .id = session};
    assert_int_equal(run(fixture, args), ERR_OK);
    assert_true(actor_of(fixture).session == session);
}

/* ---- Lists of parents. ---- */

static void setup_inherit(struct fixture *fixture)
{
    struct prep_limits with = limits;

    setup(fixture);
    prep_free(fixture->prep);
    with.inherit_acl = true;
    fixture->prep = prep_new(&with);
}

TEST(without_inherit_acl_a_new_znode_is_open, fixture, setup, teardown)
{
    make(fixture, "/p", anyone(ACL_CREATE));
    assert_int_equal(apply(fixture, op(OP_CREATE, "/p/c")), ERR_OK);
    assert_int_equal(acl_at(fixture, "/p/c").len, 0);
}

TEST(a_znode_without_a_list_gets_that_of_its_parent, fixture, setup_inherit, teardown)
{
    const uint32_t perms = ACL_CREATE | ACL_READ | ACL_ADMIN;
    struct op_args set = op(OP_SET, "/p/s");
    struct op_args deep = op(OP_CREATE, "/p/x/y");
    struct op_args sequence = op(OP_CREATE, "/p/q");

    set.upsert = true;
    deep.parents = true;
    sequence.sequence = true;
    assert_int_equal(apply(fixture, op(OP_CREATE, "/open")), ERR_OK);
    assert_int_equal(acl_at(fixture, "/open").len, 0); /* The root is open. */
    make(fixture, "/p", anyone(perms));
    assert_int_equal(apply(fixture, op(OP_CREATE, "/p/c")), ERR_OK);
    assert_int_equal(apply(fixture, set), ERR_OK);
    assert_int_equal(apply(fixture, deep), ERR_OK);
    assert_int_equal(apply(fixture, sequence), ERR_OK);
    assert_true(slice_eq(acl_at(fixture, "/p/c"), anyone(perms)));
    assert_true(slice_eq(acl_at(fixture, "/p/s"), anyone(perms)));
    assert_true(slice_eq(acl_at(fixture, "/p/x"), anyone(perms)));
    assert_true(slice_eq(acl_at(fixture, "/p/x/y"), anyone(perms)));
    assert_true(slice_eq(acl_at(fixture, "/p/q0000000003"), anyone(perms)));
    /* A list of the request counts, also one that opens the znode. */
    make(fixture, "/p/mine", anyone(ACL_WRITE));
    assert_true(slice_eq(acl_at(fixture, "/p/mine"), anyone(ACL_WRITE)));
    make(fixture, "/p/all", anyone(ACL_ALL));
    assert_int_equal(acl_at(fixture, "/p/all").len, 0);
    /* The list is copied: a change of the parent changes no child. */
    assert_int_equal(apply(fixture, with_acl(op(OP_SETACL, "/p"), anyone(ACL_READ))), ERR_OK);
    assert_true(slice_eq(acl_at(fixture, "/p/c"), anyone(perms)));
}

TEST(a_list_in_flight_is_inherited, fixture, setup_inherit, teardown)
{
    struct op_args ops[3] = {with_acl(op(OP_CREATE, "/m"), anyone(ACL_CREATE)),
                             op(OP_CREATE, "/m/a"), op(OP_CREATE, "/m/a/b")};
    struct op_args multi = {.op = OP_MULTI, .ops = ops, .op_count = 3};

    assert_int_equal(apply(fixture, multi), ERR_OK);
    assert_true(slice_eq(acl_at(fixture, "/m/a"), anyone(ACL_CREATE)));
    assert_true(slice_eq(acl_at(fixture, "/m/a/b"), anyone(ACL_CREATE)));
    /* The list of an earlier element does not reach a later one below another parent. */
    ops[0] = with_acl(op(OP_CREATE, "/n"), anyone(ACL_CREATE));
    ops[1] = op(OP_CREATE, "/o");
    multi.op_count = 2;
    assert_int_equal(apply(fixture, multi), ERR_OK);
    assert_int_equal(acl_at(fixture, "/o").len, 0);
}

TEST(inheriting_gives_no_right_to_create, fixture, setup_inherit, teardown)
{
    struct op_args deep = op(OP_CREATE, "/p/x/y");

    make(fixture, "/p", anyone(ACL_READ));
    assert_int_equal(run(fixture, op(OP_CREATE, "/p/c")), ERR_NO_AUTH);
    deep.parents = true;
    assert_int_equal(run(fixture, deep), ERR_NO_AUTH);
    assert_int_equal(prep_pending(fixture->prep), 0);
}

/* The identity of a certificate has colons of its own, and no hash. */
TEST(the_transaction_names_a_certificate, fixture, setup, teardown)
{
    fixture->who.auth = auth_certificate("CN=bob:1,O=x", "");
    assert_int_equal(run(fixture, op(OP_CREATE, "/x")), ERR_OK);
    struct txn_actor actor = actor_of(fixture);

    assert_int_equal(actor.count, 1);
    assert_true(slice_eq(actor.ids[0], slice_str("x509:CN=bob:1,O=x")));
}
