/* The table of a build without the dashboard. */
#include "web/assets_int.h"

const struct asset assets[] = {{.path = NULL}};
const size_t asset_count = 0;
