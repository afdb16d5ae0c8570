/* Creates or deletes one znode: updates parent, owner, quotas and memory, and adds the effect. Also
 * checks a create. */
#include "server/prepare/prep_int.h"

#include <stdlib.h>

/* ---- Ephemerals of the owner. ---- */

/* Checks that the session may own one more ephemeral, at that path. */
static enum err check_ephemeral(const struct prep_step *step, struct slice path)
{
    const struct config_tree *limits = &step->prep->limits.tree;
    struct overlay_session session;

    overlay_session(&step->prep->overlay, step->state, step->session, &session);
    ASSERT(session.open);
    if (session.ephemeral_count >= limits->session_ephemerals_max) {
        return prep_refuse(step, ERR_QUOTA_EXCEEDED,
                           "the session has as many ephemeral znodes as maxSessionEphemerals "
                           "allows");
    }
    if (session.ephemeral_bytes + path.len > limits->session_ephemeral_bytes_max) {
        return prep_refuse(
            step, ERR_QUOTA_EXCEEDED,
            "with this path, the paths of the session's ephemeral znodes would have more "
            "bytes than maxSessionEphemeralBytes allows");
    }
    return ERR_OK;
}

/* Counts one more (`comes`) or one less ephemeral of the owner. No effect when the owner is no
 * session. */
static void count_ephemeral(const struct prep_step *step, struct slice path, uint64_t owner,
                            bool comes)
{
    struct overlay *overlay = &step->prep->overlay;
    struct overlay_session session;

    if (!owner_is_session(owner)) {
        return;
    }
    overlay_session(overlay, step->state, owner, &session);
    ASSERT(session.open && (comes || session.ephemeral_count > 0));
    session.ephemeral_count += comes ? 1 : UINT32_MAX;
    session.ephemeral_bytes += comes ? path.len : -(uint64_t)path.len;
    overlay_put_session(overlay, step->state, step->zxid, &session);
}

/* ---- Znodes. ---- */

static enum err check_parent(const struct prep_step *step, struct slice path,
                             const struct overlay_node *parent)
{
    if (slice_eq(path_parent(path), slice_str(STATE_CONFIG_PATH))) {
        return prep_refuse(step, ERR_NO_AUTH, "/zookeeper/config cannot have children");
    }
    if (owner_is_session(parent->owner)) {
        return prep_refuse(step, ERR_NO_CHILDREN_FOR_EPHEMERALS, NULL);
    }
    if (parent->creates >= STATE_CREATES_MAX) {
        return prep_refuse(
            step, ERR_BAD_ARGUMENTS,
            "the parent has had 2147483647 children, the most that a znode can have over time: "
            "use another parent");
    }
    return ERR_OK;
}

static void put_new(const struct prep_step *step, struct slice path,
                    const struct txn_effect *effect)
{
    const struct txn_header *header = step->header;
    uint64_t session = owner_is_session(effect->owner) ? effect->owner : 0;
    struct blob *acl = prep_acl_blob(effect->acl);
    const struct overlay_node node = {.exists = true,
                                      .owner = effect->owner,
                                      .age_ms = owner_is_reaped(effect->owner) ? header->age_ms : 0,
                                      .acl = acl,
                                      .stat = {.czxid = step->zxid,
                                               .mzxid = step->zxid,
                                               .pzxid = step->zxid,
                                               .ctime = header->stamp_ms,
                                               .mtime = header->stamp_ms,
                                               .ephemeral_owner = session,
                                               .data_length = (uint32_t)effect->data.len}};

    overlay_put(&step->prep->overlay, path, step->zxid, &node);
    prep_count_node(step, path, &node, true);
    prep_count_acl(step, effect->acl);
    blob_unref(acl);
}

/* Creates one znode below its parent, which exists, with the data, ACL, owner and flags of `kind`.
 */
