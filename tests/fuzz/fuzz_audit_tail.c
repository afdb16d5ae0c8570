/*
 * The end of an audit file, with any bytes: what is kept is the beginning of the file, ends with a
 * whole line and is not changed by a second look; a file that is refused keeps all its bytes; the
 * zxid is that of a line that is kept.
 */
#include "server/audit/audit_file.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static enum err read_tail(int fd, struct audit_file *file, struct audit_tail *tail)
{
    off_t size = lseek(fd, 0, SEEK_END);

    ASSERT(size >= 0);
    *file = (struct audit_file){
        .path = "fuzz", .system = &audit_system_real, .fd = fd, .size = (uint64_t)size};
    enum err err = audit_tail_read(file, tail);

    ASSERT(err == ERR_OK || err == ERR_FORMAT);
    ASSERT((uint64_t)lseek(fd, 0, SEEK_END) == file->size);
    return err;
}

/* Whether a kept line has this zxid, and is the last line of its transaction. */
static bool has_line(struct slice kept, zxid_t zxid)
{
    bool found = false;

    while (kept.len > 0) {
        struct audit_mark mark = audit_line_mark(slice_cut(&kept, '\n'));

        found = found || (mark.has_zxid && mark.zxid == zxid && !mark.more);
    }
    return found;
}

static void check_kept(int fd, struct slice input, const struct audit_tail *tail)
{
    struct slice kept = slice_make(input.data, input.len - (size_t)tail->cut);
    uint8_t *bytes = mmap(NULL, FUZZ_INPUT_MAX + 1, PROT_READ, MAP_PRIVATE, fd, 0);
    struct audit_file again;
    struct audit_tail second;

    ASSERT(tail->cut <= input.len && bytes != MAP_FAILED);
    ASSERT(kept.len == 0 || memcmp(bytes, input.data, kept.len) == 0);
    ASSERT(kept.len == 0 || kept.data[kept.len - 1] == '\n');
    ASSERT(!tail->has_zxid || has_line(kept, tail->zxid));
    ASSERT(munmap(bytes, FUZZ_INPUT_MAX + 1) == 0);
    ASSERT(read_tail(fd, &again, &second) == ERR_OK && second.cut == 0);
    ASSERT(second.has_zxid == tail->has_zxid && second.zxid == tail->zxid);
}

static bool fuzz_one(struct slice input)
{
    int fd = memfd_create("audit", MFD_CLOEXEC);
    struct audit_file file;
    struct audit_tail tail;

    ASSERT(fd >= 0);
    ASSERT(input.len == 0 || write(fd, input.data, input.len) == (ssize_t)input.len);
    enum err err = read_tail(fd, &file, &tail);

    if (err == ERR_OK) {
        check_kept(fd, input, &tail);
    } else {
        ASSERT(file.size == input.len);
    }
    (void)close(fd);
    return err == ERR_OK;
}

static void fuzz_seeds(struct fuzz_sink *sink)
{
    const struct audit_open open = {.zxid = 7, .member = 1, .cluster = {1}, .version = "v"};
    struct buf text;

    buf_init(&text, FUZZ_INPUT_MAX);
    audit_put_open(&text, &open);
    fuzz_seed(sink, "open", buf_slice(&text));
    buf_append_str(&text, "{\"event\":\"change\",\"zxid\":\"0x8\",\"x\":1}\n"
                          "{\"event\":\"change\",\"zxid\":\"0x9\",\"x\":1,\"more\":true}\n");
    fuzz_seed(sink, "more", buf_slice(&text));
    audit_put_omitted(&text, 3, 0);
    buf_append_str(&text, "{\"event\":\"change\",\"zx");
    fuzz_seed(sink, "torn", buf_slice(&text));
    buf_clear(&text);
    audit_put_gap(&text, 1, 2, "why", 0);
    audit_put_dropped(&text, 2, 3, 4, 0);
    fuzz_seed(sink, "gap", buf_slice(&text));
    buf_clear(&text);
    fuzz_seed(sink, "empty", buf_slice(&text));
    buf_release(&text);
}

FUZZ_TARGET(audit_tail)
