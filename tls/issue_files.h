/*
 * issue_files.h - certificates and keys in a directory: NAME.pem and NAME.key, beside ca.pem and
 * ca.key of the authority that signs them. Nothing is ever overwritten.
 */
#ifndef TLS_ISSUE_FILES_H
#define TLS_ISSUE_FILES_H

#include "tls/issue.h"

#define ISSUE_FILES_CA "ca"

enum {
    ISSUE_PATH_MAX = 1024 /* Bytes of a path: several stand on one stack. */
};

/* Whether NAME.pem or NAME.key exists in `dir`. */
bool issue_files_exist(const char *dir, const char *name);

/* Writes NAME.key (mode 0600) and NAME.pem (mode 0644), both or none, and makes `dir` if it is
 * missing (its parent must exist). Returns false with a sentence in `error`; a file of one of these
 * names is there already: nothing has changed. Blocks. */
bool issue_files_write(const char *dir, const char *name, const struct issue_pair *pair,
                       char error[ISSUE_ERROR_MAX]);

/* Reads a file of at most ISSUE_PEM_MAX bytes into `text`. Blocks. */
bool issue_files_read(const char *path, struct buf *text, char error[ISSUE_ERROR_MAX]);

/* Makes a certificate that the authority in `dir` signs, and writes it. For ISSUE_CA `name` is
 * ISSUE_FILES_CA. A certificate does not outlast the authority: then `until_s` is shortened. */
bool issue_files_make(const char *dir, const char *name, const struct issue_request *request,
                      char error[ISSUE_ERROR_MAX]);

/* Writes the path of "NAME" and `end` (".pem") into `path`, which it returns; a path that is too
 * long becomes "". */
const char *issue_files_path(const char *dir, const char *name, const char *end,
                             char path[ISSUE_PATH_MAX]);

#endif
