#include "zab/tcp/frame.h"

#include "base/check.h"
#include "base/crc32c.h"
#include "base/wire.h"

enum {
    MAGIC = 0x4652425a, /* "ZBRF" */
    AT_HEADER_CRC = 52,
};

#define HEADER(form, member)  WIRE_FIELD(WIRE_##form, struct frame_header, member)
#define CONTROL(form, member) WIRE_FIELD(WIRE_##form, struct control, member)

/* The fields between the magic and the checksum of the header. */
static const struct wire_field header_fields[] = {
    HEADER(INT, version),     HEADER(INT, type),  HEADER(INT, len),   HEADER(INT, from),
    HEADER(INT, to),          HEADER(INT, epoch), HEADER(INT, nonce), HEADER(RAW, cluster),
    HEADER(INT, payload_crc), {.form = WIRE_END},
};

/* The fields before the list of SEEN. */
static const struct wire_field control_fields[] = {
    CONTROL(INT, id),    CONTROL(INT, start),      CONTROL(BOOL, yes),
    CONTROL(TEXT, text), CONTROL(INT, seen_count), {.form = WIRE_END},
};

static const struct wire_field seen_fields[] = {
    WIRE_FIELD(WIRE_INT, struct control_seen, id),
    WIRE_FIELD(WIRE_INT, struct control_seen, start),
    {.form = WIRE_END},
};

uint32_t frame_payload_crc(struct slice payload, uint32_t number)
{
    return crc32c(number, payload.data, payload.len);
}

void frame_encode(const struct frame_header *header, uint32_t number, uint8_t out[FRAME_HEADER_LEN])
{
    ASSERT(header->type != 0);

    wire_store_u32(out, MAGIC);
    wire_store_fields(out + sizeof(uint32_t), header_fields, header);
    wire_store_u32(out + AT_HEADER_CRC, crc32c(number, out, AT_HEADER_CRC));
}

enum err frame_decode(const uint8_t in[FRAME_HEADER_LEN], uint32_t number,
                      struct frame_header *ret_header)
{
    if (wire_load_u32(in) != MAGIC ||
        wire_load_u32(in + AT_HEADER_CRC) != crc32c(number, in, AT_HEADER_CRC)) {
        return ERR_FORMAT;
    }
    wire_load_fields(in + sizeof(uint32_t), header_fields, ret_header);
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

    wire_put_fields(out, control_fields, control);
    for (uint32_t i = 0; i < control->seen_count; i++) {
        wire_put_fields(out, seen_fields, &control->seen[i]);
    }
}

/* Whether the text is printable: it is logged and becomes JSON. */
static bool is_printable(const char *text)
{
    for (; *text; text++) {
        if (*text < ' ' || *text > '~') {
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
    *ret_control = (struct control){.type = type};
    wire_get_fields(&reader, control_fields, ret_control);
    if (!wire_reader_ok(&reader) || !is_printable(ret_control->text) ||
        ret_control->seen_count > ZAB_MEMBERS_MAX) {
        return ERR_FORMAT;
    }
    for (uint32_t i = 0; i < ret_control->seen_count; i++) {
        wire_get_fields(&reader, seen_fields, &ret_control->seen[i]);
    }
    return wire_reader_ok(&reader) ? ERR_OK : ERR_FORMAT;
}
