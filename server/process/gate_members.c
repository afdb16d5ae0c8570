/* The configuration in the answer of /ensemble/v1: roles, what it tolerates, and what changes. */
#include "server/op/change.h"
#include "server/process/join_text.h"
#include "server/process/server_int.h"

enum {
    COMMAND_MAX = 1200 /* The longest texts, each character quoted. */
};

static enum op_role role_of(const struct zab_member *member)
{
    if (member->empty_seat) {
        return OP_ROLE_EMPTY_SEAT;
    }
    return member->voter ? OP_ROLE_VOTER : OP_ROLE_OBSERVER;
}

void gate_write_role(struct jsonw *json, const struct zab_config *config,
                     const struct member_row *row)
{
    const struct zab_member *member = zab_config_find(config, row->id);
    enum op_role listed = row->voter ? OP_ROLE_VOTER : OP_ROLE_OBSERVER;

    jsonw_kv_u64(json, "id", row->id);
    jsonw_kv_cstr(json, "role", op_role_name(member ? role_of(member) : listed));
    if (member && member->joining) {
        jsonw_kv_bool(json, "joining", true);
    }
}

/* Writes the change that is under way, or null. */
static void write_pending(struct jsonw *json, const struct publication *copy)
{
    jsonw_key(json, "pending");
    if (!copy->has_pending) {
        jsonw_null(json);
        return;
    }
    jsonw_object(json);
    jsonw_kv_hex(json, "version", copy->pending.version);
    jsonw_kv_u64(json, "pending_ms",
                 copy->at_ms > copy->pending_ms ? copy->at_ms - copy->pending_ms : 0);
    jsonw_kv_array(json, "members");
    for_each_member (member, &copy->pending) {
        jsonw_object(json);
        jsonw_kv_u64(json, "id", member->id);
        jsonw_kv_cstr(json, "role", op_role_name(role_of(member)));
        if (member->joining) {
            jsonw_kv_bool(json, "joining", true);
        }
        jsonw_object_end(json);
    }
    jsonw_array_end(json);
    jsonw_object_end(json);
}

/* Writes the disks that were removed, the oldest first. */
static void write_removed(struct jsonw *json, const struct zab_config *config)
{
    jsonw_kv_array(json, "removed");
    for (uint32_t i = 0; i < config->removed_count; i++) {
        jsonw_object(json);
        jsonw_kv_u64(json, "id", config->removed[i].id);
        jsonw_kv_hex(json, "zxid", config->removed[i].zxid);
        jsonw_object_end(json);
    }
    jsonw_array_end(json);
}

static void write_known(struct jsonw *json, const char *key, const char *text)
{
    if (text[0] != '\0') {
        jsonw_kv_cstr(json, key, text);
    }
}

/* Writes the command that adds the replica, if it has said its address. */
static void write_command(struct gate *gate, struct jsonw *json, const struct waiting_row *row,
                          bool https)
{
    const struct join_command command = {
        .id = row->id,
        .address = row->address,
        .zone = row->zone,
        .endpoint = gate->server->config->clients.advertise_client,
        .https = https,
    };
    char text[COMMAND_MAX];

    if (row->address[0] != '\0' && join_command_text(&command, text, sizeof text)) {
        jsonw_kv_cstr(json, "command", text);
    }
}

/* Writes the replicas that wait to be added, as they describe themselves. */
static void write_waiting(struct gate *gate, struct jsonw *json, const struct publication *copy,
                          bool https)
{
    jsonw_kv_array(json, "waiting");
    for (size_t i = 0; i < copy->waiting_count; i++) {
        const struct waiting_row *row = &copy->waiting[i];

        jsonw_object(json);
        jsonw_kv_u64(json, "id", row->id);
        write_known(json, "peer", row->address);
        write_known(json, "client", row->client);
        write_known(json, "zone", row->zone);
        write_command(gate, json, row, https);
        jsonw_kv_u64(json, "waits_ms",
                     copy->at_ms > row->since_ms ? copy->at_ms - row->since_ms : 0);
        if (row->fault != ZAB_FAULT_NONE) {
            jsonw_kv_cstr(json, "reason", zab_fault_name(row->fault));
        }
        jsonw_object_end(json);
    }
    jsonw_array_end(json);
}

void gate_write_changes(struct gate *gate, struct jsonw *json, const struct publication *copy,
                        uint32_t in_step, bool https)
{
    uint32_t voters = zab_config_voters(&copy->config);

    jsonw_kv_u64(json, "in_step", in_step);
    jsonw_key(json, "tolerance");
    if (copy->replica.zab.leader == 0 || voters == 0) {
        jsonw_null(json);
    } else {
        jsonw_i64(json, (int64_t)in_step - (int64_t)(voters / 2 + 1));
    }
    write_pending(json, copy);
    write_removed(json, &copy->config);
    write_waiting(gate, json, copy, https);
}
