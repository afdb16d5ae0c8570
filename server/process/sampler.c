/*
 * The thread that reads the counters once a second and keeps the differences for plots. Like a
 * scrape, it reads atomics, the core's publication, and for a moment the tree under the read lock.
 */
#include "base/os_disk.h"
#include "base/os_process.h"
#include "server/op/ops.h"
#include "server/process/server_int.h"

#include <math.h>

enum {
    STEP_MS = 1000,
    COARSE_MS = TREND_COARSE_S * STEP_MS,
    TRIM_MS = 3000, /* Shortest time between two returns of memory to the system. */
    /* Memory is returned when the unsent bytes have fallen by TRIM_BYTES from their peak since the
     * last return. If TRIM_REST_BYTES or more were still unsent at the last return, a fall by
     * TRIM_REST_BYTES is enough. */
    TRIM_BYTES = 32 << 20,
    TRIM_REST_BYTES = 1 << 20
};

/* ---- Counters. ---- */

static void count_operations(const struct gate *gate, struct sampler_counts *counts)
{
    for (const struct op_def *def = ops_table(); def->name; def++) {
        if (def->kind == OP_KIND_READ) {
            metric_add_buckets(&gate->op_time[def->id], counts->reads);
        } else if (def->kind == OP_KIND_WRITE || def->kind == OP_KIND_SYNC) {
            metric_add_buckets(&gate->op_time[def->id], counts->writes);
        }
        counts->errors += metric_get(&gate->op_failed[def->id]);
    }
    counts->throttled = metric_get(&gate->throttled);
}

static void take_counts(struct server *server, struct sampler_counts *counts)
{
    struct gate_front_figures front;

    *counts = (struct sampler_counts){.at_us = os_now_us(), .cpu_us = os_cpu_us()};
    count_operations(&server->gate, counts);
    metric_add_buckets(&server->log.sync_time, counts->syncs);
    gate_front_figures(&server->gate, &front);
    counts->events = front.events;
    counts->native_requests = front.native_requests;
    MUTEX_HOLD(&server->gate.mutex);
    counts->txns = server->gate.published.replica.counts.delivered;
    counts->expired = server->gate.published.replica.counts.expired;
    counts->peer_in = server->gate.published.tcp.bytes_in;
    counts->peer_out = server->gate.published.tcp.bytes_out;
}

static uint64_t subtract(const uint64_t now[METRIC_BUCKETS], const uint64_t before[METRIC_BUCKETS],
                         uint64_t ret_counts[METRIC_BUCKETS])
{
    uint64_t total = 0;

    for (size_t i = 0; i < METRIC_BUCKETS; i++) {
        ret_counts[i] = now[i] - before[i];
        total += ret_counts[i];
    }
    return total;
}

static float in_ms(double us)
{
    return us < 0 ? NAN : (float)(us / 1000);
}

/* Sets the rate at `to`, and p50 and p99 of the latency from the index `quantiles` on. */
static void put_times(float *to, double seconds, const uint64_t now[METRIC_BUCKETS],
                      const uint64_t before[METRIC_BUCKETS], size_t quantiles)
{
    uint64_t counts[METRIC_BUCKETS];

    *to = (float)((double)subtract(now, before, counts) / seconds);
    to[quantiles] = in_ms(metric_quantile_of(counts, 500));
    to[quantiles + 1] = in_ms(metric_quantile_of(counts, 990));
}

static float rate(uint64_t now, uint64_t before, double seconds)
{
    return (float)((double)(now - before) / seconds);
}

static void put_rates(const struct sampler_counts *now, const struct sampler_counts *before,
                      float *values)
{
    double seconds = (double)(now->at_us - before->at_us) / 1e6;

    put_times(values + TREND_READS, seconds, now->reads, before->reads,
              TREND_READ_P50 - TREND_READS);
    put_times(values + TREND_WRITES, seconds, now->writes, before->writes,
              TREND_WRITE_P50 - TREND_WRITES);
    put_times(values + TREND_SYNCS, seconds, now->syncs, before->syncs,
              TREND_SYNC_P50 - TREND_SYNCS);
    values[TREND_ERRORS] = rate(now->errors, before->errors, seconds);
    values[TREND_THROTTLED] = rate(now->throttled, before->throttled, seconds);
    values[TREND_TXNS] = rate(now->txns, before->txns, seconds);
    values[TREND_EVENTS] = rate(now->events, before->events, seconds);
    values[TREND_NATIVE_OPS] = rate(now->native_requests, before->native_requests, seconds);
    values[TREND_EXPIRED] = rate(now->expired, before->expired, seconds);
    values[TREND_PEER_IN] = rate(now->peer_in, before->peer_in, seconds);
    values[TREND_PEER_OUT] = rate(now->peer_out, before->peer_out, seconds);
    values[TREND_CPU] = rate(now->cpu_us, before->cpu_us, seconds * 1e6);
}

/* ---- Gauges. ---- */

static void put_state(struct server *server, float *values)
{
    const struct state *state = view_read(server->view);

    values[TREND_SESSIONS] = state ? (float)state_session_count(state) : NAN;
    values[TREND_ZNODES] = state ? (float)state_node_count(state) : NAN;
    values[TREND_EPHEMERALS] = state ? (float)state_ephemeral_count(state) : NAN;
    values[TREND_DATA] = state ? (float)state_data_bytes(state) : NAN;
    if (state) {
        view_read_done(server->view);
    }
}

