/* Sessions: reports of their clients' activity, and expiry. */
#include "server/replica/replica_int.h"
#include "server/sessions/heard.h"

/* ---- As transactions are applied. ---- */

void sessions_applied(struct replica *replica, const struct state *state)
{
    const struct state_changes *changes = &replica->tree.changes;

    for (size_t i = 0; i < changes->count && expiry_is_on(replica->sessions.expiry); i++) {
        const struct state_change *change = &changes->items[i];
        const struct state_session *opened =
            change->type == TXN_SESSION_OPEN ? state_session(state, change->session) : NULL;

        if (opened) {
            expiry_opened(replica->sessions.expiry, change->session, opened->timeout_ms);
        } else if (change->type == TXN_SESSION_CLOSE) {
            expiry_closed(replica->sessions.expiry, change->session);
        } else if (change->type == TXN_SESSION_MOVE) {
            expiry_touch(replica->sessions.expiry, change->session);
        }
    }
}

/* ---- Roles. ---- */

/* Returns the monotonic time: a change of the wall clock moves no deadline. */
static uint64_t expiry_now_ms(const struct replica *replica)
{
    return MUTANT(32) ? (uint64_t)replica->wall_ms : replica->now_ms;
}

/* Notes whether learners report to this replica. */
static void hear_all(struct replica *replica, bool all)
{
    if (replica->options.heard) {
        heard_set_all(replica->options.heard, all);
    }
}

void sessions_role_began(struct replica *replica)
{
    if (!replica_leads(replica) || expiry_is_on(replica->sessions.expiry)) {
        return;
    }
    const struct state *state = view_read(replica->view);

    expiry_begin(replica->sessions.expiry, state, expiry_now_ms(replica));
    hear_all(replica, true);
    view_read_done(replica->view);
}

void sessions_role_ended(struct replica *replica)
{
    expiry_end(replica->sessions.expiry);
    hear_all(replica, false);
    replica->sessions.renew_token = 0;
}

void sessions_peer_lost(struct replica *replica, uint32_t peer)
{
    const struct zab_config *pending = zab_pending(replica->zab);

    /* Another replica that was connected has reported no sessions. */
    if (zab_config_find(zab_config(replica->zab), peer) ||
        (pending && zab_config_find(pending, peer))) {
        expiry_lost(replica->sessions.expiry, peer);
    }
}

/* ---- Reports. ---- */

static void note_heard(struct replica *replica, const uint64_t *ids, size_t count, uint32_t member)
{
    if (replica->options.heard) {
        heard_note(replica->options.heard, ids, count, member, replica->now_ms);
    }
}

/* Returns the newest mark that the leader of this epoch has sent with a PING. An epoch has one
 * leader, so the mark belongs to the leader's present term. */
static uint64_t leaders_mark(const struct replica *replica)
{
    const struct zab_status *status = &replica->status;
    const struct heartbeat *heartbeat =
        heartbeats_find(replica->heartbeats.known, replica->heartbeats.count, status->leader);

    return heartbeat && heartbeat->role == ROLE_LEADER && heartbeat->epoch == status->epoch
               ? heartbeat->mark
               : 0;
}

/* Sends a part of a report to the leader; false unless this learner is in step. */
static bool send_part(struct replica *replica, const uint64_t *ids, const struct report *part)
{
    buf_clear(&replica->txn);
    report_encode(ids, part, &replica->txn);
    return zab_forward(replica->zab, REPORT_NUMBER, replica_keep_txn(replica), &replica->inner) ==
           ERR_OK;
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

        part.count = min_size(left, REPORT_IDS_MAX);
        part.last = part.count == left;
        if (!send_part(replica, ids + at, &part)) {
            for (; at < count; at++) { /* Unsent touches wait: a lost touch may end a session. */
                (void)touch_add(replica->options.touched, ids[at]);
            }
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
        expiry_touch(replica->sessions.expiry, ids[i]);
    }
    expiry_reported(replica->sessions.expiry, replica->options.zab.id,
                    expiry_mark(replica->sessions.expiry));
}

