/* The fields of format 4: level, removed disks, and the texts and the transaction, which struct
 * zab_config does not have. */
#include "zab/config_texts.h"

#include "base/check.h"

enum {
    FORMAT_WITH_TEXTS = 4,
    FLAG_JOINING = 1,
    HEAD_BYTES = 8 + ZAB_CLUSTER_LEN + 8, /* Between format and count. */
    MEMBER_BYTES = 4 + 1 + 8,             /* Id, kind, incarnation. */
    AGE_BYTES = 8,
    LEVEL_BYTES = 2 + 2,      /* Level and hold. */
    REMOVED_BYTES = 4 + 8 + 8 /* Id, incarnation, zxid. */
};

#define REMOVED(member) WIRE_FIELD(WIRE_INT, struct zab_removed, member)

static const struct wire_field removed_fields[] = {
    REMOVED(id), REMOVED(incarnation), REMOVED(zxid), {.form = WIRE_END}};

/* The fields of one member, which have a length of their own: a later release appends fields. */
struct member_fields {
    uint8_t flags;
    struct zab_texts texts;
    struct slice rest; /* Fields of a later release. */
};

/* ---- Texts. ---- */

static bool is_text(struct slice text, size_t len_max)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] <= ' ' || text.data[i] > '~') {
            return false;
        }
    }
    return text.len <= len_max;
}

bool zab_texts_are_sound(const struct zab_texts *texts)
{
    return is_text(texts->host, ZAB_HOST_MAX) && is_text(texts->client, ZAB_CLIENT_MAX) &&
           is_text(texts->zone, ZAB_ZONE_MAX) && (texts->host.len == 0) == (texts->port == 0);
}

static void put_text(struct buf *out, struct slice text)
{
    ASSERT(text.len <= UINT8_MAX);
    wire_put_u8(out, (uint8_t)text.len);
    wire_put_raw(out, text);
}

static struct slice get_text(struct wire_reader *reader)
{
    size_t len = wire_get_u8(reader);

    return wire_get_raw(reader, len);
}

/* ---- One member. ---- */

static void put_member(struct buf *out, const struct member_fields *fields)
{
    const struct zab_texts *texts = &fields->texts;
    size_t len =
        1 + 2 + 3 + texts->host.len + texts->client.len + texts->zone.len + fields->rest.len;

    ASSERT(len <= UINT16_MAX);
    wire_put_u16(out, (uint16_t)len);
    wire_put_u8(out, fields->flags);
    wire_put_u16(out, texts->port);
    put_text(out, texts->host);
    put_text(out, texts->client);
    put_text(out, texts->zone);
    wire_put_raw(out, fields->rest);
}

static void get_member(struct wire_reader *reader, struct member_fields *ret_fields)
{
    size_t len = wire_get_u16(reader);
    struct wire_reader in;

    wire_reader_init(&in, wire_get_raw(reader, len));
    ret_fields->flags = wire_get_u8(&in);
    ret_fields->texts.port = wire_get_u16(&in);
    ret_fields->texts.host = get_text(&in);
    ret_fields->texts.client = get_text(&in);
    ret_fields->texts.zone = get_text(&in);
    ret_fields->rest = wire_get_raw(&in, (size_t)(in.end - in.pos));
    if (!wire_reader_done(&in) || !zab_texts_are_sound(&ret_fields->texts)) {
        *ret_fields = (struct member_fields){0};
        wire_reader_fail(reader);
    }
}

/* Moves to the fields of the first member. Sets the number of members and the bytes that begin with
 * the id of the first member. False if the format has no such fields. */
static bool seek_members(struct wire_reader *reader, struct slice bytes, uint32_t *ret_count,
                         struct slice *ret_ids)
{
    wire_reader_init(reader, bytes);
    if (wire_get_u8(reader) < FORMAT_WITH_TEXTS) {
        return false;
    }
    (void)wire_get_raw(reader, HEAD_BYTES);
    *ret_count = wire_get_u32(reader);
    if (*ret_count > ZAB_MEMBERS_MAX) {
        return false;
    }
    *ret_ids = wire_get_raw(reader, (size_t)*ret_count * MEMBER_BYTES);
    (void)wire_get_raw(reader, (size_t)*ret_count * AGE_BYTES + LEVEL_BYTES);
    size_t removed = wire_get_u8(reader);

    (void)wire_get_raw(reader, removed * REMOVED_BYTES);
    return wire_reader_ok(reader);
}

