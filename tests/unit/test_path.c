/* Which paths are legal, and splitting them. */
#include "base/mem.h"
#include "server/state/path.h"
#include "server/state/state.h"
#include "tests/lib/unit.h"

static bool is_legal(const char *path)
{
    return path_check(slice_str(path), NULL) == ERR_OK;
}

TEST(legal_paths)
{
    assert_true(is_legal("/"));
    assert_true(is_legal("/a"));
    assert_true(is_legal("/a/b c/d"));
    assert_true(is_legal("/..."));
    assert_true(is_legal("/.a/a./..b"));
    assert_true(is_legal("/zookeeper/quota"));
    assert_true(is_legal("/\xc3\xa4"));         /* U+00E4 */
    assert_true(is_legal("/\xc2\xa0"));         /* U+00A0, the first after the C1 controls. */
    assert_true(is_legal("/\xed\x9f\xbf"));     /* U+D7FF, the last before the surrogates. */
    assert_true(is_legal("/\xef\xa4\x80"));     /* U+F900, the first after private use. */
    assert_true(is_legal("/\xef\xbf\xaf"));     /* U+FFEF, the last before the specials. */
    assert_true(is_legal("/\xf0\x9f\x90\xb4")); /* U+1F434, beyond what ZooKeeper takes. */
}

static void assert_refused(const char *path, const char *why_part)
{
    const char *why = NULL;

    assert_int_equal(path_check(slice_str(path), &why), ERR_BAD_ARGUMENTS);
    assert_non_null(why);
    assert_non_null(strstr(why, why_part));
}

TEST(shape_is_checked)
{
    assert_refused("", "empty");
    assert_refused("a", "begin");
    assert_refused("/a/", "ends");
    assert_refused("//", "ends");
    assert_refused("//a", "empty component");
    assert_refused("/a//b", "empty component");
    assert_refused("/.", "..");
    assert_refused("/..", "..");
    assert_refused("/a/./b", "..");
    assert_refused("/a/../b", "..");
}

TEST(characters_are_checked)
{
    assert_int_equal(path_check(slice_make("/a\0b", 4), NULL), ERR_BAD_ARGUMENTS);
    assert_refused("/a\x01", "control");
    assert_refused("/a\x1f/b", "control");
    assert_refused("/\x7f", "control");
    assert_refused("/\xc2\x80", "control");     /* U+0080 */
    assert_refused("/\xc2\x9f", "control");     /* U+009F */
    assert_refused("/\xee\x80\x80", "private"); /* U+E000 */
    assert_refused("/\xef\xa3\xbf", "private"); /* U+F8FF */
    assert_refused("/\xef\xbf\xb0", "special"); /* U+FFF0 */
    assert_refused("/\xef\xbf\xbf", "special"); /* U+FFFF */
    assert_refused("/\xed\xa0\x80", "UTF-8");   /* A surrogate. */
    assert_refused("/\xff", "UTF-8");
    assert_refused("/\xc0\xaf", "UTF-8"); /* An over-long slash. */
}

TEST(lengths_are_bounded)
{
    char *path = mem_alloc(STATE_PATH_MAX + 2);

    memset(path, 'x', STATE_PATH_MAX + 2);
    path[0] = '/';
    assert_int_equal(path_check(slice_make(path, STATE_NAME_MAX + 1), NULL), ERR_OK);
    assert_int_equal(path_check(slice_make(path, STATE_NAME_MAX + 2), NULL), ERR_BAD_ARGUMENTS);
    for (size_t i = 0; i < STATE_PATH_MAX; i += 1024) {
        path[i] = '/';
    }
    assert_int_equal(path_check(slice_make(path, STATE_PATH_MAX), NULL), ERR_OK);
    assert_int_equal(path_check(slice_make(path, STATE_PATH_MAX + 2), NULL), ERR_BAD_ARGUMENTS);
    for (size_t i = 0; i < STATE_PATH_MAX; i += 2) {
        path[i] = '/';
    }
    assert_int_equal(path_check(slice_make(path, 2 * STATE_DEPTH_MAX), NULL), ERR_OK);
    assert_int_equal(path_check(slice_make(path, 2 * STATE_DEPTH_MAX + 2), NULL),
                     ERR_BAD_ARGUMENTS);
    mem_free(path);
}

static void assert_slice(struct slice slice, const char *text)
{
    assert_true(slice_eq(slice, slice_str(text)));
}

TEST(parent_and_name)
{
    assert_slice(path_parent(slice_str("/a")), "/");
    assert_slice(path_parent(slice_str("/a/b")), "/a");
    assert_slice(path_parent(slice_str("/a/")), "/a");
    assert_slice(path_name(slice_str("/")), "");
    assert_slice(path_name(slice_str("/a")), "a");
    assert_slice(path_name(slice_str("/a/bc")), "bc");
}

TEST(within)
{
    assert_true(path_is_within(slice_str("/a"), slice_str("/")));
    assert_true(path_is_within(slice_str("/a"), slice_str("/a")));
    assert_true(path_is_within(slice_str("/a/b"), slice_str("/a")));
    assert_false(path_is_within(slice_str("/ab"), slice_str("/a")));
    assert_false(path_is_within(slice_str("/a"), slice_str("/a/b")));
}

TEST(components)
{
    size_t pos = 0;
    struct slice path = slice_str("/a/bc");

    assert_slice(path_component(path, &pos), "a");
    assert_int_equal(pos, 2);
    assert_slice(path_component(path, &pos), "bc");
    assert_int_equal(path_component(path, &pos).len, 0);
    assert_int_equal(path_component(path, &pos).len, 0);
    pos = 0;
    assert_int_equal(path_component(slice_str("/"), &pos).len, 0);
}

TEST(builtin)
{
    assert_true(path_is_builtin(slice_str("/")));
    assert_true(path_is_builtin(slice_str("/zookeeper")));
    assert_true(path_is_builtin(slice_str("/zookeeper/quota")));
    assert_true(path_is_builtin(slice_str("/zookeeper/config")));
    assert_false(path_is_builtin(slice_str("/zookeeper/x")));
    assert_false(path_is_builtin(slice_str("/zoo")));
}
