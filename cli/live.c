#include "cli/live.h"

#include "cli/curl_handles.h"
#include "cli/inherited.h"

#include <sys/signalfd.h>
#include <unistd.h>

enum {
    POLL_MAX_MS = 60000,
    TOUCHES = 3,     /* Heartbeats within a session timeout. */
    RETRY_MS = 100,  /* Delay from a failed heartbeat to the next one. */
    CLOSE_MS = 2000, /* Timeout of closing the session; without an answer it expires. */
};

/* ---- Life ---- */

struct live *live_open(struct cli *cli)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, 0};
    struct live *live = mem_zalloc(1, sizeof(*live));

    live->cli = cli;
    live->child_fd = -1;
    live->signal_fd = inherited_take_signals(signals, &live->old_mask);
    live->multi = curl_handles_multi();
    live->touch = curl_handles_easy();
    cli->client->interrupt_fd = live->signal_fd;
    return live;
}

static void stop_touch(struct live *live)
{
    if (live->touching) {
        (void)curl_multi_remove_handle(live->multi, live->touch);
        live->touching = false;
    }
    curl_slist_free_all(live->touch_headers);
    live->touch_headers = NULL;
}

/* Closes the session. A failed close is harmless: the session then expires. A lost session is
 * closed, too: after this process was frozen the session may still be alive, and without the close
 * the next holder of a lock would wait for its expiry. The session is not closed while a process of
 * the command may still run. */
static void close_session(struct live *live)
{
    struct client_request request = {
        .method = "DELETE", .target = "/sessions/v1/", .keyless = true, .timeout_ms = CLOSE_MS};

    if (live->session[0] && !live->expired && !live->outlived) {
        (void)client_ask(live->cli->client, &request);
    }
    client_enter(live->cli->client, live->cli->settings.session);
    explicit_bzero(live->session, sizeof(live->session));
}

void live_close(struct live *live)
{
    if (!live) {
        return;
    }
    live->cli->client->interrupt_fd = -1;
    live_kill_child(live);
    live_drop_env(live);
    live_unwatch(live);
    stop_touch(live);
    close_session(live);
    curl_easy_cleanup(live->touch);
    (void)curl_multi_cleanup(live->multi);
    close(live->signal_fd);
    (void)pthread_sigmask(SIG_SETMASK, &live->old_mask, NULL);
    mem_free(live);
}

/* ---- The session ---- */

int live_session(struct live *live, int64_t timeout_ms, int64_t patience_ms)
{
    struct client_request request = {
        .method = "POST",
        .target = "/sessions/v1/",
        .params = {{"op", "create"}, {"timeout_ms", timeout_ms ? URL_NUMBER(timeout_ms) : NULL}},
        .keyless = true,
        .timeout_ms = patience_ms};
    struct client *client = live->cli->client;
    const json_t *json = NULL;
    uint64_t now_ms = os_now_ms();
    int code = client_ask(client, &request);

    ASSERT(!live->session[0]);
    if (code != CMD_OK) {
        return code;
    }
    json = client_json(client);
    if (!*jsonr_text(json, "id")) {
        return client_fail(client, CMD_FAILED, "BadAnswer",
                           "the answer is not a session; check that a zabra replica listens at %s",
                           endpoints_url(&client->endpoints));
    }
    (void)snprintf(live->session, sizeof(live->session), "%s", jsonr_text(json, "id"));
    live->timeout_ms = jsonr_number(json, "timeout_ms");
    live->heard_ms = now_ms; /* Taken before the request: the replica's timeout begins later. */
    live->touch_ms = now_ms + (uint64_t)live->timeout_ms / TOUCHES;
    live->endpoint = client->reply.endpoint;
    client_enter(client, live->session);
    return CMD_OK;
}

int64_t live_session_left_ms(const struct live *live)
{
    uint64_t end_ms = live->heard_ms + (uint64_t)live->timeout_ms;
    uint64_t now_ms = os_now_ms();

    return end_ms > now_ms ? (int64_t)(end_ms - now_ms) : 0;
}

static void begin_touch(struct live *live, uint64_t now_ms)
{
    struct client_request request = {.method = "PUT", .target = "/sessions/v1/"};
    const char *endpoint = live->cli->client->endpoints.urls[live->endpoint];

    if (client_prepare(live->cli->client, live->touch, endpoint, &request, &live->touch_headers) ==
        CMD_OK) {
        curl_easy_setopt(live->touch, CURLOPT_TIMEOUT_MS,
                         (long)live->timeout_ms / (2L * TOUCHES) + 1);
        live->touching = true;
        live->sent_ms = now_ms;
        (void)curl_multi_add_handle(live->multi, live->touch);
    }
}

static void end_touch(struct live *live, CURLcode result, uint64_t now_ms)
{
    long status = 0;

    /* An answer of a server that is no replica says nothing about the session. */
    if (result == CURLE_OK && client_is_replica(live->touch)) {
        (void)curl_easy_getinfo(live->touch, CURLINFO_RESPONSE_CODE, &status);
    }
    stop_touch(live);
    if (status == HTTP_OK) {
        live->heard_ms = live->sent_ms;
        live->touch_ms = live->sent_ms + (uint64_t)live->timeout_ms / TOUCHES;
        return;
    }
    live->endpoint = (live->endpoint + 1) % live->cli->client->endpoints.count;
    live->touch_ms = now_ms + RETRY_MS;
    live->expired = status == HTTP_UNAUTHORIZED;
}

