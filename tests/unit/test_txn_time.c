/* The clock of transactions: what the state has seen, no later one goes behind, whatever the wall
 * clock says after a restart or at another leader. */
#include "server/state/state.h"
#include "server/state/txn.h"
#include "tests/lib/replica_bench.h"
#include "tests/lib/unit.h"

enum {
    AHEAD_MS = 5000000, /* The bench's wall clock says 1000000. */
};

static void apply_at(struct state *state, zxid_t zxid, int64_t time_ms, const char *path,
                     uint32_t creates)
{
    const struct txn_header header = {.time_ms = time_ms};
    struct buf txn;

    buf_init(&txn, 4096);
    txn_begin(&txn, &header);
    txn_put(&txn,
            &(struct txn_effect){.type = TXN_CREATE, .path = slice_str(path), .creates = creates});
    assert_int_equal(state_apply(state, zxid, buf_slice(&txn), false, NULL), ERR_OK);
    buf_release(&txn);
}

static struct state *copy_by_snapshot(const struct state *state)
{
    struct state *copy = state_new(0);
    struct state_cursor cursor;
    struct buf block;

    buf_init(&block, 1 << 20);
    state_scan_init(&cursor);
    while (!cursor.done) {
        buf_clear(&block);
        state_scan(state, &cursor, 1 << 16, &block);
        if (block.len > 0) {
            assert_int_equal(state_restore(copy, buf_slice(&block)), ERR_OK);
        }
    }
    state_scan_release(&cursor);
    state_restored(copy, state_applied(state));
    buf_release(&block);
    return copy;
}

static void a_state_knows_its_newest_time_also_through_a_snapshot(void **context)
{
    struct state *state = state_new(7);

    (void)context;
    assert_int_equal(state_time_ms(state), 0);
    apply_at(state, zxid_make(1, 1), 50, "/a", 1);
    apply_at(state, zxid_make(1, 2), 40, "/b", 2);
    assert_int_equal(state_time_ms(state), 50);

    struct state *copy = copy_by_snapshot(state);

    assert_int_equal(state_time_ms(copy), 50);
    assert_int_equal(state_digest(copy), state_digest(state));
    state_free(copy);
    state_free(state);
}

/* Two ways to the same tree may have had other clocks. */
static void the_time_is_no_part_of_the_digest(void **context)
{
    struct state *one = state_new(7);
    struct state *other = state_new(7);
    const struct txn_header header = {.time_ms = 90};
    struct buf txn;

    (void)context;
    apply_at(one, zxid_make(1, 1), 50, "/a", 1);
    apply_at(other, zxid_make(1, 1), 50, "/a", 1);
    buf_init(&txn, 4096);
    txn_begin(&txn, &header);
    txn_put(&txn, &(struct txn_effect){.type = TXN_CHECK, .path = slice_str("/a")});
    assert_int_equal(state_apply(other, zxid_make(1, 2), buf_slice(&txn), false, NULL), ERR_OK);
    buf_release(&txn);
    assert_int_equal(state_time_ms(other), 90);
    assert_int_equal(state_digest(one), state_digest(other));
    state_free(one);
    state_free(other);
}

static int64_t proposed_time(struct bench *bench, uint32_t peer)
{
    struct wire_reader reader;
    struct txn_header header;
    const struct zab_msg *entry = drive_sent(&bench->drive, peer, ZAB_ENTRY);

    assert_int_equal(txn_open(&reader, logrec_payload(entry->rec), &header), ERR_OK);
    return header.time_ms;
}

static void a_restarted_leader_does_not_stamp_before_its_state(void **context)
{
    struct state *state = state_new(7);
    struct bench bench;
    struct told told;

    (void)context;
    apply_at(state, 0x1, AHEAD_MS, "/old", 1);

    struct state *recovered = copy_by_snapshot(state);

    state_restored(recovered, 0);
    state_free(state);
    bench_open_with(&bench, 3, 3, recovered);
    drive_lead(&bench.drive);
    drive_clear(&bench.drive);
    bench_create(&bench, "/new", &told);
    assert_in_range(proposed_time(&bench, 1), AHEAD_MS, AHEAD_MS + 1000);
    bench_close(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_state_knows_its_newest_time_also_through_a_snapshot),
        cmocka_unit_test(the_time_is_no_part_of_the_digest),
        cmocka_unit_test(a_restarted_leader_does_not_stamp_before_its_state),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
