/* Sessions, and writes with a key. */
#include "tests/lib/prep_model_int.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static struct model_session *by_id(struct model *model, uint64_t id)
{
    for (size_t i = 0; i < model->session_count; i++) {
        if (model->sessions[i].id == id) {
            return &model->sessions[i];
        }
    }
    return NULL;
}

struct model_session *model_session_by_secret(struct model *model, uint64_t secret)
{
    for (size_t i = 0; i < model->session_count; i++) {
        if (model->sessions[i].secret == secret) {
            return &model->sessions[i];
        }
    }
    return NULL;
}

static const struct model_session *shown(const struct model_step *step)
{
    const struct model_ask *ask = step->ask;

    return ask->session != 0 ? by_id(step->model, ask->session)
                             : model_session_by_secret(step->model, ask->secret);
}

static bool has_moved(const struct model_ask *ask, const struct model_session *session)
{
    return ask->attach != 0 && ask->attach != session->attach;
}

/* Operations that name their session themselves, or that have none. */
static bool names_its_own(enum op_id op)
{
    return op == OP_SESSION || op == OP_OPEN || op == OP_ATTACH || op == OP_CLOSE ||
           op == OP_EXPIRE || op == OP_REAP;
}

enum err model_in_session(struct model_step *step)
{
    const struct model_session *session = shown(step);

    if (!step->ask->in_session || names_its_own(step->args->op)) {
        return ERR_OK;
    }
    if (session == NULL) {
        return ERR_SESSION_EXPIRED;
    }
    step->session = session->id;
    return has_moved(step->ask, session) ? ERR_SESSION_MOVED : ERR_OK;
}

static enum err open_session(const struct model_step *step)
{
    struct model *model = step->model;
    const struct prep_limits *limits = model->limits;
    uint32_t timeout_ms =
        step->args->timeout_ms != 0 ? step->args->timeout_ms : limits->tree.session_default_ms;

    if (model_session_by_secret(model, step->ask->named) != NULL) {
        return ERR_BAD_ARGUMENTS;
    }
    if (model->session_count >= limits->tree.sessions_max) {
        return ERR_THROTTLED;
    }
    timeout_ms =
        timeout_ms < limits->tree.session_min_ms ? limits->tree.session_min_ms : timeout_ms;
    timeout_ms =
        timeout_ms > limits->tree.session_max_ms ? limits->tree.session_max_ms : timeout_ms;
    model->sessions[model->session_count++] =
        (struct model_session){.id = step->ask->zxid,
                               .secret = step->ask->named,
                               .timeout_ms = timeout_ms,
                               .attach = step->args->op == OP_OPEN ? step->ask->zxid : 0,
                               .member = step->args->op == OP_OPEN ? step->ask->member : 0};
    return ERR_OK;
}

static void close_session(const struct model_step *step, struct model_session *session)
{
    struct model *model = step->model;
    size_t i = 0;

    while (i < model->count) {
        if (model_owner(&model->nodes[i]) == session->id) {
            char path[MODEL_PATH_MAX];

            (void)snprintf(path, sizeof(path), "%s", model->nodes[i].path);
            model_take_out(model, path, step->ask->zxid);
            i = 0;
        } else {
            i++;
        }
    }
    *session = model->sessions[--model->session_count];
}

enum err model_session_op(const struct model_step *step)
{
    const struct model_ask *ask = step->ask;
    struct model_session *session = step->args->op == OP_EXPIRE
                                        ? by_id(step->model, step->args->session)
                                        : model_session_by_secret(step->model, ask->named);

    if (step->args->op == OP_SESSION || step->args->op == OP_OPEN) {
        enum err err = open_session(step);

        if (err != ERR_OK) {
            return err;
        }
    } else if (session == NULL) {
        return ERR_SESSION_EXPIRED;
    } else if (step->args->op == OP_ATTACH) {
        session->attach = ask->zxid;
        session->member = ask->member;
    } else if (step->args->op == OP_CLOSE && ask->in_session && shown(step) == session &&
               has_moved(ask, session)) {
        return ERR_SESSION_MOVED;
    } else {
        close_session(step, session);
    }
    model_answer(step, "", NULL, false);
    return ERR_OK;
}

/* ---- Keys. ---- */

static void scope_of(const struct model_step *step, char scope[MODEL_SCOPE_MAX])
{
    if (step->session != 0) {
        (void)snprintf(scope, MODEL_SCOPE_MAX, "session:%" PRIx64, step->session);
    } else {
        (void)snprintf(scope, MODEL_SCOPE_MAX, "%s", step->ask->identity);
    }
}

/* Operations that ignore a key. */
static bool is_keyless(const struct model_step *step)
{
    enum op_id op = step->args->op;

    return step->ask->key[0] == '\0' || op == OP_CLOSE || op == OP_EXPIRE || op == OP_REAP;
}

static struct model_key *find_key(const struct model_step *step)
{
    char scope[MODEL_SCOPE_MAX];

    scope_of(step, scope);
    for (size_t i = 0; i < step->model->key_count; i++) {
        struct model_key *key = &step->model->keys[i];

        if (strcmp(key->scope, scope) == 0 && strcmp(key->key, step->ask->key) == 0) {
            return key;
        }
    }
    return NULL;
}

enum err model_key_known(const struct model_step *step)
{
    if (is_keyless(step)) {
        return ERR_MISSING;
    }
    if (step->args->op == OP_SESSION || step->args->op == OP_OPEN || step->args->op == OP_ATTACH) {
        return ERR_BAD_ARGUMENTS;
    }
    const struct model_key *key = find_key(step);

    if (key == NULL) {
        return ERR_MISSING;
    }
    if (key->request != step->ask->request) {
        return ERR_KEY_REUSED;
    }
    if (key->zxid > step->model->applied) {
        return ERR_IN_FLIGHT;
    }
    *step->verdict = key->verdict;
    step->verdict->replayed = key->zxid;
    return ERR_OK;
}

enum err model_remember(const struct model_step *step)
{
    struct model *model = step->model;

    if (is_keyless(step)) {
        return ERR_OK;
    }
    if (model->key_count >= model->limits->tree.remembered_max) {
        return ERR_THROTTLED;
    }
    struct model_key *key = &model->keys[model->key_count++];

    *key = (struct model_key){.request = step->ask->request,
                              .zxid = step->ask->zxid,
                              .age_ms = step->ask->age_ms,
                              .verdict = *step->verdict};
    scope_of(step, key->scope);
    (void)snprintf(key->key, sizeof(key->key), "%s", step->ask->key);
    return ERR_OK;
}

bool model_forget(struct model *model, int64_t age_ms)
{
    int64_t keep_ms = model->limits->tree.remember_ms;
    bool roomy = model->key_count < model->limits->tree.remembered_max / 2;
    int64_t due_ms = keep_ms + (roomy ? keep_ms / 8 : 0);
    size_t count = 0;

    if (model->key_count == 0 || model->keys[0].zxid > model->applied ||
        age_ms - model->keys[0].age_ms < due_ms) {
        return false;
    }
    while (count < model->key_count && model->keys[count].zxid <= model->applied &&
           age_ms - model->keys[count].age_ms >= keep_ms) {
        count++;
    }
    model->key_count -= count;
    memmove(&model->keys[0], &model->keys[count], model->key_count * sizeof(model->keys[0]));
    return true;
}
