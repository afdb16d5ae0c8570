#include "tests/sim/sim_session.h"

#include "base/check.h"
#include "base/crypto.h"
#include "base/mem.h"
#include "server/read/view.h"
#include "server/state/state.h"
#include "tests/sim/sim_member.h"

#include <inttypes.h>

enum {
    OPEN_PPM = 60000, /* Share of a client's turns. */
    OPEN_EVERY = 2,   /* Of so many sessions one is opened as native clients do. */
    RECENT_MAX = 64,
    ATTACH_PPM = 40000,
    SILENT_PPM = 15000,
    LATE_PPM = 30000, /* Share of operations over a socket that use the previous attachment. */
    GONE_MORE_US = 30 * SIM_SECOND,
    AWAKE_TICKS = 3, /* After a pause a report may be late by this much. */
};

/* ---- The client's view. ---- */

static struct sim_session *session_at(const struct sim *sim, uint32_t number)
{
    ASSERT(number < sim->session_count);
    return &sim->sessions[number];
}

bool sim_session_is_open(const struct sim_session *session)
{
    return session->state == SIM_SESSION_OPEN;
}

static bool is_kept(const struct sim_session *session)
{
    return session->state == SIM_SESSION_OPENING || session->state == SIM_SESSION_OPEN;
}

static struct sim_session *new_session(struct sim *sim, uint32_t client)
{
    uint32_t ticks = (uint32_t)rng_range(&sim->rng, 2, sim->knobs.timeout_ticks_max);
    struct sim_session *session;

    if (!sim->sessions) {
        sim->sessions = mem_zalloc(SIM_SESSIONS_MAX, sizeof(*session));
    }
    session = &sim->sessions[sim->session_count];
    session->number = sim->session_count++;
    session->client = client;
    session->timeout_ms = ticks * sim->knobs.limits.tick_ms;
    (void)snprintf(session->secret, sizeof(session->secret), "%08x-0000-4000-8000-%012" PRIx64,
                   session->number, rng_u64(&sim->rng) >> 16);
    crypto_sha256(slice_str(session->secret), session->hash);
    return session;
}

static struct sim_op *make_op(struct sim *sim, struct sim_session *session, enum op_id id)
{
    struct sim_op *op = sim_op_new(sim, session->client, sim->clients[session->client].node);

    op->id = id;
    op->subs[0].id = id;
    op->sub_count = 1;
    op->session = session;
    return op;
}

/* Nearly all older sessions have ended long ago. */
static uint32_t oldest_recent(const struct sim *sim)
{
    return sim->session_count > RECENT_MAX ? sim->session_count - RECENT_MAX : 0;
}

static struct sim_session *some_session(struct sim *sim, uint32_t client)
{
    uint32_t first = oldest_recent(sim);
    uint32_t count = sim->session_count - first;
    uint32_t from = count > 0 ? (uint32_t)rng_below(&sim->rng, count) : 0;

    for (uint32_t i = 0; i < count; i++) {
        struct sim_session *session = session_at(sim, first + (from + i) % count);

        if (session->client == client && sim_session_is_open(session)) {
            return session;
        }
    }
    return NULL;
}

static uint32_t count_kept(const struct sim *sim, uint32_t client)
{
    uint32_t count = 0;

    for (uint32_t i = oldest_recent(sim); i < sim->session_count; i++) {
        count += sim->sessions[i].client == client && is_kept(&sim->sessions[i]);
    }
    return count;
}

void sim_session_turn(struct sim *sim, const struct sim_client *client)
{
    struct sim_session *session;

    if (sim->knobs.sessions == 0) {
        return;
    }
    if (rng_chance(&sim->rng, OPEN_PPM + sim->knobs.close_ppm) &&
        sim->session_count < SIM_SESSIONS_MAX &&
        count_kept(sim, client->id) < sim->knobs.sessions) {
        session = new_session(sim, client->id);
        sim_op_launch(
            sim, make_op(sim, session, session->number % OPEN_EVERY == 0 ? OP_OPEN : OP_SESSION));
        return;
    }
    session = some_session(sim, client->id);
    if (!session) {
        return;
    }
    if (rng_chance(&sim->rng, SILENT_PPM)) {
        session->state = SIM_SESSION_SILENT;
    } else if (rng_chance(&sim->rng, sim->knobs.close_ppm)) {
        sim_op_launch(sim, make_op(sim, session, OP_CLOSE));
    } else if (rng_chance(&sim->rng, ATTACH_PPM)) {
        sim_op_launch(sim, make_op(sim, session, OP_ATTACH));
    }
}

