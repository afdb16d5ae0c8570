/* The audit log as front ends and metrics see it. */
#include "server/op/ops.h"
#include "server/process/server_int.h"

/* Whether the audit log records this error: 401, 403, or passwords that are not evaluated. */
static bool is_recorded(const struct gate_refusal *refusal)
{
    int status = err_http_status(refusal->err);
    bool slowed = refusal->err == ERR_THROTTLED && refusal->why &&
                  strcmp(refusal->why, gate_credentials_slowed) == 0;

    return status == 401 || status == 403 || slowed;
}

void gate_refused(struct gate *gate, const struct gate_refusal *refusal)
{
    struct audit *audit = gate->server->audit;
    const struct op_args *args = refusal->args;

    if (!audit || !is_recorded(refusal)) {
        return;
    }
    struct audit_refusal line = {.op = refusal->op,
                                 .path = args ? args->path : slice_make(NULL, 0),
                                 .client = refusal->client,
                                 .session = refusal->session,
                                 .err = refusal->err,
                                 .status = refusal->status,
                                 .why = refusal->why};

    if (args && refusal->has_index && refusal->index < args->op_count) {
        const struct op_def *def = ops_by_id(args->ops[refusal->index].op);

        line.part = def ? def->name : NULL;
        line.path = args->ops[refusal->index].path;
    }
    audit_refused(audit, &line);
}

void gate_audit_metrics(struct gate *gate, struct buf *out)
{
    struct audit_figures figures = {0};

    if (gate->server->audit) {
        audit_figures(gate->server->audit, &figures, NULL);
    }

    const struct {
        const char *name;
        const char *type;
        const char *help;
        uint64_t value;
    } rows[] = {
        {"zabra_audit_lines_total", "counter", "Lines written to the audit file.", figures.lines},
        {"zabra_audit_dropped_total", "counter",
         "Lines of the audit log dropped because the file could not be written.", figures.dropped},
        {"zabra_audit_refusals_total", "counter",
         "Requests refused for credentials or permissions, as the audit log counts them.",
         figures.refusals},
        {"zabra_audit_omitted_total", "counter",
         "Refused requests without a line of their own in the audit log.", figures.omitted},
        {"zabra_audit_gaps_total", "counter",
         "Ranges of changes that the audit log could not record.", figures.gaps},
        {"zabra_audit_failing", "gauge", "1 while the audit file cannot be written.",
         figures.failing ? 1 : 0},
        {"zabra_audit_behind", "gauge", "Applied records that the audit log has not recorded.",
         figures.behind},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        metric_head(out, rows[i].name, rows[i].type, rows[i].help);
        metric_put(out, rows[i].name, NULL, rows[i].value);
    }
}
