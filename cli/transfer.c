#include "cli/transfer.h"

#include "base/check.h"
#include "base/os_clock.h"
#include "cli/client_int.h"
#include "cli/url.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

enum {
    POLL_MS = 250,
    SHOW_MS = 250, /* Between two drawings of the progress. */
    BAR_WIDTH = 30,
    HTTP_OK = 200
};

/* One try. */
struct trying {
    struct cli *cli;
    struct transfer *transfer;
    CURL *easy;
    uint64_t moved_ms; /* When the last byte moved. */
    uint64_t shown_ms;
    bool refused; /* The caller takes no more. */
    bool shows;   /* Progress, on a terminal. */
};

/* ---- Progress ---- */

static void show(struct trying *trying, uint64_t now_ms)
{
    const struct transfer_progress *progress = &trying->transfer->progress;

    if (!trying->shows || now_ms < trying->shown_ms + SHOW_MS) {
        return;
    }
    trying->shown_ms = now_ms;
    if (progress->bytes_total > 0) {
        int full = (int)(progress->bytes * BAR_WIDTH / progress->bytes_total);

        full = full < BAR_WIDTH ? full : BAR_WIDTH;
        (void)fprintf(stderr, "\r%s [%.*s%*s] %" PRIu64 " KiB ", progress->verb, full,
                      "##############################", BAR_WIDTH - full, "",
                      progress->bytes / 1024);
    } else {
        (void)fprintf(stderr, "\r%s %" PRIu64 " lines, %" PRIu64 " KiB ", progress->verb,
                      progress->lines, progress->bytes / 1024);
    }
}

static void show_end(const struct trying *trying)
{
    if (trying->shown_ms) {
        (void)fprintf(stderr, "\r%*s\r", BAR_WIDTH * 2, "");
    }
}

/* ---- Bytes ---- */

static size_t give_body(char *data, size_t size, size_t count, void *ctx)
{
    struct trying *trying = ctx;
    struct transfer *transfer = trying->transfer;
    ssize_t got = 0;

    do {
        got = read(transfer->input, data, size * count);
    } while (got < 0 && errno == EINTR);
    trying->moved_ms = os_now_ms();
    if (got < 0) {
        transfer->input_failed = true;
        transfer->input_errno = errno;
        return CURL_READFUNC_ABORT;
    }
    transfer->progress.bytes += (uint64_t)got;
    show(trying, trying->moved_ms);
    return (size_t)got;
}

static size_t take_body(char *data, size_t size, size_t count, void *ctx)
{
    struct trying *trying = ctx;
    struct transfer *transfer = trying->transfer;
    size_t len = size * count;
    long status = 0;

    trying->moved_ms = os_now_ms();
    (void)curl_easy_getinfo(trying->easy, CURLINFO_RESPONSE_CODE, &status);
    if (status != HTTP_OK || !transfer->take) {
        return buf_append(&transfer->answer, data, len) ? len : 0;
    }
    transfer->progress.bytes += len;
    for (size_t i = 0; i < len; i++) {
        transfer->progress.lines += data[i] == '\n';
    }
    trying->refused = !transfer->take(transfer->ctx, slice_make(data, len));
    show(trying, trying->moved_ms);
    return trying->refused ? 0 : len;
}

/* ---- One try ---- */

static int run(struct trying *trying, CURLM *multi, CURLcode *ret_result)
{
    uint64_t patience_ms = (uint64_t)trying->cli->settings.timeout_ms;
    int running = 1;

    trying->moved_ms = os_now_ms();
    *ret_result = CURLE_OPERATION_TIMEDOUT;
    (void)curl_multi_add_handle(multi, trying->easy);
    while (running && os_now_ms() < trying->moved_ms + patience_ms) {
        (void)curl_multi_perform(multi, &running);
        if (running) {
            (void)curl_multi_poll(multi, NULL, 0, POLL_MS, NULL);
        }
    }
    for (int left = 1; left;) {
        CURLMsg *message = curl_multi_info_read(multi, &left);

        if (message) {
            *ret_result = message->data.result;
        }
    }
    (void)curl_multi_remove_handle(multi, trying->easy);
    return running;
}

