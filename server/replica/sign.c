#include "server/replica/sign.h"

#include "base/check.h"
#include "base/wire.h"
#include "server/replica/stamp.h"

#include <stdio.h>

enum {
    SIGN_FORMAT = 5,
    SIGN_ENTRY_MAX = 160 /* What a later version adds to an entry included. */
};

_Static_assert(ZAB_MEMBERS_MAX *(SIGN_ENTRY_MAX + 4) + 8 <= ZAB_SIGN_BYTES_MAX, "all fit");

enum sign_role sign_role_of(const struct zab_status *status, bool voter)
{
    if (status->quarantined) {
        return SIGN_QUARANTINE;
    }
    switch (status->state) {
    case ZAB_LOOKING:
        return SIGN_LOOKING;
    case ZAB_FOLLOWING:
        return SIGN_FOLLOWER;
    case ZAB_LEADING:
        return SIGN_LEADER;
    case ZAB_OBSERVING:
        return voter && !status->stranger ? SIGN_FOLLOWER : SIGN_OBSERVER;
    }
    UNREACHABLE();
}

const char *sign_role_name(enum sign_role role)
{
    static const char *const names[SIGN_ROLES] = {
        [SIGN_LOOKING] = "looking",   [SIGN_FOLLOWER] = "follower",     [SIGN_LEADER] = "leader",
        [SIGN_OBSERVER] = "observer", [SIGN_QUARANTINE] = "quarantine",
    };

    ASSERT((unsigned)role < SIGN_ROLES);
    return names[role];
}

/* ---- Format u8, count u8, then for each its length u32 and its bytes. ---- */

static uint32_t old_ms(const struct sign *sign, uint64_t now_ms)
{
    uint64_t gone_ms = now_ms > sign->at_ms ? now_ms - sign->at_ms : 0;

    return gone_ms < UINT32_MAX ? (uint32_t)gone_ms : UINT32_MAX;
}

static void put_sign(const struct sign *sign, uint64_t now_ms, struct buf *out)
{
    wire_put_u32(out, sign->id);
    wire_put_u32(out, old_ms(sign, now_ms));
    wire_put_u8(out, (uint8_t)sign->role);
    wire_put_u32(out, sign->flags);
    wire_put_u32(out, sign->epoch);
    wire_put_u64(out, sign->zxid);
    wire_put_u32(out, sign->lag_ms);
    wire_put_u64(out, sign->role_ms);
    wire_put_u64(out, (uint64_t)sign->wall_ms);
    wire_put_u64(out, sign->made_ms);
    wire_put_u32(out, sign->late_ms);
    wire_put_u64(out, (uint64_t)sign->age_ms);
    wire_put_u64(out, sign->tree_bytes_max);
    wire_put_u64(out, sign->room_bytes_max);
    wire_put_u32(out, sign->room_member);
    wire_put_u64(out, sign->mark);
    wire_put_u64(out, sign->host.up_ms);
    wire_put_u32(out, sign->host.sync_p50_us);
    wire_put_u32(out, sign->host.sync_p99_us);
    wire_put_bytes(out, slice_str(sign->host.version));
}

void signs_encode(const struct sign *signs, size_t count, uint64_t now_ms, struct buf *out)
{
    struct buf entry;

    ASSERT(count <= ZAB_MEMBERS_MAX);
    buf_init(&entry, SIGN_ENTRY_MAX);
    wire_put_u8(out, SIGN_FORMAT);
    wire_put_u8(out, (uint8_t)count);
    for (size_t i = 0; i < count; i++) {
        buf_clear(&entry);
        put_sign(&signs[i], now_ms, &entry);
        ASSERT(!entry.overflow);
        wire_put_bytes(out, buf_slice(&entry));
    }
    buf_release(&entry);
}

/* What a later version has put behind is passed over. */
static bool get_sign(struct slice entry, uint64_t now_ms, struct sign *sign)
{
    struct wire_reader reader;

    wire_reader_init(&reader, entry);
    *sign = (struct sign){.id = wire_get_u32(&reader)};
    uint32_t gone_ms = wire_get_u32(&reader);

    sign->at_ms = now_ms > gone_ms ? now_ms - gone_ms : 0;
    sign->role = (enum sign_role)wire_get_u8(&reader);
    sign->flags = wire_get_u32(&reader);
    sign->epoch = wire_get_u32(&reader);
    sign->zxid = wire_get_u64(&reader);
    sign->lag_ms = wire_get_u32(&reader);
    sign->role_ms = wire_get_u64(&reader);
    sign->wall_ms = (int64_t)wire_get_u64(&reader);
    sign->made_ms = wire_get_u64(&reader);
    sign->late_ms = wire_get_u32(&reader);
    sign->age_ms = (int64_t)wire_get_u64(&reader);
    sign->tree_bytes_max = wire_get_u64(&reader);
    sign->room_bytes_max = wire_get_u64(&reader);
    sign->room_member = wire_get_u32(&reader);
    sign->mark = wire_get_u64(&reader);
    sign->host.up_ms = wire_get_u64(&reader);
    sign->host.sync_p50_us = wire_get_u32(&reader);
    sign->host.sync_p99_us = wire_get_u32(&reader);
    sign->host.disk_low = (sign->flags & SIGN_DISK_LOW) != 0;
    struct slice version = wire_get_bytes(&reader, SIGN_VERSION_MAX - 1);

    (void)snprintf(sign->host.version, sizeof(sign->host.version), "%.*s", (int)version.len,
                   version.len > 0 ? (const char *)version.data : "");
    return wire_reader_ok(&reader) && sign->id != 0 && (unsigned)sign->role < SIGN_ROLES &&
           sign->wall_ms >= 0 && sign->wall_ms <= STAMP_MAX_MS && sign->age_ms >= 0 &&
           sign->age_ms <= TXN_AGE_MAX_MS;
}

/* It is shown to people, and becomes JSON. */
static bool is_plain(const char *text)
{
    for (; *text; text++) {
        if (*text <= ' ' || *text > '~') {
            return false;
        }
    }
    return true;
}

bool signs_decode(struct slice bytes, uint64_t now_ms, struct sign signs[ZAB_MEMBERS_MAX],
                  size_t *ret_count)
{
    struct wire_reader reader;

    *ret_count = 0;
    wire_reader_init(&reader, bytes);
    uint8_t format = wire_get_u8(&reader);
    size_t count = wire_get_u8(&reader);

    if (!wire_reader_ok(&reader) || format != SIGN_FORMAT || count > ZAB_MEMBERS_MAX) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        struct slice entry = wire_get_bytes(&reader, SIGN_ENTRY_MAX);

        if (!wire_reader_ok(&reader) || !get_sign(entry, now_ms, &signs[i]) ||
            !is_plain(signs[i].host.version)) {
            return false;
        }
    }
    if (!wire_reader_done(&reader)) {
        return false;
    }
    *ret_count = count;
    return true;
}

const struct sign *signs_find(const struct sign *signs, size_t count, uint32_t id)
{
    for (size_t i = 0; i < count; i++) {
        if (signs[i].id == id) {
            return &signs[i];
        }
    }
    return NULL;
}
