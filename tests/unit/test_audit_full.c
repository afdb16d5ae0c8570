/* An audit file that cannot be written: full disks, slow readers, file systems that hang. */
#include "server/audit/audit_int.h"
#include "tests/unit/audit_kit.h"

#include <sys/file.h>

/* ---- A full disk. ---- */

TEST(refuse_takes_no_writes_until_the_file_can_be_written, akit, akit_set_up, akit_tear_down)
{
    akit_begin_with(akit, 1);
    assert_null(audit_why(akit->audit));
    atomic_store(&akit->budget, 50); /* Within a line. */
    akit_sets(akit, 2);
    audit_applied(akit->audit, akit->last, akit->cluster);
    AKIT_WAIT(audit_why(akit->audit) != NULL);
    assert_non_null(strstr(audit_why(akit->audit), "auditFull=refuse"));
    assert_int_equal(akit_figures(akit).behind, 2);
    assert_true(audit_keep(akit->audit) < akit->last);
    atomic_store(&akit->budget, -1);
    AKIT_WAIT(audit_why(akit->audit) == NULL);
    akit_record(akit);
    assert_int_equal(akit_figures(akit).dropped, 0);
    assert_int_equal(akit_figures(akit).errors, 1);
    const char *text = akit_text(akit);

    assert_int_equal(akit_count(text, "\n"), 4);
    assert_int_equal(akit_count(text, "\"after\":1}]}\n"), 2);
    assert_int_equal(akit_count(text, "\"after\":2}]}\n"), 1);
}

TEST(drop_counts_what_is_dropped, akit, akit_set_up, akit_tear_down)
{
    akit->full = AUDIT_FULL_DROP;
    akit_begin_with(akit, 1);
    atomic_store(&akit->budget, 50);
    akit_sets(akit, 4);
    audit_applied(akit->audit, akit->last, akit->cluster);
    AKIT_WAIT(akit_figures(akit).failing);
    assert_null(audit_why(akit->audit));
    AKIT_WAIT(akit_figures(akit).dropped == 3); /* The first of them is begun. */
    atomic_store(&akit->budget, -1);
    AKIT_WAIT(!akit_figures(akit).failing);
    akit_more(akit, 1);
    const char *text = akit_text(akit);

    assert_non_null(strstr(text, "{\"event\":\"dropped\",\"zxid\":\"0x100000005\""));
    assert_non_null(strstr(text, "\"after\":\"0x100000001\",\"lines\":3}\n"));
    assert_int_equal(akit_count(text, "\"after\":1}]}\n"), 3);
    assert_int_equal(akit_count(text, "\"after\":3}]}\n"), 0);
    assert_int_equal(akit_count(text, "\n"), 5);
}

/* The line about dropped lines covers all of a transaction that lost a part of its lines. */
TEST(a_transaction_that_is_dropped_in_part, akit, akit_set_up, akit_tear_down)
{
    char want[96];

    akit->full = AUDIT_FULL_DROP;
    atomic_store(&akit->budget, 50000); /* Of the four lines of the first one. */
    akit_big(akit, 100);
    akit_sets(akit, 1);
    akit_run(akit);
    AKIT_WAIT(akit_figures(akit).dropped >= 3);
    atomic_store(&akit->budget, -1);
    akit_record(akit);
    AKIT_WAIT(!akit_figures(akit).failing);
    akit_stop(akit);
    const char *text = akit_text(akit);
    size_t lines = akit_count(text, "\n");

    (void)snprintf(want, sizeof(want), "{\"event\":\"dropped\",\"zxid\":\"0x%llx\"",
                   (unsigned long long)akit->last);
    assert_int_equal(akit_count(text, want), 1);
    assert_int_equal(akit_count(text, ",\"more\":true}\n"), 2);
    assert_int_equal(lines, akit_count(text, "{\"event\":"));

    /* Nothing is recorded again. */
    akit_remove(akit, "audit-position");
    akit_again(akit);
    akit_stop(akit); /* The line about the start may come after the last record. */
    assert_int_equal(akit_count(akit_text(akit), "\n"), lines + 1);
}

/* Lines are dropped while a transaction has further ones: these are dropped with them, so that the
 * line about them covers the transaction, and no rest of it follows. */
