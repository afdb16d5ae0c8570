#include "server/process/top.h"

#include "base/hash.h"
#include "base/mem.h"
#include "base/minmax.h"
#include "base/thread.h"
#include "server/op/auth.h"
#include "server/op/ops.h"
#include "server/state/path.h"

#include <string.h>

enum {
    SOURCES = TOP_PARTS * TOP_WINDOWS,
    HASH_DIGITS = 16
};

struct top_window {
    uint64_t number; /* Time of its start / TOP_WINDOW_MS. */
    uint64_t requests;
    struct sketch prefixes[TOP_DEPTHS];
    struct sketch clients;
};

struct top_part {
    pthread_mutex_t mutex; /* A front end only tries to take it. */
    struct top_window windows[TOP_WINDOWS];
};

struct top {
    uint64_t start_ms;
    struct metric_counter skipped;
    struct top_part parts[TOP_PARTS];
};

struct top_report {
    uint64_t covers_ms;
    uint64_t requests;
    uint64_t skipped;
    uint32_t count; /* Windows in use. */
    struct top_window windows[SOURCES];
};

/* ---- Life ---- */

struct top *top_new(uint64_t now_ms)
{
    struct top *top = mem_zalloc(1, sizeof(*top));

    top->start_ms = now_ms;
    for (size_t i = 0; i < TOP_PARTS; i++) {
        mutex_init(&top->parts[i].mutex);
    }
    return top;
}

void top_free(struct top *top)
{
    if (!top) {
        return;
    }
    for (size_t i = 0; i < TOP_PARTS; i++) {
        mutex_destroy(&top->parts[i].mutex);
    }
    mem_free(top);
}

/* ---- Clients ---- */

/* Appends bytes to a key of this length; returns the new one. */
static uint32_t put(char key[SKETCH_KEY_MAX], uint32_t len, struct slice bytes)
{
    ASSERT(bytes.len <= SKETCH_KEY_MAX - len);
    if (bytes.len > 0) {
        memcpy(key + len, bytes.data, bytes.len);
    }
    return len + (uint32_t)bytes.len;
}

static uint32_t put_hash(char key[SKETCH_KEY_MAX], uint32_t len, uint64_t hash)
{
    char hex[HASH_DIGITS];

    for (size_t i = 0; i < HASH_DIGITS; i++) {
        hex[i] = "0123456789abcdef"[hash >> (4 * i) & 15];
    }
    return put(key, len, slice_make(hex, sizeof(hex)));
}

/* No printf: each request comes here. */
uint32_t top_client_key(const struct op_principal *who, uint32_t index, char key[SKETCH_KEY_MAX])
{
    const struct auth *auth = who->auth;
    uint32_t len = put(key, 0, slice_str(who->address));

    if (auth && index < auth->count) {
        const struct auth_id *id = &auth->ids[index];
        struct slice name = auth_shown(id);

        name.len = min_size(name.len, PRINCIPAL_NAME_MAX);
        len = put(key, len, slice_str(" "));
        len = put(key, len, id->scheme);
        len = put(key, len, slice_str(":"));
        len = put(key, len, name);
        len = put(key, len, slice_str(":"));
        len = put_hash(key, len, hash64(0, id->id));
    }
    return len;
}

struct slice top_key_address(struct slice key)
{
    return slice_make(key.data, slice_find(key, ' '));
}

struct slice top_key_identity(struct slice key)
{
    size_t start = slice_find(key, ' ');

    if (start >= key.len) {
        return slice_make(NULL, 0);
    }
    struct slice identity = slice_from(key, start + 1);
    const uint8_t *hash = memrchr(identity.data, ':', identity.len);

    ASSERT(hash);
    return slice_make(identity.data, (size_t)(hash - identity.data));
}

bool top_key_is_of(struct slice key, const struct op_principal *who)
{
    char own[SKETCH_KEY_MAX];
    uint32_t count = who->auth ? who->auth->count : 0;

    for (uint32_t i = 0; i <= count; i++) {
        uint32_t len = top_client_key(who, i, own);

        if (slice_eq(key, slice_make(own, len))) {
            return true;
        }
    }
    return false;
}

/* ---- Counting ---- */

/* Counts for each prefix of the path, from "/a" to the path itself or TOP_DEPTHS. */
static void add_path(struct top_window *window, struct slice path, bool is_write)
{
    size_t end = 0;

    for (uint32_t depth = 0; depth < TOP_DEPTHS && end < path.len; depth++) {
        size_t more = slice_find(slice_from(path, end + 1), '/');

        end = end + 1 + more;
        if (end > SKETCH_KEY_MAX) {
            return;
        }
        sketch_add(&window->prefixes[depth], slice_make(path.data, end), is_write);
    }
}

