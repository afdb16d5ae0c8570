/* config_kit.h - a configuration, given as the text that config_load reads. */
#ifndef TESTS_LIB_CONFIG_KIT_H
#define TESTS_LIB_CONFIG_KIT_H

#include "server/config/config.h"

#include <inttypes.h>

/* Appends `key=value` of each key. */
static inline void config_kit_write(const struct config *config, struct buf *out)
{
    const struct config_row *rows;
    size_t count = config_rows(&rows);

    for (const struct config_row *row = rows; row < rows + count; row++) {
        uint64_t number = row->type == CONFIG_TEXT ? 0 : config_number(config, row);

        buf_printf(out, "%s=", row->key);
        if (row->type == CONFIG_TEXT) {
            buf_append_str(out, (const char *)config + row->offset);
        } else if (row->type == CONFIG_CHOICE) {
            buf_append_str(out, row->choices[number]);
        } else if (row->type == CONFIG_BOOL) {
            buf_append_str(out, number ? "true" : "false");
        } else {
            buf_printf(out, "%" PRIu64, number);
        }
        buf_append_byte(out, '\n');
    }
}

#endif