TEST(the_rest_of_a_transaction_is_dropped_too, akit, akit_set_up, akit_tear_down)
{
    struct audit *audit = NULL;
    struct logrec *rec = NULL;
    size_t count = 0;

    akit->full = AUDIT_FULL_DROP;
    akit_sets(akit, 1);
    zxid_t before = akit->last;

    akit_big(akit, 100);
    assert_int_equal(store_read(akit->skit->store, before, 1, 1, &rec, &count), ERR_OK);
    assert_int_equal(akit_open(akit), ERR_OK);
    audit = akit->audit;
    audit->at = before;
    audit->failing = true;
    audit->write_failing = true;
    audit->retry_ms = UINT64_MAX;
    audit->rec = rec;
    audit_record_begin(&audit->record, rec);
    assert_true(audit_record_line(&audit->record, 0, &audit->out));
    audit->has_lines = true;
    assert_true(audit_make_room(audit));
    assert_null(audit->rec);
    assert_true(audit->at == akit->last);
    assert_int_equal(audit->out.len, 0);
    assert_int_equal(akit_figures(akit).dropped, 4);
}

/* Without it the file would not tell its cluster. */
TEST(the_line_about_the_start_is_not_dropped, akit, akit_set_up, akit_tear_down)
{
    static const char begin[] = "{\"event\":\"open\",";

    akit->full = AUDIT_FULL_DROP;
    atomic_store(&akit->budget, 0);
    akit_sets(akit, 3);
    akit_run(akit);
    AKIT_WAIT(akit_figures(akit).dropped > 0);
    atomic_store(&akit->budget, -1);
    akit_record(akit);
    AKIT_WAIT(!akit_figures(akit).failing);
    const char *text = akit_text(akit);

    assert_int_equal(strncmp(text, begin, sizeof(begin) - 1), 0);
    assert_int_equal(akit_count(text, begin), 1);
    assert_int_equal(akit_figures(akit).dropped, 3);
    assert_int_equal(akit_count(text, "\"lines\":3}"), 1);
}

/* Or a crash would cut it off with the lines of the transaction. */
TEST(no_refusal_is_within_a_transaction, akit, akit_set_up, akit_tear_down)
{
    atomic_store(&akit->budget, 50000);
    akit_big(akit, 100);
    akit_run(akit);
    AKIT_WAIT(akit_figures(akit).failing);
    akit_refuse(akit, 1);
    atomic_store(&akit->budget, -1);
    akit_record(akit);
    AKIT_WAIT(akit_count(akit_text(akit), "{\"event\":\"refused\"") == 1);
    const char *refused = strstr(akit_text(akit), "{\"event\":\"refused\"");

    assert_null(strstr(refused, "{\"event\":\"change\""));
}

/* ---- A slow reader. ---- */

/* More than may wait in memory. */
static void put_backlog(struct akit *kit)
{
    for (int i = 0; i < 12; i++) {
        akit_big(kit, 500);
    }
}

/* A pipe that its reader empties piece by piece is no failure, and each piece makes room. */
TEST(a_slow_reader_gets_all_lines, akit, akit_set_up, akit_tear_down)
{
    for (int i = AUDIT_FULL_REFUSE; i <= AUDIT_FULL_DROP; i++) {
        akit->full = (enum audit_full)i;
        atomic_store(&akit->piece, 64 << 10);
        put_backlog(akit);
        akit_again(akit);
        assert_int_equal(akit_figures(akit).errors, 0);
        assert_int_equal(akit_count(akit_text(akit), "\"change\":\"create\""), 12 * 500);
        akit_stop(akit);
        akit_remove(akit, "audit.log");
    }
}

TEST(a_reader_that_goes_on_gets_all_lines, akit, akit_set_up, akit_tear_down)
{
    atomic_store(&akit->piece, -1);
    put_backlog(akit);
    akit_run(akit);
    AKIT_WAIT(audit_why(akit->audit) != NULL);
    atomic_store(&akit->piece, 10000); /* Lines are torn at each of its pieces. */
    akit_record(akit);
    AKIT_WAIT(audit_why(akit->audit) == NULL);
    struct audit_figures figures = akit_figures(akit);
    const char *text = akit_text(akit);

    assert_int_equal(figures.errors, 1);
    assert_int_equal(figures.lines, akit_count(text, "\n"));
    assert_int_equal(akit_count(text, "\n"), akit_count(text, "{\"event\":"));
    assert_int_equal(akit_count(text, "\"change\":\"create\""), 12 * 500);
}

