#include "server/process/recover.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/probe.h"
#include "server/backup/replay.h"

#include <stdio.h>

enum {
    READ_RECS_MAX = 1024,
    READ_BYTES_MAX = 4 << 20
};

/* The parts of a replica during its rebuilding. */
struct rebuild {
    struct store *store;
    struct store_report *report;
    struct replay replay;
    struct zab_config pending; /* Uncommitted configuration in the log; count 0: none. */
    bool is_pending_proven;    /* A record after it says that it is committed. */
    struct blob *pending_bytes;
    uint64_t records; /* Records read after the snapshot's start. */
};

/* Formats the directory. The identity gets the incarnation that the caller has set in options->zab,
 * a fresh random number. */
static enum err format(struct store *store, bool bootstrapping, struct replica_options *options,
                       struct store_identity *identity)
{
    struct store_op op = {.type = STORE_IDENTITY, .identity = identity};

    ASSERT(options->zab.incarnation != 0);
    *identity = (struct store_identity){.member_id = options->zab.id,
                                        .incarnation = options->zab.incarnation,
                                        .bootstrapping = bootstrapping};
    options->zab.bootstrapping = bootstrapping;
    return store_run_one(store, &op);
}

/* Sets the configuration that the identity carries; all zero while there is none. */
static enum err genesis(const struct store_identity *identity, struct zab_config *ret_config)
{
    *ret_config = (struct zab_config){0};
    if (identity->genesis_len == 0) {
        return ERR_OK;
    }
    return zab_config_decode(slice_make(identity->genesis, identity->genesis_len), ret_config);
}

/* Opens the newest snapshot. After success the caller closes the reader. */
static enum err open_newest(struct store *store, struct store_snap_reader **ret_reader,
                            struct store_snap_info *ret_info, struct zab_config *ret_config)
{
    enum err err = store_snap_open(store, ret_reader, ret_info);

    if (err == ERR_OK && zab_config_decode(store_snap_config(*ret_reader), ret_config) != ERR_OK) {
        store_snap_close(*ret_reader);
        return ERR_CORRUPT;
    }
    return err;
}

void recover_restore(struct store *store, zxid_t start, uint64_t history, struct view *view,
                     struct zab_event *ret_event)
{
    struct store_snap_reader *reader = NULL;
    struct store_snap_info info = {0};
    struct zab_config config;
    struct state *state = NULL;
    enum err err = ERR_OK;

    if (start == 0) {
        state = state_new(history);
    } else {
        err = open_newest(store, &reader, &info, &config);
    }
    if (reader && err == ERR_OK) {
        err = replay_load(reader, info.start, config.history, &state);
        store_snap_close(reader);
    }
    /* Since the protocol issued ZAB_FX_RESTORE, another snapshot, newer or older, may have replaced
     * that of `start`, or none may be left. The event reports what was loaded, and the protocol
     * decides whether to use it. */
    *ret_event = (struct zab_event){.type = ZAB_EV_RESTORED,
                                    .restored = {.err = err,
                                                 .start = info.start,
                                                 .start_chain = info.start_chain,
                                                 .end = info.end,
                                                 .digest = info.digest}};
    if (err == ERR_OK) {
        state_set_history(state, history);
        view_replace(view, state);
    }
}

/* Loads the newest snapshot. */
static enum err load_newest(struct rebuild *rebuild)
{
    struct store_snap_reader *reader;
    struct store_snap_info info;
    enum err err = store_snap_open(rebuild->store, &reader, &info);

    if (err != ERR_OK) {
        return err;
    }
    err = replay_snapshot(&rebuild->replay, reader, &info);
    store_snap_close(reader);
    return err;
}

/* Sets the start of the replay: the newest snapshot that can be read, else an empty state. */
static enum err begin(struct rebuild *rebuild)
{
    enum err err = ERR_OK;

    while (err == ERR_OK && rebuild->report->has_snapshot) {
        err = load_newest(rebuild);
        if (err == ERR_OK) {
            return ERR_OK;
        }
        if (err != ERR_CORRUPT && err != ERR_MISSING && err != ERR_FORMAT) {
            return err;
        }
        PROBE("recover.snapshot_discarded");
        err = store_snap_discard(rebuild->store, rebuild->report);
    }
    /* Without a snapshot the log must reach back to the beginning. */
    if (err != ERR_OK || rebuild->report->log_base != 0) {
        return ERR_CORRUPT;
    }
    if (rebuild->replay.config.count > 0) {
        rebuild->replay.state = state_new(rebuild->replay.config.history);
    }
    return ERR_OK;
}

/* Keeps a change of the configuration that is not known to be committed. A second change in the log
 * proves that the first one is committed. */
