/* The end of an audit file after a crash: which line is whole, and which zxid is the last. */
#include "base/check.h"
#include "base/mem.h"
#include "base/minmax.h"
#include "server/audit/audit_file.h"

#include <unistd.h>

enum {
    PIECE = 64 << 10, /* Bytes read at a time. */
    HEAD_MAX = 512,   /* Bytes of a line's beginning that are parsed. */
    OPEN_HEAD = 32    /* Not less than what tells that a line names a cluster. */
};

/* Reads whole ranges of the file. */
static enum err read_at(const struct audit_file *file, uint64_t offset, uint8_t *data, size_t len)
{
    while (len > 0) {
        ssize_t count = pread(file->fd, data, len, (off_t)offset);

        if (count <= 0) {
            return ERR_IO;
        }
        data += count;
        offset += (uint64_t)count;
        len -= (size_t)count;
    }
    return ERR_OK;
}

/* Finds the last line feed before `end`, not before `low`. `*ret_at` is the offset behind it, or
 * `low` if there is none. */
static enum err line_start(const struct audit_file *file, uint64_t end, uint64_t low,
                           uint8_t *piece, uint64_t *ret_at)
{
    while (end > low) {
        size_t len = (size_t)min_u64(end - low, PIECE);
        enum err err = read_at(file, end - len, piece, len);

        if (err != ERR_OK) {
            return err;
        }
        const uint8_t *feed = memrchr(piece, '\n', len);

        if (feed) {
            *ret_at = end - len + (uint64_t)(feed - piece) + 1;
            return ERR_OK;
        }
        end -= len;
    }
    *ret_at = low;
    return ERR_OK;
}

/* Parses the line in [start, end), without its line feed. Of a long line, only the beginning and
 * the end are read. */
static enum err mark_at(const struct audit_file *file, uint64_t start, uint64_t end, uint8_t *piece,
                        struct audit_mark *ret_mark)
{
    size_t len = (size_t)min_u64(end - start, HEAD_MAX);
    size_t tail = (size_t)min_u64(end - start - len, HEAD_MAX);
    enum err err = read_at(file, start, piece, len);

    if (err == ERR_OK) {
        err = read_at(file, end - tail, piece + len, tail);
    }
    if (err == ERR_OK) {
        *ret_mark = audit_line_mark(slice_make(piece, len + tail));
    }
    return err;
}

/* Goes back from the line that ends at `*end` to the last line with a zxid. Lines of a transaction
 * that is not complete lower `*end`, so that the caller cuts them off. */
static enum err find_zxid(const struct audit_file *file, uint64_t *end, uint8_t *piece,
                          struct audit_tail *tail)
{
    uint64_t low = *end > AUDIT_LOOK_BACK_MAX ? *end - AUDIT_LOOK_BACK_MAX : 0;
    uint64_t at = *end;
    zxid_t partial = 0; /* Zxid of lines that are cut off; 0: none. */
    enum err err = ERR_OK;

    while (err == ERR_OK && at > low && !tail->has_zxid) {
        struct audit_mark mark = {0};
        uint64_t start = 0;

        err = line_start(file, at - 1, low, piece, &start);
        if (err == ERR_OK) {
            err = mark_at(file, start, at - 1, piece, &mark);
        }
        if (err == ERR_OK && mark.has_zxid &&
            (mark.more || (partial != 0 && mark.zxid == partial))) {
            partial = mark.zxid;
            *end = start;
        } else if (err == ERR_OK && mark.has_zxid) {
            tail->has_zxid = true;
            tail->zxid = mark.zxid;
        }
        at = start;
    }
    return err;
}

static const char line_begin[] = "{\"event\":\"";

enum {
    LINE_BEGIN = sizeof(line_begin) - 1
};

/* Whether the bytes from `start` to the end of the file can be the beginning of a line. A file that
 * is no audit file, named by mistake, must not lose its end. After a loss of power the bytes may be
 * zero. */
static bool is_torn_line(const struct audit_file *file, uint64_t start)
{
    uint8_t head[LINE_BEGIN];
    size_t len = (size_t)min_u64(file->size - start, sizeof(head));

    if (file->size - start > AUDIT_LINE_MAX || read_at(file, start, head, len) != ERR_OK) {
        return false;
    }
    return memcmp(head, line_begin, len) == 0 || slice_is_zero(slice_make(head, len));
}

