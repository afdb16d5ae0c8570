/* Replicas that hang, like a stopped machine: they accept requests and never answer. Each command
 * must succeed if another replica serves, and otherwise end in time with its exit code. */
#include "tests/lib/unit.h"
#include "tests/proc/fixture.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WAIT_MS = 500,    /* Maximal wait of the lines below; */
    IMPORT_MS = 3000, /* Timeout of an import of three requests. */
    BOUND_MS = 10000, /* far less than a request's timeout of 15 s. */
};

static struct ensemble ensemble;

/* $HUNG is the replica that hangs; $GOOD are the others. */
static void open_all(void)
{
    char text[SHELL_LINE_MAX];

    ensemble_launch(&ensemble, 3, "tickTime=100\nsyncLimit=20\nminSessionTimeout=200\n");
    shell_open(&ensemble);
    fixture_open(&ensemble);
    fixture_make();
    shell_expect("zabra queue push q item && zabra barrier raise b", 0, "item-");
    (void)snprintf(text, sizeof(text), "127.0.0.1:%u", ensemble.replicas[0].client_port);
    assert_int_equal(setenv("HUNG", text, 1), 0);
    (void)snprintf(text, sizeof(text), "127.0.0.1:%u,127.0.0.1:%u",
                   ensemble.replicas[1].client_port, ensemble.replicas[2].client_port);
    assert_int_equal(setenv("GOOD", text, 1), 0);
}

static void close_all(void)
{
    ensemble_close(&ensemble);
}

static void freeze_one(void)
{
    ensemble_signal(&ensemble, 0, SIGSTOP);
}

static void freeze_two(void)
{
    ensemble_signal(&ensemble, 0, SIGSTOP);
    ensemble_signal(&ensemble, 1, SIGSTOP);
}

/* Runs after each test, also after a failed one. */
static void continue_all(void)
{
    ensemble_signal(&ensemble, 0, SIGCONT);
    ensemble_signal(&ensemble, 1, SIGCONT);
    ensemble_wait_all_ready(&ensemble);
}

static void expect_soon(const char *line, int code, const char *said)
{
    uint64_t start_ms = os_now_ms();

    shell_expect(line, code, said);
    if (os_now_ms() - start_ms >= BOUND_MS * ENSEMBLE_FACTOR) {
        fail_msg("%s: took %d ms", line, (int)(os_now_ms() - start_ms));
    }
}

/* ---- One of three ---- */

TEST_GROUP(open_all, close_all)

TEST(commands_succeed_at_other_replicas, freeze_one, continue_all)
{
    shell_expect("export ZABRA_TIMEOUT=6s; zabra export $P/here --endpoints $HUNG,$GOOD", 0,
                 "\"end\"");
    shell_expect("export ZABRA_TIMEOUT=6s; "
                 "zabra watch $P/here --since 0x1 --once --endpoints $HUNG,$GOOD",
                 0, "NodeCreated");
    shell_expect("export ZABRA_TIMEOUT=6s; zabra lock l --endpoints $HUNG,$GOOD -- echo mine", 0,
                 "mine\n");
}

/* The exit code does not depend on the moment of the timeout or on the last endpoint. */
TEST(a_read_that_hangs_has_one_exit_code, freeze_one, continue_all)
{
    static const char *const ways[] = {
        "get $P/here --endpoints $HUNG --timeout 1ms",
        "get $P/here --endpoints $HUNG --timeout 300ms",
        "get $P/here --endpoints $HUNG,127.0.0.1:1 --timeout 1100ms",
        "get $P/here --endpoints 127.0.0.1:1,$HUNG --timeout 1100ms",
        "get $P/here --endpoints 127.0.0.1:1,$HUNG,127.0.0.1:1 --timeout 300ms",
        "export $P/here --endpoints $HUNG --timeout 300ms",
        "export $P/here --endpoints $HUNG,127.0.0.1:1 --timeout 300ms",
        "export $P/here --endpoints 127.0.0.1:1,$HUNG --timeout 300ms",
    };
    char line[SHELL_LINE_MAX];

    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        (void)snprintf(line, sizeof(line), "zabra %s -o json", ways[i]);
        shell_expect(line, 7, "\"TimedOut\"");
    }
    shell_expect("zabra get $P/here --endpoints 127.0.0.1:1 --timeout 300ms -o json", 6,
                 "\"NoEnsemble\"");
}

/* An import requests its identity and a dry run before it writes. */
TEST(an_import_that_hangs_waits_once, freeze_one, continue_all)
{
    uint64_t start_ms = 0;
    char line[SHELL_LINE_MAX];

    (void)snprintf(line, sizeof(line),
                   "echo '{\"path\":\"hung\"}' >$D/hung.ndjson; "
                   "zabra import $P $D/hung.ndjson --endpoints $HUNG --timeout %dms -o json",
                   (int)IMPORT_MS);
    start_ms = os_now_ms();
    shell_expect(line, 7, "\"TimedOut\"");
    assert_in_range(os_now_ms() - start_ms, IMPORT_MS - WAIT_MS, 2 * IMPORT_MS - 1);
}

/* ---- Two of three ---- */

/* A replica without a quorum holds a write for longer than the command may wait. */
TEST(a_wait_is_over_in_time, freeze_two, continue_all)
{
    static const struct {
        const char *words;
        int code;
    } ways[] = {
        {"lock w", 124},
        {"elect w", 124},
        {"semaphore w -n 2", 124},
        {"queue pop q", 7},
        {"barrier wait b", 7},
        {"barrier lower b", 7},
        {"barrier enter e me --count 1", 124},
    };

    char line[SHELL_LINE_MAX];

    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        (void)snprintf(line, sizeof(line), "zabra %s --wait %dms -o json%s", ways[i].words,
                       (int)WAIT_MS, ways[i].code == 124 ? " -- true" : "");
        expect_soon(line, ways[i].code, "the waiting time is over: ");
    }
}
