#include "server/replica/heartbeat.h"

#include "base/check.h"
#include "base/wire.h"
#include "server/replica/clock.h"

enum {
    HEARTBEAT_FORMAT = 5,
    HEARTBEAT_ENTRY_MAX = 160 /* Includes room for additions of later versions. */
};

_Static_assert(ZAB_MEMBERS_MAX *(HEARTBEAT_ENTRY_MAX + 4) + 8 <= ZAB_PING_PAYLOAD_MAX,
               "the status of all members fits");

enum replica_role replica_role_of(const struct zab_status *status, bool voter)
{
    if (status->quarantined) {
        return ROLE_QUARANTINE;
    }
    switch (status->state) {
    case ZAB_LOOKING:
        return ROLE_LOOKING;
    case ZAB_LEADING:
        return ROLE_LEADER;
    case ZAB_FOLLOWING:
    case ZAB_OBSERVING:
        return voter && !status->unknown_disk ? ROLE_FOLLOWER : ROLE_OBSERVER;
    }
    UNREACHABLE();
}

const char *replica_role_name(enum replica_role role)
{
    static const char *const names[ROLES] = {
        [ROLE_LOOKING] = "looking",   [ROLE_FOLLOWER] = "follower",     [ROLE_LEADER] = "leader",
        [ROLE_OBSERVER] = "observer", [ROLE_QUARANTINE] = "quarantine",
    };

    ASSERT((unsigned)role < ROLES);
    return names[role];
}

/* ---- Format u8, count u8, then each heartbeat: its length u32 and its bytes. ---- */

#define FIELD(form, member) WIRE_FIELD(WIRE_##form, struct heartbeat, member)

/* Fields after the id (u32) and the time since the heartbeat was made (u32, ms). */
static const struct wire_field heartbeat_fields[] = {
    FIELD(ENUM, role),
    FIELD(INT, flags),
    FIELD(INT, epoch),
    FIELD(INT, zxid),
    FIELD(INT, lag_ms),
    FIELD(INT, role_ms),
    FIELD(INT, wall_ms),
    FIELD(INT, made_ms),
    FIELD(INT, late_ms),
    FIELD(INT, age_ms),
    FIELD(INT, tree_bytes_max),
    FIELD(INT, room_bytes_max),
    FIELD(INT, room_member),
    FIELD(INT, mark),
    FIELD(INT, host.up_ms),
    FIELD(INT, host.sync_p50_us),
    FIELD(INT, host.sync_p99_us),
    FIELD(TEXT, host.version),
    {.form = WIRE_END},
};

void heartbeats_encode(const struct heartbeat *heartbeats, size_t count, uint64_t now_ms,
                       struct buf *out)
{
    struct buf entry;

    ASSERT(count <= ZAB_MEMBERS_MAX);
    buf_init(&entry, HEARTBEAT_ENTRY_MAX);
    wire_put_u8(out, HEARTBEAT_FORMAT);
    wire_put_u8(out, (uint8_t)count);
    for (size_t i = 0; i < count; i++) {
        buf_clear(&entry);
        uint64_t at_ms = heartbeats[i].at_ms;

        wire_put_u32(&entry, heartbeats[i].id);
        wire_put_u32(&entry, (uint32_t)min_u64(now_ms > at_ms ? now_ms - at_ms : 0, UINT32_MAX));
        wire_put_fields(&entry, heartbeat_fields, &heartbeats[i]);
        ASSERT(!entry.overflow);
        wire_put_bytes(out, buf_slice(&entry));
    }
    buf_release(&entry);
}

/* Decodes one heartbeat; ignores bytes that a later version has appended. */
static bool get_heartbeat(struct slice entry, uint64_t now_ms, struct heartbeat *heartbeat)
{
    struct wire_reader reader;

    wire_reader_init(&reader, entry);
    *heartbeat = (struct heartbeat){.id = wire_get_u32(&reader)};
    uint32_t gone_ms = wire_get_u32(&reader);

    heartbeat->at_ms = now_ms > gone_ms ? now_ms - gone_ms : 0;
    wire_get_fields(&reader, heartbeat_fields, heartbeat);
    heartbeat->host.disk_low = (heartbeat->flags & HEARTBEAT_DISK_LOW) != 0;
    return wire_reader_ok(&reader) && heartbeat->id != 0 && (unsigned)heartbeat->role < ROLES &&
           heartbeat->wall_ms >= 0 && heartbeat->wall_ms <= STAMP_MAX_MS &&
           heartbeat->age_ms >= 0 && heartbeat->age_ms <= TXN_AGE_MAX_MS;
}

/* Whether the text may be shown to people and written as JSON. */
static bool is_plain(const char *text)
{
    for (; *text; text++) {
        if (*text <= ' ' || *text > '~') {
            return false;
        }
    }
    return true;
}

bool heartbeats_decode(struct slice bytes, uint64_t now_ms,
                       struct heartbeat heartbeats[ZAB_MEMBERS_MAX], size_t *ret_count)
{
    struct wire_reader reader;

    *ret_count = 0;
    wire_reader_init(&reader, bytes);
    uint8_t format = wire_get_u8(&reader);
    size_t count = wire_get_u8(&reader);

    if (!wire_reader_ok(&reader) || format != HEARTBEAT_FORMAT || count > ZAB_MEMBERS_MAX) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        struct slice entry = wire_get_bytes(&reader, HEARTBEAT_ENTRY_MAX);

        if (!wire_reader_ok(&reader) || !get_heartbeat(entry, now_ms, &heartbeats[i]) ||
            !is_plain(heartbeats[i].host.version)) {
            return false;
        }
    }
    if (!wire_reader_done(&reader)) {
        return false;
    }
    *ret_count = count;
    return true;
}

const struct heartbeat *heartbeats_find(const struct heartbeat *heartbeats, size_t count,
                                        uint32_t id)
{
    for (size_t i = 0; i < count; i++) {
        if (heartbeats[i].id == id) {
            return &heartbeats[i];
        }
    }
    return NULL;
}

struct heartbeat *heartbeats_place(struct heartbeat known[ZAB_MEMBERS_MAX], size_t *count,
                                   uint32_t id)
{
    ASSERT(id != 0 && *count <= ZAB_MEMBERS_MAX);
    for (size_t i = 0; i < *count; i++) {
        if (known[i].id == id) {
            return &known[i];
        }
    }
    if (*count == ZAB_MEMBERS_MAX) {
        return NULL;
    }
    known[*count] = (struct heartbeat){.id = id};
    return &known[(*count)++];
}

void heartbeats_keep(struct heartbeat known[ZAB_MEMBERS_MAX], size_t *count, const uint32_t *ids,
                     size_t id_count)
{
    size_t kept = 0;

    ASSERT(*count <= ZAB_MEMBERS_MAX);
    for (size_t i = 0; i < *count; i++) {
        if (zab_id_is_among(ids, id_count, known[i].id)) {
            known[kept++] = known[i];
        }
    }
    *count = kept;
}
