/* ACLs as text. */
#include "server/op/acl_list.h"
#include "tests/lib/unit.h"

#include <string.h>

static struct buf memory;

static void setup(void)
{
    buf_init(&memory, 4096);
}

static void teardown(void)
{
    buf_release(&memory);
}

/* The entries of the list must be these, separated by a bar. */
static void check(const char *list, const char *wanted)
{
    struct slice rest = slice_str(list);
    struct slice entry;
    struct buf got;

    buf_init(&got, 4096);
    for (const char *bar = ""; acl_list_cut(&rest, &entry); bar = "|") {
        buf_append_str(&got, bar);
        buf_append_slice(&got, entry);
    }
    if (strcmp(buf_cstr(&got), wanted) != 0) {
        fail_msg("%s: %s, not %s", list, buf_cstr(&got), wanted);
    }
    buf_release(&got);
}

TEST(an_entry_ends_at_the_first_comma_before_which_it_is_whole)
{
    check("", "");
    check("world:anyone:r", "world:anyone:r");
    check("world:anyone:r,ip:10.0.0.0/8:cdrwa", "world:anyone:r|ip:10.0.0.0/8:cdrwa");
    check(" world:anyone:r , auth::cdrwa ", "world:anyone:r|auth::cdrwa");
    check("x509:CN=bob,O=Example:cdrwa", "x509:CN=bob,O=Example:cdrwa");
    check("x509:CN=bob,O=Example:cdrwa,world:anyone:r",
          "x509:CN=bob,O=Example:cdrwa|world:anyone:r");
    check("world:anyone:r,x509:CN=a,OU=b, O=c:r,x509:CN=d:w",
          "world:anyone:r|x509:CN=a,OU=b, O=c:r|x509:CN=d:w");
    check("digest:\"a,b:hash=\":r,world:anyone:r", "digest:\"a,b:hash=\":r|world:anyone:r");
    check(" x509:CN=a,O=b:r", "x509:CN=a,O=b:r");
    check("x509:CN=world,O=ip:r,auth::r", "x509:CN=world,O=ip:r|auth::r");
    check("x509:spiffe://a/b:r,world:anyone:r", "x509:spiffe://a/b:r|world:anyone:r");
    check("x509:\"CN=a:r,O=b\":cd,world:anyone:r", "x509:\"CN=a:r,O=b\":cd|world:anyone:r");
    check("x509:\"a\\\",b:r\":cd,world:anyone:r", "x509:\"a\\\",b:r\":cd|world:anyone:r");
    /* Malformed entries end at their comma. */
    check("nonsense,world:anyone:r", "nonsense|world:anyone:r");
    check("world:anyone:r,,auth::r", "world:anyone:r||auth::r");
    check("x509:CN=a,O=b", "x509:CN=a|O=b");
    check("x509:\"CN=a,O=b:r", "x509:\"CN=a,O=b:r");
}

/* An entry that lacks its permissions is malformed, and does not swallow the next one. */
TEST(an_entry_without_permissions_ends_before_the_next_one, setup, teardown)
{
    static const char *const rows[][2] = {
        {"auth:,world:anyone:r", "auth:|world:anyone:r"},
        {"auth:bob,digest:alice:HASH:r", "auth:bob|digest:alice:HASH:r"},
        {"x509:CN=bob,world:anyone:r", "x509:CN=bob|world:anyone:r"},
        {"x509:CN=bob,O=Example, auth::r", "x509:CN=bob,O=Example|auth::r"},
        {"x509:CN=bob,ip:10.0.0.1:r", "x509:CN=bob|ip:10.0.0.1:r"},
        {"x509:CN=bob,digest:a:h:r", "x509:CN=bob|digest:a:h:r"},
        {"x509:CN=bob,x509:CN=eve:r", "x509:CN=bob|x509:CN=eve:r"},
        {"digest:a,b:hash=:r", "digest:a|b:hash=:r"},
        {"ip:10.0.0.1,world:anyone:r", "ip:10.0.0.1|world:anyone:r"},
        {"world:anyone,auth::r", "world:anyone|auth::r"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct slice rest = slice_str(rows[i][0]);
        struct acl_entry entry;
        struct slice first;

        check(rows[i][0], rows[i][1]);
        assert_true(acl_list_cut(&rest, &first));
        assert_false(acl_list_parse(first, &memory, &entry));
    }
}

TEST(entries_are_read, setup, teardown)
{
    static const struct {
        const char *text;
        const char *scheme;
        const char *id;
        uint32_t perms; /* 0: malformed. */
    } rows[] = {
        {"world:anyone:cdrwa", "world", "anyone", ACL_ALL},
        {"auth::r", "auth", "", ACL_READ},
        {"digest:bob:hash=:wa", "digest", "bob:hash=", ACL_WRITE | ACL_ADMIN},
        {"x509:CN=bob,O=Example:r", "x509", "CN=bob,O=Example", ACL_READ},
        {"x509:\"CN=a:r,O=b\":cd", "x509", "CN=a:r,O=b", ACL_CREATE | ACL_DELETE},
        {"x509:\"a\\\"b\\\\c,:\":r", "x509", "a\"b\\c,:", ACL_READ},
        {"x509:\"a\"b:r", NULL, NULL, 0},
        {"x509:\"a\":", NULL, NULL, 0},
        {"x509:\"a\"", NULL, NULL, 0},
        {"x509:\"a\\\":r", "x509", "\"a\\\"", ACL_READ}, /* The quotes do not end: plain. */
        {"world:anyone", NULL, NULL, 0},
        {"world:anyone:", NULL, NULL, 0},
        {"world:anyone:x", NULL, NULL, 0},
        {"world", NULL, NULL, 0},
        {"", NULL, NULL, 0},
        {":", NULL, NULL, 0},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct acl_entry entry = {.perms = 0};
        bool good = acl_list_parse(slice_str(rows[i].text), &memory, &entry);

        if (good != (rows[i].perms != 0)) {
            fail_msg("%s", rows[i].text);
        }
        if (good) {
            assert_true(slice_eq(entry.scheme, slice_str(rows[i].scheme)));
            assert_true(slice_eq(entry.id, slice_str(rows[i].id)));
            assert_int_equal(entry.perms, rows[i].perms);
        }
    }
}

TEST(written_ids_are_read_back, setup, teardown)
{
    static const char *const ids[] = {
        "anyone",
        "",
        "CN=bob,O=Example",
        "spiffe://a/b",
        "CN=a:r,O=b",
        "a\"b",
        "\"",
        "\\",
        "a\\,b:c",
        ",",
        ":",
        ",:",
        "\"quoted\"",
        "a,b\\:\"",
        "bob:hash=",
        "CN=\"x\"",
        "a:cdrwa,b::,:",
    };

    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        struct acl_entry entry;
        struct slice rest;
        struct slice text;
        struct buf list;

        buf_init(&list, 4096);
        buf_append_str(&list, "x509:");
        acl_list_put_id(&list, slice_str(ids[i]));
        buf_append_str(&list, ":r,world:anyone:r");
        rest = buf_slice(&list);
        assert_true(acl_list_cut(&rest, &text));
        assert_true(acl_list_parse(text, &memory, &entry));
        if (!slice_eq(entry.id, slice_str(ids[i]))) {
            fail_msg("%s: %s", ids[i], buf_cstr(&list));
        }
        assert_true(slice_eq(rest, slice_str("world:anyone:r")));
        buf_release(&list);
    }
}
