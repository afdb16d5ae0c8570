#include "base/check.h"
#include "base/mem.h"
#include "server/op/acl.h"
#include "server/state/path.h"
#include "server/transfer/import_int.h"

#include <stdio.h>

struct import *import_new(struct view *view, const struct op_principal *who,
                          const struct op_args *args, const struct import_limits *limits)
{
    struct import *import = mem_zalloc(1, sizeof(*import));

    ASSERT(args->op == OP_IMPORT);
    import->view = view;
    import->who = *who;
    import->who.auth = auth_ref(who->auth);
    import->args = args;
    import->limits = *limits;
    import->figures.dry_run = args->dry_run;
    buf_init(&import->partial, (size_t)2 * limits->data_bytes_max + IMPORT_LINE_SLACK);
    map_init(&import->known);
    return import;
}

static void drop_batch(struct import *import)
{
    for (uint32_t i = 0; i < import->count; i++) {
        buf_release(&import->items[i].memory);
        buf_release(&import->items[i].path);
    }
    import->count = 0;
    import->bytes = 0;
    import->tries = 0;
}

void import_free(struct import *import)
{
    if (import == NULL) {
        return;
    }
    drop_batch(import);
    buf_release(&import->partial);
    map_release(&import->known);
    principal_release(&import->who);
    mem_free(import);
}

enum import_state import_state(const struct import *import)
{
    return import->state;
}

const struct op_fault *import_fault(const struct import *import)
{
    ASSERT(import->state == IMPORT_FAILED);

    return &import->fault;
}

const struct op_import_figures *import_figures(const struct import *import)
{
    return &import->figures;
}

void import_stop(struct import *import, enum err err, const char *why)
{
    ASSERT(import->state == IMPORT_TAKES && err != ERR_OK);
    import->state = IMPORT_FAILED;
    import->fault.err = err;
    (void)snprintf(import->fault.detail, sizeof(import->fault.detail), "%s", why);
}

/* ---- The batch ---- */

static bool changes_anything(const struct import *import)
{
    for (uint32_t i = 0; i < import->count; i++) {
        if (import->items[i].plan != IMPORT_SKIP) {
            return true;
        }
    }
    return false;
}

/* Counts a batch that was done, or that a dry run found possible. */
static void count_batch(struct import *import)
{
    struct op_import_figures *figures = &import->figures;

    for (uint32_t i = 0; i < import->count; i++) {
        figures->created += import->items[i].plan == IMPORT_CREATE;
        figures->skipped += import->items[i].plan == IMPORT_SKIP;
        figures->overwritten += import->items[i].plan >= IMPORT_SET;
    }
    figures->lines += import->count;
    drop_batch(import);
}

/* Ends the import after all its batches; the import fails if the last line was missing. */
static void check_end(struct import *import)
{
    if (import->has_head && !import->has_end) {
        import_fail(import, ERR_BAD_ARGUMENTS, import->line, slice_make(NULL, 0),
                    "the export was cut off: its last line is missing");
        return;
    }
    import->state = IMPORT_DONE;
}

static void go_on(struct import *import)
{
    import->state = IMPORT_TAKES;
    if (import->over) {
        check_end(import);
    }
}

/* Plans the batch, and makes it ready if it changes anything. Called when the batch has no room for
 * the next line, when the next line must wait for the result of the batch (may_be_made), at the end
 * of the body, and for another attempt at the batch. */
static void seal(struct import *import)
{
    if (import->count > 0 && !import_plan(import)) {
        return;
    }
    if (import->count > 0 && !import->args->dry_run && changes_anything(import)) {
        import->state = IMPORT_READY;
        return;
    }
    count_batch(import);
    go_on(import);
}

static void put_op(struct op_args *to, const struct import_item *item, enum op_id op)
{
    op_args_init(to, op);
    to->path = item->args.path;
    if (op == OP_SETACL) {
        to->has_acl = true;
        to->acl = item->args.acl;
        if (!item->args.has_acl) {
            (void)acl_standard(slice_str("open"), &to->acl);
        }
        return;
    }
    to->data = item->args.data;
    to->data_null = item->args.data_null;
}

