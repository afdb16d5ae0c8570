/* Files of a directory that others may write to: a request reaches nothing outside of it. */
#include "base/os_files.h"
#include "tests/lib/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char top[64];

static void put(const char *path, const char *text)
{
    char name[256];

    (void)snprintf(name, sizeof(name), "%s/%s", top, path);

    FILE *file = fopen(name, "we");

    assert_non_null(file);
    (void)fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void link_to(const char *target, const char *path)
{
    char name[256];

    (void)snprintf(name, sizeof(name), "%s/%s", top, path);
    assert_int_equal(symlink(target, name), 0);
}

static void make_dir(const char *path)
{
    char name[256];

    (void)snprintf(name, sizeof(name), "%s/%s", top, path);
    assert_int_equal(mkdir(name, 0700), 0);
}

/* "site" is served; its siblings are not. */
static void setup(void)
{
    char pipe_name[256];

    (void)snprintf(top, sizeof(top), "/tmp/zabra-file-XXXXXX");
    assert_non_null(mkdtemp(top));
    make_dir("site");
    make_dir("site/a");
    make_dir("site/a/b");
    put("secret", "secret");
    put("site/page", "page");
    put("site/a/b/deep", "deep");
    put("site/empty", "");
    link_to("../secret", "site/out");
    link_to("page", "site/inside");
    link_to("..", "site/up");
    (void)snprintf(pipe_name, sizeof(pipe_name), "%s/site/pipe", top);
    assert_int_equal(mkfifo(pipe_name, 0600), 0);
}

static void teardown(void)
{
    const char *names[] = {"site/pipe",  "site/up",       "site/inside", "site/out",
                           "site/empty", "site/a/b/deep", "site/page",   "secret",
                           "site/a/b",   "site/a",        "site",        ""};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char name[256];

        (void)snprintf(name, sizeof(name), "%s/%s", top, names[i]);
        assert_int_equal(remove(name), 0);
    }
}

static enum err read_site(const char *path, struct buf *out)
{
    char dir[128];

    (void)snprintf(dir, sizeof(dir), "%s/site", top);
    buf_clear(out);
    return os_file_read_below(dir, slice_str(path), out);
}

TEST(files_are_read_whole, setup, teardown)
{
    struct buf out;

    buf_init(&out, 100);
    assert_int_equal(read_site("page", &out), ERR_OK);
    assert_string_equal(buf_cstr(&out), "page");
    assert_int_equal(read_site("a/b/deep", &out), ERR_OK);
    assert_string_equal(buf_cstr(&out), "deep");
    assert_int_equal(read_site("empty", &out), ERR_OK);
    assert_int_equal(out.len, 0);
    buf_release(&out);
    buf_init(&out, 3);
    assert_int_equal(read_site("page", &out), ERR_TOO_LARGE);
    buf_release(&out);
}

TEST(no_file_outside_is_reached, setup, teardown)
{
    const char *paths[] = {"",
                           "..",
                           ".",
                           "../secret",
                           "a/../page",
                           "/page",
                           "a//b/deep",
                           "page/",
                           "a/b",
                           "out",
                           "inside",
                           "up/secret",
                           "up/site/page",
                           "pipe",
                           "none",
                           "page/deep",
                           "./page",
                           "a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a"};
    static char long_name[400];
    struct buf out;

    buf_init(&out, 100);
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        assert_int_equal(read_site(paths[i], &out), ERR_NOT_FOUND);
        assert_int_equal(out.len, 0);
    }
    memset(long_name, 'x', sizeof(long_name) - 1);
    assert_int_equal(read_site(long_name, &out), ERR_NOT_FOUND);
    assert_int_equal(os_file_read_below(top, slice_make("secret\0.js", 10), &out), ERR_NOT_FOUND);
    assert_int_equal(os_file_read_below("/tmp/zabra-no-such", slice_str("a"), &out), ERR_NOT_FOUND);
    buf_release(&out);
}
