#include "base/os_rng.h"
#include "server/process/notes.h"
#include "server/process/recover.h"
#include "server/process/server_int.h"
#include "zab/level.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/stat.h>

enum {
    REAP_EVERY_MS = 1000,
    KEEP_AGE_MS = 60000,
    REOPEN_MS = 3000,        /* Longest time that a reload waits for the audit file. */
    FILES_WAIT_MS = 4000,    /* The same for the end and all files; longer, because a reload uses */
                             /* the audit log. */
    TOUCHED_PER_SESSION = 2, /* Room for sessions that end and begin between two reports. */
};

static void fill_limits(const struct config *config, struct replica_options *options)
{
    options->zab.limits = config->zab;
    zab_limits_fit_queue(&options->zab.limits, config->peers.queue_bytes_max);
    options->prep = (struct prep_limits){
        .tree = config->tree,
        .data_bytes_max = config->clients.data_bytes_max,
        .txn_bytes_max = ZAB_RECORD_BYTES_MAX - 4096,
        .multi_ops_max = config->clients.multi_ops_max,
        .inherit_acl = config->clients.inherit_acl,
    };
    options->requests_max = config->clients.requests_max;
    options->forward_bytes_max = config->peers.forward_bytes_max;
    options->forward_peer_bytes_max = config->peers.forward_peer_bytes_max;
    options->forward_out_bytes_max = min_u64(config->peers.queue_bytes_max - ZAB_QUEUE_RESERVE,
                                             config->peers.forward_peer_bytes_max);
    options->tree_bytes_max = config->tree.bytes_max;
    options->snap_count = config->storage.snap_count;
    options->snap_bytes = config->storage.snap_bytes;
    options->reap_every_ms = REAP_EVERY_MS;
    options->keep_age_ms = KEEP_AGE_MS;
}

static void explain_disk(const struct config *config, enum err err, char error[SERVER_ERROR_MAX])
{
    (void)snprintf(error, SERVER_ERROR_MAX,
                   "dataDir: cannot read or write %s (%s); check permissions, space and the disk",
                   config->storage.data_dir, err_text(err));
}

static enum err open_store(struct server *server, struct store_report *report,
                           char error[SERVER_ERROR_MAX])
{
    const struct config *config = server->config;

    if (mkdir(config->storage.data_dir, 0700) != 0 && errno != EEXIST) {
        (void)snprintf(error, SERVER_ERROR_MAX,
                       "dataDir: cannot make %s; make its parent directory or change the key",
                       config->storage.data_dir);
        return ERR_IO;
    }
    enum err err = vfs_posix_open(config->storage.data_dir, &server->vfs);

    if (err != ERR_OK) {
        (void)snprintf(error, SERVER_ERROR_MAX,
                       "dataDir: cannot open %s (%s); check that it is a directory that this user "
                       "may write",
                       config->storage.data_dir, err_text(err));
        return err;
    }
    struct store_options options = {
        .vfs = server->vfs,
        .segment_bytes = config->storage.wal_segment_bytes,
        .keep_bytes_max = config->storage.refill_log_bytes_max,
        .snapshots_keep = config->storage.snapshots_keep,
        .salt_seed = os_random_u64(),
        .record_bytes_max = ZAB_RECORD_BYTES_MAX,
        .member_id = config->id,
    };

    err = store_open(&options, false, &server->store, report);
    if (err == ERR_BUSY) {
        (void)snprintf(
            error, SERVER_ERROR_MAX,
            "dataDir: %s is in use by another process; stop that process or change the key",
            config->storage.data_dir);
    } else if (err == ERR_FOREIGN) {
        (void)snprintf(
            error, SERVER_ERROR_MAX,
            "dataDir: %s belongs to replica %u, but this is replica %u; correct id or dataDir",
            config->storage.data_dir, report->identity.member_id, config->id);
    } else if (err != ERR_OK) {
        explain_disk(config, err, error);
    }
    return err;
}

