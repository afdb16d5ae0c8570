/* overlay_int.h - the inside of the overlay, shared by its files. */
#ifndef SERVER_OVERLAY_INT_H
#define SERVER_OVERLAY_INT_H

#include "base/wire.h"
#include "server/prepare/overlay.h"

static inline struct slice overlay_name(const struct overlay_entry *entry)
{
    return slice_make(entry->name, entry->name_len);
}

/* Appends a path to a list of paths: u16 length and bytes. */
static inline void overlay_put_path(struct buf *paths, struct slice path)
{
    wire_put_u16(paths, (uint16_t)path.len);
    wire_put_raw(paths, path);
}

/* The entry of that name, or NULL. */
struct overlay_entry *overlay_find(const struct overlay *overlay, enum overlay_kind kind,
                                   struct slice name);

/* Adds an entry with the value of the state; it is not yet a part of any change. */
struct overlay_entry *overlay_add(struct overlay *overlay, enum overlay_kind kind,
                                  struct slice name, const union overlay_value *value);

/* Gives the entry another value, as a part of the current request. */
void overlay_change(struct overlay *overlay, struct overlay_entry *entry, zxid_t zxid,
                    const union overlay_value *value);

/* The same for the entry of that name, which is added when there is none. */
void overlay_set(struct overlay *overlay, enum overlay_kind kind, struct slice name, zxid_t zxid,
                 const union overlay_value *value);

#endif
