/*
 * Figures of the state machine: ns per apply and look-up, bytes per znode, scan and restore of a
 * million znodes. It only prints.
 */
#include "base/check.h"
#include "base/mem.h"
#include "base/os_clock.h"
#include "base/rng.h"
#include "server/state/state.h"
#include "server/watch/window.h"

#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <unistd.h>

enum {
    ZNODES = 1000000,
    DIRECTORIES = 1000,
    DATA_LEN = 100,
    LOOKUPS = 1000000,
    SETS = 1000000,
    SLICE_BYTES = 1 << 18,
    WINDOW_SETS = 100000,
    WINDOW_BYTES = 64 << 20
};

static uint64_t resident_bytes(void)
{
    char text[128] = {0};
    unsigned long long pages = 0;
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);

    ASSERT(fd >= 0);
    ssize_t len = read(fd, text, sizeof(text) - 1);

    ASSERT(len > 0 && sscanf(text, "%*s %llu", &pages) == 1);
    close(fd);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void print_per(const char *what, uint64_t ns, uint64_t count)
{
    printf("%-42s %8.0f ns each, %7.0f ms in all\n", what, (double)ns / (double)count,
           (double)ns / 1e6);
}

/* "/dNNN/nNNNNNNNNN" or, flat, "/flat/nNNNNNNNNN": names of ten bytes. */
static size_t path_of(uint32_t i, bool flat, char path[64])
{
    int len = flat ? snprintf(path, 64, "/flat/n%09u", i)
                   : snprintf(path, 64, "/d%03u/n%09u", i % DIRECTORIES, i);

    ASSERT(len > 0 && len < 64);
    return (size_t)len;
}

static void apply_one(struct state *state, zxid_t zxid, const struct txn_effect *effect,
                      struct buf *txn, struct state_changes *changes)
{
    const struct txn_header header = {.age_ms = 1000, .stamp_ms = 1000};

    buf_clear(txn);
    txn_begin(txn, &header);
    txn_put(txn, effect);
    enum err err = state_apply(state, zxid, buf_slice(txn), false, changes);

    ASSERT(err == ERR_OK);
}

static void create(struct state *state, zxid_t *zxid, struct slice path, struct buf *txn)
{
    static const uint8_t data[DATA_LEN];
    const uint8_t *slash = memrchr(path.data, '/', path.len);
    size_t len = slash == path.data ? 1 : (size_t)(slash - path.data);
    const struct znode *parent = state_find(state, slice_make(path.data, len));
    const struct txn_effect effect = {.type = TXN_CREATE,
                                      .path = path,
                                      .data = slice_make(data, DATA_LEN),
                                      .creates = znode_creates(parent) + 1};

    apply_one(state, ++*zxid, &effect, txn, NULL);
}

static void fill(struct state *state, zxid_t *zxid, bool flat, struct buf *txn)
{
    char path[64];
    uint64_t before = resident_bytes();

    for (uint32_t i = 0; i < (flat ? 1 : DIRECTORIES); i++) {
        int len = flat ? snprintf(path, 64, "/flat") : snprintf(path, 64, "/d%03u", i);

        create(state, zxid, slice_make(path, (size_t)len), txn);
    }
    uint64_t start_ns = os_now_ns();

    for (uint32_t i = 0; i < ZNODES; i++) {
        create(state, zxid, slice_make(path, path_of(i, flat, path)), txn);
    }
    print_per(flat ? "create, one directory" : "create, 1,000 directories", os_now_ns() - start_ns,
              ZNODES);
    printf("%-42s %8.0f bytes each\n", "resident beyond 100 B of data",
           (double)(resident_bytes() - before) / ZNODES - DATA_LEN);
}

static void look_up(const struct state *state, bool flat)
{
    char path[64];
    struct rng rng;
    uint64_t found = 0;

    rng_init(&rng, 1);
    uint64_t start_ns = os_now_ns();

    for (uint32_t i = 0; i < LOOKUPS; i++) {
        size_t len = path_of((uint32_t)rng_below(&rng, ZNODES), flat, path);

        found += state_find(state, slice_make(path, len)) != NULL;
    }
    ASSERT(found == LOOKUPS);
    print_per(flat ? "find at random, one directory" : "find at random, 1,000 directories",
              os_now_ns() - start_ns, LOOKUPS);
}

