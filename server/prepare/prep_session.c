/* Finds the session of a request; opens, attaches and closes sessions. */
#include "server/prepare/prep_int.h"

static enum err refuse_gone(const struct prep_step *step)
{
    return prep_refuse(step, ERR_SESSION_EXPIRED, "the session has ended or never existed");
}

/* ---- The session of a request. ---- */

static void find_shown(const struct prep_step *step, const struct op_session *shown,
                       struct overlay_session *ret_session)
{
    const struct overlay *overlay = &step->prep->overlay;

    if (shown->id != 0) {
        overlay_session(overlay, step->state, shown->id, ret_session);
    } else {
        overlay_session_by_hash(overlay, step->state, shown->hash, ret_session);
    }
}

/* Whether another connection has attached the session since this one did. A request over plain HTTP
 * has no attachment (`attach` 0) that it could lose. */
static bool has_moved(const struct op_session *shown, const struct overlay_session *session)
{
    return shown->attach != 0 && shown->attach != session->attach;
}

enum err prep_in_session(struct prep_step *step)
{
    const struct op_session *shown = step->job->session;
    struct overlay_session session;
    enum op_id op = step->job->args->op;
    /* These operations name their session in their arguments, or have none. */
    bool about_sessions = op == OP_SESSION || op == OP_OPEN || op == OP_ATTACH || op == OP_CLOSE ||
                          op == OP_EXPIRE || op == OP_REAP;

    if (shown == NULL || !shown->shown || about_sessions) {
        return ERR_OK;
    }
    find_shown(step, shown, &session);
    if (!session.open) {
        return refuse_gone(step);
    }
    if (has_moved(shown, &session)) {
        return prep_refuse(step, ERR_SESSION_MOVED, NULL);
    }
    step->session = session.id;
    return ERR_OK;
}

/* ---- Opening and attaching. ---- */

static uint32_t timeout_of(const struct config_tree *limits, const struct op_args *args)
{
    uint64_t asked_ms = args->timeout_ms != 0 ? args->timeout_ms : (uint64_t)args->expire_s * 1000;

    if (asked_ms == 0) {
        asked_ms = limits->session_default_ms;
    }
    return (uint32_t)min_u64(max_u64(asked_ms, limits->session_min_ms), limits->session_max_ms);
}

/* Finds the session that the arguments name by the hash of its secret. */
static enum err find_named(const struct prep_step *step, const struct op_args *args,
                           struct overlay_session *ret_session)
{
    *ret_session = (struct overlay_session){.open = false};
    if (args->secret_hash.len != TXN_SECRET_HASH_LEN) {
        return prep_refuse(step, ERR_BAD_ARGUMENTS,
                           "the hash of a session's secret must have 32 bytes");
    }
    overlay_session_by_hash(&step->prep->overlay, step->state, args->secret_hash.data, ret_session);
    return ERR_OK;
}

/* Finds the session that the arguments name, which must be open. */
static enum err need_named(const struct prep_step *step, const struct op_args *args,
                           struct overlay_session *ret_session)
{
    enum err err = find_named(step, args, ret_session);

    return err == ERR_OK && !ret_session->open ? refuse_gone(step) : err;
}

static bool is_full(const struct prep_step *step, struct slice from, enum state_share kind,
                    uint32_t max)
{
    return max > 0 && overlay_share(&step->prep->overlay, step->state, from, kind) >= max;
}

/* Checks the bound on all sessions, and the bounds on the sessions of each client, so that one
 * client leaves room for others. A client can make up identities, so each network has a bound too.
 * For the super user only the bound on all sessions applies. */
static enum err check_room(const struct prep_step *step, struct slice from)
{
    const struct config_tree *limits = &step->prep->limits.tree;
    const struct op_principal *who = step->job->who;

    if (overlay_session_count(&step->prep->overlay, step->state) >= limits->sessions_max) {
        return prep_refuse(step, ERR_THROTTLED,
                           "the limit of open sessions (maxSessions) is reached");
    }
    if (who == NULL || (who->auth != NULL && who->auth->super)) {
        return ERR_OK;
    }
    if (is_full(step, from, STATE_SHARE_CLIENT, limits->sessions_client_max)) {
        return prep_refuse(step, ERR_THROTTLED,
                           "this client has reached its limit of open sessions "
                           "(maxSessionsPerClient); close some, or raise the limit");
    }
    if (is_full(step, from, STATE_SHARE_NETWORK, limits->sessions_network_max)) {
        return prep_refuse(step, ERR_THROTTLED,
                           "this address has reached its limit of open sessions "
                           "(maxSessionsPerAddress); close some, or raise the limit");
    }
    return ERR_OK;
}

static void put_move(const struct prep_step *step, uint64_t id)
{
    txn_put(step->out, &(struct txn_effect){.type = TXN_SESSION_MOVE,
                                            .flags = TXN_REPLY,
                                            .move = {.session = id,
                                                     .attach = step->zxid,
                                                     .member = step->header->origin_member}});
}

/* Opens a session; with OP_OPEN the same transaction attaches it. */
static void open_session(const struct prep_step *step, const struct op_args *args,
                         struct slice from)
{
    bool attaches = args->op == OP_OPEN;
    struct overlay *overlay = &step->prep->overlay;
    struct blob *blob = blob_new(from);
    struct overlay_session session = {.id = step->zxid, .from = blob, .open = true};
    struct txn_effect effect = {.type = TXN_SESSION_OPEN,
                                .flags = attaches ? 0 : TXN_REPLY,
                                .open = {.session = step->zxid,
                                         .timeout_ms = timeout_of(&step->prep->limits.tree, args),
                                         .from = from}};

