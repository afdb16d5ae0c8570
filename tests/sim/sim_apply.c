#include "base/check.h"
#include "base/hash.h"
#include "base/mem.h"
#include "server/state/state.h"
#include "tests/lib/state_kit.h"
#include "tests/sim/sim.h"

#include <inttypes.h>

/*
 * The linker puts these functions between every caller and the state machine (--wrap). The checkers
 * see each applied record without a hook in the product.
 */

enum {
    SHARES_EVERY = 8, /* Transactions. */
    SHARES_BACK = 50  /* Transactions: the id of a session is a zxid. */
};

enum err __real_state_apply(struct state *state, zxid_t zxid, struct slice txn, bool fuzzy,
                            struct state_changes *ret_changes);

/* Digest of the tree and of its counters: no counter may drift from that of another replica. */
static uint64_t digest_of(const struct state *state)
{
    return hash64_mix(state_digest(state), state_memory_bytes(state));
}

enum err __wrap_state_apply(struct state *state, zxid_t zxid, struct slice txn, bool fuzzy,
                            struct state_changes *ret_changes);
enum err __real_state_apply_config(struct state *state, zxid_t zxid, struct slice text,
                                   struct slice txn, bool fuzzy, struct state_changes *ret_changes);
enum err __wrap_state_apply_config(struct state *state, zxid_t zxid, struct slice text,
                                   struct slice txn, bool fuzzy, struct state_changes *ret_changes);
void __real_state_skip(struct state *state, zxid_t zxid);
void __wrap_state_skip(struct state *state, zxid_t zxid);
void __real_state_set_config(struct state *state, zxid_t zxid, struct slice text);
void __wrap_state_set_config(struct state *state, zxid_t zxid, struct slice text);
void __real_state_restored(struct state *state, zxid_t start);
void __wrap_state_restored(struct state *state, zxid_t start);
_Noreturn void __real_check_failed(const char *file, int line, const char *expr);
_Noreturn void __wrap_check_failed(const char *file, int line, const char *expr);

static struct sim *watched;
static bool inside_apply;

void sim_watch(struct sim *sim)
{
    watched = sim;
}

_Noreturn void __wrap_check_failed(const char *file, int line, const char *expr)
{
    if (watched) {
        sim_fail(watched, "ASSERT", "%s:%d: %s", file, line, expr);
    }
    __real_check_failed(file, line, expr);
}

static void note(const struct state *state, struct sim_applied applied)
{
    struct sim *sim = watched;
    struct sim_node *node = sim ? sim->current : NULL;

    if (!node) {
        return;
    }
    if (node->state != state) {
        node->state = state;
        node->applied = 0;
    }
    if (sim->applied_count == sim->applied_cap) {
        sim->applied_cap = sim->applied_cap ? sim->applied_cap * 2 : 64;
        sim->applied = mem_realloc(sim->applied, sim->applied_cap * sizeof(*sim->applied));
    }
    applied.after = node->applied;
    node->applied = applied.zxid;
    sim->applied[sim->applied_count++] = applied;
}

/* Each share, of a client or a network, counts its open sessions, also after a restart and in a
 * restored state. Only the shares of one session are checked at intervals, a recent one if
 * possible: a wrong count persists, so a later check still finds it. */
static void check_shares(const struct state *state, zxid_t zxid)
{
    const struct state_session *session = NULL;

    if (zxid % SHARES_EVERY != 0) {
        return;
    }
    session = state_session_after(state, zxid > SHARES_BACK ? zxid - SHARES_BACK : 0);
    if (!session) {
        session = state_session_after(state, 0);
    }
    if (session) {
        kit_verify_shares(state, session->from);
    }
}

enum err __wrap_state_apply(struct state *state, zxid_t zxid, struct slice txn, bool fuzzy,
                            struct state_changes *ret_changes)
{
    enum err err;

    if (inside_apply) { /* Of a configuration, see below. */
        return __real_state_apply(state, zxid, txn, fuzzy, ret_changes);
    }
    inside_apply = true; /* state_apply calls state_skip to move the zxid. */
    err = __real_state_apply(state, zxid, txn, fuzzy, ret_changes);
    inside_apply = false;
    if (err == ERR_OK) {
        check_shares(state, zxid);
        note(state, (struct sim_applied){.zxid = zxid,
                                         .type = LOGREC_TXN,
                                         .payload = hash64(0, txn),
                                         .fuzzy = fuzzy,
                                         .digest = digest_of(state)});
    }
    return err;
}

/* A configuration, and the transaction of the client that has asked for it, in one step. */
enum err __wrap_state_apply_config(struct state *state, zxid_t zxid, struct slice text,
                                   struct slice txn, bool fuzzy, struct state_changes *ret_changes)
{
    enum err err;