static enum err replay_pending(struct rebuild *rebuild, const struct logrec *rec)
{
    PROBE("recover.config_pending");
    if (rebuild->pending.count > 0 && rebuild->pending.version > rebuild->replay.config.version) {
        rebuild->replay.config = rebuild->pending;
        replay_keep_bytes(&rebuild->replay.config_bytes, blob_slice(rebuild->pending_bytes));
    }
    replay_keep_bytes(&rebuild->pending_bytes, logrec_payload(rec));
    rebuild->is_pending_proven = false;
    return replay_decode_config(&rebuild->replay, rec, &rebuild->pending);
}

static enum err replay_next(void *ctx, const struct logrec *rec)
{
    struct rebuild *rebuild = ctx;

    rebuild->records++;
    if (rec->zxid <= rebuild->report->committed) {
        return replay_record(&rebuild->replay, rec);
    }
    if (rec->type == LOGREC_CONFIG) {
        return replay_pending(rebuild, rec);
    }
    if (rebuild->pending.count > 0 && zab_proven_config(rec) == rebuild->pending.version) {
        PROBE("recover.config_proven");
        rebuild->is_pending_proven = true;
    }
    return ERR_OK;
}

enum err recover_each(struct store *store, zxid_t from, zxid_t last,
                      enum err (*take)(void *ctx, const struct logrec *rec), void *ctx)
{
    struct logrec **recs = mem_alloc(READ_RECS_MAX * sizeof(struct logrec *));
    enum err err = ERR_OK;

    while (err == ERR_OK && from < last) {
        size_t count = 0;

        err = store_read(store, from, READ_BYTES_MAX, READ_RECS_MAX, recs, &count);
        if (err == ERR_OK && count == 0) {
            err = ERR_CORRUPT;
        }
        for (size_t i = 0; i < count; i++) {
            err = err == ERR_OK ? take(ctx, recs[i]) : err;
            from = recs[i]->zxid;
            logrec_unref(recs[i]);
        }
    }
    mem_free(recs);
    return err;
}

/* Applies committed records, and counts all records. */
static enum err replay_log(struct rebuild *rebuild)
{
    enum err err = recover_each(rebuild->store, rebuild->replay.at, rebuild->report->log_last,
                                replay_next, rebuild);

    if (err == ERR_MISSING || (err == ERR_OK && rebuild->replay.at != rebuild->report->committed)) {
        return ERR_CORRUPT;
    }
    return err;
}

static enum err rebuild_run(struct rebuild *rebuild)
{
    struct replay *replay = &rebuild->replay;
    enum err err = begin(rebuild);

    /* replay_record compares digests at the record of the snapshot's end. When nothing changed
     * during the snapshot, no such record is replayed, so the digest is compared here. */
    if (err == ERR_OK && replay->state && rebuild->report->has_snapshot &&
        replay->at == replay->snap_end && !replay_fits_snapshot(replay)) {
        err = ERR_CORRUPT;
    }
    if (err == ERR_OK) {
        err = replay_log(rebuild);
    }
    if (err != ERR_OK && replay->state) {
        state_free(replay->state);
        replay->state = NULL;
    }
    return err;
}

static void fill(const struct rebuild *rebuild, struct replica_options *options)
{
    const struct store_report *report = rebuild->report;
    struct zab_init *init = &options->zab;

    init->config = rebuild->replay.config;
    /* A disk may have joined with a newer configuration than its log contains; an older change in
     * the log is then not pending. */
    init->has_pending =
        rebuild->pending.count > 0 && rebuild->pending.version > rebuild->replay.config.version;
    init->pending = rebuild->pending;
    init->is_pending_proven = init->has_pending && rebuild->is_pending_proven;
    init->config_bytes = blob_ref(rebuild->replay.config_bytes);
    init->pending_bytes = blob_ref(rebuild->pending_bytes);
    init->log_base = report->log_base;
    init->log_last = report->log_last;
    init->log_chain = report->log_chain;
    init->committed = rebuild->replay.at;
    init->committed_chain = rebuild->replay.chain;
    init->has_snapshot = report->has_snapshot;
    options->records_since_snap = rebuild->records;
    size_t count = 0;

    init->ranges = store_epochs(rebuild->store, &count);
    init->range_count = (uint32_t)count;
}

/* Quarantines the disk. The mark is durable before the replica starts, so that this log is never
 * used again. */
static enum err quarantine(struct store *store, const char *reason, bool marked,
                           const struct store_identity *identity, struct replica_options *options)
{
    struct store_op op = {.type = STORE_QUARANTINE, .reason = reason};
    struct zab_config *config = &options->zab.config;

    PROBE("recover.quarantined");
    options->zab.quarantined = true;
    if (genesis(identity, config) != ERR_OK) {
        *config = (struct zab_config){0};
    }
    if (config->count > 0) {
        view_replace(options->view, state_new(config->history));
    }
    return marked ? ERR_OK : store_run_one(store, &op);
}

