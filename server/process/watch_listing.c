#include "server/process/watch_listing.h"

#include "base/check.h"
#include "base/mem.h"
#include "server/read/view.h"

#include <stdlib.h>

enum {
    ROWS_BYTES_MAX = 32 << 20 /* WATCH_LISTING_LIMIT_MAX rows with the longest paths, escaped. */
};

/* A client with its number of watches, as a row shows it. */
struct watch_listing_best {
    uint64_t watches;
    uint64_t session;
    const char *over;
    char address[sizeof((struct op_principal *)NULL)->address];
    uint32_t from_len;
    uint8_t from[TXN_FROM_MAX];
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
    if (listing->clients) {
        listing->best = mem_alloc(listing->limit * sizeof(*listing->best));
    }
}

void watch_listing_release(struct watch_listing *listing)
{
    ASSERT(list_empty(&listing->node));
    buf_release(&listing->rows);
    mem_free(listing->best);
}

void watch_listing_begin(struct watch_listing *listing)
{
    listing->looked = 0;
}

static bool look(struct watch_listing *listing)
{
    bool is_full = !listing->clients && listing->count >= listing->limit;

    if (listing->looked < WATCH_LISTING_LOOKED_MAX && !is_full) {
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

static void put_client(const struct watch_listing_best *client, struct jsonw *json)
{
    struct slice identity = principal_from_identity(slice_make(client->from, client->from_len));

    jsonw_kv_cstr(json, "over", client->over);
    jsonw_kv_cstr(json, "address", client->address);
    if (identity.len > 0) {
        jsonw_kv_string(json, "identity", identity);
    }
    if (client->session != 0) {
        jsonw_kv_hex(json, "session", client->session);
    }
}

static void describe(const struct watch_listing_client *client, struct watch_listing_best *ret_best)
{
    const struct op_principal *who = client->owner->who;
    struct buf from;

    *ret_best = (struct watch_listing_best){
        .watches = client->owner->count, .session = client->session, .over = client->over};
    memcpy(ret_best->address, who->address, sizeof(ret_best->address));
    buf_init(&from, TXN_FROM_MAX);
    principal_from(who, &from);
    ret_best->from_len = (uint32_t)from.len;
    memcpy(ret_best->from, from.data, from.len);
    buf_release(&from);
}

/* Adds a row for the watch; for the client itself when `watch` is NULL. */
static void put_row(struct buf *rows, const struct watch_listing_best *client,
                    const struct watch *watch)
{
    struct jsonw json;

    if (rows->len > 0) {
        buf_append_byte(rows, ',');
    }
    jsonw_init(&json, rows);
    jsonw_object(&json);
    if (watch) {
        jsonw_kv_string(&json, "path", watch_path(watch));
        jsonw_kv_cstr(&json, "kind", watch_kind_name(watch->kind));
    } else {
        jsonw_kv_u64(&json, "watches", client->watches);
    }
    put_client(client, &json);
    jsonw_object_end(&json);
}

static void put_watch(struct watch_listing *listing, const struct watch_listing_client *client,
                      const struct watch *watch)
{
    struct watch_listing_best shown;

    describe(client, &shown);
    put_row(&listing->rows, &shown, watch);
    listing->count++;
}

/* ---- The clients with the most watches: a heap with the least one on top. ---- */

static void swap(struct watch_listing_best *a, struct watch_listing_best *b)
{
    struct watch_listing_best kept = *a;

    *a = *b;
    *b = kept;
}

static void sift_up(struct watch_listing_best *heap, uint32_t at)
{
    while (at > 0 && heap[at].watches < heap[(at - 1) / 2].watches) {
        swap(&heap[at], &heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
}

static void sift_down(struct watch_listing_best *heap, uint32_t count)
{
    for (uint32_t at = 0, child = 1; child < count; child = 2 * at + 1) {
        child += child + 1 < count && heap[child + 1].watches < heap[child].watches;
        if (heap[at].watches <= heap[child].watches) {
            return;
        }
        swap(&heap[at], &heap[child]);
        at = child;
    }
}

static void add_best(struct watch_listing *listing, const struct watch_listing_client *client)
{
    if (listing->count < listing->limit) {
        describe(client, &listing->best[listing->count]);
        sift_up(listing->best, listing->count++);
        return;
    }
    listing->truncated = true;
    if (client->owner->count > listing->best[0].watches) {
        describe(client, &listing->best[0]);
        sift_down(listing->best, listing->count);
    }
}

static int compare(const void *left, const void *right)
{
    const struct watch_listing_best *a = left;
    const struct watch_listing_best *b = right;

    return (a->watches < b->watches) - (a->watches > b->watches);
}

/* ---- Rows ---- */

bool watch_listing_add_watch(struct watch_listing *listing,
                             const struct watch_listing_client *client, const struct watch *watch)
{
    if (!look(listing)) {
        return false;
    }
    if (is_meant(listing, client)) {
        put_watch(listing, client, watch);
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
        add_best(listing, client);
        return true;
    }
    list_for_each_entry (struct watch, watch, by_owner, &client->owner->watches) {
        if (!look(listing)) {
            return false;
        }
        put_watch(listing, client, watch);
    }
    return true;
}

void watch_listing_write(struct watch_listing *listing, struct jsonw *json)
{
    if (listing->clients) {
        qsort(listing->best, listing->count, sizeof(*listing->best), compare);
        for (uint32_t i = 0; i < listing->count; i++) {
            put_row(&listing->rows, &listing->best[i], NULL);
        }
    }
    jsonw_object(json);
    jsonw_kv_array(json, listing->clients ? "clients" : "watches");
    if (listing->count > 0) {
        jsonw_raw(json, buf_slice(&listing->rows));
    }
    jsonw_array_end(json);
    jsonw_kv_bool(json, "truncated", listing->truncated);
    jsonw_object_end(json);
}
