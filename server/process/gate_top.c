/* The answer of `GET /top/v1`: the busiest prefixes and clients, as far as the requesting client
 * may know of them. */
#include "server/process/server_int.h"
#include "server/read/view.h"

void gate_note_request(struct gate *gate, const struct op_args *args,
                       const struct op_principal *who)
{
    top_note(gate->top, args, who, os_now_ms());
}

static bool is_super(const struct op_principal *who)
{
    return who->auth && who->auth->super;
}

static void put_counts(const struct sketch_row *row, struct jsonw *json)
{
    jsonw_kv_u64(json, "reads", row->reads);
    jsonw_kv_u64(json, "writes", row->writes);
    jsonw_kv_u64(json, "error", row->error);
    jsonw_object_end(json);
}

/* Whether the client may know the prefix: a path that no znode has may be a secret of another
 * client, and only clients that may read the parent may list its children. The caller holds the
 * lock; `state` is NULL if there is no state to be read. */
static bool shows_prefix(const struct state *state, const struct op_principal *who,
                         struct slice path)
{
    return is_super(who) || (state && view_shows_path(state, who, path));
}

static bool write_prefixes(struct gate *gate, const struct op_principal *who,
                           const struct top_report *report, struct jsonw *json)
{
    struct sketch_row rows[TOP_DEPTHS * SKETCH_ENTRIES];
    bool is_complete = true;
    uint32_t count = 0;

    /* Before the lock, which holds up the writes of all clients: it takes about a millisecond. */
    for (uint32_t depth = 1; depth <= TOP_DEPTHS; depth++) {
        count += top_prefixes(report, depth, rows + count);
    }
    const struct state *state = view_read(gate->server->view);

    jsonw_kv_array(json, "prefixes");
    for (uint32_t i = 0; i < count; i++) {
        if (!shows_prefix(state, who, rows[i].key)) {
            is_complete = false;
            continue;
        }
        jsonw_object(json);
        jsonw_kv_string(json, "path", rows[i].key);
        put_counts(&rows[i], json);
    }
    jsonw_array_end(json);
    if (state) {
        view_read_done(gate->server->view);
    }
    return is_complete;
}

static bool write_clients(struct gate *gate, const struct op_principal *who,
                          const struct top_report *report, struct jsonw *json)
{
    struct sketch_row rows[SKETCH_ENTRIES];
    uint32_t count = top_clients(report, rows);
    bool shows_all = is_super(who) || gate->server->config->process.show_clients;
    bool is_complete = true;

    jsonw_kv_array(json, "clients");
    for (uint32_t i = 0; i < count; i++) {
        struct slice identity = top_key_identity(rows[i].key);

        if (!shows_all && !top_key_is_of(rows[i].key, who)) {
            is_complete = false;
            continue;
        }
        jsonw_object(json);
        jsonw_kv_string(json, "address", top_key_address(rows[i].key));
        if (identity.len > 0) {
            jsonw_kv_string(json, "identity", identity);
        }
        put_counts(&rows[i], json);
    }
    jsonw_array_end(json);
    return is_complete;
}

void gate_write_top(struct gate *gate, const struct op_principal *who, struct jsonw *json)
{
    struct top_report *report = top_report(gate->top, os_now_ms());
    bool is_complete = true;

    jsonw_object(json);
    jsonw_kv_u64(json, "id", gate->server->config->id);
    jsonw_kv_u64(json, "window_ms", top_report_ms(report));
    jsonw_kv_u64(json, "requests", top_report_requests(report));
    jsonw_kv_u64(json, "skipped", top_report_skipped(report));
    is_complete = write_prefixes(gate, who, report, json);
    is_complete = write_clients(gate, who, report, json) && is_complete;
    jsonw_kv_bool(json, "complete", is_complete);
    jsonw_object_end(json);
    top_report_free(report);
}
