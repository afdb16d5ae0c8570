/* subscribe_kit.h - a subscriber with a world and two owners, for the tests of both its halves. */
#ifndef TESTS_UNIT_SUBSCRIBE_KIT_H
#define TESTS_UNIT_SUBSCRIBE_KIT_H

#include "server/watch/subscribe.h"
#include "tests/lib/unit.h"
#include "tests/lib/watch_kit.h"

struct fixture {
    struct kit_world world;
    struct subscriber *subscriber;
    struct buf log;
    struct kit_owner a;
    struct kit_owner b;
    struct subscribe_result result; /* Of the last add. */
    int lost;                       /* Calls of on_lost. */
    zxid_t lost_from;
    bool change_when_lost; /* on_lost changes the state. */
};

static struct fixture fixture;

static inline void on_event(void *ctx, struct watch_owner *owner, struct watch *hits,
                            const struct watch_event *event)
{
    (void)ctx;
    kit_on_event(&fixture.log, owner, hits, event);
}

static inline void on_change(void *ctx, zxid_t zxid, const struct state_change *change)
{
    (void)ctx;
    if (change->type == TXN_SESSION_CLOSE) {
        buf_printf(&fixture.log, "%d closed %d\n", (int)zxid, (int)change->session);
    }
}

static inline void on_lost(void *ctx, zxid_t from)
{
    (void)ctx;
    fixture.lost++;
    fixture.lost_from = from;
    if (fixture.change_when_lost) {
        KIT_APPLY(&fixture.world, "=/a=meanwhile");
    }
}

static inline void subscribe_kit_setup(uint32_t sets_max)
{
    const struct subscribe_sink sink = {
        .on_event = on_event, .on_change = on_change, .on_lost = on_lost};

    fixture = (struct fixture){0};
    buf_init(&fixture.log, WATCH_KIT_LOG_MAX);
    kit_world_init(&fixture.world, sets_max);
    fixture.subscriber = subscriber_new(fixture.world.view, fixture.world.window, &sink);
    kit_owner_init(&fixture.a, 'a');
    kit_owner_init(&fixture.b, 'b');
}

static inline void teardown(void)
{
    struct watch_table *table = subscribe_table(fixture.subscriber);

    watch_owner_release(table, &fixture.a.owner);
    watch_owner_release(table, &fixture.b.owner);
    subscriber_free(fixture.subscriber);
    kit_world_release(&fixture.world);
    buf_release(&fixture.log);
}

#define APPLY(...) KIT_APPLY(&fixture.world, __VA_ARGS__)

static inline zxid_t pump(zxid_t until)
{
    return subscribe_pump(fixture.subscriber, until, SIZE_MAX);
}

static inline const char *events(void)
{
    return kit_take(&fixture.log);
}

static inline struct subscribe_request watch_of(enum watch_kind kind, const char *path)
{
    return (struct subscribe_request){.kind = kind, .path = slice_str(path)};
}

static inline enum err add(struct kit_owner *owner, enum watch_kind kind, const char *path)
{
    struct subscribe_request request = watch_of(kind, path);

    return subscribe_add(fixture.subscriber, &owner->owner, &request, &fixture.result);
}

static inline enum err add_since(struct kit_owner *owner, enum watch_kind kind, const char *path,
                                 zxid_t since)
{
    struct subscribe_request request = watch_of(kind, path);

    request.has_since = true;
    request.since = since;
    return subscribe_add(fixture.subscriber, &owner->owner, &request, &fixture.result);
}

static inline enum err add_at(struct kit_owner *owner, enum watch_kind kind, const char *path,
                              zxid_t zxid)
{
    struct subscribe_request request = watch_of(kind, path);

    request.since = zxid;
    return subscribe_add_at(fixture.subscriber, &owner->owner, &request, &fixture.result);
}

static inline struct watch *find(struct kit_owner *owner, uint32_t id)
{
    return watch_by_id(subscribe_table(fixture.subscriber), &owner->owner, id);
}

static inline size_t left(void)
{
    return watch_table_count(subscribe_table(fixture.subscriber));
}

#endif
