/* Replies, each counted in the metrics, the audit log and the log of slow requests. */
#include "zk/zk_int.h"

#include <stdio.h>

static const struct op_args *args_of(const struct zk_call *call)
{
    if (call->request) {
        return &call->request->args;
    }
    return call->req.kind == ZK_READ ? &call->req.args : NULL;
}

static void note_slow(const struct zk_call *call, enum err err, uint64_t now_us)
{
    const struct zk_conn *conn = call->conn;
    const struct op_args *args = args_of(call);
    uint64_t slow_us = (uint64_t)call->zk->limits->slow_request_ms * 1000;
    char number[16];

    if (slow_us == 0 || !args || now_us < call->start_us + slow_us ||
        (!call->request && call->waits_since_us != 0)) {
        return; /* A read that waited for changes waited for its client. */
    }
    const struct gate_slow slow = {
        .front = "native",
        .def = ops_by_id(args->op),
        .is_write = op_args_kind(args) == OP_KIND_WRITE,
        .path = args->path,
        .address = conn->principal.address,
        .request = number,
        .session = conn->session.id,
        .err = err,
        .zxid = call->request ? call->request->result.zxid : 0,
        .begin_ms = call->start_us / 1000,
        .served_ms = now_us / 1000,
        .end_ms = now_us / 1000,
        .times = call->request ? call->request->times : (struct op_times){0},
    };

    (void)snprintf(number, sizeof(number), "%d", call->req.xid);
    gate_slow(call->zk->gate, &slow);
}

static void note_latency(struct zk_latency *latency, uint64_t us)
{
    latency->least_us = latency->count == 0 ? us : min_u64(us, latency->least_us);
    latency->most_us = max_u64(us, latency->most_us);
    latency->sum_us += us;
    latency->count++;
}

void zk_reply_count(struct zk_call *call, enum err err)
{
    struct zk *zk = call->zk;
    const struct op_args *args = args_of(call);
    uint64_t now_us = os_now_us();

    zk->now_us = now_us;
    note_latency(&zk->latency, now_us - call->start_us);
    metric_add(&zk->metrics.replies, 1);
    call->conn->replied++;
    gate_count_op(zk->gate, args ? args->op : 0, err != ERR_OK, now_us - call->start_us);
    if (call->conn->principal.auth) {
        gate_credentials_seen(zk->gate, &call->conn->principal);
    }
    note_slow(call, err, now_us);
}

/* Records a refusal of the replica, before it is counted. */
static void note_refusal(struct zk_call *call, const struct op_result *result)
{
    const struct op_args *args = args_of(call);
    struct zk *zk = call->zk;

    if (call->request) {
        gate_credentials_refused(zk->gate, call->request);
    }
    gate_refused(zk->gate, &(struct gate_refusal){
                               .op = args ? ops_by_id(args->op)->name : NULL,
                               .args = args,
                               .client = &call->conn->principal,
                               .session = call->conn->session.id,
                               .has_index = args && args->op == OP_MULTI,
                               .index = result->failed_index,
                               .err = result->err,
                               .why = result->detail,
                           });
}

static zxid_t zxid_of(const struct zk_call *call)
{
    if (call->req.type == ZK_AUTH) {
        return 0;
    }
    return zk_sets_watches(call->req.type) ? zk_order_told(call->conn, 1) : call->conn->seen;
}

void zk_reply_code(struct zk_call *call, enum zk_code code)
{
    zk_encode_code(zk_out_begin(call->conn), call->req.xid, zxid_of(call), code);
    zk_reply_count(call, code == ZK_OK ? ERR_OK : ERR_BAD_ARGUMENTS);
}

void zk_reply_result(struct zk_call *call, const struct op_result *result, zxid_t zxid)
{
    struct zk_conn *conn = call->conn;
    struct buf *out = zk_out_begin(conn);
    size_t at = out->len;

    zk_order_saw(conn, zxid);
    zk_encode_result(out, &call->req, result, zk_gather_names(call->gather), conn->seen);
    if (!zk_out_end(conn, at)) {
        zk_close_lost(conn, "reply_too_large");
        return;
    }
    if (result->err != ERR_OK) {
        note_refusal(call, result);
    }
    zk_reply_count(call, result->err);
}
