/* What only the target has: counted, and deleted if the source had it, or with --replace. */
#include "cli/cmd.h"
#include "cli/migrate.h"

enum {
    LISTED_MAX = 100000, /* Paths in memory. */
    ROUNDS_MAX = 1000    /* Lists of one pass. */
};

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
        enum migrate_deletion deletion = delete_one(migrate, path, false);

        if (deletion == MIGRATE_FAILED) {
            return false;
        }
        if (deletion == MIGRATE_NOT_EMPTY) {
            migrate_index_disown(&migrate->target.index, path);
        }
    }
    return true;
}

/* A znode stays, because it has children, or because the target has refused. `all`: no list of this
 * pass follows that may have these children. */
static void keep(struct migrate *migrate, struct slice path, enum migrate_deletion why, bool all)
{
    struct migrate_entry *entry = migrate_index_get(&migrate->target.index, path);

    if (why == MIGRATE_NOT_EMPTY && !all) {
        return;
    }
    migrate->pass.surplus--;
    if (why == MIGRATE_NOT_EMPTY) {
        migrate_index_disown(&migrate->target.index, path);
    } else if (entry) {
        entry->seen = true; /* No other list of this pass has it. */
    }
}

/* Deletes what a list has, children first. */
static bool delete_listed(struct migrate *migrate, const json_t *paths, bool all)
{
    for (size_t i = json_array_size(paths); i > 0; i--) {
        struct slice path = path_at(paths, i - 1);
        bool is_late = !migrate_index_get(&migrate->target.index, path);

        if (path.len == 0) {
            continue;
        }
        migrate->pass.extra += is_late; /* A client has created it in the target meanwhile. */
        migrate->pass.surplus += is_late;
        migrate_name(migrate, path, migrate->differing);
        enum migrate_deletion deletion = delete_one(migrate, path, migrate->replaces && all);

        if (deletion == MIGRATE_FAILED) {
            return false;
        }
        if (deletion != MIGRATE_DELETED) {
            keep(migrate, path, deletion, all);
        }
    }
    return true;
}

static bool delete_extra(struct migrate *migrate)
{
    bool all = false;

    for (int i = 0; i < ROUNDS_MAX && !all; i++) {
        uint64_t before = migrate->deleted;
        json_auto_t *paths = json_array();

        if (!migrate_target_extra(&migrate->target, !migrate->replaces, paths, LISTED_MAX)) {
            return false;
        }
        all = json_array_size(paths) < LISTED_MAX;
        if (!delete_listed(migrate, paths, all)) {
            return false;
        }
        all = all || migrate->deleted == before;
    }
    return true;
}

static bool name_listed(struct migrate *migrate, bool known, json_t *names)
{
    json_auto_t *paths = json_array();

    if (!migrate_target_extra(&migrate->target, known, paths, MIGRATE_NAMED_MAX)) {
        return false;
    }
    JSONR_EACH (path, paths) {
        migrate_name(migrate, slice_str(json_string_value(path)), names);
    }
    return true;
}

bool migrate_name_kept(struct migrate *migrate, json_t *names)
{
    return name_listed(migrate, false, names);
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
    return migrate->writes ? delete_extra(migrate)
                           : name_listed(migrate, !migrate->replaces, migrate->differing);
}
