#include "base/check.h"
#include "base/mem.h"
#include "server/state/state.h"
#include "tests/sim/sim_watch.h"

#include <inttypes.h>

/*
 * Clients with watches. When a socket breaks, the client loses the events that it had not received.
 * It resumes from one of the last zxids that the interface permits, and discards all events that it
 * had received after that zxid.
 */

enum {
    CONNECT_PPM = 500000, /* Share of a client's turns. */
    BREAK_PPM = 25000,
    WATCH_PPM = 150000,
    UNWATCH_PPM = 15000,
    STALL_PPM = 30000,
    UNSTALL_PPM = 300000,
    HOLD_LOST_PPM = 300000, /* After a loss: later rather than at once. */
    WATCHES_MAX = 1000,
    WATCH_BYTES_MAX = 1 << 20,
};

static const struct op_principal anonymous = {.address = "127.0.0.1"};

/* ---- The events of a stream. ---- */

static struct sim_item *put(struct sim_stream *stream, enum sim_item_kind what, zxid_t zxid)
{
    struct sim_item *item;

    if (stream->item_count == stream->item_cap) {
        stream->item_cap = stream->item_cap ? stream->item_cap * 2 : 16;
        stream->items = mem_realloc(stream->items, stream->item_cap * sizeof(*stream->items));
    }
    item = &stream->items[stream->item_count++];
    *item = (struct sim_item){.what = what, .zxid = zxid};
    return item;
}

static const struct sim_safe *newest_safe(const struct sim_stream *stream)
{
    ASSERT(stream->safe_count > 0);
    return &stream->safe[(stream->safe_count - 1) % SIM_SAFE_MAX];
}

/* At this point the client has all events that were sent, and every change up to `zxid`. */
static void reach(struct sim_stream *stream, zxid_t zxid)
{
    if (stream->have < zxid) {
        stream->have = zxid;
    }
    stream->safe[stream->safe_count++ % SIM_SAFE_MAX] =
        (struct sim_safe){.count = stream->item_count, .have = stream->have};
}

/* Discards the events after that point. */
static void go_back(struct sim_stream *stream, const struct sim_safe *safe)
{
    ASSERT(safe->count <= stream->item_count);
    stream->item_count = safe->count;
    stream->have = safe->have;
}

/* All watches that take events now have every change up to `zxid`. */
static void reach_all(struct sim_socket *socket, zxid_t zxid)
{
    for (uint32_t i = 0; i < SIM_STREAMS_MAX; i++) {
        struct sim_stream *stream = socket->streams[i];

        if (stream && !stream->held && stream->id != 0) {
            reach(stream, zxid);
        }
    }
}

void sim_socket_beat(struct sim_socket *socket, zxid_t zxid)
{
    ASSERT(!socket->only);
    if (!socket->stalled) {
        reach_all(socket, zxid);
    }
}

/* ---- Events. ---- */

/* The stream that is being added has no number yet. */
static struct sim_stream *stream_of(struct sim_socket *socket, const struct watch *watch)
{
    for (uint32_t i = 0; i < SIM_STREAMS_MAX; i++) {
        if (socket->streams[i] && socket->streams[i]->id == watch->id) {
            return socket->streams[i];
        }
    }
    ASSERT(socket->only && socket->only->id == 0);
    return socket->only;
}

/* The client takes no more events. It discards events from this zxid on, including received
 * ones. It has every earlier change, and the front end confirms that. It keeps no part of an
 * unfinished difference. */
static void hold(struct sim_stream *stream, struct watch *watch, zxid_t from, bool diff)
{
    watch_hold(watch);
    stream->held = true;
    stream->held_from = from;
    if (diff) {
        go_back(stream, newest_safe(stream));
        return;
    }
    while (stream->item_count > newest_safe(stream)->count &&
           stream->items[stream->item_count - 1].zxid >= from) {
        stream->item_count--;
    }
    reach(stream, from - 1);
}

