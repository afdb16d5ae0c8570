#include "cli/wait.h"

#include "base/check.h"
#include "base/minmax.h"
#include "base/os_clock.h"
#include "cli/url.h"

#include <inttypes.h>

enum {
    SHARE = 3,              /* A request may take this part of the session's time-out. */
    PAUSE_MS = 200,         /* From an unanswered read to the next one. */
    PATIENCE_MIN_MS = 1000, /* For an answer, however little time is left to wait. */
    LOOK_MS = 1000          /* How often to check that a replica serves the watch. */
};

/* ---- Life ---- */

int wait_open(struct wait *wait, struct cli *cli)
{
    struct args_range range = {.min = 0, .max = INT64_C(1) << 40, .otherwise = -1};

    *wait = (struct wait){.cli = cli};
    if (!cli_duration(cli, "wait", range, &wait->wait_ms)) {
        return CMD_USAGE;
    }
    if (args_has(&cli->args, "try")) {
        if (wait->wait_ms >= 0) {
            return cli_usage(cli, "give either --try or --wait");
        }
        wait->wait_ms = 0;
    }
    wait_again(wait);
    wait->live = live_open(cli);
    return CMD_OK;
}

void wait_again(struct wait *wait)
{
    wait->until_ms = wait->wait_ms >= 0 ? os_now_ms() + (uint64_t)wait->wait_ms : UINT64_MAX;
}

void wait_close(struct wait *wait)
{
    wait_unwatch(wait);
    live_close(wait->live);
    wait->live = NULL;
}

/* ---- What ends a wait ---- */

static int late(const struct wait *wait)
{
    int code = wait->cli->args.child ? CMD_CHILD_TIMED_OUT : CMD_TIMED_OUT;

    return cli_fail(wait->cli, code, "WaitOver", "%s",
                    args_has(&wait->cli->args, "try")
                        ? "another process holds it, and --try does not wait"
                        : "the waiting time is over");
}

/* The same when a request has taken what was left of it. */
static int late_answer(const struct wait *wait)
{
    int code = wait->cli->args.child ? CMD_CHILD_TIMED_OUT : CMD_TIMED_OUT;

    client_explain(wait->cli->client);
    return cli_fail(wait->cli, code, "WaitOver", "the waiting time is over: %s",
                    client_error(wait->cli->client)->message);
}

static int lost(const struct wait *wait)
{
    return cli_fail(wait->cli, CMD_EXPIRED, "SessionLost",
                    "the session was lost while waiting: no replica confirmed it in time");
}

/* A heartbeat says nothing; all else may mean that something has changed. */
static bool is_worth_a_look(struct wait *wait, json_t *event)
{
    const char *name = jsonr_text(event, "event");
    const char *zxid = jsonr_text(event, "zxid");
    bool worth = strcmp(name, "heartbeat") != 0;

    if (worth && *zxid) {
        client_seen(wait->cli->client, zxid); /* What is read next is not older than that. */
    }
    json_decref(event);
    return worth;
}

/* Waits for news until then; `ret_worth` is set when one may mean a change. CMD_OK, or the end. */
static int take_news(struct wait *wait, uint64_t until_ms, bool *ret_worth)
{
    struct live_news news;

    live_wait(wait->live, min_u64(until_ms, wait->until_ms), &news);
    switch (news.kind) {
    case LIVE_EVENT:
        *ret_worth = is_worth_a_look(wait, news.event);
        return CMD_OK;
    case LIVE_SIGNAL:
        return CMD_SIGNAL + news.signal_number;
    case LIVE_LOST:
        return lost(wait);
    case LIVE_OVER:
        return cli_tell(wait->cli);
    case LIVE_TIME:
    case LIVE_CHILD:
        break;
    }
    return os_now_ms() >= wait->until_ms ? late(wait) : CMD_OK;
}

/* ---- Asking ---- */

/* For one request. */
static int64_t patience_ms(const struct wait *wait)
{
    int64_t timeout_ms = wait->cli->settings.timeout_ms;
    uint64_t now_ms = os_now_ms();
    int64_t left_ms = wait->until_ms > now_ms ? (int64_t)(wait->until_ms - now_ms) : 0;

    if (wait->wait_ms <= 0) {
        return timeout_ms;
    }
    left_ms = left_ms > PATIENCE_MIN_MS ? left_ms : PATIENCE_MIN_MS;
    return left_ms < timeout_ms ? left_ms : timeout_ms;
}

/* The same for a read, which is asked again: the session must be touched in time, whatever becomes
 * of it. */
static int64_t read_patience_ms(const struct wait *wait)
{
    int64_t share_ms = live_session_timeout_ms(wait->live) / SHARE;
    int64_t all_ms = patience_ms(wait);

    return share_ms > 0 && share_ms < all_ms ? share_ms : all_ms;
}

static bool is_read(const struct client_request *request)
{
    return !request->method;
}

