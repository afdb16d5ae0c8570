/* All metrics, as Prometheus text. */
#include "base/os_files.h"
#include "base/os_process.h"
#include "server/op/ops.h"
#include "server/process/server_int.h"

static void gauge(struct buf *out, const char *name, const char *help, uint64_t value)
{
    metric_head(out, name, "gauge", help);
    metric_put(out, name, NULL, value);
}

static void counter(struct buf *out, const char *name, const char *help, uint64_t value)
{
    metric_head(out, name, "counter", help);
    metric_put(out, name, NULL, value);
}

static void seconds(struct buf *out, const char *name, const char *type, const char *help,
                    double value)
{
    metric_head(out, name, type, help);
    metric_put_double(out, name, NULL, value);
}

static void histogram(struct buf *out, const char *name, const char *help,
                      const struct metric_histogram *values)
{
    metric_head(out, name, "histogram", help);
    metric_put_histogram(out, name, NULL, values);
}

/* Writes one line of a metric whose head is written already: name{label="value"}. */
static void put_labelled(struct buf *out, const char *name, const char *label, const char *value,
                         uint64_t number)
{
    char labels[64];

    (void)snprintf(labels, sizeof labels, "%s=\"%s\"", label, value);
    metric_put(out, name, labels, number);
}

static void write_operations(struct gate *gate, struct buf *out)
{
    char labels[64];

    metric_head(out, "zabra_operation_seconds", "histogram",
                "Time from request to answer, by operation.");
    for (const struct op_def *def = ops_table(); def->name; def++) {
        (void)snprintf(labels, sizeof labels, "op=\"%s\"", def->name);
        metric_put_histogram(out, "zabra_operation_seconds", labels, &gate->op_time[def->id]);
    }
    metric_head(out, "zabra_operation_errors_total", "counter",
                "Operations answered with an error, by operation.");
    for (const struct op_def *def = ops_table(); def->name; def++) {
        put_labelled(out, "zabra_operation_errors_total", "op", def->name,
                     metric_get(&gate->op_failed[def->id]));
    }
    counter(out, "zabra_throttled_total", "Requests refused because maxRequests were in flight.",
            metric_get(&gate->throttled));
}

static void write_credentials(struct gate *gate, struct buf *out)
{
    static const char *const kinds[GATE_FAILURES] = {"password", "super", "malformed", "session"};

    metric_head(out, "zabra_failed_credentials_total", "counter",
                "Credentials that were wrong, by kind.");
    for (size_t i = 0; i < GATE_FAILURES; i++) {
        put_labelled(out, "zabra_failed_credentials_total", "kind", kinds[i],
                     metric_get(&gate->guard.failed[i]));
    }
    counter(out, "zabra_slowed_credentials_total",
            "Credentials refused unchecked: too many passwords of that user have failed.",
            metric_get(&gate->guard.slowed));
    counter(out, "zabra_share_refused_total",
            "Writes with a key refused because their client has used up its share.",
            metric_get(&gate->share_refused));
}

static void write_state(struct gate *gate, struct buf *out)
{
    struct gate_figures figures;

    gate_figures(gate, &figures);
    gauge(out, "zabra_znodes", "Znodes in the tree.", figures.nodes);
    gauge(out, "zabra_approximate_data_bytes", "Bytes of data and names in the tree.",
          figures.data_bytes);
    gauge(out, "zabra_tree_bytes", "Memory that the tree takes, as maxTreeBytes counts it.",
          figures.memory_bytes);
    gauge(out, "zabra_ephemerals", "Ephemeral znodes.", figures.ephemerals);
    gauge(out, "zabra_sessions", "Open sessions of the ensemble.", figures.sessions);
    gauge(out, "zabra_remembered_results", "Results kept for an Idempotency-Key.",
          figures.remembered);
    gauge(out, "zabra_remembered_result_bytes", "Bytes of results kept for an Idempotency-Key.",
          figures.remembered_bytes);
    gauge(out, "zabra_quotas_exceeded", "Quotas whose soft limits (count, bytes) are exceeded.",
          figures.quotas_exceeded);
}

static void write_sessions(struct gate *gate, const struct replica_status *replica, struct buf *out)
{
    counter(out, "zabra_sessions_expired_total", "Silent sessions ended by this replica as leader.",
            replica->counts.expired);
    counter(out, "zabra_session_touches_total", "Renewals of sessions at this replica.",
            touch_count(gate->server->touched));
    counter(out, "zabra_session_touches_lost_total",
            "Renewals of sessions dropped because a report was full.",
            metric_get(&gate->touches_lost));
}

