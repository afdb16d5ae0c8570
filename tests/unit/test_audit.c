/* The audit log as a whole: recording, resuming, gaps, rotation, refusals. */
#include "tests/unit/audit_kit.h"

#include <sys/wait.h>

TEST(each_applied_change_has_a_line, akit, akit_set_up, akit_tear_down)
{
    akit_begin_with(akit, 3);
    const char *text = akit_text(akit);

    akit_assert_sets(text, 1, 3);
    assert_int_equal(akit_count(text, "\n"), 4);
    assert_non_null(strstr(text, "\"cluster\":\"07070707"));
    assert_non_null(
        strstr(text, "{\"event\":\"change\",\"zxid\":\"0x100000001\","
                     "\"time\":\"1970-01-01T00:00:01.000Z\",\"op\":\"set\",\"by\":\"client\","
                     "\"address\":\"10.0.0.7\",\"identities\":[\"ip:10.0.0.7\"],\"replica\":2,"
                     "\"changes\":[{\"change\":\"set\",\"path\":\"/n\",\"before\":0,"
                     "\"after\":1}]}\n"));
    struct stat stat_of;

    assert_int_equal(stat(akit->path, &stat_of), 0);
    assert_int_equal(stat_of.st_mode & 0777, 0600);
}

/* A record that is in the log but not applied may never be committed. */
TEST(only_what_is_applied_is_recorded, akit, akit_set_up, akit_tear_down)
{
    akit_begin_with(akit, 1);
    zxid_t applied = akit->last;

    akit_sets(akit, 1);
    akit_stop(akit); /* Records all that is applied. */
    assert_int_equal(akit_changes(akit), 1);
    assert_true(applied < akit->last);
}

TEST(a_restart_continues_after_the_last_line, akit, akit_set_up, akit_tear_down)
{
    akit_begin_with(akit, 2);
    akit_stop(akit);
    struct buf txn;

    buf_init(&txn, 4096);
    akit_begin(&txn, OP_SET);
    kit_set(&txn, "/n", "x", 3);
    akit_append(akit, &txn);
    buf_release(&txn);
    akit_again(akit);
    akit_assert_sets(akit_text(akit), 1, 3);
    assert_int_equal(akit_count(akit_text(akit), "\"event\":\"open\""), 2);
}

/* The note knows the zxid when the file does not: it was rotated while the replica did not run. */
TEST(a_restart_with_a_new_file_continues, akit, akit_set_up, akit_tear_down)
{
    akit_begin_with(akit, 2);
    akit_stop(akit);
    assert_int_equal(unlink(akit->path), 0);
    akit_again(akit);
    AKIT_WAIT(akit_count(akit_text(akit), "\"zxid\":\"0x100000002\"") == 1);
    assert_int_equal(akit_changes(akit), 0);
}

/* A process that records all, syncs nothing, and crashes. */
static void record_and_crash(struct akit *kit)
{
    uint64_t end_ms = os_now_ms() + AKIT_WAIT_MS;
    char want[32];
    pid_t pid = fork();

    if (pid != 0) {
        int status = 0;

        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        return;
    }
    (void)snprintf(want, sizeof(want), "%016llx", (unsigned long long)kit->last);
    atomic_store(&kit->hangs_in_sync, true);
    akit_run(kit);
    while (!strstr(akit_text_of(kit, "audit-position"), want)) {
        (void)poll(NULL, 0, 2);
        if (os_now_ms() >= end_ms) {
            _exit(1);
        }
    }
    _exit(0);
}

/* After a crash of the process the note has all that was written, though nothing was synced; after
 * one of the machine, which is another boot, only what was synced counts. */
TEST(a_crash_with_a_new_file, akit, akit_set_up, akit_tear_down)
{
    for (int boot = 0; boot < 2; boot++) {
        akit_run(akit);
        akit_more(akit, 1);
        AKIT_WAIT(audit_keep(akit->audit) == akit->last);
        akit_stop(akit);
        akit_sets(akit, 2);
        record_and_crash(akit);
        assert_int_equal(unlink(akit->path), 0);
        if (boot > 0) {
            akit_change_boot(akit);
        }
        akit_again(akit);
        assert_int_equal(akit_changes(akit), boot > 0 ? 2 : 0);
        akit_stop(akit);
    }
}