/* Applies a record like the core; with a window, adds its change set there. */
static void apply_record(struct state *state, zxid_t zxid, struct slice txn, struct window *window,
                         struct state_changes *changes)
{
    struct logrec *rec = logrec_new(LOGREC_TXN, zxid, zxid - 1, 0, txn);
    enum err err = state_apply(state, zxid, logrec_payload(rec), false, changes);

    ASSERT(err == ERR_OK);
    if (window) {
        window_append(window, change_set_new(zxid, rec, changes));
    }
    logrec_unref(rec);
}

static void set(struct state *state, zxid_t *zxid, bool flat, struct window *window,
                struct buf *txn)
{
    static const uint8_t data[DATA_LEN] = {1};
    const struct txn_header header = {.age_ms = 1000, .stamp_ms = 1000};
    char path[64];
    char what[64];
    struct rng rng;
    struct state_changes changes = {0};

    rng_init(&rng, 2);
    uint64_t start_ns = os_now_ns();

    for (uint32_t i = 0; i < SETS; i++) {
        size_t len = path_of((uint32_t)rng_below(&rng, ZNODES), flat, path);
        const struct txn_effect effect = {.type = TXN_SET,
                                          .flags = TXN_REPLY,
                                          .path = slice_make(path, len),
                                          .data = slice_make(data, DATA_LEN),
                                          .version = 1};

        buf_clear(txn);
        txn_begin(txn, &header);
        txn_put(txn, &effect);
        apply_record(state, ++*zxid, buf_slice(txn), window, &changes);
    }
    (void)snprintf(what, sizeof what, "set at random, %s%s",
                   flat ? "one directory" : "1,000 directories", window ? ", with changes" : "");
    print_per(what, os_now_ns() - start_ns, SETS);
    state_changes_release(&changes);
}

static void set_all(struct state *state, zxid_t *zxid, bool flat, struct buf *txn)
{
    struct window *window = window_new(WINDOW_BYTES, WINDOW_SETS, *zxid + SETS);

    set(state, zxid, flat, NULL, txn);
    set(state, zxid, flat, window, txn);
    window_free(window);
}

static void scan_and_restore(const struct state *state)
{
    struct state *copy = state_new(0);
    struct state_cursor cursor;
    struct buf block;
    uint64_t scan_ns = 0;
    uint64_t longest_ns = 0;
    uint64_t restore_ns = 0;
    uint64_t bytes = 0;

    buf_init(&block, 4 << 20);
    state_scan_init(&cursor);
    while (!cursor.done) {
        buf_clear(&block);
        uint64_t start_ns = os_now_ns();

        state_scan(state, &cursor, SLICE_BYTES, &block);
        uint64_t mid_ns = os_now_ns();
        enum err err = state_restore(copy, buf_slice(&block));

        ASSERT(err == ERR_OK);
        restore_ns += os_now_ns() - mid_ns;
        scan_ns += mid_ns - start_ns;
        longest_ns = mid_ns - start_ns > longest_ns ? mid_ns - start_ns : longest_ns;
        bytes += block.len;
    }
    ASSERT(state_digest(copy) == state_digest(state));
    print_per("scan", scan_ns, ZNODES);
    print_per("restore", restore_ns, ZNODES);
    printf("%-42s %8.0f us\n", "longest slice", (double)longest_ns / 1e3);
    printf("%-42s %8.1f bytes a znode\n", "snapshot", (double)bytes / ZNODES);
    buf_release(&block);
    state_scan_release(&cursor);
    uint64_t start_ns = os_now_ns();

    state_free(copy);
    print_per("free", os_now_ns() - start_ns, ZNODES);
}

static void run(bool flat)
{
    struct state *state = state_new(1);
    struct buf txn;
    zxid_t zxid = 0;

    buf_init(&txn, 1 << 16);
    fill(state, &zxid, flat, &txn);
    look_up(state, flat);
    set_all(state, &zxid, flat, &txn);
    scan_and_restore(state);
    state_free(state);
    buf_release(&txn);
    malloc_trim(0);
}

int main(void)
{
    run(false);
    run(true);
    return 0;
}
