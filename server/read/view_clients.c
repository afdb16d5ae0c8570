/* Lists of clients: the sessions of the ensemble, and the ephemerals of one session. */
#include "base/check.h"
#include "base/mem.h"
#include "base/os_clock.h"
#include "server/read/view.h"
#include "server/read/view_int.h"
#include "server/sessions/heard.h"
#include "server/state/walk.h"

#include <string.h>

bool view_shows_client(const struct view *view, const struct op_principal *who, struct slice from)
{
    bool super = who->auth != NULL && who->auth->super;

    return super || view_clients(view)->show_all || principal_is_from(who, from);
}

/* ---- The list of sessions. ---- */

static void add_session(struct view *view, const struct state_session *session,
                        struct op_result *result)
{
    struct op_session_entry *entry = &result->sessions[result->session_count++];
    struct heard *table = view_clients(view)->heard;
    struct heard_entry heard;

    view_fill_session(session, &entry->info);
    ASSERT(session->from.len <= sizeof(entry->from));
    if (session->from.len > 0) {
        memcpy(entry->from, session->from.data, session->from.len);
    }
    entry->from_len = session->from.len;
    if (table != NULL && heard_find(table, session->id, &heard)) {
        uint64_t now_ms = os_now_ms();

        entry->heard_at = heard.member;
        entry->heard_ms = now_ms > heard.at_ms ? now_ms - heard.at_ms : 0;
    }
}

/* The part of one hold of the lock. True when there are more sessions. */
static bool list_some(struct view *view, const struct state *state, const struct op_principal *who,
                      uint32_t limit, struct op_result *result)
{
    const struct state_session *session = state_session_after(state, result->after_id);
    uint32_t seen = 0;

    while (session != NULL && seen < VIEW_NODES_MAX && result->session_count < limit) {
        if (view_shows_client(view, who, session->from)) {
            add_session(view, session, result);
        }
        seen++;
        result->after_id = session->id;
        session = state_session_after(state, session->id);
    }
    result->looked += seen;
    result->upto = state_applied(state);
    return session != NULL;
}

void view_sessions(struct view *view, const struct op_principal *who, const struct op_args *args,
                   struct op_result *result)
{
    uint32_t limit = view_limit(args);
    struct heard *table = view_clients(view)->heard;

    result->sessions = mem_zalloc(limit, sizeof(*result->sessions));
    result->after_id = args->after_id;
    result->hears_all = table != NULL && heard_all(table);
    do {
        const struct state *state = view_begin(view, result);

        if (state == NULL) {
            return;
        }
        result->zxid = result->zxid != 0 ? result->zxid : state_applied(state);
        result->more = list_some(view, state, who, limit, result);
        view_read_done(view);
    } while (result->more && result->session_count < limit &&
             result->looked < VIEW_SEARCH_NODES_MAX);
}

/* ---- The ephemerals of a session. ---- */

static void list_ephemerals(const struct state *state, const struct op_args *args,
                            struct view_page *page, struct op_result *result)
{
    const struct znode *node = args->after.len > 0
                                   ? state_ephemeral_after(state, args->session, args->after)
                                   : state_ephemeral_first(state, args->session);
    struct buf path;
    bool room = true;

    buf_init(&path, STATE_PATH_MAX);
    while (node != NULL && room && !page->full && result->entry_count < page->limit) {
        buf_clear(&path);
        walk_path_of(node, &path);
        room = (result->entry_count == 0 || result->arena.len + path.len <= VIEW_BYTES_MAX) &&
               view_add_entry(state, args, node, buf_slice(&path), page, result);
        node = room ? state_ephemeral_next(state, node) : node;
    }
    buf_release(&path);
    result->more = node != NULL;
}

void view_ephemerals(struct view *view, const struct op_principal *who, const struct op_args *args,
                     struct op_result *result)
{
    struct view_page page = {.who = who, .limit = view_limit(args), .nodes_max = VIEW_NODES_MAX};
    const struct state *state = view_begin(view, result);
    const struct state_session *session = NULL;

    if (state == NULL) {
        return;
    }
    result->zxid = state_applied(state);
    session = state_session(state, args->session);
    if (session == NULL || !view_shows_client(view, who, session->from)) {
        /* The answer does not reveal a session that the caller may not see. */
        view_refuse(result, ERR_NOT_FOUND, "there is no such session that you may see");
    } else {
        list_ephemerals(state, args, &page, result);
    }
    view_read_done(view);
    view_page_end(result);
}
