#include "tests/lib/prep_play.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/mem.h"
#include "server/op/acl.h"
#include "server/op/ops.h"
#include "tests/lib/prep_play_int.h"
#include "tests/lib/state_kit.h"

#include <stdio.h>

enum {
    NODES_MAX = MODEL_NODES_MAX - 32, /* One request may add the rest. */
    TXN_BYTES_MAX = 1 << 20,
    LIST_BYTES_MAX = 1024,
    FORGET_BITS = 0xf4, /* From here on the bits mean: forget the results that are due. */
    ROOM_EVERY = 5,     /* One in this many requests finds little room for the tree. */
    ROOM_MAX = 1500,    /* The room is below this many bytes. */
    LISTS_COST = MODEL_LIST_COUNT * 4096, /* More than the cost of all lists of the model. */
    LONG_MS = 400000 /* Long enough for a container that was never used to become due. */
};

static const struct prep_limits limits = {
    .data_bytes_max = PLAY_DATA_MAX - 2,
    .txn_bytes_max = TXN_BYTES_MAX,
    .multi_ops_max = PLAY_OPS_MAX,
    .tree.recursive_max = 6,
    .tree.session_min_ms = 2000,
    .tree.session_max_ms = 9000,
    .tree.session_default_ms = 5000,
    .tree.sessions_max = PLAY_SECRETS - 1,
    .tree.session_ephemerals_max = 4,
    .tree.session_ephemeral_bytes_max = 30,
    .tree.remembered_max = MODEL_KEYS_MAX - 2,
    .tree.remembered_bytes_max = 1 << 20,
    .tree.result_bytes_max = 1 << 16,
    .tree.remember_ms = 400,
};

/* ---- Callers, and lists. ---- */

static const char *const credentials[MODEL_CALLER_COUNT] = {
    [MODEL_ANN] = "ann:1", [MODEL_BOB] = "bob:2", [MODEL_ROOT] = "root:3"};

static void make_principal(struct prep_play *play, enum model_caller caller)
{
    struct op_principal *principal = &play->principals[caller];
    struct slice digest = slice_str("digest");
    struct auth *auth = NULL;

    (void)snprintf(principal->address, sizeof(principal->address), "10.0.0.%d", (int)caller);
    if (credentials[caller] == NULL) {
        return;
    }
    enum err err = auth_add(NULL, digest, slice_str(credentials[caller]), "", &auth);

    ASSERT(err == ERR_OK && auth->count == 1);
    (void)snprintf(play->identities[caller], MODEL_SCOPE_MAX, "%.*s", (int)auth->ids[0].id.len,
                   (const char *)auth->ids[0].id.data);
    principal->auth = auth;
    if (caller == MODEL_ROOT) {
        err = auth_add(NULL, digest, slice_str(credentials[caller]), play->identities[caller],
                       &principal->auth);
        ASSERT(err == ERR_OK && principal->auth->super);
        auth_unref(auth);
    }
}

static void put_entry(struct prep_play *play, enum model_list list, uint32_t perms,
                      const char *scheme, const char *id)
{
    acl_put(&play->lists[list],
            &(struct acl_entry){.perms = perms, .scheme = slice_str(scheme), .id = slice_str(id)});
}

static void make_lists(struct prep_play *play)
{
    for (int i = 0; i < MODEL_LIST_COUNT; i++) {
        buf_init(&play->lists[i], LIST_BYTES_MAX);
    }
    put_entry(play, MODEL_OPEN, ACL_ALL, "world", "anyone");
    put_entry(play, MODEL_READ, ACL_READ, "world", "anyone");
    put_entry(play, MODEL_GROW, ACL_READ | ACL_WRITE | ACL_CREATE, "world", "anyone");
    put_entry(play, MODEL_KEEP, ACL_ALL & ~ACL_DELETE, "world", "anyone");
    put_entry(play, MODEL_ANN_ALL, ACL_READ, "world", "anyone");
    put_entry(play, MODEL_ANN_ALL, ACL_ALL, "digest", play->identities[MODEL_ANN]);
    put_entry(play, MODEL_CREATOR, ACL_ALL, "auth", "");
    put_entry(play, MODEL_BAD, ACL_ALL, "sasl", "ann");
    put_entry(play, MODEL_ANNS, ACL_ALL, "digest", play->identities[MODEL_ANN]);
    put_entry(play, MODEL_BOBS, ACL_ALL, "digest", play->identities[MODEL_BOB]);
    put_entry(play, MODEL_ROOTS, ACL_ALL, "digest", play->identities[MODEL_ROOT]);
}

