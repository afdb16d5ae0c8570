/* The file of the audit log: what can be one, and how its end is repaired after a crash. */
#include "tests/unit/audit_kit.h"

static void put(struct akit *kit, struct slice text)
{
    int fd = open(kit->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text.data, text.len), (ssize_t)text.len);
    close(fd);
}

static void put_str(struct akit *kit, const char *text)
{
    put(kit, slice_str(text));
}

static struct audit_tail tail_of(struct akit *kit, enum err want)
{
    struct audit_file file;
    struct audit_tail tail;

    assert_int_equal(audit_file_open(&file, kit->path, &kit->system, kit->error), ERR_OK);
    assert_int_equal(audit_tail_read(&file, &tail), want);
    audit_file_close(&file);
    return tail;
}

#define LINE(zxid) "{\"event\":\"change\",\"zxid\":\"0x" zxid "\",\"x\":1}\n"
#define MORE(zxid) "{\"event\":\"change\",\"zxid\":\"0x" zxid "\",\"x\":1,\"more\":true}\n"
#define REFUSED    "{\"event\":\"refused\",\"x\":1}\n"

TEST(a_torn_line_is_cut_off_wherever_it_is_torn, akit, akit_set_up, akit_tear_down)
{
    static const char line[] = LINE("2");

    for (size_t len = 0; len < sizeof(line) - 1; len++) {
        (void)unlink(akit->path);
        put_str(akit, LINE("1") REFUSED);
        put(akit, slice_make(line, len));
        struct audit_tail tail = tail_of(akit, ERR_OK);

        assert_true(tail.has_zxid && tail.zxid == 1);
        assert_int_equal(tail.cut, len);
        assert_string_equal(akit_text(akit), LINE("1") REFUSED);
    }
    put_str(akit, LINE("2"));
    assert_true(tail_of(akit, ERR_OK).zxid == 2);
}

TEST(an_incomplete_transaction_is_cut_off, akit, akit_set_up, akit_tear_down)
{
    put_str(akit, LINE("1") MORE("2") MORE("2"));
    put_str(akit, "{\"event\":\"change\",\"zxid\":\"0x2\",\"to");
    struct audit_tail tail = tail_of(akit, ERR_OK);

    assert_true(tail.has_zxid && tail.zxid == 1);
    assert_string_equal(akit_text(akit), LINE("1"));
    put_str(akit, MORE("2") MORE("2") LINE("2"));
    tail = tail_of(akit, ERR_OK);
    assert_true(tail.zxid == 2 && tail.cut == 0);
}

/* After a loss of power, bytes that were not written may be zero. */
TEST(zeros_at_the_end_are_cut_off, akit, akit_set_up, akit_tear_down)
{
    static const uint8_t zeros[5000];

    put_str(akit, LINE("1"));
    put(akit, slice_make(zeros, sizeof(zeros)));
    assert_true(tail_of(akit, ERR_OK).zxid == 1);
    assert_string_equal(akit_text(akit), LINE("1"));
}

TEST(a_file_without_a_zxid, akit, akit_set_up, akit_tear_down)
{
    assert_false(tail_of(akit, ERR_OK).has_zxid); /* Just made. */
    put_str(akit, REFUSED REFUSED);
    assert_false(tail_of(akit, ERR_OK).has_zxid);
    assert_string_equal(akit_text(akit), REFUSED REFUSED);
}

/* Lines that are longer than what is read at a time, and many lines without a zxid. */
TEST(the_zxid_is_found_far_back, akit, akit_set_up, akit_tear_down)
{
    struct buf text;

    buf_init(&text, 4 << 20);
    buf_append_str(&text, "{\"event\":\"change\",\"zxid\":\"0x7\",\"x\":\"");
    for (int i = 0; i < 200000; i++) {
        buf_append_byte(&text, 'x');
    }
    buf_append_str(&text, "\"}\n");
    for (int i = 0; i < 20000; i++) {
        buf_append_str(&text, REFUSED);
    }
    put(akit, buf_slice(&text));
    buf_release(&text);
    assert_true(tail_of(akit, ERR_OK).zxid == 7);
}

#define CLUSTER(digit) digit digit digit digit digit digit digit digit
#define OPEN(zxid, digit) \
    "{\"event\":\"open\"," zxid "\"replica\":1,\"cluster\":\"" CLUSTER(digit) "\"}\n"