/* The file knows the zxid when the note does not. */
TEST(a_restart_without_the_note_continues, akit, akit_set_up, akit_tear_down)
{
    akit_begin_with(akit, 2);
    akit_stop(akit);
    akit_remove(akit, "audit-position");
    akit_again(akit);
    akit_assert_sets(akit_text(akit), 1, 2);
}

/* The first start with an audit log on an old replica: what was before is not recorded. */
TEST(the_first_start_begins_where_the_replica_is, akit, akit_set_up, akit_tear_down)
{
    akit_sets(akit, 2);
    akit->start = akit->last;
    akit_again(akit);
    assert_int_equal(akit_changes(akit), 0);
    assert_int_equal(akit_count(akit_text(akit), "\"event\":\"gap\""), 0);
}

TEST(another_cluster_begins_again, akit, akit_set_up, akit_tear_down)
{
    akit_begin_with(akit, 2);
    akit_stop(akit);
    memset(akit->cluster, 8, sizeof(akit->cluster));
    akit_again(akit);
    assert_int_equal(akit_count(akit_text(akit), "\"after\":1}"), 2);
}

/* A replica that refuses clients before it knows its cluster: the file begins with refusals. */
TEST(the_cluster_of_a_file_that_begins_with_refusals, akit, akit_set_up, akit_tear_down)
{
    akit_sets(akit, 2);
    assert_int_equal(akit_open(akit), ERR_OK);
    audit_start(akit->audit, akit->skit->store);
    akit_refuse(akit, 1);
    AKIT_WAIT(akit_count(akit_text(akit), "\"event\":\"refused\"") == 1);
    akit_record(akit);
    akit_stop(akit);
    assert_int_equal(akit_changes(akit), 2);

    akit_remove(akit, "audit-position");
    akit_run(akit); /* The same cluster continues. */
    akit_record(akit);
    akit_stop(akit);
    assert_int_equal(akit_changes(akit), 2);

    akit_remove(akit, "audit-position");
    memset(akit->cluster, 8, sizeof(akit->cluster));
    akit_run(akit); /* Another one begins. */
    akit_record(akit);
    assert_int_equal(akit_changes(akit), 4);
}

TEST(the_last_cluster_of_a_file_counts, akit, akit_set_up, akit_tear_down)
{
    static const uint8_t clusters[] = {7, 8, 8, 7, 7};
    static const size_t changes[] = {2, 4, 4, 6, 6};

    akit_sets(akit, 2);
    for (size_t i = 0; i < sizeof(clusters); i++) {
        memset(akit->cluster, clusters[i], sizeof(akit->cluster));
        akit_remove(akit, "audit-position");
        akit_again(akit);
        akit_stop(akit);
        assert_int_equal(akit_changes(akit), changes[i]);
    }
}

/* It has begun, and ends before its first change: it continues from there, not from where it is
 * when it is started again. */
TEST(a_new_cluster_that_has_recorded_nothing, akit, akit_set_up, akit_tear_down)
{
    for (int loses_note = 0; loses_note < 2; loses_note++) {
        akit_sets(akit, 1);
        akit->start = akit->last;
        akit_again(akit);
        akit_stop(akit);
        akit_remove(akit, "audit-position");
        akit->cluster[0]++;
        akit->start = 0;
        assert_int_equal(akit_open(akit), ERR_OK);
        audit_applied(akit->audit, 0, akit->cluster);
        audit_start(akit->audit, akit->skit->store);
        AKIT_WAIT(akit_count(akit_text(akit), "\"event\":\"open\"") == 2);
        akit_stop(akit);
        akit_remove(akit, loses_note ? "audit-position" : "audit.log");
        akit->start = akit->last;
        akit_again(akit);
        assert_int_equal(akit_changes(akit), loses_note + 1);
        akit_stop(akit);
        akit_remove(akit, "audit.log");
        akit_remove(akit, "audit-position");
    }
}