static void tell(struct sim_socket *socket, struct sim_stream *stream, const struct watch *watch,
                 const struct watch_event *event)
{
    struct window_mark known;
    struct sim_item *item;

    window_end(sim_front_window(socket->node), &known);

    if (event->diff && !stream->marked) {
        stream->marked = true;
        put(stream, SIM_ITEM_DIFF, watch->diff_upto)->since = watch->diff_since;
    }
    item = put(stream, SIM_ITEM_EVENT, event->zxid);
    item->type = event->type;
    item->diff = event->diff;
    item->known = known.zxid;
    (void)snprintf(item->path, sizeof(item->path), "%.*s", (int)event->path.len,
                   (const char *)event->path.data);
    stream->used_up = watch_is_one_shot(stream->kind);
}

void sim_socket_event(struct sim_socket *socket, struct watch *hits,
                      const struct watch_event *event)
{
    bool full = socket->stalled && socket->queued >= SIM_QUEUE_MAX;
    struct sim_stream *stream = stream_of(socket, hits);

    for (struct watch *watch = hits; watch; watch = watch->hit_next) {
        stream = stream_of(socket, watch);
        SIM_TRACE(socket->sim, "event of stream %u: %s %s %.*s at %" PRIx64 "%s%s", stream->number,
                  watch_kind_name(stream->kind), watch_event_name(event->type),
                  (int)event->path.len, (const char *)event->path.data, event->zxid,
                  event->diff ? " diff" : "", event->last ? " last" : "");
        if (full && !watch_is_one_shot(stream->kind)) {
            hold(stream, watch, event->zxid, event->diff);
        } else {
            tell(socket, stream, watch, event);
        }
    }
    socket->queued += socket->stalled;
    if (!event->last) {
        return;
    }
    if (stream != socket->only) {
        reach_all(socket, event->zxid);
    } else if (!stream->held) {
        reach(stream, event->zxid); /* Other streams have not missed these changes. */
    }
}

/* ---- Missed events. ---- */

static void note_missed(struct sim *sim, struct sim_stream *stream, const struct watch *watch,
                        const struct subscribe_result *result)
{
    SIM_TRACE(sim, "stream %u resumes: %s from %" PRIx64 " at %" PRIx64 "%s", stream->number,
              subscribe_resumed_name(result->resumed), stream->have, result->zxid,
              result->used_up ? " used up" : "");
    stream->used_up = stream->used_up || result->used_up;
    if (result->resumed == SUBSCRIBE_GAP) {
        put(stream, SIM_ITEM_GAP, result->zxid);
        reach(stream, result->zxid);
        sim->totals.gaps++;
    }
    if (result->resumed == SUBSCRIBE_DIFFED) {
        sim->totals.diffed++;
        if (!stream->marked && !stream->held) {
            struct sim_item *mark = put(stream, SIM_ITEM_DIFF, result->zxid);

            mark->since = watch ? watch->diff_since : stream->have;
            mark->used_up = result->used_up;
        }
    }
}

static void catch_up(struct sim_socket *socket, struct sim_stream *stream, zxid_t from)
{
    struct subscriber *subscriber = sim_front_subscriber(socket->node);
    struct watch_table *table = subscribe_table(subscriber);
    struct watch *watch = watch_by_id(table, &socket->owner, stream->id);
    struct subscribe_result result;

    if (!watch) { /* A change that its client may not read has used it up. */
        stream->used_up = true;
        return;
    }
    stream->held = false;
    stream->marked = false;
    socket->only = stream;
    if (subscribe_catch_up(subscriber, watch, from, &result) != ERR_OK) {
        stream->held = true;
        stream->held_from = from + 1;
    } else {
        watch = result.used_up ? NULL : watch;
        note_missed(socket->sim, stream, watch, &result);
    }
    socket->only = NULL;
}

