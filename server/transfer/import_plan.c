/* Decides what each line of a batch creates, sets or skips, by the state of this replica. When
 * another client creates or deletes a znode of the batch meanwhile, the leader refuses the batch,
 * and the batch is planned again. */
#include "base/check.h"
#include "base/hash.h"
#include "server/op/acl.h"
#include "server/state/path.h"
#include "server/transfer/import_int.h"

#include <stdio.h>

void import_fail(struct import *import, enum err err, uint64_t line, struct slice path,
                 const char *why)
{
    struct op_fault *fault = &import->fault;

    ASSERT(import->state != IMPORT_FAILED && err != ERR_OK);
    import->state = IMPORT_FAILED;
    import->figures.line = line;
    fault->err = err;
    (void)snprintf(fault->detail, sizeof(fault->detail), "line %llu: %.*s%s%.120s",
                   (unsigned long long)line, path.len < 80 ? (int)path.len : 80,
                   path.len > 0 ? (const char *)path.data : "", path.len > 0 ? ": " : "", why);
}

/* ---- Znodes that exist. ---- */

/* Whether the znode keeps its ACL. A line without an ACL means an open znode; with inheritAcl it
 * leaves the ACL as it is, so that no import opens a znode by leaving something out. */
static bool keeps_acl(const struct state *state, const struct znode *node,
                      const struct import *import, const struct op_args *args)
{
    struct slice open = slice_make(NULL, 0);
    struct slice wanted = args->has_acl ? args->acl : open;

    if (!args->has_acl && import->limits.inherit_acl) {
        return true;
    }
    (void)acl_standard(slice_str("open"), &open);
    return slice_eq(state_acl(state, znode_acl(node)),
                    slice_eq(wanted, open) ? slice_make(NULL, 0) : wanted);
}

static enum import_plan plan_existing(const struct state *state, const struct znode *node,
                                      const struct import *import, const struct op_args *args)
{
    bool is_root = args->path.len == 1;

    if (import->args->conflict != OP_CONFLICT_OVERWRITE ||
        (path_is_builtin(args->path) && !is_root)) {
        return IMPORT_SKIP;
    }
    return is_root || keeps_acl(state, node, import, args) ? IMPORT_SET : IMPORT_SET_BOTH;
}

/* ---- What a dry run finds. ---- */

/* Returns the value in `known` of a path that an earlier line creates, or whose ACL it sets. The
 * value says whether the caller may create below that path. */
static void *known_mark(struct import *import, bool open)
{
    return open ? (void *)import : (void *)&import->known; /* Any two pointers will do. */
}

/* Remembers a path. At the bound no more paths are remembered, and each missing parent counts as
 * created. So a dry run of many lines finds fewer errors. */
static void know(struct import *import, struct slice path, bool open)
{
    if (map_count(&import->known) < IMPORT_KNOWN_MAX) {
        (void)map_put_u64(&import->known, hash64(1, path), known_mark(import, open));
    }
}

/* Whether an earlier line creates the path; only a dry run needs to remember that. */
static bool is_made(const struct import *import, struct slice path)
{
    return map_get_u64(&import->known, hash64(1, path)) != NULL;
}

static bool is_known(const struct import *import, struct slice path)
{
    return is_made(import, path) || map_count(&import->known) >= IMPORT_KNOWN_MAX;
}

/* Remembers the ancestors that parents=true would create, up to the deepest one that exists or was
 * created before. */
static void know_parents(const struct state *state, struct import *import, struct slice path)
{
    for (uint32_t i = 0;
         i < IMPORT_PARENTS_KNOWN && state_find(state, path) == NULL && !is_known(import, path);
         i++) {
        know(import, path, true);
        path = path_parent(path);
    }
}

static bool may(const struct state *state, const struct import *import, const struct znode *node,
                uint32_t perms)
{
    return znode_acl(node) == 0 ||
           acl_allows(state_acl(state, znode_acl(node)), &import->who, perms);
}

/* Checks the ACL of a line. `ret_open`: whether the caller may create below a znode with this list.
 */
static enum err try_acl(const struct import *import, const struct op_args *args, bool *ret_open,
                        const char **ret_why)
{
    struct buf fixed;
    enum err err = ERR_OK;

    *ret_open = true;
    if (args->has_acl) {
        buf_init(&fixed, ACL_BYTES_MAX);
        err = acl_fix(args->acl, &import->who, &fixed, ret_why);
        *ret_open = err == ERR_OK &&
                    (fixed.len == 0 || acl_allows(buf_slice(&fixed), &import->who, ACL_CREATE));
        buf_release(&fixed);
    }
    return err;
}