struct prep_play *prep_play_new(bool inherit_acl)
{
    struct prep_play *play = mem_zalloc(1, sizeof(*play));

    play->state = state_new(1);
    play->limits = limits;
    play->limits.inherit_acl = inherit_acl;
    play->prep = prep_new(&play->limits);
    play->age_ms = 1000;
    model_init(&play->model, &play->limits);
    for (int caller = 0; caller < MODEL_CALLER_COUNT; caller++) {
        make_principal(play, (enum model_caller)caller);
    }
    make_lists(play);
    return play;
}

void prep_play_free(struct prep_play *play)
{
    for (size_t i = 0; i < play->queue_len; i++) {
        buf_release(&play->queue[i].txn);
    }
    for (int i = 0; i < MODEL_LIST_COUNT; i++) {
        buf_release(&play->lists[i]);
    }
    for (int caller = 0; caller < MODEL_CALLER_COUNT; caller++) {
        principal_release(&play->principals[caller]);
    }
    state_changes_release(&play->changes);
    prep_free(play->prep);
    state_free(play->state);
    mem_free(play);
}

size_t prep_play_prepared(const struct prep_play *play)
{
    return play->prepared;
}

size_t prep_play_full(const struct prep_play *play)
{
    return play->full;
}

const struct state *prep_play_state(const struct prep_play *play)
{
    return play->state;
}

/* ---- Comparison. ---- */

static bool is_same_stat(const struct stat_view *a, const struct stat_view *b)
{
    return a->czxid == b->czxid && a->mzxid == b->mzxid && a->pzxid == b->pzxid &&
           a->ctime == b->ctime && a->mtime == b->mtime && a->version == b->version &&
           a->cversion == b->cversion && a->aversion == b->aversion &&
           a->ephemeral_owner == b->ephemeral_owner && a->data_length == b->data_length &&
           a->num_children == b->num_children;
}

static void check_replayed(const struct op_args *args, const struct op_result *got,
                           const struct model_verdict *want)
{
    bool multi = args->op == OP_MULTI;

    ASSERT(got->replayed && got->zxid == want->replayed && got->created == want->created);
    ASSERT(got->result_count == (multi ? want->reply_count : 0));
    for (size_t i = 0; i < want->reply_count; i++) {
        const struct op_result *result = multi ? &got->results[i] : got;
        const struct model_reply *reply = &want->replies[i];

        ASSERT(result->err == ERR_OK && slice_eq(result->path, slice_str(reply->path)));
        ASSERT(result->has_stat == reply->has_stat);
        ASSERT(!reply->has_stat || is_same_stat(&result->stat, &reply->stat));
    }
}

static void check_refused(const struct op_args *args, const struct op_result *got,
                          const struct model_verdict *want)
{
    bool elements = args->op == OP_MULTI && !want->whole;

    ASSERT(got->has_stat == want->has_stat && !got->replayed);
    ASSERT(!want->has_stat || is_same_stat(&got->stat, &want->stat));
    ASSERT(got->result_count == (elements ? args->op_count : 0));
    ASSERT(got->failed_index == (elements ? want->failed : 0));
    for (uint32_t i = 0; i < got->result_count; i++) {
        enum err other = i < want->failed ? ERR_OK : ERR_RUNTIME_INCONSISTENCY;

        ASSERT(got->results[i].err == (i == want->failed ? want->err : other));
        ASSERT(i == want->failed || (!got->results[i].has_stat && got->results[i].path.len == 0));
    }
}