static void log_verdict(const struct config *config, const struct store_report *report)
{
    switch (report->verdict) {
    case STORE_EMPTY:
        log_info("storage", "{path}%s is new", config->storage.data_dir);
        break;
    case STORE_CLEAN:
        log_info("storage", "{path}%s is sound: log up to zxid {zxid}0x%llx",
                 config->storage.data_dir, (unsigned long long)report->log_last);
        break;
    case STORE_TORN_TAIL:
        log_info("storage",
                 "{path}%s: dropped {bytes}%llu bytes at the end of the log that were never "
                 "acknowledged; log up to zxid {zxid}0x%llx",
                 config->storage.data_dir, (unsigned long long)report->torn_bytes,
                 (unsigned long long)report->log_last);
        break;
    case STORE_DAMAGED:
        log_error("storage", "{path}%s is damaged: {reason}%s", config->storage.data_dir,
                  report->reason);
        break;
    }
    if (report->one_slot_bad) {
        log_warn("storage",
                 "one copy of a small durable record was damaged; the other copy is used");
    }
}

/* A replica that is alone, by its configuration, has no port for other replicas. */
static bool is_reachable(const struct config *config, const struct zab_config *known,
                         char error[SERVER_ERROR_MAX])
{
    if (known->count <= 1 || config->peers.port != 0) {
        return true;
    }
    (void)snprintf(
        error, SERVER_ERROR_MAX,
        "server.%u: missing, but the ensemble that this data directory belongs to has %u members; "
        "give the address of this replica for the others, server.%u=host:peerPort or "
        "advertisePeer=host:peerPort, or change dataDir",
        config->id, known->count, config->id);
    return false;
}

/* Explains that a change of the members has removed this disk. */
static enum err removed(const struct config *config, zxid_t zxid, char error[SERVER_ERROR_MAX])
{
    (void)snprintf(
        error, SERVER_ERROR_MAX,
        "dataDir: %s: the change of the members at zxid 0x%llx has removed replica %u from the "
        "ensemble; if it is to come back, start it with an empty directory and add it again",
        config->storage.data_dir, (unsigned long long)zxid, config->id);
    return ERR_REMOVED;
}

/* What this replica says of itself. Texts that no configuration can hold are not said. */
static struct zab_texts own_texts(const struct config *config)
{
    const struct config_peers *peers = &config->peers;
    const struct zab_texts texts = {.port = peers->own.port,
                                    .host = slice_str(peers->own.host),
                                    .client = slice_str(config->clients.advertise_client),
                                    .zone = slice_str(peers->zone)};
    struct zab_texts known = texts;

    if (!zab_texts_are_sound(&known)) {
        known.client = slice_make(NULL, 0);
    }
    return known;
}

static void fill_seeds(struct server *server)
{
    const struct config *config = server->config;
    struct zab_init *init = &server->options.zab;

    for (uint32_t i = 0; i < config->peers.server_count; i++) {
        const struct config_server *from = &config->peers.servers[i];

        server->seeds[i] =
            (struct zab_seed){.id = from->id,
                              .voter = from->voter,
                              .texts = {.port = from->port, .host = slice_str(from->host)}};
        if (from->id == config->id) {
            server->seeds[i].texts = own_texts(config);
        }
    }
    init->seeds = server->seeds;
    init->seed_count = config->peers.server_count;
    init->bootstrap = config->peers.bootstrap;
    init->texts = own_texts(config);
    init->auto_join = config->peers.auto_join != CONFIG_AUTO_JOIN_OFF;
    init->max_observers = config->peers.observers_max;
    init->max_voters =
        config->peers.auto_join == CONFIG_AUTO_JOIN_VOTER ? config->peers.voters_max : 0;
}

static void fill_options(struct server *server)
{
    const struct config *config = server->config;
    struct zab_init *init = &server->options.zab;

    fill_seeds(server);
    fill_limits(config, &server->options);
    server->options.boot = os_random_u64() | 1;
    server->options.view = server->view;
    server->options.window = server->window;
    server->options.touched = server->touched;
    server->options.heard = server->heard;
    server->options.clock_ms = config->clients.slow_request_ms > 0 ? os_now_ms : NULL;
    init->id = config->id;
    init->incarnation = os_random_u64() | 1;
    init->level_max = ZAB_LEVEL_KNOWN;
    init->rng_seed = os_random_u64();
    init->now_ms = os_now_ms();
}