void import_fill(struct import *import, struct op_request *op)
{
    struct op_args *ops = mem_zalloc((size_t)2 * import->count, sizeof(*ops));
    uint32_t count = 0;

    ASSERT(import->state == IMPORT_READY);
    for (uint32_t i = 0; i < import->count; i++) {
        const struct import_item *item = &import->items[i];

        if (item->plan == IMPORT_CREATE || item->plan == IMPORT_RAISE) {
            ops[count++] = item->args;
        } else if (item->plan != IMPORT_SKIP) {
            put_op(&ops[count++], item, OP_SET);
        }
        if (item->plan == IMPORT_SET_BOTH) {
            put_op(&ops[count++], item, OP_SETACL);
        }
    }
    op->def = ops_by_id(OP_MULTI);
    op_args_init(&op->args, OP_MULTI);
    op->args.ops = ops;
    op->args.op_count = count;
    op->multi = ops;
}

/* Returns the line of the element `index` of the multi. If no single element has failed, the index
 * is 0. */
static const struct import_item *item_of(const struct import *import, uint32_t index)
{
    uint32_t at = 0;

    for (uint32_t i = 0; i < import->count; i++) {
        at += import->items[i].plan != IMPORT_SKIP;
        at += import->items[i].plan == IMPORT_SET_BOTH;
        if (index < at) {
            return &import->items[i];
        }
    }
    return &import->items[0];
}

void import_answer(struct import *import, const struct op_result *result)
{
    bool raced = result->err == ERR_NODE_EXISTS || result->err == ERR_NO_NODE;

    ASSERT(import->state == IMPORT_READY && import->count > 0);
    if (result->err == ERR_OK) {
        import->figures.zxid = result->zxid;
        import->figures.multis++;
        count_batch(import);
        go_on(import);
    } else if (raced && import->args->conflict != OP_CONFLICT_FAIL &&
               ++import->tries < IMPORT_TRIES) {
        seal(import);
    } else {
        const struct import_item *item = item_of(import, result->failed_index);
        bool about_one = result->result_count > 0;

        import_fail(import, result->err, item->line,
                    about_one ? item->args.path : slice_make(NULL, 0),
                    result->detail ? result->detail : err_text(result->err));
    }
}

/* ---- Lines ---- */

static bool has_room(const struct import *import, size_t bytes)
{
    size_t most = min_size(import->limits.multi_bytes_max / 2, IMPORT_BATCH_BYTES);
    uint32_t items = min_u32(max_u32(import->limits.multi_ops_max / 2, 1), IMPORT_ITEMS_MAX);

    return import->count == 0 || (import->count < items && import->bytes + bytes <= most);
}

/* True when an earlier line of the batch may create the znode at `below`: the line is for this
 * znode, or for a znode below it whose missing parents are created, too. Whether the znode at
 * `below` exists is then known only after the batch. */
static bool may_be_made(const struct import *import, struct slice below)
{
    for (uint32_t i = 0; i < import->count; i++) {
        struct slice other = path_below(import->items[i].args.path, import->args->path);

        if (slice_starts_with(other, below) &&
            (other.len == below.len || below.len == 0 || other.data[below.len] == '/')) {
            return true;
        }
    }
    return false;
}

/* Joins top and path, and checks what would make the leader refuse the whole batch. */
static bool finish_item(struct import *import, struct import_item *item)
{
    const char *why = NULL;
    struct slice below = item->args.path;
    enum err err = ERR_OK;

    path_join(&item->path, import->args->path, below);
    item->args.path = buf_slice(&item->path);
    item->args.parents = import->args->parents;
    if (item->args.data.len > import->limits.data_bytes_max) {
        err = ERR_TOO_LARGE;
        why = "the data is larger than maxDataBytes";
    } else if (item->path.overflow) {
        err = ERR_BAD_ARGUMENTS;
        why = "the path is longer than 16384 bytes";
    } else {
        err = op_args_check(&item->args, &why);
    }
    if (err != ERR_OK) {
        import_fail(import, err, item->line, below, why);
    }
    return err == ERR_OK;
}

/* True when the line is in the batch; false when the line must wait for the next batch, or is
 * invalid. */
static bool add_znode(struct import *import, const struct op_line *line, struct buf *take_memory)
{
    struct import_item *item = &import->items[import->count];
    size_t bytes = import->args->path.len + line->args.path.len + line->args.data.len +
                   line->args.acl.len + IMPORT_ITEM_COST;

    if (!has_room(import, bytes) ||
        (import->args->conflict != OP_CONFLICT_FAIL && may_be_made(import, line->args.path))) {
        return false;
    }
    *item = (struct import_item){.args = line->args, .memory = *take_memory, .line = import->line};
    buf_init(take_memory, 0);
    buf_init(&item->path, (size_t)2 * STATE_PATH_MAX);
    import->count++;
    import->bytes += bytes;
    import->znodes++;
    return finish_item(import, item);
}

