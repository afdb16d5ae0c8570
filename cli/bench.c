#include "cli/bench.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/os_clock.h"
#include "cli/curl_handles.h"
#include "cli/url.h"

#include <curl/curl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    REQUEST_MS = 15000,
    POLL_MS = 100,
    SHOW_MS = 500,
    EVENT_MAX = 64 << 10, /* Bytes of a line of a stream. */
    ROUND_MS = 1000,      /* How long a write waits for its events. */
    STREAMS_MS = 5000     /* And the first one for the streams. */
};

/* A client with a connection of its own. */
struct bench_worker {
    struct bench *bench;
    CURL *easy;
    struct curl_slist *headers;
    enum bench_what what;
    uint64_t begun_us;
    struct buf line; /* Of a stream of events: begun and not ended. */
    bool opened;     /* The stream has delivered its first line. */
};

/* ---- Requests ---- */

/* NOLINTNEXTLINE(readability-non-const-parameter): the library's type. */
static size_t drop_body(char *data, size_t size, size_t count, void *ctx)
{
    (void)data;
    (void)ctx;
    return size * count;
}

static void put_url(const struct bench_worker *worker, const char *resource, const char *name,
                    struct buf *url)
{
    struct bench *bench = worker->bench;
    const struct endpoints *endpoints = client_endpoints(bench->cli->client);
    int place = (int)(worker - bench->workers) % endpoints->count;

    buf_init(url, URL_MAX + ENDPOINT_MAX);
    buf_append_str(url, endpoints->urls[place]);
    buf_append_str(url, resource);
    buf_append_slice(url, buf_slice(&bench->base));
    buf_append_str(url, name);
}

static void start(struct bench_worker *worker, const struct client_request *request,
                  const char *url)
{
    struct bench *bench = worker->bench;
    int code = client_prepare(bench->cli->client, worker->easy, request, url, &worker->headers);

    ASSERT(code == CMD_OK); /* The password was read before. */
    curl_easy_setopt(worker->easy, CURLOPT_HTTPHEADER, worker->headers);
    curl_easy_setopt(worker->easy, CURLOPT_WRITEFUNCTION, drop_body);
    curl_easy_setopt(worker->easy, CURLOPT_PRIVATE, (void *)worker);
    curl_easy_setopt(worker->easy, CURLOPT_TIMEOUT_MS, (long)REQUEST_MS);
    worker->begun_us = os_now_us();
}

/* The next read or write of a worker. */
static void go(struct bench_worker *worker)
{
    struct bench *bench = worker->bench;
    struct client_request request = {.accept = "application/octet-stream"};
    bool read = (int)rng_below(&bench->rng, BENCH_PERCENT) < bench->reads_percent;
    char name[32];
    struct buf url;

    (void)snprintf(name, sizeof(name), "/z%" PRIu64,
                   rng_below(&bench->rng, (uint64_t)bench->znodes));
    put_url(worker, "/znodes/v1", name, &url);
    if (read && bench->cli->settings.linearizable) {
        url_param(&url, "consistency", "linearizable");
    }
    worker->what = read ? BENCH_READ : BENCH_WRITE;
    if (!read) {
        request.method = "PUT";
        request.has_body = true;
        request.body = buf_slice(&bench->data);
    }
    start(worker, &request, buf_cstr(&url));
    (void)curl_multi_add_handle(bench->multi, worker->easy);
    buf_release(&url);
}

/* A write whose data is its start time, for the watches. */
static void go_tell(struct bench_worker *worker)
{
    struct bench *bench = worker->bench;
    struct client_request request = {
        .method = "PUT", .has_body = true, .accept = "application/octet-stream"};
    struct buf url;

    buf_clear(&bench->data);
    buf_printf(&bench->data, "%" PRIu64, os_now_us());
    put_url(worker, "/znodes/v1", "", &url);
    request.body = buf_slice(&bench->data);
    worker->what = BENCH_WRITE;
    start(worker, &request, buf_cstr(&url));
    (void)curl_multi_add_handle(bench->multi, worker->easy);
    bench->missing_events = bench->clients;
    buf_release(&url);
}

/* ---- Watches ---- */

static void take_event(struct bench_worker *worker, const char *line)
{
    static const char member[] = "\"dataUtf8\":\"";
    struct bench *bench = worker->bench;
    const char *told = strstr(line, member);
    uint64_t now_us = os_now_us();

    worker->opened = worker->opened || strstr(line, "\"event\":\"watch\"");
    if (told && strstr(line, "NodeDataChanged")) {
        uint64_t begun_us = strtoull(told + strlen(member), NULL, 10);

        hist_add(&bench->hists[BENCH_EVENT], now_us > begun_us ? now_us - begun_us : 0);
        bench->missing_events--;
    }
}

static size_t take_lines(char *data, size_t size, size_t count, void *ctx)
{
    struct bench_worker *worker = ctx;
    size_t len = size * count;

    for (size_t i = 0; i < len; i++) {
        if (data[i] != '\n') {
            if (!buf_append_byte(&worker->line, (uint8_t)data[i])) {
                return 0;
            }
            continue;
        }
        take_event(worker, buf_cstr(&worker->line));
        buf_clear(&worker->line);
    }
    return len;
}

static void go_watch(struct bench_worker *worker)
{
    struct client_request request = {.accept = "application/x-ndjson"};
    struct buf url;

    put_url(worker, "/watch/v1", "?kind=persistent&values=true", &url);
    worker->what = BENCH_EVENT;
    start(worker, &request, buf_cstr(&url));
    curl_easy_setopt(worker->easy, CURLOPT_TIMEOUT_MS, 0L);
    curl_easy_setopt(worker->easy, CURLOPT_WRITEFUNCTION, take_lines);
    curl_easy_setopt(worker->easy, CURLOPT_WRITEDATA, (void *)worker);
    (void)curl_multi_add_handle(worker->bench->multi, worker->easy);
    buf_release(&url);
}