TEST(a_purged_log_is_a_gap, akit, akit_set_up, akit_tear_down)
{
    char want[160];

    akit_begin_with(akit, 2);
    zxid_t before = akit->last;

    akit_stop(akit);
    akit_big(akit, 100); /* More than a segment each. */
    akit_big(akit, 100);
    akit_purge(akit);
    struct store_figures figures;

    store_figures(akit->skit->store, &figures);
    assert_true(figures.log_base > before);
    akit_begin_with(akit, 3);
    (void)snprintf(want, sizeof(want), "{\"event\":\"gap\",\"zxid\":\"0x%llx\"",
                   (unsigned long long)figures.log_base);
    const char *text = akit_text(akit);

    assert_int_equal(akit_count(text, want), 1);
    assert_int_equal(akit_count(text, "\"after\":\"0x100000002\",\"reason\":\"the log does not"),
                     1);
    assert_int_equal(akit_count(text, "\"after\":3}]}\n"), 1);
    assert_int_equal(akit_figures(akit).gaps, 1);
}

/* A disk that is refilled is behind the file for a while: nothing is recorded twice. */
TEST(a_replica_that_is_set_back_records_nothing_twice, akit, akit_set_up, akit_tear_down)
{
    akit_begin_with(akit, 4);
    akit_stop(akit);
    assert_int_equal(akit_open(akit), ERR_OK);
    audit_applied(akit->audit, akit->last - 2, akit->cluster);
    audit_start(akit->audit, akit->skit->store);
    AKIT_WAIT(akit_figures(akit).recorded == akit->last);
    akit_more(akit, 5);
    assert_int_equal(akit_changes(akit), 9);
    assert_int_equal(akit_count(akit_text(akit), "\"after\":5}]}\n"), 1);
}

/* Or an idle ensemble would keep its log for ever. */
TEST(records_without_a_line_are_recorded_too, akit, akit_set_up, akit_tear_down)
{
    akit_begin_with(akit, 1);
    AKIT_WAIT(audit_keep(akit->audit) == akit->last);
    akit_append_rec(akit, LOGREC_STAMP, slice_str("stamp"));
    akit_record(akit);
    AKIT_WAIT(audit_keep(akit->audit) == akit->last);
    akit_again(akit);
    assert_int_equal(akit_changes(akit), 1);
}

/* ---- Rotation. ---- */

TEST(a_renamed_file_is_opened_again, akit, akit_set_up, akit_tear_down)
{
    char error[AUDIT_ERROR_MAX];
    char old[160];

    (void)snprintf(old, sizeof(old), "%s.1", akit->path);
    akit_begin_with(akit, 1);
    assert_int_equal(rename(akit->path, old), 0);
    assert_true(audit_reopen(akit->audit, 20000, error));
    assert_int_equal(access(akit->path, F_OK), 0);
    akit_more(akit, 2);
    assert_int_equal(akit_count(akit_text_of(akit, "audit.log.1"), "\"event\":\"change\""), 1);
    assert_int_equal(akit_changes(akit), 2);

    /* The new file tells by itself where it begins. */
    static const char begin[] = "{\"event\":\"open\",\"zxid\":\"0x100000001\"";

    assert_int_equal(strncmp(akit_text(akit), begin, sizeof(begin) - 1), 0);
}

/* A part of a line that could not be completed in the old file is not the beginning of the new one,
 * also before the cluster is known. */
TEST(a_renamed_file_with_a_torn_refusal, akit, akit_set_up, akit_tear_down)
{
    static const char begin[] = "{\"event\":\"refused\",";
    char error[AUDIT_ERROR_MAX];
    char old[160];

    (void)snprintf(old, sizeof(old), "%s.1", akit->path);
    atomic_store(&akit->budget, 50);
    assert_int_equal(akit_open(akit), ERR_OK);
    audit_start(akit->audit, akit->skit->store);
    akit_refuse(akit, 1);
    AKIT_WAIT(akit_figures(akit).failing);
    assert_int_equal(akit->text.len, 0);
    assert_int_equal(rename(akit->path, old), 0);
    assert_true(audit_reopen(akit->audit, 20000, error));
    atomic_store(&akit->budget, -1);
    AKIT_WAIT(akit_count(akit_text(akit), "\n") == 1);
    assert_int_equal(strncmp(akit_text(akit), begin, sizeof(begin) - 1), 0);
    assert_string_equal(akit_text_of(akit, "audit.log.1"), "");
}

