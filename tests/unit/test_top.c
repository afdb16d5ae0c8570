/* The busiest prefixes and clients: what is counted, for how long, and by many threads at once. */
#include "base/thread.h"
#include "server/op/ops.h"
#include "server/process/top.h"
#include "tests/lib/unit.h"

#include <string.h>

enum {
    START_MS = 100 * TOP_WINDOW_MS + 1000,
    THREADS = 6,
    EACH = 20000
};

struct bench {
    struct top *top;
    struct op_principal who;
};

static void set_up(struct bench *bench)
{
    bench->top = top_new(START_MS);
    bench->who = (struct op_principal){.address = "10.0.0.7"};
}

static void tear_down(struct bench *bench)
{
    auth_unref(bench->who.auth);
    top_free(bench->top);
}

static void note(struct bench *bench, enum op_id op, const char *path, uint64_t now_ms)
{
    struct op_args args;

    op_args_init(&args, op);
    args.path = slice_str(path);
    top_note(bench->top, &args, &bench->who, now_ms);
}

/* Returns the row of a key; zeros: there is none. */
static struct sketch_row row_of(struct bench *bench, uint32_t depth, const char *key,
                                uint64_t now_ms)
{
    struct top_report *report = top_report(bench->top, now_ms);
    struct sketch_row rows[SKETCH_ENTRIES];
    struct sketch_row found = {.reads = 0};
    uint32_t count = depth ? top_prefixes(report, depth, rows) : top_clients(report, rows);

    for (uint32_t i = 0; i < count; i++) {
        if (slice_eq(rows[i].key, slice_str(key))) {
            found = rows[i];
        }
    }
    found.key = slice_make(NULL, 0); /* It belongs to the report. */
    top_report_free(report);
    return found;
}

static void expect(struct sketch_row row, uint64_t reads, uint64_t writes)
{
    assert_int_equal(row.reads, reads);
    assert_int_equal(row.writes, writes);
    assert_int_equal(row.error, 0);
}

TEST(paths_count_for_their_prefixes, bench, set_up, tear_down)
{
    note(bench, OP_GET, "/a/b/c/d/e", START_MS);
    note(bench, OP_SET, "/a/b", START_MS);
    note(bench, OP_CHILDREN, "/", START_MS);
    expect(row_of(bench, 1, "/a", START_MS), 1, 1);
    expect(row_of(bench, 2, "/a/b", START_MS), 1, 1);
    expect(row_of(bench, 3, "/a/b/c", START_MS), 1, 0);
    expect(row_of(bench, 1, "/", START_MS), 1, 0);
    expect(row_of(bench, 2, "/", START_MS), 0, 0);
    expect(row_of(bench, 0, "10.0.0.7", START_MS), 2, 1);
}

TEST(a_prefix_that_is_too_long_is_not_counted, bench, set_up, tear_down)
{
    char path[2 * SKETCH_KEY_MAX];

    memset(path, 'x', sizeof(path));
    path[0] = '/';
    path[SKETCH_KEY_MAX] = '\0';
    note(bench, OP_GET, path, START_MS);
    expect(row_of(bench, 1, path, START_MS), 1, 0);
    path[SKETCH_KEY_MAX] = 'x';
    path[SKETCH_KEY_MAX + 1] = '\0';
    note(bench, OP_GET, path, START_MS);
    expect(row_of(bench, 1, path, START_MS), 0, 0);
    expect(row_of(bench, 0, "10.0.0.7", START_MS), 2, 0);
}

TEST(operations_of_a_multi_are_counted_up_to_a_bound, bench, set_up, tear_down)
{
    struct op_args elements[TOP_MULTI_MAX + 10];
    struct op_args args;

    op_args_init(&args, OP_MULTI);
    for (uint32_t i = 0; i < TOP_MULTI_MAX + 10; i++) {
        op_args_init(&elements[i], OP_SET);
        elements[i].path = slice_str("/m/x");
    }
    args.ops = elements;
    args.op_count = TOP_MULTI_MAX + 10;
    top_note(bench->top, &args, &bench->who, START_MS);
    expect(row_of(bench, 2, "/m/x", START_MS), 0, TOP_MULTI_MAX);
    expect(row_of(bench, 0, "10.0.0.7", START_MS), 0, 1);
}

TEST(counts_are_forgotten_after_two_windows, bench, set_up, tear_down)
{
    uint64_t next_ms = START_MS + TOP_WINDOW_MS;

    note(bench, OP_GET, "/a", START_MS);
    note(bench, OP_GET, "/a", next_ms);
    expect(row_of(bench, 1, "/a", next_ms), 2, 0);
    expect(row_of(bench, 1, "/a", next_ms + TOP_WINDOW_MS), 1, 0);
    expect(row_of(bench, 1, "/a", next_ms + TOP_WINDOW_MS * 2), 0, 0);
    note(bench, OP_GET, "/b", START_MS + TOP_WINDOW_MS * 2); /* In the place of the first one. */
    expect(row_of(bench, 1, "/a", START_MS + TOP_WINDOW_MS * 2), 1, 0);
}

