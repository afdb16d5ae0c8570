/*
 * The command words: four letters, an answer in text, the end of the connection. The names in the
 * answers are those of ZooKeeper, so that existing exporters and alerts read them. The figures are
 * those of the metrics.
 */
#include "zk/zk_int.h"

#include <inttypes.h>

enum {
    METRICS_MAX = 4 << 20,
    MICROS = 1000 /* In a millisecond. */
};

/* The release of ZooKeeper whose behaviour clients may expect; some of them look at it. */
#define ZK_RELEASE "3.9.0-zabra-" ZABRA_VERSION

static const char not_serving[] = "This ZooKeeper instance is not currently serving requests\n";

struct words {
    struct zk *zk;
    struct buf *out;
    struct buf metrics; /* The metrics of this replica as text. */
    struct gate_status status;
};

/* Returns the value of a metric without labels; 0 if there is none. */
static uint64_t figure(const struct words *words, const char *name)
{
    struct slice rest = buf_slice(&words->metrics);
    size_t len = strlen(name);

    while (rest.len > 0) {
        struct slice line = slice_cut(&rest, '\n');

        if (line.len > len + 1 && memcmp(line.data, name, len) == 0 && line.data[len] == ' ') {
            uint64_t value = 0;

            for (size_t i = len + 1; i < line.len && line.data[i] >= '0' && line.data[i] <= '9';
                 i++) {
                value = 10 * value + (uint64_t)(line.data[i] - '0');
            }
            return value;
        }
    }
    return 0;
}

/* Fractions of a millisecond matter to no reader of these lines. */
static uint64_t average_ms(const struct zk_latency *latency)
{
    return latency->count > 0 ? latency->sum_us / latency->count / MICROS : 0;
}

/* Whether there are no other replicas: then monitoring of ZooKeeper expects no followers. */
static bool is_alone(const struct words *words)
{
    return words->status.members == 1;
}

static const char *mode(const struct words *words)
{
    return is_alone(words) ? "standalone" : words->status.role;
}

static void put_counters(struct words *words)
{
    const struct zk *zk = words->zk;
    const struct zk_latency *latency = &zk->latency;

    (void)buf_printf(words->out,
                     "Latency min/avg/max: %" PRIu64 "/%" PRIu64 "/%" PRIu64 "\n"
                     "Received: %" PRIu64 "\nSent: %" PRIu64 "\nConnections: %" PRIu64
                     "\nOutstanding: %" PRIu64 "\nZxid: 0x%" PRIx64
                     "\nMode: %s\nNode count: %" PRIu64 "\n",
                     latency->least_us / MICROS, average_ms(latency), latency->most_us / MICROS,
                     metric_get(&zk->metrics.requests), metric_get(&zk->metrics.replies),
                     metric_get(&zk->metrics.connections), zk->inside, words->status.applied,
                     mode(words), figure(words, "zabra_znodes"));
}

static void put_version(struct words *words)
{
    (void)buf_append_str(words->out, "Zookeeper version: " ZK_RELEASE ", built on unknown\n");
}

static void put_conn(struct words *words, const struct zk_conn *conn, bool details)
{
    (void)buf_printf(words->out, " /%s[%d](queued=%u,recved=%u,sent=%u", conn->principal.address,
                     conn->state == ZK_OPEN, conn->count, conn->received, conn->replied);
    if (details && conn->session.id != 0) {
        (void)buf_printf(words->out, ",sid=0x%" PRIx64 ",to=%u,lzxid=0x%" PRIx64 ",age=%" PRIu64,
                         conn->session.id, conn->session.timeout_ms, conn->seen,
                         os_now_ms() - conn->since_ms);
    }
    (void)buf_append_str(words->out, ")\n");
}

static void put_conns(struct words *words, bool details)
{
    list_for_each_entry (struct zk_conn, conn, node, &words->zk->conns) {
        put_conn(words, conn, details);
    }
}

static void say_ruok(struct words *words)
{
    (void)buf_append_str(words->out, "imok");
}

static void say_isro(struct words *words)
{
    (void)buf_append_str(words->out, words->zk->limits->read_only ? "ro" : "rw");
}

static void say_srvr(struct words *words)
{
    put_version(words);
    put_counters(words);
}

static bool is_allowed(const struct zk *zk, struct slice name)
{
    struct slice rest = slice_str(zk->limits->zk_words);

    while (rest.len > 0) {
        struct slice one = slice_cut(&rest, ',');

        if (slice_eq(one, name) || slice_eq(one, slice_str("*"))) {
            return true;
        }
    }
    return false;
}

