/*
 * audit_kit.h - an audit log over a store in memory, with its file in a directory of its own.
 *
 * Records are appended and reported as applied by short calls. The system may fail writes after a
 * number of bytes, like a disk that is full or a machine that stops.
 */
#ifndef TESTS_UNIT_AUDIT_KIT_H
#define TESTS_UNIT_AUDIT_KIT_H

#include "base/mem.h"
#include "base/os_clock.h"
#include "server/audit/audit.h"
#include "tests/lib/state_kit.h"
#include "tests/lib/store_kit.h"
#include "tests/lib/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    AKIT_WAIT_MS = 20000,
    AKIT_TEXT_MAX = 8 << 20,
    AKIT_RECORD_MAX = 1 << 20,
    AKIT_EPOCH = 1
};

struct akit {
    char dir[64];
    char path[96];
    struct skit *skit;
    struct audit *audit; /* NULL: closed. */
    zxid_t last;
    uint64_t chain;
    uint8_t cluster[AUDIT_CLUSTER_LEN];
    enum audit_full full;
    zxid_t start;
    bool to_stderr;
    char error[AUDIT_ERROR_MAX];
    struct buf text; /* Of akit_text. */
    struct audit_system system;
    _Atomic long budget; /* Bytes that may still be written; -1: any number. */
    _Atomic long piece;  /* Bytes that a reader takes at a time; 0: all of them; -1: none. */
    _Atomic int writes;
    _Atomic bool hangs_in_write; /* Calls do not return while it is set. */
    _Atomic bool hangs_in_sync;
    _Atomic int sync_errno; /* 0: syncs work. */
    _Atomic off_t synced;   /* Bytes of the file that are durable, and which file it is. */
    ino_t synced_ino;
};

static inline void akit_hang(const _Atomic bool *hangs)
{
    while (atomic_load(hangs)) {
        (void)poll(NULL, 0, 2);
    }
}

static inline ssize_t akit_write(void *ctx, int fd, const void *data, size_t len)
{
    struct akit *kit = ctx;
    akit_hang(&kit->hangs_in_write);
    long budget = atomic_load(&kit->budget);
    long piece = atomic_load(&kit->piece);

    if (piece < 0 || (piece > 0 && atomic_fetch_add(&kit->writes, 1) % 2 == 1)) {
        errno = EAGAIN;
        return -1;
    }
    if (budget == 0) {
        errno = ENOSPC;
        return -1;
    }
    len = piece > 0 && (size_t)piece < len ? (size_t)piece : len;
    ssize_t done = write(fd, data, budget > 0 && (size_t)budget < len ? (size_t)budget : len);

    if (budget > 0 && done > 0) {
        atomic_fetch_sub(&kit->budget, (long)done);
    }
    return done;
}

/* Like a disk that has failed: the system forgets what it could not write. */
static inline void akit_forget(int fd, off_t from, off_t to)
{
    char path[32];

    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    int other = open(path, O_WRONLY | O_CLOEXEC); /* Not to append. */

    for (off_t at = from; at < to; at++) {
        (void)!pwrite(other, "", 1, at);
    }
    close(other);
}

static inline int akit_sync(void *ctx, int fd)
{
    struct akit *kit = ctx;
    int failed = atomic_load(&kit->sync_errno);
    struct stat stat_of = {0};

    akit_hang(&kit->hangs_in_sync);
    (void)fstat(fd, &stat_of);
    if (failed != 0) {
        akit_forget(fd, kit->synced_ino == stat_of.st_ino ? kit->synced : 0, stat_of.st_size);
        errno = failed;
        return -1;
    }
    kit->synced = stat_of.st_size;
    kit->synced_ino = stat_of.st_ino;
    return fdatasync(fd);
}

/* The files are in memory: a stop waits for its last sync for a few seconds only, and a busy disk
 * takes longer. */
