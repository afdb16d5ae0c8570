#include "base/mem.h"
#include "zab/zab_int.h"

void zab_effects_init(struct zab_effects *effects)
{
    *effects = (struct zab_effects){0};
}

void zab_effects_clear(struct zab_effects *effects)
{
    effects->count = 0;
}

void zab_effects_release(struct zab_effects *effects)
{
    mem_free(effects->items);
    *effects = (struct zab_effects){0};
}

struct zab_effect *fx_add(struct zab *zab, enum zab_effect_type type)
{
    struct zab_effects *effects = zab->effects;

    MEM_GROW(effects->items, effects->count, effects->cap, MEM_ITEMS_MAX);
    ASSERT(effects->count < effects->cap);
    struct zab_effect *effect = &effects->items[effects->count++];

    *effect = (struct zab_effect){.type = type};
    return effect;
}

void fx_send(struct zab *zab, uint32_t peer, const struct zab_msg *msg)
{
    ASSERT(peer != zab->id);
    ASSERT(peer != 0);
    ASSERT(zab_msg_size_max(msg->type) > 0);

    struct zab_effect *effect = fx_add(zab, ZAB_FX_SEND);

    effect->send.peer = peer;
    effect->send.msg = *msg;
}

void fx_ping_payload(struct zab *zab, uint32_t peer, struct slice payload)
{
    ASSERT(peer != zab->id);
    ASSERT(payload.len <= ZAB_PING_PAYLOAD_MAX);
    if (payload.len == 0) {
        return; /* Its host attaches nothing. */
    }
    struct zab_effect *effect = fx_add(zab, ZAB_FX_PING_PAYLOAD);

    effect->ping_payload.peer = peer;
    effect->ping_payload.bytes = payload;
}

void fx_disconnect(struct zab *zab, uint32_t peer)
{
    ASSERT(peer != zab->id && peer != 0);

    fx_add(zab, ZAB_FX_DISCONNECT)->disconnect.peer = peer;
}

struct zab_persist *fx_persist(struct zab *zab, enum zab_persist_type type)
{
    struct zab_persist *persist = &fx_add(zab, ZAB_FX_PERSIST)->persist;

    ASSERT(zab->disk.done <= zab->disk.issued);
    ASSERT(zab->disk.persist_issued <= zab->disk.issued);
    persist->type = type;
    persist->token = ++zab->disk.issued;
    zab->disk.persist_issued = persist->token;
    if (type != ZAB_PERSIST_APPEND && type != ZAB_PERSIST_SNAP_CHUNK) {
        ASSERT(zab->disk.change_count < PENDING_CHANGES_MAX);
        zab->disk.changes[zab->disk.change_count++] =
            (struct pending_change){.token = persist->token, .type = type};
    }
    return persist;
}

uint64_t fx_persist_promise(struct zab *zab, uint32_t epoch, uint32_t leader)
{
    struct zab_persist *persist = fx_persist(zab, ZAB_PERSIST_PROMISE);
    struct pending_change *change = &zab->disk.changes[zab->disk.change_count - 1];

    ASSERT(change->token == persist->token);
    persist->promise.epoch = epoch;
    persist->promise.leader = leader;
    change->epoch = epoch;
    change->leader = leader;
    return persist->token;
}

uint64_t fx_fetch(struct zab *zab, zxid_t after)
{
    struct zab_effect *effect = fx_add(zab, ZAB_FX_FETCH);

    effect->fetch.after = after;
    effect->fetch.token = ++zab->disk.issued;
    return effect->fetch.token;
}

void fx_role(struct zab *zab)
{
    (void)fx_add(zab, ZAB_FX_ROLE);
}

void fx_halt(struct zab *zab, struct zab_notice notice)
{
    ASSERT(notice.type >= ZAB_NOTICE_NO_MAJORITY);
    fx_add(zab, ZAB_FX_HALT)->notice = notice;
}

void fx_alarm(struct zab *zab, struct zab_notice notice)
{
    ASSERT(notice.type < ZAB_NOTICE_NO_MAJORITY);
    fx_add(zab, ZAB_FX_ALARM)->notice = notice;
}