void sim_session_join(struct sim *sim, struct sim_op *op)
{
    struct sim_session *session;

    if (sim->knobs.sessions == 0 || !rng_chance(&sim->rng, 500000)) {
        return;
    }
    session = some_session(sim, op->client);
    op->session = session;
    if (session && session->attach != 0 && session->at_node == op->node) {
        op->attach = rng_chance(&sim->rng, LATE_PPM) && session->before != 0 ? session->before
                                                                             : session->attach;
    }
}

/* ---- The front end. ---- */

/* The arguments of an operation about a session name that session. */
static bool is_about(enum op_id id)
{
    return id == OP_SESSION || id == OP_OPEN || id == OP_ATTACH || id == OP_CLOSE || id == OP_TOUCH;
}

void sim_session_args(struct sim_session *session, struct op_args *args)
{
    if (!is_about(args->op)) {
        return;
    }
    args->secret = slice_str(session->secret);
    args->secret_hash = slice_make(session->hash, sizeof(session->hash));
    args->timeout_ms = args->op == OP_SESSION || args->op == OP_OPEN ? session->timeout_ms : 0;
}

void sim_session_show(const struct sim_op *op, struct op_session *ret_session)
{
    *ret_session = (struct op_session){0};
    if (!op->session || is_about(op->id)) {
        return;
    }
    ret_session->shown = true;
    if (op->attach != 0) {
        ret_session->id = op->session->id;
        ret_session->attach = op->attach;
    } else {
        memcpy(ret_session->hash, op->session->hash, sizeof(ret_session->hash));
    }
}

void sim_session_sent(struct sim *sim, const struct sim_op *op)
{
    struct sim_session *session = op->session;

    (void)sim;
    if (session && op->id != OP_CLOSE) {
        session->touches[session->touch_count++ % SIM_TOUCHES_MAX] = op->number;
    }
}

/* The shortest time that a leader's clock may count for a session timeout. */
static uint64_t least_us(const struct sim *sim, const struct sim_session *session)
{
    uint64_t us = (uint64_t)session->timeout_ms * SIM_MS;
    uint64_t rounding_us = (uint64_t)2 * SIM_MS;

    return us - us * sim->knobs.drift_ppm / 1000000 - rounding_us;
}

/*
 * The leader receives the replica's reports, and has not lost it for its silence before. Reports
 * cover the time up to marks from the leader, so the replica must receive the leader's messages as
 * well.
 */
static bool hears(struct sim *sim, const struct sim_node *node, const struct sim_node *leader)
{
    return sim_net_is_heard(sim, node->id, leader->id) &&
           sim_net_is_heard(sim, leader->id, node->id) &&
           !sim_net_was_mute(sim, node->id, leader->id, leader->steady_us) &&
           !sim_net_was_mute(sim, leader->id, node->id, leader->steady_us);
}

/*
 * The epoch whose leader must keep the session for a full timeout after this replica's contact with
 * the client. That holds if the replica is in step: it will report, or its connection will be lost,
 * before the leader stops waiting for its report. It does not hold if the replica has returned to
 * the same leader, which respects only its first loss; a long silence of a connection that stays
 * open is such a loss, too. 0: none.
 */
static uint32_t epoch_heard(struct sim *sim, const struct sim_node *node)
{
    const struct zab_status *zab = &node->status.zab;
    const struct sim_node *leader = &sim->nodes[zab->leader];
    uint64_t tick_us = (uint64_t)sim->knobs.limits.tick_ms * SIM_MS;
    bool listens = zab->serving && zab->leader != 0 && leader->up &&
                   leader->status.zab.state == ZAB_LEADING &&
                   leader->status.zab.epoch == zab->epoch && node->stints == 1;

    if (!listens || sim->now_us - node->awake_us < AWAKE_TICKS * tick_us) {
        return 0;
    }
    return node == leader || hears(sim, node, leader) ? zab->epoch : 0;
}