static void say_stat(struct words *words)
{
    put_version(words);
    (void)buf_append_str(words->out, "Clients:\n");
    if (is_allowed(words->zk, slice_str("cons"))) { /* Addresses are not for every client. */
        put_conns(words, false);
    }
    (void)buf_append_str(words->out, "\n");
    put_counters(words);
}

static void say_cons(struct words *words)
{
    put_conns(words, true);
    (void)buf_append_str(words->out, "\n");
}

static void say_envi(struct words *words)
{
    (void)buf_append_str(words->out, "Environment:\nzookeeper.version=" ZK_RELEASE
                                     ", built on unknown\nserver.name=zabra\n"
                                     "server.version=" ZABRA_VERSION "\n");
}

static void say_conf(struct words *words)
{
    const struct config_clients *limits = words->zk->limits;

    (void)buf_printf(words->out,
                     "clientPort=%u\nclientPortAddress=%s\nsecureClientPort=%d\nmaxClientCnxns=%u\n"
                     "maxCnxns=%u\njute.maxbuffer=%u\nserverId=%u\nreadonlymode.enabled=%s\n",
                     limits->client_port, limits->client_address,
                     limits->tls.mode == CONFIG_TLS_OFF ? -1 : limits->client_port,
                     limits->connections_per_address_max, limits->connections_max,
                     limits->data_bytes_max, words->status.id,
                     limits->read_only ? "true" : "false");
}

static void put_number(struct words *words, const char *name, uint64_t value)
{
    (void)buf_printf(words->out, "zk_%s\t%" PRIu64 "\n", name, value);
}

static void put_figure(struct words *words, const char *name, const char *metric)
{
    put_number(words, name, figure(words, metric));
}

static bool leads(const struct words *words)
{
    return strcmp(words->status.role, "leader") == 0;
}

/* What a member of an ensemble says, beside what each server says. */
static void put_ensemble(struct words *words)
{
    const struct gate_status *status = &words->status;
    bool observes = strcmp(status->role, "observer") == 0;
    const char *learns = observes ? "observing" : "following";

    (void)buf_printf(words->out, "zk_peer_state\t%s - broadcast\n",
                     leads(words) ? "leading" : learns);
    put_number(words, "quorum_size", status->voters);
    put_figure(words, "looking_count", "zabra_elections_total");
    if (!leads(words)) {
        return;
    }
    put_number(words, "learners", status->followers + status->observers);
    put_number(words, "followers", status->followers);
    put_number(words, "synced_followers", status->synced_followers);
    put_number(words, "synced_observers", status->synced_observers);
    put_number(words, "synced_non_voting_followers", 0);
    put_figure(words, "pending_syncs", "zabra_refills");
    put_figure(words, "proposal_count", "zabra_proposals_total");
}

static void say_mntr(struct words *words)
{
    const struct zk *zk = words->zk;
    const struct zk_latency *latency = &zk->latency;

    (void)buf_printf(words->out, "zk_version\t" ZK_RELEASE ", built on unknown\n");
    (void)buf_printf(words->out, "zk_server_state\t%s\n", mode(words));
    put_number(words, "uptime", words->status.uptime_ms);
    put_number(words, "avg_latency", average_ms(latency));
    put_number(words, "max_latency", latency->most_us / MICROS);
    put_number(words, "min_latency", latency->least_us / MICROS);
    put_number(words, "packets_received", metric_get(&zk->metrics.requests));
    put_number(words, "packets_sent", metric_get(&zk->metrics.replies));
    put_number(words, "num_alive_connections", metric_get(&zk->metrics.connections));
    put_number(words, "outstanding_requests", zk->inside);
    put_figure(words, "znode_count", "zabra_znodes");
    put_number(words, "watch_count", watch_table_count(subscribe_table(zk->subscriber)));
    put_figure(words, "ephemerals_count", "zabra_ephemerals");
    put_figure(words, "approximate_data_size", "zabra_approximate_data_bytes");
    put_figure(words, "open_file_descriptor_count", "process_open_fds");
    put_figure(words, "max_file_descriptor_count", "process_max_fds");
    put_figure(words, "global_sessions", "zabra_sessions");
    put_number(words, "local_sessions", 0);
    if (!is_alone(words)) {
        put_ensemble(words);
    }
}

static void say_dirs(struct words *words)
{
    (void)buf_printf(words->out, "logdir_size: %" PRIu64 "\n", figure(words, "zabra_log_bytes"));
}

