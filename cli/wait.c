#include "cli/wait.h"

enum {
    SHARE = 3,              /* A read may take the session timeout divided by this. */
    PAUSE_MS = 200,         /* Delay from an unanswered read to the next one. */
    PATIENCE_MIN_MS = 1000, /* Least time for an answer, even if less is left to wait. */
    LOOK_MS = 1000,         /* How often to check that a replica serves the watch. */
    GRACE_SHARE = 6,        /* Default of --grace: the session timeout divided by this. */
    GRACE_MIN_SHARE = 4,
    LOOK_SHARE = 8,      /* A check may take the session timeout divided by this. */
    LOOK_AGAIN_MS = 500, /* Delay from an unanswered check to the next one. */
    ZXID_TEXT_MAX = 32
};

/* ---- Life ---- */

int wait_open(struct wait *wait, struct cli *cli)
{
    *wait = (struct wait){.cli = cli, .wait_ms = cli_number(cli, "wait")};
    if (args_has(&cli->args, "try")) {
        if (wait->wait_ms >= 0) {
            return CLI_USAGE(cli, "give either --try or --wait");
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
    live_close(wait->live);
    wait->live = NULL;
}

/* ---- What ends a wait ---- */

/* Reports that the wait is over. `why` is the error of a request that has taken the rest of the
 * waiting time, or NULL. */
static int late(const struct wait *wait, const char *why)
{
    int code = wait->cli->args.child ? CMD_CHILD_TIMED_OUT : CMD_TIMED_OUT;

    return cli_fail(
        wait->cli, code, "WaitOver", "%s%s%s",
        !why && args_has(&wait->cli->args, "try")
            ? "another process holds the lock, lease or leadership, and --try does not wait"
            : "the waiting time is over",
        why ? ": " : "", why ? why : "");
}

static int lost(const struct wait *wait)
{
    return cli_fail(wait->cli, CMD_EXPIRED, "SessionLost",
                    "the session was lost while waiting: no replica confirmed it in time");
}

/* Whether an event may mean a change: true for each event but a heartbeat. Drops the event. */
static bool is_worth_a_look(struct wait *wait, json_t *event)
{
    const char *name = jsonr_text(event, "event");
    const char *zxid = jsonr_text(event, "zxid");
    bool worth = strcmp(name, "heartbeat") != 0;

    if (worth && *zxid) {
        client_seen(wait->cli->client, zxid); /* Later reads are not older than the event. */
    }
    json_decref(event);
    return worth;
}

/* Waits for news until `until_ms`; `ret_worth` is set when an event may mean a change. Returns
 * CMD_OK, or the code that ends the wait. */
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
    return os_now_ms() >= wait->until_ms ? late(wait, NULL) : CMD_OK;
}

/* ---- Requests ---- */

/* Returns the timeout of one request. */
static int64_t patience_ms(const struct wait *wait)
{
    int64_t timeout_ms = wait->cli->settings.timeout_ms;
    uint64_t now_ms = os_now_ms();
    int64_t left_ms = wait->until_ms > now_ms ? (int64_t)(wait->until_ms - now_ms) : 0;

    if (wait->wait_ms <= 0) {
        return timeout_ms;
    }
    return min_i64(max_i64(left_ms, PATIENCE_MIN_MS), timeout_ms);
}

/* Returns the timeout of a read, which wait_ask() may repeat. No heartbeat of the session is sent
 * during a read, so the timeout is at most a third of the session timeout. */
static int64_t read_patience_ms(const struct wait *wait)
{
    int64_t share_ms = wait->live->timeout_ms / SHARE;
    int64_t all_ms = patience_ms(wait);

    return share_ms > 0 && share_ms < all_ms ? share_ms : all_ms;
}

static bool is_read(const struct client_request *request)
{
    return !request->method;
}

/* Returns the exit code of a request, or that of the signal that interrupted the request. */
static int or_signal(struct wait *wait, int code)
{
    uint64_t until_ms = wait->until_ms;
    bool ignored = false;

    if (code <= CMD_OK || strcmp(wait->cli->client->error.code, CLIENT_INTERRUPTED) != 0) {
        return code;
    }
    wait->until_ms = UINT64_MAX; /* Only the signal ends the wait. */
    code = take_news(wait, os_now_ms(), &ignored);
    wait->until_ms = until_ms;
    ASSERT(code != CMD_OK);
    return code;
}

/* Reports the result of a request, if it is an error. Returns the exit code. */
static int tell(const struct wait *wait, int code)
{
    struct client *client = wait->cli->client;

    if (code <= CMD_OK || code > CMD_SIGNAL) {
        return code;
    }
    if (!client_unserved(code) || wait->wait_ms <= 0 || os_now_ms() < wait->until_ms) {
        return cli_tell(wait->cli);
    }
    client_explain(client);
    return late(wait, client->error.message);
}

/* Checks that no signal has come, and that the session cannot be over. Returns CMD_OK, or the code
 * of a reported error or of the signal. */
static int check_still(struct wait *wait)
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

    wait->answered = wait->answered || wait->live->session[0];
    for (;;) {
        request->timeout_ms = is_read(request) ? read_patience_ms(wait) : patience_ms(wait);
        code = or_signal(wait, client_ask(wait->cli->client, request));
        wait->answered = wait->answered || !client_unserved(code);
        if (!client_unserved(code) || !wait->answered || !is_read(request) ||
            os_now_ms() >= end_ms) {
            break;
        }

        int over = take_news(wait, os_now_ms() + PAUSE_MS, &ignored);

        if (over != CMD_OK) {
            return over;
        }
    }
    return code == CMD_NO_NODE || code == CMD_CONFLICT ? code : tell(wait, code);
}

