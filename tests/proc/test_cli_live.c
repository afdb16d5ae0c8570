/* The parts with which commands wait: a session that is kept alive, watches that resume at another
 * replica, a child that receives the signals, and the loss of each. */
#include "base/mem.h"
#include "cli/live.h"
#include "tests/lib/unit.h"
#include "tests/proc/ensemble.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    TIMEOUT_MS = 4000, /* The test waits for it, so it is the same with a sanitizer. */
    FROZEN_TIMEOUT_MS = 15000,
    FROZEN_MS = FROZEN_TIMEOUT_MS * 2 / 3 + 200,
    CHANGES = 40,
    CHILD_CODE = 7,
    GRACE_MS = 200
};

static struct ensemble ensemble;
static char endpoints[256];
static struct cli cli;
static struct live *live;

static void launch(void)
{
    ensemble_launch(&ensemble, 3, "tickTime=100\nsyncLimit=100\nminSessionTimeout=200\n");
    (void)snprintf(endpoints, sizeof(endpoints), "127.0.0.1:%u,127.0.0.1:%u,127.0.0.1:%u",
                   ensemble.replicas[0].client_port, ensemble.replicas[1].client_port,
                   ensemble.replicas[2].client_port);
}

static void close_ensemble(void)
{
    ensemble_close(&ensemble);
}

static void open_live(void)
{
    static const struct cmd cmd = {.name = "test", .usage = ""};

    cli = (struct cli){.cmd = &cmd,
                       .settings = {.endpoints = endpoints, .timeout_ms = ENSEMBLE_DEADLINE_MS},
                       .out = {.cmd = "test"}};
    cli.client = client_open(&cli.settings);
    live = cli.client ? live_open(&cli) : NULL;
    assert_non_null(live);
}

static void close_live(void)
{
    live_close(live);
    client_close(cli.client);
}

static int ask(const char *method, const char *target)
{
    return client_ask(cli.client, &(struct client_request){.method = method, .target = target});
}

static uint64_t soon(int64_t ms)
{
    return os_now_ms() + (uint64_t)ms;
}

/* The next news other than a heartbeat must be of this kind. */
static void expect(enum live_kind kind, struct live_news *news)
{
    uint64_t end_ms = soon(ENSEMBLE_DEADLINE_MS);

    for (;;) {
        live_wait(live, end_ms, news);
        if (news->kind != LIVE_EVENT || strcmp(jsonr_text(news->event, "event"), "heartbeat")) {
            break;
        }
        json_decref(news->event);
    }
    if (news->kind != kind) {
        ensemble_print_logs(&ensemble);
        fail_msg("news of kind %d, expected %d", (int)news->kind, (int)kind);
    }
}

TEST_GROUP(launch, close_ensemble)

TEST(a_session_is_kept_alive, open_live, close_live)
{
    struct live_news news;
    char secret[64];

    assert_int_equal(live_session(live, TIMEOUT_MS, 0), CMD_OK);
    assert_int_equal(live->timeout_ms, TIMEOUT_MS);
    assert_int_equal(ask("POST", "/znodes/v1/?op=create&name=eph&ephemeral=true"), CMD_OK);
    live_wait(live, soon(TIMEOUT_MS * INT64_C(3) / 2), &news);
    assert_int_equal(news.kind, LIVE_TIME);
    client_enter(cli.client, NULL); /* Otherwise the request itself would renew the session. */
    assert_int_equal(ask("GET", "/znodes/v1/eph"), CMD_OK);
    (void)snprintf(secret, sizeof(secret), "%s", live->session);
    client_enter(cli.client, secret);
    live_close(live);
    live = live_open(&cli);
    assert_int_equal(ask("GET", "/znodes/v1/eph?consistency=linearizable"), CMD_NO_NODE);
}

/* Begins a watch; returns the id of the replica that serves it. */
static uint32_t begin_watch(struct stream **ret_stream)
{
    struct live_news news;
    uint32_t server = 0;

    *ret_stream = live_watch(live, &(struct stream_request){.path = "/w", .kind = "recursive"});
    assert_non_null(*ret_stream);
    expect(LIVE_EVENT, &news);
    assert_string_equal(jsonr_text(news.event, "event"), "watch");
    server = (uint32_t)jsonr_number(news.event, "server");
    json_decref(news.event);
    return server;
}

