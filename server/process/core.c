/*
 * The core thread: one loop around the replica. Each turn takes what has arrived, steps the
 * replica, and at its end posts one batch to the log thread and flushes the connections to peers.
 */
#include "base/os_process.h"
#include "server/process/server_int.h"

#include <unistd.h>

enum {
    PUBLISH_MS = 250, /* Longest time between two publications, and longest wait for events. */
    CLOCK_WRONG_MS = 1000,
    CLOCK_RIGHT_MS = 500,
};

/* ---- Effects. ---- */

static void persist(struct core *core, const struct zab_persist *change)
{
    if (!core->batch) {
        core->batch = mem_zalloc(1, sizeof *core->batch);
        persist_batch_init(core->batch);
    }
    persist_add(core->batch, change, &core->identity);
    if (change->type == ZAB_PERSIST_JOIN && core->tcp) {
        const struct zab_config *config = change->join.config;

        tcp_set_identity(core->tcp, config->cluster, config->history, false);
    }
}

static struct worker_job *job_new(enum zab_event_type type)
{
    struct worker_job *job = mem_zalloc(1, sizeof *job);

    job->event.type = type;
    return job;
}

static void fetch(struct server *server, uint64_t token, zxid_t after)
{
    struct worker_job *job = job_new(ZAB_EV_FETCHED);

    job->event.fetched.token = token;
    job->zxid = after;
    worker_post(&server->worker, job);
}

static void snap_fetch(struct server *server, const struct zab_snap_fetch *fetch)
{
    struct worker_job *job = job_new(ZAB_EV_SNAP_FETCHED);

    job->event.snap_fetched.token = fetch->token;
    job->piece = (struct snap_piece){.peer = fetch->peer,
                                     .is_first = fetch->is_first,
                                     .id = fetch->id,
                                     .oldest = fetch->oldest,
                                     .offset = fetch->offset,
                                     .len = fetch->len};
    worker_post(&server->worker, job);
}

static void restore(struct server *server, zxid_t start)
{
    struct worker_job *job = job_new(ZAB_EV_RESTORED);

    atomic_store(&server->gate.readable, false); /* No reads while the state is replaced. */
    job->zxid = start;
    job->history = zab_config(replica_zab(server->core.replica))->history;
    worker_post(&server->worker, job);
}

static void take_snapshot(struct server *server)
{
    struct core *core = &server->core;
    struct worker_job *job = job_new(ZAB_EV_STORED_SNAP);

    job->zxid = core->effects.snap_start;
    job->chain = core->effects.snap_chain;
    buf_init(&job->config, ZAB_CONFIG_BYTES_MAX);
    (void)buf_append_slice(&job->config, zab_config_bytes(replica_zab(core->replica)));
    worker_post(&server->worker, job);
}

/* All values of a notice but its reason are numbers; JSON has a zxid as text. */
static void take_piece(void *ctx, struct slice name, struct slice piece)
{
    if (name.len == 0) {
        logfmt_text(ctx, piece);
    } else {
        logfmt_value(ctx, name, piece, !slice_eq(name, slice_str("reason")));
    }
}

static void log_notice(enum log_level level, const char *before, const struct zab_notice *notice)
{
    struct logfmt message;

    logfmt_init(&message);
    logfmt_text(&message, slice_str(before));
    zab_notice_pieces(notice, take_piece, &message);
    log_message(level, "zab", &message);
}

/* Ends the process. Sends the queued messages first, because other replicas may have to stop as
 * well and learn the reason from these messages. */
static void halt(struct core *core, const struct zab_notice *notice)
{
    const struct zab_notice kept = *notice;

    core->halting = true;
    if (core->tcp) {
        tcp_flush(core->tcp);
    }
    log_notice(LOG_ERROR, "stopping: ", &kept);
    _exit(zab_notice_is_newer(kept.type) ? EXIT_CONFIG : EXIT_HALT);
}