static void write_window(struct gate *gate, struct buf *out)
{
    struct window_extent extent;

    window_extent(gate->server->window, &extent);
    gauge(out, "zabra_window_base_zxid", "Oldest zxid to resume a watch from.", extent.base);
    gauge(out, "zabra_window_transactions", "Recent transactions kept for watchers.", extent.sets);
    gauge(out, "zabra_window_bytes", "Bytes of transactions kept for watchers.", extent.bytes);
    counter(out, "zabra_window_restarts_total", "Times that the whole state was replaced.",
            extent.restarts);
}

static void write_role(struct gate *gate, const struct publication *published, struct buf *out)
{
    static const char *const roles[] = {"leader", "follower", "observer", "looking", "quarantine"};
    struct gate_status status;

    gate_status(gate, &status);
    metric_head(out, "zabra_role", "gauge", "1 for the current role of this replica.");
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
        put_labelled(out, "zabra_role", "role", roles[i], strcmp(roles[i], status.role) == 0);
    }
    gauge(out, "zabra_serving",
          "1 when in step with an established leader, and able to write its log.",
          status.serving ? 1 : 0);
    gauge(out, "zabra_epoch", "Current epoch.", status.epoch);
    gauge(out, "zabra_level", "Feature level of the ensemble.", published->config.level);
    gauge(out, "zabra_applied_zxid", "Newest zxid applied.", status.applied);
    gauge(out, "zabra_committed_zxid", "Newest zxid known to be committed.", status.committed);
    gauge(out, "zabra_logged_zxid", "Newest zxid in the log.", status.logged);
    seconds(out, "zabra_leader_lag_seconds", "gauge",
            "Time since this replica last heard from a leader with a quorum.",
            (double)status.lag_ms / 1000.0);
    seconds(out, "zabra_clock_ahead_seconds", "gauge",
            "This replica's wall clock minus the time of the clocks of a majority.",
            (double)published->replica.clock_ahead_ms / 1000.0);
}

static void write_replica(const struct publication *published, struct buf *out)
{
    const struct replica_status *replica = &published->replica;
    size_t synced = 0;

    for (size_t i = 0; i < published->peer_count; i++) {
        synced += published->peers[i].synced ? 1 : 0;
    }
    gauge(out, "zabra_outstanding_requests", "Writes and quorum reads in flight.",
          replica->requests);
    gauge(out, "zabra_tree_bytes_max",
          "The smallest maxTreeBytes of the voters in step; 0 without a limit.",
          replica->room.bytes_max);
    counter(out, "zabra_tree_full_total",
            "Requests that this leader refused because of maxTreeBytes.",
            replica->counts.tree_refused);
    counter(out, "zabra_disk_full_periods_total",
            "Times that this leader began to refuse writes because disks were full.",
            replica->counts.low_periods);
    counter(out, "zabra_proposals_total", "Transactions proposed as leader.",
            replica->counts.proposals);
    counter(out, "zabra_delivered_total", "Transactions applied.", replica->counts.delivered);
    counter(out, "zabra_retried_requests_total",
            "Requests that this replica retried after a change of leader.",
            replica->counts.retried);
    counter(out, "zabra_elections_total", "Elections that this replica has started.",
            replica->counts.elections);
    gauge(out, "zabra_synced_learners", "Learners in step with this leader.", synced);
    gauge(out, "zabra_refills", "Learners for which this leader keeps log.", replica->zab.refills);
    gauge(out, "zabra_refills_stalled",
          "Connected learners of this leader without progress for 300 ticks.",
          replica->zab.refills_stalled);
}

/* Writes how many connections are sealed, and how. */
static void write_seals(const struct publication *published, struct buf *out)
{
    uint64_t counts[KEYS_SEAL_CERTIFICATE + 1] = {0};

    for_each_link (link, &published->links) {
        counts[link->seal.kind] += link->seal.up ? 1 : 0;
    }
    metric_head(out, "zabra_peer_connections", "gauge",
                "Connections with peers, by what seals them.");
    for (enum keys_seal kind = KEYS_SEAL_NO; kind <= KEYS_SEAL_CERTIFICATE; kind++) {
        put_labelled(out, "zabra_peer_connections", "sealed", keys_seal_name(kind), counts[kind]);
    }
}