/* What a frozen reader has begun stays whole; the rest is dropped, and said to be. */
TEST(a_frozen_reader_loses_whole_lines, akit, akit_set_up, akit_tear_down)
{
    akit->full = AUDIT_FULL_DROP;
    atomic_store(&akit->budget, 100000);
    akit_big(akit, 500);
    akit_run(akit);
    AKIT_WAIT(akit_figures(akit).failing);
    atomic_store(&akit->piece, -1);
    atomic_store(&akit->budget, -1);
    akit_big(akit, 100);
    audit_applied(akit->audit, akit->last, akit->cluster);
    AKIT_WAIT(akit_figures(akit).dropped > 10);
    atomic_store(&akit->piece, 10000);
    akit_record(akit);
    AKIT_WAIT(!akit_figures(akit).failing);
    akit_more(akit, 1);
    const char *text = akit_text(akit);

    assert_int_equal(akit_count(text, "\n"), akit_count(text, "{\"event\":"));
    assert_int_equal(akit_count(text, "{\"event\":\"dropped\""), 1);
    assert_int_equal(akit_count(text, "\"after\":1}]}\n"), 1);
    assert_int_equal(akit_figures(akit).lines, akit_count(text, "\n"));
}

/* ---- A failed sync. ---- */

/* The system may forget what it could not write, and reports that once. */
TEST(a_failed_sync_counts_as_a_failure, akit, akit_set_up, akit_tear_down)
{
    akit_run(akit);
    atomic_store(&akit->sync_errno, EIO);
    akit_sets(akit, 1);
    audit_applied(akit->audit, akit->last, akit->cluster);
    AKIT_WAIT(audit_why(akit->audit) != NULL);
    atomic_store(&akit->sync_errno, 0);
    AKIT_WAIT(audit_why(akit->audit) == NULL);
    AKIT_WAIT(audit_keep(akit->audit) == akit->last);
    assert_int_equal(akit_changes(akit), 1);
}

TEST(what_was_not_synced_is_recorded_again, akit, akit_set_up, akit_tear_down)
{
    for (int i = AUDIT_FULL_REFUSE; i <= AUDIT_FULL_DROP; i++) {
        akit->full = (enum audit_full)i;
        akit_run(akit);
        akit_more(akit, 2);
        AKIT_WAIT(audit_keep(akit->audit) == akit->last);
        atomic_store(&akit->sync_errno, i == AUDIT_FULL_REFUSE ? EIO : ENOSPC);
        akit_big(akit, 100);
        akit_sets(akit, 2);
        audit_applied(akit->audit, akit->last, akit->cluster);
        AKIT_WAIT(akit_figures(akit).failing);
        akit_sets(akit, 1);
        audit_applied(akit->audit, akit->last, akit->cluster);
        (void)poll(NULL, 0, 1200); /* It fails again. */
        assert_true(audit_keep(akit->audit) < akit->last);
        atomic_store(&akit->sync_errno, 0);
        AKIT_WAIT(audit_keep(akit->audit) == akit->last);
        const char *text = akit_text(akit);

        assert_int_equal(strlen(text), akit->text.len); /* No zeros. */
        assert_int_equal(akit_count(text, "\"after\":1}]}\n"), 3);
        assert_int_equal(akit_count(text, "\"after\":2}]}\n"), 2);
        assert_int_equal(akit_count(text, "\"change\":\"create\""), 100);
        assert_int_equal(akit_count(text, "\"event\":\"dropped\""), 0);
        akit_stop(akit);
        akit_remove(akit, "audit.log");
    }
}

/* Also when the process ends before a sync succeeds. */
TEST(a_restart_after_a_failed_sync, akit, akit_set_up, akit_tear_down)
{
    akit_run(akit);
    akit_more(akit, 1);
    AKIT_WAIT(audit_keep(akit->audit) == akit->last);
    atomic_store(&akit->sync_errno, EIO);
    akit_sets(akit, 3);
    audit_applied(akit->audit, akit->last, akit->cluster);
    AKIT_WAIT(akit_figures(akit).failing);
    akit_stop(akit);
    atomic_store(&akit->sync_errno, 0);
    akit_again(akit);
    assert_int_equal(akit_changes(akit), 4);
    assert_int_equal(strlen(akit_text(akit)), akit->text.len);
}

/* The lines that the old file has lost are in the new one. */
TEST(a_failed_sync_of_a_renamed_file, akit, akit_set_up, akit_tear_down)
{
    char error[AUDIT_ERROR_MAX];
    char old[160];

    (void)snprintf(old, sizeof(old), "%s.1", akit->path);
    akit_run(akit);
    akit_more(akit, 1);
    AKIT_WAIT(audit_keep(akit->audit) == akit->last);
    akit_more(akit, 2);
    atomic_store(&akit->sync_errno, EIO);
    assert_int_equal(rename(akit->path, old), 0);
    assert_true(audit_reopen(akit->audit, 20000, error));
    atomic_store(&akit->sync_errno, 0);
    AKIT_WAIT(audit_keep(akit->audit) == akit->last);
    assert_int_equal(akit_changes(akit) +
                         akit_count(akit_text_of(akit, "audit.log.1"), "\"event\":\"change\""),
                     3);
    assert_int_equal(strlen(akit_text_of(akit, "audit.log.1")), akit->text.len);
}