int wait_do(struct wait *wait, struct client_request *request, int fine)
{
    int code = wait_ask(wait, request);

    return code == fine                                  ? CMD_OK
           : code == CMD_NO_NODE || code == CMD_CONFLICT ? cli_tell(wait->cli)
                                                         : code;
}

int wait_look(struct wait *wait, const char *path, bool linearizable, bool *ret_there)
{
    struct client_request request = {
        .path = path,
        .params = {{"view", "stat"}, {"consistency", linearizable ? "linearizable" : NULL}}};
    int code = wait_ask(wait, &request);

    *ret_there = code == CMD_OK;
    return code == CMD_NO_NODE ? CMD_OK : code;
}

/* ---- Watching ---- */

void wait_watch(struct wait *wait, const char *path)
{
    (void)live_watch(wait->live, &(struct stream_request){.path = path, .kind = "persistent"});
}

static bool is_down(const struct wait *wait, uint64_t now_ms)
{
    uint64_t since_ms = wait->live->stream->down_ms;

    return since_ms && now_ms >= since_ms + (uint64_t)wait->cli->settings.timeout_ms;
}

int wait_next(struct wait *wait)
{
    bool worth = false;
    int code = CMD_OK;

    while (code == CMD_OK && !worth) {
        uint64_t now_ms = os_now_ms();

        if (is_down(wait, now_ms)) {
            return live_report_down(wait->live);
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
    live_unwatch(wait->live);
    return code;
}

/* ---- Holding: life ---- */

static int open_session(struct hold *hold)
{
    struct wait *wait = &hold->wait;
    int64_t ttl_ms = cli_number(hold->cli, "ttl");
    int64_t grace_ms = cli_number(hold->cli, "grace");
    int code = or_signal(wait, live_session(wait->live, ttl_ms, patience_ms(wait)));
    int64_t granted_ms = wait->live->timeout_ms;

    code = tell(wait, code);
    if (code != CMD_OK) {
        return code;
    }
    grace_ms = grace_ms < 0 ? granted_ms / GRACE_SHARE : grace_ms;
    hold->grace_ms = min_i64(grace_ms, granted_ms / GRACE_MIN_SHARE);
    live_env(wait->live, "ZABRA_SESSION", wait->live->session);
    live_env_replicas(wait->live);
    return CMD_OK;
}

static int hold_open(struct hold *hold, const char *page)
{
    const struct cli *cli = hold->cli;
    int code = CMD_OK;

    if (cli->args.child_count == 0) {
        return CLI_USAGE(cli, "a command is missing: zabra %s ... -- COMMAND", cli->cmd->name);
    }
    code = wait_open(&hold->wait, hold->cli);
    if (code != CMD_OK) {
        return code;
    }
    if (cli->settings.curl) {
        (void)fprintf(
            stderr, "zabra %s: this command takes several requests; this is the first%s%s\n",
            cli->cmd->name, page ? "; for all requests in curl see " : "", page ? page : "");
    }
    return open_session(hold);
}

int hold_around(struct cli *cli, const char *page, int (*act)(struct hold *hold, void *ctx),
                void *ctx)
{
    struct hold hold = {.cli = cli, .look_ms = UINT64_MAX};
    int code = hold_open(&hold, page);

    if (code == CMD_OK) {
        code = act ? act(&hold, ctx) : hold_run(&hold, NULL);
    }
    wait_close(&hold.wait);
    return code;
}

/* ---- Holding: the command ---- */

/* Whether the znode exists. Also true when no replica can tell now: then the check is repeated. */
static bool is_there(struct hold *hold)
{
    struct client_request request = {.path = hold->path,
                                     .params = {{"view", "stat"}},
                                     .timeout_ms = hold->wait.live->timeout_ms / LOOK_SHARE};
    int code = client_ask(hold->cli->client, &request);

    hold->look_ms =
        code == CMD_OK && hold->wait.live->stream ? UINT64_MAX : os_now_ms() + LOOK_AGAIN_MS;
    return code != CMD_NO_NODE;
}

/* Handles an event of the watch. Returns why the znode or session is lost; NULL: it is not. If the
 * watch may have missed a deletion, the znode is checked next. */
static const char *take_event(struct hold *hold, const json_t *event)
{
    const char *name = jsonr_text(event, "event");

    if (strcmp(name, "NodeDeleted") == 0) {
        return "the znode of this command was deleted";
    }
    if (strcmp(name, "session") == 0 && strcmp(jsonr_text(event, "state"), "moved") != 0) {
        return "the session has ended";
    }
    if ((strcmp(name, "watch") == 0 && strcmp(jsonr_text(event, "resumed"), "replayed") != 0) ||
        strcmp(name, "gap") == 0) {
        hold->look_ms = os_now_ms();
    }
    return NULL;
}

/* Handles news while the command runs. Returns why znode or session is lost; NULL: neither is. */
static const char *take_held_news(struct hold *hold, const struct live_news *news)
{
    const char *why = NULL;

    if (news->kind == LIVE_LOST) {
        return "the session has expired or may have: no replica confirmed it in time";
    }
    if (news->kind == LIVE_EVENT) {
        why = take_event(hold, news->event);
        json_decref(news->event);
        return why;
    }
    if (news->kind == LIVE_OVER) {
        live_unwatch(hold->wait.live); /* Without a watch the znode is checked. */
        hold->look_ms = os_now_ms();
    }
    if (os_now_ms() >= hold->look_ms && !is_there(hold)) {
        return "the znode of this command was deleted";
    }
    return NULL;
}

int hold_run(struct hold *hold, const char *path)
{
    const char *why = NULL;
    char zxid[ZXID_TEXT_MAX];
    struct live_news news;
    int code = check_still(&hold->wait); /* The wait may have outlasted the session. */

    if (code == CMD_OK) {
        /* Reads of the command see all writes of the previous holder. */
        (void)snprintf(zxid, sizeof(zxid), "0x%" PRIx64, hold->cli->client->seen_zxid);
        live_env(hold->wait.live, "ZABRA_MIN_ZXID", zxid);
        code = live_run(hold->wait.live, hold->cli->args.child, -1);
    }
    if (code != CMD_OK) {
        return code;
    }
    hold->path = path;
    if (path) {
        wait_watch(&hold->wait, path);
    }
    while (!why) {
        live_wait(hold->wait.live, hold->look_ms, &news);
        if (news.kind == LIVE_CHILD) {
            return live_exit_code(news.status);
        }
        why = take_held_news(hold, &news);
    }
    /* The grace time is at most what is left of the session. If this process was frozen, the
     * session can be over, and the command is then killed at once. */
    (void)live_end_child(hold->wait.live,
                         min_i64(live_session_left_ms(hold->wait.live), hold->grace_ms));
    return cli_fail(hold->cli, CMD_CHILD_LOST, "Lost", "%s; the command was ended", why);
}