static void put_gauges(struct server *server, float *values)
{
    struct gate_status status;
    struct store_figures store;
    struct gate_front_figures front;

    gate_front_figures(&server->gate, &front);
    gate_status(&server->gate, &status);
    store_figures(server->store, &store);
    values[TREND_OUTSTANDING] = (float)status.queue;
    values[TREND_LOG_QUEUE] = (float)mailbox_count(&server->log.inbox);
    values[TREND_BEHIND] = (float)zxid_behind(status.committed, status.applied);
    values[TREND_LAG] = (float)status.lag_ms;
    values[TREND_SERVING] = status.serving ? 1 : 0;
    values[TREND_LOG] = (float)store.log_bytes;
    values[TREND_MEMORY] = (float)os_memory_bytes();
    values[TREND_CONNECTIONS] = (float)front.connections;
    values[TREND_SOCKETS] = (float)front.sockets;
    values[TREND_STREAMS] = (float)front.streams;
    values[TREND_NATIVE] = (float)front.natives;
    values[TREND_WATCHES] = (float)front.watches;
    put_state(server, values);
}

/* ---- Memory. ---- */

/* Returns freed memory of answers and events to the system. The heap would keep this memory, for
 * ever if the thread that used it sleeps. */
static void return_memory(struct server *server, uint64_t now_ms)
{
    struct sampler *sampler = &server->sampler;
    struct budget *unsent = &server->gate.unsent;
    uint64_t used = budget_used(unsent);
    uint64_t least = sampler->trim_rest ? TRIM_REST_BYTES : TRIM_BYTES;

    sampler->unsent_peak = max_u64(sampler->unsent_peak, budget_peak(unsent));
    if (sampler->unsent_peak >= used + least && now_ms >= sampler->trim_ms) {
        mem_trim();
        sampler->unsent_peak = used;
        sampler->trim_ms = now_ms + TRIM_MS;
        sampler->trim_rest = used >= TRIM_REST_BYTES;
    }
}

/* ---- The thread. ---- */

/* Sets the quantiles of the sync time to those of the syncs in the present coarse step so far. If
 * it has none, the old quantiles stay. */
static void note_syncs(struct sampler *sampler, const struct sampler_counts *now)
{
    uint64_t counts[METRIC_BUCKETS];

    if (subtract(now->syncs, sampler->coarse.syncs, counts) > 0) {
        atomic_store(&sampler->sync_p50_us, (uint32_t)ceil(metric_quantile_of(counts, 500)));
        atomic_store(&sampler->sync_p99_us, (uint32_t)ceil(metric_quantile_of(counts, 990)));
    }
}

/* Asks here, because a file system may keep its caller waiting: that delays plots only. */
static void note_disk(struct server *server)
{
    uint64_t bytes = 0;
    bool known = os_disk_free(server->config->storage.data_dir, &bytes);

    atomic_store(&server->sampler.disk_free, bytes);
    atomic_store(&server->sampler.disk_known, known);
}

static void sample(struct server *server, uint64_t now_ms)
{
    struct sampler *sampler = &server->sampler;
    struct sampler_counts now;
    float values[TREND_COUNT];

    take_counts(server, &now);
    put_gauges(server, values);
    put_rates(&now, &sampler->fine, values);
    trend_put(sampler->trend, TREND_FINE_S, now_ms, os_wall_ms(), values);
    note_syncs(sampler, &now);
    sampler->fine = now;
    if (now_ms / COARSE_MS != sampler->coarse_slot) {
        sampler->coarse_slot = now_ms / COARSE_MS;
        put_rates(&now, &sampler->coarse, values);
        trend_put(sampler->trend, TREND_COARSE_S, now_ms, os_wall_ms(), values);
        sampler->coarse = now;
        note_disk(server);
    }
}

/* Returns the middle of the next step. The thread wakes then, so that jitter stays in the same
 * step. After a pause of the process, one sample covers all the time of the pause. */
static uint64_t middle_after(uint64_t now_ms)
{
    return (now_ms / STEP_MS + 1) * STEP_MS + STEP_MS / 2;
}

static void run(void *arg)
{
    struct server *server = arg;
    struct sampler *sampler = &server->sampler;
    uint64_t next_ms = middle_after(os_now_ms());

    take_counts(server, &sampler->fine);
    sampler->coarse = sampler->fine;
    sampler->coarse_slot = os_now_ms() / COARSE_MS;
    note_disk(server);
    while (!mailbox_is_closed(&sampler->ended)) {
        uint64_t now_ms = os_now_ms();

        if (now_ms >= next_ms) {
            sample(server, now_ms);
            gate_guard_log(&server->gate, now_ms);
            return_memory(server, now_ms);
            next_ms = middle_after(now_ms);
        } else {
            (void)mailbox_wait(&sampler->ended, (int)(next_ms - now_ms));
        }
    }
}

void sampler_start(struct server *server)
{
    struct sampler *sampler = &server->sampler;

    mailbox_init(&sampler->ended, 1);
    thread_start(&sampler->thread, "zabra-sample", run, server);
}

void sampler_stop(struct server *server)
{
    struct sampler *sampler = &server->sampler;

    mailbox_close(&sampler->ended);
    thread_join(&sampler->thread);
    mailbox_release(&sampler->ended);
}
