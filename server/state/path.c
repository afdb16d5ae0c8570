#include "server/state/path.h"

#include "base/check.h"
#include "base/utf8.h"
#include "server/state/state.h"

static enum err refuse(const char *why, const char **ret_why)
{
    if (ret_why != NULL) {
        *ret_why = why;
    }
    return ERR_BAD_ARGUMENTS;
}

/* Whether ZooKeeper refuses this character: DEL, C1 controls, private use and the specials block.
 */
static bool is_refused(int32_t point)
{
    return (point >= 0x7f && point <= 0x9f) || (point >= 0xe000 && point <= 0xf8ff) ||
           (point >= 0xfff0 && point <= 0xffff);
}

static const char *bytes_fault(struct slice path)
{
    size_t pos = 0;

    while (pos < path.len) {
        uint8_t byte = path.data[pos];

        if (byte >= 0x20 && byte < 0x7f) {
            pos++;
            continue;
        }
        if (byte == 0) {
            return "the path contains the character U+0000";
        }
        if (byte < 0x20) {
            return "the path contains a control character";
        }
        int32_t point = utf8_next(path, &pos);

        if (point < 0) {
            return "the path is not valid UTF-8";
        }
        if (is_refused(point)) {
            return "the path contains a control, private use or special character";
        }
    }
    return NULL;
}

static const char *component_fault(struct slice name)
{
    if (name.len == 0) {
        return "the path has an empty component";
    }
    if (name.len > STATE_NAME_MAX) {
        return "a component of the path is longer than 4096 bytes";
    }
    if (slice_eq(name, slice_str(".")) || slice_eq(name, slice_str(".."))) {
        return "the path has a component \".\" or \"..\"";
    }
    return NULL;
}

static const char *shape_fault(struct slice path)
{
    size_t start = 1;
    size_t depth = 0;

    while (start <= path.len) {
        size_t end = start + slice_find(slice_from(path, start), '/');
        const char *fault = component_fault(slice_make(path.data + start, end - start));

        if (fault != NULL) {
            return fault;
        }
        depth++;
        start = end + 1;
    }
    return depth > STATE_DEPTH_MAX ? "the path has more than 1024 components" : NULL;
}

enum err path_check(struct slice path, const char **ret_why)
{
    if (path.len == 0) {
        return refuse("the path is empty", ret_why);
    }
    if (path.data[0] != '/') {
        return refuse("the path does not begin with a slash", ret_why);
    }
    if (path.len == 1) {
        return ERR_OK;
    }
    if (path.len > STATE_PATH_MAX) {
        return refuse("the path is longer than 16384 bytes", ret_why);
    }
    if (path.data[path.len - 1] == '/') {
        return refuse("the path ends in a slash", ret_why);
    }
    const char *fault = shape_fault(path);

    if (fault == NULL) {
        fault = bytes_fault(path);
    }
    return fault != NULL ? refuse(fault, ret_why) : ERR_OK;
}

static size_t last_slash(struct slice path)
{
    ASSERT(path.len > 0 && path.data[0] == '/');
    const uint8_t *slash = memrchr(path.data, '/', path.len);

    return (size_t)(slash - path.data);
}

struct slice path_parent(struct slice path)
{
    size_t slash = last_slash(path);

    return slice_make(path.data, slash == 0 ? 1 : slash);
}

struct slice path_name(struct slice path)
{
    size_t start = last_slash(path) + 1;

    return slice_make(path.data + start, path.len - start);
}

bool path_is_builtin(struct slice path)
{
    return slice_eq(path, slice_str("/")) || slice_eq(path, slice_str("/zookeeper")) ||
           slice_eq(path, slice_str("/zookeeper/quota")) ||
           slice_eq(path, slice_str(STATE_CONFIG_PATH));
}

bool path_is_within(struct slice path, struct slice ancestor)
{
    ASSERT(ancestor.len > 0 && ancestor.data[0] == '/');

    if (ancestor.len == 1) {
        return true;
    }
    return slice_starts_with(path, ancestor) &&
           (path.len == ancestor.len || path.data[ancestor.len] == '/');
}

struct slice path_below(struct slice path, struct slice top)
{
    size_t skip = top.len == 1 ? 1 : top.len + 1;

    return path.len > skip ? slice_from(path, skip) : slice_make(NULL, 0);
}

void path_join(struct buf *out, struct slice top, struct slice below)
{
    buf_append_slice(out, top);
    if (below.len > 0 && top.len > 1) {
        buf_append_byte(out, '/');
    }
    buf_append_slice(out, below);
}

int path_order(struct slice a, struct slice b)
{
    size_t len = min_size(a.len, b.len);
    size_t i = 0;

    while (i < len && a.data[i] == b.data[i]) {
        i++;
    }
    if (i == len) {
        return a.len < b.len ? -1 : a.len > b.len;
    }
    /* A slash counts as 0, less than any byte of a name, so that "/a/x" comes before "/a-". */
    int left = a.data[i] == '/' ? 0 : a.data[i];
    int right = b.data[i] == '/' ? 0 : b.data[i];

    return left - right;
}

struct slice path_component(struct slice path, size_t *pos)
{
    size_t start = *pos;

    while (start < path.len && path.data[start] == '/') {
        start++;
    }
    if (start >= path.len) {
        *pos = path.len;
        return slice_make(NULL, 0);
    }
    size_t len = slice_find(slice_from(path, start), '/');

    *pos = start + len;
    return slice_make(path.data + start, len);
}