static void take_report(const struct store_report *report, struct view *view,
                        struct replica_options *options)
{
    struct zab_init *init = &options->zab;

    options->view = view;
    options->records_since_snap = 0;
    *init = (struct zab_init){
        .id = init->id,
        .incarnation = init->incarnation,
        .level_max = init->level_max,
        .seeds = init->seeds,
        .seed_count = init->seed_count,
        .bootstrap = init->bootstrap,
        .texts = init->texts,
        .auto_join = init->auto_join,
        .max_observers = init->max_observers,
        .max_voters = init->max_voters,
        .limits = init->limits,
        .rng_seed = init->rng_seed,
        .now_ms = init->now_ms,
        .promised_epoch = report->promised_epoch,
        .promised_leader = report->promised_leader,
    };
}

/* Rebuilds from a log and snapshots that verify; a log and a snapshot that do not fit together
 * count as damage. */
static enum err recover_sound(struct rebuild *rebuild, struct replica_options *options,
                              const struct store_identity *identity)
{
    enum err err = genesis(identity, &rebuild->replay.config);

    if (err == ERR_OK) {
        err = rebuild_run(rebuild);
    }
    if (err == ERR_CORRUPT || err == ERR_FORMAT) {
        return quarantine(rebuild->store, "the log cannot be replayed over the snapshot", false,
                          identity, options);
    }
    if (err != ERR_OK) {
        return err;
    }
    fill(rebuild, options);
    if (rebuild->replay.state) {
        state_set_history(rebuild->replay.state, rebuild->replay.config.history);
        view_replace(options->view, rebuild->replay.state);
    }
    return ERR_OK;
}

/* A genesis that cannot be read is damage, which is judged later. */
static enum err check_genesis(struct rebuild *rebuild)
{
    struct zab_config config;

    if (genesis(&rebuild->report->identity, &config) != ERR_OK) {
        return ERR_OK;
    }
    return replay_check_level(&rebuild->replay, &config);
}

/* Takes over the identity of the disk, and rebuilds from its log, or quarantines it. */
static enum err recover_disk(struct rebuild *rebuild, struct replica_options *options,
                             struct store_identity *ret_identity)
{
    struct store_report *report = rebuild->report;
    enum err err = check_genesis(rebuild);

    if (err != ERR_OK) {
        return err;
    }
    *ret_identity = report->identity;
    options->zab.incarnation = report->identity.incarnation;
    options->zab.bootstrapping = report->identity.bootstrapping;
    if (report->verdict == STORE_DAMAGED || report->quarantined) {
        return quarantine(rebuild->store, report->reason, report->quarantined, ret_identity,
                          options);
    }
    return recover_sound(rebuild, options, ret_identity);
}

enum err recover(struct store *store, struct store_report *report, struct view *view,
                 struct replica_options *options, struct store_identity *ret_identity)
{
    enum err err;

    *ret_identity = (struct store_identity){0};
    if (MUTANT(4)) {
        report->committed = report->log_last; /* The next snapshot holds the uncommitted tail. */
    }
    take_report(report, view, options);
    if (report->verdict == STORE_EMPTY) {
        return format(store, replica_founds(&options->zab), options, ret_identity);
    }
    if (report->is_lost || !report->has_identity) {
        PROBE("recover.lost_disk");
        return ERR_CORRUPT;
    }
    if (report->identity.member_id != options->zab.id) {
        return ERR_FOREIGN;
    }
    if (zab_config_is_older(slice_make(report->identity.genesis, report->identity.genesis_len))) {
        return ERR_FORMAT;
    }

    /* On the heap: two configurations would be too much for the stack. */
    struct rebuild *rebuild = mem_zalloc(1, sizeof(*rebuild));

    rebuild->store = store;
    rebuild->report = report;
    rebuild->replay.level_max = options->zab.level_max;
    err = recover_disk(rebuild, options, ret_identity);
    if (err == ERR_NEWER) {
        (void)snprintf(report->reason, sizeof report->reason, "%s", rebuild->replay.reason);
    }
    replay_release(&rebuild->replay);
    blob_unref(rebuild->pending_bytes);
    mem_free(rebuild);
    return err;
}

void recover_release(struct replica_options *options)
{
    /* NOLINTNEXTLINE(performance-no-int-to-ptr): the cast removes the const. */
    mem_free((void *)(uintptr_t)options->zab.ranges);
    options->zab.ranges = NULL;
    options->zab.range_count = 0;
    blob_unref(options->zab.config_bytes);
    blob_unref(options->zab.pending_bytes);
    options->zab.config_bytes = NULL;
    options->zab.pending_bytes = NULL;
}
