/* Files of backups: names, chains, what a policy keeps, unfinished files; the line of progress. */
#include "cli/backup_files.h"
#include "cli/progress.h"
#include "tests/lib/unit.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    HOUR = 3600000,
    FILES_MAX = 100
};

#define NOW (INT64_C(1790000000) * 1000)

static char folder[64];
static int flock_error; /* Of each flock(); 0: it works. */

static void set_up(void)
{
    flock_error = 0;
    (void)snprintf(folder, sizeof folder, "/tmp/zabra-backup-XXXXXX");
    assert_non_null(mkdtemp(folder));
}

/* Runs a line in which $F is the folder. */
static bool run(const char *line)
{
    assert_int_equal(setenv("F", folder, 1), 0); /* NOLINT(concurrency-mt-unsafe): one thread. */
    return system(line) == 0;                    /* NOLINT(concurrency-mt-unsafe): one thread. */
}

static void touch(const char *name)
{
    char path[128];
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    file = fopen(path, "we");
    assert_non_null(file);
    (void)fclose(file);
}

static void tear_down(void)
{
    assert_true(run("rm -r $F"));
}

/* A directory whose files are so many hours old; a negative number: an increment. */
static struct backup_dir dir_of(const int *hours, size_t count)
{
    static struct backup_file files[FILES_MAX];

    assert_true(count <= FILES_MAX);
    for (size_t i = 0; i < count; i++) {
        files[i] = (struct backup_file){.made_ms = NOW - (int64_t)abs(hours[i]) * HOUR,
                                        .full = hours[i] >= 0};
    }
    return (struct backup_dir){.files = files, .count = count};
}

/* The files that the policy keeps, as letters from 'a' on. */
static const char *kept(const char *text, const int *hours, size_t count)
{
    static char letters[FILES_MAX];
    struct backup_dir dir = dir_of(hours, count);
    struct backup_policy policy;
    size_t len = 0;

    assert_true(backup_policy_parse(text, &policy));
    backup_policy_mark(&policy, &dir, NOW);
    for (size_t i = 0; i < count; i++) {
        if (dir.files[i].kept) {
            letters[len++] = (char)('a' + i);
        }
    }
    letters[len] = '\0';
    return letters;
}

#define KEPT(text, ...) \
    kept(text, (const int[]){__VA_ARGS__}, sizeof((const int[]){__VA_ARGS__}) / sizeof(int))

TEST(a_policy_keeps_the_newest_chain_and_one_chain_of_each_interval)
{
    assert_string_equal(KEPT("24h:1h", 50, 49, 48), "c");
    assert_string_equal(KEPT("24h:1h", 50, 3, 2, 1), "bcd");
    /* Two in one day: the older one. NOW is 14:13 of its day. */
    assert_string_equal(KEPT("30d:1d", 40, 39, 38, 2), "acd");
    /* A chain lives as long as its last increment, as a whole. */
    assert_string_equal(KEPT("24h:1h", 90, -60, -20, 70, -50, 0), "abcf");
    assert_string_equal(KEPT("1h:1h", 90, -80, 70, -60, -50), "cde");
    /* Increments without a full backup are of no use. */
    assert_string_equal(KEPT("1h:1h", -90, -80, 70), "c");
    /* A clock that was put back. */
    assert_string_equal(KEPT("24h:1h", 50, 0, 0), "bc");
}

