/* Writes with an idempotency key: their answers are remembered, replayed and forgotten. */
#include "base/crypto.h"
#include "server/op/ops.h"
#include "server/prepare/prep_int.h"

#include <inttypes.h>

enum {
    FORGET_MAX = 1000,     /* Results that one transaction forgets. */
    FORGET_SLACK_PART = 8, /* Results may stay rememberFor / 8 longer, to save transactions. */
};

/* ---- Scope and fingerprint of a key. ---- */

static void put_scope(const struct prep_step *step, struct buf *scope)
{
    const struct op_principal *who = step->job->who;

    buf_clear(scope);
    if (step->session != 0) {
        buf_printf(scope, "session:%" PRIx64, step->session);
    } else if (who != NULL) {
        buf_append_slice(scope, principal_scope(who));
    }
    ASSERT(!scope->overflow);
}

static void put_fingerprint(const struct prep_step *step, uint8_t out[TXN_FINGERPRINT_LEN])
{
    struct buf *bytes = &step->prep->bytes;
    uint8_t hash[CRYPTO_SHA256_LEN];

    buf_clear(bytes);
    op_args_encode(step->job->args, bytes);
    ASSERT(!bytes->overflow);
    crypto_sha256(buf_slice(bytes), hash);
    memcpy(out, hash, TXN_FINGERPRINT_LEN);
}

/* Fills step->remember. */
static enum err take_key(struct prep_step *step)
{
    const struct prep_job *job = step->job;

    enum op_id op = job->args->op;

    if (op == OP_SESSION || op == OP_OPEN || op == OP_ATTACH) {
        return prep_refuse(step, ERR_BAD_ARGUMENTS,
                           "opening or attaching a session does not accept an Idempotency-Key, "
                           "because the kept answer would contain the secret of the session, or an "
                           "attachment that may be over by the time of the retry");
    }
    if (job->key.len > TXN_KEY_MAX) {
        return prep_refuse(step, ERR_BAD_ARGUMENTS, "an Idempotency-Key has at most 256 bytes");
    }
    put_scope(step, &step->prep->scope);
    step->remember = (struct txn_remember){.scope = buf_slice(&step->prep->scope), .key = job->key};
    put_fingerprint(step, step->remember.fingerprint);
    return ERR_OK;
}

/* ---- Replay. ---- */

static bool is_same(const struct txn_remember *remember, const uint8_t *fingerprint)
{
    return memcmp(remember->fingerprint, fingerprint, TXN_FINGERPRINT_LEN) == 0;
}

/* Returns the remembered result, or NULL; a result that a request in flight forgets does not count.
 */
static const struct state_remembered *find(const struct prep_step *step)
{
    const struct state_remembered *found =
        state_remembered(step->state, step->remember.scope, step->remember.key);
    struct overlay_memory memory;

    overlay_memory(&step->prep->overlay, step->state, &memory);
    return found != NULL && found->zxid >= memory.horizon ? found : NULL;
}

static enum err replay(const struct prep_step *step, const struct state_remembered *found)
{
    op_result_release(step->result);
    if (op_result_decode(found->result, step->result) != ERR_OK) {
        return prep_refuse(step, ERR_SYSTEM_ERROR, "the remembered answer cannot be read");
    }
    step->result->replayed = true;
    return ERR_OK;
}

enum err prep_look_key(struct prep_step *step)
{
    const struct txn_remember *remember = &step->remember;
    enum op_id op = step->job->args->op;

    /* Closing a session twice does no harm, so its answer is not remembered. The leader's own
     * requests have no key. */
    if (step->job->key.len == 0 || op == OP_CLOSE || op == OP_EXPIRE || op == OP_REAP) {
        return ERR_OK;
    }
    enum err err = take_key(step);

    if (err != ERR_OK) {
        return err;
    }
    const uint8_t *in_flight = overlay_key(&step->prep->overlay, remember->scope, remember->key);

    if (in_flight != NULL) {
        return prep_refuse(step, is_same(remember, in_flight) ? ERR_IN_FLIGHT : ERR_KEY_REUSED,
                           NULL);
    }
    const struct state_remembered *found = find(step);

