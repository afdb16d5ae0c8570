/* What happens to each znode of the source, and passes over all of them. */
#include "base/jsonw.h"
#include "cli/cmd.h"
#include "cli/migrate.h"
#include "server/read/glob.h"

enum {
    LINE_MAX_BYTES = 128 << 20,
    RESTARTS_MAX = 3,   /* Of a pass, after the connection was lost. */
    DIRTY_MAX = 1000000 /* Paths; beyond it a pass is made. */
};

/* ---- One znode ---- */

/* /zookeeper belongs to each ensemble. */
static bool is_system(const struct migrate *migrate, struct slice path)
{
    static const char name[] = "zookeeper";
    size_t len = sizeof(name) - 1;

    return migrate->top.len == 0 && slice_starts_with(path, slice_str(name)) &&
           (path.len == len || path.data[len] == '/');
}

/* Whether the path matches, name by name: "*" and "?" do not match a slash. */
static bool matches(struct slice glob, struct slice path)
{
    while (glob.len > 0 && path.len > 0) {
        struct slice pattern = slice_cut(&glob, '/');
        struct slice name = slice_cut(&path, '/');
        bool wild =
            slice_find(pattern, '*') < pattern.len || slice_find(pattern, '?') < pattern.len;

        if (wild ? !glob_match(pattern, name, false) : !slice_eq(pattern, name)) {
            return false;
        }
    }
    return glob.len == 0 && path.len == 0;
}

/* Writes the members that make a new znode a container or one with a TTL. */
static void put_kind(struct migrate *migrate, struct jsonw *json, struct slice path)
{
    BUF_AUTO(full, LINE_MAX_BYTES);

    migrate_target_path(&migrate->target, path, &full);
    for (int i = 0; i < migrate->glob_count && path.len > 0; i++) {
        const struct migrate_glob *glob = &migrate->globs[i];

        if (!matches(glob->glob, buf_slice(&full))) {
            continue;
        }
        if (glob->ttl_ms > 0) {
            jsonw_kv_i64(json, "ttl", glob->ttl_ms);
            migrate->ttls++;
        } else {
            jsonw_kv_bool(json, "container", true);
            migrate->containers++;
        }
        return;
    }
}

static bool put(struct migrate *migrate, const struct migrate_znode *znode, bool is_new)
{
    struct jsonw json;
    BUF_AUTO(line, LINE_MAX_BYTES);

    jsonw_init(&json, &line);
    jsonw_object(&json);
    jsonw_kv_string(&json, "path", znode->path);
    if (znode->is_null) {
        jsonw_kv_bool(&json, "null", true);
    } else {
        jsonw_key(&json, "data64");
        jsonw_base64(&json, znode->data);
    }
    jsonw_key(&json, "acl");
    jsonw_raw(&json, znode->acl);
    if (is_new) {
        put_kind(migrate, &json, znode->path);
    }
    jsonw_object_end(&json);
    return migrate_target_put(&migrate->target, is_new ? MIGRATE_CREATE : MIGRATE_CHANGE,
                              buf_slice(&line));
}

/* Notes whether the count of creates must be raised, which is done after all creates. */
static bool compare_counts(struct migrate *migrate, const struct migrate_znode *znode,
                           uint32_t theirs)
{
    if (!migrate->counters || znode->creates == theirs || migrate->follows) {
        return true;
    }
    if (znode->creates < theirs) {
        migrate->pass.ahead++;
        return true;
    }
    migrate->pass.behind++;
    migrate_name(migrate, znode->path, migrate->differing);
    return !migrate->writes || migrate_target_raise(&migrate->target, znode->path, znode->creates);
}

static bool copy_znode(struct migrate *migrate, const struct migrate_znode *znode, uint64_t digest,
                       bool is_new)
{
    struct migrate_index *index = &migrate->target.index;
    bool is_root = znode->path.len == 0 && strcmp(migrate->target.top, "/") == 0;

    migrate->pass.created += is_new;
    migrate->pass.changed += !is_new;
    migrate_name(migrate, znode->path, migrate->differing);
    if (!migrate->writes) {
        return true;
    }
    /* Before the line is sent, because a refusal takes it back. */
    if (is_new) {
        migrate_index_put(index, znode->path, digest, 0, true);
    } else {
        migrate_index_get(index, znode->path)->digest = digest;
    }
    return put(migrate, znode, is_new) &&
           (!is_root || migrate_target_root_acl(&migrate->target, znode->acl));
}

static void show(struct migrate *migrate, const struct migrate_znode *znode)
{
    struct progress *progress = &migrate->target.progress;

    progress->bytes += znode->data.len + znode->path.len;
    progress->lines++;
    if (migrate->target.shows) {
        progress_show(progress, os_now_ms());
    }
}

/* The source does not show the znode, nor what is below it. */
static void refuse(struct migrate *migrate, struct slice path, const char *why)
{
    struct migrate_entry *entry = migrate_index_get(&migrate->target.index, path);

    if (entry) {
        entry->seen = true;
    }
    migrate->pass.unread++;
    migrate_target_refuse(&migrate->target, path, why);
}

static bool take_znode(void *ctx, struct migrate_znode *znode)
{
    struct migrate *migrate = ctx;
    struct migrate_entry *entry = migrate_index_get(&migrate->target.index, znode->path);
    uint64_t digest = migrate_digest(znode->data, znode->is_null, znode->acl_sum);

    show(migrate, znode);
    if (znode->stat.ephemeral_owner != 0) {
        migrate->pass.ephemerals++;
        return true;
    }
    migrate->pass.znodes++;
    migrate->pass.bytes += znode->data.len;
    if (znode->masked) {
        znode->pruned = true;
        migrate->top_unread = migrate->top_unread || znode->path.len == 0;
        refuse(migrate, znode->path,
               "its ACL lacks the hashes of passwords, which need the permission ADMIN (--auth); "
               "what is below it is left out, too");
        return true;
    }
    if (entry) {
        migrate_index_see(entry);
    }
    uint32_t creates = entry ? entry->creates : 0;

    if ((!entry || entry->digest != digest) && !copy_znode(migrate, znode, digest, !entry)) {
        return false;
    }
    return compare_counts(migrate, znode, creates);
}

