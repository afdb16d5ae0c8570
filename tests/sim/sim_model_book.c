#include "base/check.h"
#include "base/mem.h"
#include "tests/sim/sim_model.h"

/* The model besides the tree: open sessions, remembered results, and fired triggers. */

struct model_session {
    uint64_t id;
    uint64_t attach;
    uint32_t number; /* Number in sim_session. */
};

struct model_result {
    uint64_t scope; /* Session, or 0. */
    const struct sim_op *op;
    zxid_t zxid;
    int64_t age_ms;
};

struct model_book {
    struct model_session *sessions;
    size_t session_count;
    size_t session_cap;
    struct model_result *results; /* Ascending by zxid. */
    size_t result_count;
    size_t result_cap;
    struct sim_trigger *triggers;
    size_t trigger_count;
    size_t trigger_cap;
};

void model_book_init(struct model *model)
{
    model->book = mem_zalloc(1, sizeof(*model->book));
}

void model_book_release(struct model *model)
{
    if (model->book) {
        mem_free(model->book->sessions);
        mem_free(model->book->results);
        mem_free(model->book->triggers);
        mem_free(model->book);
    }
}

/* ---- Sessions. ---- */

static struct model_session *session_with(const struct model *model, uint64_t id)
{
    for (size_t i = 0; i < model->book->session_count; i++) {
        if (model->book->sessions[i].id == id) {
            return &model->book->sessions[i];
        }
    }
    return NULL;
}

bool model_session(const struct model *model, uint64_t id, uint64_t *ret_attach)
{
    const struct model_session *session = session_with(model, id);

    *ret_attach = session ? session->attach : 0;
    return session != NULL;
}

uint64_t model_session_id(const struct model *model, uint32_t number)
{
    for (size_t i = 0; i < model->book->session_count; i++) {
        if (model->book->sessions[i].number == number) {
            return model->book->sessions[i].id;
        }
    }
    return 0;
}

size_t model_session_count(const struct model *model)
{
    return model->book->session_count;
}

void model_session_open(struct model *model, const struct sim_session *session, zxid_t zxid)
{
    struct model_book *book = model->book;

    if (book->session_count == book->session_cap) {
        book->session_cap = book->session_cap ? book->session_cap * 2 : 16;
        book->sessions = mem_realloc(book->sessions, book->session_cap * sizeof(*book->sessions));
    }
    book->sessions[book->session_count++] =
        (struct model_session){.id = zxid, .number = session->number};
}

void model_session_move(struct model *model, uint64_t id, uint64_t attach)
{
    struct model_session *session = session_with(model, id);

    ASSERT(session);
    session->attach = attach;
}

void model_session_close(struct model *model, uint64_t id)
{
    struct model_session *session = session_with(model, id);

    ASSERT(session);
    *session = model->book->sessions[--model->book->session_count];
}

/* ---- Remembered results. ---- */

const struct sim_op *model_remembered(const struct model *model, uint64_t scope, uint32_t key)
{
    for (size_t i = 0; i < model->book->result_count; i++) {
        const struct model_result *result = &model->book->results[i];

        if (result->scope == scope && result->op->key == key) {
            return result->op;
        }
    }
    return NULL;
}

void model_remember(struct model *model, uint64_t scope, const struct sim_op *op, zxid_t zxid,
                    int64_t age_ms)
{
    struct model_book *book = model->book;

    if (book->result_count == book->result_cap) {
        book->result_cap = book->result_cap ? book->result_cap * 2 : 64;
        book->results = mem_realloc(book->results, book->result_cap * sizeof(*book->results));
    }
    book->results[book->result_count++] =
        (struct model_result){.scope = scope, .op = op, .zxid = zxid, .age_ms = age_ms};
}

int64_t model_forget(struct model *model, zxid_t horizon)
{
    struct model_book *book = model->book;
    int64_t newest_ms = INT64_MIN;
    size_t gone = 0;

    while (gone < book->result_count && book->results[gone].zxid < horizon) {
        newest_ms = book->results[gone++].age_ms;
    }
    if (gone == 0) {
        return newest_ms;
    }
    memmove(book->results, book->results + gone,
            (book->result_count - gone) * sizeof(*book->results));
    book->result_count -= gone;
    return newest_ms;
}

bool model_counts_age(const struct model *model)
{
    for (size_t i = 0; i < model->count; i++) {
        if (model->nodes[i].ttl_ms > 0) {
            return true;
        }
    }
    return model->book->result_count > 0;
}

/* ---- Triggers. ---- */

void model_fire(struct model *model, enum watch_event_type type, const char *path, zxid_t zxid,
                bool readable)
{
    struct model_book *book = model->book;
    struct sim_trigger *trigger;

    if (book->trigger_count == book->trigger_cap) {
        book->trigger_cap = book->trigger_cap ? book->trigger_cap * 2 : 256;
        book->triggers = mem_realloc(book->triggers, book->trigger_cap * sizeof(*book->triggers));
    }
    trigger = &book->triggers[book->trigger_count++];
    *trigger = (struct sim_trigger){.zxid = zxid, .type = type, .readable = readable};
    (void)snprintf(trigger->path, sizeof(trigger->path), "%s", path);
}

const struct sim_trigger *model_triggers(const struct model *model, size_t *ret_count)
{
    *ret_count = model->book->trigger_count;
    return model->book->triggers;
}