TEST(a_malformed_policy_is_refused)
{
    static const char *const texts[] = {"",
                                        "24h",
                                        "24h:",
                                        "24h:1x",
                                        ":1h",
                                        "1h:24h",
                                        "24h:1h,",
                                        "0h:0h",
                                        "-1h:1h",
                                        "24h:1h 1d:1h",
                                        "h:h",
                                        "1.5h:1h",
                                        "99999999999999999999h:1h"};
    struct backup_policy policy;
    int64_t span_ms;

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_false(backup_policy_parse(texts[i], &policy));
    }
    assert_false(
        backup_policy_parse("9h:1h,8h:1h,7h:1h,6h:1h,5h:1h,4h:1h,3h:1h,2h:1h,1h:1h", &policy));
    assert_true(backup_policy_parse("24h:1h,30d:1d", &policy));
    assert_int_equal(policy.count, 2);
    assert_int_equal(policy.rules[1].age_ms, (int64_t)30 * 24 * HOUR);
    assert_true(backup_span_parse("2d", &span_ms));
    assert_int_equal(span_ms, 48 * HOUR);
    assert_false(backup_span_parse("2d:1d", &span_ms));
}

TEST(a_new_backup_comes_behind_the_others_though_the_clock_was_set_back)
{
    const int hours[] = {2, -1};
    const struct backup_dir dir = dir_of(hours, 2);
    const struct backup_dir none = {.count = 0};

    assert_int_equal(backup_dir_next_ms(&none, NOW), NOW);
    assert_int_equal(backup_dir_next_ms(&dir, NOW), NOW);
    assert_int_equal(backup_dir_next_ms(&dir, NOW - HOUR), NOW - HOUR + 1);
    assert_int_equal(backup_dir_next_ms(&dir, NOW - 9 * HOUR), NOW - HOUR + 1);
}

TEST(names_sort_by_age_and_others_are_ignored, set_up, tear_down)
{
    char name[BACKUP_NAME_MAX];
    struct backup_dir dir;

    backup_dir_name(NOW, true, name);
    assert_string_equal(name, "20260921T141320.000Z-full.backup");
    touch(name);
    backup_dir_name(NOW - 1, false, name);
    assert_string_equal(name, "20260921T141319.999Z-more.backup");
    touch(name);
    touch("20260921T141320.000Z-full.backup.part");
    touch("20260921T141320.000Z-half.backup");
    touch("2026-full.backup");
    touch("notes.txt");
    assert_int_equal(backup_dir_list(folder, BACKUP_FILES_LISTED, &dir), 0);
    assert_int_equal(dir.count, 2);
    assert_false(dir.files[0].full);
    assert_true(dir.files[1].full);
    assert_int_equal(dir.files[1].made_ms, NOW);
    assert_int_equal(backup_dir_chain(&dir), 1);
    backup_dir_release(&dir);
    assert_int_equal(backup_dir_list("/nowhere", 1, &dir), ENOENT);
}

