#include "server/process/census.h"

#include "base/check.h"
#include "server/read/view.h"

enum {
    ROWS_BYTES_MAX = 32 << 20 /* CENSUS_LIMIT_MAX rows with the longest paths, and escapes. */
};

void census_init(struct census *census, struct gate *gate, const struct op_args *args,
                 const struct op_principal *who)
{
    uint32_t most = CENSUS_LIMIT_MAX;

    *census = (struct census){
        .gate = gate,
        .who = who,
        .path = args->after,
        .session = args->session,
        .clients = args->clients,
        .limit = args->limit > 0 && args->limit < most ? args->limit : most,
    };
    list_init(&census->node);
    buf_init(&census->rows, ROWS_BYTES_MAX);
}

void census_release(struct census *census)
{
    ASSERT(list_empty(&census->node));
    buf_release(&census->rows);
}

void census_begin(struct census *census)
{
    census->looked = 0;
}

static bool look(struct census *census)
{
    if (census->looked < CENSUS_LOOKED_MAX && census->count < census->limit) {
        census->looked++;
        return true;
    }
    census->truncated = true;
    return false;
}

static bool may_see(const struct census *census, const struct op_principal *client)
{
    struct buf from;
    bool may = false;

    buf_init(&from, TXN_FROM_MAX);
    principal_from(client, &from);
    may = view_shows_client(gate_view(census->gate), census->who, buf_slice(&from));
    buf_release(&from);
    return may;
}

static bool is_meant(const struct census *census, const struct census_client *client)
{
    bool in_session = census->session == 0 || census->session == client->session;

    return in_session && client->owner->count > 0 && may_see(census, client->owner->who);
}

static void put_client(const struct census_client *client, struct jsonw *json)
{
    struct buf from;

    buf_init(&from, TXN_FROM_MAX);
    principal_from(client->owner->who, &from);
    struct slice identity = principal_from_identity(buf_slice(&from));

    jsonw_kv_cstr(json, "over", client->over);
    jsonw_kv_cstr(json, "address", client->owner->who->address);
    if (identity.len > 0) {
        jsonw_kv_string(json, "identity", identity);
    }
    if (client->session != 0) {
        jsonw_kv_hex(json, "session", client->session);
    }
    buf_release(&from);
}

/* `watch` NULL: the client itself. */
static void put_row(struct census *census, const struct census_client *client,
                    const struct watch *watch)
{
    struct jsonw json;

    if (census->count++ > 0) {
        buf_append_byte(&census->rows, ',');
    }
    jsonw_init(&json, &census->rows);
    jsonw_object(&json);
    if (watch) {
        jsonw_kv_string(&json, "path", watch_path(watch));
        jsonw_kv_cstr(&json, "kind", watch_kind_name(watch->kind));
    } else {
        jsonw_kv_u64(&json, "watches", client->owner->count);
    }
    put_client(client, &json);
    jsonw_object_end(&json);
}

bool census_add_watch(struct census *census, const struct census_client *client,
                      const struct watch *watch)
{
    if (!look(census)) {
        return false;
    }
    if (is_meant(census, client)) {
        put_row(census, client, watch);
    }
    return true;
}

bool census_add_client(struct census *census, const struct census_client *client)
{
    if (!look(census)) {
        return false;
    }
    if (!is_meant(census, client)) {
        return true;
    }
    if (census->clients) {
        put_row(census, client, NULL);
        return true;
    }
    list_for_each (it, &client->owner->watches) {
        if (!look(census)) {
            return false;
        }
        put_row(census, client, list_entry(it, struct watch, by_owner));
    }
    return true;
}

void census_write(const struct census *census, struct jsonw *json)
{
    jsonw_object(json);
    jsonw_key(json, census->clients ? "clients" : "watches");
    jsonw_array(json);
    if (census->count > 0) {
        jsonw_raw(json, buf_slice(&census->rows));
    }
    jsonw_array_end(json);
    jsonw_kv_bool(json, "truncated", census->truncated);
    jsonw_object_end(json);
}
