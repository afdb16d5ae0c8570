/* Sessions: whose clients were heard of, and which are over. */
#include "server/replica/replica_int.h"
#include "server/sessions/heard.h"

/* ---- As transactions are applied. ---- */

static void note_opened(struct replica *replica, const struct state *state, uint64_t id)
{
    const struct state_session *session = state_session(state, id);

    if (session) {
        expiry_opened(replica->expiry, id, session->timeout_ms);
    }
}

void sessions_applied(struct replica *replica, const struct state *state)
{
    const struct state_changes *changes = &replica->changes;

    for (size_t i = 0; i < changes->count && expiry_is_on(replica->expiry); i++) {
        const struct state_change *change = &changes->items[i];

        if (change->type == TXN_SESSION_OPEN) {
            note_opened(replica, state, change->session);
        } else if (change->type == TXN_SESSION_CLOSE) {
            expiry_closed(replica->expiry, change->session);
        } else if (change->type == TXN_SESSION_MOVE) {
            expiry_touch(replica->expiry, change->session);
        }
    }
}

/* ---- Roles. ---- */

/* Of the monotonic clock alone: what anybody does to the wall clock moves no deadline. */
static uint64_t expiry_now_ms(const struct replica *replica)
{
    return MUTANT(32) ? (uint64_t)replica->wall_ms : replica->now_ms;
}

/* Whether learners report to this replica. */
static void hear_all(struct replica *replica, bool all)
{
    if (replica->options.heard) {
        heard_set_all(replica->options.heard, all);
    }
}

void sessions_role_began(struct replica *replica)
{
    if (!replica_leads(replica) || expiry_is_on(replica->expiry)) {
        return;
    }
    const struct state *state = view_read(replica->view);

    ASSERT(state);
    expiry_begin(replica->expiry, state, expiry_now_ms(replica));
    hear_all(replica, true);
    view_read_done(replica->view);
}

void sessions_role_ended(struct replica *replica)
{
    expiry_end(replica->expiry);
    hear_all(replica, false);
    replica->renew_token = 0;
}

void sessions_peer_lost(struct replica *replica, uint32_t peer)
{
    expiry_lost(replica->expiry, peer);
}

/* ---- Reports. ---- */

static void note_heard(struct replica *replica, const uint64_t *ids, size_t count, uint32_t member)
{
    if (replica->options.heard) {
        heard_note(replica->options.heard, ids, count, member, replica->now_ms);
    }
}

/* The newest mark that the leader of this epoch has given with a PING. An epoch has one leader, so
 * that mark is of its present reign. */
static uint64_t leaders_mark(const struct replica *replica)
{
    const struct zab_status *status = &replica->status;
    const struct sign *sign = signs_find(replica->signs, replica->sign_count, status->leader);

    return sign && sign->role == SIGN_LEADER && sign->epoch == status->epoch ? sign->mark : 0;
}

/* A learner in step tells its leader. */
static bool send_part(struct replica *replica, const uint64_t *ids, const struct report *part)
{
    buf_clear(&replica->txn);
    report_encode(ids, part, &replica->txn);
    struct blob *bytes = blob_new(buf_slice(&replica->txn));

    replica_keep(replica, bytes);
    return zab_forward(replica->zab, REPORT_NUMBER, blob_slice(bytes), &replica->inner) == ERR_OK;
}

/* What cannot be told now is told another time: it must not be lost. */
static void put_back(struct replica *replica, const uint64_t *ids, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        (void)touch_add(replica->options.touched, ids[i]);
    }
}

static void report_to_leader(struct replica *replica)
{
    size_t count = 0;
    const uint64_t *ids = touch_take(replica->options.touched, &count);
    struct report part = {.mark = leaders_mark(replica)};
    size_t at = 0;

    note_heard(replica, ids, count, replica->options.zab.id);
    while (!part.last) {
        size_t left = count - at;

        part.count = left < REPORT_IDS_MAX ? left : REPORT_IDS_MAX;
        part.last = part.count == left;
        if (!send_part(replica, ids + at, &part)) {
            put_back(replica, ids + at, left);
            return;
        }
        at += part.count;
    }
}

static void report_to_self(struct replica *replica)
{
    size_t count = 0;
    const uint64_t *ids = touch_take(replica->options.touched, &count);

    note_heard(replica, ids, count, replica->options.zab.id);
    for (size_t i = 0; i < count; i++) {
        expiry_touch(replica->expiry, ids[i]);
    }
    expiry_reported(replica->expiry, replica->options.zab.id, expiry_mark(replica->expiry));
}

