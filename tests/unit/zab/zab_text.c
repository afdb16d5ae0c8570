#include "tests/unit/zab/zab_text.h"

#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>

enum kind {
    NUMBER_16,
    NUMBER_32,
    NUMBER_64,
    ZXID,
    STATE,
    FLAGS,
    RANGES,
    RECORD,
    CONFIG,
    BYTES,
    TEXT,  /* Bytes that are shown, and read from the line. */
    LENGTH /* Of bytes with arbitrary content. */
};

struct field {
    enum zab_msg_type type;
    const char *name;
    size_t offset;
    enum kind kind;
};

#define FIELD(type, member, field, kind)                               \
    {                                                                  \
        (type), #field, offsetof(struct zab_msg, member.field), (kind) \
    }

/* In the order of display. Chain values of a real log are left out: they are hashes. */
static const struct field fields[] = {
    FIELD(ZAB_VOTE, vote, round, NUMBER_64),
    FIELD(ZAB_VOTE, vote, state, STATE),
    FIELD(ZAB_VOTE, vote, candidate, NUMBER_32),
    FIELD(ZAB_VOTE, vote, candidate_last, ZXID),
    FIELD(ZAB_VOTE, vote, last, ZXID),
    FIELD(ZAB_VOTE, vote, promised, NUMBER_32),
    FIELD(ZAB_VOTE, vote, config_version, ZXID),
    FIELD(ZAB_VOTE, vote, voters, NUMBER_32),
    FIELD(ZAB_VOTE, vote, flags, FLAGS),
    FIELD(ZAB_CEPOCH, cepoch, promised, NUMBER_32),
    FIELD(ZAB_CEPOCH, cepoch, last, ZXID),
    FIELD(ZAB_CEPOCH, cepoch, flags, FLAGS),
    FIELD(ZAB_NEWEPOCH, newepoch, config, CONFIG),
    FIELD(ZAB_ACKEPOCH, ackepoch, last, ZXID),
    FIELD(ZAB_ACKEPOCH, ackepoch, base, ZXID),
    FIELD(ZAB_ACKEPOCH, ackepoch, ranges, RANGES),
    FIELD(ZAB_ACKEPOCH, ackepoch, snap_id, NUMBER_64),
    FIELD(ZAB_ACKEPOCH, ackepoch, snap_offset, NUMBER_64),
    FIELD(ZAB_ACKEPOCH, ackepoch, flags, FLAGS),
    FIELD(ZAB_SYNC, sync, common, ZXID),
    FIELD(ZAB_SYNC, sync, target, ZXID),
    FIELD(ZAB_SYNC, sync, flags, FLAGS),
    FIELD(ZAB_SNAP_CHUNK, snap_chunk, snap_id, NUMBER_64),
    FIELD(ZAB_SNAP_CHUNK, snap_chunk, offset, NUMBER_64),
    FIELD(ZAB_SNAP_CHUNK, snap_chunk, bytes, LENGTH),
    FIELD(ZAB_SNAP_CHUNK, snap_chunk, start, ZXID),
    FIELD(ZAB_SNAP_CHUNK, snap_chunk, start_chain, NUMBER_64),
    FIELD(ZAB_SNAP_CHUNK, snap_chunk, end, ZXID),
    FIELD(ZAB_SNAP_CHUNK, snap_chunk, flags, FLAGS),
    FIELD(ZAB_SNAP_ACK, snap_ack, offset, NUMBER_64),
    FIELD(ZAB_ENTRY, entry, rec, RECORD),
    FIELD(ZAB_ENTRY, entry, commit, ZXID),
    FIELD(ZAB_NEWLEADER, newleader, rec, RECORD),
    FIELD(ZAB_NEWLEADER, newleader, sent, ZXID),
    FIELD(ZAB_NEWLEADER, newleader, config, CONFIG),
    FIELD(ZAB_SYNC_ACK, ack, zxid, ZXID),
    FIELD(ZAB_ACK_NEWLEADER, ack, zxid, ZXID),
    FIELD(ZAB_ACK_NEWLEADER, ack, payload, BYTES),
    FIELD(ZAB_ACK, ack, zxid, ZXID),
    FIELD(ZAB_UPTODATE, commit, zxid, ZXID),
    FIELD(ZAB_COMMIT, commit, zxid, ZXID),
    FIELD(ZAB_PING, ping, round, NUMBER_64),
    FIELD(ZAB_PING, ping, commit, ZXID),
    FIELD(ZAB_PING, ping, payload, BYTES),
    FIELD(ZAB_PONG, pong, round, NUMBER_64),
    FIELD(ZAB_PONG, pong, last, ZXID),
    FIELD(ZAB_PONG, pong, digest_zxid, ZXID),
    FIELD(ZAB_PONG, pong, digest, NUMBER_64),
    FIELD(ZAB_PONG, pong, flags, FLAGS),
    FIELD(ZAB_PONG, pong, payload, BYTES),
    FIELD(ZAB_CONFIRM, confirm, round, NUMBER_64),
    FIELD(ZAB_CONFIRM_ACK, confirm, round, NUMBER_64),
    FIELD(ZAB_READ_INDEX, read_index, request, NUMBER_64),
    FIELD(ZAB_READ_REPLY, read_reply, request, NUMBER_64),
    FIELD(ZAB_READ_REPLY, read_reply, zxid, ZXID),
    FIELD(ZAB_FORWARD, forward, request, NUMBER_64),
    FIELD(ZAB_FORWARD, forward, bytes, BYTES),
    FIELD(ZAB_FORWARD_REPLY, forward, request, NUMBER_64),
    FIELD(ZAB_FORWARD_REPLY, forward, bytes, BYTES),
    FIELD(ZAB_EXCLUDE, exclude, zxid, ZXID),
    FIELD(ZAB_EXCLUDE, exclude, flags, FLAGS),
    {ZAB_CONFIG, "config", offsetof(struct zab_msg, config.bytes), CONFIG},
    FIELD(ZAB_JOIN, join, host, TEXT),
    FIELD(ZAB_JOIN, join, port, NUMBER_16),
    FIELD(ZAB_JOIN, join, client, TEXT),
    FIELD(ZAB_JOIN, join, zone, TEXT),
    FIELD(ZAB_JOIN, join, flags, FLAGS),
};