static void write_peer_keys(struct peer_keys *keys, struct buf *out)
{
    int64_t expire_s = atomic_load(&keys->expire_s);

    counter(out, "zabra_peer_key_reloads_total",
            "Times that secrets and certificate for peers were read again.",
            metric_get(&keys->reloads));
    counter(out, "zabra_peer_key_reload_errors_total",
            "Times that a changed secret or certificate for peers could not be used.",
            metric_get(&keys->errors));
    gauge(out, "zabra_peer_key_reload_failed", "1 while the last reload has failed.",
          atomic_load(&keys->failed) ? 1 : 0);
    seconds(out, "zabra_peer_certificate_expires_seconds", "gauge",
            "Time until the certificate for peers expires; 0: there is none.",
            expire_s == 0 ? 0 : (double)expire_s - (double)os_wall_ms() / 1e3);
}

static void write_reloads(struct reloads *reloads, struct buf *out)
{
    gauge(out, "zabra_reloads_stuck",
          "Groups of files (TLS, keys for peers, audit) that have been read for more than 10 s.",
          reloads_stuck(reloads));
}

static void write_peers(const struct config *config, const struct publication *published,
                        struct buf *out)
{
    const struct tcp_figures *tcp = &published->tcp;
    uint64_t now_ms = os_now_ms();
    uint64_t ids = 0;

    for_each_link (link, &published->links) {
        ids += core_peer_duplicate(config, link, now_ms) ? 1 : 0;
    }
    gauge(out, "zabra_peers_connected", "Peers connected.", tcp->connected);
    gauge(out, "zabra_waiting_replicas",
          "Connected replicas that are no members and wait to be added.", published->waiting_count);
    write_seals(published, out);
    counter(out, "zabra_peer_received_bytes_total", "Bytes received from peers.", tcp->bytes_in);
    counter(out, "zabra_peer_sent_bytes_total", "Bytes sent to peers.", tcp->bytes_out);
    gauge(out, "zabra_peer_queue_bytes", "Bytes waiting to be sent to peers.", tcp->queued);
    counter(out, "zabra_peer_refused_total", "Peer handshakes that failed.", tcp->refused);
    counter(out, "zabra_peer_tls_failures_total",
            "Connections with peers that TLS has ended: failed handshakes, changed bytes.",
            tcp->unsealed);
    gauge(out, "zabra_duplicate_ids",
          "Ids that two processes claim now, as far as this replica knows.", ids);
    counter(out, "zabra_peer_duplicates_total",
            "Connections refused because another process with that id answers.", tcp->duplicates);
    counter(out, "zabra_peer_skipped_total", "Ignored messages of a later protocol version.",
            tcp->skipped);
}

static void write_storage(struct gate *gate, struct buf *out)
{
    struct server *server = gate->server;
    struct store_figures figures;

    store_figures(server->store, &figures);
    histogram(out, "zabra_log_sync_seconds", "Time to write and sync one batch of the log.",
              &server->log.sync_time);
    counter(out, "zabra_log_operations_total", "Changes that the log thread has made durable.",
            metric_get(&server->log.operations));
    gauge(out, "zabra_log_bytes", "Bytes of log segments on disk.", figures.log_bytes);
    gauge(out, "zabra_log_segments", "Log segments on disk.", figures.segments);
    gauge(out, "zabra_refill_log_bytes",
          "Bytes of log kept for learners beyond the normal retention.", figures.kept_bytes);
    counter(out, "zabra_refill_log_lost_total", "Times that log kept for a learner was purged.",
            figures.keeps_lost);
    gauge(out, "zabra_snapshots", "Sound snapshots on disk.", figures.snapshots);
    gauge(out, "zabra_snapshot_zxid", "Newest zxid in the newest snapshot.",
          figures.snap_newest_end);
    histogram(out, "zabra_snapshot_seconds", "Time to write a snapshot.",
              &server->worker.snapshot_time);
    counter(out, "zabra_snapshot_errors_total", "Snapshots that could not be written.",
            metric_get(&server->worker.snapshot_errors));
    gauge(out, "zabra_disk_low", "1 while there is no room for the next log segment.",
          atomic_load(&server->worker.low) ? 1 : 0);
    gauge(out, "zabra_log_stuck", "1 while the log waits for disk space.",
          atomic_load(&server->log.stuck) ? 1 : 0);
    counter(out, "zabra_log_no_files_total",
            "Times that the log had to wait for a file descriptor.",
            metric_get(&server->log.no_files));
    gauge(out, "zabra_core_queue", "Requests waiting for the core thread.",
          mailbox_count(&server->core.requests));
    gauge(out, "zabra_log_queue", "Batches waiting for the log thread.",
          mailbox_count(&server->log.inbox));
    counter(out, "zabra_log_lines_dropped_total",
            "Log lines dropped because their reader was too slow.", log_dropped());
    counter(out, "zabra_slow_requests_total", "Requests that took longer than slowRequest.",
            metric_get(&server->gate.slow.requests));
    counter(out, "zabra_slow_requests_unlogged_total",
            "Slow requests without a log line, because there were too many.",
            metric_get(&server->gate.slow.unlogged));
    gate_audit_metrics(&server->gate, out);
}

