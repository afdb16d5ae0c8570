#include "server/transfer/export.h"

#include "base/check.h"
#include "base/mem.h"
#include "server/op/acl.h"
#include "server/state/cut.h"
#include "server/state/path.h"

enum {
    SLICE_ZNODES = 256,    /* Znodes read under one hold of the lock. */
    SLICES = 4,            /* One call reads at most this number of slices, also when it
                              writes nothing because their znodes are left out. */
    TEXT_BYTES = 16 << 10, /* Text written in one call. */
    PATHS_BYTES_MAX = SLICE_ZNODES * (STATE_PATH_MAX + 1)
};

/* A znode of a slice; it holds references of its own. */
struct export_znode {
    size_t path_end; /* End of the path in `paths`; its start is the previous path_end. */
    struct stat_view stat;
    uint64_t owner;
    struct blob *data;
    struct blob *acl;
};

struct export
{
    struct view *view;
    struct op_principal who; /* Holds its own reference to `auth`. */
    enum op_dataformat format;
    uint64_t history;
    struct state_cut cut;
    bool begun;   /* The first line is written. */
    bool read;    /* The cut was read to its end. */
    bool ended;   /* The last line is written. */
    enum err err; /* Result of the export, in the last line. */
    struct op_export_figures figures;
    struct export_znode znodes[SLICE_ZNODES];
    uint32_t count;
    uint32_t next;    /* Index of the next znode to be written. */
    size_t path_at;   /* Start of the path of that znode in `paths`. */
    struct buf paths; /* Paths relative to the top. */
};

struct export *export_new(struct view *view, const struct op_principal *who,
                          const struct op_args *args, uint64_t history, size_t kept_max,
                          struct op_result *result)
{
    struct export *export = mem_zalloc(1, sizeof(*export));

    ASSERT(args->op == OP_EXPORT);
    result->err = view_cut_begin(view, who, args->path, kept_max, &export->cut, &result->zxid);
    if (result->err != ERR_OK) {
        if (result->err == ERR_NOT_READY) {
            result->detail = "this replica has no state that may be read yet";
        }
        mem_free(export);
        return NULL;
    }
    export->view = view;
    export->who = *who;
    export->who.auth = auth_ref(who->auth);
    export->format = args->dataformat;
    export->history = history;
    buf_init(&export->paths, PATHS_BYTES_MAX);
    return export;
}

static void drop_slice(struct export *export)
{
    for (uint32_t i = export->next; i < export->count; i++) {
        blob_unref(export->znodes[i].data);
        blob_unref(export->znodes[i].acl);
    }
    export->count = 0;
    export->next = 0;
    export->path_at = 0;
    buf_clear(&export->paths);
}

void export_free(struct export *export)
{
    if (export == NULL) {
        return;
    }
    view_cut_end(export->view, &export->cut);
    drop_slice(export);
    buf_release(&export->paths);
    principal_release(&export->who);
    mem_free(export);
}

/* ---- Under the lock. ---- */

static void keep(struct export *export, const struct state_cut_znode *znode)
{
    struct export_znode *to = &export->znodes[export->count++];

    (void)buf_append_slice(&export->paths, path_below(znode->path, buf_slice(&export->cut.top)));
    *to = (struct export_znode){.path_end = export->paths.len,
                                .stat = znode->stat,
                                .owner = znode->owner,
                                .data = blob_ref(znode->data),
                                .acl = blob_ref(znode->acl)};
}

/* Keeps the znode unless the export leaves it out; returns the bytes that a kept znode needs. */
static size_t take(struct export *export, const struct state_cut_znode *znode)
{
    bool open = znode->acl == NULL || acl_allows(blob_slice(znode->acl), &export->who, ACL_READ);

    /* Quotas and configuration belong to the ensemble, so an export of "/" omits /zookeeper. An
     * export of /zookeeper, or of a path below it, has them. */
    if (export->cut.top.len == 1 && slice_eq(znode->path, slice_str("/zookeeper"))) {
        state_cut_prune(&export->cut);
    } else if (znode->stat.ephemeral_owner != 0) {
        export->figures.ephemerals++; /* Nothing is missing, even if it is unreadable. */
    } else if (!open) {
        export->figures.unreadable++;
        state_cut_prune(&export->cut);
    } else {
        keep(export, znode);
        return znode->path.len + blob_slice(znode->data).len;
    }
    return 0;
}