/* Without a leader the set waits: the next one begins with a whole time-out for all. */
static void report(struct replica *replica)
{
    if (!replica->options.touched || !replica->status.serving) {
        return;
    }
    if (replica->status.state == ZAB_LEADING) {
        report_to_self(replica);
    } else {
        report_to_leader(replica);
    }
}

void sessions_reported(struct replica *replica, uint32_t peer, struct slice bytes)
{
    struct wire_reader ids;
    struct report report;

    if (!expiry_is_on(replica->expiry) || !report_decode(bytes, &ids, &report)) {
        return;
    }
    for (size_t i = 0; i < report.count; i++) {
        uint64_t id = wire_get_u64(&ids);

        expiry_touch(replica->expiry, id);
        note_heard(replica, &id, 1, peer);
    }
    if (report.last) {
        expiry_reported(replica->expiry, peer, report.mark);
    }
}

/* ---- The end. ---- */

/* False when there is no room for more proposals now. */
static bool expire(struct replica *replica, uint64_t session)
{
    struct txn_header header = {0};
    struct op_result result;
    struct op_args args;
    zxid_t zxid = 0;

    lead_times(replica, &header);
    op_args_init(&args, OP_EXPIRE);
    args.session = session;
    op_result_init(&result);
    enum lead_outcome outcome =
        lead_prepare(replica, &(struct prep_job){.args = &args, .header = &header}, &result, &zxid);

    op_result_release(&result);
    if (outcome == LEAD_PROPOSED) {
        PROBE("replica.session_expired");
        replica->expired++;
        expiry_proposed(replica->expiry, session);
    }
    /* One whose client is closing it is refused, and gone soon. */
    return outcome != LEAD_LATER;
}

/* A learner that has come in step hears of sessions before it reports for the first time. */
static void note_joined(struct replica *replica)
{
    struct zab_peer_status peers[ZAB_MEMBERS_MAX];
    size_t count = zab_peers(replica->zab, peers, ZAB_MEMBERS_MAX);

    for (size_t i = 0; i < count; i++) {
        if (peers[i].connected && peers[i].synced) {
            expiry_joined(replica->expiry, peers[i].id);
        }
    }
}

static void expire_due(struct replica *replica)
{
    uint64_t due[EXPIRY_DUE_MAX];

    if (replica_leads(replica)) {
        note_joined(replica);
    }
    size_t count = replica_leads(replica) ? expiry_due(replica->expiry, due, EXPIRY_DUE_MAX) : 0;
    bool room = true;

    for (size_t i = 0; i < count && room; i++) {
        room = expire(replica, due[i]);
    }
    replica->expire_more = count == EXPIRY_DUE_MAX && room;
}

/* A process that has stood still may have been replaced. */
static void renew_quorum(struct replica *replica)
{
    uint64_t token = ++replica->request_seq;

    replica->renew_token = token; /* The round may end within the call. */
    if (zab_confirm(replica->zab, token, &replica->inner) != ERR_OK) {
        replica->renew_token = 0;
    }
}

bool sessions_confirmed(struct replica *replica, uint64_t token)
{
    if (token != replica->renew_token) {
        return false;
    }
    replica->renew_token = 0;
    expiry_renewed(replica->expiry);
    return true;
}

void sessions_clock(struct replica *replica)
{
    expiry_turn(replica->expiry, expiry_now_ms(replica));
}

/* After the process has stood still, what clients said meanwhile waits in their sockets, and those
 * that wait for a ping have not had it. A report that says nothing of them would end their
 * sessions: it is put off by an interval, in which they are heard. */
void sessions_turn(struct replica *replica)
{
    if (expiry_stands(replica->expiry) && replica->renew_token == 0) {
        renew_quorum(replica);
    }
    if (replica->now_ms >= replica->report_ms) {
        bool late = replica->now_ms - replica->report_ms > replica->report_every_ms && !MUTANT(25);

        replica->report_ms = replica->now_ms + replica->report_every_ms;
        if (late) {
            PROBE("replica.report_put_off");
            return;
        }
        report(replica);
        expire_due(replica);
    } else if (replica->expire_more) {
        expire_due(replica);
    }
}