void sim_socket_lost(struct sim_socket *socket, zxid_t from)
{
    struct sim_stream *only = socket->only;

    for (uint32_t i = 0; i < SIM_STREAMS_MAX; i++) {
        struct sim_stream *stream = socket->streams[i];
        struct watch *watch = stream && stream->id != 0
                                  ? watch_by_id(subscribe_table(sim_front_subscriber(socket->node)),
                                                &socket->owner, stream->id)
                                  : NULL;

        if (!watch || stream->held) {
            continue;
        }
        if (socket->stalled || rng_chance(&socket->sim->rng, HOLD_LOST_PPM)) {
            hold(stream, watch, (from > watch->start ? from : watch->start) + 1, false);
        } else {
            catch_up(socket, stream, from);
        }
    }
    socket->only = only;
}

/* ---- Adding. ---- */

static bool is_fresh(const struct sim_stream *stream)
{
    return stream->safe_count == 0;
}

static uint64_t history_of(const struct sim_node *node)
{
    return zab_config(replica_zab(node->replica))->history;
}

static void added(struct sim_socket *socket, struct sim_stream *stream, bool begins,
                  const struct subscribe_result *result)
{
    struct watch_table *table = subscribe_table(sim_front_subscriber(socket->node));

    stream->id = result->id;
    SIM_TRACE(socket->sim, "stream %u of client %u at %u: %s %s from %" PRIx64, stream->number,
              stream->client, socket->node->id, watch_kind_name(stream->kind), stream->path,
              result->zxid);
    if (begins) {
        stream->begin = result->zxid;
        reach(stream, result->zxid);
    } else {
        note_missed(socket->sim, stream, watch_by_id(table, &socket->owner, result->id), result);
    }
}

/* Registers a stream at the front end: a new one, after a read of state `at`, or from the last
 * complete zxid of its client. */
static void add(struct sim_socket *socket, struct sim_stream *stream, const zxid_t *at)
{
    struct subscriber *subscriber = sim_front_subscriber(socket->node);
    struct sim_stream before = *stream;
    bool fresh = is_fresh(stream);
    struct subscribe_request request = {.kind = stream->kind,
                                        .path = slice_str(stream->path),
                                        .has_since = at || !fresh,
                                        .since = at ? *at : stream->have,
                                        .has_history = !at && !fresh,
                                        .since_history = stream->history};
    struct subscribe_result result;
    enum err err;

    if (at) {
        stream->begin = *at;
        reach(stream, *at);
    } else if (!fresh) {
        put(stream, SIM_ITEM_FROM, stream->have);
        socket->sim->totals.resumed++;
    }
    stream->marked = false;
    socket->only = stream;
    err = at ? subscribe_add_at(subscriber, &socket->owner, &request, &result)
             : subscribe_add(subscriber, &socket->owner, &request, &result);
    socket->only = NULL;
    if (err == ERR_OK) {
        added(socket, stream, fresh && !at, &result);
    } else {
        stream->item_count = before.item_count;
        stream->safe_count = before.safe_count;
    }
}

static struct sim_stream **free_place(struct sim_socket *socket)
{
    for (uint32_t i = 0; i < SIM_STREAMS_MAX; i++) {
        if (!socket->streams[i]) {
            return &socket->streams[i];
        }
    }
    return NULL;
}

static bool has_watch(const struct sim_socket *socket, enum watch_kind kind, const char *path)
{
    for (uint32_t i = 0; i < SIM_STREAMS_MAX; i++) {
        const struct sim_stream *stream = socket->streams[i];

        if (stream && stream->kind == kind && strcmp(stream->path, path) == 0) {
            return true;
        }
    }
    return false;
}

static struct sim_stream *new_stream(struct sim *sim)
{
    struct sim_sockets *sockets = sim->sockets;
    struct sim_stream *stream = mem_zalloc(1, sizeof(*stream));

