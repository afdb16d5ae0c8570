#include "tests/lib/history.h"

#include "base/check.h"
#include "base/mem.h"
#include "tests/lib/history_int.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    GROW = 4096
};

void history_log_init(struct history_log *log, const char *name)
{
    *log = (struct history_log){.op_count = 0};
    (void)snprintf(log->name, sizeof(log->name), "%s", name);
}

void history_log_release(struct history_log *log)
{
    mem_free(log->ops);
    mem_free(log->items);
}

void history_add_op(struct history_log *log, const struct history_op *op)
{
    ASSERT(log->op_count < HISTORY_ITEMS_MAX && op->count <= HISTORY_STEPS_MAX);
    if (log->op_count % GROW == 0) {
        log->ops = mem_realloc(log->ops, (log->op_count + GROW) * sizeof(*log->ops));
    }
    log->ops[log->op_count++] = *op;
}

void history_add_item(struct history_log *log, const struct history_item *item)
{
    ASSERT(log->item_count < HISTORY_ITEMS_MAX);
    if (log->item_count % GROW == 0) {
        log->items = mem_realloc(log->items, (log->item_count + GROW) * sizeof(*log->items));
    }
    log->items[log->item_count++] = *item;
}

bool history_complain(struct history_case *the_case, const char *rule, const char *format, ...)
{
    struct history_report *report = the_case->report;
    va_list args;

    if (!report->rule) {
        report->rule = rule;
        va_start(args, format);
        (void)vsnprintf(report->text, sizeof(report->text), format, args);
        va_end(args);
    }
    return false;
}

static void count_op(const struct history_op *op, struct history_report *report)
{
    bool changes = history_changes(op);

    report->writes += op->outcome == HISTORY_OK && changes;
    report->reads += op->outcome == HISTORY_OK && !changes;
    report->refused += op->outcome != HISTORY_OK && history_names_state(op);
    report->unknown += op->outcome == HISTORY_UNKNOWN && changes;
}

static void note_uses(struct history_case *the_case)
{
    size_t count = 0;

    for (size_t i = 0; i < the_case->log_count; i++) {
        count += the_case->logs[i]->op_count;
    }
    the_case->uses = mem_zalloc(count + 1, sizeof(*the_case->uses));
    for (size_t i = 0; i < the_case->log_count; i++) {
        const struct history_log *log = the_case->logs[i];

        for (size_t k = 0; k < log->op_count; k++) {
            the_case->uses[the_case->use_count++].op = &log->ops[k];
            count_op(&log->ops[k], the_case->report);
        }
    }
}

void history_check(const struct history_log *const *logs, size_t count,
                   struct history_report *ret_report)
{
    struct history_case the_case = {.logs = logs, .log_count = count, .report = ret_report};

    ASSERT(count <= HISTORY_LOGS_MAX);
    *ret_report = (struct history_report){.rule = NULL};
    map_init(&the_case.by_value);
    note_uses(&the_case);

    bool sound = history_check_time(&the_case) && history_gather(&the_case) &&
                 history_check_watches(&the_case) && history_check_model(&the_case) &&
                 history_check_sessions(&the_case);

    ASSERT(sound == (ret_report->rule == NULL));
    mem_free(the_case.open);
    mem_free(the_case.by_zxid);
    mem_free(the_case.facts);
    mem_free(the_case.spans);
    mem_free(the_case.uses);
    map_release(&the_case.by_value);
}
