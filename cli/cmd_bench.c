/* bench: drives reads, writes or watches for a while, and reports their latency. */
#include "base/check.h"
#include "base/mem.h"
#include "base/os_rng.h"
#include "cli/bench.h"
#include "cli/commands.h"
#include "cli/inherited.h"
#include "cli/replicas.h"
#include "cli/url.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

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
    SETUP_MAX = 1 << 20,
    HTTP_OK = 200
};

static const char *const names[BENCH_WHATS] = {"read", "write", "event"};

static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
    stopped = number;
}

/* ---- Before and after ---- */

/* A multi makes all znodes, each with data of the wanted size. */
static int make_znodes(struct bench *bench)
{
    struct client_request request = {
        .method = "POST", .target = "/multi/v1", .has_body = true, .type = "application/json"};
    const char *base = buf_cstr(&bench->base);
    struct buf body;
    int code = CMD_OK;

    buf_init(&body, SETUP_MAX);
    buf_printf(&body, "{\"ops\":[{\"op\":\"create\",\"path\":\"%s\",\"dataUtf8\":\"zabra bench\"}",
               base);
    for (int64_t i = 0; i < bench->znodes; i++) {
        buf_printf(&body, ",{\"op\":\"create\",\"path\":\"%s/z%" PRId64 "\",\"dataUtf8\":\"\"}",
                   base, i);
    }
    buf_append_str(&body, "]}");
    request.body = buf_slice(&body);
    code = cli_ask(bench->cli, &request);
    buf_release(&body);
    return code;
}

static int fill_znodes(struct bench *bench)
{
    int code = CMD_OK;

    for (int64_t i = 0; code == CMD_OK && i < bench->znodes && !stopped; i++) {
        struct client_request request = {
            .method = "PUT", .has_body = true, .body = buf_slice(&bench->data)};
        struct buf url;

        url_init(&url, "/znodes/v1", buf_cstr(&bench->base));
        buf_printf(&url, "/z%" PRId64, i);
        request.target = buf_cstr(&url);
        code = cli_ask(bench->cli, &request);
        buf_release(&url);
    }
    return code;
}

static int clean_up(struct bench *bench)
{
    struct client_request request = {.method = "DELETE"};
    struct buf url;
    int code = CMD_OK;

    url_init(&url, "/znodes/v1", buf_cstr(&bench->base));
    url_param(&url, "recursive", NULL);
    url_param_number(&url, "max", ZNODES_MAX + 1);
    request.target = buf_cstr(&url);
    code = client_ask(bench->cli->client, &request);
    buf_release(&url);
    code = code == CMD_NO_NODE ? CMD_OK : code;
    if (code != CMD_OK) {
        (void)fprintf(stderr, "zabra bench: could not delete %s; run: zabra rm -ry %s\n",
                      buf_cstr(&bench->base), buf_cstr(&bench->base));
    }
    return code;
}

/* ---- Figures ---- */

static json_t *figures_of(const struct bench *bench, enum bench_what what)
{
    static const struct {
        const char *name;
        uint64_t thousandths;
    } percentiles[] = {{"p50_ms", 500}, {"p90_ms", 900}, {"p99_ms", 990}, {"p999_ms", 999}};
    const struct hist *hist = &bench->hists[what];
    double seconds = (double)(bench->end_ms - bench->start_ms) / 1000;
    double count = (double)hist->count;
    json_t *item = json_pack("{s:s,s:I,s:I,s:f,s:f}", "what", names[what], "count",
                             (json_int_t)hist->count, "errors", (json_int_t)bench->errors[what],
                             "per_second", seconds > 0 ? count / seconds : 0.0, "mean_ms",
                             hist->count ? (double)hist->sum_us / count / 1000 : 0.0);

    ASSERT(item);
    for (size_t i = 0; i < sizeof(percentiles) / sizeof(percentiles[0]); i++) {
        uint64_t us = hist_us(hist, percentiles[i].thousandths);

        (void)json_object_set_new(item, percentiles[i].name, json_real((double)us / 1000));
    }
    (void)json_object_set_new(item, "max_ms", json_real((double)hist->max_us / 1000));
    return item;
}

static void print(const struct bench *bench, const char *kind)
{
    static const struct out_column columns[] = {{"WHAT", "what", false},
                                                {"COUNT", "count", true},
                                                {"ERRORS", "errors", true},
                                                {"PER-S", "per_second", true},
                                                {"MEAN-MS", "mean_ms", true},
                                                {"P50", "p50_ms", true},
                                                {"P90", "p90_ms", true},
                                                {"P99", "p99_ms", true},
                                                {"P99.9", "p999_ms", true},
                                                {"MAX", "max_ms", true},
                                                {.title = NULL}};
    struct out out = bench->cli->out;
    json_t *list = json_array();

    for (int i = 0; i < BENCH_WHATS; i++) {
        if (bench->hists[i].count + bench->errors[i] > 0) {
            (void)json_array_append_new(list, figures_of(bench, (enum bench_what)i));
        }
    }

    json_t *value =
        json_pack("{s:s,s:i,s:I,s:I,s:I,s:i,s:o}", "kind", kind, "clients", bench->clients, "size",
                  (json_int_t)bench->size, "znodes", (json_int_t)bench->znodes, "ms",
                  (json_int_t)(bench->end_ms - bench->start_ms), "endpoints",
                  client_endpoints(bench->cli->client)->count, "results", list);

    out.format = out.format == SETTINGS_TEXT ? SETTINGS_TABLE : out.format;
    out_list(&out, value, "results", columns);
    json_decref(value);
}

