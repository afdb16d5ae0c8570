#include "server/process/watch_listing.h"

#include "base/check.h"
#include "server/read/view.h"

enum {
    ROWS_BYTES_MAX = 32 << 20 /* WATCH_LISTING_LIMIT_MAX rows with the longest paths, escaped. */
};

void watch_listing_init(struct watch_listing *listing, struct gate *gate,
                        const struct op_args *args, const struct op_principal *who)
{
    uint32_t most = WATCH_LISTING_LIMIT_MAX;

    *listing = (struct watch_listing){
        .gate = gate,
        .who = who,
        .path = args->after,
        .session = args->session,
        .clients = args->clients,
        .limit = args->limit > 0 && args->limit < most ? args->limit : most,
    };
    list_init(&listing->node);
    buf_init(&listing->rows, ROWS_BYTES_MAX);
}

void watch_listing_release(struct watch_listing *listing)
{
    ASSERT(list_empty(&listing->node));
    buf_release(&listing->rows);
}

void watch_listing_begin(struct watch_listing *listing)
{
    listing->looked = 0;
}

static bool look(struct watch_listing *listing)
{
    if (listing->looked < WATCH_LISTING_LOOKED_MAX && listing->count < listing->limit) {
        listing->looked++;
        return true;
    }
    listing->truncated = true;
    return false;
}

static bool is_meant(const struct watch_listing *listing, const struct watch_listing_client *client)
{
    struct buf from;

    if ((listing->session != 0 && listing->session != client->session) ||
        client->owner->count == 0) {
        return false;
    }
    buf_init(&from, TXN_FROM_MAX);
    principal_from(client->owner->who, &from);
    bool may = view_shows_client(gate_view(listing->gate), listing->who, buf_slice(&from));

    buf_release(&from);
    return may;
}

static void put_client(const struct watch_listing_client *client, struct jsonw *json)
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

/* Adds a row for the watch; for the client itself when `watch` is NULL. */
static void put_row(struct watch_listing *listing, const struct watch_listing_client *client,
                    const struct watch *watch)
{
    struct jsonw json;

    if (listing->count++ > 0) {
        buf_append_byte(&listing->rows, ',');
    }
    jsonw_init(&json, &listing->rows);
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

bool watch_listing_add_watch(struct watch_listing *listing,
                             const struct watch_listing_client *client, const struct watch *watch)
{
    if (!look(listing)) {
        return false;
    }
    if (is_meant(listing, client)) {
        put_row(listing, client, watch);
    }
    return true;
}

bool watch_listing_add_client(struct watch_listing *listing,
                              const struct watch_listing_client *client)
{
    if (!look(listing)) {
        return false;
    }
    if (!is_meant(listing, client)) {
        return true;
    }
    if (listing->clients) {
        put_row(listing, client, NULL);
        return true;
    }
    list_for_each_entry (struct watch, watch, by_owner, &client->owner->watches) {
        if (!look(listing)) {
            return false;
        }
        put_row(listing, client, watch);
    }
    return true;
}

void watch_listing_write(const struct watch_listing *listing, struct jsonw *json)
{
    jsonw_object(json);
    jsonw_kv_array(json, listing->clients ? "clients" : "watches");
    if (listing->count > 0) {
        jsonw_raw(json, buf_slice(&listing->rows));
    }
    jsonw_array_end(json);
    jsonw_kv_bool(json, "truncated", listing->truncated);
    jsonw_object_end(json);
}
