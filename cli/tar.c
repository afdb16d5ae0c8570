#include "cli/tar.h"

#include "base/check.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    BLOCK = 512,
    TYPE_FILE = '0'
};

/* The head of a file; numbers are octal text. */
struct head {
    char name[TAR_NAME_MAX];
    char mode[8];
    char uid[8];
    char gid[8];
    char size[12];
    char time[12];
    char sum[8];
    char type;
    char link[100];
    char magic[8];
    char user[32];
    char group[32];
    char rest[183];
};

_Static_assert(sizeof(struct head) == BLOCK, "a head is one block");

static int put(int fd, const void *bytes, size_t len)
{
    const char *at = bytes;

    while (len > 0) {
        ssize_t done = write(fd, at, len);

        if (done < 0 && errno != EINTR) {
            return errno;
        }
        at += done > 0 ? done : 0;
        len -= done > 0 ? (size_t)done : 0;
    }
    return 0;
}

/* The sum of all bytes of the head, with blanks in place of the sum. */
static unsigned int sum_of(const struct head *head)
{
    const uint8_t *bytes = (const uint8_t *)head;
    unsigned int sum = 0;

    for (size_t i = 0; i < sizeof(*head); i++) {
        sum += bytes[i];
    }
    return sum;
}

int tar_add(int fd, const char *name, struct slice content, int64_t time_s)
{
    static const char zeros[BLOCK];
    struct head head = {.type = TYPE_FILE, .magic = "ustar\0000"};

    ASSERT(strlen(name) < TAR_NAME_MAX);
    memcpy(head.name, name, strlen(name));
    (void)snprintf(head.mode, sizeof(head.mode), "%07o", 0600U);
    (void)snprintf(head.uid, sizeof(head.uid), "%07o", 0U);
    (void)snprintf(head.gid, sizeof(head.gid), "%07o", 0U);
    (void)snprintf(head.size, sizeof(head.size), "%011llo", (unsigned long long)content.len);
    (void)snprintf(head.time, sizeof(head.time), "%011llo", (unsigned long long)time_s);
    memset(head.sum, ' ', sizeof(head.sum));
    (void)snprintf(head.sum, sizeof(head.sum), "%06o", sum_of(&head));

    int error = put(fd, &head, sizeof(head));

    error = error ? error : put(fd, content.data, content.len);
    return error ? error : put(fd, zeros, (BLOCK - content.len % BLOCK) % BLOCK);
}

int tar_end(int fd)
{
    static const char zeros[2 * BLOCK];

    return put(fd, zeros, sizeof(zeros));
}