/* What has come of it, into client_error(). */
static int judge(const struct trying *trying, CURLcode result)
{
    struct client *client = trying->cli->client;
    const struct transfer *transfer = trying->transfer;
    const char *url = endpoints_url(client_endpoints(client));
    bool moved = transfer->progress.bytes > 0;
    long status = 0;

    (void)curl_easy_getinfo(trying->easy, CURLINFO_RESPONSE_CODE, &status);
    if (transfer->input_failed) {
        return client_fail(client, CMD_FAILED, "File", "cannot be read to its end");
    }
    if (trying->refused) {
        return client_fail(client, CMD_FAILED, "Output", "what was exported cannot be written");
    }
    if (status / 100 > 2 && transfer->answer.len > 0) {
        return client_judge(client, status, buf_slice(&transfer->answer));
    }
    if (result == CURLE_OK) {
        return client_judge(client, status, buf_slice(&transfer->answer));
    }
    if (result == CURLE_OPERATION_TIMEDOUT) {
        return client_fail(client, CMD_TIMED_OUT, "TimedOut",
                           "%s: nothing has moved for %" PRId64 " ms", url,
                           trying->cli->settings.timeout_ms);
    }
    return moved ? client_fail(client, CMD_FAILED, "CutOff", "%s: the connection broke: %s", url,
                               curl_easy_strerror(result))
                 : client_fail(client, CMD_NO_ENSEMBLE, "NoEnsemble",
                               "nobody answers at %s; is it running, and are --endpoints right?",
                               trying->cli->settings.endpoints);
}

static void set_up(struct trying *trying)
{
    const struct transfer *transfer = trying->transfer;
    CURL *easy = trying->easy;

    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, (void *)trying);
    if (transfer->input >= 0) {
        curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(easy, CURLOPT_READFUNCTION, give_body);
        curl_easy_setopt(easy, CURLOPT_READDATA, (void *)trying);
        if (transfer->progress.bytes_total > 0) {
            curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE,
                             (curl_off_t)transfer->progress.bytes_total);
        }
    }
}

static int try_once(struct cli *cli, struct transfer *transfer)
{
    struct trying trying = {.cli = cli,
                            .transfer = transfer,
                            .easy = curl_easy_init(),
                            .shows = isatty(STDERR_FILENO) && !cli->settings.verbose};
    CURLM *multi = curl_multi_init();
    struct curl_slist *headers = NULL;
    CURLcode result = CURLE_OK;
    struct buf url;

    ASSERT(trying.easy && multi);
    buf_clear(&transfer->answer);
    client_url(cli->client, &transfer->request, &url);

    int code =
        client_prepare(cli->client, trying.easy, &transfer->request, buf_cstr(&url), &headers);

    if (code == CMD_OK) {
        curl_easy_setopt(trying.easy, CURLOPT_HTTPHEADER, headers);
        set_up(&trying);
        (void)run(&trying, multi, &result);
        show_end(&trying);
        code = judge(&trying, result);
    }
    curl_easy_cleanup(trying.easy);
    (void)curl_multi_cleanup(multi);
    curl_slist_free_all(headers);
    buf_release(&url);
    return code;
}

/* Another replica may do better, and knows nothing of it yet. */
static bool goes_on(const struct cli *cli, const struct transfer *transfer, int code)
{
    long status = client_error(cli->client)->status;

    return code == CMD_NO_ENSEMBLE && transfer->progress.bytes == 0 &&
           (status == 0 || status == 503);
}

int transfer_run(struct cli *cli, struct transfer *transfer)
{
    struct endpoints *endpoints = client_endpoints(cli->client);
    int code = CMD_NO_ENSEMBLE;

    buf_init(&transfer->answer, TRANSFER_PROBLEM_MAX);
    for (int i = 0; i < endpoints->count; i++) {
        code = try_once(cli, transfer);
        if (!goes_on(cli, transfer, code)) {
            break;
        }
        endpoints_turn(endpoints);
    }
    return code;
}