/* Checks that the parent exists and that the caller may create below it. If an earlier line created
 * the parent or set its ACL, that line decides; otherwise the state decides. */
static enum err try_parent(const struct state *state, struct import *import,
                           const struct op_args *args, const char **ret_why)
{
    struct slice path = path_parent(args->path);
    const struct znode *parent = state_find(state, path);

    if (map_get_u64(&import->known, hash64(1, path)) == known_mark(import, false)) {
        *ret_why =
            "an earlier line gives the parent an ACL that does not let the caller create below it";
        return ERR_NO_AUTH;
    }
    if (parent == NULL && !args->parents && !is_known(import, path)) {
        *ret_why = "the parent does not exist";
        return ERR_NO_NODE;
    }
    return parent != NULL && !is_made(import, path) && !may(state, import, parent, ACL_CREATE)
               ? ERR_NO_AUTH
               : ERR_OK;
}

static enum err try_create(const struct state *state, struct import *import,
                           const struct op_args *args, bool open, const char **ret_why)
{
    enum err err = try_parent(state, import, args, ret_why);

    if (err == ERR_OK && args->parents) {
        know_parents(state, import, path_parent(args->path));
    }
    if (err == ERR_OK) {
        know(import, args->path, open);
    }
    return err;
}

static enum err try_raise(const struct import *import, const struct import_item *item,
                          const struct znode *node, const char **ret_why)
{
    if (import->who.auth == NULL || !import->who.auth->super) {
        *ret_why = "only the super user may raise the count of creates";
        return ERR_NO_AUTH;
    }
    return node == NULL && !is_known(import, item->args.path) ? ERR_NO_NODE : ERR_OK;
}

static enum err try_item(const struct state *state, struct import *import,
                         const struct import_item *item, const char **ret_why)
{
    const struct znode *node = state_find(state, item->args.path);
    bool open = true;

    if (item->plan == IMPORT_RAISE) {
        return try_raise(import, item, node, ret_why);
    }
    enum err err = try_acl(import, &item->args, &open, ret_why);

    if (err != ERR_OK || item->plan == IMPORT_SKIP ||
        (item->plan != IMPORT_CREATE && node == NULL)) {
        return err;
    }
    if (item->plan == IMPORT_CREATE) {
        return node != NULL || is_made(import, item->args.path)
                   ? ERR_NODE_EXISTS
                   : try_create(state, import, &item->args, open, ret_why);
    }
    bool allowed = may(state, import, node, ACL_WRITE) &&
                   (item->plan == IMPORT_SET || may(state, import, node, ACL_ADMIN));

    if (allowed && item->plan == IMPORT_SET_BOTH) {
        know(import, item->args.path, open);
    }
    return allowed ? ERR_OK : ERR_NO_AUTH;
}

/* ---- The batch. ---- */

static void plan_item(const struct state *state, const struct import *import,
                      struct import_item *item)
{
    const struct znode *node = state_find(state, item->args.path);
    bool by_leader =
        import->args->conflict == OP_CONFLICT_FAIL && !path_is_builtin(item->args.path);

    item->plan = IMPORT_CREATE;
    if (item->args.op == OP_RAISE) {
        item->plan = IMPORT_RAISE;
    } else if (node != NULL && !by_leader) {
        item->plan = plan_existing(state, node, import, &item->args);
    } else if (!by_leader && is_made(import, item->args.path)) {
        item->plan =
            import->args->conflict == OP_CONFLICT_OVERWRITE ? IMPORT_SET_BOTH : IMPORT_SKIP;
    }
}

static bool plan_all(const struct state *state, struct import *import)
{
    for (uint32_t i = 0; i < import->count; i++) {
        struct import_item *item = &import->items[i];
        const char *why = NULL;

        plan_item(state, import, item);
        enum err err = import->args->dry_run ? try_item(state, import, item, &why) : ERR_OK;

        if (err != ERR_OK) {
            import_fail(import, err, item->line, item->args.path, why ? why : err_text(err));
            return false;
        }
    }
    return true;
}

bool import_plan(struct import *import)
{
    const struct state *state = view_read_whole(import->view);
    bool planned = false;

    ASSERT(import->count <= IMPORT_ITEMS_MAX);
    if (state == NULL) {
        import_fail(import, ERR_NOT_READY, import->line, slice_make(NULL, 0),
                    "this replica has no state that may be read yet");
        return false;
    }
    planned = plan_all(state, import);
    view_read_done(import->view);
    return planned;
}
