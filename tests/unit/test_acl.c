/* Access control lists: ZooKeeper's rules for matching identities and for setting lists. */
#include "server/op/acl.h"
#include "tests/lib/unit.h"

#include <stdio.h>

static void assert_text(struct slice got, const char *text)
{
    assert_true(slice_eq(got, slice_str(text)));
}

#define BOB "bob:fyVmFCwVbTJYrznoSu1koqYEYF0="

struct fixture {
    struct buf acl;
    struct buf fixed;
    struct op_principal stranger;
    struct op_principal bob;
    struct op_principal super;
    const char *why;
};

static struct fixture fixture;

static void setup(void)
{
    fixture = (struct fixture){.stranger = {.address = "127.0.0.1"},
                               .bob = {.address = "10.0.0.7"},
                               .super = {.address = "::1"}};
    buf_init(&fixture.acl, 65536);
    buf_init(&fixture.fixed, 65536);
    assert_int_equal(
        auth_add(NULL, slice_str("digest"), slice_str("bob:secret"), "", &fixture.bob.auth),
        ERR_OK);
    assert_int_equal(
        auth_add(NULL, slice_str("digest"), slice_str("bob:secret"), BOB, &fixture.super.auth),
        ERR_OK);
}

static void teardown(void)
{
    buf_release(&fixture.acl);
    buf_release(&fixture.fixed);
    principal_release(&fixture.bob);
    principal_release(&fixture.super);
}

static void put(uint32_t perms, const char *scheme, const char *id)
{
    acl_put(&fixture.acl,
            &(struct acl_entry){.perms = perms, .scheme = slice_str(scheme), .id = slice_str(id)});
}

static enum err fix(const struct op_principal *who)
{
    return acl_fix(buf_slice(&fixture.acl), who, &fixture.fixed, &fixture.why);
}

static bool may(const struct op_principal *who, uint32_t perms)
{
    return acl_allows(buf_slice(&fixture.acl), who, perms);
}

TEST(no_list_is_open_to_all, setup, teardown)
{
    assert_true(may(&fixture.stranger, ACL_ADMIN));
}

TEST(permissions_are_checked_entry_by_entry, setup, teardown)
{
    put(ACL_READ, "world", "anyone");
    put(ACL_WRITE | ACL_ADMIN, "digest", BOB);
    assert_true(may(&fixture.stranger, ACL_READ));
    assert_false(may(&fixture.stranger, ACL_WRITE));
    assert_true(may(&fixture.bob, ACL_WRITE));
    assert_true(may(&fixture.bob, ACL_READ));
    assert_false(may(&fixture.bob, ACL_DELETE));
    assert_true(may(&fixture.bob, ACL_DELETE | ACL_ADMIN)); /* One of them. */
}

TEST(the_super_user_passes_every_list, setup, teardown)
{
    put(ACL_READ, "digest", "eve:2jmj7l5rSw0yVb/vlWAYkK/YBwk=");
    assert_false(may(&fixture.bob, ACL_READ));
    assert_true(may(&fixture.super, ACL_ALL));
}

TEST(addresses_match_by_network, setup, teardown)
{
    static const struct {
        const char *id;
        const char *address;
        bool matches;
    } cases[] = {
        {"127.0.0.1", "127.0.0.1", true},
        {"127.0.0.1", "127.0.0.2", false},
        {"10.0.0.0/8", "10.200.3.4", true},
        {"10.0.0.0/8", "11.0.0.1", false},
        {"10.1.2.128/25", "10.1.2.129", true},
        {"10.1.2.128/25", "10.1.2.127", false},
        {"0.0.0.0/0", "8.8.8.8", true},
        {"0.0.0.0/0", "::1", false},
        {"::1", "::1", true},
        {"fe80::/10", "fe80::1", true},
        {"fe80::/10", "fec0::1", false},
        {"10.0.0.1", "::ffff:10.0.0.1", true},
        {"::/0", "10.0.0.1", true},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct op_principal who = {.auth = NULL};

        assert_true(snprintf(who.address, sizeof(who.address), "%s", cases[i].address) > 0);
        buf_clear(&fixture.acl);
        put(ACL_READ, "ip", cases[i].id);
        assert_int_equal(may(&who, ACL_READ), cases[i].matches);
    }
}