static void say_wchs(struct words *words)
{
    const struct watch_table *table = subscribe_table(words->zk->subscriber);
    uint64_t conns = 0;

    list_for_each_entry (struct zk_conn, conn, node, &words->zk->conns) {
        conns += conn->owner.count > 0 ? 1 : 0;
    }
    (void)buf_printf(words->out, "%" PRIu64 " connections watching\nTotal watches:%zu\n", conns,
                     watch_table_count(table));
}

static void put_path(struct words *words, const struct watch *watch)
{
    (void)buf_append_str(words->out, "\t");
    (void)buf_append_slice(words->out, watch_path(watch));
    (void)buf_append_str(words->out, "\n");
}

/* Watches by session. */
static void say_wchc(struct words *words)
{
    list_for_each_entry (struct zk_conn, conn, node, &words->zk->conns) {
        if (conn->owner.count > 0) {
            (void)buf_printf(words->out, "0x%" PRIx64 "\n", conn->session.id);
        }
        list_for_each_entry (struct watch, watch, by_owner, &conn->owner.watches) {
            put_path(words, watch);
        }
    }
    (void)buf_append_str(words->out, "\n");
}

/* Watches by path: each with its session, without grouping. */
static void say_wchp(struct words *words)
{
    list_for_each_entry (struct zk_conn, conn, node, &words->zk->conns) {
        list_for_each_entry (struct watch, watch, by_owner, &conn->owner.watches) {
            (void)buf_append_slice(words->out, watch_path(watch));
            (void)buf_printf(words->out, "\n\t0x%" PRIx64 "\n", conn->session.id);
        }
    }
    (void)buf_append_str(words->out, "\n");
}

/* Sessions of this replica's clients. */
static void say_dump(struct words *words)
{
    uint64_t count = 0;

    list_for_each_entry (struct zk_conn, conn, node, &words->zk->conns) {
        count += conn->session.id != 0 ? 1 : 0;
    }
    (void)buf_printf(words->out, "SessionTracker dump:\nGlobal Sessions(%" PRIu64 "):\n", count);
    list_for_each_entry (struct zk_conn, conn, node, &words->zk->conns) {
        if (conn->session.id != 0) {
            (void)buf_printf(words->out, "0x%" PRIx64 "\t%ums\n", conn->session.id,
                             conn->session.timeout_ms);
        }
    }
    (void)buf_printf(words->out, "Connections dump:\nConnections(%" PRIu64 ")\n",
                     metric_get(&words->zk->metrics.connections));
}

struct word {
    const char *name;
    bool always;  /* Answered also by a replica that does not serve. */
    bool counted; /* The answer has figures of the metrics. */
    void (*say)(struct words *words);
};

static const struct word all[] = {
    {"ruok", true, false, say_ruok},  {"isro", true, false, say_isro},
    {"envi", true, false, say_envi},  {"conf", true, false, say_conf},
    {"srvr", false, true, say_srvr},  {"stat", false, true, say_stat},
    {"mntr", false, true, say_mntr},  {"cons", false, false, say_cons},
    {"dirs", false, true, say_dirs},  {"wchs", false, false, say_wchs},
    {"wchc", false, false, say_wchc}, {"wchp", false, false, say_wchp},
    {"dump", false, false, say_dump},
};

static void say(struct zk *zk, const struct word *word, struct buf *out)
{
    struct words words = {.zk = zk, .out = out};
    const char *why = NULL;

    if (!word->always && gate_check_local(zk->gate, &why) != ERR_OK) {
        (void)buf_append_str(out, not_serving);
        return;
    }
    gate_status(zk->gate, &words.status);
    buf_init(&words.metrics, METRICS_MAX);
    if (word->counted) {
        gate_write_metrics(zk->gate, &words.metrics);
    }
    word->say(&words);
    buf_release(&words.metrics);
}

static const struct word *find(struct slice name)
{
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (slice_eq(slice_str(all[i].name), name)) {
            return &all[i];
        }
    }
    return NULL;
}

void zk_words_answer(struct zk_conn *conn, struct slice name)
{
    struct zk *zk = conn->zk;
    struct buf *out = zk_out_begin(conn);
    size_t at = out->len;

    const struct word *word = find(name);

    if (!word) {
        zk_close_lost(conn, "bad_frame");
        return;
    }
    if (is_allowed(zk, name)) {
        say(zk, word, out);
    } else {
        (void)buf_append_slice(out, name);
        (void)buf_append_str(out, " is not executed because it is not in the whitelist.\n");
    }
    metric_add(&zk->metrics.words, 1);
    (void)zk_out_end(conn, at);
    conn->frame_left = (uint32_t)(out->len - at); /* Over TLS: it has no length in front. */
    zk_close_lost(conn, "word");
}