/* Reads the fields of the member with this id. Sets all to zero if there is none. */
static bool find_member(struct slice bytes, uint32_t id, struct member_fields *ret_fields)
{
    struct wire_reader reader;
    struct slice ids;
    uint32_t count = 0;

    if (seek_members(&reader, bytes, &count, &ids)) {
        for (uint32_t i = 0; i < count; i++) {
            get_member(&reader, ret_fields);
            if (wire_load_u32(ids.data + (size_t)i * MEMBER_BYTES) == id) {
                return wire_reader_ok(&reader);
            }
        }
    }
    *ret_fields = (struct member_fields){0};
    return false;
}

bool zab_config_texts(struct slice bytes, uint32_t id, struct zab_texts *ret_texts)
{
    struct member_fields fields;
    bool found = find_member(bytes, id, &fields);

    *ret_texts = fields.texts;
    return found;
}

struct slice zab_config_txn(struct slice bytes)
{
    struct wire_reader reader;
    struct slice ids;
    uint32_t count = 0;

    if (!seek_members(&reader, bytes, &count, &ids)) {
        return slice_make(NULL, 0);
    }
    for (uint32_t i = 0; i < count; i++) {
        size_t len = wire_get_u16(&reader);

        (void)wire_get_raw(&reader, len);
    }
    return wire_get_bytes(&reader, ZAB_CONFIG_TXN_MAX);
}

/* ---- All of it. ---- */

/* Sets the fields that the member gets: those of the older bytes, with the changes. */
static void fields_of(const struct zab_member *member, const struct zab_config_parts *parts,
                      struct member_fields *ret_fields)
{
    (void)find_member(parts->texts_of, member->id, ret_fields);
    ret_fields->flags &= (uint8_t)~FLAG_JOINING;
    ret_fields->flags |= member->joining ? FLAG_JOINING : 0;
    for (uint32_t i = 0; i < parts->edit_count; i++) {
        if (parts->edits[i].id == member->id) {
            ret_fields->texts = parts->edits[i].texts;
        }
    }
}

bool config_put_tail(struct buf *out, const struct zab_config *config,
                     const struct zab_config_parts *parts)
{
    struct member_fields fields;

    ASSERT(config->removed_count <= ZAB_REMOVED_MAX && parts->txn.len <= ZAB_CONFIG_TXN_MAX);
    wire_put_u16(out, config->level);
    wire_put_u16(out, config->hold);
    wire_put_u8(out, (uint8_t)config->removed_count);
    for (uint32_t i = 0; i < config->removed_count; i++) {
        wire_put_fields(out, removed_fields, &config->removed[i]);
    }
    for_each_member (member, config) {
        fields_of(member, parts, &fields);
        if (!zab_texts_are_sound(&fields.texts)) {
            return false;
        }
        put_member(out, &fields);
    }
    wire_put_bytes(out, parts->txn);
    return true;
}

static void get_removed(struct wire_reader *reader, struct zab_config *config)
{
    config->removed_count = wire_get_u8(reader);
    if (config->removed_count > ZAB_REMOVED_MAX) {
        config->removed_count = 0;
        wire_reader_fail(reader);
    }
    for (uint32_t i = 0; i < config->removed_count; i++) {
        struct zab_removed *removed = &config->removed[i];

        wire_get_fields(reader, removed_fields, removed);
        if (removed->id == 0 || removed->id > ZAB_ID_MAX ||
            (i > 0 && removed->zxid < removed[-1].zxid)) {
            wire_reader_fail(reader);
        }
    }
}

/* Whether one of the first `count` members has this address. */
static bool is_taken(const struct zab_texts *texts, uint32_t count, const struct zab_texts *other)
{
    for (uint32_t i = 0; i < count; i++) {
        if (other->port != 0 && texts[i].port == other->port &&
            slice_eq(texts[i].host, other->host)) {
            return true;
        }
    }
    return false;
}

void config_get_tail(struct wire_reader *reader, struct zab_config *config)
{
    struct zab_texts texts[ZAB_MEMBERS_MAX];
    struct member_fields fields;

    ASSERT(config->count <= ZAB_MEMBERS_MAX);
    config->level = wire_get_u16(reader);
    config->hold = wire_get_u16(reader);
    if (config->level == 0 || (config->hold != 0 && config->level > config->hold)) {
        wire_reader_fail(reader); /* Level 0 has format 3. */
    }
    get_removed(reader, config);
    for (uint32_t i = 0; i < config->count; i++) {
        struct zab_member *member = &config->members[i];

        get_member(reader, &fields);
        member->joining = (fields.flags & FLAG_JOINING) != 0;
        if ((member->joining && (member->voter || member->empty_seat)) ||
            is_taken(texts, i, &fields.texts)) {
            wire_reader_fail(reader);
        }
        texts[i] = fields.texts;
    }
    (void)wire_get_bytes(reader, ZAB_CONFIG_TXN_MAX);
}
