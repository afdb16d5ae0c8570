#include "base/check.h"
#include "base/jsonw.h"
#include "server/op/ops.h"
#include "server/process/gate.h"

static void write_id(struct jsonw *json, struct slice scheme, struct slice id)
{
    jsonw_object(json);
    jsonw_kv_string(json, "scheme", scheme);
    jsonw_kv_string(json, "id", id);
    jsonw_object_end(json);
}

/* Writes all identities that entries of an ACL may match: ZooKeeper's world:anyone and the address,
 * which every client has, then the identities that this client has presented. */
static void write_whoami(struct gate *gate, const struct op_principal *principal, uint64_t session,
                         struct jsonw *json)
{
    const struct auth *auth = principal->auth;
    uint32_t count = auth ? auth->count : 0;

    jsonw_object(json);
    jsonw_kv_cstr(json, "address", principal->address);
    jsonw_kv_bool(json, "authenticated", count > 0);
    jsonw_kv_bool(json, "super", auth && auth->super);
    jsonw_kv_bool(json, "read_only", gate_limits(gate)->read_only);
    jsonw_kv_array(json, "ids");
    write_id(json, slice_str("world"), slice_str("anyone"));
    write_id(json, slice_str("ip"), slice_str(principal->address));
    for (uint32_t i = 0; i < count; i++) {
        write_id(json, auth->ids[i].scheme, auth->ids[i].id);
    }
    jsonw_array_end(json);
    if (session != 0) {
        jsonw_kv_hex(json, "session", session);
    }
    jsonw_object_end(json);
}

zxid_t gate_write_info(struct gate *gate, const struct op_args *args,
                       const struct op_principal *principal, uint64_t session, struct jsonw *json)
{
    enum op_id op = args->op;
    zxid_t version = 0;

    if (op == OP_STATUS) {
        gate_write_status(gate, json);
    } else if (op == OP_ENSEMBLE) {
        version = gate_write_ensemble(gate, principal->https, json);
    } else if (op == OP_LIMITS) {
        gate_write_limits(gate, json);
    } else if (op == OP_TOP) {
        gate_write_top(gate, principal, json);
    } else if (op == OP_TREND) {
        gate_write_trend(gate, args, json);
    } else {
        ASSERT(op == OP_WHOAMI);
        write_whoami(gate, principal, session, json);
    }
    return version;
}