static void check_result(const struct op_args *args, const struct op_result *got,
                         const struct model_verdict *want)
{
    ASSERT(got->err == want->err);
    if (want->err != ERR_OK) {
        check_refused(args, got, want);
    } else if (want->replayed != 0) {
        check_replayed(args, got, want);
    } else {
        ASSERT(!got->replayed && got->created == want->created && got->result_count == 0);
        ASSERT(!got->has_stat && got->path.len == 0 && got->results == NULL);
    }
}

static void check_znodes(struct prep_play *play)
{
    const struct model *model = &play->model;

    ASSERT(state_node_count(play->state) == model->count);
    for (size_t i = 0; i < model->count; i++) {
        const struct model_node *want = &model->nodes[i];
        const struct znode *got = kit_find(play->state, want->path);
        struct slice list =
            want->list != MODEL_OPEN ? buf_slice(&play->lists[want->list]) : slice_make(NULL, 0);
        struct stat_view stat;

        ASSERT(got != NULL);
        znode_stat(got, &stat);
        ASSERT(is_same_stat(&stat, &want->stat) && znode_owner(got) == want->owner);
        ASSERT(znode_creates(got) == want->creates && (znode_data(got) == NULL) == want->null);
        ASSERT(slice_eq(blob_slice(znode_data(got)), slice_str(want->data)));
        ASSERT(slice_eq(state_acl(play->state, znode_acl(got)), list));
    }
}

static void check_clients(struct prep_play *play)
{
    const struct model *model = &play->model;

    ASSERT(state_session_count(play->state) == model->session_count);
    for (size_t i = 0; i < model->session_count; i++) {
        const struct model_session *want = &model->sessions[i];
        const struct state_session *got = state_session(play->state, want->id);

        ASSERT(got != NULL && got->attach == want->attach && got->member == want->member);
        ASSERT(got->timeout_ms == want->timeout_ms);
    }
    ASSERT(state_remembered_count(play->state) == model->key_count);
    for (size_t i = 0; i < model->key_count; i++) {
        const struct model_key *want = &model->keys[i];
        const struct state_remembered *got =
            state_remembered(play->state, slice_str(want->scope), slice_str(want->key));

        ASSERT(got != NULL && got->zxid == want->zxid && got->age_ms == want->age_ms);
    }
}

/* ---- The run. ---- */

static void apply_oldest(struct prep_play *play)
{
    struct play_pending first = play->queue[0];
    uint64_t promised = prep_memory_bytes(play->prep, play->state);
    size_t replies = 0;
    enum err err =
        state_apply(play->state, first.zxid, buf_slice(&first.txn), false, &play->changes);

    ASSERT(err == ERR_OK);
    for (size_t i = 0; i < play->changes.count; i++) {
        const struct state_change *change = &play->changes.items[i];

        if (change->reply) {
            const struct model_reply *want = &first.verdict.replies[replies++];

            ASSERT(slice_eq(change->path, slice_str(want->path)));
            ASSERT(!want->has_stat || is_same_stat(&change->stat, &want->stat));
        }
    }
    ASSERT(replies == first.verdict.reply_count);
    /* The memory is at most what was promised. Lists are an exception: a list may be freed, and
     * created again by a transaction in flight. */
    ASSERT(state_memory_bytes(play->state) <= promised + LISTS_COST);
    buf_release(&first.txn);
    play->queue_len--;
    memmove(&play->queue[0], &play->queue[1], play->queue_len * sizeof(play->queue[0]));
    prep_applied(play->prep, first.zxid);
    play->model.applied = first.zxid;
}

static void keep(struct prep_play *play)
{
    play->queue[play->queue_len].zxid = ++play->zxid;
    play->queue_len++;
    play->prepared++;
}

/* Bits: 0-2 caller, 3-4 session, 5 attachment. */
static void read_asker(struct prep_play *play, struct wire_reader *reader, uint8_t bits,
                       struct model_ask *ask)
{
    static const enum model_caller caller[] = {MODEL_ANONYMOUS, MODEL_ANONYMOUS, MODEL_ANN,
                                               MODEL_ANN,       MODEL_ANN,       MODEL_BOB,
                                               MODEL_ROOT,      MODEL_SERVER};