static void take_frame(struct import *import, const struct op_line *line)
{
    struct slice none = slice_make(NULL, 0);

    if (line->kind == OP_LINE_HEAD && (import->has_head || import->znodes > 0)) {
        import_fail(import, ERR_BAD_ARGUMENTS, import->line, none,
                    "this is the first line of an export, but other lines come before it");
    } else if (line->kind == OP_LINE_HEAD) {
        import->has_head = true;
    } else if (line->kind == OP_LINE_ERROR) {
        import_fail(import, ERR_BAD_ARGUMENTS, import->line, none,
                    "the export ended with an error and is incomplete");
    } else if (line->znodes != import->znodes) {
        import_fail(
            import, ERR_BAD_ARGUMENTS, import->line, none,
            "the last line says another number of znodes than the export has lines: lines were "
            "lost");
    } else {
        import->has_end = true;
    }
}

/* False when the line must wait for the next batch; then it has to be passed again. */
static bool take_line(struct import *import, struct slice text)
{
    struct op_line line;
    struct op_fault fault;
    struct buf memory;
    bool taken = true;

    import->line++;
    buf_init(&memory, text.len);
    enum err err = op_json_parse_line(text, &line, &memory, &fault);

    if (err != ERR_OK) {
        import_fail(import, err, import->line, slice_make(NULL, 0), fault.detail);
    } else if (import->has_end) {
        import_fail(import, ERR_BAD_ARGUMENTS, import->line, slice_make(NULL, 0),
                    "there are further lines after the last line of the export");
    } else if (line.kind != OP_LINE_ZNODE) {
        take_frame(import, &line);
    } else if (!add_znode(import, &line, &memory) && import->state != IMPORT_FAILED) {
        import->line--;
        taken = false;
    }
    buf_release(&memory);
    return taken;
}

static bool is_blank(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] != ' ' && text.data[i] != '\t' && text.data[i] != '\r') {
            return false;
        }
    }
    return true;
}

static bool take_whole(struct import *import, struct slice text)
{
    if (is_blank(text)) {
        import->line++;
        return true;
    }
    return take_line(import, text);
}

/* Appends bytes to the incomplete line. */
static void keep_partial(struct import *import, struct slice text)
{
    if (!buf_append_slice(&import->partial, text)) {
        import_fail(
            import, ERR_TOO_LARGE, import->line + 1, slice_make(NULL, 0),
            "the line is longer than 2 * maxDataBytes + 256 KiB: check that the file is an export");
    }
}

/* Takes one line, or a part of it; returns how many of `bytes` it has used. */
static size_t take_some(struct import *import, struct slice bytes)
{
    const uint8_t *end = memchr(bytes.data, '\n', bytes.len);
    size_t len = end ? (size_t)(end - bytes.data) : bytes.len;
    struct slice text = slice_make(bytes.data, len);

    if (!end || import->partial.len > 0) {
        keep_partial(import, text);
        text = buf_slice(&import->partial);
    }
    if (!end || import->state == IMPORT_FAILED) {
        return len;
    }
    if (!take_whole(import, text)) {
        seal(import);
        /* The partial line is kept without its newline, which is passed again. */
        return import->partial.len > 0 ? len : 0;
    }
    buf_clear(&import->partial);
    return len + 1;
}

size_t import_take(struct import *import, struct slice bytes)
{
    size_t used = 0;

    ASSERT(import->state == IMPORT_TAKES && !import->over);
    while (used < bytes.len && import->state == IMPORT_TAKES) {
        used += take_some(import, slice_make(bytes.data + used, bytes.len - used));
    }
    return import->state == IMPORT_FAILED ? bytes.len : used;
}

void import_end(struct import *import)
{
    ASSERT(import->state == IMPORT_TAKES && !import->over);

    if (import->partial.len > 0) {
        if (!take_whole(import, buf_slice(&import->partial))) {
            seal(import); /* This line comes in the next batch. */
            return;
        }
        buf_clear(&import->partial);
    }
    if (import->state == IMPORT_TAKES) {
        import->over = true;
        seal(import);
    }
}
