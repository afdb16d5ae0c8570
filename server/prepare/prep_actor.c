/* The actor of a transaction, for the audit log: the client, its identities and its session. */
#include "server/prepare/prep_int.h"

_Static_assert((int)TXN_ACTOR_IDS_MAX == (int)AUTH_IDS_MAX, "an actor has all identities");

/* Appends "scheme:name" to prep->bytes and returns its length. */
static size_t put_id(struct prep *prep, const struct auth_id *id)
{
    size_t before = prep->bytes.len;

    buf_append_slice(&prep->bytes, id->scheme);
    buf_append_byte(&prep->bytes, ':');
    buf_append_slice(&prep->bytes, auth_shown(id));
    return prep->bytes.len - before;
}

struct slice prep_actor(const struct prep_step *step)
{
    struct prep *prep = step->prep;
    const struct op_principal *client = step->job->who; /* lint: words */
    const struct auth *auth = client ? client->auth : NULL;
    struct txn_actor actor = {.op = (uint8_t)step->job->args->op, .session = step->session};
    size_t lens[TXN_ACTOR_IDS_MAX];
    size_t at = 0;

    if (client) {
        actor.address = slice_str(client->address);
    }
    if (auth) {
        actor.super = auth->super;
        actor.count = auth->count;
    }
    buf_clear(&prep->bytes);
    for (uint32_t i = 0; i < actor.count; i++) {
        lens[i] = put_id(prep, &auth->ids[i]);
    }
    ASSERT(!prep->bytes.overflow);
    for (uint32_t i = 0; i < actor.count; i++) {
        actor.ids[i] = slice_make(prep->bytes.data + at, lens[i]);
        at += lens[i];
    }
    buf_clear(&prep->actor);
    txn_actor_encode(&prep->actor, &actor);
    ASSERT(!prep->actor.overflow);
    return buf_slice(&prep->actor);
}

void prep_confirm(const struct prep_step *step)
{
    const struct op_principal *client = step->job->who; /* lint: words */

    if (client && client->auth) {
        txn_confirm(step->out, atomic_load(&client->auth->right));
    }
}
