/*
 * bench: sends reads, writes or watches for a while, and reports their latency. All clients run in
 * one thread. Each client has a connection, and sends its next request once its previous one was
 * answered.
 */
#include "base/os_rng.h"
#include "base/rng.h"
#include "cli/curl_handles.h"
#include "cli/hist.h"
#include "cli/inherited.h"
#include "cli/replicas.h"

#include <stdlib.h>
#include <unistd.h>

enum {
    CLIENTS_MAX = 1000,
    CLIENTS_DEFAULT = 16,
    TIME_DEFAULT_MS = 5000,
    TIME_MAX_MS = 3600 * 1000,
    SIZE_DEFAULT = 100,
    DATA_MAX = 512 << 10,
    ZNODES_DEFAULT = 100,
    ZNODES_MAX = 500,
    READS_DEFAULT = 90,
    BENCH_PERCENT = 100,
    REQUEST_MS = 15000,
    POLL_MS = 100,
    SHOW_MS = 500,
    EVENT_MAX = 64 << 10, /* Bytes of a line of a stream. */
    ROUND_MS = 1000,      /* How long to wait for the events of a write. */
    STREAMS_MS = 5000     /* How long the first write waits for the streams. */
};

enum bench_what {
    BENCH_READ,
    BENCH_WRITE,
    BENCH_EVENT,
    BENCH_WHATS
};

struct bench {
    struct cli *cli;
    CURLM *multi;
    struct bench_worker *workers;
    int worker_count;
    int clients;
    int reads_percent;
    bool watches;
    int64_t time_ms;
    int64_t size;
    int64_t znodes;
    int64_t made;    /* Znodes that were made, including the top one. */
    struct buf base; /* The top znode: all other znodes are below it. */
    struct buf data;
    struct rng rng;
    struct hist hists[BENCH_WHATS];
    uint64_t errors[BENCH_WHATS];
    uint64_t start_ms;
    uint64_t end_ms;
    uint64_t shown_ms;
    int opened;         /* Streams that have delivered their first line. */
    int missing_events; /* Events of the last write that have not come. */
};

static const char *const names[BENCH_WHATS] = {"read", "write", "event"};

static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
    stopped = number;
}

/* A client with a connection of its own. */
struct bench_worker {
    struct bench *bench;
    CURL *easy;
    struct curl_slist *headers;
    enum bench_what what;
    uint64_t begun_us;
    struct buf line; /* The incomplete last line of a stream of events. */
    bool opened;
};

/* ---- Events ---- */

