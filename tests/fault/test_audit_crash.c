/* Crashes of the audit log: the process ends after each byte of the file. */
#include "tests/unit/audit_kit.h"

enum {
#ifdef ZABRA_SLOW
    STEP = 5,
#else
    STEP = 1,
#endif
    BIG_STEP = 1009
};

/* Returns the lines about changes, without the lines about starts, in memory of the caller. */
static char *changes_of(struct akit *kit)
{
    struct buf out;
    const char *text = akit_text(kit);

    buf_init(&out, AKIT_TEXT_MAX);
    for (const char *end = strchr(text, '\n'); end; end = strchr(text, '\n')) {
        if (strncmp(text, "{\"event\":\"change\"", 17) == 0) {
            buf_append(&out, text, (size_t)(end - text) + 1);
        }
        text = end + 1;
    }
    assert_int_equal(*text, '\0'); /* No torn line. */
    char *changes = mem_strdup(buf_cstr(&out));

    buf_release(&out);
    return changes;
}

static void forget(struct akit *kit, bool note_too)
{
    akit_remove(kit, "audit.log");
    if (note_too) {
        akit_remove(kit, "audit-position");
    }
}

/* Records everything without a crash; returns the lines, and the size of the file. */
static char *reference(struct akit *kit, long *ret_bytes)
{
    forget(kit, true);
    akit_again(kit);
    akit_stop(kit);
    char *changes = changes_of(kit);

    *ret_bytes = (long)kit->text.len;
    return changes;
}

/* Lets the process end after `bytes` bytes, then starts again. */
static void crash_at(struct akit *kit, long bytes, bool loses_note)
{
    forget(kit, true);
    atomic_store(&kit->budget, bytes);
    akit_run(kit);
    AKIT_WAIT(akit_figures(kit).failing);
    akit_stop(kit);
    if (loses_note) {
        akit_remove(kit, "audit-position");
    }
    atomic_store(&kit->budget, -1);
    akit_again(kit);
    akit_stop(kit);
}

static void crash_everywhere(struct akit *kit, long step)
{
    long bytes = 0;
    char *want = reference(kit, &bytes);

    for (long at = 1; at < bytes; at += step) {
        crash_at(kit, at, at % 2 == 0);
        char *got = changes_of(kit);

        if (strcmp(got, want) != 0) {
            fail_msg("crash after %ld bytes: %s", at, got);
        }
        mem_free(got);
    }
    mem_free(want);
}

/* Each change has one line, whole, after a crash at any byte. */
TEST(each_byte, akit, akit_set_up, akit_tear_down)
{
    akit_sets(akit, 4);
    crash_everywhere(akit, STEP);
}

/* A transaction with several lines has all of them once, in one piece. */
TEST(each_line_of_a_large_transaction, akit, akit_set_up, akit_tear_down)
{
    akit_sets(akit, 1);
    akit_big(akit, 150);
    akit_sets(akit, 1);
    crash_everywhere(akit, BIG_STEP);
}

/* The disk is full after each byte, and has space again: nothing is missing or twice either. */
TEST(a_full_disk_at_each_byte, akit, akit_set_up, akit_tear_down)
{
    long bytes = 0;

    akit_sets(akit, 2);
    char *want = reference(akit, &bytes);

    for (long at = 1; at < bytes; at += 16 * STEP + 1) {
        forget(akit, true);
        atomic_store(&akit->budget, at);
        akit_run(akit);
        AKIT_WAIT(akit_figures(akit).failing);
        atomic_store(&akit->budget, -1);
        akit_record(akit);
        akit_stop(akit);
        char *got = changes_of(akit);

        assert_string_equal(got, want);
        mem_free(got);
    }
    mem_free(want);
}
