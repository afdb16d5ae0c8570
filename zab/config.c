#include "zab/config.h"

#include "base/check.h"
#include "base/wire.h"
#include "zab/config_texts.h"

enum {
    FORMAT_OF_LEVEL_0 = 3, /* Formats 1 and 2 have no age of the ensemble; never released. */
    FORMAT = 4
};

enum {
    KIND_OBSERVER = 0,
    KIND_VOTER = 1,
    KIND_EMPTY_SEAT = 2,
};

#define CONFIG(form, member) WIRE_FIELD(WIRE_##form, struct zab_config, member)

/* The fields between the format and the members. */
static const struct wire_field head_fields[] = {
    CONFIG(INT, version), CONFIG(RAW, cluster), CONFIG(INT, history),
    CONFIG(INT, count),   {.form = WIRE_END},
};

const struct zab_member *zab_config_find(const struct zab_config *config, uint32_t id)
{
    for_each_member (member, config) {
        if (member->id == id) {
            return member;
        }
    }
    return NULL;
}

bool zab_config_is_voter(const struct zab_config *config, uint32_t id, uint64_t incarnation)
{
    const struct zab_member *member = zab_config_find(config, id);

    return member && member->voter && member->incarnation == incarnation;
}

const struct zab_removed *zab_config_find_removed(const struct zab_config *config, uint32_t id,
                                                  uint64_t incarnation)
{
    ASSERT(config->removed_count <= ZAB_REMOVED_MAX);
    for (uint32_t i = 0; i < config->removed_count && incarnation != 0; i++) {
        if (config->removed[i].id == id && config->removed[i].incarnation == incarnation) {
            return &config->removed[i];
        }
    }
    return NULL;
}

uint32_t zab_config_voters(const struct zab_config *config)
{
    uint32_t voters = 0;

    for_each_member (member, config) {
        voters += member->voter ? 1 : 0;
    }
    return voters;
}

void zab_config_survive(struct zab_config *config, uint32_t id, uint64_t incarnation,
                        zxid_t version, uint64_t history)
{
    ASSERT(zab_config_find(config, id) && incarnation != 0);
    ASSERT(version > config->version);

    for_each_member (member, config) {
        member->empty_seat = member->empty_seat || member->voter;
        member->voter = false;
        member->incarnation = 0;
        member->admitted_age_ms = 0;
        if (member->id == id) {
            member->empty_seat = false;
            member->voter = true;
            member->joining = false; /* No voter is joining: such a configuration is malformed. */
            member->incarnation = incarnation;
        }
    }
    config->version = version;
    config->history = history;
    ASSERT(zab_config_voters(config) == 1);
}

static uint8_t kind_of(const struct zab_member *member)
{
    ASSERT(!member->voter || !member->empty_seat);
    if (member->voter) {
        return KIND_VOTER;
    }
    return member->empty_seat ? KIND_EMPTY_SEAT : KIND_OBSERVER;
}

static void put_head(const struct zab_config *config, struct buf *out)
{
    wire_put_u8(out, config->level == 0 ? FORMAT_OF_LEVEL_0 : FORMAT);
    wire_put_fields(out, head_fields, config);
    for_each_member (member, config) {
        wire_put_u32(out, member->id);
        wire_put_u8(out, kind_of(member));
        wire_put_u64(out, member->incarnation);
    }
    for_each_member (member, config) {
        wire_put_u64(out, member->admitted_age_ms);
    }
}

/* Whether nothing is there that only format 4 has. */
static bool is_plain(const struct zab_config *config, const struct zab_config_parts *parts)
{
    for_each_member (member, config) {
        if (member->joining) {
            return false;
        }
    }
    return config->hold == 0 && config->removed_count == 0 && parts->edit_count == 0 &&
           parts->txn.len == 0;
}

/* False if a text is malformed. */
static bool put_all(const struct zab_config *config, const struct zab_config_parts *parts,
                    struct buf *out)
{
    put_head(config, out);
    if (config->level == 0) {
        ASSERT(is_plain(config, parts));
        return true;
    }
    return config_put_tail(out, config, parts);
}

enum err zab_config_write(const struct zab_config *config, const struct zab_config_parts *parts,
                          struct buf *out)
{
    struct zab_config back;
    size_t start = out->len;

    if (parts->txn.len > ZAB_CONFIG_TXN_MAX) {
        return ERR_TOO_LARGE;
    }
    if (!put_all(config, parts, out)) {
        return ERR_FORMAT;
    }
    if (out->overflow || out->len - start - parts->txn.len > ZAB_CONFIG_BYTES_MAX) {
        return ERR_TOO_LARGE;
    }
    return zab_config_decode(slice_make(out->data + start, out->len - start), &back);
}

void zab_config_encode(const struct zab_config *config, struct buf *out)
{
    bool is_sound = put_all(config, &(struct zab_config_parts){0}, out);

    ASSERT(is_sound);
}

/* Whether members ascend by id, ids are in range, and at least one member votes. */
static bool is_sound(const struct zab_config *config)
{
    uint32_t previous = 0;

    for_each_member (member, config) {
        uint32_t id = member->id;

        if (id <= previous || id > ZAB_ID_MAX) {
            return false;
        }
        previous = id;
    }
    return zab_config_voters(config) > 0;
}

/* Whether all fields were read. Formats 3 and 4 have no bytes after their last field. Bytes that a
 * later format has there are skipped, so that replicas one version apart work together. */
static bool is_complete(const struct wire_reader *reader, uint8_t format)
{
    return format > FORMAT ? wire_reader_ok(reader) : wire_reader_done(reader);
}

static void get_members(struct wire_reader *reader, struct zab_config *config)
{
    for_each_member (member, config) {
        member->id = wire_get_u32(reader);
        uint8_t kind = wire_get_u8(reader);

        member->voter = kind == KIND_VOTER;
        member->empty_seat = kind == KIND_EMPTY_SEAT;
        if (kind > KIND_EMPTY_SEAT) {
            wire_reader_fail(reader);
        }
        member->incarnation = wire_get_u64(reader);
    }
    for_each_member (member, config) {
        uint64_t age_ms = wire_get_u64(reader);

        /* An age out of range is read as 0 and not refused: all replicas read a committed record
         * alike, so a refusal would stop all of them. */
        member->admitted_age_ms = age_ms <= ZAB_AGE_MAX_MS ? age_ms : 0;
    }
}

bool zab_config_is_older(struct slice bytes)
{
    return bytes.len > 0 && bytes.data[0] != 0 && bytes.data[0] < FORMAT_OF_LEVEL_0;
}

enum err zab_config_decode(struct slice bytes, struct zab_config *ret_config)
{
    struct wire_reader reader;
    struct zab_config config = {0};

    wire_reader_init(&reader, bytes);
    uint8_t format = wire_get_u8(&reader);

    wire_get_fields(&reader, head_fields, &config);
    if (!wire_reader_ok(&reader) || format < FORMAT_OF_LEVEL_0 || config.count > ZAB_MEMBERS_MAX) {
        return ERR_FORMAT;
    }
    get_members(&reader, &config);
    if (format > FORMAT_OF_LEVEL_0) {
        config_get_tail(&reader, &config);
    }
    if (!is_complete(&reader, format) || !is_sound(&config) ||
        bytes.len - zab_config_txn(bytes).len > ZAB_CONFIG_BYTES_MAX) {
        return ERR_FORMAT;
    }
    *ret_config = config;
    return ERR_OK;
}