/* Refusals are in no log: those that are lost are counted. */
TEST(refusals_that_were_not_synced_are_counted, akit, akit_set_up, akit_tear_down)
{
    akit_run(akit);
    AKIT_WAIT(akit->synced > 0);
    atomic_store(&akit->sync_errno, EIO);
    akit_refuse(akit, 3);
    AKIT_WAIT(akit_figures(akit).failing);
    atomic_store(&akit->sync_errno, 0);
    AKIT_WAIT(strstr(akit_text(akit), "\"event\":\"omitted\"") != NULL);
    assert_non_null(strstr(akit_text(akit), "\"refusals\":3}"));
    assert_int_equal(akit_count(akit_text(akit), "\"event\":\"refused\""), 0);
    assert_int_equal(akit_figures(akit).omitted, 3);
}

/* ---- A file system that hangs. ---- */

static void expect_hang(struct akit *kit)
{
    char why[AUDIT_ERROR_MAX];
    struct audit_figures figures;

    AKIT_WAIT(audit_why(kit->audit) != NULL);
    assert_non_null(strstr(audit_why(kit->audit), "auditFull=refuse"));
    audit_figures(kit->audit, &figures, why);
    assert_true(figures.failing);
    assert_non_null(strstr(why, "does not answer"));
}

TEST(a_file_system_that_hangs_refuses_writes, akit, akit_set_up, akit_tear_down)
{
    akit_begin_with(akit, 1);
    atomic_store(&akit->hangs_in_write, true);
    (void)poll(NULL, 0, AUDIT_HANG_MS / 2);
    assert_null(audit_why(akit->audit)); /* There is nothing to write. */
    akit_sets(akit, 1);
    audit_applied(akit->audit, akit->last, akit->cluster);
    assert_null(audit_why(akit->audit));
    expect_hang(akit);
    atomic_store(&akit->hangs_in_write, false);
    AKIT_WAIT(audit_why(akit->audit) == NULL);
    akit_record(akit);
    atomic_store(&akit->hangs_in_sync, true);
    akit_more(akit, 1); /* Recorded, but not durable. */
    akit_sets(akit, 1);
    (void)poll(NULL, 0, 1500); /* The sync begins. */
    audit_applied(akit->audit, akit->last, akit->cluster);
    expect_hang(akit);
    atomic_store(&akit->hangs_in_sync, false);
    AKIT_WAIT(audit_why(akit->audit) == NULL);
    akit_record(akit);
    assert_int_equal(akit_figures(akit).errors, 2);
    assert_int_equal(akit_changes(akit), 4);
}

/* With auditFull=drop the replica continues, and says so. */
TEST(a_file_system_that_hangs_is_a_failure, akit, akit_set_up, akit_tear_down)
{
    akit->full = AUDIT_FULL_DROP;
    atomic_store(&akit->hangs_in_write, true);
    akit_sets(akit, 1);
    akit_run(akit);
    AKIT_WAIT(akit_figures(akit).failing);
    assert_null(audit_why(akit->audit));
    atomic_store(&akit->hangs_in_write, false);
    akit_record(akit);
    assert_false(akit_figures(akit).failing);
    assert_int_equal(akit_changes(akit), 1);
}

static bool may_lock(const struct akit *kit)
{
    int fd = open(kit->path, O_RDWR | O_CLOEXEC);
    bool ok = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;

    if (fd >= 0) {
        close(fd);
    }
    return ok;
}

/* The thread that hangs keeps its file, and touches nothing else when its call returns. */
TEST(the_end_does_not_wait_for_a_file_system_that_hangs, akit, akit_set_up, akit_tear_down)
{
    akit_begin_with(akit, 1);
    atomic_store(&akit->hangs_in_write, true);
    akit_sets(akit, 2);
    audit_applied(akit->audit, akit->last, akit->cluster);
    (void)poll(NULL, 0, 100);
    uint64_t begin_ms = os_now_ms();

    akit_stop(akit);
    assert_in_range(os_now_ms() - begin_ms, 2000, 10000);
    skit_close(akit->skit, true);
    assert_false(may_lock(akit));
    atomic_store(&akit->hangs_in_write, false);
    AKIT_WAIT(may_lock(akit));
    assert_int_equal(skit_open(akit->skit), ERR_OK);
    akit_again(akit);
    assert_int_equal(akit_changes(akit), 3);
}