static void run_effect(struct server *server, const struct zab_effect *effect)
{
    struct core *core = &server->core;

    switch (effect->type) {
    case ZAB_FX_SEND:
        tcp_send(core->tcp, effect->send.peer, &effect->send.msg);
        break;
    case ZAB_FX_DISCONNECT:
        tcp_disconnect(core->tcp, effect->disconnect.peer);
        break;
    case ZAB_FX_PERSIST:
        persist(core, &effect->persist);
        break;
    case ZAB_FX_FETCH:
        fetch(server, effect->fetch.token, effect->fetch.after);
        break;
    case ZAB_FX_SNAP_FETCH:
        snap_fetch(server, &effect->snap_fetch);
        break;
    case ZAB_FX_RESTORE:
        restore(server, effect->restore.start);
        break;
    case ZAB_FX_HALT:
        halt(core, &effect->notice);
        break;
    case ZAB_FX_ALARM:
        log_notice(LOG_WARN, "", &effect->notice);
        break;
    case ZAB_FX_MEMBERS:
        core_follow_members(server);
        break;
    case ZAB_FX_REMOVED:
        core_take_removal(server, effect->removed.zxid);
        break;
    case ZAB_FX_SEARCH:
        core->publish_now = true; /* core_look_at_join follows the status. */
        break;
    case ZAB_FX_DELIVER:
    case ZAB_FX_CONFIRMED:
    case ZAB_FX_FORWARDED:
    case ZAB_FX_REFUSED:
    case ZAB_FX_PING_PAYLOAD:
    case ZAB_FX_ROLE:
        UNREACHABLE();
    }
}

/* Logs a line whenever the role, the leader or the serving state has changed. */
static void log_role(struct core *core)
{
    struct replica_status now;
    const struct zab_status *was = &core->logged;

    replica_status(core->replica, &now);
    if (now.zab.state == was->state && now.zab.leader == was->leader &&
        now.zab.serving == was->serving && now.zab.quarantined == was->quarantined) {
        return;
    }
    core->logged = now.zab;
    if (now.zab.state == ZAB_LEADING && now.zab.serving) {
        log_info("zab", "leading epoch {epoch}%u from zxid {zxid}0x%llx on", now.zab.epoch,
                 (unsigned long long)now.zab.committed);
    } else if (now.zab.serving) {
        log_info("zab", "in step with leader {leader}%u in epoch {epoch}%u", now.zab.leader,
                 now.zab.epoch);
    } else if (now.zab.state == ZAB_LOOKING) {
        log_info("zab", "looking for a leader: {reason}%s",
                 now.zab.reason[0] ? now.zab.reason : "just started");
    } else if (now.zab.state == ZAB_LEADING) {
        log_info("zab", "elected: collecting a quorum for a new epoch");
    } else {
        log_info("zab", "joining leader {leader}%u", now.zab.leader);
    }
}

/* Tells the store which log learners and the audit log still need. */
static void keep_log(struct server *server)
{
    store_keep(server->store, STORE_LEARNERS, zab_keep(replica_zab(server->core.replica)));
    if (server->audit) {
        store_keep(server->store, STORE_AUDIT, audit_keep(server->audit));
    }
}

static void run_effects(struct server *server)
{
    struct core *core = &server->core;

    /* The order matters: when an effect below opens a snapshot for a learner, the log after that
     * snapshot is already kept. */
    keep_log(server);
    for (size_t i = 0; i < core->effects.zab.count; i++) {
        run_effect(server, &core->effects.zab.items[i]);
    }
    core_tell_level(core);
    if (core->effects.take_snapshot) {
        take_snapshot(server);
    }
    if (core->effects.status_changed) {
        core->publish_now = true;
        log_role(core);
    }
    replica_effects_clear(&core->effects);
}

void core_step(struct server *server, struct zab_event *event)
{
    struct core *core = &server->core;

    if (core->halting) {
        return; /* A connection failed while halt() flushed the last messages. */
    }
    core->now_ms = os_now_ms();
    event->now_ms = core->now_ms;
    replica_step(core->replica, event, os_wall_ms(), &core->effects);
    run_effects(server);
}

/* ---- Mailboxes. ---- */

static void on_requests(struct loop_watch *watch, uint32_t ready)
{
    struct server *server = watch->ctx;
    struct core *core = &server->core;
    struct list requests;

    (void)ready;
    (void)mailbox_drain(&core->requests, &requests);
    core->now_ms = os_now_ms();
    int64_t wall_ms = os_wall_ms();

    list_take_each (struct op_request, request, node, &requests) {
        replica_request(core->replica, request, core->now_ms, wall_ms, &core->effects);
    }
    run_effects(server);
}

/* Takes completions of the log thread; steps the replica with them, unless `stopped`. */
static void take_dones(struct server *server, bool stopped)
{
    struct list dones;

    (void)mailbox_drain(&server->core.dones, &dones);
    list_take_each (struct log_done, done, node, &dones) {
        for (size_t i = 0; i < done->dones.count && !stopped; i++) {
            struct zab_event event = {.type = ZAB_EV_PERSISTED, .persisted = done->dones.items[i]};

            core_step(server, &event);
        }
        persist_dones_release(&done->dones);
        mem_free(done);
    }
}

static void on_dones(struct loop_watch *watch, uint32_t ready)
{
    (void)ready;
    take_dones(watch->ctx, false);
}

