/*
 * Long lists of children. What does not fit into one short hold of the lock is read in pages, in as
 * many turns as it takes, and encoded at once. In the end one hold looks at all elements: lists
 * that have changed since they were read are read again, until all show one state. So the lock is
 * held briefly, other connections have their turns between two pages, and the memory is bounded by
 * the places of place.c.
 *
 * A list that changes again and again is in the end read in that last hold, if it is not too long.
 */
#include "zk/zk_int.h"

enum {
    CHANGES_MAX = 2,              /* A list that has changed so often is read in the last hold, */
    HOLD_NODES_MAX = 50000,       /* which visits so many children. */
    NAME_BYTES = ZK_INT_BYTES + 1 /* The shortest name in a reply. */
};

/* One element; only lists use more than `is_list`. */
struct part {
    struct stat_view stat; /* When its first page was read. */
    enum err err;          /* The same. */
    uint32_t last_len;     /* Of the name that was read last; it ends the names. */
    uint8_t changes;
    bool is_list;
    bool begun;
    bool whole;
    bool in_hold; /* It is read in the last hold. */
};

struct zk_gather {
    struct op_args all; /* A multi of all elements; lists as OP_STAT, unless they are in_hold. */
    struct op_args one; /* The element, when the request is no multi. */
    struct part *parts;
    struct zk_names *names; /* Of each element; not known: it is no list, or is in_hold. */
    uint32_t at;            /* The element that is read now. */
    uint32_t hold_nodes;    /* Children that the last hold may visit. */
    size_t bytes;           /* Of all names. */
};

/* ---- Begin and end ---- */

static bool is_too_large(size_t bytes)
{
    return bytes > ZK_REPLY_MAX;
}

/* Looks at all elements in one hold. */
static void look(const struct zk_call *call, struct op_result *result)
{
    const struct zk_gather *gather = call->gather;

    op_result_init(result);
    view_run_once(gate_view(call->zk->gate), &call->conn->principal, &gather->all,
                  gather->all.op_count + gather->hold_nodes, result);
}

/* Whether the lists are certainly too long for one reply. */
static bool is_hopeless(const struct zk_call *call)
{
    const struct zk_gather *gather = call->gather;
    struct op_result result;
    size_t bytes = 0;

    look(call, &result);
    for (uint32_t i = 0; i < result.result_count; i++) {
        const struct op_result *one = &result.results[i];

        bytes += gather->parts[i].is_list ? (size_t)NAME_BYTES * one->stat.num_children : 0;
    }
    op_result_release(&result);
    return is_too_large(bytes);
}

static void begin(struct zk_call *call)
{
    struct zk_gather *gather = mem_zalloc(1, sizeof(*gather));
    const struct zk_request *req = &call->req;

    gather->all = req->args;
    if (!req->multi) {
        gather->one = req->args;
        op_args_init(&gather->all, OP_MULTI);
        gather->all.ops = &gather->one;
        gather->all.op_count = 1;
    }
    gather->parts = mem_zalloc(gather->all.op_count, sizeof(*gather->parts));
    gather->names = mem_zalloc(gather->all.op_count, sizeof(*gather->names));
    for (uint32_t i = 0; i < gather->all.op_count; i++) {
        struct op_args *op = &gather->all.ops[i];
        struct part *part = &gather->parts[i];

        part->is_list = op->op == OP_CHILDREN;
        op->op = part->is_list ? OP_STAT : op->op;
        gather->names[i].known = part->is_list;
        buf_init(&gather->names[i].bytes, ZK_REPLY_MAX + (size_t)ZK_KEEP_BYTES);
    }
    call->gather = gather;
}

void zk_gather_free(struct zk_gather *take_gather)
{
    if (!take_gather) {
        return;
    }
    for (uint32_t i = 0; i < take_gather->all.op_count; i++) {
        buf_release(&take_gather->names[i].bytes);
    }
    mem_free(take_gather->names);
    mem_free(take_gather->parts);
    mem_free(take_gather);
}

/* Gives up what was read. The elements of the request are again as it has them. */
void zk_gather_drop(struct zk_call *call)
{
    struct zk_gather *gather = call->gather;

    if (!gather) {
        return;
    }
    for (uint32_t i = 0; i < gather->all.op_count; i++) {
        if (gather->parts[i].is_list) {
            gather->all.ops[i].op = OP_CHILDREN;
            gather->all.ops[i].limit = 0;
        }
    }
    zk_gather_free(gather);
    call->gather = NULL;
}

const struct zk_names *zk_gather_names(const struct zk_gather *gather)
{
    return gather ? gather->names : NULL;
}

/* ---- Pages ---- */

static void add_names(struct zk_gather *gather, const struct op_result *result)
{
    struct part *part = &gather->parts[gather->at];
    struct zk_names *names = &gather->names[gather->at];
    size_t before = names->bytes.len;

    for (uint32_t i = 0; i < result->entry_count; i++) {
        zk_put_bytes(&names->bytes, result->entries[i].path);
    }
    if (result->entry_count > 0) {
        part->last_len = (uint32_t)result->entries[result->entry_count - 1].path.len;
    }
    names->count += result->entry_count;
    gather->bytes += names->bytes.len - before;
}

