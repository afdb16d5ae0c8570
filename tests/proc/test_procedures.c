/*
 * Runs the procedures of docs/operating.md that change the members: each line of the "sh" blocks
 * below a heading, as the page has it, against real replicas. Only addresses and directories are
 * replaced: zkN.example is replica N, and /etc/zabra is below the test's directory. The line
 * "systemctl start zabra" starts a replica with its configuration; every other line must end with
 * 0. Where the page says that a replica starts as above, the configuration of replica 4 is that of
 * another one, too.
 */
#include "base/buf.h"
#include "base/check.h"
#include "tests/lib/ports.h"
#include "tests/lib/unit.h"
#include "tests/proc/membership.h"
#include "tests/proc/page.h"
#include "tests/proc/shell.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    FOUNDERS = 3,
    ADDED = 3, /* Replicas 4 to 6. */
    LINE_MAX_BYTES = 2048,
    NAME_MAX_BYTES = 256,
    LIST_MAX = 1024
};

static struct ensemble founders;
static struct ensemble added;    /* Gives ports and directories; their processes come from lines. */
static uint16_t moved_peer_port; /* Of zk3-new.example. */
static uint32_t machine;         /* The replica of the machine on which the lines are run. */

static struct replica *replica_of(uint32_t id)
{
    ASSERT(id >= 1 && id <= FOUNDERS + ADDED);
    return id <= FOUNDERS ? &founders.replicas[id - 1] : &added.replicas[id - FOUNDERS - 1];
}

static void check(bool holds, const char *what)
{
    if (!holds) {
        ensemble_print_logs(&added);
    }
    ensemble_check(&founders, holds, what);
}

/* ---- The ensemble ---- */

/* Writes a new file that only its owner may read. */
static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "wx");

    assert_non_null(file);
    assert_int_equal(fchmod(fileno(file), 0600), 0);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* Writes what all replicas have in common, which is also the configuration of the page. */
static void write_common(char keys[ENSEMBLE_KEYS_MAX])
{
    char path[NAME_MAX_BYTES];
    char text[2 * ENSEMBLE_KEYS_MAX];
    int len = 0;

    (void)snprintf(path, sizeof path, "%s/etc", founders.dir);
    assert_int_equal(mkdir(path, 0700), 0);
    (void)snprintf(path, sizeof path, "%s/etc/secret", founders.dir);
    write_file(path, "a secret of all replicas for each other\n");
    (void)snprintf(keys, ENSEMBLE_KEYS_MAX, ENSEMBLE_SUPER "peerSecretFile=%s\npeerTls=required\n",
                   path);
    len = snprintf(text, sizeof text, "%s", keys);
    for (uint32_t id = 1; id <= FOUNDERS; id++) {
        len += snprintf(text + len, sizeof text - (size_t)len, "server.%u=127.0.0.1:%u\n", id,
                        replica_of(id)->peer_port);
    }
    (void)snprintf(path, sizeof path, "%s/etc/zabra.cfg", founders.dir);
    write_file(path, text);
}

/* The configuration has the texts of /zookeeper/config once each replica tells clients where it is.
 */
static void advertise(const struct replica *replica)
{
    FILE *file = fopen(replica->config, "a");

    assert_non_null(file);
    assert_true(fprintf(file, "advertiseClient=127.0.0.1:%u\n", replica->client_port) > 0);
    assert_int_equal(fclose(file), 0);
}

/* What an operator has: all endpoints, and the super user's password. */
static void write_settings(void)
{
    char path[NAME_MAX_BYTES];
    char text[LINE_MAX_BYTES];
    int len = 0;

    shell_open(&founders);
    for (uint32_t id = 1; id <= FOUNDERS + ADDED; id++) {
        len += snprintf(text + len, sizeof text - (size_t)len, "%s127.0.0.1:%u", id > 1 ? "," : "",
                        replica_of(id)->client_port);
    }
    assert_int_equal(setenv("ZABRA_ENDPOINTS", text, 1), 0);
    (void)snprintf(path, sizeof path, "%s/zabra", founders.dir);
    assert_int_equal(mkdir(path, 0700), 0);
    (void)snprintf(path, sizeof path, "%s/pw", founders.dir);
    write_file(path, "root\n");
    (void)snprintf(text, sizeof text, "password-file=%s\n", path);
    (void)snprintf(path, sizeof path, "%s/zabra/config", founders.dir);
    write_file(path, text);
}