static void take_worker_dones(struct server *server, bool stopped)
{
    struct list jobs;

    (void)mailbox_drain(&server->core.worker_dones, &jobs);
    list_take_each (struct worker_job, job, node, &jobs) {
        bool failed = job->event.type == ZAB_EV_STORED_SNAP && job->err != ERR_OK;

        /* Only a failed snapshot is handled here. Any other error is part of the event, and the
         * protocol decides whether it matters. */
        if (job->note) {
            core_note_written(&server->core, job);
        } else if (!stopped && failed) {
            replica_snapshot_failed(server->core.replica);
        } else if (!stopped) {
            core_step(server, &job->event);
        }
        worker_job_free(job);
    }
}

static void on_worker(struct loop_watch *watch, uint32_t ready)
{
    (void)ready;
    take_worker_dones(watch->ctx, false);
}

static void on_keys(struct loop_watch *watch, uint32_t ready)
{
    (void)ready;
    peer_keys_take(watch->ctx);
}

/* ---- The loop. ---- */

/* Tells the replica whether it must take no writes, and why. */
static void check_aside(struct server *server)
{
    struct core *core = &server->core;
    struct replica_aside aside = {.log_waits = atomic_load(&server->log.stuck)};

    /* Without file descriptors the replica still takes writes: they wait until this process, or
     * another program on the machine, frees a descriptor. */
    if (aside.log_waits) {
        aside.why = "the disk of this replica has no space left for its log: until space is freed, "
                    "this replica accepts and applies no writes; use another replica";
    } else if (server->audit) {
        aside.why = audit_why(server->audit);
    }
    if (aside.why == core->aside) {
        return;
    }
    core->aside = aside.why;
    core->now_ms = os_now_ms();
    replica_stand_aside(core->replica, &aside, core->now_ms, &core->effects);
    run_effects(server);
}

static void check_space(struct server *server)
{
    struct core *core = &server->core;
    bool low = atomic_load(&server->worker.low) || atomic_load(&server->log.stuck);
    struct zab_event event = {.type = ZAB_EV_SPACE, .is_space_low = low};

    if (low == core->low) {
        return;
    }
    core->low = low;
    if (low) {
        log_warn("storage", "the disk is nearly full: this replica hands leadership over");
    } else {
        log_info("storage", "the disk has space again");
    }
    core_step(server, &event);
}

static void post_batch(struct server *server)
{
    if (server->core.batch) {
        log_thread_post(&server->log, server->core.batch);
        server->core.batch = NULL;
    }
}

/* Gives the replica the figures of this process for its status report to the leader. */
static void report_host(struct server *server)
{
    const struct sampler *sampler = &server->sampler;
    struct heartbeat_host host = {
        .up_ms = server->core.now_ms - server->start_ms,
        .sync_p50_us = atomic_load(&sampler->sync_p50_us),
        .sync_p99_us = atomic_load(&sampler->sync_p99_us),
        .disk_low = server->core.low,
    };

    (void)snprintf(host.version, sizeof host.version, "%s", ZABRA_VERSION);
    replica_host(server->core.replica, &host);
}

/* Logs a line when the wall clock becomes wrong, and one when it is right again. */
static void log_clock(struct core *core, const struct replica_status *status)
{
    int64_t ahead_ms = status->clock_ahead_ms;
    int64_t off_ms = ahead_ms < 0 ? -ahead_ms : ahead_ms;

    if (!status->clock_known) {
        return;
    }
    if (!core->clock_wrong && off_ms > CLOCK_WRONG_MS) {
        core->clock_wrong = true;
        log_warn("clock",
                 "the wall clock of this replica is {seconds}%.1f s {direction}%s the clocks of a "
                 "majority of the voters; correct it and keep it synchronized (chrony, "
                 "systemd-timesyncd)",
                 (double)off_ms / 1000.0, ahead_ms > 0 ? "ahead of" : "behind");
    } else if (core->clock_wrong && off_ms < CLOCK_RIGHT_MS) {
        core->clock_wrong = false;
        log_info("clock", "the wall clock agrees with a majority of the voters again");
    }
}

static void publish(struct server *server)
{
    struct replica_status status;

    report_host(server);
    core_refresh_links(server);
    core_tell_facts(server);
    core_look_at_seals(server);
    core_log_refusals(server);
    core_keep_members(server);
    replica_status(server->core.replica, &status);
    core_look_at_join(server, &status.zab);
    log_clock(&server->core, &status);
    gate_publish(&server->gate, &status);
    core_tell_manager(server, &status.zab);
}