static bool is_nobody(int code)
{
    return code == CMD_NO_ENSEMBLE || code == CMD_TIMED_OUT;
}

/* The exit code of a request, or that of the signal which it gave way to. */
static int or_signal(struct wait *wait, int code)
{
    uint64_t until_ms = wait->until_ms;
    bool ignored = false;

    if (code <= CMD_OK || strcmp(client_error(wait->cli->client)->code, CLIENT_INTERRUPTED) != 0) {
        return code;
    }
    wait->until_ms = UINT64_MAX; /* The signal is what ends it. */
    code = take_news(wait, os_now_ms(), &ignored);
    wait->until_ms = until_ms;
    ASSERT(code != CMD_OK);
    return code;
}

/* Reports the result of a request, if it is an error. */
static int tell(const struct wait *wait, int code)
{
    if (code <= CMD_OK || code > CMD_SIGNAL) {
        return code;
    }
    return is_nobody(code) && wait->wait_ms > 0 && os_now_ms() >= wait->until_ms
               ? late_answer(wait)
               : cli_tell(wait->cli);
}

int wait_session(struct wait *wait, int64_t timeout_ms)
{
    return tell(wait, or_signal(wait, live_session(wait->live, timeout_ms, patience_ms(wait))));
}

int wait_still(struct wait *wait)
{
    struct live_news news;

    live_wait(wait->live, os_now_ms(), &news);
    if (news.kind == LIVE_EVENT) {
        json_decref(news.event);
    }
    return news.kind == LIVE_SIGNAL ? CMD_SIGNAL + news.signal_number
           : news.kind == LIVE_LOST ? lost(wait)
                                    : CMD_OK;
}

int wait_ask(struct wait *wait, struct client_request *request)
{
    uint64_t end_ms = os_now_ms() + (uint64_t)patience_ms(wait);
    bool ignored = false;
    int code = CMD_OK;

    wait->answered = wait->answered || live_session_secret(wait->live);
    for (;;) {
        request->timeout_ms = is_read(request) ? read_patience_ms(wait) : patience_ms(wait);
        code = or_signal(wait, client_ask(wait->cli->client, request));
        wait->answered = wait->answered || !is_nobody(code);
        if (!is_nobody(code) || !wait->answered || !is_read(request) || os_now_ms() >= end_ms) {
            break;
        }

        int over = take_news(wait, os_now_ms() + PAUSE_MS, &ignored);

        if (over != CMD_OK) {
            return over;
        }
    }
    return code == CMD_NO_NODE || code == CMD_CONFLICT ? code : tell(wait, code);
}

int wait_look(struct wait *wait, const char *path, bool linearizable, bool *ret_there)
{
    struct client_request request = {.target = NULL};
    struct buf url;
    int code = CMD_OK;

    url_init(&url, "/znodes/v1", path);
    url_param(&url, "view", "stat");
    if (linearizable) {
        url_param(&url, "consistency", "linearizable");
    }
    request.target = buf_cstr(&url);
    code = wait_ask(wait, &request);
    buf_release(&url);
    *ret_there = code == CMD_OK;
    return code == CMD_NO_NODE ? CMD_OK : code;
}

/* ---- Watching ---- */

void wait_watch(struct wait *wait, const char *path)
{
    wait_unwatch(wait);
    wait->stream =
        live_watch(wait->live, &(struct stream_request){.path = path, .kind = "persistent"});
    ASSERT(wait->stream);
}

void wait_unwatch(struct wait *wait)
{
    if (wait->stream) {
        live_unwatch(wait->live, wait->stream);
        wait->stream = NULL;
    }
}

static bool is_down(const struct wait *wait, uint64_t now_ms)
{
    uint64_t since_ms = stream_down_since(wait->stream);

    return since_ms && now_ms >= since_ms + (uint64_t)wait->cli->settings.timeout_ms;
}

int wait_next(struct wait *wait)
{
    bool worth = false;
    int code = CMD_OK;

    while (code == CMD_OK && !worth) {
        uint64_t now_ms = os_now_ms();

        if (is_down(wait, now_ms)) {
            return cli_fail(wait->cli, CMD_NO_ENSEMBLE, "NoEnsemble",
                            "no replica has served the watch for %" PRId64
                            " ms at %s; run 'zabra doctor' to find the cause",
                            wait->cli->settings.timeout_ms, wait->cli->settings.endpoints);
        }
        code = take_news(wait, now_ms + LOOK_MS, &worth);
    }
    return code;
}

int wait_until(struct wait *wait, const char *path, bool there)
{
    bool found = !there;
    int code = CMD_OK;

    wait_watch(wait, path);
    do {
        code = wait_next(wait);
        if (code == CMD_OK) {
            code = wait_look(wait, path, false, &found);
        }
    } while (code == CMD_OK && found != there);
    wait_unwatch(wait);
    return code;
}