/* Start of the leader's count: its establishment, or the opening of the session in its epoch. A
 * leader of an earlier epoch that wakes up may also propose to open the session. */
static uint64_t counted_from_us(const struct sim_session *session, const struct sim_node *leader)
{
    uint64_t from_us = leader->steady_us;

    for (uint32_t i = 0; i < SIM_MADE_MAX; i++) {
        const struct sim_opening *made = &session->made[i];

        if (zxid_epoch(made->zxid) == leader->status.zab.epoch && made->at_us > from_us) {
            from_us = made->at_us;
        }
    }
    return from_us;
}

/* Once a client has been late, its session may expire at any time in that epoch. */
static void keep(struct sim *sim, const struct sim_node *node, const struct sim_op *op)
{
    struct sim_session *session = op->session;
    uint32_t epoch = epoch_heard(sim, node);

    if (epoch == 0) {
        return;
    }
    if (session->kept_in != epoch) {
        session->kept_in = epoch;
        session->late = false;
        session->kept_until_us =
            counted_from_us(session, &sim->nodes[node->status.zab.leader]) + least_us(sim, session);
    }
    session->late = session->late || sim->now_us > session->kept_until_us;
    session->kept_until_us = sim->now_us + least_us(sim, session);
    session->kept_by = op->number;
}

/* A request that names a session known to this replica touches that session. */
void sim_session_heard(struct sim *sim, struct sim_node *node, struct sim_op *op)
{
    struct op_session who = {.shown = true};
    struct op_session_info info;

    if (!op->session || op->touched || op->id == OP_CLOSE) {
        return;
    }
    memcpy(who.hash, op->session->hash, sizeof(who.hash));
    if (view_find_session(node->view, &who, &info) == ERR_OK) {
        sim_node_touch(sim, node, info.id);
        op->touched = true;
        keep(sim, node, op);
    }
}

/* ---- Keeping a session alive. ---- */

static void beat(struct sim *sim, struct sim_event *event)
{
    struct sim_session *session = session_at(sim, (uint32_t)event->a);
    struct sim_op *op;

    if (sim->clients_stop || !is_kept(session)) {
        return;
    }
    op = make_op(sim, session, OP_TOUCH);
    op->patience_us = (uint64_t)session->timeout_ms * SIM_MS / 3;
    sim_op_launch(sim, op);
}

static void beat_after(struct sim *sim, const struct sim_session *session, uint64_t max_us)
{
    sim_after(sim, rng_below(&sim->rng, max_us) + 1, beat, "beat", NULL)->a = session->number;
}

static void touch_answered(struct sim *sim, struct sim_session *session, const struct sim_op *op)
{
    uint64_t timeout_us = (uint64_t)session->timeout_ms * SIM_MS;

    if (op->outcome == SIM_OK) {
        session->id = op->info.id;
        session->state = session->state == SIM_SESSION_OPENING ? SIM_SESSION_OPEN : session->state;
        beat_after(sim, session, timeout_us / 2);
    } else if (op->outcome == SIM_ERROR) {
        session->state = SIM_SESSION_GONE;
    } else {
        sim->clients[op->client].node = (uint32_t)rng_range(&sim->rng, 1, sim->knobs.nodes);
        beat_after(sim, session, timeout_us / 10);
    }
}

static void session_answered(struct sim *sim, struct sim_session *session, const struct sim_op *op)
{
    if (op->outcome == SIM_OK) {
        session->id = op->info.id;
        session->state = SIM_SESSION_OPEN;
    } else if (op->outcome != SIM_UNKNOWN) {
        session->state = SIM_SESSION_GONE;
    }
    if (is_kept(session)) { /* The session may still exist: the next touch will show that. */
        beat_after(sim, session, (uint64_t)session->timeout_ms * SIM_MS / 3);
    }
}

