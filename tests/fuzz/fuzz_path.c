/*
 * Paths of znodes: path_check agrees with the rules written down again, by characters instead of
 * components; a legal path can be split and joined again.
 */
#include "base/utf8.h"
#include "server/state/path.h"
#include "server/state/state.h"
#include "tests/fuzz/fuzz.h"

static bool is_point_legal(int32_t point)
{
    return point >= 0x20 && !(point >= 0x7f && point <= 0x9f) &&
           !(point >= 0xe000 && point <= 0xf8ff) && !(point >= 0xfff0 && point <= 0xffff);
}

static bool is_name_legal(struct slice name)
{
    return name.len > 0 && name.len <= STATE_NAME_MAX && !slice_eq(name, slice_str(".")) &&
           !slice_eq(name, slice_str(".."));
}

static bool is_legal(struct slice path)
{
    size_t pos = 0;
    size_t start = 1;
    size_t depth = 0;

    if (path.len == 0 || path.len > STATE_PATH_MAX || path.data[0] != '/') {
        return false;
    }
    while (pos < path.len) {
        int32_t point = utf8_next(path, &pos);

        if (point < 0 || !is_point_legal(point)) {
            return false;
        }
        if (path.len > 1 && (pos == path.len || path.data[pos] == '/')) {
            if (!is_name_legal(slice_make(path.data + start, pos - start))) {
                return false;
            }
            start = pos + 1;
            depth++;
        }
    }
    return depth <= STATE_DEPTH_MAX;
}

static void check_parts(struct slice path)
{
    struct buf joined;
    size_t pos = 0;
    struct slice name = path_component(path, &pos);

    buf_init(&joined, STATE_PATH_MAX);
    while (name.len > 0) {
        buf_append_byte(&joined, '/');
        buf_append_slice(&joined, name);
        name = path_component(path, &pos);
    }
    ASSERT(!joined.overflow && pos == path.len);
    ASSERT(slice_eq(path, slice_str("/")) ? joined.len == 0 : slice_eq(path, buf_slice(&joined)));
    buf_release(&joined);
}

static void check_parent(struct slice path)
{
    struct slice parent = path_parent(path);
    struct slice name = path_name(path);

    ASSERT(path_check(parent, NULL) == ERR_OK);
    ASSERT(name.len > 0 && name.len <= STATE_NAME_MAX && !memchr(name.data, '/', name.len));
    ASSERT(path_is_within(path, parent) && path_is_within(path, path));
    ASSERT(!path_is_within(parent, path));
    ASSERT(path.len == parent.len + name.len + (parent.len > 1 ? 1 : 0));
}

static bool fuzz_one(struct slice input)
{
    const char *why = NULL;
    enum err err = path_check(input, &why);

    ASSERT((err == ERR_OK) == is_legal(input));
    if (err != ERR_OK) {
        ASSERT(err == ERR_BAD_ARGUMENTS && why && why[0] != '\0');
        return false;
    }
    ASSERT(utf8_valid(input) && path_is_within(input, slice_str("/")));
    check_parts(input);
    if (input.len > 1) {
        check_parent(input);
    }
    return true;
}

static void fuzz_seeds(struct fuzz_sink *sink)
{
    struct buf deep;

    fuzz_seed_text(sink, "root", "/");
    fuzz_seed_text(sink, "builtin", "/zookeeper/config");
    fuzz_seed_text(sink, "dots", "/.../..a/.b/a..");
    fuzz_seed_text(sink, "unicode", "/z\xc3\xbcrich/\xc2\xa0/\xef\xa4\x80/\xf0\x9f\x8d\x80");
    fuzz_seed_text(sink, "blanks", "/ /a b/~");
    buf_init(&deep, STATE_PATH_MAX);
    for (int i = 0; i < STATE_DEPTH_MAX; i++) {
        buf_append_str(&deep, "/a");
    }
    fuzz_seed(sink, "deep", buf_slice(&deep));
    buf_release(&deep);
}

FUZZ_TARGET(path)
