/* Sessions, their ephemerals, and ACLs. */
#include "base/os_clock.h"
#include "server/op/acl.h"
#include "server/read/view_int.h"
#include "server/sessions/heard.h"
#include "server/state/path.h"

void view_fill_session(const struct state_session *session, struct op_session_info *ret_info)
{
    *ret_info = (struct op_session_info){
        .id = session->id,
        .timeout_ms = session->timeout_ms,
        .attach = session->attach,
        .member = session->member,
        .opened_ms = session->opened_ms,
        .ephemeral_count = session->ephemeral_count,
        .ephemeral_bytes = session->ephemeral_bytes,
    };
}

enum err view_find_session(struct view *view, const struct op_session *session,
                           struct op_session_info *ret_info)
{
    const struct state *state = view_read_whole(view);

    if (state == NULL) {
        return ERR_NOT_READY;
    }
    const struct state_session *found = session->id != 0
                                            ? state_session(state, session->id)
                                            : state_session_by_hash(state, session->hash);

    if (found != NULL) {
        view_fill_session(found, ret_info);
    }
    ret_info->zxid = state_applied(state);
    view_read_done(view);
    return found != NULL ? ERR_OK : ERR_UNKNOWN_SESSION;
}

void view_session(const struct state *state, const struct op_principal *who,
                  const struct op_args *args, struct op_result *result)
{
    (void)who; /* The secret authorizes the request. */
    ASSERT(args->secret_hash.len == TXN_SECRET_HASH_LEN);
    const struct state_session *found = state_session_by_hash(state, args->secret_hash.data);

    /* Set also when the session is not found: front ends trust that answer only if this zxid is
     * high enough, because an older state may lack a session that is open by now. */
    result->zxid = state_applied(state);
    result->err = found != NULL ? ERR_OK : ERR_UNKNOWN_SESSION;
    result->has_session = found != NULL;
    if (found != NULL) {
        view_fill_session(found, &result->session);
    }
}

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

/* Lists as many sessions as one hold of the lock may visit. True when there are more sessions. */
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
        view_refuse(result, ERR_NOT_FOUND, "no open session that you may see has this public id");
    } else {
        list_ephemerals(state, args, &page, result);
    }
    view_read_done(view);
    view_page_end(result);
}

/* ---- ACLs. ---- */

/* Returns a digest id without its hash; `scratch` provides the bytes. */
static struct slice name_only(struct slice id, struct buf *scratch)
{
    size_t colon = slice_find(id, ':');

    if (colon == id.len) {
        return id;
    }
    buf_clear(scratch);
    buf_append(scratch, id.data, colon);
    buf_append_str(scratch, ":x");
    return buf_slice(scratch);
}

/* Returns the ACL for a caller without ADMIN: as in ZooKeeper, digest ids have their names but not
 * their hashes. */
static struct blob *without_hashes(struct slice acl)
{
    struct buf out;
    struct buf scratch;
    struct acl_entry entry;

    buf_init(&out, ACL_BYTES_MAX);
    buf_init(&scratch, ACL_BYTES_MAX);
    while (acl_next(&acl, &entry)) {
        if (slice_eq(entry.scheme, slice_str("digest"))) {
            entry.id = name_only(entry.id, &scratch);
        }
        acl_put(&out, &entry);
    }
    ASSERT(!out.overflow && !scratch.overflow);
    struct blob *blob = blob_new(buf_slice(&out));

    buf_release(&scratch);
    buf_release(&out);
    return blob;
}

struct blob *view_shown_acl(struct blob *acl, const struct op_principal *who)
{
    return acl == NULL || acl_allows(blob_slice(acl), who, ACL_ADMIN)
               ? blob_ref(acl)
               : without_hashes(blob_slice(acl));
}

/* Fills the rights of the caller, or of another principal. The rights of another principal are
 * shown only to a caller with ADMIN, because they depend on hashes that only such a caller may see.
 */
static enum err fill_perms(struct slice acl, const struct op_principal *who,
                           const struct op_args *args, struct op_result *result)
{
    bool known = true;

    if (args->as.len > 0 && !acl_allows(acl, who, ACL_ADMIN)) {
        view_refuse(result, ERR_NO_AUTH, "as= needs the permission admin on the znode");
    } else if (args->as.len > 0) {
        result->perms = acl_perms_as(acl, args->as, &known);
    } else {
        result->perms = acl_perms(acl, who);
    }
    if (!known) {
        view_refuse(result, ERR_BAD_ARGUMENTS,
                    "as= must be digest:name, ip:address, x509:identity or world:anyone");
    }
    result->has_perms = result->err == ERR_OK;
    return result->err;
}

void view_acl(const struct state *state, const struct op_principal *who, const struct op_args *args,
              struct op_result *result)
{
    const struct znode *node = state_find(state, args->path);

    result->zxid = state_applied(state);
    if (node == NULL) {
        result->err = ERR_NO_NODE;
        return;
    }
    uint32_t index = znode_acl(node);
    struct slice acl = state_acl(state, index);

    if (index != 0 && !acl_allows(acl, who, ACL_READ | ACL_ADMIN)) {
        result->err = ERR_NO_AUTH;
        return;
    }
    result->err = ERR_OK;
    if ((args->perms || args->as.len > 0) && fill_perms(acl, who, args, result) != ERR_OK) {
        return;
    }
    result->has_stat = true;
    state_shown_stat(state, node, &result->stat);
    result->has_acl = true;
    result->acl = view_shown_acl(state_acl_blob(state, index), who);
}

/* ---- Refused writes. ---- */

static void note_list(const struct state *state, const struct op_principal *who, struct slice path)
{
    const struct znode *node = path_check(path, NULL) == ERR_OK ? state_find(state, path) : NULL;

    if (node != NULL && znode_acl(node) != 0) {
        (void)acl_perms(state_acl(state, znode_acl(node)), who);
    }
}

/* Compares the ACLs of the path and of its parent. The path may be invalid: some operations have
 * none, and that of a sequential znode may end with a slash. */
static void note_path(const struct state *state, const struct op_principal *who, struct slice path)
{
    const uint8_t *slash = path.len > 1 ? memrchr(path.data, '/', path.len) : NULL;
    size_t parent = slash != NULL ? (size_t)(slash - path.data) : 0;

    note_list(state, who, path);
    if (slash != NULL) {
        note_list(state, who, parent > 0 ? slice_make(path.data, parent) : slice_str("/"));
    }
}

void view_note_refusal(struct view *view, const struct op_principal *who,
                       const struct op_args *args)
{
    const struct state *state = view_read_whole(view);

    if (state == NULL) {
        return;
    }
    note_path(state, who, args->path);
    for (uint32_t i = 0; i < args->op_count && i < VIEW_NODES_MAX; i++) {
        note_path(state, who, args->ops[i].path);
    }
    view_read_done(view);
}