static bool all_open(const struct bench *bench)
{
    for (int i = 0; i < bench->clients; i++) {
        if (!bench->workers[i].opened) {
            return false;
        }
    }
    return true;
}

/* ---- The run ---- */

static void show(struct bench *bench, uint64_t now_ms)
{
    if (isatty(STDERR_FILENO) && now_ms >= bench->shown_ms + SHOW_MS) {
        uint64_t done = bench->hists[BENCH_READ].count + bench->hists[BENCH_WRITE].count;

        bench->shown_ms = now_ms;
        (void)fprintf(stderr, "\r%" PRIu64 " of %" PRId64 " s, %" PRIu64 " requests ",
                      (now_ms - bench->start_ms) / 1000, bench->time_ms / 1000, done);
    }
}

static bool is_over(const struct bench *bench)
{
    return *bench->stopped || os_now_ms() >= bench->end_ms;
}

/* What has ended is counted. Returns the worker, which is free again; NULL: none has. */
static struct bench_worker *take_end(struct bench *bench)
{
    int left = 0;
    CURLMsg *message = curl_multi_info_read(bench->multi, &left);
    struct bench_worker *worker = NULL;
    char *private = NULL;
    long status = 0;

    if (!message) {
        return NULL;
    }

    CURLcode result = message->data.result;

    (void)curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &private);
    worker = (struct bench_worker *)(void *)private;
    (void)curl_easy_getinfo(worker->easy, CURLINFO_RESPONSE_CODE, &status);
    if (result == CURLE_OK && status / 100 == 2 && worker->what != BENCH_EVENT) {
        hist_add(&bench->hists[worker->what], os_now_us() - worker->begun_us);
    } else {
        bench->errors[worker->what]++;
    }
    (void)curl_multi_remove_handle(bench->multi, worker->easy);
    curl_slist_free_all(worker->headers);
    worker->headers = NULL;
    return worker;
}

static void turn(struct bench *bench)
{
    int running = 0;

    (void)curl_multi_poll(bench->multi, NULL, 0, POLL_MS, NULL);
    (void)curl_multi_perform(bench->multi, &running);
    show(bench, os_now_ms());
}

static void run_requests(struct bench *bench)
{
    int busy = bench->clients;

    for (int i = 0; i < bench->clients; i++) {
        go(&bench->workers[i]);
    }
    /* At the end it waits for requests in flight: each has a deadline. A second signal ends the
     * wait. */
    while (busy > 0 && !*bench->stopped) {
        turn(bench);
        for (struct bench_worker *worker = take_end(bench); worker; worker = take_end(bench)) {
            if (is_over(bench)) {
                busy--;
            } else {
                go(worker);
            }
        }
    }
}

/* One write after the other; each waits for the events of the one before. */
static void run_watches(struct bench *bench)
{
    struct bench_worker *writer = &bench->workers[bench->clients];
    uint64_t ready_ms = os_now_ms() + STREAMS_MS;
    uint64_t round_ms = 0;
    bool writing = false;

    for (int i = 0; i < bench->clients; i++) {
        go_watch(&bench->workers[i]);
    }
    while (!all_open(bench) && os_now_ms() < ready_ms && !*bench->stopped) {
        turn(bench);
    }
    bench->start_ms = os_now_ms();
    bench->end_ms = bench->start_ms + (uint64_t)bench->time_ms;
    while (!*bench->stopped && (writing || !is_over(bench))) {
        bool told = bench->missing_events <= 0 || os_now_ms() >= round_ms + ROUND_MS;

        if (!writing && told) {
            bench->errors[BENCH_EVENT] +=
                bench->missing_events > 0 ? (uint64_t)bench->missing_events : 0;
            go_tell(writer);
            round_ms = os_now_ms();
            writing = true;
        }
        turn(bench);
        for (struct bench_worker *worker = take_end(bench); worker; worker = take_end(bench)) {
            writing = worker == writer ? false : writing;
        }
    }
}

void bench_run(struct bench *bench)
{
    bench->worker_count = bench->clients + (bench->watches ? 1 : 0);
    bench->workers = mem_zalloc((size_t)bench->worker_count, sizeof(*bench->workers));
    bench->multi = curl_handles_multi();
    (void)curl_multi_setopt(bench->multi, CURLMOPT_MAXCONNECTS, (long)bench->worker_count);
    for (int i = 0; i < bench->worker_count; i++) {
        bench->workers[i].bench = bench;
        bench->workers[i].easy = curl_handles_easy();
        buf_init(&bench->workers[i].line, EVENT_MAX);
    }
    bench->start_ms = os_now_ms();
    bench->end_ms = bench->start_ms + (uint64_t)bench->time_ms;
    if (bench->watches) {
        run_watches(bench);
    } else {
        run_requests(bench);
    }
    bench->end_ms = os_now_ms();
    for (int i = 0; i < bench->worker_count; i++) {
        (void)curl_multi_remove_handle(bench->multi, bench->workers[i].easy);
        curl_easy_cleanup(bench->workers[i].easy);
        curl_slist_free_all(bench->workers[i].headers);
        buf_release(&bench->workers[i].line);
    }
    (void)curl_multi_cleanup(bench->multi);
    mem_free(bench->workers);
    if (bench->shown_ms) {
        (void)fprintf(stderr, "\r%60s\r", "");
    }
}
