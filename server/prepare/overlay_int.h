/* overlay_int.h - the inside of the overlay, shared by its files. */
#ifndef SERVER_OVERLAY_INT_H
#define SERVER_OVERLAY_INT_H

#include "server/prepare/overlay.h"

static inline struct slice overlay_name(const struct overlay_entry *entry)
{
    return slice_make(entry->name, entry->name_len);
}

/* The entry of that name, or NULL. */
struct overlay_entry *overlay_find(const struct overlay *overlay, enum overlay_kind kind,
                                   struct slice name);

/* A new entry with the value that the state has; not yet a part of any change. */
struct overlay_entry *overlay_add(struct overlay *overlay, enum overlay_kind kind,
                                  struct slice name, const union overlay_value *value);

/* Gives the entry another value, as a part of the current request. */
void overlay_change(struct overlay *overlay, struct overlay_entry *entry, zxid_t zxid,
                    const union overlay_value *value);

#endif
