#include "web/assets.h"

#include "web/assets_int.h"

const struct asset *asset_find(struct slice path)
{
    for (size_t i = 0; i < asset_count; i++) {
        if (slice_eq(slice_str(assets[i].path), path)) {
            return &assets[i];
        }
    }
    return NULL;
}
