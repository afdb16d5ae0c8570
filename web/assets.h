/*
 * assets.h - the files of the dashboard, out of the binary itself.
 *
 * build.mjs bundles them and writes the table and the assembler file that brings their bytes in.
 * Each file is there twice, as it is and compressed: clients that take no gzip are few, and the
 * bytes that no client requests are never read into memory. A build without the dashboard has an
 * empty table.
 */
#ifndef WEB_ASSETS_H
#define WEB_ASSETS_H

#include "base/slice.h"

/* The one page of the dashboard, and those of the documentation; what is below "/assets/" has a
 * hash in its name and never changes. */
#define ASSET_PAGE "/index.html"
#define ASSET_DOCS "/docs/"
#define ASSET_DIR  "/assets/"

struct asset {
    const char *path; /* Below /ui: "/assets/main-4VUXQ3SE.js". */
    const char *type; /* Media type. */
    const char *tag;  /* Hash of the bytes, without quotes. */
    const uint8_t *plain;
    const uint8_t *gzip;
    size_t plain_len;
    size_t gzip_len;
};

/* NULL: there is none of that path. Constant for the life of the process. */
const struct asset *asset_find(struct slice path);

#endif
