/* What only the target has: counted, and deleted if the source had it, or with --replace. And the
 * names of what differs. */
#include "cli/cmd.h"
#include "cli/migrate.h"

enum {
    LISTED_MAX = 100000, /* Paths in memory. */
    ROUNDS_MAX = 1000,   /* Lists of one pass. */
    PATH_MAX_BYTES = 128 << 20
};

void migrate_name(const struct migrate *migrate, struct slice path, json_t *names)
{
    size_t count = json_array_size(names);
    BUF_AUTO(full, PATH_MAX_BYTES);

    if (count == MIGRATE_NAMED_MAX) {
        return;
    }
    migrate_target_path(&migrate->target, path, &full);
    json_auto_t *name = out_string(buf_cstr(&full));

    /* A znode may differ twice, in its data and in its counter. */
    if (count == 0 || !json_equal(json_array_get(names, count - 1), name)) {
        (void)json_array_append(names, name);
    }
}

static enum migrate_deletion delete_one(struct migrate *migrate, struct slice path, bool recursive)
{
    struct migrate_index *index = &migrate->target.index;
    enum migrate_deletion deletion = migrate_target_delete(&migrate->target, path, recursive);

    if (deletion == MIGRATE_DELETED) {
        migrate->deleted++;
        (void)migrate_index_drop(index, path);
        migrate_index_disown(index, path);
    }
    return deletion;
}

static struct slice path_at(const json_t *paths, size_t at)
{
    const json_t *path = json_array_get(paths, at);

    return slice_make(json_string_value(path), json_string_length(path));
}

bool migrate_delete_known(struct migrate *migrate, const json_t *paths)
{
    for (size_t i = json_array_size(paths); i > 0; i--) {
        struct slice path = path_at(paths, i - 1);

        /* What has children stays known: their deletions may follow, else the last pass decides. */
        if (delete_one(migrate, path, false) == MIGRATE_FAILED) {
            return false;
        }
    }
    return true;
}

/* A znode stays, because it has children, or because the target has refused. */
static void keep(struct migrate *migrate, struct slice path, enum migrate_deletion why)
{
    struct migrate_entry *entry = migrate_index_get(&migrate->target.index, path);

    migrate->pass.surplus--;
    if (why == MIGRATE_NOT_EMPTY) {
        migrate_index_disown(&migrate->target.index, path);
    } else if (entry) {
        entry->seen = true; /* No other list of this pass has it. */
    }
}

/* Deletes what a list has, children first. */
static bool delete_listed(struct migrate *migrate, const json_t *paths)
{
    for (size_t i = json_array_size(paths); i > 0; i--) {
        struct slice path = path_at(paths, i - 1);
        bool is_late = !migrate_index_get(&migrate->target.index, path);

        if (path.len == 0) {
            continue;
        }
        migrate->pass.extra += is_late; /* A client has created it in the target meanwhile. */
        migrate->pass.surplus += is_late;
        enum migrate_deletion deletion = delete_one(migrate, path, migrate->replaces);

        if (deletion == MIGRATE_FAILED) {
            return false;
        }
        if (deletion != MIGRATE_NOT_EMPTY) {
            migrate_name(migrate, path, migrate->differing);
        }
        if (deletion != MIGRATE_DELETED) {
            keep(migrate, path, deletion);
        }
    }
    return true;
}

static bool delete_extra(struct migrate *migrate)
{
    enum migrate_list list = migrate->replaces ? MIGRATE_LAST : MIGRATE_LAST_KNOWN;
    bool goes_on = true;

    for (int i = 0; i < ROUNDS_MAX && goes_on; i++) {
        uint64_t before = migrate->deleted;
        json_auto_t *paths = json_array();

        if (!migrate_target_extra(&migrate->target, list, paths, LISTED_MAX) ||
            !delete_listed(migrate, paths)) {
            return false;
        }
        goes_on = json_array_size(paths) == LISTED_MAX && migrate->deleted > before;
    }
    return true;
}

static bool name_listed(struct migrate *migrate, enum migrate_list list, json_t *names)
{
    json_auto_t *paths = json_array();

    if (!migrate_target_extra(&migrate->target, list, paths, MIGRATE_NAMED_MAX)) {
        return false;
    }
    JSONR_EACH (path, paths) {
        migrate_name(migrate, slice_str(json_string_value(path)), names);
    }
    return true;
}

bool migrate_name_kept(struct migrate *migrate, json_t *names)
{
    return name_listed(migrate, MIGRATE_FIRST, names);
}

bool migrate_take_extra(struct migrate *migrate)
{
    const struct migrate_index *index = &migrate->target.index;
    struct migrate_figures *pass = &migrate->pass;

    for (size_t i = 0; i < index->cap; i++) {
        const struct migrate_entry *entry = &index->entries[i];
        bool is_extra = entry->path != 0 && !entry->gone && !entry->seen;

        pass->extra += is_extra;
        pass->surplus += is_extra && (migrate->replaces || entry->known);
    }
    if (pass->unread > 0) {
        pass->surplus = 0; /* What is below a znode that was not read may exist in the source. */
    }
    if (pass->surplus == 0) {
        return true;
    }
    if (migrate->writes) {
        return delete_extra(migrate);
    }
    return name_listed(migrate, migrate->replaces ? MIGRATE_FIRST : MIGRATE_FIRST_KNOWN,
                       migrate->differing);
}
