#include "cli/transfer.h"

#include "cli/curl_handles.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    POLL_MS = 250
};

/* One attempt. */
struct trying {
    struct cli *cli;
    struct transfer *transfer;
    CURL *easy;
    char detail[CURL_ERROR_SIZE]; /* Why the transfer has failed. */
    uint64_t share_ms;            /* The time within which the first byte must move. */
    uint64_t began_ms;            /* When the first byte moved; 0: none has. */
    uint64_t moved_ms; /* When the last byte moved; if none has, when the attempt began. */
    bool refused;      /* The caller has refused more data. */
    bool shows;        /* Progress is shown, on a terminal. */
};

/* ---- Progress ---- */

static void show(struct trying *trying, uint64_t now_ms)
{
    if (trying->shows) {
        progress_show(&trying->transfer->progress, now_ms);
    }
}

/* ---- Bytes ---- */

static void note_move(struct trying *trying)
{
    trying->moved_ms = os_now_ms();
    trying->began_ms = trying->began_ms ? trying->began_ms : trying->moved_ms;
}

static void note_progress(struct transfer *transfer, struct slice moved)
{
    transfer->progress.bytes += moved.len;
    for (size_t i = 0; transfer->has_lines && i < moved.len; i++) {
        transfer->progress.lines += moved.data[i] == '\n';
    }
}

static size_t give_body(char *data, size_t size, size_t count, void *ctx)
{
    struct trying *trying = ctx;
    struct transfer *transfer = trying->transfer;
    ssize_t got = 0;

    do {
        got = read(transfer->input, data, size * count);
    } while (got < 0 && errno == EINTR);
    note_move(trying);
    if (got < 0) {
        transfer->input_errno = errno;
        return CURL_READFUNC_ABORT;
    }
    note_progress(transfer, slice_make(data, (size_t)got));
    show(trying, trying->moved_ms);
    return (size_t)got;
}

static size_t take_body(char *data, size_t size, size_t count, void *ctx)
{
    struct trying *trying = ctx;
    struct transfer *transfer = trying->transfer;
    size_t len = size * count;
    long status = 0;

    note_move(trying);
    (void)curl_easy_getinfo(trying->easy, CURLINFO_RESPONSE_CODE, &status);
    if (!client_is_replica(trying->easy)) {
        return len; /* An answer of another server is no export. */
    }
    if (status != HTTP_OK || !transfer->take) {
        return buf_append(&transfer->answer, data, len) ? len : 0;
    }
    note_progress(transfer, slice_make(data, len));
    trying->refused = !transfer->take(transfer->ctx, slice_make(data, len));
    note_move(trying); /* A write that blocks is no silence of the replica. */
    show(trying, trying->moved_ms);
    return trying->refused ? 0 : len;
}

/* ---- One attempt ---- */

/* Returns how long a transfer may stall. Before the first byte this is only a share of the timeout,
 * because another replica may be quicker. */
static uint64_t patience_ms(const struct trying *trying)
{
    return trying->transfer->progress.bytes > 0 ? (uint64_t)trying->transfer->patience_ms
                                                : trying->share_ms;
}

/* Subtracts the waits of this attempt from the time that is left. Time in which data moves does not
 * count as waiting. */
static void take_off_waits(const struct trying *trying, uint64_t start_ms)
{
    int64_t *patience_ms = &trying->transfer->patience_ms;
    uint64_t began_ms = trying->began_ms ? trying->began_ms : start_ms;
    int64_t waited_ms = (int64_t)(began_ms - start_ms + os_now_ms() - trying->moved_ms);

    *patience_ms = *patience_ms > waited_ms ? *patience_ms - waited_ms : 1;
}

static void run(struct trying *trying, CURLM *multi, CURLcode *ret_result)
{
    uint64_t start_ms = os_now_ms();
    int running = 1;

    trying->moved_ms = start_ms;
    *ret_result = CURLE_OPERATION_TIMEDOUT;
    (void)curl_multi_add_handle(multi, trying->easy);
    while (running && os_now_ms() < trying->moved_ms + patience_ms(trying)) {
        (void)curl_multi_perform(multi, &running);
        if (running) {
            (void)curl_multi_poll(multi, NULL, 0, POLL_MS, NULL);
        }
        client_meanwhile(trying->cli->client);
    }
    take_off_waits(trying, start_ms);
    (void)curl_handles_ended(multi, ret_result);
    (void)curl_multi_remove_handle(multi, trying->easy);
}

/* Judges an answer of another server than a replica. A proxy that has lost its replica may have
 * passed on the data that has moved. */
static int judge_foreign(struct client *client, const char *url, long status, bool moved)
{
    return status / 100 == 5 && moved
               ? client_fail(client, CMD_FAILED, "CutOff",
                             "%s: a proxy lost its connection to the replica (status %ld)", url,
                             status)
               : client_foreign(client, url, status);
}

