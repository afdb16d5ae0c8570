/* Prints a history as lines of text, each with its time in front, for the analysis of a failure. */
#include "tests/proc/history_run.h"

#include <inttypes.h>
#include <stdio.h>

static const char *const what_names[] = {"get",    "list",  "create", "set",
                                         "delete", "check", "close",  "children"};
static const char *const outcome_names[] = {"ok",         "NoNode",   "NodeExists",
                                            "BadVersion", "not done", "unknown"};
static const char *const kind_names[] = {"started", "replayed", "diffed", "gap",
                                         "event",   "bookmark", "lost",   "overrun"};

static void print_seen(FILE *file, const struct history_seen *seen)
{
    if (!seen->present) {
        (void)fprintf(file, " absent");
        return;
    }
    (void)fprintf(file, " c=%" PRIx64 " m=%" PRIx64 " v=%d #%u", seen->czxid, seen->mzxid,
                  seen->version, seen->value);
    if (seen->owner) {
        (void)fprintf(file, " of %" PRIx64, seen->owner);
    }
}

static void print_op(FILE *file, const char *name, const struct history_op *op)
{
    (void)fprintf(file, "%" PRIu64 " %" PRIu64 " %s connection %u zxid %" PRIx64 " %s%s",
                  op->end_us, op->start_us, name, op->connection, op->zxid,
                  outcome_names[op->outcome], op->linearizable ? " linearizable" : "");
    for (uint32_t i = 0; i < op->count; i++) {
        const struct history_step *step = &op->steps[i];

        (void)fprintf(file, "; %s k%u", what_names[step->what], step->key);
        if (step->value) {
            (void)fprintf(file, " #%u", step->value);
        }
        if (step->ephemeral || step->what == HISTORY_CLOSE) {
            (void)fprintf(file, " session %" PRIx64, op->session);
        }
        if (step->has_version) {
            (void)fprintf(file, " if v=%d", step->version);
        }
        if (step->has_seen) {
            print_seen(file, &step->seen);
        }
    }
    (void)fprintf(file, "%s", op->outcome != HISTORY_OK && op->count > 1 ? " (a multi)\n" : "\n");
}

static void print_item(FILE *file, const char *name, const struct history_item *item)
{
    (void)fprintf(file, "%" PRIu64 " %s %s zxid %" PRIx64, item->at_us, name,
                  kind_names[item->kind], item->zxid);
    if (item->kind == HISTORY_EVENT) {
        (void)fprintf(file, " %s k%u%s%s", what_names[item->what], item->key,
                      item->end ? " end" : "", item->diff ? " diff" : "");
    } else {
        (void)fprintf(file, " since %" PRIx64, item->since);
    }
    if (item->has_seen) {
        print_seen(file, &item->seen);
    }
    (void)fprintf(file, "\n");
}

void history_print(const struct history_log *const *logs, size_t count, const char *path)
{
    FILE *file = fopen(path, "we");

    if (!file) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < logs[i]->op_count; k++) {
            print_op(file, logs[i]->name, &logs[i]->ops[k]);
        }
        for (size_t k = 0; k < logs[i]->item_count; k++) {
            print_item(file, logs[i]->name, &logs[i]->items[k]);
        }
    }
    (void)fclose(file);
}
