#include "zab/tcp/control.h"

#include "base/check.h"
#include "base/wire.h"

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