static const struct {
    uint32_t bit;
    const char *name;
} flag_names[] = {
    {ZAB_FLAG_ELIGIBLE, "eligible"},
    {ZAB_FLAG_COUNTED, "counted"},
    {ZAB_FLAG_QUARANTINE, "quarantine"},
    {ZAB_FLAG_LOW_SPACE, "low_space"},
    {ZAB_FLAG_SNAP_LAST, "snap_last"},
    {ZAB_FLAG_SNAP, "snap"},
    {ZAB_FLAG_DIVERGED, "diverged"},
    {ZAB_FLAG_ROLLED_BACK, "rolled_back"},
    {ZAB_FLAG_NO_MAJORITY, "no_majority"},
    {ZAB_FLAG_SOUND, "sound"},
    {ZAB_FLAG_AHEAD, "ahead"},
    {ZAB_FLAG_FOUNDS, "founds"},
};

/* ---- Messages. ---- */

static void *place_of(struct zab_msg *msg, const struct field *field)
{
    return (uint8_t *)msg + field->offset;
}

static bool read_field(const struct field *field, const char *text, struct zab_msg *msg)
{
    uint64_t number = 0;

    if (field->kind == ZXID) {
        return text_to_zxid(text, place_of(msg, field));
    }
    if (field->kind == TEXT) {
        *(struct slice *)place_of(msg, field) = slice_str(text);
        return true;
    }
    if (!text_to_number(text, &number)) {
        return false;
    }
    if (field->kind == NUMBER_16) {
        *(uint16_t *)place_of(msg, field) = (uint16_t)number;
    } else if (field->kind == STATE) {
        *(uint8_t *)place_of(msg, field) = (uint8_t)number;
    } else if (field->kind == NUMBER_32) {
        *(uint32_t *)place_of(msg, field) = (uint32_t)number;
    } else {
        *(uint64_t *)place_of(msg, field) = number;
    }
    return true;
}