/* The path of a file in the folder. */
static const char *in_folder(const char *name)
{
    static char path[128];

    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

TEST(an_unfinished_backup_is_removed_unless_it_is_written, set_up, tear_down)
{
    const char *path = in_folder("20260921T141320.000Z-full.backup.part");
    const char *why = NULL;
    bool empty = false;
    int fd;

    assert_int_equal(backup_dir_is_empty(folder, &empty), 0);
    assert_true(empty);
    fd = backup_part_open(path, &why);
    assert_true(fd >= 0);
    assert_int_equal(backup_dir_is_empty(folder, &empty), 0);
    assert_false(empty);
    backup_parts_remove(folder, false);
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(backup_part_open(path, &why), -1);
    assert_string_equal(why, "another zabra backup writes this file");
    assert_int_equal(close(fd), 0);
    touch("mine.part");
    backup_parts_remove(folder, false);
    assert_true(run("! test -e $F/20260921T141320.000Z-full.backup.part"));
    assert_true(run("test -e $F/mine.part"));
    /* One that cannot be opened, such as another user's: only under the lock. */
    assert_true(run("ln -s nowhere/x $F/20260921T141320.000Z-full.backup.part"));
    backup_parts_remove(folder, false);
    assert_true(run("test -L $F/20260921T141320.000Z-full.backup.part"));
    backup_parts_remove(folder, true);
    assert_true(run("! test -L $F/20260921T141320.000Z-full.backup.part"));
}

static void (*before_flock)(void); /* Called once, by the next flock(). */

/* In place of that of the C library. */
int flock(int fd, int operation)
{
    void (*call)(void) = before_flock;

    before_flock = NULL;
    if (call) {
        call();
    }
    if (flock_error != 0) {
        errno = flock_error;
        return -1;
    }
    return (int)syscall(SYS_flock, fd, operation);
}

static int writer_fd;

/* The other process publishes its backup, and ends. */
static void publish(void)
{
    char part[128];

    (void)snprintf(part, sizeof part, "%s", in_folder("x.part"));
    assert_int_equal(rename(part, in_folder("x")), 0);
    assert_int_equal(close(writer_fd), 0);
}

TEST(a_backup_that_is_published_meanwhile_is_not_truncated, set_up, tear_down)
{
    const char *why = NULL;
    char part[128];

    (void)snprintf(part, sizeof part, "%s", in_folder("x.part"));
    writer_fd = backup_part_open(part, &why);
    assert_true(writer_fd >= 0);
    assert_int_equal(write(writer_fd, "whole", 5), 5);
    before_flock = publish;
    int fd = backup_part_open(part, &why);

    assert_true(fd >= 0 && !before_flock);
    assert_true(run("test $(stat -c %s $F/x) = 5 && test $(stat -c %s $F/x.part) = 0"));
    assert_int_equal(close(fd), 0);
}

/* True if the part cannot be opened, for a reason with this text. */
static bool is_refused(const char *text)
{
    const char *why = NULL;

    return backup_part_open(in_folder("x.part"), &why) == -1 && strstr(why, text) != NULL;
}

TEST(a_part_is_a_file_of_its_own, set_up, tear_down)
{
    const char *why = NULL;

    assert_true(run("echo old >$F/victim; ln -s victim $F/x.part"));
    assert_true(is_refused("symbolic link"));
    assert_true(run("rm $F/x.part; ln $F/victim $F/x.part"));
    assert_true(is_refused("several names"));
    assert_true(run("rm $F/x.part; mkfifo $F/x.part"));
    assert_true(is_refused("No such device or address")); /* A pipe without a reader. */
    assert_true(run("test \"$(cat $F/victim)\" = old && rm $F/x.part && mkdir $F/x.part"));
    assert_true(is_refused("Is a directory"));
    if (geteuid() == 0) {
        assert_true(run("rmdir $F/x.part; touch $F/x.part; chown 65534 $F/x.part"));
        assert_true(is_refused("another user"));
        assert_true(run("chown 0 $F/x.part; rm $F/x.part; mkdir $F/x.part"));
    }
    /* What an earlier one left is emptied, and gets the mode of a new file. */
    assert_true(run("rmdir $F/x.part; echo old >$F/x.part; chmod 666 $F/x.part"));
    int fd = backup_part_open(in_folder("x.part"), &why);

    assert_true(fd >= 0);
    assert_true(run("test ! -s $F/x.part && test $(stat -c %a $F/x.part) = 600"));
    assert_int_equal(close(fd), 0);
}

/* As on some network file systems. One file is then for one process, because it makes it. */
TEST(a_backup_needs_no_locks, set_up, tear_down)
{
    static const int errors[] = {ENOLCK, ENOSYS, EOPNOTSUPP, EBADF};
    char part[128];
    struct backup_lock lock;
    const char *why = NULL;

    (void)snprintf(part, sizeof part, "%s", in_folder("20260921T141320.000Z-full.backup.part"));
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        flock_error = errors[i];
        assert_int_equal(backup_dir_lock(folder, &lock), 0);
        assert_false(lock.is_held);
        int fd = backup_part_open(part, &why);

        assert_true(fd >= 0);
        assert_int_equal(write(fd, "bytes", 5), 5);
        backup_parts_remove(folder, false); /* Perhaps another process writes it. */
        assert_int_equal(backup_part_open(part, &why), -1);
        assert_string_equal(why, "exists, and this file system has no locks: remove it if no other "
                                 "zabra backup writes it");
        assert_true(run("test $(stat -c %s $F/*.part) = 5 && test $(stat -c %a $F/*.part) = 600"));
        assert_int_equal(close(fd), 0);
        assert_int_equal(unlink(part), 0);
        backup_dir_unlock(&lock);
    }
}