/* Sets client->error to the result of the attempt. Returns its exit code. */
static int judge(const struct trying *trying, CURLcode result)
{
    struct client *client = trying->cli->client;
    const struct transfer *transfer = trying->transfer;
    const char *url = endpoints_url(&client->endpoints);
    bool moved = transfer->progress.bytes > 0;
    char why[CLIENT_WHY_MAX];
    long status = 0;

    (void)curl_easy_getinfo(trying->easy, CURLINFO_RESPONSE_CODE, &status);
    if (transfer->input_errno) {
        return client_fail(client, CMD_FAILED, "File", "cannot read to the end");
    }
    if (trying->refused) {
        return client_fail(client, CMD_FAILED, "Output", "cannot write the export");
    }
    if (client_tls_fault(client, trying->easy, result, trying->detail, why)) {
        return client_fail(client, CMD_NO_ENSEMBLE, CLIENT_TLS, "%s: %s", url, why);
    }
    if (status > 0 && !client_is_replica(trying->easy)) {
        return judge_foreign(client, url, status, moved);
    }
    if (result == CURLE_OK || (status / 100 > 2 && transfer->answer.len > 0)) {
        return client_judge(client, status, buf_slice(&transfer->answer));
    }
    if (result == CURLE_OPERATION_TIMEDOUT) {
        return client_fail(client, CMD_TIMED_OUT, "TimedOut",
                           "%s: no %sdata was transferred, and the %" PRId64
                           " ms of --timeout are over",
                           url, moved ? "more " : "", trying->cli->settings.timeout_ms);
    }
    return moved ? client_fail(client, CMD_FAILED, "CutOff", "%s: the connection broke: %s", url,
                               curl_easy_strerror(result))
                 : client_unanswered(client);
}

static void set_up(struct trying *trying)
{
    const struct transfer *transfer = trying->transfer;
    CURL *easy = trying->easy;

    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, trying->detail);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, (void *)trying);
    if (transfer->input >= 0) {
        curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(easy, CURLOPT_READFUNCTION, give_body);
        curl_easy_setopt(easy, CURLOPT_READDATA, (void *)trying);
        if (transfer->progress.total > 0) {
            curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)transfer->progress.total);
        }
    }
}

static void note_age(const struct trying *trying)
{
    const char *text = client_header(trying->easy, "Age");

    trying->transfer->age_s = *text ? strtoll(text, NULL, 10) : -1;
}

static int try_once(struct cli *cli, struct transfer *transfer, uint64_t share_ms)
{
    struct trying trying = {.cli = cli,
                            .transfer = transfer,
                            .share_ms = share_ms,
                            .easy = curl_handles_easy(),
                            .shows = isatty(STDERR_FILENO) && !cli->settings.verbose};
    CURLM *multi = curl_handles_multi();
    struct curl_slist *headers = NULL;
    CURLcode result = CURLE_OK;
    /* No progress on a terminal that also gets the data. */
    trying.shows = trying.shows && !(transfer->take && isatty(STDOUT_FILENO));

    int code = client_prepare(cli->client, trying.easy, endpoints_url(&cli->client->endpoints),
                              &transfer->request, &headers);

    buf_clear(&transfer->answer);
    if (code == CMD_OK) {
        set_up(&trying);
        run(&trying, multi, &result);
        progress_clear(&transfer->progress);
        code = judge(&trying, result);
        note_age(&trying);
    }
    curl_easy_cleanup(trying.easy);
    (void)curl_multi_cleanup(multi);
    curl_slist_free_all(headers);
    return code;
}

/* Whether to try the next replica: it may answer, and nothing was transferred yet. A replica that
 * has reached a limit of transfers, or makes another backup, is not the only one. */
static bool may_try_next(const struct cli *cli, const struct transfer *transfer, int code)
{
    long status = cli->client->error.status;

    return transfer->progress.bytes == 0 &&
           (status == HTTP_TOO_MANY ||
            (client_unserved(code) && (status == 0 || status == HTTP_UNAVAILABLE)));
}

int transfer_run(struct cli *cli, struct transfer *transfer)
{
    struct endpoints *endpoints = &cli->client->endpoints;
    bool hung = false;
    int code = CMD_NO_ENSEMBLE;

    if (transfer->patience_ms == 0) {
        transfer->patience_ms = cli->settings.timeout_ms;
    }

    uint64_t end_ms = os_now_ms() + (uint64_t)transfer->patience_ms;

    buf_init(&transfer->answer, TRANSFER_PROBLEM_MAX);
    for (int left = endpoints->count; left > 0; left--) {
        uint64_t now_ms = os_now_ms();

        code = try_once(cli, transfer, now_ms < end_ms ? (end_ms - now_ms) / (uint64_t)left : 0);
        if (!may_try_next(cli, transfer, code)) {
            return code;
        }
        hung = hung || code == CMD_TIMED_OUT;
        endpoints_turn(endpoints);
    }
    return hung ? client_fail(cli->client, CMD_TIMED_OUT, "TimedOut", "no answer in time from %s",
                              cli->settings.endpoints)
                : code;
}

int transfer_judge_end(const struct cli *cli, const json_t *last)
{
    if (jsonr_at(last, "error")) {
        return cli_fail(cli, CMD_FAILED, jsonr_text(last, "error.code"),
                        "the export is incomplete: %s", jsonr_text(last, "error.detail"));
    }
    if (!jsonr_at(last, "end")) {
        return cli_fail(cli, CMD_FAILED, "CutOff",
                        "the export is incomplete: it was cut off; run the command again");
    }
    return CMD_OK;
}