    uint8_t more = (bits & 0x10U) != 0 ? wire_get_u8(reader) : 0;

    ask->caller = caller[bits & 7U];
    ask->identity = play->identities[ask->caller];
    ask->in_session = (bits & 0x10U) != 0;
    ask->secret = 1 + more % PLAY_SECRETS;
    const struct model_session *session = model_session_by_secret(&play->model, ask->secret);

    /* Few requests name a session that does not exist. */
    ask->in_session = ask->in_session && (session != NULL || (more & 0x38U) == 0);
    if ((bits & 8U) != 0) {
        ask->session = session != NULL ? session->id : 1U + (more >> 4);
    }
    if ((bits & 0x20U) != 0 && session != NULL) {
        ask->attach = session->attach + ((more & 0xc0U) == 0xc0 ? 1 : 0);
    }
}

static uint64_t identity_of(const struct op_args *args)
{
    struct buf bytes;

    buf_init(&bytes, TXN_BYTES_MAX);
    op_args_encode(args, &bytes);
    uint64_t identity = hash64(1, buf_slice(&bytes));

    buf_release(&bytes);
    return identity;
}

static const char *const keys[PLAY_KEYS] = {"one", "two", "three", "four"};

/* A request with a key may repeat an earlier one. */
static struct play_request *read_request(struct prep_play *play, struct wire_reader *reader,
                                         bool with_key, struct model_ask *ask)
{
    uint8_t choice = with_key ? wire_get_u8(reader) : 0;
    uint8_t at = choice % PLAY_KEYS;
    struct play_request *request = with_key ? &play->keyed[at] : &play->request;

    if (!with_key || (choice & 0x0cU) == 0 || request->args.op == 0) {
        play_read_request(play, reader, request);
    }
    ask->args = &request->args;
    ask->lists = request->lists;
    ask->named = request->named;
    ask->key = with_key ? keys[at] : "";
    ask->request = identity_of(&request->args);
    if (request->by_operator) {
        ask->caller = MODEL_ROOT;
        ask->identity = play->identities[MODEL_ROOT];
    }
    return request;
}

/* ---- Little room for the tree. The model has no such limit: it is given the outcome. ---- */

static struct prep_room draw_room(const struct prep_play *play, const struct model_ask *ask)
{
    uint64_t used = prep_memory_bytes(play->prep, play->state);
    uint64_t more = hash64_mix(ask->zxid, (uint64_t)ask->age_ms) % ROOM_MAX;

    return ask->zxid % ROOM_EVERY == 0 ? (struct prep_room){.bytes_max = used + more, .member = 1}
                                       : (struct prep_room){.bytes_max = 0};
}

static bool frees(enum op_id op)
{
    return op == OP_DELETE || op == OP_CLOSE || op == OP_EXPIRE || op == OP_KILL || op == OP_REAP ||
           op == OP_ATTACH;
}

/* The full tree refuses only requests that the model would have done and that do not free memory.
 */
static void check_full(struct prep_play *play, const struct prep_job *job,
                       const struct op_result *got, const struct model_verdict *want, uint64_t used)
{
    ASSERT(job->room.bytes_max != 0 && !frees(job->args->op));
    ASSERT(want->err == ERR_OK && want->replayed == 0);
    ASSERT(got->result_count == 0 && !got->has_stat && !got->created && got->detail != NULL);
    ASSERT(prep_memory_bytes(play->prep, play->state) == used);
}

/* A request that passes has room, or frees memory. */
static void check_room(struct prep_play *play, const struct prep_job *job, uint64_t used)
{
    uint64_t now = prep_memory_bytes(play->prep, play->state);

    ASSERT(now >= used);
    ASSERT(job->room.bytes_max == 0 || now == used || now <= job->room.bytes_max ||
           frees(job->args->op) || job->args->op == OP_MULTI);
}

