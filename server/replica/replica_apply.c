/* Committed records become state, changes for watches, and answers. */
#include "server/replica/replica_int.h"

/* ---- Changes for watches. ---- */

/* Whether the state is whole: exactly that of its zxid, and with the digest that it must have. */
static bool is_whole(const struct replica *replica)
{
    return replica->tree.applied >= replica->tree.fuzzy_end && !replica->tree.end_unchecked &&
           !replica->tree.diverged;
}

/* Returns the changes for the window; NULL when there is no window or it is suspended. The window
 * is suspended while the log is applied to a fuzzy snapshot: a record may be in the state already,
 * and applying it again can give other changes than the first time. */
static struct change_set *make_set(const struct replica *replica, struct logrec *rec,
                                   const struct state_changes *changes)
{
    if (!replica->options.window || replica->tree.window_broken) {
        return NULL;
    }
    return change_set_new(rec->zxid, rec, changes);
}

/* Restarts the window when another state has become whole and no further state is to take its
 * place. Called under the write lock. */
static void mend_window(struct replica *replica)
{
    ASSERT(replica->tree.window_broken);
    if (is_whole(replica) && replica->tree.loading == 0 && !replica->status.quarantined) {
        PROBE("replica.window_restarted");
        replica->tree.window_broken = false;
        window_restart(replica->options.window, replica->tree.applied);
    }
}

/* Adds changes to the window after `applied` has moved; `take_set` may be NULL. Called under the
 * write lock. */
static void add_to_window(struct replica *replica, struct change_set *take_set)
{
    struct window *window = replica->options.window;

    if (replica->tree.window_broken) {
        ASSERT(!take_set);
        mend_window(replica);
    } else if (take_set) {
        window_append(window, take_set);
    } else if (window) {
        window_skip(window, replica->tree.applied);
    }
}

/* Suspends the window until mend_window, because ACLs of the next state may forbid to read changes
 * that the window holds. */
static void break_window(struct replica *replica)
{
    replica->tree.window_broken = replica->options.window != NULL;
    if (replica->tree.window_broken) {
        window_suspend(replica->options.window);
    }
}

static void wake_watchers(struct replica *replica)
{
    if (replica->options.window) {
        window_wake(replica->options.window);
    }
}

/* ---- Delivery. ---- */

/* Answers the client that has asked for the transaction, which the state has applied. */
static void answer_txn(struct replica *replica, const struct state *state, zxid_t zxid,
                       struct slice txn)
{
    struct txn_header header;
    struct wire_reader reader;
    enum err err = txn_open(&reader, txn, &header);

    ASSERT(err == ERR_OK);
    /* No answer comes from a diverged state, although the write itself is committed. */
    if (zxid > replica->tree.fuzzy_end && !replica->tree.diverged) {
        requests_delivered(replica, state, &header, zxid);
    }
    sessions_applied(replica, state);
}

static struct change_set *apply_txn(struct replica *replica, struct state *state,
                                    struct logrec *rec)
{
    bool fuzzy = rec->zxid <= replica->tree.fuzzy_end;
    enum err err =
        state_apply(state, rec->zxid, logrec_payload(rec), fuzzy, &replica->tree.changes);

    /* A committed transaction that cannot be applied means damage or a defect. This replica stops
     * rather than continue with another tree than the other replicas have. */
    ASSERT(err == ERR_OK);
    answer_txn(replica, state, rec->zxid, logrec_payload(rec));
    return make_set(replica, rec, &replica->tree.changes);
}

/* Returns the change of the znode STATE_CONFIG_PATH, which shows the configuration; NULL if that
 * znode already shows a newer configuration than that of `rec`. */
static struct change_set *config_set(const struct replica *replica, const struct state *state,
                                     struct logrec *rec)
{
    struct state_change change = {.type = TXN_SET, .path = slice_str(STATE_CONFIG_PATH)};
    struct state_changes changes = {.items = &change, .count = 1};
    const struct znode *node = state_find(state, change.path);

    znode_stat(node, &change.stat);
    if (change.stat.mzxid != rec->zxid) {
        return NULL;
    }
    change.data = znode_data(node);
    change.acl = state_acl_blob(state, znode_acl(node));
    return make_set(replica, rec, &changes);
}

static struct change_set *apply_config(struct replica *replica, struct state *state,
                                       struct logrec *rec)
{
    struct slice txn = zab_config_txn(logrec_payload(rec));
    bool fuzzy = rec->zxid <= replica->tree.fuzzy_end;
    struct zab_config config;
    struct buf text;

    if (zab_config_decode(logrec_payload(rec), &config) != ERR_OK) {
        state_skip(state, rec->zxid);
        return NULL;
    }
    config.version = rec->zxid;
    times_of_config(replica, &config);
    times_compare(replica); /* Other voters may count now. */
    buf_init(&text, CONFIG_TEXT_MAX);
    config_text(&config, logrec_payload(rec), &text);
    enum err err =
        state_apply_config(state, rec->zxid, buf_slice(&text), txn, fuzzy, &replica->tree.changes);

    ASSERT(err == ERR_OK); /* As in apply_txn. */
    buf_release(&text);
    if (txn.len > 0) {
        answer_txn(replica, state, rec->zxid, txn);
    }
    return config_set(replica, state, rec);
}

/* Once the log is applied up to the end of a received snapshot, checks that the state has the
 * digest that the snapshot names for its end. */
static void check_end(struct replica *replica, const struct state *state)
{
    if (replica->tree.end_unchecked && replica->tree.applied == replica->tree.fuzzy_end) {
        replica->tree.end_unchecked = false;
        replica->tree.diverged = state_digest(state) != replica->tree.end_digest;
    }
}

