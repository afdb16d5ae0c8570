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
    CLUSTER_AT = 14, /* Behind "zabra audit 1 "; each field is followed by one byte. */
    SYNCED_AT = CLUSTER_AT + 2 * AUDIT_CLUSTER_LEN + 1,
    WRITTEN_AT = SYNCED_AT + DIGITS + 1,
    BOOT_AT = WRITTEN_AT + DIGITS + 1,
    NOTE_LEN = BOOT_AT + AUDIT_BOOT_LEN + 1 /* Less than a sector: it is written as a whole. */
};

static const char file_name[] = "audit-position";
static const char magic[] = "zabra audit 1 ";
static const char boot_path[] = "/proc/sys/kernel/random/boot_id";
static const char unknown_boot[] = "00000000-0000-0000-0000-000000000000";

_Static_assert(sizeof(magic) - 1 == CLUSTER_AT, "the cluster follows the magic");
_Static_assert(sizeof(unknown_boot) - 1 == AUDIT_BOOT_LEN, "a boot is a UUID");

static void read_boot(char ret_boot[AUDIT_BOOT_LEN + 1])
{
    int fd = open(boot_path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd >= 0 ? read(fd, ret_boot, AUDIT_BOOT_LEN) : -1;

    if (fd >= 0) {
        (void)close(fd);
    }
    if (len != AUDIT_BOOT_LEN) {
        memcpy(ret_boot, unknown_boot, AUDIT_BOOT_LEN);
    }
    ret_boot[AUDIT_BOOT_LEN] = '\0';
}

static bool parse(const char text[NOTE_LEN], struct audit_note *note)
{
    bool ok = memcmp(text, magic, CLUSTER_AT) == 0 && text[NOTE_LEN - 1] == '\n';
    bool same_boot = memcmp(text + BOOT_AT, note->boot, AUDIT_BOOT_LEN) == 0 &&
                     strcmp(note->boot, unknown_boot) != 0;
    uint64_t value = 0;

    for (size_t i = 0; ok && i < AUDIT_CLUSTER_LEN; i++) {
        ok = op_hex_parse(slice_make(text + CLUSTER_AT + 2 * i, 2), &value);
        note->cluster[i] = (uint8_t)value;
    }
    ok = ok && op_hex_parse(slice_make(text + SYNCED_AT, DIGITS), &note->synced) &&
         op_hex_parse(slice_make(text + WRITTEN_AT, DIGITS), &note->written);
    if (!same_boot) {
        note->written = note->synced;
    }
    return ok;
}

bool audit_note_open(struct audit_note *note, const char *dir)
{
    char path[PATH_SIZE];
    char text[NOTE_LEN];

    *note = (struct audit_note){.fd = -1};
    read_boot(note->boot);
    if ((size_t)snprintf(path, sizeof(path), "%s/%s", dir, file_name) >= sizeof(path)) {
        errno = ENAMETOOLONG;
        return false;
    }
    note->fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, MODE);
    note->is_known = note->fd >= 0 &&
                     pread(note->fd, text, sizeof(text), 0) == (ssize_t)sizeof(text) &&
                     parse(text, note);
    return note->fd >= 0;
}

void audit_note_close(struct audit_note *note)
{
    if (note->fd >= 0) {
        (void)close(note->fd);
    }
    note->fd = -1;
}

void audit_note_write(const struct audit_note *note)
{
    char text[NOTE_LEN + 1];
    int at = snprintf(text, sizeof(text), "%s", magic);

    for (size_t i = 0; i < AUDIT_CLUSTER_LEN; i++) {
        at += snprintf(text + at, sizeof(text) - (size_t)at, "%02x", note->cluster[i]);
    }
    at += snprintf(text + at, sizeof(text) - (size_t)at, " %016llx %016llx %s\n",
                   (unsigned long long)note->synced, (unsigned long long)note->written, note->boot);
    ASSERT(at == NOTE_LEN);
    ssize_t done = pwrite(note->fd, text, NOTE_LEN, 0);

    (void)done;
}