/* Figures of nothing are none. */
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

/* Only those that serve are driven. CMD_OK, or reported. */
static int choose_endpoints(struct cli *cli)
{
    struct replicas *replicas = mem_zalloc(1, sizeof(*replicas));
    struct endpoints *endpoints = client_endpoints(cli->client);
    int code = replicas_ask(cli, "/status/v1", replicas);
    int kept = 0;

    for (int i = 0; code == CMD_OK && i < replicas->count; i++) {
        const struct replicas_answer *answer = &replicas->answers[i];

        if (answer->status == HTTP_OK && json_is_true(jsonr_at(answer->json, "serving"))) {
            (void)snprintf(endpoints->urls[kept++], ENDPOINT_MAX, "%s", answer->url);
        }
    }
    if (code == CMD_OK && kept == 0) {
        code = cli_fail(cli, CMD_NO_ENSEMBLE, "NoEnsemble",
                        "no replica serves at %s; check that the ensemble is running and that "
                        "--endpoints is right",
                        cli->settings.endpoints);
    } else if (code == CMD_OK) {
        endpoints->count = kept;
        endpoints->current = 0;
    }
    replicas_release(replicas);
    mem_free(replicas);
    return code;
}

static int run_made(struct bench *bench, const char *kind)
{
    int code = make_znodes(bench);

    if (code != CMD_OK) {
        return code == CMD_TIMED_OUT && clean_up(bench) != CMD_OK ? CMD_PARTLY : code;
    }
    if (!bench->watches) {
        code = fill_znodes(bench);
    }
    if (code == CMD_OK && !stopped) {
        bench->stopped = &stopped;
        bench_run(bench);
        code = tell(bench, kind);
    }

    int cleaned = clean_up(bench);

    return code == CMD_OK && cleaned != CMD_OK ? CMD_PARTLY : code;
}

static bool take_options(struct bench *bench, int64_t *ret_percent)
{
    struct cli *cli = bench->cli;
    int64_t clients = 0;
    bool taken =
        cli_number(cli, "clients", (struct args_range){1, CLIENTS_MAX, CLIENTS_DEFAULT},
                   &clients) &&
        cli_duration(cli, "time", (struct args_range){1, TIME_MAX_MS, TIME_DEFAULT_MS},
                     &bench->time_ms) &&
        cli_number(cli, "size", (struct args_range){0, DATA_MAX, SIZE_DEFAULT}, &bench->size) &&
        cli_number(cli, "znodes", (struct args_range){1, ZNODES_MAX, ZNODES_DEFAULT},
                   &bench->znodes) &&
        cli_number(cli, "reads", (struct args_range){0, BENCH_PERCENT, READS_DEFAULT}, ret_percent);

    bench->clients = (int)clients;
    return taken;
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
        (void)sigaction(SIGHUP, &action, NULL); /* Its znodes must not stay behind. */
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
    struct bench *bench = mem_zalloc(1, sizeof(*bench));
    int64_t percent = 0;
    int code = CMD_USAGE;

    kind = kind ? kind : "mix";
    bench->cli = cli;
    bench->watches = strcmp(kind, "watch") == 0;
    if (!bench->watches && strcmp(kind, "read") != 0 && strcmp(kind, "write") != 0 &&
        strcmp(kind, "mix") != 0) {
        (void)cli_usage(cli, "\"%s\" is not one of read, write, mix, watch", kind);
    } else if (take_options(bench, &percent)) {
        bench->reads_percent = strcmp(kind, "read") == 0    ? BENCH_PERCENT
                               : strcmp(kind, "write") == 0 ? 0
                                                            : (int)percent;
        code = run_bench(bench, kind);
    }
    mem_free(bench);
    return code;
}

static const struct cmd_option options[] = {
    {"clients", 'c', "N", "connections over all endpoints (16); for watch: streams", NULL},
    {"time", 't', "TIME", "duration (5s)", NULL},
    {"size", 's', "BYTES", "data size of a znode (100)", NULL},
    {"znodes", 0, "N", "number of znodes to read and write (100)", NULL},
    {"reads", 0, "PERCENT", "share of reads in a mix (90)", NULL},
    {.name = NULL},
};

static const struct cmd_example examples[] = {
    {"zabra bench", "nine reads to one write, for 5 seconds"},
    {"zabra bench write -c 64 -t 30s -o json", "JSON for programs"},
    {"zabra bench watch -c 1000", "time from the start of a write to the arrival of its event"},
    {.line = NULL},
};

const struct cmd cmd_bench = {
    .name = "bench",
    .summary = "measure the latency and throughput of reads, writes or watches",
    .usage = "[read|write|mix|watch]",
    .text = "Each client sends its next request as soon as it has an answer. The default is\n"
            "a mix of reads and writes. All znodes are below /zabra-bench-..., which is\n"
            "deleted at the end, also after Ctrl-C (a second Ctrl-C ends at once). This puts\n"
            "load on the ensemble: do not run it against one in production. Exit code 9 when\n"
            "some requests failed.\n",
    .options = options,
    .examples = examples,
    .operands = {CMD_OPERAND_TEXT},
    .operands_max = 1,
    .run = run,
};