static enum err put_node(const struct prep_step *step, struct slice path,
                         const struct txn_effect *kind)
{
    struct overlay_node parent;
    struct txn_effect effect = *kind;

    prep_look(step, path_parent(path), &parent);
    enum err err = check_parent(step, path, &parent);

    if (err == ERR_OK) {
        err = prep_may_limit(step, path);
    }
    if (err == ERR_OK && owner_is_session(effect.owner)) {
        err = check_ephemeral(step, path);
    }
    if (err == ERR_OK) {
        err = prep_check_quota(step, path, 1, (int64_t)effect.data.len);
    }
    if (err != ERR_OK) {
        return err;
    }
    parent.creates++;
    parent.stat.num_children++;
    parent.stat.pzxid = step->zxid;
    overlay_put(&step->prep->overlay, path_parent(path), step->zxid, &parent);
    put_new(step, path, &effect);
    count_ephemeral(step, path, effect.owner, true);
    prep_count_quota(step, path, 1, (int64_t)effect.data.len);
    prep_limits_set(step, path, effect.data);
    effect.type = TXN_CREATE;
    effect.path = path;
    effect.creates = parent.creates;
    txn_put(step->out, &effect);
    if ((effect.flags & TXN_REPLY) != 0) {
        prep_answer(step, path, true);
    }
    return ERR_OK;
}

void prep_delete_node(const struct prep_step *step, struct slice path, uint8_t flags)
{
    struct overlay *overlay = &step->prep->overlay;
    struct overlay_node parent;
    struct overlay_node node;

    prep_look(step, path_parent(path), &parent);
    prep_look(step, path, &node);
    ASSERT(parent.exists && parent.stat.num_children > 0);
    ASSERT(node.exists && node.stat.num_children == 0);
    parent.stat.num_children--;
    parent.stat.pzxid = step->zxid;
    overlay_put(overlay, path_parent(path), step->zxid, &parent);
    count_ephemeral(step, path, node.owner, false);
    prep_count_node(step, path, &node, false);
    overlay_put(overlay, path, step->zxid, &(struct overlay_node){.exists = false});
    prep_count_quota(step, path, -1, -(int64_t)node.stat.data_length);
    prep_limits_gone(step, path);
    txn_put(step->out, &(struct txn_effect){.type = TXN_DELETE,
                                            .flags = (uint8_t)(flags | TXN_VERSION_BEFORE),
                                            .path = path,
                                            .version = node.stat.version});
    if ((flags & TXN_REPLY) != 0) {
        prep_answer(step, path, false);
    }
}

/* Sorts in descending order: znodes below a znode come before it, because their paths begin with
 * its path. */
static int later_first(const void *a, const void *b)
{
    return slice_cmp(*(const struct slice *)b, *(const struct slice *)a);
}

void prep_delete_paths(const struct prep_step *step, size_t count, uint8_t flags)
{
    struct slice *paths = mem_zalloc(count, sizeof(*paths));
    struct wire_reader reader;

    wire_reader_init(&reader, buf_slice(&step->prep->paths));
    for (size_t i = 0; i < count; i++) {
        paths[i] = wire_get_raw(&reader, wire_get_u16(&reader));
    }
    ASSERT(wire_reader_done(&reader));
    qsort(paths, count, sizeof(*paths), later_first);
    for (size_t i = 0; i < count; i++) {
        prep_delete_node(step, paths[i], i + 1 == count ? flags : 0);
    }
    mem_free(paths);
}

/* ---- The operation. ---- */

#define TTL_MS_MAX ((int64_t)OWNER_TTL_MASK)

/* Checks that the arguments name one of ZooKeeper's create modes. */
static enum err check_kind(const struct prep_step *step, const struct op_args *args)
{
    bool ttl = args->ttl_ms != 0;

    if (args->container && (args->ephemeral || args->sequence)) {
        return prep_refuse(step, ERR_BAD_ARGUMENTS,
                           "a container can be neither ephemeral nor sequential");
    }
    if (args->ttl_ms < 0 || args->ttl_ms > TTL_MS_MAX) {
        return prep_refuse(step, ERR_BAD_ARGUMENTS, "ttl must be from 1 to 1099511627775 ms");
    }
    if (ttl && (args->ephemeral || args->container)) {
        return prep_refuse(step, ERR_BAD_ARGUMENTS,
                           "an ephemeral znode or a container cannot have a ttl");
    }
    if (args->ephemeral && step->session == 0) {
        return prep_refuse(step, ERR_UNKNOWN_SESSION, "an ephemeral znode needs a session");
    }
    return ERR_OK;
}

/* Checks a path coarsely, as ZooKeeper does: enough to find the parent. The full check follows in
 * make_path, where a sequential name gets its number. */