static bool take_missing(void *ctx, struct slice path)
{
    struct migrate *migrate = ctx;

    migrate->pass.vanished++;
    /* A pass finds it as one that only the target has. */
    if (migrate->follows && path.len > 0 && migrate_index_is_known(&migrate->target.index, path)) {
        (void)json_array_append_new(migrate->missing,
                                    json_stringn((const char *)path.data, path.len));
    }
    return true;
}

static void take_refused(void *ctx, struct slice path, const char *why)
{
    struct migrate *migrate = ctx;

    migrate->top_unread = migrate->top_unread || (path.len == 0 && migrate->pass.znodes == 0);
    refuse(migrate, path, why);
}

static bool wants(void *ctx, struct slice path)
{
    const struct migrate *migrate = ctx;

    return !is_system(migrate, path) &&
           (!migrate->follows ||
            (!migrate->recursive && !migrate_index_get(&migrate->target.index, path)));
}

static void take_change(void *ctx, struct slice path)
{
    struct migrate *migrate = ctx;

    if (is_system(migrate, path)) {
        return;
    }
    migrate->events++;
    if (map_count(&migrate->dirty) >= DIRTY_MAX) {
        migrate->lost_events = true;
    } else if (!map_get(&migrate->dirty, path)) {
        char *key = mem_alloc(path.len + 1);

        memcpy(key, path.data, path.len);
        key[path.len] = '\0';
        (void)map_put(&migrate->dirty, slice_make(key, path.len), key);
    }
}

void migrate_visit(struct migrate *migrate)
{
    migrate->visitor = (struct migrate_visitor){.ctx = migrate,
                                                .znode = take_znode,
                                                .missing = take_missing,
                                                .refused = take_refused,
                                                .wants = wants,
                                                .changed = take_change};
    migrate_walk_init(&migrate->walk, &migrate->source, buf_slice(&migrate->top),
                      &migrate->visitor);
}

/* ---- A pass ---- */

static void begin_pass(struct migrate *migrate)
{
    migrate->pass = (struct migrate_figures){.znodes = 0};
    migrate->follows = false;
    migrate->top_unread = false;
    migrate->target.refused_count = 0;
    migrate->target.undone = 0;
    (void)json_array_clear(migrate->target.refused);
    (void)json_array_clear(migrate->differing);
    migrate->target.progress.bytes = 0;
    migrate->target.progress.lines = 0;
    migrate->target.progress.start_ms = 0;
    migrate_target_forget(&migrate->target);
}

static const char *top_of(struct migrate *migrate)
{
    return migrate->top.len > 0 ? buf_cstr(&migrate->top) : "/";
}

/* Walks the source once. CMD_SHOWN: the connection was lost and is there again. */
static int walk_once(struct migrate *migrate)
{
    begin_pass(migrate);
    if (!migrate_target_load(&migrate->target)) {
        return migrate->target.code;
    }
    /* A source that was lost during the load had not been read. */
    int code = migrate->source.fd < 0 ? migrate_reconnect(migrate) : CMD_OK;

    if (code != CMD_OK) {
        return code;
    }
    enum migrate_step step = migrate_sync(migrate);

    if (step == MIGRATE_DONE) {
        migrate_walk_add(&migrate->walk, slice_make("", 0));
        step = migrate_walk_run(&migrate->walk);
    }
    switch (step) {
    case MIGRATE_DONE:
        break;
    case MIGRATE_ENDED:
        return migrate->target.code;
    case MIGRATE_STOPPED:
        return migrate_interrupted(migrate->cli);
    case MIGRATE_LOST:
        code = migrate_reconnect(migrate);
        return code == CMD_OK ? CMD_SHOWN : code;
    }
    if (migrate->top_unread) {
        return cli_fail(migrate->cli, CMD_DENIED, "NotCopied",
                        "%s of the source was not copied (the reason is above), so nothing "
                        "below it was",
                        top_of(migrate));
    }
    if (migrate->pass.znodes == 0) {
        return cli_fail(migrate->cli, CMD_NO_NODE, "NoNode",
                        "the source has no znode %s, or it is ephemeral", top_of(migrate));
    }
    if (migrate->writes && !migrate_target_raise_all(&migrate->target)) {
        return migrate->target.code;
    }
    return migrate_take_extra(migrate) ? CMD_OK : migrate->target.code;
}

int migrate_pass(struct migrate *migrate)
{
    int code = CMD_SHOWN;

    for (int i = 0; i <= RESTARTS_MAX && code == CMD_SHOWN; i++) {
        code = walk_once(migrate);
    }
    progress_clear(&migrate->target.progress);
    return code != CMD_SHOWN
               ? code
               : cli_fail(migrate->cli, CMD_NO_ENSEMBLE, "Source",
                          "the connection was lost again and again: %s", migrate->source.error);
}

static uint64_t differences(const struct migrate *migrate)
{
    const struct migrate_figures *pass = &migrate->pass;

    return pass->created + pass->changed + pass->behind + pass->surplus;
}

bool migrate_is_equal(const struct migrate *migrate)
{
    return differences(migrate) == 0;
}

bool migrate_is_settled(const struct migrate *migrate)
{
    return differences(migrate) <= migrate->target.undone;
}
