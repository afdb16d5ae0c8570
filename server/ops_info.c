#include "base/check.h"
#include "base/jsonw.h"
#include "server/gate.h"
#include "server/ops.h"

/* Without credentials everybody is ZooKeeper's world:anyone, seen from an address. */
static void write_whoami(const struct op_principal *principal, struct jsonw *json)
{
    jsonw_object(json);
    jsonw_kv_cstr(json, "address", principal->address);
    jsonw_kv_bool(json, "authenticated", false);
    jsonw_key(json, "ids");
    jsonw_array(json);
    jsonw_object(json);
    jsonw_kv_cstr(json, "scheme", "world");
    jsonw_kv_cstr(json, "id", "anyone");
    jsonw_object_end(json);
    jsonw_object(json);
    jsonw_kv_cstr(json, "scheme", "ip");
    jsonw_kv_cstr(json, "id", principal->address);
    jsonw_object_end(json);
    jsonw_array_end(json);
    jsonw_object_end(json);
}

void ops_write_info(struct gate *gate, enum op_id op, const struct op_principal *principal,
                    struct jsonw *json)
{
    if (op == OP_STATUS) {
        gate_write_status(gate, json);
    } else if (op == OP_ENSEMBLE) {
        gate_write_ensemble(gate, json);
    } else if (op == OP_LIMITS) {
        gate_write_limits(gate, json);
    } else {
        ASSERT(op == OP_WHOAMI);
        write_whoami(principal, json);
    }
}
