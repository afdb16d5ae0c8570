/*
 * assets.h - the files of the dashboard, embedded in the binary.
 *
 * build.mjs bundles the files, and writes the table and the assembler file that embeds their bytes.
 * Each file is embedded twice, plain and compressed. The plain copies need little memory: few
 * clients lack gzip, and bytes that no client requests are never read into memory. A build without
 * the dashboard has an empty table.
 */
#ifndef WEB_ASSETS_H
#define WEB_ASSETS_H

#include "base/slice.h"

/* The page of the dashboard, the folder of the documentation pages, and the folder of all other
 * files. A name in ASSET_DIR contains a hash of the file, so a file of that name never changes. */
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

/* Returns the file with that path, which lives as long as the process; NULL: there is none. */
const struct asset *asset_find(struct slice path);

#endif
