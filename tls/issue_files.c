#include "tls/issue_files.h"

#include "tls/inspect.h"

#include "base/minmax.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    DIR_MODE = 0755,
    KEY_MODE = 0600,
    CERT_MODE = 0644,
    OPEN_TO_ALL = 007,
    DRAFT_MAX = 32
};

#define REFUSE(error, ...) ((void)snprintf(error, ISSUE_ERROR_MAX, __VA_ARGS__), false)

const char *issue_files_path(const char *dir, const char *name, const char *end,
                             char path[ISSUE_PATH_MAX])
{
    if (snprintf(path, ISSUE_PATH_MAX, "%s/%s%s", dir, name, end) >= ISSUE_PATH_MAX) {
        path[0] = '\0';
    }
    return path;
}

#define FILE_PATH(dir, name, end) issue_files_path(dir, name, end, (char[ISSUE_PATH_MAX]){0})

bool issue_files_exist(const char *dir, const char *name)
{
    struct stat stat;

    return lstat(FILE_PATH(dir, name, ".pem"), &stat) == 0 ||
           lstat(FILE_PATH(dir, name, ".key"), &stat) == 0;
}

/* ---- Reading ---- */

static bool read_fd(int fd, struct buf *text)
{
    ssize_t got = 1;

    while (got > 0 || (got < 0 && errno == EINTR)) {
        size_t room = text->size_max - text->len;
        uint8_t *to = buf_reserve(text, room);

        got = read(fd, to, room);
        text->len += got > 0 ? (size_t)got : 0;
        if (text->len == text->size_max) {
            errno = EFBIG;
            return false;
        }
    }
    return got == 0;
}

bool issue_files_read(const char *path, struct buf *text, char error[ISSUE_ERROR_MAX])
{
    if (!*path) {
        return REFUSE(error, "the path is longer than %d bytes", (int)ISSUE_PATH_MAX - 1);
    }

    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* A pipe without a writer ends here. */
    struct stat stat;
    bool ok = fd >= 0 && fstat(fd, &stat) == 0;

    if (ok && S_ISDIR(stat.st_mode)) {
        errno = EISDIR;
        ok = false;
    }
    ok = ok && read_fd(fd, text);

    int why = errno;

    if (fd >= 0) {
        close(fd);
    }
    return ok || REFUSE(error, "cannot read %s: %s", path, strerrordesc_np(why));
}

/* ---- Writing ---- */

/* Writes a file that exists under no name of others yet. */
static bool write_draft(const char *path, mode_t mode, const struct buf *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    bool ok = fd >= 0 && write(fd, text->data, text->len) == (ssize_t)text->len && fsync(fd) == 0;
    int why = errno;

    if (fd >= 0) {
        close(fd);
    }
    errno = why;
    return ok;
}

/* Gives both drafts their names. link() refuses a name that is taken, also by a process that runs
 * at the same time. Not inline: its paths would make the stack frame of the caller too large. */
__attribute__((noinline)) static bool publish(const char *dir, const char *name,
                                              const char *key_draft, const char *cert_draft)
{
    const char *key = FILE_PATH(dir, name, ".key");

    if (link(key_draft, key) != 0) {
        return false;
    }
    if (link(cert_draft, FILE_PATH(dir, name, ".pem")) != 0) {
        int why = errno;

        (void)unlink(key);
        errno = why;
        return false;
    }
    return true;
}

static bool refuse_taken(const char *dir, const char *name, char error[ISSUE_ERROR_MAX])
{
    return REFUSE(error,
                  "%s/%s.pem or %s.key exists already, and nothing is overwritten; choose another "
                  "name, or move both files away first",
                  dir, name, name);
}

bool issue_files_write(const char *dir, const char *name, const struct issue_pair *pair,
                       char error[ISSUE_ERROR_MAX])
{
    char end[DRAFT_MAX];

    if (mkdir(dir, DIR_MODE) != 0 && errno != EEXIST) {
        return REFUSE(error, "cannot make the directory %s: %s", dir, strerrordesc_np(errno));
    }
    (void)snprintf(end, sizeof(end), ".key.%d", (int)getpid());

    const char *key_draft = FILE_PATH(dir, name, end);

    (void)snprintf(end, sizeof(end), ".pem.%d", (int)getpid());

    const char *cert_draft = FILE_PATH(dir, name, end);
    bool ok = write_draft(key_draft, KEY_MODE, &pair->key) &&
              write_draft(cert_draft, CERT_MODE, &pair->cert) &&
              publish(dir, name, key_draft, cert_draft);
    int why = errno;

    (void)unlink(key_draft);
    (void)unlink(cert_draft);
    if (!ok && issue_files_exist(dir, name)) {
        return refuse_taken(dir, name, error);
    }
    return ok || REFUSE(error, "cannot write %s/%s.key: %s", dir, name, strerrordesc_np(why));
}

/* ---- Making ---- */

static bool load_ca(const char *dir, struct issue_pair *ca, char error[ISSUE_ERROR_MAX])
{
    const char *key = FILE_PATH(dir, ISSUE_FILES_CA, ".key");
    struct stat info;

    if (stat(key, &info) != 0 && errno == ENOENT) {
        return REFUSE(error,
                      "there is no authority in %s (%s.key); make one: zabra cert ca --dir "
                      "%s",
                      dir, ISSUE_FILES_CA, dir);
    }
    if (stat(key, &info) == 0 && (info.st_mode & OPEN_TO_ALL)) {
        return REFUSE(error, "all users may read the key of the authority; run: chmod 600 %s", key);
    }
    return issue_files_read(key, &ca->key, error) &&
           issue_files_read(FILE_PATH(dir, ISSUE_FILES_CA, ".pem"), &ca->cert, error);
}

/* Ends the certificate with its authority, if that ends before. Returns false when the authority
 * has ended already. */
static bool fit_dates(const struct issue_pair *ca, struct issue_request *request,
                      char error[ISSUE_ERROR_MAX])
{
    struct inspect_cert facts;
    bool read = inspect_read(buf_slice(&ca->cert), &facts);
    int64_t end_s = facts.until_s;

    inspect_release(&facts);
    if (!read) {
        return true; /* issue_make() says why. */
    }
    if (end_s <= request->from_s + ISSUE_EARLY_S) {
        return REFUSE(error, "the authority has expired on %s; make a new one in another directory",
                      inspect_date(end_s, (char[INSPECT_TEXT_MAX]){0}));
    }
    request->until_s = min_i64(request->until_s, end_s);
    return true;
}

bool issue_files_make(const char *dir, const char *name, const struct issue_request *request,
                      char error[ISSUE_ERROR_MAX])
{
    struct issue_request fitted = *request;
    bool is_ca = request->kind == ISSUE_CA;
    struct issue_pair ca;
    struct issue_pair pair;
    bool ok = issue_check(request, error);

    if (ok && issue_files_exist(dir, name)) {
        return refuse_taken(dir, name, error);
    }
    issue_init(&ca);
    issue_init(&pair);
    ok = ok && (is_ca || (load_ca(dir, &ca, error) && fit_dates(&ca, &fitted, error))) &&
         issue_make(&fitted, is_ca ? NULL : &ca, &pair, error) &&
         issue_files_write(dir, name, &pair, error);
    issue_release(&ca);
    issue_release(&pair);
    return ok;
}