static void take_changes(int from, int count)
{
    for (int i = from; i < from + count;) {
        struct live_news news;
        char path[64];

        expect(LIVE_EVENT, &news);
        (void)snprintf(path, sizeof(path), "/w/n%d", i);
        if (strcmp(jsonr_text(news.event, "event"), "NodeCreated") == 0) {
            assert_string_equal(jsonr_text(news.event, "path"), path);
            i++;
        } else {
            assert_string_equal(jsonr_text(news.event, "event"), "watch");
            assert_string_equal(jsonr_text(news.event, "resumed"), "replayed");
        }
        json_decref(news.event);
    }
}

static void make_changes(int from, int count)
{
    for (int i = from; i < from + count; i++) {
        char target[96];

        (void)snprintf(target, sizeof(target), "/znodes/v1/w?op=create&name=n%d", i);
        assert_int_equal(ask("POST", target), CMD_OK);
    }
}

TEST(a_watch_resumes_at_another_replica, open_live, close_live)
{
    struct stream *stream = NULL;
    uint32_t server = 0;

    assert_int_equal(ask("POST", "/znodes/v1/?op=create&name=w"), CMD_OK);
    server = begin_watch(&stream);
    make_changes(0, CHANGES);
    take_changes(0, CHANGES / 2);
    ensemble_kill(&ensemble, server - 1);
    make_changes(CHANGES, CHANGES);
    take_changes(CHANGES / 2, CHANGES + CHANGES / 2);
    assert_int_equal(stream->down_ms, 0);
    live_unwatch(live);
    ensemble_start(&ensemble, server - 1);
    ensemble_wait_all_ready(&ensemble);
}

TEST(a_watch_for_one_event_ends, open_live, close_live)
{
    struct live_news news;

    assert_non_null(live_watch(live, &(struct stream_request){.path = "/once", .kind = "exists"}));
    expect(LIVE_EVENT, &news);
    json_decref(news.event);
    assert_int_equal(ask("POST", "/znodes/v1/?op=create&name=once"), CMD_OK);
    expect(LIVE_EVENT, &news);
    assert_string_equal(jsonr_text(news.event, "event"), "NodeCreated");
    json_decref(news.event);
    expect(LIVE_OVER, &news);
    assert_int_equal(cli.client->error.exit_code, CMD_OK);
    live_unwatch(live);
    assert_non_null(
        live_watch(live, &(struct stream_request){.path = "/no//path", .kind = "data"}));
    expect(LIVE_OVER, &news);
    assert_int_equal(cli.client->error.exit_code, CMD_USAGE);
}

/* ---- Children ---- */

static void start(const char *command)
{
    static char text[256];
    static char shell[] = "sh";
    static char option[] = "-c";
    char *args[] = {shell, option, text, NULL};

    (void)snprintf(text, sizeof(text), "%s", command);
    assert_int_equal(live_run(live, args, -1), CMD_OK);
}

TEST(children_end_with_their_codes, open_live, close_live)
{
    static char none[] = "/no/such/command";
    static char no_program[] = "/etc/passwd";
    char *missing[] = {none, NULL};
    char *denied[] = {no_program, NULL};
    struct live_news news;

    live_env(live, "WHAT", "7");
    start("exit $WHAT");
    expect(LIVE_CHILD, &news);
    assert_int_equal(live_exit_code(news.status), CHILD_CODE);
    assert_false(live->child > 0);
    start("kill -KILL $$");
    expect(LIVE_CHILD, &news);
    assert_int_equal(live_exit_code(news.status), CMD_SIGNAL + SIGKILL);
    assert_int_equal(live_run(live, missing, -1), CMD_CHILD_NOT_FOUND);
    assert_int_equal(live_run(live, denied, -1), CMD_CHILD_NOT_RUN);
}