/* Tells the audit log how far the state has come. */
static void tell_audit(struct server *server)
{
    struct core *core = &server->core;
    zxid_t applied = replica_applied(core->replica);

    if (server->audit && applied != core->audited) {
        core->audited = applied;
        audit_applied(server->audit, applied, zab_config(replica_zab(core->replica))->cluster);
    }
}

static void end_turn(struct server *server)
{
    struct core *core = &server->core;

    post_batch(server);
    tell_audit(server);
    if (core->tcp) {
        core_retire_peer(server);
        tcp_flush(core->tcp);
        /* A connection that fails in the flush steps the replica, which may begin another batch. */
        post_batch(server);
    }
    if (core->publish_now || core->now_ms - core->published_ms >= PUBLISH_MS) {
        core->published_ms = core->now_ms;
        core->publish_now = false;
        publish(server);
    }
}

static int wait_ms(struct server *server)
{
    struct core *core = &server->core;
    uint64_t now_ms = os_now_ms();
    uint64_t wake_ms = replica_wake_ms(core->replica);

    if (core->tcp) {
        wake_ms = min_u64(wake_ms, tcp_tick(core->tcp, now_ms));
    }
    return wake_ms > now_ms ? (int)min_u64(wake_ms - now_ms, PUBLISH_MS) : 0;
}

static void drain(struct server *server)
{
    struct core *core = &server->core;

    if (!atomic_load(&core->drain) || core->drained) {
        return;
    }
    core->now_ms = os_now_ms();
    bool done = replica_drain(core->replica, core->now_ms, &core->effects);

    run_effects(server);
    core->publish_now = true;
    if (done) {
        core->drained = true;
        mailbox_close(&server->drained);
    }
}

/* Only founders without a list need to know it. */
static void tell_reached(struct server *server)
{
    struct zab_event event = {.type = ZAB_EV_REACHED};

    if (server->config->peers.bootstrap != 0 && core_note_reached(server, &event.is_all_reached)) {
        core_step(server, &event);
    }
}

static void turn(struct server *server)
{
    struct core *core = &server->core;
    struct zab_event tick = {.type = ZAB_EV_TICK};

    (void)loop_run_once(&core->loop, wait_ms(server));
    core->now_ms = os_now_ms();
    atomic_store(&core->turn_ms, core->now_ms);
    if (core->now_ms >= replica_wake_ms(core->replica)) {
        core_step(server, &tick);
    }
    check_space(server);
    check_aside(server);
    drain(server);
    core_end_removed(server);
    tell_reached(server);
    end_turn(server);
}

static void body(void *arg)
{
    struct server *server = arg;

    while (!atomic_load(&server->core.stop)) {
        turn(server);
    }
}

static void watch_mailbox(struct server *server, struct loop_watch *watch, struct mailbox *box,
                          void (*on_ready)(struct loop_watch *watch, uint32_t ready))
{
    loop_add_reader(&server->core.loop, watch, box->event_fd, on_ready, server);
}

void core_open(struct server *server)
{
    struct core *core = &server->core;

    loop_init(&core->loop);
    /* On a single processor polling would only keep other threads from working. */
    core->loop.busy_us = os_processors() > 1 ? server->config->process.busy_poll_us : 0;
    mailbox_init(&core->requests, server->config->clients.requests_max);
    mailbox_init(&core->dones, SIZE_MAX);
    mailbox_init(&core->worker_dones, SIZE_MAX);
    watch_mailbox(server, &core->requests_watch, &core->requests, on_requests);
    watch_mailbox(server, &core->dones_watch, &core->dones, on_dones);
    watch_mailbox(server, &core->worker_watch, &core->worker_dones, on_worker);
    watch_mailbox(server, &core->keys_watch, &server->peer_keys.dones, on_keys);
    core->replica = replica_new(&server->options);
    core->now_ms = server->options.zab.now_ms;
    core_refresh_links(server);
}

void core_start(struct server *server)
{
    publish(server);
    atomic_store(&server->core.turn_ms, os_now_ms());
    thread_start(&server->core.thread, "zabra-core", body, server);
}

/* Frees the core. The log and worker threads have ended: no other thread uses what is freed here.
 */
void core_stop(struct server *server)
{
    struct core *core = &server->core;

    ASSERT(atomic_load(&core->stop));
    peer_keys_close(server);
    tcp_close(core->tcp);
    replica_free(core->replica);
    blob_unref(core->hint);
    zab_effects_release(&core->effects.zab);
    if (core->batch) {
        persist_batch_release(core->batch);
        mem_free(core->batch);
    }
    take_dones(server, true);
    take_worker_dones(server, true);
    mailbox_release(&core->requests);
    mailbox_release(&core->dones);
    mailbox_release(&core->worker_dones);
    loop_release(&core->loop);
}