void sim_session_answered(struct sim *sim, struct sim_op *op)
{
    struct sim_session *session = op->session;

    if (!session) {
        return;
    }
    if (op->id == OP_SESSION || op->id == OP_OPEN) {
        session_answered(sim, session, op);
    } else if (op->id == OP_TOUCH) {
        touch_answered(sim, session, op);
    }
    if ((op->id == OP_ATTACH || op->id == OP_OPEN) && op->outcome == SIM_OK) {
        session->before = session->attach;
        session->attach = op->info.attach;
        session->at_node = op->node;
    } else if (op->id == OP_CLOSE && op->outcome != SIM_REFUSED) {
        session->state = SIM_SESSION_GONE;
    }
    if (op->err == ERR_SESSION_EXPIRED && op->outcome == SIM_ERROR) {
        session->state = SIM_SESSION_GONE;
    }
}

/* ---- The truth about expiry. ---- */

/* The time within which a touch reaches the leader when no fault intervenes. */
static uint64_t report_us(const struct sim *sim)
{
    return (uint64_t)sim->knobs.limits.tick_ms * SIM_MS + (uint64_t)sim->knobs.delay_max_us * 20;
}

/* The replica has been in step with that leader since then, without interruption. */
static bool was_in_step(struct sim *sim, const struct sim_node *node, const struct sim_node *leader,
                        uint64_t since_us)
{
    const struct zab_status *zab = &node->status.zab;

    return node->up && !node->paused && zab->serving && zab->leader == leader->id &&
           zab->epoch == leader->status.zab.epoch && node->steady_us <= since_us &&
           leader->steady_us <= since_us && (node == leader || node->awake_us <= since_us) &&
           sim_net_was_calm(sim, node->id, leader->id, since_us);
}

static void check_touch(struct sim *sim, const struct sim_node *leader,
                        const struct sim_session *session, uint64_t id, const struct sim_op *op)
{
    const struct sim_node *node = &sim->nodes[op->node];
    uint64_t ago_us = sim->now_us - op->arrival_us;

    if (op->arrival_us > sim->now_us || ago_us >= least_us(sim, session) ||
        ago_us <= report_us(sim) || op->life != node->life || (op->came && !op->touched)) {
        return;
    }
    if (was_in_step(sim, node, leader, op->arrival_us)) {
        sim_fail(sim, "A22",
                 "leader %u expires session %" PRIx64 " of %u ms, but node %u had contact %" PRIu64
                 " ms ago (operation %u)",
                 leader->id, id, session->timeout_ms, node->id, ago_us / SIM_MS, op->number);
    }
}

/*
 * Until now some replica had contact with the client within each timeout. So either the leader has
 * received a report of each contact, or it must wait for the replica that had the contact, or it
 * has lost that replica since.
 */
static void check_kept(struct sim *sim, const struct sim_node *leader,
                       const struct sim_session *session, const struct sim_opening *made)
{
    const struct sim_op *op = sim->ops[session->kept_by];

    if (session->kept_in == leader->status.zab.epoch && !session->late &&
        sim->now_us < session->kept_until_us) {
        sim_fail(sim, "A22",
                 "leader %u expires session %" PRIx64 " of %u ms, but node %u had contact %" PRIu64
                 " ms ago (operation %u), in the same epoch",
                 leader->id, made->zxid, session->timeout_ms, op->node,
                 (sim->now_us - op->arrival_us) / SIM_MS, op->number);
    }
}