/* Whether a line begins at `start`. */
static bool is_line(const struct audit_file *file, uint64_t start)
{
    uint8_t head[LINE_BEGIN];

    return file->size - start > LINE_BEGIN && read_at(file, start, head, LINE_BEGIN) == ERR_OK &&
           memcmp(head, line_begin, LINE_BEGIN) == 0;
}

/* Checks that the file begins with a line of an audit log, and that the last line before `end` is
 * one. */
static enum err check_lines(const struct audit_file *file, uint64_t end, uint8_t *piece)
{
    uint64_t low = end > AUDIT_LINE_MAX ? end - AUDIT_LINE_MAX : 0;
    uint64_t start = 0;

    if (end == 0) {
        return ERR_OK;
    }
    enum err err = line_start(file, end - 1, low, piece, &start);

    if (err != ERR_OK) {
        return err;
    }
    return is_line(file, 0) && is_line(file, start) ? ERR_OK : ERR_FORMAT;
}

/* Reads the cluster from the line at `start`. */
static enum err read_cluster(const struct audit_file *file, uint64_t start, uint8_t *piece,
                             struct audit_tail *tail)
{
    size_t len = (size_t)min_u64(file->size - start, HEAD_MAX);
    enum err err = read_at(file, start, piece, len);

    if (err == ERR_OK) {
        struct slice head = slice_make(piece, len);
        struct slice line = slice_make(piece, slice_find(head, '\n'));

        tail->has_cluster = audit_line_cluster(line, tail->cluster);
    }
    return err;
}

/* Returns the offset of the last line in `text` that names a cluster, not counting one without a
 * line feed before it; text.len: there is none. */
static size_t last_open(struct slice text)
{
    static const char begin[] = "\n{\"event\":\"open\",";
    size_t at = text.len;

    for (;;) {
        size_t from = at < text.len ? at : 0;
        const uint8_t *found = memmem(text.data + from, text.len - from, begin, sizeof(begin) - 1);

        if (!found) {
            return at;
        }
        at = (size_t)(found - text.data) + 1;
    }
}

/* Finds the cluster of the line that ends at `end`: the last line about a start names it. In a file
 * that is too large to be searched it is that of the first line. */
static enum err find_cluster(const struct audit_file *file, uint64_t end, uint8_t *piece,
                             struct audit_tail *tail)
{
    uint64_t low = end > AUDIT_LOOK_BACK_MAX ? end - AUDIT_LOOK_BACK_MAX : 0;

    while (end > low) {
        size_t len = (size_t)min_u64(end - low, PIECE);
        enum err err = read_at(file, end - len, piece, len);
        size_t at = err == ERR_OK ? last_open(slice_make(piece, len)) : len;

        if (err != ERR_OK || at < len) {
            return err == ERR_OK ? read_cluster(file, end - len + at, piece, tail) : err;
        }
        /* The next piece overlaps, because the beginning of a line may lie across the border. */
        end = len < PIECE ? low : end - len + OPEN_HEAD;
    }
    return read_cluster(file, 0, piece, tail);
}

enum err audit_tail_read(struct audit_file *file, struct audit_tail *ret_tail)
{
    uint64_t size = file->size;
    uint64_t end = 0;

    *ret_tail = (struct audit_tail){0};
    if (!file->path || size == 0) {
        return ERR_OK;
    }
    uint8_t *piece = mem_alloc(PIECE);
    uint64_t low = size > AUDIT_LOOK_BACK_MAX ? size - AUDIT_LOOK_BACK_MAX : 0;
    enum err err = line_start(file, size, low, piece, &end);

    if (err == ERR_OK && end < size && !is_torn_line(file, end)) {
        err = ERR_FORMAT;
    }
    if (err == ERR_OK) {
        err = find_zxid(file, &end, piece, ret_tail);
    }
    if (err == ERR_OK) {
        err = check_lines(file, end, piece);
    }
    if (err == ERR_OK && end < size) {
        audit_file_cut(file, (size_t)(size - end));
        err = file->size == end ? ERR_OK : ERR_IO;
        ret_tail->cut = size - end;
    }
    if (err == ERR_OK && ret_tail->has_zxid) {
        err = find_cluster(file, end, piece, ret_tail);
    }
    mem_free(piece);
    return err;
}