static inline void akit_set_up(struct akit *kit)
{
    (void)snprintf(kit->dir, sizeof(kit->dir), "%s/zabra-audit-XXXXXX",
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    assert_non_null(mkdtemp(kit->dir));
    (void)snprintf(kit->path, sizeof(kit->path), "%s/audit.log", kit->dir);
    kit->skit = mem_zalloc(1, sizeof(*kit->skit));
    skit_init(kit->skit, KIT_SEGMENT);
    kit->skit->options.record_bytes_max = AKIT_RECORD_MAX;
    kit->skit->options.snapshots_keep = 1;
    assert_int_equal(skit_open(kit->skit), ERR_OK);
    assert_int_equal(skit_format(kit->skit), ERR_OK);
    kit->last = skit_zxid(&kit->skit->log, 0);
    kit->chain = skit_chain(&kit->skit->log, 0);
    kit->system = (struct audit_system){.write = akit_write, .sync = akit_sync, .ctx = kit};
    atomic_store(&kit->budget, -1);
    memset(kit->cluster, 7, sizeof(kit->cluster));
    buf_init(&kit->text, AKIT_TEXT_MAX);
}

static inline void akit_remove(struct akit *kit, const char *name)
{
    char path[160];

    (void)snprintf(path, sizeof(path), "%s/%s", kit->dir, name);
    (void)unlink(path);
}

static inline void akit_tear_down(struct akit *kit)
{
    audit_stop(kit->audit);
    skit_close(kit->skit, true);
    skit_release(kit->skit);
    mem_free(kit->skit);
    buf_release(&kit->text);
    akit_remove(kit, "audit.log");
    akit_remove(kit, "audit.log.1");
    akit_remove(kit, "audit-position");
    (void)rmdir(kit->dir);
}

/* ---- Records. ---- */

static inline void akit_append_rec(struct akit *kit, enum logrec_type type, struct slice payload)
{
    zxid_t zxid = kit->last == 0 ? zxid_make(AKIT_EPOCH, 0) : kit->last + 1;

    if (kit->last == 0 && type != LOGREC_EPOCH) {
        akit_append_rec(kit, LOGREC_EPOCH, slice_make(NULL, 0));
        zxid = kit->last + 1;
    }
    struct logrec *rec = logrec_new(type, zxid, kit->last, kit->chain, payload);
    struct store_op op = {
        .type = STORE_APPEND, .recs = &rec, .rec_count = 1, .committed = kit->last};

    assert_int_equal(store_run_one(kit->skit->store, &op), ERR_OK);
    kit->last = zxid;
    kit->chain = rec->chain;
    logrec_unref(rec);
}

/* Begins a transaction of a client without identities. */
static inline void akit_begin(struct buf *txn, uint8_t op)
{
    const struct txn_actor actor = {.op = op, .address = slice_str("10.0.0.7")};
    struct txn_header header = {.stamp_ms = 1000, .age_ms = 1000, .origin_member = 2};
    struct buf bytes;

    buf_init(&bytes, TXN_ACTOR_MAX);
    txn_actor_encode(&bytes, &actor);
    header.actor = buf_slice(&bytes);
    txn_begin(txn, &header);
    buf_release(&bytes);
}

/* Appends a transaction and clears it. */
static inline void akit_append(struct akit *kit, struct buf *txn)
{
    akit_append_rec(kit, LOGREC_TXN, buf_slice(txn));
    buf_clear(txn);
}

/* Appends `count` transactions that set /n to version 1, 2 and so on. */
static inline void akit_sets(struct akit *kit, int count)
{
    struct buf txn;

    buf_init(&txn, 4096);
    for (int i = 0; i < count; i++) {
        akit_begin(&txn, OP_SET);
        txn_put(&txn,
                &(struct txn_effect){.type = TXN_SET, .path = slice_str("/n"), .version = i + 1});
        akit_append(kit, &txn);
    }
    buf_release(&txn);
}

/* Takes a snapshot and purges the log before it. */
static inline void akit_purge(struct akit *kit)
{
    struct store_snap_writer *writer = NULL;
    struct store_figures figures;

    assert_int_equal(
        store_snap_begin(kit->skit->store, kit->last, kit->chain, slice_str("config"), &writer),
        ERR_OK);
    assert_int_equal(store_snap_block(writer, slice_str("block")), ERR_OK);
    assert_int_equal(store_snap_finish(writer, kit->last, 0, 1), ERR_OK);
    store_figures(kit->skit->store, &figures);
    assert_true(figures.log_base > 0);
}

/* Appends a transaction whose lines are many: `count` creates with long names. */
static inline void akit_big(struct akit *kit, uint32_t count)
{
    struct buf txn;
    char path[1100];

    buf_init(&txn, 16 << 20);
    akit_begin(&txn, OP_MULTI);
    for (uint32_t i = 0; i < count; i++) {
        int len = snprintf(path, sizeof(path), "/%01000u", i);

        txn_put(&txn, &(struct txn_effect){.type = TXN_CREATE,
                                           .path = slice_make(path, (size_t)len),
                                           .creates = i + 1});
    }
    akit_append(kit, &txn);
    buf_release(&txn);
}

/* ---- The audit log. ---- */

/* Opens it; on an error kit->error has the text. */
static inline enum err akit_open(struct akit *kit)
{
    const struct audit_options options = {.path = kit->to_stderr ? NULL : kit->path,
                                          .data_dir = kit->dir,
                                          .full = kit->full,
                                          .member = 1,
                                          .version = "test",
                                          .start = kit->start,
                                          .system = &kit->system};

    return audit_open(&options, &kit->audit, kit->error);
}

/* Opens and starts it; all records so far are applied. */
static inline void akit_run(struct akit *kit)
{
    assert_int_equal(akit_open(kit), ERR_OK);
    audit_applied(kit->audit, kit->last, kit->cluster);
    audit_start(kit->audit, kit->skit->store);
}

static inline void akit_stop(struct akit *kit)
{
    audit_stop(kit->audit);
    kit->audit = NULL;
}

static inline struct audit_figures akit_figures(struct akit *kit)
{
    struct audit_figures figures;
    char why[AUDIT_ERROR_MAX];

    audit_figures(kit->audit, &figures, why);
    assert_int_equal(figures.failing, why[0] != '\0');
    return figures;
}

/* Waits until `condition` holds. */
#define AKIT_WAIT(condition)                                   \
    do {                                                       \
        uint64_t end_of_wait_ms = os_now_ms() + AKIT_WAIT_MS;  \
                                                               \
        while (!(condition) && os_now_ms() < end_of_wait_ms) { \
            (void)poll(NULL, 0, 2);                            \
        }                                                      \
        assert_true(condition);                                \
    } while (0)

/* Reports that all records are applied, and waits until they are recorded. */
static inline void akit_record(struct akit *kit)
{
    audit_applied(kit->audit, kit->last, kit->cluster);
    AKIT_WAIT(akit_figures(kit).recorded == kit->last);
}

/* Starts it, after it was stopped or not, and records all. */
static inline void akit_again(struct akit *kit)
{
    if (kit->audit) {
        akit_stop(kit);
    }
    akit_run(kit);
    akit_record(kit);
}

/* Appends `count` sets; then as akit_again. */
static inline void akit_begin_with(struct akit *kit, int count)
{
    akit_sets(kit, count);
    akit_again(kit);
}

/* Appends `count` sets, and waits until they are recorded. */
static inline void akit_more(struct akit *kit, int count)
{
    akit_sets(kit, count);
    akit_record(kit);
}

/* Reports `count` refusals to a client without identities. */
static inline void akit_refuse(struct akit *kit, int count)
{
    const struct op_principal client = {.address = "::1"};
    const struct audit_refusal refusal = {.op = "set", .client = &client, .err = ERR_NO_AUTH};

    for (int i = 0; i < count; i++) {
        audit_refused(kit->audit, &refusal);
    }
}

/* Makes the note that of another boot of the machine: the last character of its id changes. */
static inline void akit_change_boot(struct akit *kit)
{
    char path[160];
    char last = 0;

    (void)snprintf(path, sizeof(path), "%s/audit-position", kit->dir);
    int fd = open(path, O_RDWR | O_CLOEXEC);

    assert_true(fd >= 0);
    off_t at = lseek(fd, 0, SEEK_END) - 2;

    assert_int_equal(pread(fd, &last, 1, at), 1);
    last = last == '0' ? '1' : '0';
    assert_int_equal(pwrite(fd, &last, 1, at), 1);
    close(fd);
}

/* The present file, or another one in the directory, as a text. */
static inline const char *akit_text_of(struct akit *kit, const char *name)
{
    char path[160];
    uint8_t piece[4096];
    ssize_t count = 0;

    (void)snprintf(path, sizeof(path), "%s/%s", kit->dir, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    assert_true(fd >= 0);
    buf_clear(&kit->text);
    while ((count = read(fd, piece, sizeof(piece))) > 0) {
        assert_true(buf_append(&kit->text, piece, (size_t)count));
    }
    close(fd);
    return buf_cstr(&kit->text);
}

static inline const char *akit_text(struct akit *kit)
{
    return akit_text_of(kit, "audit.log");
}

static inline size_t akit_count(const char *text, const char *part)
{
    size_t count = 0;
    size_t len = strlen(part);

    /* Not strstr: with the sanitizer it reads all of the text each time. */
    for (const char *at = strchr(text, part[0]); at; at = strchr(at + 1, part[0])) {
        count += strncmp(at, part, len) == 0 ? 1 : 0;
    }
    return count;
}

/* The number of lines about changes in the present file. */
static inline size_t akit_changes(struct akit *kit)
{
    return akit_count(akit_text(kit), "\"event\":\"change\"");
}

/* Asserts that each of the sets of akit_sets from version `first` to `last` has one line, in order.
 */
static inline void akit_assert_sets(const char *text, int first, int last)
{
    const char *at = text;
    char want[64];

    for (int i = first; i <= last; i++) {
        (void)snprintf(want, sizeof(want), "\"after\":%d}", i);
        assert_int_equal(akit_count(text, want), 1);
        at = strstr(at, want);
        assert_non_null(at);
    }
}

#endif