static void explain_recovery(const struct config *config, enum err err,
                             const struct store_report *report, char error[SERVER_ERROR_MAX])
{
    const char *dir = config->storage.data_dir;

    if (err == ERR_FORMAT) {
        (void)snprintf(
            error, SERVER_ERROR_MAX,
            "dataDir: %s was written by an earlier release in a format that this release does not "
            "read; export the tree with the earlier release (zabra export), start this release "
            "with an empty directory, and import the export",
            dir);
    } else if (err == ERR_NEWER) {
        (void)snprintf(error, SERVER_ERROR_MAX, "dataDir: %s: %s", dir, report->reason);
    } else if (err == ERR_CORRUPT) {
        (void)snprintf(
            error, SERVER_ERROR_MAX,
            "dataDir: %s: cannot be recovered (%s); if the other replicas serve, replace the "
            "directory by an empty one, which they refill; else restore a backup",
            dir, report->reason[0] ? report->reason : err_text(err));
    } else {
        explain_disk(config, err, error);
    }
}

/* The first configuration of a disk is kept without texts: the file `members` may have it with
 * them. */
static void take_texts(struct blob *hint, struct zab_init *init)
{
    const struct zab_config *known = &init->config;
    struct zab_config noted;

    if (hint && !init->config_bytes && known->count > 0 &&
        zab_config_decode(blob_slice(hint), &noted) == ERR_OK && noted.version == known->version &&
        noted.history == known->history && noted.count == known->count &&
        memcmp(noted.members, known->members, known->count * sizeof known->members[0]) == 0) {
        init->config_bytes = blob_ref(hint);
    }
}

/* A directory keeps how it was made: else its replica could found a second ensemble. */
static void warn_founder(const struct config *config, const struct zab_init *init)
{
    if (init->config.count == 0 && !init->bootstrapping && replica_founds(init)) {
        log_warn("storage",
                 "{path}%s was made by a start as a replica that only joins: it founds no "
                 "ensemble; to let it found, stop it and empty the directory",
                 config->storage.data_dir);
    }
}

static enum err recover_replica(struct server *server, struct store_report *report,
                                char error[SERVER_ERROR_MAX])
{
    const struct config *config = server->config;
    const struct zab_config *known = &server->options.zab.config;
    struct core *core = &server->core;
    uint64_t begin_ms = os_now_ms();
    zxid_t zxid;

    fill_options(server);
    if (report->has_identity && notes_find_mark(&server->vfs, &report->identity, &zxid)) {
        return removed(config, zxid, error);
    }
    enum err err = recover(server->store, report, server->view, &server->options, &core->identity);

    if (err != ERR_OK) {
        explain_recovery(config, err, report, error);
        return err;
    }
    if (notes_shows_removal(known, &core->identity, &zxid)) {
        return removed(config, zxid, error);
    }
    if (!is_reachable(config, known, error)) {
        return ERR_CONFIG;
    }
    warn_founder(config, &server->options.zab);
    core->hint = notes_find_members(&server->vfs, core->identity.cluster, &core->notes.version);
    core->notes.is_kept = core->hint != NULL;
    take_texts(core->hint, &server->options.zab);
    log_info("storage", "recovered in {ms}%llu ms up to zxid {zxid}0x%llx",
             (unsigned long long)(os_now_ms() - begin_ms),
             (unsigned long long)server->options.zab.committed);
    return ERR_OK;
}

/* Opens the audit log, if the configuration names one. */
static enum err open_audit(struct server *server, char error[SERVER_ERROR_MAX])
{
    const struct config *config = server->config;
    const char *path = config->process.audit_file;
    const struct audit_options options = {
        .path = strcmp(path, "-") != 0 ? path : NULL,
        .data_dir = config->storage.data_dir,
        .full = config->process.audit_full == 0 ? AUDIT_FULL_REFUSE : AUDIT_FULL_DROP,
        .member = config->id,
        .version = ZABRA_VERSION,
        .start = server->options.zab.committed,
        .system = &audit_system_real,
    };
    char text[AUDIT_ERROR_MAX];

