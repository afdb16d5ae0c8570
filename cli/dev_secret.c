/* The secret with which the replicas of 'zabra dev' encrypt what they send each other. */
#include "base/base64.h"
#include "base/os_rng.h"
#include "cli/dev.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

enum {
    SECRET_BYTES = 32,
    SECRET_MODE = 0600
};

static bool write_secret(int fd)
{
    uint8_t bytes[SECRET_BYTES];
    struct buf text;

    os_random(bytes, sizeof(bytes));
    buf_init(&text, 4 * sizeof(bytes));
    base64_encode(&text, slice_make(bytes, sizeof(bytes)));
    buf_append_str(&text, "\n");

    bool written = write(fd, text.data, text.len) == (ssize_t)text.len && fsync(fd) == 0;

    explicit_bzero(bytes, sizeof(bytes));
    explicit_bzero(text.data, text.len);
    buf_release(&text);
    return written;
}

void dev_secret_config(const char *data_path, bool tls, bool secret, struct buf *out)
{
    if (tls) {
        buf_append_str(out, "peerTls=required\n");
    }
    if (secret) {
        buf_printf(out, "peerSecretFile=%s/secret\n", data_path);
    }
}

bool dev_secret_make(const char *data_path)
{
    char path[DEV_PATH_MAX + 16];
    char partial[DEV_PATH_MAX + 32];

    (void)snprintf(path, sizeof(path), "%s/secret", data_path);
    if (access(path, F_OK) == 0) {
        return true; /* Of an earlier start; the replicas say if it cannot be used. */
    }
    (void)snprintf(partial, sizeof(partial), "%s.new", path);

    int fd = open(partial, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, SECRET_MODE);
    bool made = fd >= 0 && write_secret(fd);

    if (fd >= 0) {
        close(fd);
    }
    return made && rename(partial, path) == 0;
}