static void check_expiry(struct sim *sim, const struct sim_node *leader,
                         const struct sim_session *session, const struct sim_opening *made)
{
    uint64_t least = least_us(sim, session);
    uint32_t kept = session->touch_count < SIM_TOUCHES_MAX ? session->touch_count : SIM_TOUCHES_MAX;

    SIM_TRACE(sim, "leader %u expires session %" PRIx64, leader->id, made->zxid);
    if (sim->now_us - leader->steady_us < least) {
        sim_fail(sim, "A22",
                 "leader %u expires session %" PRIx64 " of %u ms, but it has only led for %" PRIu64
                 " ms",
                 leader->id, made->zxid, session->timeout_ms,
                 (sim->now_us - leader->steady_us) / SIM_MS);
    }
    if (sim->now_us - made->at_us < least) {
        sim_fail(sim, "A22",
                 "leader %u expires session %" PRIx64 " of %u ms, %" PRIu64
                 " ms after it was opened",
                 leader->id, made->zxid, session->timeout_ms, (sim->now_us - made->at_us) / SIM_MS);
    }
    for (uint32_t i = 0; i < kept; i++) {
        check_touch(sim, leader, session, made->zxid, sim->ops[session->touches[i]]);
    }
    check_kept(sim, leader, session, made);
}

static void expired(struct sim *sim, const struct sim_node *leader, uint64_t id)
{
    for (uint32_t i = 0; i < sim->session_count; i++) {
        const struct sim_session *session = &sim->sessions[i];

        for (uint32_t k = 0; k < SIM_MADE_MAX; k++) {
            if (session->made[k].zxid == id) {
                check_expiry(sim, leader, session, &session->made[k]);
                return;
            }
        }
    }
    sim_fail(sim, "A22", "leader %u ends session %" PRIx64 ", which no client opened", leader->id,
             id);
}

static struct sim_session *session_with(struct sim *sim, const uint8_t *hash)
{
    for (uint32_t i = 0; i < sim->session_count; i++) {
        if (memcmp(sim->sessions[i].hash, hash, sizeof(sim->sessions[i].hash)) == 0) {
            return &sim->sessions[i];
        }
    }
    sim_fail(sim, "A22", "a leader opens a session that no client requested");
}

static void note_open(struct sim *sim, const struct sim_node *leader, zxid_t zxid,
                      const struct txn_session_open *open)
{
    struct sim_session *session = session_with(sim, open->secret_hash);

    SIM_TRACE(sim, "leader %u opens session %u: %" PRIx64, leader->id, session->number, zxid);
    session->made[session->made_count++ % SIM_MADE_MAX] =
        (struct sim_opening){.zxid = zxid, .at_us = sim->now_us};
    sim->totals.opened++;
}

void sim_session_proposed(struct sim *sim, const struct sim_node *leader, const struct logrec *rec)
{
    struct wire_reader reader;
    struct txn_header header;
    struct txn_effect effect;

    if (sim->session_count == 0 || rec->type != LOGREC_TXN ||
        txn_open(&reader, logrec_payload(rec), &header) != ERR_OK) {
        return;
    }
    while (txn_next(&reader, &effect) == ERR_OK) {
        if (effect.type == TXN_SESSION_OPEN) {
            note_open(sim, leader, rec->zxid, &effect.open);
        } else if (effect.type == TXN_SESSION_CLOSE && effect.close.reason == TXN_CLOSED_EXPIRED) {
            expired(sim, leader, effect.close.session);
        }
    }
}

/* ---- The end. ---- */

static bool is_any_open(const struct sim *sim)
{
    bool any = false;

    for (uint32_t id = 1; id <= sim->knobs.nodes && !any; id++) {
        const struct sim_node *node = &sim->nodes[id];
        const struct state *state =
            node->up && sim_member_is(sim, node) ? view_read(node->view) : NULL;

        if (state) {
            any = state_session_count(state) > 0;
            view_read_done(node->view);
        }
    }
    return any;
}

void sim_session_wait_gone(struct sim *sim)
{
    uint64_t longest_us =
        (uint64_t)sim->knobs.timeout_ticks_max * sim->knobs.limits.tick_ms * SIM_MS;
    uint64_t bound_us = sim->now_us + 2 * longest_us + GONE_MORE_US;

    while (is_any_open(sim)) {
        (void)sim_run(sim, sim->now_us + longest_us / 4, NULL);
        if (sim->now_us > bound_us) {
            sim_fail(sim, "A24", "a session outlives its client");
        }
    }
}

void sim_session_release(struct sim *sim)
{
    mem_free(sim->sessions);
}
