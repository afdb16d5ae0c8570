/* assets_int.h - the table, as build.mjs writes it or as table_none.c has it. */
#ifndef WEB_ASSETS_INT_H
#define WEB_ASSETS_INT_H

#include "web/assets.h"

extern const struct asset assets[];
extern const size_t asset_count;

#endif
