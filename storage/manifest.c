#include "storage/manifest.h"

#include "base/check.h"
#include "base/wire.h"
#include "storage/names.h"

void manifest_encode(const struct manifest *manifest, struct buf *out)
{
    ASSERT(manifest->history > 0 && manifest->first > 0);
    ASSERT(manifest->top >= manifest->first);

    wire_put_u64(out, manifest->history);
    wire_put_u64(out, manifest->first);
    wire_put_u64(out, manifest->top);
    wire_put_u8(out, manifest->clean);
    wire_put_u64(out, manifest->clean_number);
    wire_put_u64(out, manifest->clean_offset);
    wire_put_u64(out, manifest->clean_last);
    wire_put_u64(out, manifest->clean_chain);
    ASSERT(!out->overflow);
}

enum err manifest_decode(struct slice bytes, struct manifest *ret_manifest)
{
    struct wire_reader reader;

    wire_reader_init(&reader, bytes);
    *ret_manifest = (struct manifest){0};
    ret_manifest->history = wire_get_u64(&reader);
    ret_manifest->first = wire_get_u64(&reader);
    ret_manifest->top = wire_get_u64(&reader);
    ret_manifest->clean = wire_get_u8(&reader) != 0;
    ret_manifest->clean_number = wire_get_u64(&reader);
    ret_manifest->clean_offset = wire_get_u64(&reader);
    ret_manifest->clean_last = wire_get_u64(&reader);
    ret_manifest->clean_chain = wire_get_u64(&reader);
    if (!wire_reader_done(&reader) || ret_manifest->history == 0 || ret_manifest->first == 0 ||
        ret_manifest->top < ret_manifest->first || ret_manifest->top > NAME_NUMBER_MAX ||
        ret_manifest->history > NAME_HISTORY_MAX) {
        return ERR_CORRUPT;
    }
    return ERR_OK;
}