static void open_all(void)
{
    static char keys[ENSEMBLE_KEYS_MAX];

    ensemble_open(&founders, FOUNDERS, NULL);
    ensemble_open(&added, ADDED, NULL);
    moved_peer_port = port_free();
    write_common(keys);
    founders.keys = keys;
    ensemble_write_configs(&founders);
    for (uint32_t i = 0; i < FOUNDERS; i++) {
        advertise(&founders.replicas[i]);
    }
    for (uint32_t i = 0; i < FOUNDERS; i++) {
        ensemble_start(&founders, i);
    }
    ensemble_wait_all_ready(&founders);
    write_settings();
    shell_expect("zabra create /kept before", 0, "");
}

static void close_all(void)
{
    ensemble_close(&added);
    ensemble_close(&founders);
}

/* ---- Lines of the page ---- */

/* Appends the loopback address for "zkN.example:PORT"; returns the length of that text, 0: it is
 * something else. */
static size_t put_address(const char *text, struct buf *out)
{
    unsigned id = 0;
    unsigned port = 0;
    int len = 0;

    if (sscanf(text, "zk3-new.example:%u%n", &port, &len) == 1 && len > 0) {
        check(port == 10998, "the new address of replica 3 is one for replicas");
        buf_printf(out, "127.0.0.1:%u", moved_peer_port);
        return (size_t)len;
    }
    if (sscanf(text, "zk%u.example:%u%n", &id, &port, &len) != 2 || len == 0) {
        return 0;
    }
    check(id >= 1 && id <= FOUNDERS + ADDED && (port == 10998 || port == 9998),
          "an address of the page is that of a replica");
    buf_printf(out, "127.0.0.1:%u",
               port == 9998 ? replica_of(id)->client_port : replica_of(id)->peer_port);
    return (size_t)len;
}

/* Replaces addresses and directories; leaves the comment out. */
static void localise(const char *line, struct buf *out)
{
    static const char etc[] = "/etc/zabra/";

    buf_clear(out);
    while (*line && *line != '#') {
        size_t len = put_address(line, out);

        if (len == 0 && strncmp(line, etc, strlen(etc)) == 0) {
            len = strlen(etc);
            buf_printf(out, "%s/etc/", founders.dir);
        } else if (len == 0) {
            len = 1;
            buf_append_byte(out, (uint8_t)*line);
        }
        line += len;
    }
}

/* Makes the line of replica 4's configuration that of replica `id`. */
static void rename_replica(const char *line, uint32_t id, struct buf *out)
{
    buf_clear(out);
    while (*line) {
        if (strncmp(line, "id=4", 4) == 0) {
            buf_printf(out, "id=%u", id);
            line += 4;
        } else if (strncmp(line, "zk4.", 4) == 0) {
            buf_printf(out, "zk%u.", id);
            line += 4;
        } else {
            buf_append_byte(out, (uint8_t)*line++);
        }
    }
}

static void set_number(const char *name, uint32_t number)
{
    char text[16];

    (void)snprintf(text, sizeof text, "%u", number);
    (void)setenv(name, text, 1);
}

/* Writes the configuration of the page for the replica. */
static void configure(uint32_t id)
{
    const struct page_block block = {.page = "docs/operating.md",
                                     .heading = "Adding a replica",
                                     .kind = "properties",
                                     .number = 1};
    char line[LINE_MAX_BYTES];
    struct buf renamed;
    struct buf here;

    page_cut(&block, "added");
    (void)snprintf(line, sizeof line, "%s/added", founders.dir);
    FILE *page = fopen(line, "re");

    (void)snprintf(line, sizeof line, "%s/etc/zabra-%u.cfg", founders.dir, id);
    FILE *file = fopen(line, "we");

    assert_true(page && file);
    buf_init(&renamed, LINE_MAX_BYTES);
    buf_init(&here, LINE_MAX_BYTES);
    while (fgets(line, sizeof line, page)) {
        rename_replica(line, id, &renamed);
        localise(buf_cstr(&renamed), &here);
        assert_true(fputs(buf_cstr(&here), file) >= 0);
    }
    buf_release(&renamed);
    buf_release(&here);
    assert_int_equal(fclose(page) | fclose(file), 0);
}

/* Starts the replica of the machine as its service does; what is different on each machine of this
 * test is in its environment, which comes before the file. */
