/* Committed records become state, changes for those who watch, and answers. */
#include "server/config/config_text.h"
#include "server/replica/replica_int.h"

/* ---- For those who watch. ---- */

static bool is_whole(const struct replica *replica)
{
    return replica->applied >= replica->fuzzy_end && !replica->end_unchecked && !replica->bad_state;
}

/* NULL when nobody is to be told. What is done again between the start of a fuzzy snapshot and its
 * end is no history. */
static struct change_set *make_set(const struct replica *replica, struct logrec *rec,
                                   const struct state_changes *changes)
{
    if (!replica->options.window || replica->window_broken) {
        return NULL;
    }
    return change_set_new(rec->zxid, rec, changes);
}

/* Under the write lock. The window begins a new life where another state has become whole, and no
 * further one is to take its place. */
static void mend_window(struct replica *replica)
{
    ASSERT(replica->window_broken);
    if (is_whole(replica) && replica->loading == 0 && !replica->status.quarantined) {
        PROBE("replica.window_restarted");
        replica->window_broken = false;
        window_restart(replica->options.window, replica->applied);
    }
}

/* Under the write lock, when `applied` has moved. */
static void tell_window(struct replica *replica, struct change_set *take_set)
{
    struct window *window = replica->options.window;

    if (replica->window_broken) {
        ASSERT(!take_set);
        mend_window(replica);
    } else if (take_set) {
        window_append(window, take_set);
    } else if (window) {
        window_skip(window, replica->applied);
    }
}

/* Until mend_window nothing is read from the window: the other state may have closed to its readers
 * what the window holds. */
static void break_window(struct replica *replica)
{
    replica->window_broken = replica->options.window != NULL;
    if (replica->window_broken) {
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

static struct change_set *apply_txn(struct replica *replica, struct state *state,
                                    struct logrec *rec)
{
    struct txn_header header;
    struct wire_reader reader;
    bool fuzzy = rec->zxid <= replica->fuzzy_end;
    enum err err = state_apply(state, rec->zxid, logrec_payload(rec), fuzzy, &replica->changes);

    /* A committed transaction that cannot be applied is damage or a defect: this replica stops
     * rather than go on with another tree than the others. */
    ASSERT(err == ERR_OK);
    err = txn_open(&reader, logrec_payload(rec), &header);
    ASSERT(err == ERR_OK);
    /* Nor from a state that is about to be disowned, although the write itself is committed. */
    if (!fuzzy && !replica->bad_state) {
        requests_delivered(replica, state, &header, rec->zxid);
    }
    sessions_applied(replica, state);
    return make_set(replica, rec, &replica->changes);
}

/* A new configuration is a new text of one znode. */
static struct change_set *config_set(const struct replica *replica, const struct state *state,
                                     struct logrec *rec)
{
    struct state_change change = {.type = TXN_SET, .path = slice_str(STATE_CONFIG_PATH)};
    struct state_changes changes = {.items = &change, .count = 1};
    const struct znode *node = state_find(state, change.path);

    ASSERT(node);
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
    struct zab_config config;
    struct buf text;

    if (zab_config_decode(logrec_payload(rec), &config) != ERR_OK) {
        state_skip(state, rec->zxid);
        return NULL;
    }
    config.version = rec->zxid;
    times_of_config(replica, &config);
    buf_init(&text, 1 << 16);
    config_text(&config, &text);
    state_set_config(state, rec->zxid, buf_slice(&text));
    buf_release(&text);
    return config_set(replica, state, rec);
}

/* Where the log covers a received snapshot, the state must be the one that its maker had. */
static void check_end(struct replica *replica, const struct state *state)
{
    if (replica->end_unchecked && replica->applied == replica->fuzzy_end) {
        replica->end_unchecked = false;
        replica->bad_state = state_digest(state) != replica->end_digest;
    }
}

/* An age is never given back, so a state that may yet prove bad gives none. */
static void note_times(struct replica *replica, const struct state *state)
{
    if (is_whole(replica)) {
        times_of_state(replica, state);
    }
}

/* Until another state is in its place, it is one of no zxid: nothing is answered from it. */
static void disown_state(struct replica *replica)
{
    zxid_t end = replica->fuzzy_end;

    ASSERT(replica->bad_state);
    PROBE("replica.bad_state");
    replica->bad_state = false;
    replica->fuzzy_end = UINT64_MAX;
    zab_bad_state(replica->zab, end, &replica->inner);
}

static void apply_record(struct replica *replica, struct state *state, struct logrec *rec)
{
    struct change_set *set = NULL;

    ASSERT(rec->zxid > replica->applied);

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
    replica->applied = rec->zxid;
    replica->delivered++;
    replica->records_since_snap++;
    replica->bytes_since_snap += rec->len;
    check_end(replica, state);
    note_times(replica, state);
    tell_window(replica, set);
    if (zxid_counter(rec->zxid) % ZAB_CHECKPOINT == 0 && rec->zxid >= replica->fuzzy_end) {
        zab_digest(replica->zab, rec->zxid, state_digest(state), &replica->inner);
    }
}

/* Answers go out after the lock is free. */
size_t replica_deliver(struct replica *replica, size_t at)
{
    struct state *state = view_write(replica->view);

    ASSERT(state);
    while (at < replica->inner.count && replica->inner.items[at].type == ZAB_FX_DELIVER) {
        struct logrec *rec = replica->inner.items[at].deliver.rec;

        apply_record(replica, state, rec);
        logrec_unref(rec);
        at++;
    }
    view_write_done(replica->view);
    wake_watchers(replica);
    if (replica->bad_state) {
        disown_state(replica);
    }
    if (replica->status.state == ZAB_LEADING) {
        prep_applied(replica->prep, replica->applied);
    }
    requests_answer_ready(replica);
    requests_applied(replica);
    return at;
}

/* ---- Another state, or one that is doubted. ---- */

void replica_restoring(struct replica *replica)
{
    ASSERT(replica->loading > 0);
    replica->readable = false;
    break_window(replica);
}

void replica_restored(struct replica *replica, const struct zab_ev_restored *restored)
{
    struct state *state = view_write(replica->view);

    ASSERT(state);
    replica->applied = restored->start;
    replica->fuzzy_end = restored->end;
    replica->end_unchecked = restored->end != 0;
    replica->end_digest = restored->digest;
    replica->records_since_snap = 0;
    replica->bytes_since_snap = 0;
    replica->state_lost_seq = replica->request_seq;
    ASSERT(!replica->readable && replica->window_broken == (replica->options.window != NULL));
    /* One that was taken while nothing changed has its end already. */
    check_end(replica, state);
    note_times(replica, state);
    if (replica->window_broken) {
        mend_window(replica);
    }
    view_write_done(replica->view);
    wake_watchers(replica);
    if (replica->bad_state) {
        disown_state(replica);
    }
}

/* Nothing is read from the window either: it is unknown whether its changes have happened. */
static void doubt(struct replica *replica)
{
    if (replica->readable) {
        view_set_whole(replica->view, false);
        replica->readable = false;
    }
    if (!replica->window_broken) {
        break_window(replica);
    }
}

static void trust(struct replica *replica)
{
    ASSERT(replica->loading == 0);
    if (replica->window_broken) {
        (void)view_write(replica->view);
        mend_window(replica);
        view_write_done(replica->view);
        wake_watchers(replica);
    }
    view_set_whole(replica->view, true);
    replica->readable = true;
}

void replica_note_readable(struct replica *replica)
{
    bool doubted = replica->status.quarantined;

    if (replica->status.serving && !doubted && !replica->readable) {
        trust(replica);
    } else if (doubted) {
        doubt(replica);
    }
}