    if (found == NULL) {
        return ERR_OK;
    }
    return is_same(remember, found->fingerprint) ? replay(step, found)
                                                 : prep_refuse(step, ERR_KEY_REUSED, NULL);
}

/* ---- Remembering. ---- */

static uint64_t size_of(const struct txn_remember *remember)
{
    return remember->scope.len + remember->key.len + remember->result.len;
}

static enum err check_room(const struct prep_step *step, const struct overlay_memory *memory)
{
    const struct config_tree *limits = &step->prep->limits.tree;

    if (step->remember.result.len > limits->result_bytes_max) {
        return prep_refuse(
            step, ERR_TOO_LARGE,
            "the answer is larger than maxResultBytes and cannot be kept for the Idempotency-Key: "
            "write less at a time");
    }
    if (memory->count >= limits->remembered_max ||
        memory->bytes + size_of(&step->remember) > limits->remembered_bytes_max) {
        return prep_refuse(step, ERR_THROTTLED,
                           "maxRemembered or maxRememberedBytes is reached: retry later, or write "
                           "without an Idempotency-Key");
    }
    return ERR_OK;
}

enum err prep_remember(struct prep_step *step)
{
    struct prep *prep = step->prep;
    struct txn_remember *remember = &step->remember;
    struct overlay_memory memory;

    if (remember->key.len == 0) {
        return ERR_OK;
    }
    step->result->zxid = step->zxid;
    buf_clear(&prep->bytes);
    op_result_encode(step->result, &prep->bytes);
    ASSERT(!prep->bytes.overflow);
    remember->result = buf_slice(&prep->bytes);
    overlay_memory(&prep->overlay, step->state, &memory);
    enum err err = check_room(step, &memory);

    if (err != ERR_OK) {
        return err;
    }
    memory.count++;
    memory.bytes += size_of(remember);
    overlay_put_memory(&prep->overlay, step->zxid, &memory);
    overlay_put_key(&prep->overlay, step->zxid, remember);
    prep->growth.answer = cost_remembered(size_of(remember));
    txn_put(step->out, &(struct txn_effect){.type = TXN_REMEMBER, .remember = *remember});
    return ERR_OK;
}

/* ---- Forgetting. ---- */

/* Returns the age in ms at which a result is forgotten: rememberFor when half of the store of
 * results is full, else 1/8 more, so that fewer transactions are needed. */
static int64_t age_of_due_ms(const struct prep *prep, const struct overlay_memory *memory)
{
    const struct config_tree *limits = &prep->limits.tree;
    bool roomy = memory->count < limits->remembered_max / 2 &&
                 memory->bytes < limits->remembered_bytes_max / 2;

    return (int64_t)limits->remember_ms + (roomy ? limits->remember_ms / FORGET_SLACK_PART : 0);
}

/* Returns the first result at or after a zxid. */
static const struct state_remembered *first_from(const struct state *state, zxid_t zxid)
{
    return state_remembered_after(state, zxid > 0 ? zxid - 1 : 0);
}

bool prep_forget(struct prep *prep, const struct state *state, const struct txn_header *header,
                 zxid_t zxid, struct buf *out)
{
    struct overlay_memory memory;

    buf_clear(out);
    overlay_memory(&prep->overlay, state, &memory);
    const struct state_remembered *oldest = first_from(state, memory.horizon);

    if (oldest == NULL || header->age_ms - oldest->age_ms < age_of_due_ms(prep, &memory)) {
        return false;
    }
    for (int i = 0; i < FORGET_MAX && oldest != NULL &&
                    header->age_ms - oldest->age_ms >= (int64_t)prep->limits.tree.remember_ms;
         i++) {
        memory.count--;
        memory.bytes -= oldest->scope.len + oldest->key.len + oldest->result.len;
        memory.horizon = oldest->zxid + 1;
        oldest = first_from(state, memory.horizon);
    }
    ASSERT(memory.horizon != 0 && memory.horizon <= zxid);
    overlay_put_memory(&prep->overlay, zxid, &memory);
    overlay_commit(&prep->overlay);
    txn_begin(out, header);
    txn_put(out, &(struct txn_effect){.type = TXN_FORGET, .forget = {.horizon = memory.horizon}});
    return true;
}