/* Returns the window of this time, emptied if it was that of an earlier one. */
static struct top_window *window_of(struct top_part *part, uint64_t now_ms)
{
    uint64_t number = now_ms / TOP_WINDOW_MS;
    struct top_window *window = &part->windows[number % TOP_WINDOWS];

    if (window->number != number) {
        window->number = number;
        window->requests = 0;
        sketch_clear(&window->clients);
        for (size_t i = 0; i < TOP_DEPTHS; i++) {
            sketch_clear(&window->prefixes[i]);
        }
    }
    return window;
}

static void add_request(struct top_window *window, const struct op_args *args,
                        const struct op_principal *who)
{
    bool is_write = op_args_kind(args) == OP_KIND_WRITE;
    uint32_t elements = args->op == OP_MULTI ? min_u32(args->op_count, TOP_MULTI_MAX) : 0;
    char key[SKETCH_KEY_MAX];
    uint32_t len = top_client_key(who, 0, key);

    window->requests++;
    sketch_add(&window->clients, slice_make(key, len), is_write);
    add_path(window, args->path, is_write);
    for (uint32_t i = 0; i < elements; i++) {
        add_path(window, args->ops[i].path, is_write);
    }
}

/* Returns the part of the calling thread. */
static struct top_part *own_part(struct top *top)
{
    static _Atomic uint32_t threads;
    static _Thread_local uint32_t number; /* 0: none yet. */

    if (number == 0) {
        number = atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) % TOP_PARTS + 1;
    }
    return &top->parts[number - 1];
}

void top_note(struct top *top, const struct op_args *args, const struct op_principal *who,
              uint64_t now_ms)
{
    struct top_part *part = own_part(top);

    if (pthread_mutex_trylock(&part->mutex) != 0) {
        metric_add(&top->skipped, 1);
        return;
    }
    add_request(window_of(part, now_ms), args, who);
    mutex_unlock(&part->mutex);
}

/* ---- Reports ---- */

static void take_window(struct top_report *report, const struct top_window *window)
{
    report->windows[report->count++] = *window;
    report->requests += window->requests;
}

/* Two threads may read the clock in another order than they come here, so a window may be newer
 * than `now_ms`. */
struct top_report *top_report(struct top *top, uint64_t now_ms)
{
    struct top_report *report = mem_zalloc(1, sizeof(*report));
    uint64_t number = now_ms / TOP_WINDOW_MS;
    uint64_t oldest = number > 0 ? number - 1 : 0;

    for (size_t i = 0; i < TOP_PARTS; i++) {
        struct top_part *part = &top->parts[i];

        MUTEX_HOLD(&part->mutex);
        for (size_t j = 0; j < TOP_WINDOWS; j++) {
            if (part->windows[j].requests > 0 && part->windows[j].number >= oldest) {
                take_window(report, &part->windows[j]);
            }
        }
    }
    report->skipped = metric_get(&top->skipped);
    report->covers_ms = now_ms - max_u64(oldest * TOP_WINDOW_MS, min_u64(top->start_ms, now_ms));
    return report;
}

void top_report_free(struct top_report *report)
{
    mem_free(report);
}

uint64_t top_report_ms(const struct top_report *report)
{
    return report->covers_ms;
}

uint64_t top_report_requests(const struct top_report *report)
{
    return report->requests;
}

uint64_t top_report_skipped(const struct top_report *report)
{
    return report->skipped;
}

uint32_t top_prefixes(const struct top_report *report, uint32_t depth,
                      struct sketch_row rows[SKETCH_ENTRIES])
{
    const struct sketch *sketches[SOURCES];

    ASSERT(depth >= 1 && depth <= TOP_DEPTHS);
    for (uint32_t i = 0; i < report->count; i++) {
        sketches[i] = &report->windows[i].prefixes[depth - 1];
    }
    return sketch_sum(sketches, report->count, rows);
}

uint32_t top_clients(const struct top_report *report, struct sketch_row rows[SKETCH_ENTRIES])
{
    const struct sketch *sketches[SOURCES];

    for (uint32_t i = 0; i < report->count; i++) {
        sketches[i] = &report->windows[i].clients;
    }
    return sketch_sum(sketches, report->count, rows);
}