/* Returns when the session counts as lost if no newer heartbeat is answered: the last third of its
 * timeout is kept for ending the child. */
static uint64_t doubt_ms(const struct live *live)
{
    return live->heard_ms + (uint64_t)live->timeout_ms * 2 / TOUCHES;
}

/* Sends a heartbeat when one is due. Returns when to call this function again. */
static uint64_t keep_session(struct live *live, uint64_t now_ms)
{
    if (!live->session[0] || live->lost) {
        return UINT64_MAX;
    }
    if (!live->touching && now_ms >= live->touch_ms && now_ms < doubt_ms(live)) {
        begin_touch(live, now_ms);
    }
    return live->touching || doubt_ms(live) < live->touch_ms ? doubt_ms(live) : live->touch_ms;
}

static bool is_lost(struct live *live, uint64_t now_ms)
{
    if (!live->session[0] || live->lost || (!live->expired && now_ms < doubt_ms(live))) {
        return false;
    }
    live->lost = true;
    stop_touch(live);
    return true;
}

/* ---- The watch ---- */

struct stream *live_watch(struct live *live, const struct stream_request *request)
{
    live_unwatch(live);
    live->stream = stream_open(live->cli->client, live->multi, request);
    return live->stream;
}

void live_unwatch(struct live *live)
{
    stream_close(live->stream);
    live->stream = NULL;
    live->told_over = false;
}

int live_report_down(const struct live *live)
{
    const struct settings *settings = &live->cli->settings;

    return cli_fail(live->cli, CMD_NO_ENSEMBLE, "NoEnsemble",
                    "no replica has served the watch for %" PRId64
                    " ms at %s; run 'zabra doctor' to find the cause",
                    settings->timeout_ms, settings->endpoints);
}

static bool take_event(struct live *live, struct live_news *news)
{
    bool over = false;

    if (!live->stream || live->held) {
        return false;
    }
    news->event = stream_next(live->stream);
    over = !news->event && stream_is_over(live->stream) && !live->told_over;
    live->told_over = live->told_over || over;
    news->kind = news->event ? LIVE_EVENT : over ? LIVE_OVER : news->kind;
    return news->event || over;
}

/* ---- Waiting ---- */

/* Whether the child has received the signal: a terminal's signal goes to the whole foreground
 * group. */
static bool has_got(const struct live *live, const struct signalfd_siginfo *info)
{
    return info->ssi_code == SI_KERNEL && getpgid(live->child) == getpgrp();
}

static bool take_signal(struct live *live, struct live_news *news)
{
    struct signalfd_siginfo info;

    while (read(live->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (live->child <= 0) {
            news->kind = LIVE_SIGNAL;
            news->signal_number = (int)info.ssi_signo;
            return true;
        }
        live->last_signal = (int)info.ssi_signo;
        if (!has_got(live, &info)) {
            (void)kill(live->child, (int)info.ssi_signo);
        }
    }
    return false;
}

static bool take_news(struct live *live, uint64_t now_ms, struct live_news *news)
{
    *news = (struct live_news){.kind = LIVE_TIME};
    if (take_signal(live, news)) {
        return true;
    }
    if (live_take_child(live, &news->status)) {
        news->kind = LIVE_CHILD;
        return true;
    }
    if (is_lost(live, now_ms)) {
        news->kind = LIVE_LOST;
        return true;
    }
    return take_event(live, news);
}

static void take_ends(struct live *live)
{
    CURLcode result = CURLE_OK;
    CURL *easy = NULL;

    while ((easy = curl_handles_ended(live->multi, &result))) {
        if (easy == live->touch) {
            end_touch(live, result, os_now_ms());
        } else if (live->stream) {
            stream_take_end(live->stream, result, os_now_ms());
        }
    }
}

/* Runs the heartbeat and the watch. Returns when to call this function again at the latest. */
static uint64_t turn(struct live *live, uint64_t now_ms)
{
    uint64_t due_ms = keep_session(live, now_ms);
    int running = 0;

    if (live->stream) {
        due_ms = min_u64(stream_turn(live->stream, now_ms), due_ms);
    }
    (void)curl_multi_perform(live->multi, &running);
    take_ends(live);
    return due_ms;
}

static void poll_until(struct live *live, uint64_t until_ms)
{
    struct curl_waitfd fds[2] = {{.fd = live->signal_fd, .events = CURL_WAIT_POLLIN},
                                 {.fd = live->child_fd, .events = CURL_WAIT_POLLIN}};
    uint64_t now_ms = os_now_ms();
    uint64_t wait_ms = until_ms > now_ms ? min_u64(until_ms - now_ms, POLL_MAX_MS) : 0;
    int running = 0;

    (void)curl_multi_poll(live->multi, fds, live->child_fd >= 0 ? 2 : 1, (int)wait_ms, NULL);
    (void)curl_multi_perform(live->multi, &running);
    take_ends(live);
}

void live_wait(struct live *live, uint64_t until_ms, struct live_news *news)
{
    (void)fflush(stdout);
    for (;;) {
        uint64_t now_ms = os_now_ms();
        uint64_t due_ms = turn(live, now_ms);

        if (take_news(live, now_ms, news) || now_ms >= until_ms) {
            return;
        }
        poll_until(live, min_u64(due_ms, until_ms));
    }
}
