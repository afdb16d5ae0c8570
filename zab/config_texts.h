/*
 * config_texts.h - what format 4 of a configuration has after the fields of format 3. For config.c
 * only.
 */
#ifndef ZAB_CONFIG_TEXTS_H
#define ZAB_CONFIG_TEXTS_H

#include "base/wire.h"
#include "zab/config.h"

/* Appends level, hold, removed disks, texts and transaction. False if a text is malformed. */
bool config_put_tail(struct buf *out, const struct zab_config *config,
                     const struct zab_config_parts *parts);

/* Reads the same into `config`, whose members are known. Marks the reader as failed if a field is
 * malformed. */
void config_get_tail(struct wire_reader *reader, struct zab_config *config);

#endif