static void serve(void)
{
    uint32_t id = machine;
    struct replica *replica = replica_of(id);
    char whole[LINE_MAX_BYTES];

    if (id <= FOUNDERS) {
        (void)snprintf(whole, sizeof whole,
                       "exec zabra serve --config %s/etc/zabra.cfg --id %u >>%s 2>&1", founders.dir,
                       id, replica->log);
    } else {
        (void)snprintf(whole, sizeof whole,
                       "exec zabra serve --config %s/etc/zabra-%u.cfg >>%s 2>&1", founders.dir, id,
                       replica->log);
    }
    if (replica->pid > 0) {
        check(ensemble_stop(&founders, id - 1) == 0, "the replica ends when it is stopped");
    }
    replica->status = 0;
    replica->pid = fork();
    assert_true(replica->pid >= 0);
    if (replica->pid == 0) {
        char client[32];

        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)snprintf(client, sizeof client, "127.0.0.1:%u", replica->client_port);
        (void)setenv("ZABRA_DATA_DIR", replica->data, 1);
        (void)setenv("ZABRA_ADVERTISE_CLIENT", client, 1);
        set_number("ZABRA_CLIENT_PORT", replica->client_port);
        (void)execl("/bin/sh", "sh", "-c", whole, (char *)NULL);
        _exit(127);
    }
}

static void run_line(void *ctx, const char *line)
{
    static const char start[] = "systemctl start zabra";
    struct buf here;

    (void)ctx;
    buf_init(&here, LINE_MAX_BYTES);
    localise(line, &here);
    if (strncmp(line, start, strlen(start)) == 0) {
        serve();
    } else {
        int code = shell("{ %s\n} 2>&1", buf_cstr(&here));

        if (code != 0) {
            print_message("%s\nended with %d: %s", line, code, shell_output);
        }
        check(code == 0, line);
    }
    buf_release(&here);
}

/* Runs the blocks of a page below this heading. Returns the number of lines. */
static uint32_t run_section(const char *heading)
{
    return page_run(heading, 0, run_line, NULL);
}

static void start_as_above(uint32_t id)
{
    machine = id;
    configure(id);
    assert_int_equal(run_section("Adding a replica"), 1);
    assert_true(replica_of(id)->pid > 0);
}

/* ---- What has come of it ---- */

static bool is_listed(const char *expected)
{
    return shell("zabra members -o json | jq -r '[.members[] | \"\\(.id):\\(.role)\"] | "
                 "join(\" \")'") == 0 &&
           strcmp(shell_output, expected) == 0;
}

/* The members are these, all of them in step, and nothing is lost. */
static void expect_members(const char *expected)
{
    char list[LIST_MAX];

    (void)snprintf(list, sizeof list, "%s\n", expected);
    ENSEMBLE_WAIT(&founders, is_listed(list));
    ENSEMBLE_WAIT(&founders, shell("zabra members -o json | jq -e '.pending == null and "
                                   "([.members[] | select(.role == \"voter\")] | length) == "
                                   ".in_step' >/dev/null") == 0);
    shell_expect("zabra get /kept && zabra set /kept after && zabra set /kept before", 0, "before");
}

static void expect_gone(uint32_t id)
{
    struct ensemble *ensemble = id <= FOUNDERS ? &founders : &added;
    int code = ensemble_wait_end(ensemble, id <= FOUNDERS ? id - 1 : id - FOUNDERS - 1);

    check(code == MEMBERSHIP_EXIT, "the removed replica ends with its own code");
}

TEST(from_three_to_five_and_back, open_all, close_all)
{
    start_as_above(4);
    start_as_above(5);
    assert_int_equal(run_section("From three to five"), 4);
    expect_members("1:voter 2:voter 3:voter 4:voter 5:voter");
    assert_int_equal(run_section("From five to three"), 2);
    expect_gone(4);
    expect_gone(5);
    expect_members("1:voter 2:voter 3:voter");
}

TEST(another_address_and_a_dead_machine, open_all, close_all)
{
    char text[32];

    machine = 3;
    assert_int_equal(run_section("Another address"), 3);
    expect_members("1:voter 2:voter 3:voter");
    (void)snprintf(text, sizeof text, "server.3=127.0.0.1:%u:", moved_peer_port);
    shell_expect("zabra get /zookeeper/config", 0, text);
    ensemble_kill(&founders, 1);
    start_as_above(6);
    assert_int_equal(run_section("A dead machine"), 1);
    expect_members("1:voter 3:voter 6:voter");
}

TEST(another_data_centre, open_all, close_all)
{
    for (uint32_t id = FOUNDERS + 1; id <= FOUNDERS + ADDED; id++) {
        start_as_above(id);
    }
    assert_int_equal(run_section("Moving to another data centre"), 6);
    expect_gone(1);
    expect_gone(2);
    expect_gone(3);
    expect_members("4:voter 5:voter 6:voter");
}