/* Reports the touched sessions. Without a leader the touches wait; the next leader gives every
 * session its whole timeout. */
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

    if (!expiry_is_on(replica->sessions.expiry) || !report_decode(bytes, &ids, &report)) {
        return;
    }
    for (size_t i = 0; i < report.count; i++) {
        uint64_t id = wire_get_u64(&ids);

        expiry_touch(replica->sessions.expiry, id);
        note_heard(replica, &id, 1, peer);
    }
    if (report.last) {
        expiry_reported(replica->sessions.expiry, peer, report.mark);
    }
}

/* ---- Expiry. ---- */

/* Proposes the end of a session; false when there is no room for more proposals now. */
static bool expire(struct replica *replica, uint64_t session)
{
    struct op_args args;

    op_args_init(&args, OP_EXPIRE);
    args.session = session;
    enum lead_outcome outcome = lead_prepare_own(replica, &args);

    if (outcome == LEAD_PROPOSED) {
        PROBE("replica.session_expired");
        replica->counts.expired++;
        expiry_proposed(replica->sessions.expiry, session);
    }
    /* The expiry of a session that its client is closing is refused; the session ends soon. */
    return outcome != LEAD_LATER;
}

/* Notes the learners in step, and forgets replicas that are no peers any more. A learner that has
 * come in step serves clients before its first report, so expiry must wait for that report. */
static void note_joined(struct replica *replica)
{
    struct zab_peer_status peers[ZAB_MEMBERS_MAX];
    size_t count = zab_peers(replica->zab, peers, ZAB_MEMBERS_MAX);
    uint32_t ids[REPLICA_IDS_MAX];

    expiry_keep(replica->sessions.expiry, ids, replica_ids(replica, ids));
    for (size_t i = 0; i < count; i++) {
        if (peers[i].connected && peers[i].synced) {
            expiry_joined(replica->sessions.expiry, peers[i].id);
        }
    }
}

static void expire_due(struct replica *replica)
{
    uint64_t due[EXPIRY_DUE_MAX];

    if (replica_leads(replica)) {
        note_joined(replica);
    }
    size_t count =
        replica_leads(replica) ? expiry_due(replica->sessions.expiry, due, EXPIRY_DUE_MAX) : 0;
    bool room = true;

    for (size_t i = 0; i < count && room; i++) {
        room = expire(replica, due[i]);
    }
    replica->sessions.expire_more = count == EXPIRY_DUE_MAX && room;
}

bool sessions_confirmed(struct replica *replica, uint64_t token)
{
    if (token != replica->sessions.renew_token) {
        return false;
    }
    replica->sessions.renew_token = 0;
    expiry_renewed(replica->sessions.expiry);
    return true;
}

void sessions_clock(struct replica *replica)
{
    expiry_turn(replica->sessions.expiry, expiry_now_ms(replica));
}

/* Reports and expires sessions when it is time. After a pause of the process, messages of clients
 * wait in their sockets, and pings to clients are late. A report without these clients would end
 * their sessions. So the report is put off by one interval, in which the messages are read. */
void sessions_turn(struct replica *replica)
{
    if (expiry_stands(replica->sessions.expiry) && replica->sessions.renew_token == 0) {
        /* Another leader may have been elected during the pause: a quorum round must confirm that
         * this replica still leads. The token is set first, because with one voter the round ends
         * within the call. */
        replica->sessions.renew_token = ++replica->requests.seq;
        if (zab_confirm(replica->zab, replica->sessions.renew_token, &replica->inner) != ERR_OK) {
            replica->sessions.renew_token = 0;
        }
    }
    if (replica->now_ms >= replica->sessions.report_ms) {
        bool late =
            replica->now_ms - replica->sessions.report_ms > replica->sessions.report_every_ms &&
            !MUTANT(25);

        replica->sessions.report_ms = replica->now_ms + replica->sessions.report_every_ms;
        if (late) {
            PROBE("replica.report_put_off");
            return;
        }
        report(replica);
        expire_due(replica);
    } else if (replica->sessions.expire_more) {
        expire_due(replica);
    }
}