/* Reads the next page of the list. False: this replica has no state that it may show. */
static bool read_page(struct zk_call *call)
{
    struct zk_gather *gather = call->gather;
    struct part *part = &gather->parts[gather->at];
    struct slice names = buf_slice(&gather->names[gather->at].bytes);
    struct op_args args;
    struct op_result result;
    bool ready = false;

    op_args_init(&args, OP_CHILDREN);
    args.path = gather->all.ops[gather->at].path;
    if (part->begun) {
        args.after = slice_from(names, names.len - part->last_len);
    }
    op_result_init(&result);
    view_run(gate_view(call->zk->gate), &call->conn->principal, &args, &result);
    ready = zk_error_code(result.err) != ZK_CLOSE;
    if (!part->begun) {
        part->stat = result.stat;
        part->err = result.err;
    }
    part->begun = part->begun || result.entry_count > 0;
    part->whole = result.err != ERR_OK || !result.more;
    add_names(gather, &result);
    op_result_release(&result);
    return ready;
}

static void forget(struct zk_gather *gather, uint32_t i)
{
    struct part *part = &gather->parts[i];
    struct zk_names *names = &gather->names[i];

    gather->bytes -= names->bytes.len;
    buf_release(&names->bytes);
    names->count = 0;
    names->known = !part->in_hold;
    part->begun = false;
    part->whole = false;
}

/* ---- The last hold ---- */

/* Whether the list is as it was when it was read. */
static bool is_same(const struct part *part, const struct op_result *now)
{
    if (part->in_hold) {
        return !now->more && now->err != ERR_TOO_LARGE;
    }
    return now->err == part->err && (now->err != ERR_OK || (now->stat.czxid == part->stat.czxid &&
                                                            now->stat.pzxid == part->stat.pzxid));
}

/* The list is read again: in the last hold, if it changes often and is not too long. */
static void read_again(struct zk_gather *gather, uint32_t i)
{
    struct part *part = &gather->parts[i];
    uint32_t nodes = gather->names[i].count + VIEW_NODES_MAX;

    if (part->in_hold) { /* It has become longer. */
        gather->hold_nodes -= gather->all.ops[i].limit;
        gather->all.ops[i].op = OP_STAT;
        part->in_hold = false;
        part->changes = 0;
    } else if (++part->changes >= CHANGES_MAX && gather->hold_nodes + nodes <= HOLD_NODES_MAX) {
        part->in_hold = true;
        gather->hold_nodes += nodes;
        gather->all.ops[i].op = OP_CHILDREN;
        gather->all.ops[i].limit = nodes;
    }
    forget(gather, i);
    gather->at = min_u32(gather->at, i);
}

/* Looks at all elements. True when all lists are as they were read. */
static bool check(struct zk_call *call, struct op_result *result)
{
    struct zk_gather *gather = call->gather;
    bool same = true;

    look(call, result);
    for (uint32_t i = 0; i < result->result_count; i++) {
        if (gather->parts[i].is_list && !is_same(&gather->parts[i], &result->results[i])) {
            read_again(gather, i);
            same = false;
        }
    }
    return same;
}

/* ---- Turns ---- */

static bool needs_page(const struct part *part)
{
    return part->is_list && !part->in_hold && !part->whole;
}

/* Reads pages while the turn lasts. */
static enum zk_gathered read_pages(struct zk_call *call)
{
    struct zk_gather *gather = call->gather;
    struct zk *zk = call->zk;

    while (gather->at < gather->all.op_count) {
        if (!needs_page(&gather->parts[gather->at])) {
            gather->at++;
            continue;
        }
        if (zk->now_us >= zk->end_us) {
            zk_turn_later(call->conn);
            return ZK_GATHERED_PART;
        }
        if (!read_page(call)) {
            return ZK_GATHERED_LOST;
        }
        if (is_too_large(gather->bytes)) {
            return ZK_GATHERED_TOO_LARGE;
        }
        zk->now_us = os_now_us();
    }
    return ZK_GATHERED_ALL;
}

/* Whether all pages are read: then only the wait for the reply is long. */
static bool is_whole(const struct zk_gather *gather)
{
    return gather && gather->at == gather->all.op_count;
}

enum zk_gathered zk_gather_run(struct zk_call *call, struct op_result *ret_result)
{
    enum zk_gathered done = ZK_GATHERED_PART;

    if (!is_whole(call->gather) && zk_place_is_late(call)) {
        return ZK_GATHERED_LATE;
    }
    if (!zk_place_take(call)) {
        return ZK_GATHERED_PART;
    }
    if (!call->gather) {
        begin(call);
        if (is_hopeless(call)) {
            return ZK_GATHERED_TOO_LARGE;
        }
    }
    done = read_pages(call);
    if (done == ZK_GATHERED_ALL && !check(call, ret_result)) {
        op_result_release(ret_result);
        zk_turn_later(call->conn);
        done = ZK_GATHERED_PART;
    }
    return done;
}