static void write_backups(struct gate *gate, struct buf *out)
{
    struct backups_last last;

    backups_last(&gate->server->backups, &last);
    seconds(out, "zabra_backup_last_seconds", "gauge",
            "Unix time at which this replica last sent a whole backup; 0: not since its start.",
            (double)last.ended_ms / 1e3);
    gauge(out, "zabra_backup_last_zxid", "Zxid at which the last whole backup that was sent ends.",
          last.zxid);
}

static void write_fronts(struct gate *gate, struct buf *out)
{
    MUTEX_HOLD(&gate->mutex);
    for (size_t i = 0; i < GATE_FRONTS; i++) {
        if (gate->fronts[i].metrics) {
            gate->fronts[i].metrics(gate->fronts[i].ctx, out);
        }
    }
}

static void write_unsent(struct gate *gate, struct buf *out)
{
    gauge(out, "zabra_unsent_bytes",
          "Unsent bytes to clients, and old values that they keep in memory.",
          budget_used(&gate->unsent));
    gauge(out, "zabra_unsent_max_bytes", "maxUnsentBytes.", gate->unsent.max);
    counter(out, "zabra_unsent_refused_total",
            "Large answers refused because maxUnsentBytes was used.",
            budget_refusals(&gate->unsent));
}

/* Writes the metrics of the process, under the names that Prometheus' client libraries use. */
static void write_process(struct gate *gate, struct buf *out)
{
    metric_head(out, "zabra_build_info", "gauge", "1 for the running version.");
    put_labelled(out, "zabra_build_info", "version", ZABRA_VERSION, 1);
    seconds(out, "process_cpu_seconds_total", "counter", "Processor time of all threads.",
            (double)os_cpu_us() / 1e6);
    gauge(out, "process_resident_memory_bytes", "Resident memory of the process.",
          os_memory_bytes());
    gauge(out, "process_virtual_memory_bytes", "Address space of the process.", os_address_bytes());
    gauge(out, "process_open_fds", "Open file descriptors.", os_files_open());
    gauge(out, "process_max_fds", "Limit of open file descriptors.", os_files_max());
    gauge(out, "zabra_memory_max_bytes", "Memory of the machine or of the control group.",
          os_memory_max());
    if (atomic_load(&gate->server->sampler.disk_known)) {
        gauge(out, "zabra_disk_free_bytes", "Free bytes of the disk with dataDir.",
              atomic_load(&gate->server->sampler.disk_free));
    }
    seconds(out, "process_start_time_seconds", "gauge", "Unix time of the start of the process.",
            (double)gate->server->start_wall_ms / 1e3);
}

void gate_write_metrics(struct gate *gate, struct buf *out)
{
    struct publication *published = gate_published(gate);

    write_process(gate, out);
    write_role(gate, published, out);
    write_operations(gate, out);
    write_credentials(gate, out);
    write_state(gate, out);
    write_sessions(gate, &published->replica, out);
    write_window(gate, out);
    write_replica(published, out);
    write_peers(gate->server->config, published, out);
    write_peer_keys(&gate->server->peer_keys, out);
    write_reloads(&gate->server->reloads, out);
    write_storage(gate, out);
    write_backups(gate, out);
    write_unsent(gate, out);
    write_fronts(gate, out);
    mem_free(published);
}