    inside_apply = true;
    err = __real_state_apply_config(state, zxid, text, txn, fuzzy, ret_changes);
    inside_apply = false;
    if (err == ERR_OK) {
        note(state,
             (struct sim_applied){
                 .zxid = zxid, .type = LOGREC_CONFIG, .fuzzy = fuzzy, .digest = digest_of(state)});
    }
    return err;
}

/* A skipped record may lie inside a fuzzy range; its digest is not compared. */
void __wrap_state_skip(struct state *state, zxid_t zxid)
{
    __real_state_skip(state, zxid);
    if (inside_apply) {
        return;
    }
    note(state, (struct sim_applied){
                    .zxid = zxid, .type = LOGREC_EPOCH, .fuzzy = true, .digest = digest_of(state)});
}

void __wrap_state_set_config(struct state *state, zxid_t zxid, struct slice text)
{
    __real_state_set_config(state, zxid, text);
    if (zxid != 0 && !inside_apply) {
        note(state,
             (struct sim_applied){
                 .zxid = zxid, .type = LOGREC_CONFIG, .fuzzy = true, .digest = digest_of(state)});
    }
}

/* The disk does not count anyway, or its replica may mark its state as diverged. */
static bool may_spoil(struct sim *sim, struct sim_node *node)
{
    return sim->options.scenario || node->damaged || sim_fault_may_harm(sim, node);
}

/* As if memory or a checksum had let a wrong byte through in a running process. */
static void spoil(struct sim *sim, struct state *state)
{
    struct sim_node *node = sim->current;
    struct txn_header header = {.age_ms = 1, .stamp_ms = 1};
    struct txn_effect effect = {
        .type = TXN_SET, .path = slice_str("/"), .data = slice_str("rot"), .version = 77};
    struct buf txn;

    if (sim->spoil_loaded != node->id || !node->replica || !may_spoil(sim, node)) {
        return;
    }
    SIM_TRACE(sim, "fault: node %u loads a wrong state", node->id);
    sim->spoil_loaded = 0;
    sim->totals.spoilt++;
    node->diverged = true;
    buf_init(&txn, 4096);
    txn_begin(&txn, &header);
    txn_put(&txn, &effect);
    inside_apply = true;
    (void)__real_state_apply(state, state_applied(state), buf_slice(&txn), true, NULL);
    inside_apply = false;
    buf_release(&txn);
}

/* A state that was loaded from a snapshot says that it has applied `start`. */
void __wrap_state_restored(struct state *state, zxid_t start)
{
    __real_state_restored(state, start);
    if (watched && watched->current) {
        watched->current->state = state;
        watched->current->applied = start;
        spoil(watched, state);
    }
}

static void check_digest(struct sim *sim, const struct sim_node *node, struct sim_rec *rec,
                         const struct sim_applied *applied)
{
    if (applied->fuzzy || node->diverged) {
        return;
    }
    if (!rec->has_digest) {
        rec->has_digest = true;
        rec->digest = applied->digest;
    }
    if (rec->digest != applied->digest) {
        sim_fail(sim, "A17", "node %u has a different state at %" PRIx64, node->id, applied->zxid);
    }
}

static void check_one(struct sim *sim, struct sim_node *node, const struct sim_applied *applied)
{
    struct sim_rec *rec = sim_rec_find(sim, applied->zxid);
    zxid_t parent = rec && rec->parent ? rec->parent->rec->zxid : 0;

    if (!rec) {
        sim_fail(sim, "A6", "node %u applied %" PRIx64 ", which no leader broadcast", node->id,
                 applied->zxid);
    }
    if (rec->rec->type == LOGREC_TXN && applied->payload != hash64(0, logrec_payload(rec->rec))) {
        sim_fail(sim, "A6", "node %u applied different bytes as %" PRIx64, node->id, applied->zxid);
    }
    if ((rec->rec->type == LOGREC_TXN) != (applied->type == LOGREC_TXN)) {
        sim_fail(sim, "A6", "node %u applied %" PRIx64 " as a different record type", node->id,
                 applied->zxid);
    }
    if (!rec->committed) {
        sim_fail(sim, "A7", "node %u applied %" PRIx64 ", which is not committed", node->id,
                 applied->zxid);
    }
    if (applied->after != parent) {
        sim_fail(sim, "A8", "node %u applied %" PRIx64 " after %" PRIx64 " instead of %" PRIx64,
                 node->id, applied->zxid, applied->after, parent);
    }
    check_digest(sim, node, rec, applied);
}

void sim_check_applied(struct sim *sim, struct sim_node *node)
{
    zxid_t last = 0;

    for (size_t i = 0; i < sim->applied_count; i++) {
        check_one(sim, node, &sim->applied[i]);
        last = sim->applied[i].zxid;
    }
    if (last != 0 && !sim_log_holds(sim, node->shadow.last, last)) {
        sim_fail(sim, "A16",
                 "node %u applied %" PRIx64 ", but its disk holds the log up to %" PRIx64, node->id,
                 last, node->shadow.last);
    }
    sim->applied_count = 0;
}
