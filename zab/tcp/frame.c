#include "zab/tcp/frame.h"

#include "base/check.h"
#include "base/crc32c.h"
#include "base/wire.h"

enum {
    MAGIC = 0x4652425a, /* "ZBRF" */
    AT_VERSION = 4,
    AT_TYPE = 6,
    AT_LEN = 8,
    AT_FROM = 12,
    AT_TO = 16,
    AT_EPOCH = 20,
    AT_NONCE = 24,
    AT_CLUSTER = 32,
    AT_PAYLOAD_CRC = 48,
    AT_HEADER_CRC = 52,
};

static void store_u16(uint8_t *to, uint16_t value)
{
    to[0] = (uint8_t)value;
    to[1] = (uint8_t)(value >> 8);
}

static uint16_t load_u16(const uint8_t *from)
{
    return (uint16_t)(from[0] | from[1] << 8);
}

uint32_t frame_payload_crc(struct slice payload, uint32_t number)
{
    return crc32c(number, payload.data, payload.len);
}

void frame_encode(const struct frame_header *header, uint32_t number, uint8_t out[FRAME_HEADER_LEN])
{
    ASSERT(header->type != 0);

    wire_store_u32(out, MAGIC);
    store_u16(out + AT_VERSION, header->version);
    store_u16(out + AT_TYPE, header->type);
    wire_store_u32(out + AT_LEN, header->len);
    wire_store_u32(out + AT_FROM, header->from);
    wire_store_u32(out + AT_TO, header->to);
    wire_store_u32(out + AT_EPOCH, header->epoch);
    wire_store_u64(out + AT_NONCE, header->nonce);
    memcpy(out + AT_CLUSTER, header->cluster, ZAB_CLUSTER_LEN);
    wire_store_u32(out + AT_PAYLOAD_CRC, header->payload_crc);
    wire_store_u32(out + AT_HEADER_CRC, crc32c(number, out, AT_HEADER_CRC));
}

enum err frame_decode(const uint8_t in[FRAME_HEADER_LEN], uint32_t number,
                      struct frame_header *ret_header)
{
    if (wire_load_u32(in) != MAGIC ||
        wire_load_u32(in + AT_HEADER_CRC) != crc32c(number, in, AT_HEADER_CRC)) {
        return ERR_FORMAT;
    }
    ret_header->version = load_u16(in + AT_VERSION);
    ret_header->type = load_u16(in + AT_TYPE);
    ret_header->len = wire_load_u32(in + AT_LEN);
    ret_header->from = wire_load_u32(in + AT_FROM);
    ret_header->to = wire_load_u32(in + AT_TO);
    ret_header->epoch = wire_load_u32(in + AT_EPOCH);
    ret_header->nonce = wire_load_u64(in + AT_NONCE);
    memcpy(ret_header->cluster, in + AT_CLUSTER, ZAB_CLUSTER_LEN);
    ret_header->payload_crc = wire_load_u32(in + AT_PAYLOAD_CRC);
    return ERR_OK;
}

/* ---- The transport's own frames. ---- */

bool control_is(uint16_t type)
{
    return type >= CONTROL_SEEN && type <= CONTROL_REFUSED;
}

void control_encode(const struct control *control, struct buf *out)
{
    ASSERT(control_is((uint16_t)control->type) && control->seen_count <= ZAB_MEMBERS_MAX);

    wire_put_u32(out, control->id);
    wire_put_u64(out, control->start);
    wire_put_u8(out, control->yes ? 1 : 0);
    wire_put_bytes(out, slice_str(control->text));
    wire_put_u32(out, control->seen_count);
    for (uint32_t i = 0; i < control->seen_count; i++) {
        wire_put_u32(out, control->seen[i].id);
        wire_put_u64(out, control->seen[i].start);
    }
}

/* It is logged and becomes JSON. */
static bool is_printable(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < ' ' || text.data[i] > '~') {
            return false;
        }
    }
    return true;
}

enum err control_decode(enum control_type type, struct slice payload, struct control *ret_control)
{
    struct wire_reader reader;

    ASSERT(control_is((uint16_t)type));
    wire_reader_init(&reader, payload);
    *ret_control = (struct control){.type = type, .id = wire_get_u32(&reader)};
    ret_control->start = wire_get_u64(&reader);
    ret_control->yes = wire_get_u8(&reader) != 0;

    struct slice text = wire_get_bytes(&reader, CONTROL_TEXT_MAX);

    ret_control->seen_count = wire_get_u32(&reader);
    if (!wire_reader_ok(&reader) || !is_printable(text) ||
        ret_control->seen_count > ZAB_MEMBERS_MAX) {
        return ERR_FORMAT;
    }
    if (text.len > 0) {
        memcpy(ret_control->text, text.data, text.len);
    }
    for (uint32_t i = 0; i < ret_control->seen_count; i++) {
        ret_control->seen[i].id = wire_get_u32(&reader);
        ret_control->seen[i].start = wire_get_u64(&reader);
    }
    return wire_reader_ok(&reader) ? ERR_OK : ERR_FORMAT;
}