TEST(a_part_in_no_directory_is_refused)
{
    const char *why = NULL;

    assert_int_equal(backup_part_open("/nowhere/x.part", &why), -1);
    assert_string_equal(why, "No such file or directory");
}

TEST(a_directory_is_locked_by_one, set_up, tear_down)
{
    struct backup_lock lock;
    struct backup_lock other;

    assert_int_equal(backup_dir_lock(folder, &lock), 0);
    assert_true(lock.is_held);
    assert_int_equal(backup_dir_lock(folder, &other), EWOULDBLOCK);
    assert_false(other.is_held);
    assert_true(other.holder == getpid() || other.holder == 0); /* 0: without /proc. */
    backup_dir_unlock(&lock);
    assert_int_equal(backup_dir_lock(folder, &other), 0);
    backup_dir_unlock(&other);
    assert_int_equal(backup_dir_lock("/nowhere", &other), ENOENT);
}

static const char *parent(const char *path)
{
    static char out[BACKUP_PATH_MAX];

    backup_parent(path, out);
    return out;
}

TEST(parents)
{
    assert_string_equal(parent("/a/b"), "/a/");
    assert_string_equal(parent("/a/b/"), "/a/");
    assert_string_equal(parent("/a"), "/");
    assert_string_equal(parent("a"), ".");
    assert_string_equal(parent("a/b"), "a/");
    assert_int_equal(backup_sync_parent("/tmp/x"), 0);
    assert_int_equal(backup_sync_parent("/nowhere/x"), ENOENT);
}

static const char *shown(struct progress progress, uint64_t now_ms)
{
    static char text[PROGRESS_MAX];

    progress.verb = "done";
    progress_text(&progress, now_ms, text);
    return text;
}

TEST(progress_has_share_rate_and_time_left)
{
    const struct progress half = {.bytes = 50 << 20, .total = 100 << 20, .start_ms = 1000};
    const struct progress guess = {.bytes = 200 << 20, .total = 100 << 20, .start_ms = 1000};
    const struct progress lines = {.bytes = 2048, .lines = 7, .start_ms = 1000};

    assert_string_equal(shown(half, 3000), "done [###############               ] 50 % of 100.0 "
                                           "MiB, 50.0 MiB, 25.0 MiB/s, 0:02 left");
    assert_string_equal(shown(half, 1001),
                        "done [###############               ] 50 % of 100.0 MiB, 50.0 MiB");
    assert_string_equal(shown(guess, 3000), "done [##############################] 100 % of 100.0 "
                                            "MiB, 200.0 MiB, 100.0 MiB/s");
    assert_string_equal(shown(lines, 3000), "done 7 lines, 2 KiB, 1 KiB/s");
    assert_string_equal(shown((struct progress){.bytes = 0}, 3000), "done 0 KiB");
    assert_string_equal(shown((struct progress){.bytes = UINT64_MAX, .total = UINT64_MAX}, 1),
                        "done [##############################] 100 % of 16777216.0 TiB, 16777216.0 "
                        "TiB");
}

TEST(a_directory_with_too_many_backups_is_an_error, set_up, tear_down)
{
    struct backup_dir dir;

    touch("20200101T000000.000Z-full.backup");
    touch("20200101T010000.000Z-more.backup");
    assert_int_equal(backup_dir_list(folder, 2, &dir), 0);
    assert_int_equal(dir.count, 2);
    backup_dir_release(&dir);
    touch("20200101T020000.000Z-more.backup");
    touch("other");
    assert_int_equal(backup_dir_list(folder, 2, &dir), EOVERFLOW);
    backup_dir_release(&dir);
    assert_non_null(strstr(backup_dir_error(EOVERFLOW), "100000"));
}