static void prepare(struct prep_play *play, const struct model_ask *ask)
{
    struct play_pending *last = &play->queue[play->queue_len];
    const struct txn_header header = {
        .age_ms = ask->age_ms, .stamp_ms = ask->stamp_ms, .origin_member = ask->member};
    struct op_session session = {
        .shown = ask->in_session, .id = ask->session, .attach = ask->attach};
    const struct prep_job job = {
        .args = ask->args,
        .who = ask->caller == MODEL_SERVER ? NULL : &play->principals[ask->caller],
        .session = &session,
        .key = slice_str(ask->key),
        .header = &header,
        .room = draw_room(play, ask)};
    struct model *before = job.room.bytes_max != 0 ? mem_dup(&play->model, sizeof(*before)) : NULL;
    uint64_t used = prep_memory_bytes(play->prep, play->state);
    struct op_result result;

    kit_hash(ask->secret, session.hash);
    op_result_init(&result);
    buf_init(&last->txn, TXN_BYTES_MAX);
    model_request(&play->model, ask, &last->verdict);
    enum err err = prep_request(play->prep, play->state, &job, ask->zxid, &last->txn, &result);

    ASSERT(err == result.err);
    if (err == ERR_TREE_FULL) {
        check_full(play, &job, &result, &last->verdict, used);
        play->model = *before;
        play->full++;
    } else {
        check_result(ask->args, &result, &last->verdict);
        check_room(play, &job, used);
    }
    mem_free(before);
    ASSERT((last->txn.len > 0) == (err == ERR_OK && !result.replayed));
    op_result_release(&result);
    if (last->txn.len > 0) {
        keep(play);
    } else {
        buf_release(&last->txn);
    }
}

/* A wall clock that jumps all the time: nothing may depend on it. */
static int64_t stamp_of(const struct prep_play *play)
{
    return (int64_t)(hash64_mix(play->zxid, 1) >> 20);
}

static void forget(struct prep_play *play)
{
    struct play_pending *last = &play->queue[play->queue_len];
    const struct txn_header header = {.age_ms = play->age_ms, .stamp_ms = stamp_of(play)};
    bool due = model_forget(&play->model, play->age_ms);

    buf_init(&last->txn, TXN_BYTES_MAX);
    last->verdict = (struct model_verdict){.err = ERR_OK};
    ASSERT(prep_forget(play->prep, play->state, &header, play->zxid + 1, &last->txn) == due);
    ASSERT((last->txn.len > 0) == due);
    if (due) {
        keep(play);
    } else {
        buf_release(&last->txn);
    }
}

bool prep_play_step(struct prep_play *play, struct wire_reader *reader)
{
    uint8_t pace = wire_get_u8(reader);
    uint8_t bits = wire_get_u8(reader);
    struct model_ask ask = {.zxid = play->zxid + 1,
                            .age_ms = play->age_ms,
                            .stamp_ms = stamp_of(play),
                            .member = pace & 3U};

    if (play->model.count > NODES_MAX) {
        return false;
    }
    if (bits >= FORGET_BITS) {
        forget(play);
    } else {
        read_asker(play, reader, bits, &ask);
        (void)read_request(play, reader, bits >> 6 == 3, &ask);
        prepare(play, &ask);
    }
    play->age_ms += pace >= 0xf8 ? LONG_MS : pace & 15;
    /* The number of transactions to apply before the next request is prepared. */
    for (int i = 0; i < (pace >> 4 & 1) || play->queue_len == PLAY_QUEUE_MAX; i++) {
        if (play->queue_len > 0) {
            apply_oldest(play);
        }
    }
    ASSERT(play->queue_len > 0 || prep_pending(play->prep) == 0);
    return true;
}

void prep_play_settle(struct prep_play *play)
{
    while (play->queue_len > 0) {
        apply_oldest(play);
    }
    ASSERT(prep_pending(play->prep) == 0);
    check_znodes(play);
    check_clients(play);
    kit_verify(play->state);
}