TEST(an_open_list_is_stored_as_nothing, setup, teardown)
{
    put(ACL_ALL, "world", "anyone");
    assert_int_equal(fix(&fixture.stranger), ERR_OK);
    assert_int_equal(fixture.fixed.len, 0);
}

TEST(duplicates_are_dropped, setup, teardown)
{
    struct slice rest;
    struct acl_entry entry;

    put(ACL_READ, "world", "anyone");
    put(ACL_READ, "world", "anyone");
    put(ACL_WRITE, "world", "anyone");
    assert_int_equal(fix(&fixture.stranger), ERR_OK);
    rest = buf_slice(&fixture.fixed);
    assert_true(acl_next(&rest, &entry));
    assert_true(acl_next(&rest, &entry));
    assert_int_equal(entry.perms, ACL_WRITE);
    assert_false(acl_next(&rest, &entry));
}

TEST(auth_entries_become_the_callers_identities, setup, teardown)
{
    struct slice rest;
    struct acl_entry entry;

    put(ACL_ALL, "auth", "");
    assert_int_equal(fix(&fixture.stranger), ERR_INVALID_ACL);
    assert_int_equal(fix(&fixture.bob), ERR_OK);
    rest = buf_slice(&fixture.fixed);
    assert_true(acl_next(&rest, &entry));
    assert_text(entry.scheme, "digest");
    assert_text(entry.id, BOB);
    assert_int_equal(entry.perms, ACL_ALL);
    assert_false(acl_next(&rest, &entry));
}

TEST(an_id_that_no_scheme_accepts_is_refused, setup, teardown)
{
    static const struct {
        uint32_t perms;
        const char *scheme;
        const char *id;
    } bad[] = {
        {ACL_READ, "world", "everyone"}, {ACL_READ, "nobody", "x"},     {ACL_READ, "digest", "bob"},
        {ACL_READ, "digest", "bob:abc"}, {ACL_READ, "digest", ":" BOB}, {ACL_READ, "ip", "1.2.3"},
        {ACL_READ, "ip", "1.2.3.4/33"},  {ACL_READ, "ip", "1.2.3.4/"},  {ACL_READ, "ip", "::1/129"},
        {ACL_READ, "ip", "1.2.3.4/x"},   {0, "world", "anyone"},        {ACL_READ, "super", "x"},
        {ACL_READ, "digest", "b:\xff"},
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        buf_clear(&fixture.acl);
        put(bad[i].perms, bad[i].scheme, bad[i].id);
        fixture.why = NULL;
        assert_int_equal(fix(&fixture.bob), ERR_INVALID_ACL);
        assert_non_null(fixture.why);
        assert_int_equal(fixture.fixed.len, 0);
    }
    buf_clear(&fixture.acl);
    assert_int_equal(fix(&fixture.bob), ERR_INVALID_ACL);
}

TEST(lists_are_bounded_and_whole, setup, teardown)
{
    for (int i = 0; i < ACL_ENTRIES_MAX; i++) {
        char id[32];

        assert_true(snprintf(id, sizeof(id), "10.0.0.%d", i) > 0);
        put(ACL_READ, "ip", id);
    }
    assert_true(acl_is_sound(buf_slice(&fixture.acl)));
    assert_int_equal(fix(&fixture.bob), ERR_OK);
    put(ACL_READ, "ip", "10.0.1.1");
    assert_false(acl_is_sound(buf_slice(&fixture.acl)));
    assert_int_equal(fix(&fixture.bob), ERR_INVALID_ACL);
    assert_false(acl_is_sound(slice_make(fixture.acl.data, 7)));
}

TEST(the_standard_lists_have_names, setup, teardown)
{
    static const char *const names[] = {"open", "read", "creator"};
    struct slice acl;

    for (size_t i = 0; i < 3; i++) {
        struct acl_entry entry;

        assert_true(acl_standard(slice_str(names[i]), &acl));
        assert_true(acl_is_sound(acl));
        assert_int_equal(acl_fix(acl, &fixture.bob, &fixture.fixed, &fixture.why), ERR_OK);
        assert_true(acl_next(&acl, &entry));
        assert_int_equal(entry.perms, i == 1 ? ACL_READ : ACL_ALL);
        assert_text(entry.scheme, i == 2 ? "auth" : "world");
        assert_text(entry.id, i == 2 ? "" : "anyone");
    }
    assert_false(acl_standard(slice_str("closed"), &acl));
}