    if (sockets->count == sockets->cap) {
        sockets->cap = sockets->cap ? sockets->cap * 2 : 64;
        sockets->streams =
            mem_realloc(sockets->streams, sockets->cap * sizeof(struct sim_stream *));
    }
    stream->number = (uint32_t)sockets->count;
    sockets->streams[sockets->count++] = stream;
    return stream;
}

/* The watch begins at the end of the window, or at exactly `at`, the state of a read. */
void sim_socket_watch(struct sim_socket *socket, enum watch_kind kind, const char *path,
                      const zxid_t *at)
{
    struct sim_stream **place = free_place(socket);
    struct sim_stream *stream;

    if (!place || has_watch(socket, kind, path)) {
        return;
    }
    stream = new_stream(socket->sim);
    stream->client = socket->client;
    stream->kind = kind;
    (void)snprintf(stream->path, sizeof(stream->path), "%s", path);
    stream->history = history_of(socket->node);
    *place = stream;
    add(socket, stream, at);
    if (is_fresh(stream)) { /* The watch was refused. */
        stream->used_up = true;
        *place = NULL;
    }
}

/* ---- A client's turn. ---- */

static void connect_to(struct sim_socket *socket, struct sim_node *node)
{
    socket->node = node;
    socket->stalled = false;
    socket->queued = 0;
    watch_owner_init(&socket->owner, &anonymous, WATCHES_MAX, WATCH_BYTES_MAX);
}

void sim_socket_break(struct sim_socket *socket)
{
    struct rng *rng = &socket->sim->rng;

    SIM_TRACE(socket->sim, "socket of client %u at %u breaks", socket->client, socket->node->id);
    watch_owner_release(subscribe_table(sim_front_subscriber(socket->node)), &socket->owner);
    socket->node = NULL;
    for (uint32_t i = 0; i < SIM_STREAMS_MAX; i++) {
        struct sim_stream *stream = socket->streams[i];

        if (stream) {
            uint32_t kept = stream->safe_count < SIM_SAFE_MAX ? stream->safe_count : SIM_SAFE_MAX;
            uint32_t back = (uint32_t)rng_below(rng, kept);
            struct sim_safe safe = stream->safe[(stream->safe_count - 1 - back) % SIM_SAFE_MAX];

            go_back(stream, &safe);
            stream->safe[0] = safe;
            stream->safe_count = 1;
            stream->id = 0;
            stream->held = false;
            stream->used_up = false;
        }
    }
}

static void resume_all(struct sim_socket *socket)
{
    for (uint32_t i = 0; i < SIM_STREAMS_MAX; i++) {
        struct sim_stream *stream = socket->streams[i];

        if (stream && stream->id == 0 && !stream->used_up) {
            add(socket, stream, NULL);
        } else if (stream && stream->held && !stream->used_up && !socket->stalled) {
            catch_up(socket, stream, stream->held_from - 1);
        }
    }
}

/* Drops watches that are used up, once their client has noticed, and now and then another one. */
static void drop_some(struct sim_socket *socket)
{
    for (uint32_t i = 0; i < SIM_STREAMS_MAX; i++) {
        struct sim_stream *stream = socket->streams[i];
        struct watch_table *table = subscribe_table(sim_front_subscriber(socket->node));
        struct watch *watch =
            stream && stream->id != 0 ? watch_by_id(table, &socket->owner, stream->id) : NULL;
        bool drop = stream && stream->used_up && rng_chance(&socket->sim->rng, 500000);

        if (watch && rng_chance(&socket->sim->rng, UNWATCH_PPM)) {
            watch_remove(table, watch);
            drop = true;
        }
        if (drop) {
            stream->id = 0;
            stream->held = false;
            socket->streams[i] = NULL;
        }
    }
}

