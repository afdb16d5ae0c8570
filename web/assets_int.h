/* assets_int.h - the table of files, from the output of build.mjs or from table_none.c. */
#ifndef WEB_ASSETS_INT_H
#define WEB_ASSETS_INT_H

#include "web/assets.h"

extern const struct asset assets[];
extern const size_t asset_count;

#endif
