/* Real time, order on a connection, demanded zxids. */
#include "base/check.h"
#include "base/mem.h"
#include "tests/lib/history_int.h"

#include <inttypes.h>
#include <stdlib.h>

/* A client learned of a zxid. */
struct learned {
    uint64_t at_us;
    zxid_t zxid;
};

static int by_time(const void *a, const void *b)
{
    const struct learned *left = a;
    const struct learned *right = b;

    return left->at_us < right->at_us ? -1 : left->at_us > right->at_us;
}

static int by_start(const void *a, const void *b)
{
    const struct history_use *left = a;
    const struct history_use *right = b;

    return left->op->start_us < right->op->start_us ? -1 : left->op->start_us > right->op->start_us;
}

static bool names_zxid(const struct history_item *item)
{
    return item->kind == HISTORY_EVENT || item->kind == HISTORY_BOOKMARK;
}

static size_t count_learned(const struct history_case *the_case)
{
    size_t count = 0;

    for (size_t i = 0; i < the_case->log_count; i++) {
        count += the_case->logs[i]->op_count + the_case->logs[i]->item_count;
    }
    return count;
}

static size_t gather_learned(const struct history_case *the_case, struct learned *learned)
{
    size_t count = 0;

    for (size_t i = 0; i < the_case->log_count; i++) {
        const struct history_log *log = the_case->logs[i];

        for (size_t k = 0; k < log->op_count; k++) {
            if (history_names_state(&log->ops[k])) {
                learned[count++] = (struct learned){log->ops[k].end_us, log->ops[k].zxid};
            }
        }
        for (size_t k = 0; k < log->item_count; k++) {
            if (names_zxid(&log->items[k])) {
                learned[count++] = (struct learned){log->items[k].at_us, log->items[k].zxid};
            }
        }
    }
    return count;
}

/* Sorts the uses by start; each floor is the highest zxid that a client knew before, or up to which
 * the write was reported as not done. */
static void find_floors(struct history_case *the_case)
{
    struct learned *learned = mem_alloc((count_learned(the_case) + 1) * sizeof(*learned));
    size_t count = gather_learned(the_case, learned);
    size_t next = 0;
    zxid_t floor = 0;

    if (count > 0) {
        qsort(learned, count, sizeof(*learned), by_time);
    }
    if (the_case->use_count > 0) {
        qsort(the_case->uses, the_case->use_count, sizeof(*the_case->uses), by_start);
    }
    for (size_t i = 0; i < the_case->use_count; i++) {
        for (; next < count && learned[next].at_us < the_case->uses[i].op->start_us; next++) {
            floor = learned[next].zxid > floor ? learned[next].zxid : floor;
        }
        zxid_t not_before = the_case->uses[i].op->not_before;

        the_case->uses[i].floor = not_before > floor ? not_before : floor;
    }
    mem_free(learned);
}

static bool check_floor(struct history_case *the_case, const struct history_use *use)
{
    const struct history_op *op = use->op;
    bool changes = history_changes(op);

    if (!history_names_state(op) || (!changes && !op->linearizable)) {
        return true;
    }

    bool ahead =
        changes && op->outcome == HISTORY_OK ? op->zxid > use->floor : op->zxid >= use->floor;

    return ahead || history_complain(the_case, "real-time",
                                     "connection %u: %s of key %u answered at zxid %" PRIx64
                                     ", and a client already knew %" PRIx64,
                                     op->connection, changes ? "a write" : "a linearizable read",
                                     op->steps[0].key, op->zxid, use->floor);
}

/* The answers of one log, which has one connection after another. */
static bool check_order(struct history_case *the_case, const struct history_log *log)
{
    const struct history_op *last = NULL;

    for (size_t i = 0; i < log->op_count; i++) {
        const struct history_op *op = &log->ops[i];

        if (!history_names_state(op)) {
            continue;
        }

        bool same = last && last->connection == op->connection;
        bool write = history_changes(op) && op->outcome == HISTORY_OK;

        if (same && (write ? op->zxid <= last->zxid : op->zxid < last->zxid)) {
            return history_complain(the_case, "order",
                                    "connection %u was answered zxid %" PRIx64 " after %" PRIx64,
                                    op->connection, op->zxid, last->zxid);
        }
        last = op;
    }
    return true;
}

static bool check_minimum(struct history_case *the_case, const struct history_op *op)
{
    if (op->outcome != HISTORY_OK || op->zxid >= op->min_zxid) {
        return true;
    }
    return history_complain(the_case, "minimum",
                            "connection %u demanded zxid %" PRIx64 " and was answered %" PRIx64,
                            op->connection, op->min_zxid, op->zxid);
}

bool history_check_time(struct history_case *the_case)
{
    find_floors(the_case);
    for (size_t i = 0; i < the_case->use_count; i++) {
        if (!check_floor(the_case, &the_case->uses[i]) ||
            !check_minimum(the_case, the_case->uses[i].op)) {
            return false;
        }
    }
    for (size_t i = 0; i < the_case->log_count; i++) {
        if (!check_order(the_case, the_case->logs[i])) {
            return false;
        }
    }
    return true;
}