TEST(opening_again_has_a_result, akit, akit_set_up, akit_tear_down)
{
    char error[AUDIT_ERROR_MAX];
    char old[160];

    (void)snprintf(old, sizeof(old), "%s.1", akit->path);
    akit_begin_with(akit, 1);
    assert_false(audit_reopen(akit->audit, 0, error));
    assert_non_null(strstr(error, "could not be opened again in 0 ms"));
    assert_true(audit_reopen(akit->audit, 20000, error)); /* It was not renamed. */
    assert_int_equal(rename(akit->path, old), 0);
    assert_int_equal(mkdir(akit->path, 0700), 0); /* Nothing can be opened here. */
    assert_false(audit_reopen(akit->audit, 20000, error));
    assert_non_null(strstr(error, akit->path));
    assert_int_equal(rmdir(akit->path), 0);
    assert_true(audit_reopen(akit->audit, 20000, error));
    assert_int_equal(access(akit->path, F_OK), 0);
}

TEST(a_truncated_file_is_noticed, akit, akit_set_up, akit_tear_down)
{
    static const char begin[] = "{\"event\":\"open\",\"zxid\":\"0x100000001\"";

    akit_begin_with(akit, 1);
    assert_int_equal(truncate(akit->path, 0), 0);
    AKIT_WAIT(strncmp(akit_text(akit), begin, sizeof(begin) - 1) == 0);
    akit_more(akit, 1);
    assert_int_equal(akit_count(akit_text(akit), "\n"), 2);
}

TEST(a_removed_file_is_made_again, akit, akit_set_up, akit_tear_down)
{
    akit_begin_with(akit, 1);
    assert_int_equal(unlink(akit->path), 0);
    AKIT_WAIT(access(akit->path, F_OK) == 0);
    akit_more(akit, 1);
    assert_int_equal(akit_changes(akit), 1);
}

/* ---- Refusals. ---- */

TEST(refusals_are_recorded_and_bounded, akit, akit_set_up, akit_tear_down)
{
    const struct op_principal client = {.address = "::1"};
    const struct audit_refusal refusal = {
        .op = "set", .path = slice_str("/x\n\"y"), .client = &client, .err = ERR_NO_AUTH};

    akit_run(akit);
    for (int i = 0; i < 5 * AUDIT_REFUSALS_PER_S; i++) {
        audit_refused(akit->audit, &refusal);
    }
    AKIT_WAIT(strstr(akit_text(akit), "\"event\":\"omitted\"") != NULL);
    struct audit_figures figures = akit_figures(akit);
    const char *text = akit_text(akit);
    size_t lines = akit_count(text, "{\"event\":\"refused\"");

    assert_int_equal(figures.refusals, (uint64_t)5 * AUDIT_REFUSALS_PER_S);
    assert_int_equal(lines + figures.omitted, figures.refusals);
    assert_true(lines >= AUDIT_REFUSALS_PER_S && lines <= (size_t)2 * AUDIT_REFUSALS_PER_S);
    assert_non_null(strstr(text, "\"op\":\"set\",\"path\":\"/x\\n\\\"y\",\"address\":\"::1\","
                                 "\"identities\":[\"ip:::1\"],\"status\":403"));
}

/* The path of a request that is refused before it is looked at: as long as a message may be. */
TEST(refusals_of_any_length_are_recorded, akit, akit_set_up, akit_tear_down)
{
    const struct op_principal client = {.address = "::1"};
    size_t len = 4 << 20;
    char *path = mem_alloc(len);
    const struct audit_refusal refusal = {
        .op = "get", .path = slice_make(path, len), .client = &client, .err = ERR_NO_AUTH};

    memset(path, 1, len);
    akit_run(akit);
    for (int i = 0; i < 10; i++) {
        audit_refused(akit->audit, &refusal);
    }
    AKIT_WAIT(strstr(akit_text(akit), "\"event\":\"omitted\"") != NULL);
    struct audit_figures figures = akit_figures(akit);
    const char *text = akit_text(akit);
    size_t lines = akit_count(text, "{\"event\":\"refused\"");

    assert_true(lines > 0);
    assert_int_equal(lines + figures.omitted, 10);
    mem_free(path);
}

/* ---- Large transactions. ---- */

TEST(a_large_transaction_has_several_lines, akit, akit_set_up, akit_tear_down)
{
    akit_big(akit, 100);
    akit_again(akit);
    const char *text = akit_text(akit);
    size_t lines = akit_count(text, "\"event\":\"change\"");

    assert_true(lines >= 3 && lines <= 5);
    assert_int_equal(akit_count(text, ",\"more\":true}\n"), lines - 1);
    assert_int_equal(akit_count(text, "\"change\":\"create\""), 100);
}