    if (path[0] == '\0') {
        return ERR_OK;
    }
    enum err err = audit_open(&options, &server->audit, text);

    if (err != ERR_OK) {
        (void)snprintf(error, SERVER_ERROR_MAX, "%s", text);
    }
    return err;
}

/* The part of a reload. */
static bool reopen_audit(void *ctx, char why[RELOAD_WHY_MAX])
{
    char error[AUDIT_ERROR_MAX];
    bool ok = audit_reopen(ctx, REOPEN_MS, error);

    (void)snprintf(why, RELOAD_WHY_MAX, "%s", error);
    return ok;
}

static void start_audit(struct server *server)
{
    if (!server->audit) {
        return;
    }
    audit_start(server->audit, server->store);
    reloads_add(
        &server->reloads,
        (struct reload_part){.name = "auditFile", .run = reopen_audit, .ctx = server->audit});
}

static enum err start_parts(struct server *server, char error[SERVER_ERROR_MAX])
{
    struct store_report *report = mem_zalloc(1, sizeof *report);
    enum err err = server_check(server->config, error);

    if (err == ERR_OK) {
        err = open_store(server, report, error);
    }
    if (err == ERR_OK) {
        log_verdict(server->config, report);
        err = recover_replica(server, report, error);
    }
    mem_free(report);
    if (err == ERR_OK) {
        err = open_audit(server, error);
    }
    if (err == ERR_OK) {
        peer_keys_open(server);
        core_open(server);
        err = core_open_peers(server, error);
    }
    recover_release(&server->options);
    return err;
}

static void server_free(struct server *server)
{
    mailbox_release(&server->drained);
    reloads_release(&server->reloads);
    backups_release(&server->backups);
    gate_release(&server->gate);
    sd_notify_close(&server->manager);
    trend_free(server->sampler.trend);
    touch_set_free(server->touched);
    heard_free(server->heard);
    window_free(server->window);
    view_free(server->view);
    mem_free(server);
}

/* Closes what is open after the start has failed; no thread runs. */
static void abandon(struct server *server)
{
    if (server->core.replica) {
        atomic_store(&server->core.stop, true);
        core_stop(server);
    }
    audit_stop(server->audit);
    if (server->store) {
        store_close(server->store, false);
    }
    if (server->vfs.ops) {
        vfs_posix_close(&server->vfs);
    }
    server_free(server);
}

/* Fills the set of signals that server_wait handles. */
static void fill_signals(sigset_t *ret_set)
{
    (void)sigemptyset(ret_set);
    (void)sigaddset(ret_set, SIGTERM);
    (void)sigaddset(ret_set, SIGINT);
    (void)sigaddset(ret_set, SIGHUP);
}