static void take_event(struct bench_worker *worker, const char *line)
{
    static const char member[] = "\"dataUtf8\":\"";
    struct bench *bench = worker->bench;
    const char *told = strstr(line, member);
    uint64_t now_us = os_now_us();

    if (!worker->opened && strstr(line, "\"event\":\"watch\"")) {
        worker->opened = true;
        bench->opened++;
    }
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

/* ---- Requests ---- */

/* Starts a watch, a read, or a write. While watches run, the data of a write is its start time. */
static void start(struct bench_worker *worker, enum bench_what what)
{
    struct bench *bench = worker->bench;
    struct client *client = bench->cli->client;
    int place = (int)(worker - bench->workers) % client->endpoints.count;
    struct client_request request = {.accept = "application/octet-stream"};
    BUF_AUTO(path, URL_MAX);

    buf_append_slice(&path, buf_slice(&bench->base));
    if (!bench->watches) {
        buf_printf(&path, "/z%" PRIu64, rng_below(&bench->rng, (uint64_t)bench->znodes));
    } else if (what == BENCH_WRITE) {
        bench->missing_events = bench->clients;
        buf_clear(&bench->data);
        buf_printf(&bench->data, "%" PRIu64, os_now_us());
    }
    request.path = buf_cstr(&path);
    if (what == BENCH_WRITE) {
        request.method = "PUT";
        request.has_body = true;
        request.body = buf_slice(&bench->data);
    } else if (what == BENCH_EVENT) {
        request.target = "/watch/v1";
        request.params[0] = (struct client_param){"kind", "persistent"};
        request.params[1] = (struct client_param){"values", "true"};
        request.accept = "application/x-ndjson";
    }

    int code = client_prepare(client, worker->easy, client->endpoints.urls[place], &request,
                              &worker->headers);

    ASSERT(code == CMD_OK); /* The password was read before. */
    curl_easy_setopt(worker->easy, CURLOPT_PRIVATE, (void *)worker);
    if (what == BENCH_EVENT) {
        curl_easy_setopt(worker->easy, CURLOPT_WRITEFUNCTION, take_lines);
        curl_easy_setopt(worker->easy, CURLOPT_WRITEDATA, (void *)worker);
    } else {
        curl_easy_setopt(worker->easy, CURLOPT_TIMEOUT_MS, (long)REQUEST_MS);
    }
    worker->what = what;
    worker->begun_us = os_now_us();
    (void)curl_multi_add_handle(bench->multi, worker->easy);
}

/* Starts the next read or write. */
static void go(struct bench_worker *worker)
{
    struct bench *bench = worker->bench;
    bool read = (int)rng_below(&bench->rng, BENCH_PERCENT) < bench->reads_percent;

    start(worker, read ? BENCH_READ : BENCH_WRITE);
}

/* ---- The run ---- */

static bool is_over(const struct bench *bench)
{
    return stopped || os_now_ms() >= bench->end_ms;
}

/* Counts a request that has ended. Returns its worker, now free; NULL: no request has ended. */
static struct bench_worker *take_end(struct bench *bench)
{
    CURLcode result = CURLE_OK;
    CURL *easy = curl_handles_ended(bench->multi, &result);
    struct bench_worker *worker = NULL;
    char *private = NULL;
    long status = 0;

    if (!easy) {
        return NULL;
    }
    (void)curl_easy_getinfo(easy, CURLINFO_PRIVATE, &private);
    worker = (struct bench_worker *)(void *)private;
    (void)curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    if (result == CURLE_OK && status / 100 == 2 && worker->what != BENCH_EVENT) {
        hist_add(&bench->hists[worker->what], os_now_us() - worker->begun_us);
    } else {
        bench->errors[worker->what]++;
    }
    (void)curl_multi_remove_handle(bench->multi, easy);
    curl_slist_free_all(worker->headers);
    worker->headers = NULL;
    return worker;
}

static void turn(struct bench *bench)
{
    uint64_t now_ms = os_now_ms();
    int running = 0;

    (void)curl_multi_poll(bench->multi, NULL, 0, POLL_MS, NULL);
    (void)curl_multi_perform(bench->multi, &running);
    if (isatty(STDERR_FILENO) && now_ms >= bench->shown_ms + SHOW_MS) {
        uint64_t done = bench->hists[BENCH_READ].count + bench->hists[BENCH_WRITE].count;

        bench->shown_ms = now_ms;
        (void)fprintf(stderr, "\r%" PRIu64 " of %" PRId64 " s, %" PRIu64 " requests ",
                      (now_ms - bench->start_ms) / 1000, bench->time_ms / 1000, done);
    }
}

static void run_requests(struct bench *bench)
{
    int busy = bench->clients;

    for (int i = 0; i < bench->clients; i++) {
        go(&bench->workers[i]);
    }
    /* At the end the loop waits for the requests in flight, each of which has a deadline. A signal
     * ends that wait. */
    while (busy > 0 && !stopped) {
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

/* Sends writes. Each write waits for the events of the write before it, at most ROUND_MS. */
static void run_watches(struct bench *bench)
{
    struct bench_worker *writer = &bench->workers[bench->clients];
    uint64_t ready_ms = os_now_ms() + STREAMS_MS;
    uint64_t round_ms = 0;
    bool writing = false;

    for (int i = 0; i < bench->clients; i++) {
        start(&bench->workers[i], BENCH_EVENT);
    }
    while (bench->opened < bench->clients && os_now_ms() < ready_ms && !stopped) {
        turn(bench);
    }
    bench->start_ms = os_now_ms();
    bench->end_ms = bench->start_ms + (uint64_t)bench->time_ms;
    while (!stopped && (writing || !is_over(bench))) {
        bool told = bench->missing_events <= 0 || os_now_ms() >= round_ms + ROUND_MS;

        if (!writing && told) {
            bench->errors[BENCH_EVENT] +=
                bench->missing_events > 0 ? (uint64_t)bench->missing_events : 0;
            start(writer, BENCH_WRITE);
            round_ms = os_now_ms();
            writing = true;
        }
        turn(bench);
        for (struct bench_worker *worker = take_end(bench); worker; worker = take_end(bench)) {
            writing = worker == writer ? false : writing;
        }
    }
}

/* Reads and writes the znodes z0, z1, ... below `base`, or watches `base` itself, for `time_ms`.
 * Fills `hists`, `errors`, `start_ms` and `end_ms`. */
static void run_workers(struct bench *bench)
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

/* ---- Before and after ---- */

/* Makes the top znode and the znodes to read and write, each with data of the wanted size. */
static int make_znodes(struct bench *bench)
{
    int64_t count = 1 + (bench->watches ? 0 : bench->znodes);
    int code = CMD_OK;
    BUF_AUTO(path, URL_MAX);

    while (code == CMD_OK && bench->made < count && !stopped) {
        buf_clear(&path);
        buf_append_slice(&path, buf_slice(&bench->base));
        if (bench->made > 0) {
            buf_printf(&path, "/z%" PRId64, bench->made - 1);
        }
        code = cli_ask(bench->cli, &(struct client_request){.method = "PUT",
                                                            .path = buf_cstr(&path),
                                                            .params = {{"upsert", "true"}},
                                                            .has_body = true,
                                                            .body = buf_slice(&bench->data)});
        bench->made += code == CMD_OK ? 1 : 0;
    }
    return code;
}

static int clean_up(struct bench *bench)
{
    struct client_request request = {
        .method = "DELETE",
        .path = buf_cstr(&bench->base),
        .params = {{"recursive", "true"}, {"max", URL_NUMBER(ZNODES_MAX + 1)}}};
    int code = client_ask(bench->cli->client, &request);

    code = code == CMD_NO_NODE ? CMD_OK : code;
    if (code != CMD_OK) {
        (void)fprintf(stderr, "zabra bench: could not delete %s; run: zabra rm -ry %s\n",
                      buf_cstr(&bench->base), buf_cstr(&bench->base));
    }
    return code;
}

/* ---- Figures ---- */

static double ms_of(const struct hist *hist, uint64_t thousandths)
{
    return (double)hist_us(hist, thousandths) / 1000;
}

static json_t *figures_of(const struct bench *bench, enum bench_what what)
{
    const struct hist *hist = &bench->hists[what];
    double seconds = (double)(bench->end_ms - bench->start_ms) / 1000;
    double count = (double)hist->count;
    json_t *item =
        json_pack("{s:s,s:I,s:I,s:f,s:f,s:f,s:f,s:f,s:f,s:f}", "what", names[what], "count",
                  (json_int_t)hist->count, "errors", (json_int_t)bench->errors[what], "per_second",
                  seconds > 0 ? count / seconds : 0.0, "mean_ms",
                  hist->count ? (double)hist->sum_us / count / 1000 : 0.0, "p50_ms",
                  ms_of(hist, 500), "p90_ms", ms_of(hist, 900), "p99_ms", ms_of(hist, 990),
                  "p999_ms", ms_of(hist, 999), "max_ms", (double)hist->max_us / 1000);

    ASSERT(item);
    return item;
}

static void print(const struct bench *bench, const char *kind)
{
    static const char columns[] =
        "WHAT:what, COUNT:count>, ERRORS:errors>, PER-S:per_second>, MEAN-MS:mean_ms>, "
        "P50:p50_ms>, P90:p90_ms>, P99:p99_ms>, P99.9:p999_ms>, MAX:max_ms>";
    json_t *list = json_array();

    for (int i = 0; i < BENCH_WHATS; i++) {
        if (bench->hists[i].count + bench->errors[i] > 0) {
            (void)json_array_append_new(list, figures_of(bench, (enum bench_what)i));
        }
    }

    json_auto_t *value =
        json_pack("{s:s,s:i,s:I,s:I,s:I,s:i,s:o}", "kind", kind, "clients", bench->clients, "size",
                  (json_int_t)bench->size, "znodes", (json_int_t)bench->znodes, "ms",
                  (json_int_t)(bench->end_ms - bench->start_ms), "endpoints",
                  bench->cli->client->endpoints.count, "results", list);

    out_table(&bench->cli->out, value, "results", columns);
}

/* Prints the figures; there are none when no request succeeded. Returns the exit code. */
static int tell(const struct bench *bench, const char *kind)
{
    uint64_t errors = 0;
    uint64_t done = 0;

    for (int i = 0; i < BENCH_WHATS; i++) {
        errors += bench->errors[i];
        done += bench->hists[i].count;
    }
    if (done == 0) {
        return cli_fail(bench->cli, CMD_FAILED, "NothingDone",
                        "no request succeeded; %" PRIu64 " have failed", errors);
    }
    print(bench, kind);
    return errors > 0 ? CMD_PARTLY : CMD_OK;
}

/* ---- The command ---- */

static bool has_tls_fault(const struct replicas *replicas)
{
    for (int i = 0; i < replicas->count; i++) {
        if (replicas->answers[i].tls) {
            return true;
        }
    }
    return false;
}

/* Keeps only the endpoints that serve. Returns CMD_OK, or the code of a reported error. */
static int choose_endpoints(struct cli *cli)
{
    struct replicas *replicas = NULL;
    struct endpoints *endpoints = &cli->client->endpoints;
    int code = replicas_ask(cli, "/status/v1", &replicas);
    int kept = 0;

    for (int i = 0; i < replicas->count; i++) {
        const struct replicas_answer *answer = &replicas->answers[i];

        if (answer->status == HTTP_OK && json_is_true(jsonr_at(answer->json, "serving"))) {
            (void)snprintf(endpoints->urls[kept++], ENDPOINT_MAX, "%s", answer->url);
        }
    }
    if (code == CMD_OK && kept == 0 && has_tls_fault(replicas)) {
        code = replicas_none(cli, replicas);
    } else if (code == CMD_OK && kept == 0) {
        code = cli_fail(cli, CMD_NO_ENSEMBLE, "NoEnsemble",
                        "no replica serves at %s; check that the ensemble is running and that "
                        "--endpoints is right",
                        cli->settings.endpoints);
    } else if (code == CMD_OK) {
        endpoints->count = kept;
        endpoints->current = 0;
    }
    replicas_free(replicas);
    return code;
}

static int run_made(struct bench *bench, const char *kind)
{
    int code = make_znodes(bench);
    int cleaned = CMD_OK;

    if (code == CMD_OK && !stopped) {
        run_workers(bench);
        code = tell(bench, kind);
    }
    if (bench->made > 0 || code == CMD_TIMED_OUT) {
        cleaned = clean_up(bench);
    }
    return cleaned != CMD_OK && (code == CMD_OK || bench->made == 0) ? CMD_PARTLY : code;
}

static int run_bench(struct bench *bench, const char *kind)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    uint64_t random = 0;
    int code = choose_endpoints(bench->cli);

    if (code != CMD_OK) {
        return code;
    }
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    if (!inherited_ignores(SIGHUP)) {
        (void)sigaction(SIGHUP, &action, NULL); /* A hangup must not leave znodes. */
    }
    os_random(&random, sizeof(random));
    rng_init(&bench->rng, random);
    buf_init(&bench->base, URL_MAX);
    buf_printf(&bench->base, "/zabra-bench-%016" PRIx64, random);
    buf_init(&bench->data, DATA_MAX + 1);
    for (int64_t i = 0; i < bench->size; i++) {
        buf_append_byte(&bench->data, (uint8_t)('a' + rng_below(&bench->rng, 26)));
    }
    code = run_made(bench, kind);
    buf_release(&bench->data);
    buf_release(&bench->base);
    return stopped ? CMD_SIGNAL + (int)stopped : code;
}

static int run(struct cli *cli)
{
    const char *kind = args_operand(&cli->args, 0);
    int index = 0;

    kind = kind ? kind : "mix";
    index = cli_choice(cli, "", kind, "read, write, mix, watch");
    if (index < 0) {
        return CMD_USAGE;
    }

    struct bench *bench = mem_zalloc(1, sizeof(*bench));
    const int reads[] = {BENCH_PERCENT, 0, (int)cli_number(cli, "reads"), 0};

    bench->cli = cli;
    bench->watches = strcmp(kind, "watch") == 0;
    bench->reads_percent = reads[index];
    bench->clients = (int)cli_number(cli, "clients");
    bench->time_ms = cli_number(cli, "time");
    bench->size = cli_number(cli, "size");
    bench->znodes = cli_number(cli, "znodes");

    int code = run_bench(bench, kind);

    mem_free(bench);
    return code;
}

const struct cmd cmd_bench = {
    .name = "bench",
    .summary = "measure the latency and throughput of reads, writes or watches",
    .usage = "[read|write|mix|watch]",
    .text = "Each client sends its next request as soon as it has an answer. The default is\n"
            "a mix of reads and writes. All znodes are below /zabra-bench-..., which is\n"
            "deleted at the end, also after Ctrl-C (a second Ctrl-C ends at once). This puts\n"
            "load on the ensemble: do not run it against one in production. Exit code 9 when\n"
            "some requests failed.\n",
    .options = {CMD_NUMBER("clients", 'c', "N",
                           "connections over all endpoints (16); for watch: streams", 1,
                           CLIENTS_MAX, CLIENTS_DEFAULT),
                CMD_TIME("time", 't', "duration (5s)", 1, TIME_MAX_MS, TIME_DEFAULT_MS),
                CMD_NUMBER("size", 's', "BYTES", "data size of a znode (100)", 0, DATA_MAX,
                           SIZE_DEFAULT),
                CMD_NUMBER("znodes", 0, "N", "number of znodes to read and write (100)", 1,
                           ZNODES_MAX, ZNODES_DEFAULT),
                CMD_NUMBER("reads", 0, "PERCENT", "share of reads in a mix (90)", 0, BENCH_PERCENT,
                           READS_DEFAULT)},
    .examples = {{"zabra bench", "nine reads to one write, for 5 seconds"},
                 {"zabra bench write -c 64 -t 30s -o json", "JSON for programs"},
                 {"zabra bench watch -c 1000",
                  "time from the start of a write to the arrival of its event"}},
    .operands = {0, 1, {CMD_OPERAND_TEXT}},
    .run = run,
};