TEST(a_report_says_how_long_it_covers, bench, set_up, tear_down)
{
    struct {
        uint64_t now_ms;
        uint64_t covers_ms;
    } cases[] = {{START_MS, 0},
                 {START_MS + 500, 500},
                 {START_MS + TOP_WINDOW_MS, TOP_WINDOW_MS},
                 {START_MS + TOP_WINDOW_MS * 2 - 2000, TOP_WINDOW_MS * 2 - 2000},
                 {START_MS + TOP_WINDOW_MS * 2, TOP_WINDOW_MS + 1000}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct top_report *report = top_report(bench->top, cases[i].now_ms);

        assert_int_equal(top_report_ms(report), cases[i].covers_ms);
        top_report_free(report);
    }
}

/* A name may contain what separates the parts of a key; with another password it is another client.
 */
TEST(clients_are_told_apart, bench, set_up, tear_down)
{
    static const char *const credentials[] = {"alice:pw",
                                              "alice:pw2",
                                              "a b:c:pw",
                                              "",
                                              "a-name-of-more-than-24-bytes-1:pw",
                                              "a-name-of-more-than-24-bytes-2:pw"};
    static const char *const shown[] = {"digest:alice",
                                        "digest:alice",
                                        "digest:a b",
                                        "",
                                        "digest:a-name-of-more-than-24-b",
                                        "digest:a-name-of-more-than-24-b"};

    enum {
        COUNT = sizeof(credentials) / sizeof(credentials[0])
    };
    struct op_principal clients[COUNT];
    char keys[COUNT][SKETCH_KEY_MAX];
    uint32_t lens[COUNT];

    for (size_t i = 0; i < COUNT; i++) {
        clients[i] = bench->who;
        if (credentials[i][0]) {
            assert_int_equal(auth_add(NULL, slice_str("digest"), slice_str(credentials[i]), "",
                                      &clients[i].auth),
                             ERR_OK);
        }
        lens[i] = top_client_key(&clients[i], 0, keys[i]);
        struct slice key = slice_make(keys[i], lens[i]);
        struct slice identity = top_key_identity(key);

        assert_true(slice_eq(top_key_address(key), slice_str("10.0.0.7")));
        assert_true(slice_eq(identity, slice_str(shown[i])));
    }
    for (size_t i = 0; i < COUNT; i++) {
        for (size_t j = 0; j < COUNT; j++) {
            bool anonymous = credentials[i][0] == '\0'; /* Each client of its address is it, too. */

            assert_int_equal(top_key_is_of(slice_make(keys[i], lens[i]), &clients[j]),
                             i == j || anonymous);
        }
    }
    for (size_t i = 0; i < COUNT; i++) {
        auth_unref(clients[i].auth);
    }
}

/* The longest identities of all fit into a key. */
TEST(the_longest_client_fits, bench, set_up, tear_down)
{
    char id[AUTH_CREDENTIAL_MAX];
    char key[SKETCH_KEY_MAX];

    memset(id, 'n', sizeof(id) - 1);
    id[sizeof(id) - 1] = '\0';
    memset(bench->who.address, '9', sizeof(bench->who.address) - 1);
    bench->who.auth = auth_certificate(id, "");
    uint32_t len = top_client_key(&bench->who, 0, key);

    assert_true(top_key_is_of(slice_make(key, len), &bench->who));
    assert_int_equal(top_key_address(slice_make(key, len)).len, sizeof(bench->who.address) - 1);
    note(bench, OP_GET, "/a", START_MS);
}

static struct top *shared_top;

static void count_many(void *arg)
{
    struct op_principal who = {.address = "10.0.0.8"};
    struct op_args args;

    (void)arg;
    op_args_init(&args, OP_GET);
    args.path = slice_str("/hot/spot");
    for (uint32_t i = 0; i < EACH; i++) {
        top_note(shared_top, &args, &who, START_MS);
    }
}

/* More threads than parts: no request is counted twice, and the others count as skipped. */
TEST(threads_count_while_reports_are_made, bench, set_up, tear_down)
{
    struct thread threads[THREADS];

    shared_top = bench->top;
    for (size_t i = 0; i < THREADS; i++) {
        thread_start(&threads[i], "counts", count_many, NULL);
    }
    for (int i = 0; i < 50; i++) {
        top_report_free(top_report(bench->top, START_MS));
    }
    for (size_t i = 0; i < THREADS; i++) {
        thread_join(&threads[i]);
    }
    struct sketch_row row = row_of(bench, 2, "/hot/spot", START_MS);
    struct top_report *report = top_report(bench->top, START_MS);

    assert_int_equal(row.reads, top_report_requests(report));
    assert_int_equal(row.reads + top_report_skipped(report), THREADS * EACH);
    top_report_free(report);
}