static enum err check_coarse(const struct prep_step *step, struct slice path)
{
    if (path.len == 0 || path.data[0] != '/' || memchr(path.data, 0, path.len) != NULL ||
        path.len > STATE_PATH_MAX) {
        return prep_refuse(step, ERR_BAD_ARGUMENTS,
                           "a path begins with a slash and has at most 16384 bytes");
    }
    return ERR_OK;
}

/* Writes the full path to prep->path, with the next sequence number of `parent`. */
static enum err make_path(const struct prep_step *step, const struct op_args *args,
                          const struct overlay_node *parent)
{
    struct buf *path = &step->prep->path;
    const char *why = NULL;

    buf_clear(path);
    buf_append_slice(path, args->path);
    if (args->sequence) {
        buf_printf(path, "%010u", parent->creates);
    }
    ASSERT(!path->overflow);
    if (path_check(buf_slice(path), &why) != ERR_OK) {
        return prep_refuse(step, ERR_BAD_ARGUMENTS, why);
    }
    return ERR_OK;
}

/* Checks that the caller may create a child of `path` or, if `path` does not exist, of its deepest
 * ancestor that exists. With `inherit`, copies the ACL of that znode to prep->acl. */
static enum err may_create(const struct prep_step *step, struct slice path, bool inherit)
{
    struct overlay_node node;

    prep_look(step, path, &node);
    while (!node.exists) {
        ASSERT(path.len > 1); /* The root always exists. */
        path = path_parent(path);
        prep_look(step, path, &node);
    }
    if (inherit) {
        (void)buf_append_slice(&step->prep->acl, blob_slice(node.acl));
    }
    return prep_may(step, &node, ACL_CREATE, NULL);
}

/* Creates the missing znodes from the root to `parent`: persistent, with null data and the ACL of
 * the new znode, so that nothing is more open than the client wants. */
static enum err make_parents(const struct prep_step *step, struct slice parent)
{
    const struct txn_effect kind = {.flags = TXN_NULL_DATA, .acl = buf_slice(&step->prep->acl)};
    struct overlay_node node;
    size_t pos = 0;

    while (path_component(parent, &pos).len > 0) {
        struct slice path = slice_make(parent.data, pos);

        prep_look(step, path, &node);
        if (node.exists) {
            continue;
        }
        enum err err = put_node(step, path, &kind);

        if (err != ERR_OK) {
            return err;
        }
        prep_look(step, path, &node);
        err =
            prep_may(step, &node, ACL_CREATE,
                     "parents=true would give the new parents the same ACL, which does not let the "
                     "caller create znodes below them");
        if (err != ERR_OK) {
            return err;
        }
    }
    return ERR_OK;
}

enum err prep_create(const struct prep_step *step, const struct op_args *args)
{
    struct overlay_node parent;
    struct overlay_node node;
    enum err err = check_kind(step, args);

    if (err == ERR_OK) {
        err = check_coarse(step, args->path);
    }
    if (err == ERR_OK) {
        buf_clear(&step->prep->acl); /* An empty list is open to all. */
        err = args->has_acl ? prep_fix_acl(step, args->acl) : ERR_OK;
    }
    if (err != ERR_OK) {
        return err;
    }
    prep_look(step, path_parent(args->path), &parent);
    if (!parent.exists && !args->parents) {
        return prep_refuse(step, ERR_NO_NODE, "the parent does not exist");
    }
    err =
        may_create(step, path_parent(args->path), !args->has_acl && step->prep->limits.inherit_acl);
    if (err == ERR_OK) {
        err = make_path(step, args, &parent);
    }
    struct slice path = buf_slice(&step->prep->path);

    if (err == ERR_OK) {
        prep_look(step, path, &node);
        err = node.exists ? prep_refuse(step, ERR_NODE_EXISTS, NULL) : ERR_OK;
    }
    if (err == ERR_OK && !parent.exists) {
        err = make_parents(step, path_parent(path));
    }
    if (err != ERR_OK) {
        return err;
    }
    uint64_t owner = args->ephemeral     ? step->session
                     : args->container   ? OWNER_CONTAINER
                     : args->ttl_ms != 0 ? OWNER_TTL_MARK | (uint64_t)args->ttl_ms
                                         : 0;

    return put_node(
        step, path,
        &(struct txn_effect){.flags = TXN_REPLY | (args->data_null ? TXN_NULL_DATA : 0U),
                             .data = args->data,
                             .acl = buf_slice(&step->prep->acl),
                             .owner = owner});
}