/* The last line about a start tells the cluster of what follows, and a zxid if it has none. */
TEST(the_cluster_is_that_of_the_last_start, akit, akit_set_up, akit_tear_down)
{
    uint8_t want[AUDIT_CLUSTER_LEN];
    struct audit_tail tail;

    put_str(akit, REFUSED LINE("5"));
    tail = tail_of(akit, ERR_OK);
    assert_true(tail.zxid == 5 && !tail.has_cluster);
    put_str(akit, OPEN("", "2222") REFUSED);
    memset(want, 0x22, sizeof(want));
    tail = tail_of(akit, ERR_OK);
    assert_true(tail.has_zxid && tail.zxid == 0 && tail.has_cluster);
    assert_memory_equal(tail.cluster, want, sizeof(want));
    put_str(akit, LINE("9"));
    tail = tail_of(akit, ERR_OK);
    assert_true(tail.zxid == 9 && tail.has_cluster);
    assert_memory_equal(tail.cluster, want, sizeof(want));
    put_str(akit, OPEN("\"zxid\":\"0x4\",", "3333") MORE("5"));
    memset(want, 0x33, sizeof(want));
    tail = tail_of(akit, ERR_OK);
    assert_true(tail.zxid == 4 && tail.cut > 0);
    assert_memory_equal(tail.cluster, want, sizeof(want));
}

/* The line about the start lies across the border of what is read at a time. */
TEST(the_cluster_is_found_far_back, akit, akit_set_up, akit_tear_down)
{
    struct buf text;
    uint8_t want[AUDIT_CLUSTER_LEN];

    buf_init(&text, 4 << 20);
    memset(want, 0x22, sizeof(want));
    for (size_t shift = 0; shift < 40; shift++) {
        buf_clear(&text);
        buf_append_str(&text, OPEN("", "1111") OPEN("\"zxid\":\"0x4\",", "2222"));
        while (text.len < (64 << 10) + shift) {
            buf_append_str(&text, LINE("5"));
        }
        (void)unlink(akit->path);
        put(akit, buf_slice(&text));
        struct audit_tail tail = tail_of(akit, ERR_OK);

        assert_true(tail.zxid == 5 && tail.has_cluster);
        assert_memory_equal(tail.cluster, want, sizeof(want));
    }
    buf_release(&text);
}

/* A file that is named by mistake keeps all its bytes. */
TEST(another_file_is_left_as_it_is, akit, akit_set_up, akit_tear_down)
{
    put_str(akit, "root:x:0:0\ndaemon:x:1:1");
    assert_int_equal(akit_open(akit), ERR_CONFIG);
    assert_non_null(strstr(akit->error, "auditFile: the end of "));
    assert_string_equal(akit_text(akit), "root:x:0:0\ndaemon:x:1:1");
}

static void expect_foreign(struct akit *kit, const char *text)
{
    (void)unlink(kit->path);
    put_str(kit, text);
    (void)tail_of(kit, ERR_FORMAT);
    assert_string_equal(akit_text(kit), text);
}

/* Also when it ends with a line feed, or with lines that would be cut off. */
TEST(another_text_is_left_as_it_is, akit, akit_set_up, akit_tear_down)
{
    expect_foreign(akit, "root:x:0:0\n");
    expect_foreign(akit, "\n");
    expect_foreign(akit, LINE("1") "root:x:0:0\n");
    expect_foreign(akit, "root:x:0:0\n" LINE("1"));
    expect_foreign(akit, "root:x:0:0\n" LINE("1") "{\"event\":\"change\"");
    expect_foreign(akit, LINE("1") "root:x:0:0\n" MORE("2"));
    expect_foreign(akit, "{\"time\":\"now\",\"level\":\"INFO\"}\n");
}

TEST(what_cannot_be_the_file_is_refused_with_a_sentence, akit, akit_set_up, akit_tear_down)
{
    char path[160];

    (void)snprintf(path, sizeof(path), "%s/none/audit.log", akit->dir);
    assert_int_equal(audit_file_check(path, akit->error), ERR_CONFIG);
    assert_non_null(strstr(akit->error, "auditFile: there is no directory "));
    assert_non_null(strstr(akit->error, "/none; make it"));
    assert_int_equal(audit_file_check(akit->dir, akit->error), ERR_CONFIG);
    assert_non_null(strstr(akit->error, "is not a regular file"));
    (void)snprintf(path, sizeof(path), "%s", akit->path);
    assert_int_equal(audit_file_check(path, akit->error), ERR_OK);
    assert_int_equal(access(akit->path, F_OK), -1); /* The check has made nothing. */
    if (geteuid() != 0) {
        assert_int_equal(audit_file_check("/audit.log", akit->error), ERR_CONFIG);
        assert_non_null(strstr(akit->error, "may not write into /;"));
    }
}

TEST(two_replicas_cannot_share_a_file, akit, akit_set_up, akit_tear_down)
{
    struct audit *second = NULL;
    const struct audit_options options = {
        .path = akit->path, .data_dir = akit->dir, .version = "", .system = &akit->system};

    assert_int_equal(akit_open(akit), ERR_OK);
    assert_int_equal(audit_open(&options, &second, akit->error), ERR_CONFIG);
    assert_non_null(strstr(akit->error, "another process writes into"));
}
