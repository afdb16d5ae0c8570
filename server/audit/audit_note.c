#include "server/audit/audit_note.h"

#include "base/check.h"
#include "server/op/ops.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

enum {
    MODE = 0600,
    PATH_SIZE = 2048,
    DIGITS = 16,
    CLUSTER_AT = 14, /* Behind "zabra audit 1 ". */
    ZXID_AT = CLUSTER_AT + 2 * AUDIT_CLUSTER_LEN + 1,
    NOTE_LEN = ZXID_AT + DIGITS + 1 /* Far less than a sector: it is written as a whole. */
};

static const char file_name[] = "audit-position";
static const char magic[] = "zabra audit 1 ";

_Static_assert(sizeof(magic) - 1 == CLUSTER_AT, "the cluster follows the magic");

static bool parse(const char text[NOTE_LEN], struct audit_note *note)
{
    bool ok = memcmp(text, magic, CLUSTER_AT) == 0 && text[NOTE_LEN - 1] == '\n';
    uint64_t value = 0;

    for (size_t i = 0; ok && i < AUDIT_CLUSTER_LEN; i++) {
        ok = op_hex_parse(slice_make(text + CLUSTER_AT + 2 * i, 2), &value);
        note->cluster[i] = (uint8_t)value;
    }
    return ok && op_hex_parse(slice_make(text + ZXID_AT, DIGITS), &note->zxid);
}

int audit_note_open(const char *dir, struct audit_note *ret_note)
{
    char path[PATH_SIZE];
    char text[NOTE_LEN];

    *ret_note = (struct audit_note){0};
    if ((size_t)snprintf(path, sizeof(path), "%s/%s", dir, file_name) >= sizeof(path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, MODE);

    if (fd >= 0) {
        ret_note->is_known =
            pread(fd, text, sizeof(text), 0) == (ssize_t)sizeof(text) && parse(text, ret_note);
    }
    return fd;
}

enum err audit_note_write(int fd, const struct audit_note *note)
{
    char text[NOTE_LEN + 1];
    int at = snprintf(text, sizeof(text), "%s", magic);

    for (size_t i = 0; i < AUDIT_CLUSTER_LEN; i++) {
        at += snprintf(text + at, sizeof(text) - (size_t)at, "%02x", note->cluster[i]);
    }
    at += snprintf(text + at, sizeof(text) - (size_t)at, " %016llx\n",
                   (unsigned long long)note->zxid);
    ASSERT(at == NOTE_LEN);
    return pwrite(fd, text, NOTE_LEN, 0) == NOTE_LEN ? ERR_OK : ERR_IO;
}