    memcpy(effect.open.secret_hash, args->secret_hash.data, TXN_SECRET_HASH_LEN);
    memcpy(session.secret_hash, args->secret_hash.data, TXN_SECRET_HASH_LEN);
    session.attach = attaches ? step->zxid : 0;
    overlay_put_session(overlay, step->state, step->zxid, &session);
    overlay_count_shares(overlay, step->state, step->zxid, from, true);
    prep_count(step, cost_session(), true);
    txn_put(step->out, &effect);
    if (attaches) {
        put_move(step, session.id);
    }
    blob_unref(blob);
}

enum err prep_open_session(const struct prep_step *step, const struct op_args *args)
{
    struct overlay_session session;
    struct buf from;
    enum err err = find_named(step, args, &session);

    if (err != ERR_OK) {
        return err;
    }
    if (session.open) {
        return prep_refuse(step, ERR_BAD_ARGUMENTS, "there is a session with that secret already");
    }
    buf_init(&from, TXN_FROM_MAX);
    if (step->job->who != NULL) {
        principal_from(step->job->who, &from);
    }
    ASSERT(!from.overflow);
    err = check_room(step, buf_slice(&from));
    if (err == ERR_OK) {
        open_session(step, args, buf_slice(&from));
    }
    buf_release(&from);
    return err;
}

enum err prep_attach(const struct prep_step *step, const struct op_args *args)
{
    struct overlay_session session;
    enum err err = need_named(step, args, &session);

    if (err != ERR_OK) {
        return err;
    }
    /* Without disk space each session may still be attached once, so that a client that reconnects
     * can keep its session. A refusal would save no space: the session would expire instead, which
     * takes as much disk space. */
    if (step->job->low_since != 0 && session.attach >= step->job->low_since) {
        return prep_refuse(
            step, ERR_DISK_FULL,
            "the disks of a majority of the replicas are nearly full: until they have space again, "
            "a session can be attached only once, and this session was attached already; renew it "
            "over HTTP, which needs no disk space");
    }
    session.attach = step->zxid;
    overlay_put_session(&step->prep->overlay, step->state, step->zxid, &session);
    put_move(step, session.id);
    return ERR_OK;
}

/* ---- Closing. ---- */

/* Closes a session. The same transaction deletes all its ephemerals, also those in flight. */
static void close_session(const struct prep_step *step, uint64_t id, enum txn_close_reason reason)
{
    struct prep *prep = step->prep;
    struct overlay_session session;

    buf_clear(&prep->paths);
    prep_delete_paths(step, overlay_ephemerals(&prep->overlay, step->state, id, &prep->paths), 0);
    overlay_session(&prep->overlay, step->state, id, &session);
    ASSERT(session.open && session.ephemeral_count == 0 && session.ephemeral_bytes == 0);
    /* The overlay has the opener while the transaction that opened the session is in flight. If the
     * overlay does not have it, that transaction is applied, so the state has it. */
    struct slice from =
        session.from != NULL ? blob_slice(session.from) : state_session(step->state, id)->from;

    overlay_count_shares(&prep->overlay, step->state, step->zxid, from, false);
    session.open = false;
    overlay_put_session(&prep->overlay, step->state, step->zxid, &session);
    prep_count(step, cost_session(), false);
    txn_put(step->out, &(struct txn_effect){.type = TXN_SESSION_CLOSE,
                                            .flags = TXN_REPLY,
                                            .close = {.session = id, .reason = (uint8_t)reason}});
}

enum err prep_close(const struct prep_step *step, const struct op_args *args)
{
    const struct op_session *shown = step->job->session;
    struct overlay_session session;
    struct overlay_session own = {.open = false};
    enum err err = need_named(step, args, &session);

    if (err != ERR_OK) {
        return err;
    }
    if (shown != NULL && shown->shown) {
        find_shown(step, shown, &own);
    }
    /* A connection that lost the session to another connection cannot close it any more. */
    if (own.open && own.id == session.id && has_moved(shown, &own)) {
        return prep_refuse(step, ERR_SESSION_MOVED, NULL);
    }
    close_session(step, session.id, TXN_CLOSED_BY_CLIENT);
    return ERR_OK;
}

enum err prep_expire(const struct prep_step *step, const struct op_args *args)
{
    struct overlay_session session;

    overlay_session(&step->prep->overlay, step->state, args->session, &session);
    if (!session.open) {
        return refuse_gone(step);
    }
    close_session(step, session.id, TXN_CLOSED_EXPIRED);
    return ERR_OK;
}

/* Closes any session, by its public id. */
enum err prep_kill(const struct prep_step *step, const struct op_args *args)
{
    const struct op_principal *who = step->job->who;
    struct overlay_session session;

    if (!prep_is_super(who)) {
        return prep_refuse(step, ERR_NO_AUTH,
                           "only the super user may close a session by its public id");
    }
    overlay_session(&step->prep->overlay, step->state, args->session, &session);
    if (!session.open) {
        return prep_refuse(step, ERR_NOT_FOUND, "no open session has this public id");
    }
    close_session(step, session.id, TXN_CLOSED_BY_CLIENT);
    return ERR_OK;
}