void server_block_signals(void)
{
    sigset_t set;

    fill_signals(&set);
    (void)sigaddset(&set, SIGPIPE);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static void start_backups(struct server *server)
{
    const struct backup_host host = {.store = server->store,
                                     .view = server->view,
                                     .identity = &server->core.identity,
                                     .release = ZABRA_VERSION,
                                     .wall_ms = gate_wall_ms,
                                     .wall_ctx = &server->gate};

    backups_start(&server->backups, &host, server->config->clients.backup_rate);
}

enum err server_start(const struct config *config, struct server **ret_server,
                      char error[SERVER_ERROR_MAX])
{
    struct server *server = mem_zalloc(1, sizeof *server);

    error[0] = '\0';
    server_block_signals();
    server->config = config;
    server->start_ms = os_now_ms();
    server->start_wall_ms = os_wall_ms();
    server->view = view_new();
    server->window = window_new(config->tree.window_bytes_max, config->tree.window_max, 0);
    server->touched = touch_set_new((size_t)config->tree.sessions_max * TOUCHED_PER_SESSION);
    server->heard = heard_new((size_t)config->tree.sessions_max * TOUCHED_PER_SESSION);
    view_set_clients(server->view, server->heard, config->process.show_clients);
    server->sampler.trend = trend_new();
    sd_notify_open(&server->manager);
    mailbox_init(&server->drained, 1);
    gate_init(&server->gate, server);
    reloads_init(&server->reloads);
    backups_init(&server->backups);
    enum err err = start_parts(server, error);

    if (err != ERR_OK) {
        abandon(server);
        return err;
    }
    log_thread_start(&server->log, server->store, &server->core.dones);
    worker_start(&server->worker, server->store, &server->vfs, server->view,
                 &server->core.worker_dones);
    start_audit(server);
    core_start(server);
    sampler_start(server);
    peer_keys_start(server);
    reloads_start(&server->reloads);
    start_backups(server);
    *ret_server = server;
    return ERR_OK;
}

struct gate *server_gate(struct server *server)
{
    return &server->gate;
}

int server_wait(struct server *server)
{
    sigset_t set;
    int signal_number = 0;

    ASSERT(server->store);
    fill_signals(&set);
    while (sigwait(&set, &signal_number) != 0) {
    }
    return signal_number;
}

/* A request for a reload by SIGHUP has ended; the log has its result. */
static void on_reloaded(struct reload *reload)
{
    struct server *server = reload->ctx;

    sd_notify_send(&server->manager, "READY=1");
    mem_free(reload);
}

void server_reload(struct server *server)
{
    struct reload *reload = mem_zalloc(1, sizeof *reload);

    sd_notify_send(&server->manager, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, os_now_us());
    (void)snprintf(reload->by, sizeof reload->by, "SIGHUP");
    reload->on_done = on_reloaded;
    reload->ctx = server;
    if (reloads_ask(&server->reloads, reload) != ERR_OK) {
        on_reloaded(reload); /* Requests that wait will read the files as they are now. */
    }
}

void server_tell_ready(struct server *server)
{
    sd_notify_send(&server->manager, "READY=1");
}

/* True when a signal has come before `end_ms`. SIGCONT interrupts the wait, but is none of the
 * signals in `set`. */
static bool wait_signal(const sigset_t *set, uint64_t end_ms)
{
    int signal_number = -1;
    uint64_t now_ms = os_now_ms();

    while (signal_number < 0 && now_ms < end_ms) {
        const struct timespec left = {.tv_sec = (time_t)((end_ms - now_ms) / 1000),
                                      .tv_nsec = (long)((end_ms - now_ms) % 1000 * 1000000)};

        signal_number = sigtimedwait(set, NULL, &left);
        now_ms = os_now_ms();
    }
    return signal_number >= 0;
}

void server_announce_end(struct server *server)
{
    uint32_t delay_ms = server->config->process.drain_delay_ms;
    sigset_t set;

    atomic_store(&server->gate.ending, true);
    sd_notify_send(&server->manager, "STOPPING=1");
    if (delay_ms == 0) {
        return;
    }
    log_info("server",
             "/readyz answers 503 now; all else is served for another {ms}%u ms (drainDelay)",
             delay_ms);
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    if (wait_signal(&set, os_now_ms() + delay_ms)) {
        log_info("server", "another signal ends the delay");
    }
}

bool server_is_removed(const struct server *server)
{
    return atomic_load(&server->gate.removed) != 0;
}

void server_drain(struct server *server)
{
    log_info("server", "draining: new requests are refused, leadership is handed over");
    backups_close(&server->backups);
    atomic_store(&server->core.drain, true);
    (void)mailbox_wait(&server->drained, (int)server->config->process.drain_timeout_ms);
}

bool server_stop(struct server *server)
{
    reloads_stop(&server->reloads, FILES_WAIT_MS);
    backups_stop(&server->backups);
    sampler_stop(server);
    mailbox_close(&server->core.requests);
    atomic_store(&server->core.stop, true);
    thread_join(&server->core.thread);
    audit_stop(server->audit);
    log_thread_stop(&server->log);
    worker_stop(&server->worker);
    core_stop(server);
    store_close(server->store, true);
    vfs_posix_close(&server->vfs);
    bool ended = !reloads_has_lost(&server->reloads);

    if (ended) {
        server_free(server);
    }
    log_info("server", "stopped");
    return ended;
}