/* Waits until the child has made the file, and removes it. */
static void wait_file(const char *name)
{
    ENSEMBLE_WAIT(&ensemble, access(name, F_OK) == 0);
    assert_int_equal(unlink(name), 0);
}

TEST(signals_are_passed_on, open_live, close_live)
{
    char command[256];
    char name[ENSEMBLE_PATH_MAX + 16];
    struct live_news news;

    (void)snprintf(name, sizeof(name), "%s/ready", ensemble.dir);
    (void)snprintf(command, sizeof(command),
                   "trap 'exit 7' TERM; : >%s; while :; do sleep 0.05; done", name);
    start(command);
    wait_file(name);
    assert_int_equal(kill(getpid(), SIGTERM), 0);
    expect(LIVE_CHILD, &news);
    assert_int_equal(live_exit_code(news.status), CHILD_CODE);
    assert_int_equal(kill(getpid(), SIGHUP), 0);
    expect(LIVE_SIGNAL, &news);
    assert_int_equal(news.signal_number, SIGHUP);
}

TEST(a_child_that_does_not_end_is_killed, open_live, close_live)
{
    char command[256];
    char name[ENSEMBLE_PATH_MAX + 16];

    (void)snprintf(name, sizeof(name), "%s/ready", ensemble.dir);
    (void)snprintf(command, sizeof(command), "trap '' TERM; : >%s; while :; do sleep 0.05; done",
                   name);
    start(command);
    wait_file(name);
    assert_int_equal(live_exit_code(live_end_child(live, GRACE_MS)), CMD_SIGNAL + SIGKILL);
}

/* A signal interrupts a request, also when no replica answers. */
TEST(requests_are_interrupted, open_live, close_live)
{
    struct live_news news;

    assert_int_equal(kill(getpid(), SIGINT), 0);
    for (uint32_t i = 0; i < 3; i++) {
        ensemble_signal(&ensemble, i, SIGSTOP);
    }
    assert_int_equal(ask("GET", "/znodes/v1/"), CMD_FAILED);
    assert_string_equal(cli.client->error.code, "Interrupted");
    for (uint32_t i = 0; i < 3; i++) {
        ensemble_signal(&ensemble, i, SIGCONT);
    }
    expect(LIVE_SIGNAL, &news);
    assert_int_equal(news.signal_number, SIGINT);
}

/* The loss is reported once, before the session can expire, so that the command stops in time. */
TEST(a_session_is_lost, open_live, close_live)
{
    struct live_news news;
    uint64_t start_ms = 0;

    ensemble_wait_all_ready(&ensemble);
    assert_int_equal(live_session(live, TIMEOUT_MS, 0), CMD_OK);
    start_ms = os_now_ms();
    for (uint32_t i = 0; i < 3; i++) {
        ensemble_signal(&ensemble, i, SIGSTOP);
    }
    expect(LIVE_LOST, &news);
    assert_true(os_now_ms() < start_ms + TIMEOUT_MS);
    live_wait(live, soon(TIMEOUT_MS), &news);
    assert_int_equal(news.kind, LIVE_TIME);
    for (uint32_t i = 0; i < 3; i++) {
        ensemble_signal(&ensemble, i, SIGCONT);
    }
}

/* As after a pause of two thirds of the timeout: the client closes the session. */
TEST(a_lost_session_is_closed, open_live, close_live)
{
    struct live_news news;
    uint64_t start_ms = os_now_ms();

    assert_int_equal(live_session(live, FROZEN_TIMEOUT_MS, 0), CMD_OK);
    assert_int_equal(ask("POST", "/znodes/v1/?op=create&name=left&ephemeral=true"), CMD_OK);
    while (os_now_ms() < start_ms + FROZEN_MS) {
        ensemble_breathe();
    }
    expect(LIVE_LOST, &news);
    live_close(live);
    live = live_open(&cli);
    assert_int_equal(ask("GET", "/znodes/v1/left?consistency=linearizable"), CMD_NO_NODE);
    ENSEMBLE_CHECK(&ensemble, os_now_ms() < start_ms + FROZEN_TIMEOUT_MS);
}
