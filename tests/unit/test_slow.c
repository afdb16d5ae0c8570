/* The log of slow requests: phases add up, lines are bounded, and a line has what it promises. */
#include "base/log.h"
#include "server/op/ops.h"
#include "server/process/slow.h"
#include "tests/lib/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct slow_log slow_log;
static int ends[2];
static char lines[1 << 16];

static void setup(void)
{
    slow_log = (struct slow_log){.lines = 0};
    slow_init(&slow_log);
    assert_int_equal(pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
    log_setup(LOG_INFO, false, ends[1]);
}

static void teardown(void)
{
    log_setup(LOG_INFO, false, STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    slow_release(&slow_log);
}

static const char *read_lines(void)
{
    ssize_t len = read(ends[0], lines, sizeof lines - 1);

    lines[len > 0 ? len : 0] = '\0';
    return lines;
}

static struct gate_slow a_write(struct op_times times)
{
    return (struct gate_slow){
        .front = "http",
        .def = ops_by_id(OP_SET),
        .is_write = true,
        .path = slice_str("/a"),
        .address = "10.0.0.7",
        .request = "c0a4",
        .session = 0x77,
        .trace = slice_str("0af7651916cd43dd8448eb211c80319c"),
        .zxid = 0x100000002,
        .begin_ms = 1000,
        .served_ms = 1500,
        .end_ms = 1600,
        .times = times,
    };
}

static void expect(const struct gate_slow *slow, struct slow_phases expected)
{
    struct slow_phases found = slow_phases_of(slow);

    assert_memory_equal(&found, &expected, sizeof found);
    assert_int_equal(found.queued + found.prepared + found.synced + found.quorum + found.applied +
                         found.written,
                     slow->end_ms - slow->begin_ms);
}

/* ---- Phases ---- */

TEST(phases_of_a_write)
{
    struct gate_slow slow = a_write((struct op_times){.sent_ms = 1010,
                                                      .prepared_ms = 1030,
                                                      .synced_ms = 1070,
                                                      .quorum_ms = 1270,
                                                      .answered_ms = 1490});

    expect(&slow, (struct slow_phases){.queued = 10,
                                       .prepared = 20,
                                       .synced = 40,
                                       .quorum = 200,
                                       .applied = 220,
                                       .written = 110});
}

/* The others have committed before the own disk has synced: that was no wait for the quorum. */
TEST(a_quorum_before_the_own_disk_takes_no_time)
{
    struct gate_slow slow = a_write((struct op_times){.sent_ms = 1000,
                                                      .prepared_ms = 1000,
                                                      .synced_ms = 1400,
                                                      .quorum_ms = 1010,
                                                      .answered_ms = 1400});

    expect(&slow, (struct slow_phases){.synced = 400, .written = 200});
}

TEST(a_write_without_an_outcome_is_in_the_phase_that_it_did_not_leave)
{
    struct gate_slow queued = a_write((struct op_times){.answered_ms = 1500});
    struct gate_slow forwarded = a_write((struct op_times){.sent_ms = 1100, .answered_ms = 1500});
    struct gate_slow unsynced =
        a_write((struct op_times){.sent_ms = 1100, .prepared_ms = 1110, .answered_ms = 1500});
    struct gate_slow unconfirmed = a_write((struct op_times){
        .sent_ms = 1100, .prepared_ms = 1110, .synced_ms = 1120, .answered_ms = 1500});

    expect(&queued, (struct slow_phases){.queued = 500, .written = 100});
    expect(&forwarded, (struct slow_phases){.queued = 100, .prepared = 400, .written = 100});
    expect(&unsynced,
           (struct slow_phases){.queued = 100, .prepared = 10, .synced = 390, .written = 100});
    expect(&unconfirmed,
           (struct slow_phases){
               .queued = 100, .prepared = 10, .synced = 10, .quorum = 380, .written = 100});
}

/* A refusal has no record to sync, but needs a quorum round; the gate takes no request while it
 * shuts down. */
TEST(a_refused_write_has_fewer_phases)
{
    struct gate_slow refused = a_write((struct op_times){
        .sent_ms = 1010, .prepared_ms = 1020, .quorum_ms = 1400, .answered_ms = 1410});
    struct gate_slow forwarded =
        a_write((struct op_times){.sent_ms = 1010, .quorum_ms = 1400, .answered_ms = 1410});
    struct gate_slow outside = a_write((struct op_times){.sent_ms = 0});

    expect(&refused,
           (struct slow_phases){
               .queued = 10, .prepared = 10, .quorum = 380, .applied = 10, .written = 190});
    expect(&forwarded,
           (struct slow_phases){.queued = 10, .quorum = 390, .applied = 10, .written = 190});
    expect(&outside, (struct slow_phases){.queued = 500, .written = 100});
}

TEST(phases_of_reads)
{
    struct gate_slow local = a_write((struct op_times){.sent_ms = 0});
    struct gate_slow in_turn = a_write((struct op_times){.sent_ms = 1300});
    struct gate_slow linearizable =
        a_write((struct op_times){.sent_ms = 1001, .quorum_ms = 1200, .answered_ms = 1250});

    local.is_write = in_turn.is_write = linearizable.is_write = false;
    expect(&local, (struct slow_phases){.prepared = 500, .written = 100});
    expect(&in_turn, (struct slow_phases){.queued = 300, .prepared = 200, .written = 100});
    expect(&linearizable,
           (struct slow_phases){
               .queued = 1, .quorum = 199, .applied = 50, .prepared = 250, .written = 100});
}

/* The clock of the core may be a little behind that of the front end. */
TEST(times_out_of_order_never_become_huge)
{
    struct gate_slow slow = a_write((struct op_times){.sent_ms = 999,
                                                      .prepared_ms = 1700,
                                                      .synced_ms = 5,
                                                      .quorum_ms = 1400,
                                                      .answered_ms = 1399});

    expect(&slow, (struct slow_phases){.prepared = 399, .written = 201});
}

/* ---- Lines ---- */

TEST(a_line_has_all_values, setup, teardown)
{
    struct gate_slow slow = a_write((struct op_times){.sent_ms = 1010,
                                                      .prepared_ms = 1030,
                                                      .synced_ms = 1070,
                                                      .quorum_ms = 1270,
                                                      .answered_ms = 1490});

    slow_note(&slow_log, &slow);
    assert_non_null(strstr(
        read_lines(),
        " WARN http slow request: op=set ms=600 queued=10 prepared=20 synced=40 quorum=200 "
        "applied=220 written=110 code=Ok zxid=0x100000002 session=77 remote=10.0.0.7 request=c0a4 "
        "trace=0af7651916cd43dd8448eb211c80319c left_out=0 path=/a\n"));
    assert_int_equal(metric_get(&slow_log.requests), 1);
}

TEST(what_is_missing_is_a_dash, setup, teardown)
{
    struct gate_slow slow = a_write((struct op_times){.sent_ms = 0});

    slow.trace = slice_make(NULL, 0);
    slow.path = slice_make(NULL, 0);
    slow_note(&slow_log, &slow);
    assert_non_null(strstr(read_lines(), " trace=- left_out=0 path=-\n"));
}

TEST(a_path_cannot_forge_a_line, setup, teardown)
{
    struct gate_slow slow = a_write((struct op_times){.sent_ms = 0});

    slow.path = slice_str("/a\n2026 ERROR zab \xff");
    slow_note(&slow_log, &slow);
    assert_non_null(strstr(read_lines(), " path=/a\\n2026 ERROR zab \\xff\n"));
    assert_ptr_equal(strchr(lines, '\n') + 1, lines + strlen(lines));
}

static uint32_t note_many(const char *address, uint32_t count, uint64_t now_ms)
{
    uint64_t left_out = 0;
    uint32_t logged = 0;

    for (uint32_t i = 0; i < count; i++) {
        logged += slow_may_log(&slow_log, slice_str(address), now_ms, &left_out) ? 1 : 0;
    }
    return logged;
}

TEST(one_address_does_not_hide_the_others, setup, teardown)
{
    uint64_t left_out = 0;

    assert_int_equal(note_many("10.0.0.7", 1000, 5000), SLOW_ADDRESS_LINES);
    assert_true(slow_may_log(&slow_log, slice_str("10.0.0.8"), 5999, &left_out));
    assert_int_equal(left_out, 1000 - SLOW_ADDRESS_LINES);
    assert_int_equal(metric_get(&slow_log.unlogged), 1000 - SLOW_ADDRESS_LINES);
    /* The next second. */
    assert_int_equal(note_many("10.0.0.7", 1000, 6000), SLOW_ADDRESS_LINES);
}

TEST(a_second_has_a_bound_for_all, setup, teardown)
{
    uint32_t logged = 0;
    char address[32];

    for (uint32_t i = 0; i < 1000; i++) {
        (void)snprintf(address, sizeof address, "10.0.%u.%u", i / 250, i % 250);
        logged += note_many(address, 2, 5000);
    }
    assert_int_equal(logged, SLOW_LINES);
    assert_int_equal(metric_get(&slow_log.unlogged), 2000 - SLOW_LINES);
}
