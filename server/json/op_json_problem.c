/* Errors into JSON: the problem object. */
#include "server/json/op_json_int.h"
#include "server/op/change.h"

const char *op_outcome(enum op_kind kind, enum err err)
{
    /* ERR_IN_FLIGHT: this request wrote nothing, but the earlier one with the same key may write.
     */
    bool open = err == ERR_OUTCOME_UNKNOWN || err == ERR_IN_FLIGHT || err == ERR_SYSTEM_ERROR ||
                err == ERR_IO || err == ERR_CORRUPT;

    return kind == OP_KIND_WRITE && open ? "unknown" : "not-applied";
}

struct op_problem op_problem_make(enum op_kind kind, enum err err)
{
    ASSERT(err != ERR_OK);

    return (struct op_problem){.err = err, .outcome = op_outcome(kind, err)};
}

struct op_problem op_problem_of_fault(enum op_kind kind, const struct op_fault *fault)
{
    struct op_problem problem = op_problem_make(kind, fault->err);

    problem.detail = fault->detail[0] != '\0' ? fault->detail : NULL;
    problem.has_index = fault->has_index;
    problem.index = fault->index;
    problem.retry_after_ms = fault->retry_after_ms;
    return problem;
}

struct op_problem op_problem_of_result(enum op_kind kind, const struct op_args *args,
                                       const struct op_result *result)
{
    struct op_problem problem = op_problem_make(kind, result->err);

    problem.detail = result->detail;
    problem.retry_after_ms = result->retry_after_ms;
    problem.has_index = args->op_count > 0 && result->failed_index < args->op_count;
    problem.index = result->failed_index;
    problem.result = result;
    problem.args = args;
    return problem;
}

/* The wording of ZooKeeper's own REST gateway, for the errors that it has words for. */
static const char *const old_words[ERR_COUNT] = {
    [ERR_NO_NODE] = "not found",
    [ERR_NODE_EXISTS] = "already exists",
    [ERR_NOT_EMPTY] = "not empty",
    [ERR_BAD_VERSION] = "bad version",
};

static void put_message(struct jsonw *json, const struct op_problem *problem, const char *detail)
{
    const char *words = old_words[problem->err];
    struct buf text;

    if (!words || problem->path.len == 0) {
        jsonw_kv_cstr(json, "message", detail);
        return;
    }
    buf_init(&text, SIZE_MAX / 2);
    buf_append_slice(&text, problem->path);
    buf_append_byte(&text, ' ');
    buf_append_str(&text, words);
    jsonw_kv_string(json, "message", buf_slice(&text));
    buf_release(&text);
}

static void put_optional(struct jsonw *json, const struct op_problem *problem)
{
    if (problem->instance) {
        jsonw_kv_cstr(json, "instance", problem->instance);
    }
    if (problem->path.len > 0) {
        jsonw_kv_string(json, "path", problem->path);
    }
    if (problem->retry_after_ms > 0) {
        jsonw_kv_u64(json, "retry_after_ms", problem->retry_after_ms);
    }
    if (problem->has_index) {
        jsonw_kv_u64(json, "op_index", problem->index);
    }
    if (problem->result && problem->result->reason) {
        jsonw_kv_cstr(json, "reason", problem->result->reason);
    }
    if (problem->result && problem->result->has_change) {
        jsonw_kv_hex(json, "config_version",
                     op_change_version(blob_slice(problem->result->change)));
    }
    if (problem->result && problem->result->has_stat) {
        op_json_stat_object(json, &problem->result->stat, problem->message);
    }
    if (problem->result && problem->result->result_count > 0) {
        (void)op_json_results(json, problem->args, problem->result, problem->message);
    }
    if (problem->import) {
        jsonw_key(json, "import");
        op_json_import(json, problem->import);
    }
    if (problem->request.len > 0) {
        jsonw_kv_string(json, "request", problem->request);
    }
}

void op_json_problem(struct jsonw *json, const struct op_problem *problem)
{
    const char *detail = problem->detail ? problem->detail : err_text(problem->err);
    struct buf type;

    ASSERT(problem->err != ERR_OK);
    ASSERT(problem->outcome);
    jsonw_object(json);
    buf_init(&type, OP_DETAIL_MAX);
    buf_printf(&type, "urn:zabra:problem:%s", err_name(problem->err));
    jsonw_kv_string(json, "type", buf_slice(&type));
    buf_release(&type);
    jsonw_kv_cstr(json, "title", err_text(problem->err));
    jsonw_kv_u64(json, "status",
                 problem->status ? problem->status : (uint64_t)err_http_status(problem->err));
    jsonw_kv_cstr(json, "detail", detail);
    jsonw_kv_cstr(json, "code", err_name(problem->err));
    jsonw_kv_i64(json, "zk_code", err_number(problem->err));
    jsonw_kv_cstr(json, "outcome", problem->outcome);
    op_json_wide(json, "zxid", "zxidHex", problem->zxid, problem->message);
    put_optional(json, problem);
    if (!problem->message) {
        put_message(json, problem, detail);
    }
    jsonw_object_end(json);
}
