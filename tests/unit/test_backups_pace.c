/* The pace at which a backup reads the disk. */
#include "server/process/backups.h"
#include "tests/lib/unit.h"

enum {
    RATE = 1 << 20, /* Bytes per second. */
    PIECE = 64 << 10,
    STALL_MS = 20000,
    LAG_MS = 100 /* What is made good after a stall. */
};

/* Reads pieces as fast as the pace allows; returns the bytes up to `end_ms`. */
static uint64_t run(struct backups_pace *pace, uint64_t *inout_now_ms, uint64_t end_ms)
{
    uint64_t before = pace->bytes;

    while (*inout_now_ms < end_ms) {
        uint64_t due_ms = backups_pace_due(pace, *inout_now_ms);

        *inout_now_ms = due_ms > *inout_now_ms ? due_ms : *inout_now_ms;
        pace->bytes += *inout_now_ms < end_ms ? PIECE : 0;
    }
    return pace->bytes - before;
}

TEST(a_second_has_the_bytes_of_a_second)
{
    struct backups_pace pace;
    uint64_t now_ms = 5000;

    backups_pace_begin(&pace, RATE, now_ms);
    assert_in_range(run(&pace, &now_ms, 6000), RATE - PIECE, RATE + PIECE);
    assert_in_range(run(&pace, &now_ms, 16000), 10 * (RATE - PIECE), 10 * (RATE + PIECE));
}

TEST(after_a_stall_the_pace_is_as_before)
{
    struct backups_pace pace;
    uint64_t now_ms = 5000;

    backups_pace_begin(&pace, RATE, now_ms);
    (void)run(&pace, &now_ms, 6000);
    now_ms += STALL_MS; /* The client read nothing. */
    assert_in_range(run(&pace, &now_ms, now_ms + 1000), RATE - PIECE,
                    RATE + RATE / 1000 * LAG_MS + PIECE * 2);
    /* A hundred short ones add up to nothing either. */
    uint64_t bytes = 0;

    for (int i = 0; i < 100; i++) {
        now_ms += 1000;
        bytes += run(&pace, &now_ms, now_ms + 10);
    }
    assert_in_range(bytes, 0, 100 * (RATE / 1000 * (LAG_MS + 10) + PIECE * 2));
}

TEST(no_wait_is_longer_than_five_seconds)
{
    struct backups_pace pace;

    backups_pace_begin(&pace, RATE, 1000);
    pace.bytes = 64 << 20; /* One large record. */
    assert_int_equal(backups_pace_due(&pace, 1000), 6000);
}