/* Takes age and stamp of a whole state. The age never falls, so a wrong age could not be corrected:
 * no age may come from a state that may still prove diverged. */
static void note_times(struct replica *replica, const struct state *state)
{
    if (is_whole(replica)) {
        times_of_state(replica, state);
    }
}

/* Reports a diverged state to the protocol. No answer comes from this state until another one
 * replaces it. */
static void mark_state_diverged(struct replica *replica)
{
    zxid_t end = replica->tree.fuzzy_end;

    ASSERT(replica->tree.diverged);
    PROBE("replica.bad_state");
    replica->tree.diverged = false;
    replica->tree.fuzzy_end = UINT64_MAX;
    zab_bad_state(replica->zab, end, &replica->inner);
}

static void apply_record(struct replica *replica, struct state *state, struct logrec *rec)
{
    struct change_set *set = NULL;

    ASSERT(rec->zxid > replica->tree.applied);

    switch (rec->type) {
    case LOGREC_TXN:
        set = apply_txn(replica, state, rec);
        break;
    case LOGREC_CONFIG:
        set = apply_config(replica, state, rec);
        break;
    case LOGREC_EPOCH:
    case LOGREC_STAMP:
        state_skip(state, rec->zxid);
        break;
    }
    replica->tree.applied = rec->zxid;
    replica->counts.delivered++;
    replica->snapshot.records++;
    replica->snapshot.bytes += rec->len;
    check_end(replica, state);
    note_times(replica, state);
    add_to_window(replica, set);
    if (zxid_counter(rec->zxid) % ZAB_CHECKPOINT == 0 && rec->zxid >= replica->tree.fuzzy_end) {
        zab_digest(replica->zab, rec->zxid, state_digest(state));
    }
}

static bool is_newer(const struct logrec *rec)
{
    struct slice bytes = logrec_payload(rec);

    return (rec->type == LOGREC_TXN && txn_is_newer(bytes)) ||
           (rec->type == LOGREC_CONFIG && txn_is_newer(zab_config_txn(bytes)));
}

/* Ends the process before a transaction of a later release: nothing is applied any more. */
static void stop_before(struct replica *replica, zxid_t zxid)
{
    struct zab_effects *list = &replica->inner;

    replica->tree.stopped = true;
    MEM_GROW(list->items, list->count, list->cap, MEM_ITEMS_MAX);
    list->items[list->count++] = (struct zab_effect){
        .type = ZAB_FX_HALT, .notice = {.type = ZAB_NOTICE_NEWER_RECORD, .zxid = zxid}};
}

/* Applies the deliveries under the lock; answers go out after the lock is free. */
size_t replica_deliver(struct replica *replica, size_t at)
{
    struct state *state = view_write(replica->view);

    while (at < replica->inner.count && replica->inner.items[at].type == ZAB_FX_DELIVER) {
        struct logrec *rec = replica->inner.items[at].deliver.rec;

        if (!replica->tree.stopped && is_newer(rec)) {
            stop_before(replica, rec->zxid);
        }
        if (!replica->tree.stopped) {
            apply_record(replica, state, rec);
        }
        logrec_unref(rec);
        at++;
    }
    view_write_done(replica->view);
    wake_watchers(replica);
    if (replica->tree.diverged) {
        mark_state_diverged(replica);
    }
    if (replica->status.state == ZAB_LEADING) {
        prep_applied(replica->prep, replica->tree.applied);
    }
    requests_answer_ready(replica);
    requests_applied(replica);
    return at;
}

/* ---- Another state, and whether the state may be read. ---- */

void replica_restoring(struct replica *replica)
{
    ASSERT(replica->tree.loading > 0);
    replica->tree.readable = false;
    break_window(replica);
}

void replica_restored(struct replica *replica, const struct zab_ev_restored *restored)
{
    struct state *state = view_write(replica->view);

    replica->tree.applied = restored->start;
    replica->tree.fuzzy_end = restored->end;
    replica->tree.end_unchecked = restored->end != 0;
    replica->tree.end_digest = restored->digest;
    replica->snapshot.records = 0;
    replica->snapshot.bytes = 0;
    replica->tree.lost_seq = replica->requests.seq;
    ASSERT(!replica->tree.readable &&
           replica->tree.window_broken == (replica->options.window != NULL));
    /* A snapshot that was taken while nothing changed ends where it starts, so its digest is
     * checked at once. */
    check_end(replica, state);
    note_times(replica, state);
    if (replica->tree.window_broken) {
        mend_window(replica);
    }
    view_write_done(replica->view);
    wake_watchers(replica);
    if (replica->tree.diverged) {
        mark_state_diverged(replica);
    }
}

/* Forbids reads of the state and of the window: changes on a quarantined disk may never have
 * happened in the ensemble. */
static void set_unreadable(struct replica *replica)
{
    if (replica->tree.readable) {
        view_set_whole(replica->view, false);
        replica->tree.readable = false;
    }
    if (!replica->tree.window_broken) {
        break_window(replica);
    }
}

static void set_readable(struct replica *replica)
{
    ASSERT(replica->tree.loading == 0);
    if (replica->tree.window_broken) {
        (void)view_write(replica->view);
        mend_window(replica);
        view_write_done(replica->view);
        wake_watchers(replica);
    }
    view_set_whole(replica->view, true);
    replica->tree.readable = true;
}

void replica_update_readable(struct replica *replica)
{
    bool quarantined = replica->status.quarantined;

    if (replica->status.serving && !quarantined && !replica->tree.readable) {
        set_readable(replica);
    } else if (quarantined) {
        set_unreadable(replica);
    }
}
