#include "zab/zab_int.h"

#include <stdarg.h>
#include <stdio.h>

void zab_effects_init(struct zab_effects *effects)
{
    ASSERT(effects != NULL);
    *effects = (struct zab_effects){0};
}

void zab_effects_clear(struct zab_effects *effects)
{
    ASSERT(effects->count <= effects->cap);

    effects->count = 0;
}

void zab_effects_release(struct zab_effects *effects)
{
    ASSERT(effects->count <= effects->cap);

    mem_free(effects->items);
    *effects = (struct zab_effects){0};
}

struct zab_effect *fx_add(struct zab *zab, enum zab_effect_type type)
{
    struct zab_effects *effects = zab->effects;

    ASSERT(effects);
    if (effects->count == effects->cap) {
        effects->cap = effects->cap ? effects->cap * 2 : 64;
        effects->items = mem_realloc(effects->items, effects->cap * sizeof effects->items[0]);
    }
    ASSERT(effects->count < effects->cap);
    struct zab_effect *effect = &effects->items[effects->count++];

    /* The text is long and most effects have none: clear everything before it, and its first byte.
     */
    memset(effect, 0, offsetof(struct zab_effect, text) + 1);
    effect->type = type;
    return effect;
}

void fx_send(struct zab *zab, uint32_t peer, const struct zab_msg *msg)
{
    ASSERT(peer != zab->id);
    ASSERT(peer != 0);
    ASSERT(zab_msg_size_max(msg->type) > 0);

    struct zab_effect *effect = fx_add(zab, ZAB_FX_SEND);

    effect->peer = peer;
    effect->msg = *msg;
}

void fx_sign(struct zab *zab, uint32_t peer, const struct zab_msg *msg)
{
    ASSERT(peer != zab->id);
    ASSERT(msg->bytes.len <= ZAB_SIGN_BYTES_MAX);
    if (msg->bytes.len == 0) {
        return; /* Its host says nothing. */
    }
    struct zab_effect *effect = fx_add(zab, ZAB_FX_SIGN);

    effect->peer = peer;
    effect->bytes = msg->bytes;
}

void fx_disconnect(struct zab *zab, uint32_t peer)
{
    ASSERT(peer != zab->id && peer != 0);

    fx_add(zab, ZAB_FX_DISCONNECT)->peer = peer;
}

struct zab_effect *fx_persist(struct zab *zab, enum zab_persist_type type)
{
    struct zab_effect *effect = fx_add(zab, ZAB_FX_PERSIST);

    ASSERT(zab->token_done <= zab->token_issued);
    ASSERT(zab->persist_issued <= zab->token_issued);
    effect->persist = type;
    effect->token = ++zab->token_issued;
    ASSERT(effect->token > zab->token_done);
    zab->persist_issued = effect->token;
    if (type != ZAB_PERSIST_APPEND && type != ZAB_PERSIST_SNAP_CHUNK) {
        ASSERT(zab->change_count < PENDING_CHANGES_MAX);
        zab->changes[zab->change_count++] =
            (struct pending_change){.token = effect->token, .type = type};
    }
    return effect;
}

void fx_role(struct zab *zab)
{
    ASSERT(zab->effects != NULL);
    (void)fx_add(zab, ZAB_FX_ROLE);
}

void fx_text(struct zab *zab, enum zab_effect_type type, const char *format, ...)
{
    ASSERT(type == ZAB_FX_HALT || type == ZAB_FX_ALARM);

    struct zab_effect *effect = fx_add(zab, type);
    va_list args;

    va_start(args, format);
    /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): it was just started. */
    (void)vsnprintf(effect->text, sizeof effect->text, format, args);
    va_end(args);
}