static uint32_t as(const char *name)
{
    bool known = false;
    uint32_t perms = acl_perms_as(buf_slice(&fixture.acl), slice_str(name), &known);

    assert_true(known);
    return perms;
}

TEST(the_permissions_of_a_client_are_the_sum_of_entries, setup, teardown)
{
    bool known = true;

    assert_int_equal(acl_perms(slice_make(NULL, 0), &fixture.stranger), ACL_ALL);
    assert_int_equal(as("digest:bob"), ACL_ALL); /* Open. */
    acl_put(&fixture.acl, &(struct acl_entry){ACL_READ, slice_str("world"), slice_str("anyone")});
    acl_put(&fixture.acl, &(struct acl_entry){ACL_WRITE, slice_str("digest"), slice_str(BOB)});
    acl_put(&fixture.acl,
            &(struct acl_entry){ACL_CREATE, slice_str("ip"), slice_str("10.0.0.0/8")});
    assert_int_equal(acl_perms(buf_slice(&fixture.acl), &fixture.stranger), ACL_READ);
    assert_int_equal(acl_perms(buf_slice(&fixture.acl), &fixture.bob),
                     ACL_READ | ACL_WRITE | ACL_CREATE);
    assert_int_equal(acl_perms(buf_slice(&fixture.acl), &fixture.super), ACL_ALL);
    assert_int_equal(as("digest:bob"), ACL_READ | ACL_WRITE);
    assert_int_equal(as("digest:" BOB), ACL_READ | ACL_WRITE);
    assert_int_equal(as("digest:bob:AAAAAAAAAAAAAAAAAAAAAAAAAAA="), ACL_READ);
    assert_int_equal(as("digest:bo"), ACL_READ);
    assert_int_equal(as("ip:10.1.2.3"), ACL_READ | ACL_CREATE);
    assert_int_equal(as("ip:11.1.2.3"), ACL_READ);
    assert_int_equal(as("world:anyone"), ACL_READ);

    static const char *const odd[] = {"",       "bob",        "digest:",       "ip:x",
                                      "world:", "world:some", "ip:10.0.0.0/8", "auth:"};

    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        assert_int_equal(acl_perms_as(buf_slice(&fixture.acl), slice_str(odd[i]), &known), 0);
        assert_false(known);
    }
}

TEST(certificates_match_as_a_whole, setup, teardown)
{
    struct op_principal one = {.address = "::1", .auth = auth_certificate("CN=one,O=Example", "")};
    struct op_principal other = {.address = "::1", .auth = auth_certificate("CN=one", "")};
    bool known = false;

    put(ACL_READ, "x509", "CN=one,O=Example");
    assert_true(may(&one, ACL_READ));
    assert_false(may(&one, ACL_WRITE));
    assert_false(may(&other, ACL_READ));
    assert_false(may(&fixture.bob, ACL_READ));
    assert_int_equal(fix(&fixture.stranger), ERR_OK);
    assert_int_equal(
        acl_perms_as(buf_slice(&fixture.acl), slice_str("x509:CN=one,O=Example"), &known),
        ACL_READ);
    assert_true(known);
    assert_int_equal(acl_perms_as(buf_slice(&fixture.acl), slice_str("x509:CN=one"), &known), 0);
    assert_true(known);
    (void)acl_perms_as(buf_slice(&fixture.acl), slice_str("x509:"), &known);
    assert_false(known);
    buf_clear(&fixture.acl);
    put(ACL_READ, "x509", "");
    assert_int_equal(fix(&fixture.stranger), ERR_INVALID_ACL);
    buf_clear(&fixture.acl);
    put(ACL_ALL, "auth", "");
    assert_int_equal(fix(&one), ERR_OK); /* creator */
    buf_clear(&fixture.acl);
    put(ACL_ALL, "x509", "CN=one,O=Example");
    assert_true(slice_eq(buf_slice(&fixture.fixed), buf_slice(&fixture.acl)));
    principal_release(&one);
    principal_release(&other);
}