/* A disk that is eligible is sound. */
static uint32_t implied(uint32_t flag)
{
    return flag == ZAB_FLAG_ELIGIBLE ? ZAB_FLAG_ELIGIBLE | ZAB_FLAG_SOUND : flag;
}

/* A bare word: a flag, or a state. */
static bool read_word(const char *word, struct zab_msg *msg)
{
    enum zab_state state;

    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        const struct field *field = &fields[i];

        if (field->type != msg->type) {
            continue;
        }
        if (field->kind == STATE && text_to_state(word, &state)) {
            *(uint8_t *)place_of(msg, field) = (uint8_t)state;
            return true;
        }
        for (size_t j = 0; field->kind == FLAGS && j < sizeof(flag_names) / sizeof(flag_names[0]);
             j++) {
            if (strcmp(flag_names[j].name, word) == 0) {
                *(uint32_t *)place_of(msg, field) |= implied(flag_names[j].bit);
                return true;
            }
        }
    }
    return false;
}

static bool read_pair(const char *word, size_t key_len, struct zab_msg *msg)
{
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        const struct field *field = &fields[i];

        if (field->type == msg->type && strlen(field->name) == key_len &&
            memcmp(field->name, word, key_len) == 0) {
            return read_field(field, word + key_len + 1, msg);
        }
    }
    return false;
}

bool text_to_msg(const struct words *words, size_t first, struct zab_msg *inout,
                 const char **ret_wrong)
{
    for (size_t i = first; i < words->count; i++) {
        const char *word = words->items[i];
        const char *value = strchr(word, '=');
        bool known =
            value ? read_pair(word, (size_t)(value - word), inout) : read_word(word, inout);

        if (!known) {
            *ret_wrong = word;
            return false;
        }
    }
    return true;
}

static void text_flags(struct buf *out, uint32_t flags)
{
    bool is_implied = (flags & ZAB_FLAG_ELIGIBLE) != 0;

    for (size_t i = 0; i < sizeof(flag_names) / sizeof(flag_names[0]); i++) {
        if (flags & flag_names[i].bit && !(is_implied && flag_names[i].bit == ZAB_FLAG_SOUND)) {
            (void)buf_printf(out, " %s", flag_names[i].name);
        }
    }
}

void text_record(struct buf *out, const struct logrec *rec)
{
    static const char *const types[] = {[LOGREC_TXN] = "",
                                        [LOGREC_EPOCH] = ":epoch",
                                        [LOGREC_CONFIG] = ":config",
                                        [LOGREC_STAMP] = ":stamp"};

    text_zxid(out, rec->zxid);
    (void)buf_append_str(out, types[rec->type]);
}

/* The disks that the configuration refuses; of a long list the oldest and the newest. */
static void text_removed(struct buf *out, const struct zab_config *config)
{
    for (uint32_t i = 0; i < config->removed_count; i++) {
        const struct zab_removed *removed = &config->removed[i];

        if (i == 0 || config->removed_count <= 4 || i == config->removed_count - 1) {
            (void)buf_printf(out, "%s%u:%llu@", i == 0 ? "/removed:" : ",", removed->id,
                             (unsigned long long)removed->incarnation);
            text_zxid(out, removed->zxid);
        }
    }
    if (config->removed_count > 4) {
        (void)buf_printf(out, "(%u)", config->removed_count);
    }
}

void text_config(struct buf *out, const struct zab_config *config)
{
    text_zxid(out, config->version);
    for (uint32_t i = 0; i < config->count; i++) {
        const struct zab_member *member = &config->members[i];

        (void)buf_printf(out, "%s%u:%llu%s", i == 0 ? "/" : ",", member->id,
                         (unsigned long long)member->incarnation,
                         member->empty_seat ? ":empty" : (member->voter ? "" : ":observer"));
        if (member->joining) {
            (void)buf_append_str(out, ":joining");
        }
    }
    if (config->level != 0) {
        (void)buf_printf(out, "/level:%u", config->level);
    }
    if (config->hold != 0) {
        (void)buf_printf(out, "/hold:%u", config->hold);
    }
    text_removed(out, config);
}