static void draw_watch(struct sim *sim, struct sim_socket *socket)
{
    static const enum watch_kind kinds[] = {WATCH_DATA,       WATCH_EXISTS,    WATCH_CHILDREN,
                                            WATCH_PERSISTENT, WATCH_RECURSIVE, WATCH_RECURSIVE};
    enum watch_kind kind = kinds[rng_below(&sim->rng, sizeof(kinds) / sizeof(kinds[0]))];
    uint32_t dir = (uint32_t)rng_below(&sim->rng, 6);
    char path[48];

    (void)snprintf(path, sizeof(path), "/k%u", dir);
    if (kind != WATCH_RECURSIVE && rng_chance(&sim->rng, 600000)) {
        (void)snprintf(path, sizeof(path), "/k%u/c%u", dir, (uint32_t)rng_below(&sim->rng, 5));
    }
    sim_socket_watch(socket, kind, path, NULL);
}

static void connected_turn(struct sim *sim, struct sim_socket *socket)
{
    if (!sim_client_may_read(sim, socket->node)) {
        return;
    }
    if (socket->stalled && rng_chance(&sim->rng, UNSTALL_PPM)) {
        socket->stalled = false;
        socket->queued = 0;
    } else if (rng_chance(&sim->rng, STALL_PPM)) {
        socket->stalled = true;
    }
    drop_some(socket);
    resume_all(socket);
    if (rng_chance(&sim->rng, WATCH_PPM)) {
        draw_watch(sim, socket);
    }
}

void sim_socket_turn(struct sim *sim, const struct sim_client *client)
{
    struct sim_socket *socket;
    struct sim_node *node = &sim->nodes[client->node];

    if (!sim->sockets) {
        return;
    }
    socket = &sim->sockets->of[client->id];
    if (!socket->node && node->up && !node->paused && rng_chance(&sim->rng, CONNECT_PPM)) {
        connect_to(socket, node);
    } else if (socket->node && rng_chance(&sim->rng, BREAK_PPM)) {
        sim_socket_break(socket);
    } else if (socket->node && !socket->node->paused) {
        connected_turn(sim, socket);
    }
}

/* ---- The end. ---- */

static void finish(struct sim *sim, struct sim_socket *socket)
{
    socket->stalled = false;
    socket->queued = 0;
    /* The front end may be so far behind that the window has lost what it needs; then the watches
     * that it holds for that reason resume as well. */
    sim_front_answers(sim, socket->node, socket->node->status.applied);
    resume_all(socket);
    sim_socket_beat(socket, subscribe_at(sim_front_subscriber(socket->node)));
    for (uint32_t i = 0; i < SIM_STREAMS_MAX; i++) {
        const struct sim_stream *stream = socket->streams[i];

        if (stream && !stream->used_up && stream->have < socket->node->status.applied) {
            sim_fail(sim, "A20",
                     "stream %u (%s %s of client %u) has only reached %" PRIx64
                     ", but its replica is at %" PRIx64,
                     stream->number, watch_kind_name(stream->kind), stream->path, stream->client,
                     stream->have, socket->node->status.applied);
        }
    }
}

void sim_sockets_finish(struct sim *sim)
{
    for (uint32_t i = 0; sim->sockets && i < sim->knobs.clients; i++) {
        if (sim->sockets->of[i].node) {
            finish(sim, &sim->sockets->of[i]);
        }
    }
}

void sim_sockets_init(struct sim *sim)
{
    if (sim->knobs.watch_ppm == 0) {
        return;
    }
    sim->sockets = mem_zalloc(1, sizeof(*sim->sockets));
    for (uint32_t i = 0; i < SIM_CLIENTS_MAX; i++) {
        sim->sockets->of[i].sim = sim;
        sim->sockets->of[i].client = i;
    }
}

void sim_sockets_release(struct sim *sim)
{
    for (size_t i = 0; sim->sockets && i < sim->sockets->count; i++) {
        mem_free(sim->sockets->streams[i]->items);
        mem_free(sim->sockets->streams[i]);
    }
    if (sim->sockets) {
        mem_free(sim->sockets->streams);
        mem_free(sim->sockets);
    }
}
