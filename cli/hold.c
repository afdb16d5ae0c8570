#include "cli/hold.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/os_clock.h"
#include "cli/url.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    TTL_DEFAULT_MS = 10000,
    TTL_MIN_MS = 100,
    TTL_MAX_MS = 3600000,
    GRACE_SHARE = 6, /* Of the time-out. */
    GRACE_MIN_SHARE = 4,
    LOOK_SHARE = 8,      /* The part of it that a check of the znode may take. */
    LOOK_AGAIN_MS = 500, /* After one that was not answered. */
    ZXID_TEXT_MAX = 32
};

/* ---- Life ---- */

static int open_session(struct hold *hold, int64_t ttl_ms, int64_t grace_ms)
{
    int code = wait_session(&hold->wait, ttl_ms);
    int64_t granted_ms = live_session_timeout_ms(hold->wait.live);

    if (code != CMD_OK) {
        return code;
    }
    hold->grace_ms = grace_ms < 0 ? granted_ms / GRACE_SHARE : grace_ms;
    if (hold->grace_ms > granted_ms / GRACE_MIN_SHARE) {
        hold->grace_ms = granted_ms / GRACE_MIN_SHARE;
    }
    hold_env(hold, "ZABRA_SESSION", live_session_secret(hold->wait.live));
    hold_env(hold, "ZABRA_ENDPOINTS", hold->cli->settings.endpoints);
    return CMD_OK;
}

int hold_open(struct hold *hold, struct cli *cli, const char *page)
{
    struct args_range ttls = {.min = TTL_MIN_MS, .max = TTL_MAX_MS, .otherwise = TTL_DEFAULT_MS};
    struct args_range graces = {.min = 0, .max = TTL_MAX_MS, .otherwise = -1};
    int64_t ttl_ms = 0;
    int64_t grace_ms = 0;
    int code = CMD_OK;

    *hold = (struct hold){.cli = cli, .look_ms = UINT64_MAX};
    if (cli->args.child_count == 0) {
        return cli_usage(cli, "a command is missing: zabra %s ... -- COMMAND", cli->cmd->name);
    }
    if (!cli_duration(cli, "ttl", ttls, &ttl_ms) ||
        !cli_duration(cli, "grace", graces, &grace_ms)) {
        return CMD_USAGE;
    }
    code = wait_open(&hold->wait, cli);
    if (code != CMD_OK) {
        return code;
    }
    if (cli->settings.curl) {
        (void)fprintf(stderr,
                      "zabra %s: this command takes several requests; this is the "
                      "first%s%s\n",
                      cli->cmd->name, page ? "; for all requests in curl see " : "",
                      page ? page : "");
    }
    return open_session(hold, ttl_ms, grace_ms);
}

void hold_close(struct hold *hold)
{
    wait_close(&hold->wait);
    for (int i = 0; i < hold->env_count; i++) {
        explicit_bzero(hold->env[i], strlen(hold->env[i])); /* One of them is a secret. */
        mem_free(hold->env[i]);
    }
}

void hold_env(struct hold *hold, const char *name, const char *value)
{
    size_t size = strlen(name) + strlen(value) + 2;
    char *variable = mem_zalloc(1, size);

    ASSERT(hold->env_count + 1 < LIVE_ENV_MAX); /* The list ends with NULL. */
    (void)snprintf(variable, size, "%s=%s", name, value);
    hold->env[hold->env_count++] = variable;
}

/* ---- Running ---- */

/* However late this process is (its machine may have been frozen): the command ends before the
 * session does. */
static int lose(struct hold *hold, const char *why)
{
    int64_t left_ms = live_session_left_ms(hold->wait.live);

    (void)live_end_child(hold->wait.live, left_ms < hold->grace_ms ? left_ms : hold->grace_ms);
    return cli_fail(hold->cli, CMD_CHILD_LOST, "Lost", "%s; the command was ended", why);
}

/* True when the znode exists, or no replica can say so now: then the check is repeated. */
static bool is_there(struct hold *hold)
{
    struct client_request request = {.timeout_ms =
                                         live_session_timeout_ms(hold->wait.live) / LOOK_SHARE};
    struct buf url;
    int code = CMD_OK;

    url_init(&url, "/znodes/v1", hold->path);
    url_param(&url, "view", "stat");
    request.target = buf_cstr(&url);
    code = client_ask(hold->cli->client, &request);
    buf_release(&url);
    hold->look_ms = code == CMD_OK && hold->wait.stream ? UINT64_MAX : os_now_ms() + LOOK_AGAIN_MS;
    return code != CMD_NO_NODE;
}

/* Handles an event of the watch: the znode was deleted, or that event may have been lost. */
static const char *take_event(struct hold *hold, const json_t *event)
{
    const char *name = jsonr_text(event, "event");

    if (strcmp(name, "NodeDeleted") == 0) {
        return "its znode was deleted";
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

/* The reason of the loss; NULL: none. */
static const char *take_news(struct hold *hold, const struct live_news *news)
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
        wait_unwatch(&hold->wait); /* Every replica refuses it, so the znode is checked. */
        hold->look_ms = os_now_ms();
    }
    if (os_now_ms() >= hold->look_ms && !is_there(hold)) {
        return "its znode was deleted";
    }
    return NULL;
}

/* Reads of the command see all writes of the previous holder. */
static void put_min_zxid(struct hold *hold)
{
    char zxid[ZXID_TEXT_MAX];

    (void)snprintf(zxid, sizeof(zxid), "0x%" PRIx64, client_zxid(hold->cli->client));
    hold_env(hold, "ZABRA_MIN_ZXID", zxid);
}

int hold_run(struct hold *hold, const char *path)
{
    const char *why = NULL;
    struct live_news news;
    int code = wait_still(&hold->wait); /* Much may have happened since the last answer. */

    if (code == CMD_OK) {
        put_min_zxid(hold);
        code = live_run(hold->wait.live, hold->cli->args.child, hold->env, -1);
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
        why = take_news(hold, &news);
    }
    return lose(hold, why);
}
