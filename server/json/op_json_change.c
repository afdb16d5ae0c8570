/* Changes of the members as JSON: lists of ids, and the answer. */
#include "server/json/op_json_int.h"
#include "server/op/change.h"

#include <jansson.h>

enum err op_json_take_ids(struct op_json_parse *parse, const char *key, const json_t *value,
                          struct slice *ret_ids)
{
    uint8_t bytes[OP_MEMBERS_MAX * OP_ID_BYTES];
    size_t count = json_array_size(value);

    if (!json_is_array(value)) {
        return op_json_fail(parse, ERR_BAD_ARGUMENTS, key, "must be a list of ids of members");
    }
    if (count > OP_MEMBERS_MAX) {
        return op_json_fail(parse, ERR_BAD_ARGUMENTS, key, "has more than 64 ids");
    }
    for (size_t i = 0; i < count; i++) {
        const json_t *id = json_array_get(value, i);
        json_int_t number = json_integer_value(id);

        if (!json_is_integer(id) || number < 1 || number > OP_MEMBER_ID_MAX) {
            return op_json_fail(parse, ERR_BAD_ARGUMENTS, key,
                                "must be a list of ids of members: numbers from 1 to 65535");
        }
        op_ids_put(bytes, (uint32_t)i, (uint32_t)number);
    }
    /* An id takes two bytes here and at least two in the text, with its comma: there is room. */
    *ret_ids = op_json_keep(parse, slice_make(bytes, count * OP_ID_BYTES));
    return ERR_OK;
}

static void put_member(struct jsonw *json, const struct op_change_member *member)
{
    jsonw_object(json);
    jsonw_kv_u64(json, "id", member->id);
    jsonw_kv_cstr(json, "role", op_role_name(member->role));
    if (member->joining) {
        jsonw_kv_bool(json, "joining", true);
    }
    jsonw_object_end(json);
}

void op_json_change(struct jsonw *json, const struct op_result *result)
{
    struct op_change change;

    (void)op_change_decode(blob_slice(result->change), &change);
    jsonw_key(json, "version");
    if (change.version != 0) {
        jsonw_hex(json, change.version);
    } else {
        jsonw_null(json);
    }
    jsonw_kv_hex(json, "previous", change.previous);
    jsonw_kv_bool(json, "applied", change.version != 0);
    jsonw_kv_array(json, "members");
    for (uint32_t i = 0; i < change.count; i++) {
        put_member(json, &change.members[i]);
    }
    jsonw_array_end(json);
    jsonw_kv_object(json, "tolerance");
    jsonw_kv_i64(json, "before", change.tolerance_before);
    jsonw_kv_i64(json, "after", change.tolerance_after);
    jsonw_object_end(json);
    jsonw_kv_u64(json, "in_step", change.in_step);
}