static void take_slice(struct export *export)
{
    struct state_cut_znode znode;
    size_t bytes = 0;

    for (uint32_t i = 0; i < VIEW_NODES_MAX && export->count < SLICE_ZNODES; i++) {
        enum state_cut_step step = state_cut_next(&export->cut, &znode);

        export->read = step == STATE_CUT_END;
        if (step == STATE_CUT_ZNODE) {
            bytes += take(export, &znode);
        }
        if (export->read || bytes >= VIEW_BYTES_MAX) {
            break;
        }
    }
}

/* ---- Without the lock. ---- */

static void end_line(struct buf *out)
{
    (void)buf_append_byte(out, '\n');
}

void export_stop(struct export *export, struct buf *out, enum err err, const char *detail)
{
    struct op_problem problem = op_problem_make(OP_KIND_READ, err);
    struct jsonw json;

    ASSERT(!export->ended);
    drop_slice(export);
    problem.message = true;
    problem.detail = detail;
    problem.path = buf_slice(&export->cut.top);
    problem.zxid = export->cut.zxid;
    jsonw_init(&json, out);
    jsonw_object(&json);
    jsonw_key(&json, "error");
    op_json_problem(&json, &problem);
    jsonw_object_end(&json);
    end_line(out);
    export->ended = true;
    export->err = err;
}

static void stop_early(struct export *export, struct buf *out)
{
    if (export->cut.fate == STATE_CUT_OVERRUN) {
        export_stop(
            export, out, ERR_TOO_LARGE,
            "more than maxExportBytes changed during the export: read the export faster, or "
            "export smaller subtrees");
    } else {
        export_stop(export, out, ERR_NOT_READY,
                    "the state of this replica was replaced: start the export again, here or at "
                    "another replica");
    }
}

static void write_znode(struct export *export, struct buf *out)
{
    struct export_znode *from = &export->znodes[export->next++];
    struct blob *acl = view_shown_acl(from->acl, &export->who);
    struct op_export_znode line = {.stat = from->stat,
                                   .acl = blob_slice(acl),
                                   .data = from->data,
                                   .container = owner_is_container(from->owner)};
    struct jsonw json;

    if (from->path_end > export->path_at) {
        line.path =
            slice_make(export->paths.data + export->path_at, from->path_end - export->path_at);
    }
    if (owner_is_ttl(from->owner)) {
        line.ttl_ms = (int64_t)(from->owner & ~OWNER_TTL_MARK);
    }
    jsonw_init(&json, out);
    op_json_export_znode(&json, &line, export->format);
    end_line(out);
    export->path_at = from->path_end;
    export->figures.znodes++;
    export->figures.masked += !slice_eq(blob_slice(acl), blob_slice(from->acl));
    blob_unref(acl);
    blob_unref(from->data);
    blob_unref(from->acl);
}

/* Reads the next slice. When all znodes are written, or the cut cannot be read any more, writes the
 * last line instead and returns false. */
static bool next_slice(struct export *export, struct buf *out)
{
    struct jsonw json;

    if (export->read) {
        jsonw_init(&json, out);
        op_json_export_end(&json, &export->figures);
        end_line(out);
        export->ended = true;
        return false;
    }
    drop_slice(export);
    if (!view_cut_enter(export->view, &export->cut)) {
        stop_early(export, out);
        return false;
    }
    take_slice(export);
    view_cut_leave(export->view, &export->cut);
    return true;
}

bool export_write(struct export *export, struct buf *out)
{
    size_t start = out->len;
    uint32_t slices = 0;
    bool more = true;
    struct jsonw json;

    ASSERT(!export->ended);
    if (!export->begun) {
        jsonw_init(&json, out);
        op_json_export_head(&json, buf_slice(&export->cut.top), export->cut.zxid, export->history);
        end_line(out);
        export->begun = true;
    }
    while (more && out->len - start < TEXT_BYTES && slices < SLICES) {
        if (export->next < export->count) {
            write_znode(export, out);
        } else {
            more = next_slice(export, out);
            slices++;
        }
    }
    return more;
}

enum err export_error(const struct export *export)
{
    ASSERT(export->ended);

    return export->err;
}

const struct op_export_figures *export_figures(const struct export *export)
{
    return &export->figures;
}