static void text_ranges(struct buf *out, const struct zab_msg_ackepoch *ack)
{
    for (uint32_t i = 0; i < ack->range_count && i < 4; i++) {
        const struct epoch_range *range = &ack->ranges[i];

        (void)buf_printf(out, "%s%u.%u-%u", i == 0 ? " ranges=" : ",", range->epoch, range->first,
                         range->last);
    }
    if (ack->range_count > 4) {
        (void)buf_printf(out, ",... (%u)", ack->range_count);
    }
}

void text_number(struct buf *out, const char *name, uint64_t number)
{
    if (number != 0) {
        (void)buf_printf(out, " %s=%llu", name, (unsigned long long)number);
    }
}

void text_named_zxid(struct buf *out, const char *name, zxid_t zxid)
{
    if (zxid != 0) {
        (void)buf_printf(out, " %s=", name);
        text_zxid(out, zxid);
    }
}

static void text_slice(struct buf *out, const struct field *field, struct slice bytes,
                       const struct zab_config *own)
{
    struct zab_config config;
    struct buf same;

    if (bytes.len == 0) {
        return;
    }
    if (field->kind == LENGTH) {
        text_number(out, field->name, bytes.len);
        return;
    }
    (void)buf_printf(out, " %s=", field->name);
    if (field->kind != CONFIG || zab_config_decode(bytes, &config) != ERR_OK) {
        (void)buf_append_slice(out, bytes);
        return;
    }
    buf_init(&same, 4096);
    zab_config_encode(own, &same);
    if (slice_eq(bytes, buf_slice(&same))) {
        (void)buf_append_str(out, "own");
    } else {
        text_config(out, &config);
    }
    buf_release(&same);
}

static void text_field(struct buf *out, const struct field *field, const struct zab_msg *msg,
                       const struct zab_config *own)
{
    const void *place = (const uint8_t *)msg + field->offset;

    switch (field->kind) {
    case NUMBER_16:
        text_number(out, field->name, *(const uint16_t *)place);
        break;
    case NUMBER_32:
        text_number(out, field->name, *(const uint32_t *)place);
        break;
    case NUMBER_64:
        text_number(out, field->name, *(const uint64_t *)place);
        break;
    case ZXID:
        text_named_zxid(out, field->name, *(const zxid_t *)place);
        break;
    case STATE:
        (void)buf_printf(out, " %s", text_state((enum zab_state) * (const uint8_t *)place));
        break;
    case FLAGS:
        text_flags(out, *(const uint32_t *)place);
        break;
    case RANGES:
        text_ranges(out, &msg->ackepoch);
        break;
    case RECORD:
        if (*(struct logrec *const *)place) {
            (void)buf_printf(out, " %s=", field->name);
            text_record(out, *(struct logrec *const *)place);
        }
        break;
    case CONFIG:
    case BYTES:
    case TEXT:
    case LENGTH:
        text_slice(out, field, *(const struct slice *)place, own);
        break;
    }
}

/* Nearly every vote names the sender's own log and all voters. */
static bool is_usual(const struct field *field, const struct zab_msg *msg,
                     const struct zab_config *own)
{
    const struct zab_msg_vote *vote = &msg->vote;

    return msg->type == ZAB_VOTE &&
           ((strcmp(field->name, "candidate_last") == 0 && vote->candidate_last == vote->last) ||
            (strcmp(field->name, "voters") == 0 && vote->voters == zab_config_voters(own)));
}

void text_msg(struct buf *out, const struct zab_msg *msg, const struct zab_config *own)
{
    (void)buf_append_str(out, zab_msg_name(msg->type));
    if (msg->type == ZAB_NEWEPOCH || msg->type == ZAB_ACKEPOCH) {
        text_number(out, "epoch", msg->epoch);
    }
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        if (fields[i].type == msg->type && !is_usual(&fields[i], msg, own)) {
            text_field(out, &fields[i], msg, own);
        }
    }
}
